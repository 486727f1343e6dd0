/* SPDX-License-Identifier: BSD-2-Clause */
#include "wire.h"

#include <assert.h>
#include <endian.h>
#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "volume.h"

/* The names and numbers are those of the NBD protocol (doc/proto.md). */
#define REQUEST_MAGIC	 0x25609513u
#define SIMPLE_MAGIC	 0x67446698u
#define STRUCTURED_MAGIC 0x668e33efu

#define CMD_FLAG_FUA	 (1u << 0)
#define CMD_FLAG_NO_HOLE (1u << 1)

#define REPLY_FLAG_DONE (1u << 0)

enum {
	REPLY_NONE = 0,
	REPLY_OFFSET_DATA = 1,
	REPLY_OFFSET_HOLE = 2,
	REPLY_BLOCK_STATUS = 5,
	REPLY_IS_ERROR = 1 << 15,
};

#define SIMPLE_LEN     16u
#define STRUCTURED_LEN 20u

/* Of a chunk without data, so much is read. The rest is skipped: the text of an
 * error, or more extents than count. */
#define EXTENTS_MAX 256u
#define BODY_MAX    (4u + 8u * EXTENTS_MAX)

/* A request takes up to two. */
#define IOV_MAX_CNT 128

static uint16_t nbdwire_get16(const uint8_t *b)
{
	uint16_t v;

	memcpy(&v, b, sizeof(v));
	return be16toh(v);
}

static uint32_t nbdwire_get32(const uint8_t *b)
{
	uint32_t v;

	memcpy(&v, b, sizeof(v));
	return be32toh(v);
}

static uint64_t nbdwire_get64(const uint8_t *b)
{
	uint64_t v;

	memcpy(&v, b, sizeof(v));
	return be64toh(v);
}

static void nbdwire_put16(uint8_t *b, uint16_t v)
{
	v = htobe16(v);
	memcpy(b, &v, sizeof(v));
}

static void nbdwire_put32(uint8_t *b, uint32_t v)
{
	v = htobe32(v);
	memcpy(b, &v, sizeof(v));
}

static void nbdwire_put64(uint8_t *b, uint64_t v)
{
	v = htobe64(v);
	memcpy(b, &v, sizeof(v));
}

void nbdwire_begin(struct nbdconn *c)
{
	struct nbdwire *w = &c->wire;

	memset(w, 0, offsetof(struct nbdwire, in));
	w->is_used = nbd_get_tls_negotiated(c->h) == 0;
	w->has_structured = nbd_get_structured_replies_negotiated(c->h) == 1;
	w->fd = nbd_aio_get_fd(c->h);
}

/* ---- requests ---- */

static uint16_t nbdwire_command(const struct rbp_io *io)
{
	static const uint16_t commands[] = {
		[RBP_READ] = 0,	 [RBP_WRITE] = 1, [RBP_FLUSH] = 3,
		[RBP_UNMAP] = 4, [RBP_ZERO] = 6,  [RBP_EXTENT] = 7,
	};

	return commands[io->op];
}

static uint16_t nbdwire_flags(const struct nbdio *n)
{
	const struct rbp_io *io = n->io;
	uint16_t flags = 0;

	if (nbdconn_is_fua(n))
		flags |= CMD_FLAG_FUA;
	if (io->op == RBP_ZERO && !(io->flags & RBP_MAY_UNMAP))
		flags |= CMD_FLAG_NO_HOLE;
	return flags;
}

void nbdwire_ask(struct nbdconn *c, struct nbdio *n)
{
	struct nbdwire *w = &c->wire;
	const struct rbp_io *io = n->io;
	bool flush = io->op == RBP_FLUSH;

	n->cookie = ++w->cookie;
	n->is_sent = false;
	nbdwire_put32(n->request, REQUEST_MAGIC);
	nbdwire_put16(n->request + 4, nbdwire_flags(n));
	nbdwire_put16(n->request + 6, nbdwire_command(io));
	nbdwire_put64(n->request + 8, n->cookie);
	nbdwire_put64(n->request + 16, flush ? 0 : io->offset + n->done);
	nbdwire_put32(n->request + 24, flush ? 0 : (uint32_t)n->piece);
	if (!w->unsent) {
		w->unsent = n;
		w->unsent_off = 0;
	}
}

static size_t nbdwire_request_len(const struct nbdio *n)
{
	return NBDWIRE_REQUEST_LEN +
	       (n->io->op == RBP_WRITE ? (size_t)n->piece : 0);
}

/* Adds the bytes of @n from @off on. */
static int nbdwire_add_request(struct iovec *iov, struct nbdio *n, size_t off)
{
	int cnt = 0;

	if (off < NBDWIRE_REQUEST_LEN) {
		iov[cnt++] = (struct iovec){ n->request + off,
					     NBDWIRE_REQUEST_LEN - off };
		off = NBDWIRE_REQUEST_LEN;
	}
	if (off < nbdwire_request_len(n))
		iov[cnt++] = (struct iovec){
			(uint8_t *)n->io->buf + n->done + off -
				NBDWIRE_REQUEST_LEN,
			nbdwire_request_len(n) - off,
		};
	return cnt;
}

static void nbdwire_count_sent(struct nbdwire *w, size_t len)
{
	while (w->unsent) {
		size_t left = nbdwire_request_len(w->unsent) - w->unsent_off;

		if (len < left)
			break;
		len -= left;
		w->unsent->is_sent = true;
		w->unsent = TAILQ_NEXT(w->unsent, node);
		w->unsent_off = 0;
	}
	w->unsent_off += len;
}

/* Returns the result of sendmsg(). */
static ssize_t nbdwire_send_some(const struct nbdwire *w)
{
	struct iovec iov[IOV_MAX_CNT];
	struct msghdr msg = { .msg_iov = iov };
	size_t off = w->unsent_off;

	for (struct nbdio *n = w->unsent;
	     n && msg.msg_iovlen + 2 <= IOV_MAX_CNT; n = TAILQ_NEXT(n, node)) {
		msg.msg_iovlen += (size_t)nbdwire_add_request(
			iov + msg.msg_iovlen, n, off);
		off = 0;
	}
	return sendmsg(w->fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

void nbdwire_flush(struct nbdconn *c)
{
	struct nbdwire *w = &c->wire;

	while (w->unsent && !w->is_lost) {
		ssize_t len = nbdwire_send_some(w);

		if (len >= 0) {
			nbdwire_count_sent(w, (size_t)len);
		} else if (errno == EAGAIN) {
			w->is_blocked = true;
			return;
		} else if (errno != EINTR) {
			w->is_lost = true;
		}
	}
	w->is_blocked = false;
}

/* ---- answers ---- */

static struct nbdio *nbdwire_find(struct nbdconn *c, uint64_t cookie)
{
	struct nbdio *n;

	for (n = TAILQ_FIRST(&c->sent); n; n = TAILQ_NEXT(n, node)) {
		if (n->cookie == cookie)
			return n->is_sent ? n : NULL;
	}
	return NULL;
}

/* The server has broken the protocol. */
static bool nbdwire_break(struct nbdconn *c)
{
	c->wire.is_lost = true;
	nbd_host->log(c->vol->vol, RBP_ERROR,
		      "the server breaks the protocol: its answer fits no "
		      "request; connecting anew");
	return false;
}

/* The protocol has the numbers of Linux, but not all of them. */
static int nbdwire_errno(uint32_t error)
{
	static const int known[] = { EPERM,  EIO,	ENOMEM,	 EINVAL,
				     ENOSPC, EOVERFLOW, ENOTSUP, ESHUTDOWN };

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
		if (error == (uint32_t)known[i])
			return known[i];
	}
	return EINVAL;
}

static void nbdwire_fail(struct nbdio *n, uint32_t error)
{
	if (!n->err)
		n->err = nbdwire_errno(error);
}

static void nbdwire_end_chunk(struct nbdconn *c)
{
	struct nbdio *n = c->wire.reply;

	c->wire.reply = NULL;
	if (!c->wire.reply_ends)
		return;
	/* A server that shuts down leaves it in nbdconn.sent. */
	n->is_sent = false;
	nbdconn_answered(n);
}

static bool nbdwire_take_data(struct nbdconn *c)
{
	struct nbdwire *w = &c->wire;
	size_t len = w->until - w->from;

	if (len > w->data_left)
		len = w->data_left;
	if (w->data) {
		memcpy(w->data, w->in + w->from, len);
		w->data += len;
	}
	w->from += len;
	w->data_left -= len;
	if (w->data_left)
		return false;
	nbdwire_end_chunk(c);
	return true;
}

/* The place for @len bytes at @offset of the volume. NULL: they do not belong to
 * the request. */
static uint8_t *nbdwire_place(struct nbdio *n, uint64_t offset, uint64_t len)
{
	uint64_t at = n->io->offset + n->done;

	if (n->io->op != RBP_READ || offset < at || offset - at > n->piece ||
	    len > n->piece - (offset - at) ||
	    !nbdconn_note_data(n, offset - at, len))
		return NULL;
	return (uint8_t *)n->io->buf + n->done + (offset - at);
}

static bool nbdwire_take_simple(struct nbdconn *c, const uint8_t *b)
{
	struct nbdwire *w = &c->wire;
	struct nbdio *n = nbdwire_find(c, nbdwire_get64(b + 8));
	uint32_t error = nbdwire_get32(b + 4);

	if (!n)
		return nbdwire_break(c);
	w->reply = n;
	w->reply_ends = true;
	w->data = NULL;
	w->data_left = 0;
	if (error) {
		nbdwire_fail(n, error);
	} else if (n->io->op == RBP_READ) {
		if (w->has_structured)
			return nbdwire_break(c);
		w->data_left = n->piece;
		w->data = nbdwire_place(n, n->io->offset + n->done, n->piece);
	}
	w->from += SIMPLE_LEN;
	return true;
}

static bool nbdwire_take_extents(struct nbdio *n, const uint8_t *body,
				 size_t len)
{
	uint32_t entries[2 * EXTENTS_MAX];
	size_t cnt = 0;

	if (n->io->op != RBP_EXTENT || len < 12)
		return false;
	for (size_t at = 4; at + 8 <= len; at += 8) {
		entries[cnt++] = nbdwire_get32(body + at);
		entries[cnt++] = nbdwire_get32(body + at + 4);
	}
	nbdconn_note_extents(n, entries, cnt);
	return true;
}

/* @len: bytes of @body, which begins the chunk's @total ones. @ends: the chunk is
 * the last one. */
static bool nbdwire_take_body(struct nbdio *n, uint16_t type, bool ends,
			      const uint8_t *body, size_t len, uint32_t total)
{
	uint8_t *to;

	switch (type) {
	case REPLY_NONE:
		return total == 0 && ends;
	case REPLY_OFFSET_HOLE:
		if (total != 12)
			return false;
		to = nbdwire_place(n, nbdwire_get64(body),
				   nbdwire_get32(body + 8));
		if (to)
			memset(to, 0, nbdwire_get32(body + 8));
		return to;
	case REPLY_BLOCK_STATUS:
		return nbdwire_take_extents(n, body, len);
	default:
		if (!(type & REPLY_IS_ERROR) || total < 4)
			return false;
		nbdwire_fail(n, nbdwire_get32(body));
		return true;
	}
}

/* Returns the bytes of the chunk that are needed at once. */
static size_t nbdwire_body_len(uint16_t type, uint32_t total)
{
	size_t max = type == REPLY_OFFSET_DATA ? 8 : BODY_MAX;

	return total < max ? total : max;
}

static bool nbdwire_take_chunk(struct nbdconn *c, const uint8_t *b)
{
	struct nbdwire *w = &c->wire;
	struct nbdio *n = nbdwire_find(c, nbdwire_get64(b + 8));
	uint16_t type = nbdwire_get16(b + 6);
	uint32_t total = nbdwire_get32(b + 16);
	size_t len = nbdwire_body_len(type, total);
	const uint8_t *body = b + STRUCTURED_LEN;
	bool ends = nbdwire_get16(b + 4) & REPLY_FLAG_DONE;

	if (!n || !w->has_structured)
		return nbdwire_break(c);
	w->data = NULL;
	if (type == REPLY_OFFSET_DATA && total > 8)
		w->data = nbdwire_place(n, nbdwire_get64(body), total - 8);
	if (type == REPLY_OFFSET_DATA
		    ? !w->data
		    : !nbdwire_take_body(n, type, ends, body, len, total))
		return nbdwire_break(c);
	w->reply = n;
	w->reply_ends = ends;
	w->data_left = total - len;
	w->from += STRUCTURED_LEN + len;
	return true;
}

/* False: its bytes have not all arrived, or it is none. */
static bool nbdwire_take_header(struct nbdconn *c)
{
	struct nbdwire *w = &c->wire;
	const uint8_t *b = w->in + w->from;
	size_t len = w->until - w->from;

	if (len < SIMPLE_LEN)
		return false;
	if (nbdwire_get32(b) == SIMPLE_MAGIC)
		return nbdwire_take_simple(c, b);
	if (nbdwire_get32(b) != STRUCTURED_MAGIC)
		return nbdwire_break(c);
	if (len < STRUCTURED_LEN ||
	    len < STRUCTURED_LEN + nbdwire_body_len(nbdwire_get16(b + 6),
						    nbdwire_get32(b + 16)))
		return false;
	return nbdwire_take_chunk(c, b);
}

static void nbdwire_take_all(struct nbdconn *c)
{
	struct nbdwire *w = &c->wire;

	while (w->reply ? nbdwire_take_data(c) : nbdwire_take_header(c))
		;
}

/* Data that is expected goes to its place, and what follows it to the
 * buffer. */
static ssize_t nbdwire_receive(struct nbdwire *w, size_t *ret_asked)
{
	struct iovec iov[2];
	struct msghdr msg = { .msg_iov = iov };

	memmove(w->in, w->in + w->from, w->until - w->from);
	w->until -= w->from;
	w->from = 0;
	*ret_asked = 0;
	if (w->reply && w->data && w->data_left) {
		assert(!w->until);
		iov[msg.msg_iovlen++] = (struct iovec){ w->data, w->data_left };
		*ret_asked = w->data_left;
	}
	iov[msg.msg_iovlen++] =
		(struct iovec){ w->in + w->until, NBDWIRE_IN_LEN - w->until };
	*ret_asked += NBDWIRE_IN_LEN - w->until;
	return recvmsg(w->fd, &msg, MSG_DONTWAIT);
}

static void nbdwire_count_received(struct nbdwire *w, size_t len)
{
	if (w->reply && w->data) {
		size_t direct = len < w->data_left ? len : w->data_left;

		w->data += direct;
		w->data_left -= direct;
		len -= direct;
	}
	w->until += len;
}

bool nbdwire_read(struct nbdconn *c)
{
	struct nbdwire *w = &c->wire;
	size_t asked;
	ssize_t len = nbdwire_receive(w, &asked);

	if (len < 0 && (errno == EAGAIN || errno == EINTR))
		return false;
	if (len <= 0) {
		w->is_lost = true;
		return false;
	}
	nbdwire_count_received(w, (size_t)len);
	nbdwire_take_all(c);
	return !w->is_lost && (w->reply || (size_t)len == asked);
}
