/* SPDX-License-Identifier: BSD-2-Clause */
/* The store srp, with a target in memory in place of libsrpi. */
#include "tests/lib/t_host.h"

#include "tests/lib/t_must.h"
#include "tests/lib/t_srpi.h"
#include "tests/lib/t_table.h"

#include <errno.h>
#include <string.h>

#define DISK_LEN (4u << 20)
#define BLOCK	 512u
#define PIECE	 (128u << 10) /* the store cuts I/O into these */

static struct t_host host;
static struct srpi_session *target;

static void submit(struct t_request *r, enum rbp_op op, uint32_t flags,
		   uint64_t offset, uint64_t len, void *buf)
{
	t_host_submit(&host, r, 0,
		      (struct rbp_io){ .op = op,
				       .flags = flags,
				       .offset = offset,
				       .len = len,
				       .buf = buf });
}

static int result(const struct t_request *r)
{
	return t_host_result(&host, r);
}

/* ---- the volume ---- */

static void begin(void)
{
	t_host_begin(&host);
	t_host_plug(&host, rdma_block_plugin_1(&t_host_functions));
	target = t_srpi_new(NULL, DISK_LEN, BLOCK);
	target->info.unmap_granularity = 4096;
	t_srpi_login = (struct t_srpi_login){ .session = target };
}

static int open_volume(const char *location, uint64_t wait_s, char *msg,
		       size_t msg_len)
{
	const struct rbp_arg args[] = { { "wait", NULL, wait_s },
					{ NULL, NULL, 0 } };

	host.info = (struct rbp_info){ .size = sizeof(host.info) };
	return host.plugin->open(NULL, location, args, &host.volume, &host.info,
				 msg, msg_len);
}

static void start(void)
{
	char msg[600] = "";

	begin();
	assert_int_equal(open_volume("//host/disk", 15, msg, sizeof(msg)), 0);
}

static void end(void)
{
	t_host_end(&host);
	assert_int_equal(t_srpi_login.open_cnt, 0);
	t_srpi_free(target);
}

static void stop(void)
{
	host.plugin->close(host.volume);
	end();
}

/* ---- opening ---- */

#define USUAL                                                           \
	(RBP_CAN_FLUSH | RBP_CAN_EXTENT | RBP_LASTING | RBP_CAN_WRITE | \
	 RBP_CAN_ZERO | RBP_WRITE_CACHE | RBP_CAN_FUA | RBP_CAN_UNMAP | \
	 RBP_UNMAP_ZEROES)

static const struct info_row {
	const char *name;
	bool read_only;
	bool has_no_fua;
	bool has_no_unmap;
	bool has_no_unit; /* of unmap */
	bool keeps_data;  /* when it is unmapped */
	bool rotational;
	uint32_t caps;
} info_rows[] = {
	{ .name = "a volume with everything", .caps = USUAL },
	{ .name = "a volume that may only be read",
	  .read_only = true,
	  .caps = USUAL & ~(RBP_CAN_WRITE | RBP_CAN_ZERO | RBP_WRITE_CACHE) },
	{ .name = "no FUA", .has_no_fua = true, .caps = USUAL & ~RBP_CAN_FUA },
	{ .name = "no UNMAP",
	  .has_no_unmap = true,
	  .caps = USUAL & ~RBP_CAN_UNMAP },
	{ .name = "UNMAP of an unknown unit",
	  .has_no_unit = true,
	  .caps = USUAL & ~RBP_CAN_UNMAP },
	{ .name = "UNMAP that keeps the data",
	  .keeps_data = true,
	  .caps = USUAL & ~RBP_UNMAP_ZEROES },
	{ .name = "a disk that turns",
	  .rotational = true,
	  .caps = USUAL | RBP_ROTATIONAL },
};

T_ROWS(describe, info_rows)
{
	const struct info_row *row = *state;
	struct srpi_volume_info *v;
	char msg[600];

	begin();
	v = &target->info;
	v->read_only = row->read_only;
	v->fua = !row->has_no_fua;
	v->unmap = !row->has_no_unmap;
	v->unmap_granularity = row->has_no_unit ? 0 : 8192;
	v->unmap_zeroes = !row->keeps_data;
	v->rotational = row->rotational;
	v->physical_block_size = 4096;
	strcpy(v->naa, "naa.6001");
	assert_int_equal(open_volume("//host/disk", 15, msg, sizeof(msg)), 0);
	assert_int_equal(host.info.caps, row->caps);
	assert_int_equal(host.info.bytes, DISK_LEN);
	assert_int_equal(host.info.block_size, BLOCK);
	assert_int_equal(host.info.optimal_io, 4096);
	assert_int_equal(host.info.unmap_granularity, v->unmap_granularity);
	assert_string_equal(host.info.identity, "naa.6001");
	stop();
}

static const struct location_row {
	const char *name;
	const char *location;
	const char *uri;
} location_rows[] = {
	{ "srp://", "//host/disk", "srp://host/disk" },
	{ "another scheme", "srp+tcp://host/disk", "srp+tcp://host/disk" },
};

T_ROWS(location, location_rows)
{
	const struct location_row *row = *state;
	char msg[600];

	begin();
	assert_int_equal(open_volume(row->location, 15, msg, sizeof(msg)), 0);
	assert_string_equal(t_srpi_login.uri, row->uri);
	stop();
}

static const struct choice_row {
	const char *name;
	unsigned int volumes;
	const char *wanted;
	const char *refused; /* NULL: it opens */
} choice_rows[] = {
	{ "the only volume", 1, NULL, NULL },
	{ "a volume by its name", 3, "disk", NULL },
	{ "a name that is not there", 1, "other", "no volume 'other'" },
	{ "several volumes, and no name", 2, NULL, "name one in the URI" },
	{ "no volume", 0, NULL, "name one in the URI" },
};

T_ROWS(choose, choice_rows)
{
	const struct choice_row *row = *state;
	char msg[600] = "";
	int err;

	begin();
	target->volumes = row->volumes;
	target->wanted = row->wanted;
	err = open_volume("//host", 15, msg, sizeof(msg));
	assert_int_equal(err, row->refused ? -ENOENT : 0);
	if (!row->refused) {
		stop();
		return;
	}
	assert_non_null(strstr(msg, row->refused));
	end();
}

T_TEST(no_target)
{
	char msg[600] = "";

	begin();
	t_srpi_login.session = NULL;
	assert_int_equal(open_volume("//host/disk", 15, msg, sizeof(msg)),
			 -ECONNREFUSED);
	assert_string_equal(msg, "no target at srp://host/disk");
	end();
}

static const struct wait_row {
	const char *name;
	uint64_t wait_s;
	int ms; /* 0: refused */
} wait_rows[] = {
	{ "the default", 15, 15000 },
	{ "the shortest", 1, 1000 },
	{ "0 would be the default of libsrpi", 0, 0 },
	{ "the longest", 600, 600000 },
	{ "longer than libsrpi takes", 601, 0 },
	{ "12 days", 1000000, 0 },
	{ "what 64 bits hold", UINT64_MAX, 0 },
};

T_ROWS(wait_time, wait_rows)
{
	const struct wait_row *row = *state;
	char msg[600] = "";
	int err;

	begin();
	err = open_volume("//host/disk", row->wait_s, msg, sizeof(msg));
	assert_int_equal(err, row->ms ? 0 : -EINVAL);
	if (!row->ms) {
		assert_string_equal(msg, "wait is 1 to 600 seconds");
		end();
		return;
	}
	assert_int_equal(t_srpi_login.options.fast_io_fail_ms, row->ms);
	assert_int_equal(t_srpi_login.options.dev_loss_ms, SRPI_OFF);
	stop();
}

/* ---- I/O ---- */

static uint8_t buf[DISK_LEN];

static const struct io_row {
	const char *name;
	enum rbp_op op;
	uint32_t flags;
	uint64_t offset;
	uint64_t len;
	unsigned int fail_nth; /* command of the target; 0: none */
	int fail_err;
	int res;
	uint64_t progress;
	const char *commands;
} io_rows[] = {
	{ "a read", RBP_READ, 0, 512, 4096, 0, 0, 0, 0, "R4096@512" },
	{ "a read in pieces", RBP_READ, 0, 0, 2 * PIECE + 512, 0, 0, 0, 0,
	  "R131072@0 R131072@131072 R512@262144" },
	{ "a read whose second piece fails", RBP_READ, 0, 0, 3 * PIECE, 2, -EIO,
	  -EIO, PIECE, "R131072@0 R131072@131072" },
	{ "a read that the target does not support", RBP_READ, 0, 512, 4096, 1,
	  -EOPNOTSUPP, -EOPNOTSUPP, 0, "R4096@512" },
	{ "a write", RBP_WRITE, 0, 512, 4096, 0, 0, 0, 0, "W4096@512" },
	{ "a write in pieces, stable", RBP_WRITE, RBP_FUA, 0, PIECE + 512, 0, 0,
	  0, 0, "W131072@0! W512@131072!" },
	{ "a write whose last piece fails", RBP_WRITE, 0, 0, 2 * PIECE, 2,
	  -ENOSPC, -ENOSPC, PIECE, "W131072@0 W131072@131072" },
	{ "a flush", RBP_FLUSH, 0, 0, 0, 0, 0, 0, 0, "F" },
	{ "a flush that fails", RBP_FLUSH, 0, 0, 0, 1, -EIO, -EIO, 0, "F" },
	{ "an unmap is not cut", RBP_UNMAP, 0, 0, 3 * PIECE, 0, 0, 0, 0,
	  "Z393216@0d" },
	{ "zeroes", RBP_ZERO, RBP_FUA, 0, 3 * PIECE, 0, 0, 0, 0, "Z393216@0!" },
	{ "zeroes that may free the space", RBP_ZERO, RBP_MAY_UNMAP, 0, PIECE,
	  0, 0, 0, 0, "Z131072@0d" },
	{ "zeroes are written to a target that lacks them", RBP_ZERO, 0, 512,
	  PIECE + 512, 1, -EOPNOTSUPP, 0, 0,
	  "Z131584@512 W131072@512 W512@131584" },
	{ "zeroes that fail", RBP_ZERO, 0, 0, 2 * PIECE, 1, -EIO, -EIO, 0,
	  "Z262144@0" },
};

/* @from: the data that was there before, or that was written. */
static void expect_data(const struct io_row *row)
{
	const uint8_t *disk = target->disk;
	bool clears = row->op == RBP_ZERO || row->op == RBP_UNMAP;
	uint64_t end_at = row->offset + row->len;

	if (clears)
		memset(buf, 0, row->len);
	assert_memory_equal(buf, disk + row->offset, row->len);
	assert_int_equal(disk[end_at], end_at % 251);
}

T_ROWS(io, io_rows)
{
	const struct io_row *row = *state;
	struct t_request r;

	start();
	for (unsigned int i = 0; i < DISK_LEN; i++) {
		target->disk[i] = (uint8_t)(i % 251);
		buf[i] = (uint8_t)(i % 241);
	}
	t_srpi_fail(target, row->fail_nth, row->fail_err);
	submit(&r, row->op, row->flags, row->offset, row->len,
	       row->op == RBP_READ || row->op == RBP_WRITE ? buf : NULL);
	assert_int_equal(result(&r), row->res);
	assert_string_equal(target->log, row->commands);
	assert_int_equal(r.io.progress, row->progress);
	if (!row->res)
		expect_data(row);
	stop();
}

T_TEST(extent)
{
	struct t_request r;

	start();
	memset(target->mapped + 8, 1, 4);
	submit(&r, RBP_EXTENT, 0, 0, 65536, NULL);
	assert_int_equal(result(&r), 0);
	assert_int_equal(r.io.extent_len, 8 * BLOCK);
	assert_int_equal(r.io.extent_mapped, 0);
	submit(&r, RBP_EXTENT, 0, 8 * BLOCK, 65536, NULL);
	assert_int_equal(result(&r), 0);
	assert_int_equal(r.io.extent_len, 4 * BLOCK);
	assert_int_equal(r.io.extent_mapped, 1);
	/* A target that cannot tell: all is data. */
	t_srpi_fail(target, 3, -EOPNOTSUPP);
	submit(&r, RBP_EXTENT, 0, 0, 65536, NULL);
	assert_int_equal(result(&r), 0);
	assert_int_equal(r.io.extent_len, 65536);
	assert_int_equal(r.io.extent_mapped, 1);
	stop();
}

T_TEST(unmapping_may_leave_data)
{
	char msg[600] = "";
	struct t_request r;

	begin();
	target->info.unmap_zeroes = false;
	assert_int_equal(open_volume("//host/disk", 15, msg, sizeof(msg)), 0);
	submit(&r, RBP_UNMAP, 0, 0, 65536, NULL);
	assert_int_equal(result(&r), 0);
	assert_string_equal(target->log, "D65536@0");
	stop();
}

/* The volume was to leave zeroes where blocks are unmapped. After a restart, the
 * one below no longer does that by itself. */
T_TEST(unmapping_leaves_zeroes)
{
	struct t_request r;

	start();
	target->info.unmap_zeroes = false;
	submit(&r, RBP_UNMAP, 0, 0, 65536, NULL);
	assert_int_equal(result(&r), 0);
	assert_string_equal(target->log, "Z65536@0d");
	/* Its holes may read as any data now. */
	submit(&r, RBP_EXTENT, 0, 0, 65536, NULL);
	assert_int_equal(result(&r), 0);
	assert_int_equal(r.io.extent_mapped, 1);
	stop();
}

/* A flush that was not sent has lost nothing; another error may have. */
T_TEST(refused_flush)
{
	struct t_request r;

	start();
	target->state = SRPI_FAIL_FAST;
	t_srpi_fail(target, 1, -EIO);
	submit(&r, RBP_FLUSH, 0, 0, 0, NULL);
	assert_int_equal(result(&r), -ENOTCONN);
	t_srpi_fail(target, 2, -EIO);
	submit(&r, RBP_READ, 0, 0, 512, buf);
	assert_int_equal(result(&r), -EIO);
	stop();
}

#define MANY 300u

static struct {
	unsigned int cnt;
	bool has_flush;
} sent;

static void look_at_sent(struct srpi_session *s)
{
	sent.cnt = s->waiting_cnt;
	sent.has_flush = sent.cnt && s->waiting[sent.cnt - 1]->op == SRPI_FLUSH;
}

/* There are 256 buffers: what gets none waits, and goes on in order. */
T_TEST(more_requests_than_buffers)
{
	static struct t_request requests[MANY];
	static struct t_request flush;

	start();
	target->hold = true;
	for (unsigned int i = 0; i < MANY; i++) {
		memset(buf + i * BLOCK, (int)(i % 255) + 1, BLOCK);
		submit(&requests[i], RBP_WRITE, 0, i * BLOCK, BLOCK,
		       buf + i * BLOCK);
	}
	/* It needs none, and is behind all that could be sent. */
	submit(&flush, RBP_FLUSH, 0, 0, 0, NULL);
	do
		t_srpi_run(target, look_at_sent);
	while (!sent.has_flush);
	assert_int_equal(sent.cnt, 256 + 1);
	t_srpi_run(target, t_srpi_let_go);
	for (unsigned int i = 0; i < MANY; i++)
		assert_int_equal(result(&requests[i]), 0);
	assert_int_equal(result(&flush), 0);
	assert_memory_equal(target->disk, buf, MANY * BLOCK);
	stop();
}

/* ---- changes ---- */

static void grow(struct srpi_session *s)
{
	const struct srpi_options *o = &t_srpi_login.options;

	s->info.size = 2 * DISK_LEN;
	o->volume_resized(s, 1, o->state_arg); /* of another volume */
	T_MUST(host.resized_cnt == 0);
	o->volume_resized(s, 0, o->state_arg);
}

T_TEST(volume_grows)
{
	uint64_t bytes = 0;

	start();
	assert_int_equal(host.plugin->measure(host.volume, &bytes), 0);
	assert_int_equal(bytes, DISK_LEN);
	t_srpi_run(target, grow);
	assert_int_equal(host.resized_cnt, 1);
	assert_int_equal(host.plugin->measure(host.volume, &bytes), 0);
	assert_int_equal(bytes, 2 * DISK_LEN);
	stop();
}

static void lose(struct srpi_session *s)
{
	const struct srpi_options *o = &t_srpi_login.options;
	const struct srpi_error why = { -EIO, "the cable was pulled" };

	o->state_changed(s, SRPI_BLOCKED, &why, o->state_arg);
}

static void lose_for_good(struct srpi_session *s)
{
	const struct srpi_options *o = &t_srpi_login.options;
	const struct srpi_error why = { -EIO, "another volume is there now" };

	o->state_changed(s, SRPI_LOST, &why, o->state_arg);
}

/* Another process of the machine serves the same URI, say. */
T_TEST(start_as_another_initiator_is_logged)
{
	char msg[600] = "";

	begin();
	target->purpose_fault = "there is another one";
	assert_int_equal(open_volume("//host/disk", 15, msg, sizeof(msg)), 0);
	assert_non_null(strstr(host.log, "there is another one"));
	stop();
}

/* Errors have a limit of their own in the log, which warnings do not use up. */
T_TEST(lost_session_is_logged)
{
	start();
	t_srpi_run(target, lose);
	assert_string_equal(host.log,
			    "the session is blocked: the cable was pulled");
	assert_int_equal(host.last_level, RBP_WARNING);
	t_srpi_run(target, lose_for_good);
	assert_non_null(
		strstr(host.log, "the session is lost: another volume"));
	assert_int_equal(host.last_level, RBP_ERROR);
	stop();
}
