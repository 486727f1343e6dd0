/* SPDX-License-Identifier: BSD-2-Clause */
/* The requests that the channels of a worker share. */
#include "tests/lib/t_table.h"

#include "target/port/request.h"
#include "target/port/worker.h"

#define SLAB (CHANNEL_REQUESTS + 1)

static struct worker worker; /* without a transport */
static struct request_pool *const pool = &worker.requests;
static struct request *out[4 * SLAB];

static void start(unsigned int logins)
{
	struct error e;

	request_pool_init(pool, &worker);
	for (unsigned int i = 0; i < logins; i++)
		assert_int_equal(request_pool_reserve(pool, &e), 0);
}

static void get(unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++)
		out[i] = request_pool_get(pool);
}

static void put(unsigned int from, unsigned int to)
{
	for (unsigned int i = from; i < to; i++)
		request_pool_put(pool, out[i]);
}

static unsigned int length(const struct list *l)
{
	unsigned int cnt = 0;
	struct list *it;

	list_for_each(it, l)
		cnt++;
	return cnt;
}

static unsigned int slabs(void)
{
	return length(&pool->room) + length(&pool->full);
}

T_TEST(everyone_gets_what_he_reserved)
{
	start(3);
	get(0, 3 * SLAB);
	for (unsigned int i = 0; i < 3 * SLAB; i++) {
		assert_int_equal(out[i]->state, REQUEST_FREE);
		out[i]->tag = i;
		memset(out[i]->rsp, (int)i & 0xff, CHANNEL_RSP_SIZE);
	}
	for (unsigned int i = 0; i < 3 * SLAB; i++) {
		assert_int_equal(out[i]->tag, i);
		assert_int_equal(out[i]->rsp[0], i & 0xff);
		assert_int_equal(out[i]->rsp[CHANNEL_RSP_SIZE - 1], i & 0xff);
	}
	put(0, 3 * SLAB);
	for (unsigned int i = 0; i < 3; i++)
		request_pool_release(pool);
	assert_int_equal(slabs(), 0);
}

T_TEST(the_last_one_is_used_again)
{
	struct request *first;

	start(40);
	first = request_pool_get(pool);
	for (unsigned int i = 0; i < 1000; i++) {
		request_pool_put(pool, first);
		assert_ptr_equal(request_pool_get(pool), first);
	}
	request_pool_put(pool, first);
	for (unsigned int i = 0; i < 40; i++)
		request_pool_release(pool);
	assert_int_equal(slabs(), 0);
}

T_TEST(memory_goes_with_the_login)
{
	start(3);
	get(0, 10);
	request_pool_release(pool);
	request_pool_release(pool);
	assert_int_equal(slabs(), 1);
	put(0, 10);
	request_pool_release(pool);
	assert_int_equal(slabs(), 0);
}

/* One login leaves while those that remain use the memory of both. */
T_TEST(what_is_in_use_stays)
{
	start(2);
	get(0, SLAB + 10);
	put(10, SLAB);
	request_pool_release(pool);
	assert_int_equal(slabs(), 2);
	out[0]->tag = 1;
	out[SLAB]->tag = 2;
	put(0, 10);
	assert_int_equal(slabs(), 1);
	assert_int_equal(out[SLAB]->tag, 2);
	put(SLAB, SLAB + 10);
	request_pool_release(pool);
	assert_int_equal(slabs(), 0);
}

T_TEST(a_login_takes_over_what_another_left)
{
	struct error e;

	start(2);
	get(0, SLAB + 10);
	put(10, SLAB);
	request_pool_release(pool);
	assert_int_equal(request_pool_reserve(pool, &e), 0);
	assert_int_equal(slabs(), 2);
	get(10, SLAB);
	get(SLAB + 10, 2 * SLAB);
	put(0, 2 * SLAB);
	request_pool_release(pool);
	request_pool_release(pool);
	assert_int_equal(slabs(), 0);
}
