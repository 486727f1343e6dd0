/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target with one small disk for the simulated client. It does all that the
 * standard allows: attentions, deferred errors, units that are not ready,
 * answers in any order, a cache that other initiators switch on and off,
 * connections that end, power that fails. The contents of its medium are known.
 */
#ifndef TESTS_SIM_PEER_H
#define TESTS_SIM_PEER_H

#include <stdbool.h>
#include <stdint.h>

#include "tests/lib/t_fabric.h"

#define PEER_BLOCKS 8u
#define PEER_BLOCK  512u

struct peer_options {
	bool has_store;	  /* VPD page C0h */
	bool write_cache; /* at the beginning */
	bool fua;
};

/* Starts a new target, which listens at 10.0.0.1:5555. */
void peer_reset(struct t_fabric *hub, const struct peer_options *o);
void peer_end(void);

/* ---- events ---- */

/* Returns the number of commands that were taken and not executed yet. */
unsigned int peer_pending(void);
void peer_step(unsigned int nth);

/* Does something on its own. @quiet: the caller has nothing in flight. */
void peer_act(bool quiet);
/* From now on, the target works without faults. */
void peer_heal(void);

/*
 * The client has noted a loss that the target reported. A loss that was
 * reported and not noted, because the connection ended, is reported again to
 * the next nexus. The client could not detect a target that forgets to do so.
 */
void peer_heard(void);

/* ---- the true state ---- */

/* The last stamp that was written to block @lba on the medium; 0: none. */
uint64_t peer_stable(unsigned int lba);
/* The client has the answer to the write of stamp @stamp to block @lba. From now on,
 * no earlier one must be executed. */
void peer_acked(unsigned int lba, uint64_t stamp);
/* Returns how often acknowledged data may have been lost. */
unsigned int peer_losses(void);
/* True if another disk has replaced the first one. */
bool peer_is_other(void);
/* The client has been told. From now on, its writes must not be executed. It
 * had sent the @cnt stamps at @sent, which have no answer yet. */
void peer_tell_other(const uint64_t *sent, unsigned int cnt);

#endif
