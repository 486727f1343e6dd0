/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_store.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/t_must.h"

struct t_store t_store;

static const char *const op_names[] = {
	[RBP_READ] = "read",   [RBP_WRITE] = "write", [RBP_FLUSH] = "flush",
	[RBP_UNMAP] = "unmap", [RBP_ZERO] = "zero",   [RBP_EXTENT] = "extent",
};

static void write_down(const struct rbp_io *io)
{
	size_t used = strlen(t_store.log);
	char *at = t_store.log + used;
	size_t left = sizeof(t_store.log) - used;
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

/* ---- hold, fail ---- */

static void carry_out_extent(struct rbp_io *io)
{
	uint64_t unit = t_store.extent_unit;
	uint64_t left = unit - io->offset % unit;

	io->extent_mapped = io->offset / unit % 2 == 0;
	io->extent_len = left < io->len ? left : io->len;
}

static void carry_out(struct rbp_io *io)
{
	uint8_t *at = t_store.bytes + io->offset;

	switch (io->op) {
	case RBP_READ:
		memcpy(io->buf, at, io->len);
		break;
	case RBP_WRITE:
		memcpy(at, io->buf, io->len);
		break;
	case RBP_FLUSH:
		break;
	case RBP_UNMAP:
	case RBP_ZERO:
		memset(at, 0, io->len);
		break;
	case RBP_EXTENT:
		carry_out_extent(io);
		break;
	}
	io->progress = io->len;
}

static bool is_to_fail(void)
{
	if (t_store.done_cnt == t_store.fail_at)
		return true;
	if (!t_store.fail_next)
		return false;
	t_store.fail_next--;
	return true;
}

static void finish(struct rbp_io *io, int res)
{
	t_store.done_cnt++;
	t_store.flush_cnt += io->op == RBP_FLUSH;
	if (!res && is_to_fail())
		res = t_store.fail_with;
	if (res) {
		io->progress = t_store.fail_progress;
	} else {
		carry_out(io);
		if (io->op == RBP_FLUSH)
			res = t_store.flush_error;
	}
	block_io_done(io, res);
}

void t_store_answer_nth(unsigned int nth, int res)
{
	struct rbp_io *io = t_store.held[nth].io;

	T_MUST(nth < t_store.held_cnt);
	t_store.held_cnt--;
	memmove(&t_store.held[nth], &t_store.held[nth + 1],
		(t_store.held_cnt - nth) * sizeof(t_store.held[0]));
	finish(io, res);
}

bool t_store_answer(void)
{
	if (!t_store.held_cnt)
		return false;
	t_store_answer_nth(0, 0);
	return true;
}

bool t_store_holds_change(unsigned int cnt)
{
	for (unsigned int i = 0; i < t_store.held_cnt; i++) {
		enum rbp_op op = t_store.held[i].io->op;

		if (t_store.held[i].number <= cnt &&
		    (op == RBP_WRITE || op == RBP_UNMAP || op == RBP_ZERO))
			return true;
	}
	return false;
}

static void check_rules(const struct rbp_io *io)
{
	uint32_t unit = t_store.info.min_block;

	T_MUST(io->offset <= t_store.room);
	T_MUST(io->len <= t_store.room - io->offset);
	T_MUST(io->offset % unit == 0 && io->len % unit == 0);
	T_MUST((uintptr_t)io->buf % unit == 0);
}

static void store_submit(void *v, struct rbp_io *io)
{
	check_rules(io);
	write_down(io);
	t_store.cnt++;
	if (io->epoch && io->epoch != t_store.epoch) {
		finish(io, -ESHUTDOWN);
		return;
	}
	if (!t_store.hold || t_store.held_cnt == T_STORE_HELD_MAX) {
		finish(io, 0);
		return;
	}
	T_MUST(!t_store.depth || t_store.held_cnt < t_store.depth);
	t_store.held[t_store.held_cnt++] =
		(struct t_store_held){ .io = io, .number = t_store.cnt };
}

/* ---- open, close, paths, size ---- */

static struct rbp_vol *notes_vol;
/* It waits for store_notes_taken(). */
static struct rbp_io *notes_io;

static int tell_notes(void)
{
	return backend_notes_came(notes_vol, t_store.notes_version,
				  t_store.notes, t_store.notes_len);
}

/* Opens a store with the properties in t_store.info. */
static int store_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	T_MUST(!t_store.bytes);
	if (!t_store.room)
		t_store.room = t_store.info.size;
	t_store.measures = t_store.info.size;
	t_store.bytes = calloc(1, t_store.room);
	if (!t_store.bytes)
		return -ENOMEM;
	backend_describe_below(&t_store.info, info);
	if (t_store.info.memory)
		info->memory = t_store.bytes;
	block_info_of(info)->kind = "test";
	block_info_of(info)->id = t_store.info.id;
	block_info_of(info)->life = t_store.info.life;
	*ret_v = NULL;
	notes_vol = vol;
	return t_store.info.has_notes ? tell_notes() : 0;
}

static void store_close(void *v)
{
	T_MUST(!t_store.held_cnt);
	free(t_store.bytes);
	t_store.bytes = NULL;
}

static int store_measure(void *v, uint64_t *ret_size)
{
	*ret_size = t_store.measures;
	return 0;
}

static void store_paths(void *v, struct rbp_paths *ret)
{
	void (*paths_read)(void) = t_store.paths_read;

	ret->cnt = t_store.paths.cnt;
	ret->own = t_store.paths.own;
	ret->active = t_store.paths.active;
	ret->epoch = t_store.epoch;
	t_store.paths_read = NULL;
	if (paths_read)
		paths_read();
}

static void store_set_path(void *v, struct rbp_io *io)
{
	if (!t_store.path_error)
		t_store.paths.active = io->offset ? t_store.paths.own : 0;
	block_io_done(io, t_store.path_error);
}

/* ---- notes ---- */

static void store_get_notes(void *v, struct rbp_io *io)
{
	if (!t_store.notes_error)
		tell_notes();
	block_io_done(io, t_store.notes_error);
}

static void set_notes(const void *data, size_t len)
{
	T_MUST(len <= sizeof(t_store.notes));
	t_store.notes_version++;
	t_store.notes_len = len;
	memcpy(t_store.notes, data, len);
}

static void store_put_notes(void *v, struct rbp_io *io)
{
	void (*before)(void) = t_store.notes_put;
	int err = t_store.notes_error;

	t_store.notes_put = NULL;
	if (before)
		before();
	if (!err && io->version != t_store.notes_version)
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

	t_store.notes_taken = version;
	notes_io = NULL;
	if (io)
		block_io_done(io, 0);
}

int t_store_put_notes(const void *data, size_t len)
{
	set_notes(data, len);
	return tell_notes();
}

struct backend_type t_store_type = {
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

void t_store_reset(const struct backend_info *info)
{
	T_MUST(!t_store.bytes);
	memset(&t_store, 0, sizeof(t_store));
	t_store.info = *info;
	if (!t_store.info.min_block)
		t_store.info.min_block = 1;
	/* The block layer refuses memory whose size may change. */
	t_store_type.plugin.measure = info->memory ? NULL : store_measure;
}
