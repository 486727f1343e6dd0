/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/slots.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/size.h"

/* When all slots are in use, and none has come free for this long, requests are
 * read into spares. */
#define STALL_MS 100

/* With fewer slots there is no mount. */
#define SLOTS_MIN 4u
/* Reduce max_write before there are fewer slots than this. */
#define SLOTS_GOOD    32u
#define MAX_WRITE_MIN (128u << 10)

/* The kernel allocates the memory of a spare at its first use. */
#define SPARES_MAX	1024u
#define SPARE_BYTES_MAX (256ull << 20)
#define SPARE_KEEP	(64u << 10)

static void slots_stall_due(struct reactor_timer *t);

uint8_t *slot_head(const struct slot *slot)
{
	return slot->data - 2 * (size_t)dev_slots(slot->dev)->edge;
}

uint8_t *slot_tail(const struct slot *slot)
{
	const struct slots *s = dev_slots(slot->dev);

	return slot->data + s->max_write + s->edge;
}

/* Data, two edges, and room for one block at the head and one at the tail. */
static size_t slot_len(const struct dev_options *o)
{
	return 4 * (size_t)o->edge + o->max_write;
}

/* Reduces slots and max_write to the budget. */
static int slots_fit(struct dev_options *o, struct error *e)
{
	char needed[SIZE_TEXT_SIZE], budget[SIZE_TEXT_SIZE];

	if (o->pin_budget == 0)
		return 0;
	while (o->max_write / 2 >= MAX_WRITE_MIN &&
	       o->pin_budget / slot_len(o) <
		       (o->slots < SLOTS_GOOD ? o->slots : SLOTS_GOOD))
		o->max_write /= 2;
	if (o->pin_budget / slot_len(o) < o->slots)
		o->slots = (unsigned int)(o->pin_budget / slot_len(o));
	if (o->slots >= SLOTS_MIN)
		return 0;
	error_set(e, -ENOMEM,
		  "the RDMA device needs %s of locked memory, and only %s more "
		  "may be locked; raise the limit: ulimit -l 65536, or "
		  "LimitMEMLOCK= of the service",
		  size_format(SLOTS_MIN * slot_len(o), needed),
		  size_format(o->pin_budget, budget));
	return -ENOMEM;
}

static int slots_register(struct slots *s, const struct dev_options *o,
			  struct error *e)
{
	struct srpi_error se;
	int err = srpi_mem_register(o->session, s->memory, s->memory_len,
				    &s->mem, &se);

	return err ? error_set(e, err, "%s", se.text) : 0;
}

static int slots_map_and_register(struct slots *s, const struct dev_options *o,
				  struct error *e)
{
	char size[SIZE_TEXT_SIZE];
	void *p;

	s->memory_len = o->slots * slot_len(o);
	/* Only shared memory can be mapped a second time. */
	p = mmap(NULL, s->memory_len, PROT_READ | PROT_WRITE,
		 (o->queues ? MAP_SHARED : MAP_PRIVATE) | MAP_ANONYMOUS |
			 MAP_NORESERVE,
		 -1, 0);
	if (p == MAP_FAILED) {
		return error_set(e, -ENOMEM, "no memory for %u requests of %s",
				 o->slots, size_format(o->max_write, size));
	}
	s->memory = p;
	return slots_register(s, o, e);
}

static void slots_unmap(struct slots *s)
{
	slots_deregister(s);
	if (s->memory)
		munmap(s->memory, s->memory_len);
	s->memory = NULL;
}

/* The device may allow less than the limits: try again with less. */
static int slots_get_memory(struct slots *s, struct dev_options *o,
			    struct error *e)
{
	int err = slots_fit(o, e);

	if (err)
		return err;
	while ((err = slots_map_and_register(s, o, e))) {
		slots_unmap(s);
		if (err != -ENOMEM || o->slots / 2 < SLOTS_MIN)
			return err;
		o->slots /= 2;
	}
	return 0;
}

/* Without spares, requests wait in the kernel. */
static void slots_make_spares(struct slots *s, const struct dev_options *o)
{
	void *p = mmap(NULL, (size_t)SPARES_MAX * o->max_write,
		       PROT_READ | PROT_WRITE,
		       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (p == MAP_FAILED)
		return;
	s->spare_memory = p;
	s->spare_len = o->max_write;
	s->spares = calloc(SPARES_MAX, sizeof(*s->spares));
	s->spare_cnt = s->spares ? SPARES_MAX : 0;
}

int slots_open(struct slots *s, struct dev_options *o, struct dev *dev,
	       struct error *e)
{
	int err = slots_get_memory(s, o, e);

	if (err)
		return err;
	s->reactor = o->reactor;
	s->edge = o->edge;
	s->max_write = o->max_write;
	reactor_timer_init(&s->stall_timer, slots_stall_due);
	s->all = calloc(o->slots, sizeof(*s->all));
	if (!s->all) {
		return error_set(e, -ENOMEM, "out of memory");
	}
	for (unsigned int i = 0; i < o->slots; i++) {
		s->all[i].dev = dev;
		s->all[i].data =
			s->memory + i * slot_len(o) + 2 * (size_t)o->edge;
		slots_put(s, &s->all[i]);
	}
	slots_make_spares(s, o);
	return 0;
}

/* Maps all pages of the slot but the first into its payload. */
static int slots_map_pages(const struct slots *s, const struct slot *slot,
			   size_t len)
{
	void *p =
		mremap(slot->data + s->page, /* old_size= */ 0, len - s->page,
		       MREMAP_MAYMOVE | MREMAP_FIXED, slot->payload + s->page);

	return p == MAP_FAILED ? -errno : 0;
}

int slots_make_payloads(struct slots *s, const struct dev_options *o)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	int err = 0;
	void *p;

	if (o->edge % page)
		return -EOPNOTSUPP;
	s->payloads_len = (size_t)o->slots * o->max_write;
	p = mmap(NULL, s->payloads_len, PROT_READ | PROT_WRITE,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (p == MAP_FAILED)
		return -errno;
	s->payloads = p;
	s->page = page;
	for (unsigned int i = 0; !err && i < o->slots; i++) {
		s->all[i].payload = s->payloads + (size_t)i * o->max_write;
		err = slots_map_pages(s, &s->all[i], o->max_write);
	}
	return err;
}

static size_t slots_in_first_page(const struct slots *s, size_t len)
{
	return len < s->page ? len : s->page;
}

void slots_show_kernel(const struct slots *s, struct slot *slot, const void *p,
		       size_t len)
{
	memcpy(slot->payload, p, slots_in_first_page(s, len));
}

void slots_take_payload(const struct slots *s, struct slot *slot, size_t len)
{
	memcpy(slot->data, slot->payload, slots_in_first_page(s, len));
}

void slots_deregister(struct slots *s)
{
	srpi_mem_free(s->mem);
	s->mem = NULL;
}

void slots_close(struct slots *s)
{
	free(s->all);
	free(s->spares);
	if (s->spare_memory)
		munmap(s->spare_memory, SPARES_MAX * s->spare_len);
	if (s->payloads)
		munmap(s->payloads, s->payloads_len);
	slots_unmap(s);
}

struct slot *slots_take(struct slots *s)
{
	struct slot *slot = s->free;

	if (slot)
		s->free = slot->next_free;
	return slot;
}

struct slot *slots_take_spare(struct slots *s)
{
	struct slot *slot = s->free_spare;

	if (s->spare_bytes >= SPARE_BYTES_MAX)
		return NULL;
	if (slot)
		s->free_spare = slot->next_free;
	else if (s->spare_used < s->spare_cnt)
		slot = &s->spares[s->spare_used++];
	else
		return NULL;
	slot->spare = true;
	slot->dev = s->all[0].dev;
	slot->data =
		s->spare_memory + (size_t)(slot - s->spares) * s->spare_len;
	return slot;
}

void slots_use_spare(struct slots *s, struct slot *spare, size_t len)
{
	spare->spare_len = len;
	s->spare_bytes += len;
}

static void slots_put_spare(struct slots *s, struct slot *spare)
{
	if (spare->spare_len > SPARE_KEEP)
		madvise(spare->data, s->spare_len, MADV_DONTNEED);
	s->spare_bytes -= spare->spare_len;
	spare->spare_len = 0;
	spare->next_free = s->free_spare;
	s->free_spare = spare;
}

void slots_put(struct slots *s, struct slot *slot)
{
	if (slot->spare) {
		slots_put_spare(s, slot);
		return;
	}
	slot->next_free = s->free;
	s->free = slot;
}

/* ---- for requests ---- */

static void slots_stall_due(struct reactor_timer *t)
{
	struct slots *s = container_of(t, struct slots, stall_timer);

	s->stall_watched = false;
	s->stalled = s->freed == s->freed_before;
}

struct slot *slots_take_for_request(struct slots *s)
{
	struct slot *slot = slots_take(s);

	if (slot)
		return slot;
	if (s->stalled)
		return slots_take_spare(s);
	if (!s->stall_watched) {
		s->stall_watched = true;
		s->freed_before = s->freed;
		reactor_timer_set(s->reactor, &s->stall_timer, STALL_MS);
	}
	return NULL;
}

void slots_request_ended(struct slots *s, const struct slot *slot)
{
	if (slot->spare)
		return;
	s->freed++;
	s->stalled = false;
}

void slots_stop(struct slots *s)
{
	reactor_timer_stop(&s->stall_timer);
}

/* The bytes of a request that lie at slot->data. */
static size_t slots_payload_len(const struct slots *s, const struct slot *slot)
{
	const struct fuse_in_header *in = (const void *)slot->request.headers;
	size_t len =
		in->len > SLOT_HEADERS_LEN ? in->len - SLOT_HEADERS_LEN : 0;

	if (in->opcode != FUSE_WRITE)
		return 0;
	return len < s->max_write ? len : s->max_write;
}

static void slots_move_request(struct slots *s, struct slot *to,
			       struct slot *from)
{
	memcpy(to->request.headers, from->request.headers,
	       sizeof(to->request.headers));
	memcpy(to->data, from->data, slots_payload_len(s, from));
	to->request.unique = from->request.unique;
	to->file = from->file;
	to->fh = from->fh;
	to->work.arg = from->work.arg;
	to->queue.start = from->queue.start;
	slots_put(s, from);
}

struct slot *slots_to_registered(struct slots *s, struct slot *slot)
{
	struct slot *to = slot->spare ? slots_take(s) : slot;

	if (to && to != slot)
		slots_move_request(s, to, slot);
	return to;
}

struct slot *slots_to_spare(struct slots *s, struct slot *slot)
{
	struct slot *to = NULL;

	if (!slot->spare && !slot->entry.uring)
		to = slots_take_spare(s);
	if (!to)
		return slot;
	slots_use_spare(s, to, slots_payload_len(s, slot));
	slots_move_request(s, to, slot);
	return to;
}
