/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Holds on blocks over several workers. Rows are scripts of takes and drops on
 * two workers whose reactors run alternately on one thread. The last test has
 * real threads.
 */
#include "target/block/block_lock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/lib/t_table.h"

#define WORKERS 2
#define HOLDS	26

static struct block_locks locks;
static struct block_worker workers[3];
static struct block_hold holds[HOLDS];
static char order[64]; /* letters of the holds, in the order of their grants */

static void note(struct block_hold *hold)
{
	size_t n = strlen(order);

	order[n] = (char)('a' + (hold - holds));
	order[n + 1] = '\0';
}

static void open_workers(unsigned int cnt)
{
	struct reactor_options opt = { .ring_entries = 8 };

	block_locks_init(&locks);
	for (unsigned int i = 0; i < cnt; i++) {
		workers[i].index = i;
		assert_int_equal(reactor_create(&opt, &workers[i].reactor), 0);
		block_locks_attach(&locks, &workers[i]);
	}
	memset(holds, 0, sizeof(holds));
	memset(order, 0, sizeof(order));
}

static void close_workers(unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++)
		block_locks_detach(&locks, &workers[i]);
	for (unsigned int i = 0; i < cnt; i++)
		reactor_destroy(workers[i].reactor);
}

/* Runs the workers until no worker has anything to do. */
static void settle(void)
{
	int did;

	do {
		did = 0;
		for (unsigned int i = 0; i < WORKERS; i++)
			did += reactor_run_once(workers[i].reactor, 0);
	} while (did > 0);
}

/*
 * A script. "a0s03": hold a on worker 0 takes blocks 0 to 3 shared ('x':
 * exclusively). "-a" drops it. A blank lets all workers finish. "=ab": the
 * holds granted so far, in order.
 */
struct script {
	const char *name;
	const char *text;
};

static const char *take(const char *p)
{
	struct block_hold *hold = &holds[p[0] - 'a'];

	*hold = (struct block_hold){ .begin = (uint64_t)(p[3] - '0'),
				     .end = (uint64_t)(p[4] - '0') + 1,
				     .exclusive = p[2] == 'x',
				     .held = note };
	if (block_hold_take(&locks, &workers[p[1] - '0'], hold))
		note(hold);
	return p + 5;
}

static const char *compare(const char *p)
{
	size_t n = strcspn(p, " -");
	char want[64] = "";

	memcpy(want, p, n);
	assert_string_equal(order, want);
	return p + n;
}

static const struct script scripts[] = {
	{ "shared ones do not wait", "a0s03b0s12c1s09=abc-a-b-c" },
	{ "an exclusive one alone, of the granter's worker", "a0x03 =a-a" },
	{ "an exclusive one alone, of another worker", "a1x03= =a-a" },
	{ "exclusive after shared, same worker", "a0s03b0x22 =a-a =ab-b" },
	{ "exclusive after shared, other worker", "a1s03b0x22 =a-a =ab-b" },
	{ "exclusive after shared ones of both",
	  "a1s03b0s24c1x22 =ab-a =ab-b =abc-c" },
	{ "exclusive elsewhere does not wait", "a1s03b0x44 =ab-a-b" },
	{ "adjacent ranges do not overlap", "a1s03b0s55c0x44 =abc-a-b-c" },
	{ "shared after exclusive waits", "a0x22 b0s03c1s22 =a-a =abc-b-c" },
	{ "shared elsewhere passes an exclusive one",
	  "a0x22 b0s01c1s33 =abc-a-b-c" },
	{ "shared does not overtake an exclusive one that waits",
	  "a1s22b0x22 c1s22 =a-a =ab-b =abc-c" },
	{ "exclusive ones in the order of asking",
	  "a0x22 b0x22c0x22 =a-a =ab-b =abc-c" },
	{ "exclusive ones one at a time, of any range",
	  "a0x22 b1x44 =a-a =ab-b" },
	{ "those that waited go before the next exclusive one",
	  "a0x22 b0x22c1s22 =a-a =ac-c =acb-b" },
	{ "one that waits and gives up", "a0x22 b1s22 -b-a =a" },
	{ "one that is dropped twice", "a0s22-a-ab0x22 =ab-b" },
	{ "memory of a dropped exclusive one is free at once",
	  "a1x22 -aa1x33 =aa-a" },
	{ "exclusive is not deceived by other blocks that are let go",
	  "a0s00b0s22c1x22 =ab-a =ab-b =abc-c" },
	{ "an exclusive one waits only for its own blocks",
	  "a0s00b1s22c0s44d1x22 =abc-b =abcd-a-c-d" },
};

T_ROWS(script, scripts)
{
	const struct script *s = *state;
	const char *p = s->text;

	open_workers(WORKERS);
	while (*p) {
		if (*p == ' ')
			settle(), p++;
		else if (*p == '=')
			p = compare(p + 1);
		else if (*p == '-')
			block_hold_drop(&holds[p[1] - 'a']), p += 2;
		else
			p = take(p);
	}
	settle();
	for (unsigned int i = 0; i < HOLDS; i++)
		assert_int_equal(holds[i].state, BLOCK_HOLD_NONE);
	close_workers(WORKERS);
}

/* ---- recursion ---- */

static unsigned int chained;

static void drop_at_once(struct block_hold *hold)
{
	chained++;
	block_hold_drop(hold);
}

/* Each hold is granted, and drops, when the one before it drops. */
T_TEST(long_queue_needs_no_stack)
{
	enum {
		CNT = 200000
	};
	struct block_hold *many = calloc(CNT, sizeof(*many));
	struct block_hold first = { .begin = 0, .end = 1, .held = note };

	assert_non_null(many);
	open_workers(WORKERS);
	assert_true(block_hold_take(&locks, &workers[0], &first));
	chained = 0;
	for (unsigned int i = 0; i < CNT; i++) {
		many[i] = (struct block_hold){ .begin = 0,
					       .end = 1,
					       .exclusive = i % 2,
					       .held = drop_at_once };
		if (block_hold_take(&locks, &workers[0], &many[i]))
			block_hold_drop(&many[i]), chained++;
	}
	block_hold_drop(&first);
	settle();
	assert_int_equal(chained, CNT);
	close_workers(WORKERS);
	free(many);
}

/* ---- threads ---- */

#define THREADS 3
#define ROUNDS	3000
#define CELLS	8

/* Each thread takes and drops holds of its own in an endless loop. */
struct actor {
	struct block_worker *w;
	struct block_hold hold;
	unsigned int rounds;
	unsigned int seed;
	bool again; /* held(): the loop goes on */
	bool running;
	pthread_t thread;
};

static unsigned int cells[CELLS]; /* guarded by the holds */
static atomic_uint torn;
static atomic_uint actors_left;

static void act(struct actor *a);

/* An exclusive hold finds its cells equal, and leaves them equal. */
static void change(const struct block_hold *hold)
{
	for (uint64_t i = hold->begin; i < hold->end; i++)
		torn += cells[i] != cells[hold->begin];
	for (uint64_t i = hold->begin; i < hold->end; i++)
		cells[i]++;
}

static void look(const struct block_hold *hold)
{
	for (uint64_t i = hold->begin; i < hold->end; i++)
		torn += cells[i] != cells[hold->begin];
}

static void actor_held(struct block_hold *hold)
{
	struct actor *a = container_of(hold, struct actor, hold);

	if (hold->exclusive)
		change(hold);
	else
		look(hold);
	block_hold_drop(hold);
	a->again = true;
	if (!a->running)
		act(a);
}

static void stop_all(void)
{
	for (unsigned int i = 0; i < THREADS; i++)
		reactor_stop(workers[i].reactor);
}

static void act(struct actor *a)
{
	a->running = true;
	a->again = true;
	while (a->again && a->rounds > 0) {
		uint64_t begin = rand_r(&a->seed) % 2 * (CELLS / 2);

		a->rounds--;
		a->again = false;
		a->hold =
			(struct block_hold){ .begin = begin,
					     .end = begin + CELLS / 2,
					     .exclusive =
						     rand_r(&a->seed) % 4 == 0,
					     .held = actor_held };
		if (block_hold_take(&locks, a->w, &a->hold))
			actor_held(&a->hold);
	}
	a->running = false;
	if (a->again && a->rounds == 0 && --actors_left == 0)
		stop_all();
}

struct start_msg {
	struct reactor_msg msg;
	struct actor *actor;
};

static void start_actor(struct reactor_msg *msg)
{
	act(container_of(msg, struct start_msg, msg)->actor);
}

static void *run_worker(void *arg)
{
	struct block_worker *w = arg;

	reactor_run(w->reactor);
	return NULL;
}

T_TEST(threads_never_see_half_a_change)
{
	static struct actor actors[2 * THREADS];
	static struct start_msg starts[2 * THREADS];
	pthread_t threads[THREADS];

	open_workers(THREADS);
	memset(cells, 0, sizeof(cells));
	actors_left = 2 * THREADS;
	for (unsigned int i = 0; i < 2 * THREADS; i++) {
		actors[i] = (struct actor){ .w = &workers[i % THREADS],
					    .rounds = ROUNDS,
					    .seed = i };
		starts[i].msg.run = start_actor;
		starts[i].actor = &actors[i];
		reactor_send(actors[i].w->reactor, &starts[i].msg);
	}
	for (unsigned int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, run_worker,
						&workers[i]),
				 0);
	for (unsigned int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(torn, 0);
	assert_true(cells[0] > 0);
	close_workers(THREADS);
}
