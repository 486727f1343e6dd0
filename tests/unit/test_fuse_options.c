/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>
#include <unistd.h>

#include "fuse/options.h"
#include "tests/lib/t_table.h"
#include "base/reactor.h"

#define URI "srp://host/disk"

/* @words are the arguments between the program's name and the URI. */
static bool parse(const char *const *words, struct fuse_options *o)
{
	char *argv[16] = { (char *)(uintptr_t) "rdma-fuse" };
	int argc = 1;

	while (*words)
		argv[argc++] = (char *)(uintptr_t)*words++;
	argv[argc++] = (char *)(uintptr_t)URI;
	argv[argc++] = (char *)(uintptr_t) "/mnt";
	return fuse_options_parse(argc, argv, o) == OPTION_RUN;
}

T_TEST(defaults)
{
	struct fuse_options o;

	assert_true(parse((const char *[]){ NULL }, &o));
	assert_string_equal(o.uri, URI);
	assert_string_equal(o.mountpoint, "/mnt");
	assert_int_equal(o.channels, 0); /* depends on the transport */
	assert_int_equal(o.queue_depth, 64);
	assert_int_equal(o.poll_us, reactor_poll_us_default());
	assert_int_equal(o.max_write, 1 << 20);
	assert_int_equal(o.uid, getuid());
	assert_int_equal(o.gid, getgid());
	assert_int_equal(o.umask, 0177);
	assert_string_equal(o.fsname, "");
	assert_string_equal(o.subtype, "rdma-block");
	assert_string_equal(o.vfs, "");
	assert_null(o.pidfile);
	assert_string_equal(o.metrics_file, "");
	assert_false(o.foreground || o.read_only || o.allow_other ||
		     o.default_permissions);
	assert_int_equal(o.log_level, LOG_NOTICE);
}

T_TEST(everything)
{
	const char *list =
		"allow_other,default_permissions,uid=7,gid=8,umask=027,"
		"fsname=x=y,subtype=t,max_write=128k,nosuid,noatime,"
		"relatime,strictatime,lazytime,nodiratime,nosymfollow";
	struct fuse_options o;

	assert_true(parse((const char *[]){ "-fvvq", "-o", list, "-o", "ro",
					    "--channels", "4", "--queue-depth",
					    "32", "--poll-us", "50", "-P",
					    "/run/pid", NULL },
			  &o));
	assert_true(o.foreground && o.read_only && o.allow_other &&
		    o.default_permissions);
	assert_int_equal(o.uid, 7);
	assert_int_equal(o.gid, 8);
	assert_int_equal(o.umask, 027);
	assert_string_equal(o.fsname, "x=y");
	assert_string_equal(o.subtype, "t");
	assert_int_equal(o.max_write, 128 << 10);
	assert_string_equal(o.vfs, ",nosuid,noatime");
	assert_int_equal(o.channels, 4);
	assert_int_equal(o.queue_depth, 32);
	assert_int_equal(o.poll_us, 50);
	assert_string_equal(o.pidfile, "/run/pid");
	assert_int_equal(o.log_level, LOG_INFO);
}

static const struct file_row {
	const char *name;
	const char *begin;
} file_rows[] = {
	{ "as others", "ro,channels=3,metrics_file=/" },
	{ "as the long option", "ro,channels=3,metrics-file=x" },
};

/* A file of a long name, as the line of fstab(5) gives it. */
T_ROWS(metrics_file, file_rows)
{
	const struct file_row *row = *state;
	char word[1100] = { 0 };
	struct fuse_options o;

	memset(word, 'x', sizeof(word) - 1);
	memcpy(word, row->begin, strlen(row->begin));
	assert_true(parse((const char *[]){ "-o", word, NULL }, &o));
	assert_string_equal(o.metrics_file, strstr(word, "file=") + 5);
	assert_true(o.read_only);
	assert_int_equal(o.channels, 3);
}

static const struct bad_row {
	const char *name;
	const char *words[4];
} bad_rows[] = {
	{ "an unknown option", { "-x" } },
	{ "no channels", { "--channels", "0" } },
	{ "too many channels", { "--channels", "17" } },
	{ "channels with a unit", { "--channels", "2k" } },
	{ "no channel number", { "--channels", "" } },
	{ "a negative depth", { "--queue-depth", "-1" } },
	{ "too large a depth", { "--queue-depth", "4097" } },
	{ "a number out of all range",
	  { "--queue-depth", "99999999999999999999" } },
	{ "too long a poll time", { "--poll-us", "1000001" } },
	{ "a time that is no number", { "-o", "io_timeout=soon" } },
	{ "a time of nothing", { "--fast-io-fail-tmo", "0" } },
	{ "a time of more than a day", { "-o", "dev_loss_tmo=86401" } },
	{ "failing later than giving up",
	  { "-o", "fast_io_fail_tmo=600,dev_loss_tmo=600" } },
	{ "waiting too long before failing",
	  { "-o", "fast_io_fail_tmo=601,dev_loss_tmo=off" } },
	{ "waiting too long before giving up",
	  { "-o", "fast_io_fail_tmo=off,dev_loss_tmo=601" } },
	{ "waiting for ever for nothing",
	  { "-o",
	    "fast_io_fail_tmo=off,dev_loss_tmo=off,reconnect_delay=off" } },
	{ "max_write below 128 KiB", { "-o", "max_write=124k" } },
	{ "max_write above 1 MiB", { "-o", "max_write=1028k" } },
	{ "max_write not of pages", { "-o", "max_write=131073" } },
	{ "umask with a digit 8", { "-o", "umask=08" } },
	{ "umask above 777", { "-o", "umask=1000" } },
	{ "uid that is a name", { "-o", "uid=root" } },
	{ "uid without a value", { "-o", "uid" } },
	{ "a flag with a value", { "-o", "allow_other=1" } },
	{ "a metrics file without a name", { "-o", "metrics_file=" } },
	{ "a metrics file of another kind", { "-o", "metrics_files=x" } },
	{ "an empty fsname", { "-o", "fsname=" } },
	{ "an unknown mount option", { "-o", "allow_root" } },
	{ "a kernel's flag with a value", { "-o", "noatime=1" } },
	{ "a good one, then a bad one", { "-o", "ro,bad" } },
};

T_ROWS(bad, bad_rows)
{
	const struct bad_row *row = *state;
	const char *words[5] = { 0 };
	struct fuse_options o;

	memcpy(words, row->words, sizeof(row->words));
	assert_false(parse(words, &o));
}
