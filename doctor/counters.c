/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/counters.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "doctor/machine_file.h"

/* A counter with one of these in its name counts problems. */
static const char *const signs[] = { "rnr",	"retr",	     "err", "out_of",
				     "timeout", "duplicate", "cnp", "ecn",
				     "iscard",	"downed" };

struct counters_reader {
	struct counters *to;
	const char *dir; /* the directory that is read */
};

static bool counter_is_sign(const char *name)
{
	for (size_t i = 0; i < ARRAY_SIZE(signs); i++) {
		if (strstr(name, signs[i]))
			return true;
	}
	return false;
}

static void counter_add(struct counters *to, const char *name, uint64_t value)
{
	for (unsigned int i = 0; i < to->cnt; i++) {
		if (strcmp(to->all[i].name, name) == 0) {
			to->all[i].value += value;
			return;
		}
	}
	if (to->cnt == COUNTERS_MAX)
		return;
	snprintf(to->all[to->cnt].name, sizeof(to->all[0].name), "%s", name);
	to->all[to->cnt++].value = value;
}

static bool counter_read(void *user, const char *name)
{
	const struct counters_reader *r = user;

	if (counter_is_sign(name))
		counter_add(
			r->to, name,
			(uint64_t)machine_number("", 0, "%s/%s", r->dir, name));
	return true;
}

static bool port_counters_read(void *user, const char *port)
{
	static const char *const kinds[] = { "hw_counters", "counters" };
	const struct counters_reader *r = user;

	for (size_t i = 0; i < ARRAY_SIZE(kinds); i++) {
		char dir[MACHINE_PATH_SIZE];
		struct counters_reader next = { .to = r->to, .dir = dir };

		snprintf(dir, sizeof(dir), "%s/%s/%s", r->dir, port, kinds[i]);
		machine_each("", dir, counter_read, &next);
	}
	return true;
}

/* /proc/net/snmp has a line of names and a line of values. */
static void tcp_counters_read(struct counters *to)
{
	FILE *f = fopen("/proc/net/snmp", "re");
	char names[1024] = "";
	char line[1024];

	while (f && fgets(line, sizeof(line), f)) {
		char *name_at, *value_at;
		char *name, *value;

		if (strncmp(line, "Tcp:", 4) != 0)
			continue;
		if (!*names) {
			memcpy(names, line, sizeof(names));
			continue;
		}
		name = strtok_r(names, " \n", &name_at);
		value = strtok_r(line, " \n", &value_at);
		while (name && value) {
			if (strcmp(name, "RetransSegs") == 0)
				counter_add(to, "TCP RetransSegs",
					    strtoull(value, NULL, 10));
			name = strtok_r(NULL, " \n", &name_at);
			value = strtok_r(NULL, " \n", &value_at);
		}
	}
	if (f)
		fclose(f);
}

void counters_read(const char *device, struct counters *ret)
{
	char dir[MACHINE_PATH_SIZE];
	struct counters_reader r = { .to = ret, .dir = dir };

	ret->cnt = 0;
	snprintf(dir, sizeof(dir), "/sys/class/infiniband/%s/ports", device);
	if (machine_has("", "%s", dir))
		machine_each("", dir, port_counters_read, &r);
	else
		tcp_counters_read(ret);
}

void counters_risen(const struct counters *before, const struct counters *after,
		    char *text, size_t size)
{
	size_t len = 0;

	text[0] = '\0';
	for (unsigned int i = 0; i < after->cnt && len < size; i++) {
		const struct counter *c = &after->all[i];
		uint64_t was = 0;

		for (unsigned int j = 0; j < before->cnt; j++) {
			if (strcmp(before->all[j].name, c->name) == 0)
				was = before->all[j].value;
		}
		if (c->value > was)
			len += (size_t)snprintf(
				text + len, size - len, "%s%s +%" PRIu64,
				len ? ", " : "", c->name, c->value - was);
	}
}
