/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The C half of the Python package. The callbacks of libsrpi only put what has
 * happened into lists, and Python takes it from there after bridge_run(). So no
 * Python code runs within a callback: an exception or a signal there could lose
 * the end of an operation.
 *
 * build_srpi.py reads this header, too.
 *
 * Thread: the one that the context belongs to.
 */
#ifndef PYTHON_BRIDGE_H
#define PYTHON_BRIDGE_H

#include <stdbool.h>

#include <srp_initiator.h>

/* One operation. Python owns it, and keeps it until bridge_io_drop(). */
struct bridge_io {
	struct srpi_io io;
	bool submitted;
	int res; /* 0 or a negative errno */
	struct bridge_io *next;
};

enum bridge_event_kind {
	BRIDGE_STATE,	/* state_changed() */
	BRIDGE_RESIZED, /* volume_resized() */
	BRIDGE_VOLUME,	/* volume_event() */
};

/* A call of a callback of struct srpi_options. */
struct bridge_event {
	enum bridge_event_kind kind;
	int code; /* enum srpi_state, or enum srpi_volume_event */
	unsigned int volume;
	struct srpi_error why;
	struct bridge_event *next;
};

/* One session. Begins as zeroes. */
struct bridge {
	bool connected; /* connecting has ended; see connect_error */
	bool closing;	/* bridge_close() was called */
	bool closed;
	struct srpi_error connect_error;
	struct bridge_io *first_io; /* ended, in this order */
	struct bridge_io *last_io;
	struct bridge_event *first_event;
	struct bridge_event *last_event;
};

/* Like srpi_connect(). Sets the callbacks in @options. */
int bridge_connect(struct bridge *b, struct srpi_ctx *ctx, const char *uri,
		   struct srpi_options *options,
		   struct srpi_session **ret_session, struct srpi_error *e);

/* Like srpi_close(); sets b->closed at the end. Again is fine. */
void bridge_close(struct bridge *b, struct srpi_session *s);

/* Like srpi_submit(). */
void bridge_submit(struct bridge *b, struct srpi_session *s,
		   struct bridge_io *io);

/*
 * Runs the context: waits for at most @timeout_ms, then handles all events. Does not
 * wait if Python has not taken all that has happened before. Returns 0 if nothing is left to do, so that the program may poll
 * srpi_ctx_fd(); 1 if there may be more; or a negative errno.
 */
int bridge_run(struct bridge *b, struct srpi_ctx *ctx, int timeout_ms);

/* Frees *@mem, if it is not NULL, and sets it to NULL. */
void bridge_mem_free(struct srpi_mem **mem);

/* Returns the operation that has ended first, or NULL. It stays the first one until
 * bridge_io_drop(): a signal may interrupt what Python does with it. */
struct bridge_io *bridge_io_first(const struct bridge *b);
void bridge_io_drop(struct bridge *b);

/* Copies the oldest event and removes it from the list. False: there is none. */
bool bridge_event_next(struct bridge *b, struct bridge_event *ret_event);

#endif
