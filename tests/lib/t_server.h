/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rdma-target in this process, from its command line to its end. All of it is the
 * real code, except for RDMA, which is the fabric in memory (t_fabric.h), and for the
 * log: the linker wraps xp_create(), log_write() and log_write_about(). The test is the
 * administrator, on the control socket, and plays initiators.
 *
 * A server runs in a thread of its own. There is one at a time, and the working
 * directory is its scratch directory.
 *
 * What fails here ends the program (t_must.h), and so does a wait of 120 s.
 */
#ifndef TESTS_LIB_T_SERVER_H
#define TESTS_LIB_T_SERVER_H

#include <jansson.h>

#include "tests/lib/t_ini.h"

/* Where the target listens, with the default port, unless the test says otherwise by
 * "--listen" or "--config". */
#define T_SERVER_ADDR "10.0.0.1"

/* Makes a scratch directory and enters it; or leaves and removes it, and ends the server
 * that a test has left. */
void t_server_enter(void);
void t_server_leave(void);

/* Writes @text to the file @name of the scratch directory; or reads it, to be freed.
 * NULL: there is no such file. */
void t_server_write(const char *name, const char *text);
char *t_server_read(const char *name);
/* Waits until the target has made it. */
void t_server_await_file(const char *name);
/* Makes a file of @len bytes, all zero. */
void t_server_make_file(const char *name, size_t len);

/* Removes the scratch directory, with its slash, from @text, which it returns: absolute paths
 * become the names that a test knows. */
char *t_server_names(char *text);

/* Starts rdma-target with @args, which end with NULL, and with what a test needs. It
 * serves when this returns. */
void t_server_start(const char *const *args);
/* Ends it by @sig, after all logins. Returns the exit code. */
int t_server_end(int sig);
/* Sends a signal to the process. */
void t_server_signal(int sig);

/* The same of an rdma-target that refuses to start, with exit code 1; or of one that ends at
 * once with 0. Returns its log. */
const char *t_server_refuse(const char *const *args);

/* All lines since the start: warnings, errors, and events of every level. Lives until the
 * next call. */
const char *t_server_log(void);
/* Waits until the log has @part. */
void t_server_await_log(const char *part);

/* What the service manager has been told, each with a newline: "READY=1\n"; or waits until
 * it has been told @part. */
const char *t_server_notes(void);
void t_server_await_note(const char *part);

/* Calls a method, "AddVolume", with the parameters @in, in JSON. Returns the answer,
 * which lives until the next call. */
const json_t *t_server_call(const char *method, const char *in);
/* The same of a method that succeeds: returns its parameters. */
const json_t *t_server_ask(const char *method, const char *in);

/* Calls it on a connection of its own, and does not wait; or waits for the answer, and
 * closes the connection. */
int t_server_begin(const char *method, const char *in);
const json_t *t_server_finish(int fd, const char *method);

/* Follows the events from its return on; the caller closes the descriptor. Waits for the
 * next one. */
int t_server_follow(void);
const json_t *t_server_event(int fd);

/* The machine has no RDMA device, as from the next server on. */
void t_server_without_device(bool without);

/* Logs in as initiator number @who, on one channel, and awaits that. */
struct t_ini *t_server_login(unsigned int who);
/* "0x000...1": the name of initiator number @who. */
const char *t_server_initiator(unsigned int who);
/* Waits until the target has ended the channel. */
void t_server_await_logout(struct t_ini *ini);
/* Ends it, if it is still there, and frees it. */
void t_server_logout(struct t_ini *ini);

#endif
