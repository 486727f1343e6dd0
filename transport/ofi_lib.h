/* SPDX-License-Identifier: BSD-2-Clause */
/* The library itself, which is loaded when srp+ofi:// is first asked for. */
#ifndef TRANSPORT_OFI_LIB_H
#define TRANSPORT_OFI_LIB_H

#include "transport/xport.h"

/*
 * Loads libfabric, once; it stays until the process ends. Before this nothing of
 * <rdma/fabric.h> may be called.
 *
 * Thread: any, one at a time. Return: 0, or -ENOTSUP when there is none that
 * will do.
 */
int ofi_lib_load(struct xp_error *e);

#endif
