/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/port_id.h"

#include "tests/lib/t_table.h"

#define MACHINE "0123456789abcdef0123456789abcdef"

/* People write this identifier into scripts: it must never change. FNV-1a of
 * "rdma-block target port 0123456789abcdef0123456789abcdef:5555". */
static void identifier_is_the_same_in_every_version(void **state)
{
	struct srp_port_id id = port_id_make(MACHINE, 5555);

	assert_true(srp_port_id_ext(&id) == 0x3f1561497463abff);
	assert_true(srp_port_id_guid(&id) == 0x3f1561497463abff);
}

static void targets_on_one_machine_differ(void **state)
{
	struct srp_port_id a = port_id_make(MACHINE, 5555);
	struct srp_port_id b = port_id_make(MACHINE, 5556);

	assert_false(srp_port_id_equal(&a, &b));
}

static void machines_differ(void **state)
{
	struct srp_port_id a = port_id_make(MACHINE, 5555);
	struct srp_port_id b = port_id_make("other", 5555);

	assert_false(srp_port_id_equal(&a, &b));
}

static void this_machine_has_one_that_stays(void **state)
{
	struct srp_port_id a = port_id_of_machine(5555);
	struct srp_port_id b = port_id_of_machine(5555);

	assert_true(srp_port_id_equal(&a, &b));
	assert_false(srp_port_id_is_zero(&a));
}

int main(void)
{
	static struct t_table t;

	T_ADD(&t, identifier_is_the_same_in_every_version);
	T_ADD(&t, targets_on_one_machine_differ);
	T_ADD(&t, machines_differ);
	T_ADD(&t, this_machine_has_one_that_stays);
	return t_run(&t);
}
