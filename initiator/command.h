/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One SCSI command of the initiator. Block I/O and discovery pass it to the
 * session, which sends it on one of its channels.
 */
#ifndef INITIATOR_COMMAND_H
#define INITIATOR_COMMAND_H

#include "protocol/scsi_sense.h"
#include "protocol/srp_iu.h"
#include "base/list.h"
#include "transport/xport.h"

/* The longest parameter list inside a command: that of UNMAP with one
 * descriptor, or the response to GET LBA STATUS with one. */
#define INI_PARAM_MAX 32

struct ini_channel;
struct ini_volume;

enum ini_dir {
	INI_NO_DATA,
	INI_DATA_IN,   /* buf gets at most len bytes */
	INI_DATA_OUT,  /* len bytes from buf */
	INI_PARAM_OUT, /* len bytes from param */
	INI_PARAM_IN,  /* param gets at most len bytes */
};

/* Why a command is sent again: the last one over another connection, the others over
 * the same one. */
enum ini_retry {
	INI_RETRY_ATTENTION, /* unit attention or deferred error */
	INI_RETRY_ABORTED,   /* ABORTED COMMAND, or status TASK ABORTED */
	INI_RETRY_BUSY,	     /* BUSY, TASK SET FULL, becoming ready */
	INI_RETRY_OVERDUE,   /* no answer for io_timeout_ms */
	INI_RETRIES,
};

enum ini_cmd_kind {
	INI_OPERATION,	  /* of the program, or for it */
	INI_QUESTION,	  /* of discovery: never held, never sent again */
	INI_SIGN_OF_LIFE, /* of keep_alive.c: its answer is no service */
};

static inline bool ini_dir_is_in(enum ini_dir dir)
{
	return dir == INI_DATA_IN || dir == INI_PARAM_IN;
}

struct ini_cmd {
	/* set by the caller, unchanged until done() */
	const struct ini_volume *volume; /* NULL: of none */
	uint64_t lun;			 /* the LUN field of SRP_CMD */
	uint8_t cdb[SRP_CDB_LEN];
	enum ini_dir dir;
	uint32_t len; /* bytes */
	void *buf;
	struct xp_mr *mr; /* that buf lies in */
	uint8_t param[INI_PARAM_MAX];
	/*
	 * When the command succeeds, done() waits until all other responses of
	 * this LUN have come that the target may have sent before, and the
	 * session is RUNNING. A flush needs this: one of those may report a
	 * loss, and responses of several channels come in any order. On its own
	 * channel, these are the commands that were sent before; on others, all
	 * that are in flight when it is answered.
	 */
	bool fence;
	/*
	 * Called once. @err: 0 for status GOOD and all of the data. Otherwise
	 * the result of scsi_sense_to_errno(), -EIO, -ENODEV when the volume is
	 * dead, or -ECANCELED after srpi_close(). A command that had no answer
	 * too often or for too long fails with -EIO. The session retries commands
	 * after unit attentions, deferred errors, and the status BUSY or TASK
	 * ABORTED before; but not an aborted flush of a target that may not
	 * report its failure again.
	 */
	void (*done)(struct ini_cmd *cmd, int err);

	/* set before done() */
	uint32_t data_len; /* DATA_IN, PARAM_IN: bytes that arrived */
	uint8_t status;	   /* SCSI status; 0 if there was none */
	bool has_sense;
	/* The session was not running, or it was given up: there is no answer. */
	bool refused;
	bool was_lost; /* private: its connection was, at lost_us first */
	struct scsi_sense sense;

	/* private to the session */
	struct list node;
	uint64_t seq;	  /* in the order of submission */
	uint64_t sent_us; /* when it was sent last */
	uint64_t sent_no; /* its number among all sent commands of the
			   * session */
	const struct ini_channel
		*answered_on; /* with fence, when it is done ... */
	uint64_t answered_no; /* ... and the number that sent_no had reached */
	uint16_t tries[INI_RETRIES];
	enum ini_cmd_kind kind;
	uint64_t lost_us;
	int err;
};

#endif
