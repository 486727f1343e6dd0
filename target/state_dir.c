/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/state_dir.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/state_dir.h"
#include "target/privileges.h"
#include "target/state_port.h"

static int choose_named(struct target_state_dir *d, const char *path,
			struct error *e)
{
	d->path = d->id_path = path;
	return d->number ? state_port_find(path, d->number, &d->number, e) : 0;
}

static int choose_default(struct target_state_dir *d, struct error *e)
{
	int err;

	state_dir_default("rdma-target", d->base, sizeof(d->base));
	d->path = d->by_default;
	d->id_path = d->base;
	/* As long as --state-dir named it. */
	if (state_port_is_known(d->base, d->number)) {
		snprintf(d->by_default, sizeof(d->by_default), "%s", d->base);
		return state_port_find(d->base, d->number, &d->number, e);
	}
	err = state_port_find_in(d->base, d->number, &d->number, e);
	snprintf(d->by_default, sizeof(d->by_default), "%s/%u", d->base,
		 d->number);
	return err;
}

int target_state_dir_choose(struct target_state_dir *d,
			    const struct target_options *opt, struct error *e)
{
	d->number = options_first_port(opt);
	if (options_keep_nothing(opt)) {
		error_set(&d->none, -ENOENT, "--state-dir none");
		return 0;
	}
	if (opt->state_dir)
		return choose_named(d, opt->state_dir, e);
	if (d->number)
		return choose_default(d, e);
	error_set(&d->none, -ENOENT,
		  "no state directory for port 0, which is another port after "
		  "each start");
	return 0;
}

/* A link counts, also to a file system that is not mounted. */
static bool is_there(const struct target_state_dir *d)
{
	struct stat st;

	return !lstat(d->by_default, &st) ||
	       (!lstat(d->base, &st) && S_ISLNK(st.st_mode) &&
		stat(d->base, &st));
}

void target_state_dir_make(struct target_state_dir *d,
			   const struct target_options *opt)
{
	if (d->path != d->by_default || !*d->base)
		return;
	d->was_there = is_there(d);
	if (state_dir_make(d->base) && opt->user)
		privileges_give(d->base, opt->user);
}

static int check_named(const struct target_state_dir *d,
		       const struct target_options *opt, struct error *e)
{
	if (!faccessat(AT_FDCWD, d->path, R_OK | W_OK, AT_EACCESS))
		return 0;
	return error_set(e, -errno,
			 "--state-dir '%s': %s: it must belong to %s%s",
			 d->path, strerror(errno),
			 opt->user ? "user " : "the user that starts ",
			 opt->user ? opt->user : "rdma-target");
}

/* Makes it, too. 0, or why not, with the directory in *@at. */
static int try_default(const struct target_state_dir *d, const char **at)
{
	_cleanup_close_ int base = state_dir_open(*at = d->base);
	_cleanup_close_ int dir = -1;

	if (base < 0)
		return base;
	mkdir(*at = d->by_default, 0700);
	dir = state_dir_open(d->by_default);
	return dir < 0 ? dir : 0;
}

static int check_default(struct target_state_dir *d, struct error *e)
{
	const char *at;
	int err = try_default(d, &at);
	const char *why = err == -EPERM ? "other users may write it"
			  : *d->base	? strerror(-err)
					: "HOME is not set";

	if (!err)
		return 0;
	if (d->was_there)
		return error_set(
			e, err,
			"state directory %s: %s; give it to the user that "
			"rdma-target runs as (chown -R), name another one "
			"(--state-dir DIR), or start without what it holds "
			"(--state-dir none)",
			at, why);
	error_set(&d->none, err, "no state directory%s%s: %s",
		  *d->base ? " " : "", at, why);
	d->path = d->id_path = NULL;
	return 0;
}

int target_state_dir_check(struct target_state_dir *d,
			   const struct target_options *opt, struct error *e)
{
	if (!d->path)
		return 0;
	return d->path == d->by_default ? check_default(d, e)
					: check_named(d, opt, e);
}

int target_state_dir_keep_port(const struct target_state_dir *d,
			       unsigned int port, struct error *e)
{
	return d->path ? state_port_keep(d->path, d->number, port, e) : 0;
}
