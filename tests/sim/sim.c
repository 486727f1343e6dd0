/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Random histories of initiators, a target and its disks. Each history is
 * checked. A seed determines a history: the same seed gives the same events in
 * the same order.
 */
#include "tests/sim/sim.h"

#include <getopt.h>
#include <malloc.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

#include "tests/sim/clock.h"
#include "tests/sim/disk.h"
#include "tests/sim/host.h"
#include "tests/sim/target.h"

/* Actions of hosts in one history, at most. */
#define ACTS_MAX 120
/* More events than any history has. A history with more events never ends. */
#define EVENTS_MAX 200000
/* CPU time; 256 histories take a fraction of a second. */
#define HANG_SECONDS 20

static uint64_t seed;
static unsigned int acts_limit = UINT32_MAX;

static struct {
	struct t_fabric *hub;
	struct t_port target;
	bool memory[BLOCKS_LUNS];
	unsigned int events;
	bool jumps;	    /* time may pass before all events have occurred */
	bool crowded;	    /* hosts are faster than everything else */
	bool copies;	    /* hosts send EXTENDED COPY */
	unsigned int still; /* events for which a worker stands still */
} world;

static volatile sig_atomic_t told_to_end;

static struct {
	uint64_t histories;
	uint64_t events;
	uint64_t commands;
} total;

/* ---- events ---- */

static void stand_still(struct worker *w)
{
	t_fabric_stand_still(world.hub, w ? w->xp[XP_VERBS] : NULL);
	clock_stand_still(w ? w->reactor : NULL);
}

/* The others go on for a while, and then long enough for its signs of life to be old. */
static void let_worker_stand_still(void)
{
	struct worker *w =
		&world.target.workers[sim_random(world.target.worker_cnt)];

	sim_tell("-- a worker stands still");
	world.still = 50 + sim_random(150);
	stand_still(w);
}

static void let_worker_go_on(void)
{
	sim_tell("-- the worker goes on");
	hosts_worker_goes_on();
	world.still = 0;
	stand_still(NULL);
	clock_skip(3 * XP_SIGN_MS);
}

/* Runs one of the possible events. False: there is none. */
static bool step(void)
{
	unsigned int fabric = t_fabric_pending(world.hub);
	unsigned int messages = clock_messages();
	unsigned int disk = disks_pending();
	unsigned int nth;

	if (world.still &&
	    (--world.still == 0 || fabric + messages + disk == 0)) {
		let_worker_go_on();
		return true;
	}
	if (fabric + messages + disk == 0)
		return false;
	if (++world.events == EVENTS_MAX)
		sim_wrong("it goes on for ever");
	/* Disks are slower. */
	if (disk && fabric + messages && sim_chance(70))
		disk = 0;
	nth = sim_random(fabric + messages + disk);
	if (nth < fabric)
		t_fabric_step_nth(world.hub, nth);
	else if (nth < fabric + messages)
		clock_run_message(nth - fabric);
	else
		disks_step(nth - fabric - messages);
	return true;
}

static void settle(void)
{
	while (!sim_is_wrong() && step())
		;
}

static void check_blocks(void)
{
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++) {
		const char *bad = blocks_check(lun);

		if (bad)
			sim_wrong("%s", bad);
	}
}

/* All that is in flight must end by itself. */
static void check_progress(void)
{
	sim_tell("-- everything comes to rest");
	settle();
	if (!sim_is_wrong())
		hosts_check_quiet();
}

/* ---- the end of a target ---- */

static void stop_target(void)
{
	unsigned int waits = 0;

	hosts_excuse();
	if (!world.target.port.stopping)
		port_stop(&world.target.port);
	settle();
	/* The target waits for initiators that never complete a connection. */
	while (!sim_is_wrong() && !world.target.stopped && waits++ < 20) {
		clock_advance();
		settle();
	}
	if (!sim_is_wrong() && !world.target.stopped)
		sim_wrong("the target does not stop");
	if (!sim_is_wrong())
		target_end(&world.target);
	hosts_target_gone();
}

/* The disks may have lost data since. */
static void judge_losses(bool power_cut)
{
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++) {
		if (world.memory[lun] || !disk_had_loss(lun))
			continue;
		for (unsigned int lba = 0; lba < BLOCKS_CNT; lba++) {
			const char *bad =
				blocks_cut(lun, lba, disk_peek(lun, lba));

			if (bad)
				sim_wrong("%s", bad);
		}
		hosts_lost_writes(lun, power_cut);
	}
}

static void start_target(void)
{
	target_start(&world.target, world.hub, 1 + sim_random(T_PORT_WORKERS),
		     world.copies);
}

/* The contents of memory are lost with the process. */
static void forget_memory(void)
{
	for (unsigned int i = 0; i < BLOCKS_LUNS * BLOCKS_CNT; i++) {
		if (world.memory[i / BLOCKS_CNT])
			blocks_cut(i / BLOCKS_CNT, i % BLOCKS_CNT, 0);
	}
}

static void check_survivors(void)
{
	for (unsigned int i = 0; i < BLOCKS_LUNS * BLOCKS_CNT; i++) {
		unsigned int lun = i / BLOCKS_CNT;
		unsigned int lba = i % BLOCKS_CNT;
		const char *bad = NULL;

		if (!world.memory[lun])
			bad = blocks_cut(lun, lba, disk_peek(lun, lba));
		if (bad)
			sim_wrong("%s", bad);
	}
}

static void kill_target(void)
{
	bool power_cut = sim_chance(60);

	sim_tell("-- the target is killed%s",
		 power_cut ? ", and power is cut" : "");
	disks_kill(power_cut);
	target_killed(&world.target, power_cut);
	hosts_target_killed();
	if (power_cut) {
		check_blocks();
		check_survivors();
	} else {
		hosts_look();
		check_blocks();
	}
	stop_target();
	if (sim_is_wrong())
		return;
	target_put_back();
	if (power_cut)
		target_machine_boots();
	start_target();
	judge_losses(power_cut);
	forget_memory();
}

static void restart_target(void)
{
	sim_tell("-- the target stops, and is started again");
	stop_target();
	if (sim_is_wrong())
		return;
	hosts_check_quiet();
	check_blocks();
	start_target();
	judge_losses(/* power_cut= */ false);
	forget_memory();
	hosts_connect();
}

/* All channels end, and nothing else does. The device may return before they
 * have ended. */
static void remove_device(void)
{
	sim_tell("-- the RDMA device is removed");
	hosts_excuse();
	target_unplug(&world.target);
	for (unsigned int n = sim_random(60); n && !sim_is_wrong(); n--)
		step();
	sim_tell("-- the RDMA device is back");
	target_plug(&world.target);
}

/* ---- one history ---- */

static void begin(void)
{
	struct disk_config disks[BLOCKS_LUNS];
	bool cache[BLOCKS_LUNS];
	bool errors = sim_chance(25);

	clock_reset();
	blocks_reset();
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++) {
		bool is_memory = lun > 0 && sim_chance(40);

		disks[lun] = (struct disk_config){
			.cache = !is_memory && sim_chance(75),
			.fua = sim_chance(50),
			.memory = is_memory,
			.errors = errors,
		};
		cache[lun] = disks[lun].cache;
		world.memory[lun] = is_memory;
	}
	disks_reset(disks);
	target_machine_new();
	world.events = 0;
	world.still = 0;
	world.jumps = sim_chance(20);
	world.crowded = sim_chance(2);
	world.copies = sim_chance(50);
	world.hub = t_fabric_create();
	t_fabric_manual(world.hub, true);
	start_target();
	hosts_reset(world.hub, cache, world.memory, world.copies);
}

/* Causes some event besides the actions of hosts. False: none this time. */
static bool act_of_god(void)
{
	unsigned int what = sim_random(world.crowded ? 10000 : 1000);

	/* Those of all threads. */
	if (what < 28 && world.still)
		let_worker_go_on();
	if (what < 12)
		kill_target();
	else if (what < 18)
		restart_target();
	else if (what < 28)
		remove_device();
	else if (what < 40)
		check_progress();
	else if (what < 52 && !world.still)
		let_worker_stand_still();
	else if (what < 72 && world.jumps) {
		sim_tell("-- time passes");
		hosts_excuse();
		clock_advance();
	} else {
		return false;
	}
	return true;
}

static void end(void)
{
	check_progress();
	if (sim_is_wrong())
		return;
	check_blocks();
	hosts_leave();
	settle();
	stop_target();
	if (sim_is_wrong())
		return;
	hosts_end();
	t_fabric_destroy(world.hub);
}

static void run(void)
{
	unsigned int acts = 10 + sim_random(ACTS_MAX - 10);
	unsigned int pause = 12;

	begin();
	if (world.crowded) {
		acts += 600;
		pause = 8;
	}
	hosts_connect();
	for (unsigned int i = 0; i < acts && i < acts_limit && !sim_is_wrong();
	     i++) {
		for (unsigned int n = sim_random(pause); n && !sim_is_wrong();
		     n--)
			step();
		if (sim_is_wrong() || act_of_god())
			continue;
		if (world.still && sim_chance(10))
			hosts_fail_over();
		else
			hosts_act(world.crowded && sim_chance(98));
	}
	if (!sim_is_wrong())
		end();
	total.histories++;
	total.events += world.events;
	total.commands += hosts_commands();
}

static bool run_seed(uint64_t value)
{
	seed = value;
	sim_seed(value);
	run();
	return !sim_is_wrong();
}

/* ---- the program ---- */

/* After a failed assertion or a signal, prints the seed. */
static void on_crash(int sig)
{
	static char line[128];
	int len = snprintf(line, sizeof(line),
			   "seed %llu: ended by signal %d, after %llu "
			   "histories\n",
			   (unsigned long long)seed, sig,
			   (unsigned long long)total.histories + 1);

	if (write(STDOUT_FILENO, line, (size_t)len) < 0)
		_exit(3);
	_exit(2);
}

static void on_end(int sig)
{
	told_to_end = 1;
}

static void catch_signals(void)
{
	signal(SIGINT, on_end);
	signal(SIGTERM, on_end);
	signal(SIGABRT, on_crash);
	signal(SIGSEGV, on_crash);
	signal(SIGPROF, on_crash);
}

/* The limit is CPU time, because the machine may have other work. */
static void expect_progress(void)
{
	struct itimerval limit = { .it_value.tv_sec = HANG_SECONDS };

	setitimer(ITIMER_PROF, &limit, NULL);
}

static double seconds(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (double)ts.tv_sec + (double)ts.tv_nsec / 1e9;
}

static void usage(void)
{
	puts("Usage: sim [--seed N] [--count N] [--seconds N] [--acts N] "
	     "[--verbose]\n"
	     "\n"
	     "Runs one random history for each seed, starting with seed N. "
	     "Ends with the first\n"
	     "wrong one, and prints its seed. A seed always gives the same "
	     "history.\n"
	     "\n"
	     "  --seed N     the first seed (default 1)\n"
	     "  --count N    run N histories (default 1 with --seed, else "
	     "10000)\n"
	     "  --seconds N  start no history after N seconds\n"
	     "  --acts N     end each history after N actions of the hosts: "
	     "the smallest N\n"
	     "               with a wrong history gives the shortest one\n"
	     "  --verbose    print all events");
}

static const struct option options[] = {
	{ "seed", required_argument, NULL, 's' },
	{ "count", required_argument, NULL, 'c' },
	{ "seconds", required_argument, NULL, 't' },
	{ "acts", required_argument, NULL, 'a' },
	{ "verbose", no_argument, NULL, 'v' },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static void report(double began)
{
	double took = seconds() - began;
	double processor = (double)clock() / CLOCKS_PER_SEC;

	printf("%llu histories, %llu events, %llu commands in %.1f s, %.1f of "
	       "the processor: %.0f histories in each of these\n",
	       (unsigned long long)total.histories,
	       (unsigned long long)total.events,
	       (unsigned long long)total.commands, took, processor,
	       (double)total.histories / processor);
}

static int run_all(uint64_t first, uint64_t count, double limit)
{
	double began = seconds();

	for (uint64_t i = 0; i < count; i++) {
		if (i % 256 == 0) {
			expect_progress();
			if (told_to_end ||
			    (limit > 0 && seconds() - began > limit))
				break;
		}
		if (run_seed(first + i))
			continue;
		printf("seed %llu: %s, after %llu histories\n",
		       (unsigned long long)first + i, sim_wrong_text(),
		       (unsigned long long)total.histories);
		return 1;
	}
	report(began);
	return 0;
}

int main(int argc, char **argv)
{
	uint64_t first = 1;
	uint64_t count = 0;
	double limit = 0;
	bool one = false;
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) >= 0) {
		if (c == 's') {
			first = strtoull(optarg, NULL, 0);
			one = true;
		} else if (c == 'c') {
			count = strtoull(optarg, NULL, 0);
		} else if (c == 't') {
			limit = strtod(optarg, NULL);
			count = UINT64_MAX;
		} else if (c == 'a') {
			acts_limit = (unsigned int)strtoul(optarg, NULL, 0);
		} else if (c == 'v') {
			sim_verbose = true;
			log_level = LOG_INFO;
			setvbuf(stdout, NULL, _IOLBF, 0);
		} else {
			usage();
			return c == 'h' ? 0 : 1;
		}
	}
	if (!count)
		count = one ? 1 : 10000;
	/* Channels are created and freed often; their memory need not go back
	 * to the kernel. */
	mallopt(M_MMAP_THRESHOLD, 64 << 20);
	mallopt(M_TRIM_THRESHOLD, 512 << 20);
	catch_signals();
	return run_all(first, count, limit);
}
