/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * exchange-lat: the time that the fabric alone needs for the messages of an SRP
 * READ. These are a SEND of 64 bytes in one direction, then an RDMA WRITE and a
 * SEND of 36 bytes in the other direction with one call. Both ends only poll,
 * post the used receive again, and continue. Both are in this program, which
 * needs two CPUs. Any longer time is spent in libsrpi and rdma-target.
 */
#include <errno.h>
#include <pthread.h>
#include <rdma/rdma_verbs.h>
#include <stdio.h>
#include <string.h>

#include "tests/bench/cycles.h"

#define CMD_LEN	   64
#define RSP_LEN	   36
#define RECV_LEN   512
#define RECVS	   64u
#define ROUNDS_MAX 100000u

static const char help[] =
	"Usage: exchange-lat ADDRESS PORT [BYTES [ROUNDS]]\n"
	"\n"
	"A SEND, then an RDMA WRITE of BYTES (4096) and a SEND back; between two\n"
	"ends in this program, through the RDMA device that has ADDRESS. Prints\n"
	"the median of ROUNDS (5000) as JSON.\n";

struct end {
	struct rdma_cm_id *id;
	uint8_t *mem; /* receives, then sends, then page-aligned data */
	struct ibv_mr *mr;
	uint32_t len; /* bytes of data */
	unsigned int rounds;
};

/* The place of the client's data, sent as private data of the connection. */
struct place {
	uint64_t addr;
	uint32_t key;
};

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "exchange-lat: %s: %s\n", what, strerror(errno));
	exit(EXIT_FAILURE);
}

static uint8_t *message_of(const struct end *e)
{
	return e->mem + (size_t)RECVS * RECV_LEN;
}

static uint8_t *data_of(const struct end *e)
{
	return e->mem + ((size_t)RECVS * RECV_LEN + 8191) / 4096 * 4096;
}

static struct ibv_qp_init_attr attributes(void)
{
	return (struct ibv_qp_init_attr){
		.qp_type = IBV_QPT_RC,
		.cap = { .max_send_wr = RECVS,
			 .max_recv_wr = RECVS,
			 .max_send_sge = 1,
			 .max_recv_sge = 1,
			 .max_inline_data = CMD_LEN },
	};
}

static void post_recv(struct end *e, uint64_t n)
{
	must(rdma_post_recv(e->id, (void *)(uintptr_t)n, e->mem + n * RECV_LEN,
			    RECV_LEN, e->mr),
	     "posting a receive");
}

static void open_end(struct end *e)
{
	size_t len = (size_t)(data_of(e) - e->mem) + e->len + 4095;

	e->mem = aligned_alloc(4096, len / 4096 * 4096);
	must(!e->mem, "memory");
	memset(e->mem, 0, len / 4096 * 4096);
	e->mr = ibv_reg_mr(e->id->pd, e->mem, len / 4096 * 4096,
			   IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
	must(!e->mr, "registering memory");
	for (unsigned int i = 0; i < RECVS; i++)
		post_recv(e, i);
}

/* Spins until a message has come, and posts its receive again. */
static void await(struct end *e)
{
	struct ibv_wc wc;
	int n;

	do {
		n = ibv_poll_cq(e->id->recv_cq, 1, &wc);
	} while (n == 0);
	must(n < 0 || wc.status, "a receive");
	post_recv(e, wc.wr_id);
}

static void reap_sends(struct end *e)
{
	struct ibv_wc wc;

	while (ibv_poll_cq(e->id->send_cq, 1, &wc) > 0)
		must(wc.status, "a work request");
}

static void send_message(struct end *e, uint32_t len, const struct place *data)
{
	struct ibv_sge sge[2] = {
		{ .addr = (uintptr_t)data_of(e),
		  .length = e->len,
		  .lkey = e->mr->lkey },
		{ .addr = (uintptr_t)message_of(e), .length = len },
	};
	struct ibv_send_wr send = {
		.sg_list = &sge[1],
		.num_sge = 1,
		.opcode = IBV_WR_SEND,
		.send_flags = IBV_SEND_SIGNALED | IBV_SEND_INLINE,
	};
	struct ibv_send_wr write = {
		.next = &send,
		.sg_list = &sge[0],
		.num_sge = 1,
		.opcode = IBV_WR_RDMA_WRITE,
	};
	struct ibv_send_wr *bad;

	if (data) {
		write.wr.rdma.remote_addr = data->addr;
		write.wr.rdma.rkey = data->key;
	}
	must(ibv_post_send(e->id->qp, data ? &write : &send, &bad), "posting");
	reap_sends(e);
}

static void *serve(void *arg)
{
	struct end *listener = arg;
	struct end e = *listener;
	struct rdma_conn_param param = { 0 };
	struct place place;

	must(rdma_get_request(listener->id, &e.id), "a connection");
	memcpy(&place, e.id->event->param.conn.private_data, sizeof(place));
	open_end(&e);
	must(rdma_accept(e.id, &param), "accepting");
	for (unsigned int i = 0; i < e.rounds; i++) {
		await(&e);
		send_message(&e, RSP_LEN, &place);
	}
	return NULL;
}

static double exchange(struct end *e)
{
	uint64_t *took = calloc(e->rounds, sizeof(*took));
	struct moment begin = moment_now();
	uint64_t median;

	must(!took, "memory");
	for (unsigned int i = 0; i < e->rounds; i++) {
		uint64_t then = cycles();

		send_message(e, CMD_LEN, NULL);
		await(e);
		took[i] = cycles() - then;
	}
	median = cycles_median(took, e->rounds);
	free(took);
	return (double)median / cycles_per_us(begin, moment_now());
}

static void make_id(const char *address, const char *port, int flags,
		    struct rdma_cm_id **ret_id)
{
	struct rdma_addrinfo hints = { .ai_flags = flags,
				       .ai_port_space = RDMA_PS_TCP };
	struct ibv_qp_init_attr attr = attributes();
	struct rdma_addrinfo *ai;

	must(rdma_getaddrinfo(address, port, &hints, &ai), "the address");
	must(rdma_create_ep(ret_id, ai, NULL, &attr), "an endpoint");
	rdma_freeaddrinfo(ai);
}

int main(int argc, char **argv)
{
	struct end listener = { .len = 4096, .rounds = 5000 };
	struct rdma_conn_param param = { .retry_count = 7,
					 .rnr_retry_count = 7 };
	struct place place;
	pthread_t server;
	struct end e;

	if (argc < 3 || argc > 5) {
		fputs(help, stderr);
		return EXIT_FAILURE;
	}
	if (argc > 3)
		listener.len = (uint32_t)strtoul(argv[3], NULL, 10);
	if (argc > 4)
		listener.rounds = (unsigned int)strtoul(argv[4], NULL, 10);
	if (listener.rounds == 0 || listener.rounds > ROUNDS_MAX) {
		fputs(help, stderr);
		return EXIT_FAILURE;
	}
	e = listener;
	make_id(argv[1], argv[2], RAI_PASSIVE, &listener.id);
	must(rdma_listen(listener.id, 1), "listening");
	must(pthread_create(&server, NULL, serve, &listener), "a thread");
	make_id(argv[1], argv[2], 0, &e.id);
	open_end(&e);
	place = (struct place){ (uintptr_t)data_of(&e), e.mr->rkey };
	param.private_data = &place;
	param.private_data_len = sizeof(place);
	must(rdma_connect(e.id, &param), "connecting");
	printf("{\"us_median\": %.2f}\n", exchange(&e));
	pthread_join(server, NULL);
	return EXIT_SUCCESS;
}
