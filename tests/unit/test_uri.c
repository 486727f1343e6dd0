/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>

#include "transport/uri.h"
#include "tests/lib/t_hex.h"
#include "tests/lib/t_table.h"

#define X8   "xxxxxxxx"
#define X64  X8 X8 X8 X8 X8 X8 X8 X8
#define X255 X64 X64 X64 X8 X8 X8 X8 X8 X8 X8 "xxxxxxx"
#define X252 X64 X64 X64 X8 X8 X8 X8 X8 X8 X8 "xxxx"
#define Z16  "0000000000000000"

/* Ends of messages. */
#define KEYS                                                   \
	"id_ext, ioc_guid, initiator, source, gid, pkey, sl, " \
	"tos, ack-timeout or key"
#define ADDRESS	  "the IP address of an interface"
#define RDMA_ONLY "needs RDMA: TCP has no GIDs, P_Keys and service levels"

/* The transport fields of a row. */
#define ANY	   false, XP_KIND_FIRST
#define ONLY(kind) true, kind

static const struct good_row {
	const char *name;
	const char *text;
	bool forced;
	enum xp_kind kind;
	const char *host;
	uint16_t port;
	const char *volume;
	const char *canonical; /* NULL: the same as text */
} good_rows[] = {
	{ "IPv4", "srp://10.0.0.1:5555", ANY, "10.0.0.1", 5555, "" },
	{ "default port", "srp://10.0.0.1", ANY, "10.0.0.1", 5555, "",
	  "srp://10.0.0.1:5555" },
	{ "plain address", "10.0.0.1", ANY, "10.0.0.1", 5555, "",
	  "srp://10.0.0.1:5555" },
	{ "plain address and port", "127.0.0.1:6000", ANY, "127.0.0.1", 6000,
	  "", "srp://127.0.0.1:6000" },
	{ "plain name and volume", "host/disk", ANY, "host", 5555, "disk",
	  "srp://host:5555/disk" },
	{ "plain IPv6", "[::1]:6000", ANY, "::1", 6000, "",
	  "srp://[::1]:6000" },
	{ "verbs only", "srp+rdma://host:1", ONLY(XP_VERBS), "host", 1, "" },
	{ "TCP only", "srp+tcp://host:65535/v", ONLY(XP_TCP), "host", 65535,
	  "v" },
	{ "TLS only", "srp+tls://host:1/v", ONLY(XP_TCP), "host", 1, "v" },
	{ "scheme in capitals", "SRP+TCP://host:1", ONLY(XP_TCP), "host", 1, "",
	  "srp+tcp://host:1" },
	{ "name with dots and dashes", "srp://a-b.example_1.org:5555", ANY,
	  "a-b.example_1.org", 5555, "" },
	{ "IPv6", "srp://[2001:db8::1]:5555", ANY, "2001:db8::1", 5555, "" },
	{ "IPv6, default port", "srp://[2001:db8::1]/v", ANY, "2001:db8::1",
	  5555, "v", "srp://[2001:db8::1]:5555/v" },
	{ "IPv6 with an IPv4 end", "srp://[::ffff:10.0.0.1]:1", ANY,
	  "::ffff:10.0.0.1", 1, "" },
	{ "link-local, bare scope", "srp://[fe80::1%d0]:5555", ANY,
	  "fe80::1%d0", 5555, "" },
	{ "link-local, encoded scope", "srp://[fe80::1%25d0]:5555", ANY,
	  "fe80::1%d0", 5555, "", "srp://[fe80::1%d0]:5555" },
	{ "link-local, interface 25", "srp://[fe80::1%25]:5555", ANY,
	  "fe80::1%25", 5555, "", "srp://[fe80::1%2525]:5555" },
	{ "link-local, scope begins with 25", "srp://[fe80::1%2525g]:5555", ANY,
	  "fe80::1%25g", 5555, "" },
	{ "empty volume", "srp://h:1/", ANY, "h", 1, "", "srp://h:1" },
	{ "LUN number", "srp://h:1/0", ANY, "h", 1, "0" },
	{ "volume percent-decoded", "srp://h:1/a%20b%3F%25", ANY, "h", 1,
	  "a b?%" },
	{ "small hexadecimal digits", "srp://h:1/%c3%a9", ANY, "h", 1,
	  "\xc3\xa9", "srp://h:1/%C3%A9" },
	{ "volume with raw UTF-8", "srp://h:1/\xc3\xa9", ANY, "h", 1,
	  "\xc3\xa9", "srp://h:1/%C3%A9" },
	{ "volume with a colon", "srp://h:1/a:b", ANY, "h", 1, "a:b",
	  "srp://h:1/a%3Ab" },
	{ "longest volume", "srp://h:1/" X255, ANY, "h", 1, X255 },
	{ "longest host", "srp://" X255 ":1", ANY, X255, 1, "" },
	{ "leading zeros in the port", "srp://h:0000000080", ANY, "h", 80, "",
	  "srp://h:80" },
	{ "query without options", "srp://h:1?", ANY, "h", 1, "", "srp://h:1" },
	{ "colon in the volume ends no scheme", "h:1/a:%3f", ANY, "h", 1, "a:?",
	  "srp://h:1/a%3A%3F" },
};

/* Copies @text to the heap, without spare bytes. The caller frees the copy. */
static char *text_copy(const char *text)
{
	return (char *)t_copy(text, strlen(text) + 1);
}

T_ROWS(good, good_rows)
{
	const struct good_row *r = *state;
	struct error e = { 0 };
	char text[XP_URI_TEXT_SIZE];
	struct xp_uri uri, again;
	char *copy = text_copy(r->text);
	int len;

	assert_int_equal(xp_uri_parse(copy, &uri, &e), 0);
	free(copy);
	assert_string_equal(e.text, "");
	assert_int_equal(uri.forced, r->forced);
	assert_int_equal(uri.kind, r->kind);
	assert_string_equal(uri.host, r->host);
	assert_int_equal(uri.port, r->port);
	assert_string_equal(uri.volume, r->volume);
	assert_false(uri.has_target);
	assert_false(uri.has_initiator);
	assert_true(srp_port_id_is_zero(&uri.target));
	len = xp_uri_format(&uri, text, sizeof(text));
	assert_int_equal(len, strlen(text));
	assert_string_equal(text, r->canonical ? r->canonical : r->text);
	assert_int_equal(xp_uri_parse(text, &again, &e), 0);
	assert_memory_equal(&again, &uri, sizeof(uri));
}

static const struct bad_row {
	const char *name;
	const char *text;
	const char *msg;
} bad_rows[] = {
	{ "empty", "", "no host is named" },
	{ "no host", "srp://", "no host is named" },
	{ "no host but a port", "srp://:5555", "no host is named" },
	{ "no host but a volume", "srp:///vol", "no host is named" },
	{ "a file name", "/dev/sda", "no host is named" },
	{ "empty brackets", "srp://[]:1", "no host is named" },
	{ "another scheme", "http://h/",
	  "scheme 'http' is not srp, srp+rdma, srp+tcp or srp+tls" },
	{ "nearly a scheme", "srp+udp://h/",
	  "scheme 'srp+udp' is not srp, srp+rdma, srp+tcp or srp+tls" },
	{ "no scheme before ://", "://h",
	  "scheme '' is not srp, srp+rdma, srp+tcp or srp+tls" },
	{ "port too large", "srp://h:99999",
	  "port '99999' is not between 1 and 65535" },
	{ "port one too large", "srp://h:65536",
	  "port '65536' is not between 1 and 65535" },
	{ "port of many digits", "srp://h:184467440737095551616",
	  "port '184467440737095551616' is not between 1 and 65535" },
	{ "port zero", "h:0", "port '0' is not between 1 and 65535" },
	{ "port empty", "h:", "no port behind ':'" },
	{ "port a word", "h:srp", "port 'srp' is not a number" },
	{ "port negative", "h:-1", "port '-1' is not a number" },
	{ "IPv6 without brackets", "::1", "IPv6 address '::1' needs brackets" },
	{ "IPv6 without brackets, port", "srp://fe80::1:5555",
	  "IPv6 address 'fe80::1:5555' needs brackets" },
	{ "bracket not closed", "srp://[::1",
	  "'[::1' lacks its closing bracket" },
	{ "bracket not closed before the volume", "srp://[::1/a]",
	  "'[::1' lacks its closing bracket" },
	{ "no IPv6 address in brackets", "[10.0.0.1]",
	  "'10.0.0.1' is not an IPv6 address" },
	{ "IPv6 with junk", "[::g]", "'::g' is not an IPv6 address" },
	{ "scope empty", "[fe80::1%]", "'' is not an interface in 'fe80::1%'" },
	{ "scope with a percent sign", "[fe80::1%a%b]",
	  "'a%b' is not an interface in 'fe80::1%a%b'" },
	{ "scope too long", "[::1%" X255 "]",
	  "'" X64 "' is not an interface in '::1%" X8 X8 X8 X8 X8 X8 X8
	  "xxxx'" },
	{ "scope too long by one", "[::1%" X252 "]",
	  "'" X64 "' is not an interface in '::1%" X8 X8 X8 X8 X8 X8 X8
	  "xxxx'" },
	{ "junk after the bracket", "[::1]5555",
	  "'5555' after the address is not a port" },
	{ "IPv4 out of range", "10.0.0.256",
	  "'10.0.0.256' is not an IPv4 address" },
	{ "IPv4 too short", "10.1", "'10.1' is not an IPv4 address" },
	{ "a number alone", "5555", "'5555' is not an IPv4 address" },
	{ "space in the host", "srp://a b",
	  "host 'a b' is not a name or address" },
	{ "user in the host", "srp://me@h",
	  "host 'me@h' is not a name or address" },
	{ "percent code in the host", "srp://%41",
	  "host '%41' is not a name or address" },
	{ "host too long", "srp://" X255 "x",
	  "host '" X64 "...' is longer than 255 characters" },
	{ "volume too long", "srp://h/" X255 "x",
	  "volume '" X64 "...' is longer than 255 bytes" },
	{ "volume with a slash", "srp://h/a/b",
	  "volume 'a/b' has a slash in its name" },
	{ "volume with an encoded slash", "srp://h/a%2Fb",
	  "volume 'a%2Fb' has a slash in its name" },
	{ "volume with a zero byte", "srp://h/a%00b",
	  "volume 'a%00b' has a zero byte in its name" },
	{ "percent code cut short", "srp://h/a%4",
	  "volume 'a%4' has a broken % code" },
	{ "percent code cut shorter", "srp://h/a%",
	  "volume 'a%' has a broken % code" },
	{ "percent code cut by the query", "srp://h/%4?id_ext=1",
	  "volume '%4' has a broken % code" },
	{ "percent code of other letters", "srp://h/%zz",
	  "volume '%zz' has a broken % code" },
	{ "unknown option", "srp://h?dgid=fe80::1",
	  "option 'dgid' is not " KEYS },
	{ "beginning of an option", "srp://h?id=1",
	  "option 'id' is not " KEYS },
	{ "option without a name", "srp://h?=1", "option '' is not " KEYS },
	{ "source a name", "h?source=localhost",
	  "source 'localhost' is not " ADDRESS },
	{ "source empty", "h?source=", "source '' is not " ADDRESS },
	{ "source with a port", "h?source=10.0.0.1:1",
	  "source '10.0.0.1:1' is not " ADDRESS },
	{ "source of every interface", "h?source=0.0.0.0",
	  "source '0.0.0.0' is not " ADDRESS },
	{ "source of every interface, IPv6", "h?source=[::]",
	  "source '[::]' is not " ADDRESS },
	{ "source too long", "h?source=fe80::1%" X64,
	  "source 'fe80::1%" X8 X8 X8 X8 X8 X8 X8 "' is not " ADDRESS },
	{ "source twice", "h?source=10.0.0.1&source=10.0.0.2",
	  "option 'source' is given twice" },
	{ "GID a word", "h?gid=mine",
	  "gid 'mine' is not a GID, as fe80::1 or 32 hexadecimal digits" },
	{ "GID cut short", "h?gid=fe80",
	  "gid 'fe80' is not a GID, as fe80::1 or 32 hexadecimal digits" },
	{ "P_Key of five digits", "h?pkey=1ffff",
	  "pkey '1ffff' is not a P_Key: 0001 to ffff, but not 8000" },
	{ "P_Key zero", "h?pkey=0",
	  "pkey '0' is not a P_Key: 0001 to ffff, but not 8000" },
	{ "P_Key of a membership only", "h?pkey=0x8000",
	  "pkey '0x8000' is not a P_Key: 0001 to ffff, but not 8000" },
	{ "P_Key a word", "h?pkey=default",
	  "pkey 'default' is not 1 to 16 hexadecimal digits" },
	{ "service level 16", "h?sl=16", "sl '16' is not between 0 and 15" },
	{ "type of service 256", "h?tos=256",
	  "tos '256' is not between 0 and 255" },
	{ "type of service in hexadecimal", "h?tos=0x68",
	  "tos '0x68' is not between 0 and 255" },
	{ "no ACK timeout", "h?ack-timeout=0",
	  "ack-timeout '0' is not between 1 and 31" },
	{ "ACK timeout 32", "h?ack-timeout=32",
	  "ack-timeout '32' is not between 1 and 31" },
	{ "type of service over TCP", "srp+tcp://h?tos=1",
	  "option 'tos' " RDMA_ONLY },
	{ "service level empty", "h?sl=", "sl '' is not between 0 and 15" },
	{ "service level hexadecimal", "h?sl=f",
	  "sl 'f' is not between 0 and 15" },
	{ "GID over TCP", "srp+tcp://h?gid=::1", "option 'gid' " RDMA_ONLY },
	{ "P_Key over TCP", "srp+tcp://h?pkey=1", "option 'pkey' " RDMA_ONLY },
	{ "service level over TCP", "srp+tcp://h?sl=1",
	  "option 'sl' " RDMA_ONLY },
	{ "key over RDMA", "srp+rdma://h?key=/k",
	  "option 'key' needs TCP: RDMA (verbs) has no TLS" },
	{ "key and a P_Key", "h?key=/k&pkey=1",
	  "option 'key' needs TCP: RDMA (verbs) has no TLS" },
	{ "P_Key with TLS", "srp+tls://h?pkey=1", "option 'pkey' " RDMA_ONLY },
	{ "key empty", "h?key=", "key '' names no file" },
	{ "key with a zero byte", "h?key=/a%00",
	  "key '/a%00' has a zero byte "
	  "in its name" },
	{ "key with a broken code", "h?key=/a%0",
	  "key '/a%0' has a broken % "
	  "code" },
	{ "key twice", "h?key=/a&key=/b", "option 'key' is given twice" },
	{ "key too long", "h?key=" X255 "x",
	  "key '" X64 "...' is longer than 255 bytes" },
	{ "option without a value", "srp://h?id_ext",
	  "option 'id_ext' has no value" },
	{ "option with an empty value",
	  "srp://h?id_ext=", "id_ext '' is not 1 to 16 hexadecimal digits" },
	{ "only 0x", "srp://h?ioc_guid=0x",
	  "ioc_guid '0x' is not 1 to 16 hexadecimal digits" },
	{ "17 digits", "srp://h?ioc_guid=10000000000000000",
	  "ioc_guid '10000000000000000' is not 1 to 16 hexadecimal digits" },
	{ "no hexadecimal digits", "srp://h?id_ext=12g4",
	  "id_ext '12g4' is not 1 to 16 hexadecimal digits" },
	{ "option twice", "srp://h?id_ext=1&id_ext=2",
	  "option 'id_ext' is given twice" },
	{ "initiator twice", "srp://h?initiator=" Z16 Z16 "&initiator=" Z16 Z16,
	  "option 'initiator' is given twice" },
	{ "initiator too short", "srp://h?initiator=12",
	  "initiator '12' is not 32 hexadecimal digits" },
	{ "initiator too long", "srp://h?initiator=0x" Z16 Z16 "0",
	  "initiator '0x" Z16 Z16 "0' is not 32 hexadecimal digits" },
	{ "initiator much too long", "srp://h?initiator=" X255,
	  "initiator '" X64 "' is not 32 hexadecimal digits" },
	{ "option list ends in &", "srp://h?id_ext=1&",
	  "'&' is not followed by an option" },
	{ "address empty", "srp://a,,b/v", "no host is named" },
	{ "comma at the end", "srp://a,/v", "no host is named" },
	{ "comma at the begin", "srp://,a/v", "no host is named" },
	{ "address given twice", "srp://a,b:1,A:5555/v",
	  "address 'A:5555' is given twice" },
	{ "second address given twice", "srp://a,[::1]:2,[::1]:2",
	  "address '[::1]:2' is given twice" },
	{ "second port a word", "a,b:x", "port 'x' is not a number" },
	{ "second IPv6 without brackets", "a,::1",
	  "IPv6 address '::1' needs brackets" },
	{ "nine addresses", "a,b,c,d,e,f,g,h,i", "more than 8 addresses" },
	{ "two &", "srp://h?id_ext=1&&ioc_guid=2", "option '' has no value" },
};

T_ROWS(bad, bad_rows)
{
	const struct bad_row *r = *state;
	struct error e = { 0 };
	struct xp_uri uri = { .port = 77 };
	char *copy = text_copy(r->text);

	assert_int_equal(xp_uri_parse(copy, &uri, &e), -EINVAL);
	free(copy);
	assert_string_equal(e.text, r->msg);
	assert_int_equal(uri.port, 77);
	assert_int_equal(xp_uri_parse(r->text, &uri, NULL), -EINVAL);
}

static const struct key_row {
	const char *name;
	const char *text;
	const char *key;
	const char *canonical;
} key_rows[] = {
	{ "a file", "srp+tls://h:1/v?key=/etc/rdma-block/key",
	  "/etc/rdma-block/key", "srp+tls://h:1/v?key=/etc/rdma-block/key" },
	{ "a key demands TLS", "h:1?key=/k", "/k", "srp+tls://h:1?key=/k" },
	{ "over TCP, too", "srp+tcp://h:1?key=/k", "/k",
	  "srp+tls://h:1?key=/k" },
	{ "a key of the kernel", "h:1?key=keyring:backup", "keyring:backup",
	  "srp+tls://h:1?key=keyring:backup" },
	{ "encoded", "h:1?key=/a%26b%20c%25&source=10.0.0.1", "/a&b c%",
	  "srp+tls://h:1?source=10.0.0.1&key=/a%26b%20c%25" },
	{ "the longest", "h:1?key=" X255, X255, "srp+tls://h:1?key=" X255 },
};

T_ROWS(key, key_rows)
{
	const struct key_row *r = *state;
	struct error e = { 0 };
	char text[XP_URI_TEXT_SIZE];
	struct xp_uri uri, again;

	assert_int_equal(xp_uri_parse(r->text, &uri, &e), 0);
	assert_true(uri.tls && uri.forced);
	assert_int_equal(uri.kind, XP_TCP);
	assert_string_equal(uri.key, r->key);
	assert_true(xp_uri_format(&uri, text, sizeof(text)) > 0);
	assert_string_equal(text, r->canonical);
	assert_int_equal(xp_uri_parse(text, &again, &e), 0);
	assert_memory_equal(&again, &uri, sizeof(uri));
}

static const struct option_row {
	const char *name;
	const char *text;
	uint64_t id_ext;
	uint64_t ioc_guid;
	bool has_target;
	const char *initiator; /* NULL: none */
	const char *canonical;
} option_rows[] = {
	{ "both halves of the target port",
	  "h:1?id_ext=1122334455667788&ioc_guid=0x99AABBCCDDEEFF00",
	  0x1122334455667788, 0x99aabbccddeeff00, true, NULL,
	  "srp://h:1?id_ext=1122334455667788&ioc_guid=99aabbccddeeff00" },
	{ "id_ext alone stands for both", "h:1?id_ext=0xcafe", 0xcafe, 0xcafe,
	  true, NULL,
	  "srp://h:1?id_ext=000000000000cafe&ioc_guid=000000000000cafe" },
	{ "ioc_guid alone stands for both", "h:1/v?ioc_guid=cafe", 0xcafe,
	  0xcafe, true, NULL,
	  "srp://h:1/v?id_ext=000000000000cafe&ioc_guid=000000000000cafe" },
	{ "a half may be zero", "h:1?ioc_guid=1&id_ext=0", 0, 1, true, NULL,
	  "srp://h:1?id_ext=" Z16 "&ioc_guid=0000000000000001" },
	{ "initiator port", "h:1?initiator=0x" Z16 "505400FFFE123456", 0, 0,
	  false, "0x" Z16 "505400fffe123456",
	  "srp://h:1?initiator=0x" Z16 "505400fffe123456" },
	{ "all options",
	  "h:1?initiator=" Z16 "000000000000000A&ioc_guid=2&id_ext=1", 1, 2,
	  true, "0x" Z16 "000000000000000a",
	  "srp://h:1?id_ext=0000000000000001&ioc_guid=0000000000000002"
	  "&initiator=0x" Z16 "000000000000000a" },
};

T_ROWS(options, option_rows)
{
	const struct option_row *r = *state;
	struct error e;
	char text[XP_URI_TEXT_SIZE];
	char id[SRP_PORT_ID_TEXT_SIZE];
	struct xp_uri uri, again;
	char *copy = text_copy(r->text);

	assert_int_equal(xp_uri_parse(copy, &uri, &e), 0);
	free(copy);
	assert_int_equal(uri.has_target, r->has_target);
	assert_int_equal(srp_port_id_ext(&uri.target), r->id_ext);
	assert_int_equal(srp_port_id_guid(&uri.target), r->ioc_guid);
	assert_int_equal(uri.has_initiator, r->initiator != NULL);
	if (r->initiator)
		assert_string_equal(srp_port_id_format(&uri.initiator, id),
				    r->initiator);
	assert_int_equal(xp_uri_format(&uri, text, sizeof(text)),
			 strlen(r->canonical));
	assert_string_equal(text, r->canonical);
	assert_int_equal(xp_uri_parse(text, &again, &e), 0);
	assert_memory_equal(&again, &uri, sizeof(uri));
}

static const struct route_row {
	const char *name;
	const char *text;
	const char *source;
	const char *gid; /* NULL: none */
	int pkey;	 /* -1: none */
	int sl;		 /* -1: none */
	const char *canonical;
} route_rows[] = {
	{ "source", "h:1?source=10.0.0.2", "10.0.0.2", NULL, -1, -1,
	  "srp://h:1?source=10.0.0.2" },
	{ "source over TCP", "srp+tcp://h:1?source=127.0.0.2", "127.0.0.2",
	  NULL, -1, -1, "srp+tcp://h:1?source=127.0.0.2" },
	{ "source of IPv6", "h:1?source=2001:db8::2", "2001:db8::2", NULL, -1,
	  -1, "srp://h:1?source=2001:db8::2" },
	{ "source in brackets, with a scope", "h:1?source=[fe80::1%25d0]",
	  "fe80::1%d0", NULL, -1, -1, "srp://h:1?source=fe80::1%d0" },
	{ "source on interface 25", "h:1?source=fe80::1%2525", "fe80::1%25",
	  NULL, -1, -1, "srp://h:1?source=fe80::1%2525" },
	{ "GID as an address", "h:1?gid=::ffff:10.0.0.2", "", "::ffff:10.0.0.2",
	  -1, -1, "srp+rdma://h:1?gid=::ffff:10.0.0.2" },
	{ "GID as /sys shows it",
	  "h:1?gid=fe80:0000:0000:0000:0002:c903:00a0:5be1", "",
	  "fe80::2:c903:a0:5be1", -1, -1,
	  "srp+rdma://h:1?gid=fe80::2:c903:a0:5be1" },
	{ "GID as ib_srp takes it", "h:1?gid=fe800000000000000002c90300a05be1",
	  "", "fe80::2:c903:a0:5be1", -1, -1,
	  "srp+rdma://h:1?gid=fe80::2:c903:a0:5be1" },
	{ "P_Key of a full member", "srp+rdma://h:1?pkey=8001", "", NULL,
	  0x8001, -1, "srp+rdma://h:1?pkey=8001" },
	{ "P_Key with 0x, of a limited member", "h:1?pkey=0x1", "", NULL, 1, -1,
	  "srp+rdma://h:1?pkey=0001" },
	{ "lowest service level", "h:1?sl=0", "", NULL, -1, 0,
	  "srp+rdma://h:1?sl=0" },
	{ "highest service level", "h:1?sl=15", "", NULL, -1, 15,
	  "srp+rdma://h:1?sl=15" },
	{ "all of the route", "h:1/v?sl=3&pkey=ffff&gid=::1&source=10.0.0.1",
	  "10.0.0.1", "::1", 0xffff, 3,
	  "srp+rdma://h:1/v?source=10.0.0.1&gid=::1&pkey=ffff&sl=3" },
};

T_ROWS(route, route_rows)
{
	const struct route_row *r = *state;
	struct error e;
	char text[XP_URI_TEXT_SIZE];
	char gid[XP_GID_TEXT_SIZE];
	struct xp_uri uri, again;
	char *copy = text_copy(r->text);

	assert_int_equal(xp_uri_parse(copy, &uri, &e), 0);
	free(copy);
	assert_string_equal(uri.route.source, r->source);
	assert_int_equal(uri.route.has_gid, r->gid != NULL);
	if (r->gid)
		assert_string_equal(xp_gid_text(uri.route.gid, gid), r->gid);
	assert_int_equal(uri.route.has_pkey ? uri.route.pkey : -1, r->pkey);
	assert_int_equal(uri.route.has_sl ? uri.route.sl : -1, r->sl);
	assert_int_equal(xp_uri_format(&uri, text, sizeof(text)),
			 strlen(r->canonical));
	assert_string_equal(text, r->canonical);
	assert_int_equal(xp_uri_parse(text, &again, &e), 0);
	assert_memory_equal(&again, &uri, sizeof(uri));
}

static const struct list_row {
	const char *name;
	const char *text;
	const char *others; /* all but the first, "HOST PORT" each */
	const char *canonical;
} list_rows[] = {
	{ "two addresses", "srp://a,b/v", "b 5555", "srp://a:5555,b:5555/v" },
	{ "each with its port", "srp+tcp://10.0.0.1:1,10.0.0.2:2", "10.0.0.2 2",
	  "srp+tcp://10.0.0.1:1,10.0.0.2:2" },
	{ "one host, two ports", "a:1,a:2", "a 2", "srp://a:1,a:2" },
	{ "IPv6 in brackets", "[::1],[fe80::1%25d0]:7,a/v?ioc_guid=1",
	  "fe80::1%d0 7 a 5555",
	  "srp://[::1]:5555,[fe80::1%d0]:7,a:5555/v?id_ext="
	  "0000000000000001&ioc_guid=0000000000000001" },
	{ "a comma in the volume", "a/b,c", "", "srp://a:5555/b%2Cc" },
	{ "as many as there may be", "a,b,c,d,e,f,g,h",
	  "b 5555 c 5555 d 5555 e 5555 f 5555 g 5555 h 5555",
	  "srp://a:5555,b:5555,c:5555,d:5555,e:5555,f:5555,g:5555,h:5555" },
};

T_ROWS(list, list_rows)
{
	const struct list_row *r = *state;
	struct error e;
	char text[XP_URI_TEXT_SIZE];
	char others[256] = "";
	struct xp_uri uri, again;
	char *copy = text_copy(r->text);

	assert_int_equal(xp_uri_parse(copy, &uri, &e), 0);
	free(copy);
	for (unsigned int i = 0; i < uri.more_cnt; i++)
		sprintf(others + strlen(others), "%s%s %u", i ? " " : "",
			uri.more[i].host, uri.more[i].port);
	assert_string_equal(others, r->others);
	assert_int_equal(xp_uri_format(&uri, text, sizeof(text)),
			 strlen(r->canonical));
	assert_string_equal(text, r->canonical);
	assert_int_equal(xp_uri_parse(text, &again, &e), 0);
	assert_memory_equal(&again, &uri, sizeof(uri));
}

T_TEST(format_refuses_too_little_room)
{
	struct error e;
	struct xp_uri uri;
	int len;

	assert_int_equal(xp_uri_parse("h/v?id_ext=1", &uri, &e), 0);
	len = xp_uri_format(&uri, NULL, 0);
	assert_int_equal(len, -ENOSPC);
	len = (int)strlen("srp://h:5555/v?id_ext=" Z16 "&ioc_guid=" Z16);
	for (int size = 1; size <= len + 1; size++) {
		char *buf = malloc((size_t)size);

		assert_int_equal(xp_uri_format(&uri, buf, (size_t)size),
				 size <= len ? -ENOSPC : len);
		free(buf);
	}
}

T_TEST(keys_of_packets_are_taken_and_written)
{
	static const char canonical[] =
		"srp+rdma://h:5555?sl=3&tos=104&ack-timeout=18";
	char text[XP_URI_TEXT_SIZE];
	struct xp_uri uri;
	struct error e;

	assert_int_equal(
		xp_uri_parse("srp://h?ack-timeout=18&tos=104&sl=3", &uri, &e),
		0);
	assert_true(uri.forced && uri.kind == XP_VERBS && uri.route.has_tos);
	assert_int_equal(uri.route.tos, 104);
	assert_int_equal(uri.route.ack_timeout, 18);
	xp_uri_format(&uri, text, sizeof(text));
	assert_string_equal(text, canonical);
}

T_TEST(the_longest_uri_has_room)
{
	struct xp_uri uri = {
		.forced = true,
		.kind = XP_VERBS,
		.port = 65535,
		.has_target = true,
		.has_initiator = true,
		.route = { .has_gid = true,
			   .has_pkey = true,
			   .pkey = 0xffff,
			   .has_sl = true,
			   .sl = 15,
			   .has_tos = true,
			   .tos = 255,
			   .ack_timeout = 31 },
	};
	char text[XP_URI_TEXT_SIZE];
	struct error e;
	struct xp_uri again;

	snprintf(uri.host, sizeof(uri.host), "::1%%25");
	memset(uri.host + 6, 'x', sizeof(uri.host) - 7);
	memset(uri.volume, '\xff', sizeof(uri.volume) - 1);
	memset(uri.route.gid, 0xff, sizeof(uri.route.gid));
	memcpy(uri.route.source, uri.host, sizeof(uri.route.source) - 1);
	for (; uri.more_cnt < XP_URI_ADDRESSES_MAX - 1; uri.more_cnt++) {
		struct xp_uri_address *a = &uri.more[uri.more_cnt];

		memcpy(a->host, uri.host, sizeof(a->host));
		a->port = (uint16_t)(10000 + uri.more_cnt);
	}
	assert_true(xp_uri_format(&uri, text, sizeof(text)) > 2800);
	assert_int_equal(xp_uri_parse(text, &again, &e), 0);
	assert_memory_equal(&again, &uri, sizeof(uri));
}
