/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/volume_job.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/scsi/volume.h"
#include "base/log.h"

/* How much of a pattern is written at once. When the target stops, the job ends
 * after the piece. Bytes. */
#define PIECE (1u << 20)

/* The shortest time between two progress lines of a job. */
#define JOB_TELL_US (60ull * 1000000)

/* The passes of a job, in their order. */
enum pass {
	PASS_OVERWRITE,
	PASS_SCRUB,
	PASS_ERASE,
	PASS_NONE,
};

void volume_job_init(struct volume *vol)
{
	vol->job.vol = vol;
}

enum volume_state volume_state(const struct volume *vol)
{
	return (enum volume_state)atomic_load(&vol->job.state);
}

/* ---- the end ---- */

static bool is_running(enum volume_state state)
{
	return state == VOLUME_FORMATTING || state == VOLUME_SANITIZING ||
	       state == VOLUME_SAVING;
}

/* The lock is held. */
static bool is_unsaved(const struct volume *vol)
{
	return vol->state.unsaved || vol->state.is_behind;
}

/* Without a job. The lock is held. */
static enum volume_state state_at_rest(const struct volume *vol)
{
	return is_unsaved(vol) ? VOLUME_UNSAVED : vol->state.job.state;
}

/* False: the volume is in another state than @from. */
static bool job_enter(struct volume *vol, enum volume_state from,
		      enum volume_state to)
{
	bool is_from;

	pthread_mutex_lock(&vol->state.lock);
	is_from = volume_state(vol) == from;
	if (is_from)
		atomic_store(&vol->job.state, to);
	pthread_mutex_unlock(&vol->state.lock);
	volume_status_look(vol);
	return is_from;
}

static void job_leave(struct volume *vol)
{
	pthread_mutex_lock(&vol->state.lock);
	atomic_store(&vol->job.state, state_at_rest(vol));
	pthread_mutex_unlock(&vol->state.lock);
	volume_status_look(vol);
}

void volume_job_rest(struct volume *vol)
{
	pthread_mutex_lock(&vol->state.lock);
	if (!is_running(volume_state(vol)))
		atomic_store(&vol->job.state, state_at_rest(vol));
	pthread_mutex_unlock(&vol->state.lock);
	volume_status_look(vol);
}

/* Either the thread that ends a job finds the waiter, or the waiter finds that
 * no job runs. */
static void wake_waiter(struct volume_job *job)
{
	struct reactor_msg *msg = atomic_exchange(&job->waiter, NULL);

	if (msg)
		reactor_send(job->waiter_worker->reactor, msg);
}

static enum volume_state state_after(const struct volume_job *job, int err)
{
	if (!err)
		return VOLUME_READY;
	return job->plan.state == VOLUME_SANITIZING ? VOLUME_SANITIZE_FAILED
						    : VOLUME_FORMAT_FAILED;
}

static void free_buffers(struct volume_job *job)
{
	free(job->buf);
	free(job->pattern);
	job->buf = NULL;
	job->pattern = NULL;
}

static const char *job_name(const struct volume_job *job)
{
	return job->plan.state == VOLUME_SANITIZING ? "SANITIZE"
						    : "FORMAT UNIT";
}

static void log_end(const struct volume_job *job, int err)
{
	if (err)
		volume_log(LOG_ERROR, "job-failed", job->vol,
			   "%s ended at %u %%: %s", job_name(job),
			   atomic_load(&job->progress) * 100 / 65536,
			   strerror(-err));
	else
		volume_log(LOG_NOTICE, "job-done", job->vol, "%s is done",
			   job_name(job));
}

/* When others see the new state, they may begin a job, on any worker. So
 * everything that belongs to this job is removed before. */
static void publish(struct volume_job *job, int err)
{
	void (*done)(void *user, int err) = job->done;
	void *user = job->user;

	free_buffers(job);
	job_leave(job->vol);
	if (done)
		done(user, err);
	wake_waiter(job);
}

static void job_finish(struct volume_job *job, int err)
{
	log_end(job, err);
	if (err)
		atomic_store(&job->lenient, job->plan.lenient);
	publish(job, err);
}

static void end_written(struct unit_turn *turn, int err)
{
	struct volume_job *job = container_of(turn, struct volume_job, turn);

	unit_turn_end(job->vol);
	job_finish(job, job->err ? job->err : err);
}

static void write_end(struct unit_turn *turn, int err)
{
	struct volume_job *job = container_of(turn, struct volume_job, turn);
	struct state_job now = { .state = state_after(job, job->err),
				 .lenient = job->plan.lenient };

	unit_state_set_job(job->vol, &now, end_written);
}

/* A job that ends with the process stays in the file as failed. */
static void job_end(struct volume_job *job, int err)
{
	job->err = err;
	if (err == -ECANCELED)
		job_finish(job, err);
	else
		unit_turn_take(job->vol, job->worker, &job->turn, write_end);
}

/* ---- the passes ---- */

static enum pass pass_of(const struct volume_job *job)
{
	unsigned int n = job->pass;

	if (n < job->plan.overwrite_cnt)
		return PASS_OVERWRITE;
	n -= job->plan.overwrite_cnt;
	if (job->plan.scrub && n-- == 0)
		return PASS_SCRUB;
	if (job->plan.erase && n-- == 0)
		return PASS_ERASE;
	return PASS_NONE;
}

static unsigned int pass_cnt(const struct volume_job *job)
{
	return job->plan.overwrite_cnt + job->plan.scrub + job->plan.erase;
}

static uint64_t job_size_of(const struct volume_job *job)
{
	return job->vol->blocks * job->vol->block_size;
}

/* Logs the progress from time to time, because a job may take hours. */
static void job_log_progress(struct volume_job *job, uint64_t now_us,
			     uint64_t left_s)
{
	if (now_us - job->told_us < JOB_TELL_US)
		return;
	job->told_us = now_us;
	volume_log(LOG_NOTICE, "job-progress", job->vol,
		   "%s: %u %%, about %llu:%02llu:%02llu to go", job_name(job),
		   atomic_load(&job->progress) * 100 / 65536,
		   (unsigned long long)left_s / 3600,
		   (unsigned long long)left_s / 60 % 60,
		   (unsigned long long)left_s % 60);
}

/* Assumes that the rest takes as long, in proportion, as the part that is done:
 * @n of 65536. */
static void job_estimate(struct volume_job *job, uint64_t n)
{
	uint64_t now_us = reactor_now_us(job->worker->reactor);
	uint64_t left_s;

	if (n == 0 || n > 65536)
		return;
	left_s = (now_us - job->began_us) / n * (65536 - n) / 1000000;
	atomic_store(&job->seconds_left,
		     left_s < UINT32_MAX ? (uint32_t)left_s + 1 : UINT32_MAX);
	job_log_progress(job, now_us, left_s);
}

/* FFFFh is the highest value (SPC-4, progress indication). */
static void tell_progress(struct volume_job *job)
{
	uint64_t unit = job_size_of(job) / 65536 + 1;
	uint64_t n = (job->pass * 65536 + job->blk.at / unit) / pass_cnt(job);

	atomic_store(&job->progress, n < 65535 ? (uint32_t)n : 65535);
	job_estimate(job, n);
}

/* One block of an overwriting pass, at the beginning of the buffer. */
static uint8_t *job_pattern(struct volume_job *job)
{
	const struct volume_job_plan *plan = &job->plan;
	uint8_t flip = 0;

	if (plan->invert && (plan->overwrite_cnt - 1 - job->pass) % 2)
		flip = 0xff;
	for (uint32_t i = 0; i < job->vol->block_size; i++)
		job->buf[i] = job->pattern[i] ^ flip;
	return job->buf;
}

static void job_pass(struct volume_job *job);

static void pass_done(struct block_cmd *cmd)
{
	struct volume_job *job = container_of(cmd, struct volume_job, blk);

	job->pass++;
	if (cmd->res || pass_of(job) == PASS_NONE)
		job_end(job, cmd->res);
	else
		job_pass(job);
}

static void job_go_on(struct reactor_msg *msg)
{
	struct volume_job *job = container_of(msg, struct volume_job, msg);

	if (atomic_load(&job->stopping)) {
		job_end(job, -ECANCELED);
		return;
	}
	tell_progress(job);
	block_resume(&job->blk);
}

/* Lets other commands run first. */
static void job_pause(struct block_cmd *cmd)
{
	struct volume_job *job = container_of(cmd, struct volume_job, blk);

	job->msg.run = job_go_on;
	reactor_send(job->worker->reactor, &job->msg);
}

/* Makes each pass stable before the next begins. Otherwise a cache would drop
 * zeroes over blocks that are deallocated next. */
static void job_pass(struct volume_job *job)
{
	enum pass pass = pass_of(job);

	job->blk = (struct block_cmd){
		.dev = &job->vol->dev,
		.worker = job->worker,
		.kind = BLOCK_CMD_FILL,
		.fua = true,
		.may_unmap = pass == PASS_ERASE,
		.overwrite = pass == PASS_SCRUB,
		.mapped = pass == PASS_SCRUB,
		.buf_index = -1,
		.len = job_size_of(job),
		.buf = pass == PASS_OVERWRITE ? job_pattern(job) : NULL,
		.unit_len = job->vol->block_size,
		.room = job->buf,
		.room_len = PIECE,
		.piece_len = BLOCK_UNMAP_PIECE,
		.pause = job_pause,
		.done = pass_done,
		.bio.io.epoch = job->epoch,
	};
	tell_progress(job);
	if (block_start(&job->blk))
		pass_done(&job->blk);
}

static void job_start(struct reactor_msg *msg)
{
	struct volume_job *job = container_of(msg, struct volume_job, msg);

	job->began_us = reactor_now_us(job->worker->reactor);
	job->told_us = job->began_us;
	if (atomic_load(&job->stopping))
		job_end(job, -ECANCELED);
	else
		job_pass(job);
}

/* ---- the beginning ---- */

/* Every I/O that had blocks before has given them back; later ones see the
 * state. */
static void drained(struct block_drain *drain)
{
	struct volume_job *job = container_of(drain, struct volume_job, drain);

	job->msg.run = job_start;
	reactor_send(job->worker->reactor, &job->msg);
}

static int make_buffers(struct volume_job *job)
{
	const struct volume_job_plan *plan = &job->plan;
	uint32_t block_size = job->vol->block_size;

	job->buf = aligned_alloc(4096, PIECE);
	job->pattern = calloc(1, block_size);
	if (!job->buf || !job->pattern) {
		free_buffers(job);
		return -ENOMEM;
	}
	for (uint32_t i = 0; i < block_size && plan->overwrite_cnt; i++)
		job->pattern[i] = plan->pattern[i % plan->pattern_len];
	return 0;
}

/* IMMED: the caller waits only until here. */
static void tell_begun(struct volume_job *job)
{
	void (*done)(void *user, int err) = job->done;

	job->done = NULL;
	if (done)
		done(job->user, 0);
}

static void begin_written(struct unit_turn *turn, int err)
{
	struct volume_job *job = container_of(turn, struct volume_job, turn);

	unit_turn_end(job->vol);
	if (err) {
		/* Nothing has been touched yet. */
		publish(job, -ESTALE);
		return;
	}
	if (job->immed)
		tell_begun(job);
	block_owners_drain(&job->vol->dev.owners, job->worker, &job->drain,
			   drained);
}

/* Why the job does not begin although its command was let in; or 0. */
static int job_obstacle(const struct volume_job *job)
{
	if (job->vol->state.medium != UNIT_MEDIUM_IN)
		return -ENOMEDIUM;
	return volume_is_protected(job->vol) ? -EACCES : 0;
}

static void write_begin(struct unit_turn *turn, int err)
{
	struct volume_job *job = container_of(turn, struct volume_job, turn);
	struct state_job now = { .state = state_after(job, -EINTR),
				 .lenient = job->plan.lenient };

	err = job_obstacle(job);
	if (job->left || err) {
		unit_turn_end(job->vol);
		publish(job, job->left ? 0 : err);
		return;
	}
	unit_state_set_job(job->vol, &now, begin_written);
}

int volume_job_start(struct volume *vol, struct block_worker *w,
		     enum volume_state from, const struct volume_job_plan *plan,
		     bool immed, void (*done)(void *user, int err), void *user)
{
	struct volume_job *job = &vol->job;
	int err;

	assert(is_running(plan->state) && !is_running(from));
	if (!job_enter(vol, from, plan->state))
		return -EBUSY;
	job->plan = *plan;
	err = atomic_load(&job->stopping) ? -ESHUTDOWN : make_buffers(job);
	if (err) {
		job_leave(vol);
		wake_waiter(job);
		return err;
	}
	job->worker = w;
	job->immed = immed;
	job->left = false;
	job->done = done;
	job->user = user;
	job->pass = 0;
	job->epoch = backend_epoch(vol->dev.backend);
	atomic_store(&job->progress, 0);
	atomic_store(&job->seconds_left, 0);
	unit_turn_take(vol, w, &job->turn, write_begin);
	return 0;
}

void volume_job_leave(struct volume *vol)
{
	vol->job.done = NULL;
	vol->job.left = true;
}

void volume_job_restore(struct volume *vol)
{
	const struct state_job *was = &vol->state.job;

	if (was->state == VOLUME_READY)
		return;
	volume_log(LOG_WARNING, NULL, vol,
		   "%s has not come to its end; if the data is good all the "
		   "same, remove the state file %s while the volume is not "
		   "served",
		   was->state == VOLUME_FORMAT_FAILED ? "FORMAT UNIT"
						      : "SANITIZE",
		   vol->journal.path);
	atomic_store(&vol->job.lenient, was->lenient);
	volume_job_rest(vol);
}

/* ---- a state that is not saved ---- */

static void written_again(struct unit_turn *turn, int err)
{
	struct volume_job *job = container_of(turn, struct volume_job, turn);

	unit_turn_end(job->vol);
	publish(job, err);
}

static void write_again(struct unit_turn *turn, int err)
{
	struct volume_job *job = container_of(turn, struct volume_job, turn);

	unit_state_save_again(job->vol, written_again);
}

/* False: the state is saved, or a job runs, which saves it. */
static bool job_enter_saving(struct volume *vol)
{
	bool must;

	pthread_mutex_lock(&vol->state.lock);
	must = is_unsaved(vol) && !is_running(volume_state(vol));
	if (must)
		atomic_store(&vol->job.state, VOLUME_SAVING);
	pthread_mutex_unlock(&vol->state.lock);
	volume_status_look(vol);
	return must;
}

void volume_job_save_again(struct volume *vol, struct block_worker *w)
{
	struct volume_job *job = &vol->job;

	if (!job_enter_saving(vol))
		return;
	job->worker = w;
	job->done = NULL;
	if (atomic_load(&job->stopping))
		publish(job, -ESHUTDOWN);
	else
		unit_turn_take(vol, w, &job->turn, write_again);
}

/* ---- stopping ---- */

void volume_job_stop(struct volume *vol)
{
	atomic_store(&vol->job.stopping, true);
}

void volume_job_await(struct volume *vol, struct block_worker *w,
		      struct reactor_msg *msg)
{
	struct volume_job *job = &vol->job;

	job->waiter_worker = w;
	atomic_store(&job->waiter, msg);
	if (!is_running(volume_state(vol)))
		wake_waiter(job);
}
