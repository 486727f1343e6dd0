/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * No worker of rdma-target makes a system call that may wait for a store, a file or a
 * reader of its output. strace writes down the calls of a target while initiators send
 * each command that it knows, and each task management function, log in and out, and
 * while rdma-ctl and signals change it. What a worker may call is in a list here.
 */
#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/list.h"
#include "protocol/scsi_cdb.h"
#include "protocol/scsi_sense.h"
#include "protocol/scsi_vpd.h"
#include "tests/functional/t_peer.h"
#include "tests/functional/t_target.h"
#include "tests/lib/t_attempt.h"
#include "tests/lib/t_table.h"

#define MIB	    (1024l * 1024)
#define WORKERS	    2
#define TASKS_MAX   64
#define WORKERS_MAX 8

static struct t_target target;
static struct t_peer a;
static struct t_peer b;
static uint64_t next_tag = 0x1000;
static unsigned int lun;
static char trace[96];
static char control[96];
static pid_t strace;
static int workers[WORKERS_MAX]; /* thread numbers */
static unsigned int worker_cnt;

/* ---- what a worker may call ---- */

/* None of these waits for a store: they are for rings, memory, locks, clocks, and for
 * sockets and events, which do not block. */
static const char *const calls[] = {
	"io_uring_enter", "io_uring_register",
	"futex",	  "madvise",
	"mmap",		  "munmap",
	"mprotect",	  "brk",
	"getrandom",	  "getpid",
	"accept4",	  "shutdown",
	"getsockopt",	  "setsockopt",
	"getsockname",	  "getpeername",
	"sendmsg",	  "sendto",
	"recvmsg",	  "recvfrom",
	"rt_sigprocmask", "clone3",
	"clone",	  "restart_syscall",
};

/* These do not block if their file is none of a file system, a pipe or a terminal. */
static const char *const file_calls[] = {
	"read",
	"write",
	"close",
	"pread64",
};

static bool is_among(const char *const *names, size_t cnt, const char *name)
{
	for (size_t i = 0; i < cnt; i++) {
		if (!strcmp(names[i], name))
			return true;
	}
	return false;
}

/* @args: "7<anon_inode:[eventfd]>, ...". A file of proc is one of the kernel. */
static bool is_no_file(const char *args)
{
	const char *of = strchr(args, '<');

	return of &&
	       (!strncmp(of, "<anon_inode:", 12) ||
		!strncmp(of, "<socket:", 8) || !strncmp(of, "<TCP", 4) ||
		!strncmp(of, "<UNIX", 5) || !strncmp(of, "<UDP", 4) ||
		!strncmp(of, "<NETLINK", 8) || !strncmp(of, "</proc/", 7));
}

/* @line: "name(args) = 0". "<... name resumed>" is the rest of an earlier line. */
static bool is_allowed(const char *line)
{
	char name[32] = "";
	size_t n = strcspn(line, "(");

	if (line[0] == '<' || line[0] == '-' || line[0] == '+')
		return true;
	if (n >= sizeof(name) || !line[n])
		return false;
	memcpy(name, line, n);
	if (is_among(calls, ARRAY_SIZE(calls), name))
		return true;
	/* A file system answers what it knows. */
	if (!strcmp(name, "statx"))
		return strstr(line, "AT_STATX_DONT_SYNC");
	return is_among(file_calls, ARRAY_SIZE(file_calls), name) &&
	       is_no_file(line + n + 1);
}

static bool is_worker(int tid)
{
	for (unsigned int i = 0; i < worker_cnt; i++) {
		if (workers[i] == tid)
			return true;
	}
	return false;
}

/* Each line begins with the number of the thread. */
static void judge(void)
{
	unsigned int bad = 0, of_workers = 0;
	FILE *f = fopen(trace, "r");
	char line[1024];

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		int at = 0, tid;

		if (sscanf(line, "%d %n", &tid, &at) < 1 || !is_worker(tid))
			continue;
		of_workers++;
		if (is_allowed(line + at))
			continue;
		print_message("# a worker calls: %s", line + at);
		bad++;
	}
	fclose(f);
	assert_true(of_workers > scsi_cdb_table_cnt);
	assert_int_equal(bad, 0);
}

/* ---- strace ---- */

static long number_in_status(const char *tid, const char *name)
{
	char path[300], line[256];
	long number = -1;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/status", target.pid,
		 tid);
	f = fopen(path, "r");
	while (f && fgets(line, sizeof(line), f)) {
		if (!strncmp(line, name, strlen(name)))
			number = strtol(line + strlen(name), NULL, 10);
	}
	if (f)
		fclose(f);
	return number;
}

static void note_worker(const char *tid)
{
	char path[300], name[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/task/%s/comm", target.pid, tid);
	f = fopen(path, "r");
	if (f && !fgets(name, sizeof(name), f))
		name[0] = '\0';
	if (f)
		fclose(f);
	if (atoi(tid) == target.pid || !strncmp(name, "worker-", 7)) {
		assert_true(worker_cnt < WORKERS_MAX);
		workers[worker_cnt++] = atoi(tid);
	}
}

/* Calls @use for each thread of the target but those that the kernel has made. Returns
 * how many it returned true for. */
static unsigned int count_tasks(bool (*use)(const char *tid))
{
	struct dirent *entry;
	unsigned int cnt = 0;
	char path[64];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", target.pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir)))
		cnt += isdigit(entry->d_name[0]) && use(entry->d_name);
	closedir(dir);
	return cnt;
}

static bool is_our_worker(const char *tid)
{
	note_worker(tid);
	return false;
}

static bool is_untraced_worker(const char *tid)
{
	return is_worker(atoi(tid)) && number_in_status(tid, "TracerPid:") <= 0;
}

/* False: there is no strace, or it may not trace. */
static bool begin_trace(void)
{
	char pid[16];
	int status;

	snprintf(pid, sizeof(pid), "%d", target.pid);
	snprintf(trace, sizeof(trace), "%s/trace", t_scratch());
	count_tasks(is_our_worker);
	assert_int_equal(worker_cnt, WORKERS);
	strace = fork();
	if (!strace) {
		execlp("strace", "strace", "-qq", "-f", "-yy", "-o", trace,
		       "-p", pid, (char *)NULL);
		_exit(127);
	}
	while (count_tasks(is_untraced_worker)) {
		if (waitpid(strace, &status, WNOHANG) == strace) {
			strace = 0;
			return false;
		}
		usleep(1000);
	}
	return true;
}

static void end_trace(void)
{
	kill(strace, SIGINT);
	waitpid(strace, NULL, 0);
	strace = 0;
}

/* ---- commands ---- */

static uint8_t ask(const uint8_t *cdb, uint32_t out_len)
{
	uint64_t tag = t_peer_post_cmd(
		&a, &(struct t_peer_cmd){ .tag = next_tag++,
					  .lun = lun,
					  .cdb = cdb,
					  .is_out = out_len,
					  .len = out_len ? out_len
							 : T_ATTEMPT_IN_LEN });

	return t_peer_await(&a, tag)->status;
}

/* Unit attentions and jobs that still run come before. */
static void ask_until_good(const uint8_t *cdb, uint32_t out_len)
{
	for (unsigned int i = 0; i < 1000; i++) {
		if (ask(cdb, out_len) == SCSI_STATUS_GOOD)
			return;
		usleep(1000);
	}
	fail_msg("%02x %02x is never done", cdb[0], cdb[1]);
}

static void get_naa(uint8_t naa[SCSI_NAA_LEN])
{
	const uint8_t cdb[16] = { 0x12, 1, 0x83, 0, T_ATTEMPT_IN_LEN };

	ask_until_good(cdb, 0);
	for (const uint8_t *p = a.mem + 4; p < a.mem + T_ATTEMPT_IN_LEN;
	     p += 4 + p[3])
		if ((p[1] & 0x3f) == 3) {
			memcpy(naa, p + 4, SCSI_NAA_LEN);
			return;
		}
	fail();
}

static void register_key(void)
{
	const uint8_t cdb[16] = { 0x5f, 6, [8] = 24 };

	memset(a.mem, 0, 24);
	wire_put64(a.mem + 8, T_ATTEMPT_KEY);
	ask_until_good(cdb, 24);
}

/* What keeps the next command from the medium ends. */
static void clear_up(struct t_attempt *select)
{
	static const uint8_t allow[16] = { 0x1e }, load[16] = { 0x1b, [4] = 3 },
			     ready[16] = { 0 };

	if (select) {
		a.mem[select->out_len - 12 + 4] &= (uint8_t)~T_ATTEMPT_SWP;
		ask_until_good(select->cdb, select->out_len);
	}
	ask_until_good(allow, 0);
	ask_until_good(load, 0);
	ask_until_good(ready, 0);
}

static void send_each_command(void)
{
	uint8_t naa[SCSI_NAA_LEN];

	get_naa(naa);
	for (size_t i = 0; i < scsi_cdb_table_cnt; i++) {
		const struct scsi_cdb_info *row = &scsi_cdb_table[i];
		struct t_attempt sense, cmd;
		bool selects = t_attempt_mode_sense(row, &sense);

		if (row->op == SCSI_OP_PERSISTENT_OUT)
			register_key();
		if (selects)
			ask_until_good(sense.cdb, 0);
		cmd = t_attempt(row, a.mem, naa);
		ask(cmd.cdb, cmd.out_len);
		clear_up(selects ? &cmd : NULL);
	}
}

static void send_each_function(void)
{
	static const uint8_t functions[] = {
		SRP_TSK_ABORT_TASK,	SRP_TSK_ABORT_TASK_SET,
		SRP_TSK_CLEAR_TASK_SET, SRP_TSK_LUN_RESET,
		SRP_TSK_CLEAR_ACA,
	};

	for (size_t i = 0; i < ARRAY_SIZE(functions); i++) {
		struct srp_tsk_mgmt t = { .tag = next_tag++,
					  .function = functions[i],
					  .task_tag = 1 };
		uint8_t iu[SRP_TSK_MGMT_SIZE];

		assert_int_equal(srp_lun_encode(lun, &t.lun), 0);
		srp_tsk_mgmt_encode(iu, sizeof(iu), &t);
		assert_int_equal(t_peer_ask(&a, iu, sizeof(iu)), T_ANSWERED);
	}
}

/* ---- changes by the administrator ---- */

static bool ctl(const char *args)
{
	char cmd[512];

	snprintf(cmd, sizeof(cmd),
		 "%s/ctl/rdma-ctl --control %s %s >%s/out 2>&1", t_build(),
		 control, args, t_scratch());
	return system(cmd) == 0;
}

static void change(const char *file, const char *added)
{
	char args[256];

	snprintf(args, sizeof(args), "volume add %s,name=added", added);
	assert_true(ctl(args));
	assert_true(ctl("volume list"));
	assert_true(ctl("volume remove --force added"));
	assert_true(ctl("session list"));
	assert_true(ctl("status"));
	assert_int_equal(truncate(file, 2 * MIB), 0);
	assert_true(ctl("volume resize file"));
	assert_int_equal(truncate(file, 3 * MIB), 0);
	kill(target.pid, SIGHUP);
	kill(target.pid, SIGUSR1);
	assert_true(ctl("status"));
}

/* ---- the test ---- */

static int clean_up(void **state)
{
	if (strace)
		end_trace();
	t_peer_hang_up(&a);
	t_peer_hang_up(&b);
	t_target_stop(&target);
	return 0;
}

T_EACH(NULL, clean_up)

T_TEST(worker_waits_for_no_store)
{
	static char dir[64], direct[128], named[128];
	const char *file = t_scratch_file("file", MIB);
	const char *args[] = { "-t",   "2",	    "--state-dir",
			       dir,    "--control", control,
			       "-b",   named,	    "-b",
			       direct, "-b",	    "ram:1M,removable",
			       NULL };

	if (getenv("SANITIZED"))
		T_SKIP("sanitizers make calls of their own");
	snprintf(dir, sizeof(dir), "%s/state", t_scratch());
	mkdir(dir, 0700);
	snprintf(control, sizeof(control), "%s/control", t_scratch());
	snprintf(named, sizeof(named), "%s,name=file,removable", file);
	snprintf(direct, sizeof(direct), "%s,direct=on,removable",
		 t_scratch_file("direct", MIB));
	t_target_start(&target, args);
	if (!begin_trace())
		T_SKIP("no strace, or it may not trace");
	/* Their channels are on different workers. */
	t_peer_log_in(&b, target.addr);
	t_peer_log_in(&a, target.addr);
	for (lun = 0; lun < 3; lun++) {
		send_each_command();
		send_each_function();
	}
	t_peer_hang_up(&b);
	t_peer_log_in(&b, target.addr);
	change(file, t_scratch_file("added", MIB));
	t_peer_hang_up(&a);
	t_peer_log_in(&a, target.addr);
	end_trace();
	judge();
}

/* ---- main ---- */

static int begin(void **state)
{
	t_scratch();
	t_peer_init(&a);
	t_peer_init(&b);
	return 0;
}

static int end(void **state)
{
	t_peer_fini(&a);
	t_peer_fini(&b);
	return 0;
}

int main(void)
{
	return t_run_between(begin, end);
}
