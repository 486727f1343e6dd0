/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target in memory behind the srpi_* calls that rdma-fuse makes for I/O,
 * linked in place of libsrpi. It has one volume and keeps the contract: each
 * answer comes later, once, never from within srpi_submit(), and writes that overlap
 * come one after the other. It logs the
 * operations, and can hold answers and fail operations.
 */
#ifndef TESTS_LIB_T_SRPI_H
#define TESTS_LIB_T_SRPI_H

#include "base/reactor.h"
#include "initiator/range.h"
#include "initiator/srp_initiator.h"

#define T_SRPI_OPS 512

struct srpi_session {
	struct reactor *reactor;
	struct srpi_volume_info info;
	unsigned int volumes; /* 1. More of them are the same volume */
	const char *wanted;   /* the volume that the URI names; NULL: none */
	const char *purpose_fault; /* NULL: "" */
	enum srpi_state state;
	struct srpi_session_stats stats; /* but for commands: cnt */
	uint8_t *disk;			 /* info.size bytes */
	uint8_t *mapped;		 /* one for each block */
	struct ini_ranges ranges;

	/* the operations: "R512@0 W1024@512 F Z4096@0 D.. E.." */
	char log[2048];
	unsigned int cnt; /* number of operations */

	/* The operation with this number (from 1) fails with this error; 0:
	 * none. */
	unsigned int fail_nth;
	int fail_err;

	/* After each answer, it overwrites all memory that it was given. */
	bool hostile;
	bool hold; /* no answers until t_srpi_let_go() */
	struct srpi_io *waiting[T_SRPI_OPS];
	unsigned int waiting_cnt;
	struct reactor_msg msg;
	bool msg_sent;
	unsigned int regions;	/* registered */
	unsigned int forgotten; /* calls of srpi_volume_forget() */
};

/* @size, @block_size: bytes */
struct srpi_session *t_srpi_new(struct reactor *r, uint64_t size,
				uint32_t block_size);
void t_srpi_free(struct srpi_session *s);
/* Gives all held answers, and stops holding. */
void t_srpi_let_go(struct srpi_session *s);
/* Clears the log. No operation fails. */
void t_srpi_reset(struct srpi_session *s);
/* The operation with the number @nth from the last reset on fails with @err. */
void t_srpi_fail(struct srpi_session *s, unsigned int nth, int err);

/* ---- t_srpi_ctx.c: contexts, and sessions that begin and end ---- */

/* What srpi_connect_wait() does, and what it was asked for. */
struct t_srpi_login {
	struct srpi_session *session; /* NULL: the login fails */
	struct srpi_options options;
	char uri[256];
	unsigned int open_cnt; /* sessions that were not closed */
};

extern struct t_srpi_login t_srpi_login;

/* Calls @f on the thread that runs the context, and waits for its end. Not from
 * that thread. */
void t_srpi_run(struct srpi_session *s, void (*f)(struct srpi_session *s));

#endif
