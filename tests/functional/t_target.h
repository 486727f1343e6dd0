/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A real rdma-target for a test to talk to: started, known to be ready, and
 * gone with the test, whatever becomes of it. Each test program has a loopback
 * address of its own and each target a port of its own there, so that programs
 * can run side by side. What goes wrong here fails the test.
 */
#ifndef TESTS_FUNCTIONAL_T_TARGET_H
#define TESTS_FUNCTIONAL_T_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

struct t_target {
	pid_t pid;     /* 0: not running */
	int out;       /* its standard output */
	char addr[32]; /* "127.64.12.34:5750" */
	char uri[64];  /* "srp+tcp://127.64.12.34:5750" */
	char log[64];  /* file with its standard error */
};

/*
 * Starts rdma-target with @args (NULL at the end; "--listen" is added) and
 * waits until it is ready.
 */
void t_target_start(struct t_target *t, const char *const *args);

/* The same, or waits until it has refused to: false, with its reason in the
 * log. */
bool t_target_starts(struct t_target *t, const char *const *args);

/* Waits for the end; returns the status as waitpid() gives it. */
int t_target_wait(struct t_target *t);

/* Sends @sig and waits for the end. */
int t_target_end(struct t_target *t, int sig);

/* Ends it with SIGTERM, unless it has ended: it must then exit with 0. */
void t_target_stop(struct t_target *t);

/* "/tmp/t-ABCDEF", removed with all it holds when the program exits, unless
 * T_KEEP is in the environment. */
const char *t_scratch(void);

/* Makes file @name there, sparse, and returns its path: valid for good. */
const char *t_scratch_file(const char *name, off_t size);

/* Build root: where the programs under test are. */
const char *t_build(void);

#endif
