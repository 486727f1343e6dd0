/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target with one small disk for the simulated client. It keeps the standard,
 * and uses it up: attentions, deferred errors, units that are not ready, answers
 * in any order, a cache that others switch on and off, connections that end,
 * power that fails. What its medium holds is known.
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
	bool write_cache; /* in the beginning */
	bool fua;
};

/* Ends what there was before. The target listens at 10.0.0.1:5555. */
void peer_reset(struct t_fabric *hub, const struct peer_options *o);
void peer_end(void);

/* ---- what happens ---- */

/* Commands that have been taken and not been carried out. */
unsigned int peer_pending(void);
void peer_step(unsigned int nth);

/* Something of its own accord; @quiet: the caller has nothing under way. */
void peer_act(bool quiet);
/* From now on it is well, and does what it is asked. */
void peer_heal(void);

/*
 * The client has taken note of a loss that it was told of. What was told before
 * and not noted, as the connection ended, is told again to the next nexus: a
 * target that forgets it cannot be found out.
 */
void peer_heard(void);

/* ---- what is true ---- */

/* What block @lba holds on the medium: the last stamp written to it, 0: none. */
uint64_t peer_stable(unsigned int lba);
/* Something that was acknowledged may have been lost, so often. */
unsigned int peer_losses(void);
/* Another disk has taken the place of the first. */
bool peer_is_other(void);
/* The client has been told; what it sends from now on must not be written. It
 * had sent the @cnt stamps at @sent, and got no answer yet. */
void peer_tell_other(const uint64_t *sent, unsigned int cnt);

#endif
