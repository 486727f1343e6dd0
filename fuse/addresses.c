/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/addresses.h"

#include <stdio.h>
#include <string.h>

size_t addresses_text(const struct srpi_session *s, char *buf, size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < srpi_path_cnt(s); i++) {
		struct srpi_path_info p = { .struct_size = sizeof(p) };

		srpi_path_info(s, i, &p);
		snprintf(buf + len, size - len, "%s%s %s", i ? ", " : "",
			 p.address, srpi_path_state_name(p.state));
		len += strlen(buf + len);
	}
	return len;
}
