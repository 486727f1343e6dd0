/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/server_volumes.h"

#define MANAGE_SIZE_OTHER_FILE \
	"the file at its path is not the one that is served"

/* True unless @st is certainly another file. */
static bool manage_is_its_file(const struct volume *vol, const struct stat *st)
{
	const struct backend_life *life = &vol->dev.backend->info.life;

	return !life->ino ||
	       (life->dev == st->st_dev && life->ino == st->st_ino);
}

static int manage_grow_file(const struct volume *vol, uint64_t bytes,
			    struct error *e)
{
	struct stat st;
	int err;

	if (stat(vol->path, &st))
		return error_set(e, -errno, "%s: %s", vol->path,
				 strerror(errno));
	if (!manage_is_its_file(vol, &st))
		return error_set(e, -ESTALE, MANAGE_SIZE_OTHER_FILE);
	err = backend_grow(vol->dev.backend, bytes);
	if (err == -EINVAL)
		error_set(e, err,
			  "%s is no regular file, or is served read-only; make "
			  "it larger by its own means, then leave out the size",
			  vol->path);
	else if (err == -ERANGE)
		error_set(e, err, "it would become smaller than its %lld bytes",
			  (long long)st.st_size);
	else if (err)
		error_set(e, err, "%s: %s", vol->path, strerror(-err));
	return err;
}

static bool manage_is_at_path(const struct manage *m, const char *name)
{
	struct config_fault ignored;
	struct volume_spec spec;
	json_t *vol =
		config_check_volume(manage_find(m, name), "", &spec, &ignored);

	json_decref(vol);
	return vol && spec.store == VOLUME_STORE_FILE;
}

struct manage_measure {
	struct volume *vol;
	int res; /* result of server_measure_volume() */
};

static void manage_run_measure(struct server *s, void *arg)
{
	struct manage_measure *measure = arg;

	measure->res = server_measure_volume(s, measure->vol);
}

bool manage_resize_volume(struct manage *m, const char *name, uint64_t bytes,
			  uint64_t *ret_bytes, struct manage_fault *f)
{
	struct manage_measure v = { .vol = manage_served(m, name) };
	struct error e;

	if (!v.vol)
		return manage_refuse_unknown(f, name);
	if (bytes && !manage_is_at_path(m, name))
		return manage_refuse_volume(
			f, name, "size",
			"only the target's own files can be made larger; make "
			"the store larger by its own means, then leave out the "
			"size");
	if (bytes % v.vol->block_size)
		return manage_refuse_volume(f, name, "size",
					    "not a multiple of the block size");
	if (bytes && manage_grow_file(v.vol, bytes, &e))
		return manage_refuse_volume(f, name, "size", e.text);
	/* On this thread: a worker does not wait for the store. */
	backend_look(v.vol->dev.backend);
	if (server_call(m->server, manage_run_measure, &v))
		return manage_refuse_end(f);
	if (v.res < 0)
		return manage_refuse_volume(
			f, name, "size",
			v.res == -ESTALE ? "its store has become smaller"
					 : strerror(-v.res));
	*ret_bytes = v.vol->blocks * v.vol->block_size;
	if (bytes && *ret_bytes != bytes)
		return manage_refuse_volume(f, name, "size",
					    MANAGE_SIZE_OTHER_FILE);
	return true;
}
