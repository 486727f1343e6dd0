/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store nbd, against any server. The handshake is done. The input is what the
 * server sends, in which parts it arrives, what the socket takes, and which I/O is
 * submitted meanwhile. The connection may be lost, and made again.
 *
 * A simple model reads what both sides have sent. It claims: the requests are
 * those that were submitted; an I/O ends once; a success had a last answer
 * without an error, and a read has all of its bytes from it; an answer that fits
 * no request ends the connection; a flush covers no write of a connection that is
 * gone. Buffers are freed when an I/O ends, so that AddressSanitizer finds what
 * is written later, or outside.
 */
#include <errno.h>
#include <sys/socket.h>

#include "plugins/nbd/volume.h"
#include "tests/fuzz/fuzz.h"

#define SOCKET	   1000 /* no descriptor has this number */
#define DISK_LEN   (64u << 10)
#define BLOCK	   512u
#define PIECE_MAX  1536u
#define STREAM_MAX (64u << 10)
#define ASKED_MAX  256u
#define IO_MAX	   64u
#define WATCH_MAX  4u
#define TIMER_MAX  4u
#define WAIT_S	   30
#define EVENTS_MAX 100000u
#define UNREAD	   0xa5 /* what a buffer has before a read; nothing sends it */

enum {
	CMD_READ = 0,
	CMD_WRITE = 1,
	CMD_FLUSH = 3,
	CMD_TRIM = 4,
	CMD_ZERO = 6,
	CMD_EXTENT = 7,
};

struct request {
	struct rbp_io io;
	unsigned int writes; /* that had ended when it was submitted */
};

/* A request that the server has received. */
struct asked {
	uint64_t cookie;
	uint16_t flags;
	uint16_t type;
	uint64_t offset;
	uint32_t len;
	uint64_t got;
	bool has_failed;
	bool is_answered;
	bool is_used; /* for an I/O that has ended well */
};

struct rbp_queue {
	void *data;
};

struct rbp_watch {
	bool is_used;
	int fd;
	uint32_t events;
	void (*ready)(void *user, uint32_t events);
	void *user;
};

struct rbp_timer {
	bool is_used;
	bool is_set;
	void (*fire)(void *user);
	void *user;
};

struct nbd_handle {
	unsigned int number;
};

static const struct rbp_plugin *plugin;

static struct {
	struct fuzz_input in;
	bool has_structured;
	bool submits_more; /* when an I/O ends */
	void *volume;
	struct rbp_queue queue;
	struct rbp_watch watches[WATCH_MAX];
	struct rbp_timer timers[TIMER_MAX];
	uint64_t now_ms;
	unsigned int submitted;
	unsigned int in_flight;
	struct nbdconn *wants; /* a connection */
	/* the present connection */
	struct nbd_handle handle;
	bool is_open;
	bool is_closed; /* by the server */
	bool must_end;
	int recv_err, send_err;	    /* of the next call; 0: none */
	size_t part;		    /* bytes that a call receives at most */
	size_t room;		    /* bytes that the socket still takes */
	uint8_t stream[STREAM_MAX]; /* from the server */
	size_t len, at, read_at;    /* sent, received, read by the model */
	uint8_t head[NBDWIRE_REQUEST_LEN];
	size_t head_len; /* of the request that is being sent */
	uint32_t data_len;
	struct asked asked[ASKED_MAX];
	unsigned int asked_cnt;
	/* Writes that have ended: the connection of each; 0: stable. */
	unsigned int writes[IO_MAX];
	unsigned int write_cnt;
} it;

/* The data of all writes, and of good answers. */
static uint8_t disk[DISK_LEN];

static void fill_disk(void)
{
	for (unsigned int i = 0; i < DISK_LEN; i++)
		disk[i] = (uint8_t)(1 + i % 163);
}

/* ---- the model: requests ---- */

static struct asked *find_asked(uint64_t cookie)
{
	for (unsigned int i = 0; i < it.asked_cnt; i++) {
		if (it.asked[i].cookie == cookie)
			return it.asked[i].is_answered ? NULL : &it.asked[i];
	}
	return NULL;
}

static void request_came(void)
{
	struct asked *a = &it.asked[it.asked_cnt];

	FUZZ_CLAIM(wire_get32(it.head) == 0x25609513u);
	*a = (struct asked){
		.cookie = wire_get64(it.head + 8),
		.flags = wire_get16(it.head + 4),
		.type = wire_get16(it.head + 6),
		.offset = wire_get64(it.head + 16),
		.len = wire_get32(it.head + 24),
	};
	for (unsigned int i = 0; i < it.asked_cnt; i++)
		FUZZ_CLAIM(it.asked[i].cookie != a->cookie);
	FUZZ_CLAIM(a->offset + a->len <= DISK_LEN);
	FUZZ_CLAIM(a->type > CMD_WRITE || a->len <= PIECE_MAX);
	FUZZ_CLAIM((a->type == CMD_FLUSH) == !a->len);
	it.asked_cnt++;
}

static bool is_write_sent(void)
{
	return it.head_len == sizeof(it.head) &&
	       wire_get16(it.head + 6) == CMD_WRITE;
}

/* Takes a part of a request, at most @len bytes. Returns how many. */
static size_t server_take(const uint8_t *b, size_t len)
{
	size_t left = sizeof(it.head) - it.head_len;

	if (left) {
		len = len < left ? len : left;
		memcpy(it.head + it.head_len, b, len);
		it.head_len += len;
		it.data_len = is_write_sent() ? wire_get32(it.head + 24) : 0;
	} else {
		uint64_t end =
			wire_get64(it.head + 16) + wire_get32(it.head + 24);

		len = len < it.data_len ? len : it.data_len;
		FUZZ_CLAIM(!memcmp(b, disk + end - it.data_len, len));
		it.data_len -= (uint32_t)len;
	}
	if (it.head_len == sizeof(it.head) && !it.data_len) {
		request_came();
		it.head_len = 0;
	}
	return len;
}

/* ---- the model: answers ---- */

static uint32_t chunk_hole_len(uint16_t type, const uint8_t *body,
			       uint32_t total)
{
	return type == 2 && total == 12 ? wire_get32(body + 8) : 0;
}

/* Does a chunk fit @a? Counts its data. */
static bool chunk_fits(struct asked *a, uint16_t type, bool ends,
		       const uint8_t *body, uint32_t total)
{
	uint64_t len = type == 1 && total > 8
			       ? total - 8
			       : chunk_hole_len(type, body, total);
	uint64_t at;

	if (type & 0x8000) {
		a->has_failed = true;
		return total >= 4;
	}
	if (type == 0)
		return ends && total == 0;
	if (type == 5)
		return a->type == CMD_EXTENT && total >= 12;
	if (!len || a->type != CMD_READ)
		return false;
	at = wire_get64(body);
	a->got += len;
	return at >= a->offset && at - a->offset <= a->len &&
	       len <= a->len - (at - a->offset) && a->got <= a->len;
}

/* Returns the length of the message, and 0 if it has not all come. */
static size_t model_chunk(const uint8_t *b, size_t len)
{
	struct asked *a = find_asked(wire_get64(b + 8));
	uint16_t type = wire_get16(b + 6);
	uint32_t total = wire_get32(b + 16);
	bool ends = b[5] & 1;

	if (total > len - 20)
		return 0;
	if (!a || !it.has_structured ||
	    !chunk_fits(a, type, ends, b + 20, total)) {
		it.must_end = true;
		return 0;
	}
	a->is_answered = ends;
	return 20 + (size_t)total;
}

static size_t model_simple(const uint8_t *b, size_t len)
{
	struct asked *a = find_asked(wire_get64(b + 8));
	size_t data_len = 0;

	if (!a ||
	    (a->type == CMD_READ && !wire_get32(b + 4) && it.has_structured)) {
		it.must_end = true;
		return 0;
	}
	if (a->type == CMD_READ && !wire_get32(b + 4))
		data_len = a->len;
	if (data_len > len - 16)
		return 0;
	a->has_failed |= wire_get32(b + 4) != 0;
	a->is_answered = true;
	return 16 + data_len;
}

static size_t model_message(const uint8_t *b, size_t len)
{
	if (len < 16)
		return 0;
	if (wire_get32(b) == 0x67446698u)
		return model_simple(b, len);
	if (wire_get32(b) == 0x668e33efu)
		return len < 20 ? 0 : model_chunk(b, len);
	it.must_end = true;
	return 0;
}

static void model_read(void)
{
	size_t len;

	do {
		len = it.must_end ? 0
				  : model_message(it.stream + it.read_at,
						  it.at - it.read_at);
		it.read_at += len;
	} while (len);
}

/* ---- the socket ---- */

ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags);
ssize_t __wrap_recvmsg(int fd, struct msghdr *msg, int flags)
{
	size_t left = it.len - it.at < it.part ? it.len - it.at : it.part;
	size_t begin = it.at;

	FUZZ_CLAIM(fd == SOCKET && it.is_open && (flags & MSG_DONTWAIT));
	errno = it.recv_err ? it.recv_err : EAGAIN;
	it.recv_err = 0;
	if (errno != EAGAIN || !left)
		return errno == EAGAIN && it.is_closed ? 0 : -1;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		size_t n = msg->msg_iov[i].iov_len;

		if (n > left - (it.at - begin))
			n = left - (it.at - begin);
		memcpy(msg->msg_iov[i].iov_base, it.stream + it.at, n);
		it.at += n;
	}
	model_read();
	return (ssize_t)(it.at - begin);
}

ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags);
ssize_t __wrap_sendmsg(int fd, const struct msghdr *msg, int flags)
{
	ssize_t sent = 0;

	FUZZ_CLAIM(fd == SOCKET && it.is_open);
	FUZZ_CLAIM(flags & MSG_DONTWAIT && flags & MSG_NOSIGNAL);
	errno = it.send_err ? it.send_err : EAGAIN;
	it.send_err = 0;
	if (errno != EAGAIN || !it.room || it.asked_cnt + IO_MAX > ASKED_MAX)
		return -1;
	for (size_t i = 0; i < msg->msg_iovlen; i++) {
		const uint8_t *b = msg->msg_iov[i].iov_base;
		size_t left = msg->msg_iov[i].iov_len;

		while (left && it.room) {
			size_t len =
				server_take(b, left < it.room ? left : it.room);

			b += len;
			left -= len;
			it.room -= len;
			sent += (ssize_t)len;
		}
	}
	return sent;
}

int __wrap_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how)
{
	FUZZ_CLAIM(fd == SOCKET && it.is_open);
	it.is_closed = true;
	return 0;
}

/* ---- libnbd, which has made the connection ---- */

int nbd_get_tls_negotiated(struct nbd_handle *h)
{
	return 0;
}

int nbd_get_structured_replies_negotiated(struct nbd_handle *h)
{
	return it.has_structured;
}

int nbd_aio_get_fd(struct nbd_handle *h)
{
	FUZZ_CLAIM(it.is_open);
	return SOCKET;
}

int64_t nbd_get_size(struct nbd_handle *h)
{
	return DISK_LEN;
}

int64_t nbd_get_block_size(struct nbd_handle *h, int which)
{
	return BLOCK;
}

int nbd_can_multi_conn(struct nbd_handle *h)
{
	return 1;
}

const char *nbd_get_error(void)
{
	return NULL;
}

void nbd_close(struct nbd_handle *h)
{
	FUZZ_CLAIM(h == &it.handle && it.is_open);
	it.is_open = false;
}

int nbd_aio_disconnect(struct nbd_handle *h, uint32_t flags)
{
	return 0;
}

static void fuzz_not_called(const char *name)
{
	dprintf(fuzz_stderr, "%s is called\n", name);
	abort();
}

/* Without TLS, these are not called. */
#define FUZZ_NOT_CALLED(type, name, ...) \
	type name(__VA_ARGS__)           \
	{                                \
		fuzz_not_called(#name);  \
		return 0;                \
	}

FUZZ_NOT_CALLED(int64_t, nbd_aio_pread_structured, struct nbd_handle *h,
		void *buf, size_t count, uint64_t offset,
		nbd_chunk_callback chunk, nbd_completion_callback completion,
		uint32_t flags)
FUZZ_NOT_CALLED(int64_t, nbd_aio_pwrite, struct nbd_handle *h, const void *buf,
		size_t count, uint64_t offset,
		nbd_completion_callback completion, uint32_t flags)
FUZZ_NOT_CALLED(int64_t, nbd_aio_flush, struct nbd_handle *h,
		nbd_completion_callback completion, uint32_t flags)
FUZZ_NOT_CALLED(int64_t, nbd_aio_trim, struct nbd_handle *h, uint64_t count,
		uint64_t offset, nbd_completion_callback completion,
		uint32_t flags)
FUZZ_NOT_CALLED(int64_t, nbd_aio_zero, struct nbd_handle *h, uint64_t count,
		uint64_t offset, nbd_completion_callback completion,
		uint32_t flags)
FUZZ_NOT_CALLED(int64_t, nbd_aio_block_status, struct nbd_handle *h,
		uint64_t count, uint64_t offset, nbd_extent_callback extent,
		nbd_completion_callback completion, uint32_t flags)
FUZZ_NOT_CALLED(unsigned int, nbd_aio_get_direction, struct nbd_handle *h)
FUZZ_NOT_CALLED(int, nbd_aio_is_ready, struct nbd_handle *h)
FUZZ_NOT_CALLED(int, nbd_aio_is_processing, struct nbd_handle *h)
FUZZ_NOT_CALLED(int, nbd_aio_notify_read, struct nbd_handle *h)
FUZZ_NOT_CALLED(int, nbd_aio_notify_write, struct nbd_handle *h)
FUZZ_NOT_CALLED(int, nbd_get_errno, void)

/* ---- link.c ---- */

static struct nbd_handle *connect_now(void)
{
	FUZZ_CLAIM(!it.is_open);
	it.handle.number++;
	it.is_open = true;
	it.is_closed = it.must_end = false;
	it.recv_err = it.send_err = 0;
	it.len = it.at = it.read_at = 0;
	it.head_len = it.data_len = 0;
	it.asked_cnt = 0;
	return &it.handle;
}

struct nbd_handle *nbdlink_connect(struct nbdvol *vol, char *msg,
				   size_t msg_len)
{
	return connect_now();
}

struct nbd_handle *nbdlink_connect_again(struct nbdvol *vol, char *msg,
					 size_t msg_len)
{
	fuzz_not_called("there is one queue");
	return NULL;
}

uint64_t nbdlink_min(struct nbd_handle *h)
{
	return BLOCK;
}

uint64_t nbdlink_max(struct nbd_handle *h)
{
	return PIECE_MAX;
}

uint32_t nbdlink_caps(struct nbd_handle *h)
{
	return RBP_CAN_FLUSH | RBP_WRITE_CACHE | RBP_CAN_WRITE | RBP_CAN_FUA |
	       RBP_CAN_UNMAP | RBP_CAN_ZERO | RBP_CAN_EXTENT;
}

uint64_t nbdlink_now_ms(void)
{
	return it.now_ms;
}

void nbdlink_open(struct nbdvol *vol)
{
	pthread_mutex_init(&vol->lock, NULL);
}

void nbdlink_close(struct nbdvol *vol)
{
	pthread_mutex_destroy(&vol->lock);
}

int nbdlink_ask(struct nbdconn *c)
{
	c->wants_link = true;
	it.wants = c;
	return 0;
}

void nbdqueue_wake(const struct nbdqueue *q)
{
}

/* ---- the host ---- */

static void submit(void);

static struct asked *find_last_answer(const struct rbp_io *io)
{
	static const uint16_t types[] = {
		[RBP_READ] = CMD_READ,	 [RBP_WRITE] = CMD_WRITE,
		[RBP_FLUSH] = CMD_FLUSH, [RBP_UNMAP] = CMD_TRIM,
		[RBP_ZERO] = CMD_ZERO,	 [RBP_EXTENT] = CMD_EXTENT,
	};
	bool changes = io->op == RBP_WRITE || io->op == RBP_ZERO;
	uint16_t fua = changes && io->flags & RBP_FUA;

	for (unsigned int i = 0; i < it.asked_cnt; i++) {
		struct asked *a = &it.asked[i];

		if (a->is_answered && !a->has_failed && !a->is_used &&
		    a->type == types[io->op] && (a->flags & 1) == fua &&
		    a->offset + a->len == io->offset + io->len)
			return a;
	}
	return NULL;
}

static void check_flush(const struct request *r)
{
	for (unsigned int i = 0; i < r->writes; i++) {
		FUZZ_CLAIM(!it.writes[i] || it.writes[i] == it.handle.number);
		it.writes[i] = 0;
	}
}

static void check_success(const struct request *r)
{
	const struct rbp_io *io = &r->io;
	struct asked *a = find_last_answer(io);
	FUZZ_CLAIM(a);
	a->is_used = true;
	if (io->op == RBP_READ)
		FUZZ_CLAIM(!memchr(io->buf, UNREAD, io->len));
	if (io->op == RBP_EXTENT)
		FUZZ_CLAIM(io->extent_len && io->extent_len <= io->len &&
			   io->extent_len % BLOCK == 0);
	if (io->op == RBP_FLUSH)
		check_flush(r);
	else if (io->op != RBP_READ && io->op != RBP_EXTENT)
		it.writes[it.write_cnt++] =
			io->flags & RBP_FUA ? 0 : it.handle.number;
}

static void host_done(struct rbp_io *io, int res)
{
	struct request *r = (struct request *)(void *)io;

	FUZZ_CLAIM(it.in_flight && res <= 0 && io->progress <= io->len);
	it.in_flight--;
	if (!res)
		check_success(r);
	free(io->scratch);
	free(io->buf);
	free(r);
	if (it.submits_more)
		submit();
}

static void host_log(struct rbp_vol *vol, enum rbp_log_level level,
		     const char *fmt, ...)
{
}

static void host_resized(struct rbp_vol *vol)
{
}

static struct rbp_watch *
host_watch_add(struct rbp_queue *queue, int fd, uint32_t events,
	       void (*ready)(void *user, uint32_t events), void *user)
{
	struct rbp_watch *w = it.watches;

	while (w->is_used)
		w++;
	FUZZ_CLAIM(w < it.watches + WATCH_MAX);
	*w = (struct rbp_watch){ true, fd, events, ready, user };
	return w;
}

static void host_watch_set(struct rbp_watch *watch, uint32_t events)
{
	watch->events = events;
}

static void host_watch_del(struct rbp_watch *watch)
{
	watch->is_used = false;
}

static struct rbp_timer *host_timer_add(struct rbp_queue *queue,
					void (*fire)(void *user), void *user)
{
	struct rbp_timer *t = it.timers;

	while (t->is_used)
		t++;
	FUZZ_CLAIM(t < it.timers + TIMER_MAX);
	*t = (struct rbp_timer){ .is_used = true, .fire = fire, .user = user };
	return t;
}

static void host_timer_set(struct rbp_timer *timer, uint64_t delay_ms)
{
	timer->is_set = true;
}

static void host_timer_stop(struct rbp_timer *timer)
{
	timer->is_set = false;
}

static void host_timer_del(struct rbp_timer *timer)
{
	timer->is_used = timer->is_set = false;
}

/* ---- events ---- */

/* @which: the socket, or the other descriptor. */
static void event(bool which, uint32_t events)
{
	for (unsigned int i = 0; i < WATCH_MAX; i++) {
		struct rbp_watch *w = &it.watches[i];

		if (w->is_used && (w->fd == SOCKET) == which) {
			w->ready(w->user, events);
			break;
		}
	}
	FUZZ_CLAIM(!it.must_end || !it.is_open);
}

static void fire_timers(void)
{
	for (unsigned int i = 0; i < TIMER_MAX; i++) {
		if (!it.timers[i].is_set)
			continue;
		it.timers[i].is_set = false;
		it.timers[i].fire(it.timers[i].user);
	}
}

/* The store counts ticks that are not late. */
static void let_wait_end(void)
{
	for (unsigned int i = 0; i < WAIT_S; i++) {
		it.now_ms += 1000;
		fire_timers();
	}
}

static void link_again(void)
{
	struct nbdconn *c = it.wants;

	if (!c)
		return;
	it.wants = NULL;
	c->wants_link = false;
	c->fresh = connect_now();
	nbdvol_begin_life(c->vol);
	event(/* which= */ false, RBP_READABLE);
}

static void submit(void)
{
	static const enum rbp_op ops[] = { RBP_READ,  RBP_WRITE, RBP_FLUSH,
					   RBP_UNMAP, RBP_ZERO,	 RBP_EXTENT,
					   RBP_READ,  RBP_READ };
	uint8_t how = fuzz_u8(&it.in);
	enum rbp_op op = ops[how & 7];
	uint64_t offset = (uint64_t)(fuzz_u8(&it.in) % 64) * BLOCK;
	uint64_t len = (1 + (uint64_t)fuzz_u8(&it.in) % 7) * BLOCK;
	struct request *r;

	if (it.submitted == IO_MAX)
		return;
	it.submitted++;
	it.in_flight++;
	r = calloc(1, sizeof(*r));
	FUZZ_CLAIM(r);
	r->writes = it.write_cnt;
	r->io = (struct rbp_io){ .op = op,
				 .flags = how >> 6,
				 .offset = op == RBP_FLUSH ? 0 : offset,
				 .len = op == RBP_FLUSH ? 0 : len,
				 .queue = &it.queue,
				 .queue_data = it.queue.data };
	if (op == RBP_UNMAP)
		r->io.flags = 0;
	r->io.scratch = malloc(plugin->scratch_len);
	if (op == RBP_READ || op == RBP_WRITE)
		r->io.buf = malloc(len);
	if (op == RBP_READ)
		memset(r->io.buf, UNREAD, len);
	if (op == RBP_WRITE)
		memcpy(r->io.buf, disk + offset, len);
	plugin->submit(it.volume, &r->io);
}

/* ---- the server ---- */

static void say(const void *buf, size_t len)
{
	uint8_t *end = it.stream + it.len + len;
	uint8_t *b;

	if (it.is_closed || len > STREAM_MAX - it.len)
		return;
	memcpy(it.stream + it.len, buf, len);
	/* A header, too, may be taken for data. */
	for (b = it.stream + it.len; (b = memchr(b, UNREAD, end - b));)
		*b = 1;
	it.len += len;
}

/* The offset may be any. */
static void say_data(uint64_t offset, uint32_t len)
{
	offset %= DISK_LEN / 2;
	if (len < DISK_LEN / 2)
		say(disk + offset, len);
}

static void say_bytes(void)
{
	uint8_t b[255];
	size_t len = fuzz_u8(&it.in);

	if (len > it.in.left)
		len = it.in.left;
	fuzz_take(&it.in, b, len);
	say(b, len);
}

/* Any request that has come, or one that nobody has made. */
static struct asked choose(void)
{
	uint8_t i = fuzz_u8(&it.in);

	if (i < it.asked_cnt)
		return it.asked[it.asked_cnt - 1 - i];
	return (struct asked){ .cookie = i, .len = BLOCK };
}

static void say_simple(const struct asked *a, uint32_t error)
{
	uint8_t b[16];

	wire_put32(b, 0x67446698u);
	wire_put32(b + 4, error);
	wire_put64(b + 8, a->cookie);
	say(b, sizeof(b));
}

static void say_chunk(const struct asked *a, uint16_t type, bool ends,
		      uint32_t total)
{
	uint8_t b[20];

	wire_put32(b, 0x668e33efu);
	wire_put16(b + 4, ends);
	wire_put16(b + 6, type);
	wire_put64(b + 8, a->cookie);
	wire_put32(b + 16, total);
	say(b, sizeof(b));
}

static void say_offset(uint64_t offset)
{
	uint8_t b[8];

	wire_put64(b, offset);
	say(b, sizeof(b));
}

static void say_words(const uint32_t *words, unsigned int cnt)
{
	uint8_t b[4];

	for (unsigned int i = 0; i < cnt; i++) {
		wire_put32(b, words[i]);
		say(b, sizeof(b));
	}
}

static void answer_simple(void)
{
	struct asked a = choose();
	uint8_t error = fuzz_u8(&it.in);

	say_simple(&a, error);
	if (a.type == CMD_READ && !error)
		say_data(a.offset, a.len);
}

/* Some part of the data, at some place. */
static void answer_part(const struct asked *a, uint8_t how)
{
	uint64_t offset = a->offset + fuzz_u8(&it.in) * 256u;
	uint32_t len = fuzz_u8(&it.in) * 256u;

	if (how & 0x10)
		offset -= BLOCK;
	/* Up to the end of the range, or a bit further. */
	if (how & 0x20 && offset - a->offset <= a->len)
		len = a->len - (uint32_t)(offset - a->offset) +
		      (how >> 6) * 256;
	say_chunk(a, how & 8 ? 2 : 1, how & 1, how & 8 ? 12 : 8 + len);
	say_offset(offset);
	if (how & 8)
		say_words(&len, 1);
	else
		say_data(offset, len);
}

static void answer_chunk(void)
{
	struct asked a = choose();
	uint8_t how = fuzz_u8(&it.in);
	uint32_t words[] = { 1, fuzz_u8(&it.in) * 256u, fuzz_u8(&it.in),
			     fuzz_u16(&it.in) };

	switch (how >> 1 & 3) {
	case 0:
		answer_part(&a, how);
		break;
	case 1: /* an error, maybe without its text */
		say_chunk(&a, 0x8001, how & 1, 6);
		say_words(&words[2], 1);
		say_words(words, how >> 7);
		break;
	case 2:
		say_chunk(&a, 5, how & 1, how & 0x80 ? 12 : 16);
		say_words(words, how & 0x80 ? 3 : 4);
		break;
	case 3:
		say_chunk(&a, words[2] & 7, how & 1, how & 0x80 ? words[3] : 0);
		break;
	}
}

/* As a good server does it, from both ends if the data is long. */
static void answer_well(void)
{
	struct asked a = choose();
	const uint32_t words[] = { 1, a.len, 3 };
	uint32_t half = a.len > BLOCK ? BLOCK : 0;

	if (it.has_structured && a.type == CMD_READ && half) {
		say_chunk(&a, 1, false, 8 + a.len - half);
		say_offset(a.offset + half);
		say_data(a.offset + half, a.len - half);
	}
	if (it.has_structured && a.type == CMD_READ) {
		half = half ? half : a.len;
		say_chunk(&a, 1, true, 8 + half);
		say_offset(a.offset);
		say_data(a.offset, half);
	} else if (it.has_structured && a.type == CMD_EXTENT) {
		say_chunk(&a, 5, true, 12);
		say_words(words, 3);
	} else {
		say_simple(&a, 0);
		if (a.type == CMD_READ)
			say_data(a.offset, a.len);
	}
}

/* ---- one input ---- */

static void receive(void)
{
	uint8_t part = fuzz_u8(&it.in);

	it.part = part & 0x80 ? STREAM_MAX : part;
	event(/* which= */ true, RBP_READABLE);
}

static void give_room(void)
{
	it.room += fuzz_u16(&it.in);
	event(/* which= */ true, RBP_WRITABLE);
}

static void step(void)
{
	static const int errors[] = { EINTR, EAGAIN, ECONNRESET, EPIPE };
	uint8_t how = fuzz_u8(&it.in);

	switch (how & 15) {
	case 0:
	case 1:
		submit();
		break;
	case 2:
		plugin->kick(it.volume, it.queue.data);
		break;
	case 3:
	case 4:
		receive();
		break;
	case 5:
		give_room();
		break;
	case 6:
		say_bytes();
		break;
	case 7:
		answer_simple();
		break;
	case 8:
	case 9:
		answer_chunk();
		break;
	case 10:
	case 11:
		answer_well();
		break;
	case 12:
		it.recv_err = errors[how >> 4 & 3];
		it.send_err = errors[how >> 6];
		break;
	case 13:
		it.is_closed |= how >> 4 & 1;
		it.now_ms += 100u * (how >> 4);
		break;
	case 14:
		link_again();
		break;
	case 15:
		if (how >> 4 & 1)
			let_wait_end();
		else
			fire_timers();
		break;
	}
	FUZZ_CLAIM(!it.must_end || !it.is_open);
}

static void begin(void)
{
	static const struct rbp_host host = {
		.size = sizeof(host),
		.done = host_done,
		.log = host_log,
		.resized = host_resized,
		.watch_add = host_watch_add,
		.watch_set = host_watch_set,
		.watch_del = host_watch_del,
		.timer_add = host_timer_add,
		.timer_set = host_timer_set,
		.timer_stop = host_timer_stop,
		.timer_del = host_timer_del,
	};
	static const struct rbp_arg args[] = {
		{ "wait", NULL, WAIT_S },
		{ "timeout", NULL, 60 },
		{ NULL, NULL, 0 },
	};
	struct rbp_info info = { .size = sizeof(info) };
	char msg[256];

	if (!plugin)
		fill_disk();
	plugin = rdma_block_plugin_1(&host);
	FUZZ_CLAIM(!plugin->open(NULL, "//host", args, &it.volume, &info, msg,
				 sizeof(msg)));
	FUZZ_CLAIM(!plugin->queue_add(it.volume, &it.queue, &it.queue.data));
	event(/* which= */ false, RBP_READABLE);
}

/* The server goes for ever. All I/O must end. */
static void finish(void)
{
	unsigned int events = 0;

	it.submits_more = false;
	it.is_closed = true;
	it.part = STREAM_MAX;
	while (it.is_open && it.in_flight) {
		event(/* which= */ true, RBP_READABLE | RBP_HUNG_UP);
		FUZZ_CLAIM(events++ < EVENTS_MAX);
	}
	let_wait_end();
	FUZZ_CLAIM(!it.in_flight);
	plugin->queue_del(it.queue.data);
	plugin->close(it.volume);
	FUZZ_CLAIM(!it.is_open);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t how;

	memset(&it, 0, offsetof(__typeof__(it), stream));
	it.write_cnt = 0;
	it.in = fuzz_input(data, size);
	how = fuzz_u8(&it.in);
	it.has_structured = how & 1;
	it.submits_more = how & 2;
	it.room = how & 4 ? 0 : SIZE_MAX / 2;
	it.now_ms = 1;
	begin();
	while (it.in.left)
		step();
	finish();
	return 0;
}
