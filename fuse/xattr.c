/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/xattr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuse/addresses.h"
#include "fuse/dev.h"

#define PREFIX "user.rdma-block."

struct xattr_source {
	const struct dev *dev;
	const struct tree_file *file;
	enum srpi_state state;
	struct srpi_session_info info;
	struct srpi_session_stats stats;
};

static int xattr_put_text(char *buf, const char *text)
{
	return snprintf(buf, XATTR_MAX, "%s", text);
}

static int xattr_put_number(char *buf, uint64_t n)
{
	return snprintf(buf, XATTR_MAX, "%llu", (unsigned long long)n);
}

static int xattr_state(const struct xattr_source *f, char *buf)
{
	return xattr_put_text(buf, f->file->gone ? "gone"
						 : srpi_state_name(f->state));
}

static int xattr_last_error(const struct xattr_source *f, char *buf)
{
	return xattr_put_text(buf, f->stats.last_error);
}

static int xattr_transport(const struct xattr_source *f, char *buf)
{
	return xattr_put_text(buf, f->info.transport);
}

static int xattr_target(const struct xattr_source *f, char *buf)
{
	return xattr_put_text(buf, f->info.peer);
}

static int xattr_addresses(const struct xattr_source *f, char *buf)
{
	return (int)addresses_text(dev_session(f->dev), buf, XATTR_MAX);
}

static int xattr_initiator(const struct xattr_source *f, char *buf)
{
	return xattr_put_text(buf, f->info.initiator);
}

static int xattr_volume(const struct xattr_source *f, char *buf)
{
	return xattr_put_text(buf, f->file->info->name);
}

static int xattr_identifier(const struct xattr_source *f, char *buf)
{
	return xattr_put_text(buf, f->file->info->naa);
}

static int xattr_serial(const struct xattr_source *f, char *buf)
{
	return xattr_put_text(buf, f->file->info->serial);
}

static int xattr_requests(const struct xattr_source *f, char *buf)
{
	return xattr_put_text(buf,
			      dev_uses_uring(f->dev) ? "io_uring" : "read");
}

static int xattr_channels(const struct xattr_source *f, char *buf)
{
	return xattr_put_number(buf, f->info.channels);
}

static int xattr_commands(const struct xattr_source *f, char *buf)
{
	return xattr_put_number(buf, f->stats.commands);
}

static int xattr_reconnects(const struct xattr_source *f, char *buf)
{
	return xattr_put_number(buf, f->stats.reconnects);
}

static int xattr_attempts(const struct xattr_source *f, char *buf)
{
	return xattr_put_number(buf, f->stats.attempts);
}

static int xattr_replayed(const struct xattr_source *f, char *buf)
{
	return xattr_put_number(buf, f->stats.replayed);
}

static int xattr_timeouts(const struct xattr_source *f, char *buf)
{
	return xattr_put_number(buf, f->stats.timeouts);
}

static int xattr_failed_flushes(const struct xattr_source *f, char *buf)
{
	return xattr_put_number(buf, f->file->errors);
}

static const struct {
	const char *name;
	int (*get)(const struct xattr_source *f, char *buf);
} attributes[] = {
	{ PREFIX "state", xattr_state },
	{ PREFIX "last_error", xattr_last_error },
	{ PREFIX "transport", xattr_transport },
	{ PREFIX "target", xattr_target },
	{ PREFIX "addresses", xattr_addresses },
	{ PREFIX "initiator", xattr_initiator },
	{ PREFIX "volume", xattr_volume },
	{ PREFIX "identifier", xattr_identifier },
	{ PREFIX "serial", xattr_serial },
	{ PREFIX "requests", xattr_requests },
	{ PREFIX "channels", xattr_channels },
	{ PREFIX "commands", xattr_commands },
	{ PREFIX "reconnects", xattr_reconnects },
	{ PREFIX "attempts", xattr_attempts },
	{ PREFIX "replayed", xattr_replayed },
	{ PREFIX "timeouts", xattr_timeouts },
	{ PREFIX "failed_flushes", xattr_failed_flushes },
};

int xattr_get(const struct dev *dev, const struct tree_file *f,
	      const char *name, char buf[XATTR_MAX])
{
	const struct srpi_session *s = dev_session(dev);
	struct xattr_source xattr_source = {
		.dev = dev,
		.file = f,
		.state = srpi_volume_state(s, f->volume),
		.info.struct_size = sizeof(xattr_source.info),
		.stats.struct_size = sizeof(xattr_source.stats),
	};

	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
		if (strcmp(name, attributes[i].name))
			continue;
		srpi_session_info(s, &xattr_source.info);
		srpi_session_stats(s, &xattr_source.stats);
		return attributes[i].get(&xattr_source, buf);
	}
	return -ENODATA;
}

size_t xattr_list(char buf[XATTR_MAX])
{
	size_t len = 0;

	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++)
		len += (size_t)snprintf(buf + len, XATTR_MAX - len, "%s",
					attributes[i].name) +
		       1;
	return len;
}
