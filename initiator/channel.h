/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One channel of a session: a connection with its credits, and a slot for each
 * command that can be in flight. Thread: that of the session.
 *
 * A slot is free again only when its SEND has completed *and* its response has
 * arrived (either may come first). Only then is the command done: before, the
 * fabric may still read its buffer. When the channel ends, the commands in its
 * slots are done after the fabric no longer uses any memory.
 */
#ifndef INITIATOR_CHANNEL_H
#define INITIATOR_CHANNEL_H

#include "initiator/command.h"
#include "protocol/srp_credit.h"
#include "protocol/srp_login.h"
#include "transport/xport.h"

enum ini_channel_state {
	INI_CHANNEL_LOGIN,   /* connecting; SRP_LOGIN_REQ was sent */
	INI_CHANNEL_RUNNING, /* SRP_LOGIN_RSP accepted */
	INI_CHANNEL_CLOSING, /* xp_close() or a failure; the slots are
			      * drained */
	INI_CHANNEL_CLOSED,  /* nothing is in flight; every command was given
			      * back */
};

struct ini_slot {
	/* The SEND of the IU. Its done(), and address and registration of the
	 * IU, are constant. */
	struct xp_chain chain;
	struct ini_channel *channel;
	struct ini_cmd *cmd; /* NULL: free */
	struct ini_slot *next_free;
	uint8_t *iu;
	uint16_t index;
	/* Of the next command, or of that in flight. The low half is the index,
	 * the high half a generation, to detect a stale answer. */
	uint64_t tag;
	bool sending;  /* the SEND has not completed */
	bool answered; /* SRP_RSP has arrived */
	int err;       /* result of the answer */
};

/*
 * An answer to a request of the target (SRP_CRED_RSP, SRP_AER_RSP). The target
 * has one open request of each kind. But the next request may arrive before the
 * SEND of the last answer has completed here.
 */
#define INI_REPLIES 4u

struct ini_reply {
	struct xp_chain chain;
	uint8_t *iu;
	bool sending;
};

/* Events that a channel reports to its session. */
struct ini_channel_events {
	/* The channel is logged in. */
	void (*running)(struct ini_channel *ch);
	/* A slot or a credit is free again. */
	void (*ready)(struct ini_channel *ch);
	/* @cmd has its answer (@err as in ini_cmd.done, before retries). */
	void (*answered)(struct ini_channel *ch, struct ini_cmd *cmd, int err);
	/* The target has sent an event of its own about LUN @lun (as on the
	 * wire). */
	void (*attention)(struct ini_channel *ch, uint64_t lun,
			  const struct scsi_sense *sense);
	/* The channel has ended, or its login has failed: see ch->why. lost()
	 * was called for the commands without an answer before. */
	void (*lost)(struct ini_channel *ch, struct ini_cmd *cmd);
	void (*closed)(struct ini_channel *ch);
};

struct ini_channel {
	enum ini_channel_state state;
	bool logged_in; /* it has been RUNNING */
	const struct ini_channel_events *events;
	void *user;
	struct xp_chan *xp;
	struct srp_credit credit;
	struct srp_login_req login;
	struct srp_login_rsp granted;
	uint32_t imm_max; /* bytes of data that fit into an IU; 0: none */
	struct ini_slot *slots;
	unsigned int slot_cnt;
	struct ini_slot *free_slots;
	unsigned int busy;   /* slots in use */
	uint64_t busy_bytes; /* bytes of the buffers of their commands */
	struct ini_reply replies[INI_REPLIES];
	uint8_t *block; /* IUs of slots and replies, registered */
	size_t block_len;
	struct xp_mr *block_mr;
	uint8_t *params; /* of slots: parameter lists and short answers */
	struct xp_mr *params_mr;
	struct error why;
};

struct ini_channel_params {
	const struct sockaddr *addr;
	socklen_t addr_len;
	const struct xp_route *route; /* what the URI demands */
	const struct xp_key *key;     /* NULL: plain */
	struct srp_login_req login;
	unsigned int depth; /* slots */
	/* The first generation of the tags of the slots. It differs from that of
	 * any former channel, so that answers to commands of those are
	 * detected. */
	uint32_t generation;
	unsigned int timeout_ms;
	const struct ini_channel_events *events;
	void *user;
};

/*
 * Begins connecting and logging in; running() or closed() follows. @p is needed
 * for the call only. Return: 0, or a negative errno with @e; then neither
 * follows.
 */
int ini_channel_open(struct xp *xp, const struct ini_channel_params *p,
		     struct ini_channel **ret_ch, struct error *e);

/* Ends the channel; closed() follows. */
void ini_channel_close(struct ini_channel *ch);

/* Ends the channel for the reason @text, which becomes ch->why. */
void ini_channel_fail(struct ini_channel *ch, int err, const char *text);

/* After closed(): true if the target answered the login with SRP_LOGIN_REJ. */
bool ini_channel_rejected(const struct ini_channel *ch,
			  struct srp_login_rej *ret_rej);

/* Call it after closed(). NULL does nothing. */
void ini_channel_free(struct ini_channel *ch);

/* True if a command can be sent now: the channel is running, and has a free
 * slot and a credit. */
static inline bool ini_channel_can_send(const struct ini_channel *ch)
{
	return ch->state == INI_CHANNEL_RUNNING && ch->free_slots &&
	       srp_credit_may_cmd(&ch->credit);
}

/* The command in flight that was sent first, and is no question: those have their own
 * limit, or nobody waits for them. NULL: there is none. */
struct ini_cmd *ini_channel_oldest(const struct ini_channel *ch);

/* Has a command of LUN @lun, sent before number @sent_no, no answer yet? Or has
 * any other one an answer that answered() has not told? */
bool ini_channel_sent_before(const struct ini_channel *ch, uint64_t lun,
			     uint64_t sent_no);

/* Sends @cmd, if ini_channel_can_send(). answered() or lost() gives it back. */
void ini_channel_send(struct ini_channel *ch, struct ini_cmd *cmd);

#endif
