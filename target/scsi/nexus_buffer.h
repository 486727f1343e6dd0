/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The buffer of an I_T nexus, for WRITE BUFFER and READ BUFFER (SPC-4 6.49,
 * 6.18). Initiators use it to measure and test the fabric without a volume. Its
 * memory is allocated when the nexus first writes to it.
 *
 * Data written in the echo mode can be read in the echo mode, through the same
 * LUN, until the next write (EBOS 1: no other nexus overwrites it).
 *
 * Thread: any. Channels of a nexus may belong to several workers.
 */
#ifndef TARGET_SCSI_NEXUS_BUFFER_H
#define TARGET_SCSI_NEXUS_BUFFER_H

#include <pthread.h>
#include <stddef.h>
#include <stdint.h>

struct nexus_buffer {
	pthread_mutex_t lock; /* guards the rest */
	uint8_t *bytes;	      /* SCSI_BUFFER_LEN; NULL: nothing was written */
	int echo_lun;	      /* the LUN through which the echo was written */
	uint32_t echo_len;    /* bytes of the echo; 0: there is none */
};

void nexus_buffer_init(struct nexus_buffer *b);
void nexus_buffer_fini(struct nexus_buffer *b);

/* Stores @len bytes from @offset on; both within the buffer. 0 or -ENOMEM. */
int nexus_buffer_write(struct nexus_buffer *b, uint32_t offset, const void *p,
		       uint32_t len);
/* Copies @len bytes from @offset on; zeroes if nothing was written. */
void nexus_buffer_read(struct nexus_buffer *b, uint32_t offset, void *p,
		       uint32_t len);

/* The same for the echo of LUN @lun, of at most SCSI_ECHO_LEN bytes. */
int nexus_buffer_write_echo(struct nexus_buffer *b, int lun, const void *p,
			    uint32_t len);
/* Copies at most @cap bytes. Return: the length of the echo; -ENODATA: @lun has
 * none. */
int nexus_buffer_read_echo(struct nexus_buffer *b, int lun, void *p,
			   uint32_t cap);

#endif
