/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/mount_session.h"

#include <limits.h>
#include <stdio.h>

#include "fuse/addresses.h"
#include "fuse/mount_volumes.h"
#include "base/log.h"

static void mount_session_logged_in(struct srpi_session *s,
				    const struct srpi_error *e, void *arg)
{
	struct mount_session *ms = arg;

	ms->login_done = true;
	if (e->err)
		error_set(&ms->login_error, e->err, "%s", e->text);
}

/* "up to 15 s", or "without limit"; 0 is no limit, too */
static const char *mount_session_wait_text(int ms, char *buf, size_t len)
{
	if (ms <= 0)
		snprintf(buf, len, "without limit");
	else
		snprintf(buf, len, "up to %g s", (double)ms / 1000);
	return buf;
}

static void mount_session_log_waiting(const struct mount_session *ms,
				      const struct srpi_error *why)
{
	char time[32];

	log_warn("%s; reads and writes wait %s for the connection", why->text,
		 mount_session_wait_text(ms->o->fast_io_fail_ms >= 0
						 ? ms->o->fast_io_fail_ms
						 : ms->o->dev_loss_ms,
					 time, sizeof(time)));
}

static void mount_session_log_failing(const struct srpi_error *why)
{
	log_error("%s; reads and writes fail with an I/O error until the "
		  "connection is back",
		  why->text);
}

static void mount_session_log_addresses(const struct srpi_session *s)
{
	char text[1024];

	if (srpi_path_cnt(s) < 2)
		return;
	addresses_text(s, text, sizeof(text));
	log_notice("addresses: %s", text);
}

/* Logs a new state, or a new reason of the same state. */
static void mount_session_state_changed(struct srpi_session *s,
					enum srpi_state state,
					const struct srpi_error *why, void *arg)
{
	struct mount_session *ms = arg;
	bool is_new = state != ms->state;

	ms->state = state;
	ms->lost |= state == SRPI_LOST;
	if (state == SRPI_BLOCKED && is_new)
		mount_session_log_waiting(ms, why);
	else if (state == SRPI_FAIL_FAST && is_new)
		mount_session_log_failing(why);
	else if (state == SRPI_LOST)
		log_error("%s; this is final: rdma-fuse ends, unmount and "
			  "mount again",
			  why->text);
	else if (state == SRPI_RUNNING && why->err)
		log_error("%s; reads and writes continue", why->text);
	else if (state == SRPI_RUNNING)
		log_notice("%s; reads and writes continue", why->text);
	else
		log_warn("%s; still trying", why->text);
	if (state == SRPI_RUNNING && is_new)
		mount_session_log_addresses(s);
}

static void mount_session_volume_event(struct srpi_session *s,
				       unsigned int volume,
				       enum srpi_volume_event event,
				       const char *why, void *arg)
{
	const struct mount_session *ms = arg;

	if (ms->volumes)
		mount_volumes_event(ms->volumes, volume, event, why);
}

int mount_session_open(struct mount_session *ms, const struct fuse_options *o,
		       struct srpi_ctx *ctx, const char *mountpoint,
		       bool follow, struct error *ret_error)
{
	struct srpi_session_info info = { .struct_size = sizeof(info) };
	char purpose[PATH_MAX + sizeof("rdma-fuse ")];
	const struct srpi_options so = {
		.struct_size = sizeof(so),
		.purpose = purpose,
		.channels = o->channels,
		.queue_depth = o->queue_depth,
		.fast_io_fail_ms = o->fast_io_fail_ms,
		.dev_loss_ms = o->dev_loss_ms,
		.reconnect_delay_ms = o->reconnect_delay_ms,
		.io_timeout_ms = o->io_timeout_ms,
		.keep_alive_ms = o->keep_alive_ms,
		.state_changed = mount_session_state_changed,
		.state_arg = ms,
		.follow_volumes = follow,
		.volume_event = mount_session_volume_event,
	};
	struct srpi_error e;
	int err;

	*ms = (struct mount_session){ .o = o };
	/* The URI is no part of it: when a mount was killed, the next one may use
	 * another address of the target, which has to end what the first one has
	 * left there. */
	snprintf(purpose, sizeof(purpose), "rdma-fuse %s", mountpoint);
	err = srpi_connect(ctx, o->uri, &so, mount_session_logged_in, ms,
			   &ms->srpi, &e);
	if (err)
		return error_set(ret_error, err, "%s", e.text);
	srpi_session_info(ms->srpi, &info);
	if (*info.purpose_fault)
		log_warn("%s: %s", mountpoint, info.purpose_fault);
	return 0;
}

/* Fewer channels than the user asked for is a warning. */
static void mount_session_log_fewer_channels(const struct mount_session *ms,
					     const struct srpi_session_info *si)
{
	if (!*si->fewer)
		return;
	if (ms->o->channels)
		log_warn("only %u of %u channels to %s from %s: %s",
			 si->channels, ms->o->channels, si->peer, si->local,
			 si->fewer);
	else
		log_notice("only one channel to %s from %s: %s", si->peer,
			   si->local, si->fewer);
}

void mount_session_log(const struct mount_session *ms)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };

	srpi_session_info(ms->srpi, &si);
	log_notice("logged in to %s over %s%s%s", si.peer, si.transport,
		   *si.why ? ": " : "", si.why);
	mount_session_log_addresses(ms->srpi);
	mount_session_log_fewer_channels(ms, &si);
	if (*si.not_ready)
		log_warn("%s", si.not_ready);
	log_info("from %s, device %s, %u channel%s, %u commands in flight, "
		 "initiator %s%s",
		 si.local, si.device, si.channels, si.channels == 1 ? "" : "s",
		 si.queue_depth, si.initiator,
		 si.immediate_data ? ", immediate data" : "");
}

static void mount_session_closed(void *arg)
{
	((struct mount_session *)arg)->closing = false;
}

void mount_session_close(struct mount_session *ms)
{
	ms->closing = true;
	srpi_close(ms->srpi, mount_session_closed, ms);
	ms->srpi = NULL;
}
