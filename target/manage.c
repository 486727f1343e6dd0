/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "base/ticks.h"

const char *manage_label(const char *volume, char buf[static MANAGE_LABEL_SIZE])
{
	if (volume)
		snprintf(buf, MANAGE_LABEL_SIZE, "volume '%.100s'", volume);
	else
		snprintf(buf, MANAGE_LABEL_SIZE, "target");
	return buf;
}

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

bool manage_refuse_volume(struct manage_fault *f, const char *name,
			  const char *field, const char *reason)
{
	char object[MANAGE_LABEL_SIZE];

	return manage_refuse(f, manage_label(name, object), field, "%s",
			     reason);
}

bool manage_refuse_unknown(struct manage_fault *f, const char *name)
{
	return manage_refuse_volume(f, name, "",
				    "there is no volume of that name");
}

bool manage_refuse_end(struct manage_fault *f)
{
	return manage_refuse(f, "target", "", "it is stopping");
}

void manage_log_change(const char *action, const char *object,
		       const char *field)
{
	struct log_about about = { .event = "config" };

	log_event(LOG_NOTICE, &about, "configuration: %s %s%s%s", action,
		  object, field ? ": " : "", field ? field : "");
}

/* ---- objects ---- */

/* Takes @config over. NULL: no memory, or no @config. */
static struct manage_view *manage_view_make(json_t *config, uint64_t generation)
{
	struct manage_view *view = config ? calloc(1, sizeof(*view)) : NULL;

	if (!view) {
		json_decref(config);
		return NULL;
	}
	view->users = 1;
	view->config = config;
	view->generation = generation;
	return view;
}

int manage_create(struct server *s, json_t *config, const json_t *file,
		  struct manage **ret)
{
	struct manage *m = calloc(1, sizeof(*m));
	struct manage_view *view = manage_view_make(config, 1);

	if (!m || !view) {
		free(m);
		if (view)
			manage_view_put(view);
		return -ENOMEM;
	}
	m->server = s;
	m->view = view;
	m->config = config;
	m->file = file;
	m->generation = view->generation;
	pthread_mutex_init(&m->lock, NULL);
	pthread_mutex_init(&m->view_lock, NULL);
	pthread_mutex_init(&m->file_lock, NULL);
	pthread_cond_init(&m->saves_ended, NULL);
	*ret = m;
	return 0;
}

/* Elements of the command line come after those of the file. */
static json_t *manage_added_to(json_t *list, size_t of_file)
{
	json_t *added = json_array();

	for (size_t i = of_file; i < json_array_size(list); i++)
		json_array_append(added, json_array_get(list, i));
	return added;
}

static json_t *manage_find_added(const struct manage *m)
{
	json_t *added = json_object();
	const char *key;
	json_t *is;

	json_object_foreach(m->at_start, key, is) {
		const json_t *in_file = json_object_get(m->file, key);

		if (json_is_array(is))
			json_object_set_new(
				added, key,
				manage_added_to(is, json_array_size(in_file)));
		else if (!json_equal(is, in_file))
			json_object_set(added, key, is);
	}
	return added;
}

static void manage_look_at_points(struct manage *m, struct manage_view *view)
{
	view->point_cnt = m->server->points.cnt;
	memcpy(view->point, m->server->points.point, sizeof(view->point));
}

/* A change has ended. */
static void manage_show(struct manage *m)
{
	struct manage_view *old = m->view;

	manage_look_at_points(m, m->next);
	pthread_mutex_lock(&m->view_lock);
	m->view = m->next;
	pthread_mutex_unlock(&m->view_lock);
	m->next = NULL;
	manage_view_put(old);
}

struct manage_view *manage_view_get(struct manage *m)
{
	struct manage_view *view;

	pthread_mutex_lock(&m->view_lock);
	view = m->view;
	atomic_fetch_add(&view->users, 1);
	pthread_mutex_unlock(&m->view_lock);
	return view;
}

void manage_view_put(struct manage_view *view)
{
	if (atomic_fetch_sub(&view->users, 1) > 1)
		return;
	json_decref(view->config);
	free(view);
}

json_t *manage_edit(struct manage *m)
{
	if (m->next)
		return m->config;
	m->next =
		manage_view_make(json_deep_copy(m->config), m->generation + 1);
	if (!m->next)
		return NULL;
	m->generation++;
	return m->config = m->next->config;
}

void manage_edit_key(struct manage *m, const char *volume, const char *key,
		     const json_t *value)
{
	json_t *config = manage_edit(m);
	json_t *owner = volume ? manage_find_in(config, volume) : config;

	if (value)
		json_object_set_new(owner, key, json_deep_copy(value));
	else
		json_object_del(owner, key);
}

/* The configuration of a running target always says who may come in. Neither the file
 * nor the command line has said the default: a file that is saved leaves it out. */
static void manage_say_default_rules(struct manage *m)
{
	if (json_object_get(m->config, "allow"))
		return;
	json_object_set_new(m->config, "allow",
			    json_pack("[s]", ACCESS_DEFAULT));
	json_object_set_new(m->at_start, "allow",
			    json_pack("[s]", ACCESS_DEFAULT));
}

static void manage_name_volume(json_t *to, const struct volume *vol)
{
	json_object_set_new(to, "name", json_string(vol->name));
	json_object_set_new(to, "lun", json_integer(vol->lun));
}

void manage_started(struct manage *m)
{
	const struct server *s = m->server;
	const struct lun_map *luns = &s->luns;
	json_t *vols = json_object_get(m->config, "backing");

	for (unsigned int i = 0; i < luns->cnt; i++)
		manage_name_volume(json_array_get(vols, s->backing_of[i]),
				   luns->vol[i]);
	for (unsigned int i = 0; i < s->absents.cnt; i++)
		manage_name_volume(
			json_array_get(vols, s->absents.list[i]->index),
			s->absents.list[i]->stand_in);
	m->at_start = json_deep_copy(m->config);
	m->added = manage_find_added(m);
	manage_say_default_rules(m);
	manage_look_at_points(m, m->view);
}

void manage_destroy(struct manage *m)
{
	if (!m)
		return;
	manage_view_put(m->view);
	json_decref(m->at_start);
	json_decref(m->added);
	pthread_mutex_destroy(&m->lock);
	pthread_mutex_destroy(&m->view_lock);
	pthread_mutex_destroy(&m->file_lock);
	pthread_cond_destroy(&m->saves_ended);
	free(m);
}

void manage_lock(struct manage *m)
{
	pthread_mutex_lock(&m->lock);
	m->locked_ms = (int64_t)ticks_clock_ms();
}

void manage_unlock(struct manage *m)
{
	if (m->next)
		manage_show(m);
	m->locked_ms = 0;
	pthread_mutex_unlock(&m->lock);
}

int64_t manage_changing(const struct manage *m)
{
	int64_t since = m->locked_ms;

	return since ? ((int64_t)ticks_clock_ms() - since) / 1000 : -1;
}

bool manage_wait_for(sem_t *sem, unsigned int seconds)
{
	struct timespec until;
	int err;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += seconds;
	do
		err = seconds ? sem_timedwait(sem, &until) : sem_wait(sem);
	while (err && errno == EINTR);
	return !err;
}

unsigned int manage_await_saves(struct manage *m)
{
	pthread_mutex_lock(&m->view_lock);
	while (m->saves)
		pthread_cond_wait(&m->saves_ended, &m->view_lock);
	pthread_mutex_unlock(&m->view_lock);
	return m->file_uses;
}

bool manage_is_named(const json_t *vol, const char *name)
{
	const char *own = config_get_text(vol, "name");

	return own && !strcmp(own, name);
}

bool manage_is_added(const struct manage *m, const char *key, const json_t *one)
{
	const char *name = config_get_text(one, "name");
	json_t *other;
	size_t i;

	json_array_foreach(json_object_get(m->added, key), i, other) {
		if (name ? manage_is_named(other, name)
			 : json_equal(other, one))
			return true;
	}
	return false;
}

bool manage_list_has(const json_t *list, const json_t *one)
{
	const json_t *other;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, other) {
		if (json_equal(other, one))
			return true;
	}
	return false;
}

json_t *manage_find_in(const json_t *config, const char *name)
{
	json_t *vols = json_object_get(config, "backing");
	json_t *vol;
	size_t i;

	json_array_foreach(vols, i, vol) {
		if (manage_is_named(vol, name))
			return vol;
	}
	return NULL;
}

json_t *manage_find(const struct manage *m, const char *name)
{
	return manage_find_in(m->config, name);
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
