/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/fabric.h"

#include <glob.h>
#include <stdio.h>

/* Devices of the fabric chose the text: nothing in it may control the terminal. */
static void fabric_print_line(const char *line)
{
	for (; *line; line++) {
		bool is_plain = (*line >= ' ' && *line <= '~') ||
				*line == '\n' || *line == '\t';

		putchar(is_plain ? *line : '?');
	}
}

/* True: there are targets. */
static bool fabric_ask(const char *umad, bool add_target)
{
	bool some = false;
	char command[256];
	char line[512];
	FILE *f;

	snprintf(command, sizeof(command), "ibsrpdm %s-d %s 2>/dev/null",
		 add_target ? "-c " : "", umad);
	f = popen(command, "re");
	if (!f)
		return false;
	for (; fgets(line, sizeof(line), f); some = true)
		fabric_print_line(line);
	pclose(f);
	return some;
}

/* Only devices with a link layer of InfiniBand have one. */
bool fabric_print(bool add_target)
{
	bool some = false;
	glob_t g;

	if (glob("/dev/infiniband/umad*", 0, NULL, &g))
		return false;
	for (size_t i = 0; i < g.gl_pathc; i++)
		some |= fabric_ask(g.gl_pathv[i], add_target);
	globfree(&g);
	return some;
}
