/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The session of a mount: login, the log of its states, and the end.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_MOUNT_SESSION_H
#define FUSE_MOUNT_SESSION_H

#include "fuse/options.h"
#include "initiator/srp_initiator.h"

struct mount_volumes;

struct mount_session {
	const struct fuse_options *o;
	struct srpi_session *srpi; /* NULL: none, or closed */
	/* Where events of volumes go; NULL: nowhere */
	struct mount_volumes *volumes;
	enum srpi_state state; /* as last logged */
	bool lost;	       /* for good: the mount has to end */
	bool login_done;
	struct error login_error; /* once login_done; err 0: logged in */
	bool closing;
};

/**
 * mount_session_open() - begin to log in
 * @ms:         zeroed by this; must stay until the session is closed
 * @mountpoint: the port identifier is made for it: see srpi_options.purpose
 * @follow:     the mount shows all volumes, also those that come later
 *
 * Run the reactor until login_done.
 *
 * Return: 0, or a negative errno with @ret_error set: there is no session.
 */
int mount_session_open(struct mount_session *ms, const struct fuse_options *o,
		       struct srpi_ctx *ctx, const char *mountpoint,
		       bool follow, struct error *ret_error);

/* Logs to whom and how the session is connected. */
void mount_session_log(const struct mount_session *ms);

/* Logs out; run the reactor until closing is false. */
void mount_session_close(struct mount_session *ms);

#endif
