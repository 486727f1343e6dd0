/* SPDX-License-Identifier: BSD-2-Clause */
/* The control socket: a client that calls the methods of an interface. */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <semaphore.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/list.h"
#include "config/config_text.h"
#include "target/control/control.h"
#include "tests/lib/t_table.h"

#define BAD_PARAMETER "org.varlink.service.InvalidParameter"

static struct {
	char dir[64];
	char path[80];
	struct control *control;
	int go_fd;    /* the second reply of Follow */
	int ended_fd; /* Follow has ended before the second reply */
	sem_t hangs;  /* Hang has begun */
	sem_t goes;   /* Hang shall end */
} world;

/* ---- the interface ---- */

static void echo(struct control_call *c)
{
	assert_ptr_equal(c->user, &world);
	c->out = json_pack("{sO}", "was", json_object_get(c->in, "text"));
}

static void refuse_all(struct control_call *c)
{
	c->error = "org.example.thing.Busy";
	c->out = json_pack("{ss}", "why", "it sleeps");
}

static void follow(struct control_call *c)
{
	if (control_stream_send(c, json_pack("{si}", "nr", 1)) &&
	    control_stream_await(c, world.go_fd))
		c->out = json_pack("{si}", "nr", 2);
	else
		eventfd_write(world.ended_fd, 1);
}

static void hang(struct control_call *c)
{
	sem_post(&world.hangs);
	while (sem_wait(&world.goes))
		;
}

static const struct control_method methods[] = {
	{ "Echo", "text: string, loud: ?bool, times: ?int, also: ?[]string",
	  "was: string", "Return text", .run = echo },
	{ "Fail", "", "", "Fail always", .changes = true, .run = refuse_all },
	{ "Follow", "", "nr: int", "Reply twice", .streams = true,
	  .run = follow },
	{ "Hang", "", "", "Wait", .run = hang },
};

static const struct control_interface thing = {
	.name = "org.example.thing",
	.product = "thing",
	.version = "1.2",
	.help = "A thing",
	.errors = "error Busy (why: string)\n",
	.methods = methods,
	.cnt = ARRAY_SIZE(methods),
};

/* ---- the client ---- */

static void control_end(struct control *c)
{
	assert_true(control_destroy(c, /* last_ms= */ 60000));
}

static int setup(void **state)
{
	struct error e;

	strcpy(world.dir, "/tmp/test_control.XXXXXX");
	assert_non_null(mkdtemp(world.dir));
	snprintf(world.path, sizeof(world.path), "%s/new/control", world.dir);
	world.go_fd = eventfd(0, EFD_CLOEXEC);
	world.ended_fd = eventfd(0, EFD_CLOEXEC);
	assert_int_equal(control_create(world.path, NULL, &world.control, &e),
			 0);
	assert_int_equal(control_start(world.control, &thing, &world, &e), 0);
	return 0;
}

static int teardown(void **state)
{
	control_end(world.control);
	world.control = NULL;
	close(world.go_fd);
	close(world.ended_fd);
	assert_int_equal(access(world.path, F_OK), -1);
	return rmdir(world.dir);
}

T_EACH(setup, teardown)

static int client_connect(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	strcpy(addr.sun_path, world.path);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)),
			 0);
	return fd;
}

/* Returns one message, without its NUL. "": the target closed the
 * connection. */
static const char *client_read(int fd)
{
	static char text[16384];
	size_t len = 0;

	while (len < sizeof(text) && recv(fd, text + len, 1, 0) == 1) {
		if (!text[len])
			return text;
		len++;
	}
	assert_int_equal(len, 0);
	text[0] = '\0';
	return text;
}

static void client_send(int fd, const char *text)
{
	assert_int_equal(send(fd, text, strlen(text) + 1, MSG_NOSIGNAL),
			 strlen(text) + 1);
}

/* ---- calls ---- */

static const struct call_case {
	const char *name;
	const char *call;
	const char *error; /* NULL: a reply */
	const char *part;  /* a part of the answer; "": there is none */
} call_cases[] = {
	{ "a call is answered",
	  "{\"method\":\"org.example.thing.Echo\","
	  "\"parameters\":{\"text\":\"hello\"}}",
	  NULL, "hello" },
	{ "an error has parameters", "{\"method\":\"org.example.thing.Fail\"}",
	  "org.example.thing.Busy", "it sleeps" },
	{ "an unknown parameter is refused",
	  "{\"method\":\"org.example.thing.Echo\","
	  "\"parameters\":{\"text\":\"x\",\"lou\":true}}",
	  BAD_PARAMETER, "lou" },
	{ "a parameter is needed", "{\"method\":\"org.example.thing.Echo\"}",
	  BAD_PARAMETER, "text" },
	{ "a text is one",
	  "{\"method\":\"org.example.thing.Echo\","
	  "\"parameters\":{\"text\":null}}",
	  BAD_PARAMETER, "text" },
	{ "a flag is one",
	  "{\"method\":\"org.example.thing.Echo\","
	  "\"parameters\":{\"text\":\"x\",\"loud\":1}}",
	  BAD_PARAMETER, "loud" },
	{ "a number is one",
	  "{\"method\":\"org.example.thing.Echo\","
	  "\"parameters\":{\"text\":\"x\",\"times\":\"2\"}}",
	  BAD_PARAMETER, "times" },
	{ "a list is one",
	  "{\"method\":\"org.example.thing.Echo\","
	  "\"parameters\":{\"text\":\"x\",\"also\":\"y\"}}",
	  BAD_PARAMETER, "also" },
	{ "a list is of texts",
	  "{\"method\":\"org.example.thing.Echo\","
	  "\"parameters\":{\"text\":\"x\",\"also\":[\"y\",2]}}",
	  BAD_PARAMETER, "also" },
	{ "what may be left out may be null",
	  "{\"method\":\"org.example.thing.Echo\","
	  "\"parameters\":{\"text\":\"x\",\"loud\":null,\"times\":null,"
	  "\"also\":null}}",
	  NULL, "x" },
	{ "a stream needs more", "{\"method\":\"org.example.thing.Follow\"}",
	  "org.varlink.service.ExpectedMore", "" },
	{ "an unknown method is refused",
	  "{\"method\":\"org.example.thing.Sing\"}",
	  "org.varlink.service.MethodNotFound", "Sing" },
	{ "an unknown interface is refused", "{\"method\":\"org.other.Echo\"}",
	  "org.varlink.service.InterfaceNotFound", "org.other" },
	{ "the service tells its version",
	  "{\"method\":\"org.varlink.service.GetInfo\"}", NULL, "1.2" },
	{ "the service describes the interface",
	  "{\"method\":\"org.varlink.service.GetInterfaceDescription\","
	  "\"parameters\":{\"interface\":\"org.example.thing\"}}",
	  NULL,
	  "method Echo(text: string, loud: ?bool, times: ?int, also: "
	  "?[]string) -> (was: string)" },
	{ "the service describes itself",
	  "{\"method\":\"org.varlink.service.GetInterfaceDescription\","
	  "\"parameters\":{\"interface\":\"org.varlink.service\"}}",
	  NULL, "method GetInfo()" },
	{ "a description needs an interface",
	  "{\"method\":\"org.varlink.service.GetInterfaceDescription\"}",
	  BAD_PARAMETER, "interface" },
	{ "the service does not describe others",
	  "{\"method\":\"org.varlink.service.GetInterfaceDescription\","
	  "\"parameters\":{\"interface\":\"org.other\"}}",
	  "org.varlink.service.InterfaceNotFound", "org.other" },
	{ "the service has no other method",
	  "{\"method\":\"org.varlink.service.Sing\"}",
	  "org.varlink.service.MethodNotFound", "Sing" },
};

T_ROWS(call_is_answered, call_cases)
{
	const struct call_case *c = *state;
	int fd = client_connect();
	const char *text;
	json_t *answer;

	client_send(fd, c->call);
	text = client_read(fd);
	answer = json_loads(text, 0, NULL);
	assert_non_null(answer);
	if (c->error)
		assert_string_equal(
			json_string_value(json_object_get(answer, "error")),
			c->error);
	else
		assert_null(json_object_get(answer, "error"));
	assert_non_null(strstr(text, c->part));
	json_decref(answer);
	close(fd);
}

/* ---- connections ---- */

T_TEST(calls_in_one_packet_are_answered_in_order)
{
	static const char calls[] =
		"{\"method\":\"org.example.thing.Echo\","
		"\"parameters\":{\"text\":\"one\"}}\0"
		"{\"method\":\"org.example.thing.Echo\",\"oneway\":true,"
		"\"parameters\":{\"text\":\"two\"}}\0"
		"{\"method\":\"org.example.thing.Echo\","
		"\"parameters\":{\"text\":\"three\"}}";
	int fd = client_connect();

	assert_int_equal(send(fd, calls, sizeof(calls), 0), sizeof(calls));
	assert_non_null(strstr(client_read(fd), "one"));
	assert_non_null(strstr(client_read(fd), "three"));
	close(fd);
}

T_TEST(stream_replies_until_its_end)
{
	int fd = client_connect();

	client_send(fd, "{\"method\":\"org.example.thing.Follow\","
			"\"more\":true}");
	assert_non_null(strstr(client_read(fd), "\"continues\":true"));
	assert_int_equal(eventfd_write(world.go_fd, 1), 0);
	assert_null(strstr(client_read(fd), "continues"));
	close(fd);
}

T_TEST(stream_ends_with_its_client)
{
	int fd = client_connect();
	eventfd_t cnt;

	client_send(fd, "{\"method\":\"org.example.thing.Follow\","
			"\"more\":true}");
	client_read(fd);
	close(fd);
	assert_int_equal(eventfd_read(world.ended_fd, &cnt), 0);
}

T_TEST(what_is_no_call_ends_the_connection)
{
	int fd = client_connect();

	client_send(fd, "hello");
	assert_string_equal(client_read(fd), "");
	close(fd);
}

T_TEST(message_that_is_too_long_ends_the_connection)
{
	static char spaces[65536];
	int fd = client_connect();
	size_t sent = 0;
	ssize_t n;

	memset(spaces, ' ', sizeof(spaces));
	while ((n = send(fd, spaces, sizeof(spaces), MSG_NOSIGNAL)) > 0) {
		sent += (size_t)n;
		assert_true(sent < 4 * CONFIG_TEXT_MAX);
	}
	assert_true(sent >= CONFIG_TEXT_MAX);
	close(fd);
}

T_TEST(connections_are_limited)
{
	int fds[CONTROL_CONNS_MAX];
	int more;

	for (unsigned int i = 0; i < CONTROL_CONNS_MAX; i++) {
		fds[i] = client_connect();
		client_send(fds[i], "{\"method\":\"org.example.thing.Echo\"}");
		assert_string_not_equal(client_read(fds[i]), "");
	}
	more = client_connect();
	assert_string_equal(client_read(more), "");
	close(more);
	for (unsigned int i = 0; i < CONTROL_CONNS_MAX; i++)
		close(fds[i]);
}

/* ---- the path ---- */

T_TEST(socket_is_for_the_owner_and_the_group)
{
	struct stat st;

	assert_int_equal(stat(world.path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0660);
}

T_TEST(second_target_is_refused)
{
	struct control *second;
	struct error e;

	assert_int_equal(control_create(world.path, NULL, &second, &e),
			 -EADDRINUSE);
	assert_non_null(strstr(e.text, "another target"));
}

T_TEST(other_file_is_not_replaced)
{
	struct control *c;
	struct error e;
	char path[80];
	FILE *f;

	snprintf(path, sizeof(path), "%s/file", world.dir);
	f = fopen(path, "w");
	assert_non_null(f);
	fclose(f);
	assert_int_equal(control_create(path, NULL, &c, &e), -EEXIST);
	assert_non_null(strstr(e.text, "not a socket"));
	assert_int_equal(unlink(path), 0);
}

T_TEST(socket_of_a_killed_target_is_replaced)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct control *c;
	struct error e;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/old", world.dir);
	assert_int_equal(bind(fd, (struct sockaddr *)&addr, sizeof(addr)), 0);
	close(fd);
	assert_int_equal(control_create(addr.sun_path, NULL, &c, &e), 0);
	control_end(c);
	assert_int_equal(access(addr.sun_path, F_OK), -1);
}

/* ---- another target starts while one ends ---- */

static struct {
	const char *path; /* not NULL: starts a target there after a close() */
	struct control *control;
} next;

int __real_close(int fd);
int __wrap_close(int fd);

int __wrap_close(int fd)
{
	int res = __real_close(fd);
	const char *path = next.path;
	struct error e;

	next.path = NULL;
	if (path && control_create(path, NULL, &next.control, &e))
		next.path = path; /* It was refused, and tries again. */
	return res;
}

T_TEST(target_that_ends_leaves_the_socket_of_the_next)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct control *c;
	struct error e;
	int fd;

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s/one", world.dir);
	assert_int_equal(control_create(addr.sun_path, NULL, &c, &e), 0);
	next.path = addr.sun_path;
	control_end(c);
	next.path = NULL;
	assert_non_null(next.control);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)),
			 0);
	close(fd);
	control_end(next.control);
}

/* ---- targets that start at the same time ---- */

/* What happens once, before the next listen() or bind(). */
static void (*before_listen)(void);
static void (*before_bind)(void);
static int told_fd = -1; /* written to if a lock is held by another process */

int __real_listen(int fd, int backlog);
int __wrap_listen(int fd, int backlog);
int __real_bind(int fd, const struct sockaddr *addr, socklen_t len);
int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len);
int __real_flock(int fd, int how);
int __wrap_flock(int fd, int how);

static void run_once(void (**what)(void))
{
	void (*run)(void) = *what;

	*what = NULL;
	if (run)
		run();
}

int __wrap_listen(int fd, int backlog)
{
	run_once(&before_listen);
	return __real_listen(fd, backlog);
}

int __wrap_bind(int fd, const struct sockaddr *addr, socklen_t len)
{
	run_once(&before_bind);
	return __real_bind(fd, addr, len);
}

int __wrap_flock(int fd, int how)
{
	int res = __real_flock(fd, how);

	if (res && errno == EWOULDBLOCK && told_fd >= 0) {
		assert_int_equal(write(told_fd, "w", 1), 1);
		errno = EWOULDBLOCK;
	}
	return res;
}

static char one_path[108]; /* of the target that starts */
static pid_t child;

static void make_one_path(const char *name)
{
	snprintf(one_path, sizeof(one_path), "%s/%s", world.dir, name);
}

static int child_code(void)
{
	int status;

	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

/* Returns when the other target waits, or has started or failed. */
static void start_another(void)
{
	struct control *c;
	struct error e;
	int fds[2];

	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		told_fd = dup2(fds[1], 3);
		/* Among them the lock of this target. */
		close_range(4, ~0u, 0);
		_exit(-control_create(one_path, NULL, &c, &e));
	}
	close(fds[1]);
	assert_in_range(read(fds[0], &(char){ 0 }, 1), 0, 1);
	/* Its end of the pipe stays open: it may tell more. */
	told_fd = fds[0];
}

T_TEST(targets_that_start_together_keep_their_socket)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	struct control *c;
	struct error e;
	int fd;

	make_one_path("one");
	before_listen = start_another;
	assert_int_equal(control_create(one_path, NULL, &c, &e), 0);
	assert_int_equal(child_code(), EADDRINUSE);
	close(told_fd);
	told_fd = -1;
	strcpy(addr.sun_path, one_path);
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&addr, sizeof(addr)),
			 0);
	close(fd);
	control_end(c);
}

static void remove_directory(void)
{
	char path[sizeof(one_path)];

	strcpy(path, one_path);
	assert_int_equal(rmdir(dirname(path)), 0);
}

T_TEST(directory_that_another_target_removes_is_made_again)
{
	struct control *c;
	struct error e;

	make_one_path("dir/one");
	before_bind = remove_directory;
	assert_int_equal(control_create(one_path, NULL, &c, &e), 0);
	control_end(c);
	assert_int_equal(access(one_path, F_OK), -1);
}

T_TEST(lock_of_another_process_does_not_prevent_a_start)
{
	struct control *c;
	struct error e;
	int fds[2];
	int fd;

	assert_int_equal(pipe(fds), 0);
	child = fork();
	if (child == 0) {
		fd = open(world.dir, O_RDONLY | O_DIRECTORY);
		_exit(flock(fd, LOCK_EX) || write(fds[1], "l", 1) != 1 ||
		      pause());
	}
	assert_int_equal(read(fds[0], &(char){ 0 }, 1), 1);
	make_one_path("one");
	assert_int_equal(control_create(one_path, NULL, &c, &e), 0);
	control_end(c);
	assert_int_equal(kill(child, SIGKILL), 0);
	assert_int_equal(waitpid(child, NULL, 0), child);
	close(fds[0]);
	close(fds[1]);
}

/* ---- sockets of others ---- */

static int listen_at(int type, struct sockaddr_un *addr)
{
	int fd = socket(AF_UNIX, type | SOCK_CLOEXEC, 0);

	addr->sun_family = AF_UNIX;
	strcpy(addr->sun_path, one_path);
	assert_int_equal(bind(fd, (struct sockaddr *)addr, sizeof(*addr)), 0);
	if (type == SOCK_STREAM)
		assert_int_equal(listen(fd, 0), 0);
	return fd;
}

T_TEST(target_that_hangs_keeps_its_socket)
{
	struct sockaddr_un addr;
	struct control *c;
	struct error e;
	int clients[8];
	int fd;

	make_one_path("one");
	fd = listen_at(SOCK_STREAM, &addr);
	/* As many as wait in its queue, and more. */
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++) {
		clients[i] = socket(
			AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		(void)connect(clients[i], (struct sockaddr *)&addr,
			      sizeof(addr));
	}
	assert_int_equal(control_create(one_path, NULL, &c, &e), -EADDRINUSE);
	for (size_t i = 0; i < ARRAY_SIZE(clients); i++)
		close(clients[i]);
	close(fd);
	assert_int_equal(unlink(one_path), 0);
}

T_TEST(socket_of_another_kind_is_not_replaced)
{
	struct sockaddr_un addr;
	struct control *c;
	struct error e;
	int fd;

	make_one_path("one");
	fd = listen_at(SOCK_DGRAM, &addr);
	assert_int_equal(control_create(one_path, NULL, &c, &e), -EPROTOTYPE);
	close(fd);
	assert_int_equal(unlink(one_path), 0);
}

/* It may wait for a file for ever. The end of the target does not. */
T_TEST(method_that_hangs_does_not_hold_up_the_end)
{
	int fd = client_connect();

	sem_init(&world.hangs, /* pshared= */ 0, 0);
	sem_init(&world.goes, /* pshared= */ 0, 0);
	client_send(fd, "{\"method\":\"org.example.thing.Hang\"}");
	assert_int_equal(sem_wait(&world.hangs), 0);
	assert_false(control_destroy(world.control, /* last_ms= */ 0));
	sem_post(&world.goes);
	close(fd);
}
