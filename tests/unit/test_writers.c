/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * To which initiators a restarted target owes a failed flush (writers.h),
 * and which answers of a port pay this debt. See tests/lib/t_rig.h.
 */
#include "tests/lib/t_rig.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "protocol/scsi_sense.h"
#include "target/scsi/volume_writers.h"
#include "tests/lib/t_table.h"

#define CACHING 0x08
#define WCE	0x04

/* ---- a directory for journals ---- */

static char dir[32];
static const char *run_dir; /* where journals were without a state directory */
static bool is_run_dir;	    /* dir is no state directory */

static void make_dir(void)
{
	strcpy(dir, "/tmp/writers-XXXXXX");
	assert_non_null(mkdtemp(dir));
}

static void remove_dir(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	char path[sizeof(dir) + 1 + sizeof(e->d_name)];

	while ((e = readdir(d))) {
		snprintf(path, sizeof(path), "%s/%s", dir, e->d_name);
		if (e->d_name[0] != '.')
			assert_int_equal(unlink(path), 0);
	}
	closedir(d);
	assert_int_equal(rmdir(dir), 0);
}

static void no_keep(struct writers *ws, bool now)
{
}

/* The test writes the journal itself. */
static void open_writers(struct volume *vol, const char *boot)
{
	struct error e = { 0 };

	if (volume_writers_open_in(vol, dir, run_dir, boot, &e))
		fail_msg("%s", e.text);
	vol->dev.writers.keep = no_keep;
}

/* Returns an initiator by its port, of no principal. */
static const uint8_t *key_of(const struct srp_port_id *port)
{
	static uint8_t key[WRITER_PORT_LEN];

	memcpy(key, port->b, WRITER_PRINCIPAL_AT);
	return key;
}

/* As after kill -9: the journal has all that was answered. */
static void restart_writers(struct volume *vol, const char *boot)
{
	char path[128];
	struct error e;

	volume_writers_save(vol);
	snprintf(path, sizeof(path), "%s", vol->journal.path);
	disk_journal_close(&vol->journal);
	assert_int_equal(disk_journal_open(&vol->journal, path, true, &e), 0);
	assert_int_equal(disk_journal_make(&vol->journal, &e), 0);
	writers_fini(&vol->dev.writers);
	writers_init(&vol->dev.writers);
	open_writers(vol, boot);
}

/* False: the answer must wait for the journal. */
static bool write_of(struct volume *vol, const struct srp_port_id *port)
{
	writer_ref ref = NULL;
	bool kept = writers_wrote(&vol->dev.writers, &ref, key_of(port));

	writers_leave(&vol->dev.writers, &ref);
	return kept;
}

static void fail_flush(struct volume *vol)
{
	struct writers *ws = &vol->dev.writers;

	writers_flush_ends(ws, writers_flush_begins(ws), -EIO);
}

/* ---- which answers count ---- */

struct pair {
	struct rig *rig;
	struct t_ini *one;
	struct t_ini *two; /* is owed a failed flush */
};

static void begin(struct pair *p)
{
	struct srp_login_req req;
	struct volume *vol;

	make_dir();
	p->rig = rig_create(NULL);
	vol = p->rig->target.luns.vol[RIG_DISK];
	vol->dev.backend->info.life.rdev = 7;
	open_writers(vol, "boot");
	req = rig_login_req(p->rig, 2, SRP_MULTICHAN_SINGLE);
	write_of(vol, &req.initiator);
	fail_flush(vol);
	restart_writers(vol, "boot");
	volume_writers_start(vol, p->rig->target.workers[0].reactor);
	p->one = rig_login(p->rig, 1, SRP_MULTICHAN_SINGLE);
	p->two = rig_login(p->rig, 2, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(p->one, RIG_DISK, NULL);
	rig_clear_ua(p->two, RIG_DISK, NULL);
}

static void end(struct pair *p)
{
	rig_destroy(p->rig);
	remove_dir();
}

static uint64_t send_sync(struct t_ini *ch)
{
	const struct rig_cmd cmd = { .lun = RIG_DISK, .cdb = { 0x35 } };

	return rig_cmd(ch, &cmd);
}

static void expect_failed_flush(struct t_ini *ch)
{
	const struct srp_rsp *rsp;
	struct scsi_sense sense;

	rig_clear_ua(ch, RIG_DISK, NULL);
	rsp = t_ini_rsp(ch, send_sync(ch));
	assert_non_null(rsp);
	assert_int_equal(rsp->status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(scsi_sense_decode(rsp->sense, rsp->sense_len, &sense),
			 0);
	assert_int_equal(sense.key, SCSI_KEY_HARDWARE_ERROR);
}

T_TEST(debt_is_paid_once)
{
	struct pair p;

	begin(&p);
	rig_expect_status(p.one, send_sync(p.one), SCSI_STATUS_GOOD);
	expect_failed_flush(p.two);
	rig_expect_status(p.two, send_sync(p.two), SCSI_STATUS_GOOD);
	end(&p);
}

/* MODE SELECT (6) that turns the cache off. */
static uint64_t send_off(struct t_ini *ch)
{
	struct rig_cmd cmd = { .lun = RIG_DISK, .cdb = { 0x1a, 8, CACHING } };
	uint8_t *b = rig_of(ch)->mem;
	uint8_t len = 4 + 20;
	struct srp_desc desc = rig_desc(ch, 0, len);
	struct srp_data_args args = { .format = SRP_DATA_DIRECT,
				      .descs = &desc,
				      .desc_cnt = 1 };

	cmd.cdb[4] = len;
	cmd.in = args;
	rig_expect_status(ch, rig_cmd(ch, &cmd), SCSI_STATUS_GOOD);
	b[6] &= (uint8_t)~WCE;
	memset(b, 0, 4);
	cmd = (struct rig_cmd){ .lun = RIG_DISK, .cdb = { 0x15, 0x10 } };
	cmd.cdb[4] = len;
	cmd.out = args;
	return rig_cmd(ch, &cmd);
}

/* The command fails because of the debt, but its initiator hears TASK
 * ABORTED. */
T_TEST(task_aborted_tells_of_no_loss)
{
	uint64_t first, second;
	struct pair p;

	begin(&p);
	t_store.hold = true;
	first = send_off(p.one);
	assert_int_equal(t_store.held_cnt, 1);
	second = send_off(p.two);
	rig_tmf(p.one, SRP_TSK_LUN_RESET, RIG_DISK, 0);
	t_store.flush_error = -EIO;
	t_store.hold = false;
	rig_release(p.rig);
	t_store.flush_error = 0;
	assert_null(t_ini_rsp(p.one, first));
	rig_expect_status(p.two, second, SCSI_STATUS_TASK_ABORTED);
	expect_failed_flush(p.two);
	end(&p);
}

/* An initiator that aborts a command does not read its answer. */
T_TEST(answer_to_an_aborted_command_tells_nothing)
{
	struct pair p;
	uint64_t sync, tmf;

	begin(&p);
	t_fabric_hold_completions(p.rig->hub, true);
	sync = send_sync(p.two);
	t_fabric_hold_completions(p.rig->hub, false);
	tmf = rig_tmf(p.two, SRP_TSK_ABORT_TASK, RIG_DISK, sync);
	t_fabric_let_go(p.rig->hub, UINT32_MAX);
	rig_settle(p.rig);
	rig_expect_code(p.two, tmf, SRP_RSP_COMPLETE);
	expect_failed_flush(p.two);
	end(&p);
}

/* The answer has left before another initiator resets the unit. It counts,
 * although its completion comes later. */
T_TEST(answer_before_the_reset_of_another_tells)
{
	struct pair p;
	uint64_t sync, tmf;

	begin(&p);
	t_fabric_hold_completions(p.rig->hub, true);
	sync = send_sync(p.two);
	t_fabric_hold_completions(p.rig->hub, false);
	tmf = rig_tmf(p.one, SRP_TSK_LUN_RESET, RIG_DISK, 0);
	t_fabric_let_go(p.rig->hub, UINT32_MAX);
	rig_settle(p.rig);
	rig_expect_code(p.one, tmf, SRP_RSP_COMPLETE);
	rig_expect_status(p.two, sync, SCSI_STATUS_CHECK_CONDITION);
	rig_clear_ua(p.two, RIG_DISK, NULL);
	rig_expect_status(p.two, send_sync(p.two), SCSI_STATUS_GOOD);
	end(&p);
}

/* ---- numbers of devices ---- */

static const struct srp_port_id port_a = { .b = { 0xa } };
static const struct srp_port_id port_b = { .b = { 0xb } };

/* Opens a disk with a name of its own, as device number @rdev of this boot. */
static struct volume *open_disk(unsigned int which, uint64_t rdev,
				const char *boot)
{
	static const struct backend_type nothing;
	struct volume *vol = calloc(1, sizeof(*vol));
	struct backend *be = calloc(1, sizeof(*be));
	struct error e = { 0 };

	assert_true(vol && be);
	be->type = &nothing;
	be->plugin = &nothing.plugin;
	be->info.life.rdev = rdev;
	be->info.size = 1u << 20;
	vol->block_size = 512;
	vol->dev.backend = be;
	vol->lun = which;
	vol->identity = VOLUME_LASTING;
	vol->info.naa[0] = 0x60;
	vol->info.naa[15] = (uint8_t)which;
	sprintf(be->info.id.own, "wwid:%u", which);
	memcpy(be->info.id.mark.lasting, be->info.id.own,
	       sizeof(be->info.id.own));
	snprintf(vol->name, sizeof(vol->name), "disk%u", which);
	unit_state_init(&vol->state);
	if (!is_run_dir)
		assert_int_equal(unit_state_load(vol, dir, &e), 0);
	writers_init(&vol->dev.writers);
	open_writers(vol, boot);
	return vol;
}

static void close_disk(struct volume *vol)
{
	volume_writers_save(vol);
	writers_fini(&vol->dev.writers);
	disk_journal_close(&vol->journal);
	unit_state_fini(&vol->state);
	free(vol->dev.backend);
	free(vol);
}

static bool owes(struct volume *vol, const struct srp_port_id *port)
{
	writer_ref ref = NULL;
	bool is = writers_owes(&vol->dev.writers, &ref, key_of(port));

	writers_leave(&vol->dev.writers, &ref);
	return is;
}

/* ---- many writers ---- */

/* More initiators than there are entries, one after the other, each with a flush that
 * succeeds. The last one has an entry of its own: what it is owed, no other is. */
T_TEST(entries_are_used_again)
{
	struct volume *disk;

	make_dir();
	disk = open_disk(0, 1, "boot");
	for (uint16_t i = 0; i < WRITERS_MAX + 1; i++) {
		struct srp_port_id port = { .b = { 1, (uint8_t)(i >> 8),
						   (uint8_t)i } };
		struct writers *ws = &disk->dev.writers;

		write_of(disk, &port);
		writers_flush_ends(ws, writers_flush_begins(ws), 0);
	}
	write_of(disk, &port_b);
	fail_flush(disk);
	restart_writers(disk, "boot");
	assert_true(owes(disk, &port_b));
	assert_false(owes(disk, &port_a));
	close_disk(disk);
	remove_dir();
}

/* ---- the end ---- */

static const struct rbp_plugin *file_plugin;
static bool journal_was_there;

/* The name of a journal has no dot, and another length than the store's. */
static bool is_journal(const char *name)
{
	return strlen(name) == 32 && !strchr(name, '.');
}

static bool has_journal(void)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	bool found = false;

	while ((e = readdir(d)))
		found = found || is_journal(e->d_name);
	closedir(d);
	return found;
}

/* The next process gets the lock of the store, and opens the record. */
static void store_closes(void *v)
{
	journal_was_there = has_journal();
	file_plugin->close(v);
}

T_TEST(journal_goes_while_the_store_is_locked)
{
	struct rbp_plugin plugin;
	struct volume_spec spec;
	struct volume *vol;
	char path[64];
	struct error e;

	make_dir();
	snprintf(path, sizeof(path), "%s/store", dir);
	close(creat(path, 0600));
	assert_int_equal(truncate(path, 1 << 20), 0);
	assert_true(volume_spec_parse(path, &spec, &e));
	assert_int_equal(volume_open(&spec, 0, "t", &vol, &e), 0);
	open_writers(vol, "boot");
	assert_true(has_journal());
	writers_flushed(&vol->dev.writers);
	file_plugin = vol->dev.backend->plugin;
	plugin = *file_plugin;
	plugin.close = store_closes;
	vol->dev.backend->plugin = &plugin;
	volume_close(vol);
	assert_false(journal_was_there);
	assert_false(has_journal());
	remove_dir();
}

static const struct number_case {
	const char *name;
	uint64_t now[2]; /* numbers of the disks, which were 1 and 2 */
	unsigned int first;
} number_cases[] = {
	{ "as before", { 1, 2 }, 0 },
	{ "exchanged", { 2, 1 }, 0 },
	{ "exchanged, the other one first", { 2, 1 }, 1 },
	{ "others", { 3, 4 }, 0 },
	{ "one follows the other", { 2, 3 }, 0 },
};

/* The machine boots and numbers its disks anew. Which initiators lost writes to
 * which disk? */
T_ROWS(debt_is_of_the_disk_and_not_of_its_number, number_cases)
{
	const struct number_case *row = *state;
	struct volume *disks[2];

	make_dir();
	disks[0] = open_disk(0, 1, "boot 1");
	disks[1] = open_disk(1, 2, "boot 1");
	write_of(disks[0], &port_a);
	write_of(disks[1], &port_b);
	close_disk(disks[0]);
	close_disk(disks[1]);
	for (unsigned int i = 0; i < 2; i++) {
		unsigned int which = i ^ row->first;

		disks[which] = open_disk(which, row->now[which], "boot 2");
	}
	assert_true(owes(disks[0], &port_a));
	assert_false(owes(disks[0], &port_b));
	assert_true(owes(disks[1], &port_b));
	assert_false(owes(disks[1], &port_a));
	close_disk(disks[0]);
	close_disk(disks[1]);
	remove_dir();
}

/* ---- an old record ---- */

/* Of an older version, for the disk of open_disk() that is number 0. */
static void leave_old_record(void)
{
	char path[128];

	snprintf(path, sizeof(path), "%s/60%030d.flushes", dir, 0);
	close(creat(path, 0600));
}

static void tell(struct volume *vol, const struct srp_port_id *port)
{
	writer_ref ref = NULL;

	assert_true(writers_owes(&vol->dev.writers, &ref, key_of(port)));
	writers_told(&vol->dev.writers, &ref, key_of(port));
	writers_leave(&vol->dev.writers, &ref);
}

/* Any initiator may have lost data. Each is told once. */
T_TEST(old_record_tells_each_once)
{
	struct volume *disk;

	make_dir();
	leave_old_record();
	disk = open_disk(0, 1, "boot");
	tell(disk, &port_a);
	for (unsigned int i = 0; i < 2; i++) {
		writers_flushed(&disk->dev.writers);
		close_disk(disk);
		disk = open_disk(0, 1, "boot");
		assert_false(owes(disk, &port_a));
		write_of(disk, &port_a);
		assert_false(owes(disk, &port_a));
	}
	tell(disk, &port_b);
	assert_false(owes(disk, &port_b));
	close_disk(disk);
	remove_dir();
}

/* ---- a journal of a target without a state directory ---- */

static const struct run_case {
	const char *name;
	const char *boot; /* of the target with one */
	bool fails;	  /* a flush, before */
	bool owes;
} run_cases[] = {
	{ "a flush had failed", "boot", true, true },
	{ "it was killed", "boot", false, false },
	{ "of another boot", "boot 2", true, false },
};

T_ROWS(state_directory_takes_over_what_was_kept_without_it, run_cases)
{
	const struct run_case *row = *state;
	struct volume *disk;
	char was[32];

	make_dir();
	is_run_dir = true;
	disk = open_disk(0, 1, "boot");
	write_of(disk, &port_a);
	if (row->fails)
		fail_flush(disk);
	close_disk(disk);
	is_run_dir = false;
	strcpy(was, dir);
	run_dir = was;
	make_dir();
	disk = open_disk(0, 1, row->boot);
	assert_int_equal(owes(disk, &port_a), row->owes);
	assert_false(owes(disk, &port_b));
	/* It tells this no second time. */
	assert_int_equal(rmdir(was), 0);
	close_disk(disk);
	run_dir = NULL;
	remove_dir();
}

/* ---- what the journal says of a writer ---- */

/* That it is owed something, or has been told, does not say that it has written since. */
T_TEST(name_for_a_debt_is_none_for_a_write)
{
	struct volume *disk;

	make_dir();
	leave_old_record();
	disk = open_disk(0, 1, "boot");
	tell(disk, &port_a);
	assert_true(owes(disk, &port_b));
	volume_writers_save(disk);
	assert_false(write_of(disk, &port_a));
	assert_false(write_of(disk, &port_b));
	volume_writers_save(disk);
	assert_true(write_of(disk, &port_a));
	assert_true(write_of(disk, &port_b));
	fail_flush(disk);
	restart_writers(disk, "boot");
	assert_true(owes(disk, &port_a));
	close_disk(disk);
	remove_dir();
}

/* The journal cannot be written at the start. */
T_TEST(old_record_stays_until_the_journal_has_it)
{
	const struct rlimit none = { .rlim_max = RLIM_INFINITY };
	struct volume *disk;
	struct rlimit limit;
	struct error e = { 0 };

	make_dir();
	disk = open_disk(0, 1, "boot");
	leave_old_record();
	writers_fini(&disk->dev.writers);
	writers_init(&disk->dev.writers);
	signal(SIGXFSZ, SIG_IGN);
	assert_int_equal(getrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
	assert_int_equal(volume_writers_open_in(disk, dir, NULL, "boot", &e),
			 -EFBIG);
	assert_int_equal(setrlimit(RLIMIT_FSIZE, &limit), 0);
	assert_non_null(strstr(e.text, disk->journal.path));
	close_disk(disk);
	disk = open_disk(0, 1, "boot");
	tell(disk, &port_a);
	close_disk(disk);
	remove_dir();
}

/* ---- the rest of the journal ---- */

struct ending {
	struct volume *vol;
	struct reactor *reactor;
	struct reactor_msg rested;
	bool has_rested;
	bool was_busy;
};

static struct ending ending;
static void (*journal_done)(struct reactor_op *op, int res,
			    unsigned int cqe_flags);

static void ending_rested(struct reactor_msg *msg)
{
	const struct volume_writers *k = &ending.vol->saver;

	ending.has_rested = true;
	ending.was_busy = k->saves || atomic_load(&k->wants);
}

/* The last command ends on another thread just when the journal has been written. */
static void last_command_ends(struct reactor_op *op, int res,
			      unsigned int cqe_flags)
{
	struct disk_journal *j = &ending.vol->journal;
	struct writers *ws = &ending.vol->dev.writers;

	journal_done(op, res, cqe_flags);
	if (j->step != DISK_JOURNAL_RESTS)
		return;
	j->op.done = journal_done;
	ws->keep(ws, /* now= */ true);
	volume_writers_rest(ending.vol, ending.reactor, &ending.rested);
}

T_TEST(journal_rests_when_all_that_was_wanted_is_written)
{
	struct reactor_options opt = { .ring_entries = 8 };
	struct volume *disk;

	make_dir();
	disk = open_disk(0, 1, "boot");
	ending = (struct ending){ .vol = disk, .rested.run = ending_rested };
	assert_int_equal(reactor_create(&opt, &ending.reactor), 0);
	disk->dev.backend->info.durability = RBP_STABLE_AFTER_FLUSH;
	volume_writers_start(disk, ending.reactor);
	journal_done = disk->journal.op.done;
	disk->journal.op.done = last_command_ends;
	disk->dev.writers.keep(&disk->dev.writers, /* now= */ true);
	while (!ending.has_rested)
		reactor_run_once(ending.reactor, 100000);
	assert_false(ending.was_busy);
	close_disk(disk);
	reactor_destroy(ending.reactor);
	remove_dir();
}
