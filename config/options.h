/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of rdma-target, from the command line and from the configuration
 * file. Thread: setup. */
#ifndef CONFIG_OPTIONS_H
#define CONFIG_OPTIONS_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/key_file.h"
#include "base/log.h"
#include "base/option.h"
#include "config/option_limits.h"
#include "config/volume_spec.h"
#include "transport/uri.h"

#define OPTIONS_LISTENS_MAX 16

/* The word of --state-dir for no directory. */
#define OPTIONS_STATE_NONE "none"

/* Initiators wait for a flush no longer than this: 60 s for Linux. TimeoutStopSec= of the
 * unit is longer than the five steps of the end (server_stop.h), and 10 s for channels. */
#define OPTIONS_STOP_TIMEOUT_S 90

#define OPTIONS_BUFFERS_DEFAULT (32u << 20)
/* Bytes for each thread without --buffers. A power of two. VERIFY needs more
 * than one transfer. */
#define OPTIONS_BUFFERS_THREAD (2 * VOLUME_MAX_TRANSFER)
/* The smallest value for one thread. Every READ and WRITE fits into it, and it
 * is within the usual limit of 8 MiB of locked memory. Larger commands are
 * refused. */
#define OPTIONS_BUFFERS_MIN VOLUME_MAX_TRANSFER

/* configuration_complete() asks the machine. */
#define OPTIONS_POLL_US_DEFAULT UINT_MAX

/* Most threads without --threads: OPTIONS_BUFFERS_DEFAULT is enough for
 * these. */
#define OPTIONS_THREADS_DEFAULT_MAX \
	(OPTIONS_BUFFERS_DEFAULT / OPTIONS_BUFFERS_THREAD)

struct target_options {
	struct xp_uri listens[OPTIONS_LISTENS_MAX];
	const char *listen_texts[OPTIONS_LISTENS_MAX]; /* as given; borrowed */
	unsigned int listen_cnt;		       /* 0: the default */
	struct volume_spec *backings;
	char **backing_texts; /* as given; of a file: the store */
	unsigned int backing_cnt;
	unsigned int threads;
	bool threads_given;   /* else the number of processors and --buffers
			     * decide */
	unsigned int poll_us; /* or OPTIONS_POLL_US_DEFAULT */
	struct access_rules allow;
	const char *allow_texts[ACCESS_RULES_MAX]; /* as given; borrowed */
	struct port_limits limits;
	unsigned int rdma_timeout_s;
	unsigned int stop_timeout_s;
	unsigned int keepalive_s;
	const char *discovery; /* "on", "off", or names of interfaces */
	const char *keys_file; /* NULL: none */
	/* Of configuration_complete(); NULL: no keys_file. While the target runs, worker 0
	 * changes it. */
	struct key_file *keys;
	const char *metrics;	  /* ADDR:PORT for HTTP; NULL: none */
	const char *metrics_file; /* NULL: none */
	unsigned int slow_ms;	  /* commands to log; 0: none */
	uint64_t buffers;	  /* bytes, of all threads together */
	const char *user; /* NULL: do not change it; borrowed, as all texts
			       * here */
	bool no_sandbox;
	bool daemonize;
	bool check_plugin;	  /* check backings[0] and serve nothing */
	const char *pidfile;	  /* NULL: none */
	const char *state_dir;	  /* NULL: the default (state_dir.h) */
	const char *volumes_from; /* it may open new volumes below; NULL:
				   * nowhere */
	enum log_level log_level;
	const char *config;  /* the configuration file; NULL: none */
	const char *check;   /* check this configuration, serve nothing */
	const char *control; /* path of the control socket, or "none"; NULL: not
			      * given (config/control_path.h) */
	bool strict;	     /* the start waits for nothing */
	bool auto_save;	     /* save the configuration after each change */
};

extern const struct option_table target_option_table;

/* Stores the values that apply before any option is given. Free with
 * target_options_free(). */
void target_options_init(struct target_options *opt);
void target_options_free(struct target_options *opt);

/* Copies @spec and @text. False: refused. */
bool target_options_add_backing(struct target_options *opt,
				const struct volume_spec *spec,
				const char *text, struct error *e);

/* Bytes of the arena of each thread: the largest power of two that fits. */
size_t options_arena_len(const struct target_options *opt);

/* Does an option name a control socket? */
bool options_have_control(const struct target_options *opt);

/* Is nothing to survive (--state-dir none)? */
bool options_keep_nothing(const struct target_options *opt);

/* The port by which initiators know the target: of the first --listen. 0: it is another
 * one after each start. */
uint16_t options_first_port(const struct target_options *opt);

/* Will the target listen on a port that needs a right (below 1024)? */
bool options_has_low_port(const struct target_options *opt);

#endif
