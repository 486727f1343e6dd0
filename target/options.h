/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of rdma-target. Thread: setup. */
#ifndef TARGET_OPTIONS_H
#define TARGET_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "protocol/srp_uri.h"
#include "target/port/port.h"
#include "base/log.h"

#define OPTIONS_LISTENS_MAX 16

#define OPTIONS_BUFFERS_DEFAULT (32u << 20)
/* Of one thread, unless --buffers says otherwise: the largest block that a
 * command may want, which is a power of two. VERIFY needs more than one
 * transfer. Bytes. */
#define OPTIONS_BUFFERS_THREAD (2 * VOLUME_MAX_TRANSFER)
/* Of one thread, at least: any READ and WRITE fits. A command that needs more
 * is refused. So that 8 MiB of memory to lock, a common limit, will do. */
#define OPTIONS_BUFFERS_MIN VOLUME_MAX_TRANSFER

/* Threads, unless --threads says otherwise: as many as OPTIONS_BUFFERS_DEFAULT
 * is enough for. */
#define OPTIONS_THREADS_DEFAULT_MAX \
	(OPTIONS_BUFFERS_DEFAULT / OPTIONS_BUFFERS_THREAD)

struct options {
	struct srp_uri listens[OPTIONS_LISTENS_MAX];
	unsigned int listen_cnt; /* 0: the default */
	struct volume_spec *backings;
	unsigned int backing_cnt;
	unsigned int threads;
	bool threads_given; /* else they depend on processors and buffers */
	unsigned int poll_us;
	struct access_rules allow;
	struct port_limits limits;
	unsigned int rdma_timeout_s;
	unsigned int keepalive_s;
	uint64_t buffers; /* bytes, of all threads together */
	const char *user; /* NULL: who we are; borrowed from argv */
	bool no_sandbox;
	bool check_plugin;     /* check backings[0] and serve nothing */
	const char *pidfile;   /* NULL: none; borrowed from argv */
	const char *state_dir; /* NULL: none; borrowed from argv */
	enum log_level log_level;
};

enum options_verdict {
	OPTIONS_RUN,
	OPTIONS_DONE, /* --help, --version: printed; exit 0 */
	OPTIONS_BAD,  /* one line to stderr was printed; exit 1 */
};

/* Free with options_free(), whatever the verdict. */
enum options_verdict options_parse(int argc, char **argv,
				   struct options *ret_opt);
void options_free(struct options *opt);

/* Bytes of each thread's arena: the largest power of two that fits. */
size_t options_arena_len(const struct options *opt);

#endif
