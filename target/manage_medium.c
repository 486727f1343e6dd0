/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_medium.h"

#include <errno.h>
#include <semaphore.h>
#include <string.h>

#include "target/scsi/unit_medium.h"
#include "target/server_stop.h"

/* A change of the medium, which worker 0 makes. */
struct manage_medium {
	struct server *s;
	struct volume *vol;
	bool eject;
	struct unit_turn turn;
	int res;       /* of unit_medium_eject() */
	int flush_err; /* why its flush has failed */
	sem_t done;
};

static void manage_medium_done(struct unit_turn *turn, int err)
{
	struct manage_medium *c =
		container_of(turn, struct manage_medium, turn);

	c->res = err;
	c->flush_err = c->vol->state.flush_err;
	unit_turn_end(c->vol);
	sem_post(&c->done);
}

static void manage_medium_turn(struct unit_turn *turn, int err)
{
	struct manage_medium *c =
		container_of(turn, struct manage_medium, turn);
	bool flushes = server_needs_flush(c->vol) && !volume_is_standby(c->vol);

	if (c->eject) {
		unit_medium_eject(c->vol, &c->s->luns, flushes,
				  manage_medium_done);
	} else {
		unit_medium_load(c->vol, &c->s->luns);
		manage_medium_done(turn, 0);
	}
}

static void manage_run_medium(struct server *s, void *arg)
{
	struct manage_medium *c = arg;

	unit_turn_take(c->vol, &s->workers[0].block, &c->turn,
		       manage_medium_turn);
}

/* Changes the medium, and waits for the end. */
static int manage_change_medium(struct manage_medium *c)
{
	int err = server_call_begin(c->s);

	if (err)
		return err;
	sem_init(&c->done, /* pshared= */ 0, 0);
	server_call(c->s, manage_run_medium, c);
	while (sem_wait(&c->done))
		;
	sem_destroy(&c->done);
	server_call_end(c->s);
	return c->res;
}

static int manage_medium_reason(const struct manage_medium *c, int err,
				struct error *e)
{
	if (err == -EPERM)
		return error_set(e, err,
				 "an initiator prevents the removal of its "
				 "medium");
	if (err == -EBUSY)
		return error_set(e, err, "FORMAT UNIT or SANITIZE runs on it");
	if (err == -EIO)
		return error_set(e, err, "it cannot be flushed: %s",
				 strerror(-c->flush_err));
	return error_set(e, err, "the target is stopping");
}

bool manage_eject_volume(struct manage *m, const char *name, bool eject,
			 struct manage_fault *f)
{
	struct manage_medium c = {
		.s = m->server,
		.vol = manage_served(m, name),
		.eject = eject,
	};
	struct error e;
	int err;

	if (!c.vol)
		return manage_refuse_unknown(f, name);
	if (!c.vol->info.removable)
		return manage_refuse_volume(
			f, name, "removable",
			"its medium cannot be removed (option removable)");
	err = manage_change_medium(&c);
	if (!err)
		return true;
	manage_medium_reason(&c, err, &e);
	return manage_refuse_volume(f, name, "", e.text);
}
