/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "volume.h"

/* libnbd reads one answer at a time. This is the maximum for one turn. Responses
 * to the initiator leave at the end of the turn: with 16, the initiator goes on
 * while the server makes the other answers. */
#define ANSWERS_MAX 16

/* Without libnbd, one read may find many answers, or a part of a long one. */
#define READS_MAX 8

/* A longer trim or zero is cut: the protocol has 32 bits for the length. */
#define CLEAR_MAX (1ull << 30)

static void conn_service(struct nbdconn *c, uint32_t events);

static void conn_append(struct nbdio_list *to, struct nbdio_list *from)
{
	TAILQ_CONCAT(to, from, node);
}

/* ---- the end of an I/O ---- */

static bool conn_is_write(const struct rbp_io *io)
{
	return io->op == RBP_WRITE || io->op == RBP_ZERO || io->op == RBP_UNMAP;
}

bool nbdconn_is_fua(const struct nbdio *n)
{
	return conn_is_write(n->io) &&
	       (n->io->flags & RBP_FUA || n->conn->vol->writes_through);
}

/* True if writes may be lost: flushes must not succeed any more. */
static bool conn_has_lost_writes(struct nbdvol *vol)
{
	if (!atomic_load(&vol->lost_writes))
		return false;
	if (!atomic_exchange(&vol->told_lost, true))
		nbd_host->log(
			vol->vol, RBP_ERROR,
			"flushes fail from now on: the connection was "
			"lost before earlier writes were flushed, and the "
			"server may have lost them; check the data, then "
			"restart rdma-target");
	return true;
}

static void conn_raise(_Atomic uint64_t *to, uint64_t value)
{
	uint64_t was = atomic_load(to);

	while (was < value && !atomic_compare_exchange_weak(to, &was, value))
		;
}

static void conn_remember_loss(struct nbdvol *vol)
{
	if (!vol->trusts_server && (vol->caps & RBP_CAN_FLUSH))
		atomic_store(&vol->lost_writes, true);
}

/* The server of a new connection knows nothing of writes that another one has
 * done, and its flush would succeed without them. */
void nbdvol_begin_life(struct nbdvol *vol)
{
	atomic_fetch_add(&vol->life, 1);
	if (atomic_load(&vol->written) != atomic_load(&vol->flushed))
		conn_remember_loss(vol);
}

/* If a connection was made meanwhile, the write may have been done before the
 * server of that one was started. */
static void conn_count_write(const struct nbdio *n)
{
	struct nbdvol *vol = n->conn->vol;

	atomic_fetch_add(&vol->written, 1);
	if (n->life != atomic_load(&vol->life))
		conn_remember_loss(vol);
}

/* @n is on no list. */
static void conn_end(struct nbdio *n, int res)
{
	struct nbdvol *vol = n->conn->vol;
	struct rbp_io *io = n->io;

	/* Another connection may have been lost since the flush was sent. */
	if (!res && io->op == RBP_FLUSH && conn_has_lost_writes(vol))
		res = -EIO;
	if (!res && conn_is_write(io) && !nbdconn_is_fua(n))
		conn_count_write(n);
	if (!res && io->op == RBP_FLUSH)
		conn_raise(&vol->flushed, n->seen);
	if (res && (io->op == RBP_READ || io->op == RBP_WRITE))
		io->progress = n->done;
	nbd_host->done(io, res);
}

/* The server is away for too long. Whether it has lost writes is known when it
 * is back: see conn_is_dishonest(). */
static void conn_end_unreached(struct nbdio *n)
{
	conn_end(n, n->io->op == RBP_FLUSH ? -ENOTCONN : -EIO);
}

static void conn_end_all(struct nbdio_list *list)
{
	struct nbdio *n;

	while ((n = TAILQ_FIRST(list))) {
		TAILQ_REMOVE(list, n, node);
		conn_end_unreached(n);
	}
}

/* Returns the errno of the server, which libnbd gives as a positive number. */
static int conn_result(const struct nbdio *n)
{
	if (n->err)
		return -n->err;
	return 0;
}

/* ---- answers ---- */

/* Returns a number that looks random, and is always the same for @at. */
static uint64_t conn_seam(const struct nbdvol *vol, uint64_t at)
{
	uint64_t x = at + vol->salt;

	x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9u;
	x = (x ^ x >> 27) * 0x94d049bb133111ebu;
	return x ^ x >> 31;
}

/*
 * The chunks of an answer come in any order. Their lengths do not show whether
 * they make up the range: two may be the same. But if each begins where another
 * one ends, the numbers of these places cancel each other, and those of the begin
 * and the end of the range are left. This needs no list of chunks.
 */
bool nbdconn_note_data(struct nbdio *n, uint64_t at, uint64_t len)
{
	const struct nbdvol *vol = n->conn->vol;

	if (!len || len > n->piece - n->got)
		return false;
	n->got += len;
	n->seams += conn_seam(vol, at) - conn_seam(vol, at + len);
	return true;
}

static bool conn_has_all_data(const struct nbdio *n)
{
	const struct nbdvol *vol = n->conn->vol;

	return n->seams == conn_seam(vol, 0) - conn_seam(vol, n->piece);
}

/* Neither libnbd nor wire.c looks whether a structured reply has all of the data.
 * The rest of the buffer has what was in it before. */
static bool conn_lacks_answer(const struct nbdio *n)
{
	const struct nbdvol *vol = n->conn->vol;

	if (n->io->op != RBP_READ && n->io->op != RBP_EXTENT)
		return false;
	if (n->got != n->piece) {
		nbd_host->log(vol->vol, RBP_ERROR,
			      "the server has answered %llu of %llu bytes: "
			      "failing the I/O",
			      (unsigned long long)n->got,
			      (unsigned long long)n->piece);
		return true;
	}
	if (n->io->op == RBP_EXTENT || conn_has_all_data(n))
		return false;
	nbd_host->log(vol->vol, RBP_ERROR,
		      "the server has sent some bytes twice, and others not: "
		      "failing the I/O");
	return true;
}

/* If the connection is lost (ENOTCONN), or the server ends, the I/O stays in its
 * list and is sent again. */
void nbdconn_answered(struct nbdio *n)
{
	struct nbdconn *c = n->conn;

	if (n->err == ESHUTDOWN)
		c->ending = true;
	if (n->err == ENOTCONN || n->err == ESHUTDOWN)
		return;
	if (!n->err && conn_lacks_answer(n))
		n->err = EIO;
	TAILQ_REMOVE(&c->sent, n, node);
	TAILQ_INSERT_TAIL(&c->answered, n, node);
}

/* Called with libnbd's lock held, so it must not call libnbd. */
static int conn_answered(void *user, int *error)
{
	struct nbdio *n = user;

	n->err = *error;
	nbdconn_answered(n);
	return 1;
}

/* A part of the data of a read has come, or a hole, which libnbd has filled with
 * zeroes. */
static int conn_chunk(void *user, const void *data, size_t len, uint64_t offset,
		      unsigned int status, int *error)
{
	struct nbdio *n = user;
	bool is_data = status == LIBNBD_READ_DATA || status == LIBNBD_READ_HOLE;

	if (is_data &&
	    !nbdconn_note_data(n, offset - n->io->offset - n->done, len)) {
		*error = EIO;
		return -1;
	}
	return 0;
}

/* More counts as allocated than NBD's data: also holes that do not read as
 * zeroes. */
static int conn_is_mapped(uint32_t flags)
{
	return (~flags & (LIBNBD_STATE_HOLE | LIBNBD_STATE_ZERO)) != 0;
}

/* Finds the first run of one kind, in whole blocks. */
void nbdconn_note_extents(struct nbdio *n, const uint32_t *entries,
			  size_t entry_cnt)
{
	struct rbp_io *io = n->io;
	uint64_t block = n->conn->vol->block_size;
	uint64_t len = 0;
	int mapped = entry_cnt >= 2 && conn_is_mapped(entries[1]);

	for (size_t i = 0; i + 1 < entry_cnt; i += 2) {
		if (conn_is_mapped(entries[i + 1]) != mapped)
			break;
		len += entries[i];
	}
	len -= len % block;
	/* A block that has both kinds counts as allocated. */
	if (!len) {
		mapped = 1;
		len = block;
	}
	io->extent_len = len < io->len ? len : io->len;
	io->extent_mapped = mapped;
	n->got = n->piece;
}

static int conn_extents(void *user, const char *context, uint64_t offset,
			uint32_t *entries, size_t entry_cnt, int *error)
{
	if (!strcmp(context, LIBNBD_CONTEXT_BASE_ALLOCATION))
		nbdconn_note_extents(user, entries, entry_cnt);
	return 0;
}

/* ---- a request without an answer ---- */

/* Another request is the oldest, or there is none. */
static void conn_limit_oldest(struct nbdconn *c)
{
	if (TAILQ_EMPTY(&c->sent) || !c->vol->timeout_ms)
		nbdlimit_end(&c->oldest);
	else
		nbdlimit_begin(&c->oldest);
}

static const char *conn_op_name(const struct rbp_io *io)
{
	static const char *const names[] = {
		[RBP_READ] = "read",   [RBP_WRITE] = "write",
		[RBP_FLUSH] = "flush", [RBP_UNMAP] = "trim",
		[RBP_ZERO] = "zero",   [RBP_EXTENT] = "block status",
	};

	return names[io->op];
}

/* Shutting a connection down makes it a lost one, which is handled as usual. */
static void conn_timed_out(void *user)
{
	struct nbdconn *c = user;
	const struct nbdio *oldest = TAILQ_FIRST(&c->sent);

	if (!oldest)
		return;
	nbd_host->log(
		c->vol->vol, RBP_WARNING,
		"the server has not answered a %s for %llu seconds: connecting "
		"anew; if it is only slow, give the volume a longer timeout=",
		conn_op_name(oldest->io),
		(unsigned long long)(c->vol->timeout_ms / 1000));
	shutdown(nbd_aio_get_fd(c->h), SHUT_RDWR);
}

/* ---- requests ---- */

static int64_t conn_ask(struct nbdconn *c, struct nbdio *n)
{
	struct rbp_io *io = n->io;
	nbd_completion_callback done = { .callback = conn_answered,
					 .user_data = n };
	nbd_chunk_callback chunk = { .callback = conn_chunk, .user_data = n };
	nbd_extent_callback extents = { .callback = conn_extents,
					.user_data = n };
	uint32_t fua = nbdconn_is_fua(n) ? LIBNBD_CMD_FLAG_FUA : 0;
	uint64_t at = io->offset + n->done;
	uint8_t *buf = io->buf;

	if (c->wire.is_used) {
		nbdwire_ask(c, n);
		return 0;
	}
	switch (io->op) {
	case RBP_READ:
		return nbd_aio_pread_structured(c->h, buf + n->done, n->piece,
						at, chunk, done, 0);
	case RBP_WRITE:
		return nbd_aio_pwrite(c->h, buf + n->done, n->piece, at, done,
				      fua);
	case RBP_FLUSH:
		return nbd_aio_flush(c->h, done, 0);
	case RBP_UNMAP:
		return nbd_aio_trim(c->h, n->piece, at, done, fua);
	case RBP_ZERO:
		if (!(io->flags & RBP_MAY_UNMAP))
			fua |= LIBNBD_CMD_FLAG_NO_HOLE;
		return nbd_aio_zero(c->h, n->piece, at, done, fua);
	case RBP_EXTENT:
		return nbd_aio_block_status(c->h, n->piece, at, extents, done,
					    0);
	}
	return -1;
}

static uint64_t conn_piece(const struct nbdvol *vol, const struct nbdio *n)
{
	const struct rbp_io *io = n->io;
	uint64_t max = io->op == RBP_READ || io->op == RBP_WRITE
			       ? vol->max_piece
			       : CLEAR_MAX;
	uint64_t left = io->len - n->done;

	return left < max ? left : max;
}

/* True if @n must not be sent, because it is a flush. */
static bool conn_is_dishonest(struct nbdvol *vol, struct nbdio *n)
{
	if (n->io->op != RBP_FLUSH)
		return false;
	n->seen = atomic_load(&vol->written);
	return conn_has_lost_writes(vol);
}

static bool conn_is_lost(const struct nbdconn *c)
{
	if (c->wire.is_used)
		return c->ending || c->wire.is_lost;
	return c->ending || (nbd_aio_is_ready(c->h) != 1 &&
			     nbd_aio_is_processing(c->h) != 1);
}

/* A server that has died may have lost the pieces of a write that it had done:
 * they are sent again as well. */
static void conn_enter_life(const struct nbdvol *vol, struct nbdio *n)
{
	unsigned int life = atomic_load(&vol->life);

	if (n->life != life && conn_is_write(n->io) && !vol->trusts_server)
		n->done = 0;
	if (n->done == 0)
		n->life = life;
}

/* Sends the next piece of @n, which is on no list. */
static void conn_send(struct nbdconn *c, struct nbdio *n)
{
	int err;

	if (conn_is_dishonest(c->vol, n)) {
		conn_end(n, -EIO);
		return;
	}
	conn_enter_life(c->vol, n);
	n->piece = conn_piece(c->vol, n);
	n->err = 0;
	n->got = 0;
	n->seams = 0;
	TAILQ_INSERT_TAIL(&c->sent, n, node);
	if (TAILQ_FIRST(&c->sent) == n)
		conn_limit_oldest(c);
	if (conn_ask(c, n) >= 0)
		return;
	err = nbd_get_errno();
	/* The I/O is sent again. */
	if (conn_is_lost(c))
		return;
	TAILQ_REMOVE(&c->sent, n, node);
	if (TAILQ_EMPTY(&c->sent))
		conn_limit_oldest(c);
	conn_end(n, err ? -err : -EIO);
}

/* ---- answered requests ---- */

static bool conn_has_next_piece(struct nbdio *n)
{
	if (n->err || n->io->op == RBP_FLUSH || n->io->op == RBP_EXTENT)
		return false;
	n->done += n->piece;
	return n->done < n->io->len;
}

static void conn_take_answers(struct nbdconn *c)
{
	struct nbdio *n;

	while ((n = TAILQ_FIRST(&c->answered))) {
		TAILQ_REMOVE(&c->answered, n, node);
		if (!conn_has_next_piece(n))
			conn_end(n, conn_result(n));
		else if (c->h && !conn_is_lost(c))
			conn_send(c, n);
		else
			TAILQ_INSERT_TAIL(&c->waiting, n, node);
	}
}

/* ---- lost and restored connections ---- */

static void conn_ask_for_link(struct nbdconn *c)
{
	int err = nbdlink_ask(c);

	if (err)
		nbd_host->log(c->vol->vol, RBP_ERROR,
			      "cannot make a thread that connects: %s",
			      strerror(-err));
}

/* The line of link.c that says why may have been one too many for the log. */
static void conn_log_given_up(struct nbdvol *vol)
{
	char why[sizeof(vol->why)];

	pthread_mutex_lock(&vol->lock);
	memcpy(why, vol->why, sizeof(why));
	pthread_mutex_unlock(&vol->lock);
	nbd_host->log(vol->vol, RBP_ERROR,
		      "the server has been away for %llu seconds: I/O fails "
		      "until it is back%s%s",
		      (unsigned long long)(vol->wait_ms / 1000),
		      *why ? ": " : "", why);
}

/* The server has not come back in time. */
static void conn_give_up(void *user)
{
	struct nbdconn *c = user;

	c->gave_up = true;
	if (!atomic_exchange(&c->vol->told_away, true))
		conn_log_given_up(c->vol);
	conn_end_all(&c->waiting);
}

static void conn_begin_wait(struct nbdconn *c)
{
	nbdlimit_begin(&c->away);
	conn_ask_for_link(c);
}

/* Only the first connection of a volume logs that it is lost, and only the last
 * one that it is back. */
static void conn_count_down(struct nbdconn *c)
{
	c->counts_as_down = true;
	if (atomic_fetch_add(&c->vol->down_cnt, 1) != 0)
		return;
	nbd_host->log(c->vol->vol, RBP_WARNING,
		      "the connection to the server is lost; I/O waits for it "
		      "for up to %llu seconds",
		      (unsigned long long)(c->vol->wait_ms / 1000));
}

static void conn_count_up(struct nbdconn *c)
{
	if (!c->counts_as_down)
		return;
	c->counts_as_down = false;
	if (atomic_fetch_sub(&c->vol->down_cnt, 1) == 1)
		nbd_host->log(c->vol->vol, RBP_NOTICE,
			      "connected to the server again");
}

/* The server may die of an I/O each time it gets it. That I/O does not wait
 * longer than others. */
static void conn_take_overdue(struct nbdconn *c, struct nbdio_list *to)
{
	uint64_t now = nbdlink_now_ms();
	struct nbdio *next;

	for (struct nbdio *n = TAILQ_FIRST(&c->sent); n; n = next) {
		next = TAILQ_NEXT(n, node);
		if (!n->lost_ms)
			n->lost_ms = now;
		if (now - n->lost_ms < c->vol->wait_ms)
			continue;
		TAILQ_REMOVE(&c->sent, n, node);
		TAILQ_INSERT_TAIL(to, n, node);
	}
}

static void conn_fail_overdue(struct nbdconn *c, struct nbdio_list *list)
{
	if (TAILQ_EMPTY(list))
		return;
	nbd_host->log(c->vol->vol, RBP_ERROR,
		      "the server has been lost again and again for %llu "
		      "seconds: failing the I/O that it had each time",
		      (unsigned long long)(c->vol->wait_ms / 1000));
	conn_end_all(list);
}

static void conn_lose(struct nbdconn *c)
{
	struct nbdio_list overdue = TAILQ_HEAD_INITIALIZER(overdue);

	conn_count_down(c);
	nbd_host->watch_del(c->watch);
	c->watch = NULL;
	/* Closes this connection before another one is made, so that the server
	 * sees its end. */
	nbd_close(c->h);
	c->h = NULL;
	conn_take_overdue(c, &overdue);
	/* Oldest first: I/O that had been sent, then I/O that waits. */
	conn_append(&c->sent, &c->waiting);
	conn_append(&c->waiting, &c->sent);
	conn_limit_oldest(c);
	conn_begin_wait(c);
	conn_fail_overdue(c, &overdue);
}

static uint32_t conn_events(const struct nbdconn *c)
{
	unsigned int dir;

	if (c->wire.is_used)
		return RBP_READABLE | (c->wire.is_blocked ? RBP_WRITABLE : 0u);
	dir = nbd_aio_get_direction(c->h);
	return (dir & LIBNBD_AIO_DIRECTION_READ ? RBP_READABLE : 0u) |
	       (dir & LIBNBD_AIO_DIRECTION_WRITE ? RBP_WRITABLE : 0u);
}

static void conn_ready(void *user, uint32_t events)
{
	conn_service(user, events);
}

static void conn_send_waiting(struct nbdconn *c)
{
	struct nbdio *n;

	while (!conn_is_lost(c) && (n = TAILQ_FIRST(&c->waiting))) {
		TAILQ_REMOVE(&c->waiting, n, node);
		conn_send(c, n);
	}
}

/* Takes the new connection @h. */
static void conn_take_link(struct nbdconn *c, struct nbd_handle *h)
{
	c->watch = nbd_host->watch_add(c->home->queue, nbd_aio_get_fd(h),
				       RBP_READABLE, conn_ready, c);
	if (!c->watch) {
		nbd_host->log(c->vol->vol, RBP_ERROR, "out of memory");
		nbd_close(h);
		conn_begin_wait(c);
		return;
	}
	conn_count_up(c);
	nbdlimit_end(&c->away);
	c->gave_up = false;
	atomic_store(&c->vol->told_away, false);
	c->ending = false;
	c->h = h;
	nbdwire_begin(c);
	conn_send_waiting(c);
}

/* ---- event handling ---- */

/* Returns the most bytes that libnbd has read to find the answer to @n. */
static int conn_answer_max(const struct nbdio *n)
{
	/* A structured reply, and the offset before its data. */
	const int header_len = 20;
	const int offset_len = 8;

	if (n->io->op != RBP_READ)
		return header_len;
	return header_len + offset_len + (int)n->piece;
}

/* Asks how many bytes have arrived only if libnbd may have read all those that
 * had arrived before, *@left. */
static bool conn_has_more(const struct nbdconn *c, int *left)
{
	if (*left > 0)
		return true;
	if (ioctl(nbd_aio_get_fd(c->h), FIONREAD, left) || *left <= 0)
		return false;
	/* Encrypted bytes cannot be compared with those of answers. */
	if (nbd_get_tls_negotiated(c->h) == 1)
		*left = 0;
	return true;
}

/* Reads one answer, or a part of it. False: it failed. */
static bool conn_read_one(struct nbdconn *c, int *left)
{
	const struct nbdio *before = TAILQ_LAST(&c->answered, nbdio_list);
	const struct nbdio *n;

	if (nbd_aio_notify_read(c->h))
		return false;
	n = TAILQ_LAST(&c->answered, nbdio_list);
	if (n == before || n->err || n->io->op == RBP_EXTENT)
		*left = 0;
	else
		*left -= conn_answer_max(n);
	return true;
}

/* Reads answers that have arrived, as many as fit into a turn. libnbd must only
 * be told to read if there is data: without any, it takes an answer for begun,
 * and keeps new requests back until data arrives. */
static void conn_read(struct nbdconn *c)
{
	unsigned int rounds = 0;
	int left = 0;

	while (conn_read_one(c, &left) && ++rounds < ANSWERS_MAX &&
	       !TAILQ_EMPTY(&c->sent) && conn_has_more(c, &left))
		;
}

static void conn_use_wire(struct nbdconn *c, uint32_t events)
{
	unsigned int reads = 0;

	if (events & RBP_WRITABLE)
		c->wire.is_blocked = false;
	if (!(events & ~(uint32_t)RBP_WRITABLE))
		return;
	while (nbdwire_read(c) && ++reads < READS_MAX)
		;
}

static void conn_tell_libnbd(struct nbdconn *c, uint32_t events)
{
	unsigned int dir = nbd_aio_get_direction(c->h);
	const uint32_t ended = RBP_BROKEN | RBP_HUNG_UP;

	if ((events & (RBP_READABLE | ended)) &&
	    (dir & LIBNBD_AIO_DIRECTION_READ))
		conn_read(c);
	else if ((events & (RBP_WRITABLE | ended)) &&
		 (dir & LIBNBD_AIO_DIRECTION_WRITE))
		nbd_aio_notify_write(c->h);
}

/* Does the work that follows from any call of libnbd or wire.c. Ending an I/O may
 * bring the next one. Those nested calls find in_service set, and leave the rest
 * to the first call. */
static void conn_settle(struct nbdconn *c, bool flush)
{
	if (c->in_service)
		return;
	c->in_service = true;
	while (!TAILQ_EMPTY(&c->answered))
		conn_take_answers(c);
	if (flush && c->h && c->wire.is_used && !c->wire.is_blocked)
		nbdwire_flush(c);
	if (c->h && conn_is_lost(c))
		conn_lose(c);
	if (c->watch)
		nbd_host->watch_set(c->watch, conn_events(c));
	c->in_service = false;
}

static void conn_service(struct nbdconn *c, uint32_t events)
{
	const struct nbdio *oldest = TAILQ_FIRST(&c->sent);

	if (c->wire.is_used)
		conn_use_wire(c, events);
	else
		conn_tell_libnbd(c, events);
	/* The server has answered the oldest request: the time of the next one
	 * begins. */
	if (TAILQ_FIRST(&c->sent) != oldest)
		conn_limit_oldest(c);
	conn_settle(c, /* flush= */ true);
}

void nbdconn_kick(struct nbdconn *c)
{
	conn_settle(c, /* flush= */ true);
}

void nbdconn_submit(struct nbdconn *c, struct nbdio *n)
{
	if (c->h && !conn_is_lost(c)) {
		conn_send(c, n);
		conn_settle(c, /* flush= */ false);
	} else if (c->gave_up) {
		conn_end_unreached(n);
	} else {
		TAILQ_INSERT_TAIL(&c->waiting, n, node);
	}
}

/* I/O of other workers' queues comes through the inbox. */
static void conn_take_inbox(struct nbdconn *c, struct nbdio_list *inbox)
{
	struct nbdio *n;

	while ((n = TAILQ_FIRST(inbox))) {
		TAILQ_REMOVE(inbox, n, node);
		nbdconn_submit(c, n);
	}
}

void nbdconn_woken(struct nbdconn *c)
{
	struct nbdio_list inbox = TAILQ_HEAD_INITIALIZER(inbox);
	struct nbd_handle *fresh;
	bool wants;

	pthread_mutex_lock(&c->vol->lock);
	conn_append(&inbox, &c->inbox);
	fresh = c->fresh;
	wants = c->wants_link;
	c->fresh = NULL;
	pthread_mutex_unlock(&c->vol->lock);
	c->in_service = true;
	if (fresh)
		conn_take_link(c, fresh);
	else if (!c->h && !wants)
		conn_begin_wait(c);
	conn_take_inbox(c, &inbox);
	c->in_service = false;
	conn_settle(c, /* flush= */ true);
}

/* ---- homes ---- */

int nbdconn_adopt(struct nbdconn *c, struct nbdqueue *q)
{
	int err = nbdlimit_add(&c->away, q->queue, c->vol->wait_ms,
			       conn_give_up, c);

	if (!err)
		err = nbdlimit_add(&c->oldest, q->queue, c->vol->timeout_ms,
				   conn_timed_out, c);
	if (c->h)
		c->watch = nbd_host->watch_add(q->queue, nbd_aio_get_fd(c->h),
					       conn_events(c), conn_ready, c);
	if (err || (c->h && !c->watch)) {
		nbdconn_release(c);
		return -ENOMEM;
	}
	if (!c->h)
		nbdlimit_begin(&c->away);
	conn_limit_oldest(c);
	return 0;
}

void nbdconn_release(struct nbdconn *c)
{
	if (c->watch)
		nbd_host->watch_del(c->watch);
	c->watch = NULL;
	nbdlimit_del(&c->away);
	nbdlimit_del(&c->oldest);
}

void nbdconn_free(struct nbdconn *c)
{
	if (c->h) {
		nbd_aio_disconnect(c->h, 0);
		nbd_close(c->h);
	}
	if (c->fresh)
		nbd_close(c->fresh);
	free(c);
}
