/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * nbd: a volume that an NBD server keeps. Each worker has a connection of its own
 * when the server offers multi-conn; else all share one, because the NBD protocol
 * promises only with multi-conn that a flush on one connection covers what others
 * have written.
 *
 *   plugin.c   what rdma-target knows of the plugin: open, close, queues, submit
 *   conn.c     one connection: I/O on its way, and what the server answers
 *   link.c     a thread that connects, so that no worker waits for a name server
 *
 * A connection that is lost is made again. Its I/O waits meanwhile, and is asked
 * for again then. Writes that had ended and that no flush has covered may be lost
 * if the server has died: every later flush fails.
 */
#ifndef NBD_VOLUME_H
#define NBD_VOLUME_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <sys/queue.h>

#include <libnbd.h>
#include <rdma_block_plugin.h>

struct nbdconn;
struct nbdvol;

extern const struct rbp_host *nbd_host;

/* An I/O, in its scratch. */
struct nbdio {
	TAILQ_ENTRY(nbdio) node; /* of one of the lists of a connection */
	struct rbp_io *io;
	struct nbdconn *conn;
	uint64_t done;	/* bytes of the pieces that are done */
	uint64_t piece; /* bytes of the piece that the server has */
	uint64_t seen;	/* FLUSH: nbdvol.written when it was asked for */
	int err;	/* of the piece: a positive errno */
	/* When the server was lost while it had the I/O, the first time; 0: never.
	 * nbdlink_now_ms() */
	uint64_t lost_ms;
};

TAILQ_HEAD(nbdio_list, nbdio);

/* A volume on one worker. */
struct nbdqueue {
	TAILQ_ENTRY(nbdqueue) node; /* of nbdvol.queues */
	struct nbdvol *vol;
	struct rbp_queue *queue;
	struct nbdconn *conn;
	int wake_fd; /* eventfd: look at the connection */
	struct rbp_watch *wake;
	struct rbp_timer *retry; /* of what memory was short for */
};

/*
 * A connection. The worker of its home owns it, but for what stands under the lock
 * of the volume.
 */
struct nbdconn {
	struct nbdconn *next; /* of nbdvol.conns */
	struct nbdvol *vol;
	struct nbd_handle *h; /* NULL: not connected */
	struct rbp_watch *watch;
	struct rbp_timer *timer;
	struct rbp_timer *silence; /* how long has the server been silent? */
	bool silence_is_set;
	uint64_t heard_ms;	    /* nbdlink_now_ms() of its last answer */
	struct nbdio_list waiting;  /* for a connection */
	struct nbdio_list sent;	    /* the server has them */
	struct nbdio_list answered; /* by the server; they end next */
	bool in_service;	    /* conn.c is at work on it */
	bool counts_as_down;	    /* in nbdvol.down_cnt */
	bool was_linked;	    /* has ever been connected */
	bool ending;		    /* the server has said that it shuts down */
	bool gave_up;		    /* away for too long: I/O fails at once */
	/* under the lock of the volume */
	struct nbdqueue *home; /* NULL: none at present */
	struct nbdio_list inbox;
	struct nbd_handle *fresh; /* from link.c */
	bool wants_link;
	uint64_t linked_ms; /* link.c's: when it was made last; 0: never */
};

struct nbdvol {
	struct rbp_vol *vol;
	char *uri;
	uint64_t wait_ms;
	uint64_t timeout_ms; /* 0: a server may be silent for ever */
	bool trusts_server;
	bool read_only; /* asked for */
	/* What the server has said first; what it offers later may not be less. */
	bool multi_conn;
	uint32_t caps;
	uint32_t block_size;
	uint64_t max_piece; /* of a read or write, bytes */
	_Atomic uint64_t bytes;

	/* Writes that have ended, and how many of them a flush has covered. */
	_Atomic uint64_t written;
	_Atomic uint64_t flushed;
	atomic_bool lost_writes;
	atomic_bool told_lost;
	atomic_uint down_cnt; /* connections that are lost */

	pthread_mutex_t lock; /* never held during a call that blocks */
	TAILQ_HEAD(nbdqueue_list, nbdqueue) queues;
	struct nbdconn *conns;
	/* link.c */
	pthread_t thread;
	bool has_thread;
	pthread_cond_t work;
	bool stopping;
};

/* ---- conn.c ---- */

/* Begins @n on its connection. [worker], the one of the connection's home */
void nbdconn_submit(struct nbdconn *c, struct nbdio *n);

/* The connection belongs to @q from now on. -ENOMEM: it does not. */
int nbdconn_adopt(struct nbdconn *c, struct nbdqueue *q);

/* The end of nbdconn_adopt(); I/O may be on its way. */
void nbdconn_release(struct nbdconn *c);

/* Does what others have asked of the connection. [worker], the home's */
void nbdconn_woken(struct nbdconn *c);

/* Frees it; nothing is in flight. */
void nbdconn_free(struct nbdconn *c);

/* ---- link.c ---- */

/* Connects; waits. @msg gets a clause. Thread: any. */
struct nbd_handle *nbdlink_connect(struct nbdvol *vol, char *msg,
				   size_t msg_len);

/* What the server offers, as RBP_CAN_ bits. */
uint32_t nbdlink_caps(struct nbd_handle *h);

uint64_t nbdlink_now_ms(void);

/* Lock and thread of a volume. nbdlink_close() ends the thread. */
void nbdlink_open(struct nbdvol *vol);
void nbdlink_close(struct nbdvol *vol);

/* Has @c connected; it finds fresh set when it is woken. The thread is made when it
 * is needed first, so it has no more rights than those that rdma-target serves
 * with. 0, or -errno when no thread can be made. */
int nbdlink_ask(struct nbdconn *c);

/* Wakes the worker of @q. Thread: any. */
void nbdqueue_wake(const struct nbdqueue *q);

#endif
