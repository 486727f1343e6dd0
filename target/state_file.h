/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What of a volume survives a restart: registrations and the reservation that
 * were made with APTPL, and saved mode values. A small text file per volume:
 *
 *	rdma-target state 1
 *	modes wce=1 d-sense=0 swp=0
 *	registration 00000000000000ab 0000...(32 hex digits) [all-ports]
 *	reservation 3 0000...(the holder; none for types 7 and 8)
 *	end
 *
 * It is replaced as a whole: a temporary file, flushed, renamed, and the
 * directory flushed. So after a crash, kill -9 or a loss of power it holds what
 * the last command that was answered left, or what the one under way wanted.
 *
 * Thread: setup, or under the lock of the volume; writing blocks.
 */
#ifndef TARGET_STATE_FILE_H
#define TARGET_STATE_FILE_H

#include "protocol/scsi_pr.h"
#include "protocol/scsi_vpd.h"

/* Longer files are not ours. Bytes. */
#define STATE_FILE_MAX 32768

struct state_file {
	bool has_modes;
	struct scsi_modes modes;
	struct scsi_pr pr; /* aptpl is set when there are registrations */
};

/*
 * state_file_parse() - read the text of a state file; nothing in it is trusted
 *
 * Return: 0, or -EBADMSG with "line N: what is wrong" in @msg.
 */
int state_file_parse(const char *text, size_t len, struct state_file *ret,
		     char *msg, size_t msg_len);

/* Writes at most @cap bytes, STATE_FILE_MAX is always enough; returns how
 * many. Registrations without APTPL are left out. */
size_t state_file_format(const struct state_file *state, char *buf, size_t cap);

/* All zero when there is no such file. Return: 0, or -errno with one clause in
 * @msg that names the file. */
int state_file_load(const char *path, struct state_file *ret, char *msg,
		    size_t msg_len);

/* Return: 0 when it is on stable storage, else -errno; the old state is then
 * still there, or the new one is. */
int state_file_save(const char *path, const struct state_file *state);

#endif
