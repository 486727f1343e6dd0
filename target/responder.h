/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Answers clients that look for targets (protocol/discovery.h), on the
 * interfaces where the target listens, over every carrier of
 * transport/datagram.h. It announces the start and the end of the target.
 *
 * It runs in a process of its own (responder_process.h). The target sends it
 * struct responder_news over a socket of the type SOCK_SEQPACKET. The first one
 * opens the endpoints, and is answered by one byte when they are open. The second
 * one says that the target serves, and later ones that something has changed: each
 * of these is announced. The end of the connection is the end of the target.
 *
 * Each endpoint has a budget of datagrams and answers (responder_budget.h), so
 * that a flood at one endpoint silences no other. The kernel drops datagrams
 * beyond the budget. With keys, the target answers only clients that have one, and
 * proves the answer by the same one. What nobody has asked for, it proves by the first.
 *
 * An interface or a device that is added later is used after RESPONDER_LOOK_MS.
 */
#ifndef TARGET_RESPONDER_H
#define TARGET_RESPONDER_H

#include "base/key_file.h"
#include "base/log.h"
#include "target/listen.h"

#define RESPONDER_LOOK_MS 5000

/* The responder's activity. Only the responder writes it. */
struct discovery_counts {
	uint64_t answers;
	uint64_t drops;
};

/* What the responder knows of the target. */
struct responder_news {
	struct srp_port_id id;
	enum log_level log_level;
	unsigned int cnt;
	struct listen_point point[PORT_LISTENERS_MAX];
};

struct responder_options {
	const char *interfaces; /* NAME,NAME; NULL: all. Borrowed */
	/* For KEY_OF_DISCOVERY; NULL: none. Borrowed */
	const struct key_file *keys;
	struct discovery_counts *counts;
	/* Called when the endpoints are open; NULL: nothing. Returns 0, or -errno
	 * with one clause in @e. */
	int (*restrict_self)(struct error *e);
};

/* Sends @news, on the side of the target. Return: 0; -EAGAIN: the responder takes none;
 * another -errno: it has ended. Thread: any. */
int responder_tell(int socket, const struct responder_news *news);

/*
 * Returns when the target has ended, or -errno with one clause in @e. An endpoint
 * that cannot be opened is logged and is no error.
 *
 * Thread: the only one of the process, or one of a test.
 */
int responder_run(int socket, const struct responder_options *opt,
		  struct error *e);

#endif
