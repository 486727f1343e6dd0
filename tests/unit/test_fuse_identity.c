/* SPDX-License-Identifier: BSD-2-Clause */
/* The initiator port identifier of a mount, and its lock. Other processes are
 * children of the test. */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "fuse/client.h"
#include "fuse/identity.h"
#include "base/list.h"
#include "base/log.h"
#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#define URI "srp://127.0.0.1:1/disk"

/* Only this run has them: the locks belong to the machine. */
static char mnt[32];
static char named[80]; /* URI with an identifier */

static void name_them(void)
{
	snprintf(mnt, sizeof(mnt), "/mnt/%d", (int)getpid());
	snprintf(named, sizeof(named), URI "?initiator=%026xc0ffee",
		 (unsigned int)getpid());
}

/* identity_claim() wants them blocked. */
static void block_signals(void)
{
	sigset_t set;

	client_signals(&set);
	log_level = LOG_ERROR;
	T_MUST(!sigprocmask(SIG_BLOCK, &set, NULL));
	/* The end of an owner must not be a signal. */
	signal(SIGCHLD, SIG_IGN);
}

/* Takes the signal of signal_is_pending() back. */
static int take_signal(void **state)
{
	const struct timespec now = { 0 };
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	while (sigtimedwait(&set, NULL, &now) > 0)
		;
	return 0;
}

/* From now on, identity_claim() does not wait for another owner. */
static void signal_is_pending(void)
{
	assert_int_equal(raise(SIGTERM), 0);
}

static int claim(struct identity *id, const char *mountpoint, const char *uri)
{
	struct error e;

	return identity_claim(id, mountpoint, uri, &e);
}

/* The child claims @uri, says so, and ends when @ends is true and a process waits
 * for the lock; otherwise when it is killed. */
static pid_t start_owner(const char *uri, bool ends)
{
	int fds[2];
	char byte;
	pid_t pid;

	T_MUST(!pipe(fds));
	pid = fork();
	T_MUST(pid >= 0);
	if (pid == 0) {
		struct identity id;
		struct pollfd p = { .events = POLLIN };

		/* Also after a test that failed. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		T_MUST(!claim(&id, mnt, uri) && id.lock_cnt == 1);
		T_MUST(write(fds[1], "x", 1) == 1);
		p.fd = ends ? id.locks[0] : -1;
		poll(&p, 1, -1);
		_exit(0);
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

/* ---- identifiers of rdma-fuse ---- */

static bool has_machine_id(void)
{
	return access("/etc/machine-id", R_OK) == 0;
}

/* Also by another address: the target has to end the old session. */
static void same_mount_has_the_same_identifier_again(void **state)
{
	struct identity first, again;

	if (!has_machine_id())
		T_SKIP("no /etc/machine-id");
	assert_int_equal(claim(&first, mnt, URI), 0);
	assert_int_equal(first.lock_cnt, 1);
	assert_non_null(strstr(first.text, mnt));
	identity_release(&first);
	assert_int_equal(claim(&again, mnt, "srp://127.0.0.2:1/disk"), 0);
	assert_string_equal(again.text, first.text);
	identity_release(&again);
}

static void other_mount_points_have_other_identifiers(void **state)
{
	struct identity a, b;

	if (!has_machine_id())
		T_SKIP("no /etc/machine-id");
	assert_int_equal(claim(&a, "/mnt/a", URI), 0);
	assert_int_equal(claim(&b, "/mnt/b", URI), 0);
	assert_string_not_equal(a.text, b.text);
	identity_release(&a);
	identity_release(&b);
}

static void owner_that_stays_keeps_its_identifier(void **state)
{
	pid_t owner;
	struct identity a, b;

	if (!has_machine_id())
		T_SKIP("no /etc/machine-id");
	owner = start_owner(URI, false);
	signal_is_pending();
	assert_int_equal(claim(&a, mnt, URI), 0);
	assert_string_equal(a.text + strlen(a.text) - 2, "#1");
	assert_int_equal(claim(&b, mnt, URI), 0);
	assert_string_equal(b.text + strlen(b.text) - 2, "#2");
	identity_release(&a);
	identity_release(&b);
	end_owner(owner);
}

static void owner_that_ends_leaves_its_identifier(void **state)
{
	struct identity id;
	pid_t owner;

	if (!has_machine_id())
		T_SKIP("no /etc/machine-id");
	owner = start_owner(URI, true);
	assert_int_equal(claim(&id, mnt, URI), 0);
	assert_null(strchr(id.text, '#'));
	assert_int_equal(id.lock_cnt, 1);
	identity_release(&id);
	end_owner(owner);
}

/* All of them are in use: the last one is random. */
static void seventeenth_mount_has_a_random_identifier(void **state)
{
	static struct identity ids[17];

	if (!has_machine_id())
		T_SKIP("no /etc/machine-id");
	signal_is_pending();
	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++) {
		assert_int_equal(claim(&ids[i], mnt, URI), 0);
		assert_int_equal(ids[i].lock_cnt, i < 16);
		assert_int_equal(!*ids[i].text, i == 16);
	}
	for (unsigned int i = 0; i < ARRAY_SIZE(ids); i++)
		identity_release(&ids[i]);
}

static void long_mount_point_has_a_random_identifier(void **state)
{
	char path[IDENTITY_SIZE + 1];
	struct identity id;

	if (!has_machine_id())
		T_SKIP("no /etc/machine-id");
	memset(path, 'a', sizeof(path) - 1);
	path[sizeof(path) - 1] = '\0';
	assert_int_equal(claim(&id, path, URI), 0);
	assert_string_equal(id.text, "");
	assert_int_equal(id.lock_cnt, 0);
}

/* ---- identifiers that the URI names ---- */

static void named_identifier_in_use_is_refused(void **state)
{
	pid_t owner = start_owner(named, false);
	struct identity id;
	struct error e;
	char text[64];

	signal_is_pending();
	assert_int_equal(identity_claim(&id, mnt, named, &e), -EADDRINUSE);
	snprintf(text, sizeof(text), "process %d (", (int)owner);
	assert_non_null(strstr(e.text, text));
	assert_non_null(strstr(e.text, "127.0.0.1:1"));
	assert_non_null(strstr(e.text, "c0ffee is in use"));
	assert_int_equal(id.lock_cnt, 0);
	end_owner(owner);
}

static void named_identifier_is_free_when_its_owner_has_ended(void **state)
{
	pid_t owner = start_owner(named, true);
	struct identity id;

	assert_int_equal(claim(&id, "/elsewhere", named), 0);
	assert_int_equal(id.lock_cnt, 1);
	assert_string_equal(id.text, "");
	identity_release(&id);
	end_owner(owner);
}

static const struct two_row {
	const char *name;
	const char *uri; /* of the second mount */
	const char *end; /* of its identifier */
	int err;
} two_rows[] = {
	{ "the same address", "srp://127.0.0.1:1/other", "c0ffee",
	  -EADDRINUSE },
	{ "a name of the address", "srp://localhost:1/disk", "c0ffee",
	  -EADDRINUSE },
	{ "one of two addresses", "srp://127.0.0.2:1,127.0.0.1:1/disk",
	  "c0ffee", -EADDRINUSE },
	{ "another port", "srp://127.0.0.1:2/disk", "c0ffee", 0 },
	{ "another address", "srp://127.0.0.2:1/disk", "c0ffee", 0 },
	{ "another identifier", "srp://127.0.0.1:1/disk", "c0ffef", 0 },
};

/* The second login would end the first one, if the target is the same. */
static void two_mounts_of_one_identifier(void **state)
{
	const struct two_row *row = *state;
	struct identity first, second;
	char uri[128];

	snprintf(uri, sizeof(uri), "%s?initiator=%026x%s", row->uri,
		 (unsigned int)getpid(), row->end);
	assert_int_equal(claim(&first, mnt, named), 0);
	assert_int_equal(first.lock_cnt, 1);
	signal_is_pending();
	assert_int_equal(claim(&second, mnt, uri), row->err);
	identity_release(&second);
	identity_release(&first);
}

/* srpi_connect() reports it. */
static void wrong_uri_claims_nothing(void **state)
{
	struct identity id;

	assert_int_equal(claim(&id, mnt, "http://127.0.0.1/disk"), 0);
	assert_int_equal(id.lock_cnt, 0);
	assert_string_equal(id.text, "");
}

int main(void)
{
	static struct t_table t;

	name_them();
	block_signals();
	T_ADD(&t, same_mount_has_the_same_identifier_again);
	T_ADD(&t, other_mount_points_have_other_identifiers);
	T_ADD(&t, owner_that_stays_keeps_its_identifier);
	T_ADD(&t, owner_that_ends_leaves_its_identifier);
	T_ADD(&t, seventeenth_mount_has_a_random_identifier);
	T_ADD(&t, long_mount_point_has_a_random_identifier);
	T_ADD(&t, named_identifier_in_use_is_refused);
	T_ADD(&t, named_identifier_is_free_when_its_owner_has_ended);
	T_ADD_ROWS(&t, two_rows, two_mounts_of_one_identifier);
	T_ADD(&t, wrong_uri_claims_nothing);
	for (size_t i = 0; i < t.cnt; i++)
		t.tests[i].teardown_func = take_signal;
	return t_run(&t);
}
