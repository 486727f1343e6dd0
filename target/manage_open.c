/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_open.h"

#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/given_files.h"
#include "target/manage_aside.h"

struct manage_opening {
	struct manage_aside aside;
	struct volume_spec spec;
	struct given_file given;
	struct target_id target;
	unsigned int lun;
	struct volume *vol; /* NULL: e says why, and res */
	struct error e;
	int res;
};

static struct manage_opening *manage_opening_of(struct manage_aside *aside)
{
	return container_of(aside, struct manage_opening, aside);
}

static void manage_opening_run(struct manage_aside *aside)
{
	struct manage_opening *o = manage_opening_of(aside);

	o->res = volume_open(&o->spec, o->lun, o->target.text, &o->vol, &o->e);
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

static bool manage_is_file(const struct volume_spec *spec)
{
	return spec->store == VOLUME_STORE_FILE && !spec->type &&
	       !spec->layer_cnt;
}

int manage_open_volume(struct manage *m, const struct volume_spec *spec,
		       unsigned int lun, bool unlocks, struct volume **ret_vol,
		       struct error *e)
{
	struct manage_opening *o;
	int err;

	if (!manage_is_file(spec))
		return volume_open(spec, lun, m->server->target.text, ret_vol,
				   e);
	o = calloc(1, sizeof(*o));
	if (!o)
		return error_set(e, -ENOMEM, "out of memory");
	o->aside.run = manage_opening_run;
	o->aside.free = manage_opening_free;
	o->spec = *spec;
	o->target = m->server->target;
	o->lun = lun;
	manage_opening_take_given(o);
	err = unlocks ? manage_run_unlocked(m, &o->aside, e)
		      : manage_run_aside(m, &o->aside,
					 m->server->opt->stop_timeout_s, e);
	if (err)
		return err;
	*ret_vol = o->vol;
	o->vol = NULL;
	*e = o->e;
	err = o->res;
	manage_opening_free(&o->aside);
	return err;
}
