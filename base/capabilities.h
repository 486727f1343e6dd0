/* SPDX-License-Identifier: BSD-2-Clause */
/* The capabilities of this process. Thread: setup, the only one. */
#ifndef BASE_CAPABILITIES_H
#define BASE_CAPABILITIES_H

#include <stdbool.h>
#include <stdint.h>

/* @cap: CAP_*. False also if the kernel does not tell. */
bool capabilities_has(int cap);

/*
 * Gives up all capabilities that are not in @keep (bits, 1 << CAP_*). Neither this process
 * nor a program that it runs can get them back. RDMA devices and their connection manager
 * refuse a process that has opened them before. Return: 0 or a negative errno.
 */
int capabilities_keep(uint64_t keep);

/* The same; programs that it runs may get more, as fusermount3 by its set-user-ID bit. */
int capabilities_keep_here(uint64_t keep);

#endif
