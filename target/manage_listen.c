/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_listen.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "target/privileges.h"
#include "target/responder_process.h"

/* ---- by message ---- */

struct manage_listen_call {
	const struct listen_point *at;
	int fd; /* of a socket that listens there; -1: none */
	unsigned int tag;
	struct error *e;
	int res;
};

static void manage_run_listen(struct server *s, void *arg)
{
	struct manage_listen_call *call = arg;

	call->res = port_listen(&s->port, call->at, call->fd, call->e);
}

static void manage_run_listen_later(struct server *s, void *arg)
{
	struct manage_listen_call *call = arg;

	call->res = server_listen_later(s, call->at, call->e);
}

static void manage_run_unlisten(struct server *s, void *arg)
{
	server_unlisten(s, ((struct manage_listen_call *)arg)->tag);
}

/* For struct listen_how. */
struct manage_listener {
	struct server *server;
	int fd; /* that rdma-ctl has passed; -1: none */
};

/* Under the system call filter, the target can make no socket. */
static int manage_listen(void *user, const struct listen_point *at,
			 struct error *e)
{
	const struct manage_listener *l = user;
	bool has_socket = !xp_kind_traits(at->kind)->needs_device;
	struct manage_listen_call call = { .at = at,
					   .fd = has_socket ? l->fd : -1,
					   .e = e };

	if (has_socket && l->fd < 0 && !l->server->opt->no_sandbox)
		return error_set(e, -EPERM,
				 "a target that serves makes no sockets: "
				 "rdma-ctl (listen add, apply, reload) makes "
				 "them");
	server_call(l->server, manage_run_listen, &call);
	return call.res;
}

static int manage_listen_later(void *user, const struct listen_point *at,
			       struct error *e)
{
	struct manage_listen_call call = { .at = at, .e = e };
	const struct manage_listener *l = user;

	server_call(l->server, manage_run_listen_later, &call);
	return call.res;
}

static void manage_unlisten(void *user, unsigned int tag)
{
	struct manage_listen_call call = { .tag = tag };
	const struct manage_listener *l = user;

	server_call(l->server, manage_run_unlisten, &call);
}

/* ---- transports ---- */

/* A transport that the target has not used so far. */
struct manage_kind {
	const struct server *s;
	enum xp_kind kind;
	bool await;
	bool made[WORKERS_MAX];
	struct error *e;
	int res;
};

static void manage_run_drop_kind(struct worker *w, void *arg)
{
	struct manage_kind *k = arg;

	for (unsigned int i = 0; i < k->s->luns.cnt; i++)
		worker_unregister_volume(w, k->s->luns.vol[i], k->kind);
	worker_remove_xp(w, k->kind);
}

static void manage_run_make_kind(struct worker *w, void *arg)
{
	struct manage_kind *k = arg;

	if (w->xp[k->kind])
		return;
	k->res = server_create_xp(k->s, w, k->kind, k->await, k->e);
	for (unsigned int i = 0; i < k->s->luns.cnt && !k->res; i++)
		k->res = worker_register_volume(w, k->s->luns.vol[i], k->e);
	k->made[w->index] = true;
}

static int manage_use_kind(void *user, enum xp_kind kind, bool await,
			   struct error *e)
{
	const struct manage_listener *l = user;
	struct server *s = l->server;
	struct manage_kind k = { .s = s, .kind = kind, .await = await, .e = e };

	for (unsigned int i = 0; i < s->worker_cnt && !k.res; i++)
		server_call_worker(&s->workers[i], manage_run_make_kind, &k);
	for (unsigned int i = 0; i < s->worker_cnt && k.res; i++) {
		if (k.made[i])
			server_call_worker(&s->workers[i], manage_run_drop_kind,
					   &k);
	}
	return k.res;
}

/* ---- the configuration ---- */

/* A listener has no other keys. */
static const char *manage_listener_keys(const struct xp_route *route,
					char buf[static 32])
{
	int len = 0;

	buf[0] = '\0';
	if (route->has_pkey)
		len = snprintf(buf, 32, "?pkey=%04x", route->pkey);
	if (route->has_sl)
		snprintf(buf + len, 32 - (size_t)len, "%csl=%u",
			 len ? '&' : '?', route->sl);
	return buf;
}

json_t *manage_listener_text(const struct listen_point *point)
{
	char text[LISTEN_TEXT_SIZE];
	char keys[32];

	return json_sprintf("%s://%s%s", xp_kind_scheme(point->kind),
			    listen_point_text(point, text),
			    manage_listener_keys(&point->route, keys));
}

static bool manage_read_uri(const char *text, struct xp_uri *uri)
{
	struct error ignored;

	return xp_uri_parse(text, uri, &ignored) == 0;
}

static void manage_note_listener(struct manage *m, const char *uri)
{
	json_t *config = manage_edit(m);
	json_t *list = json_object_get(config, "listen");

	if (list)
		json_array_append_new(list, json_string(uri));
	else
		json_object_set_new(config, "listen", json_pack("[s]", uri));
}

/* Replaces the default by its addresses, because there will be others beside
 * it. */
static void manage_name_default(struct manage *m)
{
	struct listen_points *points = &m->server->points;
	struct listen_request *r = &points->request[0];
	json_t *text;

	if (points->request_cnt != 1 || !r->is_default || !points->cnt)
		return;
	text = manage_listener_text(&points->point[0]);
	r->is_default =
		!text || !manage_read_uri(json_string_value(text), &r->uri);
	if (!r->is_default)
		manage_note_listener(m, json_string_value(text));
	json_decref(text);
}

void manage_default_listener(struct manage *m)
{
	m->server->points.request[0].is_default = true;
	manage_edit_key(m, NULL, "listen", NULL);
}

static bool manage_same_uri(const char *text, const struct xp_uri *uri)
{
	struct xp_uri other;

	return manage_read_uri(text, &other) &&
	       xp_uri_same_address(&other, uri);
}

/* Returns the index of @uri in a list of texts, or the size of the list if it
 * is not there. */
static size_t manage_find_uri(const json_t *list, const struct xp_uri *uri)
{
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)list, i, one) {
		if (manage_same_uri(json_string_value(one), uri))
			break;
	}
	return i;
}

bool manage_has_listener(const json_t *list, const char *text)
{
	struct xp_uri uri;
	struct xp_uri other;
	size_t i;

	if (!manage_read_uri(text, &uri))
		return false;
	i = manage_find_uri(list, &uri);
	return i < json_array_size(list) &&
	       manage_read_uri(json_string_value(json_array_get(list, i)),
			       &other) &&
	       xp_route_same(&uri.route, &other.route);
}

/* ---- changes ---- */

static struct listen_how manage_listen_how(struct manage_listener *l)
{
	return (struct listen_how){
		.use_kind = manage_use_kind,
		.listen = manage_listen,
		.listen_later = manage_listen_later,
		.unlisten = manage_unlisten,
		.user = l,
		.numeric = !l->server->opt->no_sandbox,
		.has_keys = l->server->opt->keys,
	};
}

static bool manage_refuse_listener(struct manage_fault *f, const char *uri,
				   const char *reason)
{
	char object[sizeof(f->object)];

	snprintf(object, sizeof(object), "address '%.100s'", uri);
	return manage_refuse(f, object, "", "%s", reason);
}

/* Like the argument of --listen. */
static bool manage_check_uri(const char *text, struct xp_uri *uri,
			     struct manage_fault *f)
{
	json_t *from = json_pack("{s:[s]}", "listen", text);
	struct config_fault fault;
	json_t *config = from ? config_check(from, &fault) : NULL;
	bool good = config && manage_read_uri(text, uri);

	if (!good)
		manage_refuse_listener(f, text, fault.text);
	json_decref(config);
	json_decref(from);
	return good;
}

bool manage_listens(const struct manage *m, const char *text)
{
	const struct listen_request *found;
	struct xp_uri uri;

	if (!manage_read_uri(text, &uri))
		return false;
	found = listen_find(&m->server->points, &uri);
	return found && xp_route_same(&found->uri.route, &uri.route);
}

/* It listens now, but at the next start it makes the socket itself. */
static void manage_warn_of_port(const struct server *s, const char *text,
				unsigned int port)
{
	if (!s->low_ports && !privileges_is_port_of_all(port))
		log_warn("%s: listening, because rdma-ctl could; the target "
			 "itself may not use a port that low, and will not "
			 "start again with it: take another port, or give it "
			 "CAP_NET_BIND_SERVICE",
			 text);
}

/* The target listens at @uri. After an error it does not. */
static int manage_keep_port(struct server *s, const struct listen_how *how,
			    const struct xp_uri *uri, struct error *e)
{
	int err = target_state_dir_keep_port(&s->state_dir, uri->port, e);

	if (err)
		listen_remove(how, listen_find(&s->points, uri)->tag,
			      &s->points);
	return err;
}

bool manage_add_listener(struct manage *m, const char *text,
			 const struct given_files *given,
			 struct manage_fault *f)
{
	const struct given_file *file = given_files_find(given, text);
	struct manage_listener l = { .server = m->server,
				     .fd = file ? file->fds[0] : -1 };
	struct listen_how how = manage_listen_how(&l);
	struct log_about about = { .event = "listen" };
	bool was_default = !json_object_get(m->config, "listen");
	struct xp_uri uri;
	struct error e;
	int err;

	if (!manage_check_uri(text, &uri, f))
		return false;
	if (server_call_begin(m->server))
		return manage_refuse_end(f);
	manage_name_default(m);
	err = listen_add(&how, &uri, &m->server->points, &e);
	if (!err)
		err = manage_keep_port(m->server, &how, &uri, &e);
	if (err && was_default)
		manage_default_listener(m);
	if (!err)
		responder_process_tell(m->server);
	server_call_end(m->server);
	if (err)
		return manage_refuse_listener(f, text, e.text);
	manage_note_listener(m, text);
	log_event(LOG_NOTICE, &about, "listening on %s, too, from now on",
		  text);
	if (file)
		manage_warn_of_port(m->server, text, uri.port);
	return true;
}

/* Finds what @uri names: a request, or the single address of a request. */
static const struct listen_request *
manage_find_listener(const struct listen_points *points,
		     const struct xp_uri *uri)
{
	const struct listen_request *found = listen_find(points, uri);

	for (unsigned int i = 0; i < points->cnt && !found; i++) {
		json_t *text = manage_listener_text(&points->point[i]);

		if (text && manage_same_uri(json_string_value(text), uri))
			found = listen_request_of(points, points->point[i].tag);
		json_decref(text);
	}
	return found;
}

bool manage_remove_listener(struct manage *m, const char *text,
			    struct manage_fault *f)
{
	struct listen_points *points = &m->server->points;
	struct manage_listener l = { .server = m->server, .fd = -1 };
	struct listen_how how = manage_listen_how(&l);
	struct log_about about = { .event = "listen" };
	const struct listen_request *found;
	struct listen_request r;
	struct xp_uri uri;
	json_t *list;

	if (!manage_check_uri(text, &uri, f))
		return false;
	/* A default has a name since there are others. */
	found = manage_find_listener(points, &uri);
	if (!found)
		return manage_refuse_listener(f, text,
					      "the target does not listen "
					      "there; see rdma-ctl status");
	if (points->request_cnt == 1)
		return manage_refuse_listener(f, text,
					      "it is the only one; add another "
					      "one first");
	r = *found;
	if (server_call_begin(m->server))
		return manage_refuse_end(f);
	listen_remove(&how, r.tag, points);
	responder_process_tell(m->server);
	server_call_end(m->server);
	list = json_object_get(manage_edit(m), "listen");
	json_array_remove(list, manage_find_uri(list, &r.uri));
	log_event(
		LOG_NOTICE, &about,
		"not listening on %s any more; sessions that came by it go on",
		text);
	return true;
}
