/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/port_id.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define MACHINE_SIZE 128

/* FNV-1a, 64 bits */
static uint64_t hash(const char *text)
{
	uint64_t h = 0xcbf29ce484222325;

	for (; *text; text++)
		h = (h ^ (uint8_t)*text) * 0x100000001b3;
	return h;
}

struct srp_port_id port_id_make(const char *machine, uint16_t port)
{
	char text[MACHINE_SIZE + 64];
	uint64_t h;

	snprintf(text, sizeof(text), "rdma-block target port %.*s:%u",
		 MACHINE_SIZE, machine, port);
	h = hash(text);
	/* All zero would name no port. */
	return srp_port_id_make(h ? h : 1, h ? h : 1);
}

static void get_machine(char machine[MACHINE_SIZE])
{
	FILE *f = fopen("/etc/machine-id", "re");

	machine[0] = '\0';
	if (f) {
		if (!fgets(machine, MACHINE_SIZE, f))
			machine[0] = '\0';
		fclose(f);
	}
	machine[strcspn(machine, "\n")] = '\0';
	if (!machine[0] && gethostname(machine, MACHINE_SIZE))
		machine[0] = '\0';
	machine[MACHINE_SIZE - 1] = '\0';
}

struct srp_port_id port_id_of_machine(uint16_t port)
{
	char machine[MACHINE_SIZE];

	get_machine(machine);
	return port_id_make(machine, port);
}
