/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random histories of libsrpi and a target that does all that targets may do
 * (see peer.h). Each history is checked. A seed determines a history. These
 * rules must hold:
 *
 *  - every operation is answered once, and fails only if I/O fails fast or the
 *    session is lost, or if it had no answer for long; a flush also fails if data was
 *    lost;
 *  - when a flush succeeds, every write that was acknowledged before it was
 *    submitted is on the medium, unless a flush since its acknowledgement has
 *    failed; a write with FUA is on the medium when it is acknowledged;
 *  - a write never replaces a later one that was acknowledged, also if nobody waits
 *    for it any more;
 *  - nothing is written to another disk that replaces the first one;
 *  - each state of the link has the timer that session.h names; the session
 *    connects again when the target is well, whatever happened before.
 */
#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "initiator/session.h"
#include "tests/lib/t_must.h"
#include "tests/sim/clock.h"
#include "tests/sim/peer.h"
#include "tests/sim/sim.h"

#define ACTS_MAX      80
#define OPS	      24u
#define FLUSHES	      4u
#define IO_TIMEOUT_MS 4000
/* More events than any history has. A history with more events never ends. */
#define EVENTS_MAX 300000u
/* By this time, a healthy target has accepted the session again: no pause, no
 * login and no answer takes longer than 5 s, and there are only a few of
 * each. */
#define BACK_MS 60000u

struct op {
	struct srpi_io io;
	bool busy;
	bool given_up;		    /* nobody waits for it */
	uint64_t stamp;		    /* of a write */
	uint64_t need[PEER_BLOCKS]; /* of a flush: stamps that were acknowledged
				     * before */
	unsigned int failed_flushes; /* value when a flush was submitted */
	unsigned int fails_fast;     /* value when it was submitted */
	uint64_t begun_us;
	uint64_t blocked_us; /* when I/O had to wait first since; 0: never */
};

static struct {
	struct t_fabric *hub;
	struct srpi_ctx ctx;
	struct ini_xp own;
	struct srpi_session *s;
	struct srpi_mem *mem;
	uint8_t *buf;
	struct op ops[OPS];
	uint64_t next_stamp;
	uint64_t acked[PEER_BLOCKS];
	bool writing[PEER_BLOCKS]; /* somebody waits for a write of it */
	unsigned int fails_fast;   /* how often I/O has begun to fail */
	unsigned int failed_flushes;
	bool connected, closed;
	unsigned int events;
	uint64_t heard; /* losses that were noted */
} w;

static struct {
	uint64_t histories;
	uint64_t ops;
	uint64_t flush_errors;
	uint64_t lost;
} total;

static uint64_t seed;

/* ---- checks ---- */

/* Five times without an answer, or without a lasting connection for fast_io_fail_ms. */
static bool waited_long(const struct op *op)
{
	int limit = w.s->options.fast_io_fail_ms;

	return clock_now() - op->begun_us >= 5000ull * IO_TIMEOUT_MS ||
	       (limit >= 0 && op->blocked_us &&
		clock_now() - op->blocked_us >= 1000ull * limit);
}

static bool may_fail(const struct op *op)
{
	return waited_long(op) || op->fails_fast != w.fails_fast ||
	       srpi_session_state(w.s) != SRPI_RUNNING;
}

static void judge_write(struct op *op, int res)
{
	unsigned int lba = (unsigned int)(op->io.offset / PEER_BLOCK);

	if (op->given_up)
		return;
	w.writing[lba] = false;
	if (res)
		return;
	w.acked[lba] = op->stamp;
	peer_acked(lba, op->stamp);
	/* Writes that were in flight when the disk changed went to the other
	 * disk. */
	if (op->io.fua && !peer_is_other() && peer_stable(lba) < op->stamp)
		sim_wrong("stamp %llu of block %u was to be stable",
			  (unsigned long long)op->stamp, lba);
}

static void judge_flush(struct op *op, int res)
{
	if (res) {
		total.flush_errors++;
		w.failed_flushes++;
		/* The caller knows that any data may be lost. */
		memset(w.acked, 0, sizeof(w.acked));
		return;
	}
	/* Another flush that failed meanwhile has reported it. */
	if (op->failed_flushes != w.failed_flushes)
		return;
	for (unsigned int b = 0; b < PEER_BLOCKS && !peer_is_other(); b++) {
		if (peer_stable(b) < op->need[b])
			sim_wrong("a flush is done, but stamp %llu of block %u "
				  "is lost",
				  (unsigned long long)op->need[b], b);
	}
}

static void op_done(struct srpi_io *io, int res)
{
	struct op *op = container_of(io, struct op, io);
	bool loses = op->io.op == SRPI_FLUSH || op->io.fua;

	if (!op->busy)
		sim_wrong("an operation is answered twice");
	op->busy = false;
	total.ops++;
	sim_tell("operation %td is done: %d", op - w.ops, res);
	if (io->op == SRPI_WRITE)
		judge_write(op, res);
	else if (io->op == SRPI_FLUSH)
		judge_flush(op, res);
	if (res && !may_fail(op) && !(loses && peer_losses() > 0))
		sim_wrong("operation %d fails (%d) for nothing", io->op, res);
}

/* Checks what session.h says about states and timers. Nothing is in flight
 * now. */
static void check_way_out(void)
{
	struct srpi_session *s = w.s;
	bool has_timer = true;

	if (!w.connected || w.closed || s->closing || s->state == SRPI_LOST)
		return;
	switch (s->link) {
	case INI_LINK_DOWN:
		has_timer = !list_empty(&s->reconnect.pause_timer.node);
		break;
	case INI_LINK_ASKING:
		has_timer = !list_empty(&s->answer_timer.node);
		break;
	case INI_LINK_UP:
		has_timer = s->queue.cmds == 0 ||
			    !list_empty(&s->queue.watch_timer.node) ||
			    !list_empty(&s->queue.retry_timer.node);
		break;
	case INI_LINK_LOGIN:
	case INI_LINK_MORE:
		break; /* the transport's timer */
	}
	if (!has_timer)
		sim_wrong("state %s, link %d: nothing leads on from here",
			  srpi_state_name(s->state), s->link);
	if ((s->state == SRPI_RUNNING) != (s->link == INI_LINK_UP))
		sim_wrong("state %s, link %d", srpi_state_name(s->state),
			  s->link);
}

/* ---- events ---- */

/* A loss counts as reported when it is noted, however short it is
 * remembered. */
static void notice_losses(void)
{
	const struct ini_volume *v = w.s->volume_cnt ? w.s->volumes[0] : NULL;
	uint64_t heard = v ? 2 * v->losses + v->saw_reset : 0;

	if (heard > w.heard)
		peer_heard();
	w.heard = heard;
}

static bool step(void)
{
	unsigned int fabric = t_fabric_pending(w.hub);
	unsigned int messages = clock_messages();
	unsigned int taken = peer_pending();
	unsigned int nth;

	if (fabric + messages + taken == 0)
		return false;
	if (++w.events == EVENTS_MAX)
		sim_wrong("it goes on for ever");
	nth = sim_random(fabric + messages + taken);
	if (nth < fabric)
		t_fabric_step_nth(w.hub, nth);
	else if (nth < fabric + messages)
		clock_run_message(nth - fabric);
	else
		peer_step(nth - fabric - messages);
	if (!w.closed)
		notice_losses();
	return true;
}

static void settle(void)
{
	while (!sim_is_wrong() && step())
		;
	if (!sim_is_wrong())
		check_way_out();
}

/* Runs until @until() is true, or for @ms. */
static void pass_time(uint64_t ms, bool (*until)(void))
{
	uint64_t end = clock_now() + ms * 1000;

	settle();
	while (!sim_is_wrong() && clock_now() < end && !(until && until())) {
		if (!clock_advance())
			return;
		settle();
	}
}

/* ---- the caller ---- */

static void on_connected(struct srpi_session *s, const struct srpi_error *e,
			 void *arg)
{
	w.connected = true;
	if (e->err)
		sim_wrong("no connection: %s", e->text);
}

static void on_closed(void *arg)
{
	w.closed = true;
}

static unsigned int find_sent(const struct ini_channel *ch, uint64_t *sent)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < ch->slot_cnt; i++) {
		const struct ini_cmd *cmd = ch->slots[i].cmd;

		if (cmd && cmd->dir == INI_DATA_OUT)
			memcpy(&sent[cnt++], cmd->buf, sizeof(*sent));
	}
	return cnt;
}

static void tell_other(void)
{
	uint64_t sent[2 * OPS];
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < w.s->channel_cnt; i++)
		cnt += find_sent(w.s->channels[i], sent + cnt);
	peer_tell_other(sent, cnt);
}

static void changed(struct srpi_session *s, enum srpi_state state,
		    const struct srpi_error *why, void *arg)
{
	sim_tell("%s: %s", srpi_state_name(state), why->text);
	if (peer_is_other() && state != SRPI_RUNNING)
		tell_other();
	w.fails_fast += state == SRPI_FAIL_FAST || state == SRPI_LOST;
	for (unsigned int i = 0; i < OPS && state == SRPI_BLOCKED; i++) {
		if (!w.ops[i].blocked_us)
			w.ops[i].blocked_us = clock_now();
	}
	if (state == SRPI_LOST && !peer_is_other())
		sim_wrong("lost, for nothing: %s", why->text);
}

static bool all_quiet(void)
{
	for (unsigned int i = 0; i < OPS; i++) {
		if (w.ops[i].busy)
			return false;
	}
	return true;
}

static void submit(enum srpi_op what, bool fua, unsigned int lba)
{
	struct op *op = NULL;
	size_t i;

	for (i = 0; i < OPS && !op; i++) {
		if (!w.ops[i].busy)
			op = &w.ops[i];
	}
	if (!op || (what == SRPI_WRITE && w.writing[lba]))
		return;
	i = (size_t)(op - w.ops);
	*op = (struct op){ .busy = true,
			   .fails_fast = w.fails_fast,
			   .begun_us = clock_now(),
			   .failed_flushes = w.failed_flushes };
	op->io = (struct srpi_io){ .op = what,
				   .offset = lba * PEER_BLOCK,
				   .len = PEER_BLOCK,
				   .buf = w.buf + i * PEER_BLOCK,
				   .mem = w.mem,
				   .fua = fua,
				   .done = op_done };
	/* What the library left there, or never wrote, means nothing. */
	memset(op->io.priv, 0xee, sizeof(op->io.priv));
	memcpy(op->need, w.acked, sizeof(op->need));
	if (what == SRPI_FLUSH)
		op->io.offset = op->io.len = 0;
	if (what == SRPI_WRITE) {
		op->stamp = ++w.next_stamp;
		w.writing[lba] = true;
		memcpy(op->io.buf, &op->stamp, sizeof(op->stamp));
	}
	sim_tell("operation %zu: %s%s of block %u, stamp %llu", i,
		 what == SRPI_WRITE   ? "write"
		 : what == SRPI_FLUSH ? "flush"
				      : "read",
		 fua ? ", FUA" : "", lba, (unsigned long long)op->stamp);
	srpi_submit(w.s, &op->io);
}

/* The caller stops waiting for a write, and may soon write the same block again. */
static void give_up(void)
{
	struct op *op = &w.ops[sim_random(OPS)];

	if (!op->busy || op->given_up || op->io.op != SRPI_WRITE)
		return;
	sim_tell("operation %td is given up", op - w.ops);
	op->given_up = true;
	w.writing[op->io.offset / PEER_BLOCK] = false;
}

static void act(void)
{
	unsigned int what = sim_random(100);
	unsigned int lba = sim_random(PEER_BLOCKS);

	if (what < 40)
		submit(SRPI_WRITE, sim_chance(15), lba);
	else if (what < 55)
		submit(SRPI_FLUSH, false, lba);
	else if (what < 60)
		submit(SRPI_READ, false, lba);
	else if (what < 65)
		give_up();
	else if (what < 82)
		peer_act(all_quiet());
	else if (what < 88)
		settle();
	else
		pass_time(sim_chance(80) ? sim_random(200) : sim_random(9000),
			  NULL);
}

/* ---- one history ---- */

/* The second address belongs to the same target. */
#define INITIATOR     "?initiator=00000000000000000000000000000001"
#define ONE_ADDRESS   "srp+rdma://10.0.0.1" INITIATOR
#define TWO_ADDRESSES "srp+rdma://10.0.0.1,10.0.0.2" INITIATOR

static bool has_connected(void)
{
	return w.connected;
}

static void begin(void)
{
	static const int fails[] = { SRPI_OFF, 300, 2000 };
	const struct peer_options po = { .has_store = sim_chance(60),
					 .write_cache = sim_chance(50),
					 .fua = sim_chance(50) };
	const struct srpi_options so = {
		.struct_size = sizeof(so),
		.channels = 1 + sim_random(2),
		.queue_depth = 4 + sim_random(12),
		.fast_io_fail_ms = fails[sim_random(3)],
		.dev_loss_ms = SRPI_OFF,
		.reconnect_delay_ms = 500,
		.io_timeout_ms = IO_TIMEOUT_MS,
		.keep_alive_ms = sim_chance(50) ? 1500 : SRPI_OFF,
		.state_changed = changed,
	};
	struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = INI_RECV_LEN };
	struct srpi_error e;

	clock_reset();
	memset(&w, 0, sizeof(w));
	w.hub = t_fabric_create();
	t_fabric_manual(w.hub, true);
	peer_reset(w.hub, &po);
	T_MUST(!reactor_create(&ropt, &w.ctx.reactor));
	cfg.reactor = w.ctx.reactor;
	w.own.kind = XP_VERBS;
	w.ctx.xps = &w.own;
	T_MUST(!t_xp_create(w.hub, &cfg, &w.own.xp));
	T_MUST(!srpi_connect(&w.ctx,
			     sim_chance(60) ? ONE_ADDRESS : TWO_ADDRESSES, &so,
			     on_connected, NULL, &w.s, &e));
	if (sim_chance(10))
		t_fabric_make_stale(w.hub, 1 + sim_random(3));
	pass_time(BACK_MS, has_connected);
	if (!w.connected)
		sim_wrong("no connection");
	if (sim_is_wrong())
		return;
	w.buf = aligned_alloc(4096, OPS * PEER_BLOCK);
	memset(w.buf, 0, OPS * PEER_BLOCK);
	T_MUST(!srpi_mem_register(w.s, w.buf, OPS * PEER_BLOCK, &w.mem, &e));
}

static bool is_back(void)
{
	enum srpi_state state = srpi_session_state(w.s);

	return all_quiet() && (state == SRPI_RUNNING || state == SRPI_LOST);
}

static void come_to_rest(void)
{
	sim_tell("-- the target is well from now on");
	peer_heal();
	pass_time(BACK_MS, is_back);
	if (!sim_is_wrong() && !is_back())
		sim_wrong("the session is %s, and does not come back",
			  srpi_state_name(srpi_session_state(w.s)));
	/* The first flush may report a loss, once. */
	for (int i = 0; i < 2 && !sim_is_wrong(); i++) {
		submit(SRPI_FLUSH, false, 0);
		pass_time(BACK_MS, is_back);
	}
}

static void end(void)
{
	total.lost += srpi_session_state(w.s) == SRPI_LOST;
	srpi_mem_free(w.mem);
	srpi_close(w.s, on_closed, NULL);
	pass_time(BACK_MS, NULL);
	if (!w.closed) {
		sim_wrong("the session does not close");
		return;
	}
	peer_end();
	xp_destroy(w.own.xp);
	reactor_destroy(w.ctx.reactor);
	t_fabric_destroy(w.hub);
	free(w.buf);
}

static bool run_seed(uint64_t value)
{
	unsigned int acts;

	seed = value;
	sim_seed(value);
	acts = 10 + sim_random(ACTS_MAX - 10);
	begin();
	for (unsigned int i = 0; i < acts && !sim_is_wrong(); i++) {
		for (unsigned int n = sim_random(12); n && !sim_is_wrong(); n--)
			step();
		if (!sim_is_wrong())
			act();
	}
	if (!sim_is_wrong())
		come_to_rest();
	if (!sim_is_wrong())
		end();
	total.histories++;
	return !sim_is_wrong();
}

/* ---- the program ---- */

static void on_crash(int sig)
{
	static char line[80];
	int len = snprintf(line, sizeof(line),
			   "seed %llu: ended by signal %d, after %llu "
			   "histories\n",
			   (unsigned long long)seed, sig,
			   (unsigned long long)total.histories + 1);

	if (write(STDOUT_FILENO, line, (size_t)len) < 0)
		_exit(3);
	_exit(2);
}

static void usage(void)
{
	puts("Usage: sim-client [--seed N] [--count N] [--verbose]\n"
	     "\n"
	     "Runs one random history of libsrpi for each seed, starting "
	     "with seed N. Ends with\n"
	     "the first wrong one, and prints its seed. A seed always gives "
	     "the same history.\n"
	     "\n"
	     "  --seed N     the first seed (default 1)\n"
	     "  --count N    run N histories (default 1 with --seed, else "
	     "2000)\n"
	     "  --verbose    print all events");
}

static const struct option options[] = {
	{ "seed", required_argument, NULL, 's' },
	{ "count", required_argument, NULL, 'c' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

int main(int argc, char **argv)
{
	uint64_t first = 1;
	uint64_t count = 0;
	bool one = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 's') {
			first = strtoull(optarg, NULL, 0);
			one = true;
		} else if (c == 'c') {
			count = strtoull(optarg, NULL, 0);
		} else if (c == 'v') {
			sim_verbose = true;
			setvbuf(stdout, NULL, _IOLBF, 0);
		} else {
			usage();
			return c == 'h' ? 0 : 1;
		}
	}
	if (!count)
		count = one ? 1 : 2000;
	signal(SIGABRT, on_crash);
	signal(SIGSEGV, on_crash);
	for (uint64_t i = 0; i < count; i++) {
		if (run_seed(first + i))
			continue;
		printf("seed %llu: %s, after %llu histories\n",
		       (unsigned long long)first + i, sim_wrong_text(),
		       (unsigned long long)total.histories);
		return 1;
	}
	printf("%llu histories, %llu operations, %llu flushes that failed, "
	       "%llu sessions lost\n",
	       (unsigned long long)total.histories,
	       (unsigned long long)total.ops,
	       (unsigned long long)total.flush_errors,
	       (unsigned long long)total.lost);
	return 0;
}
