/* SPDX-License-Identifier: BSD-2-Clause */
/* Which transport a target listens with, for each URI, and what it then does about
 * addresses that are in use, or devices that are not there. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "target/listen.h"
#include "tests/lib/t_table.h"

/* What the transports do, and what they were asked for. */
static struct {
	int unusable; /* RDMA: -errno of use_kind() */
	int refused;  /* RDMA: -errno of listen() */
	int refused_ipv6;
	int refused_tcp;
	unsigned int busy; /* so many times first, an address is in use */
	bool present;	   /* a device */
	bool no_address;   /* on it */
	char calls[512];
} fabric;

bool __wrap_xp_present(enum xp_kind kind);

bool __wrap_xp_present(enum xp_kind kind)
{
	return kind == XP_VERBS && fabric.present;
}

bool __wrap_xp_has_address(enum xp_kind kind);

bool __wrap_xp_has_address(enum xp_kind kind)
{
	return !fabric.no_address;
}

static void note(const char *what, const char *of)
{
	size_t len = strlen(fabric.calls);

	snprintf(fabric.calls + len, sizeof(fabric.calls) - len, "%s%s %s",
		 len ? ", " : "", what, of);
}

static void note_point(const char *what, const struct listen_point *at)
{
	char text[LISTEN_TEXT_SIZE];
	char of[LISTEN_TEXT_SIZE + 8];

	snprintf(of, sizeof(of), "%s %s", at->kind == XP_VERBS ? "rdma" : "tcp",
		 listen_point_text(at, text));
	note(what, of);
}

static int use_kind(void *user, enum xp_kind kind, bool await, struct error *e)
{
	note(await ? "await" : "use", kind == XP_VERBS ? "rdma" : "tcp");
	if (kind != XP_VERBS || await || !fabric.unusable)
		return 0;
	return error_set(e, fabric.unusable, "cannot be used");
}

static int listen_now(void *user, const struct listen_point *at,
		      struct error *e)
{
	int err = at->kind == XP_VERBS ? fabric.refused : fabric.refused_tcp;

	note_point("listen", at);
	if (at->addr.ss_family == AF_INET6 && fabric.refused_ipv6)
		err = fabric.refused_ipv6;
	if (fabric.busy) {
		fabric.busy--;
		err = -EADDRINUSE;
	}
	return err ? error_set(e, err, "is refused") : 0;
}

static int listen_when_it_comes(void *user, const struct listen_point *at,
				struct error *e)
{
	note_point("later", at);
	return 0;
}

static void unlisten(void *user, unsigned int tag)
{
	char of[16];

	snprintf(of, sizeof(of), "%u", tag);
	note("unlisten", of);
}

static const struct listen_how how = {
	.use_kind = use_kind,
	.listen = listen_now,
	.listen_later = listen_when_it_comes,
	.unlisten = unlisten,
};

/* ---- at the start ---- */

static const struct start {
	const char *name;
	const char *uri; /* NULL: the default */
	int err;
	const char *calls;
	const char *reason; /* a part of it; NULL: it listens */
	int unusable;
	int refused;
	int refused_ipv6;
	int refused_tcp;
	unsigned int busy;
	bool present;
	bool no_address;
	bool waits;
	unsigned int points; /* 0: as many as usual */
} starts[] = {
	{ "RDMA, when it is asked for", "srp+rdma://10.0.0.1", 0,
	  "use rdma, listen rdma 10.0.0.1:5555" },
	{ "TCP, when it is asked for", "srp+tcp://127.0.0.1:7", 0,
	  "use tcp, listen tcp 127.0.0.1:7" },
	{ "RDMA, when a device has the address", "srp://10.0.0.1", 0,
	  "use rdma, listen rdma 10.0.0.1:5555" },
	{ "IPv6", "srp+rdma://[::1]:7", 0, "use rdma, listen rdma [::1]:7" },
	{ "without a device TCP, and RDMA later", "srp://127.0.0.1", 0,
	  "use rdma, use tcp, listen tcp 127.0.0.1:5555, await rdma, "
	  "later rdma 127.0.0.1:5555",
	  .unusable = -ENODEV },
	{ "TCP, when a device cannot be used", "srp://127.0.0.1", 0,
	  "use rdma, use tcp, listen tcp 127.0.0.1:5555", .unusable = -EPERM },
	{ "TCP, when no device has the address", "srp://127.0.0.1", 0,
	  "use rdma, listen rdma 127.0.0.1:5555, use tcp, "
	  "listen tcp 127.0.0.1:5555",
	  .refused = -EADDRNOTAVAIL },
	{ "not TCP, when memory is short", "srp://127.0.0.1", -ENOMEM,
	  "use rdma",
	  "cannot listen on 127.0.0.1:5555 over RDMA (verbs): cannot be used",
	  .unusable = -ENOMEM },
	{ "not TCP, when RDMA is demanded", "srp+rdma://10.0.0.1", -ENODEV,
	  "use rdma", "cannot be used; see rdma-doctor", .unusable = -ENODEV },
	{ "nothing, when TCP is refused, too", "srp://127.0.0.1", -EACCES,
	  "use rdma, use tcp, listen tcp 127.0.0.1:5555",
	  "cannot listen on 127.0.0.1:5555 over TCP: is refused",
	  .unusable = -ENODEV, .refused_tcp = -EACCES },
	{ "an address of another machine is told how to find",
	  "srp+tcp://10.0.0.1", -EADDRNOTAVAIL,
	  "use tcp, listen tcp 10.0.0.1:5555", "is refused; see ip addr",
	  .refused_tcp = -EADDRNOTAVAIL },
	{ "an address that is in use for a moment", "srp+tcp://127.0.0.1", 0,
	  "use tcp, listen tcp 127.0.0.1:5555, listen tcp 127.0.0.1:5555, "
	  "listen tcp 127.0.0.1:5555",
	  .busy = 2 },
	{ "by default, all addresses of devices", NULL, 0,
	  "use rdma, listen rdma [::]:5555", .present = true },
	{ "by default, this machine, too, while no device has an address", NULL,
	  0,
	  "use rdma, listen rdma [::]:5555, use tcp, "
	  "listen tcp 127.0.0.1:5555",
	  .present = true, .no_address = true },
	{ "by default, all of IPv4 without IPv6", NULL, 0,
	  "use rdma, listen rdma [::]:5555, listen rdma 0.0.0.0:5555",
	  .present = true, .refused_ipv6 = -EAFNOSUPPORT },
	{ "by default, no other address when a device cannot be used", NULL,
	  -EPERM, "use rdma", "cannot listen on [::]:5555 over RDMA",
	  .present = true, .unusable = -EPERM },
	{ "by default without a device, this machine, and nothing later", NULL,
	  0, "use tcp, listen tcp 127.0.0.1:5555" },
	{ "an address over TCP that is waited for", "srp+tcp://10.0.0.1", 0,
	  "use tcp, listen tcp 10.0.0.1:5555, await tcp, "
	  "later tcp 10.0.0.1:5555",
	  .refused_tcp = -EADDRNOTAVAIL, .waits = true, .points = 1 },
	{ "an address over RDMA that is waited for", "srp+rdma://10.0.0.1", 0,
	  "use rdma, listen rdma 10.0.0.1:5555, await rdma, "
	  "later rdma 10.0.0.1:5555",
	  .refused = -EADDRNOTAVAIL, .waits = true, .points = 1 },
	{ "a device that is waited for", "srp+rdma://10.0.0.1", 0,
	  "use rdma, await rdma, later rdma 10.0.0.1:5555", .unusable = -ENODEV,
	  .waits = true, .points = 1 },
	{ "an address that is waited for over what it will have",
	  "srp://10.0.0.1", 0,
	  "use rdma, listen rdma 10.0.0.1:5555, use tcp, "
	  "listen tcp 10.0.0.1:5555, await tcp, later tcp 10.0.0.1:5555, "
	  "await rdma, later rdma 10.0.0.1:5555",
	  .refused = -EADDRNOTAVAIL, .refused_tcp = -EADDRNOTAVAIL,
	  .waits = true, .points = 2 },
	{ "a port that another program has is not waited for",
	  "srp+tcp://10.0.0.1", -EACCES, "use tcp, listen tcp 10.0.0.1:5555",
	  "is refused", .refused_tcp = -EACCES, .waits = true },
};

static void fabric_is(const struct start *s)
{
	memset(&fabric, 0, sizeof(fabric));
	fabric.unusable = s->unusable;
	fabric.refused = s->refused;
	fabric.refused_ipv6 = s->refused_ipv6;
	fabric.refused_tcp = s->refused_tcp;
	fabric.busy = s->busy;
	fabric.present = s->present;
	fabric.no_address = s->no_address;
}

T_ROWS(target_listens, starts)
{
	static struct target_options opt;
	const struct start *s = *state;
	struct listen_how with = how;
	struct listen_points points;
	struct error e = { 0 };

	log_level = LOG_ERROR;
	fabric_is(s);
	opt.listen_cnt = 0;
	if (s->uri)
		assert_int_equal(xp_uri_parse(s->uri,
					      &opt.listens[opt.listen_cnt++],
					      &e),
				 0);
	with.waits = s->waits;
	assert_int_equal(listen_all(&with, &opt, &points, &e), s->err);
	assert_string_equal(fabric.calls, s->calls);
	assert_int_equal(points.cnt, s->err ? 0
				     : s->points
					     ? s->points
					     : 1 + (s->no_address ||
						    strstr(s->calls, "later")));
	if (s->reason && !strstr(e.text, s->reason))
		fail_msg("%s", e.text);
}

/* ---- what is said ---- */

static const struct warning {
	const char *name;
	const char *uri;  /* NULL: by default, with a device */
	const char *text; /* NULL: none */
} warnings[] = {
	{ "RDMA by default", NULL, "listening on [::]:5555 over RDMA" },
	{ "RDMA", "srp+rdma://10.0.0.1",
	  "listening on 10.0.0.1:5555 over RDMA" },
	{ "TCP", "srp+tcp://10.0.0.1", "listening on 10.0.0.1:5555 over TCP" },
	{ "RDMA on loopback", "srp+rdma://127.0.0.1", NULL },
	{ "TCP on loopback", "srp+tcp://127.0.0.1", NULL },
};

/* Whatever other hosts can connect over: nothing is authenticated. */
T_ROWS(open_address_is_warned_of, warnings)
{
	static struct target_options opt;
	const struct warning *w = *state;
	int log = memfd_create("log", MFD_CLOEXEC);
	int stderr_fd = dup(STDERR_FILENO);
	struct listen_points points;
	char text[2048] = "";
	struct error e;

	fabric_is(&(struct start){ .present = true });
	opt.listen_cnt = 0;
	if (w->uri)
		assert_int_equal(xp_uri_parse(w->uri,
					      &opt.listens[opt.listen_cnt++],
					      &e),
				 0);
	log_level = LOG_WARNING;
	dup2(log, STDERR_FILENO);
	assert_int_equal(listen_all(&how, &opt, &points, &e), 0);
	dup2(stderr_fd, STDERR_FILENO);
	close(stderr_fd);
	log_level = LOG_ERROR;
	assert_true(pread(log, text, sizeof(text) - 1, 0) >= 0);
	close(log);
	if (!w->text)
		assert_string_equal(text, "");
	else if (!strstr(text, w->text) ||
		 !strstr(text, "nothing is authenticated"))
		fail_msg("%s", text);
}

/* ---- while it runs ---- */

static struct listen_points points_of(unsigned int cnt)
{
	static struct target_options opt;
	struct listen_points points;
	struct error e;

	memset(&fabric, 0, sizeof(fabric));
	for (opt.listen_cnt = 0; opt.listen_cnt < cnt; opt.listen_cnt++) {
		char uri[32];

		snprintf(uri, sizeof(uri), "srp+tcp://127.0.0.%u",
			 opt.listen_cnt + 1);
		assert_int_equal(
			xp_uri_parse(uri, &opt.listens[opt.listen_cnt], &e), 0);
	}
	assert_int_equal(listen_all(&how, &opt, &points, &e), 0);
	fabric.calls[0] = '\0';
	return points;
}

static const struct addition {
	const char *name;
	const char *uri;
	unsigned int cnt; /* of addresses before */
	int err;
	const char *calls;
	const char *reason;
	bool numeric;
	int refused_tcp;
} additions[] = {
	{ "one more", "srp+tcp://127.0.0.9", 2, 0,
	  "use tcp, listen tcp 127.0.0.9:5555", "" },
	{ "one that is there", "srp+tcp://127.0.0.2", 2, -EEXIST, "",
	  "the target listens there already" },
	{ "one too many", "srp+tcp://127.0.0.99", OPTIONS_LISTENS_MAX, -ENOSPC,
	  "", "there are 16 addresses already" },
	{ "one that is refused leaves nothing", "srp+tcp://127.0.0.9", 2,
	  -EACCES, "use tcp, listen tcp 127.0.0.9:5555, unlisten 3",
	  "is refused", .refused_tcp = -EACCES },
	{ "an interface in the sandbox", "srp+tcp://[fe80::1%lo]", 1, -EINVAL,
	  "unlisten 2", "the sandbox of the target looks up no interface",
	  .numeric = true },
	{ "a name in the sandbox", "srp+tcp://localhost", 1, -EADDRNOTAVAIL,
	  "unlisten 2", "cannot listen on 'localhost': ", .numeric = true },
};

T_ROWS(target_listens_on_one_more, additions)
{
	const struct addition *a = *state;
	struct listen_points points = points_of(a->cnt);
	struct listen_how with = how;
	struct error e = { 0 };
	struct xp_uri uri;

	with.numeric = a->numeric;
	fabric.refused_tcp = a->refused_tcp;
	assert_int_equal(xp_uri_parse(a->uri, &uri, &e), 0);
	assert_int_equal(listen_add(&with, &uri, &points, &e), a->err);
	assert_string_equal(fabric.calls, a->calls);
	if (!strstr(e.text, a->reason))
		fail_msg("%s", e.text);
	assert_int_equal(points.cnt, a->cnt + !a->err);
	assert_int_equal(points.request_cnt, a->cnt + !a->err);
	if (!a->err)
		assert_non_null(listen_find(&points, &uri));
}

T_TEST(removed_address_leaves_the_others)
{
	struct listen_points points = points_of(3);
	struct xp_uri uri;
	struct error e;
	char text[LISTEN_TEXT_SIZE];

	assert_int_equal(xp_uri_parse("srp+tcp://127.0.0.2", &uri, &e), 0);
	listen_remove(&how, listen_find(&points, &uri)->tag, &points);
	assert_string_equal(fabric.calls, "unlisten 1");
	assert_null(listen_find(&points, &uri));
	assert_null(listen_request_of(&points, 1));
	assert_int_equal(points.cnt, 2);
	assert_string_equal(listen_point_text(&points.point[0], text),
			    "127.0.0.1:5555");
	assert_string_equal(listen_point_text(&points.point[1], text),
			    "127.0.0.3:5555");
	assert_int_equal(listen_request_of(&points, 2)->tag, 2);
}

/* ---- addresses ---- */

static const struct address {
	const char *name; /* the URI */
	bool loopback;
	bool wildcard;
} addresses[] = {
	{ "srp+tcp://127.0.0.1", true, false },
	{ "srp+tcp://127.9.9.9", true, false },
	{ "srp+tcp://10.0.0.1", false, false },
	{ "srp+tcp://0.0.0.0", false, true },
	{ "srp+tcp://[::1]", true, false },
	{ "srp+tcp://[::ffff:127.0.0.1]", true, false },
	{ "srp+tcp://[2001:db8::1]", false, false },
	{ "srp+tcp://[::]", false, true },
};

T_ROWS(address_is_of_a_kind, addresses)
{
	const struct address *a = *state;
	struct listen_points points = points_of(1);
	struct listen_point reach[2];
	const struct listen_point *p = &points.point[1];
	struct xp_uri uri;
	struct error e;

	assert_int_equal(xp_uri_parse(a->name, &uri, &e), 0);
	assert_int_equal(listen_add(&how, &uri, &points, &e),
			 strcmp(a->name, "srp+tcp://127.0.0.1") ? 0 : -EEXIST);
	if (points.cnt == 1)
		p = &points.point[0];
	assert_int_equal(listen_point_is_loopback(p), a->loopback);
	assert_int_equal(listen_point_is_wildcard(p), a->wildcard);
	if (a->wildcard)
		return;
	assert_int_equal(listen_point_reach(p, reach, 2), 1);
	assert_memory_equal(&reach[0].addr, &p->addr, p->addr_len);
}
