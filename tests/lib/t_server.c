/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_server.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "target/configure.h"
#include "target/server.h"
#include "tests/lib/t_addr.h"
#include "tests/lib/t_fabric.h"
#include "tests/lib/t_must.h"

#define ARGS_MAX    64
#define LOGINS_MAX  8
#define ANSWER_SIZE (1u << 20)
/* How long one wait may last. Only a test that hangs waits this long. */
#define AWAIT_S		 120
#define INTERFACE_PREFIX "org.rdmablock.target."

struct login {
	struct t_ini ini;
	sem_t changed; /* it is established; it is closed */
	bool is_closed;
};

static struct {
	char dir[32];
	bool without_device;

	/* of the server that runs */
	char *argv[ARGS_MAX];
	int argc;
	pthread_t thread;
	int code;
	int ended_fd;	  /* eventfd */
	int notify_fd;	  /* the service manager's socket */
	char notes[1024]; /* what it has got */
	int control_fd;
	json_t *answer;

	/* One for each worker; initiators come by the first. */
	struct t_fabric *hubs[WORKERS_MAX];
	unsigned int hub_cnt;
	struct reactor *reactor; /* of worker 0 */
	struct xp *peer_xp;
	struct login *logins[LOGINS_MAX];
} server;

/* ---- the scratch directory ---- */

static int remove_one(const char *path, const struct stat *st, int type,
		      struct FTW *ftw)
{
	return remove(path);
}

void t_server_enter(void)
{
	static const int sigs[] = { SIGTERM, SIGINT, SIGHUP, SIGUSR1, SIGUSR2 };
	sigset_t set;

	/* Only the server takes them. */
	sigemptyset(&set);
	for (size_t i = 0; i < ARRAY_SIZE(sigs); i++)
		sigaddset(&set, sigs[i]);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	strcpy(server.dir, "/tmp/t-server-XXXXXX");
	T_MUST(mkdtemp(server.dir) && chdir(server.dir) == 0);
}

void t_server_leave(void)
{
	if (server.argc)
		t_server_end(SIGTERM);
	T_MUST(chdir("/") == 0);
	T_MUST(nftw(server.dir, remove_one, 16, FTW_DEPTH | FTW_PHYS) == 0);
}

void t_server_write(const char *name, const char *text)
{
	FILE *f = fopen(name, "we");

	T_MUST(f && fputs(text, f) >= 0 && fclose(f) == 0);
}

char *t_server_read(const char *name)
{
	FILE *f = fopen(name, "re");
	char *text = NULL;
	size_t size = 0;

	if (!f)
		return NULL;
	T_MUST(getdelim(&text, &size, '\0', f) >= 0);
	fclose(f);
	return text;
}

char *t_server_names(char *text)
{
	size_t len = strlen(server.dir);
	char *at;

	while ((at = strstr(text, server.dir)) && at[len] == '/')
		memmove(at, at + len + 1, strlen(at + len + 1) + 1);
	return text;
}

void t_server_make_file(const char *name, size_t len)
{
	t_server_write(name, "");
	T_MUST(truncate(name, (off_t)len) == 0);
}

/* ---- waiting ---- */

static struct timespec await_due(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	ts.tv_sec += AWAIT_S;
	return ts;
}

/* Ends the program: a test that hangs says what it waited for. */
__attribute__((noreturn)) static void gave_up(const char *what,
					      const char *name)
{
	fprintf(stderr, "waited %d s in vain for %s '%s'; the log:\n%s",
		AWAIT_S, what, name, t_server_log());
	abort();
}

static void await_fds(struct pollfd *fds, nfds_t cnt, const char *what,
		      const char *name)
{
	int n = poll(fds, cnt, AWAIT_S * 1000);

	T_MUST(n >= 0);
	if (n == 0)
		gave_up(what, name);
}

static void await_fd(int fd, const char *what, const char *name)
{
	await_fds(&(struct pollfd){ .fd = fd, .events = POLLIN }, 1, what,
		  name);
}

static void await_sem(sem_t *sem, const char *what, const char *name)
{
	struct timespec due = await_due();

	if (sem_timedwait(sem, &due) == 0)
		return;
	T_MUST(errno == ETIMEDOUT);
	gave_up(what, name);
}

void t_server_await_file(const char *name)
{
	struct timespec due = await_due();
	struct timespec now;

	while (access(name, F_OK)) {
		clock_gettime(CLOCK_REALTIME, &now);
		if (now.tv_sec > due.tv_sec)
			gave_up("the file", name);
		usleep(1000);
	}
}

/* ---- the fabric ---- */

int __real_xp_create(enum xp_kind kind, const struct xp_config *cfg,
		     struct xp **ret_xp, struct error *e);
int __wrap_xp_create(enum xp_kind kind, const struct xp_config *cfg,
		     struct xp **ret_xp, struct error *e);

/* A hub has one thread. */
int __wrap_xp_create(enum xp_kind kind, const struct xp_config *cfg,
		     struct xp **ret_xp, struct error *e)
{
	struct t_fabric *hub;

	if (kind != XP_VERBS)
		return __real_xp_create(kind, cfg, ret_xp, e);
	if (server.without_device && !cfg->await_devices)
		return error_set(e, -ENODEV, "no RDMA device is there");
	T_MUST(server.hub_cnt < WORKERS_MAX);
	hub = t_fabric_create();
	if (server.hub_cnt == 0)
		server.reactor = cfg->reactor;
	server.hubs[server.hub_cnt++] = hub;
	return t_xp_create(hub, cfg, ret_xp);
}

void t_server_without_device(bool without)
{
	server.without_device = without;
}

/* ---- the log ---- */

static struct {
	pthread_mutex_t lock; /* guards the rest */
	pthread_cond_t grown;
	char text[65536];
	size_t len;
} server_log = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER };

void __real_log_write(enum log_level level, const char *fmt, ...);
void __wrap_log_write(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void __real_log_write_about(enum log_level level, const struct log_about *about,
			    const char *fmt, ...);
void __wrap_log_write_about(enum log_level level, const struct log_about *about,
			    const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

__attribute__((format(printf, 1, 0))) static void add_line(const char *fmt,
							   va_list ap)
{
	size_t size = sizeof(server_log.text);
	int len;

	pthread_mutex_lock(&server_log.lock);
	len = vsnprintf(server_log.text + server_log.len, size - server_log.len,
			fmt, ap);
	T_MUST(len >= 0 && server_log.len + (size_t)len + 1 < size);
	server_log.len += (size_t)len;
	strcpy(server_log.text + server_log.len++, "\n");
	pthread_cond_broadcast(&server_log.grown);
	pthread_mutex_unlock(&server_log.lock);
}

/* The caller of a change gets it, too. */
void __wrap_log_write(enum log_level level, const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	va_start(ap, fmt);
	add_line(fmt, ap);
	va_end(ap);
	__real_log_write(level, "%s", line);
}

/* Those who follow events get it, too. */
void __wrap_log_write_about(enum log_level level, const struct log_about *about,
			    const char *fmt, ...)
{
	char line[1024];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	va_start(ap, fmt);
	add_line(fmt, ap);
	va_end(ap);
	__real_log_write_about(level, about, "%s", line);
}

static void clear_log(void)
{
	server_log.len = 0;
	server_log.text[0] = '\0';
}

/* With a sink, events are written at every level. */
static void take_event(enum log_level level, const struct log_about *about,
		       const char *line)
{
}

const char *t_server_log(void)
{
	static char text[sizeof(server_log.text)];

	pthread_mutex_lock(&server_log.lock);
	memcpy(text, server_log.text, server_log.len + 1);
	pthread_mutex_unlock(&server_log.lock);
	return text;
}

void t_server_await_log(const char *part)
{
	struct timespec due = await_due();
	bool found;
	int err = 0;

	pthread_mutex_lock(&server_log.lock);
	while (!(found = strstr(server_log.text, part)) && !err)
		err = pthread_cond_timedwait(&server_log.grown,
					     &server_log.lock, &due);
	pthread_mutex_unlock(&server_log.lock);
	if (!found)
		gave_up("a line of the log", part);
}

/* ---- on the thread of worker 0 ---- */

struct call {
	struct reactor_msg msg;
	void (*run)(struct login *l);
	struct login *login;
	sem_t done;
};

static void run_call(struct reactor_msg *msg)
{
	struct call *c = container_of(msg, struct call, msg);

	c->run(c->login);
	sem_post(&c->done);
}

static void call_worker(void (*run)(struct login *l), struct login *l)
{
	struct call c = { .msg.run = run_call, .run = run, .login = l };

	T_MUST(server.reactor);
	sem_init(&c.done, /* pshared= */ 0, 0);
	reactor_send(server.reactor, &c.msg);
	await_sem(&c.done, "a call on", "worker 0");
	sem_destroy(&c.done);
}

/* ---- its life ---- */

static const char *const default_args[] = {
	"rdma-target", "--control", "control", "--no-sandbox", "--discovery",
	"off",	       "--threads", "1",       "--buffers",    "4M",
	"--state-dir", ".",	    "-q",      "--strict",     NULL
};

static void add_args(const char *const *args)
{
	for (; *args; args++) {
		T_MUST(server.argc < ARGS_MAX - 3);
		server.argv[server.argc++] = strdup(*args);
	}
}

static bool has_arg(const char *const *args, const char *arg)
{
	while (*args && strcmp(*args, arg) != 0)
		args++;
	return *args;
}

static void make_args(const char *const *args)
{
	static const char *const listen[] = { "--listen",
					      "srp+rdma://" T_SERVER_ADDR,
					      NULL };

	add_args(default_args);
	if (!has_arg(args, "--listen") && !has_arg(args, "--config"))
		add_args(listen);
	add_args(args);
}

static void free_args(void)
{
	while (server.argc)
		free(server.argv[--server.argc]);
}

/* As main() of rdma-target. */
static void *server_main(void *arg)
{
	struct configuration c;
	enum option_verdict verdict =
		configuration_read(server.argc, server.argv, &c);

	server.code = verdict == OPTION_DONE ? 0 : 1;
	if (verdict == OPTION_RUN) {
		log_init("rdma-target", c.opt.log_level);
		server.code = server_run(&c);
		/* It ends a target whose process does not end; this one goes on. */
		alarm(0);
	}
	configuration_free(&c);
	eventfd_write(server.ended_fd, 1);
	return NULL;
}

static void open_notify(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX,
				    .sun_path = "notify" };

	unlink(addr.sun_path);
	server.notify_fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	T_MUST(!bind(server.notify_fd, (struct sockaddr *)&addr, sizeof(addr)));
	setenv("NOTIFY_SOCKET", addr.sun_path, 1);
}

/* False: there is none. */
static bool take_note(int flags)
{
	char note[64];
	ssize_t len = recv(server.notify_fd, note, sizeof(note) - 1, flags);

	if (len <= 0)
		return false;
	note[len] = '\0';
	T_MUST(strlen(server.notes) + (size_t)len + 2 < sizeof(server.notes));
	strcat(strcat(server.notes, note), "\n");
	return true;
}

const char *t_server_notes(void)
{
	return server.notes;
}

void t_server_await_note(const char *part)
{
	while (!strstr(server.notes, part)) {
		await_fd(server.notify_fd, "the note", part);
		T_MUST(take_note(0));
	}
}

static int connect_control(void)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX,
				    .sun_path = "control" };

	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	T_MUST(!connect(fd, (struct sockaddr *)&addr, sizeof(addr)));
	return fd;
}

/* What a run leaves behind. Returns its exit code. */
static int end_run(void)
{
	await_fd(server.ended_fd, "the end of", "rdma-target");
	pthread_join(server.thread, NULL);
	while (take_note(MSG_DONTWAIT))
		;
	while (server.hub_cnt)
		t_fabric_destroy(server.hubs[--server.hub_cnt]);
	server.reactor = NULL;
	close(server.ended_fd);
	close(server.notify_fd);
	free_args();
	log_set_sink(NULL);
	return server.code;
}

/* Returns false when it has ended. */
static bool begin_run(const char *const *args)
{
	struct pollfd fds[2];

	make_args(args);
	clear_log();
	server.notes[0] = '\0';
	log_set_sink(take_event);
	open_notify();
	server.ended_fd = eventfd(0, EFD_CLOEXEC);
	fds[0] = (struct pollfd){ .fd = server.notify_fd, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = server.ended_fd, .events = POLLIN };
	T_MUST(!pthread_create(&server.thread, NULL, server_main, NULL));
	await_fds(fds, 2, "the start of", "rdma-target");
	return fds[0].revents;
}

void t_server_start(const char *const *args)
{
	T_MUST(begin_run(args));
	server.control_fd = connect_control();
}

const char *t_server_refuse(const char *const *args)
{
	T_MUST(!begin_run(args));
	T_MUST(end_run() == 1);
	return t_server_log();
}

static void destroy_peer(struct login *unused)
{
	xp_destroy(server.peer_xp);
	server.peer_xp = NULL;
}

int t_server_end(int sig)
{
	for (unsigned int i = 0; i < LOGINS_MAX; i++) {
		if (server.logins[i])
			t_server_logout(&server.logins[i]->ini);
	}
	if (server.peer_xp)
		call_worker(destroy_peer, NULL);
	close(server.control_fd);
	json_decref(server.answer);
	server.answer = NULL;
	t_server_signal(sig);
	return end_run();
}

void t_server_signal(int sig)
{
	T_MUST(kill(getpid(), sig) == 0);
}

/* ---- the administrator ---- */

static void send_call(int fd, const char *method, const char *in, bool more)
{
	char *text;
	int len = asprintf(
		&text,
		"{\"method\":\"" INTERFACE_PREFIX "%s\",\"parameters\":%s%s}",
		method, in ? in : "{}", more ? ",\"more\":true" : "");

	T_MUST(len > 0);
	T_MUST(send(fd, text, (size_t)len + 1, MSG_NOSIGNAL) == len + 1);
	free(text);
}

/* One byte at a time: the next answer may be there already. */
static const json_t *take_answer(int fd, const char *method)
{
	static char text[ANSWER_SIZE];
	size_t len = 0;

	do {
		T_MUST(len < sizeof(text));
		await_fd(fd, "an answer of", method);
		T_MUST(recv(fd, text + len, 1, 0) == 1);
	} while (text[len++]);
	json_decref(server.answer);
	server.answer = json_loads(text, 0, NULL);
	T_MUST(server.answer);
	return server.answer;
}

const json_t *t_server_call(const char *method, const char *in)
{
	send_call(server.control_fd, method, in, /* more= */ false);
	return take_answer(server.control_fd, method);
}

int t_server_begin(const char *method, const char *in)
{
	int fd = connect_control();

	send_call(fd, method, in, /* more= */ false);
	return fd;
}

const json_t *t_server_finish(int fd, const char *method)
{
	const json_t *answer = take_answer(fd, method);

	close(fd);
	return answer;
}

int t_server_follow(void)
{
	int fd = connect_control();

	send_call(fd, "FollowEvents", NULL, /* more= */ true);
	T_MUST(!strcmp(
		json_string_value(json_object_get(t_server_event(fd), "event")),
		"begin"));
	return fd;
}

const json_t *t_server_event(int fd)
{
	return json_object_get(take_answer(fd, "FollowEvents"), "parameters");
}

const json_t *t_server_ask(const char *method, const char *in)
{
	const json_t *answer = t_server_call(method, in);

	if (json_object_get(answer, "error")) {
		fprintf(stderr, "%s: ", method);
		json_dumpf(answer, stderr, 0);
		T_MUST(!"an answer");
	}
	return json_object_get(answer, "parameters");
}

/* ---- initiators ---- */

static void login_changed(struct t_ini *ini)
{
	sem_post(&((struct login *)ini->user)->changed);
}

static const struct t_ini_ops login_ops = {
	.established = login_changed,
	.closed = login_changed,
};

static void open_peer(void)
{
	struct xp_config cfg = { .reactor = server.reactor,
				 .recv_len = T_INI_RECV_LEN };

	T_MUST(!t_xp_create(server.hubs[0], &cfg, &server.peer_xp));
}

static void begin_login(struct login *l)
{
	struct sockaddr_in addr = t_addr(T_SERVER_ADDR, XP_URI_PORT);
	struct srp_login_req req = t_ini_login_req(
		*(struct srp_port_id *)l->ini.user, SRP_MULTICHAN_SINGLE);

	if (!server.peer_xp)
		open_peer();
	l->ini.user = l;
	t_ini_login(&l->ini, server.peer_xp, &addr, &req);
}

static void end_login(struct login *l)
{
	xp_close(l->ini.xp);
}

static void free_login(struct login *l)
{
	t_ini_free(&l->ini);
}

static struct login **free_place(void)
{
	for (unsigned int i = 0; i < LOGINS_MAX; i++) {
		if (!server.logins[i])
			return &server.logins[i];
	}
	abort();
}

struct t_ini *t_server_login(unsigned int who)
{
	struct srp_port_id id = srp_port_id_make(0, who);
	struct login *l = calloc(1, sizeof(*l));

	T_MUST(l);
	*free_place() = l;
	sem_init(&l->changed, /* pshared= */ 0, 0);
	l->ini.ops = &login_ops;
	l->ini.user = &id;
	call_worker(begin_login, l);
	await_sem(&l->changed, "the login of", t_server_initiator(who));
	l->is_closed = !l->ini.established;
	return &l->ini;
}

const char *t_server_initiator(unsigned int who)
{
	static char name[SRP_PORT_ID_TEXT_SIZE];

	snprintf(name, sizeof(name), "0x%032x", who);
	return name;
}

void t_server_await_logout(struct t_ini *ini)
{
	struct login *l = ini->user;

	if (!l->is_closed)
		await_sem(&l->changed, "the end of", "a channel");
	l->is_closed = true;
}

void t_server_logout(struct t_ini *ini)
{
	struct login *l = ini->user;

	call_worker(end_login, l);
	t_server_await_logout(ini);
	call_worker(free_login, l);
	sem_destroy(&l->changed);
	for (unsigned int i = 0; i < LOGINS_MAX; i++) {
		if (server.logins[i] == l)
			server.logins[i] = NULL;
	}
	free(l);
}
