/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The TCP transport, against any peer that can open a socket to it: first the
 * headers alone, then all bytes of the input through a real connection. Our end
 * accepts a login, reads and writes the peer's memory, and answers.
 *
 * The client's end has memory that its peer may access. The memory around it
 * must not change.
 */
#include <errno.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "protocol/srp_iu.h"
#include "tests/fuzz/fuzz.h"
#include "base/log.h"
#include "transport/tcp/wire.h"
#include "transport/xport.h"

#define TURNS_MAX 100000u
#define RECV_LEN  1024u
#define RECVS	  4u
#define MEM_LEN	  4096u
#define GIVEN_AT  1024u /* offset of the memory that peers may access */
#define GIVEN_LEN 2048u

static struct reactor *reactor;
static struct xp *xp;
static struct xp_listener *listener;
static struct sockaddr_in addr;
static uint8_t *mem;
static struct xp_mr *local_mr, *given_mr;

/* The channel of this input, and what it does. */
static struct {
	struct xp_chan *ch;
	struct xp_chain chain;
	struct srp_desc desc;
	uint8_t how;
	bool busy;
} it;

/* ---- headers ---- */

static void decode_cm(const struct fuzz_input *in)
{
	uint8_t again[TCP_CM_LEN];
	struct tcp_cm cm;

	if (in->left < TCP_CM_LEN)
		return;
	FUZZ_FILL(cm);
	if (tcp_cm_decode(in->p, &cm)) {
		FUZZ_UNTOUCHED(cm);
		return;
	}
	FUZZ_CLAIM(cm.data_len <= TCP_CM_DATA_MAX);
	tcp_cm_encode(again, cm.type, NULL, 0);
	FUZZ_CLAIM(!memcmp(again, in->p, 2));
}

static void decode_hdr(const struct fuzz_input *in, enum tcp_order order)
{
	uint8_t again[TCP_HDR_LEN_MAX];
	const char *why = NULL;
	struct tcp_hdr hdr;
	int len = tcp_hdr_decode(in->p, in->left, order, &hdr, &why);

	FUZZ_CLAIM(len <= (int)TCP_HDR_LEN_MAX && len <= (int)in->left);
	FUZZ_CLAIM((len < 0) == (why != NULL));
	if (len <= 0)
		return;
	FUZZ_CLAIM(hdr.region_cnt <= TCP_REGIONS_MAX);
	FUZZ_CLAIM(tcp_hdr_encode(again, order, in->p[7], &hdr) == (size_t)len);
	/* The number of regions of a READ_RSP has no meaning. */
	if (hdr.op == TCP_READ_RSP)
		again[5] = in->p[5];
	FUZZ_CLAIM(hdr.op == TCP_MSG || !memcmp(again, in->p, (size_t)len));
}

/* ---- the end that is attacked ---- */

static void done(struct xp_chain *chain, int status)
{
	FUZZ_CLAIM(it.busy && status <= 0);
	it.busy = false;
}

static void post(struct xp_chan *ch)
{
	if (it.busy)
		return;
	it.busy = true;
	it.desc = (struct srp_desc){ .addr = 0x1000, .key = 1, .len = 512 };
	it.chain = (struct xp_chain){ .done = done };
	if (it.how & 0x18) {
		it.chain.dir = it.how & 8 ? XP_RDMA_READ : XP_RDMA_WRITE;
		it.chain.remote = &it.desc;
		it.chain.len = 512;
		it.chain.local = mem;
		it.chain.local_mr = local_mr;
	}
	it.chain.send[0] = (struct xp_sge){ mem, 64, local_mr };
	it.chain.send_cnt = 1;
	xp_post(ch, &it.chain);
}

static void established(struct xp_chan *ch, const void *pdata, size_t len)
{
	if (it.how & 4)
		post(ch);
}

static void received(struct xp_chan *ch, struct xp_iu *iu)
{
	static uint8_t copy[RECV_LEN];

	FUZZ_CLAIM(iu->len <= RECV_LEN);
	memcpy(copy, iu->data, iu->len); /* all bytes can be read */
	xp_iu_release(iu);
	post(ch);
}

static void closed(struct xp_chan *ch, const struct error *why)
{
	FUZZ_CLAIM(!it.busy && *why->text);
	xp_chan_free(ch);
	it.ch = NULL;
}

static void requested(struct xp_conn_request *req)
{
	static const struct xp_handler handler = {
		.established = established,
		.received = received,
		.closed = closed,
	};
	const struct xp_chan_params params = {
		.handler = &handler,
		.recv_cnt = RECVS,
		.pdata = "answer",
		.pdata_len = 6,
	};
	struct error e;

	FUZZ_CLAIM(req->pdata_len <= TCP_CM_DATA_MAX && !it.ch);
	if (it.how & 2)
		xp_reject(req, "no", 2);
	else
		FUZZ_CLAIM(!xp_accept(xp, req, &params, &it.ch, &e));
}

static void open_once(void)
{
	const struct reactor_options opt = { 0 };
	struct xp_config cfg = { .recv_len = RECV_LEN };
	socklen_t len = sizeof(addr);
	struct error e;
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	addr = (struct sockaddr_in){ .sin_family = AF_INET };
	addr.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	FUZZ_CLAIM(!bind(fd, (struct sockaddr *)&addr, len));
	getsockname(fd, (struct sockaddr *)&addr, &len);
	close(fd);
	log_level = LOG_ERROR;
	mem = aligned_alloc(4096, MEM_LEN);
	FUZZ_CLAIM(mem && !reactor_create(&opt, &reactor));
	memset(mem, 0x5a, MEM_LEN);
	cfg.reactor = reactor;
	FUZZ_CLAIM(!xp_create(XP_TCP, &cfg, &xp, &e));
	FUZZ_CLAIM(!xp_mr_register(xp, mem, MEM_LEN, XP_LOCAL, &local_mr, &e));
	FUZZ_CLAIM(!xp_mr_register(xp, mem + GIVEN_AT, GIVEN_LEN, XP_REMOTE,
				   &given_mr, &e));
	FUZZ_CLAIM(!xp_listen(xp, (struct sockaddr *)&addr, sizeof(addr),
			      requested, NULL, &listener, &e));
}

/* ---- the peer ---- */

/* Each peer has an address of its own, so that ports do not run out. */
static int open_peer(void)
{
	static uint32_t cnt;
	struct sockaddr_in from = { .sin_family = AF_INET };
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

	from.sin_addr.s_addr = htonl((127u << 24) | (++cnt & 0x7fffff) | 2);
	FUZZ_CLAIM(fd >= 0);
	FUZZ_CLAIM(!bind(fd, (struct sockaddr *)&from, sizeof(from)));
	FUZZ_CLAIM(!connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	return fd;
}

static void turn(void)
{
	static unsigned int turns;

	if (reactor_run_once(reactor, 1) > 0)
		turns = 0;
	FUZZ_CLAIM(turns++ < TURNS_MAX);
}

static void say(int fd, const void *buf, size_t len)
{
	send(fd, buf, len, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/* Reads all data until the other end has closed. */
static bool is_over(int fd)
{
	uint8_t buf[4096];
	ssize_t n;

	do
		n = recv(fd, buf, sizeof(buf), MSG_DONTWAIT);
	while (n > 0);
	return n == 0 || errno != EAGAIN;
}

/* If the input asks for it, writes the place of the accessible memory to the
 * first region of a message. */
static void aim(uint8_t *msg, size_t len)
{
	uint64_t at = 0;
	uint32_t key = 0;

	if (!(it.how & 0x20) || !it.ch || len < TCP_HDR_LEN + TCP_REGION_LEN)
		return;
	xp_mr_remote(given_mr, it.ch, mem + GIVEN_AT, &at, &key);
	for (unsigned int i = 0; i < 8; i++) {
		msg[TCP_HDR_LEN + i] ^= (uint8_t)(at >> 8 * i);
		msg[TCP_HDR_LEN + 16 + i] ^= (uint8_t)((uint64_t)key >> 8 * i);
	}
}

static void check_memory(void)
{
	for (unsigned int i = 0; i < MEM_LEN; i++) {
		bool is_given = i >= GIVEN_AT && i < GIVEN_AT + GIVEN_LEN;

		/* RDMA READ writes to the first 512 bytes. */
		FUZZ_CLAIM(is_given || i < 512 || mem[i] == 0x5a);
	}
}

static void connection(struct fuzz_input *in)
{
	uint8_t cm[TCP_CM_LEN + 8];
	uint8_t msg[2048];
	int fd = open_peer();

	if (!(it.how & 1))
		say(fd, cm, tcp_cm_encode(cm, TCP_CM_CONNECT, "request!", 8));
	/* Without a channel, there is no memory to access yet. */
	while ((it.how & 0x23) == 0x20 && !it.ch)
		turn();
	while (in->left) {
		size_t len = fuzz_u16(in) % sizeof(msg);

		if (len > in->left)
			len = in->left;
		fuzz_take(in, msg, len);
		aim(msg, len);
		say(fd, msg, len);
		if (it.how & 0x40)
			turn();
	}
	shutdown(fd, SHUT_WR);
	while (!is_over(fd) || it.ch)
		turn();
	close(fd);
	check_memory();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);

	if (!xp)
		open_once();
	it.how = fuzz_u8(&in);
	decode_cm(&in);
	decode_hdr(&in, TCP_LITTLE);
	decode_hdr(&in, TCP_BIG);
	connection(&in);
	return 0;
}
