/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/mount.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "initiator/srp_initiator.h"

#define LOGIN_MS 5000

/* The mount that was requested. */
struct wanted {
	char instance[DISCOVERY_INSTANCE_SIZE]; /* empty: any */
	char volume[256];
	const char *dir;
	/* the result */
	unsigned int cnt;
	char uri[FOUND_URI_SIZE];
	char where[256]; /* the instances that have the volume */
};

static bool wanted_read(struct wanted *w, const char *what)
{
	const char *equal = strchr(what, '=');
	const char *slash = memchr(what, '/', (size_t)(equal - what));
	const char *volume = slash ? slash + 1 : what;

	*w = (struct wanted){ .dir = equal + 1 };
	if (slash)
		snprintf(w->instance, sizeof(w->instance), "%.*s",
			 (int)(slash - what), what);
	snprintf(w->volume, sizeof(w->volume), "%.*s", (int)(equal - volume),
		 volume);
	return *w->volume;
}

static void wanted_note(struct wanted *w, const struct found_target *t,
			const char *uri)
{
	size_t len = strlen(w->where);

	if (!w->cnt++)
		snprintf(w->uri, sizeof(w->uri), "%s", uri);
	snprintf(w->where + len, sizeof(w->where) - len, "%s%s",
		 len ? ", " : "", t->instance);
}

static void wanted_ask(struct wanted *w, struct srpi_ctx *ctx,
		       const struct found_target *t)
{
	const struct srpi_options o = { .struct_size = sizeof(o),
					.channels = 1,
					.timeout_ms = LOGIN_MS };
	char uri[FOUND_URI_SIZE];
	struct srpi_session *s;
	struct srpi_error e = { 0 };
	unsigned int nr;

	if (!found_uri(t, w->volume, uri))
		return;
	if (srpi_connect_wait(ctx, uri, &o, &s, &e)) {
		log_notice("%s: %s", t->instance, e.text);
		return;
	}
	if (srpi_volume_find(s, w->volume, &nr) == 0)
		wanted_note(w, t, uri);
	srpi_close_wait(ctx, s);
}

static void wanted_look(struct wanted *w, const struct found *f)
{
	struct srpi_ctx *ctx;
	struct srpi_error e = { 0 };

	if (srpi_ctx_create(NULL, &ctx, &e)) {
		log_error("%s", e.text);
		return;
	}
	for (unsigned int i = 0; i < f->cnt; i++) {
		const struct found_target *t = f->targets[i];

		if (!*w->instance || strcmp(w->instance, t->instance) == 0)
			wanted_ask(w, ctx, t);
	}
	srpi_ctx_destroy(ctx);
}

char *rdma_fuse_path(char *buf, size_t size)
{
	ssize_t len = readlink("/proc/self/exe", buf, size - 1);
	char *slash;

	buf[len > 0 ? len : 0] = '\0';
	slash = strrchr(buf, '/');
	if (slash) {
		snprintf(slash + 1, size - (size_t)(slash + 1 - buf),
			 "rdma-fuse");
		if (access(buf, X_OK) == 0)
			return buf;
	}
	snprintf(buf, size, "rdma-fuse");
	return buf;
}

void discover_mount(const struct found *f, const char *what)
{
	char path[PATH_MAX];
	struct wanted w;

	if (!wanted_read(&w, what)) {
		log_error("--mount '%s': not VOLUME=DIR", what);
		return;
	}
	wanted_look(&w, f);
	if (w.cnt == 0) {
		log_error("no target that answers has a volume '%s'; see "
			  "rdma-discover",
			  w.volume);
		return;
	}
	if (w.cnt > 1) {
		log_error("%u targets have a volume '%s': %s; name one, as in "
			  "--mount INSTANCE/%s=%s",
			  w.cnt, w.volume, w.where, w.volume, w.dir);
		return;
	}
	log_notice("rdma-fuse %s %s", w.uri, w.dir);
	execlp(rdma_fuse_path(path, sizeof(path)), "rdma-fuse", w.uri, w.dir,
	       (char *)NULL);
	log_error("cannot run rdma-fuse: %s", strerror(errno));
}
