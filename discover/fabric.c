/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/fabric.h"

#include <glob.h>
#include <stdio.h>
#include <string.h>

/* Devices of the fabric chose the text: nothing in it may control the terminal. */
static void fabric_print_line(const char *line)
{
	for (; *line; line++) {
		bool is_plain = (*line >= ' ' && *line <= '~') ||
				*line == '\n' || *line == '\t';

		putchar(is_plain ? *line : '?');
	}
}

static void fabric_ask(const char *umad, bool add_target)
{
	char command[256];
	char line[512];
	FILE *f;

	snprintf(command, sizeof(command), "ibsrpdm %s-d %s 2>/dev/null",
		 add_target ? "-c " : "", umad);
	f = popen(command, "re");
	if (!f)
		return;
	while (fgets(line, sizeof(line), f))
		fabric_print_line(line);
	pclose(f);
}

/* Only devices with a link layer of InfiniBand have one. */
void fabric_print(bool add_target)
{
	glob_t g;

	if (glob("/dev/infiniband/umad*", 0, NULL, &g))
		return;
	for (size_t i = 0; i < g.gl_pathc; i++)
		fabric_ask(g.gl_pathv[i], add_target);
	globfree(&g);
}
