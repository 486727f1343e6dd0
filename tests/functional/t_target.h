/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A real rdma-target for a test. It is started, ready when the call returns,
 * and stopped together with the test in all cases. Each test program has a
 * loopback address of its own, and each target has a port of its own there, so
 * that programs can run side by side. Any failure here fails the test.
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

/* The same, but the target may refuse to start. Returns false then; the log has
 * the reason. */
bool t_target_starts(struct t_target *t, const char *const *args);

/* Waits for the end; returns the status of waitpid(). */
int t_target_wait(struct t_target *t);

/* Sends @sig and waits for the end. */
int t_target_end(struct t_target *t, int sig);

/* Ends it with SIGTERM, unless it has ended. It must exit with 0. */
void t_target_stop(struct t_target *t);

/* "/tmp/t-ABCDEF". When the program exits, the directory is removed with its
 * contents, unless T_KEEP is in the environment. */
const char *t_scratch(void);

/* Makes the sparse file @name there. Returns its path, which stays valid. */
const char *t_scratch_file(const char *name, off_t size);

/* The build directory, which has the programs under test. */
const char *t_build(void);

#endif
