/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The block layer on a store that records what reaches it, with and without
 * memory, and that answers at once or later.
 */
#include "target/block/block.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "target/block/block_worker.h"
#include "tests/lib/t_table.h"

#define SIZE 8192u
#define LEN  512u

/* ---- the store ---- */

static struct {
	struct backend be;
	unsigned int submits;
	bool later;		     /* answered by answer() */
	int res;		     /* of what is answered at once */
	struct block_request *first; /* that waits */
} store;

static uint8_t memory[SIZE];

static void store_submit(struct backend *be, struct block_request *req)
{
	store.submits++;
	if (store.later)
		store.first = req;
	else
		req->done(req, store.res);
}

static const struct backend_ops store_ops = {
	.name = "test",
	.submit = store_submit,
};

static void answer(int res)
{
	struct block_request *req = store.first;

	store.first = NULL;
	req->done(req, res);
}

/* ---- requests ---- */

static struct block_worker worker;
static unsigned int ends;
static int last_res;

static void ended(struct block_request *req, int res)
{
	ends++;
	last_res = res;
}

static struct flush_record record;

static struct block_request request(enum block_op op, uint64_t offset,
				    void *buf)
{
	return (struct block_request){
		.op = op,
		.offset = offset,
		.len = op == BLOCK_FLUSH ? 0 : LEN,
		.buf = buf,
		.buf_index = -1,
		.worker = &worker,
		.record = &record,
		.done = ended,
	};
}

/* ---- a record of flushes ---- */

static char path[64];
static const uint8_t volume_id[FLUSH_VOLUME_LEN] = { 1 };
static const uint8_t writer[FLUSH_PORT_LEN] = { 2 };

static void open_record(void)
{
	const struct flush_record_options opt = {
		.path = path,
		.store = &store.be,
		.volume = volume_id,
		.label = "test",
		.boot = "boot",
		.writable = true,
	};

	flush_record_init(&record);
	assert_int_equal(flush_record_open(&record, &opt), 0);
}

static void begin(bool has_memory)
{
	char dir[] = "/tmp/block-XXXXXX";

	memset(&store, 0, sizeof(store));
	memset(memory, 0, sizeof(memory));
	memset(&worker, 0, sizeof(worker));
	store.be.ops = &store_ops;
	store.be.info.size = SIZE;
	store.be.info.fua = true;
	store.be.info.zero = true;
	store.be.info.memory = has_memory ? memory : NULL;
	ends = 0;
	last_res = 1;
	assert_non_null(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/record", dir);
	open_record();
}

static void end(void)
{
	flush_record_fini(&record);
	unlink(path);
	*strrchr(path, '/') = '\0';
	assert_int_equal(rmdir(path), 0);
}

/* Is the writer owed a failed flush by the process after this one? */
static bool owes_after_kill(void)
{
	flush_writer_ref ref = NULL;
	bool is;

	flush_record_fini(&record);
	open_record();
	is = flush_record_owes(&record, &ref, writer);
	flush_record_leave(&record, &ref);
	return is;
}

static void note_write(void)
{
	flush_writer_ref ref = NULL;

	flush_record_wrote(&record, &ref, writer);
	flush_record_leave(&record, &ref);
}

/* ---- memory ---- */

static void memory_is_read_and_written_without_the_store(void **state)
{
	uint8_t wanted[LEN], out[LEN], in[LEN] = { 0 };
	struct block_request req;

	begin(/* has_memory= */ true);
	memset(wanted, 0x5a, sizeof(wanted));
	memcpy(out, wanted, sizeof(out));
	req = request(BLOCK_WRITE, SIZE - LEN, out);
	block_submit(&store.be, &req);
	assert_int_equal(ends, 1);
	assert_int_equal(last_res, 0);
	assert_int_equal(req.progress, LEN);
	assert_memory_equal(memory + SIZE - LEN, wanted, LEN);
	assert_int_equal(memory[SIZE - LEN - 1], 0);
	req = request(BLOCK_READ, SIZE - LEN, in);
	block_submit(&store.be, &req);
	assert_int_equal(ends, 2);
	assert_memory_equal(in, wanted, LEN);
	assert_int_equal(worker.copied, 2 * LEN);
	assert_int_equal(store.submits, 0);
	end();
}

static void memory_is_zeroed_by_the_store(void **state)
{
	struct block_request req;

	begin(/* has_memory= */ true);
	req = request(BLOCK_ZERO, 0, NULL);
	block_submit(&store.be, &req);
	assert_int_equal(store.submits, 1);
	assert_int_equal(ends, 1);
	end();
}

static void place_of_blocks_is_told_of_memory_alone(void **state)
{
	begin(/* has_memory= */ true);
	assert_ptr_equal(block_in_place(&store.be, LEN), memory + LEN);
	store.be.info.memory = NULL;
	assert_null(block_in_place(&store.be, LEN));
	end();
}

/* ---- requests to the store ---- */

static const struct pass_row {
	const char *name;
	enum block_op op;
	bool fua;
	bool later;
	int res;
} pass_rows[] = {
	{ "READ", BLOCK_READ, false, false, 0 },
	{ "READ, late", BLOCK_READ, false, true, 0 },
	{ "READ that fails", BLOCK_READ, false, true, -EIO },
	{ "WRITE", BLOCK_WRITE, false, false, 0 },
	{ "WRITE that fails, late", BLOCK_WRITE, false, true, -ENOSPC },
	{ "WRITE, stable", BLOCK_WRITE, true, false, 0 },
	{ "WRITE, stable, that fails", BLOCK_WRITE, true, false, -EIO },
	{ "WRITE, stable, that fails, late", BLOCK_WRITE, true, true, -EIO },
	{ "FLUSH", BLOCK_FLUSH, false, false, 0 },
	{ "FLUSH, late", BLOCK_FLUSH, false, true, 0 },
	{ "FLUSH that fails, late", BLOCK_FLUSH, false, true, -EIO },
};

static void request_is_answered_once_as_the_store_does(void **state)
{
	const struct pass_row *row = *state;
	uint8_t buf[LEN] = { 0 };
	struct block_request req;

	begin(/* has_memory= */ false);
	/* the second time with the same request, as a task does it */
	for (unsigned int i = 0; i < 2; i++) {
		if (!i)
			req = request(row->op, 0, buf);
		req.fua = row->fua;
		store.later = row->later;
		store.res = row->res;
		block_submit(&store.be, &req);
		if (row->later) {
			assert_int_equal(ends, i);
			answer(row->res);
		}
		assert_int_equal(ends, i + 1);
		assert_int_equal(last_res, row->res);
		assert_int_equal(store.submits, i + 1);
		assert_ptr_equal(req.done, ended);
	}
	end();
}

/* ---- the record ---- */

static const struct note_row {
	const char *name;
	enum block_op op;
	bool fua;
	int res;
	bool owes; /* the next process the writer a failed flush */
} note_rows[] = {
	{ "FLUSH", BLOCK_FLUSH, false, 0, false },
	{ "FLUSH that fails", BLOCK_FLUSH, false, -EIO, true },
	{ "WRITE, stable", BLOCK_WRITE, true, 0, false },
	{ "WRITE, stable, that fails", BLOCK_WRITE, true, -EIO, true },
	{ "WRITE that fails", BLOCK_WRITE, false, -EIO, false },
	{ "READ that fails", BLOCK_READ, false, -EIO, false },
};

/* After an unflushed write and this request comes kill -9. */
static void record_has_what_the_next_process_is_to_know(void **state)
{
	const struct note_row *row = *state;
	uint8_t buf[LEN] = { 0 };
	struct block_request req;

	begin(/* has_memory= */ false);
	note_write();
	store.res = row->res;
	req = request(row->op, 0, buf);
	req.fua = row->fua;
	block_submit(&store.be, &req);
	assert_int_equal(owes_after_kill(), row->owes);
	end();
}

/* A flush covers what was written before it began, and nothing else. */
static void flush_does_not_cover_writes_that_come_while_it_runs(void **state)
{
	struct block_request first, second;

	begin(/* has_memory= */ false);
	store.later = true;
	first = request(BLOCK_FLUSH, 0, NULL);
	block_submit(&store.be, &first);
	note_write();
	answer(0);
	store.later = false;
	store.res = -EIO;
	second = request(BLOCK_FLUSH, 0, NULL);
	block_submit(&store.be, &second);
	assert_true(owes_after_kill());
	end();
}

int main(void)
{
	static struct t_table t;

	T_ADD(&t, memory_is_read_and_written_without_the_store);
	T_ADD(&t, memory_is_zeroed_by_the_store);
	T_ADD(&t, place_of_blocks_is_told_of_memory_alone);
	T_ADD_ROWS(&t, pass_rows, request_is_answered_once_as_the_store_does);
	T_ADD_ROWS(&t, note_rows, record_has_what_the_next_process_is_to_know);
	T_ADD(&t, flush_does_not_cover_writes_that_come_while_it_runs);
	return t_run(&t);
}
