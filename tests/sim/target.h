/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real target - port, nexuses, channels, requests, task management, SCSI
 * disk - on simulated disks, a simulated fabric and simulated time.
 */
#ifndef TESTS_SIM_TARGET_H
#define TESTS_SIM_TARGET_H

#include <netinet/in.h>

#include "target/port/port.h"
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

/* A machine that has never had a target; and one that boots. What a target is to
 * find again lies in a directory of its own. */
void target_machine_new(void);
void target_machine_boots(void);

/*
 * A target that is killed leaves its records as they are, though its memory is
 * still given back in an orderly way: they are noted when it is killed, and put
 * back when it has ended.
 */
void target_killed(const struct target *t);
void target_put_back(void);

/* Never fail. */
void target_start(struct target *t, struct t_fabric *hub,
		  unsigned int worker_cnt, bool copies);
/* The RDMA device that all workers use is removed; it is back. */
void target_unplug(struct target *t);
void target_plug(struct target *t);
/* After port_stop() and when t->stopped: all is given back, or it is wrong. */
void target_end(struct target *t);

#endif
