/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/landlock.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <linux/landlock.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/list.h"
#include "base/log.h"
#include "target/block/plugin_load.h"
#include "target/scsi/volume_writers.h"

/* Newer than some headers. */
#ifndef LANDLOCK_ACCESS_FS_TRUNCATE
#define LANDLOCK_ACCESS_FS_TRUNCATE (1ull << 14)
#endif

/* What each version of Landlock can restrict: all bits below this one. */
static const unsigned int bits_of_version[] = { 0, 13, 14, 15 };

#define READS  (LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR)
#define WRITES (LANDLOCK_ACCESS_FS_WRITE_FILE | LANDLOCK_ACCESS_FS_TRUNCATE)
#define NAMES  (LANDLOCK_ACCESS_FS_MAKE_REG | LANDLOCK_ACCESS_FS_REMOVE_FILE)
/* The rights that a rule for a file, and no directory, may have. */
#define OF_FILES \
	(LANDLOCK_ACCESS_FS_EXECUTE | LANDLOCK_ACCESS_FS_READ_FILE | WRITES)

struct ruleset {
	int fd;
	uint64_t handled;
	int err; /* of the first rule that failed */
};

/* Lets the process do @access with @path and all below it. A path that is not there
 * needs no rule. */
static void allow(struct ruleset *r, const char *path, uint64_t access)
{
	_cleanup_close_ int fd = open(path, O_PATH | O_CLOEXEC);
	struct landlock_path_beneath_attr attr = {
		.allowed_access = access & r->handled,
		.parent_fd = fd,
	};
	struct stat st;

	if (fd < 0 || fstat(fd, &st) || r->err)
		return;
	if (!S_ISDIR(st.st_mode))
		attr.allowed_access &= OF_FILES;
	if (attr.allowed_access &&
	    syscall(SYS_landlock_add_rule, r->fd, LANDLOCK_RULE_PATH_BENEATH,
		    &attr, 0))
		r->err = -errno;
}

/* The same for the directory of @path. */
static void allow_dir_of(struct ruleset *r, const char *path, uint64_t access)
{
	char dir[32];
	_cleanup_close_ int fd = path ? directory_open_of(path) : -1;

	if (fd < 0)
		return;
	snprintf(dir, sizeof(dir), "/proc/self/fd/%d", fd);
	allow(r, dir, access);
}

/* What the C library, the RDMA libraries and the target itself look at, whatever the
 * options are. */
static void allow_system(struct ruleset *r)
{
	static const struct {
		const char *path;
		uint64_t access;
	} rows[] = {
		{ "/usr", READS },
		{ "/lib", READS },
		{ "/lib64", READS },
		{ "/proc", READS },
		{ "/sys", READS },
		{ "/dev/infiniband", READS | WRITES },
		{ "/dev/null", READS | WRITES },
		{ "/dev/random", READS },
		{ "/dev/urandom", READS },
		{ "/etc/gai.conf", READS },
		{ "/etc/group", READS },
		{ "/etc/host.conf", READS },
		{ "/etc/hosts", READS },
		{ "/etc/ld.so.cache", READS },
		{ "/etc/libibverbs.d", READS },
		{ "/etc/localtime", READS },
		{ "/etc/machine-id", READS },
		{ "/etc/nsswitch.conf", READS },
		{ "/etc/passwd", READS },
		{ "/etc/rdma", READS },
		{ "/etc/resolv.conf", READS },
		{ "/etc/services", READS },
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++)
		allow(r, rows[i].path, rows[i].access);
}

/* Plugins that may be loaded later, or once more. */
static void allow_plugins(struct ruleset *r, const struct target_options *opt)
{
	char dir[PATH_MAX];

	for (unsigned int i = 0; plugin_load_dir(i, dir, sizeof(dir)); i++)
		allow(r, dir, READS);
	for (unsigned int i = 0; i < opt->backing_cnt; i++) {
		const struct volume_spec *spec = &opt->backings[i];

		if (strchr(spec->plugin.name, '/'))
			allow(r, spec->plugin.name, READS);
		for (unsigned int k = 0; k < spec->layer_cnt; k++) {
			if (strchr(spec->layers[k].name, '/'))
				allow(r, spec->layers[k].name, READS);
		}
	}
}

static void allow_files(struct ruleset *r, const struct target_options *opt)
{
	char run_dir[4096];

	for (unsigned int i = 0; i < opt->backing_cnt; i++) {
		const struct volume_spec *spec = &opt->backings[i];

		allow(r, spec->path, spec->read_only ? READS : READS | WRITES);
		/* Its store may be several files. */
		if (spec->store == VOLUME_STORE_PLUGIN && spec->path[0] == '/')
			allow_dir_of(r, spec->path, READS | WRITES);
	}
	if (volume_writers_run_dir(run_dir, sizeof(run_dir)))
		allow(r, run_dir, READS | WRITES | NAMES);
	allow_dir_of(r, opt->metrics_file, READS | WRITES | NAMES);
	allow_dir_of(r, opt->pidfile, LANDLOCK_ACCESS_FS_REMOVE_FILE);
}

static bool is_at(const struct statx *st, const char *path)
{
	struct stat is;

	return path && stat(path, &is) == 0 && is.st_ino == st->stx_ino &&
	       is.st_dev == makedev(st->stx_dev_major, st->stx_dev_minor);
}

/* An option names it, so the target may open it anyway. */
static bool is_named(const struct target_options *opt, const struct statx *st)
{
	bool named = is_at(st, opt->state_dir) || is_at(st, opt->keys_file) ||
		     is_at(st, opt->volumes_from);

	for (unsigned int i = 0; i < opt->backing_cnt && !named; i++)
		named = is_at(st, opt->backings[i].path);
	return named;
}

/* A file or directory that this process may read, and not everybody. A file system that is
 * mounted there may hang, and is not asked. */
static bool is_secret(int dir, const char *name, struct statx *st)
{
	return statx(dir, name,
		     AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT | AT_STATX_DONT_SYNC,
		     STATX_BASIC_STATS, st) == 0 &&
	       (S_ISREG(st->stx_mode) || S_ISDIR(st->stx_mode)) &&
	       !(st->stx_mode & S_IROTH) &&
	       (st->stx_attributes & STATX_ATTR_MOUNT_ROOT ||
		faccessat(dir, name, R_OK, AT_EACCESS) == 0);
}

/* Does the directory of the configuration have secrets of others, as /etc and a home have?
 * Versions of the configuration begin with its name. */
static bool has_secrets(const struct target_options *opt, const char *config,
			char *name, size_t name_len)
{
	const char *own;
	int fd = directory_find_of(config, &own);
	int list = fd < 0 ? -1 : openat(fd, ".", O_RDONLY | O_DIRECTORY);
	DIR *dir = list < 0 ? NULL : fdopendir(list);
	struct dirent *entry;
	bool found = false;
	struct statx st;

	while (dir && !found && (entry = readdir(dir))) {
		if (!strcmp(entry->d_name, ".") || !strcmp(entry->d_name, ".."))
			continue;
		found = strncmp(entry->d_name, own, strlen(own)) != 0 &&
			is_secret(list, entry->d_name, &st) &&
			!is_named(opt, &st);
		if (found)
			snprintf(name, name_len, "%s", entry->d_name);
	}
	if (dir)
		closedir(dir);
	if (fd >= 0)
		close(fd);
	return found;
}

/* A file that is replaced is another one, so the directory of the configuration is
 * named, and not the file. */
static void allow_config(struct ruleset *r, const struct target_options *opt)
{
	/* Only a client of the control socket saves. */
	const uint64_t saves = opt->control ? WRITES | NAMES : 0;
	_cleanup_free_ char *place =
		opt->config ? realpath(opt->config, NULL) : NULL;
	char secret[NAME_MAX + 1];

	if (!place)
		return;
	if (!has_secrets(opt, place, secret, sizeof(secret))) {
		allow_dir_of(r, place, READS | saves);
		return;
	}
	allow(r, place, READS);
	log_notice("--config %s: not everybody may read '%s' beside it, so its "
		   "directory is closed: the target can neither save the "
		   "configuration nor read a file that replaces it; give it a "
		   "directory of its own",
		   place, secret);
}

/* What changes while it runs need. */
static void allow_changes(struct ruleset *r, const struct target_options *opt)
{
	allow_config(r, opt);
	allow_dir_of(r, opt->control, LANDLOCK_ACCESS_FS_REMOVE_FILE);
	if (opt->keys_file)
		allow(r, opt->keys_file, READS);
	if (opt->volumes_from)
		allow(r, opt->volumes_from, READS | WRITES);
}

static void allow_options(struct ruleset *r, const struct target_options *opt)
{
	allow_files(r, opt);
	allow_plugins(r, opt);
	if (opt->control || opt->config)
		allow_changes(r, opt);
}

static int landlock_restrict(struct ruleset *r)
{
	if (r->err)
		return r->err;
	return syscall(SYS_landlock_restrict_self, r->fd, 0) ? -errno : 0;
}

int landlock_enter(const struct target_options *opt, const char *state_dir,
		   bool all_reads, struct error *e)
{
	const long newest = ARRAY_SIZE(bits_of_version) - 1;
	long version = syscall(SYS_landlock_create_ruleset, NULL, 0,
			       LANDLOCK_CREATE_RULESET_VERSION);
	struct landlock_ruleset_attr attr = { 0 };
	struct ruleset r = { 0 };
	int err;

	if (version < 1 && !opt)
		return 0;
	if (version < 1 && opt->volumes_from)
		return error_set(e, -EOPNOTSUPP,
				 "--volumes-from '%s': this kernel has no "
				 "Landlock (Linux 5.13); leave it out",
				 opt->volumes_from);
	if (version < 1) {
		log_at(geteuid() ? LOG_INFO : LOG_NOTICE,
		       "this kernel has no Landlock: what files the target can "
		       "open depends on its user alone");
		return 0;
	}
	if (version > newest)
		version = newest;
	r.handled = (1ull << bits_of_version[version]) - 1;
	if (all_reads)
		r.handled &= ~READS;
	attr.handled_access_fs = r.handled;
	r.fd = (int)syscall(SYS_landlock_create_ruleset, &attr, sizeof(attr),
			    0);
	err = r.fd < 0 ? -errno : 0;
	if (!err) {
		allow_system(&r);
		if (opt)
			allow_options(&r, opt);
		if (state_dir)
			allow(&r, state_dir, READS | WRITES | NAMES);
		err = landlock_restrict(&r);
		close(r.fd);
	}
	return err ? error_set(e, err,
			       "cannot restrict the files that can be opened: "
			       "%s; use --no-sandbox without it",
			       strerror(-err))
		   : 0;
}
