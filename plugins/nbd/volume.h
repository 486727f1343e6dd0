/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nbd: a volume whose data is on an NBD server. If the server offers
 * multi-conn, each worker has a connection of its own. Otherwise all workers
 * share one: only with multi-conn does the NBD protocol promise that a flush on
 * one connection covers writes on the others.
 *
 *   plugin.c   functions for rdma-target: open, close, queues, submit
 *   conn.c     one connection: I/O in flight, and the answers of the server
 *   limit.c    how long it may take
 *   wire.c     requests and answers as bytes, without TLS
 *   link.c     a thread that connects, so that no worker waits for a name server
 *
 * A lost connection is made again. Meanwhile its I/O waits, and is then sent
 * again. A connection counts as lost, too, when the server has not answered its
 * oldest request for too long, whatever else it answers: a request that is stuck
 * in the server would be open for ever, and with it each task management function
 * and login that awaits it. A request's time begins when all older ones are
 * answered. So the length of the queue does not count against a slow server, but
 * a single flush or trim that takes longer does. Such a request does not go round
 * for ever: it fails when it is lost again nbdvol.wait_ms after its first loss.
 *
 * If the server has died, writes that had ended and were not covered by
 * a flush may be lost: then every later flush fails.
 */
#ifndef NBD_VOLUME_H
#define NBD_VOLUME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include <libnbd.h>
#include <rdma_block_plugin.h>

#include "limit.h"
#include "wire.h"

struct nbdconn;
struct nbdvol;

extern const struct rbp_host *nbd_host;

/* An I/O, in its scratch. */
struct nbdio {
	TAILQ_ENTRY(nbdio) node; /* in one of the lists of a connection */
	struct rbp_io *io;
	struct nbdconn *conn;
	uint64_t done;	/* bytes of the pieces that are done */
	uint64_t piece; /* bytes of the piece that the server has */
	uint64_t got;	/* READ, EXTENT: bytes of them that it has answered */
	uint64_t seams; /* READ: where the data came in; nbdconn_note_data() */
	uint64_t seen;	/* FLUSH: nbdvol.written when it was sent */
	/* nbdvol.life when its first piece was sent. */
	unsigned int life;
	int err; /* of the present piece: a positive errno */
	/* nbdlink_now_ms() when the server was first lost while it had the I/O;
	 * 0: never. */
	uint64_t lost_ms;
	/* for wire.c */
	uint64_t cookie;
	bool is_sent; /* completely, and not answered yet */
	uint8_t request[NBDWIRE_REQUEST_LEN];
};

TAILQ_HEAD(nbdio_list, nbdio);

/* A volume on one worker. */
struct nbdqueue {
	TAILQ_ENTRY(nbdqueue) node; /* in nbdvol.queues */
	struct nbdvol *vol;
	struct rbp_queue *queue;
	struct nbdconn *conn;
	int wake_fd; /* eventfd: look at the connection */
	struct rbp_watch *wake;
	struct rbp_timer *retry; /* for I/O that failed for lack of memory */
};

/*
 * A connection. The worker of its home owns it, except for members that are
 * guarded by the lock of the volume.
 */
struct nbdconn {
	struct nbdconn *next; /* next in nbdvol.conns */
	struct nbdvol *vol;
	struct nbd_handle *h; /* NULL: not connected */
	struct nbdwire wire;  /* while it is connected */
	struct rbp_watch *watch;
	struct nbdlimit away;	    /* of the server */
	struct nbdlimit oldest;	    /* of the oldest request */
	struct nbdio_list waiting;  /* waits for a connection */
	struct nbdio_list sent;	    /* the server has them; oldest first */
	struct nbdio_list answered; /* answered by the server; they end next */
	bool in_service;	    /* conn.c is working on it */
	bool counts_as_down;	    /* in nbdvol.down_cnt */
	bool ending;		    /* the server has said that it shuts down */
	bool gave_up;		    /* away for too long: I/O fails at once */
	/* guarded by the lock of the volume */
	struct nbdqueue *home; /* NULL: none at present */
	struct nbdio_list inbox;
	struct nbd_handle *fresh; /* set by link.c */
	bool wants_link;
	/* for link.c */
	struct nbd_handle *made; /* not given yet */
	uint64_t linked_ms;	 /* of the last connection; 0: never */
};

struct nbdvol {
	struct rbp_vol *vol;
	char *uri;
	uint64_t wait_ms;
	uint64_t timeout_ms; /* 0: the server may take any time to answer */
	bool trusts_server;
	/* The server has no flush, but FUA: every write uses it. */
	bool writes_through;
	uint64_t salt; /* random; the server cannot know it */
	/* What the server offered first. It must not offer less later. */
	bool multi_conn;
	uint32_t caps;
	uint32_t block_size;
	uint64_t max_piece; /* for a read or write, bytes */
	_Atomic uint64_t bytes;

	/* Number of writes that have ended, and how many of them a flush has
	 * covered. */
	_Atomic uint64_t written;
	_Atomic uint64_t flushed;
	atomic_bool lost_writes;
	atomic_bool told_lost;
	atomic_bool told_away; /* since the last connection was made */
	atomic_uint down_cnt;  /* connections that are lost */
	/* Lives of the server: it may have been started anew before each
	 * connection. */
	atomic_uint life;

	pthread_mutex_t lock; /* never held during a call that blocks */
	TAILQ_HEAD(nbdqueue_list, nbdqueue) queues;
	struct nbdconn *conns;
	/* link.c */
	pthread_t thread;
	bool has_thread;
	pthread_cond_t work;
	bool stopping;
	char why[256]; /* the last attempt to connect has failed */
};

/* ---- conn.c ---- */

/* Begins @n on its connection. [worker], that of the connection's home */
void nbdconn_submit(struct nbdconn *c, struct nbdio *n);

/* True if the server must make @n stable before it answers. */
bool nbdconn_is_fua(const struct nbdio *n);

/* Sends what nbdconn_submit() has begun. [worker], that of the home */
void nbdconn_kick(struct nbdconn *c);

/* The server has answered @n; n->err is set. */
void nbdconn_answered(struct nbdio *n);

/* The server has sent @len bytes of a read, @at bytes after the begin of the
 * piece. False: that is nothing, or more than there is to send. */
bool nbdconn_note_data(struct nbdio *n, uint64_t at, uint64_t len);

/* The server has described the first extents of @n: pairs of length and flags of
 * base:allocation. */
void nbdconn_note_extents(struct nbdio *n, const uint32_t *entries,
			  size_t entry_cnt);

/* Call when connections were made, before any of them is used. Writes that have
 * ended and that no flush has covered may be lost. Thread: any. */
void nbdvol_begin_life(struct nbdvol *vol);

/* Moves the connection to @q. -ENOMEM: it has not moved. */
int nbdconn_adopt(struct nbdconn *c, struct nbdqueue *q);

/* Undoes nbdconn_adopt(); I/O may be in flight. */
void nbdconn_release(struct nbdconn *c);

/* Does what other threads have requested. [worker], that of the home */
void nbdconn_woken(struct nbdconn *c);

/* Frees the connection; nothing may be in flight. */
void nbdconn_free(struct nbdconn *c);

/* ---- link.c ---- */

/* Connects, and waits for the result. @msg gets a clause. Thread: any. */
struct nbd_handle *nbdlink_connect(struct nbdvol *vol, char *msg,
				   size_t msg_len);

/* The same for a volume that is open, whose export must not have changed for the
 * worse. */
struct nbd_handle *nbdlink_connect_again(struct nbdvol *vol, char *msg,
					 size_t msg_len);

/* Return the limits of the server in bytes: for one I/O, and for the data of a
 * read or write. */
uint64_t nbdlink_min(struct nbd_handle *h);
uint64_t nbdlink_max(struct nbd_handle *h);

/* Returns the capabilities of the server, as RBP_CAN_ bits. */
uint32_t nbdlink_caps(struct nbd_handle *h);

uint64_t nbdlink_now_ms(void);

/* Lock and thread of a volume. nbdlink_close() ends the thread. */
void nbdlink_open(struct nbdvol *vol);
void nbdlink_close(struct nbdvol *vol);

/* Requests a connection for @c, which finds fresh set when it is woken. The
 * first call starts the thread, so that the thread has only the rights with
 * which rdma-target serves. Returns 0, or -errno if no thread can be
 * started. */
int nbdlink_ask(struct nbdconn *c);

/* Wakes the worker of @q. Thread: any. */
void nbdqueue_wake(const struct nbdqueue *q);

#endif
