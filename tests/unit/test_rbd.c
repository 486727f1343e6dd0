/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The store rbd without a cluster: tests/lib/t_ceph.h plays librados and librbd,
 * and the functions of gateway.h are those of this file.
 */
#include "plugins/rbd/gateway.h"

#include "plugins/rbd/extent.h"
#include "plugins/rbd/notes.h"
#include "tests/lib/t_ceph.h"
#include "tests/lib/t_host.h"
#include "tests/lib/t_table.h"

#include <errno.h>
#include <string.h>

#define DISK_LEN (1u << 20)
#define BLOCK	 512u

static struct t_host host;
static char why[256]; /* the volume was refused */

/* What was asked of a gateway. */
static struct {
	struct rbdp_gateway *started;
	bool active;
	bool refuses; /* I/O */
	unsigned int inflight;
	int judged;
	int err; /* of its start */
	char log[64];
} gateway;

__attribute__((format(printf, 1, 2))) static void gateway_note(const char *fmt,
							       ...)
{
	size_t len = strlen(gateway.log);
	va_list args;

	va_start(args, fmt);
	vsnprintf(gateway.log + len, sizeof(gateway.log) - len, fmt, args);
	va_end(args);
}

/* ---- gateway.h ---- */

int rbdp_gateway_start(struct rbdp_gateway *gw, bool active,
		       const struct rbdp_msg *msg)
{
	if (gateway.err)
		return rbdp_refuse(msg, gateway.err, "no lock");
	gateway.started = gw;
	gateway.active = active;
	return 0;
}

void rbdp_gateway_stop(struct rbdp_gateway *gw)
{
	gateway.started = NULL;
}

bool rbdp_gateway_enter(struct rbdp_gateway *gw, const struct rbp_io *io)
{
	gateway.inflight += !gateway.refuses;
	return !gateway.refuses;
}

int rbdp_gateway_leave(struct rbdp_gateway *gw, int res)
{
	gateway.inflight--;
	return res;
}

void rbdp_gateway_judge(struct rbdp_gateway *gw, struct rbp_io *io, int res)
{
	gateway.judged = res;
	gw->host->done(io, -ESHUTDOWN);
}

void rbdp_gateway_paths(struct rbdp_gateway *gw, struct rbp_paths *ret)
{
	ret->cnt = gw->cnt;
	ret->own = gw->own;
}

void rbdp_gateway_set(struct rbdp_gateway *gw, struct rbp_io *io)
{
	gateway_note("set ");
}

void rbdp_gateway_get_notes(struct rbdp_gateway *gw, struct rbp_io *io)
{
	gateway_note("get ");
}

void rbdp_gateway_put_notes(struct rbdp_gateway *gw, struct rbp_io *io)
{
	gateway_note("put ");
}

void rbdp_gateway_taken(struct rbdp_gateway *gw, uint64_t version)
{
	gateway_note("taken %llu", (unsigned long long)version);
}

/* ---- the volume ---- */

static void begin(void)
{
	t_ceph_begin();
	memset(&gateway, 0, sizeof(gateway));
	t_host_begin(&host);
	t_ceph.size = DISK_LEN;
	t_ceph.id = "abc";
	t_host_plug(&host, rdma_block_plugin_1(&t_host_functions));
	why[0] = '\0';
}

struct args {
	const char *conf;
	const char *keyring;
	uint64_t timeout_s;
	bool zero_copy;
	uint64_t gateway;
	uint64_t gateways;
	const char *role;     /* NULL: not given */
	const char *failover; /* NULL: not given */
	uint64_t after_s;
};

static int open_volume(const char *location, const struct args *a,
		       bool read_only)
{
	struct rbp_arg args[] = {
		{ "id", "admin", 0 },
		{ "timeout", NULL, a->timeout_s },
		{ "zero-copy", NULL, a->zero_copy },
		{ "gateway", NULL, a->gateway },
		{ "gateways", NULL, a->gateways },
		{ "failover-after", NULL, a->after_s },
		{ a->conf ? "conf" : "id", a->conf ? a->conf : "admin", 0 },
		{ a->keyring ? "keyring" : "id",
		  a->keyring ? a->keyring : "admin", 0 },
		{ a->role ? "role" : "id", a->role ? a->role : "admin", 0 },
		{ a->failover ? "failover" : "id",
		  a->failover ? a->failover : "admin", 0 },
		{ NULL, NULL, 0 },
	};

	host.info = (struct rbp_info){
		.size = sizeof(host.info),
		.open_flags = read_only ? RBP_OPEN_READ_ONLY : 0,
	};
	return host.plugin->open(NULL, location, args, &host.volume, &host.info,
				 why, sizeof(why));
}

static const struct args usual = { .timeout_s = 30 };

static void start(void)
{
	begin();
	assert_int_equal(open_volume("pool/image", &usual, false), 0);
	t_ceph.log[0] = '\0';
}

static void stop(void)
{
	t_host_del_queues(&host);
	host.plugin->close(host.volume);
	t_host_end(&host);
	assert_int_equal(t_ceph.opened, 0);
	assert_null(gateway.started);
}

/* ---- opening ---- */

static const struct location_row {
	const char *name;
	const char *location;
	const char *opens;    /* what is opened; NULL: it is refused */
	const char *identity; /* without fsid and pool */
} location_rows[] = {
	{ "an image", "pool/image", "namespace \nimage image@\n", "abc" },
	{ "with a namespace", "pool/ns/image", "namespace ns\nimage image@\n",
	  NULL },
	{ "a snapshot", "pool/image@snap",
	  "namespace \nread-only image image@snap\n", "abc@4" },
	{ "a slash in the name of a snapshot", "pool/image@a/b",
	  "namespace \nread-only image image@a/b\n", "abc@4" },
	{ "no pool", "image", NULL, NULL },
	{ "an empty pool", "/image", NULL, NULL },
	{ "an empty image", "pool/", NULL, NULL },
	{ "an empty namespace", "pool//image", NULL, NULL },
	{ "two namespaces", "pool/a/b/image", NULL, NULL },
	{ "an empty snapshot", "pool/image@", NULL, NULL },
	{ "a slash only in the snapshot", "image@a/b", NULL, NULL },
	{ "a pool that is too long",
	  "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp"
	  "pppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp/i",
	  NULL, NULL },
};

T_ROWS(location, location_rows)
{
	const struct location_row *row = *state;
	int err;

	begin();
	err = open_volume(row->location, &usual, false);
	assert_int_equal(err, row->opens ? 0 : -EINVAL);
	if (!row->opens) {
		assert_non_null(strstr(why, "is not POOL/IMAGE"));
		assert_int_equal(t_ceph.opened, 0);
		return;
	}
	assert_non_null(strstr(t_ceph.log, row->opens));
	if (row->identity) {
		assert_int_equal(strncmp(host.info.identity, "fsid/7/", 7), 0);
		assert_string_equal(host.info.identity + 7, row->identity);
	}
	stop();
}

static const struct failure_row {
	const char *name;
	const char *failing;
	int err;
	const char *text; /* a part of the message */
} failure_rows[] = {
	{ "a wrong name of a client", "rados_create2", -EINVAL,
	  "id=admin is no name of a client" },
	{ "no configuration", "rados_conf_read_file", -ENOENT,
	  "no Ceph configuration" },
	{ "a wrong configuration", "rados_conf_read_file", -EINVAL,
	  "the configuration of Ceph: " },
	{ "a setting that is not known", "rbd_cache", -EINVAL,
	  "cannot set rbd_cache of Ceph to false" },
	{ "no monitor answers", "rados_connect", -ETIMEDOUT,
	  "no monitor of the cluster answers" },
	{ "no key", "rados_connect", -ENOENT, "no key for client.admin" },
	{ "a wrong key", "rados_connect", -EACCES,
	  "the cluster refuses client.admin" },
	{ "no connection", "rados_connect", -ENETUNREACH,
	  "cannot connect to the cluster" },
	{ "no pool", "rados_ioctx_create", -ENOENT,
	  "the cluster has no pool 'pool'" },
	{ "no right to the pool", "rados_ioctx_create", -EPERM,
	  "pool 'pool': " },
	{ "no image", "rbd_open", -ENOENT,
	  "there is no such image or snapshot" },
	{ "no right to the image", "rbd_open", -EPERM,
	  "client.admin may not open it" },
	{ "no OSD answers", "rbd_open", -ETIMEDOUT,
	  "the cluster has not answered for 30 s" },
	{ "an image that is broken", "rbd_open", -EIO,
	  "cannot open the image" },
	{ "no size", "rbd_get_size", -EIO, "cannot describe the image" },
	{ "no identity of the cluster", "rados_cluster_fsid", -EIO,
	  "cannot describe the image" },
	{ "no identity of the image", "rbd_get_id", -EIO,
	  "cannot describe the image" },
	{ "no watch", "rbd_update_watch", -EIO, "cannot watch the image" },
};

T_ROWS(failure, failure_rows)
{
	const struct failure_row *row = *state;

	begin();
	t_ceph.failing = row->failing;
	t_ceph.err = row->err;
	assert_int_equal(open_volume("pool/image", &usual, false), row->err);
	assert_non_null(strstr(why, row->text));
	assert_int_equal(t_ceph.opened, 0);
}

/* Older versions of Ceph lack these. */
T_TEST(optional_settings)
{
	begin();
	t_ceph.failing = "objecter_timeout";
	t_ceph.err = -ENOENT;
	assert_int_equal(open_volume("pool/image", &usual, false), 0);
	stop();
}

static const struct args_row {
	const char *name;
	bool read_only;
	const char *refused;  /* a part of the message; NULL: it opens */
	const char *settings; /* a part of them; NULL: not looked at */
	struct args args;
} args_rows[] = {
	{ "a timeout", false, NULL,
	  "rados_osd_op_timeout=20\nrados_mon_op_timeout=20\n"
	  "client_mount_timeout=20\n",
	  .args.timeout_s = 20 },
	{ "no timeout, but for the connection", false, NULL,
	  "rados_osd_op_timeout=0\nrados_mon_op_timeout=0\n"
	  "client_mount_timeout=30\n",
	  .args.timeout_s = 0 },
	{ "a timeout of more than a day", false, NULL,
	  "rados_osd_op_timeout=86400\n", .args.timeout_s = 1ull << 32 },
	{ "writes are copied", false, NULL,
	  "rbd_disable_zero_copy_writes=true\n", .args.timeout_s = 0 },
	{ "writes are not copied", false, NULL,
	  "rbd_disable_zero_copy_writes=false\n", .args.zero_copy = true },
	{ "a broken lock is a fence", false, NULL,
	  "rbd_blocklist_on_break_lock=true\n"
	  "rbd_blocklist_expire_seconds=0\n",
	  .args.timeout_s = 0 },
	{ "writes that time out must be copied", false,
	  "zero-copy=on needs timeout=0", NULL, .args.zero_copy = true,
	  .args.timeout_s = 1 },
	{ "a configuration that cannot be read", false,
	  "cannot read the configuration /nowhere/ceph.conf", NULL,
	  .args.conf = "/nowhere/ceph.conf" },
	{ "a keyring that cannot be read", false,
	  "cannot read the keyring /nowhere/keyring", NULL,
	  .args.keyring = "/nowhere/keyring" },
	{ "a keyring", false, NULL, "keyring=/dev/null\n",
	  .args.keyring = "/dev/null" },
	{ "one of two gateways", false, NULL, NULL, .args.gateway = 2,
	  .args.gateways = 2 },
	{ "a gateway of none", false, "M is 1 to 8", NULL, .args.gateway = 1 },
	{ "gateways without a number", false, "N 1 to M", NULL,
	  .args.gateways = 2 },
	{ "a third of two", false, "N 1 to M", NULL, .args.gateway = 3,
	  .args.gateways = 2 },
	{ "nine gateways", false, "M is 1 to 8", NULL, .args.gateway = 1,
	  .args.gateways = 9 },
	{ "a number that is cut to 1 in 32 bits", false, "N 1 to M", NULL,
	  .args.gateway = (1ull << 32) + 1, .args.gateways = 2 },
	{ "a role without a gateway", false, "need gateway=N", NULL,
	  .args.role = "active" },
	{ "failover without a gateway", false, "need gateway=N", NULL,
	  .args.failover = "auto" },
	{ "an unknown role", false, "role=activ: it is active or standby", NULL,
	  .args.gateway = 1, .args.gateways = 2, .args.role = "activ" },
	{ "an unknown failover", false, "failover=on: it is auto or manual",
	  NULL, .args.gateway = 1, .args.gateways = 2, .args.failover = "on" },
	{ "a gateway of a volume that may only be read", true,
	  "gateway= is for volumes that are written", NULL, .args.gateway = 1,
	  .args.gateways = 2 },
};

T_ROWS(args, args_rows)
{
	const struct args_row *row = *state;
	int err;

	begin();
	err = open_volume("pool/image", &row->args, row->read_only);
	if (row->refused) {
		assert_true(err < 0);
		assert_non_null(strstr(why, row->refused));
		assert_int_equal(t_ceph.opened, 0);
		return;
	}
	assert_int_equal(err, 0);
	if (row->settings) {
		assert_non_null(strstr(t_ceph.log, row->settings));
	}
	stop();
}

#define READS (RBP_CAN_FLUSH | RBP_CAN_EXTENT | RBP_LASTING)
#define WRITES                                                  \
	(READS | RBP_CAN_WRITE | RBP_CAN_UNMAP | RBP_CAN_ZERO | \
	 RBP_UNMAP_ZEROES)

static const struct info_row {
	const char *name;
	const char *location;
	bool read_only;
	bool has_cache;
	const char *failing;
	uint32_t caps;
} info_rows[] = {
	{ "an image without a cache", "pool/image", false, false, NULL,
	  WRITES | RBP_CAN_FUA },
	{ "an image with a cache", "pool/image", false, true, NULL,
	  WRITES | RBP_WRITE_CACHE },
	{ "nobody knows whether it has a cache", "pool/image", false, false,
	  "rbd_config_image_list", WRITES | RBP_WRITE_CACHE },
	{ "a volume that may only be read", "pool/image", true, false, NULL,
	  READS | RBP_CAN_FUA },
	{ "a snapshot", "pool/image@snap", false, false, NULL,
	  READS | RBP_CAN_FUA },
};

T_ROWS(info, info_rows)
{
	const struct info_row *row = *state;
	uint64_t bytes = 0;

	begin();
	t_ceph.has_cache = row->has_cache;
	t_ceph.failing = row->failing;
	t_ceph.err = -EINVAL;
	t_ceph.size = DISK_LEN + BLOCK - 1;
	assert_int_equal(open_volume(row->location, &usual, row->read_only), 0);
	assert_int_equal(host.info.caps, row->caps);
	assert_int_equal(host.info.bytes, DISK_LEN);
	assert_int_equal(host.info.block_size, BLOCK);
	assert_int_equal(host.plugin->measure(host.volume, &bytes), 0);
	assert_int_equal(bytes, DISK_LEN);
	stop();
}

/* ---- I/O ---- */

static uint8_t buf[DISK_LEN];

static int run(struct t_request *r, struct rbp_io io)
{
	t_host_add_queue(&host, 0);
	t_host_submit(&host, r, 0, io);
	return t_host_result(&host, r);
}

static const struct io_row {
	const char *name;
	enum rbp_op op;
	uint32_t flags;
	const char *calls;
} io_rows[] = {
	{ "a read", RBP_READ, 0, "read 4096@512\n" },
	{ "a write", RBP_WRITE, 0, "write 4096@512\n" },
	{ "a flush", RBP_FLUSH, 0, "flush\n" },
	{ "an unmap keeps no data", RBP_UNMAP, 0, "zero 4096@512\n" },
	{ "zeroes keep the space", RBP_ZERO, 0, "thick zero 4096@512\n" },
	{ "zeroes that may free it", RBP_ZERO, RBP_MAY_UNMAP,
	  "zero 4096@512\n" },
};

T_ROWS(io, io_rows)
{
	const struct io_row *row = *state;
	const struct rbp_io io_of_row = { .op = row->op,
					  .flags = row->flags,
					  .offset = 512,
					  .len = 4096,
					  .buf = buf };
	struct t_request r;

	start();
	assert_int_equal(run(&r, io_of_row), 0);
	assert_string_equal(t_ceph.log, row->calls);
	assert_int_equal(t_ceph.opened, 4);
	stop();
}

static const struct error_row {
	const char *name;
	enum rbp_op op;
	const char *failing;
	int err;
	bool has_cache;
	uint64_t size; /* of the image now */
	int res;
} error_rows[] = {
	{ "no memory", RBP_READ, "rbd_aio_create_completion", -ENOMEM, false,
	  DISK_LEN, -ENOMEM },
	{ "it cannot begin", RBP_WRITE, "begin", -EROFS, false, DISK_LEN,
	  -EROFS },
	{ "it fails", RBP_WRITE, "answer", -ENOSPC, false, DISK_LEN, -ENOSPC },
	{ "no answer to a write", RBP_WRITE, "answer", -ETIMEDOUT, false,
	  DISK_LEN, -EIO },
	{ "no answer to a flush of stable data", RBP_FLUSH, "answer",
	  -ETIMEDOUT, false, DISK_LEN, -ENOTCONN },
	{ "no answer to a flush of a cache", RBP_FLUSH, "answer", -ETIMEDOUT,
	  true, DISK_LEN, -EIO },
	{ "a read over the end of an image that was cut", RBP_READ, NULL, 0,
	  false, 1024, -EIO },
	{ "no answer about an extent", RBP_EXTENT, "rbd_diff_iterate2",
	  -ETIMEDOUT, false, DISK_LEN, -EIO },
};

T_ROWS(error, error_rows)
{
	const struct error_row *row = *state;
	const struct rbp_io io_of_row = {
		.op = row->op, .offset = 512, .len = 4096, .buf = buf
	};
	struct t_request r;

	begin();
	t_ceph.has_cache = row->has_cache;
	assert_int_equal(open_volume("pool/image", &usual, false), 0);
	t_ceph.size = row->size;
	t_ceph.failing = row->failing;
	t_ceph.err = row->err;
	assert_int_equal(run(&r, io_of_row), row->res);
	assert_int_equal(t_ceph.opened, 4);
	assert_int_equal(strstr(host.log, "has not answered for 30 s") != NULL,
			 row->err == -ETIMEDOUT);
	stop();
}

static const struct doubt_row {
	const char *name;
	enum rbp_op op;
	bool has_cache;
	bool in_doubt;
} doubt_rows[] = {
	{ "a write", RBP_WRITE, false, true },
	{ "an unmap", RBP_UNMAP, false, true },
	{ "zeroes", RBP_ZERO, false, true },
	{ "a flush of a cache", RBP_FLUSH, true, true },
	{ "a flush of nothing", RBP_FLUSH, false, false },
	{ "a read", RBP_READ, false, false },
};

/* The cluster may still get a write that has timed out, after newer ones of the
 * next client, if the client that has sent it is not shut out. */
T_ROWS(late_write_is_shut_out, doubt_rows)
{
	const struct doubt_row *row = *state;
	const struct rbp_io io_of_row = { .op = row->op,
					  .len = 4096,
					  .buf = buf };
	struct t_request r;

	for (int fails = 0; fails < 2; fails++) {
		begin();
		t_ceph.has_cache = row->has_cache;
		assert_int_equal(open_volume("pool/image", &usual, false), 0);
		t_ceph.failing = "answer";
		t_ceph.err = -ETIMEDOUT;
		run(&r, io_of_row);
		t_ceph.failing = fails ? "rados_blocklist_add" : NULL;
		stop();
		assert_int_equal(t_ceph.fence_s > 0, row->in_doubt && !fails);
		assert_int_equal(strstr(host.log, "may still be done") != NULL,
				 row->in_doubt && fails);
	}
}

#define AT 8192u

struct extent_row {
	const char *name;
	struct t_ceph_piece by_object[T_CEPH_PIECES];
	struct t_ceph_piece by_byte[T_CEPH_PIECES];
	uint64_t len;
	int is_mapped;
};

/* Asked for: 64 KiB from 8192 on. */
static const struct extent_row extent_rows[] = {
	{ "no data", { { 0 } }, { { 0 } }, 65536, 0 },
	{ "no data up to an object",
	  { { 16384, 4096, 1 } },
	  { { 0 } },
	  8192,
	  0 },
	{ "data", { { AT, 65536, 1 } }, { { AT, 65536, 1 } }, 65536, 1 },
	{ "data that goes on in another object",
	  { { AT, 65536, 1 } },
	  { { AT, 1024, 1 }, { AT + 1024, 1024, 1 } },
	  2048,
	  1 },
	{ "data, then nothing",
	  { { AT, 65536, 1 } },
	  { { AT, 1024, 1 }, { AT + 4096, 1024, 1 } },
	  1024,
	  1 },
	{ "an object without data at its begin",
	  { { AT, 65536, 1 } },
	  { { AT + 4096, 1024, 1 } },
	  4096,
	  0 },
	{ "what was discarded is no data",
	  { { AT, 65536, 0 } },
	  { { 0 } },
	  65536,
	  0 },
	{ "a block that has data in its second half",
	  { { AT, 65536, 1 } },
	  { { AT + 256, 256, 1 } },
	  512,
	  1 },
	{ "data that ends within a block",
	  { { AT, 65536, 1 } },
	  { { AT, 600, 1 } },
	  1024,
	  1 },
	{ "a hole that ends within a block",
	  { { AT, 65536, 1 } },
	  { { AT + 1100, 600, 1 } },
	  1024,
	  0 },
	{ "more than was asked for",
	  { { AT, 1 << 20, 1 } },
	  { { AT, 1 << 20, 1 } },
	  65536,
	  1 },
};

T_ROWS(extent, extent_rows)
{
	const struct extent_row *row = *state;
	const struct rbp_io ask = { .op = RBP_EXTENT,
				    .offset = AT,
				    .len = 65536 };
	struct t_request r;

	start();
	t_ceph.by_object = row->by_object;
	t_ceph.by_byte = row->by_byte;
	assert_int_equal(run(&r, ask), 0);
	assert_int_equal(r.io.extent_len, row->len);
	assert_int_equal(r.io.extent_mapped, row->is_mapped);
	stop();
}

/* ---- changes of the size ---- */

static void wait_for_size(void)
{
	while (!host.resized_cnt)
		t_host_turn(&host);
}

T_TEST(image_grows)
{
	uint64_t bytes;

	start();
	t_ceph.size = 2 * DISK_LEN + 100;
	t_ceph.changed(t_ceph.changed_user);
	wait_for_size();
	assert_int_equal(host.plugin->measure(host.volume, &bytes), 0);
	assert_int_equal(bytes, 2 * DISK_LEN);
	stop();
}

/* librbd finds no data behind the end. Reads there fail, and who skips holes
 * would take them for zeroes. */
T_TEST(missing_blocks_of_a_shrunk_image_are_no_hole)
{
	static const struct t_ceph_piece none[1];
	const struct rbp_io asks[] = {
		{ .op = RBP_EXTENT, .offset = AT, .len = 65536 },
		{ .op = RBP_EXTENT, .offset = 2 * AT, .len = 65536 },
	};
	struct t_request r;

	start();
	t_ceph.by_object = none;
	t_ceph.size = 2 * AT;
	t_ceph.changed(t_ceph.changed_user);
	wait_for_size();
	assert_int_equal(run(&r, asks[0]), 0);
	assert_false(r.io.extent_mapped);
	assert_int_equal(r.io.extent_len, AT);
	assert_int_equal(run(&r, asks[1]), 0);
	assert_true(r.io.extent_mapped);
	assert_int_equal(r.io.extent_len, 65536);
	stop();
}

/* The thread runs an extent after it has looked at the size. */
T_TEST(size_is_not_known)
{
	const struct rbp_io ask = { .op = RBP_EXTENT, .len = 512 };
	struct t_request r;
	static const struct t_ceph_piece none[1];
	uint64_t bytes;

	start();
	t_ceph.by_object = none;
	t_ceph.failing = "rbd_get_size";
	t_ceph.err = -EIO;
	t_ceph.changed(t_ceph.changed_user);
	assert_int_equal(run(&r, ask), 0);
	assert_non_null(strstr(host.log, "the old one stays in use"));
	assert_int_equal(host.plugin->measure(host.volume, &bytes), 0);
	assert_int_equal(bytes, DISK_LEN);
	stop();
}

/* ---- gateways ---- */

static const struct args two = { .timeout_s = 30,
				 .gateway = 1,
				 .gateways = 2,
				 .role = "active",
				 .failover = "auto",
				 .after_s = 7 };

T_TEST(gateway_is_asked)
{
	struct rbp_io io_of_gateway = { .op = RBP_READ,
					.len = 512,
					.buf = buf };
	struct t_request r;
	struct rbp_paths paths = { .size = sizeof(paths) };

	begin();
	assert_int_equal(open_volume("pool/image", &two, false), 0);
	assert_non_null(gateway.started);
	assert_true(gateway.active);
	assert_true(gateway.started->takes_over);
	assert_int_equal(gateway.started->after_ms, 7000);
	host.plugin->paths(host.volume, &paths);
	assert_int_equal(paths.cnt, 2);
	assert_int_equal(paths.own, 1);
	host.plugin->set_path(host.volume, &io_of_gateway);
	host.plugin->get_notes(host.volume, &io_of_gateway);
	host.plugin->put_notes(host.volume, &io_of_gateway);
	host.plugin->notes_taken(host.volume, 3);
	assert_string_equal(gateway.log, "set get put taken 3");
	assert_int_equal(run(&r, io_of_gateway), 0);
	/* An error may come from a fence. */
	t_ceph.failing = "answer";
	t_ceph.err = -EPERM;
	assert_int_equal(run(&r, io_of_gateway), -ESHUTDOWN);
	assert_int_equal(gateway.judged, -EPERM);
	gateway.judged = 0;
	t_ceph.err = -ESHUTDOWN;
	assert_int_equal(run(&r, io_of_gateway), -ESHUTDOWN);
	assert_int_equal(gateway.judged, 0);
	gateway.refuses = true;
	t_ceph.log[0] = '\0';
	assert_int_equal(run(&r, io_of_gateway), -ESHUTDOWN);
	assert_string_equal(t_ceph.log, "");
	assert_int_equal(gateway.inflight, 0);
	stop();
}

struct check_row {
	const char *name;
	enum rbp_op op;
	uint32_t flags;
	struct t_ceph_piece zeroes[T_CEPH_PIECES]; /* in what is read */
	bool is_asked;				   /* the cluster, afterwards */
};

/* 8192 bytes from 2048 on: the rest of an object, a whole one, a part of one. */
static const struct check_row check_rows[] = {
	{ "a read of data", RBP_READ, 0, { { 0 } }, false },
	{ "a read of some zeroes",
	  RBP_READ,
	  0,
	  { { 2048, 2047, 1 }, { 4097, 4095, 1 }, { 8193, 2047, 1 } },
	  false },
	{ "zeroes to the end of an object",
	  RBP_READ,
	  0,
	  { { 2048, 2048, 1 } },
	  true },
	{ "an object of zeroes", RBP_READ, 0, { { 4096, 4096, 1 } }, true },
	{ "zeroes from the begin of an object",
	  RBP_READ,
	  0,
	  { { 8192, 2048, 1 } },
	  true },
	{ "an unmap", RBP_UNMAP, 0, { { 0 } }, true },
	{ "zeroes that may free space",
	  RBP_ZERO,
	  RBP_MAY_UNMAP,
	  { { 0 } },
	  true },
	{ "zeroes that are written", RBP_ZERO, 0, { { 0 } }, false },
	{ "a write", RBP_WRITE, 0, { { 0 } }, false },
	{ "a flush", RBP_FLUSH, 0, { { 0 } }, false },
};

/* librbd may have answered from memory, after another target has fenced this one
 * and has written there. */
T_ROWS(answer_from_memory_is_checked, check_rows)
{
	const struct check_row *row = *state;
	const struct rbp_io io_of_row = { .op = row->op,
					  .flags = row->flags,
					  .offset = 2048,
					  .len = 8192,
					  .buf = buf };
	struct t_request r;

	begin();
	assert_int_equal(open_volume("pool/image", &two, false), 0);
	t_ceph.zeroes = row->zeroes;
	assert_int_equal(run(&r, io_of_row), 0);
	assert_int_equal(strstr(t_ceph.log, "stat ") != NULL, row->is_asked);
	t_ceph.failing = "stat";
	t_ceph.err = -ESHUTDOWN;
	assert_int_equal(run(&r, io_of_row), row->is_asked ? -ESHUTDOWN : 0);
	t_ceph.failing = "rados_aio_stat";
	assert_int_equal(run(&r, io_of_row), row->is_asked ? -ESHUTDOWN : 0);
	t_ceph.failing = "stat";
	t_ceph.err = -ETIMEDOUT;
	run(&r, io_of_row);
	assert_int_equal(gateway.judged, row->is_asked ? -EIO : 0);
	assert_int_equal(gateway.inflight, 0);
	assert_int_equal(t_ceph.opened, 4);
	stop();
}

/* librbd may have read the parent of a clone in place of an object that another
 * target has written in the meantime. */
T_TEST(answer_of_a_parent_is_checked)
{
	static const struct t_ceph_piece none[1];
	const struct rbp_io inside = {
		.op = RBP_READ, .offset = 4096, .len = 4096, .buf = buf
	};
	const struct rbp_io behind = {
		.op = RBP_READ, .offset = 8192, .len = 4096, .buf = buf
	};
	const struct rbdp_msg msg = { why, sizeof(why) };
	struct t_request r;

	begin();
	t_ceph.parent_bytes = 8192;
	assert_int_equal(open_volume("pool/image", &two, false), 0);
	t_ceph.zeroes = none;
	t_ceph.failing = "stat";
	t_ceph.err = -ESHUTDOWN;
	assert_int_equal(run(&r, behind), 0);
	assert_int_equal(run(&r, inside), -ESHUTDOWN);
	/* It has been flattened. */
	t_ceph.failing = NULL;
	t_ceph.parent_bytes = 0;
	assert_int_equal(gateway.started->reopen(gateway.started->user, &msg),
			 0);
	t_ceph.failing = "stat";
	assert_int_equal(run(&r, inside), 0);
	assert_int_equal(gateway.inflight, 0);
	stop();
}

/* Without other targets, nobody else writes. */
T_TEST(answer_from_memory_is_good_without_gateways)
{
	const struct rbp_io unmap = { .op = RBP_UNMAP, .len = 4096 };
	struct t_request r;

	start();
	assert_int_equal(run(&r, unmap), 0);
	assert_null(strstr(t_ceph.log, "stat"));
	stop();
}

/* An answer counts for the I/Os that had ended before its request was sent. */
T_TEST(check_is_for_older_answers)
{
	const struct rbp_io unmap = { .op = RBP_UNMAP, .len = 4096 };
	struct t_request r[3];

	begin();
	assert_int_equal(open_volume("pool/image", &two, false), 0);
	t_host_add_queue(&host, 0);
	t_ceph.is_slow = true;
	for (int i = 0; i < 3; i++)
		t_host_submit(&host, &r[i], 0, unmap);
	t_ceph_answer();
	assert_int_equal(t_host_result(&host, &r[0]), 0);
	assert_false(t_host_has_ended(&host, &r[1]));
	assert_false(t_host_has_ended(&host, &r[2]));
	t_ceph.failing = "stat";
	t_ceph.err = -ESHUTDOWN;
	t_ceph_answer();
	assert_int_equal(t_host_result(&host, &r[1]), -ESHUTDOWN);
	assert_int_equal(t_host_result(&host, &r[2]), -ESHUTDOWN);
	assert_null(t_ceph.asked);
	assert_int_equal(gateway.inflight, 0);
	stop();
}

T_TEST(gateway_does_not_start)
{
	begin();
	gateway.err = -EBUSY;
	assert_int_equal(open_volume("pool/image", &two, false), -EBUSY);
	assert_string_equal(why, "no lock");
	assert_int_equal(t_ceph.opened, 0);
}

/* The cache of a fenced gateway is lost without word. */
T_TEST(gateway_with_a_cache)
{
	begin();
	t_ceph.has_cache = true;
	assert_int_equal(open_volume("pool/image", &two, false), -EINVAL);
	assert_non_null(strstr(why, "rbd_cache false"));
	assert_int_equal(t_ceph.opened, 0);
	t_ceph.has_cache = false;
	t_ceph.has_log = true;
	assert_int_equal(open_volume("pool/image", &two, false), -EINVAL);
	assert_non_null(strstr(why, "rbd_persistent_cache_mode disabled"));
	assert_int_equal(t_ceph.opened, 0);
}

/* The metadata of an image overrides our settings. */
T_TEST(gateway_needs_a_fence)
{
	static const struct args alone = { .gateway = 1, .gateways = 1 };

	begin();
	t_ceph.has_no_fence = true;
	assert_int_equal(open_volume("pool/image", &alone, false), -EINVAL);
	assert_non_null(strstr(why, "sets rbd_blocklist_on_break_lock"));
	assert_int_equal(t_ceph.opened, 0);
	/* It breaks no locks. */
	assert_int_equal(open_volume("pool/image", &usual, false), 0);
	stop();
}

static const struct reopen_row {
	const char *name;
	const char *failing;
	const char *id;
	bool has_cache;
	int res;
	const char *text;
} reopen_rows[] = {
	{ "the same image", NULL, "abc", false, 0, "" },
	{ "another image of that name", NULL, "def", false, -ESTALE,
	  "another image has its name now" },
	{ "a cache was turned on", NULL, "abc", true, -EINVAL, "rbd_cache on" },
	{ "it cannot be opened", "rbd_open", "abc", false, -EIO,
	  "cannot open the image" },
	{ "it cannot be watched", "rbd_update_watch", "abc", false, -EIO,
	  "cannot watch the image" },
	{ "it has no identity", "rbd_get_id", "abc", false, -EIO,
	  "cannot describe the image" },
	{ "its parent is not known", "rbd_get_overlap", "abc", false, -EIO,
	  "cannot describe the image's parent" },
};

/* A fenced gateway opens the image again. After an error, it tries again. */
T_ROWS(reopen, reopen_rows)
{
	const struct reopen_row *row = *state;
	char text[256] = "";
	const struct rbdp_msg msg = { text, sizeof(text) };
	struct rbdp_gateway *gw;

	begin();
	assert_int_equal(open_volume("pool/image", &two, false), 0);
	gw = gateway.started;
	t_ceph.failing = row->failing;
	t_ceph.err = -EIO;
	t_ceph.id = row->id;
	t_ceph.has_cache = row->has_cache;
	t_ceph.size = 2 * DISK_LEN;
	assert_int_equal(gw->reopen(gw->user, &msg), row->res);
	assert_non_null(strstr(text, row->text));
	assert_int_equal(t_ceph.opened, row->res ? 0 : 4);
	t_ceph.failing = NULL;
	t_ceph.id = "abc";
	t_ceph.has_cache = false;
	assert_int_equal(gw->reopen(gw->user, &msg), 0);
	/* Its size may have changed meanwhile. */
	wait_for_size();
	stop();
}

/* ---- notes ---- */

/* A target without gateway= does not go by what gateways have noted. */
T_TEST(notes_of_gateways_are_logged)
{
	begin();
	assert_int_equal(open_volume("pool/image", &usual, false), 0);
	assert_string_equal(host.log, "");
	stop();
	begin();
	t_ceph.pairs[0] =
		(struct t_ceph_pair){ "rdma_block.notes.version", "3", 0 };
	assert_int_equal(open_volume("pool/image", &usual, false), 0);
	assert_non_null(strstr(host.log, "reservations of targets with"));
	assert_non_null(strstr(t_ceph.log, "rbd_header.abc"));
	stop();
}
