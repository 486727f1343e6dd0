/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The memory of a device's slots, registered in one piece, and the slots that
 * are free. How a slot is laid out: dev.h.
 *
 * Over io_uring the kernel reads all answers from one place, and puts a WRITE's
 * data there: the payload of its entry. The target must be able to write to what
 * is READ, but not to answers of ours. So of a payload only the first page is
 * its own, and not registered: answers other than data fit into it. The others
 * are those of slot->data, mapped once more:
 *
 *     data         page 0 | page 1 | page 2 ...      registered
 *     payload     own page | page 1 | page 2 ...      the kernel's
 *
 * Data is copied from one page 0 to the other.
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
	uint8_t *payloads; /* NULL: none */
	size_t payloads_len;
	size_t page; /* bytes */

	struct slot *spares;
	uint8_t *spare_memory;
	size_t spare_len;	 /* bytes of each */
	unsigned int spare_cnt;	 /* 0: there is no room for them */
	unsigned int spare_used; /* of them, ever */
	struct slot *free_spare;
	uint64_t spare_bytes; /* of the requests in them */
	struct slot *all;
	struct slot *free;

	uint32_t edge;	    /* bytes */
	uint32_t max_write; /* bytes */

	struct reactor *reactor;
	struct reactor_timer stall_timer;
	bool stall_watched;    /* it runs */
	uint64_t freed;	       /* slots, ever */
	uint64_t freed_before; /* when the timer was set */
	bool stalled;
};

/* Room for one block each, registered. */
uint8_t *slot_head(const struct slot *slot);
uint8_t *slot_tail(const struct slot *slot);

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
	       struct error *e);
/* Gives each slot a payload; for slots of a device with queues. -EOPNOTSUPP: a
 * page is longer than a slot's edge; or what mmap() or mremap() says. */
int slots_make_payloads(struct slots *s, const struct dev_options *o);

/* Has the kernel see the @len bytes at @p in the payload: slot->data, or other
 * memory, then at most DEV_ANSWER_MAX. */
void slots_show_kernel(const struct slots *s, struct slot *slot, const void *p,
		       size_t len);
/* A WRITE of @len bytes has come: has all of its data lie at slot->data. */
void slots_take_payload(const struct slots *s, struct slot *slot, size_t len);

/* While the session is still there; the memory stays. */
void slots_deregister(struct slots *s);
/* All of them must be free, or the kernel's no more. */
void slots_close(struct slots *s);

/* A free one, or NULL; and back. */
struct slot *slots_take(struct slots *s);
/* One whose memory is not registered. NULL: none is left, or what is in them is
 * too long already. */
struct slot *slots_take_spare(struct slots *s);
/* A request of @len bytes is in it. */
void slots_use_spare(struct slots *s, struct slot *spare, size_t len);
void slots_put(struct slots *s, struct slot *slot);

/* A free slot for a request, or NULL; it may be a spare. */
struct slot *slots_take_for_request(struct slots *s);
/* The request in @slot has ended. */
void slots_request_ended(struct slots *s, const struct slot *slot);
/* No request comes any more. */
void slots_stop(struct slots *s);

/* The request of @slot in a slot with registered memory: @slot, or another
 * one, then @slot is free. NULL: there is none. */
struct slot *slots_to_registered(struct slots *s, struct slot *slot);
/* The request of @slot in a spare, so that @slot is free; or @slot, when it has
 * to stay there. */
struct slot *slots_to_spare(struct slots *s, struct slot *slot);

#endif
