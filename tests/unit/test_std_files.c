/* SPDX-License-Identifier: BSD-2-Clause */
/* Standard files that the caller has closed; the limit of file sizes; an
 * ignored SIGCHLD; codes. */
#include "base/std_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/hmac.h"
#include "base/log.h"
#include "config.h"
#include "tests/lib/t_table.h"

/* ---- standard files ---- */

/* In a child: 0, or the number of the claim that does not hold. */
static int run_closed(void)
{
	char byte = 0;

	for (int fd = 0; fd <= 2; fd++)
		close(fd);
	std_files_hold();
	if (open("/dev/null", O_RDWR) != 3)
		return 1;
	if (write(STDOUT_FILENO, &byte, 1) >= 0 || errno != EBADF)
		return 2;
	if (write(STDERR_FILENO, &byte, 1) >= 0 || errno != EBADF)
		return 3;
	if (read(STDIN_FILENO, &byte, 1) >= 0 || errno != EBADF)
		return 4;
	return 0;
}

static int run_open(void)
{
	int pipes[2];

	if (pipe(pipes) || dup2(pipes[1], STDOUT_FILENO) < 0)
		return 1;
	std_files_hold();
	return write(STDOUT_FILENO, "x", 1) == 1 ? 0 : 2;
}

static int run_full(void)
{
	log_level = LOG_ERROR;
	if (!freopen("/dev/full", "w", stdout) || !std_files_flush())
		return 1;
	fputs("text", stdout);
	if (std_files_flush())
		return 2;
	/* It is not forgotten. */
	return std_files_flush() ? 3 : 0;
}

static int run_limited(void)
{
	static const struct rlimit none = { 0 };
	char path[] = "/tmp/limited-XXXXXX";
	int fd = mkstemp(path);

	if (fd < 0 || unlink(path) || setrlimit(RLIMIT_FSIZE, &none))
		return 1;
	std_files_hold();
	return write(fd, "x", 1) < 0 && errno == EFBIG ? 0 : 2;
}

static int run_ignoring(void)
{
	int status;
	pid_t pid;

	signal(SIGCHLD, SIG_IGN);
	std_files_hold();
	pid = fork();
	if (pid == 0)
		_exit(7);
	return waitpid(pid, &status, 0) == pid && WIFEXITED(status) &&
			       WEXITSTATUS(status) == 7
		       ? 0
		       : 1;
}

static const struct child_row {
	const char *name;
	int (*run)(void);
} child_rows[] = {
	{ "a new file does not get their numbers", run_closed },
	{ "open ones stay", run_open },
	{ "output that cannot be written is an error", run_full },
	{ "a file that may not grow is an error", run_limited },
	{ "the end of a child is told, if the caller ignored it",
	  run_ignoring },
};

T_ROWS(std_files, child_rows)
{
	const struct child_row *row = *state;
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		_exit(row->run());
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status));
	assert_int_equal(WEXITSTATUS(status), 0);
}

/* ---- codes ---- */

#if HAVE_NETTLE
/* RFC 4231, test case 1. */
T_TEST(code_is_that_of_the_standard)
{
	static const uint8_t right[HMAC_LEN] = {
		0xb0, 0x34, 0x4c, 0x61, 0xd8, 0xdb, 0x38, 0x53,
		0x5c, 0xa8, 0xaf, 0xce, 0xaf, 0x0b, 0xf1, 0x2b,
		0x88, 0x1d, 0xc2, 0x00, 0xc9, 0x83, 0x3d, 0xa7,
		0x26, 0xe9, 0x37, 0x6c, 0x2e, 0x32, 0xcf, 0xf7,
	};
	char bytes[20];
	struct hmac_key key = { .bytes = bytes, .len = sizeof(bytes) };
	uint8_t code[HMAC_LEN];

	memset(bytes, 0x0b, sizeof(bytes));
	hmac_code(&key, "Hi There", 8, code);
	assert_memory_equal(code, right, HMAC_LEN);
	assert_true(hmac_check(&key, "Hi There", 8, right));
	code[HMAC_LEN - 1] ^= 1;
	assert_false(hmac_check(&key, "Hi There", 8, code));
	assert_false(hmac_check(&key, "hi There", 8, right));
}
#endif
