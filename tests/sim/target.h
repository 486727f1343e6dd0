/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real target - port, nexuses, channels, requests, task management, SCSI
 * disk - on simulated disks, a simulated fabric and simulated time.
 */
#ifndef TESTS_SIM_TARGET_H
#define TESTS_SIM_TARGET_H

#include <netinet/in.h>

#include "target/port.h"
#include "tests/lib/t_fabric.h"
#include "tests/sim/blocks.h"

#define TARGET_WORKERS 2

struct target {
	struct worker workers[TARGET_WORKERS];
	unsigned int worker_cnt;
	struct lun_map luns;
	struct port port;
	bool stopped;
};

extern const struct srp_port_id target_id;
extern const struct sockaddr_in target_addr;

/* Never fail. */
void target_start(struct target *t, struct t_fabric *hub,
		  unsigned int worker_cnt);
/* The RDMA device that all workers use is removed; it is back. */
void target_unplug(struct target *t);
void target_plug(struct target *t);
/* After port_stop() and when t->stopped: all is given back, or it is wrong. */
void target_end(struct target *t);

#endif
