/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/responder.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/count.h"
#include "base/list.h"
#include "base/log.h"
#include "base/ticks.h"
#include "protocol/discovery.h"
#include "target/responder_set.h"
#include "transport/device_watch.h"

#define WINDOW_MS 1000
/* Datagrams read from an endpoint before the others have their turn. */
#define READS_A_TURN 32

struct responder {
	const struct responder_options *opt;
	int socket; /* of the target */
	struct listen_points points;
	struct responder_set set;
	struct device_watch devices;
	struct discovery_msg self; /* the announcement */
	bool said_left_out;	   /* the log has that it is not complete */
	uint64_t window_ms;	   /* when the budgets began */
	uint64_t look_due_ms;
};

static uint64_t responder_now_ms(void)
{
	return ticks_clock_ns() / 1000000;
}

/* ---- the announcement ---- */

/* The short name of the host, with the port unless it is the usual one. */
static void responder_name(struct responder *r)
{
	const struct sockaddr_in *first =
		(const void *)&r->points.point[0].addr;
	unsigned int port = ntohs(first->sin_port);
	char host[DISCOVERY_INSTANCE_SIZE - 8] = "";
	char name[DISCOVERY_INSTANCE_SIZE];

	gethostname(host, sizeof(host) - 1);
	host[strcspn(host, ".")] = '\0';
	if (port == XP_URI_PORT)
		snprintf(name, sizeof(name), "%s", host);
	else
		snprintf(name, sizeof(name), "%s:%u", host, port);
	discovery_set_instance(&r->self, name);
}

/* False: there is no place. */
static bool responder_add_uri(struct discovery_msg *msg,
			      const struct listen_point *p)
{
	char text[LISTEN_TEXT_SIZE];
	char uri[DISCOVERY_URI_SIZE];

	snprintf(uri, sizeof(uri), "%s://%s", xp_kind_scheme(p->kind),
		 listen_point_text(p, text));
	return discovery_add_uri(msg, uri);
}

/* For a wildcard, the client uses the source address of the datagram. Over
 * RDMA, that may not be the address of a device, so the addresses of devices
 * are listed. With a key, all addresses are listed, because the code does not
 * cover the source address. */
static bool responder_add_point(struct discovery_msg *msg,
				const struct listen_point *p, bool has_key)
{
	struct listen_point reach[DISCOVERY_URIS_MAX + 1];
	unsigned int cnt = 0;
	bool all = true;

	if (has_key || p->waits || xp_kind_traits(p->kind)->needs_device)
		cnt = listen_point_reach(p, reach, ARRAY_SIZE(reach));
	if (!cnt)
		return p->waits || responder_add_uri(msg, p);
	for (unsigned int i = 0; i < cnt; i++)
		all &= responder_add_uri(msg, &reach[i]);
	return all;
}

/* NULL: there are no keys. */
static const struct key *responder_first_key(const struct responder *r)
{
	return r->opt->keys ? &r->opt->keys->key[0] : NULL;
}

/* Encodes the announcement, or an answer to a query of @query_len bytes, which was proved by
 * @key. Returns its length; negative: the query is too short for one. */
static int responder_encode(struct responder *r, size_t query_len,
			    const struct key *key,
			    uint8_t buf[DISCOVERY_MSG_MAX])
{
	size_t max = query_len ? query_len * DISCOVERY_GAIN : DISCOVERY_MSG_MAX;
	struct hmac_key hmac = { 0 };

	if (key)
		hmac = key_hmac(key);
	return discovery_encode(buf, 0, max, &r->self, key ? hmac_code : NULL,
				&hmac);
}

/* True if all addresses fit into one datagram. */
static bool responder_fits(struct responder *r)
{
	uint8_t buf[DISCOVERY_MSG_MAX] = { 0 };
	const struct discovery_wire *wire = (const void *)buf;

	return responder_encode(r, 0, responder_first_key(r), buf) > 0 &&
	       wire->uri_cnt == r->self.uri_cnt;
}

static void responder_describe(struct responder *r)
{
	bool all = true;

	r->self.uri_cnt = 0;
	for (unsigned int i = 0; i < r->points.cnt; i++)
		all &= responder_add_point(&r->self, &r->points.point[i],
					   r->opt->keys);
	all = all && responder_fits(r);
	if (!all && !r->said_left_out)
		log_warn(
			"discovery: the announcement leaves out some addresses "
			"of the target; it has place for %d in %d bytes; name "
			"those for clients by --listen",
			DISCOVERY_URIS_MAX, DISCOVERY_MSG_MAX);
	r->said_left_out = !all;
}

/* Sends the announcement as an answer to a query of @query_len bytes to @to. If
 * both are 0, sends it to the group. */
static void responder_send(struct responder *r, struct dgram *d,
			   const struct dgram_peer *to, size_t query_len,
			   const struct key *key)
{
	uint8_t buf[DISCOVERY_MSG_MAX];
	int len = responder_encode(r, query_len, key, buf);

	if (len > 0)
		dgram_send(d, to, buf, (size_t)len);
}

static void responder_tell_group(struct responder *r,
				 const struct responder_endpoint *ep,
				 enum discovery_kind kind)
{
	r->self.kind = kind;
	r->self.nonce = 0;
	if (ep->dgram && !ep->dgram->joining && ep->carrier != DGRAM_UNICAST)
		responder_send(r, ep->dgram, NULL, 0, responder_first_key(r));
}

static void responder_tell_all(struct responder *r, enum discovery_kind kind)
{
	for (unsigned int i = 0; i < r->set.cnt; i++)
		responder_tell_group(r, &r->set.endpoints[i], kind);
}

/* ---- queries ---- */

/* The key that proves @buf. NULL: none does. */
static const struct key *responder_find_key(const struct responder *r,
					    const uint8_t *buf,
					    size_t signed_len)
{
	const struct key_file *keys = r->opt->keys;

	for (unsigned int i = 0; signed_len && i < keys->cnt; i++) {
		struct hmac_key hmac = key_hmac(&keys->key[i]);

		if (hmac_check(&hmac, buf, signed_len, buf + signed_len))
			return &keys->key[i];
	}
	return NULL;
}

/* *ret_key: of whoever asks; NULL if there are no keys. */
static bool responder_is_query(const struct responder *r, const uint8_t *buf,
			       size_t len, struct discovery_msg *ret,
			       const struct key **ret_key)
{
	size_t signed_len;

	*ret_key = NULL;
	if (discovery_decode(buf, len, ret, &signed_len) ||
	    ret->kind != DISCOVERY_QUERY)
		return false;
	if (!r->opt->keys)
		return true;
	*ret_key = responder_find_key(r, buf, signed_len);
	return *ret_key;
}

static void responder_take(struct responder *r, struct responder_endpoint *ep,
			   const uint8_t *buf, size_t len,
			   const struct dgram_peer *peer)
{
	struct discovery_counts *counts = r->opt->counts;
	struct discovery_msg query;
	const struct key *key;

	if (!responder_is_query(r, buf, len, &query, &key) ||
	    !responder_budget_answer(&ep->budget, peer->host)) {
		count_add(&counts->drops, 1);
		return;
	}
	count_add(&counts->answers, 1);
	r->self.kind = DISCOVERY_ANNOUNCE;
	r->self.nonce = query.nonce;
	responder_send(r, ep->dgram, peer, len, key);
}

static bool responder_is_spent(const struct responder *r,
			       const struct responder_endpoint *ep)
{
	return responder_budget_is_spent(&ep->budget, r->set.cnt);
}

/* True if the endpoint has joined. Only then can it tell that the target is there. */
static bool responder_join(struct responder *r, struct responder_endpoint *ep)
{
	if (!responder_set_join(&r->set, ep))
		return false;
	responder_tell_group(r, ep, DISCOVERY_ANNOUNCE);
	return true;
}

static void responder_read(struct responder *r, struct responder_endpoint *ep)
{
	uint8_t buf[DISCOVERY_MSG_MAX];
	struct dgram_peer peer;

	if (ep->dgram->joining && !responder_join(r, ep))
		return;
	for (int i = 0; i < READS_A_TURN && !responder_is_spent(r, ep); i++) {
		int len = dgram_receive(ep->dgram, buf, sizeof(buf), &peer);

		if (len == 0)
			return;
		ep->budget.reads++;
		if (len == -ENODEV) {
			responder_set_drop(&r->set, ep);
			return;
		}
		if (len > 0)
			responder_take(r, ep, buf, (size_t)len, &peer);
	}
}

/* ---- work to come ---- */

static bool responder_is_flooded(const struct responder *r)
{
	for (unsigned int i = 0; i < r->set.cnt; i++) {
		if (responder_is_spent(r, &r->set.endpoints[i]))
			return true;
	}
	return false;
}

static void responder_next_window(struct responder *r)
{
	uint64_t now = responder_now_ms();

	if (now - r->window_ms < WINDOW_MS)
		return;
	r->window_ms = now;
	for (unsigned int i = 0; i < r->set.cnt; i++)
		r->set.endpoints[i].budget =
			(struct responder_budget){ .reads = 0 };
}

/* Milliseconds until the next work. */
static int responder_timeout(const struct responder *r)
{
	uint64_t now = responder_now_ms();
	uint64_t due = r->look_due_ms;

	if (responder_is_flooded(r) && due > r->window_ms + WINDOW_MS)
		due = r->window_ms + WINDOW_MS;
	return due > now ? (int)(due - now) : 0;
}

static void responder_look(struct responder *r, bool is_first)
{
	bool came = responder_set_refresh(&r->set, &r->points, is_first);

	responder_describe(r);
	if (came)
		responder_tell_all(r, DISCOVERY_ANNOUNCE);
	r->look_due_ms = responder_now_ms() + RESPONDER_LOOK_MS;
}

static void responder_devices_changed(struct responder *r)
{
	responder_set_drop_rdma(&r->set);
	device_watch_renew(&r->devices);
	responder_look(r, /* is_first= */ false);
}

/* ---- the target ---- */

int responder_tell(int socket, const struct responder_news *news)
{
	return send(socket, news, sizeof(*news), MSG_DONTWAIT | MSG_NOSIGNAL) <
			       0
		       ? -errno
		       : 0;
}

/* The target may have been taken over. */
static bool responder_is_point(const struct listen_point *p)
{
	switch (p->addr.ss_family) {
	case AF_INET:
		return p->kind < XP_KINDS &&
		       p->addr_len == sizeof(struct sockaddr_in);
	case AF_INET6:
		return p->kind < XP_KINDS &&
		       p->addr_len == sizeof(struct sockaddr_in6);
	}
	return false;
}

/* Waits for news. False: the target has ended. */
static bool responder_take_news(struct responder *r)
{
	struct responder_news news;

	if (recv(r->socket, &news, sizeof(news), 0) != (ssize_t)sizeof(news) ||
	    news.cnt > PORT_LISTENERS_MAX ||
	    (unsigned int)news.log_level > LOG_DEBUG)
		return false;
	log_level = news.log_level;
	r->points.cnt = 0;
	for (unsigned int i = 0; i < news.cnt; i++) {
		if (responder_is_point(&news.point[i]))
			r->points.point[r->points.cnt++] = news.point[i];
	}
	r->self.id = news.id;
	return true;
}

static bool responder_take_change(struct responder *r)
{
	if (!responder_take_news(r))
		return false;
	responder_look(r, /* is_first= */ true);
	responder_tell_all(r, DISCOVERY_ANNOUNCE);
	return true;
}

/* ---- the loop ---- */

/* The last entries are for the target and for devices. An endpoint that has spent its budget
 * waits. */
static unsigned int responder_poll_list(struct responder *r, struct pollfd *fds)
{
	unsigned int cnt = r->set.cnt;

	for (unsigned int i = 0; i < cnt; i++) {
		const struct responder_endpoint *ep = &r->set.endpoints[i];
		bool waits = !ep->dgram || responder_is_spent(r, ep);

		fds[i] = (struct pollfd){ .fd = waits ? -1 : ep->dgram->fd,
					  .events = POLLIN };
	}
	fds[cnt] = (struct pollfd){ .fd = r->socket, .events = POLLIN };
	fds[cnt + 1] = (struct pollfd){ .fd = r->devices.fd, .events = POLLIN };
	return cnt;
}

/* False: the target has ended. */
static bool responder_turn(struct responder *r)
{
	struct pollfd fds[RESPONDER_ENDPOINTS_MAX + 2];
	unsigned int cnt = responder_poll_list(r, fds);

	poll(fds, cnt + 2, responder_timeout(r));
	responder_next_window(r);
	for (unsigned int i = 0; i < cnt; i++) {
		if (fds[i].revents)
			responder_read(r, &r->set.endpoints[i]);
	}
	if (fds[cnt + 1].revents && device_watch_changed(&r->devices))
		responder_devices_changed(r);
	if (responder_now_ms() >= r->look_due_ms)
		responder_look(r, /* is_first= */ false);
	return !fds[cnt].revents || responder_take_change(r);
}

/* From the first news on: the target does not serve yet. */
static int responder_open(struct responder *r, struct error *e)
{
	int err;

	responder_name(r);
	device_watch_open(&r->devices);
	responder_set_refresh(&r->set, &r->points, /* is_first= */ true);
	responder_describe(r);
	err = r->opt->restrict_self ? r->opt->restrict_self(e) : 0;
	r->look_due_ms = responder_now_ms() + RESPONDER_LOOK_MS;
	return err;
}

/* The only thing that the target is ever told. */
static void responder_tell_ready(const struct responder *r)
{
	send(r->socket, "", 1, MSG_NOSIGNAL);
}

static void responder_serve(struct responder *r)
{
	responder_tell_ready(r);
	if (!responder_take_change(r))
		return;
	while (responder_turn(r))
		;
	responder_tell_all(r, DISCOVERY_BYE);
}

int responder_run(int socket, const struct responder_options *opt,
		  struct error *e)
{
	struct responder *r = calloc(1, sizeof(*r));
	int err = 0;

	if (!r)
		return error_set(e, -ENOMEM, "out of memory");
	r->opt = opt;
	r->socket = socket;
	r->devices.fd = -1;
	r->set.interfaces = opt->interfaces;
	if (responder_take_news(r)) {
		err = responder_open(r, e);
		if (!err)
			responder_serve(r);
		responder_set_close(&r->set);
		device_watch_close(&r->devices);
	}
	free(r);
	return err;
}
