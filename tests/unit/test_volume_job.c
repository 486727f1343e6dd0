/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Workers begin jobs on one volume at the same time, each on a thread of its
 * own. ThreadSanitizer reports any access to a job after its volume was
 * released.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "target/scsi/volume.h"
#include "tests/lib/t_store.h"
#include "tests/lib/t_table.h"
#include "tests/lib/t_journal.h"

#define WORKERS 2
#define ROUNDS	500
#define BLOCK	512

/* Begins one job after another on its worker. */
struct actor {
	struct block_worker worker;
	pthread_t thread;
	struct reactor_msg msg;
	unsigned int rounds; /* rounds left */
	unsigned int done;   /* ends that it was told of */
	unsigned int wrong;  /* ends of other jobs, or wrong results */
	bool waits;
};

static struct volume *vol;
static struct actor actors[WORKERS];
static atomic_uint actors_left;

static void stop_all(void)
{
	for (unsigned int i = 0; i < WORKERS; i++)
		reactor_stop(actors[i].worker.reactor);
}

static void job_done(void *user, int err)
{
	struct actor *a = user;

	a->wrong += !pthread_equal(pthread_self(), a->thread) || !a->waits ||
		    err != -ESTALE;
	a->waits = false;
	a->done++;
	if (--a->rounds)
		reactor_send(a->worker.reactor, &a->msg);
	else if (--actors_left == 0)
		stop_all();
}

/* If another job has the volume, it tries again. */
static void begin_job(struct reactor_msg *msg)
{
	static const struct volume_job_plan plan = { .state = VOLUME_FORMATTING,
						     .erase = true };
	struct actor *a = container_of(msg, struct actor, msg);
	int err;

	a->waits = true;
	err = volume_job_start(vol, &a->worker, VOLUME_READY, &plan,
			       /* immed= */ false, job_done, a);
	if (!err)
		return;
	a->waits = false;
	a->wrong += err != -EBUSY;
	reactor_send(a->worker.reactor, &a->msg);
}

static void *run_worker(void *arg)
{
	struct actor *a = arg;

	reactor_send(a->worker.reactor, &a->msg);
	reactor_run(a->worker.reactor);
	return NULL;
}

static void open_volume(const char *dir)
{
	struct volume_spec spec = { .type = &t_store_type,
				    .block_size = BLOCK,
				    .path = "test",
				    .serial = "0123" };
	struct error e = { 0 };

	t_store_reset(&(struct backend_info){ .size = 64 * BLOCK,
					      .optimal_block = 4096 });
	assert_int_equal(volume_open(&spec, 0, "t", &vol, &e), 0);
	assert_int_equal(unit_state_load(vol, dir, &e), 0);
	t_journal_fail(&vol->journal, T_JOURNAL_REFUSES);
}

static void open_worker(unsigned int index)
{
	struct reactor_options opt = { .ring_entries = 8 };
	struct actor *a = &actors[index];
	struct error e = { 0 };

	*a = (struct actor){ .rounds = ROUNDS, .msg.run = begin_job };
	a->worker.index = index;
	assert_int_equal(reactor_create(&opt, &a->worker.reactor), 0);
	assert_int_equal(volume_attach(vol, &a->worker, &e), 0);
}

static void remove_all(const char *dir)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -r %s", dir);
	assert_int_equal(system(command), 0);
}

/* Each attempt would log a line. Returns the value that log_again() needs. */
static int log_nothing(void)
{
	int was = dup(STDERR_FILENO);
	int null = open("/dev/null", O_WRONLY);

	assert_true(was >= 0 && null >= 0);
	dup2(null, STDERR_FILENO);
	close(null);
	return was;
}

static void log_again(int was)
{
	dup2(was, STDERR_FILENO);
	close(was);
}

/* No job can be saved, so none begins, and the volume is released. */
T_TEST(job_that_cannot_begin_tells_its_own)
{
	char dir[] = "/tmp/test_volume_job.XXXXXX";
	int log;

	assert_non_null(mkdtemp(dir));
	open_volume(dir);
	for (unsigned int i = 0; i < WORKERS; i++)
		open_worker(i);
	actors_left = WORKERS;
	log = log_nothing();
	for (unsigned int i = 0; i < WORKERS; i++)
		assert_int_equal(pthread_create(&actors[i].thread, NULL,
						run_worker, &actors[i]),
				 0);
	for (unsigned int i = 0; i < WORKERS; i++)
		pthread_join(actors[i].thread, NULL);
	log_again(log);
	assert_int_equal(volume_state(vol), VOLUME_READY);
	for (unsigned int i = 0; i < WORKERS; i++) {
		assert_int_equal(actors[i].wrong, 0);
		assert_int_equal(actors[i].done, ROUNDS);
		volume_detach(vol, &actors[i].worker);
		reactor_destroy(actors[i].worker.reactor);
	}
	volume_close(vol);
	remove_all(dir);
}
