/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Initiators that do anything at any time, and know which answers are allowed.
 * Each is an I_T nexus of up to HOST_CHANS channels. Its commands live in slots
 * with memory of their own. Each piece of this memory has a key of its own,
 * which becomes invalid when the command is over. If the target accesses memory
 * that it must not access, the fabric refuses this and counts it.
 */
#ifndef TESTS_SIM_HOST_H
#define TESTS_SIM_HOST_H

#include "tests/lib/t_fabric.h"
#include "tests/sim/blocks.h"

#define HOSTS	   2
#define HOST_CHANS 2

/* Starts all hosts. @cache[lun]: acknowledged writes need a flush. @copies: the
 * hosts send EXTENDED COPY. */
void hosts_reset(struct t_fabric *hub, const bool *cache, const bool *memory,
		 bool copies);
/* Only when every channel is closed. */
void hosts_end(void);

/* Lets some host do something at random. @steady: it sends commands. */
void hosts_act(bool steady);
/* Some host closes one of its connections, and goes on by another. */
void hosts_fail_over(void);
/* Makes every host have a connection to the target, or try to get one. */
void hosts_connect(void);

/* ---- events of the target ---- */

/* From now on, the target may close any channel and reject logins. */
void hosts_excuse(void);
/* What lay unread of closed channels is answered now, and the answers are lost. */
void hosts_worker_goes_on(void);
/* All connections break. No earlier request will reach a disk any more. */
void hosts_target_killed(void);

/* At this start, @lun may have lost data that no flush has covered. Hosts whose
 * writes were acknowledged must be told by their next flush. After a power cut,
 * all hosts that wrote may be told. */
void hosts_lost_writes(unsigned int lun, bool power_cut);

/* The reservations are gone together with the target. */
void hosts_target_gone(void);

/* ---- copies, from the disk's view ---- */

struct copy;

/* The target gives the disk a stamp for a block that belongs to another block.
 * Checks whether a copy may do this now, and returns it; NULL: none may. */
struct copy *hosts_copy_begins(unsigned int lun, unsigned int lba,
			       uint32_t stamp);
/* The block is written. Returns the stamp that it has from now on. */
uint32_t hosts_copy_lands(struct copy *p, unsigned int lun, unsigned int lba,
			  uint32_t stamp);
/* The write fails, and the copy must fail, too. */
void hosts_copy_fails(struct copy *p);

/* Nothing is in flight: everything must have been answered. */
void hosts_check_quiet(void);
/* Writes without an answer can no longer take place. */
void hosts_all_over(void);
/* Reads every block. */
void hosts_look(void);

/* Closes every channel. */
void hosts_leave(void);

/* Commands sent since the reset. */
unsigned int hosts_commands(void);

#endif
