/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * proof-load: writers that record their operations, and a judge.
 *
 * Each THROUGH is a file (for example of a mount) or a URI for libsrpi. It gets
 * processes with lanes (lane.h) that overwrite each other's blocks and read
 * them. The lines of standard input are commands: some do something to the
 * writers, others stop them until all blocks are read and checked. Each command
 * is answered by a line on standard output.
 */
#include <errno.h>
#include <getopt.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/size.h"
#include "tests/proof/journal.h"
#include "tests/proof/judge.h"
#include "tests/proof/lane.h"
#include "tests/proof/evidence.h"

static const char help[] =
	"Usage: proof-load [OPTIONS] THROUGH...\n"
	"\n"
	"Writes to the blocks of one volume THROUGH files and srp:// URIs, all "
	"at once.\n"
	"Checks that some order of the writes explains the result of each "
	"read.\n"
	"The data of the volume is lost.\n"
	"\n"
	"  -b, --block-size SIZE    512 or 4096: a block must never be torn "
	"(512)\n"
	"  -n, --blocks N           number of blocks, up to 16384 (2048)\n"
	"      --offset SIZE        offset of the first block (0)\n"
	"  -w, --writers N          processes for each file (2); a URI has one\n"
	"  -l, --lanes N            concurrent operations of each process (4)\n"
	"      --max-blocks N       blocks of the largest operation (64)\n"
	"      --flush-every N      operations of a lane between two flushes, on "
	"average\n"
	"                           (16); 0: no flushes\n"
	"      --volatile           allow a killed target to lose unflushed "
	"data\n"
	"      --pause-us N         pause between the operations of a lane (0)\n"
	"      --seed N             seed of the random choices (1)\n"
	"      --seconds N          run N rounds of one second each, without "
	"commands\n"
	"      --timeout N          seconds that a round may wait for answers "
	"(300)\n"
	"\n"
	"Commands on standard input. Each gets one line as its answer:\n"
	"  ops N       wait until each THROUGH has N more successful "
	"operations\n"
	"  kill PID    kill -9 a target, and wait until it has ended\n"
	"  writer      kill -9 a writer, and start another one in its place\n"
	"  since       start the time for \"usable after\" of the next round\n"
	"  round       stop the lanes, read and check all blocks, continue\n"
	"  note TEXT   print TEXT, with the present time, after a violation\n"
	"  quit        like round, but end\n"
	"Exit status: 0 without a violation, 1 after one, 2 if the program hangs "
	"or a\n"
	"writer ends.\n";

#define MAX_PROCESSES 32
/* rdma-fuse and libsrpi wait at least 50 ms before they reconnect. */
#define REPLAY_NS 45000000ull

/* A writer. */
struct process {
	pid_t pid;
	unsigned int nexus;
	struct lane *lanes[JOURNAL_LANES];
	unsigned int lane_cnt;
};

struct load {
	struct journal *j;
	struct judge judge;
	struct evidence evidence;
	const char *through[JOURNAL_LANES + 1]; /* by number of the nexus, from
						 * 1 */
	unsigned int nexus_cnt;
	struct process processes[MAX_PROCESSES];
	unsigned int process_cnt;
	unsigned int next_victim;
	struct history_cut cuts[1024];
	uint64_t since; /* ns; 0: not requested */
	unsigned int rounds;
	/* options */
	unsigned int writers;
	unsigned int lanes;
	unsigned int seconds;
	unsigned int timeout;
};

static void nap_ms(unsigned int ms)
{
	const struct timespec ts = { .tv_sec = ms / 1000,
				     .tv_nsec = ms % 1000 * 1000000 };

	nanosleep(&ts, NULL);
}

static bool is_uri(const char *through)
{
	return strstr(through, "://") != NULL;
}

/* ---- writers ---- */

/* The same initiator after each reconnect. */
static void name_initiator(const struct load *l, const struct process *p,
			   char *uri, size_t len)
{
	const char *through = l->through[p->nexus];

	snprintf(uri, len, "%s%cinitiator=70726f6f66%022x", through,
		 strchr(through, '?') ? '&' : '?',
		 (unsigned int)l->j->run << 8 | p->nexus);
}

static void process_run(const struct load *l, struct process *p)
{
	char uri[512];
	int err;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	close(STDIN_FILENO);
	name_initiator(l, p, uri, sizeof(uri));
	err = is_uri(uri) ? lane_srpi_run(l->j, p->lanes, p->lane_cnt, uri)
			  : lane_file_run(l->j, p->lanes, p->lane_cnt,
					  l->through[p->nexus]);
	if (err)
		fprintf(stderr, "proof-load: %s\n", strerror(-err));
	exit(err ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void process_start(struct load *l, struct process *p)
{
	fflush(stdout);
	p->pid = fork();
	if (p->pid < 0)
		abort();
	if (p->pid == 0)
		process_run(l, p);
}

static void process_kill(struct process *p)
{
	kill(p->pid, SIGKILL);
	waitpid(p->pid, NULL, 0);
	for (unsigned int i = 0; i < p->lane_cnt; i++)
		lane_bury(p->lanes[i]);
}

static void add_lane(struct load *l, struct process *p, uint64_t seed)
{
	struct journal *j = l->j;
	struct lane *lane = &j->lanes[j->lane_cnt++];

	lane->number = j->lane_cnt;
	lane->nexus = p->nexus;
	lane->is_first = lane == &j->lanes[0] || lane[-1].nexus != lane->nexus;
	lane->shares_errors = is_uri(l->through[p->nexus]);
	lane->random = (seed * 64 + lane->number) * 0x9e3779b97f4a7c15ull | 1;
	p->lanes[p->lane_cnt++] = lane;
}

static bool plan(struct load *l, char **throughs, int cnt, uint64_t seed)
{
	for (int i = 0; i < cnt; i++) {
		unsigned int n = is_uri(throughs[i]) ? 1 : l->writers;

		l->through[++l->nexus_cnt] = throughs[i];
		for (; n > 0; n--) {
			struct process *p = &l->processes[l->process_cnt++];

			if (l->process_cnt > MAX_PROCESSES ||
			    l->j->lane_cnt + l->lanes > JOURNAL_LANES)
				return false;
			p->nexus = l->nexus_cnt;
			for (unsigned int k = 0; k < l->lanes; k++)
				add_lane(l, p, seed);
		}
	}
	return true;
}

/* One quarter of the blocks is for all lanes, the rest is divided. */
static void share_out(struct journal *j)
{
	uint32_t own;

	j->shared_cnt = (j->blocks + 3) / 4;
	own = (j->blocks - j->shared_cnt) / j->lane_cnt;
	for (unsigned int i = 0; i < j->lane_cnt; i++) {
		j->lanes[i].own_first = j->shared_cnt + i * own;
		j->lanes[i].own_cnt = own;
	}
}

/* ---- phases ---- */

static void say_who_hangs(const struct load *l)
{
	const struct journal *j = l->j;

	printf("HANGS: no answer for %u seconds:\n", l->timeout);
	for (unsigned int i = 0; i < j->lane_cnt; i++) {
		const struct lane *lane = &j->lanes[i];
		const struct journal_record *r = &lane->records[lane->cnt - 1];

		if (lane->resting == j->phase_nr)
			continue;
		printf("  lane %u through %s: ", lane->number,
		       l->through[lane->nexus]);
		if (lane->cnt && r->state == JOURNAL_BEGUN)
			printf("operation %u on block %u has waited %.1f s\n",
			       r->op, r->first,
			       (double)(journal_now() - r->start) / 1e9);
		else
			printf("%" PRIu64 " operations, %" PRIu64 " errors\n",
			       lane->ops, lane->errors);
	}
}

/* A writer that ends on its own leaves operations of its lanes without an
 * answer. */
static bool has_lost_writer(const struct load *l)
{
	for (unsigned int i = 0; i < l->process_cnt; i++) {
		const struct process *p = &l->processes[i];
		int how;

		if (waitpid(p->pid, &how, WNOHANG) != p->pid)
			continue;
		printf("ENDED: the writer of lanes %u to %u through %s: ",
		       p->lanes[0]->number, p->lanes[p->lane_cnt - 1]->number,
		       l->through[p->nexus]);
		if (WIFSIGNALED(how))
			printf("signal %d\n", WTERMSIG(how));
		else
			printf("exit status %d\n", WEXITSTATUS(how));
		return true;
	}
	return false;
}

static bool all_rest(const struct journal *j)
{
	for (unsigned int i = 0; i < j->lane_cnt; i++) {
		if (j->lanes[i].resting != j->phase_nr)
			return false;
	}
	return true;
}

static void set_phase(struct load *l, enum journal_phase phase)
{
	static const char *const names[] = {
		[PHASE_REST] = "rest", [PHASE_FILL] = "fill",
		[PHASE_LOAD] = "load", [PHASE_FENCE] = "fence",
		[PHASE_READ] = "read", [PHASE_QUIT] = "quit",
	};

	evidence_note(&l->evidence, "phase %u: %s", l->j->phase_nr + 1,
		      names[phase]);
	l->j->phase = phase;
	l->j->phase_nr++;
}

/* False: it hangs, or cannot continue. */
static bool finish_phase(struct load *l, enum journal_phase phase)
{
	uint64_t until = journal_now() + l->timeout * 1000000000ull;

	set_phase(l, phase);
	while (!all_rest(l->j)) {
		if (journal_now() > until) {
			say_who_hangs(l);
			return false;
		}
		if (has_lost_writer(l))
			return false;
		nap_ms(1);
	}
	evidence_note(&l->evidence, "all lanes rest");
	return true;
}

static uint64_t total_errors(const struct journal *j)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < j->lane_cnt; i++)
		n += j->lanes[i].errors;
	return n;
}

static void tell_usable(struct load *l)
{
	uint64_t t;

	if (!l->since)
		return;
	t = judge_usable_after(&l->judge, l->since);
	if (t == UINT64_MAX)
		printf(", not usable since");
	else
		printf(", usable after %.3f s", (double)t / 1e9);
	l->since = 0;
}

/* A lane has reported a violation on standard error, or the judge has. */
static bool is_right(struct load *l)
{
	const struct journal *j = l->j;

	if (j->violated) {
		evidence_tell(&l->evidence, j, j->violated_block,
			      j->violated_value);
		return false;
	}
	if (judge_all(&l->judge))
		return true;
	evidence_tell(&l->evidence, j, l->judge.bad_block, l->judge.bad_value);
	return false;
}

/* Returns 0, or the exit status: 1 for a violation, 2 if it hangs. */
static int judge_round(struct load *l)
{
	struct journal *j = l->j;

	if (!finish_phase(l, PHASE_REST) || !finish_phase(l, PHASE_FENCE) ||
	    !finish_phase(l, PHASE_READ))
		return 2;
	if (!is_right(l)) {
		printf("round wrong\n");
		return 1;
	}
	printf("round %u right: %" PRIu64 " operations so far, %" PRIu64
	       " errors",
	       ++l->rounds, l->judge.ops, total_errors(j));
	tell_usable(l);
	printf("\n");
	evidence_keep(&l->evidence, j);
	judge_forget(&l->judge);
	return 0;
}

static int judge_and_go_on(struct load *l)
{
	int status = judge_round(l);

	if (!status)
		set_phase(l, PHASE_LOAD);
	return status;
}

/* ---- commands ---- */

static uint64_t ops_of(const struct load *l, unsigned int nexus)
{
	uint64_t n = 0;

	for (unsigned int i = 0; i < l->j->lane_cnt; i++) {
		if (l->j->lanes[i].nexus == nexus)
			n += l->j->lanes[i].ops;
	}
	return n;
}

/* Also checks whenever a journal is full. */
static int wait_for_ops(struct load *l, uint64_t more)
{
	uint64_t until = journal_now() + l->timeout * 1000000000ull;
	uint64_t want[JOURNAL_LANES + 1];

	for (unsigned int i = 1; i <= l->nexus_cnt; i++)
		want[i] = ops_of(l, i) + more;
	for (unsigned int i = 1; i <= l->nexus_cnt; i++) {
		while (ops_of(l, i) < want[i]) {
			int status = 0;

			if (l->j->violated)
				return judge_round(l);
			if (has_lost_writer(l))
				return 2;
			if (journal_now() > until) {
				printf("HANGS: %s got no further for %u s\n",
				       l->through[i], l->timeout);
				return 2;
			}
			for (unsigned int k = 0; k < l->j->lane_cnt; k++) {
				if (!lane_has_room(l->j, &l->j->lanes[k]))
					status = judge_and_go_on(l);
			}
			if (status)
				return status;
			nap_ms(1);
		}
	}
	printf("ops done\n");
	return 0;
}

static bool is_dead(pid_t pid)
{
	char path[64];
	char line[256];
	FILE *f;
	bool dead;

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	f = fopen(path, "r");
	if (!f)
		return true;
	dead = !fgets(line, sizeof(line), f) || strstr(line, ") Z") ||
	       strstr(line, ") X");
	fclose(f);
	return dead;
}

static int kill_target(struct load *l, pid_t pid)
{
	struct history_cut *cut = &l->cuts[l->judge.cut_cnt];

	cut->begin = journal_now();
	if (kill(pid, SIGKILL)) {
		printf("kill failed: %s\n", strerror(errno));
		return 1;
	}
	while (!is_dead(pid))
		nap_ms(1);
	cut->end = journal_now();
	if (l->j->volatile_cache)
		l->judge.cut_cnt++;
	evidence_note(&l->evidence, "target killed");
	printf("killed %d\n", pid);
	return 0;
}

static int kill_writer(struct load *l)
{
	struct process *p = &l->processes[l->next_victim++ % l->process_cnt];

	evidence_note(&l->evidence,
		      "writer of %s is killed, its first lane is %u",
		      l->through[p->nexus], p->lanes[0]->number);
	process_kill(p);
	evidence_note(&l->evidence, "its end was seen");
	process_start(l, p);
	printf("writer of %s killed\n", l->through[p->nexus]);
	return 0;
}

static int command(struct load *l, const char *line, bool *ret_quit)
{
	if (!strncmp(line, "ops ", 4))
		return wait_for_ops(l, strtoull(line + 4, NULL, 10));
	if (!strncmp(line, "kill ", 5))
		return kill_target(l, (pid_t)strtol(line + 5, NULL, 10));
	if (!strcmp(line, "writer"))
		return kill_writer(l);
	if (!strncmp(line, "note ", 5)) {
		evidence_note(&l->evidence, "%s", line + 5);
		printf("noted\n");
		return 0;
	}
	if (!strcmp(line, "round"))
		return judge_and_go_on(l);
	if (!strcmp(line, "quit")) {
		*ret_quit = true;
		return judge_round(l);
	}
	if (!strcmp(line, "since")) {
		l->since = journal_now();
		printf("since now\n");
		return 0;
	}
	printf("what is '%s'?\n", line);
	return 1;
}

static int follow_commands(struct load *l)
{
	bool quit = false;
	int status = 0;
	char line[128];

	while (!quit && !status && fgets(line, sizeof(line), stdin)) {
		line[strcspn(line, "\n")] = '\0';
		status = command(l, line, &quit);
		fflush(stdout);
	}
	return status || quit ? status : judge_round(l);
}

static int run_alone(struct load *l)
{
	int status = 0;

	for (unsigned int i = 0; i < l->seconds && !status; i++) {
		nap_ms(1000);
		status = judge_and_go_on(l);
		fflush(stdout);
	}
	return status;
}

/* ---- the program ---- */

static int run(struct load *l)
{
	int status = 2;

	set_phase(l, PHASE_REST);
	for (unsigned int i = 0; i < l->process_cnt; i++)
		process_start(l, &l->processes[i]);
	if (finish_phase(l, PHASE_FILL))
		status = judge_and_go_on(l);
	fflush(stdout);
	if (!status)
		status = l->seconds ? run_alone(l) : follow_commands(l);
	set_phase(l, PHASE_QUIT);
	for (unsigned int i = 0; i < l->process_cnt; i++) {
		if (status)
			kill(l->processes[i].pid, SIGKILL);
		waitpid(l->processes[i].pid, NULL, 0);
	}
	fflush(stdout);
	return status;
}

enum {
	OPT_OFFSET = 256,
	OPT_MAX_BLOCKS,
	OPT_FLUSH_EVERY,
	OPT_VOLATILE,
	OPT_PAUSE_US,
	OPT_SEED,
	OPT_SECONDS,
	OPT_TIMEOUT,
};

static const struct option long_options[] = {
	{ "block-size", required_argument, NULL, 'b' },
	{ "blocks", required_argument, NULL, 'n' },
	{ "offset", required_argument, NULL, OPT_OFFSET },
	{ "writers", required_argument, NULL, 'w' },
	{ "lanes", required_argument, NULL, 'l' },
	{ "max-blocks", required_argument, NULL, OPT_MAX_BLOCKS },
	{ "flush-every", required_argument, NULL, OPT_FLUSH_EVERY },
	{ "volatile", no_argument, NULL, OPT_VOLATILE },
	{ "pause-us", required_argument, NULL, OPT_PAUSE_US },
	{ "seed", required_argument, NULL, OPT_SEED },
	{ "seconds", required_argument, NULL, OPT_SECONDS },
	{ "timeout", required_argument, NULL, OPT_TIMEOUT },
	{ "help", no_argument, NULL, 'h' },
	{ 0 },
};

static bool set_option(struct load *l, int c, uint64_t *seed)
{
	struct journal *j = l->j;
	uint64_t v = 0;

	if (optarg && size_parse(optarg, &v))
		return false;
	switch (c) {
	case 'b':
		j->block_size = (uint32_t)v;
		return v == 512 || v == 4096;
	case 'n':
		j->blocks = (uint32_t)v;
		return v >= 64 && v <= JOURNAL_BLOCKS;
	case OPT_OFFSET:
		j->offset = v;
		return true;
	case 'w':
		l->writers = (unsigned int)v;
		return v > 0;
	case 'l':
		l->lanes = (unsigned int)v;
		return v > 0;
	case OPT_MAX_BLOCKS:
		j->max_blocks = (uint32_t)v;
		return v > 0;
	case OPT_FLUSH_EVERY:
		j->flush_every = (unsigned int)v;
		return true;
	case OPT_VOLATILE:
		j->volatile_cache = true;
		return true;
	case OPT_PAUSE_US:
		j->pause_us = (unsigned int)v;
		return true;
	case OPT_SEED:
		*seed = v;
		return true;
	case OPT_SECONDS:
		l->seconds = (unsigned int)v;
		return true;
	case OPT_TIMEOUT:
		l->timeout = (unsigned int)v;
		return v > 0;
	default:
		return false;
	}
}

static struct load load = {
	.writers = 2,
	.lanes = 4,
	.timeout = 300,
};

int main(int argc, char **argv)
{
	struct journal *j = journal_create();
	uint64_t seed = 1;
	int c;

	load.j = j;
	j->block_size = 512;
	j->blocks = 2048;
	j->max_blocks = 64;
	j->flush_every = 16;
	while ((c = getopt_long(argc, argv, "b:n:w:l:h", long_options, NULL)) !=
	       -1) {
		if (c == 'h' || !set_option(&load, c, &seed)) {
			fputs(help, c == 'h' ? stdout : stderr);
			return c == 'h' ? EXIT_SUCCESS : 2;
		}
	}
	if (optind == argc ||
	    !plan(&load, argv + optind, argc - optind, seed)) {
		fputs(help, stderr);
		return 2;
	}
	share_out(j);
	j->run = (uint8_t)(getpid() % 255 + 1);
	load.evidence = (struct evidence){
		.begin = journal_now(),
		.through = load.through,
	};
	load.judge = (struct judge){
		.j = j,
		.begin = load.evidence.begin,
		.replay_ns = REPLAY_NS,
		.initial = calloc(j->blocks, sizeof(uint64_t)),
		.cuts = load.cuts,
		.through = load.through,
	};
	c = run(&load);
	evidence_free(&load.evidence);
	free(load.judge.initial);
	return c;
}
