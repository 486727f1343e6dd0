/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Targets that the device-management agents of an InfiniBand fabric know, found
 * by ibsrpdm of rdma-core. Thread: main.
 */
#ifndef DISCOVER_FABRIC_H
#define DISCOVER_FABRIC_H

#include <stdbool.h>

/* Prints what ibsrpdm prints, if this machine has that and an InfiniBand device to ask.
 * @add_target: lines for add_target. True: it has printed something. */
bool fabric_print(bool add_target);

#endif
