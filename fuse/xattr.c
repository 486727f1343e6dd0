/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/xattr.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "fuse/dev.h"

#define PREFIX "user.rdma-block."

struct facts {
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

static int put_number(char *buf, uint64_t n)
{
	return snprintf(buf, XATTR_MAX, "%llu", (unsigned long long)n);
}

static int get_state(const struct facts *f, char *buf)
{
	return xattr_put_text(buf, srpi_state_name(f->state));
}

static int get_last_error(const struct facts *f, char *buf)
{
	return xattr_put_text(buf, f->stats.last_error);
}

static int get_transport(const struct facts *f, char *buf)
{
	return xattr_put_text(buf, f->info.transport);
}

static int get_target(const struct facts *f, char *buf)
{
	return xattr_put_text(buf, f->info.peer);
}

static int get_initiator(const struct facts *f, char *buf)
{
	return xattr_put_text(buf, f->info.initiator);
}

static int get_volume(const struct facts *f, char *buf)
{
	return xattr_put_text(buf, f->file->info->name);
}

static int get_identifier(const struct facts *f, char *buf)
{
	return xattr_put_text(buf, f->file->info->naa);
}

static int get_serial(const struct facts *f, char *buf)
{
	return xattr_put_text(buf, f->file->info->serial);
}

static int get_requests(const struct facts *f, char *buf)
{
	return xattr_put_text(buf,
			      dev_uses_uring(f->dev) ? "io_uring" : "read");
}

static int get_channels(const struct facts *f, char *buf)
{
	return put_number(buf, f->info.channels);
}

static int get_commands(const struct facts *f, char *buf)
{
	return put_number(buf, f->stats.commands);
}

static int get_reconnects(const struct facts *f, char *buf)
{
	return put_number(buf, f->stats.reconnects);
}

static int get_attempts(const struct facts *f, char *buf)
{
	return put_number(buf, f->stats.attempts);
}

static int get_replayed(const struct facts *f, char *buf)
{
	return put_number(buf, f->stats.replayed);
}

static int get_timeouts(const struct facts *f, char *buf)
{
	return put_number(buf, f->stats.timeouts);
}

static int get_failed_flushes(const struct facts *f, char *buf)
{
	return put_number(buf, f->file->errors);
}

static const struct {
	const char *name;
	int (*get)(const struct facts *f, char *buf);
} attributes[] = {
	{ PREFIX "state", get_state },
	{ PREFIX "last_error", get_last_error },
	{ PREFIX "transport", get_transport },
	{ PREFIX "target", get_target },
	{ PREFIX "initiator", get_initiator },
	{ PREFIX "volume", get_volume },
	{ PREFIX "identifier", get_identifier },
	{ PREFIX "serial", get_serial },
	{ PREFIX "requests", get_requests },
	{ PREFIX "channels", get_channels },
	{ PREFIX "commands", get_commands },
	{ PREFIX "reconnects", get_reconnects },
	{ PREFIX "attempts", get_attempts },
	{ PREFIX "replayed", get_replayed },
	{ PREFIX "timeouts", get_timeouts },
	{ PREFIX "failed_flushes", get_failed_flushes },
};

int xattr_get(const struct dev *dev, const struct tree_file *f,
	      const char *name, char buf[XATTR_MAX])
{
	const struct srpi_session *s = dev_session(dev);
	struct facts facts = {
		.dev = dev,
		.file = f,
		.state = srpi_session_state(s),
		.info.struct_size = sizeof(facts.info),
		.stats.struct_size = sizeof(facts.stats),
	};

	for (size_t i = 0; i < ARRAY_SIZE(attributes); i++) {
		if (strcmp(name, attributes[i].name))
			continue;
		srpi_session_info(s, &facts.info);
		srpi_session_stats(s, &facts.stats);
		return attributes[i].get(&facts, buf);
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
