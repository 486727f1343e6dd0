/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The parts of the simulated initiators, for the files that implement them:
 *
 *   host.c        their actions, and events that affect them
 *   host_chan.c   connections, credits, arriving IUs
 *   host_cmd.c    commands and task management, from creation to end
 *   host_copy.c   copies between volumes
 *   host_judge.c  checks of answers
 */
#ifndef TESTS_SIM_HOST_WORLD_H
#define TESTS_SIM_HOST_WORLD_H

#include <stdlib.h>

#include "target/port/channel.h"
#include "tests/lib/t_ini.h"
#include "tests/lib/t_must.h"
#include "tests/sim/host.h"

#define CMDS_MAX      256
#define CMD_MEM	      8192
#define DESCS_MAX     24
#define CHANS_MAX     64
#define TMFS_MAX      128
#define COPIES_MAX    24 /* in one history */
#define COPY_SEGMENTS 4
#define COPY_BLOCKS   8
#define CMD_BLOCKS    4 /* of one command, at most */
#define TABLE_AT      7168
#define UNTOUCHED     0xaa
#define RESERVE_KEY   0x5151

enum kind {
	READ,
	WRITE,
	COMPARE_WRITE,
	SYNC_CACHE,
	TEST_READY,
	COPY,
	REGISTER,
	RESERVE,
	RELEASE,
	TASK_MGMT,
};

enum chan_state {
	UNUSED,
	CONNECTING,
	OPEN,
	CLOSING, /* closed by us, or lost; arriving IUs are ignored */
};

struct chan {
	enum chan_state state;
	struct host *host;
	struct t_ini ini;
	bool single;
	bool excused; /* the target may close or refuse it */
	unsigned int number;
	int32_t granted;
	int32_t limit;
};

/* The commands of other hosts that one function covers, and when. */
struct tmf {
	struct host *host;
	uint8_t function;
	unsigned int lun;
	uint64_t start;
	uint64_t end; /* NEVER: no answer yet */
};

struct copy_segment {
	unsigned int from;
	unsigned int to;
	unsigned int blocks;
};

/* It exists longer than its command, which may be lost and still take
 * effect. */
struct copy {
	unsigned int number;
	const struct host *host;
	unsigned int channel;
	uint64_t start;
	uint64_t seen; /* time by which it has begun to write; 0: nothing seen
		        * yet */
	bool over;     /* it has no effect any more */
	bool fenced;   /* it may have no effect any more, although it is
		        * unanswered */
	bool failed;   /* the disk returned an error */
	unsigned int from_lun;
	unsigned int to_lun;
	struct copy_segment segments[COPY_SEGMENTS];
	unsigned int segment_cnt;
	uint32_t landed[COPY_BLOCKS];
	unsigned int landed_cnt;
};

struct cmd {
	bool used;
	bool maybe_ended; /* maybe ended by a function on another channel: no
			   * answer needed */
	struct chan *ch;
	enum kind kind;
	uint64_t tag;
	uint64_t order; /* number in the order of sending */
	uint64_t start;
	uint8_t lun;
	uint8_t lba;
	uint8_t blocks;
	uint8_t attr;
	bool fua;
	bool immed; /* answered before it was done */
	bool bad_table;
	uint32_t stamps[CMD_BLOCKS];
	uint32_t expected[CMD_BLOCKS];
	unsigned int changes[CMD_BLOCKS];
	uint32_t out_len; /* bytes of the descriptors */
	uint32_t in_len;
	uint32_t want; /* bytes that the CDB names */
	struct xp_mr *mrs[DESCS_MAX + 1];
	unsigned int mr_cnt;
	/* TASK_MGMT */
	uint8_t function;
	uint64_t task_tag;
	struct tmf *tmf;
	struct copy *copy; /* COPY */
};

/* Unit attentions that a host may and must get on a LUN. */
struct attention {
	unsigned int logins; /* it may get this many for logins ... */
	unsigned int resets;
	uint64_t login_since; /* ... and it must get one; 0: need not */
	uint64_t reset_since;
	/* Time when the host last got an attention, or had a new nexus, or a
	 * channel was lost. */
	uint64_t told;
};

/* What a LUN that has lost writes of a host owes to this host. */
struct debt {
	bool may;  /* the host may be told ... */
	bool must; /* ... and its next flush must not succeed */
	uint64_t told;
};

struct host {
	unsigned int number;
	unsigned int open_cnt;
	bool connecting;
	struct attention ua[BLOCKS_LUNS];
	struct debt debts[BLOCKS_LUNS];
	/* Writes that may still take place. */
	uint32_t unsettled[STAMPS_MAX];
	unsigned int unsettled_cnt;
	/* Where it last gave up a write. Its next commands are for this block, as those
	 * of a host that goes on by another path. */
	uint8_t again_lun;
	uint8_t again_lba;
	unsigned int again; /* commands */
};

/* The holder of the reservation: host 0 or nobody. Only host 0 reserves. */
struct reservation {
	bool registered;
	bool busy;	      /* a change is under way, or may be */
	uint64_t since;	      /* certainly held; 0: not */
	uint64_t maybe_since; /* held at times from here ... */
	uint64_t maybe_until; /* ... to here; NEVER */
};

struct host_world {
	struct host hosts[HOSTS];
	struct chan chans[CHANS_MAX];
	struct cmd cmds[CMDS_MAX];
	struct tmf tmfs[TMFS_MAX];
	unsigned int tmf_cnt;
	struct copy copies[COPIES_MAX];
	unsigned int copy_cnt;
	bool has_copies;
	unsigned int chan_cnt;
	unsigned int cmd_cnt;
	_Alignas(4096) uint8_t memory[CMDS_MAX][CMD_MEM];
	bool has_cache[BLOCKS_LUNS];
	bool is_memory[BLOCKS_LUNS];
	struct reservation reservation[BLOCKS_LUNS];
	struct t_fabric *fabric;
	struct reactor *reactor;
	struct xp *xp;
};

extern struct host_world world;

/* ---- host.c ---- */

/* What it wrote or reserved without an answer can no longer happen from @t on. */
void host_settle(struct host *h, uint64_t t);

/* ---- host_chan.c ---- */

/* A SINGLE login ends the other channels of the host. */
void chan_login(struct host *h, bool single);
void chan_close(struct chan *ch);
/* Breaks the connection, without the consent of either end. */
void chan_break(struct chan *ch);

/* ---- host_cmd.c ---- */

const char *cmd_name(const struct cmd *c);
uint8_t *cmd_mem(const struct cmd *c);
/* NULL: no command has this tag. */
struct cmd *cmd_find(const struct chan *ch, uint64_t tag);
void cmd_free(struct cmd *c);
/* The command can no longer have any effect. */
void cmd_over(struct cmd *c);
/* No answer will come, but the command may still take effect. */
void cmd_lost(struct cmd *c);
void cmds_lose(const struct chan *ch);
void cmd_forget_reservation(const struct cmd *c);
/* True if @tmf may end the command. */
bool cmd_is_covered(const struct cmd *c, const struct cmd *tmf);

/* Each function sends one command, if there is room for it. */
void cmd_read(struct chan *ch);
void cmd_write(struct chan *ch);
void cmd_compare_write(struct chan *ch);
void cmd_simple(struct chan *ch, enum kind kind, uint8_t opcode);
void cmd_reserve(struct chan *ch);
void cmd_copy(struct chan *ch);
void cmd_tmf(struct chan *ch);
void tmf_answered(struct cmd *tmf, const struct srp_rsp *rsp);

/* ---- host_copy.c ---- */

/* NULL: no room, or another copy writes these blocks. */
struct copy *copy_new(const struct chan *ch, uint64_t start);
/* Writes the parameter list; returns its length. */
uint32_t copy_make_list(const struct copy *p, uint8_t *b);
/* The copy has no effect any more; or all copies of @h. */
void copy_over(struct copy *p);
void copies_over(const struct host *h);
/* The copy was answered with GOOD. */
void copy_is_good(const struct cmd *c);
/* True if COPY ABORTED is an allowed answer; TASK ABORTED. */
bool copy_may_be_aborted(const struct cmd *c);
bool copy_may_be_ended(const struct cmd *c);
/* The function was answered: notes the copies that it fences off. */
void copies_fence(const struct cmd *tmf);

/* ---- host_judge.c ---- */

/* The target was killed. It may not know that its last answers reported a
 * loss. */
void hosts_may_be_told_again(void);
/* A flush whose answer may have reported a loss, or not. */
void sync_is_in_doubt(const struct cmd *c);
/* The answer has arrived; the command is over. */
void cmd_judge(struct cmd *c, const struct srp_rsp *rsp);

#endif
