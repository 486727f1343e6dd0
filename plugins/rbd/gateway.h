/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Several targets (gateways) that serve one image, one at a time.
 *
 *              take over                    another one has taken over
 *   STANDBY -----------------> ACTIVE --------------------------------> FENCED
 *      ^                          |                                        |
 *      |      let go, no I/O      |                                        |
 *      +--------------------------+        no I/O, image opened again      |
 *      +-------------------------------------------------------------------+
 *
 * The active one holds the image's exclusive lock, taken explicitly: then
 * librbd does not hand it over when another client asks. To take over, a gateway
 * breaks the lock of the owner, which puts the owner's RADOS client on the
 * blocklist of the OSDs, and only then takes the lock: whatever the owner still
 * sends after that fails (ESHUTDOWN). A client on the blocklist is of no use any
 * more; the fenced gateway opens the image with a new one.
 *
 * Once a second the active gateway notifies the watchers of an object of its
 * own, "rdma_block.gateways.IMAGE-ID", of its number. So the others know which
 * one is active, and, with failover=auto, that none is.
 *
 * Notes (notes.h). A gateway that has put new ones notifies the others of them. It
 * ends put_notes() when the one that has the lock has answered that it goes by
 * them. If that one does not answer, its lock is broken: it may be frozen, and
 * would write by the old notes when it wakes up. A gateway that takes the lock
 * reads the notes before it is active. Notifications may be lost (a gateway that
 * has put notes may be killed before it has told of them), so each gateway looks
 * for a newer version once a second, too.
 *
 * Thread: as said at each function.
 */
#ifndef PLUGINS_RBD_GATEWAY_H
#define PLUGINS_RBD_GATEWAY_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include <rdma_block_plugin.h>

#include "image.h"
#include "notes.h"

enum rbdp_state {
	RBDP_STANDBY, /* opened, or let go; I/O ends with ESHUTDOWN */
	RBDP_ACTIVE,  /* holds the lock */
	RBDP_FENCED, /* another one has broken the lock; I/O still comes back */
};

struct rbdp_gateway;

/* Notifications of notes that the host has begun to go by. */
#define RBDP_ACKS_MAX 8

/* An owner of the image's lock, as librbd names it. */
#define RBDP_OWNER_LEN 128

struct rbdp_ack {
	uint64_t version;
	uint64_t notify_id;
	uint64_t handle;
};

/* What rdma-target asks a gateway for; in the scratch of an I/O. */
struct rbdp_ask {
	struct rbp_io *next;
	int (*run)(struct rbdp_gateway *gw, struct rbp_io *io);
	int res; /* of rbdp_gateway_judge() */
};

struct rbdp_gateway {
	/* set before rbdp_gateway_start(), and constant */
	const struct rbp_host *host;
	struct rbp_vol *vol;
	struct rbdp_image *img;
	/* Closes the image and opens it with a new client. It blocks. */
	int (*reopen)(void *user, const struct rbdp_msg *msg);
	void *user;
	unsigned int own; /* 1 ... cnt */
	unsigned int cnt;
	bool takes_over; /* when no other is active */
	uint64_t after_ms;

	_Atomic enum rbdp_state state; /* changed by its thread alone */
	/* Grows with each change of the state; from 1 on. */
	_Atomic uint64_t epoch;
	atomic_bool host_has_epochs;
	_Atomic unsigned int active; /* number; 0: none, or not known */
	_Atomic unsigned int inflight;
	_Atomic uint64_t heard_ms; /* when the active one was heard of */

	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	/* under the lock */
	struct rbp_io *first; /* that the thread is asked for, oldest first */
	struct rbp_io **end;
	bool is_poked;
	bool stopping;
	struct rbdp_ack acks[RBDP_ACKS_MAX];
	unsigned int ack_cnt;
	uint64_t taken; /* version, of notes_taken() */
	/* Has put notes that the host has begun to go by; or NULL. */
	struct rbp_io *put;
	/* As whom librbd knows this gateway while it has the lock; else empty. */
	char owner[RBDP_OWNER_LEN];

	/* its thread's, and before it runs, setup's */
	char object[96];
	char header[96]; /* of the image */
	uint64_t known;	 /* version of the notes that the host was told */
	struct rbdp_notes notes;
	uint8_t news[RBDP_NEWS_MAX];
	bool has_watch;
	uint64_t watch;
	_Atomic bool watch_is_broken;
	bool reopen_failed;
	uint64_t unsure_ms; /* when the OSD last did not say who has the lock */
};

/* Begins as standby, or, @active, as the active one. It blocks. 0, or a negative
 * errno and a clause. Thread: setup. */
int rbdp_gateway_start(struct rbdp_gateway *gw, bool active,
		       const struct rbdp_msg *msg);
/* Nothing is in flight. Lets go. Thread: setup. */
void rbdp_gateway_stop(struct rbdp_gateway *gw);

/* An I/O begins; false: it must not, and -ESHUTDOWN is its result. Until
 * rbdp_gateway_leave(), the image stays open. Thread: any, as all below. */
bool rbdp_gateway_enter(struct rbdp_gateway *gw, const struct rbp_io *io);
/* It has ended. Return: the result to tell. */
int rbdp_gateway_leave(struct rbdp_gateway *gw, int res);
/* After rbdp_gateway_leave() with another error than -ESHUTDOWN: ends @io with that, or
 * with -ESHUTDOWN if this target no longer has the lock. What librbd says to a client
 * that was fenced off depends on what it was doing: the error may look like one of the
 * medium, and nobody would try the other target. */
void rbdp_gateway_judge(struct rbdp_gateway *gw, struct rbp_io *io, int res);

/* rbp_plugin.paths, set_path, get_notes, put_notes and notes_taken. Those with
 * @io use its scratch. */
void rbdp_gateway_paths(struct rbdp_gateway *gw, struct rbp_paths *ret);
void rbdp_gateway_set(struct rbdp_gateway *gw, struct rbp_io *io);
void rbdp_gateway_get_notes(struct rbdp_gateway *gw, struct rbp_io *io);
void rbdp_gateway_put_notes(struct rbdp_gateway *gw, struct rbp_io *io);
void rbdp_gateway_taken(struct rbdp_gateway *gw, uint64_t version);

#endif
