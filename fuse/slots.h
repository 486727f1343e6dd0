/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The slots of a device: which are free, and their memory, registered in one
 * piece. slot.h has the layout of a slot.
 *
 * Over io_uring, the kernel reads each answer from the payload of an entry, and
 * puts the data of a WRITE there. The target must be able to write the data of a
 * READ there, but no other answer. For this reason, the payload has a first page
 * of its own, which is not registered. All answers other than data fit into it.
 * The other pages are those of slot->data, mapped a second time:
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
	unsigned int spare_cnt;	 /* 0: there is no memory for them */
	unsigned int spare_used; /* of these, the first that were ever in use */
	struct slot *free_spare;
	uint64_t spare_bytes; /* of the requests in them */
	struct slot *all;
	struct slot *free;

	uint32_t edge;	    /* bytes */
	uint32_t max_write; /* bytes */

	struct reactor *reactor;
	struct reactor_timer stall_timer;
	bool stall_watched;    /* the timer runs */
	uint64_t freed;	       /* slots that came free since the start */
	uint64_t freed_before; /* the same, when the timer was set */
	bool stalled;	       /* no slot has come free for STALL_MS */
};

/* Room for one block each, registered. */
uint8_t *slot_head(const struct slot *slot);
uint8_t *slot_tail(const struct slot *slot);

/**
 * slots_open() - get and register memory, and make slots of it
 * @s:   zeroed; call slots_close() also after a failure
 * @o:   reduces slots and max_write to what there is memory for
 * @dev: the device of the slots
 *
 * Return: 0, or a negative errno with @e set; -ENOMEM when the budget or the
 *   device leaves too few.
 */
int slots_open(struct slots *s, struct dev_options *o, struct dev *dev,
	       struct error *e);
/* Gives each slot a payload, for a device with queues. -EOPNOTSUPP: a page is
 * longer than an edge; or the error of mmap() or mremap(). */
int slots_make_payloads(struct slots *s, const struct dev_options *o);

/* Puts the @len bytes at @p into the payload. @p is slot->data, or other memory of
 * at most DEV_ANSWER_MAX bytes. */
void slots_show_kernel(const struct slots *s, struct slot *slot, const void *p,
		       size_t len);
/* Puts the @len bytes of a WRITE that came into the payload to slot->data. */
void slots_take_payload(const struct slots *s, struct slot *slot, size_t len);

/* Call this before the session is closed. The memory stays. */
void slots_deregister(struct slots *s);
/* All slots must be free, or released by the kernel. */
void slots_close(struct slots *s);

/* A free slot, or NULL; slots_put() gives it back. */
struct slot *slots_take(struct slots *s);
/* A slot whose memory is not registered. NULL: none is left, or the requests in
 * spares are too long in all. */
struct slot *slots_take_spare(struct slots *s);
/* @spare holds a request of @len bytes. */
void slots_use_spare(struct slots *s, struct slot *spare, size_t len);
void slots_put(struct slots *s, struct slot *slot);

/* A free slot for a request, or NULL; it may be a spare. */
struct slot *slots_take_for_request(struct slots *s);
/* The request in @slot has ended. */
void slots_request_ended(struct slots *s, const struct slot *slot);
/* No request comes any more. */
void slots_stop(struct slots *s);

/* Moves the request of a spare to a slot with registered memory, and frees the
 * spare. Returns the slot of the request, or NULL when no slot is free. */
struct slot *slots_to_registered(struct slots *s, struct slot *slot);
/* Moves the request to a spare if possible, and frees @slot. Returns the slot of
 * the request. */
struct slot *slots_to_spare(struct slots *s, struct slot *slot);

#endif
