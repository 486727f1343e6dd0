/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What of a volume survives a restart: registrations and the reservation that
 * were made with APTPL, saved mode values, and that a FORMAT UNIT or SANITIZE
 * did not come to its end. A small text:
 *
 *	rdma-target state 2
 *	store size=8388608 block-size=512 lasting=inode:12/born:1.0 here=
 *	modes wce=1 d-sense=0 swp=0
 *	registration 00000000000000ab 0000...(32 hex digits) [of=PRINCIPAL] [by=PRINCIPAL] [all-ports]
 *	reservation 3 0000...(the holder; none for types 7 and 8) [of=PRINCIPAL]
 *	format failed
 *	sanitize failed lenient=1
 *	end
 *
 * A job counts as failed from before it begins until its end has been written,
 * and nothing in the file makes one begin. Before 0.1.0, "sanitize running ..."
 * said what was left to do; it is read as "failed".
 *
 * "by" is the principal that has made the registration, if that is another one. A principal
 * (access.h) is known unless another nexus has registered the port, or an older
 * version has written the file.
 *
 * The second line says which store that was (store_id.h): the rest is for no
 * other. Version 1 does not have it.
 *
 * It is a part of the volume's journal (target/disk/journal.h).
 *
 * Thread: any.
 */
#ifndef TARGET_SCSI_STATE_FILE_H
#define TARGET_SCSI_STATE_FILE_H

#include "base/error.h"
#include "protocol/scsi_pr.h"
#include "protocol/scsi_vpd.h"
#include "target/block/store_id.h"

/* A longer file is not a state file. Bytes. */
#define STATE_FILE_MAX 32768

enum volume_state {
	VOLUME_READY,
	VOLUME_FORMATTING,
	VOLUME_SANITIZING,
	VOLUME_FORMAT_FAILED,
	VOLUME_SANITIZE_FAILED,
	VOLUME_UNSAVED, /* the state file may say something else */
	VOLUME_SAVING,	/* the same, and it is being written again */
};

/* Whether a volume's job (volume_job.h) has come to its end. */
struct state_job {
	enum volume_state state; /* READY, FORMAT_FAILED or SANITIZE_FAILED */
	bool lenient;		 /* SANITIZE_FAILED */
};

/* The store for which the file was written. */
struct state_store {
	uint64_t size; /* bytes; 0: unknown, from a file of version 1 */
	uint32_t block_size;
	struct store_mark mark;
};

struct state_file {
	struct state_store store;
	bool has_modes;
	struct scsi_modes modes;
	struct scsi_pr pr; /* aptpl is set if there are registrations */
	struct state_job job;
};

/*
 * state_file_parse() - read the text of a state file; nothing in it is trusted
 *
 * Return: 0, or -EBADMSG with "line N: what is wrong" in @e.
 */
int state_file_parse(const char *text, size_t len, struct state_file *ret,
		     struct error *e);

/* True if the state is the default, so no file is needed. */
bool state_file_is_empty(const struct state_file *state);

/* Writes at most @cap bytes; STATE_FILE_MAX is always enough. Returns the
 * length. Leaves out registrations without APTPL. */
size_t state_file_format(const struct state_file *state, char *buf, size_t cap);

#endif
