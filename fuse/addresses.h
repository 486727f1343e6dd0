/* SPDX-License-Identifier: BSD-2-Clause */
/* The addresses of a mount, as text. Thread: the context's reactor. */
#ifndef FUSE_ADDRESSES_H
#define FUSE_ADDRESSES_H

#include <stddef.h>

#include "initiator/srp_initiator.h"

/* "10.0.0.1:5555 in use, 10.0.0.2:5555 standby". Cuts text that does not fit into
 * @size. Returns the length. */
size_t addresses_text(const struct srpi_session *s, char *buf, size_t size);

#endif
