/* SPDX-License-Identifier: BSD-2-Clause */
#include <string.h>

#include "fuse/slots.h"
#include "fuse/uring.h"
#include "tests/lib/t_srpi.h"
#include "tests/lib/t_table.h"

static const struct list_case {
	const char *name;
	const char *text;
	unsigned int cnt;
} list_cases[] = {
	{ "one processor", "0\n", 1 },
	{ "a range", "0-63\n", 64 },
	{ "ranges", "0-3,8-11\n", 8 },
	{ "ranges and single ones", "0,2-3,1023\n", 4 },
	{ "nothing", "", 0 },
	{ "an empty line", "\n", 0 },
	{ "words", "none\n", 0 },
	{ "a line cut off in a number", "0-1,10", 0 },
	{ "a line cut off in a range", "0-1,10-", 0 },
	{ "a comma at the end", "0-1,\n", 0 },
	{ "a range backwards", "3-0\n", 0 },
};

T_ROWS(lists, list_cases)
{
	const struct list_case *c = *state;

	assert_int_equal(uring_list_cnt(c->text), c->cnt);
}

/* ---- what the kernel reads ---- */

#define PAGE	  4096u
#define MAX_WRITE (128u << 10)

struct payload_test {
	struct srpi_session *target;
	struct slots slots;
	struct slot *slot; /* one of them */
};

static void open_slots(struct payload_test *p)
{
	struct dev_options o = {
		.slots = 8,
		.queues = 1,
		.max_write = MAX_WRITE,
		.edge = PAGE,
	};
	struct error e;

	*p = (struct payload_test){ .target = t_srpi_new(NULL, 1 << 20, 512) };
	o.session = p->target;
	assert_int_equal(slots_open(&p->slots, &o, NULL, &e), 0);
	assert_int_equal(slots_make_payloads(&p->slots, &o), 0);
	p->slot = &p->slots.all[5];
}

static void close_slots(struct payload_test *p)
{
	slots_deregister(&p->slots);
	slots_close(&p->slots);
	t_srpi_free(p->target);
}

/* The target writes @byte to all registered memory. */
static void target_writes(struct payload_test *p, uint8_t byte)
{
	memset(p->slots.memory, byte, p->slots.memory_len);
}

T_TEST(target_cannot_change_an_answer)
{
	static uint8_t answer[DEV_ANSWER_MAX];
	struct payload_test p;

	open_slots(&p);
	memset(answer, 0x11, sizeof(answer));
	slots_show_kernel(&p.slots, p.slot, answer, sizeof(answer));
	target_writes(&p, 0xff);
	assert_memory_equal(p.slot->payload, answer, sizeof(answer));
	close_slots(&p);
}

T_TEST(kernel_sees_what_was_read)
{
	static const uint32_t lens[] = { 1, 512, 4096, 4097, MAX_WRITE };
	struct payload_test p;

	open_slots(&p);
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		target_writes(&p, (uint8_t)i);
		slots_show_kernel(&p.slots, p.slot, p.slot->data, lens[i]);
		assert_memory_equal(p.slot->payload, p.slot->data, lens[i]);
	}
	close_slots(&p);
}

T_TEST(target_gets_what_was_written)
{
	static const uint32_t lens[] = { 1, 512, 4096, 4097, MAX_WRITE };
	struct payload_test p;

	open_slots(&p);
	for (size_t i = 0; i < ARRAY_SIZE(lens); i++) {
		memset(p.slot->payload, (int)i, MAX_WRITE);
		slots_take_payload(&p.slots, p.slot, lens[i]);
		assert_memory_equal(p.slot->data, p.slot->payload, lens[i]);
	}
	close_slots(&p);
}
