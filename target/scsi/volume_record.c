/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/volume_record.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "target/scsi/store_generation.h"
#include "target/scsi/volume.h"

_Static_assert(FLUSH_VOLUME_LEN == SCSI_NAA_LEN, "the NAA identifies a volume");
_Static_assert(FLUSH_PORT_LEN == sizeof(struct srp_port_id),
	       "the initiator port identifies a writer");

/* ---- where ---- */

/* Only this user can write there, so nobody else can put a link there. */
static bool record_dir_is_ours(const char *dir)
{
	struct stat st;

	return !lstat(dir, &st) && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid() && !(st.st_mode & 022);
}

static bool use_dir(const char *parent, char *buf, size_t len)
{
	snprintf(buf, len, "%s/rdma-target", parent);
	return (!mkdir(buf, 0700) || errno == EEXIST) &&
	       record_dir_is_ours(buf) && !access(buf, W_OK);
}

bool volume_record_dir(char *buf, size_t len)
{
	const char *xdg = getenv("XDG_RUNTIME_DIR");

	return use_dir("/run", buf, len) ||
	       (xdg && *xdg == '/' && use_dir(xdg, buf, len));
}

/* Named by properties that are constant during this boot, so that the next
 * process finds it. */
static char *path_by_number(const struct backend_life *life, const char *dir)
{
	uint8_t digest[16];
	char name[2 * sizeof(digest) + 1];
	char text[128];
	char *path;

	snprintf(text, sizeof(text), "%llx:%llx:%llx:%llx.%x",
		 (unsigned long long)life->rdev, (unsigned long long)life->dev,
		 (unsigned long long)life->ino,
		 (unsigned long long)life->born_s, life->born_ns);
	scsi_text_digest(text, digest);
	for (size_t i = 0; i < sizeof(digest); i++)
		sprintf(name + 2 * i, "%02x", digest[i]);
	return asprintf(&path, "%s/%s.flushes", dir, name) < 0 ? NULL : path;
}

/* The lock of the state file also covers the record. NULL: no memory. */
static char *record_path(const struct volume *vol, const char *dir)
{
	char *path;

	if (!vol->state.path)
		return path_by_number(&vol->dev.backend->info.life, dir);
	return asprintf(&path, "%s.flushes", vol->state.path) < 0 ? NULL : path;
}

/* ---- opening ---- */

static int open_record_at(struct volume *vol, const char *path,
			  const char *boot)
{
	char label[sizeof(vol->name) + 32];
	const struct flush_record_options opt = {
		.path = path,
		.store = vol->dev.backend,
		.volume = vol->info.naa,
		.label = label,
		.about = volume_about(vol, NULL),
		.boot = boot,
		.writable = !vol->read_only,
	};

	snprintf(label, sizeof(label), "LUN %u (%s)", vol->lun, vol->name);
	return flush_record_open(&vol->dev.record, &opt);
}

static int renew_generation(struct volume *vol, const char *boot,
			    const uint8_t *loss, struct error *e)
{
	int err = store_generation(&vol->dev.backend->info, boot, loss,
				   &vol->info.store);

	return err ? error_set(e, err, "no random numbers to be had") : 0;
}

int volume_record_open_in(struct volume *vol, const char *dir, const char *boot,
			  struct error *e)
{
	_cleanup_free_ char *path = record_path(vol, dir);
	int err = path ? open_record_at(vol, path, boot) : -ENOMEM;

	if (err)
		return error_set(e, err, "record of flushes %s: %s",
				 path ? path : dir, strerror(-err));
	return renew_generation(vol, boot, flush_record_loss(&vol->dev.record),
				e);
}

/* A store of a plugin has no life on this machine. Its record needs the name of the
 * volume's state file, thus a trusted identity. */
static bool volume_can_have_record(const struct volume *vol)
{
	const struct backend_info *info = &vol->dev.backend->info;

	return backend_life_is_known(&info->life) ||
	       (info->is_lasting && backend_has_cache(info) && vol->state.path);
}

int volume_record_open(struct volume *vol, const char *state_dir,
		       struct error *e)
{
	char boot[STORE_BOOT_SIZE];
	char dir[4096];

	if (!volume_can_have_record(vol))
		return 0;
	store_boot(boot);
	if (state_dir || volume_record_dir(dir, sizeof(dir)))
		return volume_record_open_in(vol, state_dir ? state_dir : dir,
					     boot, e);
	volume_log(LOG_NOTICE, NULL, vol,
		   "there is no place for a record of its flushes "
		   "(--state-dir), so each start counts as a loss of writes "
		   "that were not flushed");
	return renew_generation(vol, /* boot= */ "", NULL, e);
}
