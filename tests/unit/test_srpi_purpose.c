/* SPDX-License-Identifier: BSD-2-Clause */
/* The port identifier that outlives a program (purpose.c), and its lock. Sessions begin
 * and never log in. Other processes are children of the test. */
#include <errno.h>
#include <ftw.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/list.h"
#include "initiator/srp_initiator.h"
#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#define URI   "srp+tcp://127.0.0.1:1/disk"
#define NAMED URI "?initiator=0123456789abcdef0123456789c0ffee"

static char dir[40];

static int enter(void **state)
{
	strcpy(dir, "/tmp/srpi-purpose.XXXXXX");
	return !mkdtemp(dir) || setenv("STATE_DIRECTORY", dir, 1);
}

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	return remove(path);
}

/* Takes the signal of signal_is_pending() back, too. */
static int leave(void **state)
{
	const struct timespec now = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	while (sigtimedwait(&set, NULL, &now) > 0)
		;
	return nftw(dir, remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

T_EACH(enter, leave)

/* From now on, nobody waits for a lock. */
static void signal_is_pending(void)
{
	T_MUST(!raise(SIGTERM));
}

/* ---- sessions ---- */

struct user {
	struct srpi_ctx *ctx;
	struct srpi_session *session; /* NULL: it was refused */
	char port[SRPI_PORT_SIZE];
	char fault[256];
	struct srpi_error e;
};

static void connected(struct srpi_session *s, const struct srpi_error *e,
		      void *arg)
{
}

static int begin(struct user *u, const char *purpose, const char *uri)
{
	const struct srpi_options o = { .struct_size = sizeof(o),
					.purpose = purpose };
	struct srpi_session_info info = { .struct_size = sizeof(info) };
	int err;

	*u = (struct user){ 0 };
	T_MUST(!srpi_ctx_create(NULL, &u->ctx, &u->e));
	err = srpi_connect(u->ctx, uri, &o, connected, NULL, &u->session,
			   &u->e);
	if (err) {
		u->session = NULL;
		return err;
	}
	srpi_session_info(u->session, &info);
	strcpy(u->port, info.initiator);
	snprintf(u->fault, sizeof(u->fault), "%s", info.purpose_fault);
	return 0;
}

static void end(struct user *u)
{
	if (u->session)
		srpi_close_wait(u->ctx, u->session);
	srpi_ctx_destroy(u->ctx);
}

/* The child begins a session, says so, and stays. */
static pid_t start_owner(const char *uri)
{
	int fds[2];
	char byte;
	pid_t pid;

	T_MUST(!pipe(fds));
	pid = fork();
	T_MUST(pid >= 0);
	if (pid == 0) {
		struct user u;

		/* Also after a test that failed. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		T_MUST(!begin(&u, "test", uri) && !*u.fault);
		T_MUST(write(fds[1], "x", 1) == 1);
		poll(NULL, 0, -1);
	}
	close(fds[1]);
	T_MUST(read(fds[0], &byte, 1) == 1);
	close(fds[0]);
	return pid;
}

static void end_owner(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* ---- identifiers of their own ---- */

/* Also by another address: the target has to end the old session. */
T_TEST(a_purpose_has_the_same_identifier_again)
{
	struct user first, again, other;

	T_MUST(!begin(&first, "test", URI));
	end(&first);
	T_MUST(!begin(&again, "test", "srp+tcp://127.0.0.2:1/disk"));
	T_MUST(!begin(&other, "another", URI));
	assert_string_equal(first.fault, "");
	assert_string_equal(again.port, first.port);
	assert_string_not_equal(other.port, first.port);
	end(&again);
	end(&other);
}

T_TEST(owner_that_stays_keeps_its_identifier)
{
	pid_t owner = start_owner(URI);
	struct user a, b;
	char text[64];

	signal_is_pending();
	T_MUST(!begin(&a, "test", URI));
	T_MUST(!begin(&b, "test", URI));
	snprintf(text, sizeof(text),
		 "another session has the identifier: process %d (",
		 (int)owner);
	assert_memory_equal(a.fault, text, strlen(text));
	assert_string_not_equal(a.port, b.port);
	end(&a);
	end(&b);
	end_owner(owner);
}

/* It leaves the file of its lock. */
T_TEST(killed_owner_leaves_its_identifier)
{
	struct user first, again;

	T_MUST(!begin(&first, "test", URI));
	end(&first);
	end_owner(start_owner(URI));
	T_MUST(!begin(&again, "test", URI));
	assert_string_equal(again.fault, "");
	assert_string_equal(again.port, first.port);
	end(&again);
}

/* All of them are in use: the last one is random. */
T_TEST(seventeenth_session_has_a_random_identifier)
{
	static struct user users[17];

	signal_is_pending();
	for (unsigned int i = 0; i < ARRAY_SIZE(users); i++)
		T_MUST(!begin(&users[i], "test", URI));
	assert_null(strstr(users[15].fault, "all others"));
	assert_non_null(strstr(users[16].fault, "all others"));
	for (unsigned int i = 0; i < ARRAY_SIZE(users); i++)
		end(&users[i]);
}

/* ---- the directory ---- */

static unsigned int file_cnt;

static int count_one(const char *path, const struct stat *st, int type,
		     struct FTW *ftw)
{
	file_cnt += type == FTW_F;
	return 0;
}

T_TEST(a_session_that_ends_leaves_only_what_was_drawn)
{
	struct user u;

	T_MUST(!begin(&u, "test", URI));
	end(&u);
	file_cnt = 0;
	nftw(dir, count_one, 8, FTW_PHYS);
	assert_int_equal(file_cnt, 1);
}

static const struct dir_row {
	const char *name;
	mode_t mode;
	uid_t owner;
	const char *fault;
} dir_rows[] = {
	{ "of a group", 0770, 0, "other users may write the state directory" },
	{ "of all", 01777, 0, "other users may write the state directory" },
	{ "of another user", 0700, 1,
	  "other users may write the state directory" },
	{ "to read for all", 0755, 0, "" },
};

/* They could take the lock, or choose what was drawn. */
T_ROWS(directory_that_others_write_is_not_used, dir_rows)
{
	const struct dir_row *row = *state;
	struct user u;

	if (row->owner && geteuid())
		T_SKIP("only root can give a directory away");
	T_MUST(!chmod(dir, row->mode));
	T_MUST(!row->owner || !chown(dir, row->owner, 0));
	T_MUST(!begin(&u, "test", URI));
	assert_int_equal(!*u.fault, !*row->fault);
	assert_memory_equal(u.fault, row->fault, strlen(row->fault));
	end(&u);
}

T_TEST(without_a_directory_the_identifier_is_random)
{
	struct user a, b;

	setenv("STATE_DIRECTORY", "/nonexistent/a", 1);
	T_MUST(!begin(&a, "test", URI));
	T_MUST(!begin(&b, "test", URI));
	assert_non_null(strstr(a.fault, "/nonexistent/a: No such file"));
	assert_non_null(strstr(a.fault, "initiator= in the URI"));
	assert_string_not_equal(a.port, b.port);
	end(&a);
	end(&b);
	T_MUST(!begin(&a, "test", NAMED));
	assert_string_equal(a.fault, "");
	end(&a);
}

T_TEST(other_directories_have_other_identifiers)
{
	struct user a, b;

	T_MUST(!begin(&a, "test", URI));
	end(&a);
	leave(NULL);
	enter(NULL);
	T_MUST(!begin(&b, "test", URI));
	assert_string_not_equal(a.port, b.port);
	end(&b);
}

/* ---- identifiers that the URI names ---- */

T_TEST(named_identifier_in_use_is_refused)
{
	pid_t owner = start_owner(NAMED);
	char text[64];
	struct user u;

	signal_is_pending();
	assert_int_equal(begin(&u, "another", NAMED), -EADDRINUSE);
	snprintf(text, sizeof(text), "process %d (", (int)owner);
	assert_non_null(strstr(u.e.text, text));
	assert_non_null(strstr(u.e.text, "127.0.0.1:1"));
	assert_non_null(strstr(u.e.text, "c0ffee is in use"));
	end(&u);
	end_owner(owner);
	assert_int_equal(begin(&u, "another", NAMED), 0);
	end(&u);
}

static const struct two_row {
	const char *name;
	const char *uri; /* of the second session */
	const char *end; /* of its identifier */
	int err;
} two_rows[] = {
	{ "the same address", "srp+tcp://127.0.0.1:1/other", "c0ffee",
	  -EADDRINUSE },
	{ "a name of the address", "srp+tcp://localhost:1/disk", "c0ffee",
	  -EADDRINUSE },
	{ "one of two addresses", "srp+tcp://127.0.0.2:1,127.0.0.1:1/disk",
	  "c0ffee", -EADDRINUSE },
	{ "another port", "srp+tcp://127.0.0.1:2/disk", "c0ffee", 0 },
	{ "another address", "srp+tcp://127.0.0.2:1/disk", "c0ffee", 0 },
	{ "an address twice", "srp+tcp://localhost:2,127.0.0.1:2/disk",
	  "c0ffee", 0 },
	{ "another identifier", "srp+tcp://127.0.0.1:1/disk", "c0ffef", 0 },
};

/* The second login would end the first one, if the target is the same. */
T_ROWS(two_sessions_of_one_identifier, two_rows)
{
	const struct two_row *row = *state;
	struct user first, second;
	char uri[128];

	snprintf(uri, sizeof(uri), "%s?initiator=0123456789abcdef0123456789%s",
		 row->uri, row->end);
	T_MUST(!begin(&first, "test", NAMED));
	signal_is_pending();
	assert_int_equal(begin(&second, "test", uri), row->err);
	end(&second);
	end(&first);
}

int main(void)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigprocmask(SIG_BLOCK, &set, NULL);
	return t_run();
}
