/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz_store.h"

#include "tests/fuzz/fuzz.h"

#define HELD_MAX 512
#define EXTENT	 8192u

static struct {
	uint8_t bytes[FUZZ_STORE_SIZE];
	bool is_dirty;
	bool hold;
	struct rbp_io *held[HELD_MAX];
	unsigned long long number[HELD_MAX]; /* of those */
	unsigned int held_cnt;
	unsigned long long cnt;
	unsigned int fail_cnt;
	int fail_with;
	uint64_t measures;
} store;

static void find_extent(struct rbp_io *io)
{
	uint64_t left = EXTENT - io->offset % EXTENT;

	io->extent_mapped = io->offset / EXTENT % 2 == 0;
	io->extent_len = left < io->len ? left : io->len;
}

static void carry_out(struct rbp_io *io)
{
	uint8_t *at = store.bytes + io->offset;

	switch (io->op) {
	case RBP_READ:
		memcpy(io->buf, at, io->len);
		break;
	case RBP_WRITE:
		memcpy(at, io->buf, io->len);
		store.is_dirty = true;
		break;
	case RBP_FLUSH:
		break;
	case RBP_UNMAP:
	case RBP_ZERO:
		memset(at, 0, io->len);
		break;
	case RBP_EXTENT:
		find_extent(io);
		break;
	}
	io->progress = io->len;
}

static void finish(struct rbp_io *io, int res)
{
	if (!res && store.fail_cnt) {
		store.fail_cnt--;
		res = store.fail_with;
	}
	if (!res)
		carry_out(io);
	block_io_done(io, res);
}

static void store_submit(void *v, struct rbp_io *io)
{
	FUZZ_CLAIM(io->offset <= FUZZ_STORE_SIZE &&
		   io->len <= FUZZ_STORE_SIZE - io->offset);
	FUZZ_CLAIM(io->offset % 512 == 0 && io->len % 512 == 0);
	store.cnt++;
	if (!store.hold || store.held_cnt == HELD_MAX) {
		finish(io, 0);
		return;
	}
	store.number[store.held_cnt] = store.cnt;
	store.held[store.held_cnt++] = io;
}

unsigned long long fuzz_store_cnt(void)
{
	return store.cnt;
}

bool fuzz_store_changes_since(unsigned long long cnt)
{
	for (unsigned int i = 0; i < store.held_cnt; i++) {
		enum rbp_op op = store.held[i]->op;

		if (store.number[i] <= cnt &&
		    (op == RBP_WRITE || op == RBP_UNMAP || op == RBP_ZERO))
			return true;
	}
	return false;
}

void fuzz_store_answer(unsigned int nth, int res)
{
	struct rbp_io *io = store.held[nth];

	store.held_cnt--;
	memmove(&store.held[nth], &store.held[nth + 1],
		(store.held_cnt - nth) * sizeof(store.held[0]));
	memmove(&store.number[nth], &store.number[nth + 1],
		(store.held_cnt - nth) * sizeof(store.number[0]));
	finish(io, res);
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

static int store_measure(void *v, uint64_t *ret_size)
{
	*ret_size = store.measures;
	return 0;
}

/* Half of it at first: it can grow. */
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
	FUZZ_CLAIM(!store.held_cnt);
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
