/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_reload.h"

#include "target/control/config_text.h"
#include "target/manage_apply.h"
#include "target/manage_session.h"
#include "target/server_volumes.h"

static bool reload_apply(struct manage *m, const json_t *want,
			 json_t **ret_changes, struct manage_fault *f)
{
	static const struct manage_apply how;
	bool good;

	manage_lock(m);
	good = manage_apply(m, want, &how, ret_changes, f);
	if (good)
		manage_warn_of_numbers(m, want);
	manage_unlock(m);
	if (good)
		manage_await_sessions(m);
	return good;
}

static bool reload_file(struct manage *m, json_t **ret_changes,
			struct manage_fault *f)
{
	struct error e;
	json_t *want;
	bool good;

	if (!m->file) {
		*ret_changes = json_array();
		return true;
	}
	want = config_read(m->server->opt->config, &e);
	if (!want)
		return manage_refuse(f, "configuration", "", "%s", e.text);
	good = reload_apply(m, want, ret_changes, f);
	json_decref(want);
	return good;
}

static void reload_run_measure(struct server *s, void *arg)
{
	server_measure_volumes(s);
}

bool manage_reload(struct manage *m, json_t **ret_changes,
		   struct manage_fault *f)
{
	server_call(m->server, reload_run_measure, NULL);
	if (reload_file(m, ret_changes, f))
		return true;
	log_error("the configuration is not applied: %s: %s%s%s", f->object,
		  f->field, *f->field ? ": " : "", f->reason);
	return false;
}

/* ---- SIGHUP ---- */

static void *reload_main(void *arg)
{
	struct manage *m = arg;
	struct manage_fault f;
	json_t *changes = NULL;

	manage_reload(m, &changes, &f);
	json_decref(changes);
	atomic_store(&m->reloading, false);
	return NULL;
}

void manage_begin_reload(struct manage *m)
{
	if (atomic_exchange(&m->reloading, true)) {
		log_warn("the configuration is being applied already");
		return;
	}
	if (m->has_reloader)
		pthread_join(m->reloader, NULL);
	m->has_reloader =
		pthread_create(&m->reloader, NULL, reload_main, m) == 0;
	if (m->has_reloader)
		return;
	atomic_store(&m->reloading, false);
	log_error("the configuration is not applied: no thread can be "
		  "started");
}

void manage_await_reload(struct manage *m)
{
	if (m->has_reloader)
		pthread_join(m->reloader, NULL);
	m->has_reloader = false;
}
