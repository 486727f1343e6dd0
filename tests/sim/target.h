/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real target - port, nexuses, channels, requests, task management, SCSI
 * disk - on simulated disks, a simulated fabric and simulated time.
 */
#ifndef TESTS_SIM_TARGET_H
#define TESTS_SIM_TARGET_H

#include "tests/lib/t_port.h"
#include "tests/sim/blocks.h"

/* A machine that has never had a target; and one that boots. What a target is to
 * find again lies in a directory of its own. */
void target_machine_new(void);
void target_machine_boots(void);

/*
 * A target that is killed leaves its records as they are, though its memory is
 * still given back in an orderly way: they are noted when it is killed, and put
 * back when it has ended.
 */
void target_killed(const struct t_port *t);
void target_put_back(void);

/* Never fail. */
void target_start(struct t_port *t, struct t_fabric *hub,
		  unsigned int worker_cnt, bool copies);
/* The RDMA device that all workers use is removed; it is back. */
void target_unplug(struct t_port *t);
void target_plug(struct t_port *t);
/* After port_stop() and when t->stopped: all is given back, or it is wrong. */
void target_end(struct t_port *t);

#endif
