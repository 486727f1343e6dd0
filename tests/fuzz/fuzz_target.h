/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A whole target in this process: port, workers and volumes, on the in-memory
 * fabric. Reactors, arenas and transports are made once. Port and volumes are
 * made anew for each input, and nothing of them may be left at its end.
 *
 * Only fuzz_turn() and fuzz_settle() run anything.
 */
#ifndef TESTS_FUZZ_FUZZ_TARGET_H
#define TESTS_FUZZ_FUZZ_TARGET_H

#include "target/port/request.h"
#include "tests/fuzz/fuzz.h"
#include "tests/lib/t_port.h"

#define FUZZ_ARENA_LEN	(1u << 20)
#define FUZZ_MEM_LEN	(1u << 20)   /* of the initiators, bytes */
#define FUZZ_STORE_SIZE (256u << 10) /* bytes, at most */

/* LUNs */
enum {
	FUZZ_LUN_STORE, /* t_store */
	FUZZ_LUN_RAM,
	FUZZ_LUN_OTHER, /* by the input: null, file, removable, read-only */
	FUZZ_LUN_BYSTANDER,
	FUZZ_LUNS
};

enum fuzz_other {
	FUZZ_OTHER_NULL,
	FUZZ_OTHER_FILE,
	FUZZ_OTHER_REMOVABLE,
	FUZZ_OTHER_READ_ONLY,
	FUZZ_OTHERS
};

struct fuzz_target {
	struct t_fabric *hub;
	struct t_port target;
	uint64_t rnr; /* before this input */

	struct reactor *peer_reactor;
	struct xp *peer_xp;
	uint8_t *mem; /* of the initiators; registered for remote access */
	struct xp_mr *mem_mr;
	/* Memory of the bystander. No input knows its key. */
	uint8_t *own_mem;
	struct xp_mr *own_mr;
};

extern struct fuzz_target fuzz_target;

/* Opens volumes and port. */
void fuzz_target_begin(unsigned int workers, enum fuzz_other other);
/* Stops the port and claims that nothing is left. The peers' channels are
 * closed, but not freed. */
void fuzz_target_stop(void);
/* Only after the peers have freed their channels. */
void fuzz_target_end(void);

/* Runs one turn of every reactor. True if any of them had work. */
bool fuzz_turn(void);
/* Runs turns until there is no work. */
void fuzz_settle(void);
/* Advances every clock. */
void fuzz_skip(unsigned int ms);

#endif
