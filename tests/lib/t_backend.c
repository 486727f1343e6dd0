/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_backend.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/t_store.h"

struct t_backend t_backend;

static const char *const op_names[] = {
	[RBP_READ] = "read",   [RBP_WRITE] = "write", [RBP_FLUSH] = "flush",
	[RBP_UNMAP] = "unmap", [RBP_ZERO] = "zero",   [RBP_EXTENT] = "extent",
};

static void write_down(const struct rbp_io *io)
{
	size_t used = strlen(t_backend.log);
	char *at = t_backend.log + used;
	size_t left = sizeof(t_backend.log) - used;
	const char *comma = used ? ", " : "";

	if (io->op == RBP_FLUSH)
		snprintf(at, left, "%sflush", comma);
	else
		snprintf(at, left, "%s%s %llu+%llu%s%s", comma,
			 op_names[io->op], (unsigned long long)io->offset,
			 (unsigned long long)io->len,
			 io->flags & RBP_FUA ? " fua" : "",
			 io->flags & RBP_MAY_UNMAP ? " may-unmap" : "");
}

static void finish(struct rbp_io *io)
{
	t_backend.cnt++;
	if (t_backend.cnt == t_backend.fail_at) {
		io->progress = t_backend.fail_progress;
		block_io_done(io, t_backend.fail_with);
		return;
	}
	t_store_carry_out(t_backend.store, t_backend.extent_unit, io);
	block_io_done(io, 0);
}

bool t_backend_answer(void)
{
	struct rbp_io *io = t_backend.held;

	if (!io)
		return false;
	t_backend.held = NULL;
	finish(io);
	return true;
}

static void store_submit(void *v, struct rbp_io *io)
{
	write_down(io);
	if (!t_backend.later) {
		finish(io);
		return;
	}
	assert(!t_backend.held);
	t_backend.held = io;
}

static struct rbp_vol *notes_vol;
/* It waits for store_notes_taken(). */
static struct rbp_io *notes_io;

static int tell_notes(void)
{
	return backend_notes_came(notes_vol, t_backend.notes_version,
				  t_backend.notes, t_backend.notes_len);
}

/* Opens a store with the properties in t_backend.info. */
static int store_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	t_backend.store = calloc(1, t_backend.info.size);
	if (!t_backend.store)
		return -ENOMEM;
	backend_describe_below(&t_backend.info, info);
	if (!info->block_size)
		info->block_size = 1;
	if (t_backend.info.memory)
		info->memory = t_backend.store;
	block_info_of(info)->kind = "test";
	block_info_of(info)->id = t_backend.info.id;
	block_info_of(info)->life = t_backend.info.life;
	*ret_v = NULL;
	notes_vol = vol;
	return t_backend.info.has_notes ? tell_notes() : 0;
}

static void store_close(void *v)
{
	free(t_backend.store);
	t_backend.store = NULL;
}

static void store_paths(void *v, struct rbp_paths *ret)
{
	void (*paths_read)(void) = t_backend.paths_read;

	ret->cnt = t_backend.paths.cnt;
	ret->own = t_backend.paths.own;
	ret->active = t_backend.paths.active;
	t_backend.paths_read = NULL;
	if (paths_read)
		paths_read();
}

static void store_set_path(void *v, struct rbp_io *io)
{
	if (!t_backend.path_error)
		t_backend.paths.active = io->offset ? t_backend.paths.own : 0;
	block_io_done(io, t_backend.path_error);
}

/* ---- notes ---- */

static void store_get_notes(void *v, struct rbp_io *io)
{
	if (!t_backend.notes_error)
		tell_notes();
	block_io_done(io, t_backend.notes_error);
}

static void set_notes(const void *data, size_t len)
{
	assert(len <= sizeof(t_backend.notes));
	t_backend.notes_version++;
	t_backend.notes_len = len;
	memcpy(t_backend.notes, data, len);
}

static void store_put_notes(void *v, struct rbp_io *io)
{
	void (*before)(void) = t_backend.notes_put;
	int err = t_backend.notes_error;

	t_backend.notes_put = NULL;
	if (before)
		before();
	if (!err && io->version != t_backend.notes_version)
		err = -ESTALE;
	if (!err)
		set_notes(io->buf, io->len);
	if (!err && tell_notes())
		notes_io = io;
	else
		block_io_done(io, err);
}

static void store_notes_taken(void *v, uint64_t version)
{
	struct rbp_io *io = notes_io;

	t_backend.notes_taken = version;
	notes_io = NULL;
	if (io)
		block_io_done(io, 0);
}

int t_backend_put_notes(const void *data, size_t len)
{
	set_notes(data, len);
	return tell_notes();
}

const struct backend_type t_backend_type = {
	.plugin = {
		.size = sizeof(struct rbp_plugin),
		.name = "test",
		.open = store_open,
		.close = store_close,
		.submit = store_submit,
		.paths = store_paths,
		.set_path = store_set_path,
		.get_notes = store_get_notes,
		.put_notes = store_put_notes,
		.notes_taken = store_notes_taken,
	},
};
