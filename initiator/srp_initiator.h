/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libsrpi: an SRP initiator as a library. It logs in to an SRP target (over an
 * RDMA device, or over TCP if there is none), finds its volumes, and reads and
 * writes them asynchronously. Its functions take bytes and offsets, and hide
 * SCSI. It needs no kernel module and no root rights, and logs nothing.
 *
 * A context is one event loop, and everything belongs to a context. Run it with
 * srpi_ctx_run(), alone or when srpi_ctx_fd() is readable. Callbacks run within
 * srpi_ctx_run(), never within the call that began the operation.
 *
 * Thread: a context and everything that belongs to it are for one thread, the
 * one that first runs it. Separate contexts may run on separate threads.
 *
 *       struct srpi_error e;
 *       srpi_ctx_create(NULL, &ctx, &e);
 *       srpi_connect_wait(ctx, "srp://10.0.0.1/disk", NULL, &s, &e);
 *       srpi_mem_register(s, buf, sizeof(buf), &mem, &e);
 *       srpi_io_wait(ctx, s, &(struct srpi_io){ .op = SRPI_READ, .volume = 0,
 *               .offset = 0, .len = 4096, .buf = buf, .mem = mem });
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
 * added, and structures only grow: a program runs with every later library of
 * that version. An incompatible change gets another major version and another
 * soname.
 */
#define SRPI_VERSION_MAJOR 0
#define SRPI_VERSION_MINOR 2
#define SRPI_VERSION_PATCH 0
#define SRPI_VERSION	   "0.2.0"

/* The version of the library that runs: "0.2.0". Thread: any. */
const char *srpi_version(void);

/*
 * A structure that begins with struct_size may grow. Set struct_size to the
 * size of the structure before you pass it, also if the library fills it in.
 * Members that the library does not know must be 0 (otherwise -EINVAL). Members
 * that the program does not know count as 0.
 */

struct srpi_ctx;
struct srpi_session;
struct srpi_mem;

/* An error: an errno, and a line for a person. The line names the object, both
 * addresses if there are two, the reason, and what to try. Functions that take one
 * fill it in if they fail; NULL is allowed. */
struct srpi_error {
	int err; /* negative errno; 0: no error */
	char text[512];
};

/* ---- contexts ---- */

struct reactor;

struct srpi_ctx_options {
	size_t struct_size;
	/* How long to poll for completions before sleeping, microseconds. */
	unsigned int poll_us;
	/* srpi_ctx_fd() will be used; this costs a little. */
	bool pollable;
	/*
	 * Run on this event loop of base/reactor.h. The program owns and runs
	 * it, and destroys it after the context; poll_us and pollable are
	 * ignored. NULL: make one. Only programs that link base/ and the
	 * library of the same build can do this. In rdma-fuse, its reads of
	 * /dev/fuse, its answers and the network I/O of the library leave with
	 * one system call for each turn. Two event loops would need two calls,
	 * and one more wake-up for each command. Other programs use
	 * srpi_ctx_fd().
	 */
	struct reactor *reactor;
};

/*
 * @options may be NULL. Return: 0; -EINVAL: an option is unknown, or struct_size
 * is not set; -ENOMEM; -ENOSYS, -EPERM: the kernel has no io_uring, or forbids
 * it; other negative errnos of io_uring.
 */
int srpi_ctx_create(const struct srpi_ctx_options *options,
		    struct srpi_ctx **ret_ctx, struct srpi_error *e);
/* Every session must be closed. NULL does nothing. */
void srpi_ctx_destroy(struct srpi_ctx *ctx);
/* For a context that was made pollable: a descriptor that is readable when
 * srpi_ctx_run() has something to do. It belongs to the context. Before each
 * poll() of it, call srpi_ctx_run(ctx, 0) until it returns 0. */
int srpi_ctx_fd(const struct srpi_ctx *ctx);
/* Handles what there is to do. If there is nothing, waits at most @timeout_ms
 * (-1: without limit). Returns 1 if something was done, 0 if not, or -errno of
 * io_uring. */
int srpi_ctx_run(struct srpi_ctx *ctx, int timeout_ms);

/*
 * Call this before the first context is made if the process forks while it has
 * a session. Without it, a fork may take pages that an RDMA device uses away
 * from the parent. Return: 0 or -errno.
 */
int srpi_fork_init(void);

/* ---- addresses ---- */

/* Holds a port identifier: "0x", 32 hexadecimal digits, NUL. */
#define SRPI_PORT_SIZE 40

/* The parts of a URI. */
struct srpi_uri {
	size_t struct_size;
	/* Of the first address: a name or an address, IPv6 without brackets. */
	char host[256];
	uint16_t port;
	char volume[256];		/* "": none */
	char initiator[SRPI_PORT_SIZE]; /* our port identifier; "": none */
	unsigned int addresses;		/* number of addresses in the URI */
};

/* Parses the URIs that srpi_connect() accepts. Resolves no names. Return: 0, or
 * -EINVAL with @e. Thread: any. */
int srpi_uri_parse(const char *text, struct srpi_uri *ret_uri,
		   struct srpi_error *e);

/* Address @n of the URI (0: the first), IPv6 without brackets. -ENOENT: the URI
 * has fewer addresses, or is wrong. Thread: any. */
int srpi_uri_address(const char *text, unsigned int n, char ret_host[256],
		     uint16_t *ret_port);

/* The port identifier that srpi_connect() makes from srpi_options.identity: a
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
	SRPI_BLOCKED,	 /* no connection, or the volumes are being checked; I/O
		       * waits */
	SRPI_FAIL_FAST,	 /* no connection for long; I/O fails at once with
			 * -EIO */
	SRPI_LOST,	 /* given up; I/O fails at once with -EIO */
	SRPI_CLOSED,	 /* srpi_close(), or connecting failed */
};

/* "running", "blocked", ... */
const char *srpi_state_name(enum srpi_state state);

/* For the times of srpi_options: no limit. */
#define SRPI_OFF (-1)

/* What has happened to a volume. */
enum srpi_volume_event {
	SRPI_VOLUME_ADDED,   /* a new number, or one that was given back */
	SRPI_VOLUME_GONE,    /* for good; its I/O fails with -ENODEV */
	SRPI_VOLUME_RESIZED, /* the same as volume_resized() */
	SRPI_VOLUME_CHANGED, /* another member of srpi_volume_info() */
	SRPI_VOLUME_STATE,   /* srpi_volume_state() */
};

struct srpi_options {
	size_t struct_size;
	/*
	 * Connections to open, at most 16; 0 = 2 over RDMA on a machine with
	 * several processors, else 1. If the target accepts fewer, these are
	 * used: srpi_session_info.fewer. Commands use the first connection as
	 * long as they are small.
	 */
	unsigned int channels;
	unsigned int queue_depth; /* commands per channel; 0 = 64 */
	/* Time limit of each connection, and of each answer of the target while
	 * the library reads its volumes; 0 = 5000. When the session reconnects,
	 * the first login may take a second at most, and each further one a
	 * quarter longer. */
	unsigned int timeout_ms;
	bool no_immediate_data; /* never send data inside a command */
	/*
	 * Our port identifier is made from this text, unless the URI has one;
	 * NULL: a random one. A login ends an older session with the same
	 * identifier. So a restarted program replaces its stale session. Two
	 * running programs must not share an identifier.
	 */
	const char *identity;
	/*
	 * After a loss of the connection: milliseconds until I/O fails (0 =
	 * 15000) and until the session is given up (0 = SRPI_OFF), and the
	 * longest pause between two attempts to log in again (0 = 1000; the
	 * first pause is 100, each further one a quarter longer). Or SRPI_OFF.
	 * srpi_timeouts_fault() reports wrong combinations.
	 */
	int fast_io_fail_ms;
	int dev_loss_ms;
	int reconnect_delay_ms;
	/* If a command has no answer for this time, the session ends the
	 * connection and logs in again. 0 = 30000, or SRPI_OFF.
	 *
	 * An operation is not repeated for ever, also if others are answered: one of
	 * its commands has no answer for the sixth time, or it loses its connection
	 * fast_io_fail_ms after it did so first. Then it fails with -EIO. */
	int io_timeout_ms;
	/*
	 * The session was RUNNING and has changed its state, or has the same
	 * state for a new reason. (The callbacks of connect and close report
	 * the first RUNNING, and CLOSED.) @why: what happened to which object.
	 * If @state is RUNNING: which connection came back; an err of -EIO says
	 * that writes may have been lost with the target, see SRPI_FLUSH.
	 * RUNNING is also reported again if the target has failed a write that
	 * it had acknowledged.
	 */
	void (*state_changed)(struct srpi_session *s, enum srpi_state state,
			      const struct srpi_error *why, void *arg);
	/* Volume @volume has another size: see srpi_volume_info(). */
	void (*volume_resized)(struct srpi_session *s, unsigned int volume,
			       void *arg);
	void *state_arg; /* for all callbacks */
	/*
	 * Follow the volumes of the target: those that it shows later are added,
	 * and one that it does not show any more, or that became another one, is
	 * gone without an end of the session. The volume that the URI names is
	 * not followed. See "volumes" below.
	 */
	bool follow_volumes;
	/* Something has happened to volume @volume. @why: of SRPI_VOLUME_GONE and
	 * SRPI_VOLUME_STATE, for a person; else "". */
	void (*volume_event)(struct srpi_session *s, unsigned int volume,
			     enum srpi_volume_event event, const char *why,
			     void *arg);
	/*
	 * How often to ask each volume whether something has changed, by TEST
	 * UNIT READY; milliseconds. 0 or SRPI_OFF: never. A session without I/O
	 * learns of changes in no other way, unless the target sends
	 * SRP_AER_REQ, as rdma-target does. It also learns that the target does
	 * not answer any more, or is in standby.
	 */
	int keep_alive_ms;
	/*
	 * What the session is for on this machine, if @identity is NULL: the port
	 * identifier is made from this text, the host name, and a random text that
	 * is drawn once and kept in a directory: STATE_DIRECTORY (systemd.exec(5)),
	 * else /var/lib/rdma-block for root, rdma-block in XDG_STATE_HOME
	 * (~/.local/state) for others. It is the same after
	 * a restart of the program, so the target ends the old session before it
	 * accepts the new one, and none of the old commands is executed later.
	 * A session has the identifier until it is LOST or CLOSED. Until then,
	 * another session of the machine gets another one; srpi_connect() waits
	 * up to 2 seconds for a process that is ending. Random without such a
	 * directory, or if other users may write it. srpi_session_info.purpose_fault
	 * says so. An identifier that the URI names is kept from other sessions
	 * with the same addresses, too.
	 */
	const char *purpose;
};

/* What is wrong with the times of @options, for a person; NULL: nothing. */
const char *srpi_timeouts_fault(const struct srpi_options *options);

/*
 * srpi_connect() - log in to the target of @uri and find its volumes
 * @uri:  srp://HOST[:PORT][,HOST[:PORT]]...[/VOLUME][?id_ext=..&ioc_guid=..
 *	  &initiator=..]; srp+rdma:// and srp+tcp:// force the transport, and
 *	  srp+tls:// encrypts, which needs &key=FILE (rdma-fuse(8), KEYS). VOLUME
 *	  is for the caller (srpi_volume_find()); all volumes are found. Several
 *	  addresses: see "paths" below.
 * @done: called once, unless srpi_connect() fails: e->err is 0 when the
 *	  session is RUNNING; otherwise it is CLOSED and must be freed with
 *	  srpi_close() all the same.
 *
 * A host name is resolved, and the key is read, before this returns, which may block. @uri, @options and
 * the texts of the options are borrowed for the call.
 * Return: 0, or a negative errno, and then there is no session: -EINVAL for a
 *   wrong URI or option, -EHOSTUNREACH for a host without an address, -ENOMEM,
 *   -ENOKEY or another reason why there is no key,
 *   -EADDRINUSE if another session has the identifier of the URI (purpose).
 */
int srpi_connect(struct srpi_ctx *ctx, const char *uri,
		 const struct srpi_options *options,
		 void (*done)(struct srpi_session *s,
			      const struct srpi_error *e, void *arg),
		 void *arg, struct srpi_session **ret_session,
		 struct srpi_error *e);

/*
 * Logs out and frees the session. I/O in flight fails with -ECANCELED first.
 * @closed (may be NULL) is called last, and never within this call. Every
 * callback of the session may call srpi_close(). After @closed, the session no
 * longer uses memory that was registered with it.
 */
void srpi_close(struct srpi_session *s, void (*closed)(void *arg), void *arg);

enum srpi_state srpi_session_state(const struct srpi_session *s);

/* A connection, for a person: the current one, or the last. The texts are valid
 * until the next call of srpi_ctx_run() or srpi_close(). */
struct srpi_session_info {
	size_t struct_size;
	const char *transport; /* "RDMA (verbs)" or "TCP" */
	const char *why;    /* why this transport; "" if the URI demands it */
	const char *device; /* "rxe0", "tcp" */
	const char *local;  /* "10.0.0.2:40312" */
	const char *peer;   /* "10.0.0.1:5555" */
	const char *volume; /* VOLUME of the URI, or "" */
	char initiator[SRPI_PORT_SIZE]; /* our port identifier */
	unsigned int channels;		/* open connections */
	const char *fewer; /* why fewer channels than wanted; "": as many */
	unsigned int queue_depth; /* most commands in flight, on all channels
				   * together */
	bool immediate_data;
	bool pins_memory; /* registered memory counts for RLIMIT_MEMLOCK */
	/* What was negotiated over RDMA; over TCP mtu is 0, and so are the others. */
	unsigned int mtu;	 /* bytes */
	unsigned int port_mtu;	 /* bytes; the active MTU of our port */
	unsigned int read_depth; /* RDMA READs of the target at a time */
	const char *gid;	 /* ours, "fe80::1" */
	unsigned int pkey;
	unsigned int sl; /* service level */
	/* Why our port identifier is not the one that the next session with this
	 * srpi_options.purpose will have, most likely, what may come of it and what
	 * prevents it, for a person; "": it is, or the options name no purpose. */
	const char *purpose_fault;
	/* Why the first unit that cannot describe itself is no volume of the session,
	 * as when it has no medium; "": all can. */
	const char *not_ready;
};

void srpi_session_info(const struct srpi_session *s,
		       struct srpi_session_info *ret_info);

/* Counters since srpi_connect(). */
struct srpi_session_stats {
	size_t struct_size;
	uint64_t commands;   /* sent, including those sent again */
	uint64_t replayed;   /* sent again after a connection was lost */
	uint64_t timeouts;   /* commands without an answer in time */
	uint64_t reconnects; /* logins after a connection was lost */
	uint64_t attempts;   /* attempts to reconnect, including failed ones */
	/* Why a connection was last lost, or could not be made again; "":
	 * never. Valid as the texts of srpi_session_info. */
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
 * The session continues with another address only if its volumes are the same
 * and nothing that was sent to the first address can change them any more. This
 * holds for two addresses of one target, and for targets that report by target
 * port groups (ALUA) that only one of them is active. The volume that the URI
 * names must be active; without VOLUME, all volumes must be.
 */
enum srpi_path_state {
	SRPI_PATH_UNTRIED,
	SRPI_PATH_IN_USE,  /* now, or until the connection was lost */
	SRPI_PATH_DOWN,	   /* the connection was lost, or the login failed */
	SRPI_PATH_STANDBY, /* reads and writes need another address at the
			    * moment */
	/* The volumes are the same, but of another target. Whether the first
	 * target still changes them is unknown. Not used, but tried again. */
	SRPI_PATH_UNSAFE,
	SRPI_PATH_OTHER, /* other volumes; never tried again */
};

/* "in use", "standby", ... */
const char *srpi_path_state_name(enum srpi_path_state state);

struct srpi_path_info {
	size_t struct_size;
	const char *address; /* "10.0.0.1:5555", as the URI has it */
	enum srpi_path_state state;
	const char *why; /* why it is not in use; "": not known */
};

unsigned int srpi_path_cnt(const struct srpi_session *s);
/* @path: 0 ... cnt - 1, in the order of the URI. The texts are valid until the
 * next call of srpi_ctx_run() or srpi_close(). */
void srpi_path_info(const struct srpi_session *s, unsigned int path,
		    struct srpi_path_info *ret_info);

/* ---- volumes ---- */

struct srpi_volume_info {
	uint32_t lun;  /* number; it may change (SRPI_VOLUME_CHANGED) */
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
	uint32_t optimal_transfer;  /* bytes; 0: not reported */
	uint64_t unmap_granularity; /* bytes */
	bool read_only;
	bool write_cache; /* written data needs SRPI_FLUSH to be stable */
	bool fua;
	bool unmap;	   /* SRPI_DISCARD frees space */
	bool unmap_zeroes; /* all discarded blocks read as zeroes */
	bool rotational;
};

/*
 * Volumes have the numbers 0 ... cnt - 1, at first in the order of their LUNs.
 *
 * A volume is known by its identifier, else by its serial number, at whatever LUN. After
 * a reconnect, a session goes on as soon as one of the volumes that the URI names or the
 * program uses is there. One that the target does not show, or that cannot describe
 * itself, costs only itself (srpi_volume_state()): its I/O waits, fails with -EIO after
 * fast_io_fail_ms, and goes on when it is back. One that the program has never used
 * fails at once, with -ENODEV.
 *
 * A session without follow_volumes keeps the volumes that it has found at first. When
 * another disk is in the place of a volume, the volume is gone; the session is LOST when
 * none is left that the URI names or the program uses.
 *
 * A session with follow_volumes goes on without volumes, too. The number of a volume
 * that is gone is never used for another one until srpi_volume_forget(). When
 * the target shows the volume again, it is a new one: what was written to it
 * before, and not flushed, may be lost. A volume is gone three seconds after a reconnect
 * if the target does not show it. When the target has taken a volume away, the
 * session logs in again at once, because a target may keep the LUN of that
 * volume free until then.
 */
unsigned int srpi_volume_cnt(const struct srpi_session *s);
/* The pointer is valid until srpi_volume_forget() or srpi_close(). */
const struct srpi_volume_info *srpi_volume_info(const struct srpi_session *s,
						unsigned int volume);
/* False: there is no such number, or the volume is gone. */
bool srpi_volume_is_present(const struct srpi_session *s, unsigned int volume);
/*
 * What becomes of the I/O of a volume: RUNNING, BLOCKED, FAIL_FAST, or LOST if the volume
 * is gone or there is no such number. It is that of the session, or worse.
 */
enum srpi_state srpi_volume_state(const struct srpi_session *s,
				  unsigned int volume);
/* The program no longer uses the number of a volume that is gone: another volume
 * may get it. No I/O for it may be in progress. */
void srpi_volume_forget(struct srpi_session *s, unsigned int volume);
/* By name, else by LUN number in decimal. -ENOENT: there is none. */
int srpi_volume_find(const struct srpi_session *s, const char *name_or_lun,
		     unsigned int *ret_volume);

/* ---- memory ---- */

/*
 * Buffers for SRPI_READ and SRPI_WRITE must be in memory that was registered
 * with the session: the target reads and writes it directly. Register few large
 * pieces, once. The pages stay locked on RDMA devices (RLIMIT_MEMLOCK). The
 * target of this session, but no other target of the context, can write to all
 * of the memory at any time until srpi_mem_free(): copy data before you check
 * it.
 *
 * Return: 0; -ENOTCONN before srpi_connect() is done, if it has failed, or after
 *   srpi_close(); -ENOMEM, and other negative errnos of the device.
 */
int srpi_mem_register(struct srpi_session *s, void *addr, size_t len,
		      struct srpi_mem **ret_mem, struct srpi_error *e);
/* No I/O may use the memory any more. The session may be closed, but the
 * context must exist. NULL does nothing. */
void srpi_mem_free(struct srpi_mem *mem);

/* ---- I/O ---- */

enum srpi_op {
	SRPI_READ,
	SRPI_WRITE,
	/* Makes the writes that were done before it stable. If some may have
	 * been lost with a target that crashed, or if the target failed them
	 * later, the next flush fails with -EIO. */
	SRPI_FLUSH,
	SRPI_DISCARD,	   /* the contents become undefined (or zero:
			    * unmap_zeroes) */
	SRPI_WRITE_ZEROES, /* may free the space if .discard is set */
	SRPI_EXTENT,	   /* is there data or a hole at offset, and how far? */
};

/*
 * One operation. The caller keeps it and its buffer unchanged from
 * srpi_submit() until done(). Nothing is allocated.
 */
struct srpi_io {
	enum srpi_op op;
	unsigned int volume;
	uint64_t offset; /* bytes, a multiple of the block size */
	uint64_t len;	 /* bytes, a multiple of the block size; READ, WRITE:
			  * at most 4 GiB - 1 */
	void *buf;	 /* READ, WRITE: the data */
	struct srpi_mem *mem; /* that buf lies in */
	bool fua;	      /* WRITE, WRITE_ZEROES: stable before done */
	bool discard;	      /* WRITE_ZEROES */
	/* Results of SRPI_EXTENT: extent_len bytes from offset on are all
	 * mapped, or all a hole. extent_len is at most len. It is 0 only if len
	 * is 0. */
	bool extent_mapped;
	uint64_t extent_len;
	/* @res: 0, or -EIO, -ENOSPC, -EROFS, -EINVAL (not aligned, outside the
	 * volume), -EOPNOTSUPP, -ENOTCONN, -ECANCELED, -ENODEV (the volume is
	 * gone). After an error, the buffer of a read is undefined, and a write
	 * may be done in part. */
	void (*done)(struct srpi_io *io, int res);
	void *arg; /* for the caller */

	uint64_t priv[48]; /* for the library */
};

/*
 * Answers every I/O by io->done(), exactly once, never within this call.
 *
 * Writes of a session (WRITE, DISCARD, WRITE_ZEROES) that overlap reach the volume in
 * the order of the calls: the later one waits until the earlier one has ended, also
 * when nobody waits for the earlier one any more. Other operations have no order.
 */
void srpi_submit(struct srpi_session *s, struct srpi_io *io);

/*
 * Bytes that the program has for itself. Several operations that are one change take
 * their bytes first: a read, and a write of what was read; or a write in parts. Other
 * writes that overlap wait until the bytes are given back, and the range waits for
 * writes and ranges that came before it. Reads do not wait.
 *
 * The caller keeps it from srpi_range_take() to srpi_range_give_back(). Nothing is
 * allocated. closed() of srpi_close() follows when all ranges are given back.
 */
struct srpi_range {
	unsigned int volume; /* a number of the session */
	uint64_t offset;     /* bytes, as of srpi_io */
	uint64_t len;	     /* not 0 */
	/* If srpi_range_take() returned false: the bytes belong to the program. Called
	 * within srpi_ctx_run() or srpi_range_give_back(). */
	void (*taken)(struct srpi_range *range);
	void *arg; /* for the caller */

	uint64_t priv[8]; /* for the library */
};

/* True: the bytes belong to the program. False: taken() follows, also after
 * srpi_close(). */
bool srpi_range_take(struct srpi_session *s, struct srpi_range *range);
/* As srpi_submit(), of an operation within a range that the program has: it waits for
 * no other one. */
void srpi_range_submit(struct srpi_session *s, struct srpi_range *range,
		       struct srpi_io *io);
/* The operations within have ended. Not while the range waits. */
void srpi_range_give_back(struct srpi_session *s, struct srpi_range *range);

/* Holds every answer of srpi_io_answer(). */
#define SRPI_ANSWER_SIZE 224

/*
 * The target's answer to a failed operation, for a person: "MEDIUM ERROR:
 * unrecovered read error (03/11/00) at block 2048". From done() on, until @io
 * is submitted again. Return: false: there was no such answer, because the
 * operation was not sent, or the connection was lost.
 */
bool srpi_io_answer(const struct srpi_io *io, char buf[SRPI_ANSWER_SIZE]);

/*
 * True if an operation failed only because the session was not RUNNING, or because it
 * had no answer and was given up (io_timeout_ms). A flush
 * that was refused reports no loss: when the session is RUNNING again, the next
 * flush fails if writes may be lost. From done() on, until @io is submitted
 * again.
 */
bool srpi_io_refused(const struct srpi_io *io);

/* ---- the same, waiting: these run the context, so no callback may call
 * them ---- */

/* Return: 0; -errno, as of srpi_connect() or of its done(): then there is no
 * session to close. */
int srpi_connect_wait(struct srpi_ctx *ctx, const char *uri,
		      const struct srpi_options *options,
		      struct srpi_session **ret_session, struct srpi_error *e);
void srpi_close_wait(struct srpi_ctx *ctx, struct srpi_session *s);
/* Submits @io and returns its result. It overwrites done and arg. */
int srpi_io_wait(struct srpi_ctx *ctx, struct srpi_session *s,
		 struct srpi_io *io);

#ifdef __cplusplus
}
#endif

#endif
