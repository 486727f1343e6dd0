/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A flush fails, and initiators are told of this after rdma-target has been
 * restarted. The test drives the initiators IU by IU. They behave like those of
 * a kernel: they write, flush, log in again as the same initiator port, and do
 * not read the generation. A test that needs the generation reads it.
 *
 * Some stores are files whose flush fails by an injected fault. Others are loop
 * devices on a full tmpfs: writes to their page cache succeed, write-back
 * fails, and the kernel reports this once. These need root.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_sense.h"
#include "protocol/scsi_vpd.h"
#include "tests/functional/t_peer.h"
#include "tests/functional/t_target.h"
#include "tests/lib/t_table.h"

#define MIB   (1024ul * 1024)
#define BLOCK 512u

static struct t_target target;
static struct t_peer a;
static struct t_peer b;
static struct t_peer c;
static struct srp_login_req a_req;
static struct srp_login_req b_req;
static struct srp_login_req c_req;
static uint64_t next_tag = 0x1000;

static char store[96];
static char loop[64]; /* "": the store is a file */

/* ---- stores ---- */

static void run(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

static void run(const char *fmt, ...)
{
	char text[512];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(text, sizeof(text), fmt, ap);
	va_end(ap);
	if (system(text))
		fail_msg("%s", text);
}

static void make_file(void)
{
	static unsigned int cnt;
	char name[32];

	loop[0] = '\0';
	snprintf(name, sizeof(name), "store%u", cnt++);
	snprintf(store, sizeof(store), "%s", t_scratch_file(name, MIB));
}

static void drop_loop(void)
{
	char text[256];

	if (!*loop)
		return;
	snprintf(text, sizeof(text), "losetup -d %s; umount -l %s/full", loop,
		 t_scratch());
	loop[0] = '\0';
	if (system(text))
		print_message("# left behind: %s\n", text);
}

static bool make_loop(void)
{
	char text[512];
	FILE *f;

	if (geteuid() || system("losetup -f >/dev/null 2>&1"))
		return false;
	snprintf(text, sizeof(text),
		 "set -e; cd %s; mkdir -p full; "
		 "mount -t tmpfs -o size=2m none full; "
		 "truncate -s 8M full/img; losetup -f --show full/img; "
		 "dd if=/dev/zero of=full/rest bs=64k 2>/dev/null || :",
		 t_scratch());
	f = popen(text, "r");
	assert_non_null(f);
	if (!fgets(loop, sizeof(loop), f))
		loop[0] = '\0';
	loop[strcspn(loop, "\n")] = '\0';
	pclose(f);
	if (!*loop)
		fail_msg("no loop device: %s", text);
	snprintf(store, sizeof(store), "%s", loop);
	return true;
}

/* @other: another volume, or NULL. */
static bool starts_with(const char *options, const char *other)
{
	static char dir[64];
	char spec[160];
	const char *args[] = {
		"-b",  spec, "-t", "2", "--state-dir", dir, other ? "-b" : NULL,
		other, NULL
	};

	snprintf(dir, sizeof(dir), "%s/state", t_scratch());
	if (access(dir, F_OK))
		run("mkdir %s", dir);
	snprintf(spec, sizeof(spec), "%s%s%s", store, options,
		 *loop ? ",direct=off" : "");
	return t_target_starts(&target, args);
}

static void start_with(const char *options, const char *other)
{
	if (!starts_with(options, other))
		fail_msg("rdma-target did not start");
}

static void start(const char *options)
{
	start_with(options, NULL);
}

static void await_line(const char *text)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "grep -q '%s' %s", text, target.log);
	while (system(cmd))
		usleep(1000);
}

/* ---- commands ---- */

static uint64_t post(struct t_peer *p, const uint8_t *cdb, bool is_out,
		     uint32_t len)
{
	return t_peer_post_cmd(p, &(struct t_peer_cmd){ .tag = next_tag++,
							.cdb = cdb,
							.is_out = is_out,
							.len = len });
}

static void expect_good(struct t_peer *p, uint64_t tag)
{
	assert_int_equal(t_peer_await(p, tag)->status, SCSI_STATUS_GOOD);
}

static void expect_sense(struct t_peer *p, uint64_t tag, enum scsi_key key,
			 uint16_t code)
{
	const struct srp_rsp *rsp = t_peer_await(p, tag);
	struct scsi_sense sense;

	assert_int_equal(rsp->status, SCSI_STATUS_CHECK_CONDITION);
	assert_int_equal(scsi_sense_decode(rsp->sense, rsp->sense_len, &sense),
			 0);
	assert_false(sense.deferred);
	assert_int_equal(sense.key, key);
	assert_int_equal(sense.code, code);
}

static uint64_t post_bare(struct t_peer *p, uint8_t opcode)
{
	uint8_t cdb[SCSI_CDB_LEN] = { opcode };

	return post(p, cdb, false, 0);
}

static void write_by(struct t_peer *p, uint32_t lba)
{
	uint8_t cdb[SCSI_CDB_LEN] = { 0x2a };

	wire_put32(cdb + 2, lba);
	wire_put16(cdb + 7, 8);
	memset(p->mem, 0x77, 8 * BLOCK);
	expect_good(p, post(p, cdb, true, 8 * BLOCK));
}

static uint64_t post_sync(struct t_peer *p)
{
	return post_bare(p, 0x35);
}

static void flush_works(struct t_peer *p)
{
	expect_good(p, post_sync(p));
}

/* A MEDIUM ERROR as if the medium had just failed: the flush fails again when
 * it is repeated. */
static void flush_fails(struct t_peer *p)
{
	expect_sense(p, post_sync(p), SCSI_KEY_MEDIUM_ERROR,
		     SCSI_ASC_WRITE_ERROR);
}

/* Linux does not repeat a command that got HARDWARE ERROR. */
static void flush_tells_once(struct t_peer *p)
{
	expect_sense(p, post_sync(p), SCSI_KEY_HARDWARE_ERROR,
		     SCSI_ASC_WRITE_ERROR);
	flush_works(p);
	flush_works(p);
}

static void log_in(struct t_peer *p, const struct srp_login_req *req)
{
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	srp_login_req_encode(pdata, sizeof(pdata), req);
	assert_int_equal(t_peer_login(p, target.addr, pdata, sizeof(pdata)),
			 T_LOGGED_IN);
	expect_sense(p, post_bare(p, 0x00), SCSI_KEY_UNIT_ATTENTION,
		     SCSI_ASC_POWER_ON);
}

static void log_in_all(void)
{
	log_in(&a, &a_req);
	log_in(&b, &b_req);
	log_in(&c, &c_req);
}

static struct scsi_store generation(void)
{
	uint8_t cdb[SCSI_CDB_LEN] = { 0x12, 0x01, 0xc0, 0, 64, 0 };
	struct scsi_store got;
	uint8_t page[64];

	expect_good(&a, post(&a, cdb, false, sizeof(page)));
	memcpy(page, a.mem, sizeof(page));
	assert_int_equal(scsi_vpd_decode_store(page, sizeof(page), &got), 0);
	return got;
}

/* ---- ends of the target ---- */

static void hang_up_all(void)
{
	t_peer_hang_up(&a);
	t_peer_hang_up(&b);
	t_peer_hang_up(&c);
}

static void terminate(int code)
{
	assert_int_equal(t_target_end(&target, SIGTERM), code << 8);
	hang_up_all();
}

static void kill_it(void)
{
	t_target_end(&target, SIGKILL);
	hang_up_all();
}

static void begin_with(const char *options)
{
	a_req = t_peer_login_req();
	b_req = t_peer_login_req();
	c_req = t_peer_login_req();
	start(options);
	log_in_all();
}

static void again(const char *options)
{
	start(options);
	log_in_all();
}

static void finish(void)
{
	terminate(0);
	drop_loop();
}

/* ---- the tests ---- */

static int clean_up(void **state)
{
	if (target.pid)
		kill_it();
	hang_up_all();
	drop_loop();
	return 0;
}

T_EACH(NULL, clean_up)

/* A store of a plugin, such as nbd: what the store below has lost is reported once,
 * and the plugin forgets it with the process. */
static void make_plugin_store(void)
{
	static unsigned int cnt;
	char path[sizeof(store)];

	make_file();
	memcpy(path, store, sizeof(path));
	snprintf(store, sizeof(store), "example-file:%.64s,serial=p%u", path,
		 cnt++);
}

T_TEST(failed_flush_of_a_plugin_is_told)
{
	make_plugin_store();
	begin_with(",fault=flush:error");
	write_by(&a, 0);
	write_by(&b, 64);
	flush_fails(&a);
	kill_it();

	again("");
	flush_tells_once(&a);
	flush_works(&c);
	flush_tells_once(&b);
	finish();
}

T_TEST(failed_last_flush_of_a_plugin_is_told)
{
	make_plugin_store();
	begin_with(",fault=flush:error");
	write_by(&a, 0);
	terminate(1);

	again("");
	flush_tells_once(&a);
	flush_works(&b);
	terminate(0);
	again("");
	flush_works(&a);
	finish();
}

T_TEST(kill_without_a_failed_flush_of_a_plugin_is_not_told)
{
	make_plugin_store();
	begin_with("");
	write_by(&a, 0);
	kill_it();

	again("");
	flush_works(&a);
	finish();
}

static const struct store_row {
	const char *name;
	bool is_loop;
	const char *options;
} store_rows[] = {
	{ "injected", false, ",fault=flush:error" },
	{ "write-back of a loop device", true, "" },
};

/* False: this machine cannot make the store, and the test is skipped. */
static bool make_store(const struct store_row *row)
{
	if (!row->is_loop) {
		make_file();
		return true;
	}
	if (make_loop())
		return true;
	skip();
	return false;
}

/* The flush at the end fails. Both initiators that wrote are told once each.
 * The third one has lost nothing. */
T_ROWS(failed_last_flush_is_told_after_the_restart, store_rows)
{
	const struct store_row *row = *state;
	struct scsi_store before, after;

	if (!make_store(row))
		return;
	begin_with(row->options);
	write_by(&a, 0);
	write_by(&b, 64);
	before = generation();
	terminate(1);

	again("");
	after = generation();
	assert_memory_not_equal(before.generation, after.generation,
				SCSI_GENERATION_LEN);
	flush_tells_once(&a);
	flush_works(&c);
	flush_tells_once(&b);
	finish();
}

/* One initiator got failed flushes while it was logged in, the other one did
 * not. After the restart each is told. */
T_ROWS(each_initiator_is_told_of_a_failed_flush, store_rows)
{
	const struct store_row *row = *state;

	if (!make_store(row))
		return;
	begin_with(row->options);
	write_by(&a, 0);
	write_by(&b, 64);
	flush_fails(&a);
	flush_fails(&a);
	kill_it();

	again("");
	flush_tells_once(&a);
	flush_works(&c);
	flush_tells_once(&b);
	finish();
}

/* An initiator that was absent after the first start is told after the second
 * or the third, and the generation does not go back. */
T_ROWS(debt_outlives_further_restarts, store_rows)
{
	const struct store_row *row = *state;
	struct scsi_store first, second;

	if (!make_store(row))
		return;
	begin_with(row->options);
	write_by(&a, 0);
	write_by(&b, 64);
	terminate(1);

	again("");
	flush_tells_once(&a);
	first = generation();
	terminate(0);
	again("");
	second = generation();
	assert_memory_equal(first.generation, second.generation,
			    SCSI_GENERATION_LEN);
	kill_it();
	again("");
	flush_works(&a);
	flush_tells_once(&b);
	finish();
}

/* The kernel writes back, and fails, when no process has the store open. */
T_TEST(write_back_after_a_kill_is_told)
{
	struct scsi_store before, after;

	if (!make_loop()) {
		skip();
		return;
	}
	begin_with("");
	write_by(&a, 0);
	before = generation();
	kill_it();
	again("");
	after = generation();
	assert_memory_not_equal(before.generation, after.generation,
				SCSI_GENERATION_LEN);
	flush_tells_once(&a);
	flush_works(&b);
	finish();
}

/* A synchronous write that fails may have got an error that belongs to other
 * writes. The kernel does not report this error to the next process. */
T_TEST(failed_synchronous_write_before_a_kill_is_told)
{
	uint8_t fua[SCSI_CDB_LEN] = { 0x2a, 0x08, 0, 0, 0, 64, 0, 0, 8 };

	make_file();
	begin_with(",fault=write:error:lba=64");
	write_by(&a, 0);
	expect_sense(&b, post(&b, fua, true, 8 * BLOCK), SCSI_KEY_MEDIUM_ERROR,
		     SCSI_ASC_WRITE_ERROR);
	kill_it();
	again("");
	flush_tells_once(&a);
	flush_works(&b);
	finish();
}

/* A kill alone loses nothing, and nothing is reported. */
T_TEST(kill_without_a_loss_is_not_told)
{
	struct scsi_store before, after;

	make_file();
	begin_with("");
	write_by(&a, 0);
	flush_works(&b);
	write_by(&a, 64);
	before = generation();
	kill_it();
	again("");
	after = generation();
	assert_memory_equal(before.generation, after.generation,
			    SCSI_GENERATION_LEN);
	flush_works(&a);
	flush_works(&b);
	finish();
}

/* The process ends and its cache is lost, with all unflushed writes. Any flush
 * covers all writes that were answered before. */
T_TEST(cache_lost_with_the_process_is_told)
{
	make_file();
	begin_with(",layer=volatile");
	write_by(&a, 0);
	flush_works(&c);
	write_by(&b, 64);
	kill_it();
	again(",layer=volatile");
	flush_works(&a);
	flush_tells_once(&b);
	flush_works(&c);
	finish();
}

/* No other command of the initiator pays the debt before it flushes. */
T_TEST(only_a_flush_pays_the_debt)
{
	make_file();
	begin_with(",fault=flush:error");
	write_by(&a, 0);
	terminate(1);

	again("");
	flush_works(&b);
	expect_good(&a, post_bare(&a, 0x00));
	write_by(&a, 128);
	t_peer_hang_up(&a);
	terminate(0);
	again("");
	flush_tells_once(&a);
	finish();
}

/* The last flush fails while initiators are logged in, because the target is
 * still busy with another volume. An initiator that flushes then is told. */
T_TEST(flush_at_the_end_fails_for_those_who_are_there)
{
	char other[128];

	make_file();
	snprintf(other, sizeof(other), "%s,fault=flush:stuck:count=1",
		 t_scratch_file("other", MIB));
	a_req = t_peer_login_req();
	b_req = t_peer_login_req();
	c_req = t_peer_login_req();
	start_with(",fault=flush:error", other);
	log_in_all();
	write_by(&a, 0);
	write_by(&b, 0);
	kill(target.pid, SIGTERM);
	await_line("could not be flushed");
	flush_fails(&a);
	flush_fails(&a);
	kill(target.pid, SIGUSR1);
	assert_int_equal(t_target_wait(&target), 1 << 8);
	hang_up_all();

	again("");
	flush_tells_once(&a);
	flush_tells_once(&b);
	finish();
}

/* STOP UNIT makes the cache stable, like SYNCHRONIZE CACHE; also with IMMED. */
T_TEST(other_flushes_tell_too)
{
	uint8_t stop[SCSI_CDB_LEN] = { 0x1b };
	uint8_t immed[SCSI_CDB_LEN] = { 0x35, 0x02 };

	make_file();
	begin_with(",fault=flush:error");
	write_by(&a, 0);
	write_by(&b, 0);
	terminate(1);
	again("");
	expect_sense(&a, post(&a, stop, false, 0), SCSI_KEY_HARDWARE_ERROR,
		     SCSI_ASC_WRITE_ERROR);
	expect_good(&a, post(&a, stop, false, 0));
	expect_sense(&b, post(&b, immed, false, 0), SCSI_KEY_HARDWARE_ERROR,
		     SCSI_ASC_WRITE_ERROR);
	expect_good(&b, post(&b, immed, false, 0));
	finish();
}

/* By the length of their names. */
#define JOURNALS "????????????????????????????????"

/* Nobody knows what was in it. */
T_TEST(damaged_journal_is_refused)
{
	make_file();
	begin_with("");
	write_by(&a, 0);
	kill_it();
	run("for f in %s/state/" JOURNALS "; do echo x >$f; done", t_scratch());
	assert_false(starts_with("", NULL));
	run("grep -q 'remove that file to start without' %s", target.log);
	run("rm %s/state/" JOURNALS "", t_scratch());
	again("");
	flush_works(&a);
	finish();
}

/* A journal that has nothing to say is removed. */
T_TEST(clean_end_leaves_no_journal)
{
	make_file();
	run("rm -f %s/state/" JOURNALS "", t_scratch());
	begin_with("");
	run("ls %s/state/" JOURNALS " >/dev/null", t_scratch());
	write_by(&a, 0);
	terminate(0);
	run("! ls %s/state/" JOURNALS " 2>/dev/null", t_scratch());
}

static int begin(void **state)
{
	t_scratch();
	atexit(drop_loop);
	t_peer_init(&a);
	t_peer_init(&b);
	t_peer_init(&c);
	return 0;
}

static int end(void **state)
{
	t_peer_fini(&a);
	t_peer_fini(&b);
	t_peer_fini(&c);
	return 0;
}

/* Removes what a failed test has left. */
int main(void)
{
	return t_run_between(begin, end);
}
