/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_reload.h"

#include <time.h>

#include "config/config_text.h"
#include "target/manage_access.h"
#include "target/manage_apply.h"
#include "target/manage_read.h"
#include "target/manage_session.h"
#include "target/server_volumes.h"

/* Those that the target has stay, but the next start reads the file. */
static void reload_warn_of_rules(const struct manage *m, const json_t *want)
{
	const json_t *rules = json_object_get(m->config, "allow");
	char text[MANAGE_RULES_SIZE];

	if (!json_object_get(want, "allow") &&
	    !json_array_size(json_object_get(m->added, "allow")) &&
	    !manage_are_open(rules))
		log_warn("the configuration has no rules for the target, which "
			 "keeps %s until it ends: at the next start, everybody "
			 "may come in; write who may, or all, into it",
			 manage_rules_text(rules, text));
}

static bool reload_apply(struct manage *m, const json_t *want,
			 struct given_files *given, json_t **ret_changes,
			 struct manage_fault *f)
{
	const struct manage_apply how = { .given = given };
	bool good;

	m->file_uses++;
	good = manage_apply(m, want, &how, ret_changes, f);
	if (good)
		reload_warn_of_rules(m, want);
	return good;
}

static void reload_read_file(const char *path, struct manage_file *file)
{
	file->config = config_read(path, &file->e);
}

/*
 * Reads the file, and takes both locks.
 *
 * If the file is saved (--auto-save) or applied meanwhile, or a change is still to be
 * saved, what was read is old, and would undo a change: it is read again.
 */
static void reload_read(struct manage *m, struct manage_file *ret)
{
	for (;;) {
		unsigned int uses = manage_await_saves(m);

		manage_read_file(m, reload_read_file, ret);
		pthread_mutex_lock(&m->file_lock);
		manage_lock(m);
		if (uses == m->file_uses && !m->saves)
			return;
		manage_unlock(m);
		pthread_mutex_unlock(&m->file_lock);
		manage_file_drop(ret);
	}
}

static bool reload_file(struct manage *m, struct given_files *given,
			json_t **ret_changes, struct manage_fault *f)
{
	struct manage_file file;
	bool good;

	if (!m->file) {
		*ret_changes = json_array();
		return true;
	}
	reload_read(m, &file);
	good = file.config ? reload_apply(m, file.config, given, ret_changes, f)
			   : manage_refuse(f, "configuration", "", "%s",
					   file.e.text);
	manage_unlock(m);
	pthread_mutex_unlock(&m->file_lock);
	manage_file_drop(&file);
	if (good)
		manage_await_sessions(m);
	return good;
}

static void reload_run_measure(struct server *s, void *arg)
{
	server_measure_volumes(s);
}

bool manage_reload(struct manage *m, struct given_files *given,
		   json_t **ret_changes, struct manage_fault *f)
{
	server_call(m->server, reload_run_measure, NULL);
	absents_hurry(&m->server->absents);
	if (reload_file(m, given, ret_changes, f))
		return true;
	log_error("the configuration is not applied: %s: %s%s%s", f->object,
		  f->field, *f->field ? ": " : "", f->reason);
	return false;
}

/* ---- SIGHUP ---- */

/* The file may have changed after it was read: what is asked for in the meantime
 * is done after that, once. */
static void *reload_main(void *arg)
{
	struct manage *m = arg;
	unsigned int done = atomic_load(&m->reloads);
	struct manage_fault f;

	do {
		json_t *changes = NULL;

		manage_reload(m, /* given= */ NULL, &changes, &f);
		json_decref(changes);
	} while (!atomic_compare_exchange_strong(&m->reloads, &done, 0));
	return NULL;
}

void manage_begin_reload(struct manage *m)
{
	struct log_about about = { .event = "config" };

	if (atomic_fetch_add(&m->reloads, 1) > 0) {
		log_event(LOG_NOTICE, &about,
			  "the configuration is being applied; it will be "
			  "applied again after that");
		return;
	}
	if (m->has_reloader)
		pthread_join(m->reloader, NULL);
	m->has_reloader =
		pthread_create(&m->reloader, NULL, reload_main, m) == 0;
	if (m->has_reloader)
		return;
	atomic_store(&m->reloads, 0);
	log_error("the configuration is not applied: no thread can be "
		  "started");
}

bool manage_await_reload(struct manage *m)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += MANAGE_LAST_MS / 1000;
	if (m->has_reloader &&
	    pthread_clockjoin_np(m->reloader, NULL, CLOCK_MONOTONIC, &until))
		return false;
	m->has_reloader = false;
	return true;
}
