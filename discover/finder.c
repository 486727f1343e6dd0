/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/finder.h"

#include <errno.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/list.h"
#include "base/log.h"
#include "base/ticks.h"
#include "transport/xport.h"

/* Times of the questions, after the beginning. */
static const unsigned int ask_at_ms[] = { 0, 200, 500 };

/* Datagrams of an endpoint that are read before the next look at the clock. */
#define READS_A_TURN 64

/* How long to wait for the fabric, for each RDMA endpoint. */
#define JOIN_MS 2000

struct finder_host {
	struct dgram_peer to;
	bool answered;
};

struct finder {
	const struct finder_options *o;
	struct dgram *endpoints[FINDER_ENDPOINTS_MAX]; /* NULL: its device went */
	/* Those from here on are members, which only hear. */
	unsigned int ask_cnt;
	unsigned int cnt;
	struct dgram *unicast[2]; /* for IPv4, for IPv6; among endpoints */
	struct finder_host hosts[FINDER_HOSTS_MAX];
	unsigned int host_cnt;
	unsigned int left_out; /* endpoints and hosts beyond the limits */
	uint64_t nonce;	       /* of the last question */
	struct error why;      /* an endpoint could not be opened */
};

/* ---- endpoints ---- */

static bool finder_uses(const struct finder *f, enum dgram_carrier carrier)
{
	return f->o->carriers & 1u << carrier;
}

static void finder_add(struct finder *f, int err, struct dgram *d)
{
	if (!err && f->cnt < FINDER_ENDPOINTS_MAX) {
		f->endpoints[f->cnt++] = d;
	} else if (!err) {
		dgram_close(d);
		f->left_out++;
	}
}

bool finder_warn(const struct finder *f)
{
	if (f->left_out)
		log_warn(
			"too many interfaces or addresses: %u of them are left "
			"out (limits: %d ways to ask, %d addresses of hosts); "
			"choose by --interface, or name fewer hosts",
			f->left_out, FINDER_ENDPOINTS_MAX, FINDER_HOSTS_MAX);
	return f->left_out;
}

/* A fabric that works answers in milliseconds. */
static int finder_open_rdma(struct finder *f, const struct ifaddrs *ifa,
			    struct dgram **ret)
{
	int err = dgram_open_rdma(ifa->ifa_addr, ret, &f->why);

	if (err)
		return err;
	err = dgram_await(*ret, JOIN_MS);
	if (!err)
		return 0;
	dgram_close(*ret);
	return error_set(&f->why, err,
			 "cannot join the multicast group of RDMA by %s: %s",
			 ifa->ifa_name, strerror(-err));
}

/* Opens the endpoints of an address. @asks: they are no members. RDMA has one
 * endpoint for both. */
static void finder_open_at(struct finder *f, const struct ifaddrs *ifa,
			   bool asks)
{
	unsigned int ifindex = if_nametoindex(ifa->ifa_name);
	struct dgram *d = NULL;
	int err;

	if (finder_uses(f, DGRAM_MULTICAST) && ifindex) {
		err = dgram_open_multicast(ifa->ifa_addr->sa_family, ifindex,
					   asks, &d, &f->why);
		finder_add(f, err, d);
	}
	if (finder_uses(f, DGRAM_RDMA) && asks && xp_present(XP_KIND_FIRST)) {
		err = finder_open_rdma(f, ifa, &d);
		finder_add(f, err, d);
	}
}

static bool finder_wants(const struct finder *f, const struct ifaddrs *ifa)
{
	const char *only = f->o->interface;

	return ifa->ifa_addr && ifa->ifa_flags & IFF_UP &&
	       (ifa->ifa_addr->sa_family == AF_INET ||
		ifa->ifa_addr->sa_family == AF_INET6) &&
	       (!only || strcmp(only, ifa->ifa_name) == 0);
}

/* An interface has several addresses; one of each family is enough. */
static bool finder_is_first(const struct ifaddrs *list,
			    const struct ifaddrs *ifa)
{
	for (; list != ifa; list = list->ifa_next) {
		if (list->ifa_addr &&
		    strcmp(list->ifa_name, ifa->ifa_name) == 0 &&
		    list->ifa_addr->sa_family == ifa->ifa_addr->sa_family)
			return false;
	}
	return true;
}

static void finder_open_all(struct finder *f, bool asks)
{
	struct ifaddrs *list;

	if (getifaddrs(&list))
		return;
	for (struct ifaddrs *ifa = list; ifa; ifa = ifa->ifa_next) {
		if (finder_wants(f, ifa) && finder_is_first(list, ifa))
			finder_open_at(f, ifa, asks);
	}
	freeifaddrs(list);
}

static int finder_open_unicast(struct finder *f, int family, struct error *e)
{
	struct sockaddr_storage any = { .ss_family = (sa_family_t)family };
	struct dgram **d = &f->unicast[family == AF_INET6];
	int err;

	if (*d)
		return 0;
	err = dgram_open_unicast((struct sockaddr *)&any,
				 family == AF_INET6
					 ? sizeof(struct sockaddr_in6)
					 : sizeof(struct sockaddr_in),
				 d, e);
	finder_add(f, err, *d);
	return err;
}

/* ---- hosts ---- */

static int finder_add_address(struct finder *f, const struct addrinfo *ai,
			      struct error *e)
{
	struct finder_host *host;
	int err = finder_open_unicast(f, ai->ai_family, e);

	if (err)
		return err;
	if (f->host_cnt == FINDER_HOSTS_MAX) {
		f->left_out++;
		return 0;
	}
	host = &f->hosts[f->host_cnt++];
	memcpy(&host->to.addr, ai->ai_addr, ai->ai_addrlen);
	host->to.addr_len = ai->ai_addrlen;
	return 0;
}

/* Takes HOST[:PORT], like a URI. All addresses of a name are asked. */
static int finder_add_host(struct finder *f, const char *text, struct error *e)
{
	struct addrinfo hints = { .ai_socktype = SOCK_DGRAM };
	struct addrinfo *list;
	struct xp_uri uri;
	char port[8];
	int err = xp_uri_parse(text, &uri, e);

	if (err)
		return error_prefix(e, "host '%s': ", text), err;
	snprintf(port, sizeof(port), "%u", uri.port);
	err = getaddrinfo(uri.host, port, &hints, &list);
	if (err)
		return error_set(e, -EADDRNOTAVAIL, "host '%s': %s", text,
				 gai_strerror(err));
	for (struct addrinfo *ai = list; ai && !err; ai = ai->ai_next)
		err = finder_add_address(f, ai, e);
	freeaddrinfo(list);
	return err;
}

/* ---- ask ---- */

static void finder_encode(const struct finder *f, uint8_t *buf, int *ret_len)
{
	const struct discovery_msg query = { .kind = DISCOVERY_QUERY,
					     .nonce = f->nonce };
	bool has_key = f->o->key.len;

	*ret_len = discovery_encode(buf, DISCOVERY_QUERY_LEN, DISCOVERY_MSG_MAX,
				    &query, has_key ? hmac_code : NULL,
				    (void *)&f->o->key);
}

static void finder_send(struct finder *f)
{
	uint8_t buf[DISCOVERY_MSG_MAX];
	int len;

	finder_encode(f, buf, &len);
	for (unsigned int i = 0; i < f->ask_cnt; i++) {
		struct dgram *d = f->endpoints[i];

		if (d && d->carrier != DGRAM_UNICAST)
			dgram_send(d, NULL, buf, (size_t)len);
	}
	for (unsigned int i = 0; i < f->host_cnt; i++) {
		struct finder_host *host = &f->hosts[i];

		if (!host->answered)
			dgram_send(
				f->unicast[host->to.addr.ss_family == AF_INET6],
				&host->to, buf, (size_t)len);
	}
}

/* ---- answers ---- */

/* False: not a message, or not from a peer that has the key. */
static bool finder_decode(const struct finder *f, const uint8_t *buf, int len,
			  struct discovery_msg *ret)
{
	size_t signed_len;

	if (len <= 0 || discovery_decode(buf, (size_t)len, ret, &signed_len) ||
	    ret->kind == DISCOVERY_QUERY)
		return false;
	return !f->o->key.len ||
	       (signed_len &&
		hmac_check(&f->o->key, buf, signed_len, buf + signed_len));
}

static void finder_note_answer(struct finder *f, const struct dgram_peer *peer)
{
	for (unsigned int i = 0; i < f->host_cnt; i++) {
		struct finder_host *host = &f->hosts[i];

		if (host->to.addr_len == peer->addr_len &&
		    memcmp(&host->to.addr, &peer->addr, peer->addr_len) == 0)
			host->answered = true;
	}
}

/* One datagram; false: there is no more. The kernel cannot remove a device that somebody
 * uses. */
static bool finder_receive(struct dgram **d, void *buf, int *ret_len,
			   struct dgram_peer *ret_peer)
{
	*ret_len = dgram_receive(*d, buf, DISCOVERY_MSG_MAX, ret_peer);
	if (*ret_len == -ENODEV) {
		dgram_close(*d);
		*d = NULL;
	}
	return *ret_len && *d;
}

static void finder_read(struct finder *f, struct dgram **d, struct found *ret)
{
	uint8_t buf[DISCOVERY_MSG_MAX];
	struct discovery_msg msg;
	/* The code of a message does not cover the source address. */
	const struct dgram_peer nobody = { .addr_len = 0 };
	struct dgram_peer peer;
	int len;

	for (int i = 0; i < READS_A_TURN && finder_receive(d, buf, &len, &peer);
	     i++) {
		if (!finder_decode(f, buf, len, &msg) || msg.nonce != f->nonce)
			continue;
		found_add(ret, &msg, f->o->key.len ? &nobody : &peer,
			  (*d)->carrier);
		finder_note_answer(f, &peer);
	}
}

static void finder_wait(struct finder *f, unsigned int ms, struct found *ret)
{
	struct pollfd fds[FINDER_ENDPOINTS_MAX];

	finder_poll_list(f, fds);
	if (poll(fds, f->ask_cnt, (int)ms) <= 0)
		return;
	for (unsigned int i = 0; i < f->ask_cnt; i++) {
		if (fds[i].revents)
			finder_read(f, &f->endpoints[i], ret);
	}
}

static bool finder_is_done(const struct finder *f)
{
	for (unsigned int i = 0; i < f->ask_cnt; i++) {
		const struct dgram *d = f->endpoints[i];

		if (d && d->carrier != DGRAM_UNICAST)
			return false;
	}
	for (unsigned int i = 0; i < f->host_cnt; i++) {
		if (!f->hosts[i].answered)
			return false;
	}
	return true;
}

/* The time of the next question, or the end. */
static unsigned int finder_next_ms(const struct finder *f, unsigned int asked)
{
	if (asked < ARRAY_SIZE(ask_at_ms) && ask_at_ms[asked] < f->o->wait_ms)
		return ask_at_ms[asked];
	return f->o->wait_ms;
}

void finder_ask(struct finder *f, struct found *ret)
{
	uint64_t began = ticks_clock_ms();
	unsigned int asked = 0;
	uint64_t gone = 0;

	/* The nonce must be impossible to guess. */
	while (getrandom(&f->nonce, sizeof(f->nonce), 0) != sizeof(f->nonce) ||
	       !f->nonce)
		;
	for (unsigned int i = 0; i < f->host_cnt; i++)
		f->hosts[i].answered = false;
	while (gone < f->o->wait_ms && (!asked || !finder_is_done(f))) {
		unsigned int next = finder_next_ms(f, asked);

		if (gone >= next) {
			finder_send(f);
			next = finder_next_ms(f, ++asked);
		}
		finder_wait(f, next - (unsigned int)gone, ret);
		gone = ticks_clock_ms() - began;
	}
}

/* ---- receive announcements ---- */

void finder_join(struct finder *f)
{
	finder_open_all(f, /* asks= */ false);
}

unsigned int finder_poll_list(const struct finder *f, struct pollfd *ret)
{
	for (unsigned int i = 0; i < f->cnt; i++)
		ret[i] = (struct pollfd){ .fd = f->endpoints[i]
							? f->endpoints[i]->fd
							: -1,
					  .events = POLLIN };
	return f->cnt;
}

static bool finder_hear(struct finder *f, struct dgram **d,
			void (*bye)(void *user, const struct srp_port_id *id),
			void *user)
{
	uint8_t buf[DISCOVERY_MSG_MAX];
	struct discovery_msg msg;
	struct dgram_peer peer;
	bool heard = false;
	int len;

	for (int i = 0; i < READS_A_TURN && finder_receive(d, buf, &len, &peer);
	     i++) {
		if (!finder_decode(f, buf, len, &msg) || msg.nonce)
			continue;
		heard = true;
		if (msg.kind == DISCOVERY_BYE)
			bye(user, &msg.id);
	}
	return heard;
}

bool finder_heard(struct finder *f,
		  void (*bye)(void *user, const struct srp_port_id *id),
		  void *user)
{
	bool heard = false;

	for (unsigned int i = 0; i < f->cnt; i++)
		if (f->endpoints[i])
			heard |= finder_hear(f, &f->endpoints[i], bye, user);
	return heard;
}

/* ---- life cycle ---- */

static const char *finder_lacks(const struct finder *f)
{
	if (finder_uses(f, DGRAM_RDMA) && !finder_uses(f, DGRAM_MULTICAST))
		return "this machine has no RDMA device";
	return "no interface is up";
}

int finder_open(const struct finder_options *o, struct finder **ret,
		struct error *e)
{
	struct finder *f = calloc(1, sizeof(*f));
	int err = 0;

	if (!f)
		return error_set(e, -ENOMEM, "out of memory");
	f->o = o;
	if (finder_uses(f, DGRAM_UNICAST)) {
		for (unsigned int i = 0; i < o->host_cnt && !err; i++)
			err = finder_add_host(f, o->hosts[i], e);
	}
	if (!err)
		finder_open_all(f, /* asks= */ true);
	f->ask_cnt = f->cnt;
	if (!err && !f->cnt)
		err = error_set(e, -ENODEV, "nobody can be asked: %s",
				*f->why.text ? f->why.text : finder_lacks(f));
	if (err)
		finder_close(f);
	else
		*ret = f;
	return err;
}

void finder_close(struct finder *f)
{
	for (unsigned int i = 0; i < f->cnt; i++)
		dgram_close(f->endpoints[i]);
	free(f);
}
