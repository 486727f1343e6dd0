/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that a core dump leaves out: the data of initiators and of volumes, and keys. The
 * rest of a core, such as stacks and the state of commands, stays useful.
 *
 * Thread: any.
 */
#ifndef BASE_SECRET_H
#define BASE_SECRET_H

#include <stddef.h>

/* Leaves @len bytes at @p, whole pages, out of core dumps. */
void secret_hide(void *p, size_t len);

/* Maps @len bytes of zeroes, as pages of their own. NULL, with errno: no memory. */
void *secret_map(size_t len);

/* @p NULL: does nothing. */
void secret_unmap(void *p, size_t len);

#endif
