/* SPDX-License-Identifier: BSD-2-Clause */
/* What is logged while a program waits for the lock of another process. Time is that of
 * the test: the linker wraps usleep(). */
#include "base/file_lock.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"
#include "tests/lib/t_table.h"

#define ALIVE_MS 10000
#define OTHER	 1 /* a process that is not this one */

static char log_text[1024];

int __wrap_usleep(unsigned int us);
int __wrap_usleep(unsigned int us)
{
	return 0;
}

void __wrap_log_write(enum log_level level, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
void __wrap_log_write(enum log_level level, const char *fmt, ...)
{
	size_t len = strlen(log_text);
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(log_text + len, sizeof(log_text) - len, fmt, ap);
	va_end(ap);
	strcat(log_text, "\n");
}

static unsigned int lines(void)
{
	unsigned int cnt = 0;

	for (const char *p = log_text; *p; p++)
		cnt += *p == '\n';
	return cnt;
}

static const struct wait_case {
	const char *name;
	/* How long the other process is alive before it is ending. */
	unsigned int alive_ms;
	unsigned int waited_ms; /* in all */
	unsigned int lines;
	const char *text; /* the last one has it */
} wait_cases[] = {
	{ "it ends", 0, 15000, 1, "waiting for the last I/O of process 1" },
	{ "it lives", 20000, 10000, 1, "in use by process 1" },
	{ "it is killed soon", 500, 15000, 1,
	  "waiting for the last I/O of process 1" },
	{ "it is killed later", 5000, 15000, 2,
	  "waiting for the last I/O of process 1" },
};

T_ROWS(wait_has_an_end_and_is_logged, wait_cases)
{
	const struct wait_case *wc = *state;
	struct file_wait wait = { 0 };
	unsigned int ms = 0;

	log_text[0] = '\0';
	while (file_lock_wait(&wait, "path",
			      ms < wc->alive_ms ? FILE_HOLDER_ALIVE
						: FILE_HOLDER_ENDING,
			      OTHER, ALIVE_MS))
		ms = wait.ms;
	assert_int_equal(ms, wc->waited_ms);
	assert_int_equal(lines(), wc->lines);
	assert_non_null(strstr(log_text, wc->text));
}

T_TEST(wait_ends_when_told)
{
	struct file_wait wait = { 0 };

	file_lock_end_waits(true);
	assert_false(file_lock_wait(&wait, "path", FILE_HOLDER_ENDING, OTHER,
				    ALIVE_MS));
	assert_true(file_lock_is_interrupted());
	file_lock_end_waits(false);
	assert_true(file_lock_wait(&wait, "path", FILE_HOLDER_ENDING, OTHER,
				   ALIVE_MS));
}
