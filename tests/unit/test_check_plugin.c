/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-target --check-plugin: which volumes pass, and what it reports for
 * others. */
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "config.h"
#include "target/check_plugin.h"
#include "tests/lib/t_table.h"

static char said[16384];

/* The report goes to standard output, where cmocka also writes. */
static int check_volume(const char *text)
{
	struct volume_spec spec;
	struct error e;
	int fd = memfd_create("said", MFD_CLOEXEC);
	int old;
	int ret;
	ssize_t n;

	assert_true(volume_spec_parse(text, &spec, &e));
	fflush(stdout);
	old = dup(STDOUT_FILENO);
	assert_true(fd >= 0 && old >= 0);
	dup2(fd, STDOUT_FILENO);
	ret = check_plugin(&spec, /* no_sandbox= */ false);
	fflush(stdout);
	dup2(old, STDOUT_FILENO);
	close(old);
	n = pread(fd, said, sizeof(said) - 1, 0);
	assert_true(n > 0);
	said[n] = '\0';
	close(fd);
	return ret;
}

static const struct check_case {
	const char *name;
	const char *spec;
	int ret;
	const char *part; /* of the report */
} check_cases[] = {
	{ "memory keeps every promise", "ram:16M,name=a", 0, "extents" },
	{ "memory in blocks of 4 KiB does", "ram:16M,name=a,block-size=4096", 0,
	  "4096 blocks of 4096 bytes" },
	{ "read-only memory does", "ram:16M,name=a,ro", 0, "skipped" },
	{ "memory behind a layer does",
	  "ram:16M,name=a,fault=flush:delay=1:every=1000000", 0, "ok" },
	{ "a store that forgets does not", "null:16M,name=a", 1, "FAILED" },
	{ "a store whose reads fail does not",
	  "ram:16M,name=a,fault=read:error", 1, "FAILED" },
	{ "a store whose flushes fail does not",
	  "ram:16M,name=a,fault=flush:error", 1, "FAILED" },
	{ "a store that corrupts does not",
	  "ram:16M,name=a,fault=write:corrupt:every=100", 1, "FAILED" },
};

T_ROWS(volume_is_checked, check_cases)
{
	const struct check_case *c = *state;

	log_level = LOG_ERROR;
	if (check_volume(c->spec) != c->ret || !strstr(said, c->part))
		fail_msg("%s", said);
}

T_TEST(file_keeps_every_promise)
{
	char path[] = "/tmp/test_check_plugin.XXXXXX";
	char spec[128];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 16 << 20), 0);
	close(fd);
	snprintf(spec, sizeof(spec), "%s,name=a", path);
	if (check_volume(spec))
		fail_msg("%s", said);
	assert_non_null(strstr(said, "closed and opened again"));
	assert_null(strstr(said, "skipped"));
	unlink(path);
}

/* The usual I/Os of the steps are longer than it is. */
T_TEST(file_of_one_block_keeps_every_promise)
{
	char path[] = "/tmp/test_check_plugin.XXXXXX";
	char spec[128];
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 512), 0);
	close(fd);
	snprintf(spec, sizeof(spec), "%s,name=a", path);
	if (check_volume(spec))
		fail_msg("%s", said);
	assert_non_null(strstr(said, "1 blocks of 512 bytes"));
	assert_non_null(strstr(said, "closed and opened again"));
	unlink(path);
}

T_TEST(volume_that_cannot_be_opened_fails)
{
	log_level = LOG_ERROR;
	assert_int_equal(check_volume("/nonexistent/file,name=a"), 1);
	assert_non_null(strstr(said, "/nonexistent/file"));
}

#if HAVE_SANDBOX
/* rdma-target would end when it serves the volume. */
T_TEST(plugin_that_the_sandbox_ends_fails)
{
	assert_int_equal(check_volume("liar:memfd,name=a"), 1);
	if (!strstr(said, "FAILED: the process has ended"))
		fail_msg("%s", said);
}
#endif
