/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The session: one I_T nexus with its channels, its commands, and the volumes
 * that discovery has found. srp_initiator.h describes its states.
 * ini_session_enter() in session.c makes every change of state. Thread: that of
 * the context.
 *
 *   session.c       begin, states, end
 *   path.c          the addresses: their states, and which one is next
 *   key.c           what proves its name
 *   purpose.c       a port identifier that outlives the program
 *   connect.c       the first login: address and transport
 *   link.c          the channels: logins, discovery, end
 *   discover.c      the questions about volumes
 *   range.c         the order of writes that overlap
 *   queue.c         the commands: waiting, sent, held, sent again
 *   volumes.c       what is known of each volume, and what it may have lost
 *   properties.c    sizes and mode pages that change
 *   reconnect.c     each further login: times, and what follows from verify.c
 *   verify.c        whether the volumes are the same
 *   follow.c        volumes that come and go
 *   absent.c        volumes that are not there while the others are
 *   keep_alive.c    what a session without I/O notices
 *   session_text.c  errors, for a person
 */
#ifndef INITIATOR_SESSION_H
#define INITIATOR_SESSION_H

#include "initiator/channel.h"
#include "initiator/ctx.h"
#include "initiator/path.h"
#include "initiator/range.h"
#include "protocol/scsi_mode.h"
#include "protocol/scsi_vpd.h"
#include "transport/uri.h"

#define INI_CHANNELS_MAX 16

/*
 * What the channels do, and what ends each state. A channel that ends always
 * leads to DOWN (channel_closed(); for the first login connect.c and
 * reconnect.c do this). Where a target might never answer, a timer runs. Only
 * the end of a state stops its timer. When I/O begins to fail (fail_timer), the
 * link goes on as before.
 *
 *   state    ends by                        when the target does not answer, by
 *   DOWN     all channels have closed       the transport, which closes what it was
 *            (link_settle()), then the      told to close; then pause_timer, or
 *            pause is over                  loss_timer if reconnecting is off
 *            (reconnect_attempt())
 *   LOGIN    logged in; refused             the connect timeout of the transport
 *   ASKING   discovered; it failed          answer_timer, set by each question
 *   MORE     logged in, or refused, the     the connect timeout of the transport
 *            last channel
 *   UP       ini_link_look_again()          watch_timer (io_timeout_ms), while
 *                                           commands are in flight, or wait for
 *                                           credits
 */
enum ini_link {
	INI_LINK_DOWN,	 /* no channel, or all are ending */
	INI_LINK_LOGIN,	 /* the first one logs in (SINGLE) */
	INI_LINK_ASKING, /* discovery asks for the volumes */
	INI_LINK_MORE,	 /* the others log in, one by one (MULTI) */
	INI_LINK_UP,
};

/* The result of a question of discovery. */
enum ini_answer {
	INI_NOT_ASKED, /* the unit does not offer this question */
	INI_ANSWERED,
	INI_REFUSED, /* ILLEGAL REQUEST: the unit does not know the question */
	INI_FAILED,  /* another error or a malformed answer: nothing is known */
};

enum ini_question {
	INI_Q_INQUIRY,
	INI_Q_GROUPS,
	INI_Q_CAPACITY_16,
	INI_Q_CAPACITY_10,
	INI_Q_PAGES,
	INI_Q_SERIAL,
	INI_Q_IDS,
	INI_Q_LIMITS,
	INI_Q_ROTATION,
	INI_Q_PROVISIONING,
	INI_Q_STORE,
	INI_Q_MODES,
	INI_QUESTIONS,
};

/* What a volume reports about the target port that shows it. */
struct ini_access {
	bool is_standby; /* this port neither reads nor writes it */
	bool own_is_active;
	unsigned int group_cnt; /* target port groups; 0: not reported */
	unsigned int active_cnt;
	uint8_t port_len; /* the name of the port; 0: none */
	uint8_t port[SCSI_PORT_NAME_MAX];
};

struct ini_volume {
	unsigned int number; /* index in srpi_session.volumes */
	struct srpi_volume_info info;
	uint64_t lun_field;	   /* as REPORT LUNS gave it */
	uint8_t block_shift;	   /* info.block_size is 1 << block_shift */
	uint32_t max_unmap_blocks; /* per command; 0: no UNMAP */
	uint32_t max_write_same_blocks;
	uint64_t unmap_alignment; /* offset of a granule, bytes */
	bool unmap_by_write_same; /* LBPWS without LBPU */
	bool write_same_unmap;	  /* LBPWS and LBPRZ; it takes a granule */
	bool no_write_same;	  /* the target refused it */
	bool cache_unknown;	  /* not reported; write_cache is true */
	bool is_known; /* all questions that are needed have answers */
	bool no_lba_status;
	bool has_store; /* the target reports: */
	struct scsi_store store;
	struct ini_access access;
	uint8_t answers[INI_QUESTIONS]; /* enum ini_answer */

	/* ---- what survives the connection, see volumes.c ---- */

	/* Counts of writes that were acknowledged without FUA: all; those
	 * before the last good flush was submitted; those up to the last one
	 * that may have been in a cache. */
	uint64_t written;
	uint64_t flushed;
	uint64_t cached;
	uint64_t losses;      /* how often such writes may have been lost */
	uint64_t losses_told; /* those that a flush has reported by its
			       * failure */
	/* Seen since the volume was last RUNNING: the present nexus reported
	 * the loss of the former nexus and nothing else; or a reset, at any
	 * time. */
	bool saw_nexus_loss;
	bool saw_reset;
	bool is_used;  /* the program has submitted I/O to it */
	bool is_named; /* by the URI, at the first login */
	bool is_free;  /* LOST, and the program does not use its number */
	/*
	 * Its own state, beside that of the session: RUNNING; BLOCKED or FAIL_FAST
	 * while the target does not show it, or it cannot describe itself
	 * (absent.c); LOST when another disk is in its place, or it has left.
	 */
	enum srpi_state state;
	uint64_t absent_us; /* when it was first missed; 0: it is not */
	unsigned int home;  /* index of the address by which it was RUNNING */
	/* What must be read again. */
	bool capacity_changed;
	bool modes_changed;
	struct ini_ranges *ranges; /* of writes; freed with the volume */
};

struct srpi_mem {
	struct ini_xp *own; /* of the session, which may end first */
	struct xp_mr *mr;
};

/* The commands of a session, and where each of them waits (queue.c). */
struct ini_queue {
	struct list waiting; /* for a slot, by seq */
	struct list asked;   /* the same, discovery's only command */
	struct list retry;   /* for a busy unit, until retry_timer */
	struct list fenced;  /* for commands sent before, ini_cmd.fence */
	struct list held;    /* for a volume that is BLOCKED, by seq */
	struct list undone; /* refused at once: done() follows, by undone_msg */
	uint64_t next_seq;  /* of commands */
	uint64_t next_sent; /* of ini_cmd.sent_no */
	unsigned int cmds;  /* submitted, not done */
	struct reactor_timer retry_timer;
	/* While commands are in flight, or wait for credits. */
	struct reactor_timer watch_timer;
	bool watching;
	/* Since then, none is in flight, and some wait for credits; 0: not so. */
	uint64_t starved_us;
	struct reactor_msg undone_msg;
	bool undone_sent;
};

/* The current outage, or the last one (reconnect.c). */
struct ini_reconnect {
	struct reactor_timer fail_timer;  /* fast_io_fail_ms */
	struct reactor_timer loss_timer;  /* dev_loss_ms */
	struct reactor_timer pause_timer; /* before the next attempt */
	unsigned int pause_ms;		  /* the next one, before jitter */
	unsigned int login_timeout_ms;	  /* of the next login */
	uint32_t jitter;		  /* state of the random numbers */
	uint64_t down_us;		  /* when the connection was lost */
	uint64_t up_us;			  /* when it last came up */
	/* An operation was answered since, and not only a sign of life. Until
	 * then another loss belongs to the same outage: a target that breaks each
	 * connection must not hold I/O for ever. */
	bool has_served;
	bool lost_writes; /* with the last connection, maybe */
	bool again;	  /* the next attempt is by this address, and soon */
	/* The target is to have another nexus for us than before; and logins
	 * for that which it took for a replacement of the old one. */
	bool needs_nexus;
	unsigned int replaced_cnt;
};

/* Questions to the volumes from time to time (keep_alive.c). */
struct ini_keep_alive {
	struct reactor_timer timer; /* while RUNNING */
	struct ini_cmd cmd;
	bool asking;	   /* cmd is in progress */
	unsigned int next; /* number of the volume to ask */
};

/* Looks for the volumes that are absent (absent.c). */
struct ini_absent {
	struct reactor_timer timer; /* while RUNNING, and one is absent */
	unsigned int pause_ms;
};

/* The current connection, or the last: for a person. */
struct ini_connection {
	char local[64];
	char peer[64];
	char device[64];
	struct xp_negotiated negotiated; /* on the first channel */
	char gid[XP_GID_TEXT_SIZE];
	bool immediate_data;
	char fewer[192];	/* why fewer channels; "": as many as wanted */
	unsigned int up_cnt;	/* channels */
	unsigned int in_flight; /* commands at most */
};

/* One for each address of the URI. */
#define INI_PURPOSE_LOCKS 16

/* What a session has locked, see purpose.c. */
struct ini_purpose {
	struct list node;
	int dir; /* -1: there are no locks */
	struct {
		int fd;
		char name[sizeof("initiator-") + SRPI_PORT_SIZE];
	} locks[INI_PURPOSE_LOCKS];
	unsigned int lock_cnt;
	pid_t owner;	 /* of a lock that was not to be had */
	char fault[384]; /* as srpi_session_info() reports it */
};

struct srpi_session {
	struct srpi_ctx *ctx;
	enum srpi_state state;
	struct xp_uri uri;
	struct srpi_options options;
	struct srp_port_id initiator;
	struct xp_key *key; /* what proves our name; NULL: none */
	struct ini_purpose purpose;

	struct ini_paths paths;
	/* Of the first login, see connect.c. */
	unsigned int
		stale_cnt; /* attempts that met an old connection, in a row */
	bool unroutable;   /* an address, by this transport */
	enum xp_kind kind;
	char why[320];	    /* why this transport */
	struct ini_xp *own; /* transport, NULL: none yet */
	struct xp *xp;	    /* of it */

	enum ini_link link;
	bool look_again;     /* as soon as the link is up */
	bool looking;	     /* while the connection stays up */
	unsigned int passes; /* of discovery, since login or attention */
	struct ini_channel *channels[INI_CHANNELS_MAX];
	unsigned int channel_cnt; /* entries of channels[], closed ones too */
	uint32_t opened;	  /* channels, ever */
	struct reactor_timer answer_timer; /* discovery's, for one answer */

	struct ini_queue queue;
	struct ini_keep_alive keep_alive;
	struct ini_absent absent;
	struct ini_reconnect reconnect;
	struct ini_connection conn;
	struct srpi_session_stats stats;

	/* Each stays where it is until the session ends: programs keep pointers
	 * to what srpi_volume_info() returns. */
	struct ini_volume **volumes;
	unsigned int volume_cnt;
	unsigned int ranges; /* that the program has taken, not given back */
	struct ini_discovery *discovery;
	struct ini_properties *properties; /* NULL: never needed yet */

	uint8_t *zeroes; /* the source of WRITE SAME and zero writes */
	struct srpi_mem *zeroes_mem;

	struct error error;	/* the last thing that went wrong */
	struct error not_ready; /* the first unit that did not describe itself */
	struct error login_why;	      /* of the last login that failed */
	bool login_rejected;	      /* it was by SRP_LOGIN_REJ */
	uint32_t login_reason;	      /* of that reject */
	struct reactor_msg start_msg; /* runs the first connect */
	bool started;
	void (*connected)(struct srpi_session *s, const struct srpi_error *e,
			  void *arg);
	void *connected_arg;
	void (*closed)(void *arg);
	void *closed_arg;
	bool closing;
};

#define INI_ZEROES_LEN 65536u

/* ---- options.c ---- */

/* Replaces each 0 by the default. */
void ini_options_set_defaults(struct srpi_options *o);

/* The number of channels that a session over @kind wants. */
unsigned int ini_options_channels(const struct srpi_options *o,
				  enum xp_kind kind);

/* ---- session.c ---- */

void ini_session_enter(struct srpi_session *s, enum srpi_state state,
		       const struct error *why);
/* After srpi_close(): frees the session if nothing is in progress any more. */
void ini_session_free_if_idle(struct srpi_session *s);

/* srpi_mem_register(), also while connecting. */
int ini_mem_register(struct srpi_session *s, void *addr, size_t len,
		     struct srpi_mem **ret_mem, struct error *e);

/* ---- purpose.c ---- */

/* Sets s->initiator for what s->options.purpose says, or locks the one that the URI
 * names. May wait. Thread: setup. False: it is not locked; e->err is not 0 if another
 * session has the one that the URI names. */
bool ini_purpose_claim(struct srpi_session *s, struct error *e);
/* Lets other sessions have it. Again is fine. */
void ini_purpose_release(struct srpi_session *s);

/* ---- queue.c ---- */

void ini_queue_init(struct srpi_session *s);

/* Sends @cmd as soon as a channel has room. While the connection is lost,
 * @cmd waits. cmd->done() follows, never from within this call. */
void ini_session_submit(struct srpi_session *s, struct ini_cmd *cmd);

/* The same for a sign of life. */
void ini_session_probe(struct srpi_session *s, struct ini_cmd *cmd);

/* The same for discovery: -ECANCELED when the connection is lost. */
void ini_session_ask(struct srpi_session *s, struct ini_cmd *cmd);

/* After srpi_close(): frees the session in a later turn, if nothing is in progress
 * then. */
void ini_queue_end_soon(struct srpi_session *s);

/* Completes @cmd with @err, after this call has returned. */
void ini_session_refuse(struct srpi_session *s, struct ini_cmd *cmd, int err);

/* Sends the commands that wait, as far as channels have room. */
void ini_queue_send(struct srpi_session *s);
/* @v has another LUN now. */
void ini_queue_moved(struct srpi_session *s, const struct ini_volume *v);
/* Commands that wait for volumes that are FAIL_FAST or LOST fail. */
void ini_queue_refuse_unready(struct srpi_session *s);
/* States of volumes have changed: commands of those that are BLOCKED are held, and those
 * of RUNNING ones are not any more. */
void ini_queue_sort(struct srpi_session *s);
/* Questions that were not sent end with -ECANCELED. */
void ini_queue_drop_questions(struct srpi_session *s);
/* Commands that wait fail with @err. The question of discovery stays: it has
 * its own timer, and ends with the link. */
void ini_queue_refuse(struct srpi_session *s, int err);
/* All channels are gone: discovery's command fails with -ECANCELED. */
void ini_queue_down(struct srpi_session *s);
/* Checks whether fenced commands must still wait. */
void ini_queue_release_fenced(struct srpi_session *s);
/* As channel events. */
void ini_queue_answered(struct ini_channel *ch, struct ini_cmd *cmd, int err);
void ini_queue_lost(struct ini_channel *ch, struct ini_cmd *cmd);

/* ---- link.c ---- */

void ini_link_init(struct srpi_session *s);
/* Begins to log in to the present address over s->xp. After an error nothing
 * follows. Otherwise ini_connect_*() or ini_reconnect_*() get the result. */
int ini_link_begin(struct srpi_session *s, struct error *e);
/* Looks for the volumes that are absent; the others go on. */
void ini_link_look_aside(struct srpi_session *s);
/* Closes all channels. ini_reconnect_down() follows, maybe from within this
 * call. */
void ini_link_end(struct srpi_session *s);
/* Discovery has asked a question. The link fails unless an answer or another
 * question comes in time. */
void ini_session_await_answer(struct srpi_session *s);

/*
 * LUN @lun_field may be another unit now, as @sense says; @sense is NULL when a
 * property has changed. No command goes to any LUN until discovery has looked.
 * @asked: @sense answers a question of discovery.
 */
void ini_link_look_again(struct srpi_session *s, uint64_t lun_field,
			 const struct scsi_sense *sense, bool asked);

/* ---- volumes.c ---- */

/* Is @text the LUN of @v in decimal? */
bool ini_volume_has_number(const struct ini_volume *v, const char *text);

/* The volume that is not LOST and has that LUN, RUNNING before others; NULL: none. */
struct ini_volume *ini_volumes_find(struct srpi_session *s, uint64_t lun_field);
/* Makes a copy of @found the last volume of the session. 0 or -ENOMEM. */
int ini_volumes_add(struct srpi_session *s, const struct ini_volume *found);
/* Forgets all volumes. */
void ini_volumes_free(struct srpi_session *s);

/* LUN @lun_field has sent @sense about itself or an earlier command. @asked:
 * as the answer to a question of discovery. */
void ini_volume_attention(struct srpi_session *s, uint64_t lun_field,
			  const struct scsi_sense *sense, bool asked);
/* An outage begins: no loss has been reported yet. */
void ini_volume_forget_attentions(struct srpi_session *s);
/* A new nexus begins, which must report what was lost with the former one. */
void ini_volume_new_nexus(struct srpi_session *s);

void ini_volume_set_modes(struct ini_volume *v, const struct scsi_mode *mode);

/* A write without FUA was acknowledged. */
void ini_volume_written(struct ini_volume *v);

/* Are there writes that no flush has covered? */
static inline bool ini_volume_is_dirty(const struct ini_volume *v)
{
	return v->written > v->flushed;
}

/* A flush has succeeded that was submitted after @written writes. Return: 0,
 * or -EIO once for each loss that no flush has reported. */
int ini_volume_flushed(struct ini_volume *v, uint64_t written);

/* The target has taken @v away: it is FAIL_FAST. True: writes may be
 * lost. */
bool ini_volume_gone(struct ini_volume *v);
/* Volume @was was found again as @now. True: writes may be lost. */
bool ini_volume_back(struct ini_volume *was, const struct ini_volume *now);

void ini_volume_resize(struct srpi_session *s, struct ini_volume *v,
		       uint64_t size);
/* Tells the program if a property of @v but its size differs from @before. */
void ini_volume_tell_changes(struct srpi_session *s, const struct ini_volume *v,
			     const struct srpi_volume_info *before);

/* ---- properties.c ---- */

/* Asks for the size or the modes of @v, and reports a new size to the
 * program. */
void ini_properties_changed(struct srpi_session *s, struct ini_volume *v,
			    bool capacity, bool modes);
/* Is a question about @v in progress? */
bool ini_properties_ask(const struct srpi_session *s,
			const struct ini_volume *v);
/* NULL is fine. */
void ini_properties_free(struct ini_properties *p);

/* ---- keep_alive.c ---- */

void ini_keep_alive_init(struct srpi_session *s);
/* The session is RUNNING. */
void ini_keep_alive_start(struct srpi_session *s);
void ini_keep_alive_stop(struct srpi_session *s);
/* Is a question to @v in progress? */
bool ini_keep_alive_asks(const struct srpi_session *s,
			 const struct ini_volume *v);

/* ---- connect.c ---- */

/* Tries the present address, and those behind it. */
void ini_connect_begin(struct srpi_session *s);
void ini_connect_up(struct srpi_session *s);
/* @ch did not log in; it is freed. */
void ini_connect_refused(struct srpi_session *s, struct ini_channel *ch);
/* It logged in, then s->error happened. */
void ini_connect_failed(struct srpi_session *s);
/* Discovery has found s->volumes. False: they are in standby at this address,
 * and the attempt has failed. */
bool ini_connect_check(struct srpi_session *s);

/* ---- verify.c ---- */

/* What discovery has found of a volume by the present address. */
enum ini_check {
	INI_CHECK_SAME,
	INI_CHECK_GONE,	   /* it has left, now or before: the others go on */
	INI_CHECK_MISSING, /* not shown; it may appear later */
	INI_CHECK_UNKNOWN, /* a question had no answer */
	INI_CHECK_OTHER,   /* it is another volume */
	INI_CHECK_STANDBY, /* the same, as far as can be seen */
	INI_CHECK_UNSAFE,  /* the same, but of another target */
};

/*
 * Compares all volumes of the session with the @cnt that discovery has found,
 * before it changes what is known of any of them: another address may be tried
 * next. Return: INI_CHECK_SAME: the session can go on with one that it needs, or
 * needs none; what was found is now known of the volumes, and the others are absent.
 * Else s->error says why.
 */
enum ini_check ini_verify_volumes(struct srpi_session *s,
				  const struct ini_volume *found,
				  unsigned int cnt);
/* The same for those that are absent. */
void ini_verify_absent(struct srpi_session *s, const struct ini_volume *found,
		       unsigned int cnt);

/* ---- follow.c ---- */

/* Calls volume_event(). */
void ini_follow_tell(struct srpi_session *s, const struct ini_volume *v,
		     enum srpi_volume_event event, const char *why);
/* @v is LOST. ini_queue_refuse_unready() must follow. */
void ini_follow_lose(struct srpi_session *s, struct ini_volume *v,
		     const char *why);
/* @found is a new volume. Without memory, the program does not learn of it. */
void ini_follow_add(struct srpi_session *s, const struct ini_volume *found);

/* ---- absent.c ---- */

void ini_absent_init(struct srpi_session *s);
void ini_absent_stop(struct srpi_session *s);
/* The session is RUNNING. */
void ini_absent_start(struct srpi_session *s);
/* @v is not there, or cannot describe itself; s->error says why. */
void ini_absent_miss(struct srpi_session *s, struct ini_volume *v);
/* It is there again. @lost: writes may be lost. */
void ini_absent_found(struct srpi_session *s, const struct ini_volume *v,
		      bool lost);
/* Something tells that one may be there. */
void ini_absent_look_soon(struct srpi_session *s);
/* Has @v been missed for longer than a target needs to show it? */
bool ini_absent_waited(const struct srpi_session *s,
		       const struct ini_volume *v);

/* ---- reconnect.c ---- */

void ini_reconnect_init(struct srpi_session *s);
void ini_reconnect_stop(struct srpi_session *s);
/* @ch was lost while RUNNING. */
void ini_reconnect_lost(struct srpi_session *s, const struct ini_channel *ch);
/* All channels are closed and gone. */
void ini_reconnect_down(struct srpi_session *s);
void ini_reconnect_up(struct srpi_session *s);
/* A command of LUN @lun_field was answered with @sense: the present address is
 * in standby. The session goes to another one. */
void ini_reconnect_standby(struct srpi_session *s, uint64_t lun_field,
			   const struct scsi_sense *sense);
/* Discovery checks the volumes again over the present connection; s->error
 * says why. */
void ini_reconnect_look(struct srpi_session *s);
/* The target has answered the login of an attempt with @rsp. True: the session
 * must log in again. */
bool ini_reconnect_refuses(struct srpi_session *s,
			   const struct srp_login_rsp *rsp);
/* How long the login of an attempt may take, milliseconds. */
unsigned int ini_reconnect_login_timeout(const struct srpi_session *s);
/* An attempt has failed; s->error says why. @reason: an attempt with the
 * same reason as the one before is not reported. */
void ini_reconnect_failed(struct srpi_session *s, uint32_t reason);
/* Discovery has found the present volumes. False: they are not the volumes
 * of the session, and the attempt has failed or the session is LOST; or the
 * session logs in again. */
bool ini_reconnect_check(struct srpi_session *s);

/* ---- what went wrong, for a person (session_text.c); sets s->error ---- */

/* @ch: may be NULL. Returns true when the target has rejected the login. */
bool ini_error_no_login(struct srpi_session *s, const struct ini_channel *ch,
			const struct error *why);
/* Why the further channel @ch, which may be NULL, is missing: into
 * s->conn.fewer. */
void ini_note_fewer_channels(struct srpi_session *s,
			     const struct ini_channel *ch,
			     const struct error *why);
void ini_error_connection_lost(struct srpi_session *s,
			       const struct ini_channel *ch);
void ini_error_no_answer(struct srpi_session *s);
/* Why discovery looks again; @sense may be NULL. */
void ini_error_volume_changes(struct srpi_session *s, uint64_t lun_field,
			      const struct scsi_sense *sense);
/* The target reports changes again and again. */
void ini_error_keeps_changing(struct srpi_session *s);
/* A command of @v failed after it had been acknowledged. */
void ini_error_deferred(struct srpi_session *s, const struct ini_volume *v,
			const struct scsi_sense *sense);
/* The target answered @what before, and does not answer it now. */
void ini_error_unanswered(struct srpi_session *s, const struct ini_volume *v,
			  const char *what);
/* Why a channel is ended: @cmd had no answer for @age_ms; NULL: commands had no
 * credit. */
void ini_timeout_text(const struct ini_cmd *cmd, uint64_t age_ms, char *buf,
		      size_t len);
void ini_error_still_down(struct srpi_session *s, uint64_t down_ms,
			  const char *what);
void ini_back_text(struct srpi_session *s, uint64_t down_ms, struct error *ret);
/* Volume @v is in standby at the present address; err is -ESHUTDOWN. */
void ini_error_standby(struct srpi_session *s, const struct ini_volume *v);
/* The same, as @sense of a command tells it. */
void ini_error_standby_sense(struct srpi_session *s, uint64_t lun_field,
			     const struct scsi_sense *sense);
/* The present address belongs to another target than the one before. */
void ini_error_unsafe(struct srpi_session *s, const struct ini_volume *v);
/* No address could be used by the first login. */
void ini_error_no_path(struct srpi_session *s);
/* Volume @v is another one, for the reason @what. */
void ini_error_other_volume(struct srpi_session *s, const struct ini_volume *v,
			    const char *what);
/* The question @what to LUN @lun failed with @err, maybe with @sense. */
void ini_error_no_volumes(struct srpi_session *s, int err, const char *what,
			  uint32_t lun, const struct scsi_sense *sense);

/* ---- discovery (discover.c) ---- */

/*
 * Asks the target for its LUNs and their properties, and fills in volumes[].
 * Calls @done once: with 0; with -ECANCELED when the channel has closed; or
 * with another errno, when s->error names the command and the LUN.
 */
int ini_discover(struct srpi_session *s,
		 void (*done)(struct srpi_session *s, int err),
		 struct error *e);
/* Passes the volumes that were found to the caller. */
void ini_discovery_take(struct srpi_session *s, struct ini_volume **ret_volumes,
			unsigned int *ret_cnt);
/* Makes the @n-th other name (0, 1, ...) of a volume whose name @base, of at most
 * 49 bytes, is taken. */
void ini_volume_rename(struct srpi_volume_info *info, const char *base,
		       unsigned int n);
/* Frees the state of discovery; none is fine. */
void ini_discovery_free(struct srpi_session *s);
/* The name of a question. */
const char *ini_discovery_question(enum ini_question q);
/* Does @sense, the answer to the last question, report a change that all
 * questions from here on see? */
bool ini_discovery_settles(const struct srpi_session *s,
			   const struct scsi_sense *sense);
/* The last question, and its LUN. */
const char *ini_discovery_asks(const struct srpi_session *s, uint32_t *ret_lun);

#endif
