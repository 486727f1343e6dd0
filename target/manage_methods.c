/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_methods.h"

#include <arpa/inet.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "base/cleanup.h"
#include "base/size.h"
#include "config/config_path.h"
#include "config/config_volume.h"
#include "target/control/varlink.h"
#include "target/listen.h"
#include "target/manage_access.h"
#include "target/manage_apply.h"
#include "target/manage_events.h"
#include "target/manage_faults.h"
#include "target/manage_keys.h"
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
#include "target/responder_process.h"
#include "target/server_drain.h"

#define METHODS_INTERFACE "org.rdmablock.target"
#define METHODS_REFUSED	  METHODS_INTERFACE ".Refused"

/* Further sessions are counted but not listed. */
#define METHODS_SESSIONS_MAX 4096
/* Of all sessions: worker 0 lists them. Further sessions have a number only. */
#define METHODS_NAMES_MAX 16384

/* ---- the begin and the end of a call ---- */

static const char *method_text(const struct control_call *c, const char *key)
{
	return json_string_value(json_object_get(c->in, key));
}

static bool method_flag(const struct control_call *c, const char *key)
{
	return json_is_true(json_object_get(c->in, key));
}

void method_refused(struct control_call *c, const struct manage_fault *f)
{
	c->error = METHODS_REFUSED;
	c->out = json_pack("{sososo}", "object", varlink_text(f->object),
			   "field", varlink_text(f->field), "reason",
			   varlink_text(f->reason));
}

/* For one change, or several. */
static struct manage *method_begin(struct control_call *c)
{
	manage_lock(c->user);
	return c->user;
}

/* Takes @out over. @good: else the call was refused because of @f. */
static void method_end(struct control_call *c, bool good,
		       const struct manage_fault *f, json_t *out)
{
	manage_unlock(c->user);
	if (good) {
		c->out = out;
		return;
	}
	json_decref(out);
	method_refused(c, f);
}

/* The end of each method that changes the configuration. */
static void method_changed(struct control_call *c, bool good,
			   const struct manage_fault *f, json_t *out)
{
	struct manage *m = c->user;
	bool saves = good && m->server->opt->auto_save;
	struct manage_fault why;

	if (good)
		json_object_set_new(out, "generation",
				    json_integer((json_int_t)m->generation));
	m->saves += saves;
	method_end(c, good, f, out);
	if (saves && !manage_save_change(m, &why))
		log_error("the change is done, but not saved: %s: %s",
			  why.object, why.reason);
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

/* Of one that is not here yet, what words tell. */
static json_t *method_absent(const struct absent_facts *a)
{
	const struct volume_spec *spec = a->spec;

	return json_pack(
		"{s:s, s:i, s:s, s:o, s:o, s:i, s:i, s:b, s:b, s:b, s:i, s:i, "
		"s:s, s:I, s:o, s:s}",
		"name", a->name, "lun", (int)a->lun, "kind",
		spec->store == VOLUME_STORE_PLUGIN ? spec->plugin.name : "file",
		"store", varlink_text(spec->path), "serial",
		varlink_text(spec->serial), "size", 0, "block_size",
		(int)spec->block_size, "read_only", spec->read_only,
		"write_cache", false, "never_stable", false, "progress_percent",
		0, "seconds_left", 0, "state", ABSENT_STATE, "state_since_ms",
		(json_int_t)a->since_ms, "state_error", varlink_text(a->why),
		"state_end", a->next);
}

static json_int_t method_lun(const void *vol)
{
	return json_integer_value(
		json_object_get(*(const json_t *const *)vol, "lun"));
}

static int method_compare_luns(const void *a, const void *b)
{
	if (method_lun(a) != method_lun(b))
		return method_lun(a) < method_lun(b) ? -1 : 1;
	return strcmp(config_get_text(*(const json_t *const *)a, "name"),
		      config_get_text(*(const json_t *const *)b, "name"));
}

/* On worker 0, which changes the lists. */
static void method_run_volumes(struct server *s, void *arg)
{
	json_t *vols[2 * LUNS_MAX];
	struct absent_facts absent;
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < s->luns.cnt; i++)
		vols[cnt++] = method_volume(s->luns.vol[i]);
	for (unsigned int i = 0; absent_look(&s->absents, i, &absent); i++)
		vols[cnt++] = method_absent(&absent);
	qsort(vols, cnt, sizeof(*vols), method_compare_luns);
	for (unsigned int i = 0; i < cnt; i++)
		json_array_append_new(arg, vols[i]);
}

/* Says who may use @vol, as the configuration does. */
static void method_add_rules(json_t *vol, const json_t *config)
{
	const char *name = config_get_text(vol, "name");
	json_t *rules = json_object_get(config, "allow");
	json_t *own = json_object_get(manage_find_in(config, name), "allow");

	json_object_set(vol, "allow", own ? own : rules);
	json_object_set_new(vol, "follows_target", json_boolean(!own));
}

/* Does not wait for a change. */
static void method_list_volumes(struct control_call *c)
{
	struct manage *m = c->user;
	json_t *list = json_array();
	struct manage_view *view;
	json_t *vol;
	size_t i;

	server_call(m->server, method_run_volumes, list);
	view = manage_view_get(m);
	json_array_foreach(list, i, vol)
		method_add_rules(vol, view->config);
	manage_view_put(view);
	c->out = json_pack("{so}", "volumes", list);
}

struct method_sessions {
	struct port_session *list;
	json_t **names; /* of the volumes of each; NULL: not wanted */
	unsigned int name_cnt;
	unsigned int max;
	unsigned int cnt;
	unsigned int volumes;
	json_t *not_ready; /* names of volumes; NULL: not wanted */
};

static void method_list_not_ready(struct server *s, json_t *list)
{
	const struct lun_map *luns = &s->luns;
	struct volume_status_facts facts;
	struct absent_facts absent;

	for (unsigned int i = 0; i < luns->cnt; i++) {
		volume_status_read(luns->vol[i], &facts);
		if (facts.status != VOLUME_STATUS_READY)
			json_array_append_new(list,
					      json_string(luns->vol[i]->name));
	}
	for (unsigned int i = 0; absent_look(&s->absents, i, &absent); i++)
		json_array_append_new(list, json_string(absent.name));
}

/* By LUN. */
static json_t *method_volume_names(const struct lun_view *view)
{
	json_t *names = json_array();

	for (unsigned int lun = 0; lun < LUNS_MAX; lun++) {
		if (view->vol[lun])
			json_array_append_new(
				names, json_string(view->vol[lun]->name));
	}
	return names;
}

/* On worker 0, which changes the views. */
static void method_name_volumes(struct method_sessions *sessions)
{
	for (unsigned int i = 0; i < sessions->cnt && i < sessions->max; i++) {
		const struct port_session *session = &sessions->list[i];

		sessions->name_cnt += session->volumes;
		if (sessions->name_cnt <= METHODS_NAMES_MAX)
			sessions->names[i] = method_volume_names(session->view);
	}
}

static void method_run_sessions(struct server *s, void *arg)
{
	struct method_sessions *sessions = arg;

	sessions->cnt = port_sessions(&s->port, sessions->list, sessions->max);
	if (sessions->names)
		method_name_volumes(sessions);
	sessions->volumes = s->luns.cnt + absents_count(&s->absents);
	if (sessions->not_ready)
		method_list_not_ready(s, sessions->not_ready);
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

/* Takes @names over. */
static json_t *method_session(const struct port_session *session, json_t *names)
{
	char addr[INET6_ADDRSTRLEN];
	const uint8_t *bytes = session->who.addr.s6_addr;
	const char *name = session->who.name;

	if (IN6_IS_ADDR_V4MAPPED(&session->who.addr))
		inet_ntop(AF_INET, bytes + 12, addr, sizeof(addr));
	else
		inet_ntop(AF_INET6, bytes, addr, sizeof(addr));
	return json_pack("{s:s, s:s, s:s*, s:I, s:i, s:i, s:o*, s:o*}",
			 "initiator", session->initiator, "address", addr,
			 "name", *name ? name : NULL, "since_ms",
			 (json_int_t)session->since_ms, "channels",
			 (int)session->channels, "volumes",
			 (int)session->volumes, "volume_names", names,
			 "negotiated", method_negotiated(&session->negotiated));
}

static void method_list_sessions(struct control_call *c)
{
	struct manage *m = c->user;
	struct method_sessions sessions = { .max = METHODS_SESSIONS_MAX };
	json_t *list = json_array();

	sessions.list = calloc(sessions.max, sizeof(*sessions.list));
	sessions.names = calloc(sessions.max, sizeof(*sessions.names));
	if (sessions.list && sessions.names)
		server_call(m->server, method_run_sessions, &sessions);
	for (unsigned int i = 0; i < sessions.cnt && i < sessions.max; i++)
		json_array_append_new(list, method_session(&sessions.list[i],
							   sessions.names[i]));
	free(sessions.names);
	free(sessions.list);
	c->out = json_pack("{soso}", "sessions", list, "total",
			   json_integer(sessions.cnt));
}

static json_t *method_listeners(const struct manage_view *view)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < view->point_cnt; i++)
		if (listen_point_is_up(&view->point[i]))
			json_array_append_new(
				list, manage_listener_text(&view->point[i]));
	return list;
}

static bool method_is_reached(const struct manage_view *view, unsigned int tag)
{
	for (unsigned int i = 0; i < view->point_cnt; i++) {
		if (view->point[i].tag == tag &&
		    listen_point_is_up(&view->point[i]))
			return true;
	}
	return false;
}

/* What waits for RDMA beside an address over TCP misses nothing. */
static json_t *method_waiting(const struct manage_view *view)
{
	json_t *list = json_array();

	for (unsigned int i = 0; i < view->point_cnt; i++)
		if (!method_is_reached(view, view->point[i].tag))
			json_array_append_new(
				list, manage_listener_text(&view->point[i]));
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

/* NULL: it has not. */
static json_t *method_discovery_ended(const struct server *s)
{
	struct responder_facts facts;

	responder_process_facts(s, &facts);
	if (!facts.ended_ms)
		return NULL;
	return json_pack("{s:I, s:s, s:s}", "since_ms",
			 (json_int_t)facts.ended_ms, "error", facts.why, "end",
			 RESPONDER_PROCESS_END);
}

static void method_get_status(struct control_call *c)
{
	struct manage *m = c->user;
	const struct server *s = m->server;
	struct method_sessions sessions = { .not_ready = json_array() };
	struct server_drain_facts drain = { 0 };
	_cleanup_free_ char *config =
		s->opt->config ? config_path_of(s->opt->config) : NULL;
	int64_t changing = manage_changing(m);
	struct manage_view *view = manage_view_get(m);

	server_call(m->server, method_run_sessions, &sessions);
	server_call(m->server, method_run_drain, &drain);
	c->out = json_pack(
		"{s:s, s:i, s:I, s:i, s:i, s:o, s:i, s:I, s:o, s:s, s:b, s:o, "
		"s:o, s:o*, s:o*}",
		"version", RDMA_BLOCK_VERSION, "pid", (int)getpid(), "since_ms",
		(json_int_t)(s->start_ns / 1000000), "threads",
		(int)s->worker_cnt, "volumes", (int)sessions.volumes,
		"not_ready", sessions.not_ready, "sessions", (int)sessions.cnt,
		"generation", (json_int_t)view->generation, "config",
		varlink_text(config ? config : ""), "log_level",
		log_level_names[log_level], "auto_save", s->opt->auto_save,
		"listeners", method_listeners(view), "waiting_listeners",
		method_waiting(view), "stopping", method_stopping(&drain),
		"discovery_ended", method_discovery_ended(s));
	if (changing >= 0)
		json_object_set_new(c->out, "changing_seconds",
				    json_integer(changing));
	manage_view_put(view);
}

static void method_get_config(struct control_call *c)
{
	struct manage_view *view = manage_view_get(c->user);

	c->out = json_pack("{sOsI}", "config", view->config, "generation",
			   (json_int_t)view->generation);
	manage_view_put(view);
}

/* ---- volumes ---- */

/* The files that came with this call are @name for a later one. */
static void method_give(struct control_call *c, const char *name)
{
	int err = given_files_name(c->given, name);
	struct manage_fault f;

	if (!err)
		return;
	manage_refuse(&f, name, "", "%s",
		      err == -EBADF
			      ? "no open file came with the call; has the "
				"target as many as it may have (ulimit "
				"-n, LimitNOFILE=)?"
			      : strerror(-err));
	method_refused(c, &f);
}

static void method_give_file(struct control_call *c)
{
	method_give(c, method_text(c, "path"));
}

static void method_give_socket(struct control_call *c)
{
	method_give(c, method_text(c, "uri"));
}

/* Writes the name of the volume @vol for a message. @vol may have any error. */
static void method_label_volume(const json_t *vol, char *buf, size_t len)
{
	const char *text = json_string_value(vol);

	if (!text)
		text = config_get_text(vol, "name");
	if (!text)
		text = config_get_text(vol, "store");
	if (text)
		snprintf(buf, len, "volume '%.*s'",
			 (int)(strlen(text) < 100 ? strcspn(text, ",") : 100),
			 text);
	else
		snprintf(buf, len, "volume");
}

/* @vol was refused, at the place "volume". */
static void method_refuse_volume(struct control_call *c, const json_t *vol,
				 const struct config_fault *from)
{
	const char *field = from->place + strlen("volume");
	struct manage_fault f;
	char object[MANAGE_LABEL_SIZE];

	method_label_volume(vol, object, sizeof(object));
	manage_refuse(&f, object, *field == '.' ? field + 1 : field, "%s",
		      from->text);
	method_refused(c, &f);
}

static void method_add_volume(struct control_call *c)
{
	const json_t *from = json_object_get(c->in, "volume");
	struct config_fault fault;
	json_t *vol = config_check_volume(from, "volume", NULL, &fault);
	const struct manage_new_volume new = { .vol = vol, .given = c->given };
	json_t *out = json_object();
	struct manage_fault f;
	json_t *is;
	bool good;

	if (!vol) {
		method_refuse_volume(c, from, &fault);
		json_decref(out);
		return;
	}
	/* Without memory, it begins there all the same. */
	config_make_volume_absolute(vol, NULL);
	good = manage_add_volume(method_begin(c), &new, &is, &f);
	if (good) {
		json_object_set(out, "name", json_object_get(is, "name"));
		json_object_set(out, "lun", json_object_get(is, "lun"));
		json_object_set_new(
			out, "read_only",
			json_boolean(json_is_true(json_object_get(is, "ro"))));
		method_add_rules(out, ((struct manage *)c->user)->config);
	}
	method_changed(c, good, &f, out);
	json_decref(vol);
}

static void method_remove_volume(struct control_call *c)
{
	json_t *names = json_pack("[s]", method_text(c, "name"));
	struct manage *m = method_begin(c);
	struct manage_fault f;
	bool good = names ? manage_remove_volumes(m, names,
						  method_flag(c, "force"), &f)
			  : manage_refuse(&f, "target", "", "out of memory");

	method_changed(c, good, &f, json_object());
	json_decref(names);
}

static void method_forget_volume(struct control_call *c)
{
	struct manage_fault f;
	bool good =
		manage_forget_luns(method_begin(c), method_text(c, "name"), &f);

	method_changed(c, good, &f, json_object());
}

static void method_set_parameters(struct control_call *c)
{
	struct config_fault fault;
	struct manage_fault f;
	json_t *parameters = config_check_plugin(
		json_object_get(c->in, "parameters"), "volume", &fault);
	bool good;

	if (!parameters) {
		method_refuse_volume(c, json_object_get(c->in, "name"), &fault);
		return;
	}
	good = manage_set_parameters(method_begin(c), method_text(c, "name"),
				     method_text(c, "plugin"), parameters, &f);
	method_changed(c, good, &f, json_object());
	json_decref(parameters);
}

/* *ret_bytes: 0: none was given. */
static bool method_size(struct control_call *c, uint64_t *ret_bytes)
{
	const json_t *value = json_object_get(c->in, "size");
	const char *text = json_string_value(value);
	char object[MANAGE_LABEL_SIZE];
	struct manage_fault f;

	*ret_bytes = (uint64_t)json_integer_value(value);
	if (!value || json_is_null(value) || json_integer_value(value) > 0 ||
	    (text && size_parse(text, ret_bytes) == 0 && *ret_bytes))
		return true;
	if (text) {
		manage_refuse(&f, manage_label(method_text(c, "name"), object),
			      "size",
			      "'%s' is not a size; write 512M or 2G, for "
			      "example",
			      text);
		method_refused(c, &f);
	} else {
		c->error = VARLINK_BAD_PARAMETER;
		c->out = json_pack("{ss}", "parameter", "size");
	}
	return false;
}

static void method_resize_volume(struct control_call *c)
{
	struct manage_fault f;
	uint64_t bytes;
	bool good;

	if (!method_size(c, &bytes))
		return;
	good = manage_resize_volume(method_begin(c), method_text(c, "name"),
				    bytes, &bytes, &f);
	method_end(c, good, &f, json_pack("{sI}", "size", (json_int_t)bytes));
}

static void method_eject_volume(struct control_call *c)
{
	struct manage_fault f;
	bool good = manage_eject_volume(method_begin(c), method_text(c, "name"),
					/* eject= */ true, &f);

	method_end(c, good, &f, NULL);
}

static void method_load_volume(struct control_call *c)
{
	struct manage_fault f;
	bool good = manage_eject_volume(method_begin(c), method_text(c, "name"),
					/* eject= */ false, &f);

	method_end(c, good, &f, NULL);
}

static void method_set_faults(struct control_call *c)
{
	struct manage_fault f;
	bool good = manage_set_faults(method_begin(c), method_text(c, "name"),
				      json_object_get(c->in, "rules"), &f);

	method_changed(c, good, &f, json_object());
}

/* ---- rules, listeners and sessions ---- */

static void method_set_allow(struct control_call *c)
{
	json_t *nobody = json_pack("[s]", ACCESS_NOBODY);
	const json_t *rules = json_object_get(c->in, "rules");
	const struct manage_allow allow = {
		.volume = method_text(c, "volume"),
		.rules = json_array_size(rules) ? rules : nobody,
	};
	unsigned int ended = 0;
	struct manage_fault f;
	bool good = manage_set_allow(method_begin(c), &allow, &ended, &f);

	method_changed(c, good, &f, json_pack("{si}", "ended", (int)ended));
	json_decref(nobody);
	manage_await_sessions(c->user);
}

static void method_add_listener(struct control_call *c)
{
	struct manage_fault f;
	bool good = manage_add_listener(method_begin(c), method_text(c, "uri"),
					c->given, &f);

	method_changed(c, good, &f, json_object());
}

static void method_remove_listener(struct control_call *c)
{
	struct manage_fault f;
	bool good = manage_remove_listener(method_begin(c),
					   method_text(c, "uri"), &f);

	method_changed(c, good, &f, json_object());
}

static void method_list_keys(struct control_call *c)
{
	const struct manage *m = c->user;
	struct access_names *names = calloc(1, sizeof(*names));
	json_t *list = json_array();
	struct manage_fault f;

	if (!names)
		manage_refuse(&f, "target", "keys", "out of memory");
	if (!names || !manage_get_names(c->user, names, &f)) {
		json_decref(list);
		free(names);
		method_refused(c, &f);
		return;
	}
	for (unsigned int i = 0; i < names->cnt; i++)
		json_array_append_new(
			list, json_pack("{s:s, s:s, s:b}", "name",
					names->name[i].name, "print",
					names->name[i].print, "read_only",
					names->name[i].read_only));
	free(names);
	c->out = json_pack("{s:o, s:o}", "file",
			   varlink_text(m->server->opt->keys_file), "keys",
			   list);
}

static void method_reload_keys(struct control_call *c)
{
	unsigned int ended = 0;
	struct manage_fault f;
	bool good = manage_reload_keys(method_begin(c), c->given, &ended, &f);

	method_end(c, good, &f, json_pack("{si}", "ended", (int)ended));
	manage_await_sessions(c->user);
}

static void method_kick_session(struct control_call *c)
{
	struct manage_fault f;
	bool good =
		manage_kick(method_begin(c), method_text(c, "initiator"), &f);

	method_end(c, good, &f, NULL);
	manage_await_sessions(c->user);
}

static void method_set_log_level(struct control_call *c)
{
	const char *level = method_text(c, "level");
	const struct manage *m = c->user;
	struct manage_fault f;

	for (int i = 0; log_level_names[i]; i++) {
		if (strcmp(level, log_level_names[i]) != 0)
			continue;
		log_level = (enum log_level)i;
		responder_process_tell_level(m->server);
		return;
	}
	manage_refuse(&f, "target", "level",
		      "'%s' is not error, warning, notice, info or debug",
		      level);
	method_refused(c, &f);
}

/* ---- whole configurations ---- */

/* The canonical form of the one in the call. NULL: refused. */
static json_t *method_config(struct control_call *c)
{
	struct config_fault fault;
	struct manage_fault f;
	json_t *config = config_check(json_object_get(c->in, "config"), &fault);

	if (config) {
		/* Without memory, paths begin there all the same. */
		config_make_absolute(config, NULL);
		return config;
	}
	manage_refuse(&f, "configuration", fault.place, "%s", fault.text);
	method_refused(c, &f);
	return NULL;
}

/* The client may have demanded one. */
static bool method_is_of_generation(const struct control_call *c,
				    uint64_t generation, struct manage_fault *f)
{
	const json_t *value = json_object_get(c->in, "generation");

	if (!json_is_integer(value) ||
	    (uint64_t)json_integer_value(value) == generation)
		return true;
	return manage_refuse(f, "configuration", "generation",
			     "it is %llu now, not %lld: the target has been "
			     "changed meanwhile",
			     (unsigned long long)generation,
			     (long long)json_integer_value(value));
}

static struct manage_apply method_how(const struct control_call *c)
{
	return (struct manage_apply){ .prune = method_flag(c, "prune"),
				      .force = method_flag(c, "force"),
				      .given = c->given };
}

/* @changes are taken over. NULL: the call is refused. */
static json_t *method_told_changes(json_t *changes, uint64_t generation)
{
	return json_pack("{sosI}", "changes", changes, "generation",
			 (json_int_t)generation);
}

static void method_apply(struct control_call *c)
{
	const struct manage_apply how = method_how(c);
	json_t *want = method_config(c);
	json_t *changes = NULL;
	struct manage_fault f;
	struct manage *m;
	bool good;

	if (!want)
		return;
	m = method_begin(c);
	good = method_is_of_generation(c, m->generation, &f) &&
	       manage_apply(m, want, &how, &changes, &f);
	if (json_array_size(changes))
		method_changed(c, good, &f,
			       json_pack("{so}", "changes", changes));
	else
		method_end(c, good, &f,
			   method_told_changes(changes, m->generation));
	manage_await_sessions(m);
	json_decref(want);
}

/* Does not wait for a change. */
static void method_diff(struct control_call *c)
{
	struct manage_apply how = method_how(c);
	json_t *want = method_config(c);
	struct manage_view *view;
	json_t *changes;
	struct manage_fault f;

	if (!want)
		return;
	view = manage_view_get(c->user);
	how.view = view;
	how.whole = method_flag(c, "whole");
	if (method_is_of_generation(c, view->generation, &f) &&
	    manage_apply(c->user, want, &how, &changes, &f))
		c->out = method_told_changes(changes, view->generation);
	else
		method_refused(c, &f);
	manage_view_put(view);
	json_decref(want);
}

static void method_reload(struct control_call *c)
{
	json_t *changes = NULL;
	struct manage_fault f;
	bool good = manage_reload(c->user, c->given, &changes, &f);
	struct manage *m = method_begin(c);

	method_end(c, good, &f, method_told_changes(changes, m->generation));
}

static void method_save(struct control_call *c)
{
	struct manage *m = c->user;
	struct manage_fault f;

	if (manage_save(m, method_flag(c, "force"), &f))
		c->out = json_pack("{so}", "file",
				   varlink_text(m->server->opt->config));
	else
		method_refused(c, &f);
}

/* ---- the table ---- */

#define METHODS_GENERATION "generation: int"
#define METHODS_CHANGES                                                      \
	"changes: [](action: string, object: string, field: ?string, from: " \
	"?object, to: ?object, reason: ?string), " METHODS_GENERATION

static const struct control_method manage_methods[] = {
	{ .name = "GetStatus",
	  .in = "",
	  .out = "version: string, pid: int, since_ms: int, threads: int, volumes: int, "
		 "not_ready: []string, sessions: int, generation: int, config: string, log_level: "
		 "string, auto_save: bool, listeners: []string, waiting_listeners: []string, stopping: "
		 "?(seconds: int, sessions: int, commands: int, flushes: int, "
		 "seconds_left: ?int), discovery_ended: ?(since_ms: int, "
		 "error: string, end: string), changing_seconds: ?int",
	  .help = "Tell what the target is and does, without a change that is "
		  "being made for changing_seconds",
	  .run = method_get_status },
	{ .name = "ListVolumes",
	  .in = "",
	  .out = "volumes: [](name: string, lun: int, kind: string, store: "
		 "string, serial: string, size: int, block_size: int, "
		 "read_only: bool, write_cache: bool, never_stable: bool, "
		 "state: string, state_since_ms: int, state_error: ?string, "
		 "state_end: ?string, progress_percent: int, seconds_left: "
		 "int, allow: []string, follows_target: bool)",
	  .help = "List the volumes, also those that are not here yet; sizes are in bytes; "
		  "follows_target: it has no rules of its own, and allow has "
		  "those of the target",
	  .run = method_list_volumes },
	{ .name = "ListSessions",
	  .in = "",
	  .out = "sessions: [](initiator: string, address: string, name: ?string, since_ms: "
		 "int, channels: int, volumes: int, volume_names: ?[]string, "
		 "negotiated: ?(mtu: int, port_mtu: int, "
		 "read_depth: int, gid: string, pkey: int, sl: int)), "
		 "total: int",
	  .help = "List the initiators that are logged in",
	  .run = method_list_sessions },
	{ .name = "ListKeys",
	  .in = "",
	  .out = "file: string, keys: [](name: string, print: string, "
		 "read_only: bool)",
	  .help = "List the names that keys can prove, the newest key of each "
		  "first; print tells keys apart, and tells nothing of them",
	  .run = method_list_keys },
	{ .name = "FollowEvents",
	  .in = "",
	  .out = "event: string, time_ms: int, level: string, text: string, "
		 "nexus: ?string, initiator: ?string, volume: ?string, lun: ?int",
	  .help = "Tell what happens, until the client goes (more)",
	  .streams = true,
	  .run = manage_follow_events },
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
	  .run = method_give_file },
	{ .name = "GiveSocket",
	  .in = "uri: string",
	  .out = "",
	  .help = "Hand over a socket that listens at an address over TCP that the "
		  "next calls on this connection add: its descriptor comes with "
		  "the call (SCM_RIGHTS)",
	  .changes = true,
	  .run = method_give_socket },
	{ .name = "AddVolume",
	  .in = "volume: object",
	  .out = "name: string, lun: int, read_only: bool, allow: []string, "
		 "follows_target: bool, " METHODS_GENERATION,
	  .help = "Serve another volume, as in a configuration file",
	  .changes = true,
	  .run = method_add_volume },
	{ .name = "RemoveVolume",
	  .in = "name: string, force: ?bool",
	  .out = METHODS_GENERATION,
	  .help = "Serve a volume no more; force: although initiators see it",
	  .changes = true,
	  .run = method_remove_volume },
	{ .name = "ForgetVolume",
	  .in = "name: string",
	  .out = METHODS_GENERATION,
	  .help = "Let other volumes have the LUNs of one that is gone",
	  .changes = true,
	  .run = method_forget_volume },
	{ .name = "ResizeVolume",
	  .in = "name: string, size: ?object",
	  .out = "size: int",
	  .help = "Make a file longer, or look whether a store has grown; size: "
		  "a number of bytes, or a text such as \"2G\"",
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
	  .run = method_add_listener },
	{ .name = "RemoveListener",
	  .in = "uri: string",
	  .out = METHODS_GENERATION,
	  .help = "Listen on an address no more; sessions go on",
	  .changes = true,
	  .run = method_remove_listener },
	{ .name = "ReloadKeys",
	  .in = "",
	  .out = "ended: int",
	  .help = "Read the file of --keys again, by a descriptor that GiveFile "
		  "has handed over, and end the sessions of names that have "
		  "lost a key",
	  .changes = true,
	  .run = method_reload_keys },
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
	  .run = method_apply },
	{ .name = "Diff",
	  .in = "config: object, prune: ?bool, force: ?bool, whole: ?bool, generation: ?int",
	  .out = METHODS_CHANGES,
	  .help = "Tell what Apply would change; whole: tell what stands in the "
		  "way in changes, too (refused), instead of an error",
	  .run = method_diff },
	{ .name = "Reload",
	  .in = "",
	  .out = METHODS_CHANGES,
	  .help = "Apply the file of --config again, and look for volumes that "
		  "have grown",
	  .changes = true,
	  .run = method_reload },
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
