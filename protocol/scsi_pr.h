/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent reservations (SPC-4 5.12, PERSISTENT RESERVE IN and OUT). The
 * registrations and the reservation of a logical unit are one plain value. The
 * functions here apply a service action to it, say which other ports are
 * affected, and read and write parameter data. A refused service action leaves
 * the value unchanged.
 *
 * A registration is one of an I_T nexus: an initiator port and a target port.
 * The target ports of a unit have the numbers 1 and up. Initiator ports with the same
 * identifier are different ones if they are of two principals, that is, if something
 * better than the identifier says so.
 *
 * Thread: any, for every function here. Threads that share a value must lock
 * it.
 */
#ifndef PROTOCOL_SCSI_PR_H
#define PROTOCOL_SCSI_PR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/scsi_sense.h"
#include "protocol/srp_login.h"

/* Most registrations of one logical unit. One more is refused with 05/55/04. */
#define SCSI_PR_MAX 128

/* Relative target port identifier of a unit's only target port. */
#define SCSI_PR_TARGET_PORT 1

/* TransportID of an SRP initiator port (SPC-4, TransportID for SRP). */
#define SCSI_PR_TRANSPORT_ID_LEN 24

/* The parameter list of PERSISTENT RESERVE OUT, and the longest list that is
 * accepted: it has one TransportID more than there can be registrations.
 * Bytes. */
#define SCSI_PR_OUT_LEN 24
#define SCSI_PR_OUT_MAX \
	(SCSI_PR_OUT_LEN + 4 + (SCSI_PR_MAX + 1) * SCSI_PR_TRANSPORT_ID_LEN)

enum scsi_pr_type {
	SCSI_PR_NONE = 0, /* no reservation */
	SCSI_PR_WRITE_EXCLUSIVE = 1,
	SCSI_PR_EXCLUSIVE_ACCESS = 3,
	SCSI_PR_WRITE_EXCLUSIVE_RO = 5, /* registrants only */
	SCSI_PR_EXCLUSIVE_ACCESS_RO = 6,
	SCSI_PR_WRITE_EXCLUSIVE_AR = 7, /* all registrants */
	SCSI_PR_EXCLUSIVE_ACCESS_AR = 8,
};

/* Service actions of PERSISTENT RESERVE IN ... */
enum scsi_pr_in {
	SCSI_PR_READ_KEYS = 0,
	SCSI_PR_READ_RESERVATION = 1,
	SCSI_PR_REPORT_CAPABILITIES = 2,
	SCSI_PR_READ_FULL_STATUS = 3,
};

/* ... and OUT. */
enum scsi_pr_out {
	SCSI_PR_REGISTER = 0,
	SCSI_PR_RESERVE = 1,
	SCSI_PR_RELEASE = 2,
	SCSI_PR_CLEAR = 3,
	SCSI_PR_PREEMPT = 4,
	SCSI_PR_PREEMPT_AND_ABORT = 5,
	SCSI_PR_REGISTER_AND_IGNORE = 6,
	SCSI_PR_REGISTER_AND_MOVE = 7,
};

/* An I_T nexus. */
struct scsi_pr_nexus {
	struct srp_port_id port; /* of the initiator */
	uint16_t target_port;	 /* relative target port identifier */
	/* Of the initiator. 0: only the identifier is known, as of one that another
	 * nexus has registered; whoever has the identifier is meant. */
	uint64_t principal;
};

static inline bool scsi_pr_principal_fits(uint64_t a, uint64_t b)
{
	return a == b || !a || !b;
}

static inline bool scsi_pr_nexus_equal(const struct scsi_pr_nexus *a,
				       const struct scsi_pr_nexus *b)
{
	return a->target_port == b->target_port &&
	       srp_port_id_equal(&a->port, &b->port) &&
	       scsi_pr_principal_fits(a->principal, b->principal);
}

struct scsi_pr_registration {
	struct scsi_pr_nexus nexus;
	uint64_t registrar; /* the principal that made it; 0: not known */
	uint64_t key;	    /* never 0 */
	bool all_ports;	    /* ALL_TG_PT; only of units with one target port */
};

/* What a unit is, as far as it matters here. */
struct scsi_pr_unit {
	uint16_t target_ports; /* 1 and up */
	bool can_aptpl;	  /* there is a place that survives a loss of power */
	bool has_reserve; /* RESERVE and RELEASE of SPC-2, too */
	/* Registrations that one principal leaves to others. Those that it has made for
	 * other ports are its own. */
	uint16_t reserve;
};

/* All zero: no port is registered. */
struct scsi_pr {
	uint32_t generation; /* PRGENERATION, 0 at every start */
	bool aptpl;	     /* survives a loss of power */
	uint8_t type;	     /* enum scsi_pr_type */
	/* The holder, if the type is not for all registrants. */
	uint16_t holder;
	uint16_t cnt;
	struct scsi_pr_registration regs[SCSI_PR_MAX];
};

/* A PERSISTENT RESERVE OUT, decoded. */
struct scsi_pr_request {
	enum scsi_pr_out action;
	uint8_t scope;
	uint8_t type;
	uint64_t key;	     /* RESERVATION KEY */
	uint64_t action_key; /* SERVICE ACTION RESERVATION KEY */
	bool spec_i_pt;
	bool all_tg_pt;
	bool aptpl;
	bool unreg;	       /* REGISTER AND MOVE */
	uint16_t target_port;  /* of REGISTER AND MOVE */
	uint16_t target_ports; /* that the unit has */
	uint16_t reserve;      /* of the unit, too */
	/* TransportIDs: SPEC_I_PT's, or the one of REGISTER AND MOVE. */
	const uint8_t *ports; /* borrowed from the parameter list */
	uint16_t port_cnt;
};

/* What happens to another I_T nexus, or what it is told. */
enum scsi_pr_news {
	SCSI_PR_NEWS_PREEMPTED = 1 << 0,    /* 2Ah/03h */
	SCSI_PR_NEWS_RELEASED = 1 << 1,	    /* 2Ah/04h */
	SCSI_PR_NEWS_UNREGISTERED = 1 << 2, /* 2Ah/05h */
	SCSI_PR_NEWS_ABORT = 1 << 3,	    /* its commands are aborted */
};

struct scsi_pr_effect {
	struct scsi_pr_nexus nexus;
	uint8_t news; /* enum scsi_pr_news */
};

struct scsi_pr_effects {
	uint16_t cnt;
	struct scsi_pr_effect to[SCSI_PR_MAX];
};

/**
 * scsi_pr_out_decode() - check PERSISTENT RESERVE OUT's parameter list
 * @action, @scope, @type: of the CDB
 * @buf, @len: as long as PARAMETER LIST LENGTH said
 *
 * Return: 0, or -EINVAL with 05/1A/00 (a length does not fit) or 05/26/00
 *   (a field, with its place).
 */
int scsi_pr_out_decode(enum scsi_pr_out action, uint8_t scope, uint8_t type,
		       const void *buf, size_t len,
		       const struct scsi_pr_unit *unit,
		       struct scsi_pr_request *ret_req,
		       struct scsi_sense *ret_sense);

/**
 * scsi_pr_execute() - a service action, by the rules
 * @pr:		changed on success only
 * @from:	who asks
 * @ret_effects: whom it concerns besides @from, each once
 *
 * Return: 0; -EBUSY: status RESERVATION CONFLICT; -EINVAL: CHECK CONDITION
 *   with @ret_sense.
 */
int scsi_pr_execute(struct scsi_pr *pr, const struct scsi_pr_nexus *from,
		    const struct scsi_pr_request *req,
		    struct scsi_pr_effects *ret_effects,
		    struct scsi_sense *ret_sense);

/* Its registration, or NULL. */
const struct scsi_pr_registration *
scsi_pr_find(const struct scsi_pr *pr, const struct scsi_pr_nexus *nexus);

bool scsi_pr_is_holder(const struct scsi_pr *pr,
		       const struct scsi_pr_nexus *nexus);

/* True for types under which registrants have access although one port is the
 * holder. */
bool scsi_pr_type_spares_registrants(uint8_t type);

/* "write exclusive, registrants only"; NULL for a type that is none. */
const char *scsi_pr_type_name(uint8_t type);

/* PERSISTENT RESERVE IN: writes what fits, returns the full length. */
size_t scsi_pr_in_encode(const struct scsi_pr *pr, enum scsi_pr_in action,
			 const struct scsi_pr_unit *unit, void *buf,
			 size_t cap);

/* Fills SCSI_PR_TRANSPORT_ID_LEN bytes. */
void scsi_pr_transport_id_encode(const struct srp_port_id *port, uint8_t *buf);

#endif
