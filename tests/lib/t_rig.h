/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target port on the in-memory fabric, with initiators that the test drives:
 * it writes each IU and reads each answer. The target's side is the real code,
 * except for the store of RIG_DISK.
 *
 * Only rig_settle() runs anything: it runs every reactor until all are idle.
 * Tests never wait for time.
 */
#ifndef TESTS_LIB_T_RIG_H
#define TESTS_LIB_T_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "target/port/request.h"
#include "tests/lib/t_store.h"
#include "tests/lib/t_ini.h"
#include "tests/lib/t_port.h"

#define RIG_BLOCK 512
#define RIG_SIZE  (8u << 20)  /* of each volume, bytes */
#define RIG_MEM	  (12u << 20) /* of an initiator, bytes */

/* LUNs */
enum {
	RIG_DISK,
	RIG_RAM,
	RIG_LUNS
};

struct rig {
	struct t_fabric *hub;
	struct t_port target;

	struct reactor *peer_reactor;
	struct xp *peer_xp;
	uint8_t *mem; /* of the initiators; registered for remote access */
	struct xp_mr *mem_mr;
	struct list chans;    /* of the initiators */
	struct key_file keys; /* of the target */
};

struct rig_options {
	unsigned int workers; /* 0: 1 */
	size_t arena_len;     /* 0: 4 MiB */
	/* Rules of the target and of each volume; NULL: none. */
	const char *allow;
	const char *allow_lun[RIG_LUNS];
	const char *keys; /* as in a file; NULL: the target has none */
	bool removable;	  /* the volumes are removable */
	bool thin;	  /* RIG_DISK can zero and deallocate */
	bool shared;	  /* two targets serve RIG_DISK, now this one */
	struct port_limits limits; /* all zero: the defaults */
};

struct rig *rig_create(const struct rig_options *opt);
/* Frees the channels, and stops the port. Fails if anything is left. */
void rig_destroy(struct rig *rig);

/* Changes the keys of the target. */
void rig_take_keys(struct rig *rig, const char *keys);

/* Runs all reactors until they are idle. */
void rig_settle(struct rig *rig);

/* ---- initiators ---- */

/* Returns the rig of a channel. */
struct rig *rig_of(const struct t_ini *ch);

/* A login request like that of ib_srp, from initiator number @who. */
struct srp_login_req rig_login_req(const struct rig *rig, unsigned int who,
				   enum srp_multichan multichan);

/* Connects and settles. rig_destroy() frees the channel, if rig_chan_free() has
 * not. */
struct t_ini *rig_connect(struct rig *rig, const struct srp_login_req *req);
/* The same without settling. */
struct t_ini *rig_connect_begin(struct rig *rig,
				const struct srp_login_req *req);
/* Logs in, which must succeed. */
struct t_ini *rig_login(struct rig *rig, unsigned int who,
			enum srp_multichan multichan);
/* Closes the channel if it is open, and frees it. */
void rig_chan_free(struct t_ini *ini);

/* Sends @iu and settles. */
void rig_send(struct t_ini *ch, const void *iu, size_t len);

/* Returns a descriptor of @len bytes at @offset of the initiators' memory. */
struct srp_desc rig_desc(const struct t_ini *ch, size_t offset, uint32_t len);

/* ---- commands ---- */

struct rig_cmd {
	unsigned int lun;
	enum srp_task_attr attr;
	uint8_t cdb[16];
	struct srp_data_args out;
	struct srp_data_args in;
	const void *imm; /* immediate data */
};

/* READ (10) and WRITE (10) of whole blocks, still without a buffer. */
struct rig_cmd rig_read(unsigned int lun, uint32_t lba, uint16_t blocks);
struct rig_cmd rig_write(unsigned int lun, uint32_t lba, uint16_t blocks);

/* Sends the command and settles; returns its tag. */
uint64_t rig_cmd(struct t_ini *ch, const struct rig_cmd *cmd);

/* How the initiator's buffer is described. */
enum rig_how {
	RIG_DIRECT,
	RIG_INDIRECT,
	RIG_MANY,    /* more descriptors than a request holds */
	RIG_PARTIAL, /* the table is in the initiator's memory, at the end */
	RIG_IMMEDIATE
};

/* Describes @len bytes at @offset. A table is at the end of the memory. */
void rig_describe(struct t_ini *ch, enum rig_how how, size_t offset,
		  uint32_t len, struct srp_desc *descs,
		  struct srp_data_args *ret);
/* Changes an SRP_CMD of @len bytes, which has all its descriptors, to one that
 * has only the first @keep of them; returns its length. */
size_t rig_make_partial(uint8_t *iu, size_t len, bool out, unsigned int keep);

/* Sends a READ (10) or WRITE (10) with @len bytes at @offset of the
 * initiators' memory, and settles; returns its tag. */
uint64_t rig_send_rw(struct t_ini *ch, struct rig_cmd *cmd, enum rig_how how,
		     size_t offset, uint32_t len);
/* The same for a write of a block of RIG_DISK that is full of @byte. */
uint64_t rig_send_write(struct t_ini *ch, uint32_t lba, uint8_t byte);

/* Sends a task management request and settles; returns its tag. */
uint64_t rig_tmf(struct t_ini *ch, uint8_t function, unsigned int lun,
		 uint64_t task_tag);

/* Expects an answer with this status. */
void rig_expect_status(const struct t_ini *ch, uint64_t tag, uint8_t status);
/* Expects a task management response with this code. */
void rig_expect_code(const struct t_ini *ch, uint64_t tag, uint8_t code);
/* Clears unit attentions, and expects GOOD for a TEST UNIT READY. */
void rig_expect_alive(struct t_ini *ch);

/* Sends TEST UNIT READY until the status is GOOD. Returns the number of unit
 * attentions. *ret_asc (may be NULL): ASC << 8 | ASCQ of the last one. */
unsigned int rig_clear_ua(struct t_ini *ch, unsigned int lun,
			  uint16_t *ret_asc);

/* ---- the store of RIG_DISK: t_store ---- */

/* Answers all held requests, and settles. Returns how many there were. */
unsigned int rig_release(struct rig *rig);

#endif
