/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells the kernel that it must forget what it knows: a name, or the attributes
 * of an inode. The kernel then asks again at the next ls(1) or stat(2).
 *
 * The kernel handles such a message inside write(2), and waits there for the lock
 * of the directory. Another process can hold this lock and wait for an answer of
 * rdma-fuse. For this reason, a thread of its own writes the messages.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_NOTIFY_H
#define FUSE_NOTIFY_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/list.h"
#include "base/reactor.h"

struct notify {
	struct reactor *reactor;
	int fd; /* /dev/fuse */
	bool started;
	pthread_t thread;
	pthread_mutex_t lock; /* of the next three */
	pthread_cond_t changed;
	struct list messages; /* to write */
	bool stopping;
	struct reactor_msg ended_msg;
	bool ended; /* the thread writes nothing any more */
};

/* Starts the thread. @fd stays the caller's, and must stay open until
 * notify_end(). Return: 0 or -errno with @e. */
int notify_start(struct notify *n, struct reactor *r, int fd, struct error *e);

/* Forget entry @name of the root directory, and the attributes of the directory.
 * If memory is short, the kernel is not told, and keeps them until they expire. */
void notify_name(struct notify *n, const char *name);
/* Forget the attributes of inode @ino. */
void notify_attributes(struct notify *n, uint64_t ino);

/* Asks the thread to end after the message that it writes. Run the reactor, and
 * answer requests, until notify_has_ended(). */
void notify_stop(struct notify *n);
bool notify_has_ended(const struct notify *n);
/* Frees the messages that were not written. Call this when the thread has ended;
 * if it was not started, the function does nothing. */
void notify_end(struct notify *n);

#endif
