/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A session of libsrpi with a target that the test simulates, over TCP on
 * loopback: answers of old, unusual or hostile targets. Both run on the
 * context's reactor.
 */
#ifndef TESTS_LIB_T_SESSION_H
#define TESTS_LIB_T_SESSION_H

#include "initiator/session.h"
#include "tests/lib/t_tgt.h"

#define BLK	 512u
#define BLOCKS	 32768u
#define REQ_LIM	 8
#define CHANNELS 2

/* How the target answers MODE SENSE. */
enum mode_answer {
	MODE_REFUSED,
	MODE_NO_PAGE, /* only the header */
	MODE_NO_CACHE,
	MODE_CACHE,
};

struct t_session_options {
	enum mode_answer mode;
	bool no_sync;	/* SYNCHRONIZE CACHE is refused */
	bool dpofua;	/* MODE SENSE reports FUA */
	bool has_ids;	/* VPD pages 80h and 83h */
	bool has_store; /* VPD page C0h */
	bool is_memory;
	uint8_t generation;
	bool comes_back;     /* the session may log in again */
	int fast_io_fail_ms; /* after a loss; 0: off */
	int io_timeout_ms;
	unsigned int timeout_ms;
	unsigned int channels; /* channels that the initiator requests */
	bool only_one;	       /* only one channel is accepted */
	bool other_nexus;      /* the target knows no other channel of ours */
	/* Target port groups: their number, that of this target, the active
	 * one. */
	uint16_t groups;
	uint16_t own;
	uint16_t active;
	uint8_t naa;
	/* The second address of the URI, in front of another target. */
	const struct t_session_options *other;
	const char *volume; /* of the URI; NULL: none */
	const char *purpose;
	bool fails;	 /* the first login fails; session is NULL then */
	bool follows;	 /* follow_volumes */
	bool has_second; /* a second volume, LUN 1 */
	struct scsi_sense unready[2]; /* of each LUN; see t_session.unready */
	int keep_alive_ms;
	bool is_thin; /* blocks can be deallocated */
	bool no_lbprz;
	bool no_lbpws; /* UNMAP only */
	/* In blocks; 0: not reported. */
	uint32_t granularity;
	uint32_t alignment;
	uint32_t max_write_same;
};

/* Commands that get another answer than usual. */
struct t_override {
	uint8_t opcode; /* 0: all but REPORT LUNS and INQUIRY */
	uint8_t page;	/* of INQUIRY; 0: any, standard data included */
	enum scsi_status status;
	struct scsi_sense sense; /* with CHECK CONDITION */
	enum scsi_sense_format format;
	unsigned int cnt; /* this many commands */
	uint8_t naa;	  /* changes to this afterwards; 0: unchanged */
};

struct t_session {
	struct t_session_options o;
	struct t_override override;
	uint8_t naa;	  /* last byte of the identifier */
	bool lun_is_gone; /* LUN 0 */
	bool has_second;  /* LUN 1 exists */
	uint8_t second_naa;
	bool second_is_mute; /* LUN 1 does not answer INQUIRY */
	/* With a key: the LUN answers so what needs a medium. */
	struct scsi_sense unready[2];
	uint32_t lun; /* of the command that gets the answer */
	uint32_t block_size;
	struct srpi_ctx *ctx;
	struct xp *xp;
	struct t_tgt tgt;
	char addr[32];
	struct t_tgt_chan *chans[CHANNELS]; /* that of the first login comes
					     * first */
	uint64_t blocks;
	uint8_t generation;
	enum scsi_asc attention; /* pending; 0: none */
	unsigned int writes;	 /* WRITEs received */
	uint32_t write_lun;	 /* of the last one */
	bool ignores_writes;	 /* WRITEs get no answer until a login */
	bool never_writes;	 /* WRITEs never get an answer */
	bool keeps_credits;	 /* until a login: gives none back */
	bool leaves_at_sync;	 /* disconnects; loses unflushed data */
	unsigned int bad_syncs;	 /* this many SYNCHRONIZE CACHE fail */
	unsigned int leaves_at;	 /* disconnects this many IUs after a login; 0:
				  * never */
	unsigned int silent_at;	 /* the same, but stops answering */
	bool holds;		 /* keeps commands, for the test to answer */
	struct t_tgt_send *held[8];
	unsigned int held_cnt;
	bool rejects;	       /* rejects the next login */
	unsigned int replaces; /* logins that find an older connection */
	bool delays_login;     /* delays the answer to the next login */
	struct xp_conn_request *kept_login;
	uint32_t lbas[32]; /* LBAs of the writes since the last login */
	char came_by[32];  /* channels of these writes, as digits; a string */
	unsigned int lba_cnt;
	/* Commands that may clear blocks: "u" UNMAP, "z" WRITE SAME, "d" the
	 * same with the UNMAP bit, "w" WRITE. LBA+BLOCKS follows, but not for
	 * UNMAP. */
	char clears[160];
	unsigned int syncs;	 /* SYNCHRONIZE CACHE received */
	unsigned int turs;	 /* TEST UNIT READY received */
	unsigned int refused;	 /* refused because of standby */
	unsigned int cred_rsps;	 /* SRP_CRED_RSP received */
	struct t_session *other; /* the other target; NULL: none */
	struct srpi_session *session;
	struct srpi_error why; /* of the last change of state */
	/* The callback that closes the session; see t_session_close_from(). */
	enum close_from {
		NOWHERE,
		DONE,	 /* the first I/O that ends */
		LAST,	 /* the last I/O that ends */
		BLOCKED, /* a change to this state */
		FAIL_FAST,
		LOST,
		BACK,
		RESIZED, /* volume_resized() */
		GONE,	 /* a volume is gone */
	} closes_from;
	bool skips_a_second; /* when the connection is lost */
	char events[80];     /* events of volumes: "+1 -0 =0 *0 ~0" */
	char state_why[ERROR_TEXT_SIZE];
	char gone_why[128];
	bool closing;
	bool closed;
};

/* Starts the target and logs in to it. */
struct t_session *t_session_new(const struct t_session_options *o);
/* A target that accepts the session again; it reports a generation. */
struct t_session *t_session_new_returning(enum mode_answer mode);
/* The same with a cache, FUA and identifiers. */
struct t_session *t_session_new_with_ids(void);
/* Two targets. Normally the session uses the first one. */
struct t_session *t_session_new_two(const struct t_session_options *b);
void t_session_free(struct t_session *t);

/* Runs the context until an event has occurred. */
void t_session_turn(struct t_session *t);
/* Closes the session if this is the chosen callback. */
void t_session_close_from(struct t_session *t, enum close_from where);

/* Reads or writes the first block, or flushes; returns the result. */
int t_session_io(struct t_session *t, enum srpi_op op, bool fua);
int t_session_io_of(struct t_session *t, unsigned int volume, enum srpi_op op,
		    bool fua);
/* For srpi_io.done: adds 1 to the unsigned int at io->arg, or stores the result
 * in the int there. */
void t_session_count_done(struct srpi_io *io, int res);
void t_session_store_result(struct srpi_io *io, int res);

/* Drops the connection and sets the generation for the time after it. */
void t_session_lose(struct t_session *t, uint8_t generation,
		    enum scsi_asc attention);
/* Causes one unit attention for the next command with @opcode. */
struct t_override t_override_attention(uint8_t opcode, enum scsi_asc code);
/* Makes the target close a channel. */
void t_session_drop(struct t_session *t, unsigned int channel);
/* Sends an SRP_CRED_REQ on the first channel. */
void t_session_ask_credit(struct t_session *t);

#endif
