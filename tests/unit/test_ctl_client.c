/* SPDX-License-Identifier: BSD-2-Clause */
/* Calls of rdma-ctl, with a target that the test plays on a socket. */
#include "ctl/ctl_client.h"

#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#define TEXT_LEN 256
/* More than rdma-ctl makes room for at first. */
#define LONG_LEN 200000u

/* What the target does when it is asked whether it lives. */
enum probe {
	PROBE_NONE, /* it is not asked, because it answers at once */
	PROBE_ANSWERS,
	PROBE_CLOSES, /* it has no place for another connection */
	PROBE_SILENT,
};

struct answer {
	const char *text; /* messages; '|' stands for the zero at the end */
	enum probe probe; /* before the answer */
	bool is_long;	  /* a message of LONG_LEN bytes instead */
	bool closes;	  /* after the answer; otherwise rdma-ctl does */
};

static struct {
	char dir[32];
	char path[64];
	int listen_fd;
	pthread_t thread;
	const struct answer *answer;
	char asked[TEXT_LEN];
	struct ctl_options o;
	json_t *out;
	struct error e;
	unsigned int taken; /* answers */
	unsigned int stops_after;
} world;

/* ---- the target ---- */

static void read_message(int fd, char *buf)
{
	for (size_t len = 0; len < TEXT_LEN; len++) {
		T_MUST(recv(fd, buf + len, 1, 0) == 1);
		if (!buf[len])
			return;
	}
	abort();
}

static void send_answer(int fd, const struct answer *a)
{
	size_t len = a->is_long ? LONG_LEN : strlen(a->text);
	char *buf = malloc(len);

	if (a->is_long) {
		memset(buf, ' ', len);
		memcpy(buf, "{\"parameters\":{}}", 17);
		buf[len - 1] = '\0';
	} else {
		memcpy(buf, a->text, len);
	}
	for (size_t i = 0; i < len; i++)
		buf[i] = buf[i] == '|' ? '\0' : buf[i];
	for (size_t at = 0; at < len;) {
		ssize_t n = send(fd, buf + at, len - at, MSG_NOSIGNAL);

		T_MUST(n > 0);
		at += (size_t)n;
	}
	free(buf);
}

static void wait_for_end(int fd)
{
	char c;

	while (recv(fd, &c, 1, 0) > 0)
		;
	close(fd);
}

static void answer_probe(enum probe probe)
{
	int fd = accept(world.listen_fd, NULL, NULL);
	char text[TEXT_LEN];

	T_MUST(fd >= 0);
	read_message(fd, text);
	T_MUST(strstr(text, "org.varlink.service.GetInfo"));
	if (probe == PROBE_ANSWERS)
		T_MUST(send(fd, "{}", 3, MSG_NOSIGNAL) == 3);
	if (probe == PROBE_CLOSES)
		close(fd);
	else
		wait_for_end(fd);
}

static void *target_main(void *arg)
{
	const struct answer *a = arg;
	int fd = accept(world.listen_fd, NULL, NULL);

	T_MUST(fd >= 0);
	read_message(fd, world.asked);
	if (a->probe != PROBE_NONE)
		answer_probe(a->probe);
	send_answer(fd, a);
	if (a->closes)
		close(fd);
	else
		wait_for_end(fd);
	return NULL;
}

static void begin(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };

	memset(&world, 0, sizeof(world));
	strcpy(world.dir, "/tmp/test_ctl.XXXXXX");
	T_MUST(mkdtemp(world.dir));
	snprintf(world.path, sizeof(world.path), "%s/control", world.dir);
	strcpy(addr.sun_path, world.path);
	world.listen_fd = socket(AF_UNIX, SOCK_STREAM, 0);
	T_MUST(!bind(world.listen_fd, (struct sockaddr *)&addr, sizeof(addr)));
	T_MUST(!listen(world.listen_fd, 4));
	world.o.control = world.path;
	world.o.timeout_ms = 60000;
}

static void start(const struct answer *a)
{
	begin();
	/* It waits in vain. */
	if (a->probe != PROBE_NONE)
		world.o.timeout_ms = 100;
	T_MUST(!pthread_create(&world.thread, NULL, target_main,
			       (void *)(uintptr_t)a));
}

static void end(void)
{
	json_decref(world.out);
	close(world.listen_fd);
	unlink(world.path);
	assert_int_equal(rmdir(world.dir), 0);
}

static void stop(void)
{
	pthread_join(world.thread, NULL);
	end();
}

/* ---- calls ---- */

struct call_row {
	const char *name;
	struct answer answer;
	enum ctl_exit code;
	const char *text; /* the parameters, or a part of the message */
};

#define REFUSED "{\"error\":\"org.rdmablock.target.Refused\",\"parameters\":"
#define VARLINK "{\"error\":\"org.varlink.service."

static const struct call_row call_rows[] = {
	{ "an answer",
	  { "{\"parameters\":{\"a\":1}}|" },
	  CTL_DONE,
	  "{\"a\":1}" },
	{ "an answer without parameters", { "{}|" }, CTL_DONE, "{}" },
	{ "a long answer", { .is_long = true }, CTL_DONE, "{}" },
	{ "refused, by a key",
	  { REFUSED "{\"object\":\"volume 'a'\",\"field\":\"lun\","
		    "\"reason\":\"it is taken\"}}|" },
	  CTL_REFUSED,
	  "volume 'a': lun: it is taken" },
	{ "refused, as a whole",
	  { REFUSED "{\"object\":\"volume 'a'\",\"reason\":\"no\"}}|" },
	  CTL_REFUSED,
	  "volume 'a': no" },
	{ "refused, without a word", { REFUSED "[]}|" }, CTL_REFUSED, ": " },
	{ "not for everybody",
	  { VARLINK "PermissionDenied\"}|" },
	  CTL_REFUSED,
	  "only root and the user of the target" },
	{ "a wrong parameter",
	  { VARLINK "InvalidParameter\",\"parameters\":"
		    "{\"parameter\":\"size\"}}|" },
	  CTL_REFUSED,
	  "the target does not take this size" },
	{ "another error",
	  { VARLINK "MethodNotFound\"}|" },
	  CTL_REFUSED,
	  "org.varlink.service.MethodNotFound; the target may be of another "
	  "version" },
	{ "no JSON",
	  { "hello|" },
	  CTL_UNREACHABLE,
	  "what was asked for may have been done or not" },
	{ "nothing",
	  { "", .closes = true },
	  CTL_UNREACHABLE,
	  "the target has closed the connection" },
	{ "half an answer",
	  { "{\"parameters\":{}}", .closes = true },
	  CTL_UNREACHABLE,
	  "the target has closed the connection" },
	{ "a slow answer of a target that lives",
	  { "{\"parameters\":{\"a\":1}}|", PROBE_ANSWERS },
	  CTL_DONE,
	  "{\"a\":1}" },
	{ "a slow answer of a target that is busy",
	  { "{}|", PROBE_CLOSES },
	  CTL_DONE,
	  "{}" },
};

T_ROWS(call, call_rows)
{
	const struct call_row *row = *state;
	char *text;

	start(&row->answer);
	assert_int_equal(ctl_call(&world.o, "Get", json_pack("{si}", "x", 1),
				  &world.out, &world.e),
			 row->code);
	if (row->code == CTL_DONE) {
		text = json_dumps(world.out, JSON_COMPACT);
		assert_string_equal(text, row->text);
		free(text);
	} else {
		assert_null(world.out);
		assert_non_null(strstr(world.e.text, row->text));
	}
	stop();
	assert_string_equal(world.asked,
			    "{\"method\":\"org.rdmablock.target.Get\","
			    "\"parameters\":{\"x\":1}}");
}

/* Neither the call nor the question after it is answered. */
T_TEST(silent_target)
{
	static const struct answer silent = { "", PROBE_SILENT };

	start(&silent);
	assert_int_equal(
		ctl_call(&world.o, "Get", json_object(), &world.out, &world.e),
		CTL_UNREACHABLE);
	assert_non_null(strstr(world.e.text, "is its process stopped?"));
	stop();
}

static const struct connect_row {
	const char *name;
	const char *path;
	const char *text;
} connect_rows[] = {
	{ "no target", "/nowhere/control",
	  "start rdma-target with --control /nowhere/control" },
	{ "a path that is too long",
	  "/pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"
	  "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp",
	  "a socket's path has at most 107 characters" },
};

T_ROWS(no_connection, connect_rows)
{
	const struct connect_row *row = *state;

	begin();
	world.o.control = row->path;
	assert_int_equal(
		ctl_call(&world.o, "Get", json_object(), &world.out, &world.e),
		CTL_UNREACHABLE);
	assert_non_null(strstr(world.e.text, row->text));
	assert_int_equal(
		ctl_follow(&world.o, "Watch", json_object(), NULL, &world.e),
		CTL_UNREACHABLE);
	end();
}

/* ---- calls with several answers ---- */

#define MORE "{\"continues\":true,\"parameters\":{\"a\":1}}|"
#define LAST "{\"parameters\":{\"a\":1}}|"

static const struct follow_row {
	const char *name;
	struct answer answer;
	unsigned int stops_after; /* answers; 0: takes all */
	enum ctl_exit code;
	unsigned int taken;
	const char *text; /* NULL: none */
} follow_rows[] = {
	{ "three answers", { MORE MORE LAST }, 0, CTL_DONE, 3, NULL },
	{ "a target that knows only one answer", { LAST }, 0, CTL_DONE, 1, NULL },
	{ "one is enough", { MORE MORE }, 1, CTL_DONE, 1, NULL },
	{ "the target ends",
	  { MORE, .closes = true },
	  0,
	  CTL_UNREACHABLE,
	  1,
	  "the target has ended" },
	{ "the target ends before it answers",
	  { "", .closes = true },
	  0,
	  CTL_UNREACHABLE,
	  0,
	  "the target has closed the connection" },
	{ "an error comes last",
	  { MORE VARLINK "PermissionDenied\"}|" },
	  0,
	  CTL_REFUSED,
	  1,
	  "only root" },
};

static bool take(const json_t *out)
{
	T_MUST(json_integer_value(json_object_get(out, "a")) == 1);
	return ++world.taken != world.stops_after;
}

T_ROWS(follow, follow_rows)
{
	const struct follow_row *row = *state;

	start(&row->answer);
	world.stops_after = row->stops_after;
	assert_int_equal(
		ctl_follow(&world.o, "Watch", json_object(), take, &world.e),
		row->code);
	assert_int_equal(world.taken, row->taken);
	if (row->text) {
		assert_non_null(strstr(world.e.text, row->text));
	}
	stop();
	assert_non_null(strstr(world.asked, "\"more\":true"));
}
