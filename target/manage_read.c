/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* A read. The thread that waits for it frees it, or, if that has left, its own. */
struct read_job {
	char *path;
	void (*read)(const char *path, struct manage_file *file);
	struct manage_file file;
	bool is_done; /* guarded by read_lock, as the next */
	bool is_left;
};

/* They outlive the struct manage, as a thread that reads may. */
static pthread_mutex_t read_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t read_changed = PTHREAD_COND_INITIALIZER;

void manage_file_drop(struct manage_file *file)
{
	json_decref(file->config);
	free(file->place);
	free(file->text);
	*file = (struct manage_file){ 0 };
}

static void read_free(struct read_job *job)
{
	manage_file_drop(&job->file);
	free(job->path);
	free(job);
}

static void *read_main(void *arg)
{
	struct read_job *job = arg;
	bool is_left;

	job->read(job->path, &job->file);
	pthread_mutex_lock(&read_lock);
	job->is_done = true;
	is_left = job->is_left;
	pthread_cond_broadcast(&read_changed);
	pthread_mutex_unlock(&read_lock);
	if (is_left)
		read_free(job);
	return NULL;
}

static int read_start(struct read_job *job)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, read_main, job);

	if (!err)
		pthread_detach(thread);
	return err;
}

/* Returns false if it is left to its thread. */
static bool read_await(const struct manage *m, struct read_job *job)
{
	bool is_done;

	pthread_mutex_lock(&read_lock);
	while (!job->is_done && !m->reads_end)
		pthread_cond_wait(&read_changed, &read_lock);
	is_done = job->is_done;
	job->is_left = !is_done;
	pthread_mutex_unlock(&read_lock);
	return is_done;
}

static struct read_job *read_make(const char *path,
				  void (*read)(const char *path,
					       struct manage_file *file))
{
	struct read_job *job = calloc(1, sizeof(*job));

	if (!job)
		return NULL;
	job->read = read;
	job->path = strdup(path);
	if (job->path)
		return job;
	free(job);
	return NULL;
}

void manage_read_file(struct manage *m,
		      void (*read)(const char *path, struct manage_file *file),
		      struct manage_file *ret)
{
	struct read_job *job = read_make(m->server->opt->config, read);
	int err = job ? read_start(job) : ENOMEM;

	*ret = (struct manage_file){ 0 };
	if (err) {
		error_set(&ret->e, -err, "cannot start a thread that reads: %s",
			  strerror(err));
		if (job)
			read_free(job);
	} else if (read_await(m, job)) {
		*ret = job->file;
		job->file = (struct manage_file){ 0 };
		read_free(job);
	} else {
		ret->is_given_up = true;
		error_set(&ret->e, -ESHUTDOWN, "the target is stopping");
	}
}

void manage_end_reads(struct manage *m)
{
	pthread_mutex_lock(&read_lock);
	m->reads_end = true;
	pthread_cond_broadcast(&read_changed);
	pthread_mutex_unlock(&read_lock);
}
