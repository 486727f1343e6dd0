/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A write lies unread in a connection while a worker, or all of rdma-target, does
 * not run. Its initiator closes the connection and writes newer data by another
 * path. The old write must not land.
 *
 * @old and @other share a worker: the first channels of initiators go to the two
 * workers in turn.
 */
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_sense.h"
#include "tests/functional/t_peer.h"
#include "tests/functional/t_target.h"
#include "tests/lib/t_table.h"

#define BLOCK 512u

enum {
	LUN_FILE,
	LUN_RAM,
	LUN_HANG,
};

/* What a block is full of. */
enum {
	OLD = 0x11,
	NEW = 0x22,
};

static struct t_target target;
static struct t_peer old;   /* by the path that is given up */
static struct t_peer newer; /* by the other path of the same host */
static struct t_peer other;
static uint64_t next_tag = 0x1000;
static char fifo[96];

/* ---- the target ---- */

static bool thread_opens(const char *tid)
{
	char path[300];
	long number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/syscall", target.pid,
		 tid);
	f = fopen(path, "r");
	if (f && fscanf(f, "%ld", &number) != 1)
		number = -1;
	if (f)
		fclose(f);
	return number == SYS_openat || number == SYS_open;
}

static bool some_worker_hangs(void)
{
	struct dirent *entry;
	bool hangs = false;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", target.pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		hangs |= thread_opens(entry->d_name);
	closedir(dir);
	return hangs;
}

static void await_logout(void)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "grep -q 'logout of' %s", target.log);
	while (system(cmd))
		usleep(1000);
}

/* ---- commands ---- */

static uint64_t post(struct t_peer *p, unsigned int lun, const uint8_t *cdb,
		     bool is_out, uint32_t len)
{
	return t_peer_post_cmd(p, &(struct t_peer_cmd){ .tag = next_tag++,
							.lun = lun,
							.cdb = cdb,
							.is_out = is_out,
							.len = len });
}

static void expect_good(struct t_peer *p, uint64_t tag)
{
	assert_int_equal(t_peer_await(p, tag)->status, SCSI_STATUS_GOOD);
}

/* The first command gets a unit attention. */
static void log_in(struct t_peer *p)
{
	static const uint8_t test_unit_ready[SCSI_CDB_LEN];

	t_peer_log_in(p, target.addr);
	for (unsigned int lun = LUN_FILE; lun <= LUN_HANG; lun++) {
		t_peer_await(p, post(p, lun, test_unit_ready, false, 0));
		expect_good(p, post(p, lun, test_unit_ready, false, 0));
	}
}

static void start(void)
{
	static char dir[64];
	char hang[256];
	const char *args[] = { "-t", "2",      "--state-dir", dir,  "-b", NULL,
			       "-b", "ram:1M", "-b",	      hang, NULL };

	snprintf(dir, sizeof(dir), "%s/state", t_scratch());
	mkdir(dir, 0700);
	snprintf(fifo, sizeof(fifo), "%s/hang", t_scratch());
	snprintf(hang, sizeof(hang),
		 "%s/tests/plugins/rdma-block-plugin-hang.so:%s", t_build(),
		 fifo);
	args[5] = t_scratch_file("store", 1 << 20);
	t_target_start(&target, args);
	log_in(&old);
	log_in(&newer);
	log_in(&other);
}

/* With immediate data. Returns when the socket has it. */
static uint64_t send_with(struct t_peer *p, unsigned int lun,
			  const uint8_t *cdb, const void *data, uint32_t len)
{
	struct srp_cmd_args args = {
		.tag = next_tag++,
		.cdb = cdb,
		.cdb_len = SCSI_CDB_LEN,
		.out.format = len ? SRP_DATA_IMMEDIATE : SRP_DATA_NONE,
		.out.imm_len = len,
		.out.imm_offset = SRP_IMM_OFFSET,
	};
	uint8_t iu[8276];
	int at;

	assert_int_equal(srp_lun_encode(lun, &args.lun), 0);
	at = srp_cmd_encode(iu, sizeof(iu), &args);
	assert_true(at > 0);
	memcpy(iu + at, data, len);
	t_peer_post(p, iu, (size_t)at + len);
	while (p->ini.send_cnt)
		assert_true(reactor_run_once(p->reactor, -1) >= 0);
	return args.tag;
}

static uint64_t send_write(struct t_peer *p, unsigned int lun, uint8_t byte)
{
	uint8_t cdb[SCSI_CDB_LEN];
	uint8_t data[BLOCK];

	scsi_cdb_write(0, 1, false, cdb);
	memset(data, byte, sizeof(data));
	return send_with(p, lun, cdb, data, sizeof(data));
}

static uint64_t send_old_write(unsigned int lun)
{
	return send_write(&old, lun, OLD);
}

/* And so much of other blocks behind it that the window closes: the end of the connection
 * then stays with the kernel of this side. */
static uint64_t send_old_writes(unsigned int lun)
{
	static const uint8_t data[15 * BLOCK];
	uint64_t tag = send_old_write(lun);
	uint8_t cdb[SCSI_CDB_LEN];

	scsi_cdb_write(100, 15, false, cdb);
	for (unsigned int i = 0; i < 48; i++)
		send_with(&old, lun, cdb, data, sizeof(data));
	return tag;
}

/* Zeroes, and the data does not lie in an IU. */
static uint64_t send_old_write_same(unsigned int lun)
{
	uint8_t cdb[SCSI_CDB_LEN];

	scsi_cdb_write_same_16(0, 1, SCSI_WRITE_SAME_NDOB, cdb);
	return send_with(&old, lun, cdb, "", 0);
}

static uint64_t send_old_unmap(unsigned int lun)
{
	uint8_t cdb[SCSI_CDB_LEN];
	uint8_t list[24] = { 0, 22, 0, 16 };

	scsi_cdb_unmap(sizeof(list), cdb);
	wire_put32(list + 16, 8);
	return send_with(&old, lun, cdb, list, sizeof(list));
}

static void expect_block(unsigned int lun, uint8_t byte)
{
	uint8_t cdb[SCSI_CDB_LEN];

	scsi_cdb_read(0, 1, false, cdb);
	memset(newer.mem, 0, BLOCK);
	expect_good(&newer, post(&newer, lun, cdb, false, BLOCK));
	for (unsigned int i = 0; i < BLOCK; i++)
		assert_int_equal(newer.mem[i], byte);
}

/* ---- one worker hangs ---- */

static const struct old_row {
	const char *name;
	unsigned int lun;
	uint64_t (*send)(unsigned int lun);
} old_rows[] = {
	{ "WRITE, file", LUN_FILE, send_old_write },
	{ "WRITE, memory", LUN_RAM, send_old_write },
	{ "many WRITEs, file", LUN_FILE, send_old_writes },
	{ "many WRITEs, memory", LUN_RAM, send_old_writes },
	{ "WRITE SAME, file", LUN_FILE, send_old_write_same },
	{ "WRITE SAME, memory", LUN_RAM, send_old_write_same },
	{ "UNMAP, file", LUN_FILE, send_old_unmap },
};

static uint64_t hang_worker(void)
{
	uint8_t cdb[SCSI_CDB_LEN];
	uint64_t tag;

	assert_int_equal(mkfifo(fifo, 0600), 0);
	scsi_cdb_read(1024, 1, false, cdb);
	tag = post(&other, LUN_HANG, cdb, false, BLOCK);
	while (!some_worker_hangs())
		assert_true(reactor_run_once(other.reactor, 1) >= 0);
	return tag;
}

static void worker_goes_on(uint64_t tag)
{
	int fd = open(fifo, O_RDWR | O_CLOEXEC);

	unlink(fifo);
	expect_good(&other, tag);
	close(fd);
}

static int clean_up(void **state)
{
	if (target.pid)
		kill(target.pid, SIGCONT);
	t_peer_hang_up(&old);
	t_peer_hang_up(&newer);
	t_peer_hang_up(&other);
	t_target_stop(&target);
	return 0;
}

T_EACH(NULL, clean_up)

T_ROWS(worker_that_hung_leaves_newer_data, old_rows)
{
	const struct old_row *row = *state;
	uint64_t hung;

	start();
	hung = hang_worker();
	row->send(row->lun);
	t_peer_hang_up(&old);
	expect_good(&newer, send_write(&newer, row->lun, NEW));
	worker_goes_on(hung);
	await_logout();
	expect_block(row->lun, NEW);
}

static void send_old_persistent_out(uint8_t action, uint8_t type, uint64_t key,
				    uint64_t action_key)
{
	uint8_t cdb[SCSI_CDB_LEN] = { 0x5f, action, type };
	uint8_t list[24] = { 0 };

	cdb[8] = sizeof(list);
	wire_put64(list, key);
	wire_put64(list + 8, action_key);
	send_with(&old, LUN_FILE, cdb, list, sizeof(list));
}

/* REGISTER, and RESERVE of exclusive access: they would outlive the connection. */
T_TEST(worker_that_hung_makes_no_reservation)
{
	uint64_t hung;

	start();
	hung = hang_worker();
	send_old_persistent_out(0, 0, 0, 1);
	send_old_persistent_out(1, 3, 1, 0);
	t_peer_hang_up(&old);
	expect_good(&newer, send_write(&newer, LUN_FILE, NEW));
	worker_goes_on(hung);
	await_logout();
	expect_block(LUN_FILE, NEW);
}

/* ---- the process stands still ---- */

static void stop_process(void)
{
	int status;

	kill(target.pid, SIGSTOP);
	assert_int_equal(waitpid(target.pid, &status, WUNTRACED), target.pid);
	assert_true(WIFSTOPPED(status));
}

T_TEST(process_that_stood_still_leaves_newer_data)
{
	uint64_t tag;

	start();
	stop_process();
	send_write(&old, LUN_FILE, OLD);
	t_peer_hang_up(&old);
	tag = send_write(&newer, LUN_FILE, NEW);
	kill(target.pid, SIGCONT);
	expect_good(&newer, tag);
	await_logout();
	expect_block(LUN_FILE, NEW);
}

/* The pause is longer than any sign of life is good: the kernel has to ask. */
T_TEST(what_nobody_gave_up_is_written_after_a_stop)
{
	uint64_t tag;

	start();
	stop_process();
	tag = send_write(&old, LUN_FILE, OLD);
	usleep(1200000);
	kill(target.pid, SIGCONT);
	expect_good(&old, tag);
	expect_block(LUN_FILE, OLD);
}

/* ---- main ---- */

static int begin(void **state)
{
	t_scratch();
	t_peer_init(&old);
	t_peer_init(&newer);
	t_peer_init(&other);
	return 0;
}

static int end(void **state)
{
	t_peer_fini(&old);
	t_peer_fini(&newer);
	t_peer_fini(&other);
	return 0;
}

int main(void)
{
	return t_run_between(begin, end);
}
