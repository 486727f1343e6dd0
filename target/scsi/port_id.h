/* SPDX-License-Identifier: BSD-2-Clause */
/* The target port identifier. Thread: any. */
#ifndef TARGET_SCSI_PORT_ID_H
#define TARGET_SCSI_PORT_ID_H

#include <stdint.h>

#include "protocol/srp_login.h"

/*
 * The identifier of the target that serves on @port of this machine: a 64-bit
 * hash (FNV-1a) of the text "rdma-block target port MACHINE:PORT", used twice,
 * as id_ext and as ioc_guid. MACHINE is the content of /etc/machine-id, or the
 * host name if there is none. The identifier is the same after every start. Two
 * targets on one machine have different ones, because ib_srp refuses a second
 * login to the same identifiers.
 */
struct srp_port_id port_id_of_machine(uint16_t port);

/* The same for the given machine ID. */
struct srp_port_id port_id_make(const char *machine, uint16_t port);

#endif
