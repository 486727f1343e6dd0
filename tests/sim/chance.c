/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/sim.h"

#include <stdarg.h>
#include <stdio.h>

bool sim_verbose;

static char wrong[512];
static uint64_t chance;

void sim_seed(uint64_t value)
{
	chance = value * 0x9e3779b97f4a7c15ull + 0x632be59bd9b4e019ull;
	for (int i = 0; i < 4; i++)
		sim_random(2);
}

/* splitmix64 */
unsigned int sim_random(unsigned int n)
{
	uint64_t z = chance += 0x9e3779b97f4a7c15ull;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ z >> 27) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return (unsigned int)((z >> 32) * n >> 32);
}

void sim_wrong(const char *fmt, ...)
{
	va_list ap;

	if (*wrong)
		return;
	va_start(ap, fmt);
	vsnprintf(wrong, sizeof(wrong), fmt, ap);
	va_end(ap);
	sim_tell("WRONG: %s", wrong);
}

bool sim_is_wrong(void)
{
	return *wrong;
}

const char *sim_wrong_text(void)
{
	return wrong;
}

void sim_tell(const char *fmt, ...)
{
	va_list ap;

	if (!sim_verbose)
		return;
	va_start(ap, fmt);
	vprintf(fmt, ap);
	va_end(ap);
	putchar('\n');
}
