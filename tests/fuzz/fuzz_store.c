/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz_store.h"

#include "tests/fuzz/fuzz.h"

#define HELD_MAX 512
#define EXTENT	 8192u

static struct {
	struct backend base;
	uint8_t bytes[FUZZ_STORE_SIZE];
	bool is_dirty;
	bool hold;
	struct block_request *held[HELD_MAX];
	unsigned long long number[HELD_MAX]; /* of those */
	unsigned int held_cnt;
	unsigned long long cnt;
	unsigned int fail_cnt;
	int fail_with;
	uint64_t measures;
} store;

static void find_extent(struct block_request *req)
{
	uint64_t left = EXTENT - req->offset % EXTENT;

	req->extent_mapped = req->offset / EXTENT % 2 == 0;
	req->extent_len = left < req->len ? left : req->len;
}

static void carry_out(struct block_request *req)
{
	uint8_t *at = store.bytes + req->offset;

	switch (req->op) {
	case BLOCK_READ:
		memcpy(req->buf, at, req->len);
		break;
	case BLOCK_WRITE:
		memcpy(at, req->buf, req->len);
		store.is_dirty = true;
		break;
	case BLOCK_FLUSH:
		break;
	case BLOCK_UNMAP:
	case BLOCK_ZERO:
		memset(at, 0, req->len);
		break;
	case BLOCK_EXTENT:
		find_extent(req);
		break;
	}
	req->progress = req->len;
}

static void finish(struct block_request *req, int res)
{
	if (!res && store.fail_cnt) {
		store.fail_cnt--;
		res = store.fail_with;
	}
	if (!res)
		carry_out(req);
	req->done(req, res);
}

static void store_submit(struct backend *be, struct block_request *req)
{
	FUZZ_CLAIM(req->offset <= FUZZ_STORE_SIZE &&
		   req->len <= FUZZ_STORE_SIZE - req->offset);
	FUZZ_CLAIM(req->offset % 512 == 0 && req->len % 512 == 0);
	store.cnt++;
	if (!store.hold || store.held_cnt == HELD_MAX) {
		finish(req, 0);
		return;
	}
	store.number[store.held_cnt] = store.cnt;
	store.held[store.held_cnt++] = req;
}

unsigned long long fuzz_store_cnt(void)
{
	return store.cnt;
}

bool fuzz_store_changes_since(unsigned long long cnt)
{
	for (unsigned int i = 0; i < store.held_cnt; i++) {
		enum block_op op = store.held[i]->op;

		if (store.number[i] <= cnt &&
		    (op == BLOCK_WRITE || op == BLOCK_UNMAP ||
		     op == BLOCK_ZERO))
			return true;
	}
	return false;
}

void fuzz_store_answer(unsigned int nth, int res)
{
	struct block_request *req = store.held[nth];

	store.held_cnt--;
	memmove(&store.held[nth], &store.held[nth + 1],
		(store.held_cnt - nth) * sizeof(store.held[0]));
	memmove(&store.number[nth], &store.number[nth + 1],
		(store.held_cnt - nth) * sizeof(store.number[0]));
	finish(req, res);
}

unsigned int fuzz_store_held(void)
{
	return store.held_cnt;
}

void fuzz_store_hold(bool hold)
{
	store.hold = hold;
}

void fuzz_store_fail(unsigned int cnt, int res)
{
	store.fail_cnt = cnt;
	store.fail_with = res;
}

void fuzz_store_measures(uint64_t size)
{
	store.measures = size;
}

static int store_measure(struct backend *be, uint64_t *ret_size)
{
	*ret_size = store.measures;
	return 0;
}

/* Half of it at first: it can grow. */
static int store_open(const struct backend_options *opt, struct backend **ret,
		      struct error *e)
{
	if (store.is_dirty)
		memset(store.bytes, 0, sizeof(store.bytes));
	store.is_dirty = false;
	store.hold = false;
	store.fail_cnt = 0;
	store.measures = FUZZ_STORE_SIZE / 2;
	store.base.ops = &fuzz_store_ops;
	store.base.info = (struct backend_info){
		.kind = "test",
		.size = FUZZ_STORE_SIZE / 2,
		.min_block = 512,
		.optimal_block = 4096,
		.unmap_granularity = 4096,
		.unmap_zeroes = true,
		.volatile_cache = true,
		.fua = true,
		.atomic_len = 4096,
		.read_cache = true,
		.zero = true,
		.extents = true,
	};
	*ret = &store.base;
	return 0;
}

static void store_close(struct backend *be)
{
	FUZZ_CLAIM(!store.held_cnt);
}

const struct backend_ops fuzz_store_ops = {
	.name = "test",
	.open = store_open,
	.close = store_close,
	.submit = store_submit,
	.measure = store_measure,
};
