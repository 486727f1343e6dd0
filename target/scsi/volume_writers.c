/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/volume_writers.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "target/scsi/volume.h"

_Static_assert(WRITER_PRINCIPAL_AT == sizeof(struct srp_port_id),
	       "the initiator port and its principal identify a writer");

/* Longer than any disk takes. */
#define SLOW_MS 10000u

/* The part of the journal; unit_state.c has the other. */
#define PART_WRITERS 1

/* ---- which journal ---- */

/* Only this user can write there, so nobody else can put a link there. */
static bool run_dir_is_ours(const char *dir)
{
	struct stat st;

	return !lstat(dir, &st) && S_ISDIR(st.st_mode) &&
	       st.st_uid == geteuid() && !(st.st_mode & 022);
}

static bool use_dir(const char *parent, char *buf, size_t len)
{
	snprintf(buf, len, "%s/rdma-target", parent);
	/* The control socket may be there, which a group may use. */
	return (!mkdir(buf, 0755) || errno == EEXIST) && run_dir_is_ours(buf) &&
	       !access(buf, W_OK);
}

bool volume_writers_run_dir(char *buf, size_t len)
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
	return asprintf(&path, "%s/%s", dir, name) < 0 ? NULL : path;
}

static void set_life(struct volume *vol, const char *boot)
{
	const struct backend_life *life = &vol->dev.backend->info.life;

	snprintf(vol->saver.boot, sizeof(vol->saver.boot), "%s", boot);
	snprintf(vol->saver.life, sizeof(vol->saver.life),
		 "%llx:%llx:%llx:%llx:%llx.%x", (unsigned long long)life->rdev,
		 (unsigned long long)life->dev, (unsigned long long)life->ino,
		 (unsigned long long)life->seq,
		 (unsigned long long)life->born_s, life->born_ns);
}

static int open_by_number(struct volume *vol, const char *dir, struct error *e)
{
	_cleanup_free_ char *path =
		path_by_number(&vol->dev.backend->info.life, dir);

	if (!path)
		return error_set(e, -ENOMEM, "out of memory");
	/* Its store is locked. */
	return disk_journal_open(&vol->journal, path, /* is_alone= */ true, e);
}

/* ---- what is lost ---- */

static void log_loss(const struct volume *vol, const char *why)
{
	struct log_about about = volume_about(vol, NULL);

	log_event(
		LOG_ERROR, &about,
		"LUN %u (%s): %s; writes since its last flush may be lost, so "
		"the next flush of each initiator that made some fails",
		vol->lun, vol->name, why);
}

/* After an unclean end. Checks what the kernel still has. Returns whether
 * writes may be lost, and why. */
static bool has_lost(struct volume *vol, const struct writers_found *found,
		     char *why, size_t len)
{
	struct backend *be = vol->dev.backend;
	int err = 0;

	volume_log(LOG_INFO, NULL, vol, "it was not closed; making it stable");
	err = backend_sync(be);
	if (err)
		snprintf(why, len, "it cannot be flushed: %s", strerror(-err));
	else if (found->failed == WRITERS_FLUSH_FAILED)
		snprintf(why, len, "a flush failed before this start");
	else if (found->failed == WRITERS_WRITE_FAILED)
		snprintf(why, len, "a write failed before this start");
	else if (be->info.forgets)
		snprintf(why, len, "its cache is gone with the process");
	return *why;
}

static bool is_same_life(const struct volume *vol,
			 const struct writers_found *found)
{
	return *vol->saver.boot && !strcmp(found->boot, vol->saver.boot) &&
	       !strcmp(found->life, vol->saver.life);
}

/* Returns whether the journal is of another store, which had its number before. */
static bool writers_judge(struct volume *vol, const struct writers_found *found)
{
	char why[256] = "";

	if (!*found->boot)
		return false;
	if (!is_same_life(vol, found) && !unit_state_survives(&vol->state))
		return true;
	if (!is_same_life(vol, found))
		memset(vol->dev.writers.loss, 0, WRITERS_LOSS_LEN);
	if (!found->unclean && !found->failed)
		return false;
	if (!is_same_life(vol, found))
		snprintf(why, sizeof(why),
			 "the machine or the device was "
			 "restarted before it was flushed");
	else if (!has_lost(vol, found, why, sizeof(why)))
		return false;
	log_loss(vol, why);
	writers_lose(&vol->dev.writers);
	return false;
}

/* Until 0.1.0, writers were in a file of their own. It was removed at the end if it had
 * nothing to tell. */
static int find_old_record(const struct volume *vol, char **ret_path,
			   struct error *e)
{
	*ret_path = NULL;
	/* A number may have been that of another store. */
	if (!unit_state_survives(&vol->state))
		return 0;
	if (asprintf(ret_path, "%s.flushes", vol->journal.path) < 0) {
		*ret_path = NULL;
		return error_set(e, -ENOMEM, "out of memory");
	}
	if (access(*ret_path, F_OK)) {
		free(*ret_path);
		*ret_path = NULL;
	}
	return 0;
}

/* The journal of targets of this boot that had no state directory. Its text is "" if there
 * is none. */
struct run_journal {
	struct disk_journal journal;
	char *path; /* NULL: there is none */
};

static int run_journal_open(struct run_journal *r, const struct volume *vol,
			    const char *run_dir, struct error *e)
{
	int err;

	*r = (struct run_journal){ .path = NULL };
	if (!run_dir)
		return 0;
	r->path = path_by_number(&vol->dev.backend->info.life, run_dir);
	if (!r->path)
		return error_set(e, -ENOMEM, "out of memory");
	if (access(r->path, F_OK) || !strcmp(r->path, vol->journal.path))
		err = -ENOENT;
	else
		err = disk_journal_open(&r->journal, r->path,
					/* is_alone= */ true, e);
	if (err) {
		free(r->path);
		r->path = NULL;
	}
	return err == -ENOENT ? 0 : err;
}

static const char *run_journal_text(const struct run_journal *r)
{
	return r->path ? disk_journal_text(&r->journal, PART_WRITERS) : "";
}

/* @is_over: the journal of the volume has what it said. */
static void run_journal_close(struct run_journal *r, bool is_over)
{
	if (!r->path)
		return;
	disk_journal_close(&r->journal);
	if (is_over)
		unlink(r->path);
	free(r->path);
}

/* ---- the change of the journal ---- */

enum {
	WANTS_NOW = 1,
	WANTS_LATER = 2,
	WANTS_REST = 4,
};

static void saver_want(struct volume_writers *k, unsigned int what)
{
	if (!atomic_fetch_or(&k->wants, what))
		reactor_send(k->reactor, &k->msg);
}

static size_t format_change(struct disk_journal_change *c, char *buf,
			    size_t cap)
{
	struct volume_writers *k =
		container_of(c, struct volume_writers, change);
	struct volume *vol = container_of(k, struct volume, saver);

	return writers_format(&vol->dev.writers, k->boot, k->life, buf, cap);
}

static void save(struct volume_writers *k)
{
	struct volume *vol = container_of(k, struct volume, saver);

	k->again = k->saves;
	if (k->saves)
		return;
	k->saves = true;
	reactor_timer_set(k->reactor, &k->slow, SLOW_MS);
	disk_journal_start(&vol->journal, &k->change);
}

static void look_at_rest(struct volume_writers *k)
{
	if (!k->rests || k->saves)
		return;
	k->rests = false;
	reactor_send(k->rested_on, k->rested);
}

static void save_done(struct disk_journal_change *c, int err)
{
	struct volume_writers *k =
		container_of(c, struct volume_writers, change);
	struct volume *vol = container_of(k, struct volume, saver);

	k->saves = false;
	reactor_timer_stop(&k->slow);
	if (err)
		volume_log(
			LOG_ERROR, NULL, vol,
			"its journal %s: %s; writes fail that must be noted there",
			vol->journal.path, strerror(-err));
	writers_kept(&vol->dev.writers, err);
	if (k->again)
		save(k);
	look_at_rest(k);
}

static void save_is_slow(struct reactor_timer *t)
{
	struct volume_writers *k = container_of(t, struct volume_writers, slow);
	struct volume *vol = container_of(k, struct volume, saver);

	volume_log(LOG_WARNING, NULL, vol,
		   "its journal %s has not been written for %u s: its file "
		   "system hangs or is slow; the first writes of initiators, "
		   "and flushes that fail, wait for it",
		   vol->journal.path, SLOW_MS / 1000);
}

static void linger(struct volume_writers *k)
{
	if (k->lingers)
		return;
	k->lingers = true;
	reactor_timer_set(k->reactor, &k->timer, WRITERS_LINGER_MS);
}

static void lingered(struct reactor_timer *t)
{
	struct volume_writers *k =
		container_of(t, struct volume_writers, timer);
	struct volume *vol = container_of(k, struct volume, saver);

	k->lingers = false;
	if (writers_may_drop(&vol->dev.writers))
		save(k);
}

static void serve_wants(struct reactor_msg *msg)
{
	struct volume_writers *k =
		container_of(msg, struct volume_writers, msg);
	unsigned int wants = atomic_exchange(&k->wants, 0);

	if (wants & WANTS_NOW)
		save(k);
	if (wants & WANTS_LATER)
		linger(k);
	/* All that was wanted before has been seen as well. */
	if (wants & WANTS_REST) {
		reactor_timer_stop(&k->timer);
		k->rests = true;
	}
	look_at_rest(k);
}

static void keep(struct writers *ws, bool now)
{
	struct block_device *dev =
		container_of(ws, struct block_device, writers);
	struct volume *vol = container_of(dev, struct volume, dev);

	saver_want(&vol->saver, now ? WANTS_NOW : WANTS_LATER);
}

/* ---- life ---- */

void volume_writers_start(struct volume *vol, struct reactor *r)
{
	struct volume_writers *k = &vol->saver;

	if (!disk_journal_is_open(&vol->journal))
		return;
	disk_journal_serve(&vol->journal, r);
	if (!backend_has_cache(&vol->dev.backend->info))
		return;
	k->reactor = r;
	k->msg.run = serve_wants;
	reactor_timer_init(&k->timer, lingered);
	reactor_timer_init(&k->slow, save_is_slow);
	k->change = (struct disk_journal_change){
		.part = PART_WRITERS,
		.reactor = r,
		.format = format_change,
		.done = save_done,
	};
	vol->dev.writers.keep = keep;
}

void volume_writers_rest(struct volume *vol, struct reactor *r,
			 struct reactor_msg *rested)
{
	struct volume_writers *k = &vol->saver;

	if (!k->reactor) {
		reactor_send(r, rested);
		return;
	}
	k->rested_on = r;
	k->rested = rested;
	saver_want(k, WANTS_REST);
}

static int save_now(struct volume *vol)
{
	struct volume_writers *k = &vol->saver;
	char text[WRITERS_TEXT_MAX + 1];
	size_t len = writers_format(&vol->dev.writers, k->boot, k->life, text,
				    sizeof(text) - 1);
	int err;

	text[len] = '\0';
	err = disk_journal_write(&vol->journal, PART_WRITERS, text);
	writers_kept(&vol->dev.writers, err);
	return err;
}

void volume_writers_save(struct volume *vol)
{
	/* What the journal has was not read: it stays. */
	int err = *vol->saver.life ? save_now(vol) : 0;

	if (err)
		volume_log(LOG_ERROR, NULL, vol, "its journal %s: %s",
			   vol->journal.path, strerror(-err));
}

/* ---- opening ---- */

static int renew_generation(struct volume *vol, const char *boot,
			    const uint8_t *loss, struct error *e)
{
	int err = store_generation(&vol->dev.backend->info, boot, loss,
				   &vol->info.store);

	return err ? error_set(e, err, "no random numbers to be had") : 0;
}

/* @why: everybody may have lost something; or NULL. @run: what @text is of is in the run
 * directory. */
static int take_over(struct volume *vol, const char *text, const char *why,
		     bool run, struct error *e)
{
	struct writers *ws = &vol->dev.writers;
	struct writers_found found;
	bool is_other = false;

	if (writers_parse(ws, text, &found))
		return error_set(
			e, -EBADMSG,
			"journal %s: its part about unflushed writes is damaged; put the "
			"right one there, or remove that file to start without what "
			"it holds",
			vol->journal.path);
	if (why) {
		log_loss(vol, why);
		writers_lose_all(ws);
	} else if (run && !is_same_life(vol, &found)) {
		is_other = true; /* it had the number before */
	} else {
		is_other = writers_judge(vol, &found);
	}
	writers_begin(ws, is_other);
	return 0;
}

/* @old: a record of an older version; or NULL. */
static int take_over_all(struct volume *vol, const char *old,
			 const struct run_journal *r, struct error *e)
{
	const char *own = disk_journal_text(&vol->journal, PART_WRITERS);
	const char *run = run_journal_text(r);

	if (old)
		return take_over(
			vol, own,
			"an older version left a record of its flushes",
			/* run= */ false, e);
	if (*own && *run)
		return take_over(vol, own,
				 "a start without this state directory left a "
				 "journal, too",
				 /* run= */ false, e);
	return take_over(vol, *run ? run : own, NULL, *run, e);
}

/* The journal has what was found before anything relies on it: what initiators are told,
 * and that an old record goes. */
static int take_over_and_save(struct volume *vol, const struct run_journal *r,
			      struct error *e)
{
	_cleanup_free_ char *old = NULL;
	int err = find_old_record(vol, &old, e);

	if (!err)
		err = take_over_all(vol, old, r, e);
	if (!err)
		err = disk_journal_make(&vol->journal, e);
	if (err)
		return err;
	err = save_now(vol);
	if (err)
		return error_set(e, err, "journal %s: %s", vol->journal.path,
				 strerror(-err));
	if (old)
		unlink(old);
	return 0;
}

int volume_writers_open_in(struct volume *vol, const char *dir,
			   const char *run_dir, const char *boot,
			   struct error *e)
{
	struct run_journal r;
	int err = disk_journal_is_open(&vol->journal)
			  ? 0
			  : open_by_number(vol, dir, e);

	if (!err)
		err = run_journal_open(&r, vol, run_dir, e);
	if (err)
		return err;
	set_life(vol, boot);
	err = take_over_and_save(vol, &r, e);
	run_journal_close(&r, !err);
	if (err) {
		*vol->saver.life = '\0';
		return err;
	}
	return renew_generation(vol, boot, vol->dev.writers.loss, e);
}

/* A store of a plugin has no life on this machine. */
static bool volume_can_have_journal(const struct volume *vol)
{
	const struct backend_info *info = &vol->dev.backend->info;

	return backend_life_is_known(&info->life) ||
	       (info->is_lasting && backend_has_cache(info) &&
		unit_state_survives(&vol->state));
}

int volume_writers_open(struct volume *vol, const char *state_dir,
			struct error *e)
{
	char boot[STORE_BOOT_SIZE];
	bool has_run_dir;
	char dir[4096];

	if (!volume_can_have_journal(vol))
		return 0;
	store_boot(boot);
	/* A store that is only read is not locked, and has no writers. */
	if (vol->read_only && !unit_state_survives(&vol->state))
		return renew_generation(vol, boot, NULL, e);
	has_run_dir = volume_writers_run_dir(dir, sizeof(dir));
	if (state_dir)
		return volume_writers_open_in(
			vol, state_dir,
			has_run_dir && backend_life_is_known(
					       &vol->dev.backend->info.life)
				? dir
				: NULL,
			boot, e);
	if (has_run_dir)
		return volume_writers_open_in(vol, dir, /* run_dir= */ NULL,
					      boot, e);
	volume_log(LOG_NOTICE, NULL, vol,
		   "there is no place for its journal "
		   "(--state-dir), so each start counts as a loss of writes "
		   "that were not flushed");
	return renew_generation(vol, /* boot= */ "", NULL, e);
}
