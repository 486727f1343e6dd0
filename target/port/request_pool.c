/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/request_pool.h"

#include <assert.h>
#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/mman.h>

#include "target/port/hang.h"
#include "target/port/worker.h"
#include "base/sanitizer.h"

#define SLAB_CNT (CHANNEL_REQUESTS + 1)

#define WHOLE_PAGES(len) (((len) + 4095) / 4096 * 4096)

/* Responses come first, in pages of their own, because these are registered. */
#define RSP_LEN	 WHOLE_PAGES(SLAB_CNT *CHANNEL_RSP_SIZE)
#define SLAB_LEN (RSP_LEN + WHOLE_PAGES(SLAB_CNT * sizeof(struct request)))

void request_pool_init(struct request_pool *pool, struct worker *w)
{
	pool->worker = w;
	list_init(&pool->room);
	list_init(&pool->full);
	pool->surplus = 0;
}

/* ---- slabs ---- */

/* Pages that cost nothing before they are touched. Small pages, because few of
 * them will be. */
static uint8_t *pool_map_pages(void)
{
	void *mem = mmap(NULL, SLAB_LEN, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return NULL;
	madvise(mem, SLAB_LEN, MADV_NOHUGEPAGE);
	return mem;
}

static void slab_free(struct request_slab *slab, struct worker *w)
{
	assert(slab->out == 0);
	hang_begin_free(w);
	for (unsigned int k = 0; k < XP_KINDS; k++)
		xp_mr_free(slab->rsp_mr[k]);
	if (slab->rsp_mem) {
		ASAN_UNPOISON_MEMORY_REGION(slab->rsp_mem, SLAB_LEN);
		munmap(slab->rsp_mem, SLAB_LEN);
	}
	hang_end_free(w);
	list_del(&slab->node);
	free(slab);
}

static int slab_register_responses(struct request_slab *slab, struct worker *w,
				   struct error *e)
{
	for (unsigned int k = 0; k < XP_KINDS; k++) {
		int err = 0;

		if (w->xp[k])
			err = xp_mr_register(w->xp[k], slab->rsp_mem, RSP_LEN,
					     XP_LOCAL, &slab->rsp_mr[k], e);
		if (err)
			return err;
	}
	return 0;
}

static int slab_fill(struct request_slab *slab, struct worker *w,
		     struct error *e)
{
	slab->rsp_mem = pool_map_pages();
	if (!slab->rsp_mem) {
		error_set(e, -ENOMEM, "no memory for its requests");
		return -ENOMEM;
	}
	slab->requests = (struct request *)(void *)(slab->rsp_mem + RSP_LEN);
	return slab_register_responses(slab, w, e);
}

static int pool_add_slab(struct request_pool *pool, struct error *e)
{
	struct request_slab *slab = calloc(1, sizeof(*slab));
	int err;

	if (!slab) {
		error_set(e, -ENOMEM, "no memory for its requests");
		return -ENOMEM;
	}
	list_init(&slab->node);
	err = slab_fill(slab, pool->worker, e);
	if (err)
		slab_free(slab, pool->worker);
	else
		list_add_tail(&pool->room, &slab->node);
	return err;
}

/* ---- channels come and go ---- */

int request_pool_reserve(struct request_pool *pool, struct error *e)
{
	if (pool->surplus == 0)
		return pool_add_slab(pool, e);
	pool->surplus--;
	return 0;
}

static struct request_slab *pool_find_unused(struct request_pool *pool)
{
	struct list *it;

	list_for_each(it, &pool->room) {
		struct request_slab *slab =
			container_of(it, struct request_slab, node);

		if (slab->out == 0)
			return slab;
	}
	return NULL;
}

void request_pool_release(struct request_pool *pool)
{
	struct request_slab *slab = pool_find_unused(pool);

	if (slab)
		slab_free(slab, pool->worker);
	else
		pool->surplus++;
}

/* ---- requests ---- */

static struct request *slab_take_fresh(struct request_slab *slab,
				       struct worker *w)
{
	unsigned int i = slab->fresh++;

	request_init(&slab->requests[i], w, slab,
		     slab->rsp_mem + (size_t)i * CHANNEL_RSP_SIZE);
	return &slab->requests[i];
}

/* Of a free request, only the node may be touched. */
static void pool_poison(struct request *req)
{
	uint8_t *behind = (uint8_t *)(&req->node + 1);

	ASAN_POISON_MEMORY_REGION(req, offsetof(struct request, node));
	ASAN_POISON_MEMORY_REGION(behind,
				  (size_t)((uint8_t *)(req + 1) - behind));
}

static struct request *pool_unpoison(struct list *node)
{
	struct request *req = container_of(node, struct request, node);

	ASAN_UNPOISON_MEMORY_REGION(req, sizeof(*req));
	return req;
}

struct request *request_pool_get(struct request_pool *pool)
{
	struct request_slab *slab =
		list_first(&pool->room, struct request_slab, node);
	struct list *node;

	assert(!list_empty(&pool->room));
	if (++slab->out == SLAB_CNT) {
		list_del(&slab->node);
		list_add_tail(&pool->full, &slab->node);
	}
	node = slab->free;
	if (!node)
		return slab_take_fresh(slab, pool->worker);
	slab->free = node->next;
	list_init(node);
	return pool_unpoison(node);
}

void request_pool_put(struct request_pool *pool, struct request *req)
{
	struct request_slab *slab = req->slab;

	req->node.next = slab->free;
	slab->free = &req->node;
	pool_poison(req);
	if (slab->out-- == SLAB_CNT) {
		list_del(&slab->node);
		list_add_head(&pool->room, &slab->node);
	}
	if (slab->out == 0 && pool->surplus > 0) {
		pool->surplus--;
		slab_free(slab, pool->worker);
	}
}
