/* SPDX-License-Identifier: BSD-2-Clause */
#include "check.h"

#include <string.h>

void rbdp_check_init(struct rbdp_check *check)
{
	pthread_mutex_init(&check->lock, NULL);
}

void rbdp_check_free(struct rbdp_check *check)
{
	pthread_mutex_destroy(&check->lock);
}

/* ---- which answers ---- */

static bool rbdp_check_is_zero(const uint8_t *bytes, size_t len)
{
	return !*bytes && !memcmp(bytes, bytes + 1, len - 1);
}

/* An object that does not exist is read as zeroes. */
static bool rbdp_check_has_zero_piece(const struct rbdp_check *check,
				      const struct rbp_io *io)
{
	const uint8_t *buf = io->buf;
	uint64_t at = 0;

	while (at < io->len) {
		uint64_t len = check->piece_bytes -
			       (io->offset + at) % check->piece_bytes;

		if (len > io->len - at)
			len = io->len - at;
		if (rbdp_check_is_zero(buf + at, len))
			return true;
		at += len;
	}
	return false;
}

bool rbdp_check_applies(const struct rbdp_check *check, const struct rbp_io *io)
{
	switch (io->op) {
	case RBP_READ:
		return io->offset < check->parent_bytes ||
		       rbdp_check_has_zero_piece(check, io);
	case RBP_UNMAP:
		return true;
	case RBP_ZERO:
		return io->flags & RBP_MAY_UNMAP;
	case RBP_EXTENT:
		return !io->extent_mapped;
	case RBP_WRITE:
	case RBP_FLUSH:
		break;
	}
	return false;
}

/* ---- the request ---- */

static void rbdp_check_ask(struct rbdp_check *check);

static struct rbp_io **rbdp_check_next_of(struct rbp_io *io)
{
	return io->scratch;
}

/* Returns the I/Os that the answer is for. The others have their turn. */
static struct rbp_io *rbdp_check_take(struct rbdp_check *check, bool *ret_more)
{
	struct rbp_io *io;

	pthread_mutex_lock(&check->lock);
	io = check->asked;
	check->asked = check->first;
	check->first = NULL;
	*ret_more = check->asked;
	pthread_mutex_unlock(&check->lock);
	return io;
}

static void rbdp_check_answered(struct rbdp_check *check, int res)
{
	bool more;
	struct rbp_io *io = rbdp_check_take(check, &more);

	if (more)
		rbdp_check_ask(check);
	while (io) {
		struct rbp_io *next = *rbdp_check_next_of(io);

		check->end(check->user, io, res);
		io = next;
	}
}

static void rbdp_check_done(rados_completion_t completion, void *arg)
{
	int res = rados_aio_get_return_value(completion);

	rados_aio_release(completion);
	rbdp_check_answered(arg, res < 0 ? res : 0);
}

static void rbdp_check_ask(struct rbdp_check *check)
{
	rados_completion_t completion;
	int err = rados_aio_create_completion2(check, rbdp_check_done,
					       &completion);

	if (!err) {
		err = rados_aio_stat(check->img->pool, check->object,
				     completion, &check->size, &check->mtime);
		if (err < 0)
			rados_aio_release(completion);
	}
	if (err < 0)
		rbdp_check_answered(check, err);
}

void rbdp_check_io(struct rbdp_check *check, struct rbp_io *io)
{
	bool is_first;

	pthread_mutex_lock(&check->lock);
	is_first = !check->asked;
	*rbdp_check_next_of(io) = is_first ? NULL : check->first;
	if (is_first)
		check->asked = io;
	else
		check->first = io;
	pthread_mutex_unlock(&check->lock);
	if (is_first)
		rbdp_check_ask(check);
}
