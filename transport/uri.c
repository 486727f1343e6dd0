/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/uri.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/list.h"
#include "protocol/hex.h"

/* A piece of the text. */
struct uri_span {
	const char *p;
	size_t len;
};

/* For "'%.*s'" in a message: as much as is useful to see. */
#define SPAN_SHOWN  64
#define SPAN_ARG(s) ((s).len < SPAN_SHOWN ? (int)(s).len : SPAN_SHOWN), (s).p

struct uri_parser {
	struct xp_uri uri;
	struct xp_uri_address address; /* the one that is being parsed */
	unsigned int given;	       /* keys of the query, a bit for each */
	bool has_ext;
	bool has_guid;
	uint64_t ext;
	uint64_t guid;
	struct error *e;
};

/* Cuts @s at the first of @stops; the rest begins with that character. */
static struct uri_span uri_cut(struct uri_span *s, const char *stops)
{
	struct uri_span head = *s;
	size_t n = 0;

	while (n < s->len && !strchr(stops, s->p[n]))
		n++;
	head.len = n;
	s->p += n;
	s->len -= n;
	return head;
}

static bool uri_span_is(struct uri_span s, const char *text)
{
	return s.len == strlen(text) && !strncasecmp(s.p, text, s.len);
}

static bool uri_is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* RFC 3986, unreserved; without the locale of isalnum(). */
static bool uri_is_unreserved(char c)
{
	return uri_is_digit(c) || (c >= 'a' && c <= 'z') ||
	       (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_' ||
	       c == '~';
}

/* "srp, srp+rdma, srp+tcp or srp+tls", at most @len bytes with the NUL */
static const char *uri_schemes(char *buf, size_t len)
{
	size_t used = (size_t)snprintf(buf, len, "srp");
	const char *tls = NULL;

	for (unsigned int k = 0; k < XP_KINDS && used < len; k++) {
		used += (size_t)snprintf(buf + used, len - used, ", %s",
					 xp_kind_scheme(k));
		if (xp_kind_traits(k)->tls_scheme)
			tls = xp_kind_traits(k)->tls_scheme;
	}
	if (tls && used < len)
		snprintf(buf + used, len - used, " or %s", tls);
	return buf;
}

/* *ret_tls: @s demands TLS. */
static bool uri_scheme_is(struct uri_span s, enum xp_kind kind, bool *ret_tls)
{
	const char *tls = xp_kind_traits(kind)->tls_scheme;

	*ret_tls = tls && uri_span_is(s, tls);
	return *ret_tls || uri_span_is(s, xp_kind_scheme(kind));
}

/* Takes "SCHEME://" off @text, when it begins with one. */
static int uri_parse_scheme(struct uri_parser *ps, const char **text)
{
	struct uri_span s = { *text, strcspn(*text, ":/?[") };
	bool known = uri_span_is(s, "srp");
	char schemes[64];

	if (strncmp(s.p + s.len, "://", 3) != 0)
		return 0;
	for (unsigned int k = 0; k < XP_KINDS && !known; k++) {
		known = uri_scheme_is(s, k, &ps->uri.tls);
		ps->uri.forced = known;
		ps->uri.kind = known ? (enum xp_kind)k : XP_KIND_FIRST;
	}
	if (!known)
		return error_set(ps->e, -EINVAL, "scheme '%.*s' is not %s",
				 SPAN_ARG(s),
				 uri_schemes(schemes, sizeof(schemes)));
	*text += s.len + 3;
	return 0;
}

static int uri_copy_host(struct uri_parser *ps, struct uri_span s)
{
	if (!s.len)
		return error_set(ps->e, -EINVAL, "no host is named");
	if (s.len >= sizeof(ps->address.host))
		return error_set(ps->e, -EINVAL,
				 "host '%.*s...' is longer than %zu characters",
				 SPAN_ARG(s), sizeof(ps->address.host) - 1);
	memcpy(ps->address.host, s.p, s.len);
	ps->address.host[s.len] = '\0';
	return 0;
}

/* A name, or an IPv4 address. */
static int uri_parse_name(struct uri_parser *ps, struct uri_span s)
{
	struct in_addr addr;
	bool numeric = true;

	if (uri_copy_host(ps, s))
		return -EINVAL;
	for (size_t i = 0; i < s.len; i++) {
		if (!uri_is_unreserved(s.p[i]) || s.p[i] == '~')
			return error_set(ps->e, -EINVAL,
					 "host '%.*s' is not a name or address",
					 SPAN_ARG(s));
		numeric &= uri_is_digit(s.p[i]) || s.p[i] == '.';
	}
	/* Else the resolver would take "10.1" and "010.0.0.1" in its way. */
	if (numeric && inet_pton(AF_INET, ps->address.host, &addr) != 1)
		return error_set(ps->e, -EINVAL,
				 "'%.*s' is not an IPv4 address", SPAN_ARG(s));
	return 0;
}

static bool uri_is_scope(struct uri_span s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!uri_is_unreserved(s.p[i]))
			return false;
	return s.len > 0;
}

/* ADDRESS[%SCOPE], what stood in brackets. */
static int uri_parse_ipv6(struct uri_parser *ps, struct uri_span s)
{
	struct uri_span scope = s;
	struct uri_span addr = uri_cut(&scope, "%");
	struct in6_addr in6;

	if (uri_copy_host(ps, addr))
		return -EINVAL;
	if (inet_pton(AF_INET6, ps->address.host, &in6) != 1)
		return error_set(ps->e, -EINVAL,
				 "'%.*s' is not an IPv6 address", SPAN_ARG(s));
	if (!scope.len)
		return 0;
	scope.p++;
	scope.len--;
	/* RFC 6874 writes %25; as ib_srp does, a bare % is good enough. */
	if (scope.len > 2 && !strncmp(scope.p, "25", 2)) {
		scope.p += 2;
		scope.len -= 2;
	}
	if (!uri_is_scope(scope) ||
	    scope.len >= sizeof(ps->address.host) - addr.len - 1)
		return error_set(ps->e, -EINVAL,
				 "'%.*s' is not an interface in '%.*s'",
				 SPAN_ARG(scope), SPAN_ARG(s));
	ps->address.host[addr.len] = '%';
	memcpy(ps->address.host + addr.len + 1, scope.p, scope.len);
	ps->address.host[addr.len + 1 + scope.len] = '\0';
	return 0;
}

/* ":PORT" or nothing. */
static int uri_parse_port(struct uri_parser *ps, struct uri_span s)
{
	uint32_t port = 0;

	ps->address.port = XP_URI_PORT;
	if (!s.len)
		return 0;
	if (s.p[0] != ':')
		return error_set(ps->e, -EINVAL,
				 "'%.*s' after the address is not a port",
				 SPAN_ARG(s));
	s.p++;
	s.len--;
	if (!s.len)
		return error_set(ps->e, -EINVAL, "no port behind ':'");
	for (size_t i = 0; i < s.len && port <= UINT16_MAX; i++) {
		if (!uri_is_digit(s.p[i]))
			return error_set(ps->e, -EINVAL,
					 "port '%.*s' is not a number",
					 SPAN_ARG(s));
		port = 10 * port + (uint32_t)(s.p[i] - '0');
	}
	if (!port || port > UINT16_MAX)
		return error_set(ps->e, -EINVAL,
				 "port '%.*s' is not between 1 and 65535",
				 SPAN_ARG(s));
	ps->address.port = (uint16_t)port;
	return 0;
}

static bool uri_same_address(const struct xp_uri_address *a, const char *host,
			     uint16_t port)
{
	return a->port == port && !strcasecmp(a->host, host);
}

/* Takes over what was parsed; @s is its text. */
static int uri_add_address(struct uri_parser *ps, struct uri_span s)
{
	struct xp_uri *uri = &ps->uri;
	bool known = uri_same_address(&ps->address, uri->host, uri->port);

	for (unsigned int i = 0; i < uri->more_cnt; i++)
		known |= uri_same_address(&ps->address, uri->more[i].host,
					  uri->more[i].port);
	if (known)
		return error_set(ps->e, -EINVAL,
				 "address '%.*s' is given twice", SPAN_ARG(s));
	if (!uri->host[0]) {
		memcpy(uri->host, ps->address.host, sizeof(uri->host));
		uri->port = ps->address.port;
		return 0;
	}
	if (uri->more_cnt == XP_URI_ADDRESSES_MAX - 1)
		return error_set(ps->e, -EINVAL, "more than %d addresses",
				 XP_URI_ADDRESSES_MAX);
	uri->more[uri->more_cnt++] = ps->address;
	return 0;
}

static int uri_parse_address(struct uri_parser *ps, struct uri_span s)
{
	const struct uri_span text = s;
	struct uri_span host;
	int err;

	memset(&ps->address, 0, sizeof(ps->address));
	if (s.len && s.p[0] == '[') {
		s.p++;
		s.len--;
		host = uri_cut(&s, "]");
		if (!s.len)
			return error_set(ps->e, -EINVAL,
					 "'[%.*s' lacks its closing bracket",
					 SPAN_ARG(host));
		s.p++;
		s.len--;
		err = uri_parse_ipv6(ps, host);
	} else {
		host = uri_cut(&s, ":");
		if (s.len && memchr(s.p + 1, ':', s.len - 1))
			return error_set(ps->e, -EINVAL,
					 "IPv6 address '%.*s' needs brackets",
					 SPAN_ARG(text));
		err = uri_parse_name(ps, host);
	}
	if (!err)
		err = uri_parse_port(ps, s);
	return err ? err : uri_add_address(ps, text);
}

/* Addresses with commas between them. */
static int uri_parse_authority(struct uri_parser *ps, struct uri_span s)
{
	for (;;) {
		if (uri_parse_address(ps, uri_cut(&s, ",")))
			return -EINVAL;
		if (!s.len)
			return 0;
		s.p++;
		s.len--;
	}
}

/* One character, percent-decoded, off @s; -1 when the encoding is broken. */
static int uri_take_char(struct uri_span *s)
{
	int c = (unsigned char)s->p[0];
	size_t n = 1;

	if (c == '%') {
		int high = s->len > 2 ? hex_digit(s->p[1]) : -1;
		int low = s->len > 2 ? hex_digit(s->p[2]) : -1;

		if (high < 0 || low < 0)
			return -1;
		c = high << 4 | low;
		n = 3;
	}
	s->p += n;
	s->len -= n;
	return c;
}

/* Decodes @s, the @what of the URI, to @ret of @size bytes. @slash: it may have some. */
static int uri_decode(struct uri_parser *ps, const char *what,
		      struct uri_span s, bool slash, char *ret, size_t size)
{
	const struct uri_span whole = s;
	size_t n = 0;

	while (s.len) {
		int c = uri_take_char(&s);

		if (c < 0)
			return error_set(ps->e, -EINVAL,
					 "%s '%.*s' has a broken %% code", what,
					 SPAN_ARG(whole));
		if (!c || (c == '/' && !slash))
			return error_set(ps->e, -EINVAL,
					 "%s '%.*s' has a %s in its name", what,
					 SPAN_ARG(whole),
					 c ? "slash" : "zero byte");
		if (n + 1 == size)
			return error_set(
				ps->e, -EINVAL,
				"%s '%.*s...' is longer than %zu bytes", what,
				SPAN_ARG(whole), n);
		ret[n++] = (char)c;
	}
	ret[n] = '\0';
	return 0;
}

/* The volume's name becomes a file name: no slash, no NUL. */
static int uri_parse_volume(struct uri_parser *ps, struct uri_span s)
{
	return uri_decode(ps, "volume", s, /* slash= */ false, ps->uri.volume,
			  sizeof(ps->uri.volume));
}

/* ---- the query ---- */

/* 1 to 16 hexadecimal digits, with 0x or without. */
static int uri_parse_hex64(struct uri_parser *ps, const char *key,
			   struct uri_span value, uint64_t *ret)
{
	struct uri_span s = value;
	uint64_t v = 0;

	if (s.len > 2 && !strncasecmp(s.p, "0x", 2)) {
		s.p += 2;
		s.len -= 2;
	}
	for (size_t i = 0; i < s.len; i++)
		if (hex_digit(s.p[i]) < 0)
			s.len = 0;
	if (s.len < 1 || s.len > 16)
		return error_set(ps->e, -EINVAL,
				 "%s '%.*s' is not 1 to 16 hexadecimal digits",
				 key, SPAN_ARG(value));
	for (size_t i = 0; i < s.len; i++)
		v = v << 4 | (uint64_t)hex_digit(s.p[i]);
	*ret = v;
	return 0;
}

static int uri_parse_id_ext(struct uri_parser *ps, struct uri_span value)
{
	ps->has_ext = true;
	return uri_parse_hex64(ps, "id_ext", value, &ps->ext);
}

static int uri_parse_ioc_guid(struct uri_parser *ps, struct uri_span value)
{
	ps->has_guid = true;
	return uri_parse_hex64(ps, "ioc_guid", value, &ps->guid);
}

static int uri_parse_initiator(struct uri_parser *ps, struct uri_span value)
{
	char text[SRP_PORT_ID_TEXT_SIZE] = "";

	if (value.len < sizeof(text))
		memcpy(text, value.p, value.len);
	if (srp_port_id_parse(text, &ps->uri.initiator))
		return error_set(
			ps->e, -EINVAL,
			"initiator '%.*s' is not 32 hexadecimal digits",
			SPAN_ARG(value));
	ps->uri.has_initiator = true;
	return 0;
}

static bool uri_is_any(const char *host)
{
	struct in6_addr addr;

	return inet_pton(AF_INET, host, &addr) == 1
		       ? !addr.s6_addr32[0]
		       : inet_pton(AF_INET6, host, &addr) == 1 &&
				 IN6_IS_ADDR_UNSPECIFIED(&addr);
}

/* A numeric address, which may stand in brackets. */
static int uri_parse_source(struct uri_parser *ps, struct uri_span value)
{
	char *host = ps->address.host;
	struct uri_span s = value;
	struct in_addr addr;
	bool good;

	if (s.len > 1 && s.p[0] == '[' && s.p[s.len - 1] == ']') {
		s.p++;
		s.len -= 2;
	}
	if (memchr(s.p, ':', s.len))
		good = !uri_parse_ipv6(ps, s);
	else
		good = s.len && !uri_copy_host(ps, s) &&
		       inet_pton(AF_INET, host, &addr) == 1;
	if (!good || uri_is_any(host) ||
	    strlen(host) >= sizeof(ps->uri.route.source))
		return error_set(ps->e, -EINVAL,
				 "source '%.*s' is not the IP address of an "
				 "interface",
				 SPAN_ARG(value));
	strcpy(ps->uri.route.source, host);
	return 0;
}

/* As an address of IPv6, or 32 hexadecimal digits. */
static int uri_parse_gid(struct uri_parser *ps, struct uri_span value)
{
	struct xp_route *route = &ps->uri.route;
	char text[XP_GID_TEXT_SIZE] = "";
	struct srp_port_id digits;

	if (value.len < sizeof(text))
		memcpy(text, value.p, value.len);
	route->has_gid = inet_pton(AF_INET6, text, route->gid) == 1;
	if (!route->has_gid && !srp_port_id_parse(text, &digits)) {
		memcpy(route->gid, &digits, XP_GID_LEN);
		route->has_gid = true;
	}
	if (route->has_gid)
		return 0;
	return error_set(ps->e, -EINVAL,
			 "gid '%.*s' is not a GID, as fe80::1 or 32 "
			 "hexadecimal digits",
			 SPAN_ARG(value));
}

/* Hexadecimal, as in /sys and in the lines for ib_srp. */
static int uri_parse_pkey(struct uri_parser *ps, struct uri_span value)
{
	struct xp_route *route = &ps->uri.route;
	uint64_t pkey = 0;

	if (uri_parse_hex64(ps, "pkey", value, &pkey))
		return -EINVAL;
	if (pkey > UINT16_MAX || xp_pkey_same((uint16_t)pkey, 0))
		return error_set(
			ps->e, -EINVAL,
			"pkey '%.*s' is not a P_Key: 0001 to ffff, but "
			"not 8000",
			SPAN_ARG(value));
	route->has_pkey = true;
	route->pkey = (uint16_t)pkey;
	return 0;
}

/* From @least to @most, which is at most 255. */
static int uri_parse_number(struct uri_parser *ps, const char *key,
			    struct uri_span value, unsigned int least,
			    unsigned int most, uint8_t *ret)
{
	unsigned int n = 0;

	for (size_t i = 0; i < value.len && n <= most; i++)
		n = uri_is_digit(value.p[i])
			    ? 10 * n + (unsigned int)(value.p[i] - '0')
			    : most + 1;
	if (!value.len || n < least || n > most)
		return error_set(ps->e, -EINVAL,
				 "%s '%.*s' is not between %u and %u", key,
				 SPAN_ARG(value), least, most);
	*ret = (uint8_t)n;
	return 0;
}

static int uri_parse_sl(struct uri_parser *ps, struct uri_span value)
{
	ps->uri.route.has_sl = true;
	return uri_parse_number(ps, "sl", value, 0, 15, &ps->uri.route.sl);
}

static int uri_parse_tos(struct uri_parser *ps, struct uri_span value)
{
	ps->uri.route.has_tos = true;
	return uri_parse_number(ps, "tos", value, 0, 255, &ps->uri.route.tos);
}

/* Five bits; without a timeout, a lost packet would be waited for for ever. */
static int uri_parse_ack_timeout(struct uri_parser *ps, struct uri_span value)
{
	return uri_parse_number(ps, "ack-timeout", value, 1, 31,
				&ps->uri.route.ack_timeout);
}

/* Nothing secret: where the key is. */
static int uri_parse_key(struct uri_parser *ps, struct uri_span value)
{
	int err = uri_decode(ps, "key", value, /* slash= */ true, ps->uri.key,
			     sizeof(ps->uri.key));

	return err || ps->uri.key[0]
		       ? err
		       : error_set(ps->e, -EINVAL, "key '' names no file");
}

/* A key chooses the transport, or contradicts the scheme, as those of the route do. */
static int uri_check_tls(struct uri_parser *ps)
{
	enum xp_kind kind = ps->uri.forced ? ps->uri.kind : XP_KIND_FIRST;

	if (!ps->uri.key[0])
		return 0;
	while (!ps->uri.forced && !xp_kind_traits(kind)->tls_scheme)
		kind++;
	if (!xp_kind_traits(kind)->tls_scheme)
		return error_set(ps->e, -EINVAL,
				 "option 'key' needs TCP: %s has no TLS",
				 xp_kind_name(kind));
	ps->uri.kind = kind;
	ps->uri.forced = true;
	ps->uri.tls = true;
	return 0;
}

/* A key of the route chooses the transport, or contradicts the scheme. */
static int uri_check_route(struct uri_parser *ps)
{
	const char *key = xp_route_fabric_key(&ps->uri.route);
	enum xp_kind kind = ps->uri.forced ? ps->uri.kind : XP_KIND_FIRST;

	if (!key)
		return 0;
	while (!ps->uri.forced && !xp_kind_traits(kind)->has_gids)
		kind++;
	if (!xp_kind_traits(kind)->has_gids)
		return error_set(ps->e, -EINVAL,
				 "option '%s' needs RDMA: %s has no GIDs, "
				 "P_Keys and service levels",
				 key, xp_kind_name(kind));
	ps->uri.kind = kind;
	ps->uri.forced = true;
	return 0;
}

static const struct uri_key {
	const char *name;
	int (*parse)(struct uri_parser *ps, struct uri_span value);
} uri_keys[] = {
	{ "id_ext", uri_parse_id_ext },
	{ "ioc_guid", uri_parse_ioc_guid },
	{ "initiator", uri_parse_initiator },
	{ "source", uri_parse_source },
	{ "gid", uri_parse_gid },
	{ "pkey", uri_parse_pkey },
	{ "sl", uri_parse_sl },
	{ "tos", uri_parse_tos },
	{ "ack-timeout", uri_parse_ack_timeout },
	{ "key", uri_parse_key },
};

static int uri_parse_option(struct uri_parser *ps, struct uri_span s)
{
	struct uri_span value = s;
	struct uri_span key = uri_cut(&value, "=");

	if (!value.len)
		return error_set(ps->e, -EINVAL, "option '%.*s' has no value",
				 SPAN_ARG(key));
	value.p++;
	value.len--;
	for (size_t i = 0; i < ARRAY_SIZE(uri_keys); i++) {
		if (!uri_span_is(key, uri_keys[i].name))
			continue;
		if (ps->given & 1u << i)
			return error_set(ps->e, -EINVAL,
					 "option '%.*s' is given twice",
					 SPAN_ARG(key));
		ps->given |= 1u << i;
		return uri_keys[i].parse(ps, value);
	}
	return error_set(ps->e, -EINVAL,
			 "option '%.*s' is not id_ext, ioc_guid, initiator, "
			 "source, gid, pkey, sl, tos, ack-timeout or key",
			 SPAN_ARG(key));
}

/* @s: what follows the question mark */
static int uri_parse_query(struct uri_parser *ps, struct uri_span s)
{
	while (s.len) {
		int err = uri_parse_option(ps, uri_cut(&s, "&"));

		if (err)
			return err;
		if (s.len == 1)
			return error_set(ps->e, -EINVAL,
					 "'&' is not followed by an option");
		if (s.len) {
			s.p++;
			s.len--;
		}
	}
	if (ps->has_ext || ps->has_guid) {
		ps->uri.has_target = true;
		ps->uri.target =
			srp_port_id_make(ps->has_ext ? ps->ext : ps->guid,
					 ps->has_guid ? ps->guid : ps->ext);
	}
	return uri_check_route(ps) ? -EINVAL : uri_check_tls(ps);
}

/* All that follows the scheme. */
static int uri_parse_rest(struct uri_parser *ps, const char *text)
{
	struct uri_span s = { text, strlen(text) };
	struct uri_span part;

	part = uri_cut(&s, "/?");
	if (uri_parse_authority(ps, part))
		return -EINVAL;
	part = uri_cut(&s, "?");
	if (part.len) {
		part.p++;
		part.len--;
	}
	if (uri_parse_volume(ps, part))
		return -EINVAL;
	if (!s.len)
		return 0;
	s.p++;
	s.len--;
	return uri_parse_query(ps, s);
}

int xp_uri_parse(const char *text, struct xp_uri *ret, struct error *e)
{
	struct uri_parser ps = { .uri.kind = XP_KIND_FIRST, .e = e };

	if (uri_parse_scheme(&ps, &text) || uri_parse_rest(&ps, text))
		return -EINVAL;
	*ret = ps.uri;
	return 0;
}

/* Text that grows to the end of a buffer and no further. */
struct uri_out {
	char *buf;
	size_t size;
	size_t len; /* what it would have been, too */
};

static void uri_put_char(struct uri_out *o, char c)
{
	if (o->len < o->size)
		o->buf[o->len] = c;
	o->len++;
}

static void uri_put_text(struct uri_out *o, const char *text)
{
	while (*text)
		uri_put_char(o, *text++);
}

__attribute__((format(printf, 2, 3))) static void
uri_print(struct uri_out *o, const char *fmt, ...)
{
	char text[64];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	uri_put_text(o, text);
}

static void uri_put_scoped(struct uri_out *o, const char *host)
{
	for (; *host; host++) {
		uri_put_char(o, *host);
		/* A scope that begins with 25 would be taken for %25. */
		if (*host == '%' && !strncmp(host + 1, "25", 2))
			uri_put_text(o, "25");
	}
}

static void uri_put_host(struct uri_out *o, const char *host)
{
	bool is_ipv6 = strchr(host, ':');

	if (is_ipv6)
		uri_put_char(o, '[');
	uri_put_scoped(o, host);
	if (is_ipv6)
		uri_put_char(o, ']');
}

/* @also: characters that are not encoded, besides those of a name. */
static void uri_put_encoded(struct uri_out *o, const char *text,
			    const char *also)
{
	for (; *text; text++) {
		if (uri_is_unreserved(*text) || strchr(also, *text))
			uri_put_char(o, *text);
		else
			uri_print(o, "%%%02X", (unsigned char)*text);
	}
}

static void uri_put_volume(struct uri_out *o, const char *name)
{
	if (!*name)
		return;
	uri_put_char(o, '/');
	uri_put_encoded(o, name, "");
}

/* "?KEY=", or "&KEY=" after another one. */
static void uri_put_key(struct uri_out *o, bool *some, const char *key)
{
	uri_put_char(o, *some ? '&' : '?');
	uri_put_text(o, key);
	uri_put_char(o, '=');
	*some = true;
}

static void uri_put_route(struct uri_out *o, bool *some,
			  const struct xp_route *route)
{
	char gid[XP_GID_TEXT_SIZE];

	if (*route->source) {
		uri_put_key(o, some, "source");
		uri_put_scoped(o, route->source);
	}
	if (route->has_gid) {
		uri_put_key(o, some, "gid");
		uri_put_text(o, xp_gid_text(route->gid, gid));
	}
	if (route->has_pkey) {
		uri_put_key(o, some, "pkey");
		uri_print(o, "%04x", route->pkey);
	}
	if (route->has_sl) {
		uri_put_key(o, some, "sl");
		uri_print(o, "%u", route->sl);
	}
	if (route->has_tos) {
		uri_put_key(o, some, "tos");
		uri_print(o, "%u", route->tos);
	}
	if (route->ack_timeout) {
		uri_put_key(o, some, "ack-timeout");
		uri_print(o, "%u", route->ack_timeout);
	}
}

static void uri_put_options(struct uri_out *o, const struct xp_uri *uri)
{
	char text[SRP_PORT_ID_TEXT_SIZE];
	bool some = uri->has_target;

	if (uri->has_target)
		uri_print(o, "?id_ext=%016llx&ioc_guid=%016llx",
			  (unsigned long long)srp_port_id_ext(&uri->target),
			  (unsigned long long)srp_port_id_guid(&uri->target));
	if (uri->has_initiator) {
		uri_put_key(o, &some, "initiator");
		uri_put_text(o, srp_port_id_format(&uri->initiator, text));
	}
	uri_put_route(o, &some, &uri->route);
	if (*uri->key) {
		uri_put_key(o, &some, "key");
		uri_put_encoded(o, uri->key, "/:");
	}
}

/* Of a URI that demands a transport, or none. */
static const char *uri_scheme(const struct xp_uri *uri)
{
	if (uri->tls)
		return xp_kind_traits(uri->kind)->tls_scheme;
	return uri->forced ? xp_kind_scheme(uri->kind) : "srp";
}

bool xp_uri_same_address(const struct xp_uri *one, const struct xp_uri *two)
{
	return one->kind == two->kind && one->forced == two->forced &&
	       one->tls == two->tls && one->port == two->port &&
	       !strcmp(one->host, two->host);
}

int xp_uri_format(const struct xp_uri *uri, char *buf, size_t size)
{
	struct uri_out o = { .buf = buf, .size = size };

	uri_put_text(&o, uri_scheme(uri));
	uri_put_text(&o, "://");
	uri_put_host(&o, uri->host);
	uri_print(&o, ":%u", uri->port);
	for (unsigned int i = 0; i < uri->more_cnt; i++) {
		uri_put_char(&o, ',');
		uri_put_host(&o, uri->more[i].host);
		uri_print(&o, ":%u", uri->more[i].port);
	}
	uri_put_volume(&o, uri->volume);
	uri_put_options(&o, uri);
	uri_put_char(&o, '\0');
	return o.len <= size ? (int)(o.len - 1) : -ENOSPC;
}
