/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent reservations as a value. A row is a history of service actions by
 * the initiator ports A to D, with the outcome of the last one, the nexuses
 * that it affects, and the state of the unit afterwards.
 */
#include "protocol/scsi_pr.h"

#include <errno.h>
#include <string.h>

#include "protocol/wire.h"
#include "tests/lib/t_bytes.h"

/* ---- the parameter list ---- */

static struct srp_port_id port_of(char who)
{
	return srp_port_id_make(0x1000, (uint64_t)who);
}

static size_t make_list(uint8_t *b, enum scsi_pr_out action, uint64_t key,
			uint64_t action_key, uint8_t flags, const char *ports,
			uint16_t target_port)
{
	size_t len = SCSI_PR_OUT_LEN;

	memset(b, 0, SCSI_PR_OUT_MAX);
	wire_put64(b, key);
	wire_put64(b + 8, action_key);
	if (action == SCSI_PR_REGISTER_AND_MOVE) {
		b[17] = flags;
		wire_put16(b + 18, target_port);
		wire_put32(b + 20, SCSI_PR_TRANSPORT_ID_LEN);
	} else {
		b[20] = flags;
		if (flags & 0x08)
			len += 4;
	}
	for (; ports && *ports; ports++) {
		struct srp_port_id port = port_of(*ports);

		scsi_pr_transport_id_encode(&port, b + len);
		len += SCSI_PR_TRANSPORT_ID_LEN;
	}
	if (action != SCSI_PR_REGISTER_AND_MOVE && flags & 0x08)
		wire_put32(b + 24, (uint32_t)(len - 28));
	return len;
}

/* ---- histories ---- */

struct step {
	char who; /* 'A' ... 'D' */
	enum scsi_pr_out action;
	uint64_t key;
	uint64_t action_key;
	uint8_t type;
	uint8_t flags; /* of the parameter list */
	const char *ports;
	/* Target ports; 0 stands for 1. The port that the command comes
	 * through, and the port that REGISTER AND MOVE names. */
	uint16_t via;
	uint16_t to;
};

struct row {
	const char *name;
	struct step steps[8];
	const char *outcome; /* of the last one; NULL: "good" */
	const char *effects; /* "B: unregistered abort; " */
	/* "A=1* B=2; gen 3; type 1": * marks the holder of the reservation.
	 * "A/2": through target port 2. */
	const char *state;
	uint16_t target_ports; /* 0: 1 */
};

#define REG(who, key)                         \
	{                                     \
		who, SCSI_PR_REGISTER, 0, key \
	}
#define RES(who, key, type)                        \
	{                                          \
		who, SCSI_PR_RESERVE, key, 0, type \
	}
#define ABC  REG('A', 1), REG('B', 2), REG('C', 3)
#define WE   SCSI_PR_WRITE_EXCLUSIVE
#define EA   SCSI_PR_EXCLUSIVE_ACCESS
#define WERO SCSI_PR_WRITE_EXCLUSIVE_RO
#define EARO SCSI_PR_EXCLUSIVE_ACCESS_RO
#define WEAR SCSI_PR_WRITE_EXCLUSIVE_AR
#define EAAR SCSI_PR_EXCLUSIVE_ACCESS_AR

/* clang-format off */
static const struct row rows[] = {
	/* REGISTER */
	{ "register", { REG('A', 1) }, .state = "A=1; gen 1; type 0" },
	{ "register with key 0 does nothing", { REG('A', 0) },
	  .state = "; gen 0; type 0" },
	{ "register with a key without being registered",
	  { { 'A', SCSI_PR_REGISTER, 7, 1 } }, .outcome = "conflict",
	  .state = "; gen 0; type 0" },
	{ "register again needs the key", { REG('A', 1), REG('A', 2) },
	  .outcome = "conflict", .state = "A=1; gen 1; type 0" },
	{ "change a key", { REG('A', 1), { 'A', SCSI_PR_REGISTER, 1, 9 } },
	  .state = "A=9; gen 2; type 0" },
	{ "unregister", { REG('A', 1), REG('B', 2),
			  { 'A', SCSI_PR_REGISTER, 1, 0 } },
	  .state = "B=2; gen 3; type 0" },
	{ "two with the same key", { REG('A', 1), REG('B', 1) },
	  .state = "A=1 B=1; gen 2; type 0" },
	{ "register for others", { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x08,
				     "BC" } },
	  .state = "A=1 B=1 C=1; gen 1; type 0" },
	{ "register for others, one of whom is registered",
	  { REG('B', 2), { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x08, "CB" } },
	  .outcome = "05/26/00 data 52", .state = "B=2; gen 1; type 0" },
	{ "register for others, oneself among them, and one twice",
	  { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x08, "BAB" } },
	  .state = "A=1 B=1; gen 1; type 0" },
	{ "registered already, for others",
	  { REG('A', 1), { 'A', SCSI_PR_REGISTER, 1, 2, 0, 0x08, "B" } },
	  .outcome = "05/26/00 data 20.3", .state = "A=1; gen 1; type 0" },
	{ "register through all ports", { { 'A', SCSI_PR_REGISTER, 0, 1, 0,
					    0x04 } },
	  .state = "A=1; gen 1; type 0" },
	{ "register to survive", { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x01 } },
	  .state = "A=1; gen 1; type 0; aptpl" },
	{ "the next registration need not survive",
	  { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x01 }, REG('B', 2) },
	  .state = "A=1 B=2; gen 2; type 0" },
	{ "the holder unregisters, exclusive",
	  { ABC, RES('A', 1, EA), { 'A', SCSI_PR_REGISTER, 1, 0 } },
	  .state = "C=3 B=2; gen 4; type 0" },
	{ "the holder unregisters, registrants only",
	  { ABC, RES('A', 1, WERO), { 'A', SCSI_PR_REGISTER, 1, 0 } },
	  .effects = "C: released; B: released; ",
	  .state = "C=3 B=2; gen 4; type 0" },
	{ "one of all registrants unregisters",
	  { ABC, RES('A', 1, WEAR), { 'A', SCSI_PR_REGISTER, 1, 0 } },
	  .state = "C=3* B=2*; gen 4; type 7" },
	{ "the last of all registrants unregisters",
	  { REG('A', 1), RES('A', 1, WEAR), { 'A', SCSI_PR_REGISTER, 1, 0 } },
	  .state = "; gen 2; type 0" },
	{ "another than the holder unregisters",
	  { ABC, RES('C', 3, WE), { 'A', SCSI_PR_REGISTER, 1, 0 } },
	  .state = "C=3* B=2; gen 4; type 1" },

	/* REGISTER AND IGNORE EXISTING KEY */
	{ "ignore: register", { { 'A', SCSI_PR_REGISTER_AND_IGNORE, 77, 1 } },
	  .state = "A=1; gen 1; type 0" },
	{ "ignore: change", { REG('A', 1),
			      { 'A', SCSI_PR_REGISTER_AND_IGNORE, 77, 2 } },
	  .state = "A=2; gen 2; type 0" },
	{ "ignore: unregister", { REG('A', 1),
				  { 'A', SCSI_PR_REGISTER_AND_IGNORE, 77, 0 } },
	  .state = "; gen 2; type 0" },
	{ "ignore: for others", { { 'A', SCSI_PR_REGISTER_AND_IGNORE, 0, 1, 0,
				    0x08, "B" } },
	  .outcome = "05/26/00 data 20.3", .state = "; gen 0; type 0" },

	/* RESERVE */
	{ "reserve", { ABC, RES('B', 2, WE) },
	  .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "reserve, all registrants", { ABC, RES('B', 2, EAAR) },
	  .state = "A=1* B=2* C=3*; gen 3; type 8" },
	{ "reserve without registration", { ABC, RES('D', 0, WE) },
	  .outcome = "conflict", .state = "A=1 B=2 C=3; gen 3; type 0" },
	{ "reserve with a wrong key", { ABC, RES('A', 2, WE) },
	  .outcome = "conflict", .state = "A=1 B=2 C=3; gen 3; type 0" },
	{ "reserve again", { ABC, RES('B', 2, EA), RES('B', 2, EA) },
	  .state = "A=1 B=2* C=3; gen 3; type 3" },
	{ "reserve as another type", { ABC, RES('B', 2, EA), RES('B', 2, WE) },
	  .outcome = "conflict", .state = "A=1 B=2* C=3; gen 3; type 3" },
	{ "reserve what another holds", { ABC, RES('B', 2, WE),
					  RES('A', 1, WE) },
	  .outcome = "conflict", .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "reserve what all registrants hold", { ABC, RES('B', 2, WEAR),
						 RES('A', 1, WEAR) },
	  .state = "A=1* B=2* C=3*; gen 3; type 7" },
	{ "reserve as type 0", { ABC, RES('B', 2, 0) },
	  .outcome = "05/24/00 CDB 2.3",
	  .state = "A=1 B=2 C=3; gen 3; type 0" },
	{ "reserve as type 2", { ABC, RES('B', 2, 2) },
	  .outcome = "05/24/00 CDB 2.3",
	  .state = "A=1 B=2 C=3; gen 3; type 0" },
	{ "reserve as type 15", { ABC, RES('B', 2, 15) },
	  .outcome = "05/24/00 CDB 2.3",
	  .state = "A=1 B=2 C=3; gen 3; type 0" },
	{ "reserve an element", { ABC, RES('B', 2, 0x21) },
	  .outcome = "05/24/00 CDB 2.7",
	  .state = "A=1 B=2 C=3; gen 3; type 0" },

	/* RELEASE */
	{ "release", { ABC, RES('B', 2, WE), { 'B', SCSI_PR_RELEASE, 2, 0,
					       WE } },
	  .state = "A=1 B=2 C=3; gen 3; type 0" },
	{ "release, registrants only",
	  { ABC, RES('B', 2, EARO), { 'B', SCSI_PR_RELEASE, 2, 0, EARO } },
	  .effects = "A: released; C: released; ",
	  .state = "A=1 B=2 C=3; gen 3; type 0" },
	{ "release what another holds",
	  { ABC, RES('B', 2, WE), { 'A', SCSI_PR_RELEASE, 1, 0, WE } },
	  .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "release with another type",
	  { ABC, RES('B', 2, WE), { 'B', SCSI_PR_RELEASE, 2, 0, EA } },
	  .outcome = "05/26/04", .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "release with a type that is none",
	  { ABC, RES('B', 2, WE), { 'B', SCSI_PR_RELEASE, 2, 0, 2 } },
	  .outcome = "05/26/04", .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "release an element",
	  { ABC, RES('B', 2, WE), { 'B', SCSI_PR_RELEASE, 2, 0, 0x21 } },
	  .outcome = "05/24/00 CDB 2.7", .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "release what another holds, with another type",
	  { ABC, RES('B', 2, WE), { 'A', SCSI_PR_RELEASE, 1, 0, 2 } },
	  .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "release without a reservation",
	  { ABC, { 'A', SCSI_PR_RELEASE, 1, 0, 0 } },
	  .state = "A=1 B=2 C=3; gen 3; type 0" },
	{ "release with a wrong key",
	  { ABC, RES('B', 2, WE), { 'B', SCSI_PR_RELEASE, 1, 0, WE } },
	  .outcome = "conflict", .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "release by one of all registrants",
	  { ABC, RES('B', 2, WEAR), { 'A', SCSI_PR_RELEASE, 1, 0, WEAR } },
	  .effects = "B: released; C: released; ",
	  .state = "A=1 B=2 C=3; gen 3; type 0" },

	/* CLEAR */
	{ "clear", { ABC, RES('B', 2, WE), { 'A', SCSI_PR_CLEAR, 1 } },
	  .effects = "B: preempted; C: preempted; ",
	  .state = "; gen 4; type 0" },
	{ "clear without registration", { ABC, { 'D', SCSI_PR_CLEAR, 0 } },
	  .outcome = "conflict", .state = "A=1 B=2 C=3; gen 3; type 0" },

	/* PREEMPT */
	{ "preempt the holder",
	  { ABC, RES('B', 2, WE), { 'A', SCSI_PR_PREEMPT, 1, 2, WE } },
	  .effects = "B: unregistered; ",
	  .state = "A=1* C=3; gen 4; type 1" },
	{ "preempt the holder, another type",
	  { ABC, RES('B', 2, WE), { 'A', SCSI_PR_PREEMPT, 1, 2, EA } },
	  .effects = "B: unregistered; C: released; ",
	  .state = "A=1* C=3; gen 4; type 3" },
	{ "preempt and abort the holder",
	  { ABC, RES('B', 2, WE), { 'A', SCSI_PR_PREEMPT_AND_ABORT, 1, 2,
				    WE } },
	  .effects = "B: unregistered abort; ",
	  .state = "A=1* C=3; gen 4; type 1" },
	{ "preempt the holder, registrants only, another type",
	  { ABC, RES('B', 2, WERO), { 'A', SCSI_PR_PREEMPT, 1, 2, EARO } },
	  .effects = "B: unregistered; C: released; ",
	  .state = "A=1* C=3; gen 4; type 6" },
	{ "preempt the holder, registrants only, same type",
	  { ABC, RES('B', 2, WERO), { 'A', SCSI_PR_PREEMPT, 1, 2, WERO } },
	  .effects = "B: unregistered; ",
	  .state = "A=1* C=3; gen 4; type 5" },
	{ "preempt another than the holder",
	  { ABC, RES('B', 2, WE), { 'A', SCSI_PR_PREEMPT, 1, 3, EA } },
	  .effects = "C: unregistered; ",
	  .state = "A=1 B=2*; gen 4; type 1" },
	{ "preempt without a reservation",
	  { ABC, { 'A', SCSI_PR_PREEMPT, 1, 3 } },
	  .effects = "C: unregistered; ", .state = "A=1 B=2; gen 4; type 0" },
	{ "preempt a key that nobody has",
	  { ABC, RES('B', 2, WE), { 'A', SCSI_PR_PREEMPT, 1, 8, WE } },
	  .outcome = "conflict", .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "preempt key 0",
	  { ABC, RES('B', 2, WE), { 'A', SCSI_PR_PREEMPT, 1, 0, WE } },
	  .outcome = "05/26/00 data 8.7",
	  .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "preempt oneself", { ABC, RES('A', 1, WE),
			       { 'A', SCSI_PR_PREEMPT, 1, 1, WE } },
	  .state = "A=1* B=2 C=3; gen 4; type 1" },
	{ "preempt oneself, another type",
	  { ABC, RES('A', 1, WE), { 'A', SCSI_PR_PREEMPT, 1, 1, EA } },
	  .effects = "B: released; C: released; ",
	  .state = "A=1* B=2 C=3; gen 4; type 3" },
	{ "preempt a key that several have",
	  { REG('A', 1), REG('B', 2), REG('C', 2), RES('C', 2, WE),
	    { 'A', SCSI_PR_PREEMPT_AND_ABORT, 1, 2, WE } },
	  .effects = "C: unregistered abort; B: unregistered abort; ",
	  .state = "A=1*; gen 4; type 1" },
	{ "preempt some of all registrants",
	  { ABC, RES('B', 2, WEAR), { 'A', SCSI_PR_PREEMPT, 1, 2, EA } },
	  .effects = "B: unregistered; ",
	  .state = "A=1* C=3*; gen 4; type 7" },
	{ "preempt all of all registrants",
	  { ABC, RES('B', 2, WEAR), { 'A', SCSI_PR_PREEMPT, 1, 0, EA } },
	  .effects = "C: unregistered; B: unregistered; ",
	  .state = "A=1*; gen 4; type 3" },
	{ "preempt without registration",
	  { ABC, RES('B', 2, WE), { 'D', SCSI_PR_PREEMPT, 0, 2, WE } },
	  .outcome = "conflict", .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "preempt the holder with a wrong type",
	  { ABC, RES('B', 2, WE), { 'A', SCSI_PR_PREEMPT, 1, 2, 9 } },
	  .outcome = "05/24/00 CDB 2.3",
	  .state = "A=1 B=2* C=3; gen 3; type 1" },

	/* REGISTER AND MOVE */
	{ "move", { ABC, RES('A', 1, WE),
		    { 'A', SCSI_PR_REGISTER_AND_MOVE, 1, 4, 0, 0, "D" } },
	  .state = "A=1 B=2 C=3 D=4*; gen 4; type 1" },
	{ "move and unregister",
	  { ABC, RES('A', 1, WE),
	    { 'A', SCSI_PR_REGISTER_AND_MOVE, 1, 4, 0, 0x02, "D" } },
	  .state = "D=4* B=2 C=3; gen 4; type 1" },
	{ "move to one who is registered",
	  { ABC, RES('A', 1, EARO),
	    { 'A', SCSI_PR_REGISTER_AND_MOVE, 1, 9, 0, 0, "C" } },
	  .state = "A=1 B=2 C=9*; gen 4; type 6" },
	{ "move to oneself",
	  { ABC, RES('A', 1, WE),
	    { 'A', SCSI_PR_REGISTER_AND_MOVE, 1, 4, 0, 0, "A" } },
	  .outcome = "05/26/00 data 24",
	  .state = "A=1* B=2 C=3; gen 3; type 1" },
	{ "move with key 0",
	  { ABC, RES('A', 1, WE),
	    { 'A', SCSI_PR_REGISTER_AND_MOVE, 1, 0, 0, 0, "D" } },
	  .outcome = "05/26/00 data 8.7",
	  .state = "A=1* B=2 C=3; gen 3; type 1" },
	{ "move what another holds",
	  { ABC, RES('B', 2, WE),
	    { 'A', SCSI_PR_REGISTER_AND_MOVE, 1, 4, 0, 0, "D" } },
	  .outcome = "conflict", .state = "A=1 B=2* C=3; gen 3; type 1" },
	{ "move what all registrants hold",
	  { ABC, RES('A', 1, WEAR),
	    { 'A', SCSI_PR_REGISTER_AND_MOVE, 1, 4, 0, 0, "D" } },
	  .outcome = "conflict", .state = "A=1* B=2* C=3*; gen 3; type 7" },
	{ "move without a reservation",
	  { ABC, { 'A', SCSI_PR_REGISTER_AND_MOVE, 1, 4, 0, 0, "D" } },
	  .outcome = "05/24/00 CDB 1.4",
	  .state = "A=1 B=2 C=3; gen 3; type 0" },

	/* several target ports */
	{ "a nexus through each target port",
	  { REG('A', 1), { 'A', SCSI_PR_REGISTER, 0, 2, .via = 2 },
	    { 'A', SCSI_PR_RESERVE, 2, 0, WE, .via = 2 } },
	  .target_ports = 2, .state = "A=1 A/2=2*; gen 2; type 1" },
	{ "the other nexus of the holder is another one",
	  { REG('A', 1), { 'A', SCSI_PR_REGISTER, 0, 1, .via = 2 },
	    RES('A', 1, WE), { 'A', SCSI_PR_RESERVE, 1, 0, WE, .via = 2 } },
	  .target_ports = 2, .outcome = "conflict",
	  .state = "A=1* A/2=1; gen 2; type 1" },
	{ "register through all target ports",
	  { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x04, .via = 2 } },
	  .target_ports = 3, .state = "A=1 A/2=1 A/3=1; gen 1; type 0" },
	{ "register through all, where one has another key",
	  { { 'A', SCSI_PR_REGISTER, 0, 7, .via = 2 },
	    { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x04 } },
	  .target_ports = 2, .outcome = "conflict",
	  .state = "A/2=7; gen 1; type 0" },
	{ "register through all and ignore",
	  { { 'A', SCSI_PR_REGISTER, 0, 7, .via = 2 },
	    { 'A', SCSI_PR_REGISTER_AND_IGNORE, 0, 1, 0, 0x04 } },
	  .target_ports = 2, .state = "A/2=1 A=1; gen 2; type 0" },
	{ "unregister through all target ports",
	  { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x04 }, REG('B', 2),
	    { 'A', SCSI_PR_REGISTER, 1, 0, 0, 0x04, .via = 2 } },
	  .target_ports = 2, .state = "B=2; gen 3; type 0" },
	{ "unregister through one target port",
	  { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x04 },
	    { 'A', SCSI_PR_REGISTER, 1, 0, .via = 2 } },
	  .target_ports = 2, .state = "A=1; gen 2; type 0" },
	{ "register for others through all target ports",
	  { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x0c, "B" } },
	  .target_ports = 2,
	  .state = "A=1 A/2=1 B=1 B/2=1; gen 1; type 0" },
	{ "preempt every nexus with the key",
	  { { 'B', SCSI_PR_REGISTER, 0, 2, 0, 0x04 }, REG('A', 1),
	    { 'A', SCSI_PR_PREEMPT_AND_ABORT, 1, 2, WE } },
	  .target_ports = 2,
	  .effects = "B/2: unregistered abort; B: unregistered abort; ",
	  .state = "A=1; gen 3; type 0" },
	{ "move to another target port",
	  { REG('A', 1), RES('A', 1, WE),
	    { 'A', SCSI_PR_REGISTER_AND_MOVE, 1, 4, 0, 0, "A", .to = 2 } },
	  .target_ports = 2, .state = "A=1 A/2=4*; gen 2; type 1" },
	{ "move to a target port that there is not",
	  { REG('A', 1), RES('A', 1, WE),
	    { 'A', SCSI_PR_REGISTER_AND_MOVE, 1, 4, 0, 0, "B", .to = 3 } },
	  .target_ports = 2, .outcome = "05/26/00 data 18.7",
	  .state = "A=1*; gen 1; type 1" },
};
/* clang-format on */

static const char *sense_text(const struct scsi_sense *s)
{
	static char text[64];
	int n = snprintf(text, sizeof(text), "%02x/%02x/%02x", s->key,
			 SCSI_ASC(s->code), SCSI_ASCQ(s->code));

	if (s->pointer != SCSI_POINTER_NONE)
		n += snprintf(text + n, sizeof(text) - n, " %s %u",
			      s->pointer == SCSI_POINTER_CDB ? "CDB" : "data",
			      s->byte_no);
	if (s->pointer != SCSI_POINTER_NONE && s->bit_no != SCSI_BIT_NONE)
		snprintf(text + n, sizeof(text) - n, ".%u", s->bit_no);
	return text;
}

static uint16_t or_first(uint16_t target_port)
{
	return target_port ? target_port : SCSI_PR_TARGET_PORT;
}

static const char *run_step(struct scsi_pr *pr, const struct step *step,
			    const struct scsi_pr_unit *unit,
			    struct scsi_pr_effects *effects)
{
	uint8_t list[SCSI_PR_OUT_MAX];
	struct scsi_pr_nexus from = { port_of(step->who), or_first(step->via) };
	size_t len = make_list(list, step->action, step->key, step->action_key,
			       step->flags, step->ports, or_first(step->to));
	struct scsi_pr_request req;
	struct scsi_sense sense;

	effects->cnt = 0;
	if (scsi_pr_out_decode(step->action, step->type >> 4, step->type & 0xf,
			       list, len, unit, &req, &sense))
		return sense_text(&sense);
	switch (scsi_pr_execute(pr, &from, &req, effects, &sense)) {
	case 0:
		return "good";
	case -EBUSY:
		return "conflict";
	default:
		return sense_text(&sense);
	}
}

static int nexus_text(char *text, size_t len, const struct scsi_pr_nexus *nexus)
{
	if (nexus->target_port == SCSI_PR_TARGET_PORT)
		return snprintf(text, len, "%c", nexus->port.b[15]);
	return snprintf(text, len, "%c/%u", nexus->port.b[15],
			nexus->target_port);
}

static const char *effects_text(const struct scsi_pr_effects *effects)
{
	static char text[256];
	int n = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < effects->cnt; i++) {
		const struct scsi_pr_effect *e = &effects->to[i];
		unsigned int news = e->news;

		n += nexus_text(text + n, sizeof(text) - n, &e->nexus);
		n += snprintf(text + n, sizeof(text) - n, ":%s%s%s%s; ",
			      news & SCSI_PR_NEWS_PREEMPTED ? " preempted" : "",
			      news & SCSI_PR_NEWS_RELEASED ? " released" : "",
			      news & SCSI_PR_NEWS_UNREGISTERED ? " unregistered"
							       : "",
			      news & SCSI_PR_NEWS_ABORT ? " abort" : "");
	}
	return text;
}

static const char *state_text(const struct scsi_pr *pr)
{
	static char text[256];
	int n = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < pr->cnt; i++) {
		const struct scsi_pr_registration *reg = &pr->regs[i];

		n += snprintf(text + n, sizeof(text) - n, "%s", i ? " " : "");
		n += nexus_text(text + n, sizeof(text) - n, &reg->nexus);
		n += snprintf(text + n, sizeof(text) - n, "=%llu%s",
			      (unsigned long long)reg->key,
			      scsi_pr_is_holder(pr, &reg->nexus) ? "*" : "");
	}
	snprintf(text + n, sizeof(text) - n, "; gen %u; type %u%s",
		 pr->generation, pr->type, pr->aptpl ? "; aptpl" : "");
	return text;
}

T_ROWS(history, rows)
{
	const struct row *row = *state;
	const struct scsi_pr_unit unit = { or_first(row->target_ports), true,
					   true };
	struct scsi_pr pr = { 0 };
	struct scsi_pr_effects effects = { 0 };
	const char *got = NULL;

	for (size_t i = 0; i < 8 && row->steps[i].who; i++) {
		if (got)
			assert_string_equal(got, "good");
		got = run_step(&pr, &row->steps[i], &unit, &effects);
	}
	assert_string_equal(got, row->outcome ? row->outcome : "good");
	assert_string_equal(effects_text(&effects),
			    row->effects ? row->effects : "");
	assert_string_equal(state_text(&pr), row->state);
}

/* ---- limits ---- */

static const struct scsi_pr_unit plain = { 1, true, true };

static struct scsi_pr_nexus numbered_nexus(unsigned int n)
{
	return (struct scsi_pr_nexus){ srp_port_id_make(0x2000, n),
				       SCSI_PR_TARGET_PORT };
}

static void fill(struct scsi_pr *pr)
{
	struct scsi_pr_effects effects;
	struct scsi_sense sense;

	for (unsigned int i = 0; i < SCSI_PR_MAX; i++) {
		struct scsi_pr_nexus nexus = numbered_nexus(i);
		struct scsi_pr_request req = { .action = SCSI_PR_REGISTER,
					       .action_key = i + 1,
					       .target_ports = 1 };

		assert_int_equal(
			scsi_pr_execute(pr, &nexus, &req, &effects, &sense), 0);
	}
}

T_TEST(one_registration_too_many_is_refused)
{
	struct step step = REG('A', 1);
	struct scsi_pr_effects effects;
	struct scsi_pr pr = { 0 };

	fill(&pr);
	assert_string_equal(run_step(&pr, &step, &plain, &effects), "05/55/04");
	assert_int_equal(pr.cnt, SCSI_PR_MAX);
	assert_int_equal(pr.generation, SCSI_PR_MAX);
}

T_TEST(others_that_do_not_fit_leave_none_registered)
{
	struct step step = { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x08, "BC" };
	struct scsi_pr_effects effects;
	struct scsi_pr pr = { 0 };
	struct scsi_pr_nexus a = { port_of('A'), SCSI_PR_TARGET_PORT };

	fill(&pr);
	pr.cnt -= 2;
	assert_string_equal(run_step(&pr, &step, &plain, &effects), "05/55/04");
	assert_int_equal(pr.cnt, SCSI_PR_MAX - 2);
	assert_null(scsi_pr_find(&pr, &a));
}

/* What a principal registers for other ports is counted as its own, and not as theirs. */
T_TEST(registrations_for_others_are_counted_too)
{
	static uint8_t ids[96 * SCSI_PR_TRANSPORT_ID_LEN];
	struct scsi_pr_request req = { .action = SCSI_PR_REGISTER,
				       .action_key = 1,
				       .spec_i_pt = true,
				       .target_ports = 1,
				       .reserve = SCSI_PR_MAX - 96,
				       .ports = ids,
				       .port_cnt = 96 };
	struct scsi_pr_nexus greedy = numbered_nexus(200);
	struct scsi_pr_nexus other = numbered_nexus(201);
	struct scsi_pr_effects effects;
	struct scsi_sense sense;
	struct scsi_pr pr = { 0 };

	greedy.principal = 7;
	other.principal = 8;
	for (unsigned int i = 0; i < 96; i++) {
		struct srp_port_id port = numbered_nexus(i).port;

		scsi_pr_transport_id_encode(
			&port, ids + (size_t)i * SCSI_PR_TRANSPORT_ID_LEN);
	}
	assert_int_equal(scsi_pr_execute(&pr, &greedy, &req, &effects, &sense),
			 -EINVAL);
	req.port_cnt--;
	assert_int_equal(scsi_pr_execute(&pr, &greedy, &req, &effects, &sense),
			 0);
	assert_int_equal(pr.cnt, 96);
	req.spec_i_pt = false;
	req.port_cnt = 0;
	assert_int_equal(scsi_pr_execute(&pr, &other, &req, &effects, &sense),
			 0);
}

T_TEST(everyone_can_be_told_at_once)
{
	struct scsi_pr_request req = { .action = SCSI_PR_CLEAR, .key = 1 };
	struct scsi_pr_nexus from = numbered_nexus(0);
	struct scsi_pr_effects effects;
	struct scsi_sense sense;
	struct scsi_pr pr = { 0 };

	fill(&pr);
	assert_int_equal(scsi_pr_execute(&pr, &from, &req, &effects, &sense),
			 0);
	assert_int_equal(effects.cnt, SCSI_PR_MAX - 1);
	assert_int_equal(pr.cnt, 0);
}

/* ---- parameter lists ---- */

static const struct list_row {
	const char *name;
	enum scsi_pr_out action;
	const char *list;
	bool no_aptpl;
	const char *outcome;
} list_rows[] = {
	{ "nothing", SCSI_PR_REGISTER, "", .outcome = "05/1a/00" },
	{ "one byte short", SCSI_PR_REGISTER, "00*23", .outcome = "05/1a/00" },
	{ "just right", SCSI_PR_REGISTER, "00*24" },
	{ "one byte long", SCSI_PR_REGISTER, "00*25", .outcome = "05/1a/00" },
	{ "RESERVE, one byte long", SCSI_PR_RESERVE, "00*25",
	  .outcome = "05/1a/00" },
	{ "RESERVE with SPEC_I_PT", SCSI_PR_RESERVE, "00*20 08 00*3",
	  .outcome = "05/26/00 data 20.3" },
	{ "RESERVE ignores APTPL", SCSI_PR_RESERVE, "00*20 01 00*3",
	  .no_aptpl = true },
	{ "SPEC_I_PT without a length", SCSI_PR_REGISTER, "00*20 08 00*3",
	  .outcome = "05/1a/00" },
	{ "SPEC_I_PT of none", SCSI_PR_REGISTER, "00*20 08 00*3 00*4" },
	{ "SPEC_I_PT of one", SCSI_PR_REGISTER,
	  "00*20 08 00*3 00 00 00 18 04 00*23" },
	{ "SPEC_I_PT, length says more", SCSI_PR_REGISTER,
	  "00*20 08 00*3 00 00 00 30 04 00*23", .outcome = "05/1a/00" },
	{ "SPEC_I_PT, length says less", SCSI_PR_REGISTER,
	  "00*20 08 00*3 00 00 00 00 04 00*23", .outcome = "05/1a/00" },
	{ "SPEC_I_PT, length overflows", SCSI_PR_REGISTER,
	  "00*20 08 00*3 ff ff ff fc 04 00*23", .outcome = "05/1a/00" },
	{ "SPEC_I_PT, half a TransportID", SCSI_PR_REGISTER,
	  "00*20 08 00*3 00 00 00 0c 04 00*11",
	  .outcome = "05/26/00 data 24.7" },
	{ "TransportID of another protocol", SCSI_PR_REGISTER,
	  "00*20 08 00*3 00 00 00 18 06 00*23",
	  .outcome = "05/26/00 data 28.3" },
	{ "TransportID of another format", SCSI_PR_REGISTER,
	  "00*20 08 00*3 00 00 00 18 44 00*23",
	  .outcome = "05/26/00 data 28.7" },
	{ "TransportID, the second is wrong", SCSI_PR_REGISTER,
	  "00*20 08 00*3 00 00 00 30 04 00*23 04 00 01 00*21",
	  .outcome = "05/26/00 data 54" },
	{ "APTPL where nothing survives", SCSI_PR_REGISTER, "00*20 01 00*3",
	  .no_aptpl = true, .outcome = "05/26/00 data 20.0" },
	{ "MOVE, no TransportID", SCSI_PR_REGISTER_AND_MOVE, "00*18 00 01 00*4",
	  .outcome = "05/26/00 data 20.7" },
	{ "MOVE", SCSI_PR_REGISTER_AND_MOVE,
	  "00*18 00 01 00 00 00 18 04 00*23" },
	{ "MOVE, length says more", SCSI_PR_REGISTER_AND_MOVE,
	  "00*18 00 01 00 00 00 19 04 00*23", .outcome = "05/1a/00" },
	{ "MOVE through another port", SCSI_PR_REGISTER_AND_MOVE,
	  "00*18 00 02 00 00 00 18 04 00*23", .outcome = "05/26/00 data 18.7" },
	{ "MOVE with APTPL where nothing survives", SCSI_PR_REGISTER_AND_MOVE,
	  "00*17 01 00 01 00 00 00 18 04 00*23", .no_aptpl = true,
	  .outcome = "05/26/00 data 17.0" },
};

T_ROWS(parameter_list, list_rows)
{
	const struct list_row *row = *state;
	struct t_bytes b = t_bytes(row->list);
	const struct scsi_pr_unit unit = { 1, !row->no_aptpl, true };
	struct scsi_pr_request req;
	struct scsi_sense sense;
	int err = scsi_pr_out_decode(row->action, 0, 1, b.p, b.len, &unit, &req,
				     &sense);

	assert_string_equal(err ? sense_text(&sense) : "good",
			    row->outcome ? row->outcome : "good");
	free(b.p);
}

/* ---- PERSISTENT RESERVE IN ---- */

static const struct in_row {
	const char *name;
	enum scsi_pr_in action;
	struct step steps[8];
	bool no_aptpl;
	const char *want;
	uint16_t target_ports; /* 0: 1 */
	bool no_reserve;
} in_rows[] = {
	{ "no keys", SCSI_PR_READ_KEYS, .want = "00*8" },
	{ "keys",
	  SCSI_PR_READ_KEYS,
	  { REG('A', 1), REG('B', 2) },
	  .want = "00 00 00 02 00 00 00 10 00*7 01 00*7 02" },
	{ "no reservation",
	  SCSI_PR_READ_RESERVATION,
	  { REG('A', 1) },
	  .want = "00 00 00 01 00 00 00 00" },
	{ "a reservation",
	  SCSI_PR_READ_RESERVATION,
	  { REG('A', 1), REG('B', 2), RES('B', 2, EA) },
	  .want = "00 00 00 02 00 00 00 10 00*7 02 00*5 03 00 00" },
	{ "a reservation of all registrants",
	  SCSI_PR_READ_RESERVATION,
	  { REG('A', 1), REG('B', 2), RES('B', 2, EAAR) },
	  .want = "00 00 00 02 00 00 00 10 00*8 00*5 08 00 00" },
	{ "capabilities",
	  SCSI_PR_REPORT_CAPABILITIES,
	  { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x01 } },
	  .want = "00 08 1d 81 ea 01 00 00" },
	{ "capabilities where nothing survives", SCSI_PR_REPORT_CAPABILITIES,
	  .no_aptpl = true, .want = "00 08 1c 80 ea 01 00 00" },
	{ "capabilities without RESERVE", SCSI_PR_REPORT_CAPABILITIES,
	  .no_reserve = true, .want = "00 08 0d 80 ea 01 00 00" },
	{ "full status of two target ports",
	  SCSI_PR_READ_FULL_STATUS,
	  { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x04, .via = 2 } },
	  .target_ports = 2,
	  .want = "00 00 00 01 00 00 00 60 "
		  "00*7 01 00*4 00 00 00*4 00 01 00 00 00 18 "
		  "04 00*7 00*6 10 00 00*7 41 "
		  "00*7 01 00*4 00 00 00*4 00 02 00 00 00 18 "
		  "04 00*7 00*6 10 00 00*7 41" },
	{ "full status",
	  SCSI_PR_READ_FULL_STATUS,
	  { { 'A', SCSI_PR_REGISTER, 0, 1, 0, 0x04 },
	    REG('B', 2),
	    RES('B', 2, WERO) },
	  .want = "00 00 00 02 00 00 00 60 "
		  "00*7 01 00*4 02 00 00*4 00 01 00 00 00 18 "
		  "04 00*7 00*6 10 00 00*7 41 "
		  "00*7 02 00*4 01 05 00*4 00 01 00 00 00 18 "
		  "04 00*7 00*6 10 00 00*7 42" },
};

T_ROWS(reserve_in, in_rows)
{
	const struct in_row *row = *state;
	const struct scsi_pr_unit unit = { or_first(row->target_ports),
					   !row->no_aptpl, !row->no_reserve };
	struct scsi_pr pr = { 0 };
	struct scsi_pr_effects effects;
	uint8_t buf[256], few[11];
	size_t len;

	for (size_t i = 0; i < 8 && row->steps[i].who; i++)
		assert_string_equal(
			run_step(&pr, &row->steps[i], &unit, &effects), "good");
	len = scsi_pr_in_encode(&pr, row->action, &unit, buf, sizeof(buf));
	t_assert_bytes(buf, len, row->want);
	/* The answer is cut at the end of the buffer, with the same length
	 * field. */
	memset(few, 0xee, sizeof(few));
	assert_int_equal(scsi_pr_in_encode(&pr, row->action, &unit, few, 10),
			 len);
	assert_memory_equal(few, buf, len < 10 ? len : 10);
	assert_int_equal(few[10], 0xee);
}
