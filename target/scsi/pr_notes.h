/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent reservations of a unit that several targets serve, as the bytes
 * that these targets share (the notes of a store, backend.h): the registrations,
 * the reservation, and the news that I_T nexuses are to have because of changes.
 * Each target finds the news of its own nexuses there that are newer than what it
 * knew.
 *
 * Multi-byte fields are big-endian. Reserved bytes are 0.
 *
 *	header, 32 bytes
 *	   0  "RDB-PR", 0, 1 (the format)
 *	   8  PRGENERATION (4)
 *	  12  1: APTPL
 *	  13  type of the reservation; 0: none
 *	  14  index of the holder's registration (2)
 *	  16  number of registrations (2)
 *	  18  number of news (2)
 *	  20  reserved (4)
 *	  24  news of this version and older ones may be missing (8)
 *	each registration, 32 bytes
 *	   0  key (8)
 *	   8  initiator port (16)
 *	  24  relative target port identifier (2)
 *	  26  1: ALL_TG_PT
 *	  27  reserved (5)
 *	each piece of news, 32 bytes, oldest first
 *	   0  version of the notes that came with it (8)
 *	   8  initiator port (16)
 *	  24  relative target port identifier (2)
 *	  26  enum scsi_pr_news
 *	  27  reserved (5)
 *
 * Thread: any.
 */
#ifndef TARGET_SCSI_PR_NOTES_H
#define TARGET_SCSI_PR_NOTES_H

#include "protocol/scsi_pr.h"

#define PR_NOTES_HEADER_LEN 32u
#define PR_NOTES_ENTRY_LEN  32u

/* If there is no room, new news replace the oldest. */
#define PR_NOTES_NEWS_MAX (2 * SCSI_PR_MAX)

/* Bytes. */
#define PR_NOTES_MAX           \
	(PR_NOTES_HEADER_LEN + \
	 (SCSI_PR_MAX + PR_NOTES_NEWS_MAX) * PR_NOTES_ENTRY_LEN)

struct pr_news {
	uint64_t version;
	struct scsi_pr_nexus nexus;
	uint8_t news; /* enum scsi_pr_news */
};

/* All zero: nothing was ever reserved. */
struct pr_notes {
	struct scsi_pr pr;
	uint64_t forgotten; /* news up to this version may be missing */
	uint16_t news_cnt;
	struct pr_news news[PR_NOTES_NEWS_MAX];
};

/* Writes up to PR_NOTES_MAX bytes. Return: how many. */
size_t pr_notes_encode(const struct pr_notes *notes, uint8_t *buf);

/* Decodes @len bytes; 0: all zero. Checks everything in @buf. Return: 0, or
 * -EBADMSG without a change of @ret. */
int pr_notes_decode(const void *buf, size_t len, struct pr_notes *ret);

/* Adds the news that the change to @version has for other nexuses. */
void pr_notes_add(struct pr_notes *notes, uint64_t version,
		  const struct scsi_pr_effects *effects);

#endif
