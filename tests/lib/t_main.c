/* SPDX-License-Identifier: BSD-2-Clause */
/* main() of test programs that have none of their own. */
#include "tests/lib/t_table.h"

int main(void)
{
	return t_run();
}
