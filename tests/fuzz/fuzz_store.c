/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz_store.h"

#include "tests/fuzz/fuzz.h"
#include "tests/lib/t_store.h"

#define EXTENT 8192u

static struct {
	uint8_t bytes[FUZZ_STORE_SIZE];
	bool is_dirty;
	bool hold;
	struct t_store_held held;
	unsigned long long number[T_STORE_HELD_MAX]; /* numbers of these
						      * requests */
	unsigned long long cnt;
	unsigned int fail_cnt;
	int fail_with;
	uint64_t measures;
} store;

static void finish(struct rbp_io *io, int res)
{
	if (!res && store.fail_cnt) {
		store.fail_cnt--;
		res = store.fail_with;
	}
	if (!res) {
		t_store_carry_out(store.bytes, EXTENT, io);
		store.is_dirty |= io->op == RBP_WRITE;
	}
	block_io_done(io, res);
}

static void store_submit(void *v, struct rbp_io *io)
{
	FUZZ_CLAIM(io->offset <= FUZZ_STORE_SIZE &&
		   io->len <= FUZZ_STORE_SIZE - io->offset);
	FUZZ_CLAIM(io->offset % 512 == 0 && io->len % 512 == 0);
	store.cnt++;
	if (!store.hold || store.held.cnt == T_STORE_HELD_MAX) {
		finish(io, 0);
		return;
	}
	store.number[store.held.cnt] = store.cnt;
	t_store_hold(&store.held, io);
}

unsigned long long fuzz_store_cnt(void)
{
	return store.cnt;
}

bool fuzz_store_changes_since(unsigned long long cnt)
{
	for (unsigned int i = 0; i < store.held.cnt; i++) {
		enum rbp_op op = store.held.io[i]->op;

		if (store.number[i] <= cnt &&
		    (op == RBP_WRITE || op == RBP_UNMAP || op == RBP_ZERO))
			return true;
	}
	return false;
}

void fuzz_store_answer(unsigned int nth, int res)
{
	struct rbp_io *io = t_store_take(&store.held, nth);

	memmove(&store.number[nth], &store.number[nth + 1],
		(store.held.cnt - nth) * sizeof(store.number[0]));
	finish(io, res);
}

unsigned int fuzz_store_held(void)
{
	return store.held.cnt;
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

static int store_measure(void *v, uint64_t *ret_size)
{
	*ret_size = store.measures;
	return 0;
}

/* The store has half of its size at first, so that it can grow. */
static int store_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	if (store.is_dirty)
		memset(store.bytes, 0, sizeof(store.bytes));
	store.is_dirty = false;
	store.hold = false;
	store.fail_cnt = 0;
	store.measures = FUZZ_STORE_SIZE / 2;
	info->caps = RBP_CAN_WRITE | RBP_CAN_FLUSH | RBP_CAN_FUA |
		     RBP_CAN_UNMAP | RBP_CAN_ZERO | RBP_CAN_EXTENT |
		     RBP_WRITE_CACHE | RBP_UNMAP_ZEROES | RBP_READ_CACHE;
	info->bytes = FUZZ_STORE_SIZE / 2;
	info->block_size = 512;
	info->unmap_granularity = 4096;
	info->atomic_write = 4096;
	return 0;
}

static void store_close(void *v)
{
	FUZZ_CLAIM(!store.held.cnt);
}

const struct backend_type fuzz_store_type = {
	.plugin = {
		.size = sizeof(struct rbp_plugin),
		.name = "test",
		.open = store_open,
		.close = store_close,
		.submit = store_submit,
		.measure = store_measure,
	},
};
