/* SPDX-License-Identifier: BSD-2-Clause */
#include "jobs.h"

static struct rbp_io **rbdp_next_of(struct rbp_io *io)
{
	return io->scratch;
}

/* Runs one job. Called with the lock held, which is also held at the end. */
static void rbdp_do_job(struct rbdp_jobs *jobs)
{
	struct rbp_io *io = jobs->first;
	bool has_resized = jobs->has_resized;

	jobs->has_resized = false;
	if (io) {
		jobs->first = *rbdp_next_of(io);
		if (!jobs->first)
			jobs->end = &jobs->first;
	}
	pthread_mutex_unlock(&jobs->lock);
	if (has_resized)
		jobs->resized(jobs->user);
	if (io)
		jobs->extent(jobs->user, io);
	pthread_mutex_lock(&jobs->lock);
}

static void *rbdp_jobs_main(void *arg)
{
	struct rbdp_jobs *jobs = arg;

	pthread_setname_np(pthread_self(), "rbd-jobs");
	pthread_mutex_lock(&jobs->lock);
	while (!jobs->stopping) {
		if (jobs->first || jobs->has_resized)
			rbdp_do_job(jobs);
		else
			pthread_cond_wait(&jobs->work, &jobs->lock);
	}
	pthread_mutex_unlock(&jobs->lock);
	return NULL;
}

int rbdp_jobs_start(struct rbdp_jobs *jobs)
{
	int err;

	jobs->end = &jobs->first;
	pthread_mutex_init(&jobs->lock, NULL);
	pthread_cond_init(&jobs->work, NULL);
	err = pthread_create(&jobs->thread, NULL, rbdp_jobs_main, jobs);
	if (!err)
		return 0;
	pthread_mutex_destroy(&jobs->lock);
	pthread_cond_destroy(&jobs->work);
	return -err;
}

void rbdp_jobs_stop(struct rbdp_jobs *jobs)
{
	pthread_mutex_lock(&jobs->lock);
	jobs->stopping = true;
	pthread_cond_signal(&jobs->work);
	pthread_mutex_unlock(&jobs->lock);
	pthread_join(jobs->thread, NULL);
	pthread_mutex_destroy(&jobs->lock);
	pthread_cond_destroy(&jobs->work);
}

void rbdp_jobs_extent(struct rbdp_jobs *jobs, struct rbp_io *io)
{
	*rbdp_next_of(io) = NULL;
	pthread_mutex_lock(&jobs->lock);
	*jobs->end = io;
	jobs->end = rbdp_next_of(io);
	pthread_cond_signal(&jobs->work);
	pthread_mutex_unlock(&jobs->lock);
}

void rbdp_jobs_resized(struct rbdp_jobs *jobs)
{
	pthread_mutex_lock(&jobs->lock);
	jobs->has_resized = true;
	pthread_cond_signal(&jobs->work);
	pthread_mutex_unlock(&jobs->lock);
}
