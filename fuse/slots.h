/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a device's slots, registered in one piece, and the slots that
 * are free. How a slot is laid out: dev.h.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_SLOTS_H
#define FUSE_SLOTS_H

#include "fuse/dev.h"

struct slots {
	uint8_t *memory;
	size_t memory_len;
	struct srpi_mem *mem;
	void *scratch; /* behind the slots: dev_options.scratch bytes */
	struct slot *all;
	struct slot *free;
};

/**
 * slots_open() - get and register memory, and make slots of it
 * @s:   zeroed; slots_close() undoes it, also after a failure
 * @o:   slots and max_write become what there is room for
 * @dev: theirs
 *
 * Return: 0, or a negative errno with @e set; -ENOMEM when the budget or the
 *   device leaves too few.
 */
int slots_open(struct slots *s, struct dev_options *o, struct dev *dev,
	       struct srpi_error *e);
/* While the session is still there; the memory stays. */
void slots_deregister(struct slots *s);
/* All of them must be free, or the kernel's no more. */
void slots_close(struct slots *s);

/* A free one, or NULL; and back. */
struct slot *slots_take(struct slots *s);
void slots_put(struct slots *s, struct slot *slot);

#endif
