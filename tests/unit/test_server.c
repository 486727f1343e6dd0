/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-target from its start to its end: what it refuses, and what it does when it is
 * told to by signals, by its service manager and by those who look at it. */
#include <signal.h>
#include <unistd.h>

#include "base/list.h"
#include "base/pidfile.h"
#include "tests/lib/t_addr.h"
#include "tests/lib/t_json.h"
#include "tests/lib/t_server.h"
#include "tests/lib/t_table.h"

#define ARGS_MAX 8

static int enter(void **state)
{
	t_server_enter();
	t_server_make_file("file", 1u << 20);
	return 0;
}

static int leave(void **state)
{
	t_server_without_device(false);
	unsetenv("WATCHDOG_USEC");
	t_server_leave();
	return 0;
}

T_EACH(enter, leave)

static void expect_log(const char *part)
{
	if (!strstr(t_server_log(), part))
		fail_msg("%s", t_server_log());
}

/* ---- refusals ---- */

static const struct refusal {
	const char *name;
	const char *args[ARGS_MAX];
	const char *log; /* a part of it */
	bool without_device;
	const char *config; /* the file c.json; NULL: there is none */
} refusals[] = {
	{ "a store is there", { "--backing", "none" }, "none: does not exist" },
	{ "two volumes have two names",
	  { "--backing", "ram:1M,name=a", "--backing", "ram:1M,name=a" },
	  "two volumes have the name 'a': give one another with ,name=" },
	{ "two volumes have two LUNs",
	  { "--backing", "ram:1M,lun=3", "--backing", "file,lun=3" },
	  "are both LUN 3: give one another with ,lun=" },
	{ "two volumes are two disks",
	  { "--backing", "ram:1M,name=a,serial=S", "--backing",
	    "ram:1M,name=b,serial=S" },
	  "volumes 'a' and 'b' are the same disk" },
	{ "a directory of state is there",
	  { "--state-dir", "nowhere" },
	  "does not exist; create it first" },
	{ "a directory of state is one",
	  { "--state-dir", "file" },
	  "not a directory" },
	{ "a directory of volumes needs the sandbox",
	  { "--volumes-from", ".", "--no-sandbox" },
	  "without the sandbox, nothing closes other files" },
	{ "a user is there",
	  { "--user", "no-such-user" },
	  "--user 'no-such-user': there is no such user" },
	{ "the number of a user has 32 bits",
	  { "--user", "4294967296" },
	  "--user '4294967296': there is no such user" },
	{ "the directory of the PID file is there",
	  { "--pidfile", "none/pid" },
	  "none/pid" },
	{ "an address is of this machine",
	  { "--listen", "srp+tcp://198.51.100.1" },
	  "cannot listen on 198.51.100.1:5555 over TCP: " },
	{ "RDMA needs a device",
	  { "--listen", "srp+rdma://10.0.0.1" },
	  "no RDMA device is there; see rdma-doctor",
	  true },
	{ "an interface to listen on is there",
	  { "--listen", "srp+tcp://[fe80::1%nosuchif]" },
	  "cannot listen on 'fe80::1%nosuchif': " },
	{ "metrics are served on an address of this machine",
	  { "--metrics", "198.51.100.1:9100" },
	  "--metrics" },
	{ "each thread has buffers", { "--threads", "2" }, "too small" },
	{ "an interface of discovery is there",
	  { "--discovery", "no-such-if" },
	  "'no-such-if' is no interface of this machine" },
	{ "discovery has interfaces",
	  { "--discovery", "" },
	  "not on, off, or interfaces" },
	{ "a key of discovery is there", { "--keys", "none" }, "none" },
	{ "an option is known", { "--backings", "x" }, "--backings" },
	{ "one plugin is checked at a time",
	  { "--check-plugin", "ram:1M", "--check-plugin", "ram:1M" },
	  "only one SPEC can be checked at a time" },

	{ "a file of configuration is there",
	  { "--config", "c.json" },
	  "c.json: No such file or directory" },
	{ "a file of configuration is JSON",
	  { "--config", "c.json" },
	  "c.json:2: not JSON",
	  .config = "{\n\"backing\": ]\n}" },
	{ "a key of a file is known",
	  { "--config", "c.json" },
	  "c.json:2: max-login: no key 'max-login'; did you mean 'max-logins'?",
	  .config = "{\n'max-login': 5\n}" },
	{ "a value of a file has the type of its option",
	  { "--config", "c.json" },
	  "c.json:3: ",
	  .config = "{\n'backing': ['file'],\n'threads': 'two'\n}" },
	{ "a key of the command line is not one of a file",
	  { "--config", "c.json" },
	  "c.json:1: ",
	  .config = "{ 'config': 'd.json' }" },
	{ "a value of the command line is checked with those of the file",
	  { "--config", "c.json", "--threads", "4", "--buffers", "8M" },
	  "too small",
	  .config = "{ 'backing': ['file'], 'buffers': '8M' }" },

	{ "check: a plugin is there",
	  { "--check", "c.json" },
	  "c.json:3: backing[0]: there is no plugin 'none'",
	  .config = "{\n'backing': [\n'none:x' ] }" },
	{ "check: a store is no layer",
	  { "--check", "c.json" },
	  "plugin example-file is a store, and no layer",
	  .config = "{ 'backing': [ 'file,layer=example-file' ] }" },
	{ "check: a parameter is known",
	  { "--check", "c.json" },
	  "colour",
	  .config =
		  "{ 'backing': [ { 'store': 'example-file:file', 'parameters': "
		  "{ 'colour': 'red' } } ] }" },
};

T_ROWS(refused_start_names_the_reason, refusals)
{
	const struct refusal *r = *state;

	if (r->config)
		t_server_write("c.json", t_json(r->config));
	t_server_without_device(r->without_device);
	t_server_refuse(r->args);
	expect_log(r->log);
	assert_int_equal(access("control", F_OK), -1);
}

/* A target that has saved once has left a file that was whole. */
T_TEST(broken_file_names_the_version_before)
{
	static const char *const args[] = { "--config", "c.json", NULL };

	t_server_write("c.json", "{");
	t_server_write("c.json.1", "{}");
	t_server_refuse(args);
	expect_log("; the version before: cp c.json.1 c.json");
}

/* ---- its life ---- */

static const struct end {
	const char *name;
	const char *backing;
	int sig;
	int code;
	const char *log; /* NULL: nothing that is asked for */
} ends[] = {
	{ "by SIGTERM", "file", SIGTERM, 0, NULL },
	{ "by SIGINT", "ram:1M", SIGINT, 0, NULL },
	{ "with a flush that fails", "file,name=bad,fault=flush:error", SIGTERM,
	  1,
	  "volume 'bad' could not be flushed: Input/output error; writes since "
	  "its last flush may be lost, and rdma-target tells their initiators "
	  "so" },
};

T_ROWS(end_leaves_nothing, ends)
{
	const struct end *end = *state;
	const char *args[] = { "--backing", end->backing,     "--pidfile",
			       "pid",	    "--metrics-file", "metrics.prom",
			       NULL };
	char *pid;

	t_server_start(args);
	pid = t_server_read("pid");
	assert_non_null(pid);
	assert_int_equal(strtol(pid, NULL, 10), getpid());
	free(pid);
	assert_int_equal(t_server_end(end->sig), end->code);
	assert_int_equal(access("pid", F_OK), -1);
	assert_int_equal(access("control", F_OK), -1);
	assert_string_equal(t_server_notes(), "READY=1\nSTOPPING=1\n");
	if (end->log)
		expect_log(end->log);
}

T_TEST(second_target_of_a_pid_file_is_refused)
{
	static const char *const args[] = { "--pidfile", "pid", NULL };
	struct pidfile other;
	struct error e;

	assert_int_equal(pidfile_open(&other, "pid", &e), 0);
	assert_int_equal(pidfile_write(&other, &e), 0);
	t_server_refuse(args);
	expect_log("pid is that of process");
	pidfile_remove(&other);
}

T_TEST(hangup_looks_for_volumes_that_have_grown)
{
	static const char *const args[] = { "--backing", "file,name=f", NULL };

	t_server_start(args);
	assert_int_equal(truncate("file", 2u << 20), 0);
	t_server_signal(SIGHUP);
	t_server_await_log("LUN 0 (f) has grown to 4096 blocks of 512 bytes");
	assert_int_equal(truncate("file", 1u << 20), 0);
	t_server_signal(SIGHUP);
	t_server_await_log("LUN 0 (f) has become smaller");
	t_server_end(SIGTERM);
}

T_TEST(watchdog_is_told_while_all_threads_turn)
{
	static const char *const args[] = { "--backing", "ram:1M", NULL };

	setenv("WATCHDOG_USEC", "100000", 1);
	t_server_start(args);
	t_server_await_note("WATCHDOG=1\nWATCHDOG=1");
	assert_int_equal(t_server_end(SIGTERM), 0);
}

static const json_t *find_metric(const char *name)
{
	const json_t *list =
		t_json_at(t_server_ask("GetMetrics", NULL), "metrics");
	const json_t *m;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, m) {
		if (!strcmp(t_json_text(m, "name"), name))
			return m;
	}
	fail_msg("no %s", name);
	return NULL;
}

T_TEST(metrics_are_told_in_each_form)
{
	char addr[32];
	const char *args[] = { "--backing", "ram:1M,name=vol", "--metrics",
			       addr,	    "--metrics-file",  "metrics.prom",
			       NULL };
	static const char get[] = "GET /metrics HTTP/1.0\r\n\r\n";
	static const char part[] =
		"\nrdma_target_volume_size_bytes{volume=\"vol\"} 1048576\n";
	static char page[65536];
	struct sockaddr_in sin;
	const json_t *answer;
	ssize_t len = 0;
	ssize_t n;
	int fd;

	t_addr_next(addr, sizeof(addr));
	t_server_start(args);
	assert_true(t_server_login(1)->established);
	answer = t_server_ask("GetExposition", NULL);
	assert_non_null(strstr(t_json_text(answer, "text"), part));
	answer = find_metric("rdma_target_sessions");
	t_json_expect(answer, "value", "1");
	t_json_expect(find_metric("rdma_target_volume_size_bytes"),
		      "labels.volume", "'vol'");
	sin = t_addr_parse(addr);
	fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&sin, sizeof(sin)), 0);
	assert_int_equal(send(fd, get, sizeof(get) - 1, 0), sizeof(get) - 1);
	while ((n = recv(fd, page + len, sizeof(page) - 1 - (size_t)len, 0)) >
	       0)
		len += n;
	close(fd);
	assert_non_null(strstr(page, " 200 OK"));
	assert_non_null(strstr(page, part));
	t_server_await_file("metrics.prom");
	t_server_end(SIGTERM);
}

T_TEST(events_are_followed)
{
	static const char *const args[] = { "--backing", "ram:1M,name=vol",
					    NULL };
	const json_t *event;
	int fd;

	t_server_start(args);
	fd = t_server_follow();
	t_server_ask("AddVolume", t_json("{'volume': 'ram:1M,name=x'}"));
	t_server_ask("RemoveVolume", t_json("{'name': 'x'}"));
	do
		event = t_server_event(fd);
	while (strcmp(t_json_text(event, "event"), "volume-removed") != 0);
	assert_string_equal(t_json_text(event, "volume"), "x");
	assert_string_equal(t_json_text(event, "level"), "notice");
	close(fd);
	t_server_end(SIGTERM);
}

/* ---- stores that do not answer ---- */

/* Whether "x" is added; else the reason, in *ret_why. */
static bool add_x(const char **ret_why)
{
	const json_t *answer =
		t_server_call("AddVolume", t_json("{'volume': 'file,name=x'}"));
	const json_t *parameters = t_json_at(answer, "parameters");

	*ret_why = json_string_value(json_object_get(parameters, "reason"));
	return !*ret_why;
}

/* The last flush of the volume is not answered. */
T_TEST(removal_does_not_wait_for_a_dead_store)
{
	static const char *const args[] = { "--backing", "ram:1M,name=a",
					    "--backing",
					    "file,name=x,fault=flush:stuck",
					    NULL };
	const char *why;

	t_server_start(args);
	t_server_ask("RemoveVolume", t_json("{'name': 'x', 'force': true}"));
	expect_log("'x' is not served any more; its store has not answered");
	t_json_expect(t_server_ask("ListVolumes", NULL), "volumes.0.name",
		      "'a'");
	t_json_expect(t_server_ask("ListVolumes", NULL), "volumes.1", NULL);
	assert_false(add_x(&why));
	assert_non_null(strstr(why, "was removed, but its store has not"));
	t_server_ask("AddVolume", t_json("{'volume': 'ram:1M,name=b'}"));
	t_server_signal(SIGUSR1);
	t_server_await_log("its store is closed now");
	assert_true(add_x(&why));
	assert_int_equal(t_server_end(SIGTERM), 0);
}

/* Why the medium of "x" is not ejected; NULL: it is. */
static const char *eject_x(void)
{
	const json_t *answer =
		t_server_call("EjectVolume", t_json("{'name': 'x'}"));
	const json_t *parameters = t_json_at(answer, "parameters");

	return json_string_value(json_object_get(parameters, "reason"));
}

T_TEST(eject_does_not_wait_for_a_dead_store)
{
	static const char *const args[] = {
		"--stop-timeout",
		"1",
		"--backing",
		"ram:1M,name=a",
		"--backing",
		"file,name=x,removable,fault=flush:stuck:count=1",
		NULL
	};

	t_server_start(args);
	assert_non_null(strstr(eject_x(), "has not answered a flush for 1 s"));
	t_json_expect(t_server_ask("ListVolumes", NULL), "volumes.1.state",
		      "'ready'");
	/* The flush of the first one may still be answered. */
	assert_non_null(strstr(eject_x(), "another change of its state"));
	t_server_ask("AddVolume", t_json("{'volume': 'ram:1M,name=b'}"));
	t_json_expect(t_server_ask("ListVolumes", NULL), "volumes.1.state",
		      "'ready'");
	t_server_signal(SIGUSR1);
	assert_null(eject_x());
	t_json_expect(t_server_ask("ListVolumes", NULL), "volumes.1.state",
		      "'ejected'");
	assert_int_equal(t_server_end(SIGTERM), 0);
}

/* ---- transports ---- */

T_TEST(without_a_device_the_target_uses_tcp)
{
	char addr[32];
	char uri[64];
	char want[64];
	const char *args[] = { "--backing", "ram:1M", "--listen", uri, NULL };

	t_addr_next(addr, sizeof(addr));
	*strchr(addr, ':') = '\0';
	snprintf(uri, sizeof(uri), "srp://%s", addr);
	snprintf(want, sizeof(want), "['srp+tcp://%s:5555']", addr);
	t_server_without_device(true);
	t_server_start(args);
	t_json_expect(t_server_ask("GetStatus", NULL), "listeners", want);
	/* A transport that the target has not used so far. */
	t_server_without_device(false);
	t_server_ask("AddListener", t_json("{'uri': 'srp+rdma://10.0.0.1'}"));
	assert_true(t_server_login(1)->established);
	t_server_ask("RemoveListener",
		     t_json("{'uri': 'srp+rdma://10.0.0.1'}"));
	assert_int_equal(t_server_end(SIGTERM), 0);
}

T_TEST(transport_that_cannot_be_used_is_taken_back)
{
	static const char *const args[] = {
		"--backing", "ram:1M", "--threads", "2", "--buffers", "8M", NULL
	};
	const json_t *answer;

	t_server_start(args);
	answer = t_server_call("AddListener",
			       t_json("{'uri': 'srp+tcp://198.51.100.1'}"));
	assert_non_null(json_object_get(answer, "error"));
	t_json_expect(t_server_ask("GetStatus", NULL), "listeners",
		      "['srp+rdma://10.0.0.1:5555']");
	assert_int_equal(t_server_end(SIGTERM), 0);
}
