/* SPDX-License-Identifier: BSD-2-Clause */
/* The command line of rdma-fuse. Thread: setup. */
#ifndef FUSE_OPTIONS_H
#define FUSE_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/log.h"
#include "base/option.h"

#define OPTIONS_MAX_WRITE_MIN (128u << 10)
#define OPTIONS_MAX_WRITE_MAX (1u << 20)

/* Strings are borrowed from argv, or static. */
struct fuse_options {
	const char *uri;
	const char *mountpoint;
	const char *pidfile; /* NULL: none */
	/* "": none. A copy: -o has no text of its own for a value. */
	char metrics_file[PATH_MAX];
	bool foreground;
	bool read_only;
	enum log_level log_level;

	unsigned int channels;	  /* 0: the default of srpi_options */
	unsigned int queue_depth; /* per channel */
	unsigned int poll_us;
	/* As in struct srpi_options: milliseconds, or SRPI_OFF. */
	int fast_io_fail_ms;
	int dev_loss_ms;
	int reconnect_delay_ms;
	int io_timeout_ms;
	int keep_alive_ms;

	/* -o */
	bool allow_other;
	bool default_permissions;
	uid_t uid;
	gid_t gid;
	mode_t umask;
	uint32_t max_write; /* bytes, a multiple of the page size */
	char fsname[256];   /* "": the URI */
	char subtype[64];
	char vfs[256]; /* ",nosuid,noatime": options of the kernel */
};

extern const struct option_table fuse_option_table;
extern const struct option_table fuse_mount_table; /* -o */

/* OPTION_RUN: mount. Other values: end; errors are logged. */
enum option_verdict fuse_options_parse(int argc, char **argv,
				       struct fuse_options *ret);

#endif
