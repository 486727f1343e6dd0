/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_methods.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "target/control/config_path.h"
#include "target/control/config_volume.h"
#include "target/control/varlink.h"
#include "target/listen.h"
#include "target/manage_access.h"
#include "target/manage_apply.h"
#include "target/manage_events.h"
#include "target/manage_faults.h"
#include "target/manage_listen.h"
#include "target/manage_medium.h"
#include "target/manage_metrics.h"
#include "target/manage_parameters.h"
#include "target/manage_reload.h"
#include "target/manage_save.h"
#include "target/manage_session.h"
#include "target/manage_size.h"
#include "target/manage_volume.h"
#include "target/port/port_change.h"
#include "target/server_drain.h"

#define METHODS_INTERFACE "org.rdmablock.target"
#define METHODS_REFUSED	  METHODS_INTERFACE ".Refused"

/* Further sessions are counted but not listed. */
#define METHODS_SESSIONS_MAX 4096

/* ---- failures ---- */

void method_refused(struct control_result *ret, const struct manage_fault *f)
{
	ret->error = METHODS_REFUSED;
	ret->parameters = json_pack(
		"{sososo}", "object", varlink_text(f->object), "field",
		varlink_text(f->field), "reason", varlink_text(f->reason));
}

static void method_bad(struct control_result *ret, const char *parameter)
{
	ret->error = VARLINK_BAD_PARAMETER;
	ret->parameters = json_pack("{ss}", "parameter", parameter);
}

/* Returns the text @key of @in. NULL: there is none, and this is a failure. */
static const char *method_text(const json_t *in, const char *key,
			       struct control_result *ret)
{
	const char *text = json_string_value(json_object_get(in, key));

	if (!text)
		method_bad(ret, key);
	return text;
}

/* The same of one that may be left out: then *ret_text is NULL. */
static bool method_optional_text(const json_t *in, const char *key,
				 const char **ret_text,
				 struct control_result *ret)
{
	const json_t *value = json_object_get(in, key);

	*ret_text = json_string_value(value);
	if (!value || json_is_string(value) || json_is_null(value))
		return true;
	method_bad(ret, key);
	return false;
}

static bool method_is_texts(const json_t *list)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, one) {
		if (!json_is_string(one))
			return false;
	}
	return json_is_array(list);
}

/* Returns an optional flag. */
static bool method_flag(const json_t *in, const char *key, bool *ret_flag,
			struct control_result *ret)
{
	const json_t *value = json_object_get(in, key);

	*ret_flag = json_is_true(value);
	if (!value || json_is_boolean(value) || json_is_null(value))
		return true;
	method_bad(ret, key);
	return false;
}

static void method_fault_of_config(const struct config_fault *from,
				   struct manage_fault *f)
{
	manage_refuse(f, "configuration", from->place, "%s", from->text);
}

/* Writes the name of the volume @vol for a message. @vol may have any error. */
static void method_label_volume(const json_t *vol, char *buf, size_t len)
{
	const char *text = json_string_value(vol);

	if (!text)
		text = json_string_value(json_object_get(vol, "name"));
	if (!text)
		text = json_string_value(json_object_get(vol, "store"));
	if (text)
		snprintf(buf, len, "volume '%.*s'",
			 (int)(strlen(text) < 100 ? strcspn(text, ",") : 100),
			 text);
	else
		snprintf(buf, len, "volume");
}

/* config_check_volume() has refused @vol, at the place "volume". */
static void method_fault_of_volume(const json_t *vol,
				   const struct config_fault *from,
				   struct manage_fault *f)
{
	const char *field = from->place + strlen("volume");
	char object[sizeof(f->object)];

	method_label_volume(vol, object, sizeof(object));
	manage_refuse(f, object, *field == '.' ? field + 1 : field, "%s",
		      from->text);
}

/* ---- after a change ---- */

/* @name: a volume; NULL: the target. */
static void method_log_change(const char *name, const char *field)
{
	char object[128] = "target";

	if (name)
		snprintf(object, sizeof(object), "volume '%.100s'", name);
	manage_log_change("change", object, field);
}

/* The last step of each method that changes something. */
static void method_changed(struct manage *m, json_t *parameters,
			   struct control_result *ret)
{
	/* Others may change it while this is saved. */
	json_int_t generation = (json_int_t)m->generation;
	struct manage_fault f;
	char warning[2 * sizeof(f)];

	if (m->server->opt->auto_save && !manage_save(m, false, &f)) {
		log_error("the configuration is not saved: %s: %s", f.object,
			  f.reason);
		snprintf(warning, sizeof(warning),
			 "this is done, but not saved: %s: %s", f.object,
			 f.reason);
		json_object_set_new(parameters, "warning",
				    varlink_text(warning));
	}
	json_object_set_new(parameters, "generation", json_integer(generation));
	ret->parameters = parameters;
}

/* ---- queries ---- */

/* A job keeps its progress after its end. */
static bool method_is_working(const struct volume *vol)
{
	enum volume_state state = volume_state(vol);

	return state == VOLUME_FORMATTING || state == VOLUME_SANITIZING;
}

static int method_percent(const struct volume *vol)
{
	return method_is_working(vol)
		       ? (int)((uint64_t)vol->job.progress * 100 / 65536)
		       : 0;
}

/* 0: there is no job, or the time is not known yet. */
static uint32_t method_seconds_left(const struct volume *vol)
{
	uint32_t left = vol->job.seconds_left;

	if (!method_is_working(vol))
		return 0;
	return left < INT32_MAX ? left : INT32_MAX;
}

static void method_add_status(json_t *to, const struct volume *vol)
{
	struct volume_status_facts facts;
	const char *end;

	volume_status_read(vol, &facts);
	end = volume_status_end(&facts);
	json_object_set_new(to, "state",
			    json_string(volume_status_name(facts.status)));
	json_object_set_new(to, "state_since_ms",
			    json_integer((json_int_t)facts.since_ms));
	if (facts.err)
		json_object_set_new(to, "state_error",
				    json_string(strerror(-facts.err)));
	if (end)
		json_object_set_new(to, "state_end", json_string(end));
}

static json_t *method_volume(const struct volume *vol)
{
	json_t *one = json_pack(
		"{s:s, s:i, s:s, s:o, s:o, s:I, s:i, s:b, s:b, s:b, s:i, s:i}",
		"name", vol->name, "lun", (int)vol->lun, "kind", vol->kind,
		"store", varlink_text(vol->path), "serial",
		varlink_text(vol->serial), "size",
		(json_int_t)vol->blocks * vol->block_size, "block_size",
		(int)vol->block_size, "read_only", vol->read_only,
		"write_cache", vol->dev.write_cache, "never_stable",
		volume_is_never_stable(vol), "progress_percent",
		method_percent(vol), "seconds_left",
		(int)method_seconds_left(vol));

	method_add_status(one, vol);
	return one;
}

static int method_compare_luns(const void *one, const void *two)
{
	const struct volume *const *a = one;
	const struct volume *const *b = two;

	if ((*a)->lun != (*b)->lun)
		return (*a)->lun < (*b)->lun ? -1 : 1;
	return strcmp((*a)->name, (*b)->name);
}

/* On worker 0, which changes the list. */
static void method_run_volumes(struct server *s, void *arg)
{
	const struct volume *vols[LUNS_MAX];
	unsigned int cnt = s->luns.cnt;

	memcpy(vols, s->luns.vol, cnt * sizeof(*vols));
	qsort(vols, cnt, sizeof(*vols), method_compare_luns);
	for (unsigned int i = 0; i < cnt; i++)
		json_array_append_new(arg, method_volume(vols[i]));
}

/* Says who may use @vol, as the configuration does. */
static void method_add_rules(json_t *vol, const json_t *config)
{
	const char *name = json_string_value(json_object_get(vol, "name"));
	json_t *rules = json_object_get(config, "allow");
	json_t *own = NULL;
	json_t *other;
	size_t i;

	json_array_foreach(json_object_get(config, "backing"), i, other) {
		if (manage_is_named(other, name))
			own = json_object_get(other, "allow");
	}
	json_object_set(vol, "allow", own ? own : rules);
	json_object_set_new(vol, "follows_target", json_boolean(!own));
}

/* Does not wait for a change. */
static void method_list_volumes(void *user, const json_t *in,
				struct control_result *ret)
{
	struct manage *m = user;
	json_t *list = json_array();
	uint64_t generation;
	json_t *config;
	json_t *vol;
	size_t i;

	server_call(m->server, method_run_volumes, list);
	config = manage_shown(m, &generation);
	json_array_foreach(list, i, vol)
		method_add_rules(vol, config);
	json_decref(config);
	ret->parameters = json_pack("{so}", "volumes", list);
}

struct method_sessions {
	struct port_session *list;
	unsigned int max;
	unsigned int cnt;
	unsigned int volumes;
	json_t *not_ready; /* names of volumes; NULL: not wanted */
};

static void method_list_not_ready(const struct lun_map *luns, json_t *list)
{
	struct volume_status_facts facts;

	for (unsigned int i = 0; i < luns->cnt; i++) {
		volume_status_read(luns->vol[i], &facts);
		if (facts.status != VOLUME_STATUS_READY)
			json_array_append_new(list,
					      json_string(luns->vol[i]->name));
	}
}

static void method_run_sessions(struct server *s, void *arg)
{
	struct method_sessions *sessions = arg;

	sessions->cnt = port_sessions(&s->port, sessions->list, sessions->max);
	sessions->volumes = s->luns.cnt;
	if (sessions->not_ready)
		method_list_not_ready(&s->luns, sessions->not_ready);
}

/* NULL: not over RDMA. */
static json_t *method_negotiated(const struct xp_negotiated *n)
{
	char gid[XP_GID_TEXT_SIZE];

	if (!n->mtu)
		return NULL;
	return json_pack("{sisisisssisi}", "mtu", (int)n->mtu, "port_mtu",
			 (int)n->port_mtu, "read_depth", (int)n->read_depth,
			 "gid", xp_gid_text(n->gid, gid), "pkey", (int)n->pkey,
			 "sl", (int)n->sl);
}

static json_t *method_session(const struct port_session *session)
{
	char addr[INET6_ADDRSTRLEN];
	const uint8_t *bytes = session->addr.s6_addr;

	if (IN6_IS_ADDR_V4MAPPED(&session->addr))
		inet_ntop(AF_INET, bytes + 12, addr, sizeof(addr));
	else
		inet_ntop(AF_INET6, bytes, addr, sizeof(addr));
	return json_pack("{s:s, s:s, s:i, s:i, s:o*}", "initiator",
			 session->initiator, "address", addr, "channels",
			 (int)session->channels, "volumes",
			 (int)session->volumes, "negotiated",
			 method_negotiated(&session->negotiated));
}

static void method_list_sessions(void *user, const json_t *in,
				 struct control_result *ret)
{
	struct manage *m = user;
	struct method_sessions sessions = { .max = METHODS_SESSIONS_MAX };
	json_t *list = json_array();

	sessions.list = calloc(sessions.max, sizeof(*sessions.list));
	if (sessions.list)
		server_call(m->server, method_run_sessions, &sessions);
	for (unsigned int i = 0; i < sessions.cnt && i < sessions.max; i++)
		json_array_append_new(list, method_session(&sessions.list[i]));
	free(sessions.list);
	ret->parameters = json_pack("{soso}", "sessions", list, "total",
				    json_integer(sessions.cnt));
}

static json_t *method_listeners(const struct listen_points *points)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < points->cnt; i++)
		json_array_append_new(list,
				      manage_listener_text(&points->point[i]));
	return list;
}

static void method_run_drain(struct server *s, void *arg)
{
	server_drain_look(s, arg);
}

/* NULL: the target does not stop. */
static json_t *method_stopping(const struct server_drain_facts *f)
{
	json_t *stopping = NULL;

	if (f->stopping)
		stopping = json_pack(
			"{s:i, s:i, s:i, s:i}", "seconds", (int)f->seconds,
			"sessions", (int)f->sessions, "commands",
			(int)f->commands, "flushes", (int)f->flushes);
	if (stopping && f->seconds_left)
		json_object_set_new(stopping, "seconds_left",
				    json_integer(f->seconds_left));
	return stopping;
}

static const char *const method_levels[] = { "error", "warning", "notice",
					     "info",  "debug",	 NULL };

static void method_get_status(void *user, const json_t *in,
			      struct control_result *ret)
{
	struct manage *m = user;
	const struct server *s = m->server;
	struct method_sessions sessions = { .not_ready = json_array() };
	struct server_drain_facts drain = { 0 };
	_cleanup_free_ char *config =
		s->opt->config ? config_path_of(s->opt->config) : NULL;
	json_t *listeners = NULL;
	uint64_t generation = 0;
	int64_t changing;

	server_call(m->server, method_run_sessions, &sessions);
	server_call(m->server, method_run_drain, &drain);
	if (manage_lock_soon(m, &changing)) {
		generation = m->generation;
		listeners = method_listeners(&s->points);
		manage_unlock(m);
	}
	ret->parameters = json_pack(
		"{s:s, s:i, s:i, s:i, s:o, s:i, s:I, s:o, s:s, s:b, s:o, s:o*}",
		"version", RDMA_BLOCK_VERSION, "pid", (int)getpid(), "threads",
		(int)s->worker_cnt, "volumes", (int)sessions.volumes,
		"not_ready", sessions.not_ready, "sessions", (int)sessions.cnt,
		"generation", (json_int_t)generation, "config",
		varlink_text(config ? config : ""), "log_level",
		method_levels[log_level], "auto_save", s->opt->auto_save,
		"listeners", listeners ? listeners : json_array(), "stopping",
		method_stopping(&drain));
	if (!listeners)
		json_object_set_new(ret->parameters, "changing_seconds",
				    json_integer(changing));
}

static void method_get_config(void *user, const json_t *in,
			      struct control_result *ret)
{
	uint64_t generation;
	json_t *config = manage_shown(user, &generation);

	ret->parameters = json_pack("{sosI}", "config", config, "generation",
				    (json_int_t)generation);
}

/* ---- volumes ---- */

/* The files that came with this call are @what for a later one. */
static void method_give(const json_t *in, const char *what,
			struct given_files *given, struct control_result *ret)
{
	const char *name = method_text(in, what, ret);
	struct manage_fault f;
	int err = name ? given_files_name(given, name) : 0;

	if (!err)
		return;
	manage_refuse(&f, name, "", "%s",
		      err == -EBADF ? "no open file came with the call"
				    : strerror(-err));
	method_refused(ret, &f);
}

static void method_give_file(void *user, const json_t *in,
			     struct given_files *given,
			     struct control_result *ret)
{
	method_give(in, "path", given, ret);
}

static void method_give_socket(void *user, const json_t *in,
			       struct given_files *given,
			       struct control_result *ret)
{
	method_give(in, "uri", given, ret);
}

static void method_add_volume(void *user, const json_t *in,
			      struct given_files *given,
			      struct control_result *ret)
{
	struct manage *m = user;
	struct config_fault fault;
	struct manage_fault f;
	json_t *is;
	const json_t *from = json_object_get(in, "volume");
	json_t *vol = config_check_volume(from, "volume", &fault);
	const struct manage_new_volume new = { .vol = vol, .given = given };

	if (!vol) {
		method_fault_of_volume(from, &fault, &f);
		method_refused(ret, &f);
		return;
	}
	/* Without memory, it begins there all the same. */
	config_make_volume_absolute(vol, NULL);
	manage_lock(m);
	if (manage_add_volume(m, &new, &is, &f))
		method_changed(
			m,
			json_pack(
				"{sssI}", "name",
				json_string_value(json_object_get(is, "name")),
				"lun",
				json_integer_value(json_object_get(is, "lun"))),
			ret);
	else
		method_refused(ret, &f);
	manage_unlock(m);
	json_decref(vol);
}

static void method_remove_volume(void *user, const json_t *in,
				 struct control_result *ret)
{
	struct manage *m = user;
	const char *name = method_text(in, "name", ret);
	struct manage_fault f;
	bool force;

	if (!name || !method_flag(in, "force", &force, ret))
		return;
	manage_lock(m);
	if (manage_remove_volume(m, name, force, &f))
		method_changed(m, json_object(), ret);
	else
		method_refused(ret, &f);
	manage_unlock(m);
}

static void method_set_parameters(void *user, const json_t *in,
				  struct control_result *ret)
{
	struct manage *m = user;
	const char *name = method_text(in, "name", ret);
	const char *plugin = name ? method_text(in, "plugin", ret) : NULL;
	struct config_fault fault;
	struct manage_fault f;
	json_t *parameters;

	if (!plugin)
		return;
	parameters = config_check_plugin(json_object_get(in, "parameters"),
					 "volume", &fault);
	if (!parameters) {
		method_fault_of_volume(json_object_get(in, "name"), &fault, &f);
		method_refused(ret, &f);
		return;
	}
	manage_lock(m);
	if (manage_set_parameters(m, name, plugin, parameters, &f)) {
		method_log_change(name, plugin);
		method_changed(m, json_object(), ret);
	} else {
		method_refused(ret, &f);
	}
	manage_unlock(m);
	json_decref(parameters);
}

static void method_bad_size(const char *name, const char *text,
			    struct control_result *ret)
{
	struct manage_fault f;
	char object[sizeof(f.object)];

	snprintf(object, sizeof(object), "volume '%.100s'", name);
	manage_refuse(&f, object, "size",
		      "'%s' is not a size; write 512M or 2G, for example",
		      text);
	method_refused(ret, &f);
}

static bool method_size(const char *name, const json_t *in, uint64_t *ret_bytes,
			struct control_result *ret)
{
	const json_t *value = json_object_get(in, "size");
	const char *text = json_string_value(value);

	*ret_bytes = 0;
	if (json_is_integer(value) && json_integer_value(value) > 0) {
		*ret_bytes = (uint64_t)json_integer_value(value);
		return true;
	}
	if (!value || json_is_null(value) ||
	    (text && size_parse(text, ret_bytes) == 0 && *ret_bytes))
		return true;
	if (text)
		method_bad_size(name, text, ret);
	else
		method_bad(ret, "size");
	return false;
}

static void method_resize_volume(void *user, const json_t *in,
				 struct control_result *ret)
{
	struct manage *m = user;
	const char *name = method_text(in, "name", ret);
	struct manage_fault f;
	uint64_t bytes;

	if (!name || !method_size(name, in, &bytes, ret))
		return;
	manage_lock(m);
	if (manage_resize_volume(m, name, bytes, &bytes, &f))
		ret->parameters = json_pack("{sI}", "size", (json_int_t)bytes);
	else
		method_refused(ret, &f);
	manage_unlock(m);
}

static void method_eject(struct manage *m, const json_t *in, bool eject,
			 struct control_result *ret)
{
	const char *name = method_text(in, "name", ret);
	struct manage_fault f;

	if (!name)
		return;
	manage_lock(m);
	if (!manage_eject_volume(m, name, eject, &f))
		method_refused(ret, &f);
	manage_unlock(m);
}

static void method_eject_volume(void *user, const json_t *in,
				struct control_result *ret)
{
	method_eject(user, in, true, ret);
}

static void method_load_volume(void *user, const json_t *in,
			       struct control_result *ret)
{
	method_eject(user, in, false, ret);
}

/* ---- rules and sessions ---- */

static void method_set_allow(void *user, const json_t *in,
			     struct control_result *ret)
{
	struct manage *m = user;
	const json_t *rules = json_object_get(in, "rules");
	json_t *nobody = NULL;
	struct manage_allow allow = { .rules = rules };
	unsigned int ended = 0;
	struct manage_fault f;

	if (!method_optional_text(in, "volume", &allow.volume, ret))
		return;
	if (!method_is_texts(rules)) {
		method_bad(ret, "rules");
		return;
	}
	if (!json_array_size(rules))
		allow.rules = nobody = json_pack("[s]", ACCESS_NOBODY);
	manage_lock(m);
	if (manage_set_allow(m, &allow, &ended, &f))
		method_changed(m, json_pack("{si}", "ended", (int)ended), ret);
	else
		method_refused(ret, &f);
	manage_unlock(m);
	json_decref(nobody);
	manage_await_sessions(m);
}

static void method_set_faults(void *user, const json_t *in,
			      struct control_result *ret)
{
	struct manage *m = user;
	const char *name = method_text(in, "name", ret);
	const json_t *rules = json_object_get(in, "rules");
	struct manage_fault f;

	if (!name)
		return;
	if (!method_is_texts(rules)) {
		method_bad(ret, "rules");
		return;
	}
	manage_lock(m);
	if (manage_set_faults(m, name, rules, &f)) {
		method_log_change(name, "fault");
		method_changed(m, json_object(), ret);
	} else {
		method_refused(ret, &f);
	}
	manage_unlock(m);
}

/* ---- listeners ---- */

static void method_listened(struct manage *m, bool good,
			    const struct manage_fault *f,
			    struct control_result *ret)
{
	if (good)
		method_changed(m, json_object(), ret);
	else
		method_refused(ret, f);
}

static void method_add_listener(void *user, const json_t *in,
				struct given_files *given,
				struct control_result *ret)
{
	const char *uri = method_text(in, "uri", ret);
	struct manage *m = user;
	struct manage_fault f;

	if (!uri)
		return;
	manage_lock(m);
	method_listened(m, manage_add_listener(m, uri, given, &f), &f, ret);
	manage_unlock(m);
}

static void method_remove_listener(void *user, const json_t *in,
				   struct control_result *ret)
{
	const char *uri = method_text(in, "uri", ret);
	struct manage *m = user;
	struct manage_fault f;

	if (!uri)
		return;
	manage_lock(m);
	method_listened(m, manage_remove_listener(m, uri, &f), &f, ret);
	manage_unlock(m);
}

static void method_kick_session(void *user, const json_t *in,
				struct control_result *ret)
{
	struct manage *m = user;
	const char *initiator = method_text(in, "initiator", ret);
	struct manage_fault f;

	if (!initiator)
		return;
	manage_lock(m);
	if (!manage_kick(m, initiator, &f))
		method_refused(ret, &f);
	manage_unlock(m);
	manage_await_sessions(m);
}

static void method_set_log_level(void *user, const json_t *in,
				 struct control_result *ret)
{
	const char *level = method_text(in, "level", ret);
	struct manage_fault f;

	for (int i = 0; level && method_levels[i]; i++) {
		if (strcmp(level, method_levels[i]) != 0)
			continue;
		log_level = (enum log_level)i;
		return;
	}
	if (!level)
		return;
	manage_refuse(&f, "target", "level",
		      "'%s' is not error, warning, notice, info or debug",
		      level);
	method_refused(ret, &f);
}

/* ---- whole configurations ---- */

/* Returns an optional number; NULL: it is left out. */
static bool method_generation(const json_t *in, const json_t **ret_value,
			      struct control_result *ret)
{
	const json_t *value = json_object_get(in, "generation");

	*ret_value = json_is_integer(value) ? value : NULL;
	if (!value || json_is_integer(value) || json_is_null(value))
		return true;
	method_bad(ret, "generation");
	return false;
}

static bool method_is_of_generation(const struct manage *m, const json_t *value,
				    struct manage_fault *f)
{
	if (!value || (uint64_t)json_integer_value(value) == m->generation)
		return true;
	return manage_refuse(f, "configuration", "generation",
			     "it is %llu now, not %lld: the target has been "
			     "changed meanwhile",
			     (unsigned long long)m->generation,
			     (long long)json_integer_value(value));
}

static void method_refuse_busy(struct control_result *ret, int64_t seconds)
{
	struct manage_fault f;

	manage_refuse(&f, "configuration", "",
		      "it is being changed for %lld s; differences are told "
		      "when that has ended",
		      (long long)seconds);
	method_refused(ret, &f);
}

/* @given: NULL: only tell what would change. */
static void method_do_apply(struct manage *m, const json_t *in,
			    struct given_files *given,
			    struct control_result *ret)
{
	const bool dry_run = !given;
	struct manage_apply how = { .dry_run = dry_run, .given = given };
	struct config_fault fault;
	struct manage_fault f;
	const json_t *generation;
	int64_t changing;
	json_t *changes;
	json_t *want;

	if (!method_flag(in, "prune", &how.prune, ret) ||
	    !method_flag(in, "force", &how.force, ret) ||
	    !method_generation(in, &generation, ret))
		return;
	want = config_check(json_object_get(in, "config"), &fault);
	if (!want) {
		method_fault_of_config(&fault, &f);
		method_refused(ret, &f);
		return;
	}
	/* Without memory, paths begin there all the same. */
	config_make_absolute(want, NULL);
	if (!dry_run) {
		manage_lock(m);
	} else if (!manage_lock_soon(m, &changing)) {
		method_refuse_busy(ret, changing);
		json_decref(want);
		return;
	}
	if (!method_is_of_generation(m, generation, &f) ||
	    !manage_apply(m, want, &how, &changes, &f))
		method_refused(ret, &f);
	else if (dry_run || !json_array_size(changes))
		ret->parameters =
			json_pack("{sosI}", "changes", changes, "generation",
				  (json_int_t)m->generation);
	else
		method_changed(m, json_pack("{so}", "changes", changes), ret);
	manage_unlock(m);
	if (!dry_run)
		manage_await_sessions(m);
	json_decref(want);
}

static void method_apply(void *user, const json_t *in,
			 struct given_files *given, struct control_result *ret)
{
	method_do_apply(user, in, given, ret);
}

static void method_diff(void *user, const json_t *in,
			struct control_result *ret)
{
	method_do_apply(user, in, /* given= */ NULL, ret);
}

static void method_reload(void *user, const json_t *in,
			  struct given_files *given, struct control_result *ret)
{
	struct manage *m = user;
	struct manage_fault f;
	json_t *changes;

	if (!manage_reload(m, given, &changes, &f)) {
		method_refused(ret, &f);
		return;
	}
	manage_lock(m);
	ret->parameters = json_pack("{sosI}", "changes", changes, "generation",
				    (json_int_t)m->generation);
	manage_unlock(m);
}

static void method_save(void *user, const json_t *in,
			struct control_result *ret)
{
	struct manage *m = user;
	struct manage_fault f;
	bool force;

	if (!method_flag(in, "force", &force, ret))
		return;
	manage_lock(m);
	if (manage_save(m, force, &f))
		ret->parameters = json_pack(
			"{so}", "file", varlink_text(m->server->opt->config));
	else
		method_refused(ret, &f);
	manage_unlock(m);
}

/* ---- the table ---- */

#define METHODS_GENERATION "generation: int, warning: ?string"
#define METHODS_CHANGES                                                      \
	"changes: [](action: string, object: string, field: ?string, from: " \
	"?object, to: ?object), " METHODS_GENERATION

static const struct control_method manage_methods[] = {
	{ .name = "GetStatus",
	  .in = "",
	  .out = "version: string, pid: int, threads: int, volumes: int, "
		 "not_ready: []string, sessions: int, generation: int, config: string, log_level: "
		 "string, auto_save: bool, listeners: []string, stopping: "
		 "?(seconds: int, sessions: int, commands: int, flushes: int, "
		 "seconds_left: ?int), changing_seconds: ?int",
	  .help = "Tell what the target is and does; while a change is made "
		  "for changing_seconds, without listeners and generation",
	  .run = method_get_status },
	{ .name = "ListVolumes",
	  .in = "",
	  .out = "volumes: [](name: string, lun: int, kind: string, store: "
		 "string, serial: string, size: int, block_size: int, "
		 "read_only: bool, write_cache: bool, never_stable: bool, "
		 "state: string, state_since_ms: int, state_error: ?string, "
		 "state_end: ?string, progress_percent: int, seconds_left: "
		 "int, allow: []string, follows_target: bool)",
	  .help = "List the volumes that are served; sizes are in bytes; "
		  "follows_target: it has no rules of its own, and allow has "
		  "those of the target",
	  .run = method_list_volumes },
	{ .name = "ListSessions",
	  .in = "",
	  .out = "sessions: [](initiator: string, address: string, channels: "
		 "int, volumes: int, negotiated: ?(mtu: int, port_mtu: int, "
		 "read_depth: int, gid: string, pkey: int, sl: int)), "
		 "total: int",
	  .help = "List the initiators that are logged in",
	  .run = method_list_sessions },
	{ .name = "FollowEvents",
	  .in = "",
	  .out = "event: string, time_ms: int, level: string, text: string, "
		 "nexus: ?string, volume: ?string, lun: ?int",
	  .help = "Tell what happens, until the client goes (more)",
	  .stream = manage_follow_events },
	{ .name = "GetMetrics",
	  .in = "",
	  .out = "metrics: [](name: string, type: string, unit: string, help: "
		 "string, labels: [string]string, value: ?int, times: "
		 "?(count: int, sum_ns: int, p50_ns: int, p99_ns: int, max_ns: "
		 "int, buckets: [](bound_ns: ?int, count: int)))",
	  .help = "Get all metrics; times are in nanoseconds, and each bucket "
		  "has those below its bound",
	  .run = manage_get_metrics },
	{ .name = "GetExposition",
	  .in = "",
	  .out = "text: string",
	  .help = "Get all metrics in the text format of Prometheus",
	  .run = manage_get_exposition },
	{ .name = "GetConfig",
	  .in = "",
	  .out = "config: object, generation: int",
	  .help = "Get the configuration, without a change that is being "
		  "made; generation grows with each change",
	  .run = method_get_config },
	{ .name = "GiveFile",
	  .in = "path: string",
	  .out = "",
	  .help = "Hand over the file of a volume that the next calls on this "
		  "connection add: descriptors come with the call (SCM_RIGHTS), "
		  "one for I/O, and one for each thread of the target",
	  .changes = true,
	  .run_given = method_give_file },
	{ .name = "GiveSocket",
	  .in = "uri: string",
	  .out = "",
	  .help = "Hand over a socket that listens at an address over TCP that the "
		  "next calls on this connection add: its descriptor comes with "
		  "the call (SCM_RIGHTS)",
	  .changes = true,
	  .run_given = method_give_socket },
	{ .name = "AddVolume",
	  .in = "volume: object",
	  .out = "name: string, lun: int, " METHODS_GENERATION,
	  .help = "Serve another volume, as in a configuration file",
	  .changes = true,
	  .run_given = method_add_volume },
	{ .name = "RemoveVolume",
	  .in = "name: string, force: ?bool",
	  .out = METHODS_GENERATION,
	  .help = "Serve a volume no more; force: although initiators see it",
	  .changes = true,
	  .run = method_remove_volume },
	{ .name = "ResizeVolume",
	  .in = "name: string, size: ?string",
	  .out = "size: int",
	  .help = "Make a file longer, or look whether a store has grown",
	  .changes = true,
	  .run = method_resize_volume },
	{ .name = "SetParameters",
	  .in = "name: string, plugin: string, parameters: [string]string",
	  .out = METHODS_GENERATION,
	  .help = "Change parameters of a plugin of a volume, if it can while "
		  "it serves",
	  .changes = true,
	  .run = method_set_parameters },
	{ .name = "SetFaults",
	  .in = "name: string, rules: []string",
	  .out = METHODS_GENERATION,
	  .help = "Replace the faults of a volume that was added with some; what "
		  "is stuck goes on",
	  .changes = true,
	  .run = method_set_faults },
	{ .name = "EjectVolume",
	  .in = "name: string",
	  .out = "",
	  .help = "Take the medium out of a removable volume",
	  .changes = true,
	  .run = method_eject_volume },
	{ .name = "LoadVolume",
	  .in = "name: string",
	  .out = "",
	  .help = "Put the medium back in",
	  .changes = true,
	  .run = method_load_volume },
	{ .name = "SetAllow",
	  .in = "rules: []string, volume: ?string",
	  .out = "ended: int, " METHODS_GENERATION,
	  .help = "Replace the access rules of the target, or of a volume; no "
		  "rule lets nobody in; ended: sessions that must log in again",
	  .changes = true,
	  .run = method_set_allow },
	{ .name = "AddListener",
	  .in = "uri: string",
	  .out = METHODS_GENERATION,
	  .help = "Listen on another address",
	  .changes = true,
	  .run_given = method_add_listener },
	{ .name = "RemoveListener",
	  .in = "uri: string",
	  .out = METHODS_GENERATION,
	  .help = "Listen on an address no more; sessions go on",
	  .changes = true,
	  .run = method_remove_listener },
	{ .name = "KickSession",
	  .in = "initiator: string",
	  .out = "",
	  .help = "End the session of an initiator, which may log in again",
	  .changes = true,
	  .run = method_kick_session },
	{ .name = "Apply",
	  .in = "config: object, prune: ?bool, force: ?bool, generation: ?int",
	  .out = METHODS_CHANGES,
	  .help = "Make the target what a configuration says",
	  .changes = true,
	  .run_given = method_apply },
	{ .name = "Diff",
	  .in = "config: object, prune: ?bool, force: ?bool, generation: ?int",
	  .out = METHODS_CHANGES,
	  .help = "Tell what Apply would change",
	  .run = method_diff },
	{ .name = "Reload",
	  .in = "",
	  .out = METHODS_CHANGES,
	  .help = "Apply the file of --config again, and look for volumes that "
		  "have grown",
	  .changes = true,
	  .run_given = method_reload },
	{ .name = "Save",
	  .in = "force: ?bool",
	  .out = "file: string",
	  .help = "Write the configuration to the file of --config",
	  .changes = true,
	  .run = method_save },
	{ .name = "SetLogLevel",
	  .in = "level: string",
	  .out = "",
	  .help = "Log up to error, warning, notice, info or debug",
	  .changes = true,
	  .run = method_set_log_level },
};

const struct control_interface manage_interface = {
	.name = METHODS_INTERFACE,
	.product = "rdma-target",
	.version = RDMA_BLOCK_VERSION,
	.help = "rdma-target while it runs",
	.errors = "# Nothing has changed, because of this\n"
		  "error Refused (object: string, field: string, reason: "
		  "string)\n",
	.methods = manage_methods,
	.cnt = ARRAY_SIZE(manage_methods),
};
