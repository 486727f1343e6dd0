/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The session: one I_T nexus with its channels, the commands that wait for
 * one, and the volumes that were found. Thread: the context's.
 *
 *   CONNECTING  the first channel logs in (SINGLE), then discovery asks the
 *               target for its volumes, then the other channels log in (MULTI)
 *   RUNNING     I/O
 *   LOST        a channel broke: every command in flight has failed, no new
 *               one is taken
 *   CLOSED      srpi_close(), or connecting failed
 *
 * session_enter() in session.c is the one door.
 */
#ifndef INITIATOR_SESSION_H
#define INITIATOR_SESSION_H

#include <netdb.h>

#include "initiator/channel.h"
#include "initiator/ctx.h"
#include "protocol/srp_uri.h"

#define INI_CHANNELS_MAX 16

struct ini_volume {
	struct srpi_volume_info info;
	uint64_t lun_field;	   /* as REPORT LUNS gave it */
	uint32_t max_unmap_blocks; /* per command; 0: no UNMAP */
	uint32_t max_write_same_blocks;
	bool unmap_by_write_same; /* LBPWS without LBPU */
	bool write_same_unmap;	  /* LBPWS and LBPRZ */
	bool no_write_same;	  /* the target refused it */
	bool cache_unknown;	  /* not told; write_cache says the worse */
	bool no_lba_status;
};

struct srpi_mem {
	struct srpi_session *session;
	struct xp_mr *mr;
};

struct srpi_session {
	struct srpi_ctx *ctx;
	enum srpi_state state;
	struct srp_uri uri;
	struct srpi_options options;
	struct srp_port_id initiator;

	struct addrinfo *addrs; /* of the host */
	struct addrinfo *addr;	/* that is being tried, then used */
	enum xp_kind kind;
	char why[320]; /* why this transport */
	struct xp *xp;

	struct ini_channel *channels[INI_CHANNELS_MAX];
	unsigned int channel_cnt; /* entries of channels[], closed ones too */
	unsigned int next_channel;

	struct list waiting; /* commands without a slot */
	struct list undone;  /* commands that were refused at once */
	struct list retry;   /* commands for a busy unit */
	struct reactor_timer retry_timer;
	struct reactor_timer answer_timer; /* discovery's, for one answer */
	struct reactor_msg undone_msg;
	bool undone_sent;
	struct reactor_msg start_msg; /* runs the first connect */
	bool started;
	unsigned int cmds; /* submitted, not done */

	struct ini_volume *volumes;
	unsigned int volume_cnt;
	struct ini_discovery *discovery;

	uint8_t *zeroes; /* the source of WRITE SAME and zero writes */
	struct srpi_mem *zeroes_mem;

	void (*connected)(struct srpi_session *s, const struct srpi_error *e,
			  void *arg);
	void *connected_arg;
	void (*closed)(void *arg);
	void *closed_arg;
	bool closing;
	struct srpi_error error; /* the first thing that went wrong */
};

#define INI_ZEROES_LEN 65536u

/* Sends @cmd on a channel as soon as one has room; cmd->done() follows, never
 * from within. */
void ini_session_submit(struct srpi_session *s, struct ini_cmd *cmd);

/* Completes @cmd with @err, not from within. */
void ini_session_refuse(struct srpi_session *s, struct ini_cmd *cmd, int err);

/* The connect fails if this is not called again within the time it may take:
 * discovery has asked something. */
void ini_session_await_answer(struct srpi_session *s);

/* ---- what went wrong, for a person (session_text.c); sets s->error ---- */

/* @ch: may be NULL. Returns true when the target has rejected the login. */
bool ini_say_no_login(struct srpi_session *s, const struct ini_channel *ch,
		      const struct xp_error *why);
void ini_say_lost(struct srpi_session *s, const struct ini_channel *ch);
void ini_say_no_answer(struct srpi_session *s);
/* @what was asked of LUN @lun and answered with @err and maybe @sense. */
void ini_say_no_volumes(struct srpi_session *s, int err, const char *what,
			uint32_t lun, const struct scsi_sense *sense);

/* ---- discovery (discover.c) ---- */

/*
 * Asks the target for its LUNs and what they are; fills in volumes[]. @done is
 * called once: with 0; with -ECANCELED when the channel has gone; or with
 * another errno when s->error names the command and the LUN.
 */
int ini_discover(struct srpi_session *s,
		 void (*done)(struct srpi_session *s, int err),
		 struct srpi_error *e);
/* Frees what discovery holds; NULL in the session is fine. */
void ini_discovery_free(struct srpi_session *s);
/* What it asked last, and of which LUN. */
const char *ini_discovery_asks(const struct srpi_session *s, uint32_t *ret_lun);

#endif
