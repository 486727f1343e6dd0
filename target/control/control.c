/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <poll.h>
#include <pthread.h>
#include <pwd.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file_lock.h"
#include "base/list.h"
#include "base/log.h"
#include "base/ticks.h"
#include "config/config_text.h"
#include "target/control/varlink.h"

#define CONTROL_STACK	(1u << 20)
#define CONTROL_BACKLOG 16
#define CONTROL_BUF_MIN 4096
/* To bind in a directory that a target which ends removes. */
#define CONTROL_BIND_TRIES 10
/* For the last answers when the target ends. */
#define CONTROL_LAST_ANSWER_MS 1000
/* After a failure to accept. */
#define CONTROL_RETRY_US 100000

/* Of a parameter, and of its type. */
#define CONTROL_NAME_SIZE 32

#define CONTROL_SERVICE	 "org.varlink.service"
#define CONTROL_WARNINGS "warnings"

/* One client. */
struct control_conn {
	struct control *control;
	int fd; /* -1: the place is free; guarded by control->lock */
	bool may_change;
	char *buf; /* this and the next two belong to the connection's thread */
	size_t size;
	size_t len;		  /* received */
	struct given_files given; /* of a client that may change something */
};

struct control {
	char path[sizeof(((struct sockaddr_un *)0)->sun_path)];
	char dir[sizeof(((struct sockaddr_un *)0)->sun_path)];
	bool made_dir;
	bool bound;
	int fd;
	int stop_fd; /* eventfd: ends the accepting thread */
	int poke_fd; /* eventfd: control_poke() */
	atomic_uint turns;
	pthread_t thread;
	bool started;
	const struct control_interface *interface;
	void *user;

	pthread_mutex_t lock; /* guards conns[].fd and the rest */
	pthread_cond_t conn_ended;
	bool stopping;
	unsigned int conn_cnt;
	unsigned int group_cnt; /* of these, those that may change nothing */
	struct control_conn conns[CONTROL_CONNS_MAX];
};

/* ---- the socket ---- */

static int control_fail(struct error *e, const char *path, int err)
{
	return error_set(e, err, "--control '%s': %s", path, strerror(-err));
}

static int control_make_dir(struct control *c)
{
	c->made_dir = mkdir(c->dir, 0755) == 0;
	return c->made_dir || errno == EEXIST ? 0 : -errno;
}

/*
 * Between bind() and listen(), a socket looks like one that a killed target has
 * left. So targets that start do this one after the other. Returns a descriptor
 * that has the lock; -1: there is none. A process that keeps the lock delays a
 * start, but does not prevent it: it may belong to any user.
 */
static int control_lock_dir(const struct control *c)
{
	int fd = open(c->dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char who[FILE_LOCK_NAME_MAX];
	pid_t pid = 0;

	if (fd >= 0 && file_lock_take(fd, c->dir, /* shared= */ false,
				      FILE_LOCK_ALIVE_MS, &pid) == -EBUSY)
		log_warn("%s: locked by %s; not waiting for it any longer",
			 c->dir, file_lock_name(pid, who));
	return fd;
}

/* Removes a socket on which no process listens. If the queue of one is full, a
 * process listens, but hangs. */
static int control_clear_path(const struct sockaddr_un *addr)
{
	_cleanup_close_ int fd =
		socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	struct stat st;

	if (fd < 0)
		return -errno;
	if (lstat(addr->sun_path, &st))
		return errno == ENOENT ? 0 : -errno;
	if (!S_ISSOCK(st.st_mode))
		return -EEXIST;
	if (connect(fd, (const struct sockaddr *)addr, sizeof(*addr)) == 0 ||
	    errno == EAGAIN)
		return -EADDRINUSE;
	if (errno != ECONNREFUSED)
		return -errno;
	return unlink(addr->sun_path) ? -errno : 0;
}

/* Another user may own the directory: a link at @path keeps its file. */
static int control_give_to(const char *path, const char *owner)
{
	const struct passwd *pw = owner ? getpwnam(owner) : NULL;

	if (owner && !pw)
		pw = getpwuid((uid_t)strtoul(owner, NULL, 10));
	return pw && lchown(path, pw->pw_uid, pw->pw_gid) ? -errno : 0;
}

static int control_listen_at(struct control *c, const char *owner)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	mode_t mask;
	int err;

	strcpy(addr.sun_path, c->path);
	err = control_clear_path(&addr);
	if (err)
		return err;
	c->fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (c->fd < 0)
		return -errno;
	/* 0660. Nobody can connect before listen(). */
	mask = umask(0117);
	err = bind(c->fd, (struct sockaddr *)&addr, sizeof(addr)) ? -errno : 0;
	umask(mask);
	if (err)
		return err;
	c->bound = true;
	err = control_give_to(c->path, owner);
	return !err && listen(c->fd, CONTROL_BACKLOG) ? -errno : err;
}

static int control_bind_once(struct control *c, const char *owner)
{
	int err = control_make_dir(c);
	int lock;

	if (err)
		return err;
	lock = control_lock_dir(c);
	err = control_listen_at(c, owner);
	if (err && c->fd >= 0) {
		close(c->fd);
		c->fd = -1;
	}
	if (lock >= 0)
		close(lock);
	return err;
}

static int control_bind(struct control *c, const char *path, const char *owner)
{
	char copy[sizeof(c->path)];
	int err = -ENOENT;

	if (strlen(path) >= sizeof(c->path))
		return -ENAMETOOLONG;
	strcpy(c->path, path);
	strcpy(copy, path);
	strcpy(c->dir, dirname(copy));
	for (int i = 0; i < CONTROL_BIND_TRIES && err == -ENOENT; i++)
		err = control_bind_once(c, owner);
	return err;
}

int control_create(const char *path, const char *owner, struct control **ret,
		   struct error *e)
{
	struct control *c = calloc(1, sizeof(*c));
	int err;

	if (!c)
		return control_fail(e, path, -ENOMEM);
	c->fd = -1;
	pthread_mutex_init(&c->lock, NULL);
	pthread_cond_init(&c->conn_ended, NULL);
	for (unsigned int i = 0; i < CONTROL_CONNS_MAX; i++)
		c->conns[i] = (struct control_conn){ .control = c, .fd = -1 };
	c->stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	c->poke_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	err = c->stop_fd < 0 || c->poke_fd < 0 ? -errno
					       : control_bind(c, path, owner);
	if (!err) {
		*ret = c;
		return 0;
	}
	control_fail(e, path, err);
	if (err == -EADDRINUSE)
		error_add(e, "; another target listens there: give one of them "
			     "another path");
	else if (err == -EEXIST)
		error_add(e, ", and is not a socket: give another path");
	control_destroy(c, /* last_ms= */ 0);
	return err;
}

/* ---- sending ---- */

/* Sends the NUL, too. False: the client is gone, or does not read. Frees @text. */
static bool control_send(struct control_conn *conn, char *text)
{
	size_t len = text ? strlen(text) + 1 : 0;
	const char *p = text;

	while (len > 0) {
		ssize_t n = send(conn->fd, p, len, MSG_NOSIGNAL);

		if (n <= 0)
			break;
		p += n;
		len -= (size_t)n;
	}
	free(text);
	return text && len == 0;
}

bool control_stream_send(struct control_call *call, json_t *parameters)
{
	return control_send(call->conn, varlink_encode_part(parameters));
}

/* Data that the client sends meanwhile stays for later; a closed connection
 * ends the wait. */
bool control_stream_await(struct control_call *call, int fd)
{
	struct pollfd fds[] = {
		{ .fd = fd, .events = POLLIN },
		{ .fd = call->conn->fd, .events = POLLRDHUP },
	};

	while (poll(fds, ARRAY_SIZE(fds), -1) < 0) {
		if (errno != EINTR)
			return false;
	}
	return !fds[1].revents;
}

/* ---- methods that every service has ---- */

static void control_error(struct control_call *call, const char *error,
			  const char *key, const char *value)
{
	call->error = error;
	call->out = json_pack("{ss}", key, value);
}

static void control_put_method(FILE *out, const struct control_method *m)
{
	fprintf(out, "\n# %s\nmethod %s(%s) -> (%s%s%s)\n", m->help, m->name,
		m->in, m->out, m->changes && *m->out ? ", " : "",
		m->changes ? CONTROL_WARNINGS ": ?[]string" : "");
}

char *control_describe(const struct control_interface *i)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out)
		return NULL;
	fprintf(out, "# %s\ninterface %s\n", i->help, i->name);
	for (unsigned int k = 0; k < i->cnt; k++)
		control_put_method(out, &i->methods[k]);
	fprintf(out, "\n%s", i->errors);
	fclose(out);
	return text;
}

static const char control_service_description[] =
	"# What every varlink service has\n"
	"interface " CONTROL_SERVICE "\n"
	"\n"
	"# Describe the service\n"
	"method GetInfo() -> (vendor: string, product: string, version: "
	"string, url: string, interfaces: []string)\n"
	"\n"
	"# Describe an interface\n"
	"method GetInterfaceDescription(interface: string) -> (description: "
	"string)\n"
	"\n"
	"error InterfaceNotFound (interface: string)\n"
	"error MethodNotFound (method: string)\n"
	"error MethodNotImplemented (method: string)\n"
	"error InvalidParameter (parameter: string)\n"
	"error PermissionDenied ()\n"
	"error ExpectedMore ()\n";

static void control_get_description(const struct control_interface *i,
				    struct control_call *call)
{
	const char *name =
		json_string_value(json_object_get(call->in, "interface"));
	char *text;

	if (!name) {
		control_error(call, VARLINK_BAD_PARAMETER, "parameter",
			      "interface");
	} else if (!strcmp(name, CONTROL_SERVICE)) {
		call->out = json_pack("{ss}", "description",
				      control_service_description);
	} else if (!strcmp(name, i->name)) {
		text = control_describe(i);
		call->out = json_pack("{ss}", "description", text ? text : "");
		free(text);
	} else {
		control_error(call, VARLINK_NO_INTERFACE, "interface", name);
	}
}

static void control_run_service(const struct control_interface *i,
				const char *method, struct control_call *call)
{
	if (!strcmp(method, "GetInfo"))
		call->out = json_pack("{ssssssss s[ss]}", "vendor",
				      "rdma-block", "product", i->product,
				      "version", i->version, "url", "",
				      "interfaces", CONTROL_SERVICE, i->name);
	else if (!strcmp(method, "GetInterfaceDescription"))
		control_get_description(i, call);
	else
		control_error(call, VARLINK_NO_METHOD, "method", method);
}

/* ---- calls ---- */

static const struct control_method *
control_find(const struct control_interface *i, const char *name)
{
	for (unsigned int k = 0; k < i->cnt; k++) {
		if (!strcmp(i->methods[k].name, name))
			return &i->methods[k];
	}
	return NULL;
}

/* True if @key is in a list such as "name: string, force: ?bool". */
static bool control_has_parameter(const char *in, const char *key)
{
	size_t len = strlen(key);

	for (const char *p = in; p && *p; p = strchr(p, ',')) {
		p += strspn(p, ", ");
		if (!strncmp(p, key, len) && p[len] == ':')
			return true;
	}
	return false;
}

static bool control_has_type(const json_t *value, const char *type)
{
	const json_t *one;
	size_t i;

	if (*type == '?' && (!value || json_is_null(value)))
		return true;
	type += *type == '?';
	if (!strcmp(type, "string"))
		return json_is_string(value);
	if (!strcmp(type, "int"))
		return json_is_integer(value);
	if (!strcmp(type, "bool"))
		return json_is_boolean(value);
	if (strcmp(type, "[]string") != 0)
		return true;
	json_array_foreach((json_t *)(uintptr_t)value, i, one) {
		if (!json_is_string(one))
			return false;
	}
	return json_is_array(value);
}

/* Returns the name of the first wrong one; NULL: there is none. @name has its room. */
static const char *control_wrong_parameter(const struct control_method *m,
					   const json_t *in,
					   char name[static CONTROL_NAME_SIZE])
{
	char type[CONTROL_NAME_SIZE];
	const char *key;
	json_t *value;
	int len;

	json_object_foreach((json_t *)(uintptr_t)in, key, value) {
		if (!control_has_parameter(m->in, key))
			return key;
	}
	for (const char *p = m->in;
	     sscanf(p, "%31[^:]: %31[^,]%n", name, type, &len) == 2;
	     p += len + strspn(p + len, ", ")) {
		if (!control_has_type(json_object_get(in, name), type))
			return name;
	}
	return NULL;
}

static void control_take_warning(void *user, const char *line)
{
	json_array_append_new(user, varlink_text(line));
}

/* Whoever made a change is told what is not as it should be. */
static void control_add_warnings(struct control_call *call, json_t *warnings)
{
	if (call->error || !json_array_size(warnings))
		return;
	if (!call->out)
		call->out = json_object();
	json_object_set(call->out, CONTROL_WARNINGS, warnings);
}

static void control_run_change(const struct control_method *m,
			       struct control_call *call)
{
	json_t *warnings = json_array();
	const struct log_caller caller = { .take = control_take_warning,
					   .user = warnings };

	log_set_caller(&caller);
	m->run(call);
	log_set_caller(NULL);
	control_add_warnings(call, warnings);
	json_decref(warnings);
	/* A client that has its answer finds the lines in the log. */
	log_flush();
}

/* A stream ends with its connection: it has no last reply. */
static void control_run_method(const struct control_method *m,
			       struct control_call *call)
{
	char name[CONTROL_NAME_SIZE];
	const char *wrong = control_wrong_parameter(m, call->in, name);

	if (wrong) {
		control_error(call, VARLINK_BAD_PARAMETER, "parameter", wrong);
		return;
	}
	if (m->changes)
		control_run_change(m, call);
	else
		m->run(call);
	if (m->streams && !call->error)
		shutdown(call->conn->fd, SHUT_RDWR);
}

static void control_run(const struct varlink_call *what,
			struct control_call *call)
{
	const struct control_interface *i = call->conn->control->interface;
	const struct control_method *m = control_find(i, what->method);

	if (!strcmp(what->interface, CONTROL_SERVICE))
		control_run_service(i, what->method, call);
	else if (strcmp(what->interface, i->name) != 0)
		control_error(call, VARLINK_NO_INTERFACE, "interface",
			      what->interface);
	else if (!m)
		control_error(call, VARLINK_NO_METHOD, "method", what->method);
	else if (m->changes && !call->conn->may_change)
		call->error = VARLINK_NOT_ALLOWED;
	else if (m->streams && !what->more)
		call->error = VARLINK_WANTS_MORE;
	else
		control_run_method(m, call);
}

/* Handles one message of @len bytes at the beginning of the buffer. False:
 * close the connection. */
static bool control_take_message(struct control_conn *conn, size_t len)
{
	struct control_call call = { .user = conn->control->user,
				     .given = &conn->given,
				     .conn = conn };
	struct varlink_call what;
	const char *why;

	if (!varlink_decode(conn->buf, len, &what, &why)) {
		log_info("control socket: a client sent no call: %s", why);
		return false;
	}
	call.in = what.parameters;
	control_run(&what, &call);
	json_decref(what.parameters);
	if (what.oneway) {
		json_decref(call.out);
		return true;
	}
	return control_send(
		conn, call.error ? varlink_encode_error(call.error, call.out)
				 : varlink_encode_reply(call.out));
}

/* ---- receiving ---- */

static bool control_make_room(struct control_conn *conn)
{
	size_t size = conn->size ? 2 * conn->size : CONTROL_BUF_MIN;
	char *buf;

	if (conn->len < conn->size)
		return true;
	if (conn->size > CONFIG_TEXT_MAX)
		return false;
	buf = realloc(conn->buf, size);
	if (!buf)
		return false;
	conn->buf = buf;
	conn->size = size;
	return true;
}

/* Receives more bytes, until @due_ms. */
static bool control_receive(struct control_conn *conn, uint64_t due_ms)
{
	struct pollfd p = { .fd = conn->fd, .events = POLLIN };
	uint64_t now = ticks_clock_ms();
	ssize_t n;

	if (now >= due_ms || !control_make_room(conn) ||
	    poll(&p, 1, (int)(due_ms - now)) <= 0)
		return false;
	/* The kernel closes the files of others. */
	if (conn->may_change)
		n = given_files_recv(&conn->given, conn->fd,
				     conn->buf + conn->len,
				     conn->size - conn->len);
	else
		n = recv(conn->fd, conn->buf + conn->len,
			 conn->size - conn->len, 0);
	if (n <= 0)
		return false;
	conn->len += (size_t)n;
	return true;
}

/* Handles all complete messages. */
static bool control_take_messages(struct control_conn *conn)
{
	char *end;

	while (conn->len > 0 && (end = memchr(conn->buf, '\0', conn->len))) {
		size_t len = (size_t)(end - conn->buf);

		if (!control_take_message(conn, len))
			return false;
		conn->len -= len + 1;
		memmove(conn->buf, end + 1, conn->len);
	}
	return true;
}

static void control_serve(struct control_conn *conn)
{
	uint64_t due_ms = ticks_clock_ms() + CONTROL_IDLE_MS;

	for (;;) {
		bool began = conn->len > 0;

		if (!control_receive(conn, due_ms) ||
		    !control_take_messages(conn))
			return;
		if (conn->len == 0)
			due_ms = ticks_clock_ms() + CONTROL_IDLE_MS;
		else if (!began)
			due_ms = ticks_clock_ms() + CONTROL_MESSAGE_MS;
	}
}

static void *control_conn_main(void *arg)
{
	struct control_conn *conn = arg;
	struct control *c = conn->control;

	control_serve(conn);
	free(conn->buf);
	given_files_close(&conn->given);
	pthread_mutex_lock(&c->lock);
	close(conn->fd);
	conn->fd = -1;
	c->conn_cnt--;
	c->group_cnt -= !conn->may_change;
	pthread_cond_broadcast(&c->conn_ended);
	pthread_mutex_unlock(&c->lock);
	return NULL;
}

/* ---- connections ---- */

/* Root, and the user that the target runs as. */
static bool control_may_change(int fd)
{
	struct ucred peer;
	socklen_t len = sizeof(peer);

	if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &len))
		return false;
	return peer.uid == 0 || peer.uid == geteuid();
}

/* NULL: all places are in use. The lock is held. */
static struct control_conn *control_take_place(struct control *c, int fd,
					       bool may_change)
{
	if (c->stopping ||
	    (!may_change && c->group_cnt >= CONTROL_CONNS_MAX / 2))
		return NULL;
	for (unsigned int i = 0; i < CONTROL_CONNS_MAX; i++) {
		struct control_conn *conn = &c->conns[i];

		if (conn->fd >= 0)
			continue;
		*conn = (struct control_conn){ .control = c,
					       .fd = fd,
					       .may_change = may_change };
		c->conn_cnt++;
		c->group_cnt += !may_change;
		return conn;
	}
	return NULL;
}

static int control_start_thread(void *(*run)(void *arg), void *arg,
				pthread_t *ret)
{
	pthread_attr_t attr;
	int err;

	pthread_attr_init(&attr);
	pthread_attr_setstacksize(&attr, CONTROL_STACK);
	if (!ret)
		pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	err = pthread_create(ret ? ret : &(pthread_t){ 0 }, &attr, run, arg);
	pthread_attr_destroy(&attr);
	return -err;
}

static void control_accept(struct control *c)
{
	int fd = accept4(c->fd, NULL, NULL, SOCK_CLOEXEC);
	struct timeval limit = { .tv_sec = CONTROL_MESSAGE_MS / 1000 };
	struct control_conn *conn;

	if (fd < 0) {
		/* No descriptor is left: the client stays in the queue. */
		if (errno != EAGAIN)
			usleep(CONTROL_RETRY_US);
		return;
	}
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
	pthread_mutex_lock(&c->lock);
	conn = control_take_place(c, fd, control_may_change(fd));
	if (conn && control_start_thread(control_conn_main, conn, NULL) == 0) {
		pthread_mutex_unlock(&c->lock);
		return;
	}
	if (conn) {
		conn->fd = -1;
		c->conn_cnt--;
		c->group_cnt -= !conn->may_change;
	}
	pthread_mutex_unlock(&c->lock);
	close(fd);
}

static void *control_main(void *arg)
{
	struct control *c = arg;
	struct pollfd fds[] = {
		{ .fd = c->fd, .events = POLLIN },
		{ .fd = c->stop_fd, .events = POLLIN },
		{ .fd = c->poke_fd, .events = POLLIN },
	};
	eventfd_t ignored;

	while (poll(fds, ARRAY_SIZE(fds), -1) >= 0 || errno == EINTR) {
		if (fds[1].revents)
			break;
		if (fds[2].revents)
			eventfd_read(c->poke_fd, &ignored);
		atomic_fetch_add(&c->turns, 1);
		if (fds[0].revents)
			control_accept(c);
	}
	return NULL;
}

int control_start(struct control *c, const struct control_interface *i,
		  void *user, struct error *e)
{
	int err;

	c->interface = i;
	c->user = user;
	err = control_start_thread(control_main, c, &c->thread);
	if (err)
		return control_fail(e, c->path, err);
	c->started = true;
	return 0;
}

unsigned int control_poke(struct control *c)
{
	unsigned int turns = atomic_load(&c->turns);

	eventfd_write(c->poke_fd, 1);
	return turns;
}

/* The lock is held. */
static void control_shut_conns(struct control *c, int how)
{
	for (unsigned int i = 0; i < CONTROL_CONNS_MAX; i++) {
		if (c->conns[i].fd >= 0)
			shutdown(c->conns[i].fd, how);
	}
}

/* The lock is held. False: some go on. */
static bool control_await_conns(struct control *c, unsigned int ms)
{
	struct timespec until;
	int err = 0;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ms / 1000; /* whole seconds are enough */
	while (c->conn_cnt > 0 && !err)
		err = pthread_cond_clockwait(&c->conn_ended, &c->lock,
					     CLOCK_MONOTONIC, &until);
	return c->conn_cnt == 0;
}

/* A client that waits for an answer gets it, also that the target ends. One that
 * does not take it does not delay the end. */
static bool control_end_conns(struct control *c, unsigned int last_ms)
{
	bool ended;

	pthread_mutex_lock(&c->lock);
	c->stopping = true;
	control_shut_conns(c, SHUT_RD);
	control_await_conns(c, CONTROL_LAST_ANSWER_MS);
	control_shut_conns(c, SHUT_RDWR);
	ended = control_await_conns(c, last_ms);
	pthread_mutex_unlock(&c->lock);
	return ended;
}

bool control_destroy(struct control *c, unsigned int last_ms)
{
	if (!c)
		return true;
	if (c->started) {
		eventfd_write(c->stop_fd, 1);
		pthread_join(c->thread, NULL);
		c->started = false;
	}
	if (!control_end_conns(c, last_ms))
		return false;
	/* While a process listens, no other takes the path. A user without the
	 * right to remove it leaves a socket on which no process listens. */
	if (c->bound)
		unlink(c->path);
	if (c->fd >= 0)
		close(c->fd);
	if (c->stop_fd >= 0)
		close(c->stop_fd);
	if (c->poke_fd >= 0)
		close(c->poke_fd);
	/* It may have other files by now. The sandbox allows no rmdir(). */
	if (c->made_dir)
		unlinkat(AT_FDCWD, c->dir, AT_REMOVEDIR);
	free(c);
	return true;
}
