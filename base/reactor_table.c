/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor_internal.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>

/* The longest fixed buffer of io_uring (io_buffer_validate()). */
#define MAX_FIXED_BUFFER ((size_t)1 << 30)

static int reactor_slots_init(struct slots *s, unsigned int cnt)
{
	if (!cnt)
		return 0;
	s->taken = calloc(cnt, sizeof(*s->taken));
	if (!s->taken)
		return -ENOMEM;
	s->cnt = cnt;
	return 0;
}

static int reactor_slots_take(struct slots *s)
{
	for (unsigned int i = 0; i < s->cnt; i++) {
		if (!s->taken[i]) {
			s->taken[i] = true;
			return (int)i;
		}
	}
	return -ENOSPC;
}

static void reactor_slot_give(struct slots *s, int index)
{
	assert(index >= 0 && (unsigned int)index < s->cnt && s->taken[index]);
	s->taken[index] = false;
}

static int reactor_buffer_update(struct reactor *r, int index, void *addr,
				 size_t len)
{
	struct iovec iov = { .iov_base = addr, .iov_len = len };
	__u64 tag = 0;
	int ret;

	ret = io_uring_register_buffers_update_tag(
		&r->ring, (unsigned int)index, &iov, &tag, 1);
	if (ret < 0)
		return ret;
	return ret == 1 ? 0 : -EINVAL;
}

int reactor_buffer_add(struct reactor *r, void *addr, size_t len,
		       int *ret_index)
{
	int index;
	int err;

	if (!addr || !len)
		return -EINVAL;
	if (len > MAX_FIXED_BUFFER)
		return -EFBIG;
	index = reactor_slots_take(&r->buffers);
	if (index < 0)
		return index;
	err = reactor_buffer_update(r, index, addr, len);
	if (err) {
		reactor_slot_give(&r->buffers, index);
		return err;
	}
	*ret_index = index;
	return 0;
}

void reactor_buffer_remove(struct reactor *r, int index)
{
	reactor_slot_give(&r->buffers, index);
	reactor_buffer_update(r, index, NULL, 0);
}

int reactor_file_add(struct reactor *r, int fd, int *ret_index)
{
	int index;
	int ret;

	if (fd < 0)
		return -EBADF; /* -1 would empty the slot */
	index = reactor_slots_take(&r->files);
	if (index < 0)
		return index;
	ret = io_uring_register_files_update(&r->ring, (unsigned int)index, &fd,
					     1);
	if (ret != 1) {
		reactor_slot_give(&r->files, index);
		return ret < 0 ? ret : -EBADF;
	}
	*ret_index = index;
	return 0;
}

void reactor_file_remove(struct reactor *r, int index)
{
	int none = -1;

	reactor_slot_give(&r->files, index);
	io_uring_register_files_update(&r->ring, (unsigned int)index, &none, 1);
}

/* A kernel without sparse tables gets no table: adding to it fails with
 * -ENOSPC. */
int reactor_tables_init(struct reactor *r, const struct reactor_options *opt)
{
	int err = 0;

	if (opt->max_buffers &&
	    !io_uring_register_buffers_sparse(&r->ring, opt->max_buffers))
		err = reactor_slots_init(&r->buffers, opt->max_buffers);
	if (!err && opt->max_files &&
	    !io_uring_register_files_sparse(&r->ring, opt->max_files))
		err = reactor_slots_init(&r->files, opt->max_files);
	return err;
}

void reactor_let_go(struct reactor *r)
{
	io_uring_unregister_files(&r->ring);
	io_uring_unregister_buffers(&r->ring);
}
