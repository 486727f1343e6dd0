/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * client-bench: N reads of 4 KiB by libsrpi, 32 in flight, from a RAM volume of
 * a target in the same process. For counting the instructions of the client: run
 * it with N and with 2 N, the difference is what N reads need.
 */
#include <stdio.h>
#include <stdlib.h>

#include "initiator/ctx.h"
#include "initiator/srp_initiator.h"
#include "tests/bench/apart.h"
#include "tests/lib/t_must.h"
#include "tests/lib/t_rig.h"

#define DEPTH 32u
#define READ  4096u

static struct rig *rig;
static struct ini_xp transport = { .kind = XP_VERBS };
static struct srpi_ctx ctx = { .xps = &transport };
static struct srpi_session *session;
static struct srpi_io reads[DEPTH];
static unsigned long left; /* to submit */
static bool connected;
static bool closed;

/* What is counted: --toggle-collect. */
static APART bool client_turn(void)
{
	return reactor_run_once(ctx.reactor, 0) > 0;
}

static void settle(void)
{
	for (unsigned int idle = 0; idle < 4; idle++) {
		if (client_turn())
			idle = 0;
		if (reactor_run_once(rig->target.workers[0].reactor, 0) > 0)
			idle = 0;
	}
}

static void on_connected(struct srpi_session *s, const struct srpi_error *why,
			 void *arg)
{
	T_MUST(!why->err);
	connected = true;
}

static void on_closed(void *arg)
{
	closed = true;
}

static void on_read(struct srpi_io *io, int err)
{
	T_MUST(!err);
	if (left == 0)
		return;
	left--;
	srpi_submit(session, io);
}

static void begin(void)
{
	const struct srpi_options options = {
		.struct_size = sizeof(options),
		.reconnect_delay_ms = SRPI_OFF,
	};
	struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = INI_RECV_LEN };

	rig = rig_create(NULL);
	T_MUST(!reactor_create(&ropt, &ctx.reactor));
	cfg.reactor = ctx.reactor;
	T_MUST(!t_xp_create(rig->hub, &cfg, &transport.xp));
	T_MUST(!srpi_connect(&ctx, "srp+rdma://10.0.0.1:5555", &options,
			     on_connected, NULL, &session, NULL));
	settle();
	T_MUST(connected && srpi_volume_cnt(session) > RIG_RAM);
}

static void end(struct srpi_mem *mem)
{
	srpi_mem_free(mem);
	srpi_close(session, on_closed, NULL);
	settle();
	T_MUST(closed);
	xp_destroy(transport.xp);
	reactor_destroy(ctx.reactor);
	rig_destroy(rig);
}

int main(int argc, char **argv)
{
	static _Alignas(4096) uint8_t buf[DEPTH * READ];
	struct srpi_mem *mem;

	left = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	if (left == 0) {
		fprintf(stderr, "Usage: client-bench READS\n");
		return 2;
	}
	begin();
	T_MUST(!srpi_mem_register(session, buf, sizeof(buf), &mem, NULL));
	for (unsigned int i = 0; i < DEPTH; i++) {
		reads[i] = (struct srpi_io){
			.op = SRPI_READ,
			.volume = RIG_RAM,
			.offset = (uint64_t)i * READ,
			.len = READ,
			.buf = buf + i * READ,
			.mem = mem,
			.done = on_read,
		};
		on_read(&reads[i], 0);
	}
	settle();
	T_MUST(left == 0);
	end(mem);
	return 0;
}
