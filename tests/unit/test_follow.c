/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma-discover --daemon: which links it keeps, and when it lets them make a
 * step. The targets that answer and the links are those of this file; the rules
 * and the signals are real.
 */
#include "discover/follow.h"

#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "discover/ear.h"
#include "discover/link.h"
#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#define ROUNDS_MAX 6

/* A question to all targets, and what happens before the next one. */
struct round {
	const char *answer; /* targets, a letter each; NULL: there is no round */
	enum link_state state; /* of each link after its step */
	const char *bye;       /* targets that say that they go; NULL: none */
	const char *rules;     /* new ones, with SIGHUP; NULL: none */
	bool has_child;	       /* a child ends with 3 */
	unsigned int quiet;    /* further steps before the next round */
};

static struct {
	char path[32]; /* of the rules */
	const struct round *rounds;
	const struct round *round; /* the present one */
	unsigned int quiet;	   /* left of the round, as are these */
	const char *answer;
	const char *bye;
	bool has_asked;
	int fd; /* always readable */
	char log[512];
} world;

static void write_rules(const char *text)
{
	FILE *f = fopen(world.path, "w");

	T_MUST(f);
	fputs(text, f);
	fclose(f);
}

__attribute__((format(printf, 1, 2))) static void write_down(const char *fmt,
							     ...)
{
	size_t len = strlen(world.log);
	va_list args;

	va_start(args, fmt);
	vsnprintf(world.log + len, sizeof(world.log) - len, fmt, args);
	va_end(args);
}

/* ---- targets ---- */

static void set_target(struct found_record *t, char letter)
{
	struct sockaddr_in *addr = (void *)&t->addresses[0].addr;

	memset(&t->id, letter, sizeof(t->id));
	snprintf(t->instance, sizeof(t->instance), "%c", letter);
	addr->sin_family = AF_INET;
	addr->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	t->addresses[0].kind = XP_TCP;
	t->address_cnt = 1;
}

/* The signal is there before the daemon looks for one. */
static void end_child(void)
{
	siginfo_t info;
	pid_t pid = fork();

	if (pid == 0)
		_exit(3);
	T_MUST(!waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT));
}

int ear_open(struct ear *ear, const struct finder_options *o, bool quiet)
{
	world.round = world.round ? world.round + 1 : world.rounds;
	world.quiet = world.round->quiet;
	world.answer = world.round->answer;
	world.bye = world.round->bye ? world.round->bye : "";
	world.has_asked = false;
	if (world.round != world.rounds)
		write_down("| ");
	ear->fd = world.fd;
	return 0;
}

void ear_close(struct ear *ear)
{
	ear->fd = -1;
}

static void end_question(void)
{
	world.has_asked = true;
	if (world.round->has_child)
		end_child();
	if (world.round->rules) {
		write_rules(world.round->rules);
		kill(getpid(), SIGHUP);
	}
	if (!world.round[1].answer)
		kill(getpid(), SIGTERM);
}

/* At the end somebody has something to say, so that the next round begins. */
int ear_read(struct ear *ear, struct ear_record *ret)
{
	*ret = (struct ear_record){ .kind = EAR_NEWS };
	if (*world.answer) {
		ret->kind = EAR_TARGET;
		set_target(&ret->target, *world.answer++);
	} else if (!world.has_asked) {
		ret->kind = EAR_ASKED;
		end_question();
	} else if (world.quiet) {
		world.quiet--;
		return 0;
	} else if (*world.bye) {
		ret->kind = EAR_BYE;
		memset(&ret->id, *world.bye++, sizeof(ret->id));
	}
	return 1;
}

/* ---- links ---- */

void link_init(struct link *l, const struct rule *rule,
	       const struct found_target *t)
{
	*l = (struct link){ .rule = *rule, .id = t->id };
	memcpy(l->instance, t->instance, sizeof(l->instance));
}

void link_fini(struct link *l)
{
}

const char *link_what(const struct link *l)
{
	return "link";
}

bool link_is_busy(const struct link *l)
{
	return *l->rule.mount && l->state != LINK_DOWN;
}

bool link_has_child(const struct link *l)
{
	return l->state == LINK_STARTING;
}

/* "a+/mnt": the target a is there. "a-": it is gone. "a+!": no child may be
 * started. */
int link_step(struct link *l, const struct found_target *t, bool may_start)
{
	write_down("%s%c%s%s ", l->instance, t ? '+' : '-', l->rule.mount,
		   may_start ? "" : "!");
	l->state = world.round->state;
	return -1;
}

bool link_child_ended(struct link *l, pid_t pid, int status)
{
	write_down("%s:%d ", l->instance, WEXITSTATUS(status));
	return false;
}

/* ---- tests ---- */

struct follow_row {
	const char *name;
	struct round rounds[ROUNDS_MAX + 1];
	const char *log;
	const char *rules; /* NULL: log in to all targets */
};

#define DOWN	 LINK_DOWN
#define STARTING LINK_STARTING
#define UP	 LINK_UP

static const struct follow_row follow_rows[] = {
	{ "a target is there", { { "a", UP }, { "a", UP } }, "a+ | a+ " },
	{ "two targets", { { "ab", UP } }, "a+ b+ " },
	{ "no rule for it", { { "a", UP } }, "", .rules = "d\n" },
	/* The question, or the answer, may have been lost. */
	{ "a link is left alone until its target is gone",
	  { { "a", UP }, { "", UP }, { "", UP }, { "", UP }, { "", UP } },
	  "a+ | | | a- | a- " },
	{ "a target that answers now and then is not gone",
	  { { "a", UP },
	    { "", UP },
	    { "", UP },
	    { "a", UP },
	    { "", UP },
	    { "", UP } },
	  "a+ | | | a+ | | " },
	{ "a target without a link is forgotten, and found again",
	  { { "a", DOWN }, { "" }, { "" }, { "" }, { "a", DOWN } },
	  "a+ | a- | a- | | a+ " },
	{ "a target that said that it goes is gone when it does not answer",
	  { { "a", UP, "a" }, { "", UP } },
	  "a+ | a- " },
	{ "one that said so and answers is not",
	  { { "a", UP, "a" }, { "a", UP }, { "", UP } },
	  "a+ | a+ | " },
	{ "a target that nobody knows says that it goes",
	  { { "a", UP, "b" }, { "", UP } },
	  "a+ | " },
	{ "eight children at once",
	  { { "abcdefghi", STARTING } },
	  "a+ b+ c+ d+ e+ f+ g+ h+ i+! " },
	{ "the next one when a child has ended",
	  { { "abcdefghi", STARTING }, { "abcdefghi", UP } },
	  "a+ b+ c+ d+ e+ f+ g+ h+ i+! | a+! b+! c+ d+ e+ f+ g+ h+ i+ " },
	{ "a directory has one link",
	  { { "ab", STARTING }, { "ab", UP }, { "ab", DOWN } },
	  "a+/mnt | a+/mnt | a+/mnt b+/mnt ",
	  .rules = "a mount=/mnt\n" },
	{ "a child ends",
	  { { "ab", STARTING, .has_child = true }, { "ab", UP } },
	  "a+ b+ a:3 b:3 | a+ b+ " },

	/* SIGHUP */
	{ "new rules that are wrong",
	  { { "a", UP, .rules = "x y\n" }, { "a", UP } },
	  "a+ | a+ " },
	{ "a new rule connects",
	  { { "a", UP, .rules = "a\n" }, { "a", UP } },
	  "| a+ ",
	  .rules = "d\n" },
	{ "a link that is up stays, whatever the rules say",
	  { { "a", UP, .rules = "d\n" }, { "a", UP }, { "a", UP } },
	  "a+ | a+ | a+ " },
	{ "but it is not made again",
	  { { "a", UP, .rules = "d\n" }, { "a", DOWN }, { "a", DOWN } },
	  "a+ | a+ | " },
	{ "nor before anybody is asked again",
	  { { "a", UP, .rules = "d\n" },
	    { "a", DOWN, .quiet = 1 },
	    { "a", DOWN } },
	  "a+ | a+ | " },
	{ "a link that is down is not made by old rules",
	  { { "a", DOWN, .rules = "d\n" }, { "a", DOWN } },
	  "a+ | " },
	{ "and the others stay",
	  { { "ab", DOWN, .rules = "d instance=b\na\n" }, { "ab", DOWN } },
	  "a+ b+ | a+ " },
	{ "a mount stays in its directory",
	  { { "a", UP, .rules = "a mount=/two\n" }, { "a", UP } },
	  "a+/one | a+/one ",
	  .rules = "a mount=/one\n" },
	{ "but it is made again in the new one",
	  { { "a", UP, .rules = "a mount=/two\n" }, { "a", DOWN }, { "a", UP } },
	  "a+/one | a+/one | a+/two ",
	  .rules = "a mount=/one\n" },
	{ "and before anybody is asked again",
	  { { "a", UP, .rules = "a mount=/two\n" },
	    { "a", DOWN, .quiet = 1 },
	    { "a", UP } },
	  "a+/one | a+/one a+/two | a+/two ",
	  .rules = "a mount=/one\n" },
	{ "a login becomes a mount",
	  { { "a", DOWN, .rules = "a mount=/two\n" }, { "a", UP } },
	  "a+ | a+/two " },
};

T_ROWS(daemon_follows, follow_rows)
{
	const struct follow_row *row = *state;
	struct discover_options o = { .period_ms = 600000 };
	int fd;

	memset(&world, 0, sizeof(world));
	strcpy(world.path, "/tmp/test_follow.XXXXXX");
	fd = mkstemp(world.path);
	T_MUST(fd >= 0);
	close(fd);
	write_rules(row->rules ? row->rules : "a\n");
	world.fd = eventfd(1, 0);
	world.rounds = row->rounds;
	o.rules = world.path;
	assert_int_equal(follow(&o), EXIT_SUCCESS);
	assert_string_equal(world.log, row->log);
	close(world.fd);
	unlink(world.path);
}

T_TEST(rules_are_wrong_at_the_start)
{
	const struct discover_options o = { .rules = "/nowhere/rules" };

	assert_int_equal(follow(&o), EXIT_FAILURE);
}
