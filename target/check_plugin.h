/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-target --check-plugin: checks that a backend keeps the plugin
 * contract. */
#ifndef TARGET_CHECK_PLUGIN_H
#define TARGET_CHECK_PLUGIN_H

#include "target/scsi/volume.h"

/*
 * Opens the volume, does I/O from two threads, overwrites its blocks, and opens
 * it again. All this but the opening is done in a process of its own, in the sandbox
 * in which rdma-target serves, unless @no_sandbox. Prints a line for each promise.
 * Return: 0 if all are kept, else 1. Thread: setup; the process has no other.
 */
int check_plugin(const struct volume_spec *spec, bool no_sandbox);

#endif
