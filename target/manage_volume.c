/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_volume.h"

#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/cleanup.h"
#include "target/block/plugin_load.h"
#include "target/manage_arrive.h"
#include "target/manage_open.h"
#include "target/port/port_change.h"
#include "target/port/task_mgmt.h"
#include "target/server_stop.h"
#include "target/server_volumes.h"

/* Seconds. After this, a removal is answered, although the store has not. */
#define MANAGE_LEAVE_S 2

/* ---- states of a volume ---- */

/* manage_volume_step() makes every change. */
enum manage_volume_state {
	MANAGE_CLOSED,	 /* there is no store */
	MANAGE_OPEN,	 /* only this thread has the store */
	MANAGE_ATTACHED, /* every worker has the volume; no initiator sees it */
	MANAGE_SERVED,	 /* initiators see it */
	MANAGE_EVICTED,	 /* it is being removed, and no command on it is left */
	MANAGE_FLUSHED,	 /* all writes are stable, or that has failed */
};

/* A change of one volume. */
struct manage_volume {
	struct manage *m;
	struct server *s;
	const struct volume_spec *spec;
	struct absent
		*absent; /* its store came late; NULL: it was not waited for */
	bool is_part;	 /* of a larger change */
	struct access_rules meanwhile; /* if it has none of its own */
	struct volume *vol;
	enum manage_volume_state state;
	unsigned int attached; /* workers that have the volume */
	struct error e;	       /* why the change failed */
	sem_t done;	       /* posted when worker 0 is done */
	struct task_mgmt_eviction eviction;
	struct reactor_msg job_ended;
	int res;
	unsigned int left; /* I/Os that the store of one that leaves still has */
	/* Of a volume that leaves: posted when the store is closed. */
	atomic_bool is_late;
	sem_t closed;
	atomic_uint
		users; /* the thread that removes it, and manage_leave_main() */
};

/* Volumes that go together. */
struct manage_leavers {
	const json_t *names;
	struct manage_volume **vols;
	size_t cnt;
	bool force;
};

static int manage_say_end(struct error *e, int err)
{
	return error_set(e, err, "the target is stopping");
}

/* Waits for worker 0, which calls sem_post(). */
static void manage_wait(struct manage_volume *v)
{
	while (sem_wait(&v->done))
		;
}

/* The sandbox would end the target if a store makes connections. */
static int manage_check_needs(struct manage_volume *v,
			      const struct plugin_spec *plugin)
{
	const struct rbp_plugin *loaded;
	int err;

	if (!*plugin->name || v->s->opt->no_sandbox)
		return 0;
	err = plugin_load(plugin->name, &loaded, &v->e);
	if (err)
		return err;
	if (!(loaded->needs & RBP_NEEDS_NETWORK) || v->s->network)
		return 0;
	return error_set(&v->e, -EPERM,
			 "plugin %s makes connections, which the sandbox of "
			 "this target forbids; start the target with the "
			 "volume in its configuration, or with --no-sandbox",
			 plugin->name);
}

static int manage_check_plugins(struct manage_volume *v)
{
	int err = manage_check_needs(v, &v->spec->plugin);

	for (unsigned int i = 0; i < v->spec->layer_cnt && !err; i++)
		err = manage_check_needs(v, &v->spec->layers[i]);
	return err;
}

/* The new one comes after those that are here; then, as their LUNs are taken, those that are
 * not here yet. */
static void manage_list_volumes(const struct manage_volume *v,
				struct lun_map *luns)
{
	const struct absents *all = &v->s->absents;

	*luns = v->s->luns;
	luns->vol[luns->cnt++] = v->vol;
	for (unsigned int i = 0; i < all->cnt; i++) {
		if (all->list[i] != v->absent)
			luns->vol[luns->cnt++] = all->list[i]->stand_in;
	}
}

/* False: it has one, also if it is the one that was kept for it. */
static bool manage_chooses_lun(const struct manage_volume *v)
{
	const struct absent *a = v->absent;

	if (v->spec->has_lun)
		return false;
	if (!a || !a->is_fresh || lun_memory_knows(&v->s->lun_memory, v->vol))
		return true;
	v->vol->lun = a->stand_in->lun;
	return false;
}

/* Its LUN and its state, beside all others. */
static int manage_prepare(struct manage_volume *v)
{
	struct lun_map *luns = malloc(sizeof(*luns));
	bool chooses[LUNS_MAX] = { false };
	int err;

	if (!luns)
		return error_set(&v->e, -ENOMEM, "out of memory");
	manage_list_volumes(v, luns);
	chooses[v->s->luns.cnt] = manage_chooses_lun(v);
	err = lun_memory_choose(&v->s->lun_memory, luns, chooses, &v->e);
	if (!err)
		err = server_check_volumes(luns, &v->e);
	if (!err)
		err = server_load_state(v->s, v->vol, &v->e);
	/* Only of what is here. */
	luns->cnt = v->s->luns.cnt + 1;
	if (!err)
		err = lun_memory_keep(&v->s->lun_memory, luns, &v->e);
	free(luns);
	return err;
}

/* Landlock may be why. */
static void manage_advise_given(struct manage_volume *v)
{
	const struct target_options *opt = v->s->opt;

	if (opt->volumes_from)
		error_add(&v->e,
			  "; this target opens new files only below "
			  "--volumes-from %s",
			  opt->volumes_from);
	else if (!opt->no_sandbox)
		error_add(&v->e, "; a target that runs opens no new files: "
				 "rdma-ctl volume add, apply and reload do");
}

/* What its store still has may land in the blocks of the new volume. */
static void manage_run_check_leaving(struct server *s, void *arg)
{
	struct manage_volume *v = arg;

	v->res = 0;
	for (unsigned int i = 0; i < s->leaving_cnt && !v->res; i++) {
		const struct volume *vol = s->leaving[i];

		if (!strcmp(vol->name, v->spec->name) ||
		    (v->spec->store != VOLUME_STORE_RAM &&
		     v->spec->store != VOLUME_STORE_NULL &&
		     !strcmp(vol->path, v->spec->path)))
			v->res = error_set(
				&v->e, -EBUSY,
				"volume '%s' (%s) was removed, but its store has not "
				"answered yet; try again when it has",
				vol->name, vol->path);
	}
	if (!v->res && !v->absent &&
	    s->luns.cnt + s->absents.cnt + s->leavers >= LUNS_MAX)
		v->res = error_set(
			&v->e, -EBUSY,
			"the stores of removed volumes have not answered yet");
}

static int manage_check_leaving(struct manage_volume *v)
{
	int err = server_call(v->s, manage_run_check_leaving, v);

	return err ? manage_say_end(&v->e, err) : v->res;
}

/* Memory without a name is named after it. */
static unsigned int manage_first_lun(const struct manage_volume *v)
{
	return v->spec->has_lun
		       ? v->spec->lun
		       : lun_memory_free(&v->s->lun_memory, &v->s->luns);
}

static int manage_open_store(struct manage_volume *v)
{
	int err = manage_check_plugins(v);

	if (!err)
		err = manage_check_leaving(v);
	if (err)
		return err;
	err = manage_open_volume(v->m, v->spec, manage_first_lun(v),
				 !v->is_part, &v->vol, &v->e);
	if (err) {
		v->vol = NULL;
		if (err == -EACCES && !v->spec->given)
			manage_advise_given(v);
	}
	return err;
}

static int manage_open(struct manage_volume *v)
{
	int err = v->absent ? 0 : manage_open_store(v);

	if (err)
		return err;
	if (v->absent)
		v->vol->allow = v->absent->stand_in->allow;
	/* Others may have changed something meanwhile. */
	err = manage_check_leaving(v);
	if (!err)
		err = manage_prepare(v);
	if (!err)
		err = server_open_journal(v->s, v->vol, &v->e);
	if (err)
		volume_close(v->vol);
	else if (!v->vol->allow.cnt)
		v->vol->allow = v->meanwhile;
	return err;
}

static void manage_run_attach(struct worker *w, void *arg)
{
	struct manage_volume *v = arg;

	v->res = worker_add_volume(w, v->vol, &v->e);
}

static void manage_run_detach(struct worker *w, void *arg)
{
	worker_remove_volume(w, ((struct manage_volume *)arg)->vol);
}

static void manage_detach(struct manage_volume *v)
{
	while (v->attached > 0)
		server_call_worker(&v->s->workers[--v->attached],
				   manage_run_detach, v);
}

static int manage_attach(struct manage_volume *v)
{
	v->res = 0;
	while (v->attached < v->s->worker_cnt && v->res == 0) {
		server_call_worker(&v->s->workers[v->attached],
				   manage_run_attach, v);
		if (v->res == 0)
			v->attached++;
	}
	volume_writers_start(v->vol, v->s->journals.reactor);
	return v->res;
}

/* All workers have the volumes of the map. */
static void manage_count_attached(struct server *s)
{
	for (unsigned int i = 0; i < s->worker_cnt; i++)
		s->attached[i] = s->luns.cnt;
}

static void manage_run_serve(struct server *s, void *arg)
{
	struct manage_volume *v = arg;

	port_volume_added(&s->port, v->vol);
	manage_count_attached(s);
	if (v->absent)
		server_await_no_more(s, v->absent);
}

static void manage_evicted(struct task_mgmt_eviction *ev)
{
	sem_post(&container_of(ev, struct manage_volume, eviction)->done);
}

/* Of all volumes that go together: before any of them changes. */
static int manage_check_users(struct manage_leavers *l, struct server *s)
{
	for (size_t i = 0; i < l->cnt && !l->force; i++) {
		struct manage_volume *v = l->vols[i];
		const char *user = port_volume_user(&s->port, v->vol);

		if (user)
			return v->res = error_set(
				       &v->e, -EBUSY,
				       "initiator %s is logged in and sees it; "
				       "--force ends its commands",
				       user);
	}
	return 0;
}

/* After this, nothing can fail. */
static int manage_prepare_evictions(struct manage_leavers *l, struct server *s)
{
	for (size_t i = 0; i < l->cnt; i++) {
		struct manage_volume *v = l->vols[i];
		int err =
			task_mgmt_evict_prepare(&s->port, v->vol, &v->eviction);

		if (!err)
			continue;
		while (i-- > 0)
			task_mgmt_evict_forget(&l->vols[i]->eviction);
		return v->res = error_set(&v->e, err, "out of memory");
	}
	return 0;
}

static void manage_begin_eviction(struct manage_volume *v)
{
	v->vol->leaving = true;
	volume_status_look(v->vol);
	v->s->leaving[v->s->leaving_cnt++] = v->vol;
	v->s->leavers++;
	v->eviction.done = manage_evicted;
	task_mgmt_evict(&v->eviction);
	port_volume_leaves(&v->s->port, v->vol);
	manage_count_attached(v->s);
	server_end_preempted(v->s, v->vol);
}

static void manage_run_evict(struct server *s, void *arg)
{
	struct manage_leavers *l = arg;

	if (manage_check_users(l, s) || manage_prepare_evictions(l, s))
		return;
	for (size_t i = 0; i < l->cnt; i++)
		manage_begin_eviction(l->vols[i]);
}

static void manage_job_ended(struct reactor_msg *msg)
{
	sem_post(&container_of(msg, struct manage_volume, job_ended)->done);
}

/* A flush; it may be answered when nobody waits for it any more. */
struct manage_flush {
	struct block_cmd cmd;
	struct server *s;
	struct volume *vol;
	sem_t done;
	atomic_uint users; /* who waits, and the store */
};

static void manage_flush_put(struct manage_flush *f)
{
	if (atomic_fetch_sub(&f->users, 1) > 1)
		return;
	sem_destroy(&f->done);
	free(f);
}

static void manage_flush_done(struct block_cmd *cmd)
{
	struct manage_flush *f = container_of(cmd, struct manage_flush, cmd);

	/* The removal of the volume waits for this. */
	atomic_fetch_sub(&f->vol->managed, 1);
	sem_post(&f->done);
	manage_flush_put(f);
}

static void manage_run_flush(struct server *s, void *arg)
{
	struct manage_flush *f = arg;

	f->cmd = (struct block_cmd){
		.dev = &f->vol->dev,
		.worker = &s->workers[0].block,
		.kind = BLOCK_CMD_FLUSH,
		.buf_index = -1,
		.done = manage_flush_done,
	};
	atomic_fetch_add(&f->vol->managed, 1);
	atomic_fetch_add(&f->users, 1);
	if (block_start(&f->cmd))
		manage_flush_done(&f->cmd);
}

/* 0 or -errno; -ETIMEDOUT: the store has not answered. */
static int manage_flush_store(struct server *s, struct volume *vol,
			      unsigned int seconds)
{
	struct manage_flush *f = calloc(1, sizeof(*f));
	int err;

	if (!f)
		return -ENOMEM;
	f->s = s;
	f->vol = vol;
	f->users = 1;
	sem_init(&f->done, /* pshared= */ 0, 0);
	err = server_call(s, manage_run_flush, f);
	if (!err)
		err = manage_wait_for(&f->done, seconds) ? f->cmd.res
							 : -ETIMEDOUT;
	manage_flush_put(f);
	return err;
}

/* A job may have been running. A flush that fails does not keep the volume. */
static void manage_flush(struct manage_volume *v)
{
	struct volume *vol = v->vol;
	struct log_about about = volume_about(vol, "volume-error");

	volume_job_stop(vol);
	v->job_ended.run = manage_job_ended;
	volume_job_await(vol, &v->s->workers[0].block, &v->job_ended);
	manage_wait(v);
	v->res = server_needs_flush(vol) ? manage_flush_store(v->s, vol, 0) : 0;
	if (v->res == 0)
		writers_flushed(&vol->dev.writers);
	else
		log_event(LOG_ERROR, &about,
			  "volume '%s' is removed, but could not be flushed: "
			  "%s; writes since its last flush may be lost",
			  vol->name, strerror(-v->res));
	volume_writers_rest(vol, v->s->workers[0].reactor, &v->job_ended);
	manage_wait(v);
}

static void manage_end_leaving(struct server *s, const struct volume *vol)
{
	unsigned int at = 0;

	while (s->leaving[at] != vol)
		at++;
	s->leaving[at] = s->leaving[--s->leaving_cnt];
}

static void manage_run_hide(struct server *s, void *arg)
{
	const struct manage_volume *v = arg;

	port_volume_gone(&s->port, v->vol);
	manage_end_leaving(s, v->vol);
}

static void manage_run_left(struct server *s, void *arg)
{
	server_volume_left(s);
}

/* Makes one step on the way to @to. Returns 0, or -errno with the reason in
 * v->e. */
static int manage_volume_step(struct manage_volume *v)
{
	int err = 0;

	switch (v->state) {
	case MANAGE_CLOSED:
		err = manage_open(v);
		break;
	case MANAGE_OPEN:
		err = manage_attach(v);
		break;
	case MANAGE_ATTACHED:
		server_call(v->s, manage_run_serve, v);
		break;
	case MANAGE_SERVED:
		manage_wait(v); /* for the eviction, which has begun */
		break;
	case MANAGE_EVICTED:
		manage_flush(v);
		break;
	case MANAGE_FLUSHED:
		server_call(v->s, manage_run_hide, v);
		manage_detach(v);
		v->state = MANAGE_CLOSED;
		return 0;
	}
	if (!err)
		v->state++;
	return err;
}

static void manage_volume_init(struct manage_volume *v, struct manage *m)
{
	*v = (struct manage_volume){ .m = m, .s = m->server };
	sem_init(&v->done, /* pshared= */ 0, 0);
	sem_init(&v->closed, /* pshared= */ 0, 0);
}

static void manage_volume_fini(struct manage_volume *v)
{
	sem_destroy(&v->done);
	sem_destroy(&v->closed);
}

static void manage_volume_put(struct manage_volume *v)
{
	if (atomic_fetch_sub(&v->users, 1) > 1)
		return;
	manage_volume_fini(v);
	free(v);
}

/* From the store to the initiators. */
static int manage_bring(struct manage_volume *v)
{
	int err = manage_volume_step(v);

	if (err)
		return err;
	err = server_call_begin(v->s);
	if (err) {
		manage_say_end(&v->e, err);
	} else {
		err = manage_volume_step(v);
		if (err)
			manage_detach(v);
		else
			manage_volume_step(v);
		server_call_end(v->s);
	}
	if (err)
		volume_close(v->vol);
	return err;
}

/* From the initiators back to the store, which may take long to answer. */
static void *manage_leave_main(void *arg)
{
	struct manage_volume *v = arg;
	char name[sizeof(v->vol->name)];
	struct log_about about = { .volume = name };

	v->state = MANAGE_SERVED;
	v->attached = v->s->worker_cnt;
	while (v->state != MANAGE_CLOSED)
		manage_volume_step(v);
	snprintf(name, sizeof(name), "%s", v->vol->name);
	about.lun = v->vol->lun;
	volume_close(v->vol);
	if (v->is_late)
		log_event(LOG_NOTICE, &about,
			  "volume '%s', which was removed: its store is closed "
			  "now",
			  name);
	server_call(v->s, manage_run_left, NULL);
	sem_post(&v->closed);
	manage_volume_put(v);
	return NULL;
}

/* Returns whether the store is closed already. */
static bool manage_leave(struct manage_volume *v)
{
	pthread_t thread;

	atomic_fetch_add(&v->users, 1);
	if (pthread_create(&thread, NULL, manage_leave_main, v))
		manage_leave_main(v);
	else
		pthread_detach(thread);
	v->is_late = !manage_wait_for(&v->closed, MANAGE_LEAVE_S);
	return !v->is_late;
}

/* ---- volumes ---- */

static void manage_note_volume(struct manage *m, const json_t *vol,
			       const struct volume *is)
{
	json_t *config = manage_edit(m);
	json_t *vols = json_object_get(config, "backing");
	json_t *copy = json_deep_copy(vol);

	json_object_set_new(copy, "name", json_string(is->name));
	json_object_set_new(copy, "lun", json_integer(is->lun));
	if (vols)
		json_array_append_new(vols, copy);
	else
		json_object_set_new(config, "backing", json_pack("[o]", copy));
}

static bool manage_take_meanwhile(struct manage_volume *v, const json_t *rules)
{
	const json_t *rule;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)rules, i, rule) {
		if (!access_rules_add(&v->meanwhile, json_string_value(rule),
				      &v->e))
			return false;
	}
	return true;
}

static void manage_log_added(const struct volume *vol)
{
	struct log_about about = volume_about(vol, "volume-added");

	log_event(LOG_NOTICE, &about, "volume '%s' is served as LUN %u now",
		  vol->name, vol->lun);
}

bool manage_add_volume(struct manage *m, const struct manage_new_volume *new,
		       json_t **ret_vol, struct manage_fault *f)
{
	const char *name = config_get_text(new->vol, "name");
	_cleanup_free_ struct volume_spec *spec = malloc(sizeof(*spec));
	struct config_fault fault;
	struct manage_volume v;
	json_t *vol;
	int err;

	if (!name)
		name = config_get_text(new->vol, "store");
	if (!spec)
		return manage_refuse_volume(f, name, "", "out of memory");
	vol = config_check_volume(new->vol, "", spec, &fault);
	json_decref(vol);
	if (!vol)
		return manage_refuse_volume(f, name, "", fault.text);
	if (spec->store == VOLUME_STORE_FILE)
		spec->given = given_files_find(new->given, spec->path);
	manage_volume_init(&v, m);
	v.spec = spec;
	v.is_part = new->is_part;
	if (!manage_take_meanwhile(&v, new->meanwhile))
		return manage_refuse_volume(f, name, "allow", v.e.text);
	if (m->server->luns.cnt + m->server->absents.cnt >= LUNS_MAX)
		return manage_refuse_volume(f, name, "lun",
					    "all 256 LUNs are taken");
	err = manage_bring(&v);
	manage_volume_fini(&v);
	if (err)
		return manage_refuse_volume(f, name, "", v.e.text);
	manage_log_added(v.vol);
	manage_note_volume(m, new->vol, v.vol);
	*ret_vol = manage_find(m, v.vol->name);
	return true;
}

int manage_arrive_volume(struct manage *m, struct absent *a, struct volume *vol,
			 struct error *e)
{
	json_t *lun = json_integer(vol->lun);
	struct manage_volume v;
	int err;

	if (a->is_gone) {
		volume_close(vol);
		json_decref(lun);
		return error_set(e, -ESHUTDOWN, "it was removed");
	}
	manage_volume_init(&v, m);
	v.spec = a->spec;
	v.absent = a;
	v.vol = vol;
	err = manage_bring(&v);
	manage_volume_fini(&v);
	if (err) {
		*e = v.e;
	} else {
		manage_log_added(vol);
		json_integer_set(lun, vol->lun);
		if (!json_equal(
			    json_object_get(manage_find(m, vol->name), "lun"),
			    lun))
			manage_edit_key(m, vol->name, "lun", lun);
		arrive_tell(m->server);
	}
	json_decref(lun);
	return err;
}

static void manage_forget_volume(struct manage *m, const char *name)
{
	json_t *config = manage_edit(m);
	json_t *vols = json_object_get(config, "backing");
	json_t *vol;
	size_t i;

	json_array_foreach(vols, i, vol) {
		if (!manage_is_named(vol, name))
			continue;
		json_array_remove(vols, i);
		break;
	}
	if (json_array_size(vols) == 0)
		json_object_del(config, "backing");
}

bool manage_forget_luns(struct manage *m, const char *name,
			struct manage_fault *f)
{
	struct server *s = m->server;
	struct error e;

	if (lun_memory_forget(&s->lun_memory, &s->luns, name, &e))
		return manage_refuse_volume(f, name, "", e.text);
	log_notice("other volumes may have the LUNs of '%s' now", name);
	return true;
}

/* ---- removal ---- */

static void manage_leavers_free(struct manage_leavers *l)
{
	for (size_t i = 0; i < l->cnt; i++)
		manage_volume_put(l->vols[i]);
	free(l->vols);
}

static const char *manage_leaver_name(const struct manage_leavers *l, size_t i)
{
	return json_string_value(json_array_get(l->names, i));
}

/* Volumes neither come nor go meanwhile. */
static void manage_run_find_leavers(struct server *s, void *arg)
{
	struct manage_leavers *l = arg;

	for (size_t i = 0; i < l->cnt; i++) {
		struct manage_volume *v = l->vols[i];

		v->vol = manage_served(v->m, manage_leaver_name(l, i));
		if (!v->vol) {
			v->res = -ENOENT;
			return;
		}
	}
	manage_check_users(l, s);
}

/* True: worker 0 has refused one of them. */
static bool manage_refuse_leaver(const struct manage_leavers *l,
				 struct manage_fault *f)
{
	for (size_t i = 0; i < l->cnt; i++) {
		const struct manage_volume *v = l->vols[i];
		const char *name = manage_leaver_name(l, i);

		if (v->res)
			return !(v->vol ? manage_refuse_volume(f, name, "",
							       v->e.text)
					: manage_refuse_unknown(f, name));
	}
	return false;
}

static bool manage_find_leavers(struct manage *m, struct manage_leavers *l,
				struct manage_fault *f)
{
	size_t cnt = json_array_size(l->names);

	l->vols = calloc(cnt + 1, sizeof(*l->vols));
	while (l->vols && l->cnt < cnt) {
		struct manage_volume *v = malloc(sizeof(*v));

		if (!v)
			break;
		manage_volume_init(v, m);
		v->users = 1;
		l->vols[l->cnt++] = v;
	}
	if (!l->vols || l->cnt < cnt)
		return manage_refuse(f, "target", "", "out of memory");
	if (server_call(m->server, manage_run_find_leavers, l))
		return manage_refuse_end(f);
	return !manage_refuse_leaver(l, f);
}

/* Flushes @vol, which stays. In standby, there is nothing to flush. */
static int manage_flush_leaver(struct server *s, struct volume *vol,
			       struct error *e)
{
	int err;

	if (!server_needs_flush(vol) || volume_is_standby(vol))
		return 0;
	err = server_call_begin(s);
	if (err)
		return manage_say_end(e, err);
	err = manage_flush_store(s, vol, s->opt->stop_timeout_s);
	server_call_end(s);
	if (err == -ETIMEDOUT)
		error_set(e, err, "its store has not answered a flush for %u s",
			  s->opt->stop_timeout_s);
	else if (err)
		error_set(e, err, "it cannot be flushed: %s", strerror(-err));
	return err;
}

/* While they are still served. */
static bool manage_flush_leavers(struct manage_leavers *l,
				 struct manage_fault *f)
{
	for (size_t i = 0; i < l->cnt && !l->force; i++) {
		struct manage_volume *v = l->vols[i];
		int err = manage_flush_leaver(v->s, v->vol, &v->e);

		if (!err)
			continue;
		if (err != -ESHUTDOWN)
			error_add(&v->e,
				  "; writes since its last flush may be lost; "
				  "--force removes it all the same");
		return manage_refuse_volume(f, v->vol->name, "", v->e.text);
	}
	return true;
}

/* Its thread may have closed it meanwhile. */
static void manage_run_count_left(struct server *s, void *arg)
{
	struct manage_volume *v = arg;

	for (unsigned int i = 0; i < s->leaving_cnt; i++) {
		if (s->leaving[i] == v->vol)
			v->left = block_owners_count(&v->vol->dev.owners);
	}
}

/* What its store still has, for a person. */
static void manage_say_late(struct manage_volume *v, char *buf, size_t size)
{
	char what[64] = "";

	server_call(v->s, manage_run_count_left, v);
	if (v->left)
		snprintf(what, sizeof(what), " (reads and writes: %u)",
			 v->left);
	snprintf(buf, size,
		 "; its store has not answered yet%s, and is closed when it "
		 "does",
		 what);
}

static void manage_remove_leaver(struct manage *m, struct manage_volume *v)
{
	char name[sizeof(v->vol->name)];
	struct log_about about = volume_about(v->vol, "volume-removed");
	char rest[128] = "";

	snprintf(name, sizeof(name), "%s", v->vol->name);
	about.volume = name;
	if (!manage_leave(v))
		manage_say_late(v, rest, sizeof(rest));
	else if (v->res)
		snprintf(rest, sizeof(rest),
			 "; it could not be flushed, and writes since its last "
			 "flush may be lost");
	log_event(*rest ? LOG_WARNING : LOG_NOTICE, &about,
		  "volume '%s' is not served any more%s", name, rest);
	manage_forget_volume(m, name);
}

static bool manage_remove_leavers(struct manage *m, struct manage_leavers *l,
				  struct manage_fault *f)
{
	bool refused;
	int err = server_call_begin(m->server);

	if (err)
		return manage_refuse_end(f);
	server_call(m->server, manage_run_evict, l);
	refused = manage_refuse_leaver(l, f);
	for (size_t i = 0; i < l->cnt && !refused; i++)
		manage_remove_leaver(m, l->vols[i]);
	server_call_end(m->server);
	return !refused;
}

/* Those of @names that are served, or not: nobody else sees the others. */
static json_t *manage_names(const struct manage *m, const json_t *names,
			    bool served)
{
	json_t *list = json_array();
	json_t *name;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)names, i, name) {
		bool is_absent = absent_find(&m->server->absents,
					     json_string_value(name));

		if (is_absent != served)
			json_array_append(list, name);
	}
	return list;
}

static void manage_run_await_no_more(struct server *s, void *arg)
{
	server_await_no_more(s, arg);
}

static void manage_remove_absents(struct manage *m, const json_t *names)
{
	struct server *s = m->server;
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)names, i, one) {
		const char *name = json_string_value(one);
		struct log_about about = { .event = "volume-removed",
					   .volume = name };
		struct absent *a = absent_find(&s->absents, name);

		if (!a)
			continue;
		about.lun = a->stand_in->lun;
		log_event(LOG_NOTICE, &about,
			  "volume '%s' is not waited for any more", name);
		manage_forget_volume(m, name);
		server_call(s, manage_run_await_no_more, a);
		arrive_tell(s);
	}
}

bool manage_remove_volumes(struct manage *m, const json_t *names, bool force,
			   struct manage_fault *f)
{
	json_t *served = manage_names(m, names, true);
	json_t *absent = manage_names(m, names, false);
	struct manage_leavers l = { .names = served, .force = force };
	bool good = manage_find_leavers(m, &l, f) &&
		    manage_flush_leavers(&l, f) &&
		    (!l.cnt || manage_remove_leavers(m, &l, f));

	if (good)
		manage_remove_absents(m, absent);
	manage_leavers_free(&l);
	json_decref(served);
	json_decref(absent);
	return good;
}

bool manage_may_remove(struct manage *m, const json_t *names, bool force,
		       struct manage_fault *f)
{
	json_t *served = manage_names(m, names, true);
	struct manage_leavers l = { .names = served, .force = force };
	bool good = manage_find_leavers(m, &l, f);

	manage_leavers_free(&l);
	json_decref(served);
	return good;
}
