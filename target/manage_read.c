/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "target/manage_aside.h"

struct read_job {
	struct manage_aside aside;
	char *path;
	void (*read)(const char *path, struct manage_file *file);
	struct manage_file file;
};

static struct read_job *read_job_of(struct manage_aside *aside)
{
	return container_of(aside, struct read_job, aside);
}

void manage_file_drop(struct manage_file *file)
{
	json_decref(file->config);
	free(file->place);
	free(file->text);
	*file = (struct manage_file){ 0 };
}

static void read_free(struct manage_aside *aside)
{
	struct read_job *job = read_job_of(aside);

	manage_file_drop(&job->file);
	free(job->path);
	free(job);
}

static void read_run(struct manage_aside *aside)
{
	struct read_job *job = read_job_of(aside);

	job->read(job->path, &job->file);
}

void manage_read_file(struct manage *m,
		      void (*read)(const char *path, struct manage_file *file),
		      struct manage_file *ret)
{
	struct read_job *job = calloc(1, sizeof(*job));

	*ret = (struct manage_file){ 0 };
	if (job) {
		job->aside.run = read_run;
		job->aside.free = read_free;
		job->read = read;
		job->path = strdup(m->server->opt->config);
	}
	if (!job || !job->path) {
		free(job);
		error_set(&ret->e, -ENOMEM, "out of memory");
	} else if (!manage_run_aside(m, &job->aside, /* seconds= */ 0,
				     &ret->e)) {
		*ret = job->file;
		job->file = (struct manage_file){ 0 };
		read_free(&job->aside);
	} else {
		ret->is_given_up = ret->e.err == -ESHUTDOWN;
	}
}
