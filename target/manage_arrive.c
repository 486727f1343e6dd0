/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_arrive.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "base/ticks.h"
#include "target/block/plugin_load.h"
#include "target/configure_file.h"
#include "target/manage_aside.h"
#include "target/manage_open.h"
#include "target/manage_reload.h"
#include "target/manage_volume.h"
#include "target/server_volumes.h"
#include "target/service_notify.h"

/* How long a start waits for stores that do not answer, all together. */
#define ARRIVE_START_MS 2000
/* Between two attempts, seconds: while the store is away, and when it came as another disk. */
#define ARRIVE_AGAIN_S	 1
#define ARRIVE_REFUSED_S 30
/* Between two looks for addresses. */
#define ARRIVE_LOOK_S 1

/* ---- the start ---- */

struct arrive_start {
	struct server *s;
	uint64_t until_ms;
	int answers[LUNS_MAX]; /* of store_opener_ask(); -errno: none */
	bool hangs;	       /* a plugin does */
};

static unsigned int arrive_left_ms(const struct arrive_start *a)
{
	uint64_t now = ticks_clock_ms();

	return a->until_ms > now ? (unsigned int)(a->until_ms - now) : 0;
}

static bool arrive_is_memory(const struct volume_spec *spec)
{
	return spec->store == VOLUME_STORE_RAM ||
	       spec->store == VOLUME_STORE_NULL;
}

/* All at once: one that hangs delays no other. */
static void arrive_ask_all(struct arrive_start *a)
{
	const struct target_options *opt = a->s->opt;

	for (unsigned int i = 0; i < opt->backing_cnt; i++) {
		a->answers[i] = -ENOENT;
		if (opt->backings[i].store == VOLUME_STORE_FILE)
			a->answers[i] = store_opener_ask(&a->s->opener, i,
							 /* cnt= */ 0);
	}
}

static int arrive_say_hangs(struct error *e)
{
	return error_set(e, -ETIMEDOUT, "its store does not answer");
}

/* Does the store of volume @i answer? Whatever it is. */
static int arrive_await_answer(struct arrive_start *a, unsigned int i,
			       struct error *e)
{
	struct pollfd fd = { .fd = a->answers[i], .events = POLLIN };
	struct given_file none;

	if (fd.fd < 0)
		return 0;
	a->answers[i] = -ENOENT;
	if (poll(&fd, 1, (int)arrive_left_ms(a)) > 0) {
		store_opener_answer(fd.fd, &none);
		return 0;
	}
	close(fd.fd);
	return arrive_say_hangs(e);
}

static bool arrive_plugin_needs_rights(const struct plugin_spec *spec)
{
	const struct rbp_plugin *plugin;
	struct error ignored;

	return !plugin_load(spec->name, &plugin, &ignored) &&
	       plugin->needs & RBP_NEEDS_RIGHTS;
}

static bool arrive_needs_rights(const struct volume_spec *spec)
{
	bool needs = arrive_plugin_needs_rights(&spec->plugin);

	for (unsigned int i = 0; i < spec->layer_cnt && !needs; i++)
		needs = arrive_plugin_needs_rights(&spec->layers[i]);
	return needs;
}

/* One plugin at a time is opened before the target gives up its rights. */
static int arrive_open_plugin(struct arrive_start *a, unsigned int i,
			      unsigned int lun, struct manage_opening **ret_o,
			      struct volume **ret_vol, struct error *e)
{
	const struct server *s = a->s;
	const struct manage_late_store store = {
		.opener = &s->opener,
		.spec = &s->opt->backings[i],
		.index = i,
		.lun = lun,
		.workers = s->opt->threads,
		.target = s->target.text,
		.has_rights = true,
	};
	unsigned int seconds = arrive_left_ms(a) / 1000;
	int err;

	if (a->hangs)
		return error_set(e, -ETIMEDOUT,
				 "another store does not answer, so its own is "
				 "opened when the target serves");
	*ret_o = manage_begin_opening(&store, e);
	if (!*ret_o)
		return e->err;
	err = manage_end_opening(NULL, *ret_o, seconds ? seconds : 1, ret_vol,
				 e);
	a->hangs = err == -ETIMEDOUT;
	if (a->hangs)
		return arrive_say_hangs(e);
	*ret_o = NULL;
	return err;
}

static int arrive_open(struct arrive_start *a, unsigned int i, unsigned int lun,
		       struct manage_opening **ret_o, struct volume **ret_vol,
		       struct error *e)
{
	const struct volume_spec *spec = &a->s->opt->backings[i];
	int err;

	if (spec->store == VOLUME_STORE_PLUGIN && !arrive_needs_rights(spec))
		return arrive_open_plugin(a, i, lun, ret_o, ret_vol, e);
	err = arrive_await_answer(a, i, e);
	return err ? err
		   : volume_open(spec, lun, a->s->target.text, ret_vol, e);
}

static void arrive_log_absent(const struct absent *a, const char *why)
{
	struct log_about about = volume_about(a->stand_in, "volume-state");

	log_event(LOG_WARNING, &about,
		  "volume '%s' is " ABSENT_STATE ": %s; it is served when it "
		  "comes",
		  a->stand_in->name, why);
}

static int arrive_open_volume(struct arrive_start *a, unsigned int i,
			      unsigned int lun, struct error *e)
{
	const struct volume_spec *spec = &a->s->opt->backings[i];
	struct manage_opening *o = NULL;
	struct volume *vol = NULL;
	struct absent *absent;
	int err;

	if (!configuration_check_store(spec, e))
		return e->err;
	err = arrive_open(a, i, lun, &o, &vol, e);
	if (vol) {
		server_take_volume(a->s, i, vol);
		return 0;
	}
	if (arrive_is_memory(spec) || !absent_may_come(err))
		return err;
	err = absent_add(&a->s->absents, spec, i, lun, e, &absent, e);
	if (err) {
		if (o)
			manage_leave_opening(o);
		return err;
	}
	absent->opening = o;
	return 0;
}

int arrive_open_volumes(struct server *s, const unsigned int luns[],
			struct error *e)
{
	struct arrive_start a = {
		.s = s,
		.until_ms = ticks_clock_ms() + ARRIVE_START_MS,
	};
	int err = 0;

	arrive_ask_all(&a);
	for (unsigned int i = 0; i < s->opt->backing_cnt; i++) {
		s->opening = s->opt->backing_texts[i];
		if (!err)
			err = arrive_open_volume(&a, i, luns[i], e);
		if (a.answers[i] >= 0)
			close(a.answers[i]);
		s->opening = NULL;
	}
	return err;
}

/* ---- the service manager ---- */

#define ARRIVE_STATUS_SIZE 512

void arrive_tell(struct server *s)
{
	char text[ARRIVE_STATUS_SIZE] = "STATUS=serving";
	size_t len = strlen(text);
	struct absent_facts facts;

	for (unsigned int i = 0;
	     absent_look(&s->absents, i, &facts) && len < sizeof(text); i++)
		len += (size_t)snprintf(text + len, sizeof(text) - len, "%s%s",
					i ? ", " : "; waiting for ",
					facts.name);
	service_notify(s->notify_fd, text);
}

/* ---- one volume ---- */

struct arrival {
	struct manage *m;
	struct absent *absent;
};

/* Opens the store, without the lock of changes. */
static int arrive_try_open(const struct arrival *v, struct volume **ret_vol,
			   struct error *e)
{
	const struct server *s = v->m->server;
	const struct manage_late_store store = {
		.opener = &s->opener,
		.spec = v->absent->spec,
		.index = v->absent->index,
		.lun = v->absent->stand_in->lun,
		.workers = s->worker_cnt,
		.target = s->target.text,
	};
	struct manage_opening *o = v->absent->opening;

	v->absent->opening = NULL;
	if (!o)
		o = manage_begin_opening(&store, e);
	return o ? manage_end_opening(v->m, o, /* seconds= */ 0, ret_vol, e)
		 : e->err;
}

/* One attempt. True: it is served. */
static bool arrive_try(const struct arrival *v)
{
	struct manage *m = v->m;
	struct absents *all = &m->server->absents;
	struct volume *vol = NULL;
	struct error e = { 0 };
	int err = arrive_try_open(v, &vol, &e);
	bool refused = false;

	if (!err) {
		manage_lock(m);
		err = manage_arrive_volume(m, v->absent, vol, &e);
		refused = err;
		manage_unlock(m);
	}
	if (!err)
		return true;
	if (absent_failed(all, v->absent, &e,
			  refused ? ARRIVE_REFUSED_S : ARRIVE_AGAIN_S) &&
	    err != -ESHUTDOWN)
		arrive_log_absent(v->absent, e.text);
	return false;
}

static void arrive_thread_ends(struct absents *all)
{
	pthread_mutex_lock(&all->lock);
	all->threads--;
	pthread_cond_broadcast(&all->changed);
	pthread_mutex_unlock(&all->lock);
}

static void *arrive_main(void *arg)
{
	struct arrival *v = arg;
	struct server *s = v->m->server;
	struct absents *all = &s->absents;
	bool is_gone;

	while (absent_await(all, v->absent) && !arrive_try(v))
		;
	pthread_mutex_lock(&all->lock);
	is_gone = v->absent->is_gone;
	pthread_mutex_unlock(&all->lock);
	if (v->absent->opening)
		manage_leave_opening(v->absent->opening);
	v->absent->opening = NULL;
	/* Else it is in the list. */
	if (is_gone)
		absent_free(v->absent);
	free(v);
	arrive_thread_ends(all);
	return NULL;
}

/* ---- addresses ---- */

/* Not those that wait for an RDMA device: the transport logs them. */
static bool arrive_waits(const struct listen_point *p)
{
	return p->waits && !xp_kind_traits(p->kind)->needs_device;
}

static bool arrive_pause(struct absents *all)
{
	struct timespec until;
	bool ends;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += ARRIVE_LOOK_S;
	pthread_mutex_lock(&all->lock);
	while (!all->ends &&
	       !pthread_cond_timedwait(&all->changed, &all->lock, &until))
		;
	ends = all->ends;
	pthread_mutex_unlock(&all->lock);
	return !ends;
}

static void *arrive_addresses_main(void *arg)
{
	struct manage *m = arg;
	struct log_about about = { .event = "listen" };
	bool was_up[PORT_LISTENERS_MAX] = { false };
	const struct listen_points points = m->server->points;

	do {
		for (unsigned int i = 0; i < points.cnt; i++) {
			const struct listen_point *p = &points.point[i];
			bool is_up = arrive_waits(p) && listen_point_is_up(p);
			char text[LISTEN_TEXT_SIZE];

			if (is_up && !was_up[i])
				log_event(LOG_NOTICE, &about,
					  "listening on %s over %s now: this "
					  "machine has the address",
					  listen_point_text(p, text),
					  xp_kind_name(p->kind));
			was_up[i] = is_up;
		}
	} while (arrive_pause(&m->server->absents));
	arrive_thread_ends(&m->server->absents);
	return NULL;
}

static bool arrive_has_addresses(const struct server *s)
{
	for (unsigned int i = 0; i < s->points.cnt; i++) {
		if (arrive_waits(&s->points.point[i]))
			return true;
	}
	return false;
}

/* ---- life ---- */

static void arrive_begin(struct absents *all, void *(*run)(void *arg),
			 void *arg, const char *what)
{
	pthread_t thread;
	int err = pthread_create(&thread, NULL, run, arg);

	if (!err) {
		pthread_detach(thread);
		return;
	}
	log_error("%s: cannot start a thread that waits for it: %s", what,
		  strerror(err));
	free(run == arrive_main ? arg : NULL);
	arrive_thread_ends(all);
}

static void arrive_count_thread(struct absents *all)
{
	pthread_mutex_lock(&all->lock);
	all->threads++;
	pthread_mutex_unlock(&all->lock);
}

void arrive_start(struct manage *m)
{
	struct server *s = m->server;
	struct absents *all = &s->absents;
	struct arrival *first[LUNS_MAX];
	unsigned int cnt = all->cnt;

	if (!cnt)
		store_opener_dismiss(&s->opener);
	/* The list may change as soon as one thread runs. */
	for (unsigned int i = 0; i < cnt; i++) {
		arrive_log_absent(all->list[i], all->list[i]->why.text);
		first[i] = malloc(sizeof(*first[i]));
		if (first[i])
			*first[i] = (struct arrival){ m, all->list[i] };
	}
	for (unsigned int i = 0; i < cnt; i++) {
		arrive_count_thread(all);
		if (first[i])
			arrive_begin(all, arrive_main, first[i], "a volume");
		else
			arrive_thread_ends(all);
	}
	if (arrive_has_addresses(s)) {
		arrive_count_thread(all);
		arrive_begin(all, arrive_addresses_main, m, "an address");
	}
}

bool arrive_end(struct server *s)
{
	struct absents *all = &s->absents;
	struct timespec until;
	bool ended;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += MANAGE_LAST_MS / 1000;
	pthread_mutex_lock(&all->lock);
	all->ends = true;
	pthread_cond_broadcast(&all->changed);
	while (all->threads &&
	       !pthread_cond_timedwait(&all->changed, &all->lock, &until))
		;
	ended = !all->threads;
	for (unsigned int i = 0; i < all->cnt && ended; i++) {
		if (all->list[i]->opening)
			manage_leave_opening(all->list[i]->opening);
		all->list[i]->opening = NULL;
	}
	pthread_mutex_unlock(&all->lock);
	return ended;
}
