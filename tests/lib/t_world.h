/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Two instances of a provider of the transport contract, in one process: a
 * client that connects to a server, on one reactor or two, driven by one
 * thread. The environment variable T_PROVIDER selects the provider: "fake" (the
 * default), "tcp", "tls", or "verbs" with the address of an RDMA device in T_ADDR.
 *
 * Each function fails the test on an error, so none returns an error.
 */
#ifndef TESTS_LIB_T_WORLD_H
#define TESTS_LIB_T_WORLD_H

#include <netinet/in.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tests/lib/t_fabric.h"
#include "base/reactor.h"
#include "transport/xport.h"

#define T_ENDS 64
#define T_HELD 256

enum t_provider {
	T_FAKE,
	T_TCP,
	T_TLS, /* TCP, each connection with a key */
	T_VERBS,
};

/* What the user of a channel has seen. */
struct t_end {
	struct t_world *w;
	struct xp_chan *ch; /* NULL: none, or freed */
	unsigned int established;
	unsigned int closing;
	unsigned int closed;
	struct error why;
	/* Private data of established(), or of the peer's reject. */
	uint8_t pdata[XP_PDATA_MAX];
	size_t pdata_len;
	unsigned int received;
	bool asked; /* xp_chan_ask() */
	unsigned int heard;
	unsigned int late; /* callbacks in the wrong order */
	/* Called for each IU, which the callee then owns. NULL: it is
	 * released. */
	void (*on_received)(struct t_end *end, struct xp_iu *iu);
	/* Called at the end of each of these callbacks; may be NULL. */
	void (*on_established)(struct t_end *end);
	void (*on_closing)(struct t_end *end);
	void (*on_closed)(struct t_end *end);
	/* IUs kept with t_hold(). */
	struct xp_iu *held[T_HELD];
	unsigned int held_cnt;
	unsigned int open_chains; /* chains that are posted and not done */
	unsigned int done_chains;
	void *user;
};

/* The key of T_TLS. */
extern const struct xp_key t_key;

struct t_world_options {
	const struct xp_keyring *keys; /* of the listener; NULL: that of T_TLS */
	bool split;		       /* the server has a reactor of its own */
	size_t recv_len;
	size_t recv_aligned_at;
	unsigned int send_depth;
	unsigned int recv_cnt; /* for both ends of every channel; 0 = 16 */
	bool no_listener;
};

struct t_world {
	enum t_provider provider;
	struct t_fabric *hub;
	struct t_world_options opt;
	struct reactor *client_reactor;
	struct reactor *server_reactor;
	bool only_server; /* does not run the client's reactor */
	struct xp *client;
	struct xp *server;
	struct xp *acceptor; /* accepts requests; normally the server */
	struct xp_listener *listener;
	/* TLS: why the last handshake failed at the server. */
	char refused[ERROR_TEXT_SIZE];
	unsigned int refused_cnt;
	struct xp_keyring keys;
	struct sockaddr_in addr;
	/* Called for each request. NULL: it is accepted. */
	void (*on_request)(struct t_world *w, struct xp_conn_request *req);
	struct xp_conn_request *requests[T_ENDS]; /* kept with t_keep() */
	unsigned int request_cnt;
	uint8_t req_pdata[XP_PDATA_MAX]; /* private data of the last request */
	size_t req_pdata_len;
	const void *answer; /* private data of the accept */
	size_t answer_len;
	struct t_end client_ends[T_ENDS];
	struct t_end server_ends[T_ENDS];
	unsigned int client_cnt;
	unsigned int server_cnt;
};

enum t_provider t_provider(void);

/* Over sockets, encrypted or not? */
static inline bool t_is_tcp(void)
{
	return t_provider() == T_TCP || t_provider() == T_TLS;
}

struct t_world *t_world_open(const struct t_world_options *opt);
/* Closes all open channels, and checks that everything was returned. */
void t_world_close(struct t_world *w);

/* Runs each reactor once, and waits if there is no work. A missing wake-up
 * fails the test. */
void t_turn(struct t_world *w);
/* Runs the reactors until they have no work. */
void t_settle(struct t_world *w);
/* Fails the test if it is called for longer than any operation takes. */
void t_tick(uint64_t *deadline_us, const char *what);

#define T_WAIT(w, cond)                               \
	do {                                          \
		uint64_t deadline_us_ = 0;            \
		while (!(cond)) {                     \
			t_tick(&deadline_us_, #cond); \
			t_turn(w);                    \
		}                                     \
	} while (0)

/* Returns an address of the provider where nothing listens. */
struct sockaddr_in t_free_addr(void);

/* Begins to connect. @params changes the default parameters. */
struct t_end *t_connect_to(struct t_world *w, const struct sockaddr_in *addr,
			   const struct xp_chan_params *params);
struct t_end *t_connect(struct t_world *w);
/* Connects, and returns both ends when they are established. */
void t_pair(struct t_world *w, struct t_end **ret_client,
	    struct t_end **ret_server);
/* Accepts; returns the new end. */
struct t_end *t_accept(struct t_world *w, struct xp_conn_request *req);
/* For on_request: keeps the request. */
void t_keep(struct t_world *w, struct xp_conn_request *req);
/* For on_received: keeps the IU. */
void t_hold(struct t_end *end, struct xp_iu *iu);
/* xp_chan_lives(); if not, asks, and the end expects heard(). */
bool t_lives(struct t_end *end);
/* Closes the channel, waits until it is closed, and frees it. */
void t_end_close(struct t_end *end);
void t_end_free(struct t_end *end);

/* Registered memory, zeroed. */
struct t_mem {
	uint8_t *p;
	size_t len;
	struct xp_mr *mr;
};

void t_mem_get(struct xp *xp, size_t len, enum xp_access access,
	       struct t_mem *ret_mem);
void t_mem_put(struct t_mem *m);
/* Fills with bytes that depend on @seed and on their position. */
void t_fill(void *p, size_t len, unsigned int seed);
bool t_is_filled(const void *p, size_t len, unsigned int seed);

/* A chain that counts its callbacks. */
struct t_chain {
	struct xp_chain c;
	struct t_end *end;
	unsigned int done;
	int status;
	unsigned int order; /* number among those done at this end, from 1 */
	void (*on_done)(struct t_chain *chain);
};

/* Posts @chain. The caller has filled in the data and the SEND of c. */
void t_post(struct t_end *end, struct t_chain *chain);
/* Posts a SEND of registered memory. */
void t_post_send(struct t_end *end, struct t_chain *chain,
		 const struct t_mem *m, size_t off, uint32_t len);

unsigned int t_open_fds(void);

/* Connects a plain socket, which knows nothing of the provider. */
int t_raw_connect(const struct sockaddr_in *addr);
void t_raw_send(int fd, const void *p, size_t len);
/* Checks that the listener still works. */
void t_check_listener(struct t_world *w);

#endif
