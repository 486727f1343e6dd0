/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store nbd, with a server that the test plays: it speaks the protocol on a
 * socket, offers what a test asks for, and gives odd answers. Timers fire when the
 * test wants it, and the linker replaces the store's clock_gettime().
 */
#include "tests/lib/t_host.h"

#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#include <endian.h>
#include <errno.h>
#include <linux/sockios.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define DISK_LEN (1u << 20)
#define PEER_MAX 16
#define TEXT_LEN 4096
#define NS_PER_S 1000000000

/* ---- the protocol ---- */

#define NBD_MAGIC	0x4e42444d41474943ull
#define NBD_OPTION	0x49484156454f5054ull
#define NBD_OPTION_REP	0x0003e889045565a9ull
#define NBD_REQUEST	0x25609513u
#define NBD_SIMPLE	0x67446698u
#define NBD_STRUCTURED	0x668e33efu
#define NBD_REP_ACK	1u
#define NBD_REP_INFO	3u
#define NBD_REP_META	4u
#define NBD_REP_UNSUP	0x80000001u
#define NBD_REP_UNKNOWN 0x80000006u

enum {
	OPT_ABORT = 2,
	OPT_GO = 7,
	OPT_STRUCTURED = 8,
	OPT_META = 10,
};

enum {
	HAS_FLAGS = 1 << 0,
	READ_ONLY = 1 << 1,
	FLUSH = 1 << 2,
	FUA = 1 << 3,
	ROTATIONAL = 1 << 4,
	TRIM = 1 << 5,
	ZEROES = 1 << 6,
	MULTI_CONN = 1 << 8,
	USUAL = HAS_FLAGS | FLUSH | FUA | TRIM | ZEROES,
};

enum {
	CMD_READ,
	CMD_WRITE,
	CMD_DISCONNECT,
	CMD_FLUSH,
	CMD_TRIM,
	CMD_EXTENT = 7,
	CMD_ZERO = 6,
};

enum {
	CMD_FUA = 1 << 0,
	CMD_NO_HOLE = 1 << 1,
};

enum {
	CHUNK_DONE = 1, /* a flag */
	CHUNK_NONE = 0,
	CHUNK_DATA = 1,
	CHUNK_HOLE = 2,
	CHUNK_EXTENTS = 5,
	CHUNK_ERROR = 0x8001,
};

/* Packed by hand: no member needs padding. */
struct request_wire {
	uint32_t magic;
	uint16_t flags;
	uint16_t type;
	uint64_t cookie;
	uint64_t offset;
	uint32_t len;
} __attribute__((packed));

struct chunk_wire {
	uint32_t magic;
	uint16_t flags;
	uint16_t type;
	uint64_t cookie;
	uint32_t len;
} __attribute__((packed));

struct simple_wire {
	uint32_t magic;
	uint32_t error;
	uint64_t cookie;
} __attribute__((packed));

/* ---- the server ---- */

struct export
{
	uint64_t size;
	uint16_t flags;
	/* Block sizes, bytes; min 0: it names none. */
	uint32_t min, preferred, max;
	bool is_plain;	   /* it has no structured replies */
	bool has_no_map;   /* it has no base:allocation */
	bool is_unknown;   /* it refuses the export */
	bool is_no_server; /* it speaks another protocol */
};

enum answer {
	ANSWER_USUAL,
	ANSWER_ERROR,	/* value: an errno */
	ANSWER_CLOSE,	/* it closes the connection */
	ANSWER_NONE,	/* it never answers */
	ANSWER_HOLD,	/* it answers after server_let_go() */
	ANSWER_SHORT,	/* READ: half of the data, and no more */
	ANSWER_COOKIE,	/* to a request that nobody made */
	ANSWER_EMPTY,	/* no data, and no error */
	ANSWER_SPARSE,	/* READ: half of the data, and a hole */
	ANSWER_BEFORE,	/* READ: also data from before the range */
	ANSWER_AFTER,	/* READ: also data from after it */
	ANSWER_HOLE,	/* READ: a hole that is longer than the range */
	ANSWER_LONG,	/* READ: more data than the range has */
	ANSWER_NOISE,	/* bytes that begin no answer */
	ANSWER_TWICE,	/* READ: the first half of the data, twice */
	ANSWER_AGAIN,	/* READ: all of the data, twice */
	ANSWER_ENDLESS, /* a chunk without data that is not the last one */
};

/* The next requests of a type get another answer: cnt of them, after skip. */
struct odd {
	enum answer answer;
	uint16_t type;
	unsigned int skip;
	unsigned int cnt;
	uint32_t value;
};

struct peer {
	int fd;
	pthread_t thread;
	bool is_plain;
};

static struct {
	struct sockaddr_un addr;
	int listen_fd;
	pthread_t thread;
	struct peer peers[PEER_MAX];
	atomic_uint peer_cnt;
	/* guarded by the lock */
	pthread_mutex_t lock;
	pthread_cond_t released;
	bool holds;
	unsigned int greets; /* peers that it answers; others wait. 0: all */
	struct export export;
	struct odd odd;
	size_t step;	     /* sends so many bytes at once; 0: all */
	uint32_t extents[4]; /* lengths and flags */
	unsigned int extent_cnt;
	char log[TEXT_LEN]; /* "W512@0! F R512@0" */
	uint8_t disk[DISK_LEN];
} server = {
	.lock = PTHREAD_MUTEX_INITIALIZER,
	.released = PTHREAD_COND_INITIALIZER,
};

static bool read_all(int fd, void *buf, size_t len)
{
	return len == 0 || recv(fd, buf, len, MSG_WAITALL) == (ssize_t)len;
}

/* Until the store has read all that was sent. */
static void await_reader(int fd)
{
	int left = 0;

	while (!ioctl(fd, SIOCOUTQ, &left) && left)
		sched_yield();
}

static void send_all(int fd, const void *buf, size_t len)
{
	const uint8_t *b = buf;
	size_t step = server.step ? server.step : len;

	/* If it fails, the next read fails too. */
	for (size_t at = 0; at < len; at += step) {
		if (server.step)
			await_reader(fd);
		(void)!send(fd, b + at, len - at < step ? len - at : step,
			    MSG_NOSIGNAL);
	}
}

static void reply_option(int fd, uint32_t option, uint32_t type,
			 const void *data, uint32_t len)
{
	uint8_t buf[64];
	uint64_t magic = htobe64(NBD_OPTION_REP);
	uint32_t words[] = { htobe32(option), htobe32(type), htobe32(len) };

	memcpy(buf, &magic, 8);
	memcpy(buf + 8, words, sizeof(words));
	if (len)
		memcpy(buf + 20, data, len);
	send_all(fd, buf, 20 + len);
}

static void reply_go(int fd, const struct export *x)
{
	uint8_t info[14];
	uint16_t type = htobe16(0);
	uint64_t size = htobe64(x->size);
	uint16_t flags = htobe16(x->flags);
	uint32_t sizes[] = { htobe32(x->min), htobe32(x->preferred),
			     htobe32(x->max) };

	memcpy(info, &type, 2);
	memcpy(info + 2, &size, 8);
	memcpy(info + 10, &flags, 2);
	reply_option(fd, OPT_GO, NBD_REP_INFO, info, 12);
	if (x->min) {
		type = htobe16(3);
		memcpy(info, &type, 2);
		memcpy(info + 2, sizes, sizeof(sizes));
		reply_option(fd, OPT_GO, NBD_REP_INFO, info, 14);
	}
	reply_option(fd, OPT_GO, NBD_REP_ACK, NULL, 0);
}

static void reply_meta(int fd)
{
	static const char context[] = "\0\0\0\1base:allocation";

	reply_option(fd, OPT_META, NBD_REP_META, context, sizeof(context) - 1);
	reply_option(fd, OPT_META, NBD_REP_ACK, NULL, 0);
}

/* True: the requests begin. */
static bool answer_option(struct peer *p, const struct export *x,
			  uint32_t option)
{
	switch (option) {
	case OPT_GO:
		if (!x->is_unknown)
			reply_go(p->fd, x);
		else
			reply_option(p->fd, option, NBD_REP_UNKNOWN, NULL, 0);
		return !x->is_unknown;
	case OPT_STRUCTURED:
		p->is_plain = x->is_plain;
		reply_option(p->fd, option,
			     x->is_plain ? NBD_REP_UNSUP : NBD_REP_ACK, NULL,
			     0);
		return false;
	case OPT_META:
		if (!x->has_no_map)
			reply_meta(p->fd);
		else
			reply_option(p->fd, option, NBD_REP_ACK, NULL, 0);
		return false;
	default:
		reply_option(p->fd, option, NBD_REP_UNSUP, NULL, 0);
		return false;
	}
}

static bool shake_hands(struct peer *p, const struct export *x)
{
	uint64_t hello[] = { htobe64(NBD_MAGIC), htobe64(NBD_OPTION) };
	uint16_t flags = htobe16(3);
	uint32_t client_flags;
	struct {
		uint64_t magic;
		uint32_t option;
		uint32_t len;
	} head;
	char data[1024];

	p->is_plain = true;
	if (x->is_no_server)
		hello[0] = htobe64(0x5353482d322e302dull);
	send_all(p->fd, hello, sizeof(hello));
	send_all(p->fd, &flags, sizeof(flags));
	if (!read_all(p->fd, &client_flags, sizeof(client_flags)))
		return false;
	while (read_all(p->fd, &head, sizeof(head)) &&
	       be32toh(head.len) <= sizeof(data) &&
	       read_all(p->fd, data, be32toh(head.len))) {
		if (answer_option(p, x, be32toh(head.option)))
			return true;
		if (be32toh(head.option) == OPT_ABORT)
			return false;
	}
	return false;
}

static void reply_simple(const struct peer *p, uint64_t cookie, uint32_t error)
{
	struct simple_wire w = { htobe32(NBD_SIMPLE), htobe32(error), cookie };

	send_all(p->fd, &w, sizeof(w));
}

static void send_chunk(const struct peer *p, uint16_t flags, uint64_t cookie,
		       uint16_t type, const void *head, uint32_t head_len,
		       const void *data, uint32_t len)
{
	struct chunk_wire w = { htobe32(NBD_STRUCTURED), htobe16(flags),
				htobe16(type), cookie,
				htobe32(head_len + len) };

	send_all(p->fd, &w, sizeof(w));
	if (head_len)
		send_all(p->fd, head, head_len);
	if (len)
		send_all(p->fd, data, len);
}

/* One chunk is all of the reply. */
static void reply_chunk(const struct peer *p, uint64_t cookie, uint16_t type,
			const void *head, uint32_t head_len, const void *data,
			uint32_t len)
{
	send_chunk(p, CHUNK_DONE, cookie, type, head, head_len, data, len);
}

static void reply_error(const struct peer *p, uint64_t cookie, uint32_t error)
{
	uint8_t buf[6] = { 0 };
	uint32_t e = htobe32(error);

	memcpy(buf, &e, 4);
	if (p->is_plain)
		reply_simple(p, cookie, error);
	else
		reply_chunk(p, cookie, CHUNK_ERROR, buf, sizeof(buf), NULL, 0);
}

static void reply_data(const struct peer *p, const struct request_wire *r,
		       uint32_t len)
{
	uint64_t offset = htobe64(r->offset);

	if (p->is_plain) {
		reply_simple(p, r->cookie, 0);
		send_all(p->fd, server.disk + r->offset, len);
	} else {
		reply_chunk(p, r->cookie, CHUNK_DATA, &offset, 8,
			    server.disk + r->offset, len);
	}
}

/* The second half is a hole. */
static void reply_sparse(const struct peer *p, const struct request_wire *r)
{
	uint32_t half = r->len / 2;
	uint64_t offset = htobe64(r->offset);
	uint64_t hole_offset = htobe64(r->offset + half);
	uint32_t hole_len = htobe32(half);

	send_chunk(p, 0, r->cookie, CHUNK_DATA, &offset, 8,
		   server.disk + r->offset, half);
	send_chunk(p, CHUNK_DONE, r->cookie, CHUNK_HOLE, &hole_offset, 8,
		   &hole_len, 4);
}

/* Data at the begin of the range, @len bytes of it, in two chunks. */
static void reply_twice(const struct peer *p, const struct request_wire *r,
			uint32_t len)
{
	uint64_t offset = htobe64(r->offset);

	send_chunk(p, 0, r->cookie, CHUNK_DATA, &offset, 8,
		   server.disk + r->offset, len);
	send_chunk(p, CHUNK_DONE, r->cookie, CHUNK_DATA, &offset, 8,
		   server.disk + r->offset, len);
}

/* A chunk that is not within the range. */
static void reply_outside(const struct peer *p, const struct request_wire *r,
			  enum answer answer)
{
	uint64_t offset = htobe64(answer == ANSWER_BEFORE ? r->offset - 512
							  : r->offset + 512);
	uint64_t begin = htobe64(r->offset);
	uint32_t hole_len = htobe32(r->len + 1);

	if (answer == ANSWER_HOLE)
		reply_chunk(p, r->cookie, CHUNK_HOLE, &begin, 8, &hole_len, 4);
	else if (answer == ANSWER_LONG)
		reply_chunk(p, r->cookie, CHUNK_DATA, &begin, 8, server.disk,
			    r->len + 512);
	else
		reply_chunk(p, r->cookie, CHUNK_DATA, &offset, 8, server.disk,
			    r->len);
}

static void reply_extents(const struct peer *p, uint64_t cookie)
{
	uint32_t id = htobe32(1);
	uint32_t words[4];

	for (unsigned int i = 0; i < server.extent_cnt; i++)
		words[i] = htobe32(server.extents[i]);
	reply_chunk(p, cookie, CHUNK_EXTENTS, &id, 4, words,
		    4 * server.extent_cnt);
}

/* @r: in the order of this machine, but for the cookie. */
static void execute(const struct peer *p, const struct request_wire *r,
		    enum answer answer)
{
	bool clears = r->type == CMD_TRIM || r->type == CMD_ZERO;

	if (clears)
		memset(server.disk + r->offset, 0, r->len);
	if (r->type == CMD_READ)
		reply_data(p, r, answer == ANSWER_SHORT ? r->len / 2 : r->len);
	else if (r->type == CMD_EXTENT)
		reply_extents(p, r->cookie);
	else
		reply_simple(p, r->cookie, 0);
}

static void log_request(const struct request_wire *r)
{
	static const char letters[] = "RW?FT?ZE";
	size_t len = strlen(server.log);
	char text[64];

	snprintf(text, sizeof(text), "%c%u@%llu%s%s", letters[r->type], r->len,
		 (unsigned long long)r->offset, r->flags & CMD_FUA ? "!" : "",
		 r->flags & CMD_NO_HOLE ? "h" : "");
	if (r->type == CMD_FLUSH)
		strcpy(text, "F");
	snprintf(server.log + len, TEXT_LEN - len, "%s%s", len ? " " : "",
		 text);
	t_host_wake();
}

static enum answer next_answer(const struct request_wire *r)
{
	struct odd *odd = &server.odd;

	if (!odd->cnt || odd->type != r->type)
		return ANSWER_USUAL;
	if (odd->skip) {
		odd->skip--;
		return ANSWER_USUAL;
	}
	odd->cnt--;
	return odd->answer;
}

/* Called with the lock held. False: the connection ends. */
static bool answer_request(const struct peer *p, const struct request_wire *r)
{
	enum answer answer = next_answer(r);

	log_request(r);
	switch (answer) {
	case ANSWER_ERROR:
		reply_error(p, r->cookie, server.odd.value);
		return true;
	case ANSWER_CLOSE:
		return false;
	case ANSWER_NONE:
		return true;
	case ANSWER_COOKIE:
		reply_simple(p, ~r->cookie, 0);
		return true;
	case ANSWER_EMPTY:
		reply_chunk(p, r->cookie, CHUNK_NONE, NULL, 0, NULL, 0);
		return true;
	case ANSWER_SPARSE:
		reply_sparse(p, r);
		return true;
	case ANSWER_BEFORE:
	case ANSWER_AFTER:
	case ANSWER_HOLE:
	case ANSWER_LONG:
		reply_outside(p, r, answer);
		return true;
	case ANSWER_NOISE:
		send_all(p->fd, server.disk, 4096);
		return true;
	case ANSWER_TWICE:
		reply_twice(p, r, r->len / 2);
		return true;
	case ANSWER_AGAIN:
		reply_twice(p, r, r->len);
		return true;
	case ANSWER_ENDLESS:
		send_chunk(p, 0, r->cookie, CHUNK_NONE, NULL, 0, NULL, 0);
		return true;
	case ANSWER_HOLD:
		server.holds = true;
		while (server.holds)
			pthread_cond_wait(&server.released, &server.lock);
		break;
	case ANSWER_USUAL:
	case ANSWER_SHORT:
		break;
	}
	execute(p, r, answer);
	return true;
}

static bool serve_request(const struct peer *p)
{
	struct request_wire r;
	static uint8_t no_room[1];
	uint8_t *data = no_room;
	bool goes_on;

	if (!read_all(p->fd, &r, sizeof(r)) || be32toh(r.magic) != NBD_REQUEST)
		return false;
	r.flags = be16toh(r.flags);
	r.type = be16toh(r.type);
	r.offset = be64toh(r.offset);
	r.len = be32toh(r.len);
	if (r.type == CMD_DISCONNECT)
		return false;
	T_MUST(r.offset + r.len <= DISK_LEN);
	if (r.type == CMD_WRITE)
		data = server.disk + r.offset;
	if (r.type == CMD_WRITE && !read_all(p->fd, data, r.len))
		return false;
	pthread_mutex_lock(&server.lock);
	goes_on = answer_request(p, &r);
	pthread_mutex_unlock(&server.lock);
	return goes_on;
}

static void *peer_main(void *arg)
{
	struct peer *p = arg;
	struct export x;

	pthread_mutex_lock(&server.lock);
	while (server.greets && p >= server.peers + server.greets)
		pthread_cond_wait(&server.released, &server.lock);
	x = server.export;
	pthread_mutex_unlock(&server.lock);
	if (shake_hands(p, &x)) {
		while (serve_request(p))
			;
	}
	shutdown(p->fd, SHUT_RDWR);
	return NULL;
}

static void *server_main(void *arg)
{
	int fd;

	while ((fd = accept(server.listen_fd, NULL, NULL)) >= 0) {
		struct peer *p = &server.peers[server.peer_cnt];

		T_MUST(server.peer_cnt < PEER_MAX);
		p->fd = fd;
		/* Before it answers: a test compares it. */
		server.peer_cnt++;
		T_MUST(!pthread_create(&p->thread, NULL, peer_main, p));
		t_host_wake();
	}
	return NULL;
}

static void server_start(void)
{
	server.peer_cnt = 0;
	server.listen_fd = socket(AF_UNIX, SOCK_STREAM, 0);
	T_MUST(!bind(server.listen_fd, (struct sockaddr *)&server.addr,
		     sizeof(server.addr)));
	T_MUST(!listen(server.listen_fd, 8));
	T_MUST(!pthread_create(&server.thread, NULL, server_main, NULL));
}

/* Also what would have been answered is lost. */
static void server_stop(void)
{
	shutdown(server.listen_fd, SHUT_RDWR);
	pthread_join(server.thread, NULL);
	close(server.listen_fd);
	unlink(server.addr.sun_path);
	for (unsigned int i = 0; i < server.peer_cnt; i++) {
		shutdown(server.peers[i].fd, SHUT_RDWR);
		pthread_join(server.peers[i].thread, NULL);
		close(server.peers[i].fd);
	}
}

static void server_let_go(void)
{
	pthread_mutex_lock(&server.lock);
	server.holds = false;
	pthread_cond_broadcast(&server.released);
	pthread_mutex_unlock(&server.lock);
}

static void server_greet(unsigned int cnt)
{
	pthread_mutex_lock(&server.lock);
	server.greets = cnt;
	pthread_cond_broadcast(&server.released);
	pthread_mutex_unlock(&server.lock);
}

static void server_change(const struct export *x)
{
	pthread_mutex_lock(&server.lock);
	server.export = *x;
	pthread_mutex_unlock(&server.lock);
}

static void server_be_odd(struct odd odd)
{
	pthread_mutex_lock(&server.lock);
	server.odd = odd;
	server.log[0] = '\0';
	pthread_mutex_unlock(&server.lock);
}

/* ---- the host, and the clock ---- */

static struct t_host host;

/* The thread of link.c waits by the kernel's clock. */
static _Thread_local bool is_worker;

int __real_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts);
int __wrap_clock_gettime(clockid_t clock, struct timespec *ts)
{
	int res = __real_clock_gettime(clock, ts);

	if (!is_worker)
		return res;
	ts->tv_sec += (time_t)(host.now_ns / NS_PER_S);
	ts->tv_nsec += (long)(host.now_ns % NS_PER_S);
	ts->tv_sec += ts->tv_nsec / NS_PER_S;
	ts->tv_nsec %= NS_PER_S;
	return res;
}

/* ---- events ---- */

static bool has_text(const char *log, const char *text)
{
	bool has;

	/* Each of the two logs has its lock. */
	pthread_mutex_lock(&server.lock);
	pthread_mutex_lock(&host.lock);
	has = strstr(log, text);
	pthread_mutex_unlock(&host.lock);
	pthread_mutex_unlock(&server.lock);
	return has;
}

static void wait_for_text(const char *log, const char *text)
{
	while (!has_text(log, text))
		t_host_turn(&host);
}

static void assert_requests(const char *text)
{
	pthread_mutex_lock(&server.lock);
	assert_string_equal(server.log, text);
	pthread_mutex_unlock(&server.lock);
}

static void submit(struct t_request *r, unsigned int queue, enum rbp_op op,
		   uint64_t offset, uint64_t len, void *buf)
{
	t_host_submit(&host, r, queue,
		      (struct rbp_io){ .op = op,
				       .flags = r->io.flags,
				       .offset = offset,
				       .len = len,
				       .buf = buf });
}

static int result(const struct t_request *r)
{
	return t_host_result(&host, r);
}

static int run(enum rbp_op op, uint32_t flags, uint64_t offset, uint64_t len,
	       void *buf)
{
	struct t_request r = { .io.flags = flags };

	submit(&r, 0, op, offset, len, buf);
	return result(&r);
}

static uint8_t buf[DISK_LEN];

static int run_read(void)
{
	return run(RBP_READ, 0, 0, 4096, buf);
}

/* ---- the volume ---- */

struct setup {
	struct export export;
	uint64_t wait_s;
	uint64_t timeout_s;
	bool has_many; /* multi-conn */
	bool trusts;
	unsigned int queue_cnt;
};

static const struct export usual = { .size = DISK_LEN, .flags = USUAL };

/* A connection for each of two queues. */
static const struct setup two_conns = {
	{ DISK_LEN, USUAL | MULTI_CONN },
	.wait_s = 30,
	.has_many = true,
	.queue_cnt = 2,
};

static void begin(const struct export *x)
{
	t_host_begin(&host);
	memset(server.disk, 0, sizeof(server.disk));
	server_change(x);
	server_be_odd((struct odd){ 0 });
	server.addr.sun_family = AF_UNIX;
	snprintf(server.addr.sun_path, sizeof(server.addr.sun_path),
		 "/tmp/test_nbd.%d", (int)getpid());
	unlink(server.addr.sun_path);
	server_start();
	t_host_plug(&host, rdma_block_plugin_1(&t_host_functions));
}

static int open_volume(const struct setup *s, char *msg, size_t msg_len)
{
	const struct rbp_arg args[] = {
		{ "wait", NULL, s->wait_s },
		{ "timeout", NULL, s->timeout_s },
		{ "multi-conn", NULL, s->has_many },
		{ "trust-server", NULL, s->trusts },
		{ "identity", "the same disk", 0 },
		{ NULL, NULL, 0 },
	};
	/* The store makes a text of its own from it. */
	char location[160];

	snprintf(location, sizeof(location), "nbd+unix:///?socket=%s",
		 server.addr.sun_path);
	host.info = (struct rbp_info){ .size = sizeof(host.info) };
	return host.plugin->open(NULL, location, args, &host.volume, &host.info,
				 msg, msg_len);
}

static void start(const struct setup *s)
{
	char msg[256] = "";

	begin(&s->export);
	assert_int_equal(open_volume(s, msg, sizeof(msg)), 0);
	for (unsigned int i = 0; i < s->queue_cnt; i++)
		t_host_add_queue(&host, i);
}

static void start_usual(void)
{
	const struct setup s = { usual, .wait_s = 30, .queue_cnt = 1 };

	start(&s);
}

static void stop(void)
{
	t_host_del_queues(&host);
	host.plugin->close(host.volume);
	server_stop();
	t_host_end(&host);
}

/* ---- what a volume is ---- */

#define READS (RBP_CAN_EXTENT | RBP_LASTING)
#define ALL                                                        \
	(READS | RBP_CAN_FLUSH | RBP_WRITE_CACHE | RBP_CAN_WRITE | \
	 RBP_CAN_FUA | RBP_CAN_UNMAP | RBP_CAN_ZERO)

static const struct open_row {
	const char *name;
	struct export export;
	const char *refused; /* a part of the message; NULL: it opens */
	uint64_t bytes;
	uint32_t block_size;
	uint32_t optimal_io;
	uint32_t caps;
	uint32_t durability;
} open_rows[] = {
	{ "an export with everything",
	  { DISK_LEN, USUAL },
	  NULL,
	  DISK_LEN,
	  512,
	  4096,
	  ALL },
	{ "an export that may only be read",
	  { DISK_LEN, USUAL | READ_ONLY | ROTATIONAL },
	  NULL,
	  DISK_LEN,
	  512,
	  4096,
	  READS | RBP_CAN_FLUSH | RBP_WRITE_CACHE | RBP_ROTATIONAL },
	{ "an export without options",
	  { DISK_LEN, HAS_FLAGS },
	  NULL,
	  DISK_LEN,
	  512,
	  4096,
	  READS | RBP_CAN_WRITE,
	  RBP_STABLE_NEVER },
	{ "a server with FUA and without flush",
	  { DISK_LEN, HAS_FLAGS | FUA },
	  NULL,
	  DISK_LEN,
	  512,
	  4096,
	  READS | RBP_CAN_WRITE | RBP_CAN_FUA },
	{ "a server without structured replies",
	  { DISK_LEN, USUAL, .is_plain = true },
	  NULL,
	  DISK_LEN,
	  512,
	  4096,
	  ALL & ~RBP_CAN_EXTENT },
	{ "a server without an allocation map",
	  { DISK_LEN, USUAL, .has_no_map = true },
	  NULL,
	  DISK_LEN,
	  512,
	  4096,
	  ALL & ~RBP_CAN_EXTENT },
	{ "a size that is no multiple of a block",
	  { 5000, USUAL },
	  NULL,
	  4608,
	  512,
	  4096,
	  ALL },
	{ "block sizes of the server",
	  { DISK_LEN, USUAL, 4096, 65536, 1 << 20 },
	  NULL,
	  DISK_LEN,
	  4096,
	  65536,
	  ALL },
	{ "blocks that are too large",
	  { DISK_LEN, USUAL, 8192, 65536, 1 << 20 },
	  "smaller than 8192",
	  0,
	  0,
	  0,
	  0 },
	{ "an export that the server does not know",
	  { DISK_LEN, USUAL, .is_unknown = true },
	  "; nbdinfo --list shows its exports",
	  0,
	  0,
	  0,
	  0 },
	{ "a server of another protocol",
	  { DISK_LEN, USUAL, .is_no_server = true },
	  "; is that an NBD server?",
	  0,
	  0,
	  0,
	  0 },
};

T_ROWS(open_export, open_rows)
{
	const struct open_row *row = *state;
	const struct setup s = { row->export, .wait_s = 30 };
	char rest[32];
	char msg[256] = "";
	uint64_t bytes = 0;

	begin(&s.export);
	if (row->refused) {
		assert_true(open_volume(&s, msg, sizeof(msg)) < 0);
		assert_non_null(strstr(msg, row->refused));
		server_stop();
		return;
	}
	assert_int_equal(open_volume(&s, msg, sizeof(msg)), 0);
	assert_int_equal(host.info.bytes, row->bytes);
	assert_int_equal(host.info.block_size, row->block_size);
	assert_int_equal(host.info.optimal_io, row->optimal_io);
	assert_int_equal(host.info.caps, row->caps);
	assert_int_equal(host.info.durability, row->durability);
	assert_string_equal(host.info.identity, "the same disk");
	snprintf(rest, sizeof(rest), "the last %llu bytes",
		 (unsigned long long)(row->export.size - row->bytes));
	assert_int_equal(strstr(host.log, rest) != NULL,
			 row->export.size != row->bytes);
	assert_int_equal(host.plugin->measure(host.volume, &bytes), 0);
	assert_int_equal(bytes, row->bytes);
	stop();
}

T_TEST(no_server)
{
	const struct setup s = { usual, .wait_s = 30 };
	char msg[256] = "";

	begin(&usual);
	server_stop();
	assert_int_equal(open_volume(&s, msg, sizeof(msg)), -ENOTCONN);
	assert_non_null(strstr(msg, "is the NBD server running?"));
}

/* ---- I/O ---- */

struct io_row {
	const char *name;
	enum rbp_op op;
	uint32_t flags;
	uint64_t offset;
	uint64_t len;
	const char *requests;
	uint32_t lacks; /* flags of the export */
};

/* The server takes at most 8 KiB at once. */
static const struct io_row io_rows[] = {
	{ "a read", RBP_READ, 0, 512, 4096, "R4096@512" },
	{ "a read in pieces", RBP_READ, 0, 0, 20480,
	  "R8192@0 R8192@8192 R4096@16384" },
	{ "a write", RBP_WRITE, 0, 512, 512, "W512@512" },
	{ "a write in pieces, stable", RBP_WRITE, RBP_FUA, 4096, 16384,
	  "W8192@4096! W8192@12288!" },
	{ "a flush", RBP_FLUSH, 0, 0, 0, "F" },
	{ "an unmap is not cut", RBP_UNMAP, 0, 0, 65536, "T65536@0" },
	{ "zeroes that keep the space", RBP_ZERO, 0, 0, 65536, "Z65536@0h" },
	{ "zeroes that may free it, stable", RBP_ZERO, RBP_FUA | RBP_MAY_UNMAP,
	  0, 65536, "Z65536@0!" },
	{ "a write without flush", RBP_WRITE, 0, 512, 512, "W512@512!", FLUSH },
	{ "an unmap without flush", RBP_UNMAP, 0, 0, 65536, "T65536@0!",
	  FLUSH },
	{ "zeroes without flush", RBP_ZERO, 0, 0, 65536, "Z65536@0!h", FLUSH },
	{ "a read without flush", RBP_READ, 0, 512, 4096, "R4096@512", FLUSH },
};

T_ROWS(io, io_rows)
{
	const struct io_row *row = *state;
	const struct setup s = { { DISK_LEN, USUAL & ~row->lacks, 512, 4096,
				   8192 },
				 .wait_s = 30,
				 .queue_cnt = 1 };
	bool clears = row->op == RBP_ZERO || row->op == RBP_UNMAP;

	start(&s);
	for (unsigned int i = 0; i < DISK_LEN; i++) {
		server.disk[i] = (uint8_t)(i % 251);
		buf[i] = (uint8_t)(i % 241);
	}
	assert_int_equal(run(row->op, row->flags, row->offset, row->len, buf),
			 0);
	assert_requests(row->requests);
	if (clears)
		memset(buf, 0, row->len);
	assert_memory_equal(buf, server.disk + row->offset, row->len);
	assert_int_equal(server.disk[row->offset + row->len],
			 (row->offset + row->len) % 251);
	stop();
}

static const struct error_row {
	const char *name;
	uint32_t error; /* of the server */
	bool is_plain;
	int res;
} error_rows[] = {
	{ "no permission", 1, false, -EPERM },
	{ "no permission, in a simple reply", 1, true, -EPERM },
	{ "an I/O error", 5, false, -EIO },
	{ "no memory", 12, false, -ENOMEM },
	{ "an invalid request", 22, false, -EINVAL },
	{ "no space", 28, false, -ENOSPC },
	{ "not supported", 95, false, -EOPNOTSUPP },
	{ "an error that does not exist", 12345, false, -EINVAL },
};

/* The third piece of a write fails: what was done before counts. */
T_ROWS(error, error_rows)
{
	const struct error_row *row = *state;
	struct setup s = { { DISK_LEN, USUAL, 512, 4096, 8192 },
			   .wait_s = 30,
			   .queue_cnt = 1 };
	struct t_request r = { 0 };

	s.export.is_plain = row->is_plain;
	start(&s);
	server_be_odd((struct odd){ ANSWER_ERROR, CMD_WRITE, .skip = 2,
				    .cnt = 1, .value = row->error });
	submit(&r, 0, RBP_WRITE, 0, 32768, buf);
	assert_int_equal(result(&r), row->res);
	assert_int_equal(r.io.progress, 16384);
	assert_requests("W8192@0 W8192@8192 W8192@16384");
	assert_int_equal(run_read(), 0);
	stop();
}

static const struct short_row {
	const char *name;
	enum rbp_op op;
	enum answer answer;
	const char *text;
} short_rows[] = {
	{ "half of the data", RBP_READ, ANSWER_SHORT,
	  "of 4096 bytes: failing the I/O" },
	{ "no data", RBP_READ, ANSWER_EMPTY, "of 4096 bytes: failing the I/O" },
	{ "no extent", RBP_EXTENT, ANSWER_EMPTY,
	  "of 4096 bytes: failing the I/O" },
	{ "half of the data, twice", RBP_READ, ANSWER_TWICE,
	  "some bytes twice, and others not: failing the I/O" },
};

/* The rest of the buffer has the data of another request. */
T_ROWS(answer_is_not_complete, short_rows)
{
	const struct short_row *row = *state;
	struct t_request r = { 0 };

	start_usual();
	server_be_odd((struct odd){ row->answer,
				    row->op == RBP_READ ? CMD_READ : CMD_EXTENT,
				    .cnt = 1 });
	submit(&r, 0, row->op, 0, 4096, row->op == RBP_READ ? buf : NULL);
	assert_int_equal(result(&r), -EIO);
	assert_int_equal(r.io.progress, 0);
	assert_true(has_text(host.log, row->text));
	assert_int_equal(run_read(), 0);
	stop();
}

T_TEST(holes_are_zeroes)
{
	start_usual();
	memset(server.disk, 7, 4096);
	memset(buf, 9, 4096);
	server_be_odd((struct odd){ ANSWER_SPARSE, CMD_READ, .cnt = 1 });
	assert_int_equal(run_read(), 0);
	for (unsigned int i = 0; i < 4096; i++)
		assert_int_equal(buf[i], i < 2048 ? 7 : 0);
	stop();
}

/* ---- many requests, and answers in parts ---- */

static const struct part_row {
	const char *name;
	size_t step;
	bool is_plain;
} part_rows[] = {
	{ "byte by byte", 1, false },
	{ "a header in two parts", 13, false },
	{ "a header, then the offset", 20, false },
	{ "small parts", 37, false },
	{ "large parts", 5000, false },
	{ "all at once", 0, false },
	{ "simple replies, byte by byte", 1, true },
	{ "simple replies in small parts", 37, true },
	{ "simple replies at once", 0, true },
};

T_ROWS(answers_come_in_parts, part_rows)
{
	const struct part_row *row = *state;
	struct setup s = { { DISK_LEN, USUAL }, .wait_s = 30, .queue_cnt = 1 };
	struct t_request r = { 0 };

	s.export.is_plain = row->is_plain;
	start(&s);
	for (unsigned int i = 0; i < 12288; i++)
		server.disk[i] = (uint8_t)(i * 7 + i / 256);
	server.step = row->step;
	memset(buf, 9, sizeof(buf));
	submit(&r, 0, RBP_READ, 4096, 8192, buf);
	assert_int_equal(result(&r), 0);
	assert_memory_equal(buf, server.disk + 4096, 8192);
	assert_int_equal(buf[8192], 9);
	server_be_odd(
		(struct odd){ ANSWER_ERROR, CMD_READ, .cnt = 1, .value = 5 });
	assert_int_equal(run_read(), -EIO);
	assert_int_equal(run(RBP_WRITE, 0, 0, 4096, buf), 0);
	if (!row->is_plain) {
		server.extent_cnt = 2;
		server.extents[0] = 8192;
		server.extents[1] = 0;
		assert_int_equal(run(RBP_EXTENT, 0, 0, 8192, NULL), 0);
	}
	assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), 0);
	server.step = 0;
	assert_int_equal(server.peer_cnt, 1);
	stop();
}

static const struct many_row {
	const char *name;
	unsigned int cnt;
} many_rows[] = {
	{ "one long request", 1 },
	{ "long requests", 3 },
	{ "short requests", 64 },
};

/* More than the socket takes at once. */
T_ROWS(requests_of_a_turn, many_rows)
{
	const struct many_row *row = *state;
	uint64_t len = DISK_LEN / row->cnt / 512 * 512;
	static struct t_request r[64];
	static uint8_t in[DISK_LEN], out[DISK_LEN];

	start_usual();
	for (unsigned int i = 0; i < DISK_LEN; i++)
		out[i] = (uint8_t)(i * 3 + i / 512);
	for (unsigned int i = 0; i < row->cnt; i++)
		submit(&r[i], 0, RBP_WRITE, i * len, len, out + i * len);
	for (unsigned int i = 0; i < row->cnt; i++)
		assert_int_equal(result(&r[i]), 0);
	assert_memory_equal(server.disk, out, row->cnt * len);
	for (unsigned int i = 0; i < row->cnt; i++)
		submit(&r[i], 0, RBP_READ, i * len, len, in + i * len);
	for (unsigned int i = 0; i < row->cnt; i++)
		assert_int_equal(result(&r[i]), 0);
	assert_memory_equal(in, out, row->cnt * len);
	/* Another connection would have repaired it. */
	assert_int_equal(server.peer_cnt, 1);
	stop();
}

static const struct outside_row {
	const char *name;
	enum answer answer;
} outside_rows[] = {
	{ "data before the range", ANSWER_BEFORE },
	{ "data after the range", ANSWER_AFTER },
	{ "a hole after the range", ANSWER_HOLE },
	{ "too much data", ANSWER_LONG },
	{ "the same data again", ANSWER_AGAIN },
	{ "a chunk without data, and more to come", ANSWER_ENDLESS },
	{ "bytes that are no answer", ANSWER_NOISE },
};

/* A server must not write to other memory. The connection is made again, and the
 * request is sent again. */
T_ROWS(answer_outside_is_refused, outside_rows)
{
	const struct outside_row *row = *state;
	struct t_request r = { 0 };

	start_usual();
	memset(server.disk, 5, 16384);
	memset(buf, 9, sizeof(buf));
	server_be_odd((struct odd){ row->answer, CMD_READ, .cnt = 1 });
	submit(&r, 0, RBP_READ, 4096, 4096, buf + 4096);
	assert_int_equal(result(&r), 0);
	assert_true(has_text(host.log, "the connection to the server is lost"));
	for (unsigned int i = 0; i < 12288; i++)
		assert_int_equal(buf[i], i >= 4096 && i < 8192 ? 5 : 9);
	stop();
}

#define HOLE  1u
#define ZEROS 2u

static const struct extent_row {
	const char *name;
	uint32_t extents[4];
	uint64_t len;
	int is_mapped;
} extent_rows[] = {
	{ "data", { 8192, 0 }, 8192, 1 },
	{ "a hole", { 8192, HOLE | ZEROS }, 8192, 0 },
	{ "data, then a hole", { 4096, 0, 4096, HOLE | ZEROS }, 4096, 1 },
	{ "two holes are one",
	  { 4096, HOLE | ZEROS, 2048, HOLE | ZEROS },
	  6144,
	  0 },
	{ "a hole that does not read as zeroes is data",
	  { 2048, HOLE, 4096, 0 },
	  6144,
	  1 },
	{ "zeroes that are allocated are data",
	  { 2048, ZEROS, 4096, HOLE | ZEROS },
	  2048,
	  1 },
	{ "a block that is half a hole is data",
	  { 256, HOLE | ZEROS, 7936, 0 },
	  512,
	  1 },
	{ "a hole that ends within a block",
	  { 1280, HOLE | ZEROS, 6912, 0 },
	  1024,
	  0 },
	{ "more than was asked for", { 1u << 30, HOLE | ZEROS }, 8192, 0 },
};

T_ROWS(extent, extent_rows)
{
	const struct extent_row *row = *state;
	struct t_request r = { 0 };

	start_usual();
	server.extent_cnt = row->extents[2] ? 4 : 2;
	memcpy(server.extents, row->extents, sizeof(row->extents));
	submit(&r, 0, RBP_EXTENT, 4096, 8192, NULL);
	assert_int_equal(result(&r), 0);
	assert_requests("E8192@4096");
	assert_int_equal(r.io.extent_len, row->len);
	assert_int_equal(r.io.extent_mapped, row->is_mapped);
	stop();
}

/* ---- queues ---- */

/* All queues share a connection. If its queue is deleted, it moves to another
 * one, with what it has in flight. */
T_TEST(shared_connection_moves)
{
	const struct setup s = { { DISK_LEN, USUAL | MULTI_CONN },
				 .wait_s = 30,
				 .has_many = false,
				 .queue_cnt = 2 };
	struct t_request r = { 0 };

	start(&s);
	server_be_odd((struct odd){ ANSWER_HOLD, CMD_READ, .cnt = 1 });
	submit(&r, 1, RBP_READ, 0, 4096, buf);
	wait_for_text(server.log, "R4096@0");
	t_host_del_queue(&host, 0);
	assert_false(r.has_ended);
	server_let_go();
	assert_int_equal(result(&r), 0);
	t_host_add_queue(&host, 0);
	assert_int_equal(run_read(), 0);
	assert_int_equal(server.peer_cnt, 1);
	stop();
}

/* A connection without a queue is used by the next one. */
T_TEST(each_queue_has_a_connection)
{
	struct t_request r = { 0 };

	start(&two_conns);
	assert_int_equal(server.peer_cnt, 2);
	/* One that waits does not delay the other. */
	server_be_odd((struct odd){ ANSWER_NONE, CMD_READ, .cnt = 1 });
	submit(&r, 1, RBP_READ, 0, 4096, buf);
	wait_for_text(server.log, "R4096@0");
	assert_int_equal(run_read(), 0);
	assert_false(r.has_ended);
	t_host_del_queue(&host, 0);
	t_host_add_queue(&host, 0);
	assert_int_equal(run_read(), 0);
	assert_int_equal(server.peer_cnt, 2);
	server_stop();
	server_start();
	assert_int_equal(result(&r), 0);
	stop();
}

T_TEST(no_memory_for_a_queue)
{
	const struct setup s = { usual, .wait_s = 30 };

	start(&s);
	for (unsigned int i = 1; i <= 2; i++) {
		/* The queue's watch is the first, the connection's the
		 * second. */
		host.lacks_watches = i;
		assert_int_equal(host.plugin->queue_add(host.volume,
							&host.queues[0],
							&host.queues[0].data),
				 -ENOMEM);
		host.lacks_watches = 0;
	}
	t_host_add_queue(&host, 0);
	assert_int_equal(run_read(), 0);
	stop();
}

/* ---- lost connections ---- */

static const struct loss_row {
	const char *name;
	enum answer answer;
	uint32_t value;
} loss_rows[] = {
	{ "the server closes the connection", ANSWER_CLOSE, 0 },
	{ "the server ends", ANSWER_ERROR, ESHUTDOWN },
	{ "the server answers what nobody asked", ANSWER_COOKIE, 0 },
};

/* The request is sent again to the server that is back. */
T_ROWS(request_survives, loss_rows)
{
	const struct loss_row *row = *state;

	start_usual();
	server.disk[5] = 77;
	server_be_odd((struct odd){ row->answer, CMD_READ, .cnt = 1,
				    .value = row->value });
	assert_int_equal(run_read(), 0);
	assert_int_equal(buf[5], 77);
	assert_requests("R4096@0 R4096@0");
	assert_true(has_text(host.log, "the connection to the server is lost"));
	assert_true(has_text(host.log, "connected to the server again"));
	stop();
}

static const struct flush_row {
	const char *name;
	uint32_t flags; /* of the write */
	bool flushes;	/* before the loss */
	bool trusts;
	int res;
} flush_rows[] = {
	{ "a write that was not flushed may be lost", 0, false, false, -EIO },
	{ "a write that was flushed is not", 0, true, false, 0 },
	{ "a stable write is not", RBP_FUA, false, false, 0 },
	{ "the server is trusted", 0, false, true, 0 },
};

T_ROWS(flush_after_a_loss, flush_rows)
{
	const struct flush_row *row = *state;
	const struct setup s = { usual, .wait_s = 30, .trusts = row->trusts,
				 .queue_cnt = 1 };

	start(&s);
	assert_int_equal(run(RBP_WRITE, row->flags, 0, 4096, buf), 0);
	if (row->flushes) {
		assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), 0);
	}
	server_be_odd((struct odd){ ANSWER_CLOSE, CMD_READ, .cnt = 1 });
	assert_int_equal(run_read(), 0);
	assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), row->res);
	assert_int_equal(has_text(host.log, "flushes fail from now on"),
			 row->res != 0);
	/* For ever: nobody knows what the later flush would cover. */
	assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), row->res);
	stop();
}

/* A flush that is in flight covers what ended before it was sent, no more. */
T_TEST(write_beside_a_flush_is_not_covered)
{
	struct t_request flush = { 0 };

	start(&two_conns);
	server_be_odd((struct odd){ ANSWER_NONE, CMD_FLUSH, .cnt = 1 });
	submit(&flush, 1, RBP_FLUSH, 0, 0, NULL);
	wait_for_text(server.log, "F");
	assert_int_equal(run(RBP_WRITE, 0, 0, 4096, buf), 0);
	server_stop();
	server_start();
	/* It is sent again, and must not say that the write is stable. */
	assert_int_equal(result(&flush), -EIO);
	stop();
}

/* A flush is in flight when another connection is made anew, with a write that had
 * ended. If the server died in between, the flush was answered by the next one,
 * which has never seen the write. */
T_TEST(loss_beside_a_flush)
{
	struct t_request write = { 0 };
	struct t_request flush = { 0 };

	start(&two_conns);
	submit(&write, 1, RBP_WRITE, 0, 4096, buf);
	assert_int_equal(result(&write), 0);
	server_be_odd((struct odd){ ANSWER_HOLD, CMD_FLUSH, .cnt = 1 });
	submit(&flush, 0, RBP_FLUSH, 0, 0, NULL);
	wait_for_text(server.log, "F");
	shutdown(server.peers[1].fd, SHUT_RDWR);
	wait_for_text(host.log, "connected to the server again");
	server_let_go();
	assert_int_equal(result(&flush), -EIO);
	assert_true(has_text(host.log, "flushes fail from now on"));
	stop();
}

/* Of the connection that was made last. */
static struct rbp_watch *last_watch(void)
{
	struct rbp_watch *last = &host.watches[0];

	for (unsigned int i = 0; i < T_HOST_WATCHES; i++) {
		if (host.watches[i].is_used)
			last = &host.watches[i];
	}
	return last;
}

/* Waits, without a turn of the host, until the plugin has an answer to read. */
static void wait_for_answer(const struct rbp_watch *w)
{
	int len = 0;

	while (!ioctl(w->fd, FIONREAD, &len) && len == 0)
		sched_yield();
}

/* A write was answered, and nobody has read the answer, when another connection
 * is lost and made again. If the server has died in between, a flush on that
 * connection does not cover the write. */
T_TEST(answer_of_a_former_life)
{
	struct rbp_watch *second;
	struct t_request read = { 0 };
	struct t_request write = { 0 };

	start(&two_conns);
	/* After this, nothing else wakes the queue. */
	submit(&read, 1, RBP_READ, 0, 4096, buf);
	assert_int_equal(result(&read), 0);
	second = last_watch();
	submit(&write, 1, RBP_WRITE, 0, 4096, buf);
	t_host_kick(&host);
	wait_for_answer(second);
	second->events = 0;
	shutdown(server.peers[0].fd, SHUT_RDWR);
	/* No turns, because kick() would let the queue read. */
	while (!has_text(host.log, "connected to the server again"))
		assert_true(t_host_poll(&host, 60000));
	assert_false(t_host_has_ended(&host, &write));
	second->events = RBP_READABLE;
	assert_int_equal(result(&write), 0);
	assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), -EIO);
	assert_true(has_text(host.log, "flushes fail from now on"));
	stop();
}

/* While a connection is away, another one writes. The server that takes the new
 * connection may have been started since. */
T_TEST(write_before_a_new_connection)
{
	const struct export strange = { DISK_LEN, USUAL | MULTI_CONN,
					.is_unknown = true };
	struct t_request write = { 0 };

	start(&two_conns);
	server_change(&strange);
	shutdown(server.peers[0].fd, SHUT_RDWR);
	wait_for_text(host.log, "trying again");
	submit(&write, 1, RBP_WRITE, 0, 4096, buf);
	assert_int_equal(result(&write), 0);
	server_change(&two_conns.export);
	wait_for_text(host.log, "connected to the server again");
	assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), -EIO);
	stop();
}

/* A connection that is lost says nothing about writes of another one, which
 * flushes them. */
T_TEST(flush_before_a_new_connection)
{
	const struct export strange = { DISK_LEN, USUAL | MULTI_CONN,
					.is_unknown = true };
	struct t_request write = { 0 };
	struct t_request flush = { 0 };

	start(&two_conns);
	submit(&write, 1, RBP_WRITE, 0, 4096, buf);
	assert_int_equal(result(&write), 0);
	server_change(&strange);
	shutdown(server.peers[0].fd, SHUT_RDWR);
	wait_for_text(host.log, "trying again");
	submit(&flush, 1, RBP_FLUSH, 0, 0, NULL);
	assert_int_equal(result(&flush), 0);
	server_change(&two_conns.export);
	wait_for_text(host.log, "connected to the server again");
	assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), 0);
	stop();
}

/* All connections are lost, and one of them is made before the others. A write on
 * it would be in doubt when they are made, so it waits for them. */
T_TEST(connections_come_back_together)
{
	struct t_request writes[2] = { 0 };

	start(&two_conns);
	server_be_odd((struct odd){ ANSWER_NONE, CMD_WRITE, .cnt = 2 });
	submit(&writes[0], 0, RBP_WRITE, 0, 4096, buf);
	submit(&writes[1], 1, RBP_WRITE, 8192, 4096, buf);
	t_host_kick(&host);
	while (!has_text(server.log, "W4096@0") ||
	       !has_text(server.log, "W4096@8192"))
		t_host_turn(&host);
	server_stop();
	server_be_odd((struct odd){ 0 });
	server_greet(1);
	server_start();
	while (server.peer_cnt < 2)
		t_host_turn(&host);
	/* The first one is made. */
	assert_requests("");
	server_greet(0);
	assert_int_equal(result(&writes[0]), 0);
	assert_int_equal(result(&writes[1]), 0);
	wait_for_text(host.log, "connected to the server again");
	assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), 0);
	stop();
}

/* The server dies when it has done the first of two pieces. */
static const struct life_row {
	const char *name;
	enum rbp_op op;
	uint16_t type;
	bool trusts;
	const char *requests;
} life_rows[] = {
	{ "a write begins anew", RBP_WRITE, CMD_WRITE, false,
	  "W8192@0 W8192@8192 W8192@0 W8192@8192" },
	{ "a write goes on, if the server is trusted", RBP_WRITE, CMD_WRITE,
	  true, "W8192@0 W8192@8192 W8192@8192" },
	{ "a read goes on", RBP_READ, CMD_READ, false,
	  "R8192@0 R8192@8192 R8192@8192" },
};

T_ROWS(pieces_of_a_former_life, life_rows)
{
	const struct life_row *row = *state;
	const struct setup s = { { DISK_LEN, USUAL, 512, 4096, 8192 },
				 .wait_s = 30,
				 .trusts = row->trusts,
				 .queue_cnt = 1 };

	start(&s);
	server_be_odd(
		(struct odd){ ANSWER_CLOSE, row->type, .skip = 1, .cnt = 1 });
	assert_int_equal(run(row->op, 0, 0, 16384, buf), 0);
	assert_requests(row->requests);
	stop();
}

/* While the server is away, requests wait, then fail; they do not when it is
 * back. */
T_TEST(server_is_away)
{
	struct t_request r = { 0 };

	start_usual();
	server_stop();
	wait_for_text(host.log, "the connection to the server is lost");
	submit(&r, 0, RBP_READ, 0, 4096, buf);
	wait_for_text(host.log, "trying again");
	assert_false(r.has_ended);
	t_host_pass(&host, 29000);
	assert_false(r.has_ended);
	t_host_pass(&host, 6000);
	assert_true(r.has_ended);
	assert_int_equal(r.res, -EIO);
	assert_true(has_text(host.log, "has been away for 30 seconds"));
	assert_true(has_text(host.log,
			     "I/O fails until it is back: cannot connect: "));
	assert_int_equal(run_read(), -EIO);
	assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), -ENOTCONN);
	server_start();
	wait_for_text(host.log, "connected to the server again");
	assert_int_equal(run_read(), 0);
	/* The flush that was not done has lost nothing. */
	assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), 0);
	stop();
}

static unsigned int running_timers(void)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < T_HOST_TIMERS; i++)
		cnt += host.timers[i].is_set;
	return cnt;
}

/* All its connections are lost, and one line says so. */
T_TEST(server_is_given_up_once)
{
	const char *line;

	start(&two_conns);
	for (int again = 0; again < 2; again++) {
		server_stop();
		while (running_timers() < 2)
			t_host_turn(&host);
		t_host_pass(&host, 35000);
		line = strstr(host.log, "has been away");
		assert_non_null(line);
		assert_null(strstr(line + 1, "has been away"));
		server_start();
		wait_for_text(host.log, "connected to the server again");
		*host.log = '\0';
	}
	stop();
}

/* The longest wait is no short one. */
T_TEST(endless_wait)
{
	const struct setup s = { usual, .wait_s = UINT64_MAX, .queue_cnt = 1 };

	start(&s);
	server_stop();
	wait_for_text(host.log, "the connection to the server is lost");
	t_host_pass(&host, (uint64_t)INT32_MAX * 1000 / 7 * 8);
	assert_true(has_text(host.log, "has been away for 2147483647 seconds"));
	server_start();
	stop();
}

/* It is lost each time it gets the request: that one fails after the wait, and
 * others go on. */
T_TEST(server_dies_of_a_request)
{
	const struct setup s = { usual, .wait_s = 0, .queue_cnt = 1 };

	start(&s);
	server_be_odd((struct odd){ ANSWER_CLOSE, CMD_WRITE, .cnt = 1000 });
	assert_int_equal(run(RBP_WRITE, 0, 0, 4096, buf), -EIO);
	assert_true(has_text(host.log, "lost again and again"));
	assert_int_equal(run_read(), 0);
	stop();
}

static const struct change_row {
	const char *name;
	struct export export;
	const char *refused;
} change_rows[] = {
	{ "it is smaller",
	  { DISK_LEN / 2, USUAL | MULTI_CONN },
	  "the export is smaller than it was" },
	{ "it cannot flush",
	  { DISK_LEN, (USUAL & ~FLUSH) | MULTI_CONN },
	  "the export can do less than before" },
	{ "it can only be read",
	  { DISK_LEN, USUAL | MULTI_CONN | READ_ONLY },
	  "the export can do less than before" },
	{ "a flush of one connection no longer covers others",
	  { DISK_LEN, USUAL },
	  "no longer offers multi-conn" },
	{ "its blocks are larger",
	  { DISK_LEN, USUAL | MULTI_CONN, 4096, 4096, 32u << 20 },
	  "now takes no I/O smaller than 4096 bytes" },
	{ "it takes less at once",
	  { DISK_LEN, USUAL | MULTI_CONN, 512, 4096, 65536 },
	  "now takes no I/O larger than 65536 bytes" },
};

/* The export that comes back is not the old one: nothing is sent to it. @queue: 0,
 * which had a connection, or 1, which is new. */
static void refuse_other_export(const struct change_row *row,
				unsigned int queue)
{
	const struct setup s = { { DISK_LEN, USUAL | MULTI_CONN },
				 .wait_s = 30,
				 .has_many = true,
				 .queue_cnt = 1 };
	struct t_request r = { 0 };

	start(&s);
	server_stop();
	server_change(&row->export);
	server_start();
	if (queue)
		t_host_add_queue(&host, queue);
	submit(&r, queue, RBP_READ, 0, 4096, buf);
	wait_for_text(host.log, row->refused);
	assert_false(r.has_ended);
	assert_requests("");
	server_change(&s.export);
	assert_int_equal(result(&r), 0);
	stop();
}

T_ROWS(other_export, change_rows)
{
	refuse_other_export(*state, 0);
}

T_ROWS(other_export_for_a_new_queue, change_rows)
{
	refuse_other_export(*state, 1);
}

T_TEST(export_grows)
{
	const struct export larger = { DISK_LEN, USUAL };
	const struct setup s = { { DISK_LEN / 2, USUAL },
				 .wait_s = 30,
				 .queue_cnt = 1 };
	uint64_t bytes;

	start(&s);
	server_stop();
	server_change(&larger);
	server_start();
	wait_for_text(host.log, "connected to the server again");
	assert_int_equal(host.resized_cnt, 1);
	assert_int_equal(host.plugin->measure(host.volume, &bytes), 0);
	assert_int_equal(bytes, DISK_LEN);
	assert_int_equal(run(RBP_READ, 0, DISK_LEN - 4096, 4096, buf), 0);
	stop();
}

static const struct setup limited = {
	{ DISK_LEN, USUAL }, .wait_s = 90, .timeout_s = 60, .queue_cnt = 1
};

static const struct stuck_row {
	const char *name;
	enum rbp_op op;
	uint16_t type;
	uint64_t len;
	bool has_unflushed;
	int res;
	const char *said;
} stuck_rows[] = {
	{ "a read is made again", RBP_READ, CMD_READ, 4096, false, 0,
	  "has not answered a read for 60 seconds" },
	{ "so is a trim", RBP_UNMAP, CMD_TRIM, 4096, false, 0,
	  "has not answered a trim for 60 seconds" },
	{ "so is a flush of nothing", RBP_FLUSH, CMD_FLUSH, 0, false, 0,
	  "has not answered a flush for 60 seconds" },
	{ "a flush of writes that may be lost fails", RBP_FLUSH, CMD_FLUSH, 0,
	  true, -EIO, "has not answered a flush for 60 seconds" },
};

/* The server never answers one request, and goes on with others. */
T_ROWS(stuck_request, stuck_rows)
{
	const struct stuck_row *row = *state;
	struct t_request r = { 0 };

	start(&limited);
	if (row->has_unflushed)
		assert_int_equal(run(RBP_WRITE, 0, 0, 512, buf), 0);
	server_be_odd((struct odd){ ANSWER_NONE, row->type, .cnt = 1 });
	submit(&r, 0, row->op, 0, row->len, buf);
	t_host_pass(&host, 40000);
	assert_int_equal(run(RBP_EXTENT, 0, 0, 512, NULL), 0);
	t_host_pass(&host, 20000);
	assert_false(has_text(host.log, "has not answered"));
	assert_int_equal(run(RBP_EXTENT, 0, 0, 512, NULL), 0);
	t_host_pass(&host, 8000);
	assert_true(has_text(host.log, row->said));
	assert_int_equal(result(&r), row->res);
	stop();
}

/* The time of a request begins when the server has answered all older ones: a slow
 * server that works off a queue is not taken for a stuck one. */
T_TEST(slow_server)
{
	struct t_request first = { 0 };
	struct t_request second = { 0 };

	start(&limited);
	server_be_odd((struct odd){ ANSWER_HOLD, CMD_READ, .cnt = 2 });
	submit(&first, 0, RBP_READ, 0, 4096, buf);
	submit(&second, 0, RBP_READ, 4096, 4096, buf + 4096);
	wait_for_text(server.log, "R4096@0");
	t_host_pass(&host, 40000);
	server_let_go();
	assert_int_equal(result(&first), 0);
	wait_for_text(server.log, "R4096@4096");
	t_host_pass(&host, 60000);
	assert_false(has_text(host.log, "has not answered"));
	server_let_go();
	assert_int_equal(result(&second), 0);
	stop();
}

/* A request that is stuck on each connection fails. */
T_TEST(request_is_always_stuck)
{
	struct t_request r = { 0 };

	start(&limited);
	server_be_odd((struct odd){ ANSWER_NONE, CMD_READ, .cnt = 1000 });
	submit(&r, 0, RBP_READ, 0, 4096, buf);
	for (int times = 1; times <= 3; times++) {
		assert_false(t_host_has_ended(&host, &r));
		t_host_pass(&host, 40000);
		assert_int_equal(run(RBP_EXTENT, 0, 0, 512, NULL), 0);
		t_host_pass(&host, 28000);
		assert_int_equal(run(RBP_EXTENT, 0, 0, 512, NULL), 0);
	}
	assert_int_equal(result(&r), -EIO);
	assert_true(has_text(host.log, "lost again and again for 90 seconds"));
	stop();
}

/* This process does not run for @ms, and no timer fires; then those that are due
 * do. */
static void be_stopped(uint64_t ms)
{
	host.now_ns += ms * 1000000;
	t_host_pass(&host, 0);
}

static const struct stop_row {
	const char *name;
	uint64_t runs_ms, stops_ms;
	bool is_answered_before; /* the stop ends */
} stop_rows[] = {
	{ "an answer came during a stop", 1000, 3600000, true },
	{ "an answer came during a short stop at the end", 59000, 4000, true },
	{ "the server was stopped as well", 65000, 3600000, false },
};

/* A stop of this process does not count for the server. */
T_ROWS(stopped_process, stop_rows)
{
	const struct stop_row *row = *state;
	struct t_request r = { 0 };

	start(&limited);
	assert_int_equal(run(RBP_WRITE, 0, 0, 512, buf), 0);
	server_be_odd((struct odd){ ANSWER_HOLD, CMD_READ, .cnt = 1 });
	submit(&r, 0, RBP_READ, 0, 4096, buf);
	wait_for_text(server.log, "R4096@0");
	t_host_pass(&host, row->runs_ms);
	if (row->is_answered_before) {
		server_let_go();
		wait_for_answer(last_watch());
	}
	be_stopped(row->stops_ms);
	assert_false(has_text(host.log, "has not answered"));
	if (!row->is_answered_before)
		server_let_go();
	assert_int_equal(result(&r), 0);
	assert_int_equal(run(RBP_FLUSH, 0, 0, 0, NULL), 0);
	stop();
}

/* The server is back after the stop, but there was no time yet to connect. */
T_TEST(stopped_while_the_server_is_away)
{
	struct t_request r = { 0 };

	start_usual();
	server_stop();
	wait_for_text(host.log, "the connection to the server is lost");
	submit(&r, 0, RBP_READ, 0, 4096, buf);
	t_host_pass(&host, 33000);
	be_stopped(3600000);
	server_start();
	assert_int_equal(result(&r), 0);
	assert_false(has_text(host.log, "has been away"));
	stop();
}

/* A machine whose ticks all come late. */
T_TEST(each_tick_is_late)
{
	struct t_request r = { 0 };

	start_usual();
	server_stop();
	wait_for_text(host.log, "the connection to the server is lost");
	submit(&r, 0, RBP_READ, 0, 4096, buf);
	for (int i = 0; i < 100 && !r.has_ended; i++)
		be_stopped(10000);
	assert_true(r.has_ended);
	assert_int_equal(r.res, -EIO);
	server_start();
	stop();
}

/* A connection that cannot be watched is made again. */
T_TEST(no_memory_for_a_connection)
{
	start_usual();
	host.lacks_watches = 1;
	server_be_odd((struct odd){ ANSWER_CLOSE, CMD_READ, .cnt = 1 });
	assert_int_equal(run_read(), 0);
	assert_true(has_text(host.log, "out of memory"));
	stop();
}

T_TEST(old_host)
{
	struct rbp_host old = t_host_functions;

	old.size = offsetof(struct rbp_host, watch_add);
	t_host_begin(&host);
	assert_null(rdma_block_plugin_1(&old));
	assert_true(has_text(host.log, "too old"));
}

int main(void)
{
	is_worker = true;
	return t_run();
}
