/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Initiators that do anything at any time, and know what may be answered. Each
 * is an I_T nexus of up to HOST_CHANS channels; its commands live in slots with
 * memory of their own, each piece of it under a key of its own, which is
 * withdrawn as soon as the command is over. So whatever the target touches that
 * it must not, the fabric refuses, and counts.
 */
#ifndef TESTS_SIM_HOST_H
#define TESTS_SIM_HOST_H

#include "tests/lib/t_fabric.h"
#include "tests/sim/blocks.h"

#define HOSTS	   2
#define HOST_CHANS 2

/* Of all hosts; @cache[lun]: acknowledged writes need a flush; @copies: they
 * send EXTENDED COPY. */
void hosts_reset(struct t_fabric *hub, const bool *cache, const bool *memory,
		 bool copies);
/* Every channel must be closed. */
void hosts_end(void);

/* Some host does something of its own choice; @steady: it sends commands. */
void hosts_act(bool steady);
/* Has every host a way to the target, or tries to get one. */
void hosts_connect(void);

/* ---- what becomes of the target ---- */

/* It may close any channel, and refuse logins, from now on. */
void hosts_excuse(void);
/* All connections break; nothing of before will reach a disk any more. */
void hosts_target_killed(void);

/* A start at which @lun may have lost what no flush has covered: those whose
 * writes were acknowledged must be told, by their next flush. After a power cut
 * all that wrote may be told. */
void hosts_lost_writes(unsigned int lun, bool power_cut);

/* Reservations went with it. */
void hosts_target_gone(void);

/* ---- copies, as the disk sees them ---- */

/* The target asks for a block to be written with a stamp that belongs to another
 * one. Judges whether a copy may do so, now. */
void hosts_copy_begins(unsigned int lun, unsigned int lba, uint32_t stamp);
/* It is written: the stamp that the block has from now on. */
uint32_t hosts_copy_lands(unsigned int lun, unsigned int lba, uint32_t stamp);
/* It fails; so must the copy. */
void hosts_copy_fails(unsigned int lun, unsigned int lba, uint32_t stamp);

/* Nothing happens any more: everything must have been answered. */
void hosts_check_quiet(void);
/* Writes without an answer can no longer happen. */
void hosts_all_over(void);
/* Looks at every block. */
void hosts_look(void);

/* Closes every channel. */
void hosts_leave(void);

/* Commands sent since the reset. */
unsigned int hosts_commands(void);

#endif
