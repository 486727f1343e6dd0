/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The costs of logins to a real rdma-target over TCP: memory while they exist,
 * no CPU time while they are idle, and nothing when they have ended.
 */
#include <dirent.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "initiator/srp_initiator.h"
#include "tests/functional/t_load.h"
#include "tests/functional/t_target.h"
#include "tests/lib/t_table.h"

#define MIB (1024ul * 1024)

#define LOGINS 40

/* Limit for one idle login, without the memory that all share. */
#define IDLE_KIB 64ul

static struct t_target target;

/* ---- the kernel's view of a process ---- */

/* Returns the number after @key in a file of "Key: number" lines. Sizes are in
 * kB. */
static unsigned long number_in(const char *path, const char *key)
{
	unsigned long sum = 0;
	char line[256];
	FILE *f = fopen(path, "r");

	assert_non_null(f);
	while (fgets(line, sizeof(line), f)) {
		char *colon = strchr(line, ':');

		if (colon && strstr(line, key) && strstr(line, key) < colon)
			sum += strtoul(colon + 1, NULL, 10);
	}
	fclose(f);
	return sum;
}

static unsigned long resident_kib(void)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/status", target.pid);
	return number_in(path, "VmRSS");
}

static unsigned int cnt_entries(const char *what)
{
	char path[64];
	unsigned int cnt = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/%s", target.pid, what);
	dir = opendir(path);
	assert_non_null(dir);
	while (readdir(dir))
		cnt++;
	closedir(dir);
	return cnt - 2;
}

/* Returns the context switches of all threads of @pid, or only of thread
 * @tid. */
static unsigned long switches(pid_t pid, pid_t tid)
{
	unsigned long sum = 0;
	struct dirent *entry;
	char path[300];
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	assert_non_null(dir);
	while ((entry = readdir(dir))) {
		if (atoi(entry->d_name) == 0 ||
		    (tid && atoi(entry->d_name) != tid))
			continue;
		snprintf(path, sizeof(path), "/proc/%d/task/%s/status", pid,
			 entry->d_name);
		sum += number_in(path, "ctxt_switches");
	}
	closedir(dir);
	return sum;
}

/*
 * True if there are three seconds without a context switch. A process may take
 * a while to fall asleep. One that wakes up by itself never does.
 */
static bool goes_to_sleep(pid_t pid, pid_t tid)
{
	for (unsigned int tries = 0; tries < 8; tries++) {
		unsigned long before = switches(pid, tid);

		sleep(3);
		if (switches(pid, tid) == before)
			return true;
	}
	return false;
}

/* The memory of a sanitizer does not count. */
static bool is_sanitized(void)
{
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	return true;
#else
	return getenv("SANITIZED") != NULL;
#endif
}

/* ---- allocations of the target ---- */

static const char *alloc_file;

/* Like t_target_start(), but counts allocations. */
static void start_counting(const char *const *args)
{
	char lib[4096];

	alloc_file = t_scratch_file("allocations", sizeof(uint64_t));
	snprintf(lib, sizeof(lib), "%s/tests/t-alloc.so", t_build());
	setenv("ALLOC_COUNT", alloc_file, 1);
	setenv("LD_PRELOAD", lib, 1);
	t_target_start(&target, args);
	unsetenv("LD_PRELOAD");
	unsetenv("ALLOC_COUNT");
}

static uint64_t allocations(void)
{
	uint64_t cnt = 0;
	FILE *f = fopen(alloc_file, "r");

	assert_non_null(f);
	assert_int_equal(fread(&cnt, sizeof(cnt), 1, f), 1);
	fclose(f);
	return cnt;
}

/* ---- sessions ---- */

static struct srpi_ctx *ctx;
static struct srpi_session *sessions[LOGINS];

static void log_in(unsigned int i, unsigned int channels)
{
	const struct srpi_options opt = { .struct_size = sizeof(opt),
					  .channels = channels,
					  .timeout_ms = 60000 };
	struct srpi_error e = { 0 };

	if (srpi_connect_wait(ctx, target.uri, &opt, &sessions[i], &e))
		fail_msg("%s", e.text);
}

static void log_in_all(void)
{
	for (unsigned int i = 0; i < LOGINS; i++)
		log_in(i, 1);
}

static void open_ctx(void)
{
	struct srpi_error e;

	assert_int_equal(srpi_ctx_create(NULL, &ctx, &e), 0);
}

static void log_out_all(void)
{
	for (unsigned int i = 0; i < LOGINS; i++)
		srpi_close_wait(ctx, sessions[i]);
	srpi_ctx_destroy(ctx);
}

/* A full queue with all kinds of I/O, so that every buffer is used. */
static void use(unsigned int i)
{
	const struct t_load_params p = { .len = 1 * MIB,
					 .depth = 64,
					 .max_io = 8192,
					 .ops = 500,
					 .seed = i };
	struct t_load *load = t_load_start(sessions[i], &p);

	while (!t_load_is_over(load))
		assert_true(srpi_ctx_run(ctx, -1) >= 0);
	assert_string_equal(t_load_fault(load), "");
	t_load_free(load);
}

T_TEST_IF(!is_sanitized(), idle_login_costs_little)
{
	unsigned long before;
	unsigned long after;

	t_target_start(&target, (const char *[]){ "-b", "null:1T", NULL });
	before = resident_kib();
	open_ctx();
	log_in_all();
	after = resident_kib();
	print_message("# idle: %lu KiB, %lu KiB for each login\n", before,
		      (after - before) / LOGINS);
	assert_true(after - before < LOGINS * IDLE_KIB);
	log_out_all();
	t_target_stop(&target);
}

T_TEST_IF(!is_sanitized(), login_that_works_costs_less_than_a_mebibyte)
{
	unsigned long before;
	unsigned long after;

	t_target_start(&target, (const char *[]){ "-b", "ram:1M", NULL });
	open_ctx();
	/* Memory that all logins share is in use before the count begins. */
	log_in(0, 1);
	use(0);
	before = resident_kib();
	for (unsigned int i = 1; i < LOGINS; i++) {
		log_in(i, 1);
		use(i);
	}
	after = resident_kib();
	print_message("# %lu KiB for each login in use\n",
		      (after - before) / (LOGINS - 1));
	assert_true(after - before < (LOGINS - 1) * 1024ul);
	log_out_all();
	t_target_stop(&target);
}

static void allocate_nothing_with(const char *backing)
{
	uint64_t before;

	start_counting((const char *[]){ "-b", backing, NULL });
	open_ctx();
	log_in(0, 1);
	use(0);
	before = allocations();
	assert_true(before > 0);
	use(0);
	assert_int_equal(allocations(), before);
	srpi_close_wait(ctx, sessions[0]);
	srpi_ctx_destroy(ctx);
	t_target_stop(&target);
}

/* After everything has been used once, also the memory for commands in
 * flight. */
T_TEST_IF(!is_sanitized(), commands_allocate_nothing)
{
	allocate_nothing_with("ram:1M");
	allocate_nothing_with(t_scratch_file("disk", 1 * MIB));
}

static void *run_ctx(void *arg)
{
	_Atomic pid_t *tid = arg;

	open_ctx();
	log_in_all();
	*tid = (pid_t)syscall(SYS_gettid);
	while (*tid)
		srpi_ctx_run(ctx, -1);
	log_out_all();
	return NULL;
}

/* If the target stops, the session ends: the target sends a logout. */
T_TEST(idle_logins_wake_nobody)
{
	_Atomic pid_t tid = 0;
	pthread_t thread;
	pid_t theirs;

	/* Other targets of this machine also send their announcements to this
	 * one. */
	t_target_start(&target, (const char *[]){ "-b", "ram:1M", "-t", "2",
						  "--discovery", "off", NULL });
	assert_int_equal(pthread_create(&thread, NULL, run_ctx, &tid), 0);
	while (!(theirs = tid))
		usleep(1000);
	assert_true(goes_to_sleep(target.pid, 0));
	assert_true(goes_to_sleep(getpid(), theirs));
	tid = 0;
	t_target_stop(&target);
	assert_int_equal(pthread_join(thread, NULL), 0);
}

T_TEST(logins_that_have_gone_leave_nothing)
{
	unsigned int files = 0;
	unsigned int threads = 0;
	unsigned long resident = 0;

	t_target_start(&target,
		       (const char *[]){ "-b", "ram:1M", "-t", "2", NULL });
	open_ctx();
	for (unsigned int i = 0; i < 300; i++) {
		log_in(0, 1 + i % 3);
		srpi_close_wait(ctx, sessions[0]);
		if (i != 100)
			continue;
		log_in(0, 1);
		files = cnt_entries("fd");
		threads = cnt_entries("task");
		resident = resident_kib();
		srpi_close_wait(ctx, sessions[0]);
	}
	log_in(0, 1);
	/* The last connections may still be ending. */
	while (cnt_entries("fd") > files)
		usleep(1000);
	assert_int_equal(cnt_entries("task"), threads);
	print_message("# grown by %ld KiB\n",
		      (long)resident_kib() - (long)resident);
	if (!is_sanitized())
		assert_true(resident_kib() <= resident + 1024);
	srpi_close_wait(ctx, sessions[0]);
	srpi_ctx_destroy(ctx);
	t_target_stop(&target);
}

int main(void)
{
	/* meson makes malloc() fill the memory, which touches all of it. */
	unsetenv("MALLOC_PERTURB_");
	return t_run();
}
