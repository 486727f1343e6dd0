/* SPDX-License-Identifier: BSD-2-Clause */
/* The layer that makes block requests fail, above a store that logs the
 * requests it gets. */
#include "target/block/layer_fault.h"

#include "tests/lib/t_store.h"
#include "tests/lib/t_table.h"

#include <errno.h>
#include <string.h>

#include "config.h"
#include "target/block/plugin_load.h"
#include "target/scsi/volume.h"

#define BLOCK	     512u
#define BLOCKS	     64u
#define BUF	     (8 * BLOCK)
#define REQUESTS_MAX 24

/* ---- the grammar ---- */

#define R_OP	 (1u << RBP_READ)
#define W_OP	 (1u << RBP_WRITE)
#define F_OP	 (1u << RBP_FLUSH)
#define UZ_OP	 (1u << RBP_UNMAP | 1u << RBP_ZERO)
#define X_OP	 (1u << RBP_EXTENT)
#define ALL_LBAS .last_lba = UINT64_MAX

static const struct rule_row {
	const char *name;
	struct fault_rule want;
} rules[] = {
	{ "write:error", { FAULT_ERROR, W_OP, -EIO, 0, ALL_LBAS, .every = 1 } },
	{ "flush:error=ENOSPC",
	  { FAULT_ERROR, F_OP, -ENOSPC, 0, ALL_LBAS, .every = 1 } },
	{ "any:error=ENODEV:lba=7",
	  { FAULT_ERROR, R_OP | W_OP | UZ_OP | X_OP, -ENODEV, 0, 7, 7,
	    .every = 1 } },
	{ "read:delay=250:chance=12.5%:seed=9",
	  { FAULT_DELAY, R_OP, 0, 250, ALL_LBAS, .every = 1, .chance = 0.125,
	    .seed = 9 } },
	{ "any:short",
	  { FAULT_SHORT, R_OP | W_OP | UZ_OP, 0, 0, ALL_LBAS, .every = 1 } },
	{ "write:torn:lba=100-199:after=3:every=10:count=2",
	  { FAULT_TORN, W_OP, 0, 0, 100, 199, .after = 3, .every = 10,
	    .count = 2 } },
	{ "any:corrupt",
	  { FAULT_CORRUPT, R_OP | W_OP, 0, 0, ALL_LBAS, .every = 1 } },
	{ "unmap:stuck:count=1",
	  { FAULT_STUCK, 1u << RBP_UNMAP, 0, 0, ALL_LBAS, .every = 1,
	    .count = 1 } },
};

T_ROWS(rule_is_read, rules)
{
	const struct rule_row *row = *state;
	struct fault_rule rule;
	struct error e;

	assert_true(fault_rule_parse(row->name, &rule, &e));
	assert_int_equal(rule.kind, row->want.kind);
	assert_int_equal(rule.ops, row->want.ops);
	assert_int_equal(rule.err, row->want.err);
	assert_int_equal(rule.ms, row->want.ms);
	assert_true(rule.first_lba == row->want.first_lba);
	assert_true(rule.last_lba == row->want.last_lba);
	assert_true(rule.after == row->want.after);
	assert_true(rule.every == row->want.every);
	assert_true(rule.chance == row->want.chance);
	assert_true(rule.seed == row->want.seed);
	assert_true(rule.count == row->want.count);
}

static const struct bad_rule_row {
	const char *name;
	const char *complaint;
} bad_rules[] = {
	{ "", "'' is not an operation" },
	{ "erase:error", "'erase' is not an operation" },
	{ "write", "has no fault" },
	{ "write:eror", "'eror' is not a fault" },
	{ "write:error=EFOO", "'EFOO' is not an error" },
	{ "write:delay", "milliseconds" },
	{ "write:delay=x", "'x' is not a number of milliseconds" },
	{ "write:delay=3600001", "an hour at most" },
	{ "flush:short", "'short' cannot happen to that operation" },
	{ "read:torn", "'torn' cannot happen" },
	{ "read:stuck=4", "'4' is a value, and this fault has none" },
	{ "flush:error:lba=4", "a flush has none" },
	{ "read:error:lba=9-8", "'9-8' is not a block" },
	{ "read:error:lba=-8", "'-8' is not a block" },
	{ "read:error:lba=8-", "'8-' is not a block" },
	{ "read:error:lba", "'lba' is not a condition" },
	{ "read:error:every=0", "'0' is not a number above 0" },
	{ "read:error:count=-1", "'-1' is not a number" },
	{ "read:error:chance=5", "'5' is not a chance" },
	{ "read:error:chance=101%", "'101%' is not a chance" },
	{ "read:error:chance=0%", "'0%' is not a chance" },
	{ "read:error:chance=5%:every=2", "exclude each other" },
	{ "read:error:sometimes=1", "'sometimes' is not a condition" },
#if !FAULT_INJECTION
	{ "flush:lie", "'lie' is not a fault" },
	{ "write:stale=5", "'stale' is not a fault" },
#endif
};

T_ROWS(bad_rule_is_refused, bad_rules)
{
	const struct bad_rule_row *row = *state;
	struct fault_rule rule;
	struct error e = { 0 };

	assert_false(fault_rule_parse(row->name, &rule, &e));
	if (!strstr(e.text, row->complaint))
		fail_msg("the message is: %s", e.text);
}

/* ---- which requests a fault hits ---- */

static const struct hit_row {
	const char *name; /* the rule */
	/* r w f u z: an operation on block 0, or on the block given by the
	 * digit that follows */
	const char *requests;
	const char *hits; /* x: the fault hits this request */
} hit_rows[] = {
	{ "write:error", "rwfuz", ".x..." },
	{ "any:error", "rwfuz", "xxxxx" },
	{ "any:error:lba=3", "r3r4w3f", "x.x." },
	{ "read:error:lba=2-4", "r1r2r3r4r5", ".xxx." },
	{ "write:error:every=3", "wwwrwwww", "..x...x." },
	{ "write:error:after=2", "wwww", "..xx" },
	{ "write:error:after=2:every=2", "wwwwww", "...x.x" },
	{ "write:error:count=2", "wwww", "xx.." },
	{ "write:error:after=1:count=1", "wrww", "..x." },
	{ "write:error:every=2:count=1", "wwwww", ".x..." },
	{ "write:error:chance=100%", "www", "xxx" },
};

T_ROWS(the_right_requests_are_hit, hit_rows)
{
	const struct hit_row *row = *state;
	struct fault_tally tally = { 0 };
	struct fault_rule rule;
	char got[REQUESTS_MAX] = "";
	struct error e;
	uint64_t pick;

	assert_true(fault_rule_parse(row->name, &rule, &e));
	for (const char *c = row->requests; *c; c++) {
		static const char letters[] = "rwfuz";
		struct rbp_io io = { .len = BLOCK };

		io.op = (enum rbp_op)(strchr(letters, *c) - letters + RBP_READ);
		if (c[1] >= '0' && c[1] <= '9')
			io.offset = (uint64_t)(*++c - '0') * BLOCK;
		strcat(got, fault_rule_hits(&rule, &tally, &io, BLOCK, &pick)
				    ? "x"
				    : ".");
	}
	assert_string_equal(got, row->hits);
}

static unsigned int hits_of(const char *text, uint64_t *map)
{
	struct rbp_io io = { .op = RBP_WRITE, .len = BLOCK };
	struct fault_tally tally = { 0 };
	struct fault_rule rule;
	unsigned int cnt = 0;
	struct error e;
	uint64_t pick;

	*map = 0;
	assert_true(fault_rule_parse(text, &rule, &e));
	for (unsigned int i = 0; i < 4096; i++) {
		if (!fault_rule_hits(&rule, &tally, &io, BLOCK, &pick))
			continue;
		cnt++;
		*map = *map * 31 + i;
	}
	return cnt;
}

T_TEST(a_seed_gives_the_same_hits_again)
{
	uint64_t one;
	uint64_t again;
	uint64_t other;
	unsigned int cnt = hits_of("write:error:chance=10%:seed=1", &one);

	assert_true(cnt > 4096 / 20 && cnt < 4096 / 5);
	hits_of("write:error:chance=10%:seed=1", &again);
	hits_of("write:error:chance=10%:seed=2", &other);
	assert_true(one == again);
	assert_true(one != other);
}

/* ---- the layer ---- */

struct answer {
	struct block_io bio;
	unsigned int cnt;
	int res;
};

static struct {
	struct block_worker worker;
	struct backend *be;
	uint8_t *buf;
	struct answer answers[8];
} bench;

static void answered(struct block_io *bio, int res)
{
	struct answer *a = container_of(bio, struct answer, bio);

	a->cnt++;
	a->res = res;
}

/* Block n of the store is full of n. */
static void fill_store(void)
{
	for (unsigned int i = 0; i < BLOCKS; i++)
		memset(t_store.bytes + (size_t)i * BLOCK, (int)i, BLOCK);
}

/* Makes bench.be the backend with the faults. */
static void add_faults(const struct fault_rule *faulty, unsigned int cnt)
{
	const struct fault_options faults = { .rules = faulty,
					      .cnt = cnt,
					      .volume = "vol" };
	const struct backend_options opt = { .path = "vol",
					     .below = bench.be,
					     .faults = &faults,
					     .block_size = BLOCK };
	struct error e = { 0 };

	assert_int_equal(backend_open(&backend_fault, &opt, &bench.be, &e), 0);
}

static void open_store(void)
{
	static const struct backend_options opt = { .path = "store",
						    .block_size = BLOCK };
	struct error e = { 0 };

	assert_int_equal(backend_open(&t_store_type, &opt, &bench.be, &e), 0);
	fill_store();
}

static void start_with(const char *const *texts, unsigned int cnt)
{
	struct reactor_options ropt = { 0 };
	struct fault_rule all[FAULT_RULES_MAX];
	struct error e = { 0 };

	t_store_reset(&(struct backend_info){
		.size = BLOCKS * BLOCK,
		.min_block = BLOCK,
		.unmap_granularity = BLOCK,
		.zero = true,
		.extents = true,
		.durability = RBP_STABLE_AFTER_FLUSH,
		.atomic_len = 4096,
	});
	t_store.extent_unit = BLOCK;
	open_store();
	for (unsigned int i = 0; i < cnt; i++)
		assert_true(fault_rule_parse(texts[i], &all[i], &e));
	add_faults(all, cnt);
	assert_int_equal(reactor_create(&ropt, &bench.worker.reactor), 0);
	assert_int_equal(backend_attach(bench.be, &bench.worker), 0);
	bench.buf = aligned_alloc(4096, BUF);
	memset(bench.buf, 0xbb, BUF);
}

static void start(const char *text)
{
	start_with(&text, 1);
}

static void finish_layers(void)
{
	backend_detach(bench.be, &bench.worker);
	backend_close(bench.be);
}

static void finish(void)
{
	finish_layers();
	reactor_destroy(bench.worker.reactor);
	free(bench.buf);
	memset(&bench, 0, sizeof(bench));
}

static struct answer *submit(unsigned int slot, enum rbp_op op,
			     unsigned int lba, unsigned int blocks)
{
	struct answer *a = &bench.answers[slot];
	bool has_data = op == RBP_READ || op == RBP_WRITE;

	*a = (struct answer){ .bio = {
				      .io.op = op,
				      .io.offset = (uint64_t)lba * BLOCK,
				      .io.len = (uint64_t)blocks * BLOCK,
				      .io.buf = has_data ? bench.buf : NULL,
				      .buf_index = -1,
				      .worker = &bench.worker,
				      .done = answered,
			      } };
	block_io_submit(bench.be, &a->bio);
	return a;
}

static void turn(void)
{
	while (reactor_run_once(bench.worker.reactor, 0) > 0)
		;
}

static int await(const struct answer *a)
{
	while (!a->cnt)
		assert_true(reactor_run_once(bench.worker.reactor, -1) >= 0);
	turn();
	assert_int_equal(a->cnt, 1);
	return a->res;
}

static int run(enum rbp_op op, unsigned int lba, unsigned int blocks)
{
	return await(submit(0, op, lba, blocks));
}

/* One character per block: n: the new bytes, o: the old bytes, x: neither. */
static void expect_blocks(const uint8_t *at, unsigned int lba, uint8_t new_byte,
			  int old_byte, const char *want)
{
	char got[BLOCKS + 1] = "";

	for (unsigned int i = 0; i < strlen(want); i++) {
		uint8_t block[BLOCK];
		const char *what = "x";

		memset(block, new_byte, BLOCK);
		if (!memcmp(at + (size_t)i * BLOCK, block, BLOCK))
			what = "n";
		memset(block, old_byte < 0 ? (int)(lba + i) : old_byte, BLOCK);
		if (!memcmp(at + (size_t)i * BLOCK, block, BLOCK))
			what = "o";
		strcat(got, what);
	}
	assert_string_equal(got, want);
}

static const struct fault_row {
	const char *name; /* the rule */
	enum rbp_op op;
	unsigned int lba;
	unsigned int blocks;
	int res;
	unsigned int progress; /* blocks */
	const char *asked;     /* requests that the store got */
	/* WRITE: blocks of the store from lba on; READ: blocks of the buffer,
	 * where "new" means the data of the store */
	const char *blocks_after;
} fault_rows[] = {
	{ "read:error", RBP_READ, 0, 4, -EIO, 0, "", "oooo" },
	{ "read:error:lba=10-19", RBP_READ, 8, 4, -EIO, 2, "read 4096+1024",
	  "nnoo" },
	{ "read:error:lba=10-19", RBP_READ, 19, 4, -EIO, 0, "", "oooo" },
	{ "read:error:lba=10-19", RBP_READ, 20, 2, 0, 2, "read 10240+1024",
	  "nn" },
	{ "read:short", RBP_READ, 4, 4, -EIO, 2, "read 2048+1024", "nnoo" },
	{ "read:short", RBP_READ, 4, 1, -EIO, 0, "", "o" },
	{ "write:error=ENOSPC", RBP_WRITE, 0, 2, -ENOSPC, 0, "", "oo" },
	{ "write:error:lba=9", RBP_WRITE, 8, 4, -EIO, 1, "write 4096+512",
	  "nooo" },
	{ "write:short", RBP_WRITE, 4, 5, -EIO, 2, "write 2048+1024", "nnooo" },
	{ "write:torn", RBP_WRITE, 4, 5, -EIO, 0,
	  "write 2048+512, write 3072+512, write 4096+512", "nonon" },
	{ "write:torn", RBP_WRITE, 4, 4, -EIO, 0,
	  "write 2048+512, write 3072+512", "nono" },
	{ "write:torn", RBP_WRITE, 4, 1, -EIO, 0, "write 2048+512", "n" },
	{ "write:delay=1", RBP_WRITE, 4, 2, 0, 2, "write 2048+1024", "nn" },
	{ "read:delay=0", RBP_READ, 4, 2, 0, 2, "read 2048+1024", "nn" },
	{ "flush:error", RBP_FLUSH, 0, 0, -EIO, 0, "", "" },
	{ "flush:delay=1", RBP_FLUSH, 0, 0, 0, 0, "flush", "" },
	{ "unmap:error=ENOMEM", RBP_UNMAP, 0, 2, -ENOMEM, 0, "", "" },
	{ "zero:short", RBP_ZERO, 0, 2, -EIO, 1, "zero 0+512", "" },
	{ "any:error", RBP_EXTENT, 0, 2, -EIO, 0, "", "" },
	{ "read:error", RBP_WRITE, 4, 2, 0, 2, "write 2048+1024", "nn" },
};

T_ROWS(a_fault_does_what_it_says, fault_rows)
{
	const struct fault_row *row = *state;
	uint8_t *at;

	start(row->name);
	at = t_store.bytes + (size_t)row->lba * BLOCK;
	assert_int_equal(run(row->op, row->lba, row->blocks), row->res);
	assert_int_equal(bench.answers[0].bio.io.progress,
			 row->progress * BLOCK);
	assert_string_equal(t_store.log, row->asked);
	if (row->op == RBP_WRITE)
		expect_blocks(at, row->lba, 0xbb, -1, row->blocks_after);
	if (row->op == RBP_READ)
		for (unsigned int i = 0; row->blocks_after[i]; i++) {
			const char one[] = { row->blocks_after[i], '\0' };

			expect_blocks(bench.buf + (size_t)i * BLOCK, 0,
				      (uint8_t)(row->lba + i), 0xbb, one);
		}
	finish();
}

/* Returns how many bits differ, and the block of the last one. */
static unsigned int bits_differ(const uint8_t *a, const uint8_t *b, size_t len,
				unsigned int *ret_block)
{
	unsigned int cnt = 0;

	for (size_t i = 0; i < len; i++) {
		unsigned int diff = a[i] ^ b[i];

		if (diff)
			*ret_block = (unsigned int)(i / BLOCK);
		cnt += (unsigned int)__builtin_popcount(diff);
	}
	return cnt;
}

T_TEST(corruption_flips_one_bit_of_what_is_read)
{
	unsigned int block = 0;
	uint8_t *at;

	start("read:corrupt:lba=6");
	at = t_store.bytes + 4 * BLOCK;
	assert_int_equal(run(RBP_READ, 4, 4), 0);
	assert_int_equal(bits_differ(bench.buf, at, 4 * BLOCK, &block), 1);
	assert_int_equal(block, 2);
	expect_blocks(at, 4, 0xbb, -1, "oooo");
	finish();
}

T_TEST(corruption_flips_one_bit_of_what_is_written)
{
	unsigned int block = 0;
	uint8_t mine[4 * BLOCK];
	uint8_t *at;

	start("write:corrupt:lba=0-5");
	at = t_store.bytes + 4 * BLOCK;
	memcpy(mine, bench.buf, sizeof(mine));
	assert_int_equal(run(RBP_WRITE, 4, 4), 0);
	assert_int_equal(bits_differ(mine, at, sizeof(mine), &block), 1);
	assert_true(block < 2);
	/* The caller's data is not touched. */
	assert_memory_equal(bench.buf, mine, sizeof(mine));
	finish();
}

T_TEST(a_delayed_request_is_late)
{
	struct answer *a;
	uint64_t begin;

	start("write:delay=20");
	begin = reactor_now_us(bench.worker.reactor);
	a = submit(0, RBP_WRITE, 0, 1);
	assert_int_equal(a->cnt, 0);
	assert_string_equal(t_store.log, "");
	assert_int_equal(await(a), 0);
	assert_true(reactor_now_us(bench.worker.reactor) - begin >= 20000);
	finish();
}

T_TEST(delays_add_up_and_the_first_other_fault_counts)
{
	static const char *const texts[] = { "write:delay=5", "any:delay=5",
					     "write:torn:lba=1", "write:error",
					     "write:error=ENOSPC" };
	struct answer *a;

	start_with(texts, 5);
	a = submit(0, RBP_WRITE, 0, 1);
	assert_int_equal(a->cnt, 0);
	assert_int_equal(await(a), -EIO);
	assert_string_equal(t_store.log, "");
	assert_int_equal(run(RBP_READ, 0, 1), 0);
	finish();
}

T_TEST(a_stuck_request_waits_for_its_release)
{
	struct answer *a;
	struct answer *b;

	start("write:stuck:count=2");
	a = submit(1, RBP_WRITE, 4, 2);
	b = submit(2, RBP_WRITE, 8, 1);
	/* Other requests overtake them; the third write exceeds the limit of
	 * stuck ones. */
	assert_int_equal(run(RBP_READ, 4, 1), 0);
	memset(bench.buf, 0xbb, BUF);
	assert_int_equal(run(RBP_WRITE, 20, 1), 0);
	assert_int_equal(a->cnt + b->cnt, 0);
	assert_int_equal(backend_fault_stuck(bench.be, &bench.worker), 2);
	expect_blocks(t_store.bytes + 4 * BLOCK, 4, 0xbb, -1, "oo");

	backend_fault_release(bench.be);
	backend_fault_release(bench.be);
	assert_int_equal(await(a), 0);
	assert_int_equal(await(b), 0);
	assert_int_equal(a->bio.io.progress, 2 * BLOCK);
	expect_blocks(t_store.bytes + 4 * BLOCK, 4, 0xbb, -1, "nn");
	finish();
}

T_TEST(what_sticks_again_is_released_again)
{
	struct answer *a;

	start("flush:stuck");
	backend_fault_release(bench.be);
	turn();
	for (unsigned int i = 0; i < 2; i++) {
		a = submit(0, RBP_FLUSH, 0, 0);
		turn();
		assert_int_equal(a->cnt, 0);
		backend_fault_release(bench.be);
		assert_int_equal(await(a), 0);
	}
	assert_string_equal(t_store.log, "flush, flush");
	finish();
}

T_TEST(a_failed_flush_stays_failed)
{
	start("flush:error:count=1");
	assert_int_equal(run(RBP_FLUSH, 0, 0), -EIO);
	assert_int_equal(run(RBP_WRITE, 0, 1), 0);
	assert_int_equal(run(RBP_FLUSH, 0, 0), -EIO);
	assert_int_equal(run(RBP_FLUSH, 0, 0), -EIO);
	assert_string_equal(t_store.log, "write 0+512");
	finish();
}

T_TEST(an_error_of_the_store_is_passed_on)
{
	start("write:torn");
	t_store.fail_at = 2;
	t_store.fail_with = -ENOSPC;
	assert_int_equal(run(RBP_WRITE, 4, 6), -ENOSPC);
	expect_blocks(t_store.bytes + 4 * BLOCK, 4, 0xbb, -1, "nooooo");
	finish();
}

static const struct promise_row {
	const char *name;
	uint32_t atomic_len;
} promises[] = {
	{ "read:error", 4096 },	   { "write:delay=1", 4096 },
	{ "write:corrupt", 4096 }, { "write:error", 0 },
	{ "any:short", 0 },	   { "write:torn", 0 },
};

T_ROWS(no_atomic_writes_where_they_are_cut, promises)
{
	const struct promise_row *row = *state;

	start(row->name);
	assert_int_equal(bench.be->info.atomic_len, row->atomic_len);
	assert_true(backend_has_cache(&bench.be->info));
	assert_string_equal(bench.be->info.kind, "test, 1 fault");
	finish();
}

/* ---- on the built-in stores ---- */

T_TEST(ram_below_is_read_and_written_by_requests)
{
	struct volume_spec spec;
	struct volume *vol;
	struct reactor_options ropt = { 0 };
	struct error e = { 0 };

	assert_true(volume_spec_parse("ram:1M,fault=write:error:lba=9,"
				      "fault=read:short:after=1",
				      &spec, &e));
	assert_int_equal(spec.fault_cnt, 2);
	assert_int_equal(volume_open(&spec, 0, "t", &vol, &e), 0);
	assert_null(vol->dev.backend->info.memory);
	assert_string_equal(vol->kind, "ram, 2 faults");
	assert_int_equal(reactor_create(&ropt, &bench.worker.reactor), 0);
	assert_int_equal(volume_attach(vol, &bench.worker, &e), 0);
	bench.be = vol->dev.backend;
	bench.buf = aligned_alloc(4096, BUF);
	memset(bench.buf, 0xbb, BUF);

	assert_int_equal(run(RBP_WRITE, 8, 4), -EIO);
	memset(bench.buf, 0xcc, BUF);
	assert_int_equal(run(RBP_READ, 8, 4), 0);
	expect_blocks(bench.buf, 0, 0xbb, 0, "nooo");
	assert_int_equal(run(RBP_READ, 8, 4), -EIO);

	volume_detach(vol, &bench.worker);
	volume_close(vol);
	reactor_destroy(bench.worker.reactor);
	free(bench.buf);
	memset(&bench, 0, sizeof(bench));
}

#if FAULT_INJECTION
T_TEST(a_lie_answers_a_flush_that_never_was)
{
	start("flush:lie:after=1");
	assert_int_equal(run(RBP_FLUSH, 0, 0), 0);
	assert_int_equal(run(RBP_FLUSH, 0, 0), 0);
	assert_string_equal(t_store.log, "flush");
	finish();
}

T_TEST(a_stale_write_comes_back_over_a_newer_one)
{
	uint8_t *at;

	start("write:stale=1:count=1");
	at = t_store.bytes + 4 * BLOCK;
	assert_int_equal(run(RBP_WRITE, 4, 1), 0);
	memset(bench.buf, 0xcc, BUF);
	assert_int_equal(run(RBP_WRITE, 4, 1), 0);
	while (t_store.done_cnt < 3)
		reactor_run_once(bench.worker.reactor, -1);
	expect_blocks(at, 4, 0xbb, -1, "n");
	finish();
}

T_TEST(a_stale_write_that_is_not_due_is_forgotten)
{
	start("write:stale=3600000");
	assert_int_equal(run(RBP_WRITE, 4, 1), 0);
	finish();
	assert_string_equal(t_store.log, "write 2048+512");
}

/* Both layers, as ",layer=volatile,fault=..." makes them. */
static void start_volatile(const char *text)
{
	static const struct plugin_spec layer = { .name = "volatile" };
	struct backend_options opt = { .path = "vol",
				       .plugin = &layer,
				       .block_size = BLOCK };
	struct fault_rule rule;
	struct error e = { 0 };

	start(text);
	finish_layers();
	open_store();
	opt.below = bench.be;
	assert_int_equal(backend_open(&backend_plugin, &opt, &bench.be, &e), 0);
	assert_true(fault_rule_parse(text, &rule, &e));
	add_faults(&rule, 1);
	assert_int_equal(backend_attach(bench.be, &bench.worker), 0);
}

T_TEST(what_is_not_flushed_is_not_in_the_store)
{
	uint8_t *at;

	start_volatile("flush:lie:after=1");
	at = t_store.bytes + 4 * BLOCK;
	assert_true(backend_has_cache(&bench.be->info));
	assert_int_equal(run(RBP_WRITE, 4, 2), 0);
	assert_int_equal(run(RBP_WRITE, 7, 1), 0);
	assert_int_equal(run(RBP_ZERO, 8, 1), 0);
	expect_blocks(at, 4, 0xbb, -1, "ooooo");
	/* A read sees the data all the same. */
	assert_int_equal(run(RBP_READ, 4, 4), 0);
	expect_blocks(bench.buf, 4, 0xbb, -1, "nnon");

	assert_int_equal(run(RBP_FLUSH, 0, 0), 0);
	assert_string_equal(t_store.log,
			    "read 2048+2048, write 2048+1024, write 3584+1024, "
			    "flush");
	expect_blocks(at, 4, 0xbb, -1, "nnon");

	/* The second flush succeeds without writing anything. */
	memset(bench.buf, 0xbb, BUF);
	assert_int_equal(run(RBP_WRITE, 12, 1), 0);
	assert_int_equal(run(RBP_FLUSH, 0, 0), 0);
	expect_blocks(t_store.bytes + 12 * BLOCK, 12, 0xbb, -1, "o");
	finish();
}

T_TEST(a_cache_that_cannot_be_written_says_so_for_good)
{
	start_volatile("read:error");
	assert_int_equal(run(RBP_WRITE, 4, 2), 0);
	t_store.fail_at = 1;
	t_store.fail_with = -EIO;
	assert_int_equal(run(RBP_FLUSH, 0, 0), -EIO);
	assert_int_equal(run(RBP_FLUSH, 0, 0), -EIO);
	finish();
}
#endif
