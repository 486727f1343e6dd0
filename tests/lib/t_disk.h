/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The disk between port and backend. A row is one command on one kind of store:
 * what the initiator sends, and the expected results, including the requests
 * that the store gets. The test acts as the port.
 */
#ifndef TESTS_LIB_T_DISK_H
#define TESTS_LIB_T_DISK_H

#include "target/scsi/task.h"
#include "tests/lib/t_store.h"
#include "tests/lib/t_table.h"

#define T_BLOCK	     512u
#define T_BLOCKS     16384u /* 8 MiB: more than one command may transfer */
#define T_OTHER_LUN  3
#define T_ABSENT_LUN 5

enum t_disk_store {
	T_THIN,	  /* has all functions and a cache */
	T_PLAIN,  /* has a cache; only reads, writes and flushes */
	T_STABLE, /* like T_THIN, without a cache */
	T_MEMORY, /* memory, used in place */
	T_READ_ONLY,
	T_REMOVABLE, /* has a cache */
};

/* Initiators. Port n has the identifier ...0n; the first one is @nexus. */
#define T_NEXUSES 4

struct t_disk {
	struct lun_map luns;
	struct scsi_nexus nexus;
	struct scsi_nexus others[T_NEXUSES - 1];
	struct scsi_nexus *from; /* the sender of commands; at first @nexus */
	struct block_worker worker;
	char aborted[128]; /* "2 3 ": PREEMPT AND ABORT ended their commands */
	/* The targets that serve the store of the next t_disk_start(). */
	struct backend_paths paths;
	bool has_notes; /* the same, for notes */
};

extern struct t_disk t_disk;

/* Starts with one volume as LUN 0 and T_OTHER_LUN, without a pending unit
 * attention. Block n is full of the byte n + 1. */
void t_disk_start(enum t_disk_store store);
/* The same with a state directory; NULL: none. */
void t_disk_start_in(enum t_disk_store store, const char *state_dir);
void t_disk_stop(void);

/* 1 ... T_NEXUSES */
struct scsi_nexus *t_nexus(unsigned int number);
struct srp_port_id t_port_id(unsigned int number);

/* Adds and removes another volume, between start and stop. */
struct volume *t_disk_add(const struct volume_spec *spec, unsigned int lun);
void t_disk_remove(unsigned int lun);

struct t_command {
	struct scsi_task task;
	unsigned int done;
	bool answered; /* IMMED: answered before it was done */
	uint8_t cdb[SCSI_CDB_LEN];
	uint8_t *buf;	    /* the buffer that the task got */
	const uint8_t *out; /* the initiator's data-out */
	bool executed;
};

/* Runs a command until it ends. @cdb, @out: hex; see t_bytes.h. */
void t_command_run(struct t_command *c, const char *cdb, int lun,
		   const uint8_t *out, uint32_t out_len, uint32_t in_len);
/* The same without waiting. @c, its data-out and all its other data must stay
 * until c->done. */
void t_command_start(struct t_command *c, const char *cdb, int lun,
		     const uint8_t *out, uint32_t out_len, uint32_t in_len);
/* The two halves of t_command_start(). False: the command has ended. */
bool t_command_prepare(struct t_command *c, const char *cdb, int lun,
		       uint32_t out_len, uint32_t in_len);
void t_command_execute(struct t_command *c, const uint8_t *out);
/* Runs a write in place until it waits for its data. */
void t_command_begin(struct t_command *c, const char *cdb, int lun,
		     uint32_t out_len);
void t_command_free(struct t_command *c);

/* Makes the store answer, or the worker run a turn. False: there is no work. */
bool t_disk_turn(void);

/* "05/24/00 CDB 2.7", "02/04/1b at 512", "05/21/00 info 16384", "deferred 03/0c/00", "good", "met", "conflict";
 * static. */
const char *t_outcome(const struct scsi_task *t);

struct t_disk_row {
	const char *name;
	enum t_disk_store store;
	int lun;
	const char *cdb; /* zero padded to 16 bytes */
	const char *out; /* data-out; the descriptors cover all of it */
	uint32_t in_len; /* bytes of data-in in the descriptors */
	/* faults of the store */
	unsigned int fail_at;
	int fail_with;
	uint64_t fail_progress;
	/* expected results; NULL: "good", nothing */
	const char *outcome;
	const char *ops;
	uint32_t in_cnt;
	const char *in; /* the first bytes of data-in; NULL: any */
	uint64_t wanted_in;
	uint64_t wanted_out;
	uint64_t lba;	   /* from this block on ... */
	const char *after; /* ... the store has these bytes; NULL: unchanged */
};

/* @later: the store answers later, not at once */
void t_disk_run_row(const struct t_disk_row *row, bool later);

#endif
