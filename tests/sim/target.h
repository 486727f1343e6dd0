/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The real target - port, nexuses, channels, requests, task management, SCSI
 * disk - on simulated disks, a simulated fabric and simulated time.
 */
#ifndef TESTS_SIM_TARGET_H
#define TESTS_SIM_TARGET_H

#include "tests/lib/t_port.h"
#include "tests/sim/blocks.h"

/* Makes a machine that has never had a target, or boots the machine. The files
 * of a target are in a directory of their own. */
void target_machine_new(void);
void target_machine_boots(void);

/*
 * A killed target leaves its journals unchanged, except for what a loss of power takes of them.
 * Its memory is still freed in the normal way: this saves the journals when the target is killed,
 * and restores them when it has ended.
 */
void target_killed(const struct t_port *t, bool power_cut);
void target_put_back(void);

/* These never fail. */
void target_start(struct t_port *t, struct t_fabric *hub,
		  unsigned int worker_cnt, bool copies);
/* The RDMA device of all workers is removed, or added again. */
void target_unplug(struct t_port *t);
void target_plug(struct t_port *t);
/* Only after port_stop() and t->stopped. Checks that everything was given
 * back. */
void target_end(struct t_port *t);

#endif
