/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_open.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/given_files.h"
#include "target/manage_aside.h"

struct manage_opening {
	struct manage_aside aside;
	struct volume_spec spec;
	struct given_file given;
	struct target_id target;
	unsigned int lun;
	unsigned int workers;
	struct volume *vol; /* NULL: e says why, and res */
	struct error e;
	int res;
};

static struct manage_opening *manage_opening_of(struct manage_aside *aside)
{
	return container_of(aside, struct manage_opening, aside);
}

/* So that no worker opens anything. */
static int manage_open_for_workers(struct volume *vol, unsigned int workers,
				   struct error *e)
{
	int err = backend_prepare(vol->dev.backend, workers);

	return err ? error_set(e, err,
			       "%s: cannot be opened for each thread: %s",
			       vol->path, strerror(-err))
		   : 0;
}

static void manage_opening_run(struct manage_aside *aside)
{
	struct manage_opening *o = manage_opening_of(aside);
	struct volume *vol;

	o->res = volume_open(&o->spec, o->lun, o->target.text, &vol, &o->e);
	if (o->res)
		return;
	o->vol = vol;
	o->res = manage_open_for_workers(vol, o->workers, &o->e);
}

static void manage_opening_free(struct manage_aside *aside)
{
	struct manage_opening *o = manage_opening_of(aside);

	volume_close(o->vol);
	while (o->given.cnt)
		close(o->given.fds[--o->given.cnt]);
	free(o);
}

/* The call may end before the thread. */
static void manage_opening_take_given(struct manage_opening *o)
{
	struct given_file *given = o->spec.given;

	if (!given)
		return;
	o->given = *given;
	given->cnt = 0;
	o->spec.given = &o->given;
}

static struct manage_opening *
manage_opening_make(const struct server *s, const struct volume_spec *spec,
		    unsigned int lun)
{
	struct manage_opening *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->aside.run = manage_opening_run;
	o->aside.free = manage_opening_free;
	o->spec = *spec;
	o->target = s->target;
	o->lun = lun;
	o->workers = s->worker_cnt;
	manage_opening_take_given(o);
	return o;
}

/* 0 when the job has run. */
static int manage_opening_make_run(struct manage *m, struct manage_opening *o,
				   bool unlocks, struct error *e)
{
	bool is_file = o->spec.store == VOLUME_STORE_FILE && !o->spec.type &&
		       !o->spec.layer_cnt;

	if (is_file && unlocks)
		return manage_run_unlocked(m, &o->aside, e);
	if (is_file)
		return manage_run_aside(m, &o->aside,
					m->server->opt->stop_timeout_s, e);
	manage_opening_run(&o->aside);
	return 0;
}

int manage_open_volume(struct manage *m, const struct volume_spec *spec,
		       unsigned int lun, bool unlocks, struct volume **ret_vol,
		       struct error *e)
{
	struct manage_opening *o = manage_opening_make(m->server, spec, lun);
	int err;

	if (!o)
		return error_set(e, -ENOMEM, "out of memory");
	err = manage_opening_make_run(m, o, unlocks, e);
	if (err)
		return err;
	err = o->res;
	*e = o->e;
	if (!err) {
		*ret_vol = o->vol;
		o->vol = NULL;
	}
	manage_opening_free(&o->aside);
	return err;
}
