/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One SCSI command from the initiator's side: what block I/O and discovery
 * hand to the session, which sends it on one of its channels.
 */
#ifndef INITIATOR_COMMAND_H
#define INITIATOR_COMMAND_H

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_sense.h"
#include "base/list.h"
#include "transport/xport.h"

/* The longest parameter list inside a command structure: UNMAP with one
 * descriptor, or the answer to GET LBA STATUS with one. */
#define INI_PARAM_MAX 32

enum ini_dir {
	INI_NO_DATA,
	INI_DATA_IN,   /* buf gets at most len bytes */
	INI_DATA_OUT,  /* len bytes from buf */
	INI_PARAM_OUT, /* len bytes from param */
	INI_PARAM_IN,  /* param gets at most len bytes */
};

/* Why a command is sent again, on the same connection. */
enum ini_retry {
	INI_RETRY_ATTENTION, /* unit attention or deferred error */
	INI_RETRY_ABORTED,   /* ABORTED COMMAND */
	INI_RETRY_BUSY,	     /* BUSY, TASK SET FULL, becoming ready */
	INI_RETRIES,
};

static inline bool ini_dir_is_in(enum ini_dir dir)
{
	return dir == INI_DATA_IN || dir == INI_PARAM_IN;
}

static inline bool ini_dir_is_param(enum ini_dir dir)
{
	return dir == INI_PARAM_OUT || dir == INI_PARAM_IN;
}

struct ini_cmd {
	/* set by the caller, unchanged until done() */
	uint64_t lun; /* the LUN field of SRP_CMD */
	uint8_t cdb[SCSI_CDB_LEN];
	enum ini_dir dir;
	uint32_t len; /* bytes */
	void *buf;
	struct xp_mr *mr; /* that buf lies in */
	uint8_t param[INI_PARAM_MAX];
	/*
	 * When it succeeds, done() waits until the commands of this LUN that
	 * were sent before it are answered, and the session is RUNNING. For a
	 * flush: what they are answered may say that something is lost, and
	 * answers of several channels come in any order.
	 */
	bool fence;
	/*
	 * Called once. @err: 0 for status GOOD with all of the data;
	 * otherwise what scsi_sense_to_errno() made of the sense data, -EIO,
	 * or -ECANCELED after srpi_close(). Unit attentions, deferred errors
	 * and busy units have been retried before.
	 */
	void (*done)(struct ini_cmd *cmd, int err);

	/* result */
	uint32_t data_len; /* DATA_IN, PARAM_IN: bytes that arrived */
	uint8_t status;	   /* SCSI status; 0 also when there was none */
	bool has_sense;
	struct scsi_sense sense;

	/* private to the session */
	struct list node;
	uint64_t seq;	  /* in the order of submission */
	uint64_t sent_us; /* when it was last sent */
	uint64_t sent_no; /* of all that the session has sent */
	unsigned int tries[INI_RETRIES];
	bool is_question; /* discovery's: never held, never sent again */
	int err;
};

#endif
