/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/block/plugin_host.h"
#include "target/control/config.h"
#include "target/port/port_change.h"
#include "target/port/task_mgmt.h"

bool manage_refuse(struct manage_fault *f, const char *object,
		   const char *field, const char *fmt, ...)
{
	va_list ap;

	snprintf(f->object, sizeof(f->object), "%s", object);
	snprintf(f->field, sizeof(f->field), "%s", field);
	va_start(ap, fmt);
	vsnprintf(f->reason, sizeof(f->reason), fmt, ap);
	va_end(ap);
	return false;
}

static bool manage_refuse_volume(struct manage_fault *f, const char *name,
				 const char *field, const char *reason)
{
	char object[sizeof(f->object)];

	snprintf(object, sizeof(object), "volume '%.100s'", name);
	return manage_refuse(f, object, field, "%s", reason);
}

static bool manage_refuse_unknown(struct manage_fault *f, const char *name)
{
	return manage_refuse_volume(f, name, "",
				    "there is no volume of that name");
}

static bool manage_refuse_end(struct manage_fault *f)
{
	return manage_refuse(f, "target", "", "it is stopping");
}

static void manage_changed(struct manage *m)
{
	m->generation++;
}

/* ---- objects ---- */

int manage_create(struct server *s, json_t *config, const json_t *file,
		  struct manage **ret)
{
	struct manage *m = calloc(1, sizeof(*m));

	if (!m || !config) {
		free(m);
		json_decref(config);
		return -ENOMEM;
	}
	m->server = s;
	m->config = config;
	m->file = file;
	m->generation = 1;
	pthread_mutex_init(&m->lock, NULL);
	*ret = m;
	return 0;
}

void manage_started(struct manage *m)
{
	const struct lun_map *luns = &m->server->luns;
	json_t *vols = json_object_get(m->config, "backing");

	for (unsigned int i = 0; i < luns->cnt; i++) {
		json_t *vol = json_array_get(vols, i);

		json_object_set_new(vol, "name",
				    json_string(luns->vol[i]->name));
		json_object_set_new(vol, "lun",
				    json_integer(luns->vol[i]->lun));
		m->lun_was_used[luns->vol[i]->lun] = true;
	}
	m->at_start = json_deep_copy(m->config);
}

void manage_destroy(struct manage *m)
{
	if (!m)
		return;
	json_decref(m->config);
	json_decref(m->at_start);
	pthread_mutex_destroy(&m->lock);
	free(m);
}

void manage_lock(struct manage *m)
{
	pthread_mutex_lock(&m->lock);
}

void manage_unlock(struct manage *m)
{
	pthread_mutex_unlock(&m->lock);
}

static bool manage_is_named(const json_t *vol, const char *name)
{
	const char *own = json_string_value(json_object_get(vol, "name"));

	return own && !strcmp(own, name);
}

json_t *manage_find(const struct manage *m, const char *name)
{
	json_t *vols = json_object_get(m->config, "backing");
	json_t *vol;
	size_t i;

	json_array_foreach(vols, i, vol) {
		if (manage_is_named(vol, name))
			return vol;
	}
	return NULL;
}

struct volume *manage_served(const struct manage *m, const char *name)
{
	const struct lun_map *luns = &m->server->luns;

	for (unsigned int i = 0; i < luns->cnt; i++) {
		if (!strcmp(luns->vol[i]->name, name))
			return luns->vol[i];
	}
	return NULL;
}

/* ---- the life of a volume ---- */

/* manage_volume_step() makes every change. */
enum manage_volume_state {
	MANAGE_CLOSED,	 /* there is no store */
	MANAGE_OPEN,	 /* this thread has the store, and nobody else */
	MANAGE_ATTACHED, /* every worker has it; no initiator sees it */
	MANAGE_SERVED,	 /* initiators see it */
	MANAGE_EVICTED,	 /* it is to go, and no command on it is left */
	MANAGE_FLUSHED,	 /* what was written is stable, or that has failed */
};

/* One change of a volume. */
struct manage_volume {
	struct manage *m;
	struct server *s;
	struct volume_spec *spec;
	unsigned int lun;
	struct volume *vol;
	enum manage_volume_state state;
	bool force;
	unsigned int attached; /* workers that have it */
	struct error e;	       /* why it goes no further */
	sem_t done;	       /* what worker 0 does has ended */
	struct task_mgmt_eviction eviction;
	struct reactor_msg job_ended;
	struct block_cmd flush;
	int res;
};

static void manage_run_begin(struct server *s, void *arg)
{
	struct manage_volume *v = arg;

	v->res = server_begin_change(s);
}

static void manage_run_end(struct server *s, void *arg)
{
	server_end_change(s);
}

static int manage_begin(struct manage_volume *v)
{
	int err = server_call(v->s, manage_run_begin, v);

	if (!err)
		err = v->res;
	return err ? error_set(&v->e, err, "the target is stopping") : 0;
}

static void manage_end(struct manage_volume *v)
{
	server_call(v->s, manage_run_end, v);
}

/* Waits for what worker 0 ends by sem_post(). */
static void manage_wait(struct manage_volume *v)
{
	while (sem_wait(&v->done))
		;
}

/* A store that makes connections would be ended by the sandbox. */
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

static int manage_check_others(struct manage_volume *v)
{
	struct lun_map *luns = malloc(sizeof(*luns));
	int err;

	if (!luns)
		return error_set(&v->e, -ENOMEM, "out of memory");
	memcpy(luns->vol, v->s->luns.vol, sizeof(luns->vol));
	luns->cnt = v->s->luns.cnt;
	luns->vol[luns->cnt++] = v->vol;
	err = server_check_volumes(luns, &v->e);
	free(luns);
	return err;
}

static int manage_open(struct manage_volume *v)
{
	int err = manage_check_plugins(v);

	if (err)
		return err;
	err = volume_open(v->spec, v->lun, &v->vol, &v->e);
	if (err) {
		v->vol = NULL;
		return err;
	}
	err = manage_check_others(v);
	if (!err)
		err = server_load_state(v->s, v->vol, &v->e);
	if (!err)
		err = server_open_record(v->s, v->vol, v->spec->forgets, &v->e);
	if (err)
		volume_close(v->vol);
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
	server_start_volume(s, v->vol);
}

static void manage_evicted(struct task_mgmt_eviction *ev)
{
	sem_post(&container_of(ev, struct manage_volume, eviction)->done);
}

static void manage_run_evict(struct server *s, void *arg)
{
	struct manage_volume *v = arg;
	const char *user = port_volume_user(&s->port, v->vol);

	if (user && !v->force) {
		v->res = error_set(&v->e, -EBUSY,
				   "initiator %s is logged in and sees it; "
				   "--force ends its commands",
				   user);
		return;
	}
	v->vol->leaving = true;
	v->eviction.done = manage_evicted;
	v->res = task_mgmt_evict(&s->port, v->vol, &v->eviction);
	if (v->res == 0) {
		port_volume_leaves(&s->port, v->vol);
		return;
	}
	/* It keeps its place: of volumes with one number the first is seen. */
	v->vol->leaving = false;
	error_set(&v->e, v->res, "out of memory");
}

static int manage_evict(struct manage_volume *v)
{
	server_call(v->s, manage_run_evict, v);
	if (v->res == 0)
		manage_wait(v);
	return v->res;
}

static void manage_job_ended(struct reactor_msg *msg)
{
	sem_post(&container_of(msg, struct manage_volume, job_ended)->done);
}

static void manage_flush_done(struct block_cmd *cmd)
{
	struct manage_volume *v =
		container_of(cmd, struct manage_volume, flush);

	v->res = cmd->res;
	sem_post(&v->done);
}

static void manage_run_flush(struct server *s, void *arg)
{
	struct manage_volume *v = arg;

	v->flush = (struct block_cmd){
		.dev = &v->vol->dev,
		.worker = &s->workers[0].block,
		.kind = BLOCK_CMD_FLUSH,
		.buf_index = -1,
		.done = manage_flush_done,
	};
	if (block_start(&v->flush))
		manage_flush_done(&v->flush);
}

/* A job may have been under way. A flush that fails keeps no volume. */
static void manage_flush(struct manage_volume *v)
{
	struct volume *vol = v->vol;

	volume_job_stop(vol);
	v->job_ended.run = manage_job_ended;
	volume_job_await(vol, &v->s->workers[0].block, &v->job_ended);
	manage_wait(v);
	v->res = 0;
	if (server_needs_flush(vol)) {
		server_call(v->s, manage_run_flush, v);
		manage_wait(v);
	}
	if (v->res == 0)
		flush_record_flushed(&vol->dev.record);
	else
		log_error("volume '%s' is removed, but could not be flushed: "
			  "%s; writes since its last flush may be lost",
			  vol->name, strerror(-v->res));
}

/* While it is served; in standby it has nothing to flush. Return: 0, or -errno:
 * v->e says why. */
static int manage_flush_served(struct manage_volume *v)
{
	int err;

	if (!server_needs_flush(v->vol) || volume_is_standby(v->vol))
		return 0;
	err = manage_begin(v);
	if (err)
		return err;
	server_call(v->s, manage_run_flush, v);
	manage_wait(v);
	manage_end(v);
	return v->res ? error_set(&v->e, v->res, "it cannot be flushed: %s",
				  strerror(-v->res))
		      : 0;
}

static void manage_run_hide(struct server *s, void *arg)
{
	port_volume_gone(&s->port, ((struct manage_volume *)arg)->vol);
	manage_count_attached(s);
}

/* One step on the way to @to. Return: 0, or -errno: v->e says why not. */
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
		err = manage_evict(v);
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
}

/* From the store to initiators. */
static int manage_bring(struct manage_volume *v)
{
	int err = manage_volume_step(v);

	if (err)
		return err;
	err = manage_begin(v);
	if (!err) {
		err = manage_volume_step(v);
		if (err)
			manage_detach(v);
		else
			manage_volume_step(v);
		manage_end(v);
	}
	if (err)
		volume_close(v->vol);
	return err;
}

/* And back. */
static int manage_take(struct manage_volume *v)
{
	int err;

	v->state = MANAGE_SERVED;
	v->attached = v->s->worker_cnt;
	err = manage_begin(v);
	if (err)
		return err;
	err = manage_volume_step(v);
	while (!err && v->state != MANAGE_CLOSED)
		manage_volume_step(v);
	manage_end(v);
	if (!err)
		volume_close(v->vol);
	return err;
}

/* ---- volumes ---- */

static bool manage_lun_is_free(const struct manage *m, unsigned int lun)
{
	const struct lun_map *luns = &m->server->luns;

	for (unsigned int i = 0; i < luns->cnt; i++) {
		if (luns->vol[i]->lun == lun)
			return false;
	}
	return true;
}

static bool manage_find_lun(struct manage_volume *v, bool may_reuse)
{
	for (v->lun = 0; v->lun < LUNS_MAX; v->lun++) {
		if (manage_lun_is_free(v->m, v->lun) &&
		    (may_reuse || !v->m->lun_was_used[v->lun]))
			return true;
	}
	return false;
}

/* An initiator may still take a number for the volume that had it. */
static bool manage_choose_lun(struct manage_volume *v)
{
	v->lun = v->spec->lun;
	return v->spec->has_lun || manage_find_lun(v, /* may_reuse= */ false) ||
	       manage_find_lun(v, /* may_reuse= */ true);
}

static bool manage_note_volume(struct manage *m, const json_t *vol,
			       const struct volume *is, json_t **ret_vol)
{
	json_t *vols = json_object_get(m->config, "backing");
	json_t *copy = json_deep_copy(vol);

	if (!vols) {
		vols = json_array();
		json_object_set_new(m->config, "backing", vols);
	}
	json_object_set_new(copy, "name", json_string(is->name));
	json_object_set_new(copy, "lun", json_integer(is->lun));
	json_array_append_new(vols, copy);
	*ret_vol = copy;
	manage_changed(m);
	return true;
}

bool manage_add_volume(struct manage *m, const json_t *vol, json_t **ret_vol,
		       struct manage_fault *f)
{
	const char *name = json_string_value(json_object_get(vol, "name"));
	_cleanup_free_ char *text = config_volume_spec(vol);
	_cleanup_free_ struct volume_spec *spec = malloc(sizeof(*spec));
	struct manage_volume v;
	char msg[sizeof(f->reason)];
	int err;

	name = name ? name : json_string_value(json_object_get(vol, "store"));
	if (!text || !spec)
		return manage_refuse_volume(f, name, "", "out of memory");
	if (!volume_spec_parse(text, spec, msg, sizeof(msg)))
		return manage_refuse_volume(f, name, "", msg);
	manage_volume_init(&v, m);
	v.spec = spec;
	if (m->server->luns.cnt == LUNS_MAX || !manage_choose_lun(&v))
		return manage_refuse_volume(f, name, "lun",
					    "all 256 LUNs are taken");
	err = manage_bring(&v);
	sem_destroy(&v.done);
	if (err)
		return manage_refuse_volume(f, name, "", v.e.text);
	m->lun_was_used[v.lun] = true;
	log_notice("volume '%s' is served as LUN %u now", v.vol->name,
		   v.vol->lun);
	return manage_note_volume(m, vol, v.vol, ret_vol);
}

static void manage_forget_volume(struct manage *m, const char *name)
{
	json_t *vols = json_object_get(m->config, "backing");
	json_t *vol;
	size_t i;

	json_array_foreach(vols, i, vol) {
		if (!manage_is_named(vol, name))
			continue;
		json_array_remove(vols, i);
		break;
	}
	if (json_array_size(vols) == 0)
		json_object_del(m->config, "backing");
	manage_changed(m);
}

bool manage_remove_volume(struct manage *m, const char *name, bool force,
			  struct manage_fault *f)
{
	struct manage_volume v;
	int err;

	manage_volume_init(&v, m);
	v.vol = manage_served(m, name);
	v.force = force;
	if (!v.vol)
		return manage_refuse_unknown(f, name);
	err = force ? 0 : manage_flush_served(&v);
	if (err == 0)
		err = manage_take(&v);
	else if (err != -ESHUTDOWN)
		error_add(&v.e, "; writes since its last flush may be lost; "
				"--force removes it all the same");
	sem_destroy(&v.done);
	if (err)
		return manage_refuse_volume(f, name, "", v.e.text);
	log_notice("volume '%s' is not served any more", name);
	manage_forget_volume(m, name);
	return true;
}

/* ---- sizes ---- */

static int manage_grow_file(const struct volume *vol, uint64_t bytes,
			    struct error *e)
{
	_cleanup_close_ int fd = open(vol->path, O_WRONLY | O_CLOEXEC);
	struct stat st;

	if (fd < 0 || fstat(fd, &st))
		return error_set(e, -errno, "%s: %s", vol->path,
				 strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(e, -EINVAL,
				 "%s is no regular file; make it larger by its "
				 "own means, then leave out the size",
				 vol->path);
	if ((uint64_t)st.st_size > bytes)
		return error_set(e, -EINVAL,
				 "it would become smaller than its %lld bytes",
				 (long long)st.st_size);
	if (ftruncate(fd, (off_t)bytes))
		return error_set(e, -errno, "%s: %s", vol->path,
				 strerror(errno));
	return 0;
}

static bool manage_is_at_path(const struct manage *m, const char *name)
{
	_cleanup_free_ char *text = config_volume_spec(manage_find(m, name));
	_cleanup_free_ struct volume_spec *spec = malloc(sizeof(*spec));
	char msg[OPTION_TEXT_SIZE];

	return text && spec &&
	       volume_spec_parse(text, spec, msg, sizeof(msg)) &&
	       spec->ops->location == BACKEND_AT_PATH;
}

static void manage_run_measure(struct server *s, void *arg)
{
	struct manage_volume *v = arg;

	v->res = server_measure_volume(s, v->vol);
}

bool manage_resize_volume(struct manage *m, const char *name, uint64_t bytes,
			  uint64_t *ret_bytes, struct manage_fault *f)
{
	struct manage_volume v;

	manage_volume_init(&v, m);
	v.vol = manage_served(m, name);
	if (!v.vol)
		return manage_refuse_unknown(f, name);
	if (bytes && !manage_is_at_path(m, name))
		return manage_refuse_volume(
			f, name, "size",
			"only the target's own files can be made larger; make "
			"the store larger by its own means, then leave out the "
			"size");
	if (bytes % v.vol->block_size)
		return manage_refuse_volume(f, name, "size",
					    "not a multiple of the block size");
	if (bytes && manage_grow_file(v.vol, bytes, &v.e))
		return manage_refuse_volume(f, name, "size", v.e.text);
	if (server_call(m->server, manage_run_measure, &v))
		return manage_refuse_end(f);
	if (v.res < 0)
		return manage_refuse_volume(
			f, name, "size",
			v.res == -ESTALE ? "its store has become smaller"
					 : strerror(-v.res));
	*ret_bytes = v.vol->blocks * v.vol->block_size;
	if (bytes && *ret_bytes != bytes)
		return manage_refuse_volume(
			f, name, "size",
			"the file at its path is not the one that is served");
	return true;
}

/* ---- parameters of plugins ---- */

/* What in @vol has the parameters of @plugin; NULL: nothing. */
static json_t *manage_find_plugin(json_t *vol, const char *plugin)
{
	const char *store = json_string_value(json_object_get(vol, "store"));
	json_t *layers = json_object_get(vol, "layer");
	size_t len = strlen(plugin);

	for (size_t i = json_array_size(layers); i > 0; i--) {
		json_t *layer = json_array_get(layers, i - 1);
		const char *name =
			json_string_value(json_object_get(layer, "plugin"));

		if (!strcmp(name, plugin))
			return layer;
	}
	return !strncmp(store, plugin, len) && store[len] == ':' ? vol : NULL;
}

static bool manage_fill_spec(struct plugin_spec *spec, const char *plugin,
			     const json_t *parameters)
{
	char arg[sizeof(spec->args)];
	const char *key;
	json_t *value;

	if (strlen(plugin) >= sizeof(spec->name))
		return false;
	strcpy(spec->name, plugin);
	json_object_foreach((json_t *)(uintptr_t)parameters, key, value) {
		const char *text = json_string_value(value);
		int len = snprintf(arg, sizeof(arg), "%s%s%s", key,
				   text ? "=" : "", text ? text : "");

		if (len >= (int)sizeof(arg) || !plugin_spec_add(spec, arg))
			return false;
	}
	return true;
}

static void manage_note_parameters(struct manage *m, json_t *owner,
				   const json_t *parameters)
{
	json_t *is = json_object_get(owner, "parameters");

	if (!is)
		json_object_set(owner, "parameters",
				(json_t *)(uintptr_t)parameters);
	else
		json_object_update(is, (json_t *)(uintptr_t)parameters);
	manage_changed(m);
}

bool manage_set_parameters(struct manage *m, const char *name,
			   const char *plugin, const json_t *parameters,
			   struct manage_fault *f)
{
	struct volume *vol = manage_served(m, name);
	struct plugin_spec spec = { .args_len = 0 };
	struct error e;
	json_t *owner;

	if (!vol)
		return manage_refuse_unknown(f, name);
	owner = manage_find_plugin(manage_find(m, name), plugin);
	if (!owner)
		return manage_refuse_volume(f, name, plugin,
					    "the volume has no such plugin");
	if (!manage_fill_spec(&spec, plugin, parameters))
		return manage_refuse_volume(f, name, plugin,
					    "the parameters are too long");
	if (backend_set_params(vol->dev.backend, &spec, &e))
		return manage_refuse_volume(f, name, plugin, e.text);
	manage_note_parameters(m, owner, parameters);
	return true;
}

/* ---- removable media ---- */

bool manage_eject_volume(struct manage *m, const char *name, bool eject,
			 struct manage_fault *f)
{
	struct volume *vol = manage_served(m, name);
	struct manage_volume v;
	int res;

	if (!vol)
		return manage_refuse_unknown(f, name);
	if (!vol->info.removable)
		return manage_refuse_volume(
			f, name, "removable",
			"its medium cannot be removed (option removable)");
	manage_volume_init(&v, m);
	v.vol = vol;
	if (eject && manage_flush_served(&v))
		return manage_refuse_volume(f, name, "", v.e.text);
	res = unit_state_eject(&vol->state, eject);
	if (res < 0)
		return manage_refuse_volume(
			f, name, "",
			"an initiator prevents the removal of its medium");
	if (res > 0 && !eject)
		scsi_attention_others(&m->server->luns, vol, /* except= */ NULL,
				      SCSI_UA_MEDIUM_MAY_DIFFER);
	return true;
}

/* ---- rules, limits, sessions ---- */

/* Between two looks whether sessions have ended. */
#define MANAGE_LOOK_US 10000

struct manage_ending {
	unsigned int before; /* 0: not yet known */
	unsigned int cnt;
};

static void manage_run_ending(struct server *s, void *arg)
{
	struct manage_ending *ending = arg;

	if (!ending->before)
		ending->before = s->port.next_number;
	ending->cnt = port_ending(&s->port, ending->before);
}

void manage_await_sessions(struct manage *m)
{
	struct manage_ending ending = { .before = 0 };

	while (server_call(m->server, manage_run_ending, &ending) == 0 &&
	       ending.cnt)
		usleep(MANAGE_LOOK_US);
}

struct manage_rules {
	struct volume *vol; /* NULL: the target's */
	struct access_rules rules;
	unsigned int ended;
};

static void manage_run_rules(struct server *s, void *arg)
{
	struct manage_rules *r = arg;

	if (r->vol)
		r->vol->allow = r->rules;
	else
		s->port.allow = r->rules;
	r->ended = port_rules_changed(&s->port);
}

static bool manage_take_rules(struct manage *m, const char *object,
			      const json_t *rules, struct manage_rules *r,
			      struct manage_fault *f)
{
	char msg[sizeof(f->reason)];
	json_t *rule;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)rules, i, rule) {
		if (!access_rules_add(&r->rules, json_string_value(rule), msg,
				      sizeof(msg)))
			return manage_refuse(f, object, "allow", "'%s': %s",
					     json_string_value(rule), msg);
	}
	return server_call(m->server, manage_run_rules, r) == 0 ||
	       manage_refuse_end(f);
}

static void manage_note_rules(struct manage *m, json_t *owner,
			      const json_t *rules)
{
	if (json_array_size(rules))
		json_object_set_new(owner, "allow", json_deep_copy(rules));
	else
		json_object_del(owner, "allow");
	manage_changed(m);
}

bool manage_set_allow(struct manage *m, const json_t *rules,
		      unsigned int *ret_ended, struct manage_fault *f)
{
	struct manage_rules r = { .vol = NULL };

	if (!manage_take_rules(m, "target", rules, &r, f))
		return false;
	*ret_ended = r.ended;
	manage_note_rules(m, m->config, rules);
	return true;
}

bool manage_set_volume_allow(struct manage *m, const char *name,
			     const json_t *rules, unsigned int *ret_ended,
			     struct manage_fault *f)
{
	struct manage_rules r = { .vol = manage_served(m, name) };
	char object[sizeof(f->object)];

	if (!r.vol)
		return manage_refuse_unknown(f, name);
	snprintf(object, sizeof(object), "volume '%.100s'", name);
	if (!manage_take_rules(m, object, rules, &r, f))
		return false;
	*ret_ended = r.ended;
	manage_note_rules(m, manage_find(m, name), rules);
	return true;
}

static void manage_run_limits(struct server *s, void *arg)
{
	const struct target_options *opt = arg;

	s->port.limits = opt->limits;
}

bool manage_set_limits(struct manage *m, const json_t *config,
		       struct manage_fault *f)
{
	struct target_options *opt = calloc(1, sizeof(*opt));
	struct config_fault fault;
	bool good;

	if (!opt)
		return manage_refuse(f, "target", "", "out of memory");
	target_options_init(opt);
	good = config_store(config, opt, &fault);
	if (!good)
		manage_refuse(f, "target", fault.place, "%s", fault.text);
	else if (server_call(m->server, manage_run_limits, opt))
		good = manage_refuse_end(f);
	target_options_free(opt);
	free(opt);
	return good;
}

struct manage_session {
	struct srp_port_id initiator;
	bool found;
};

static void manage_run_kick(struct server *s, void *arg)
{
	struct manage_session *session = arg;

	session->found = port_kick(&s->port, &session->initiator);
}

bool manage_kick(struct manage *m, const char *initiator,
		 struct manage_fault *f)
{
	struct manage_session session = { .found = false };
	char object[sizeof(f->object)];

	snprintf(object, sizeof(object), "session '%.100s'", initiator);
	if (srp_port_id_parse(initiator, &session.initiator))
		return manage_refuse(f, object, "initiator",
				     "not 0x and the 32 digits of an initiator "
				     "port");
	if (server_call(m->server, manage_run_kick, &session))
		return manage_refuse_end(f);
	return session.found ||
	       manage_refuse(f, object, "", "that initiator is not logged in");
}
