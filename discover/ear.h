/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The part of rdma-discover --daemon that reads what peers send: a child asks for
 * targets and reads the datagrams that come. It has no capabilities, and after it has opened its
 * sockets and RDMA devices, a filter of system calls lets it use only those (in
 * builds with libseccomp). It gives records of a fixed size to the daemon, which takes
 * nothing in them for granted.
 *
 *	FAILED			nobody can be asked; the child has ended
 *	TARGET... ASKED		the targets that have answered, and the end of the question
 *	BYE..., NEWS		a target said that it goes; it is time to ask again
 *
 * Thread: main.
 */
#ifndef DISCOVER_EAR_H
#define DISCOVER_EAR_H

#include <sys/types.h>

#include "discover/finder.h"

enum ear_kind {
	EAR_FAILED,
	EAR_TARGET,
	EAR_ASKED,
	EAR_BYE,
	EAR_NEWS,
};

struct ear_record {
	enum ear_kind kind;
	union {
		char why[ERROR_TEXT_SIZE];  /* FAILED */
		struct found_record target; /* TARGET */
		struct srp_port_id id;	    /* BYE */
		struct {		    /* ASKED */
			unsigned int more;  /* targets without a place */
			bool said_left_out; /* the log has this */
		};
	};
};

struct ear {
	int fd; /* to poll; -1: there is no child */
	pid_t pid;
};

/* Starts a child, which asks. @quiet: it does not log that there are too many ways to ask.
 * Return: 0 or a negative errno. */
int ear_open(struct ear *ear, const struct finder_options *o, bool quiet);
/* Ends it. */
void ear_close(struct ear *ear);

/* Takes one record. Return: 1; 0: there is none now; -EPIPE: the child has ended; -EBADMSG:
 * it has sent something else. */
int ear_read(struct ear *ear, struct ear_record *ret);

#endif
