/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Capabilities belong to threads, and a thread passes its own on to those that it
 * makes. rdma-target gives its capabilities up when its volumes are open. A
 * plugin that makes connections makes threads in open(); these would keep them.
 */
#ifndef TARGET_BLOCK_PLUGIN_UNPRIVILEGED_H
#define TARGET_BLOCK_PLUGIN_UNPRIVILEGED_H

/*
 * Calls @run on a thread that can lock memory, and has no other capability, and
 * waits for its end. What needs more fails now, and not when the plugin does it
 * again while it reconnects. 0, or -errno: @run was not called. Thread: any.
 */
int plugin_run_unprivileged(void (*run)(void *arg), void *arg);

#endif
