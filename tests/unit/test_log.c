/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/log.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/lib/t_must.h"
#include "tests/lib/t_table.h"

#define WINDOW_MS 10000

T_TEST(a_burst_passes_and_the_rest_is_counted)
{
	struct log_limit l = { 0 };
	unsigned int dropped = 7;

	for (unsigned int i = 0; i < 3; i++) {
		assert_true(log_limit_pass(&l, /* burst= */ 3, &dropped));
		assert_int_equal(dropped, 0);
	}
	dropped = 7;
	for (unsigned int i = 0; i < 5; i++)
		assert_false(log_limit_pass(&l, /* burst= */ 3, &dropped));
	assert_int_equal(dropped, 7);
	assert_int_equal(l.dropped, 5);
}

T_TEST(after_ten_seconds_it_passes_and_tells_the_count)
{
	struct log_limit l = { 0 };
	unsigned int dropped;

	assert_true(log_limit_pass(&l, /* burst= */ 1, &dropped));
	assert_false(log_limit_pass(&l, /* burst= */ 1, &dropped));
	assert_false(log_limit_pass(&l, /* burst= */ 1, &dropped));
	l.window_start_ms -= WINDOW_MS;
	assert_true(log_limit_pass(&l, /* burst= */ 1, &dropped));
	assert_int_equal(dropped, 2);
	l.window_start_ms -= WINDOW_MS;
	assert_true(log_limit_pass(&l, /* burst= */ 1, &dropped));
	assert_int_equal(dropped, 0);
}

/* ---- lines, with a thread ---- */

#define LINES 2000u

/* Both ends of the pipe that stderr is. */
static FILE *reader;
static int old_stderr;

static int begin_pipe(void **state)
{
	int fds[2];

	T_MUST(pipe(fds) == 0);
	old_stderr = dup(STDERR_FILENO);
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
	reader = fdopen(fds[0], "r");
	T_MUST(reader);
	/* Ends a test that waits for the reader. */
	alarm(30);
	log_init("rdma-test", LOG_NOTICE);
	log_start_thread();
	return 0;
}

static int end_pipe(void **state)
{
	alarm(0);
	log_flush();
	dup2(old_stderr, STDERR_FILENO);
	close(old_stderr);
	fclose(reader);
	return 0;
}

static void fill_pipe(void)
{
	int flags = fcntl(STDERR_FILENO, F_GETFL);

	T_MUST(fcntl(STDERR_FILENO, F_SETFL, flags | O_NONBLOCK) == 0);
	while (write(STDERR_FILENO, "\n", 1) == 1)
		;
	T_MUST(fcntl(STDERR_FILENO, F_SETFL, flags) == 0);
}

/* The next line, without its end. Skips what filled the pipe. */
static const char *next_line(void)
{
	static char line[2048];

	do
		assert_non_null(fgets(line, sizeof(line), reader));
	while (*line == '\n');
	assert_int_equal(line[strlen(line) - 1], '\n');
	line[strlen(line) - 1] = '\0';
	return line;
}

T_EACH(begin_pipe, end_pipe)

T_TEST(lines_are_written_before_the_end)
{
	int status;
	pid_t pid = fork();

	/* It has no thread, and writes the lines itself. */
	if (pid == 0) {
		log_notice("one");
		log_error("two");
		log_exit(0);
	}
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	log_warn("three");
	log_flush();
	assert_string_equal(next_line(), "rdma-test: one");
	assert_string_equal(next_line(), "rdma-test: error: two");
	assert_string_equal(next_line(), "rdma-test: warning: three");
}

static void keep_line(void *user, const char *line)
{
	strcat(strcat(user, line), "\n");
}

/* Above the level of the log, too; only of its own thread. */
static void *warn_elsewhere(void *unused)
{
	log_warn("elsewhere");
	return NULL;
}

T_TEST(caller_is_told_of_warnings_and_errors)
{
	char told[256] = "";
	const struct log_caller caller = { .take = keep_line, .user = told };
	pthread_t thread;

	log_level = LOG_ERROR;
	log_set_caller(&caller);
	log_error("one");
	log_warn("two");
	log_event(LOG_WARNING, &(struct log_about){ 0 }, "three");
	log_notice("a notice");
	assert_int_equal(pthread_create(&thread, NULL, warn_elsewhere, NULL),
			 0);
	pthread_join(thread, NULL);
	log_set_caller(NULL);
	log_warn("later");
	assert_string_equal(told, "one\ntwo\nthree\n");
	log_level = LOG_NOTICE;
	log_notice("last");
	log_flush();
	assert_string_equal(next_line(), "rdma-test: error: one");
	assert_string_equal(next_line(), "rdma-test: last");
}

/* The lines from number *at on, which are all there up to a count of lost lines, or to
 * the last one. Moves *at behind them. False: it was the last one. */
static bool read_up_to_a_gap(unsigned int *at)
{
	unsigned int lost;
	char want[128];

	for (; *at < LINES; ++*at) {
		const char *line = next_line();

		if (sscanf(line,
			   "rdma-test: warning: %u lines of the log are lost",
			   &lost) == 1) {
			*at += lost;
			return true;
		}
		snprintf(want, sizeof(want), "rdma-test: line %-80u.", *at);
		assert_string_equal(line, want);
	}
	return false;
}

T_TEST(lines_that_nobody_reads_are_counted)
{
	unsigned int at = 0, gaps = 0;

	fill_pipe();
	for (unsigned int i = 0; i < LINES; i++)
		log_notice("line %-80u.", i);
	/* Neither waits for the reader. */
	log_flush();
	log_in_handler("not written: the pipe is full");
	while (read_up_to_a_gap(&at))
		gaps++;
	assert_in_range(gaps, 1, LINES);
	assert_int_equal(at, LINES);
	log_notice("the next");
	assert_string_equal(next_line(), "rdma-test: the next");
}
