/* SPDX-License-Identifier: BSD-2-Clause */
/* The rules of rdma-discover --daemon. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "discover/rules.h"
#include "tests/lib/t_table.h"

static struct rules rules;

static int read_text(const char *text, struct error *e)
{
	int fd = memfd_create("rules", MFD_CLOEXEC);
	char path[64];
	int err;

	assert_true(fd >= 0);
	assert_int_equal(write(fd, text, strlen(text)), strlen(text));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	err = rules_read(path, &rules, e);
	close(fd);
	return err;
}

static struct found_target target(void)
{
	struct found_target t = { .id = srp_port_id_make(0x10, 0x20),
				  .instance = "box",
				  .address_cnt = 3 };

	strcpy(t.addresses[0].text, "srp+rdma://10.0.0.1:5555");
	strcpy(t.addresses[1].text, "srp+tcp://[fd00::1]:5556");
	strcpy(t.addresses[2].text, "srp+tcp://[fe80::a%eth0]:5556");
	return t;
}

/* ---- which rule ---- */

static const struct match_row {
	const char *name;
	const char *text;
	unsigned int line; /* 0: none */
} match_rows[] = {
	{ "no rules", "", 0 },
	{ "comments and empty lines", "# a\n\n  # b\n", 0 },
	{ "all", "a\n", 1 },
	{ "all, without a line end", "a", 1 },
	{ "the first decides", "d\na\n", 0 },
	{ "the first that matches decides", "d id_ext=11\na\nd\n", 2 },
	{ "id_ext", "a id_ext=10\n", 1 },
	{ "id_ext as the kernel prints it", "a id_ext=0x0000000000000010\n",
	  1 },
	{ "both halves", "a id_ext=10,ioc_guid=20\n", 1 },
	{ "one half is another", "a id_ext=10,ioc_guid=21\n", 0 },
	{ "spaces for commas", "a id_ext=10 ioc_guid=20\n", 1 },
	{ "instance", "a instance=box\n", 1 },
	{ "another instance", "a instance=bo\n", 0 },
	{ "address", "a dest=10.0.0.1\n", 1 },
	{ "address and port", "a dest=10.0.0.1:5555\n", 1 },
	{ "another port", "a dest=10.0.0.1:5556\n", 0 },
	{ "the beginning of a port", "a dest=10.0.0.1:555\n", 0 },
	{ "IPv6", "a dest=[fd00::1]:5556\n", 1 },
	{ "IPv6 in other letters and with zeroes", "a dest=[FD00:0::0001]\n",
	  1 },
	{ "IPv6 in dotted form", "a dest=[::ffff:10.0.0.1]:5555\n", 1 },
	{ "a port with a zero", "a dest=10.0.0.1:05555\n", 1 },
	{ "a link-local address", "a dest=[FE80::a%eth0]:5556\n", 1 },
	{ "that of another link", "a dest=[fe80::a%eth1]\n", 0 },
	{ "one of several addresses", "a dest=10.9.9.9,dest=10.0.0.1\n", 1 },
	{ "of InfiniBand's management", "a dgid=fe80\nd\n", 0 },
};

T_ROWS(the_rule_is, match_rows)
{
	const struct match_row *row = *state;
	struct found_target t = target();
	const struct rule *r;
	struct error e;

	assert_int_equal(read_text(row->text, &e), 0);
	r = rules_match(&rules, &t);
	assert_int_equal(r ? r->line : 0, row->line);
}

/* ---- values of the rules ---- */

T_TEST(values_arrive)
{
	struct found_target t = target();
	const struct rule *r;
	struct error e;

	assert_int_equal(read_text("d instance=x\n"
				   "a id_ext=10,mount=/mnt/a,volume=disk,"
				   "gone=remove\n",
				   &e),
			 0);
	r = rules_match(&rules, &t);
	assert_non_null(r);
	assert_string_equal(r->mount, "/mnt/a");
	assert_string_equal(r->volume, "disk");
	assert_true(r->remove_gone);
	assert_string_equal(r->options, "");
}

T_TEST(only_named_addresses_are_used)
{
	struct found_target t = target();
	struct found_target narrow;
	struct error e;

	assert_int_equal(read_text("a dest=[fd00::1]:5556\na\n", &e), 0);
	rule_narrow(&rules.rule[0], &t, &narrow);
	assert_int_equal(narrow.address_cnt, 1);
	assert_string_equal(narrow.addresses[0].text,
			    "srp+tcp://[fd00::1]:5556");
	rule_narrow(&rules.rule[1], &t, &narrow);
	assert_int_equal(narrow.address_cnt, 3);
}

T_TEST(a_directory_is_as_the_kernel_has_it)
{
	struct error e;

	assert_int_equal(read_text("a mount=/mnt/a//\na mount=/\n"
				   "a mount=/.a/b..c\n",
				   &e),
			 0);
	assert_string_equal(rules.rule[0].mount, "/mnt/a");
	assert_string_equal(rules.rule[1].mount, "/");
	assert_string_equal(rules.rule[2].mount, "/.a/b..c");
}

T_TEST(options_go_to_the_kernel)
{
	struct found_target t = target();
	struct error e;

	assert_int_equal(
		read_text("a max_sect=1024, tl_retry_count=3,gone=keep\n", &e),
		0);
	assert_string_equal(rules_match(&rules, &t)->options,
			    ",max_sect=1024,tl_retry_count=3");
	assert_false(rules_match(&rules, &t)->remove_gone);
}

/* ---- what is refused ---- */

static const struct bad_row {
	const char *name;
	const char *text;
	const char *why;
} bad_rows[] = {
	{ "another letter", "a\nb id_ext=1\n", ":2: a rule begins with" },
	{ "a word", "allow\n", ":1: a rule begins with" },
	{ "no value", "a id_ext\n", ":1: 'id_ext': not KEY=VALUE" },
	{ "no number", "a id_ext=\n", ":1: 'id_ext=': not a hex" },
	{ "a number that is too long", "a id_ext=12345678901234567\n",
	  ":1: 'id_ext=12345678901234567': not a hex" },
	{ "another key", "a max_sects=1\n", ":1: 'max_sects': no such key" },
	{ "a relative directory", "a mount=mnt\n",
	  ":1: 'mount=mnt': not a directory" },
	{ "a directory with ..", "a mount=/mnt/../etc\n", "without . and .." },
	{ "a directory that ends with .", "a mount=/mnt/.\n",
	  "without . and .." },
	{ "an address that is none", "a dest=10.0.0\n", "not ADDR" },
	{ "a name for an address", "a dest=box\n", "not ADDR" },
	{ "a port that is too large", "a dest=10.0.0.1:99999\n", "not ADDR" },
	{ "IPv6 without brackets", "a dest=fd00::1\n", "in brackets" },
	{ "a link-local address of any link", "a dest=[fe80::a]\n",
	  "%INTERFACE" },
	{ "a link-local address of no link", "a dest=[fe80::a%]\n",
	  "%INTERFACE" },
	{ "a link for another address", "a dest=[fd00::1%eth0]\n",
	  "%INTERFACE" },
	{ "brackets that stay open", "a dest=[fd00::1\n", "not ADDR" },
	{ "text behind the brackets", "a dest=[fd00::1]x\n", "not ADDR" },
	{ "a colon without a port", "a dest=10.0.0.1:\n", "not ADDR" },
	{ "gone", "a mount=/a,gone=perhaps\n", "not keep or remove" },
	{ "both kinds", "a mount=/a,max_sect=1\n", "only one is possible" },
	{ "a volume for the kernel", "a volume=disk\n", "without mount=" },
};

T_ROWS(is_refused, bad_rows)
{
	const struct bad_row *row = *state;
	struct error e;

	assert_int_equal(read_text("a\n", &e), 0);
	assert_int_equal(read_text(row->text, &e), -EINVAL);
	assert_non_null(strstr(e.text, row->why));
	/* The old rules stay in force. */
	assert_int_equal(rules.cnt, 1);
}

T_TEST(a_directory_is_no_file_of_rules)
{
	struct error e;

	assert_int_equal(read_text("a\n", &e), 0);
	assert_int_equal(rules_read("/proc/self", &rules, &e), -EISDIR);
	assert_int_equal(rules.cnt, 1);
}
