/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A target port on the fabric in memory, with initiators that are driven by
 * hand: the test writes each IU and looks at each answer. The target's side is
 * all real, but for one backend that keeps requests back on demand.
 *
 * Nothing runs but in rig_settle(), which runs every reactor until nothing
 * happens any more, so tests never wait for time.
 */
#ifndef TESTS_LIB_T_RIG_H
#define TESTS_LIB_T_RIG_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "target/port/request.h"
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
	uint8_t *mem; /* the initiators', registered for remote access */
	struct xp_mr *mem_mr;
};

struct rig_options {
	unsigned int workers; /* 0: 1 */
	size_t arena_len;     /* 0: 4 MiB */
	/* Rules of the target and of each volume; NULL: none. */
	const char *allow;
	const char *allow_lun[RIG_LUNS];
	bool removable;		   /* the volumes */
	bool thin;		   /* RIG_DISK can zero and deallocate */
	struct port_limits limits; /* all zero: the defaults */
};

struct rig *rig_create(const struct rig_options *opt);
/* Stops the port, and fails when anything is left. */
void rig_destroy(struct rig *rig);

/* Runs everything until nothing happens any more. */
void rig_settle(struct rig *rig);

/* ---- initiators ---- */

/* Of a channel. */
struct rig *rig_of(const struct t_ini *ch);

/* A login request as ib_srp makes it, of initiator number @who. */
struct srp_login_req rig_login_req(const struct rig *rig, unsigned int who,
				   enum srp_multichan multichan);

/* Connects and settles; free with rig_chan_free(). */
struct t_ini *rig_connect(struct rig *rig, const struct srp_login_req *req);
/* The same without settling. */
struct t_ini *rig_connect_begin(struct rig *rig,
				const struct srp_login_req *req);
/* A login that must succeed. */
struct t_ini *rig_login(struct rig *rig, unsigned int who,
			enum srp_multichan multichan);
/* Closes it if need be. */
void rig_chan_free(struct t_ini *ch);

/* Sends the bytes and settles. */
void rig_send(struct t_ini *ch, const void *iu, size_t len);

/* @len bytes at @offset of the initiators' memory, as a descriptor. */
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

/* READ (10) and WRITE (10) of whole blocks, without a buffer yet. */
struct rig_cmd rig_read(unsigned int lun, uint32_t lba, uint16_t blocks);
struct rig_cmd rig_write(unsigned int lun, uint32_t lba, uint16_t blocks);

/* Sends it and settles; returns its tag. */
uint64_t rig_cmd(struct t_ini *ch, const struct rig_cmd *cmd);

/* How the initiator's buffer is described. */
enum rig_how {
	RIG_DIRECT,
	RIG_INDIRECT,
	RIG_MANY,    /* more descriptors than a request holds */
	RIG_PARTIAL, /* the table is in the initiator's memory, at its end */
	RIG_IMMEDIATE
};

/* Describes @len bytes at @offset. The table goes to the end of memory. */
void rig_describe(struct t_ini *ch, enum rig_how how, size_t offset,
		  uint32_t len, struct srp_desc *descs,
		  struct srp_data_args *ret);
/* Turns an SRP_CMD of @len bytes with all descriptors inline into one with a
 * partial list, of the first @keep; returns its length. */
size_t rig_make_partial(uint8_t *iu, size_t len, bool out, unsigned int keep);

/* Sends a READ (10) or WRITE (10) with @len bytes at @offset of the
 * initiators' memory, and settles; returns its tag. */
uint64_t rig_send_rw(struct t_ini *ch, struct rig_cmd *cmd, enum rig_how how,
		     size_t offset, uint32_t len);
/* Writes a block of RIG_DISK full of @byte, likewise. */
uint64_t rig_send_write(struct t_ini *ch, uint32_t lba, uint8_t byte);

/* Sends a task management request and settles; returns its tag. */
uint64_t rig_tmf(struct t_ini *ch, uint8_t function, unsigned int lun,
		 uint64_t task_tag);

/* The answer must be there with this status. */
void rig_expect_status(const struct t_ini *ch, uint64_t tag, uint8_t status);
/* The same for a task management response code. */
void rig_expect_code(const struct t_ini *ch, uint64_t tag, uint8_t code);
/* A TEST UNIT READY is answered GOOD, after unit attentions are cleared. */
void rig_expect_alive(struct t_ini *ch);

/* TEST UNIT READY until its status is GOOD; returns the unit attentions seen,
 * ASC << 8 | ASCQ of the last one in *ret_asc (may be NULL). */
unsigned int rig_clear_ua(struct t_ini *ch, unsigned int lun,
			  uint16_t *ret_asc);

/* ---- the backend of RIG_DISK ---- */

/* From now on requests are kept back. */
void rig_hold(bool hold);
/* Lets all of them go, and settles; returns how many. */
unsigned int rig_release(struct rig *rig);
unsigned int rig_held(void);
/* Flushes that it has carried out; from now on they end with @err. */
unsigned int rig_flushes(void);
void rig_fail_flushes(int err);
/* Its content. */
uint8_t *rig_disk(void);
/* What it measures from now on, bytes. */
void rig_set_size(uint64_t size);

#endif
