/* SPDX-License-Identifier: BSD-2-Clause */
/* logins: logs in many times, prints "ready", and runs until its standard input
 * ends. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "initiator/srp_initiator.h"

static struct srpi_session **sessions;
static struct srpi_ctx *ctx;

static int log_in(const char *uri, unsigned int cnt)
{
	struct srpi_error e;

	for (unsigned int i = 0; i < cnt; i++) {
		if (srpi_connect_wait(ctx, uri, NULL, &sessions[i], &e) == 0)
			continue;
		fprintf(stderr, "logins: number %u: %s\n", i + 1, e.text);
		return -1;
	}
	return 0;
}

int main(int argc, char **argv)
{
	unsigned int cnt;
	char c;

	if (argc != 3) {
		fprintf(stderr, "Usage: logins COUNT URI\n");
		return 2;
	}
	cnt = (unsigned int)strtoul(argv[1], NULL, 10);
	sessions = calloc(cnt, sizeof(struct srpi_session *));
	if (!sessions || srpi_ctx_create(NULL, &ctx, NULL) < 0)
		return 1;
	if (log_in(argv[2], cnt) < 0)
		return 1;
	puts("ready");
	fflush(stdout);
	while (read(STDIN_FILENO, &c, 1) > 0)
		;
	for (unsigned int i = 0; i < cnt; i++)
		srpi_close_wait(ctx, sessions[i]);
	srpi_ctx_destroy(ctx);
	free(sessions);
	return 0;
}
