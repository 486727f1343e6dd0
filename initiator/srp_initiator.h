/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libsrpi: an SRP initiator as a library. It logs in to an SRP target (over an
 * RDMA device, or over TCP where there is none), finds its volumes, and reads
 * and writes them asynchronously. It speaks bytes and offsets; SCSI stays
 * inside. It needs no kernel module and no root, and logs nothing.
 *
 * Everything hangs on a context, which is one event loop: drive it with
 * srpi_ctx_run(), alone or when srpi_ctx_fd() is readable. Callbacks run from
 * within srpi_ctx_run(), never from within the call that began the operation.
 * Thread: a context and all that belongs to it are for one thread, the one
 * that first runs it. Separate contexts may run on separate threads.
 *
 *     struct srpi_error e;
 *     srpi_ctx_create(NULL, &ctx, &e);
 *     srpi_connect_wait(ctx, "srp://10.0.0.1/disk", NULL, &s, &e);
 *     srpi_mem_register(s, buf, sizeof(buf), &mem, &e);
 *     srpi_io_wait(ctx, s, &(struct srpi_io){ .op = SRPI_READ, .volume = 0,
 *             .offset = 0, .len = 4096, .buf = buf, .mem = mem });
 */
#ifndef INITIATOR_SRP_INITIATOR_H
#define INITIATOR_SRP_INITIATOR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The version of this header. Within one major version, functions are only
 * added, and structures only grow at the end. While it is 0, a new minor version
 * may change anything; the library then has another soname.
 */
#define SRPI_VERSION_MAJOR 0
#define SRPI_VERSION_MINOR 2
#define SRPI_VERSION_PATCH 0
#define SRPI_VERSION	   "0.2.0"

/* The version of the library that runs: "0.2.0". Thread: any. */
const char *srpi_version(void);

/*
 * A structure that begins with struct_size may grow. Set struct_size to the size
 * of the structure before you pass it, also where the library fills it in.
 * Members that the library does not know must be 0 (-EINVAL otherwise). Members
 * that the program does not know count as 0.
 */

struct srpi_ctx;
struct srpi_session;
struct srpi_mem;

/* What went wrong: an errno, and a line for a person that names the thing,
 * both addresses where there are two, the reason, and what to try. */
struct srpi_error {
	int err; /* negative errno; 0 when nothing went wrong */
	char text[512];
};

/* ---- contexts ---- */

struct reactor;

struct srpi_ctx_options {
	size_t struct_size;
	/* How long to poll for completions before sleeping, microseconds. */
	unsigned int poll_us;
	/* srpi_ctx_fd() will be used; costs a little. */
	bool pollable;
	/*
	 * Run on this event loop of base/reactor.h, which the program owns, runs
	 * and destroys after the context; poll_us and pollable are ignored. NULL:
	 * make one. Only programs that link base/ and the library of the same
	 * build can do so. rdma-fuse does: its reads of /dev/fuse, its answers
	 * and the library's network I/O leave with one system call for each
	 * turn, where two event loops would need two calls and a wake-up more
	 * for each command. Other programs use srpi_ctx_fd().
	 */
	struct reactor *reactor;
};

/* @options may be NULL. Returns 0 or a negative errno. */
int srpi_ctx_create(const struct srpi_ctx_options *options,
		    struct srpi_ctx **ret_ctx, struct srpi_error *e);
/* Every session must be closed. NULL is fine. */
void srpi_ctx_destroy(struct srpi_ctx *ctx);
/* Readable when srpi_ctx_run() has something to do; for a context that was
 * made pollable. Call srpi_ctx_run(ctx, 0) until it returns 0 before each
 * poll() of it. */
int srpi_ctx_fd(const struct srpi_ctx *ctx);
/* Handles what there is; waits at most @timeout_ms (-1: for ever) when there
 * is nothing. Returns 1 when something was done, 0 when not, or -errno. */
int srpi_ctx_run(struct srpi_ctx *ctx, int timeout_ms);

/*
 * Call this before the first context if the process forks while it has a
 * session. Without it, a fork of the process may take pages that an RDMA device
 * uses away from the parent. Return: 0 or -errno.
 */
int srpi_fork_init(void);

/* ---- addresses ---- */

/* Holds a port identifier: "0x", 32 hexadecimal digits, NUL. */
#define SRPI_PORT_SIZE 40

/* What a URI says. */
struct srpi_uri {
	size_t struct_size;
	/* Of the first address: a name or an address, IPv6 without brackets. */
	char host[256];
	uint16_t port;
	char volume[256];		/* "": none */
	char initiator[SRPI_PORT_SIZE]; /* our port identifier; "": none */
	unsigned int addresses;		/* how many the URI names */
};

/* Takes apart what srpi_connect() accepts. Resolves nothing. Return: 0, or
 * -EINVAL with @e. Thread: any. */
int srpi_uri_parse(const char *text, struct srpi_uri *ret_uri,
		   struct srpi_error *e);

/* Address @n of the URI, 0 for the first; IPv6 without brackets. -ENOENT: the URI
 * has fewer, or is wrong. Thread: any. */
int srpi_uri_address(const char *text, unsigned int n, char ret_host[256],
		     uint16_t *ret_port);

/* The port identifier that srpi_connect() makes of srpi_options.identity: a
 * digest of the text. Thread: any. */
void srpi_port_of_identity(const char *identity, char ret_port[SRPI_PORT_SIZE]);

/* ---- sessions ---- */

/*
 * The life of a session, in the words of the kernel's SRP transport. A session
 * that has been RUNNING logs in again when its connection breaks. It checks that
 * the volumes are the same, and repeats the commands that had no answer. When
 * the target reports that its volumes may have changed, the session is BLOCKED
 * for a moment, until it has checked them.
 *
 *   CONNECTING ──▶ RUNNING ◀──────────────┬─────────────┐
 *                     │ connection lost    │ back        │ back
 *                     ▼                    │             │
 *                  BLOCKED ────────────────┘             │
 *                     │ fast_io_fail_ms                  │
 *                     ▼                                  │
 *                 FAIL_FAST ─────────────────────────────┘
 *                     │ dev_loss_ms, or what came back is another volume
 *                     ▼
 *                   LOST
 */
enum srpi_state {
	SRPI_CONNECTING, /* srpi_connect() was called; I/O: -ENOTCONN */
	SRPI_RUNNING,	 /* logged in, volumes known */
	SRPI_BLOCKED, /* no connection, or not sure what is there; I/O waits */
	SRPI_FAIL_FAST, /* none for long; I/O fails at once with -EIO */
	SRPI_LOST,	/* given up for good; I/O fails at once with -EIO */
	SRPI_CLOSED,	/* srpi_close(), or connecting failed */
};

/* "running", "blocked", ... */
const char *srpi_state_name(enum srpi_state state);

/* For the times of srpi_options: never. */
#define SRPI_OFF (-1)

struct srpi_options {
	size_t struct_size;
	/*
	 * Connections to open, at most 16; 0 = 2 over RDMA on a machine with
	 * several processors, else 1. A target that admits fewer is used with
	 * those: srpi_session_info.fewer. Commands stay together on the first
	 * one as long as they are small.
	 */
	unsigned int channels;
	unsigned int queue_depth; /* commands per channel; 0 = 64 */
	/* For each connection, and for each answer of the target while we
	 * learn its volumes; 0 = 5000. To come back the first login has a
	 * second at most, each further one a quarter longer. */
	unsigned int timeout_ms;
	bool no_immediate_data; /* never send data inside a command */
	/*
	 * Our port identifier is made of this text, unless the URI names one;
	 * NULL: a random one. A login ends an older session of the same
	 * identifier. A restarted program replaces its stale session in this
	 * way; two running programs must not share an identifier.
	 */
	const char *identity;
	/*
	 * When the connection is lost: milliseconds from then until I/O fails
	 * (0 = 15000) and until the session is given up (0 = 600000), and the
	 * longest pause between two attempts to log in again (0 = 1000; the
	 * first pause is 100, each further one a quarter longer). Or
	 * SRPI_OFF. srpi_timeouts_fault() says which combinations are wrong.
	 */
	int fast_io_fail_ms;
	int dev_loss_ms;
	int reconnect_delay_ms;
	/* When a command has had no answer for so long, the session ends the
	 * connection and logs in again. 0 = 30000, or SRPI_OFF. */
	int io_timeout_ms;
	/*
	 * The session has changed its state after it was RUNNING (that it is
	 * for the first time, and CLOSED, the callbacks of connect and close
	 * tell), or the same state has got a new reason. @why: what happened, to
	 * whom; for RUNNING, what came back: an err of -EIO says that writes
	 * may have been lost with the target, see SRPI_FLUSH. RUNNING is also
	 * told again when the target has failed what it had acknowledged.
	 */
	void (*state_changed)(struct srpi_session *s, enum srpi_state state,
			      const struct srpi_error *why, void *arg);
	/* Volume @volume has another size: srpi_volume_info() tells. */
	void (*volume_resized)(struct srpi_session *s, unsigned int volume,
			       void *arg);
	void *state_arg; /* for both */
};

/* What is wrong with the times of @options, for a person; NULL: nothing. */
const char *srpi_timeouts_fault(const struct srpi_options *options);

/*
 * srpi_connect() - log in to the target of @uri and find its volumes
 * @uri:  srp://HOST[:PORT][,HOST[:PORT]]...[/VOLUME][?id_ext=..&ioc_guid=..
 *	  &initiator=..]; srp+rdma:// and srp+tcp:// force the transport. VOLUME
 *	  is for the caller (srpi_volume_find()); all volumes are found. Several
 *	  addresses: see "paths" below.
 * @done: called once, unless srpi_connect() fails: e->err is 0 when the
 *	  session is RUNNING; otherwise it is CLOSED and must be freed with
 *	  srpi_close() all the same.
 *
 * A host name is resolved before this returns, which may block.
 * Return: 0 or a negative errno (then there is no session).
 */
int srpi_connect(struct srpi_ctx *ctx, const char *uri,
		 const struct srpi_options *options,
		 void (*done)(struct srpi_session *s,
			      const struct srpi_error *e, void *arg),
		 void *arg, struct srpi_session **ret_session,
		 struct srpi_error *e);

/*
 * Logs out and frees the session; I/O that is under way fails with -ECANCELED
 * first. @closed (may be NULL) is called last, and never from within. It may be
 * called from within every callback of the session. Memory that was registered
 * with the session must not be used by it any more after @closed.
 */
void srpi_close(struct srpi_session *s, void (*closed)(void *arg), void *arg);

enum srpi_state srpi_session_state(const struct srpi_session *s);

/* What a person wants to know of a connection: the present one, or the last. */
struct srpi_session_info {
	size_t struct_size;
	const char *transport; /* "RDMA (verbs)" or "TCP" */
	const char *why;    /* why this transport; "" when it was asked for */
	const char *device; /* "rxe0", "tcp" */
	const char *local;  /* "10.0.0.2:40312" */
	const char *peer;   /* "10.0.0.1:5555" */
	const char *volume; /* VOLUME of the URI, or "" */
	char initiator[SRPI_PORT_SIZE]; /* our port identifier */
	unsigned int channels;		/* that are open */
	const char *fewer; /* why not as many as were to be; "": they are */
	unsigned int queue_depth; /* commands in flight at most, all channels */
	bool immediate_data;
	bool pins_memory; /* registered memory counts for RLIMIT_MEMLOCK */
};

void srpi_session_info(const struct srpi_session *s,
		       struct srpi_session_info *ret_info);

/* What has happened since srpi_connect(). */
struct srpi_session_stats {
	size_t struct_size;
	uint64_t commands;   /* sent, those sent again included */
	uint64_t replayed;   /* sent again after a connection was lost */
	uint64_t timeouts;   /* commands that had no answer in time */
	uint64_t reconnects; /* logins after a connection was lost */
	uint64_t attempts;   /* at those, failed ones included */
	/* Why a connection was last lost, or not made again; "": never. */
	const char *last_error;
};

void srpi_session_stats(const struct srpi_session *s,
			struct srpi_session_stats *ret_stats);

/* ---- paths ---- */

/*
 * A URI can name up to eight addresses: of one target, or of several targets
 * that serve one store in turn. They must show the same volumes with the same
 * LUNs. The session uses one address at a time, and the same transport for all.
 * When the address fails, or the target reports that its port is in standby,
 * the session tries the others. The states and times of a session hold for all
 * its addresses together.
 *
 * The session continues with another address only when its volumes are the same
 * ones and nothing that was sent to the first address can change them any more.
 * This is so for two addresses of one target, and for targets that report by
 * target port groups (ALUA) that only one of them is active. The volume that
 * the URI names must be active; without VOLUME, all volumes must be.
 */
enum srpi_path_state {
	SRPI_PATH_UNTRIED,
	SRPI_PATH_IN_USE,  /* now, or until the connection was lost */
	SRPI_PATH_DOWN,	   /* the connection was lost, or the login failed */
	SRPI_PATH_STANDBY, /* reads and writes need another address now */
	/* The volumes are the same, but of another target, and nobody knows
	 * what the first one still does with them. Not used, but asked again. */
	SRPI_PATH_UNSAFE,
	SRPI_PATH_OTHER, /* other volumes; never tried again */
};

/* "in use", "standby", ... */
const char *srpi_path_state_name(enum srpi_path_state state);

struct srpi_path_info {
	size_t struct_size;
	const char *address; /* "10.0.0.1:5555", as the URI has it */
	enum srpi_path_state state;
	const char *why; /* it is not in use; "": not known */
};

unsigned int srpi_path_cnt(const struct srpi_session *s);
/* @path: 0 ... cnt - 1, in the order of the URI. The texts are valid until the
 * next call of srpi_ctx_run() or srpi_close(). */
void srpi_path_info(const struct srpi_session *s, unsigned int path,
		    struct srpi_path_info *ret_info);

/* ---- volumes ---- */

struct srpi_volume_info {
	uint32_t lun;  /* number */
	char name[80]; /* unique within the session */
	char serial[80];
	char vendor[9];
	char product[17];
	char revision[5];
	char naa[40];	     /* "naa.6..." or "" */
	uint64_t size;	     /* bytes */
	uint32_t block_size; /* bytes: unit of offset and len */
	uint32_t physical_block_size;
	uint32_t max_transfer;	    /* bytes per command; longer I/O is split */
	uint32_t optimal_transfer;  /* bytes; 0: not told */
	uint64_t unmap_granularity; /* bytes */
	bool read_only;
	bool write_cache; /* written data needs SRPI_FLUSH to be stable */
	bool fua;
	bool unmap;	   /* SRPI_DISCARD frees space */
	bool unmap_zeroes; /* discarded blocks read as zeroes */
	bool rotational;
};

unsigned int srpi_volume_cnt(const struct srpi_session *s);
/* @volume: 0 ... cnt - 1, in the order of their LUNs. */
const struct srpi_volume_info *srpi_volume_info(const struct srpi_session *s,
						unsigned int volume);
/* By name, else by LUN number in decimal. -ENOENT when there is none. */
int srpi_volume_find(const struct srpi_session *s, const char *name_or_lun,
		     unsigned int *ret_volume);

/* ---- memory ---- */

/*
 * Buffers for SRPI_READ and SRPI_WRITE must lie in memory that was registered
 * with the session: the target reads and writes it directly. Register few and
 * large pieces, once. The pages stay locked on RDMA devices (RLIMIT_MEMLOCK).
 * That target, and no other one of the context, may write to all of the memory
 * at any time until srpi_mem_free(): copy what you check before you use it.
 *
 * Return: 0; -ENOTCONN before srpi_connect() is done, or when it has failed;
 *   -ENOMEM, and other negative errnos of the device.
 */
int srpi_mem_register(struct srpi_session *s, void *addr, size_t len,
		      struct srpi_mem **ret_mem, struct srpi_error *e);
/* No I/O may use it any more. The session may be closed, the context must still
 * be there. NULL is fine. */
void srpi_mem_free(struct srpi_mem *mem);

/* ---- I/O ---- */

enum srpi_op {
	SRPI_READ,
	SRPI_WRITE,
	/* Writes done before it are stable afterwards. When some may have been
	 * lost with a target that crashed, or it has failed them later, the
	 * next flush fails with -EIO. */
	SRPI_FLUSH,
	SRPI_DISCARD,	   /* contents undefined (or zero: unmap_zeroes) */
	SRPI_WRITE_ZEROES, /* may free the space when .discard is set */
	SRPI_EXTENT,	   /* is there data or a hole at offset, how far? */
};

/*
 * One operation. The caller keeps it, and the buffer, untouched from
 * srpi_submit() until done(). Nothing is allocated.
 */
struct srpi_io {
	enum srpi_op op;
	unsigned int volume;
	uint64_t offset; /* bytes, a multiple of the block size */
	uint64_t len;	 /* bytes, likewise; READ, WRITE: at most 4 GiB - 1 */
	void *buf;	 /* READ, WRITE: the data */
	struct srpi_mem *mem; /* that buf lies in */
	bool fua;	      /* WRITE, WRITE_ZEROES: stable before done */
	bool discard;	      /* WRITE_ZEROES */
	/* Results of SRPI_EXTENT: the extent_len bytes from offset on are all
	 * mapped, or all a hole. extent_len is at most len; it is 0 only when
	 * len is. */
	bool extent_mapped;
	uint64_t extent_len;
	/* @res: 0, or -EIO, -ENOSPC, -EROFS, -EINVAL (not aligned, outside the
	 * volume), -EOPNOTSUPP, -ENOTCONN, -ECANCELED. After an error a read's
	 * buffer holds anything; a write may be done in part. */
	void (*done)(struct srpi_io *io, int res);
	void *arg; /* the caller's */

	uint64_t priv[48]; /* the library's */
};

/* Always answered, by io->done(), exactly once, never from within. */
void srpi_submit(struct srpi_session *s, struct srpi_io *io);

/* Holds every answer of srpi_io_answer(). */
#define SRPI_ANSWER_SIZE 224

/*
 * What the target answered to an operation that has failed, for a person:
 * "MEDIUM ERROR: unrecovered read error (03/11/00) at block 2048". From done() on,
 * until @io is submitted again. Return: false when it answered nothing of the
 * kind: the operation was not sent, or the connection was lost.
 */
bool srpi_io_answer(const struct srpi_io *io, char buf[SRPI_ANSWER_SIZE]);

/*
 * Has an operation failed only because the session was not RUNNING? A flush that
 * was refused reports no loss: when the session is RUNNING again, the next flush
 * fails if writes may be lost. From done() on, until @io is submitted again.
 */
bool srpi_io_refused(const struct srpi_io *io);

/* ---- the same, waiting: these run the context, so no callback may call
 * them ---- */

int srpi_connect_wait(struct srpi_ctx *ctx, const char *uri,
		      const struct srpi_options *options,
		      struct srpi_session **ret_session, struct srpi_error *e);
void srpi_close_wait(struct srpi_ctx *ctx, struct srpi_session *s);
/* Submits @io (done and arg are overwritten) and returns its result. */
int srpi_io_wait(struct srpi_ctx *ctx, struct srpi_session *s,
		 struct srpi_io *io);

#ifdef __cplusplus
}
#endif

#endif
