/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_size.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/manage_aside.h"
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

/* Asks a store for its size, after it has grown. The volume stays until it is freed. */
struct manage_sizing {
	struct manage_aside aside;
	struct volume *vol;
	uint64_t bytes; /* 0: it does not grow */
	struct error e;
	int res; /* result of server_measure_volume() */
};

static struct manage_sizing *manage_sizing_of(struct manage_aside *aside)
{
	return container_of(aside, struct manage_sizing, aside);
}

static void manage_sizing_free(struct manage_aside *aside)
{
	struct manage_sizing *z = manage_sizing_of(aside);

	atomic_fetch_sub(&z->vol->managed, 1);
	free(z);
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

static void manage_sizing_run(struct manage_aside *aside)
{
	struct manage_sizing *z = manage_sizing_of(aside);

	if (!z->bytes || !manage_grow_file(z->vol, z->bytes, &z->e))
		backend_look(z->vol->dev.backend);
}

static struct manage_sizing *manage_sizing_make(struct volume *vol,
						uint64_t bytes)
{
	struct manage_sizing *z = calloc(1, sizeof(*z));

	if (!z)
		return NULL;
	z->aside.run = manage_sizing_run;
	z->aside.free = manage_sizing_free;
	z->vol = vol;
	z->bytes = bytes;
	atomic_fetch_add(&vol->managed, 1);
	return z;
}

static void manage_run_measure(struct server *s, void *arg)
{
	struct manage_sizing *z = arg;

	z->res = server_measure_volume(s, z->vol);
}

/* The store has answered; others may have removed the volume meanwhile. */
static bool manage_take_size(struct manage *m, const char *name,
			     struct manage_sizing *z, uint64_t *ret_bytes,
			     struct manage_fault *f)
{
	if (z->e.err)
		return manage_refuse_volume(f, name, "size", z->e.text);
	if (manage_served(m, name) != z->vol)
		return manage_refuse_unknown(f, name);
	if (server_call(m->server, manage_run_measure, z))
		return manage_refuse_end(f);
	if (z->res < 0)
		return manage_refuse_volume(
			f, name, "size",
			z->res == -ESTALE ? "its store has become smaller"
					  : strerror(-z->res));
	*ret_bytes = z->vol->blocks * z->vol->block_size;
	if (z->bytes && *ret_bytes != z->bytes)
		return manage_refuse_volume(f, name, "size",
					    MANAGE_SIZE_OTHER_FILE);
	return true;
}

bool manage_resize_volume(struct manage *m, const char *name, uint64_t bytes,
			  uint64_t *ret_bytes, struct manage_fault *f)
{
	struct volume *vol = manage_served(m, name);
	struct manage_sizing *z;
	struct error e;
	bool good;

	if (!vol)
		return manage_refuse_unknown(f, name);
	if (bytes && !manage_is_at_path(m, name))
		return manage_refuse_volume(
			f, name, "size",
			"only the target's own files can be made larger; make "
			"the store larger by its own means, then leave out the "
			"size");
	if (bytes % vol->block_size)
		return manage_refuse_volume(f, name, "size",
					    "not a multiple of the block size");
	z = manage_sizing_make(vol, bytes);
	if (!z)
		return manage_refuse_volume(f, name, "", "out of memory");
	if (manage_run_unlocked(m, &z->aside, &e))
		return manage_refuse_volume(f, name, "size", e.text);
	good = manage_take_size(m, name, z, ret_bytes, f);
	manage_sizing_free(&z->aside);
	return good;
}
