/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/notify.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

/* What is written: the header, one of the structures, and a name with its zero. */
struct notify_message {
	struct list node;
	size_t len;
	struct fuse_out_header header;
	union {
		struct fuse_notify_inval_entry_out entry;
		struct fuse_notify_inval_inode_out inode;
		char bytes[sizeof(struct fuse_notify_inval_entry_out) + 256];
	};
};

/* ---- the thread ---- */

/* NULL: the end. */
static struct notify_message *notify_next(struct notify *n)
{
	struct list *it = NULL;

	pthread_mutex_lock(&n->lock);
	while (!n->stopping && list_empty(&n->messages))
		pthread_cond_wait(&n->changed, &n->lock);
	if (!n->stopping)
		it = list_pop(&n->messages);
	pthread_mutex_unlock(&n->lock);
	return it ? container_of(it, struct notify_message, node) : NULL;
}

/* ENOENT: the kernel does not know the name or the inode. ENODEV, ENOTCONN: the
 * mount has ended. */
static void notify_write(const struct notify *n, const struct notify_message *m)
{
	if (write(n->fd, &m->header, m->len) < 0 && errno != ENOENT &&
	    errno != ENODEV && errno != ENOTCONN)
		log_debug("the kernel refused a notification: %s",
			  strerror(errno));
}

static void *notify_run(void *arg)
{
	struct notify *n = arg;
	struct notify_message *m;

	while ((m = notify_next(n))) {
		notify_write(n, m);
		free(m);
	}
	reactor_send(n->reactor, &n->ended_msg);
	return NULL;
}

static void notify_note_end(struct reactor_msg *msg)
{
	container_of(msg, struct notify, ended_msg)->ended = true;
}

/* ---- messages ---- */

static void notify_add(struct notify *n, struct notify_message *m, int code,
		       size_t len)
{
	m->len = sizeof(m->header) + len;
	m->header = (struct fuse_out_header){ .len = (uint32_t)m->len,
					      .error = code };
	pthread_mutex_lock(&n->lock);
	list_add_tail(&n->messages, &m->node);
	pthread_cond_signal(&n->changed);
	pthread_mutex_unlock(&n->lock);
}

void notify_name(struct notify *n, const char *name)
{
	size_t len = strlen(name);
	struct notify_message *m;

	if (!n->started)
		return;
	m = calloc(1, sizeof(*m));
	if (!m) {
		log_warn("the kernel may still show %s: out of memory", name);
		return;
	}
	m->entry = (struct fuse_notify_inval_entry_out){
		.parent = FUSE_ROOT_ID, .namelen = (uint32_t)len
	};
	memcpy(m->bytes + sizeof(m->entry), name, len + 1);
	notify_add(n, m, FUSE_NOTIFY_INVAL_ENTRY, sizeof(m->entry) + len + 1);
}

void notify_attributes(struct notify *n, uint64_t ino)
{
	struct notify_message *m = n->started ? calloc(1, sizeof(*m)) : NULL;

	/* Without memory, the attributes expire soon. */
	if (!m)
		return;
	/* A negative offset: data is not cached. */
	m->inode =
		(struct fuse_notify_inval_inode_out){ .ino = ino, .off = -1 };
	notify_add(n, m, FUSE_NOTIFY_INVAL_INODE, sizeof(m->inode));
}

/* ---- begin and end ---- */

int notify_start(struct notify *n, struct reactor *r, int fd, struct error *e)
{
	int err;

	*n = (struct notify){ .reactor = r,
			      .fd = fd,
			      .ended_msg.run = notify_note_end };
	list_init(&n->messages);
	pthread_mutex_init(&n->lock, NULL);
	pthread_cond_init(&n->changed, NULL);
	err = pthread_create(&n->thread, NULL, notify_run, n);
	if (err)
		return error_set(e, -err, "cannot start a thread: %s",
				 strerror(err));
	n->started = true;
	return 0;
}

void notify_stop(struct notify *n)
{
	if (!n->started)
		return;
	pthread_mutex_lock(&n->lock);
	n->stopping = true;
	pthread_cond_signal(&n->changed);
	pthread_mutex_unlock(&n->lock);
}

bool notify_has_ended(const struct notify *n)
{
	return !n->started || n->ended;
}

void notify_end(struct notify *n)
{
	struct list *it;

	if (!n->started)
		return;
	pthread_join(n->thread, NULL);
	n->started = false;
	while ((it = list_pop(&n->messages))) {
		struct notify_message *m =
			container_of(it, struct notify_message, node);

		free(m);
	}
	pthread_cond_destroy(&n->changed);
	pthread_mutex_destroy(&n->lock);
}
