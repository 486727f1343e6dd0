/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Each thread has its own capabilities and passes them on to the threads that
 * it creates. rdma-target drops its capabilities when its volumes are open.
 * Threads that a plugin creates in open() would keep them. Therefore open() is
 * called without capabilities, unless the plugin needs them (RBP_NEEDS_RIGHTS).
 * It then must not create threads.
 */
#ifndef TARGET_BLOCK_PLUGIN_UNPRIVILEGED_H
#define TARGET_BLOCK_PLUGIN_UNPRIVILEGED_H

/*
 * Calls @run on a thread whose only capability is to lock memory, and waits
 * until it ends. If the plugin needs more capabilities, it fails now, and not
 * later when it reconnects. 0, or -errno: @run was not called. Thread: any.
 */
int plugin_run_unprivileged(void (*run)(void *arg), void *arg);

/* Gives up the same capabilities for this thread alone. 0, or -errno. */
int plugin_drop_rights(void);

/* Returns how many threads of this process have capabilities that
 * plugin_run_unprivileged() would drop. 0 if the calling one has none. Thread:
 * any. */
unsigned int plugin_privileged_threads(void);

#endif
