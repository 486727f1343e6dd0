/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target in this process: workers, volumes and port of rdma-target, on the
 * in-memory fabric. All of it is the real code, except for the fabric and the
 * stores that the caller chooses. The caller acts as the initiators and runs
 * the reactors. The parts of tests/lib/ fit together like this:
 *
 *   t_fabric   a provider of the transport contract, in memory
 *   t_world    two instances of any provider: tests of the contract
 *   t_store    the store: the test makes it hold, fail, lie and log
 *   t_disk     the SCSI disk on t_store; the test acts as the port
 *   t_port     the port on t_fabric: simulation and fuzzer
 *   t_ini      a channel of a fake initiator
 *   t_rig      t_port on t_store, and initiators that the test drives
 *   t_server   all of rdma-target on t_fabric, with an administrator
 *   t_json     JSON in tables of tests
 *   t_tgt      a fake target
 *   t_session  a session of libsrpi with a fake target
 *   t_srpi     a target in memory behind the calls of libsrpi
 *   t_addr     addresses for targets
 *   history    checks histories for linearizability
 *
 * A failure in here ends the program (t_must.h).
 */
#ifndef TESTS_LIB_T_PORT_H
#define TESTS_LIB_T_PORT_H

#include <netinet/in.h>

#include "target/port/port.h"
#include "target/port/worker.h"
#include "tests/lib/t_fabric.h"

#define T_PORT_WORKERS 2

/* All zeroes: empty. */
struct t_port {
	struct worker workers[T_PORT_WORKERS];
	unsigned int worker_cnt;
	struct lun_map luns;
	struct port port;
	bool stopped; /* after port_stop() */
};

/* Adds a worker, with a transport on @hub. @arena_len: bytes. */
void t_port_add_worker(struct t_port *t, struct t_fabric *hub,
		       size_t arena_len);

/* Opens a volume under the next LUN. If the spec has no name, it is "vol0",
 * ... */
struct volume *t_port_open_volume(struct t_port *t, struct volume_spec *spec);
/* Adds the volume to every worker. */
void t_port_attach_volume(struct t_port *t, struct volume *vol);

/* Returns "10.0.0.1:5555"; or the identifier of the target port there. */
struct sockaddr_in t_port_addr(void);
struct srp_port_id t_port_name(void);
/* The only rule of the target; "all", if t_port_start() finds none. Once the port has
 * started, call port_rules_changed(). */
void t_port_allow(struct t_port *t, const char *rule);
/* Starts the port on the first @workers workers: it listens at t_port_addr().
 * The caller may set members of t->port before if port_init() does not set
 * them. */
void t_port_start(struct t_port *t, unsigned int workers);

/* Returns the nexus of the initiator port srp_port_id_make(0, @who); the first one, if
 * several principals use it. */
struct nexus *t_port_nexus(const struct t_port *t, unsigned int who);

/* Runs one turn of every worker's reactor. True if any of them had work. */
bool t_port_turn(struct t_port *t);

/* Returns the bytes of data buffers and descriptor lists that are in use. */
size_t t_port_used(const struct t_port *t);
/* Returns what ended initiators have left behind, as "a login"; NULL:
 * nothing. */
const char *t_port_leftover(const struct t_port *t);

/* Ends the port. Needs port_stop() before, and t->stopped. */
void t_port_end(struct t_port *t);
/* Close volumes first, then workers. */
void t_port_close_volumes(struct t_port *t);
void t_port_close_workers(struct t_port *t);

#endif
