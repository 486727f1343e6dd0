/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Runs the target, the library, rdma-info and a mount over TCP again and again.
 * In each run, another allocation or call of the fabric fails. No program may
 * crash, leak or hang. A program that cannot start prints one line and exits
 * with 1. A target that is already serving continues.
 *
 * The programs run in children of this one, which has prepared the fabric for
 * them, because that takes most of the time of a start. Only for builds with
 * -Dfault_injection=true. AddressSanitizer finds the leaks.
 *
 * At each fault point, the test lets the first and the last pass of a run fail
 * (for some programs only the first); with T_ALL in the environment, all passes.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <sys/wait.h>
#include <unistd.h>

#include "initiator/srp_initiator.h"
#include "protocol/scsi_cdb.h"
#include "target/configure.h"
#include "target/server.h"
#include "tests/functional/t_peer.h"
#include "tests/functional/t_target.h"
#include "tests/lib/t_addr.h"
#include "tests/lib/t_table.h"
#include "base/fault.h"
#include "base/list.h"
#include "base/log.h"

#define MIB	  (1024ul * 1024)
#define BLOCK	  512u
#define TIMEOUT_S 600 /* for one run: longer means a hang, on any machine */

/* main() of the commands, under other names. */
int info_main(int argc, char **argv);
int fuse_main(int argc, char **argv);

/* The exit status that AddressSanitizer uses, besides 0 and 1. */
const char *__asan_default_options(void);
const char *__asan_default_options(void)
{
	return "exitcode=99";
}

/* libfuse 3.12 does not free it if others still have the mount open. */
const char *__lsan_default_suppressions(void);
const char *__lsan_default_suppressions(void)
{
	return "leak:fuse_session_mount\n";
}

/* getopt() changes the pointers, not the texts. */
static char **args_of(const char **argv)
{
	return (char **)(uintptr_t)argv;
}

/* ---- one run ---- */

struct scenario {
	const char *name;
	/* Runs in a child whose fault points are armed. Returns its exit
	 * status. */
	int (*run)(void);
	/* Runs beside the child, in this process. @out: the child's standard
	 * output. NULL: not needed. */
	void (*drive)(pid_t pid, int out);
	int status; /* exit status of a run without a failure, from waitpid() */
	bool first_only; /* only the first pass fails: other scenarios cover the
			  * rest */
};

static struct fault_record *record;
static const char *complaint; /* from drive(); NULL: none */
static char log_path[64];
static unsigned int point_passes[FAULT_POINTS_MAX];
static unsigned int point_failures[FAULT_POINTS_MAX];

static void run_child(const struct scenario *s, unsigned int index,
		      unsigned int pass, int out)
{
	int log = open(log_path, O_CREAT | O_TRUNC | O_WRONLY, 0600);

	if (log < 0 || dup2(log, STDERR_FILENO) < 0 ||
	    dup2(out, STDOUT_FILENO) < 0)
		_exit(126);
	close(log);
	close(out);
	alarm(TIMEOUT_S);
	fault_arm(record, index, pass);
	exit(s->run());
}

static bool is_over(pid_t pid)
{
	siginfo_t info = { 0 };

	waitid(P_PID, (id_t)pid, &info, WEXITED | WNOHANG | WNOWAIT);
	return info.si_pid == pid;
}

/* A target that ended by a failure has lost writes of "lossy", and the next one
 * would report this. Each run should begin like the first. */
static void forget_flushes(void)
{
	char path[320];
	struct dirent *entry;
	DIR *dir;

	snprintf(path, sizeof(path), "%s/state", t_scratch());
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		/* a journal */
		if (strlen(entry->d_name) != 32)
			continue;
		snprintf(path, sizeof(path), "%s/state/%s", t_scratch(),
			 entry->d_name);
		unlink(path);
	}
	closedir(dir);
}

static int run(const struct scenario *s, unsigned int index, unsigned int pass)
{
	int fds[2];
	int status;
	pid_t pid;

	memset(record, 0, sizeof(*record));
	complaint = NULL;
	forget_flushes();
	assert_int_equal(pipe2(fds, O_CLOEXEC), 0);
	fflush(NULL);
	pid = fork();
	assert_true(pid >= 0);
	if (pid == 0)
		run_child(s, index, pass, fds[1]);
	close(fds[1]);
	if (s->drive)
		s->drive(pid, fds[0]);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	close(fds[0]);
	return status;
}

/* ---- results ---- */

static void show_log(void)
{
	char line[512];
	FILE *f = fopen(log_path, "r");

	while (f && fgets(line, sizeof(line), f))
		print_message("# %s", line);
	if (f)
		fclose(f);
}

static unsigned int error_lines(void)
{
	char line[2048];
	FILE *f = fopen(log_path, "r");
	unsigned int cnt = 0;

	assert_non_null(f);
	while (fgets(line, sizeof(line), f))
		cnt += strstr(line, ": error: ") != NULL;
	fclose(f);
	return cnt;
}

/* NULL: the program has handled the failure properly. */
static const char *what_is_wrong(int status)
{
	if (WIFSIGNALED(status))
		return WTERMSIG(status) == SIGALRM ? "it hangs" : "it crashes";
	if (WEXITSTATUS(status) > 1)
		return "the sanitizer complains";
	/* A program that has printed its line and ended does not serve. */
	if (WEXITSTATUS(status) == 1)
		return error_lines() == 1 ? NULL
					  : "it fails, and not with one line";
	return complaint;
}

/* False: the program has not handled the failure properly. */
static bool check(const struct scenario *s, unsigned int index,
		  unsigned int pass, int status)
{
	const struct fault_point *p = fault_point(index);
	const char *what = what_is_wrong(status);

	/* This run did not pass the point that often. */
	if (!record->failed)
		return true;
	point_failures[index]++;
	if (!what)
		return true;
	print_message("# %s, %s at %s:%d fails, pass %u: %s, status %#x\n",
		      s->name, p->call, p->file, p->line, pass, what, status);
	show_log();
	return false;
}

/* Makes each chosen pass fail. Returns how many failures were handled
 * wrongly. */
static unsigned int fail_point(const struct scenario *s, unsigned int index,
			       unsigned int passes)
{
	unsigned int step = passes - 1;
	unsigned int bad = 0;

	if (s->first_only && !getenv("T_ALL"))
		passes = 1;
	if (getenv("T_ALL") || step == 0)
		step = 1;
	for (unsigned int pass = 1; pass <= passes; pass += step)
		bad += !check(s, index, pass, run(s, index, pass));
	return bad;
}

/* ---- the target ---- */

static char target_addr[32];
static char target_uri[64];
static const char *disk_path;
static struct t_peer peer;

static int run_target(void)
{
	char state[64];
	char pidfile[64];
	char disk[128];
	char lossy[128];
	char other[128];
	char plugged[128];
	const char *argv[] = {
		"rdma-target", "-l",	       target_uri,  "-b",  disk,
		"-b",	       "ram:1M",       "-b",	    lossy, "-b",
		other,	       "-b",	       "null:1M",   "-b",  plugged,
		"-b",	       "events:watch", "--buffers", "8M",  "-t",
		"2",	       "--state-dir",  state,	    "-P",  pidfile,
		"--control",   "none",	       NULL
	};
	struct configuration c;
	int status = 1;

	snprintf(state, sizeof(state), "%s/state", t_scratch());
	snprintf(pidfile, sizeof(pidfile), "%s/target.pid", t_scratch());
	snprintf(disk, sizeof(disk), "%s", disk_path);
	snprintf(lossy, sizeof(lossy), "%s/lossy,layer=volatile", t_scratch());
	snprintf(other, sizeof(other),
		 "%s/other,fault=write:corrupt,fault=read:delay=0",
		 t_scratch());
	snprintf(plugged, sizeof(plugged),
		 "example-file:%s/plugged,layer=example-zeroes", t_scratch());
	log_init("rdma-target", LOG_NOTICE);
	if (configuration_read(ARRAY_SIZE(argv) - 1, args_of(argv), &c) ==
	    OPTION_RUN)
		status = server_run(&c);
	configuration_free(&c);
	return status;
}

/* False: the target ended before it was ready. */
static bool await_ready(int out)
{
	char text[4096];
	size_t len = 0;

	do {
		ssize_t n = read(out, text + len, sizeof(text) - 1 - len);

		if (n <= 0)
			return false;
		len += (size_t)n;
		text[len] = '\0';
	} while (!strstr(text, "rdma-fuse srp"));
	return true;
}

static bool ask(uint32_t lun, const char *hex, bool is_out, uint32_t len)
{
	uint8_t cdb[SCSI_CDB_LEN] = { 0 };
	const struct t_peer_cmd cmd = { .tag = 0x77,
					.lun = lun,
					.cdb = cdb,
					.is_out = is_out,
					.len = len };
	unsigned int before = peer.ini.iu_cnt;

	for (unsigned int i = 0; hex[2 * i]; i++)
		sscanf(hex + 2 * i, "%2hhx", &cdb[i]);
	t_peer_post_cmd(&peer, &cmd);
	return t_peer_wait(&peer, before + 1) == T_ANSWERED &&
	       peer.rsp.status == SCSI_STATUS_GOOD;
}

static void reset_lun(void)
{
	struct srp_tsk_mgmt t = { .tag = 0x78, .function = SRP_TSK_LUN_RESET };
	uint8_t iu[SRP_TSK_MGMT_SIZE];

	srp_tsk_mgmt_encode(iu, sizeof(iu), &t);
	t_peer_ask(&peer, iu, sizeof(iu));
}

static void persistent_out(uint8_t action, uint64_t key, uint64_t new_key)
{
	char cdb[33];

	memset(peer.mem, 0, 24);
	wire_put64(peer.mem, key);
	wire_put64(peer.mem + 8, new_key);
	peer.mem[20] = action ? 0 : 1; /* APTPL */
	snprintf(cdb, sizeof(cdb), "5f%02x010000000000%02x00", action, 24);
	ask(0, cdb, true, 24);
}

static bool log_in(void)
{
	struct srp_login_req req = t_peer_login_req();
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	srp_login_req_encode(pdata, sizeof(pdata), &req);
	return t_peer_login(&peer, target_addr, pdata, sizeof(pdata)) ==
	       T_LOGGED_IN;
}

/* Uses everything that takes memory or the fabric. Any call may fail. */
static void use_target(void)
{
	for (uint32_t lun = 0; lun < 5 && !peer.ini.closed; lun++) {
		ask(lun, "00", false, 0);
		ask(lun, "2a000000000000000800", true, 8 * BLOCK);
		ask(lun, "28000000000000000800", false, 8 * BLOCK);
		ask(lun, "35", false, 0);
	}
	if (peer.ini.closed)
		return;
	reset_lun();
	ask(0, "00", false, 0);
	persistent_out(0, 0, 0xb22);		     /* REGISTER */
	ask(0, "3b020000000000020000", true, BLOCK); /* WRITE BUFFER */
	ask(1, "04", false, 0);			     /* FORMAT UNIT */
}

/* Another initiator takes what the first one has left. */
static void use_target_again(void)
{
	ask(0, "00", false, 0);
	persistent_out(0, 0, 0xa11);	 /* REGISTER */
	persistent_out(1, 0xa11, 0);	 /* RESERVE */
	persistent_out(5, 0xa11, 0xb22); /* PREEMPT AND ABORT */
	persistent_out(3, 0xa11, 0);	 /* CLEAR */
}

/* Logs in to a target port that does not exist. */
static void log_in_in_vain(void)
{
	struct srp_login_req req = t_peer_login_req();
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];

	req.target = srp_port_id_make(1, 2);
	srp_login_req_encode(pdata, sizeof(pdata), &req);
	t_peer_login(&peer, target_addr, pdata, sizeof(pdata));
}

/* True if a login works and written data can be read. */
static bool serves(void)
{
	if (!log_in())
		return false;
	for (int tries = 0; tries < 4 && !peer.ini.closed; tries++) {
		if (ask(0, "28000000000000000800", false, 8 * BLOCK))
			return true;
	}
	return false;
}

/* One call fails once. At the latest, the second login works. */
static void check_target(pid_t pid)
{
	if (!serves() && !serves() && !is_over(pid))
		complaint = "it does not serve any more";
}

static void drive_target(pid_t pid, int out)
{
	if (!await_ready(out))
		return;
	t_peer_init(&peer);
	log_in_in_vain();
	if (log_in())
		use_target();
	if (log_in())
		use_target_again();
	check_target(pid);
	t_peer_fini(&peer);
	kill(pid, SIGTERM);
}

/* ---- clients; their target stays ---- */

static struct t_target lasting;

static int run_info(void)
{
	char uri[128];
	const char *argv[] = { "rdma-info", uri, NULL };

	/* From there, so that the address is looked up. */
	snprintf(uri, sizeof(uri), "%s?source=127.0.0.1", lasting.uri);
	optind = 0;
	return info_main(2, args_of(argv));
}

static int run_info_in_vain(void)
{
	const char *argv[] = { "rdma-info", "srp+tcp://127.0.0.1:1", NULL };

	optind = 0;
	return info_main(2, args_of(argv));
}

static int library_failed(const char *what, const char *text)
{
	/* Prints what a program would print, with the library's text. */
	fprintf(stderr, "library: error: %s: %s\n", what, text);
	return *text ? 1 : 2;
}

static int io(struct srpi_ctx *ctx, struct srpi_session *s, enum srpi_op op,
	      struct srpi_mem *mem, uint8_t *buf)
{
	struct srpi_io io = { .op = op,
			      .len = op == SRPI_FLUSH ? 0 : 256 * 1024,
			      .buf = buf,
			      .mem = mem };

	return srpi_io_wait(ctx, s, &io);
}

static int use_session(struct srpi_ctx *ctx, struct srpi_session *s,
		       uint8_t *buf)
{
	static const enum srpi_op ops[] = { SRPI_WRITE, SRPI_READ, SRPI_FLUSH,
					    SRPI_DISCARD, SRPI_WRITE_ZEROES };
	struct srpi_error e = { 0 };
	struct srpi_mem *mem;
	int err = 0;

	if (srpi_mem_register(s, buf, MIB, &mem, &e))
		return library_failed("register", e.text);
	for (size_t i = 0; i < ARRAY_SIZE(ops) && !err; i++)
		err = io(ctx, s, ops[i], mem, buf);
	srpi_mem_free(mem);
	return err ? library_failed("I/O", strerror(-err)) : 0;
}

static int run_library(void)
{
	const struct srpi_options opt = { .struct_size = sizeof(opt),
					  .channels = 2,
					  .timeout_ms = 10000 };
	struct srpi_error e = { 0 };
	struct srpi_session *s;
	struct srpi_ctx *ctx;
	void *buf;
	int status;

	log_init("library", LOG_ERROR);
	if (srpi_ctx_create(NULL, &ctx, &e))
		return library_failed("context", e.text);
	if (posix_memalign(&buf, 4096, MIB))
		abort();
	memset(buf, 0x5a, MIB);
	if (srpi_connect_wait(ctx, lasting.uri, &opt, &s, &e)) {
		status = library_failed("connect", e.text);
	} else {
		status = use_session(ctx, s, buf);
		srpi_close_wait(ctx, s);
	}
	srpi_ctx_destroy(ctx);
	free(buf);
	return status;
}

/* ---- a mount ---- */

static char mountpoint[64];

static int run_mount(void)
{
	char pidfile[64];
	char metrics[64];
	const char *argv[] = {
		"rdma-fuse", "-f",	  "-P",	      pidfile, "--metrics-file",
		metrics,     lasting.uri, mountpoint, NULL
	};

	snprintf(pidfile, sizeof(pidfile), "%s/pid", t_scratch());
	snprintf(metrics, sizeof(metrics), "%s/prom", t_scratch());
	optind = 0;
	return fuse_main(8, args_of(argv));
}

static void use_mount(void)
{
	DIR *dir = opendir(mountpoint);
	char path[96];
	char buf[8192] = "";
	struct statvfs vfs;
	struct stat st;
	int fd;

	alarm(TIMEOUT_S);
	while (dir && readdir(dir))
		;
	if (dir)
		closedir(dir);
	snprintf(path, sizeof(path), "%s/disk", mountpoint);
	stat(path, &st);
	statvfs(mountpoint, &vfs);
	fd = open(path, O_RDWR);
	if (fd >= 0) {
		if (pwrite(fd, buf, 8192, 100) < 0 || fsync(fd) < 0 ||
		    pread(fd, buf, 8192, 300) < 0)
			_exit(1);
		close(fd);
	}
	_exit(0);
}

static void drive_mount(pid_t pid, int out)
{
	char pidfile[64];
	struct stat st;
	pid_t user;

	snprintf(pidfile, sizeof(pidfile), "%s/pid", t_scratch());
	/* The file is written when the mount works. */
	while ((stat(pidfile, &st) || !st.st_size) && !is_over(pid))
		usleep(1000);
	if (!is_over(pid)) {
		user = fork();
		if (user == 0)
			use_mount();
		waitpid(user, NULL, 0);
		kill(pid, SIGTERM);
		while (!is_over(pid))
			usleep(1000);
	}
	unlink(pidfile);
	/* The program leaves no mount behind. */
	if (umount2(mountpoint, MNT_DETACH) == 0)
		complaint = "a mount is left";
}

/* ---- the table ---- */

static const struct scenario scenarios[] = {
	{ "rdma-target", run_target, drive_target, 0 },
	{ "rdma-info", run_info, NULL, 0, true },
	{ "rdma-info, nobody there", run_info_in_vain, NULL, 1 << 8, true },
	{ "the library", run_library, NULL, 0 },
	{ "rdma-fuse", run_mount, drive_mount, 0, true },
};

T_ROWS(each_failure_is_borne, scenarios)
{
	unsigned int passes[FAULT_POINTS_MAX];
	const struct scenario *s = *state;
	unsigned int bad = 0;
	int status = run(s, 0, 0);

	if (status != s->status)
		show_log();
	assert_int_equal(status, s->status);
	for (unsigned int i = 0; i < fault_point_cnt(); i++)
		passes[i] = record->passes[i];
	for (unsigned int i = 0; i < fault_point_cnt(); i++) {
		point_passes[i] += passes[i];
		if (passes[i])
			bad += fail_point(s, i, passes[i]);
	}
	assert_int_equal(bad, 0);
}

/* Calls that the runs above cannot reach, and why. */
static const struct {
	const char *file;
	const char *call;
	const char *why;
} elsewhere[] = {
	{ "/verbs", "", "with an RDMA device only" },
	{ "tcp/reach.c", "socket", "in rdma-discover only" },
	{ "tcp/given.c", "socket", "with the control socket only" },
	{ "target/listen.c", "socket", "with an RDMA device only" },
	{ "target/scsi/volume_writers.c", "asprintf",
	  "without a state directory" },
	{ "target/scsi/unit_share.c", "",
	  "with a store that several targets serve" },
	{ "target/port/port.c", "malloc",
	  "when a session ends that has lost a volume" },
	{ "target/block/backend.c", "malloc",
	  "with a store that several targets serve" },
	{ "target/block/plugin_unprivileged.c", "",
	  "with a plugin that makes connections only" },
	{ "base/given_files.c", "", "with a configuration or its socket only" },
	{ "base/reactor_ring.c", "io_uring_submit", "when the ring is full" },
	{ "base/reactor_table.c", "io_uring_register_files_update",
	  "undoes something" },
	{ "base/file_lock.c", "fopen", "when another has the file" },
	{ "base/file_lock.c", "opendir", "when another has the file" },
	{ "target/block/store_file_open.c", "fopen",
	  "when another has the device" },
	{ "target/block/store_file_open.c", "opendir",
	  "when another has the device" },
	{ "initiator/properties.c", "", "when something has changed" },
	{ "target/service_notify.c", "", "with a service manager only" },
	{ "target/heartbeat.c", "", "with a service manager only" },
	{ "target/control/", "", "with a configuration or its socket only" },
	{ "config/config_", "", "with a configuration or its socket only" },
	{ "target/manage", "", "with a configuration or its socket only" },
	{ "target/configure.c", "calloc", "with --keys only" },
	{ "target/store_opener.c", "",
	  "with a configuration or its socket only" },
	{ "target/absent.c", "", "when a volume is not here yet" },
	{ "target/scsi/volume.c", "calloc", "when a volume is not here yet" },
	{ "target/daemon.c", "pipe2", "with --daemonize only" },
	{ "config/control_path.c", "", "in rdma-ctl only" },
	{ "initiator/purpose.c", "", "when a session has a purpose" },
	{ "fuse/main.c", "pipe2", "in the background only" },
	{ "fuse/uring.c", "calloc", "with FUSE over io_uring only" },
	{ "fuse/slots.c", "mmap", "with FUSE over io_uring only" },
	{ "fuse/identity.c", "getaddrinfo",
	  "when the URI names the identifier" },
	{ "fuse/identity.c", "socket", "when another has the identifier" },
	{ "fuse/identity.c", "signalfd", "when another has the identifier" },
	{ "fuse/open_file.c", "malloc", "when a program skips bytes" },
	{ "fuse/notify.c", "", "when a volume comes or goes" },
	{ "fuse/tree.c", "reallocarray", "when a volume comes" },
	{ "base/journal.c", "socket", "under the journal only" },
	{ "target/events.c", "", "with a configuration or its socket only" },
	{ "target/privileges.c", "fopen", "when rdma-ctl adds an address" },
	{ "target/collect.c", "", "when metrics are asked for" },
	{ "target/port/meter.c", "calloc", "when metrics are asked for" },
	{ "target/export.c", "", "with --metrics and --metrics-file only" },
	{ "target/metrics_http.c", "", "with --metrics only" },
};

static const char *why_not(const struct fault_point *p)
{
	for (size_t i = 0; i < ARRAY_SIZE(elsewhere); i++) {
		if (strstr(p->file, elsewhere[i].file) &&
		    (!*elsewhere[i].call ||
		     !strcmp(p->call, elsewhere[i].call)))
			return elsewhere[i].why;
	}
	return NULL;
}

T_TEST(every_point_has_failed)
{
	unsigned int missed = 0;

	for (unsigned int i = 0; i < fault_point_cnt(); i++) {
		const struct fault_point *p = fault_point(i);
		const char *why = why_not(p);

		print_message("# %-36s %5u passes %3u failures  %s:%d%s%s\n",
			      p->call, point_passes[i], point_failures[i],
			      p->file, p->line, why ? ": " : "",
			      why ? why : "");
		missed += !point_failures[i] && !why;
	}
	if (missed && !getenv("T_FILTER"))
		fail_msg("%u points have never failed", missed);
}

static int begin(void **state)
{
	struct fault_record *shared =
		mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE,
		     MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char dir[64];

	assert_true(shared != MAP_FAILED);
	record = shared;
	assert_true(fault_point_cnt() < FAULT_POINTS_MAX);
	snprintf(log_path, sizeof(log_path), "%s/log", t_scratch());
	snprintf(mountpoint, sizeof(mountpoint), "%s/mnt", t_scratch());
	snprintf(dir, sizeof(dir), "%s/state", t_scratch());
	assert_int_equal(mkdir(mountpoint, 0700), 0);
	assert_int_equal(mkdir(dir, 0700), 0);
	disk_path = t_scratch_file("disk", MIB);
	t_scratch_file("lossy", MIB);
	t_scratch_file("other", MIB);
	t_scratch_file("plugged", MIB);
	t_addr_next(target_addr, sizeof(target_addr));
	snprintf(target_uri, sizeof(target_uri), "srp+tcp://%s", target_addr);
	t_target_start(&lasting,
		       (const char *[]){ "-b", "ram:1M,name=disk", NULL });
	return 0;
}

static int end(void **state)
{
	t_target_stop(&lasting);
	return 0;
}

int main(void)
{
	return t_run_between(begin, end);
}
