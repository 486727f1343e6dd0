/* SPDX-License-Identifier: BSD-2-Clause */
#include "copy/progress.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/size.h"

#define PROGRESS_LINE_US 1000000
#define PROGRESS_BAR_MAX 40
#define PROGRESS_WIDTH	 80

static struct {
	bool on;
	bool terminal;
	bool visible;
	const char *what;
	uint64_t begun_us;
	uint64_t line_us;   /* when the last line was printed */
	uint64_t line_done; /* bytes that it showed */
} progress;

void progress_begin(bool wanted, const char *what)
{
	bool terminal = isatty(STDERR_FILENO);

	memset(&progress, 0, sizeof(progress));
	progress.terminal = terminal;
	progress.on = terminal || wanted;
	progress.what = what;
}

static unsigned int progress_columns(void)
{
	struct winsize size;

	if (ioctl(STDERR_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_col == 0)
		return PROGRESS_WIDTH;
	return size.ws_col;
}

/* "[=====>    ] ", or "" if the terminal is narrow. */
static void progress_bar_text(double part, unsigned int text_len, char *buf)
{
	unsigned int columns = progress_columns();
	unsigned int left = columns > text_len + 4 ? columns - text_len - 4 : 0;
	int width = (int)(left < PROGRESS_BAR_MAX ? left : PROGRESS_BAR_MAX);
	int full = (int)(part * width);

	*buf = '\0';
	if (width < 10)
		return;
	*buf++ = '[';
	for (int i = 0; i < width; i++)
		*buf++ = i < full ? '=' : i == full ? '>' : ' ';
	strcpy(buf, "] ");
}

/* "4:05", "1:02:03" */
static void progress_time_text(uint64_t seconds, char *buf, size_t len)
{
	unsigned int s = (unsigned int)(seconds % 60);
	unsigned int m = (unsigned int)(seconds / 60 % 60);

	if (seconds >= 3600)
		snprintf(buf, len, "%" PRIu64 ":%02u:%02u", seconds / 3600, m,
			 s);
	else
		snprintf(buf, len, "%u:%02u", m, s);
}

static void progress_text(uint64_t done, uint64_t total, uint64_t rate,
			  char *buf, size_t len)
{
	char done_text[SIZE_TEXT_SIZE], total_text[SIZE_TEXT_SIZE];
	char rate_text[SIZE_TEXT_SIZE];
	char left[32] = "";

	size_format(done, done_text);
	size_format(rate, rate_text);
	if (!total) {
		snprintf(buf, len, "%s %s, %s/s", done_text, progress.what,
			 rate_text);
		return;
	}
	if (rate && done < total)
		progress_time_text((total - done) / rate, left, sizeof(left));
	snprintf(buf, len, "%3u%% %s of %s %s, %s/s%s%s%s",
		 (unsigned int)((double)done / (double)total * 100), done_text,
		 size_format(total, total_text), progress.what, rate_text,
		 *left ? ", " : "", left, *left ? " left" : "");
}

static void progress_print(uint64_t done, uint64_t total, uint64_t before,
			   uint64_t now_us)
{
	uint64_t us = now_us - progress.begun_us;
	uint64_t rate =
		us ? (uint64_t)((double)(done - before) * 1e6 / (double)us) : 0;
	char text[160];
	char bar[PROGRESS_BAR_MAX + 8] = "";

	progress_text(done, total, rate, text, sizeof(text));
	if (progress.terminal && total)
		progress_bar_text((double)done / (double)total,
				  (unsigned int)strlen(text), bar);
	if (progress.terminal)
		fprintf(stderr, "\r%s%s\033[K", bar, text);
	else
		fprintf(stderr, "%s\n", text);
	fflush(stderr);
	progress.visible = progress.terminal;
	progress.line_us = now_us;
	progress.line_done = done;
}

void progress_show(uint64_t done, uint64_t total, uint64_t before,
		   uint64_t now_us)
{
	if (!progress.on)
		return;
	if (!progress.begun_us)
		progress.begun_us = progress.line_us = now_us;
	if (!progress.terminal &&
	    (done == progress.line_done ||
	     now_us - progress.line_us < PROGRESS_LINE_US))
		return;
	progress_print(done, total, before, now_us);
}

void progress_hide(void)
{
	if (!progress.visible)
		return;
	fputs("\r\033[K", stderr);
	fflush(stderr);
	progress.visible = false;
}

void progress_end(uint64_t done, uint64_t total, uint64_t before,
		  uint64_t now_us)
{
	if (!progress.on)
		return;
	if (!progress.begun_us)
		progress.begun_us = now_us;
	progress_print(done, total, before, now_us);
	if (progress.visible)
		fputc('\n', stderr);
	progress.on = false;
	progress.visible = false;
}
