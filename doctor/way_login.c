/* SPDX-License-Identifier: BSD-2-Clause */
/* Connection, login, measurements and counters, with libsrpi. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/key_file.h"
#include "doctor/counters.h"
#include "doctor/measure.h"
#include "doctor/way.h"
#include "initiator/exchange.h"
#include "initiator/key.h"
#include "transport/kind.h"
#include "transport/xport.h"

/* The maximum that RoCE adds to its packets (as in check_device.c). */
#define ROCE_HEADERS 96u

/* Exchanges in flight: more are not measured. */
#define LOGIN_DEPTH 16

/* An attempt to log in, and the session. */
struct login {
	struct way *way;
	enum xp_kind kind;
	struct srpi_ctx *ctx;
	struct srpi_session *session;
	bool over; /* connecting has ended */
	bool lost; /* the session was running, and no longer is */
	bool closed;
	struct srpi_error e;
};

static bool login_needs_device(const struct login *l)
{
	return xp_kind_traits(l->kind)->needs_device;
}

/* ---- the session ---- */

static void login_connected(struct srpi_session *s, const struct srpi_error *e,
			    void *arg)
{
	struct login *l = arg;

	l->e = *e;
	l->over = true;
}

static void login_state(struct srpi_session *s, enum srpi_state state,
			const struct srpi_error *why, void *arg)
{
	struct login *l = arg;

	if (l->over && state != SRPI_RUNNING)
		l->lost = true;
}

static void login_closed(void *arg)
{
	((struct login *)arg)->closed = true;
}

/* Returns 0, or a negative errno with l->e. */
static int login_begin(struct login *l)
{
	const struct srpi_options o = {
		.struct_size = sizeof(o),
		.channels = 1,
		.queue_depth = LOGIN_DEPTH,
		.timeout_ms = (unsigned int)l->way->timeout_ms,
		/* A READ must be an RDMA READ, however short. */
		.no_immediate_data = true,
		.io_timeout_ms = l->way->timeout_ms,
		.state_changed = login_state,
		.state_arg = l,
	};
	struct xp_uri uri = *l->way->uri;
	char text[XP_URI_TEXT_SIZE];
	int err;

	uri.kind = l->kind;
	uri.forced = true;
	uri.more_cnt = 0;
	uri.volume[0] = '\0';
	uri.port = (uint16_t)l->way->port;
	snprintf(uri.host, sizeof(uri.host), "%s", l->way->numeric);
	err = xp_uri_format(&uri, text, sizeof(text));
	if (err < 0)
		return err;
	err = srpi_ctx_create(NULL, &l->ctx, &l->e);
	if (err)
		return err;
	return srpi_connect(l->ctx, text, &o, login_connected, l, &l->session,
			    &l->e);
}

/* True: logged in; the volumes are known. */
static bool login_wait(struct login *l)
{
	int err = login_begin(l);

	while (!err && !l->over)
		err = srpi_ctx_run(l->ctx, -1) < 0 ? -EIO : 0;
	if (err && !l->e.err)
		l->e.err = err;
	return l->e.err == 0;
}

static void login_end(struct login *l)
{
	if (l->session) {
		srpi_close(l->session, login_closed, l);
		while (!l->closed && srpi_ctx_run(l->ctx, -1) >= 0)
			;
	}
	measure_end();
	srpi_ctx_destroy(l->ctx);
	l->session = NULL;
	l->ctx = NULL;
}

/* ---- failures ---- */

/* True if the device or the route is missing, not the target. */
static bool login_is_unroutable(int err)
{
	return err == -ENODEV || err == -EHOSTUNREACH || err == -ENETUNREACH ||
	       err == -EADDRNOTAVAIL;
}

static const struct login_fault {
	int err;
	bool needs_device; /* of the transport */
	bool has_key;	   /* the URI */
	const char *step;
	const char *why;
	const char *mend;
} login_faults[] = {
	{ -ENOKEY, false, true, "key",
	  "The target has no key of that name: it was started without --keys, "
	  "or the file has no such line.",
	  "on the target: rdma-ctl key list; rdma-ctl key add NAME <FILE" },
	{ -EKEYREJECTED, false, true, "key",
	  "The target has another key for that name.",
	  "on the target: compare the print with rdma-ctl key list; rdma-ctl "
	  "key rotate NAME <FILE" },
	{ -ENOPROTOOPT, false, true, "key",
	  "What listens there has no TLS: another program has the port, or an "
	  "rdma-target without it.",
	  "on the target: ss -tlnp; rdma-target --version" },
	{ -ECONNREFUSED, true, false, "rdma cm",
	  "The host answers over RDMA, but no program listens on that port "
	  "there.",
	  "on the target: journalctl -u rdma-target; rdma resource show cm_id" },
	{ -ETIMEDOUT, true, false, "rdma cm",
	  "The connection manager of the other host does not answer: the "
	  "host has no RDMA device with that address, or a firewall drops UDP "
	  "port 4791.",
	  "on both hosts: rdma link; nft list ruleset; rdma-doctor" },
	{ -ETIMEDOUT, false, false, "login",
	  "The port takes connections, but nothing answers as an SRP target: "
	  "another program has the port, or the target hangs.",
	  "on the target: ss -tlnp; systemctl status rdma-target" },
	{ -EADDRNOTAVAIL, false, false, "login",
	  "The URI demands an address of this machine that it does not have.",
	  "ip address; choose another source=, or leave it out" },
	{ -ENOPROTOOPT, false, false, "login", "Another program has the port.",
	  "on the target: ss -tlnp" },
	{ -ECONNRESET, false, false, "login",
	  "Another program has the port, or the target has just ended.",
	  "on the target: ss -tlnp; journalctl -u rdma-target" },
	{ -ENOMEM, true, false, "memory", "An RDMA device needs locked memory.",
	  "ulimit -l unlimited; rdma-doctor" },
};

static void login_explain(const struct login *l, struct finding *f,
			  const struct ini_login_failure *failure)
{
	bool needs_device = login_needs_device(l);

	f->name = needs_device ? "rdma cm" : "login";
	if (needs_device && login_is_unroutable(failure->err)) {
		f->why = "No RDMA device of this machine has a port on the way "
			 "to that address.";
		finding_mend(f,
			     "rdma-doctor (checks this machine); rdma link; "
			     "ip route get %s",
			     l->way->numeric);
		return;
	}
	f->why = "The connection was not made.";
	for (size_t i = 0; i < sizeof(login_faults) / sizeof(login_faults[0]);
	     i++) {
		const struct login_fault *fault = &login_faults[i];

		if (fault->err != failure->err ||
		    fault->needs_device != needs_device ||
		    (fault->has_key && !l->way->uri->tls))
			continue;
		f->name = fault->step;
		f->why = fault->why;
		finding_mend(f, "%s", fault->mend);
		return;
	}
}

static void login_failed(struct login *l)
{
	struct finding *f = way_add(l->way, "login", FINDING_PROBLEM);
	struct ini_login_failure failure = { .err = l->e.err, .text = "" };

	if (l->session)
		ini_login_failure(l->session, &failure);
	if (failure.err == 0 && !failure.is_rejected) {
		/* The login succeeded, and the queries about volumes failed. */
		f->name = "volumes";
		finding_value(f, "%s", l->e.text);
		f->why = "The login worked, but the target does not describe "
			 "its volumes.";
		finding_mend(f, "on the target: journalctl -u rdma-target");
		return;
	}
	if (failure.is_rejected) {
		finding_value(f, "%s", l->e.text);
		f->why =
			l->way->uri->tls
				? "The target was reached and has refused this "
				  "initiator."
				: "The target was reached and has refused this "
				  "initiator: by its rules, or because it has "
				  "keys and no key is given (?key=FILE).";
		finding_mend(f, "on the target: journalctl -u rdma-target (it "
				"logs each refused login); rdma-ctl show");
		return;
	}
	/* Without the hints of the library, because this program knows more.
	 * Over RDMA, with the decoded reject reason of the connection
	 * manager. */
	if (*failure.text)
		finding_value(f, "no connection to %s over %s: %s",
			      l->way->addr_text,
			      xp_kind_traits(l->kind)->fabric, failure.text);
	else
		finding_value(f, "%s", l->e.text);
	login_explain(l, f, &failure);
}

/* ---- logged in ---- */

static void login_tell(const struct login *l,
		       const struct srpi_session_info *si)
{
	unsigned int volumes = srpi_volume_cnt(l->session);
	struct finding *f;

	if (login_needs_device(l)) {
		f = way_add(l->way, "rdma cm", FINDING_OK);
		finding_value(f,
			      "connected to %s by %s: P_Key 0x%04x, service "
			      "level %u, GID %s",
			      si->peer, si->device, si->pkey, si->sl, si->gid);
	}
	f = way_add(l->way, "login", FINDING_OK);
	finding_value(f, "over %s from %s: %u volume%s, %u commands in flight",
		      xp_kind_traits(l->kind)->fabric, si->local, volumes,
		      volumes == 1 ? "" : "s", si->queue_depth);
}

/* Packets of RDMA are never split: do they fit the path? */
static void login_check_mtu(const struct login *l,
			    const struct srpi_session_info *si)
{
	const struct way *w = l->way;
	struct finding *f;

	if (!si->mtu)
		return;
	f = way_add(l->way, "rdma mtu", FINDING_OK);
	finding_value(f, "%u bytes, the port has %u; READ depth %u", si->mtu,
		      si->port_mtu, si->read_depth);
	if (!w->path_mtu || si->mtu + ROCE_HEADERS <= w->path_mtu ||
	    w->path_mtu >= w->netdev_mtu)
		return;
	f->state = FINDING_PROBLEM;
	finding_value(f, "packets of %u bytes, on a path for %u", si->mtu,
		      w->path_mtu);
	f->why = "Long packets are lost on the way: small commands work, data "
		 "hangs.";
	finding_mend(f, "ip link set dev %s mtu %u", w->netdev, w->path_mtu);
}

static void tell_counters(const struct login *l, const char *device,
			  const struct counters *before)
{
	static struct counters after;
	struct finding *f;
	char text[400];

	counters_read(device, &after);
	counters_risen(before, &after, text, sizeof(text));
	f = way_add(l->way, "counters", *text ? FINDING_NOTE : FINDING_OK);
	if (*text)
		finding_value(f, "%s", text);
	else
		finding_value(f,
			      "none of %u rose (RNR, retransmissions, "
			      "errors%s)",
			      after.cnt,
			      login_needs_device(l) ? "" : "; of all TCP here");
	f->why = "Something was lost, or a receiver had no buffer (RNR), while "
		 "this was measured.";
	finding_mend(f,
		     login_needs_device(l)
			     ? "rdma statistic show; ethtool -S %s"
			     : "nstat -az TcpRetransSegs; ethtool -S %s",
		     *l->way->netdev ? l->way->netdev : "INTERFACE");
}

static void login_measure(struct login *l)
{
	static struct counters before;
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	struct measuring m = { .ctx = l->ctx,
			       .session = l->session,
			       .report = l->way->report,
			       .group = l->way->group,
			       .lost = &l->lost };
	char device[64];

	srpi_session_info(l->session, &si);
	login_tell(l, &si);
	snprintf(device, sizeof(device), "%s", si.device);
	login_check_mtu(l, &si);
	counters_read(device, &before);
	if (measure_session(&m))
		tell_counters(l, device, &before);
}

/* ---- the transports ---- */

/* True: this is the result. False: another transport may work. */
static bool login_over(struct way *w, enum xp_kind kind, bool last)
{
	struct login l = { .way = w, .kind = kind };
	bool works = login_wait(&l);
	bool over = true;

	if (works)
		login_measure(&l);
	else
		login_failed(&l);
	if (!works && !last && login_is_unroutable(l.e.err)) {
		/* Another transport does without the device. */
		w->report->findings[w->report->cnt - 1].state = FINDING_NOTE;
		over = false;
	}
	login_end(&l);
	return over;
}

/* False: there is none, and no login without. */
static bool login_check_key(struct way *w)
{
	char print[KEY_PRINT_SIZE];
	struct xp_key *key;
	struct finding *f;
	struct error e;

	if (!w->uri->key[0])
		return true;
	if (ini_key_read(w->uri->key, &key, &e)) {
		f = way_add(w, "key", FINDING_PROBLEM);
		finding_value(f, "%s", e.text);
		f->why = "This side has no key to prove its name with.";
		finding_mend(f, "a line NAME KEY in a file of mode 0600: "
				"rdma-target(8), KEYS");
		return false;
	}
	f = way_add(w, "key", FINDING_OK);
	key_print(key->secret, key->len, print);
	finding_value(f, "name '%.64s', print %s", key->name, print);
	ini_key_free(key);
	return true;
}

void way_log_in(struct way *w)
{
	if (!login_check_key(w))
		return;
	if (w->uri->forced) {
		login_over(w, w->uri->kind, /* last= */ true);
		return;
	}
	for (int kind = XP_KIND_FIRST; kind < XP_KINDS; kind++) {
		bool needs_device = xp_kind_traits(kind)->needs_device;

		if (needs_device && !xp_present(kind))
			continue;
		if (login_over(w, kind, kind + 1 == XP_KINDS))
			return;
		/* It was left out before, because RDMA has ports of its own. */
		if (needs_device && !way_check_port(w))
			return;
	}
}
