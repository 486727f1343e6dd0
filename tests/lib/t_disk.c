/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_disk.h"

#include <string.h>

#include "target/scsi/unit_share.h"
#include "tests/lib/t_bytes.h"

#define STALE 0xa5

/* ---- the disk under test ---- */

static const struct backend_info stores[] = {
	[T_THIN] = { .unmap_granularity = 4096,
		     .unmap_zeroes = true,
		     .durability = RBP_STABLE_AFTER_FLUSH,
		     .read_cache = true,
		     .fua = true,
		     .atomic_len = 4096,
		     .zero = true,
		     .extents = true },
	[T_PLAIN] = { .durability = RBP_STABLE_AFTER_FLUSH },
	[T_STABLE] = { .unmap_granularity = 4096,
		       .unmap_zeroes = true,
		       .fua = true,
		       .atomic_len = 4096,
		       .zero = true },
	[T_MEMORY] = { .unmap_granularity = 4096,
		       .unmap_zeroes = true,
		       .zero = true,
		       .atomic_len = 4096,
		       .memory = &t_store },
	[T_READ_ONLY] = { .extents = true },
	[T_REMOVABLE] = { .durability = RBP_STABLE_AFTER_FLUSH, .fua = true },
};

struct t_disk t_disk;

/* Block n is full of the byte n + 1. */
static void fill_store(void)
{
	for (unsigned int i = 0; i < T_BLOCKS; i++)
		memset(t_store.bytes + (size_t)i * T_BLOCK, (int)(i + 1),
		       T_BLOCK);
}

struct srp_port_id t_port_id(unsigned int number)
{
	return srp_port_id_make(0, number);
}

struct scsi_nexus *t_nexus(unsigned int number)
{
	return number == 1 ? &t_disk.nexus : &t_disk.others[number - 2];
}

static void start_nexuses(void)
{
	for (unsigned int n = 1; n <= T_NEXUSES; n++) {
		struct srp_port_id port = t_port_id(n);

		scsi_nexus_init(t_nexus(n), &t_disk.luns, &port);
		for (unsigned int i = 0; i < LUNS_MAX; i++)
			atomic_store(&t_nexus(n)->ua[i], 0);
	}
	t_disk.from = &t_disk.nexus;
}

void t_disk_start(enum t_disk_store store)
{
	t_disk_start_in(store, NULL);
}

void t_disk_start_in(enum t_disk_store store, const char *state_dir)
{
	struct volume_spec spec = { .type = &t_store_type,
				    .block_size = T_BLOCK,
				    .read_only = store == T_READ_ONLY,
				    .removable = store == T_REMOVABLE,
				    .path = "test",
				    .serial = "0123" };
	struct reactor_options ropt = { .ring_entries = 8 };
	struct error e = { 0 };

	assert_int_equal(reactor_create(&ropt, &t_disk.worker.reactor), 0);
	lun_map_init(&t_disk.luns);
	t_disk.aborted[0] = '\0';
	t_store_reset(&stores[store]);
	strcpy(t_store.info.id.mark.lasting, "test");
	t_store.info.size = (uint64_t)T_BLOCKS * T_BLOCK;
	t_store.info.optimal_block = 4096;
	t_store.depth = 1;
	t_store.extent_unit = 4096;
	t_store.paths = t_disk.paths;
	t_disk.paths = (struct backend_paths){ 0 };
	t_store.info.has_notes = t_disk.has_notes;
	t_disk.has_notes = false;
	assert_int_equal(volume_open(&spec, 0, "t", &t_disk.luns.vol[0], &e),
			 0);
	assert_int_equal(volume_attach(t_disk.luns.vol[0], &t_disk.worker, &e),
			 0);
	if (state_dir)
		assert_int_equal(
			unit_state_load(t_disk.luns.vol[0], state_dir, &e), 0);
	assert_int_equal(unit_share_start(t_disk.luns.vol[0], &t_disk.luns, &e),
			 0);
	t_disk.luns.vol[T_OTHER_LUN] = t_disk.luns.vol[0];
	t_disk.luns.cnt = 2;
	fill_store();
	start_nexuses();
}

void t_disk_stop(void)
{
	assert_int_equal(t_store.held_cnt, 0);
	for (unsigned int n = 1; n <= T_NEXUSES; n++) {
		scsi_nexus_end(t_nexus(n));
		scsi_nexus_fini(t_nexus(n));
	}
	volume_detach(t_disk.luns.vol[0], &t_disk.worker);
	volume_close(t_disk.luns.vol[0]);
	reactor_destroy(t_disk.worker.reactor);
	memset(&t_disk.luns, 0, sizeof(t_disk.luns));
}

/* ---- the port ---- */

static void command_done(struct scsi_task *task)
{
	((struct t_command *)task)->done++;
}

static bool command_answered(struct scsi_task *task)
{
	struct t_command *c = (struct t_command *)task;

	assert_false(c->answered);
	assert_int_equal(c->done, 0);
	c->answered = true;
	return true;
}

static int abort_commands(struct scsi_task *task,
			  const struct scsi_pr_nexus *nexuses, unsigned int cnt)
{
	size_t len = 0;

	for (unsigned int i = 0; i < cnt; i++)
		len += (size_t)snprintf(t_disk.aborted + len,
					sizeof(t_disk.aborted) - len, "%u ",
					nexuses[i].port.b[15]);
	task->aborted(task);
	return 0;
}

static void set_cdb(struct t_command *c, const char *hex)
{
	struct t_bytes b = t_bytes(hex);

	assert_true(b.len <= SCSI_CDB_LEN);
	memcpy(c->cdb, b.p, b.len);
	free(b.p);
}

static void take_buffer(struct t_command *c, const uint8_t *out)
{
	struct scsi_task *t = &c->task;

	assert_true(t->fetch_len <= t->data_out_len);
	assert_true(t->buf_len >= t->fetch_len);
	if (!t->buf_is_volume && t->buf_len) {
		c->buf = malloc(t->buf_len);
		assert_non_null(c->buf);
		memset(c->buf, STALE, t->buf_len);
		t->buf = c->buf;
	}
	if (t->fetch_len)
		memcpy(t->buf, out, t->fetch_len);
}

static void go_on(struct scsi_task *task)
{
	struct t_command *c = (struct t_command *)task;

	take_buffer(c, c->out);
	scsi_task_execute(task);
}

struct volume *t_disk_add(const struct volume_spec *spec, unsigned int lun)
{
	struct volume **vol = &t_disk.luns.vol[lun];
	struct error e = { 0 };

	assert_int_equal(volume_open(spec, lun, "t", vol, &e), 0);
	assert_int_equal(volume_attach(*vol, &t_disk.worker, &e), 0);
	return *vol;
}

void t_disk_remove(unsigned int lun)
{
	struct volume **vol = &t_disk.luns.vol[lun];

	volume_detach(*vol, &t_disk.worker);
	volume_close(*vol);
	*vol = NULL;
}

bool t_disk_turn(void)
{
	return t_store_answer() ||
	       reactor_run_once(t_disk.worker.reactor, 0) > 0;
}

static void set_up(struct t_command *c, const char *cdb, int lun,
		   uint32_t out_len, uint32_t in_len)
{
	struct scsi_task *t = &c->task;

	memset(c, 0, sizeof(*c));
	set_cdb(c, cdb);
	t->worker = &t_disk.worker;
	t->nexus = t_disk.from;
	t->lun = lun;
	t->cdb = c->cdb;
	t->cdb_len = SCSI_CDB_LEN;
	t->data_out_len = out_len;
	t->data_in_len = in_len;
	t->buf_index = -1;
	t->done = command_done;
	t->answer = command_answered;
	t->abort = abort_commands;
}

static void ignore(struct scsi_task *task)
{
}

void t_command_begin(struct t_command *c, const char *cdb, int lun,
		     uint32_t out_len)
{
	set_up(c, cdb, lun, out_len, /* in_len= */ 0);
	assert_int_equal(scsi_task_prepare(&c->task), SCSI_TASK_GO);
	assert_true(c->task.buf_is_volume);
	assert_true(scsi_task_own(&c->task, ignore));
}

bool t_command_prepare(struct t_command *c, const char *cdb, int lun,
		       uint32_t out_len, uint32_t in_len)
{
	set_up(c, cdb, lun, out_len, in_len);
	if (scsi_task_prepare(&c->task) == SCSI_TASK_GO)
		return true;
	assert_int_equal(c->done, 0);
	return false;
}

void t_command_execute(struct t_command *c, const uint8_t *out)
{
	struct scsi_task *t = &c->task;

	c->executed = true;
	c->out = out;
	if (!t->buf_is_volume || scsi_task_own(t, go_on))
		go_on(t);
}

void t_command_start(struct t_command *c, const char *cdb, int lun,
		     const uint8_t *out, uint32_t out_len, uint32_t in_len)
{
	if (t_command_prepare(c, cdb, lun, out_len, in_len))
		t_command_execute(c, out);
}

void t_command_run(struct t_command *c, const char *cdb, int lun,
		   const uint8_t *out, uint32_t out_len, uint32_t in_len)
{
	t_command_start(c, cdb, lun, out, out_len, in_len);
	if (!c->executed)
		return;
	while (!c->done)
		assert_true(t_disk_turn() ||
			    reactor_run_once(t_disk.worker.reactor,
					     /* timeout_ms= */ 100000) > 0);
	assert_int_equal(c->done, 1);
	assert_true(c->task.data_in_cnt <= in_len);
}

void t_command_free(struct t_command *c)
{
	scsi_task_release(&c->task);
	free(c->buf);
}

const char *t_outcome(const struct scsi_task *t)
{
	static char text[96];
	struct scsi_sense s;
	int n;

	if (t->status == SCSI_STATUS_GOOD) {
		assert_int_equal(t->sense_len, 0);
		return "good";
	}
	if (t->status == SCSI_STATUS_RESERVATION_CONFLICT) {
		assert_int_equal(t->sense_len, 0);
		assert_int_equal(t->data_in_cnt, 0);
		return "conflict";
	}
	if (t->status == SCSI_STATUS_CONDITION_MET) {
		assert_int_equal(t->sense_len, 0);
		return "met";
	}
	assert_int_equal(t->status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(t->data_in_cnt, 0);
	assert_int_equal(scsi_sense_decode(t->sense, t->sense_len, &s), 0);
	n = snprintf(text, sizeof(text), "%s%02x/%02x/%02x",
		     s.deferred ? "deferred " : "", s.key, SCSI_ASC(s.code),
		     SCSI_ASCQ(s.code));
	if (s.pointer != SCSI_POINTER_NONE)
		n += snprintf(text + n, sizeof(text) - n, " %s %u",
			      s.pointer == SCSI_POINTER_CDB ? "CDB" : "data",
			      s.byte_no);
	if (s.pointer != SCSI_POINTER_NONE && s.bit_no != SCSI_BIT_NONE)
		n += snprintf(text + n, sizeof(text) - n, ".%u", s.bit_no);
	if (s.progress_valid)
		n += snprintf(text + n, sizeof(text) - n, " at %u", s.progress);
	if (s.info_valid)
		snprintf(text + n, sizeof(text) - n, " info %llu",
			 (unsigned long long)s.info);
	return text;
}

static void check_store(const struct t_disk_row *row)
{
	uint8_t *is = malloc((size_t)T_BLOCKS * T_BLOCK);
	struct t_bytes after = t_bytes(row->after ? row->after : "");

	assert_non_null(is);
	if (row->after) {
		assert_memory_equal(t_store.bytes + row->lba * T_BLOCK, after.p,
				    after.len);
	} else if (!row->ops) {
		memcpy(is, t_store.bytes, (size_t)T_BLOCKS * T_BLOCK);
		fill_store();
		assert_memory_equal(is, t_store.bytes,
				    (size_t)T_BLOCKS * T_BLOCK);
	}
	free(after.p);
	free(is);
}

static void check_data_in(const struct t_disk_row *row,
			  const struct scsi_task *t)
{
	struct t_bytes in = t_bytes(row->in ? row->in : "");

	assert_int_equal(t->data_in_cnt, row->in_cnt);
	assert_true(in.len <= t->data_in_cnt);
	if (in.len)
		assert_memory_equal(t->buf, in.p, in.len);
	free(in.p);
}

void t_disk_run_row(const struct t_disk_row *row, bool later)
{
	struct t_bytes out = t_bytes(row->out ? row->out : "");
	struct t_command c;

	t_disk_start(row->store);
	t_store.hold = later;
	t_store.fail_at = row->fail_at;
	t_store.fail_with = row->fail_with;
	t_store.fail_progress = row->fail_progress;
	t_command_run(&c, row->cdb, row->lun, out.p, (uint32_t)out.len,
		      row->in_len);
	assert_string_equal(t_outcome(&c.task),
			    row->outcome ? row->outcome : "good");
	assert_string_equal(t_store.log, row->ops ? row->ops : "");
	check_data_in(row, &c.task);
	assert_int_equal(c.task.wanted_in, row->wanted_in);
	assert_int_equal(c.task.wanted_out, row->wanted_out);
	check_store(row);
	t_command_free(&c);
	free(out.p);
	t_disk_stop();
}
