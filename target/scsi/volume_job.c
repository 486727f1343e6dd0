/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/volume_job.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/scsi/volume.h"
#include "base/log.h"

/* What is written, or made zero in memory, in one go; and what a store may be
 * asked to deallocate, which takes 0.8 s where it writes zeroes at 20 MB/s: when
 * the target stops, the job ends after the piece. Bytes. */
#define PIECE	    (1u << 20)
#define ERASE_PIECE (16u << 20)

/* The passes of a job, in their order. */
enum pass {
	PASS_OVERWRITE,
	PASS_SCRUB,
	PASS_ERASE,
	PASS_FLUSH,
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
	return state == VOLUME_FORMATTING || state == VOLUME_SANITIZING;
}

/* Of the one that ends a job and the one that waits, one finds it. */
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

static void log_end(const struct volume_job *job, int err)
{
	const char *what = job->plan.state == VOLUME_SANITIZING ? "SANITIZE"
								: "FORMAT UNIT";

	if (err)
		log_error("LUN %u (%s): %s ended at %u %%: %s", job->vol->lun,
			  job->vol->name, what,
			  atomic_load(&job->progress) * 100 / 65536,
			  strerror(-err));
	else
		log_notice("LUN %u (%s): %s is done", job->vol->lun,
			   job->vol->name, what);
}

/* Once others see @state, they may begin a job, on any worker: all that belongs
 * to this one has been taken out by then. */
static void publish(struct volume_job *job, enum volume_state state, int err)
{
	void (*done)(void *user, int err) = job->done;
	void *user = job->user;

	free_buffers(job);
	atomic_store(&job->state, state);
	if (done)
		done(user, err);
	wake_waiter(job);
}

static void job_finish(struct volume_job *job, int err)
{
	log_end(job, err);
	if (err)
		atomic_store(&job->lenient, job->plan.lenient);
	publish(job, state_after(job, err), err);
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

/* What ends with the process is left as it is written down: as not ended. */
static void job_end(struct volume_job *job, int err)
{
	job->err = err;
	if (err == -ECANCELED)
		job_finish(job, err);
	else
		unit_turn_take(job->vol, job->worker, &job->turn, write_end);
}

/* ---- a piece ---- */

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
	return PASS_FLUSH;
}

static unsigned int pass_cnt(const struct volume_job *job)
{
	return job->plan.overwrite_cnt + job->plan.scrub + job->plan.erase;
}

static uint64_t job_size_of(const struct volume_job *job)
{
	return job->vol->blocks * job->vol->block_size;
}

/* FFFFh is as far as it goes (SPC-4, progress indication). */
static void tell_progress(struct volume_job *job)
{
	uint64_t unit = job_size_of(job) / 65536 + 1;
	uint64_t n = (job->pass * 65536 + job->at / unit) / pass_cnt(job);

	atomic_store(&job->progress, n < 65535 ? (uint32_t)n : 65535);
}

/* The buffer for pass job->pass. */
static void job_fill(struct volume_job *job)
{
	const struct volume_job_plan *plan = &job->plan;
	uint32_t block_size = job->vol->block_size;
	uint8_t flip = 0;

	if (pass_of(job) != PASS_OVERWRITE) {
		memset(job->buf, 0, PIECE);
		return;
	}
	if (plan->invert && (plan->overwrite_cnt - 1 - job->pass) % 2)
		flip = 0xff;
	for (uint32_t i = 0; i < block_size; i++)
		job->buf[i] = job->pattern[i] ^ flip;
	for (uint32_t len = block_size; len < PIECE; len += block_size)
		memcpy(job->buf + len, job->buf, block_size);
}

static void step(struct reactor_msg *msg);

/* Others have their turn first. */
static void go_on(struct volume_job *job)
{
	job->msg.run = step;
	reactor_send(job->worker->reactor, &job->msg);
}

static void piece_done(struct block_request *req, int res)
{
	struct volume_job *job = container_of(req, struct volume_job, blk);

	if (res) {
		job_end(job, res);
		return;
	}
	if (req->op == BLOCK_FLUSH)
		job_end(job, 0);
	else if (req->op == BLOCK_EXTENT && req->extent_mapped)
		/* this extent is to be written, by the next step */
		go_on(job);
	else {
		job->at += req->op == BLOCK_EXTENT ? req->extent_len : req->len;
		go_on(job);
	}
}

static void job_submit(struct volume_job *job, enum block_op op, uint64_t len)
{
	job->blk = (struct block_request){
		.op = op,
		.offset = op == BLOCK_FLUSH ? 0 : job->at,
		.len = len,
		.buf = job->buf,
		.buf_index = -1,
		.may_unmap = op == BLOCK_ZERO,
		.worker = job->worker,
		.record = &job->vol->dev.record,
		.done = piece_done,
	};
	block_submit(job->vol->dev.backend, &job->blk);
}

static void write_piece(struct volume_job *job, uint64_t left)
{
	job_submit(job, BLOCK_WRITE, left < PIECE ? left : PIECE);
}

/* Is the next thing to look whether there is something to scrub? */
static bool must_look(const struct volume_job *job)
{
	const struct block_request *last = &job->blk;

	if (!job->vol->dev.backend->info.extents)
		return false;
	return !(last->op == BLOCK_EXTENT && last->extent_mapped &&
		 last->offset == job->at && last->extent_len);
}

static void scrub_piece(struct volume_job *job, uint64_t left)
{
	if (must_look(job)) {
		job_submit(job, BLOCK_EXTENT, left);
		return;
	}
	if (job->vol->dev.backend->info.extents && job->blk.extent_len < left)
		left = job->blk.extent_len;
	write_piece(job, left);
}

static void erase_piece(struct volume_job *job, uint64_t left)
{
	const struct backend_info *store = &job->vol->dev.backend->info;
	uint64_t max = store->memory ? PIECE : ERASE_PIECE;

	if (store->zero)
		job_submit(job, BLOCK_ZERO, left < max ? left : max);
	else
		write_piece(job, left);
}

static void job_flush(struct volume_job *job)
{
	if (job->vol->dev.write_cache)
		job_submit(job, BLOCK_FLUSH, 0);
	else
		job_end(job, 0);
}

static void next_pass(struct volume_job *job)
{
	job->pass++;
	job->at = 0;
	job->blk = (struct block_request){ .op = BLOCK_FLUSH };
	job_fill(job);
}

static void step(struct reactor_msg *msg)
{
	struct volume_job *job = container_of(msg, struct volume_job, msg);
	uint64_t left;

	if (atomic_load(&job->stopping)) {
		job_end(job, -ECANCELED);
		return;
	}
	if (job->at == job_size_of(job))
		next_pass(job);
	tell_progress(job);
	left = job_size_of(job) - job->at;
	switch (pass_of(job)) {
	case PASS_OVERWRITE:
		write_piece(job, left);
		break;
	case PASS_SCRUB:
		scrub_piece(job, left);
		break;
	case PASS_ERASE:
		erase_piece(job, left);
		break;
	case PASS_FLUSH:
		job_flush(job);
		break;
	}
}

/* ---- the beginning ---- */

/* Every command that had its blocks before has left them; those that come now
 * see the state. */
static void drained(struct block_hold *hold)
{
	struct volume_job *job = container_of(hold, struct volume_job, hold);

	block_hold_drop(hold);
	go_on(job);
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

/* IMMED: whoever began the job waits for no more than this. */
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
		publish(job, job->from, -ESTALE);
		return;
	}
	if (job->immed)
		tell_begun(job);
	job->hold = (struct block_hold){ .end = UINT64_MAX,
					 .exclusive = true,
					 .held = drained };
	block_hold_take(&job->vol->dev.locks, job->worker, &job->hold);
}

static void write_begin(struct unit_turn *turn, int err)
{
	struct volume_job *job = container_of(turn, struct volume_job, turn);
	const struct volume_job_plan *plan = &job->plan;
	struct state_job now = {
		.state = plan->state,
		.lenient = plan->lenient,
		.overwrite_cnt = plan->overwrite_cnt,
		.invert = plan->invert,
		.scrub = plan->scrub,
		.erase = plan->erase,
		.pattern_len = plan->pattern_len,
	};

	if (job->left) {
		unit_turn_end(job->vol);
		publish(job, job->from, 0);
		return;
	}
	memcpy(now.pattern, job->pattern, plan->pattern_len);
	unit_state_set_job(job->vol, &now, begin_written);
}

int volume_job_start(struct volume *vol, struct block_worker *w,
		     enum volume_state from, const struct volume_job_plan *plan,
		     bool immed, void (*done)(void *user, int err), void *user)
{
	struct volume_job *job = &vol->job;
	int state = from;
	int err;

	assert(is_running(plan->state) && !is_running(from));
	if (!atomic_compare_exchange_strong(&job->state, &state, plan->state))
		return -EBUSY;
	job->plan = *plan;
	err = atomic_load(&job->stopping) ? -ESHUTDOWN : make_buffers(job);
	if (err) {
		atomic_store(&job->state, from);
		wake_waiter(job);
		return err;
	}
	job->worker = w;
	job->from = from;
	job->immed = immed;
	job->left = false;
	job->done = done;
	job->user = user;
	job->pass = 0;
	job->at = 0;
	job->blk = (struct block_request){ .op = BLOCK_FLUSH };
	atomic_store(&job->progress, 0);
	job_fill(job);
	unit_turn_take(vol, w, &job->turn, write_begin);
	return 0;
}

void volume_job_leave(struct volume *vol)
{
	vol->job.done = NULL;
	vol->job.left = true;
}

void volume_job_restore(struct volume *vol, const struct state_job *job)
{
	enum volume_state state = job->state;

	if (state == VOLUME_READY)
		return;
	log_warn("LUN %u (%s): %s has not come to its end", vol->lun, vol->name,
		 state == VOLUME_FORMAT_FAILED ? "FORMAT UNIT" : "SANITIZE");
	if (state == VOLUME_SANITIZING)
		state = VOLUME_SANITIZE_FAILED;
	atomic_store(&vol->job.lenient, job->lenient);
	atomic_store(&vol->job.state, state);
}

void volume_job_resume(struct volume *vol, struct block_worker *w)
{
	const struct state_job *was = &vol->state.job;
	struct volume_job_plan plan = {
		.state = VOLUME_SANITIZING,
		.overwrite_cnt = was->overwrite_cnt,
		.invert = was->invert,
		.pattern = was->pattern,
		.pattern_len = was->pattern_len,
		.scrub = was->scrub,
		.lenient = was->lenient,
		.erase = was->erase,
	};
	int err;

	if (was->state != VOLUME_SANITIZING || vol->read_only)
		return;
	if (vol->info.no_jobs) {
		log_error("LUN %u (%s): SANITIZE does not go on, as other "
			  "targets may have served the volume since it began",
			  vol->lun, vol->name);
		return;
	}
	err = volume_job_start(vol, w, VOLUME_SANITIZE_FAILED, &plan,
			       /* immed= */ false, NULL, NULL);
	if (err)
		log_error("LUN %u (%s): SANITIZE cannot go on: %s", vol->lun,
			  vol->name, strerror(-err));
	else
		log_notice("LUN %u (%s): SANITIZE begins anew", vol->lun,
			   vol->name);
}

bool volume_job_forgive(struct volume *vol, enum volume_state failed)
{
	int state = failed;

	return atomic_compare_exchange_strong(&vol->job.state, &state,
					      VOLUME_READY);
}

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
