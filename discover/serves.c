/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/serves.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/log.h"
#include "initiator/exchange.h"
#include "protocol/srp_login.h"

#define SERVES_MS 5000

struct serves {
	bool over;
	int err;
};

static void serves_connected(struct srpi_session *s, const struct srpi_error *e,
			     void *arg)
{
	struct serves *v = arg;

	v->err = e->err;
	v->over = true;
}

static bool serves_session(struct srpi_ctx *ctx, const char *uri,
			   struct srpi_error *e)
{
	const struct srpi_options o = { .struct_size = sizeof(o),
					.channels = 1,
					.timeout_ms = SERVES_MS };
	struct serves v = { .err = 0 };
	struct ini_login_failure failure;
	struct srpi_session *s;
	bool serves;

	if (srpi_connect(ctx, uri, &o, serves_connected, &v, &s, e))
		return false;
	while (!v.over && srpi_ctx_run(ctx, -1) >= 0)
		;
	ini_login_failure(s, &failure);
	serves = v.over && (!v.err || (failure.is_rejected &&
				       failure.reason != SRP_REJ_NO_TARGET));
	srpi_close_wait(ctx, s);
	return serves;
}

bool discover_serves(const char *uri)
{
	struct srpi_error e = { 0 };
	struct srpi_ctx *ctx;
	bool serves;

	if (srpi_ctx_create(NULL, &ctx, &e)) {
		log_error("%s", e.text);
		return false;
	}
	serves = serves_session(ctx, uri, &e);
	if (e.err)
		log_error("%s", e.text);
	srpi_ctx_destroy(ctx);
	return serves;
}

int serves_start(const char *uri)
{
	/* It reads what a peer sends. */
	if (capabilities_keep(0)) {
		log_error("cannot give up capabilities");
		return EXIT_FAILURE;
	}
	execl("/proc/self/exe", "rdma-discover", "--serves", uri, (char *)NULL);
	log_error("cannot run rdma-discover: %s", strerror(errno));
	return EXIT_FAILURE;
}
