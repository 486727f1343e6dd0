/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session of libsrpi with a target that the test plays, over TCP on loopback:
 * what old, odd or hostile targets answer. Both run on the context's reactor.
 */
#ifndef TESTS_LIB_T_SESSION_H
#define TESTS_LIB_T_SESSION_H

#include "initiator/session.h"
#include "tests/lib/t_tgt.h"

#define BLK	 512u
#define BLOCKS	 2048u
#define REQ_LIM	 8
#define CHANNELS 2

/* What the target says to MODE SENSE. */
enum mode_answer {
	MODE_REFUSED,
	MODE_NO_PAGE, /* only the header */
	MODE_NO_CACHE,
	MODE_CACHE,
};

struct t_session_options {
	enum mode_answer mode;
	bool no_sync;	/* SYNCHRONIZE CACHE is unknown */
	bool dpofua;	/* MODE SENSE tells of FUA */
	bool has_ids;	/* VPD pages 80h and 83h */
	bool has_store; /* VPD page C0h */
	bool is_memory;
	uint8_t generation;
	bool comes_back;     /* the session may log in again */
	int fast_io_fail_ms; /* when it comes back; 0: off */
	int io_timeout_ms;
	unsigned int timeout_ms;
	unsigned int channels; /* that we ask for */
	bool only_one;	       /* channel is let in */
	/* Target port groups: how many, that of this target, the active one. */
	uint16_t groups;
	uint16_t own;
	uint16_t active;
	uint8_t naa;
	/* The second address of the URI, in front of another target. */
	const struct t_session_options *other;
	const char *volume; /* of the URI; NULL: none */
	bool fails;	    /* the first login does; session is NULL then */
	bool follows;	    /* follow_volumes */
	bool has_second;    /* volume, LUN 1 */
	int keep_alive_ms;
};

/* Commands that the target answers otherwise than it should. */
struct t_override {
	uint8_t opcode; /* 0: all but REPORT LUNS and INQUIRY */
	uint8_t page;	/* of INQUIRY; 0: any, standard data included */
	enum scsi_status status;
	struct scsi_sense sense; /* of CHECK CONDITION */
	enum scsi_sense_format format;
	unsigned int cnt; /* so many of them */
	uint8_t naa;	  /* from then on; 0: as before */
};

struct t_session {
	struct t_session_options o;
	struct t_override override;
	uint8_t naa;	  /* the last byte */
	bool lun_is_gone; /* LUN 0 */
	bool has_second;  /* LUN 1 */
	uint8_t second_naa;
	bool second_is_mute; /* it answers no INQUIRY */
	uint32_t lun;	     /* of the command that is being answered */
	uint32_t block_size;
	struct srpi_ctx *ctx;
	struct xp *xp;
	struct t_tgt tgt;
	char addr[32];
	struct t_tgt_chan *chans[CHANNELS]; /* the first login's comes first */
	uint64_t blocks;
	uint8_t generation;
	enum scsi_asc attention; /* pending; 0: none */
	unsigned int writes;	 /* seen */
	bool ignores_writes;	 /* WRITE is not answered, until a login */
	bool leaves_at_sync;	 /* with what was not flushed */
	unsigned int bad_syncs;	 /* so many fail */
	unsigned int leaves_at;	 /* this many IUs after a login; 0: never */
	unsigned int silent_at;	 /* likewise: not answered */
	bool rejects;		 /* the next login */
	unsigned int replaces;	 /* logins that find an older connection */
	bool delays_login;	 /* with the answer to the next login */
	struct xp_conn_request *kept_login;
	uint32_t lbas[32]; /* of the writes since the last login */
	char came_by[32];  /* which channel, as a digit; a string */
	unsigned int lba_cnt;
	unsigned int syncs;	 /* SYNCHRONIZE CACHE seen */
	unsigned int turs;	 /* TEST UNIT READY seen */
	unsigned int refused;	 /* in standby */
	unsigned int cred_rsps;	 /* SRP_CRED_RSP seen */
	struct t_session *other; /* target alone; NULL: none */
	struct srpi_session *session;
	struct srpi_error why; /* with the last change of state */
	/* What the session is closed from within; see t_session_close_from(). */
	enum close_from {
		NOWHERE,
		DONE,	 /* the first I/O that ends */
		LAST,	 /* the last I/O that ends */
		BLOCKED, /* a change of state, to that */
		FAIL_FAST,
		LOST,
		BACK,
		RESIZED, /* volume_resized() */
		GONE,	 /* a volume */
	} closes_from;
	bool skips_a_second; /* when the connection is lost */
	char events[80];     /* of volumes: "+1 -0 =0 *0" */
	char gone_why[128];
	bool closing;
	bool closed;
};

/* Starts the target and logs in to it. */
struct t_session *t_session_new(const struct t_session_options *o);
/* A target that the session may log in to again; it has a generation. */
struct t_session *t_session_new_returning(enum mode_answer mode);
/* The same with a cache, FUA and identifiers. */
struct t_session *t_session_new_with_ids(void);
/* Two targets; the first, as a rule, is used. */
struct t_session *t_session_new_two(const struct t_session_options *b);
void t_session_free(struct t_session *t);

/* Runs the context until something has happened. */
void t_session_turn(struct t_session *t);
/* Closes the session if this is the callback that is to do it. */
void t_session_close_from(struct t_session *t, enum close_from where);

/* Reads or writes the first block, or flushes; returns the result. */
int t_session_io(struct t_session *t, enum srpi_op op, bool fua);
int t_session_io_of(struct t_session *t, unsigned int volume, enum srpi_op op,
		    bool fua);
/* For srpi_io.done: adds 1 to the unsigned int at io->arg, or stores the result
 * in the int there. */
void t_session_count_done(struct srpi_io *io, int res);
void t_session_store_result(struct srpi_io *io, int res);

/* The connection goes; what is there then is another generation. */
void t_session_lose(struct t_session *t, uint8_t generation,
		    enum scsi_asc attention);
/* One unit attention for the next command with @opcode. */
struct t_override t_override_attention(uint8_t opcode, enum scsi_asc code);
/* The target closes a channel. */
void t_session_drop(struct t_session *t, unsigned int channel);
/* Sends an SRP_CRED_REQ on the first channel. */
void t_session_ask_credit(struct t_session *t);

#endif
