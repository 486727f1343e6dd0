/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Which I/O has which blocks in the store, over two workers whose reactors run in
 * turns on one thread. The last test has real threads.
 */
#include "target/block/block_owner.h"

#include <pthread.h>
#include <string.h>

#include "tests/lib/t_table.h"

#define WORKERS 3
#define OWNERS	8
#define STRIPE	((uint64_t)BLOCK_STRIPE_LEN)

static struct block_owners all;
static struct block_worker workers[WORKERS];
static struct block_owner owners[OWNERS];
static char order[64]; /* letters of the owners, as they get their blocks */

static struct block_sender
	sender; /* of owners a, b and c, in tests that name it */
static bool lives;
static unsigned int asked; /* how often */

static bool sender_lives(struct block_sender *s)
{
	return lives;
}

static void sender_ask(struct block_sender *s)
{
	asked++;
}

static void note(struct block_owner *owner)
{
	size_t n = strlen(order);

	order[n] = (char)('a' + (owner - owners));
	order[n + 1] = '\0';
}

static void begin(void)
{
	struct reactor_options opt = { .ring_entries = 8 };

	memset(&all, 0, sizeof(all));
	block_owners_init(&all);
	for (unsigned int i = 0; i < WORKERS; i++) {
		workers[i].index = i;
		assert_int_equal(reactor_create(&opt, &workers[i].reactor), 0);
	}
	memset(owners, 0, sizeof(owners));
	memset(order, 0, sizeof(order));
}

static void end(void)
{
	block_owners_fini(&all);
	for (unsigned int i = 0; i < WORKERS; i++)
		reactor_destroy(workers[i].reactor);
}

static void settle(void)
{
	int did;

	do {
		did = 0;
		for (unsigned int i = 0; i < WORKERS; i++)
			did += reactor_run_once(workers[i].reactor, 0);
	} while (did);
}

/* Owner @name takes [@from, @to) on the worker; it is noted when it has them. */
static void take(char name, unsigned int w, uint64_t from, uint64_t to,
		 enum block_use use)
{
	struct block_owner *owner = &owners[name - 'a'];

	owner->begin = from;
	owner->end = to;
	owner->use = use;
	owner->has = note;
	if (block_owner_take(&all, &workers[w], owner))
		note(owner);
}

static void takes(char name, unsigned int w, uint64_t from, uint64_t to)
{
	take(name, w, from, to, BLOCK_CHANGES);
}

static void drop(char name)
{
	block_owner_drop(&owners[name - 'a']);
	settle();
}

T_TEST(same_blocks_belong_to_one_after_the_other)
{
	begin();
	takes('a', 0, 0, 4096);
	takes('b', 0, 4095, 8192);
	takes('c', 1, 0, 1);
	settle();
	assert_string_equal(order, "a");
	drop('a');
	assert_int_equal(strlen(order), 3);
	drop('b');
	drop('c');
	end();
}

/* In the same stripe, and in stripes whose numbers are equal. */
T_TEST(other_blocks_do_not_wait)
{
	begin();
	takes('a', 0, 0, 4096);
	takes('b', 1, 4096, 8192);
	takes('c', 1, BLOCK_STRIPES * STRIPE, BLOCK_STRIPES * STRIPE + 4096);
	assert_string_equal(order, "abc");
	drop('a');
	drop('b');
	drop('c');
	end();
}

T_TEST(blocks_of_two_stripes_belong_to_one)
{
	begin();
	takes('a', 0, STRIPE - 512, STRIPE + 512);
	takes('b', 1, 0, STRIPE);
	takes('c', 1, STRIPE, 2 * STRIPE);
	/* The last stripe and the first one. */
	takes('d', 0, BLOCK_STRIPES * STRIPE - 512,
	      BLOCK_STRIPES * STRIPE + 512);
	assert_string_equal(order, "ad");
	drop('a');
	assert_int_equal(strlen(order), 4);
	/* It needs blocks of the first one that nobody has. */
	drop('b');
	takes('e', 0, STRIPE - 512, STRIPE + 512);
	assert_int_equal(strlen(order), 4);
	drop('c');
	assert_int_equal(strlen(order), 5);
	drop('d');
	drop('e');
	end();
}

/* The last one's blocks are free, but one that came before it wants them. */
T_TEST(those_that_wait_keep_their_order)
{
	begin();
	takes('a', 0, 0, 1024);
	takes('b', 1, 512, 2048);
	takes('c', 0, 1024, 4096);
	assert_string_equal(order, "a");
	drop('a');
	assert_string_equal(order, "ab");
	drop('b');
	assert_string_equal(order, "abc");
	drop('c');
	end();
}

T_TEST(one_that_leaves_lets_those_behind_it_go)
{
	begin();
	takes('a', 0, 0, 1024);
	takes('b', 1, 512, 2048);
	takes('c', 0, 1024, 4096);
	drop('b');
	assert_string_equal(order, "ac");
	drop('a');
	drop('c');
	end();
}

/* The message to look again is under way when it leaves. */
T_TEST(one_that_leaves_is_not_called)
{
	begin();
	takes('a', 0, 0, 1024);
	takes('b', 1, 0, 1024);
	block_owner_drop(&owners[0]);
	block_owner_drop(&owners[1]);
	settle();
	assert_string_equal(order, "a");
	takes('c', 1, 0, 1024);
	assert_string_equal(order, "ac");
	drop('c');
	end();
}

static void has_and_leaves(struct block_owner *owner)
{
	note(owner);
	block_owner_drop(&owners[2]);
	block_owner_drop(&owners[3]);
}

/* Two get their blocks at once, and the first one ends the second. */
T_TEST(one_that_is_ended_by_another_is_not_called)
{
	begin();
	takes('a', 0, 0, 1024);
	takes('b', 1, 0, 512);
	owners[1].has = has_and_leaves;
	takes('c', 1, 512, 1024);
	takes('d', 1, 512, 1024);
	drop('a');
	assert_string_equal(order, "ab");
	drop('b');
	end();
}

T_TEST(readers_wait_for_what_was_given_up)
{
	begin();
	takes('a', 0, 0, 1024);
	assert_false(all.watch);
	take('b', 1, 0, 512, BLOCK_READS);
	assert_string_equal(order, "ab");
	assert_true(block_owner_give_up(&owners[0]));
	assert_true(block_owner_give_up(&owners[0]));
	assert_true(all.watch);
	take('c', 1, 0, 512, BLOCK_READS);
	take('d', 1, 1024, 2048, BLOCK_READS);
	takes('e', 1, 512, 2048); /* nobody waits for readers */
	assert_string_equal(order, "abd");
	drop('a');
	assert_int_equal(strlen(order), 5);
	assert_false(all.watch);
	for (int name = 'b'; name <= 'e'; name++)
		drop((char)name);
	end();
}

/* Nothing in the store changes its blocks: they do not change later. */
T_TEST(what_waits_or_reads_is_not_given_up)
{
	begin();
	takes('a', 0, 0, 1024);
	takes('b', 0, 0, 1024);
	take('c', 0, 1024, 2048, BLOCK_READS);
	assert_false(block_owner_give_up(&owners[1]));
	assert_false(block_owner_give_up(&owners[2]));
	assert_false(block_owner_give_up(&owners[3]));
	drop('a');
	drop('b');
	drop('c');
	end();
}

/* ---- alone ---- */

/* "a0r03": owner a on worker 0 uses blocks 0 to 3: reads, changes (c), or wants them
 * alone (x). "-a" drops it. A blank lets all workers finish. "=ab": those that have got
 * their blocks so far, in order. */
struct script {
	const char *name;
	const char *text;
};

static const struct script scripts[] = {
	{ "readers do not wait", "a0r03b0r12c1r09=abc-a-b-c" },
	{ "nor does one that is alone", "a0x03=a-a" },
	{ "it waits for a reader of its worker", "a0r03b0x22 =a-a =ab-b" },
	{ "and for one of another worker", "a1r03b0x22 =a-a =ab-b" },
	{ "for all of them", "a1r03b0r24c1x22 =ab-a =ab-b =abc-c" },
	{ "for readers of its first and of its last block",
	  "a1r02b0r46c1x24 =ab-b =ab-a =abc-c" },
	{ "for one of a block in its middle", "a1r33b0x24 =a-a =ab-b" },
	{ "not for readers of blocks beside it", "a1r01b0r55c1x24=abc-a-b-c" },
	{ "not for readers that have ended", "a1r22b1r33-ac0x22=abc-b-c" },
	{ "for a reader that came after another one that is alone",
	  "a0x55b1r22c0x22 =ab-b =abc-a-c" },
	{ "for one that changes blocks", "a1c03b0x22 =a-a =ab-b" },
	{ "not for one that changes others", "a1c03b0x44=ab-a-b" },
	{ "not for another one that is alone elsewhere", "a0x22b1x44=ab-a-b" },
	{ "readers wait for it", "a0x22b0r03c1r22 =a-a =abc-b-c" },
	{ "so do changes", "a0x22b0c03c1c12 =a-a =ab-b =abc-c" },
	{ "not elsewhere", "a0x22b0r01c1c33=abc-a-b-c" },
	{ "nobody overtakes it while it waits",
	  "a1r22b0x22c1r22d1c12 =a-a =ab-b =abcd-c-d" },
	{ "in the order of asking", "a0x22b0x22c0x22 =a-a =ab-b =abc-c" },
	{ "one that waits goes away", "a0r22b1x22c1r22 =a-b =ac-a-c" },
	{ "the last reader ends while it goes away", "a0r22b1x22-a-b =a" },
};

static void script_take(const char *p)
{
	enum block_use use = p[2] == 'r'   ? BLOCK_READS
			     : p[2] == 'c' ? BLOCK_CHANGES
					   : BLOCK_ALONE;

	take(p[0], (unsigned int)(p[1] - '0'), (uint64_t)(p[3] - '0') * 512,
	     (uint64_t)(p[4] - '0' + 1) * 512, use);
}

static const char *script_compare(const char *p)
{
	size_t n = strcspn(p, " -");
	char want[64] = "";

	memcpy(want, p, n);
	assert_string_equal(order, want);
	return p + n;
}

T_ROWS(script, scripts)
{
	const struct script *s = *state;
	const char *p = s->text;

	begin();
	while (*p) {
		if (*p == ' ')
			settle(), p++;
		else if (*p == '=')
			p = script_compare(p + 1);
		else if (*p == '-')
			block_owner_drop(&owners[p[1] - 'a']), p += 2;
		else
			script_take(p), p += 5;
	}
	settle();
	for (unsigned int i = 0; i < OWNERS; i++)
		assert_int_equal(owners[i].state, BLOCK_OWNER_NONE);
	assert_int_equal(all.watch, 0);
	end();
}

/* The blocks of a stripe, and of the next one. At the limit of a note, too. */
static const struct place {
	const char *name;
	uint64_t at; /* where the second stripe begins */
} places[] = {
	{ "in the first stripes", STRIPE },
	{ "in the last stripe and the first one", BLOCK_STRIPES *STRIPE },
	{ "at 2^60", UINT64_C(1) << 60 },
	{ "at 2^63", UINT64_C(1) << 63 },
};

T_ROWS(reader_of_two_stripes_is_awaited_in_both, places)
{
	uint64_t at = ((const struct place *)*state)->at;

	begin();
	take('a', 1, at - 512, at + 512, BLOCK_READS);
	take('b', 0, at, at + 1024, BLOCK_ALONE);
	take('c', 0, at - 1024, at, BLOCK_ALONE);
	take('d', 2, at + 1024, at + 2048, BLOCK_ALONE);
	take('e', 2, at - 2048, at - 1024, BLOCK_ALONE);
	settle();
	assert_string_equal(order, "ade");
	assert_false(block_owner_is_awaited(&owners[0]));
	owners[0].sender = &sender;
	assert_true(block_owner_is_awaited(&owners[0]));
	drop('a');
	assert_string_equal(order, "adebc");
	for (int name = 'b'; name <= 'e'; name++)
		drop((char)name);
	end();
}

/* Whoever has no slot is in the lists. */
T_TEST(more_readers_than_slots_are_awaited)
{
	static struct block_owner many[BLOCK_MARKS * 64 + 1];

	begin();
	memset(many, 0, sizeof(many));
	for (unsigned int i = 0; i < ARRAY_SIZE(many); i++) {
		many[i].end = 512;
		many[i].use = BLOCK_READS;
		assert_true(block_owner_take(&all, &workers[0], &many[i]));
	}
	assert_int_equal(many[BLOCK_MARKS * 64 - 1].state, BLOCK_OWNER_READS);
	assert_int_equal(many[BLOCK_MARKS * 64].state, BLOCK_OWNER_HAS);
	take('a', 1, 0, 512, BLOCK_ALONE);
	take('b', 1, 512, 1024, BLOCK_ALONE);
	assert_string_equal(order, "b");
	for (unsigned int i = 0; i < ARRAY_SIZE(many); i++) {
		settle();
		assert_string_equal(order, "b");
		block_owner_drop(&many[i]);
	}
	settle();
	assert_string_equal(order, "ba");
	drop('a');
	drop('b');
	end();
}

/* A note that cannot be told from that of the reader 2^60 bytes before. */
T_TEST(reader_in_the_way_by_its_note_alone_wakes_who_waits)
{
	begin();
	take('a', 1, UINT64_C(1) << 60, (UINT64_C(1) << 60) + 512, BLOCK_READS);
	take('b', 0, 0, 512, BLOCK_ALONE);
	take('c', 0, 512, 1024, BLOCK_ALONE);
	settle();
	assert_string_equal(order, "ac");
	drop('a');
	assert_string_equal(order, "acb");
	drop('b');
	drop('c');
	end();
}

/* ---- draining ---- */

static void note_drained(struct block_drain *drain)
{
	strcat(order, "!");
}

T_TEST(drain_waits_for_those_that_have_blocks_only)
{
	static struct block_drain drain;

	begin();
	takes('a', 0, 0, 512);
	takes('b', 1, 0, 512);
	take('c', 1, 7 * STRIPE, 7 * STRIPE + 512, BLOCK_READS);
	takes('d', 1, 9 * STRIPE, 9 * STRIPE + 512);
	take('e', 1, 9 * STRIPE, 9 * STRIPE + 512, BLOCK_READS);
	block_owners_drain(&all, &workers[0], &drain, note_drained);
	takes('f', 1, 512, 1024); /* nobody waits for the drain */
	settle();
	assert_string_equal(order, "acdef");
	block_owner_drop(&owners[1]);
	drop('a');
	drop('d');
	drop('c');
	assert_string_equal(order, "acdef");
	drop('e');
	assert_string_equal(order, "acdef!");
	assert_int_equal(all.watch, 0);
	drop('f');
	end();
}

T_TEST(drain_of_nothing_ends_at_once)
{
	static struct block_drain drain;

	begin();
	block_owners_drain(&all, &workers[0], &drain, note_drained);
	assert_string_equal(order, "!");
	end();
}

/* ---- senders ---- */

static void begin_with_sender(void)
{
	begin();
	block_sender_init(&sender, sender_lives, sender_ask);
	asked = 0;
	for (unsigned int i = 0; i < 3; i++)
		owners[i].sender = &sender;
	lives = false;
}

static const struct use_case {
	const char *name;
	enum block_use use;
} use_cases[] = {
	{ "by reading", BLOCK_READS },
	{ "by changing", BLOCK_CHANGES },
	{ "alone", BLOCK_ALONE },
};

/* What it says may be old by now. */
static void sender_is_heard(void)
{
	block_sender_heard(&sender);
	settle();
}

T_TEST(sign_counts_however_late_if_nobody_has_passed)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	takes('d', 1, 1024, 2048);
	drop('d');
	sender_is_heard();
	assert_string_equal(order, "da");
	assert_int_equal(asked, 1);
	drop('a');
	end();
}

T_TEST(sign_counts_after_a_wait_for_older_ones)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	takes('b', 0, 0, 2048);
	sender_is_heard(); /* a */
	sender_is_heard(); /* b, which waits for a */
	takes('d', 1, 1024, 2048);
	assert_string_equal(order, "a");
	drop('a');
	drop('b');
	assert_string_equal(order, "abd");
	assert_int_equal(asked, 2);
	drop('d');
	end();
}

T_TEST(newer_one_passes_one_whose_sender_is_asked)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	takes('d', 1, 0, 1024);
	assert_string_equal(order, "d");
	sender_is_heard();
	assert_int_equal(asked, 2);
	sender_is_heard();
	assert_string_equal(order, "d");
	drop('d');
	assert_string_equal(order, "da");
	drop('a');
	end();
}

/* The newer one has come and gone before the older one's sender answers. */
T_TEST(sender_of_one_that_was_passed_is_asked_again)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	takes('d', 1, 512, 2048);
	drop('d');
	sender_is_heard();
	assert_string_equal(order, "d");
	sender_is_heard();
	assert_string_equal(order, "da");
	assert_int_equal(asked, 2);
	drop('a');
	end();
}

/* The newer one has to wait for it, but readers do not. */
T_TEST(reader_passes_one_that_waits_and_was_heard)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	takes('b', 0, 0, 2048);
	sender_is_heard(); /* a */
	sender_is_heard(); /* b, which waits for a */
	take('d', 1, 1024, 2048, BLOCK_READS);
	drop('d');
	assert_string_equal(order, "ad");
	drop('a');
	assert_string_equal(order, "ad");
	sender_is_heard();
	assert_string_equal(order, "adb");
	assert_int_equal(asked, 3);
	assert_false(all.watch);
	drop('b');
	end();
}

/* What it has read must not change by what was given up before. */
T_TEST(reader_passes_one_whose_sender_is_asked)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	assert_true(all.watch);
	assert_false(block_owners_have_given_up(&all));
	take('d', 1, 0, 512, BLOCK_READS);
	drop('d');
	sender_is_heard();
	assert_string_equal(order, "d");
	sender_is_heard();
	assert_string_equal(order, "da");
	assert_false(all.watch);
	drop('a');
	end();
}

/* However many there are: whoever comes after it was heard waits for it. */
T_ROWS(nobody_passes_one_twice_whose_sender_answers, use_cases)
{
	const struct use_case *row = *state;

	begin_with_sender();
	takes('a', 0, 0, 1024);
	take('d', 1, 0, 512, row->use);
	sender_is_heard();
	take('e', 1, 0, 512, row->use);
	assert_string_equal(order, "d");
	drop('d');
	assert_string_equal(order, "d");
	sender_is_heard();
	assert_string_equal(order, "da");
	assert_int_equal(asked, 2);
	drop('a');
	assert_string_equal(order, "dae");
	drop('e');
	assert_false(all.watch);
	end();
}

T_TEST(one_that_nobody_passes_any_more_goes_away)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	take('d', 1, 0, 512, BLOCK_READS);
	sender_is_heard();
	take('e', 1, 0, 512, BLOCK_READS);
	drop('d');
	assert_string_equal(order, "d");
	drop('a');
	assert_string_equal(order, "de");
	drop('e');
	assert_false(all.watch);
	end();
}

/* Its blocks were free when the older one, in whose way it was, gave them back. */
T_TEST(one_that_waited_for_one_that_asks_goes_on)
{
	begin_with_sender();
	lives = true;
	takes('d', 1, 0, 1024);
	takes('a', 0, 0, 1024);
	takes('e', 1, 0, 1024);
	lives = false;
	drop('d');
	assert_string_equal(order, "de");
	drop('e');
	drop('a');
	end();
}

/* It has not been given up, but the store must not have both. */
T_TEST(one_that_is_heard_waits_for_those_of_its_sender_that_passed_it)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	lives = true;
	takes('b', 0, 512, 2048);
	sender_is_heard();
	assert_string_equal(order, "b");
	assert_int_equal(asked, 1);
	drop('b');
	assert_string_equal(order, "ba");
	drop('a');
	end();
}

T_TEST(others_pass_one_that_wants_blocks_alone_and_asks)
{
	begin_with_sender();
	take('a', 0, 0, 1024, BLOCK_ALONE);
	take('d', 1, 0, 512, BLOCK_READS);
	take('e', 1, 512, 2048, BLOCK_ALONE);
	assert_string_equal(order, "de");
	sender_is_heard(); /* they have passed */
	sender_is_heard();
	assert_string_equal(order, "de");
	drop('d');
	assert_string_equal(order, "de");
	drop('e');
	assert_string_equal(order, "dea");
	assert_int_equal(asked, 2);
	drop('a');
	assert_int_equal(all.watch, 0);
	end();
}

T_TEST(drain_does_not_wait_for_one_that_asks)
{
	static struct block_drain drain;

	begin_with_sender();
	takes('a', 0, 0, 1024);
	block_owners_drain(&all, &workers[1], &drain, note_drained);
	assert_string_equal(order, "!");
	sender_is_heard();
	assert_string_equal(order, "!a");
	assert_int_equal(asked, 1);
	drop('a');
	end();
}

T_TEST(sign_that_was_asked_for_earlier_does_not_count)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	takes('b', 0, 1024, 2048);
	assert_int_equal(asked, 1);
	sender_is_heard();
	assert_string_equal(order, "a");
	assert_int_equal(asked, 2);
	sender_is_heard();
	assert_string_equal(order, "ab");
	drop('a');
	drop('b');
	end();
}

static void hears_again(struct block_owner *owner)
{
	if (block_owner_hear(owner, hears_again))
		note(owner);
}

/* Nobody sees what passes it: who cares asks again. */
T_TEST(what_wants_no_blocks_may_ask_for_a_new_sign)
{
	begin_with_sender();
	assert_false(block_owner_hear(&owners[0], note));
	assert_false(block_owner_hear(&owners[1], hears_again));
	sender_is_heard();
	assert_string_equal(order, "a");
	assert_int_equal(owners[0].state, BLOCK_OWNER_NONE);
	sender_is_heard();
	assert_string_equal(order, "a");
	assert_int_equal(asked, 3);
	lives = true;
	sender_is_heard();
	assert_string_equal(order, "ab");
	end();
}

/* It was heard when it came, and that was long ago when it gets its blocks. */
T_TEST(sender_is_asked_again_after_a_wait_for_blocks)
{
	begin_with_sender();
	lives = true;
	takes('d', 1, 0, 1024);
	takes('a', 0, 0, 1024);
	lives = false;
	drop('d');
	assert_string_equal(order, "d");
	takes('e', 1, 0, 1024);
	assert_string_equal(order, "de");
	drop('e');
	lives = true;
	sender_is_heard();
	sender_is_heard();
	assert_string_equal(order, "dea");
	drop('a');
	end();
}

T_TEST(readers_and_the_target_itself_are_not_asked)
{
	begin_with_sender();
	take('a', 0, 0, 1024, BLOCK_READS);
	takes('d', 0, 0, 1024);
	assert_string_equal(order, "ad");
	drop('a');
	drop('d');
	end();
}

T_TEST(one_that_leaves_is_not_called_when_its_sender_is_heard)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	takes('b', 0, 512, 2048);
	assert_false(block_owner_hear(&owners[2], note));
	assert_false(block_owner_give_up(&owners[0]));
	block_owner_drop(&owners[0]);
	lives = true;
	sender_is_heard();
	sender_is_heard();
	assert_string_equal(order, "bc");
	drop('b');
	end();
}

static void hears_and_ends(struct block_owner *owner)
{
	note(owner);
	block_owner_drop(&owners[1]);
}

T_TEST(one_that_is_heard_may_end_another)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	owners[0].has = hears_and_ends;
	takes('b', 0, 2048, 4096);
	takes('c', 0, 4096, 8192);
	sender_is_heard();
	sender_is_heard();
	assert_string_equal(order, "ac");
	drop('a');
	drop('c');
	end();
}

/* ---- threads ---- */

#define ACTORS 6
#define ROUNDS 20000
#define CELLS  16
#define CELL   (STRIPE / 4)

/* Takes and drops blocks of its own in an endless loop. */
struct actor {
	struct block_worker *w;
	struct block_owner owner;
	unsigned int rounds;
	unsigned int seed;
	struct reactor_msg msg;
	struct block_sender sender;
	struct reactor_msg answer; /* of the sender */
	bool let_in;
};

/* How many read a cell, and how many change it. */
static atomic_uint readers[CELLS];
static atomic_uint changers[CELLS];
static atomic_uint loners[CELLS];
static atomic_uint clashes;
static atomic_uint actors_left;

/* Bars the actors, drains, and lets them go on. */
static struct drainer {
	struct block_drain drain;
	struct reactor_msg msg;
} drainer;

static atomic_bool barred;
static atomic_uint inside; /* actors that were let in */

static void actor_turn(struct reactor_msg *msg);

static void use_cell(struct actor *a, uint64_t i)
{
	enum block_use use = a->owner.use;

	if (use == BLOCK_READS) {
		atomic_fetch_add(&readers[i], 1);
		clashes += loners[i] != 0;
		return;
	}
	clashes += atomic_fetch_add(&changers[i], 1) != 0;
	if (use == BLOCK_ALONE) {
		atomic_fetch_add(&loners[i], 1);
		clashes += readers[i] != 0;
	}
}

static void leave_cell(struct actor *a, uint64_t i)
{
	enum block_use use = a->owner.use;

	if (use == BLOCK_ALONE)
		atomic_fetch_sub(&loners[i], 1);
	atomic_fetch_sub(use == BLOCK_READS ? &readers[i] : &changers[i], 1);
}

/* The next turn, with the blocks still in hand. */
static void actor_leaves(struct reactor_msg *msg)
{
	struct actor *a = container_of(msg, struct actor, msg);

	for (uint64_t i = a->owner.begin / CELL;
	     a->let_in && i * CELL < a->owner.end; i++)
		leave_cell(a, i);
	inside -= a->let_in;
	if (a->seed % 8 == 0)
		block_owner_give_up(&a->owner);
	block_owner_drop(&a->owner);
	a->msg.run = actor_turn;
	reactor_send(a->w->reactor, &a->msg);
}

static void actor_has(struct block_owner *owner)
{
	struct actor *a = container_of(owner, struct actor, owner);

	a->let_in = !barred;
	inside += a->let_in;
	for (uint64_t i = owner->begin / CELL;
	     a->let_in && i * CELL < owner->end; i++)
		use_cell(a, i);
	a->msg.run = actor_leaves;
	reactor_send(a->w->reactor, &a->msg);
}

static void actor_turn(struct reactor_msg *msg)
{
	static const enum block_use uses[8] = {
		BLOCK_READS,   BLOCK_READS,   BLOCK_READS,   BLOCK_READS,
		BLOCK_CHANGES, BLOCK_CHANGES, BLOCK_CHANGES, BLOCK_ALONE,
	};
	struct actor *a = container_of(msg, struct actor, msg);
	uint64_t first = (uint64_t)rand_r(&a->seed) % (CELLS - 4);
	uint64_t cnt = 1 + (uint64_t)rand_r(&a->seed) % 4;

	if (a->rounds-- == 0) {
		actors_left--;
		return;
	}
	a->owner.begin = first * CELL;
	a->owner.end = (first + cnt) * CELL;
	a->owner.use = uses[(unsigned int)rand_r(&a->seed) % 8];
	a->owner.has = actor_has;
	if (block_owner_take(&all, a->w, &a->owner))
		actor_has(&a->owner);
}

static void drainer_drained(struct block_drain *drain)
{
	clashes += inside != 0;
	barred = false;
	reactor_send(workers[0].reactor, &drainer.msg);
}

static void drainer_turn(struct reactor_msg *msg)
{
	if (!actors_left) {
		for (unsigned int i = 0; i < WORKERS; i++)
			reactor_stop(workers[i].reactor);
		return;
	}
	barred = true;
	block_owners_drain(&all, &workers[0], &drainer.drain, drainer_drained);
}

static bool actor_lives(struct block_sender *s)
{
	struct actor *a = container_of(s, struct actor, sender);

	return (unsigned int)rand_r(&a->seed) % 4;
}

static void actor_answers(struct reactor_msg *msg)
{
	block_sender_heard(&container_of(msg, struct actor, answer)->sender);
}

static void actor_asked(struct block_sender *s)
{
	struct actor *a = container_of(s, struct actor, sender);

	reactor_send(a->w->reactor, &a->answer);
}

static void *run_worker(void *arg)
{
	struct block_worker *w = arg;

	reactor_run(w->reactor);
	return NULL;
}

T_TEST(threads_never_change_what_others_use)
{
	static struct actor actors[ACTORS];
	pthread_t threads[WORKERS];

	begin();
	clashes = 0;
	actors_left = ACTORS;
	barred = false;
	inside = 0;
	drainer = (struct drainer){ .msg.run = drainer_turn };
	reactor_send(workers[0].reactor, &drainer.msg);
	for (unsigned int i = 0; i < ACTORS; i++) {
		actors[i] = (struct actor){ .w = &workers[i % WORKERS],
					    .rounds = ROUNDS,
					    .seed = i + 1,
					    .msg.run = actor_turn,
					    .answer.run = actor_answers };
		block_sender_init(&actors[i].sender, actor_lives, actor_asked);
		actors[i].owner.sender = &actors[i].sender;
		reactor_send(actors[i].w->reactor, &actors[i].msg);
	}
	for (unsigned int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_worker,
						&workers[i]),
				 0);
	for (unsigned int i = 0; i < WORKERS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(clashes, 0);
	assert_int_equal(all.given_up, 0);
	assert_int_equal(all.watch, 0);
	end();
}
