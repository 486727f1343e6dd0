/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/metrics_http.h"

#include <errno.h>

int metrics_http_open(const char *addr,
		      const char *(*page)(void *user, size_t *ret_len),
		      void *user, struct metrics_http **ret, struct error *e)
{
	return error_set(e, -EOPNOTSUPP,
			 "--metrics '%s': built without libmicrohttpd; use "
			 "--metrics-file",
			 addr);
}

int metrics_http_fd(const struct metrics_http *h)
{
	return -1;
}

int metrics_http_timeout_ms(struct metrics_http *h)
{
	return -1;
}

void metrics_http_run(struct metrics_http *h)
{
}

void metrics_http_close(struct metrics_http *h)
{
}
