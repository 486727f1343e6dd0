/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "initiator/key.h"

/* The one function that changes the state. */
void ini_session_enter(struct srpi_session *s, enum srpi_state state,
		       const struct error *why)
{
	bool first = s->state == SRPI_CONNECTING;
	struct srpi_error e;

	s->state = state;
	/* It does not log in any more. The next session of the program should
	 * end what the target still has of this one. */
	if (state == SRPI_LOST || state == SRPI_CLOSED)
		ini_purpose_release(s);
	if (state == SRPI_RUNNING)
		ini_keep_alive_start(s);
	if (first || state == SRPI_CLOSED || !s->options.state_changed)
		return;
	ini_error_give(&e, why);
	s->options.state_changed(s, state, &e, s->options.state_arg);
}

/* ---- the end ---- */

static void session_free(struct srpi_session *s)
{
	reactor_timer_stop(&s->queue.watch_timer);
	ini_discovery_free(s);
	ini_properties_free(s->properties);
	srpi_mem_free(s->zeroes_mem);
	ini_xp_put(s->own);
	free(s->zeroes);
	ini_volumes_free(s);
	ini_paths_free(s);
	ini_key_free(s->key);
	s->ctx->sessions--;
	free(s);
}

void ini_session_free_if_idle(struct srpi_session *s)
{
	void (*done)(void *arg) = s->closed;
	void *arg = s->closed_arg;

	if (!s->closing || !s->started || s->queue.undone_sent ||
	    s->queue.cmds > 0 || s->ranges > 0 || s->channel_cnt > 0)
		return;
	session_free(s);
	if (done)
		done(arg);
}

void srpi_close(struct srpi_session *s, void (*closed)(void *arg), void *arg)
{
	s->closed = closed;
	s->closed_arg = arg;
	s->closing = true;
	ini_session_enter(s, SRPI_CLOSED, NULL);
	ini_reconnect_stop(s);
	ini_keep_alive_stop(s);
	ini_absent_stop(s);
	/* closed() must not be called from within: a message does the last
	 * step. */
	ini_queue_end_soon(s);
	ini_queue_refuse(s, -ECANCELED);
	ini_link_end(s);
}

/* ---- the begin ---- */

static void choose_transport(struct srpi_session *s)
{
	s->kind = s->uri.kind;
	if (!s->uri.forced && !xp_present(s->kind)) {
		s->kind++;
		snprintf(s->why, sizeof(s->why),
			 "this machine has no RDMA device");
	}
}

/* A login with the same port identifier ends an older session, so the
 * default is unique. */
static int choose_initiator(struct srpi_session *s, struct error *e)
{
	bool chosen = s->uri.has_initiator || s->options.identity;

	if (s->uri.has_initiator)
		s->initiator = s->uri.initiator;
	else if (s->options.identity)
		scsi_text_digest(s->options.identity, (uint8_t *)&s->initiator);
	e->err = 0;
	if (s->options.purpose && !s->options.identity)
		chosen |= ini_purpose_claim(s, e);
	if (!chosen && getrandom(&s->initiator, sizeof(s->initiator), 0) !=
			       sizeof(s->initiator))
		s->initiator = srp_port_id_make((uintptr_t)s, getpid());
	return e->err;
}

static void ini_session_start(struct reactor_msg *msg)
{
	struct srpi_session *s =
		container_of(msg, struct srpi_session, start_msg);

	s->started = true;
	if (s->closing)
		ini_session_free_if_idle(s);
	else
		ini_connect_begin(s);
}

static int parse_uri(const char *text, struct xp_uri *ret, struct error *e)
{
	int err = xp_uri_parse(text, ret, e);

	/* The reason, which stands behind it, must not be cut. */
	if (err)
		error_prefix(e, "bad address '%.256s%s': ", text,
			     strlen(text) > 256 ? "..." : "");
	return err;
}

int srpi_uri_parse(const char *text, struct srpi_uri *ret_uri,
		   struct srpi_error *e)
{
	struct srpi_uri uri = { 0 };
	struct error why;
	struct xp_uri u;

	if (parse_uri(text, &u, &why))
		return ini_error_give(e, &why);
	memcpy(uri.host, u.host, sizeof(uri.host));
	uri.port = u.port;
	memcpy(uri.volume, u.volume, sizeof(uri.volume));
	if (u.has_initiator)
		srp_port_id_format(&u.initiator, uri.initiator);
	uri.addresses = 1 + u.more_cnt;
	ini_struct_give(ret_uri, &uri, sizeof(uri));
	return 0;
}

int srpi_uri_address(const char *text, unsigned int n, char ret_host[256],
		     uint16_t *ret_port)
{
	struct xp_uri u;

	if (xp_uri_parse(text, &u, NULL) || n > u.more_cnt)
		return -ENOENT;
	memcpy(ret_host, n ? u.more[n - 1].host : u.host, sizeof(u.host));
	*ret_port = n ? u.more[n - 1].port : u.port;
	return 0;
}

void srpi_port_of_identity(const char *identity, char ret_port[SRPI_PORT_SIZE])
{
	struct srp_port_id port;

	scsi_text_digest(identity, (uint8_t *)&port);
	srp_port_id_format(&port, ret_port);
}

static int ini_session_read_key(struct srpi_session *s, struct error *e)
{
	if (s->uri.tls && !s->uri.key[0])
		return error_set(e, -EINVAL, "%s needs a key: ?key=FILE",
				 xp_kind_traits(s->uri.kind)->tls_scheme);
	return s->uri.key[0] ? ini_key_read(s->uri.key, &s->key, e) : 0;
}

/* Checks the arguments of the caller. After an error, the addresses and the key must be
 * freed. */
static int ini_session_check(struct srpi_session *s, const char *uri,
			     const struct srpi_options *options,
			     struct error *e)
{
	const char *fault;
	int err = ini_struct_take(&s->options, sizeof(s->options), options, e);

	if (!err)
		err = parse_uri(uri, &s->uri, e);
	if (err)
		return err;
	fault = srpi_timeouts_fault(&s->options);
	if (fault)
		return error_set(e, -EINVAL, "%s", fault);
	err = ini_session_read_key(s, e);
	return err ? err : ini_paths_resolve(s, e);
}

int srpi_connect(struct srpi_ctx *ctx, const char *uri,
		 const struct srpi_options *options,
		 void (*done)(struct srpi_session *s,
			      const struct srpi_error *e, void *arg),
		 void *arg, struct srpi_session **ret_session,
		 struct srpi_error *e)
{
	struct srpi_session *s = calloc(1, sizeof(*s));
	struct error why;

	if (!s) {
		error_set(&why, -ENOMEM, "out of memory");
		return ini_error_give(e, &why);
	}
	s->purpose.dir = -1;
	if (ini_session_check(s, uri, options, &why) ||
	    choose_initiator(s, &why)) {
		ini_paths_free(s);
		ini_key_free(s->key);
		free(s);
		return ini_error_give(e, &why);
	}
	s->ctx = ctx;
	s->connected = done;
	s->connected_arg = arg;
	ini_options_set_defaults(&s->options);
	s->options.identity = NULL; /* the caller's */
	s->options.purpose = NULL;
	choose_transport(s);
	ini_queue_init(s);
	ini_link_init(s);
	ini_reconnect_init(s);
	ini_keep_alive_init(s);
	ini_absent_init(s);
	ctx->sessions++;
	*ret_session = s;
	s->start_msg.run = ini_session_start;
	reactor_send(ctx->reactor, &s->start_msg);
	return 0;
}

enum srpi_state srpi_session_state(const struct srpi_session *s)
{
	return s->state;
}

void srpi_session_info(const struct srpi_session *s,
		       struct srpi_session_info *ret_info)
{
	struct srpi_session_info info = {
		.transport = xp_kind_name(s->kind),
		.why = s->why,
		.device = s->conn.device,
		.local = s->conn.local,
		.peer = s->conn.peer,
		.volume = s->uri.volume,
		.channels = s->conn.up_cnt,
		.fewer = s->conn.fewer,
		.queue_depth = s->conn.in_flight,
		.immediate_data = s->conn.immediate_data,
		.pins_memory = xp_kind_traits(s->kind)->needs_device,
		.mtu = s->conn.negotiated.mtu,
		.port_mtu = s->conn.negotiated.port_mtu,
		.read_depth = s->conn.negotiated.read_depth,
		.gid = s->conn.gid,
		.pkey = s->conn.negotiated.pkey,
		.sl = s->conn.negotiated.sl,
		.purpose_fault = s->purpose.fault,
		.not_ready = s->not_ready.err ? s->not_ready.text : "",
	};

	srp_port_id_format(&s->initiator, info.initiator);
	ini_struct_give(ret_info, &info, sizeof(info));
}

void srpi_session_stats(const struct srpi_session *s,
			struct srpi_session_stats *ret_stats)
{
	struct srpi_session_stats stats = s->stats;

	stats.last_error = s->error.text;
	ini_struct_give(ret_stats, &stats, sizeof(stats));
}

/* ---- memory ---- */

int ini_mem_register(struct srpi_session *s, void *addr, size_t len,
		     struct srpi_mem **ret_mem, struct error *e)
{
	struct srpi_mem *mem = calloc(1, sizeof(*mem));
	int err;

	if (!mem)
		return error_set(e, -ENOMEM, "out of memory");
	err = xp_mr_register(s->xp, addr, len, XP_REMOTE, &mem->mr, e);
	if (err) {
		free(mem);
		return err;
	}
	mem->own = s->own;
	mem->own->users++;
	*ret_mem = mem;
	return 0;
}

int srpi_mem_register(struct srpi_session *s, void *addr, size_t len,
		      struct srpi_mem **ret_mem, struct srpi_error *e)
{
	struct error why;
	int err;

	/* The transport is not chosen before. */
	if (s->state == SRPI_CONNECTING || s->state == SRPI_CLOSED)
		err = error_set(&why, -ENOTCONN,
				"memory can only be registered with a session "
				"that is connected");
	else
		err = ini_mem_register(s, addr, len, ret_mem, &why);
	if (err)
		ini_error_give(e, &why);
	return err;
}

void srpi_mem_free(struct srpi_mem *mem)
{
	if (!mem)
		return;
	xp_mr_free(mem->mr);
	ini_xp_put(mem->own);
	free(mem);
}
