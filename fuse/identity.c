/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/identity.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "transport/cleanup.h"

static bool read_machine_id(char *buf, size_t len)
{
	_cleanup_close_ int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, len - 1);

	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
	return *buf;
}

bool identity_text(const char *mountpoint, const char *uri,
		   char buf[IDENTITY_SIZE])
{
	char machine[65];
	char host[65] = "";

	if (!read_machine_id(machine, sizeof(machine)))
		return false;
	gethostname(host, sizeof(host) - 1);
	return snprintf(buf, IDENTITY_SIZE, "rdma-fuse:%s:%s:%s:%s", machine,
			host, mountpoint, uri) < IDENTITY_SIZE;
}
