/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_medium.h"

#include <errno.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "target/scsi/unit_medium.h"
#include "target/server_stop.h"

/* A change of the medium, which worker 0 makes. It may end when nobody waits for it any
 * more. */
struct manage_medium {
	struct server *s;
	struct volume *vol;
	bool eject;
	struct unit_turn turn;
	bool has_ended;
	bool is_left;	/* nobody waits for it any more */
	struct error e; /* why it has changed nothing */
	sem_t done;
	atomic_uint users; /* who waits, and worker 0 */
};

static void manage_medium_put(struct manage_medium *c)
{
	if (atomic_fetch_sub(&c->users, 1) > 1)
		return;
	sem_destroy(&c->done);
	free(c);
}

static void manage_medium_end(struct manage_medium *c)
{
	c->has_ended = true;
	/* The removal of the volume waits for this. */
	atomic_fetch_sub(&c->vol->managed, 1);
	sem_post(&c->done);
	manage_medium_put(c);
}

static void manage_medium_reason(struct manage_medium *c, int err)
{
	if (err == -EPERM)
		error_set(&c->e, err,
			  "an initiator prevents the removal of its medium");
	else if (err == -EBUSY)
		error_set(&c->e, err, "FORMAT UNIT or SANITIZE runs on it");
	else if (err)
		error_set(&c->e, err, "it cannot be flushed: %s",
			  strerror(-c->vol->state.flush_err));
}

static void manage_medium_done(struct unit_turn *turn, int err)
{
	struct manage_medium *c =
		container_of(turn, struct manage_medium, turn);

	if (!c->is_left)
		manage_medium_reason(c, err);
	unit_turn_end(c->vol);
	manage_medium_end(c);
}

static void manage_medium_turn(struct unit_turn *turn, int err)
{
	struct manage_medium *c =
		container_of(turn, struct manage_medium, turn);
	bool flushes = server_needs_flush(c->vol) && !volume_is_standby(c->vol);

	if (c->is_left) {
		manage_medium_done(turn, -ECANCELED);
	} else if (c->eject) {
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

	atomic_fetch_add(&c->vol->managed, 1);
	atomic_fetch_add(&c->users, 1);
	unit_turn_take(c->vol, &s->workers[0].block, &c->turn,
		       manage_medium_turn);
}

/* Nobody waits for it any more: it changes nothing, whatever it waits for. */
static void manage_run_take_back(struct server *s, void *arg)
{
	struct manage_medium *c = arg;
	unsigned int seconds = s->opt->stop_timeout_s;
	unsigned int cnt = block_owners_count(&c->vol->dev.owners);

	if (c->has_ended)
		return;
	c->is_left = true;
	if (unit_turn_leave(c->vol, &c->turn)) {
		error_set(&c->e, -ETIMEDOUT,
			  "another change of its state has not ended for %u s",
			  seconds);
		manage_medium_end(c);
	} else if (unit_turn_stop_draining(c->vol, &c->turn)) {
		error_set(&c->e, -ETIMEDOUT,
			  "reads and writes have not ended for %u s: %u",
			  seconds, cnt);
	} else {
		error_set(&c->e, -ETIMEDOUT,
			  "its store has not answered a flush for %u s",
			  seconds);
		unit_medium_take_back(c->vol);
	}
	error_add(&c->e, "; the medium stays where it is");
}

/* Changes the medium, and waits for the end. */
static int manage_change_medium(struct manage_medium *c, struct error *e)
{
	struct server *s = c->s;
	int err = server_call_begin(s);

	if (!err) {
		err = server_call(s, manage_run_medium, c);
		if (!err && !manage_wait_for(&c->done, s->opt->stop_timeout_s))
			err = server_call(s, manage_run_take_back, c);
		server_call_end(s);
	}
	if (err)
		return error_set(e, err, "the target is stopping");
	*e = c->e;
	return e->err;
}

bool manage_eject_volume(struct manage *m, const char *name, bool eject,
			 struct manage_fault *f)
{
	struct volume *vol = manage_served(m, name);
	struct manage_medium *c;
	struct error e;
	int err;

	if (!vol)
		return manage_refuse_unknown(f, name);
	if (!vol->info.removable)
		return manage_refuse_volume(
			f, name, "removable",
			"its medium cannot be removed (option removable)");
	c = calloc(1, sizeof(*c));
	if (!c)
		return manage_refuse_volume(f, name, "", "out of memory");
	c->s = m->server;
	c->vol = vol;
	c->eject = eject;
	c->users = 1;
	sem_init(&c->done, /* pshared= */ 0, 0);
	err = manage_change_medium(c, &e);
	manage_medium_put(c);
	return !err || manage_refuse_volume(f, name, "", e.text);
}
