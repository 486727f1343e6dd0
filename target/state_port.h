/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The number of a target: the port of its first address when it started first. Initiators
 * know the target by it (target_id_port()), its LUNs are kept by it (lun_memory.h), and a
 * state directory by default has it as its name. Later, another address may be the first one,
 * or the only one. Then the number must stay: otherwise reservations and LUNs would be lost.
 * So the state directory has a file port.PORT for each other port on which the target has
 * listened. It contains the number.
 *
 * Thread: setup; state_port_keep() also with the lock of changes (manage.h). Blocks.
 */
#ifndef TARGET_STATE_PORT_H
#define TARGET_STATE_PORT_H

#include <stdbool.h>

#include "base/error.h"

/*
 * Stores the number of the target whose first port is @port now. @dir: its state directory.
 * It is @port if the directory has nothing else. -EBADMSG: a file is damaged; another
 * negative errno. @e has one clause.
 */
int state_port_find(const char *dir, unsigned int port,
		    unsigned int *ret_number, struct error *e);

/* Is @dir the state directory of such a target, and not the place of several ones, each with a
 * number as its name? */
bool state_port_is_known(const char *dir, unsigned int port);

/*
 * The same as state_port_find(), if the state directory is one of those in @base that have
 * numbers as their names. -EEXIST: several targets have listened on @port.
 */
int state_port_find_in(const char *base, unsigned int port,
		       unsigned int *ret_number, struct error *e);

/* The target @number listens on @port: @dir has this until somebody removes the file. 0: it
 * is stable; or a negative errno with one clause in @e. */
int state_port_keep(const char *dir, unsigned int number, unsigned int port,
		    struct error *e);

#endif
