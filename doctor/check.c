/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/check.h"

static void check_rows(const struct check *rows, const struct machine *m,
		       unsigned int whom, struct report *r)
{
	for (const struct check *c = rows; c->group; c++) {
		if (c->whom & whom)
			c->look(c, m, r);
	}
}

void check_machine(const struct machine *m, unsigned int whom, struct report *r)
{
	check_rows(check_device_rows, m, whom, r);
	check_rows(check_host_rows, m, whom, r);
}
