/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A port identifier that outlives the program. A program that was killed may have
 * left a write in the target, stuck in a slow disk. The program that is started
 * again repeats it for its own clients, then sends newer writes. With another
 * identifier it would be another initiator for the target, and the first write
 * could reach the disk last. With the same one, the target ends the old session
 * before it accepts the new one.
 *
 * Two sessions that run must not share an identifier: each would end the other
 * one. So a session locks its identifier, by flock() on a file of a directory that
 * only root and this user can write: nobody else can take it. The identifier is made
 * from what is drawn in the same directory (lasting_id.h), so whoever could have the
 * same identifier sees the same lock. A child that is forked must not keep the
 * lock when the program that has the session is killed.
 */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file_lock.h"
#include "base/lasting_id.h"
#include "base/state_dir.h"
#include "base/ticks.h"
#include "initiator/session.h"

/* Sessions of a directory for the same purpose; further ones are random. */
#define NUMBER_MAX 16u

/* How long to wait for the session that has the lock: the kernel takes the lock of a
 * process that was killed back after its memory, and umount(8) returns before the
 * process has logged out. A session that can take another identifier waits for a
 * shorter time. */
#define OWN_WAIT_MS   2000
#define NAMED_WAIT_MS 10000
#define ASK_MS	      20

/* Sessions that have a lock; on any threads. */
static struct {
	pthread_once_t once;
	pthread_mutex_t mutex;
	struct list sessions; /* struct ini_purpose */
} purpose_held = { .once = PTHREAD_ONCE_INIT,
		   .mutex = PTHREAD_MUTEX_INITIALIZER };

/* ---- forked children ---- */

static void purpose_before_fork(void)
{
	pthread_mutex_lock(&purpose_held.mutex);
}

static void purpose_in_parent(void)
{
	pthread_mutex_unlock(&purpose_held.mutex);
}

static void purpose_close(struct ini_purpose *p)
{
	while (p->lock_cnt > 0)
		close(p->locks[--p->lock_cnt].fd);
	close(p->dir);
	p->dir = -1;
}

static void purpose_in_child(void)
{
	struct list *it;

	while ((it = list_pop(&purpose_held.sessions)))
		purpose_close(container_of(it, struct ini_purpose, node));
	pthread_mutex_unlock(&purpose_held.mutex);
}

/* Without memory, children keep the locks. */
static void purpose_init(void)
{
	list_init(&purpose_held.sessions);
	pthread_atfork(purpose_before_fork, purpose_in_parent,
		       purpose_in_child);
}

/* ---- the directory ---- */

/* A descriptor, or -1 with p->fault. */
static int purpose_open_dir(struct ini_purpose *p)
{
	char path[4096];
	int fd;

	state_dir_default("rdma-block", path, sizeof(path));
	state_dir_make(path);
	fd = state_dir_open(path);
	if (fd == -EPERM)
		snprintf(p->fault, sizeof(p->fault),
			 "other users may write the state directory %.80s",
			 path);
	else if (fd < 0)
		snprintf(p->fault, sizeof(p->fault),
			 "no state directory%s%.80s: %s", *path ? " " : "",
			 path, *path ? strerror(-fd) : "HOME is not set");
	return fd < 0 ? -1 : fd;
}

/* ---- locks ---- */

/* The file keeps its name only as long as a process has the lock. */
static int purpose_lock_once(struct ini_purpose *p, const char *name)
{
	struct stat st;
	int fd = openat(p->dir, name, O_RDWR | O_CREAT | O_NOFOLLOW | O_CLOEXEC,
			0600);
	int err = 0;

	if (fd < 0)
		return -errno;
	if (flock(fd, LOCK_EX | LOCK_NB)) {
		err = errno == EWOULDBLOCK ? -EADDRINUSE : -errno;
		if (!fstat(fd, &st))
			file_lock_holder(&st, &p->owner);
	} else if (fstat(fd, &st) || !st.st_nlink) {
		err = -EAGAIN;
	}
	if (err) {
		close(fd);
		return err;
	}
	p->locks[p->lock_cnt].fd = fd;
	snprintf(p->locks[p->lock_cnt++].name, sizeof(p->locks[0].name), "%s",
		 name);
	return 0;
}

/* A fork between open() and here leaves the lock with the child. */
static int purpose_try_lock(struct ini_purpose *p, const char *name)
{
	int err;

	pthread_mutex_lock(&purpose_held.mutex);
	do
		err = purpose_lock_once(p, name);
	while (err == -EAGAIN);
	pthread_mutex_unlock(&purpose_held.mutex);
	return err;
}

/* Locks the identifier @id towards @address, "": all. Waits until @end for another
 * session, or until a signal asks the process to stop. 0, -EADDRINUSE with p->owner, or
 * another negative errno. */
static int purpose_lock(struct ini_purpose *p, const struct srp_port_id *id,
			const char *address, uint64_t end)
{
	char text[SRPI_PORT_SIZE + INI_PATH_TEXT_SIZE];
	char port[SRPI_PORT_SIZE], name[sizeof(p->locks[0].name)];
	int err;

	srp_port_id_format(id, port);
	snprintf(text, sizeof(text), "%s %s", port, address);
	srpi_port_of_identity(text, port); /* short enough for a name */
	snprintf(name, sizeof(name), "initiator-%s", port);
	for (unsigned int i = 0; i < p->lock_cnt; i++) {
		/* The URI has the address twice. */
		if (!strcmp(p->locks[i].name, name))
			return 0;
	}
	while ((err = purpose_try_lock(p, name)) == -EADDRINUSE &&
	       ticks_clock_ms() < end && !file_lock_is_interrupted())
		poll(NULL, 0, ASK_MS);
	return err;
}

/* ---- identifiers that the URI names ---- */

static int purpose_refuse_named(const struct ini_purpose *p,
				const struct srp_port_id *id,
				const char *address, struct error *e)
{
	char port[SRPI_PORT_SIZE], owner[FILE_LOCK_NAME_MAX];

	srp_port_id_format(id, port);
	return error_set(e, -EADDRINUSE,
			 "initiator=%s is in use: %s has it at %s, and each of "
			 "the two would end the other's session; name another "
			 "one, or none",
			 port + 2 /* "0x" */, file_lock_name(p->owner, owner),
			 address);
}

static bool purpose_address_text(const struct addrinfo *ai,
				 char text[INI_PATH_TEXT_SIZE])
{
	char host[INI_PATH_TEXT_SIZE - sizeof("[]:65535")], port[8];

	if (getnameinfo(ai->ai_addr, ai->ai_addrlen, host, sizeof(host), port,
			sizeof(port), NI_NUMERICHOST | NI_NUMERICSERV))
		return false;
	snprintf(text, INI_PATH_TEXT_SIZE,
		 strchr(host, ':') ? "[%s]:%s" : "%s:%s", host, port);
	return true;
}

/* Another session may have written the same address as a name, or beside others. With
 * another target the same identifier may be used. */
static int purpose_claim_named(struct srpi_session *s, struct error *e)
{
	uint64_t end = ticks_clock_ms() + NAMED_WAIT_MS;
	struct ini_purpose *p = &s->purpose;
	char text[INI_PATH_TEXT_SIZE];
	int err;

	for (unsigned int i = 0; i < s->paths.cnt; i++) {
		for (const struct addrinfo *ai = s->paths.all[i].addrs; ai;
		     ai = ai->ai_next) {
			if (p->lock_cnt == INI_PURPOSE_LOCKS ||
			    !purpose_address_text(ai, text))
				continue;
			err = purpose_lock(p, &s->initiator, text, end);
			if (err == -EADDRINUSE)
				return purpose_refuse_named(p, &s->initiator,
							    text, e);
		}
	}
	return 0;
}

/* ---- identifiers of their own ---- */

static int purpose_make_id(const char *purpose, const char *drawn,
			   unsigned int number, struct srp_port_id *ret)
{
	_cleanup_free_ char *text = NULL;
	char host[65] = "";

	/* Several hosts may have one home directory. */
	gethostname(host, sizeof(host) - 1);
	if (asprintf(&text, "%s:%s:%u:%s", drawn, host, number, purpose) < 0) {
		text = NULL;
		return -ENOMEM;
	}
	scsi_text_digest(text, (uint8_t *)ret);
	return 0;
}

/* Why the identifier is not the first one, of the purpose. */
static void purpose_set_fault(struct ini_purpose *p, pid_t owner,
			      unsigned int number, int err)
{
	char who[FILE_LOCK_NAME_MAX];

	if (err && err != -EADDRINUSE)
		snprintf(p->fault, sizeof(p->fault), "the state directory: %s",
			 err == -EBADMSG ? "its file " LASTING_ID_FILE
					   " holds something else"
					 : strerror(-err));
	else if (number)
		snprintf(p->fault, sizeof(p->fault),
			 "another session has the identifier%s: %s",
			 err ? " and all others" : "",
			 file_lock_name(owner, who));
}

/* False: the identifier has to be random. */
static bool purpose_claim_own(struct srpi_session *s)
{
	uint64_t end = ticks_clock_ms() + OWN_WAIT_MS;
	struct ini_purpose *p = &s->purpose;
	char drawn[LASTING_ID_SIZE];
	unsigned int n = 0;
	pid_t owner = 0;
	int err = lasting_id_get(p->dir, /* seed= */ NULL, drawn);

	while (!err) {
		err = purpose_make_id(s->options.purpose, drawn, n,
				      &s->initiator);
		if (!err)
			err = purpose_lock(p, &s->initiator, /* address= */ "",
					   n ? 0 : end);
		owner = n ? owner : p->owner;
		if (err != -EADDRINUSE || ++n == NUMBER_MAX)
			break;
		err = 0;
	}
	purpose_set_fault(p, owner, n, err);
	return !err;
}

/* Adds to the cause what may come of it, and what to do. An identifier that the URI
 * names has no fault: the next session has it, too. */
static void purpose_complete_fault(struct srpi_session *s)
{
	struct ini_purpose *p = &s->purpose;
	size_t len = strlen(p->fault);

	if (s->uri.has_initiator)
		p->fault[0] = '\0';
	else if (len)
		snprintf(p->fault + len, sizeof(p->fault) - len,
			 "; if this process is killed, the target may do its "
			 "last writes after those of the next one; "
			 "initiator= in the URI prevents that");
}

/* ---- life ---- */

static bool purpose_claim(struct srpi_session *s, struct error *e)
{
	struct ini_purpose *p = &s->purpose;
	bool claimed = false;

	p->dir = purpose_open_dir(p);
	if (p->dir < 0)
		return false;
	pthread_mutex_lock(&purpose_held.mutex);
	list_add_tail(&purpose_held.sessions, &p->node);
	pthread_mutex_unlock(&purpose_held.mutex);
	if (!s->uri.has_initiator)
		claimed = purpose_claim_own(s);
	else
		claimed = !purpose_claim_named(s, e);
	if (!claimed)
		ini_purpose_release(s);
	return claimed;
}

bool ini_purpose_claim(struct srpi_session *s, struct error *e)
{
	bool claimed;

	pthread_once(&purpose_held.once, purpose_init);
	s->purpose = (struct ini_purpose){ .dir = -1 };
	e->err = 0;
	claimed = purpose_claim(s, e);
	purpose_complete_fault(s);
	return claimed;
}

void ini_purpose_release(struct srpi_session *s)
{
	struct ini_purpose *p = &s->purpose;

	if (p->dir < 0)
		return;
	pthread_mutex_lock(&purpose_held.mutex);
	list_del(&p->node);
	for (unsigned int i = 0; i < p->lock_cnt; i++)
		unlinkat(p->dir, p->locks[i].name, 0);
	purpose_close(p);
	pthread_mutex_unlock(&purpose_held.mutex);
}
