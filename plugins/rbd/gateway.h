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
 * The active one holds the image's exclusive lock. It takes the lock
 * explicitly, so that librbd does not hand it over when another client asks. To
 * take over, a gateway breaks the lock of the owner, which puts the owner's
 * RADOS client on the blocklist of the OSDs. Only then does it take the lock:
 * all that the owner still sends after that fails (ESHUTDOWN). A client on the
 * blocklist is useless; the fenced gateway opens the image with a new one. A
 * request that meets a fenced gateway waits for that, and then gets the answer
 * of a standby.
 *
 * A gateway that the cluster does not answer cannot know whether another one has
 * taken over. If there are others, it reports that it is not active, and I/O
 * ends as for a standby, until the cluster names it as the owner again.
 *
 * Once a second, the active gateway sends its number to the watchers of an
 * object of its own, "rdma_block.gateways.IMAGE-ID". The others learn from this
 * which one is active, and, with failover=auto, that none is. A gateway that
 * begins to watch the object asks for a beat.
 *
 * Notes (notes.h). A gateway that has put new notes notifies the others. It
 * ends put_notes() when the owner of the lock has answered that it uses them.
 * If the owner does not answer, the gateway breaks the lock: the owner may be
 * frozen, and would write by the old notes when it continues. A gateway that
 * takes the lock reads the notes before it is active. Notifications may be
 * lost, for example if a gateway is killed after it has put notes. Therefore
 * each gateway also looks for a newer version once a second.
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
	RBDP_STANDBY, /* the image is opened, or the lock was released; I/O ends
		       * with ESHUTDOWN */
	RBDP_ACTIVE,  /* holds the lock */
	RBDP_FENCED,  /* another one has broken the lock; I/O is still ending */
};

struct rbdp_gateway;

/* Notifications of notes that the host has begun to use. */
#define RBDP_ACKS_MAX 8

/* An owner of the image's lock, in librbd's format. */
#define RBDP_OWNER_LEN 128

struct rbdp_ack {
	uint64_t version;
	uint64_t notify_id;
	uint64_t handle;
};

/* A request of rdma-target to a gateway, in the scratch of an I/O. */
struct rbdp_ask {
	struct rbp_io *next;
	int (*run)(struct rbdp_gateway *gw, struct rbp_io *io);
	int res; /* for rbdp_gateway_judge() */
};

struct rbdp_gateway {
	/* set before rbdp_gateway_start(), then constant */
	const struct rbp_host *host;
	struct rbp_vol *vol;
	struct rbdp_image *img;
	/* Closes the image and opens it with a new client. If the image is in
	 * doubt, shuts the old client out. It blocks. */
	int (*reopen)(void *user, const struct rbdp_msg *msg);
	void *user;
	unsigned int own; /* 1 ... cnt */
	unsigned int cnt;
	bool takes_over;   /* if no other one is active */
	uint64_t after_ms; /* the silence that this takes */

	_Atomic enum rbdp_state state; /* only its thread changes it */
	/* Grows with each change of the state; starts at 1. */
	_Atomic uint64_t epoch;
	atomic_bool host_has_epochs;
	_Atomic unsigned int active; /* number; 0: none, or not known */
	/* The cluster did not answer when it was last asked for the owner of the
	 * lock. Only its thread changes it. */
	atomic_bool is_unsure;
	atomic_bool has_misfit; /* one with a wrong number was heard */
	_Atomic unsigned int inflight;
	_Atomic uint64_t heard_ms; /* time of the active one's last beat */

	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t work;
	/* guarded by the lock */
	struct rbp_io *first; /* requests for the thread, oldest first */
	struct rbp_io **end;
	bool is_poked;
	bool stopping;
	struct rbdp_ack acks[RBDP_ACKS_MAX];
	unsigned int ack_cnt;
	uint64_t taken; /* version of the last notes_taken() */
	/* A put_notes() whose notes the host has begun to use; or NULL. */
	struct rbp_io *put;
	/* The name that librbd has for this gateway while it holds the lock;
	 * else empty. */
	char owner[RBDP_OWNER_LEN];

	/* only for its thread; before the thread runs, for setup */
	char object[96];
	char header[96];  /* object of the image */
	uint64_t known;	  /* version of the notes that the host has */
	uint64_t refused; /* and of those that it could not read */
	struct rbdp_notes notes;
	uint8_t news[RBDP_NEWS_MAX];
	bool has_watch;
	uint64_t watch;
	_Atomic bool watch_is_broken;
	bool reopen_failed;
	/* Takeovers because of silence, and the time of the last one. */
	unsigned int took_over_cnt;
	uint64_t took_over_ms;
};

/* Begins as standby or, with @active, as the active one. Blocks. Returns 0, or
 * a negative errno and a clause. Thread: setup. */
int rbdp_gateway_start(struct rbdp_gateway *gw, bool active,
		       const struct rbdp_msg *msg);
/* Releases the lock, unless the image is in doubt: then the caller shuts its
 * client out. Nothing may be in flight. Thread: setup. */
void rbdp_gateway_stop(struct rbdp_gateway *gw);

/* An I/O begins. False: it must not begin, and its result is -ESHUTDOWN. Until
 * rbdp_gateway_leave(), the image stays open. Thread: any, as for all functions
 * below. */
bool rbdp_gateway_enter(struct rbdp_gateway *gw, const struct rbp_io *io);
/* The I/O has ended. Returns the result to report. */
int rbdp_gateway_leave(struct rbdp_gateway *gw, int res);
/* Called after rbdp_gateway_leave() with another error than -ESHUTDOWN. Ends
 * @io with that error, or with -ESHUTDOWN if this target no longer has the
 * lock. librbd's error for a fenced client depends on what it was doing. The
 * error may look like one of the medium, and then no initiator would try the
 * other target. */
void rbdp_gateway_judge(struct rbdp_gateway *gw, struct rbp_io *io, int res);

/* For rbp_plugin.paths, set_path, get_notes, put_notes and notes_taken.
 * Functions with @io use its scratch. */
void rbdp_gateway_paths(struct rbdp_gateway *gw, struct rbp_paths *ret);
void rbdp_gateway_set(struct rbdp_gateway *gw, struct rbp_io *io);
void rbdp_gateway_get_notes(struct rbdp_gateway *gw, struct rbp_io *io);
void rbdp_gateway_put_notes(struct rbdp_gateway *gw, struct rbp_io *io);
void rbdp_gateway_taken(struct rbdp_gateway *gw, uint64_t version);

#endif
