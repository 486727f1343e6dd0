/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The end of rdma-target: a signal, or none while a change of volumes runs; the
 * first flush, while initiators are logged in; the port; the last flush; the
 * workers (enum server_stop_state). No step waits for a store that has not answered
 * for --stop-timeout: its volume is abandoned. The target then ends without closing
 * what that store may still use, with status 1. Thread: worker 0.
 */
#ifndef TARGET_SERVER_STOP_H
#define TARGET_SERVER_STOP_H

#include "target/server_state.h"

/* The signal @sig asks the target to stop. The second one ends it at once. */
void server_stop_signal(struct server *s, int sig);

/* The begin and the end of a change of volumes. The target does not end between
 * them. Several changes may run at once. -ESHUTDOWN: the target is ending. */
int server_begin_change(struct server *s);
void server_end_change(struct server *s);

/* Each second while the target ends: goes on without the stores that do not answer. */
void server_stop_look(struct server *s);

/* The store of a volume that was removed is closed. */
void server_volume_left(struct server *s);

/* True if @vol may have writes that only a flush makes stable. */
bool server_needs_flush(const struct volume *vol);

/* For port.stopped: flushes the volumes, then stops the workers. */
void server_port_stopped(struct port *port);

/* Stops all workers, after all messages that were sent to them before. */
void server_stop_workers(struct server *s);

#endif
