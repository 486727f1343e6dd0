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
		 bool reads)
{
	struct block_owner *owner = &owners[name - 'a'];

	owner->begin = from;
	owner->end = to;
	owner->reads = reads;
	owner->has = note;
	if (block_owner_take(&all, &workers[w], owner))
		note(owner);
}

static void takes(char name, unsigned int w, uint64_t from, uint64_t to)
{
	take(name, w, from, to, /* reads= */ false);
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
	assert_false(block_owners_concern_readers(&all));
	take('b', 1, 0, 512, /* reads= */ true);
	assert_string_equal(order, "ab");
	assert_true(block_owner_give_up(&owners[0]));
	assert_true(block_owner_give_up(&owners[0]));
	assert_true(block_owners_concern_readers(&all));
	take('c', 1, 0, 512, /* reads= */ true);
	take('d', 1, 1024, 2048, /* reads= */ true);
	takes('e', 1, 512, 2048); /* nobody waits for readers */
	assert_string_equal(order, "abd");
	drop('a');
	assert_int_equal(strlen(order), 5);
	assert_false(block_owners_concern_readers(&all));
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
	take('c', 0, 1024, 2048, /* reads= */ true);
	assert_false(block_owner_give_up(&owners[1]));
	assert_false(block_owner_give_up(&owners[2]));
	assert_false(block_owner_give_up(&owners[3]));
	drop('a');
	drop('b');
	drop('c');
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
	take('d', 1, 1024, 2048, /* reads= */ true);
	drop('d');
	assert_string_equal(order, "ad");
	drop('a');
	assert_string_equal(order, "ad");
	sender_is_heard();
	assert_string_equal(order, "adb");
	assert_int_equal(asked, 3);
	assert_false(block_owners_concern_readers(&all));
	drop('b');
	end();
}

/* What it has read must not change by what was given up before. */
T_TEST(reader_passes_one_whose_sender_is_asked)
{
	begin_with_sender();
	takes('a', 0, 0, 1024);
	assert_true(block_owners_concern_readers(&all));
	assert_false(block_owners_have_given_up(&all));
	take('d', 1, 0, 512, /* reads= */ true);
	drop('d');
	sender_is_heard();
	assert_string_equal(order, "d");
	sender_is_heard();
	assert_string_equal(order, "da");
	assert_false(block_owners_concern_readers(&all));
	drop('a');
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
	take('a', 0, 0, 1024, /* reads= */ true);
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
};

static atomic_uint users[CELLS];
static atomic_uint clashes;
static atomic_uint actors_left;

static void actor_turn(struct reactor_msg *msg);

static void actor_has(struct block_owner *owner)
{
	struct actor *a = container_of(owner, struct actor, owner);
	uint64_t first = owner->begin / CELL;
	uint64_t last = (owner->end - 1) / CELL;

	for (uint64_t i = first; i <= last; i++)
		clashes += atomic_fetch_add(&users[i], 1) != 0;
	for (uint64_t i = first; i <= last; i++)
		atomic_fetch_sub(&users[i], 1);
	if (a->seed % 8 == 0)
		block_owner_give_up(owner);
	block_owner_drop(owner);
	a->msg.run = actor_turn;
	reactor_send(a->w->reactor, &a->msg);
}

static void actor_turn(struct reactor_msg *msg)
{
	struct actor *a = container_of(msg, struct actor, msg);
	uint64_t first = (uint64_t)rand_r(&a->seed) % (CELLS - 4);
	uint64_t cnt = 1 + (uint64_t)rand_r(&a->seed) % 4;

	if (a->rounds-- == 0) {
		if (atomic_fetch_sub(&actors_left, 1) == 1)
			for (unsigned int i = 0; i < WORKERS; i++)
				reactor_stop(workers[i].reactor);
		return;
	}
	a->owner.begin = first * CELL;
	a->owner.end = (first + cnt) * CELL;
	a->owner.has = actor_has;
	if (block_owner_take(&all, a->w, &a->owner))
		actor_has(&a->owner);
}

static void *run_worker(void *arg)
{
	struct block_worker *w = arg;

	reactor_run(w->reactor);
	return NULL;
}

T_TEST(threads_never_have_the_same_blocks)
{
	static struct actor actors[ACTORS];
	pthread_t threads[WORKERS];

	begin();
	clashes = 0;
	actors_left = ACTORS;
	for (unsigned int i = 0; i < ACTORS; i++) {
		actors[i] = (struct actor){ .w = &workers[i % WORKERS],
					    .rounds = ROUNDS,
					    .seed = i + 1,
					    .msg.run = actor_turn };
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
	assert_int_equal(all.asking, 0);
	end();
}
