/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The control socket: a UNIX socket on which programs call methods, as varlink does
 * (varlink.h). Each connection has a thread of its own, so that no client, however
 * slow or hostile, keeps a worker or another client from anything.
 *
 * Root and the user of the target may call every method. The group of the socket may
 * call those that change nothing; others cannot connect (mode 0660).
 *
 * Limits: CONTROL_CONNS_MAX connections, of which the group may have half; messages
 * of CONFIG_TEXT_MAX bytes; CONTROL_MESSAGE_MS for one; CONTROL_IDLE_MS without one.
 */
#ifndef TARGET_CONTROL_CONTROL_H
#define TARGET_CONTROL_CONTROL_H

#include <jansson.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/given_files.h"

#define CONTROL_CONNS_MAX  32
#define CONTROL_MESSAGE_MS 10000
#define CONTROL_IDLE_MS	   600000

/* One call of a method, on the thread of its connection. */
struct control_call {
	void *user;	  /* of control_start() */
	const json_t *in; /* an object; it has what control_method.in says */
	/* What the client has handed over on this connection. */
	struct given_files *given;
	/* The result. */
	json_t *out;	   /* of the reply, or of the error; taken over */
	const char *error; /* static; NULL: it is a reply */
	struct control_conn *conn; /* private */
};

struct control_method {
	const char *name;
	/* Types, as varlink writes them: "name: string, force: ?bool". An object is any
	 * value, or none, and so is a map: the method checks these itself. */
	const char *in;
	const char *out; /* "", or the same */
	const char *help;
	/* For root and the user of the target alone. Its reply also has the warnings and
	 * errors that were logged meanwhile: "warnings: ?[]string". */
	bool changes;
	/* It sends replies until the client leaves ("more" of varlink); what it puts
	 * into the call is the last one. */
	bool streams;
	void (*run)(struct control_call *call);
};

struct control_interface {
	const char *name;    /* "org.example.thing" */
	const char *product; /* what org.varlink.service.GetInfo says */
	const char *version;
	const char *help;
	const char *errors; /* "error Name (...)" lines */
	const struct control_method *methods;
	unsigned int cnt;
};

/* Sends one reply of several; @parameters are taken over. False: the client is gone,
 * does not read, or the target ends. Thread: that of the stream, as the next. */
bool control_stream_send(struct control_call *call, json_t *parameters);
/* Waits until @fd is readable. False as above. */
bool control_stream_await(struct control_call *call, int fd);

struct control;

/*
 * Creates the socket at @path, and replaces one that a killed target has left.
 * Creates the directory if there is none. @owner: the owner of the socket, by
 * name or number; NULL: the user of the process. -EADDRINUSE: another target
 * listens there. Thread: setup, as the next.
 */
int control_create(const char *path, const char *owner, struct control **ret,
		   struct error *e);

/* From now on calls the methods of @i, with @user. */
int control_start(struct control *c, const struct control_interface *i,
		  void *user, struct error *e);

/*
 * Asks the thread that takes connections to turn once, and counts its turns: the count
 * changes soon, unless that thread hangs. Thread: any, between control_start() and
 * control_destroy().
 */
unsigned int control_poke(struct control *c);

/* Ends all connections, awaits the methods that run, and removes the socket. NULL is
 * fine. False: a method goes on for @last_ms after its client has gone; nothing is freed,
 * and it can be called again. Thread: setup. */
bool control_destroy(struct control *c, unsigned int last_ms);

/* The interface in varlink's own language, to be freed; NULL: no memory. */
char *control_describe(const struct control_interface *i);

#endif
