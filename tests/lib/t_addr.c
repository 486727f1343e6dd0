/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_addr.h"

#include <unistd.h>

#define FIRST_PORT 5750

void t_addr_next(char *buf, size_t len)
{
	static unsigned int next_port = FIRST_PORT;
	unsigned int pid = (unsigned int)getpid();

	snprintf(buf, len, "127.%u.%u.%u:%u", 64 | (pid >> 16 & 63),
		 pid >> 8 & 255, pid & 255, next_port++);
}
