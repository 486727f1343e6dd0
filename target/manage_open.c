/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_open.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/given_files.h"
#include "target/block/plugin_unprivileged.h"
#include "target/manage_aside.h"

struct manage_opening {
	struct manage_aside aside;
	struct volume_spec spec;
	struct given_file given;
	struct target_id target;
	struct store_opener
		opener; /* -1: the files are given, or there are none */
	unsigned int index;
	bool drops_rights;
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

static bool manage_is_file(const struct volume_spec *spec)
{
	return spec->store == VOLUME_STORE_FILE && !spec->type;
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

/* Without them, volume_open() says what is wrong. */
static void manage_opening_ask(struct manage_opening *o)
{
	int answer;

	if (o->opener.socket < 0 || !manage_is_file(&o->spec))
		return;
	answer = store_opener_ask(&o->opener, o->index, 1 + o->workers);
	if (answer >= 0 && !store_opener_answer(answer, &o->given))
		o->spec.given = &o->given;
}

static void manage_opening_run(struct manage_aside *aside)
{
	struct manage_opening *o = manage_opening_of(aside);
	struct volume *vol;

	if (o->drops_rights)
		plugin_drop_rights();
	manage_opening_ask(o);
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
manage_opening_make(const struct volume_spec *spec, const char *target,
		    unsigned int lun, unsigned int workers)
{
	struct manage_opening *o = calloc(1, sizeof(*o));

	if (!o)
		return NULL;
	o->aside.run = manage_opening_run;
	o->aside.free = manage_opening_free;
	o->spec = *spec;
	snprintf(o->target.text, sizeof(o->target.text), "%s", target);
	o->opener.socket = -1;
	o->lun = lun;
	o->workers = workers;
	manage_opening_take_given(o);
	return o;
}

/* Frees it, when it has run. */
static int manage_opening_take(struct manage_opening *o,
			       struct volume **ret_vol, struct error *e)
{
	int err = o->res;

	if (err)
		*e = o->e;
	else
		*ret_vol = o->vol;
	if (!err)
		o->vol = NULL;
	manage_opening_free(&o->aside);
	return err;
}

/* 0 when the job has run. */
static int manage_opening_make_run(struct manage *m, struct manage_opening *o,
				   bool unlocks, struct error *e)
{
	bool is_file = manage_is_file(&o->spec) && !o->spec.layer_cnt;

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
	const struct server *s = m->server;
	struct manage_opening *o =
		manage_opening_make(spec, s->target.text, lun, s->worker_cnt);
	int err;

	if (!o)
		return error_set(e, -ENOMEM, "out of memory");
	err = manage_opening_make_run(m, o, unlocks, e);
	return err ? err : manage_opening_take(o, ret_vol, e);
}

/* ---- without the lock ---- */

struct manage_opening *manage_begin_opening(const struct manage_late_store *s,
					    struct error *e)
{
	struct manage_opening *o =
		manage_opening_make(s->spec, s->target, s->lun, s->workers);

	if (!o) {
		error_set(e, -ENOMEM, "out of memory");
		return NULL;
	}
	o->opener = *s->opener;
	o->index = s->index;
	o->drops_rights = s->has_rights;
	return manage_begin_aside(&o->aside, e) ? NULL : o;
}

int manage_end_opening(const struct manage *m, struct manage_opening *o,
		       unsigned int seconds, struct volume **ret_vol,
		       struct error *e)
{
	int err = manage_await_aside(m, &o->aside, seconds);

	if (err == -ESHUTDOWN)
		return error_set(e, err, "the target is stopping");
	return err ? err : manage_opening_take(o, ret_vol, e);
}

void manage_leave_opening(struct manage_opening *o)
{
	manage_leave_aside(&o->aside);
}
