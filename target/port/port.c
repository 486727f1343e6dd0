/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/port.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Most lines about refused logins in ten seconds. */
#define REFUSALS_BURST 20

/* A login that the rules allow. It waits to become a channel. */
struct login {
	struct list node; /* nexus->logins */
	struct port *port;
	struct nexus *nexus;
	struct xp_conn_request *conn;
	struct access_who who;
	struct srp_login_answer answer;
	bool single;
	bool wants_aer;
};

static struct reactor *port_reactor(const struct port *port)
{
	return port->workers[0].reactor;
}

/* ---- keys ---- */

static int port_find_key(void *ctx, const char *name, unsigned int nth,
			 struct xp_key *ret)
{
	const struct port *port = ctx;
	const struct key *key = key_file_find(port->keys, name, nth);

	if (!key)
		return -ENOENT;
	strcpy(ret->name, key->name);
	memcpy(ret->secret, key->bytes, key->len);
	ret->len = key->len;
	return 0;
}

/* As a login, because it was to be one. */
static void port_handshake_failed(void *ctx, const char *peer, const char *why)
{
	const struct log_about about = { .event = "login-refused" };
	struct port *port = ctx;
	unsigned int dropped;

	port->refused_cnt++;
	if (!log_limit_pass(&port->login_log, REFUSALS_BURST, &dropped))
		return;
	if (dropped)
		log_warn("%u more refused logins left out", dropped);
	log_event(LOG_WARNING, &about, "login from %s refused: %s", peer, why);
}

static void port_init_keys(struct port *port)
{
	port->keyring = (struct xp_keyring){ .find = port_find_key,
					     .refused = port_handshake_failed,
					     .ctx = port };
	port->names.demanded = port->keys;
	if (port->keys)
		access_names_take(&port->names, port->keys);
}

/* ---- start ---- */

void port_init(struct port *port, const struct srp_port_id *id)
{
	static const struct port_limits defaults = PORT_LIMITS_DEFAULT;

	list_init(&port->nexuses);
	port_init_keys(port);
	lun_map_follow_rules(port->luns, &port->allow, &port->names);
	login_log_init(&port->channel_log);
	if (!port->limits.logins)
		port->limits = defaults;
	port->policy = (struct srp_login_policy){
		.max_it_iu_len = CHANNEL_IT_IU_LEN,
		.ti_iu_len = CHANNEL_TI_IU_LEN,
		.req_lim = CHANNEL_REQ_LIM,
		.formats = SRP_FORMATS,
		.imm_data = true,
		.multichan = true,
		.target = *id,
		.accept_unnamed_target = true,
	};
	port->next_number = 1;
}

/* ---- refusals ---- */

static void port_log_refusal(struct port *port,
			     const struct xp_conn_request *conn,
			     const struct srp_port_id *initiator,
			     const char *why)
{
	char name[SRP_PORT_ID_TEXT_SIZE] = "?";
	struct log_about about = { .event = "login-refused" };
	unsigned int dropped;

	if (!log_limit_pass(&port->login_log, REFUSALS_BURST, &dropped))
		return;
	if (dropped)
		log_warn("%u more refused logins left out", dropped);
	if (initiator)
		about.nexus = srp_port_id_format(initiator, name);
	log_event(LOG_WARNING, &about,
		  "login of %s from %s%s%s on %s refused: %s", name, conn->peer,
		  conn->proved ? " as " : "", conn->proved ? conn->proved : "",
		  conn->local, why);
}

static void port_reject(struct xp_conn_request *conn, uint64_t tag,
			uint32_t reason)
{
	struct srp_login_rej rej = {
		.tag = tag,
		.reason = reason,
		.formats = SRP_FORMATS,
	};
	uint8_t pdata[SRP_LOGIN_REJ_SIZE];

	srp_login_rej_encode(pdata, sizeof(pdata), &rej);
	xp_reject(conn, pdata, sizeof(pdata));
}

/* Rejects @conn. @why is what the log says besides the name of the reason. */
static void port_refuse(struct port *port, struct xp_conn_request *conn,
			const struct srp_login_req *req, uint32_t reason,
			const char *why)
{
	char text[256];

	port->refused_cnt++;
	snprintf(text, sizeof(text), "%s%s%s", srp_rej_reason_name(reason),
		 why ? ": " : "", why ? why : "");
	port_log_refusal(port, conn, &req->initiator, text);
	port_reject(conn, req->tag, reason);
}

/* ---- who is who ---- */

static struct access_who port_who(const struct port *port,
				  const struct xp_conn_request *conn,
				  const struct srp_login_req *req)
{
	struct access_who who = {
		.port = req->initiator,
		.addr = access_addr(&conn->peer_addr),
		.must_prove = port->names.demanded,
	};
	const struct access_name *name =
		conn->proved ? access_names_find(&port->names, conn->proved)
			     : NULL;

	if (name) {
		memcpy(who.name, name->name, sizeof(who.name));
		who.read_only = name->read_only;
	}
	return who;
}

/* Of one port identifier. */
static bool port_is_same(const struct port *port, const struct access_who *a,
			 const struct access_who *b)
{
	return access_who_same(a, b) ||
	       lun_map_principal(port->luns, &port->allow, a) ==
		       lun_map_principal(port->luns, &port->allow, b);
}

/* With rules that know one principal, there are no others. */
static struct port_groups port_groups_of(const struct port *port,
					 const struct access_who *who)
{
	struct port_groups groups = { .host = access_host(&who->addr) };

	if (lun_map_has_principals(port->luns, &port->allow, &port->names))
		groups.principal =
			lun_map_principal(port->luns, &port->allow, who);
	return groups;
}

static void port_group(const struct port *port, struct nexus *nexus)
{
	struct port_groups groups = port_groups_of(port, &nexus->who);

	nexus_set_groups(nexus, &groups);
}

void port_regroup(struct port *port)
{
	struct list *it;

	list_for_each(it, &port->nexuses)
		port_group(port, container_of(it, struct nexus, node));
}

/* The nexus is the same with or without the name of the target port: a login that names
 * it differently must end the commands of the older one, too. */
struct nexus *port_find_nexus(const struct port *port,
			      const struct access_who *who)
{
	struct list *it;

	list_for_each(it, &port->nexuses) {
		struct nexus *nexus = container_of(it, struct nexus, node);

		if (!nexus->over &&
		    srp_port_id_equal(&nexus->who.port, &who->port) &&
		    port_is_same(port, &nexus->who, who))
			return nexus;
	}
	return NULL;
}

/* NULL: it has never logged in, or was forgotten. */
static struct port_past_nexus *port_find_past(struct port *port,
					      const struct access_who *who)
{
	unsigned int cnt = port->remembered_cnt < PORT_REMEMBERED
				   ? port->remembered_cnt
				   : PORT_REMEMBERED;

	for (unsigned int i = 0; i < cnt; i++) {
		struct port_past_nexus *m = &port->remembered[i];

		if (srp_port_id_equal(&m->who.port, &who->port) &&
		    port_is_same(port, &m->who, who))
			return m;
	}
	return NULL;
}

/* ---- logins that wait ---- */

/* Logins under many names must not push out what keeps data safe. So a nexus that
 * left LUNs is only overwritten if all did. */
static struct port_past_nexus *port_oldest_past(struct port *port)
{
	for (unsigned int i = 0; i < PORT_REMEMBERED; i++) {
		if (!port->remembered[port->remembered_cnt % PORT_REMEMBERED]
			     .left)
			break;
		port->remembered_cnt++;
	}
	return &port->remembered[port->remembered_cnt++ % PORT_REMEMBERED];
}

static void port_keep_left(struct port_past_nexus *m, const struct nexus *nexus)
{
	if (!nexus->ended_here || nexus_left_nothing(nexus))
		return;
	m->left = malloc(sizeof(*m->left));
	if (m->left)
		*m->left = nexus->left;
	else
		log_error("out of memory: %s may take other volumes for those "
			  "that it had",
			  nexus->name);
}

static void port_remember(struct port *port, const struct nexus *nexus)
{
	struct port_past_nexus *m = port_find_past(port, &nexus->who);

	if (!m)
		m = port_oldest_past(port);
	free(m->left);
	*m = (struct port_past_nexus){ .who = nexus->who,
				       .view = lun_view_digest(&nexus->view) };
	port_keep_left(m, nexus);
}

static void port_free_if_unused(struct port *port, struct nexus *nexus)
{
	if (!list_empty(&nexus->channels) || !list_empty(&nexus->logins))
		return;
	if (!nexus->over && nexus->was_used)
		port_remember(port, nexus);
	if (!nexus->over)
		nexus_end(nexus);
	if (!nexus->closed_cnt)
		nexus_free(nexus);
}

static void login_free(struct login *login)
{
	list_del(&login->node);
	free(login);
}

/* A login, or the channel that it became, no longer counts. */
static void port_login_ended(struct port *port, bool half_open)
{
	port->login_cnt--;
	if (half_open)
		port->half_open_cnt--;
}

static void login_refuse(struct login *login, uint32_t reason, const char *why)
{
	struct srp_login_req req = {
		.tag = login->answer.rsp.tag,
		.initiator = login->who.port,
	};

	port_refuse(login->port, login->conn, &req, reason, why);
	port_login_ended(login->port, /* half_open= */ true);
	login->nexus->login_cnt--;
	login_free(login);
}

static void login_refuse_all(struct nexus *nexus, uint32_t reason,
			     const char *why)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &nexus->logins)
		login_refuse(container_of(it, struct login, node), reason, why);
}

/* ---- channels ---- */

/* The channels of a nexus get different workers, if there are enough. The first
 * channels, which may carry most commands, are spread over all workers in
 * turn. */
static struct worker *port_next_worker(const struct port *port,
				       const struct nexus *nexus)
{
	unsigned int index = nexus->first_worker + nexus->channel_cnt;

	return &port->workers[index % port->worker_cnt];
}

static void port_admit(struct port *port, struct login *login)
{
	struct nexus *nexus = login->nexus;
	struct channel_params params = {
		.port = port,
		.nexus = nexus,
		.worker = port_next_worker(port, nexus),
		.number = port->next_number++,
		.login_rsp = &login->answer.rsp,
		.rules = &login->answer.rules,
		.conn = login->conn,
		.who = &login->who,
		.wants_aer = login->wants_aer,
	};
	struct channel *ch = channel_create(&params);

	if (!ch) {
		login_refuse(login, SRP_REJ_NO_RESOURCES, "out of memory");
		return;
	}
	ch->at_port.half_open = true;
	nexus->login_cnt--;
	login_free(login);
	list_add_tail(&nexus->channels, &ch->at_port.nexus_node);
	nexus->channel_cnt++;
	nexus->was_used = true;
	channel_send_start(ch);
}

/* Admits the logins that no longer need to wait, in order of arrival. */
static void port_serve(struct port *port, struct nexus *nexus)
{
	while (!list_empty(&nexus->logins)) {
		struct login *login =
			list_first(&nexus->logins, struct login, node);

		if (login->single && !list_empty(&nexus->channels))
			return;
		/* Not earlier: a command of an older channel might still take
		 * the unit attention, or make a new reservation. */
		if (login->answer.rsp.multichan == SRP_MULTICHAN_TERMINATED)
			scsi_nexus_lost(&nexus->scsi);
		/* The initiator may take us for the target of its other
		 * channels. */
		if (list_empty(&nexus->channels) && !login->single)
			login->answer.rsp.multichan = SRP_MULTICHAN_NO_CHAN;
		port_admit(port, login);
	}
	port_free_if_unused(port, nexus);
}

static void port_close_channels(struct nexus *nexus, const char *why)
{
	struct list *it;

	list_for_each(it, &nexus->channels)
		channel_send_close(
			container_of(it, struct channel, at_port.nexus_node),
			why);
}

static void port_look_stopped(struct port *port)
{
	if (!port->stopping || port->login_cnt || port->closed_cnt ||
	    port->stopped_called)
		return;
	port->stopped_called = true;
	port->stopped(port);
}

/* Runs on worker 0. Only the memory of the channel is left. */
static void port_run_gone(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, msgs.gone);
	struct nexus *nexus = ch->nexus;
	struct port *port = ch->port;

	nexus->closed_cnt--;
	port->closed_cnt--;
	channel_send_free(ch);
	port_free_if_unused(port, nexus);
	port_look_stopped(port);
}

/* Runs on worker 0. */
static void port_run_closed(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, msgs.closed);
	struct nexus *nexus = ch->nexus;
	struct port *port = ch->port;

	if (ch->conn) {
		/* The worker could not even accept it. */
		port_reject(ch->conn, ch->login_rsp.tag, SRP_REJ_NO_RESOURCES);
		ch->conn = NULL;
	}
	list_del(&ch->at_port.nexus_node);
	nexus->channel_cnt--;
	nexus->closed_cnt++;
	port->closed_cnt++;
	port_login_ended(port, ch->at_port.half_open);
	port_serve(port, nexus);
}

static void port_run_opened(struct reactor_msg *msg)
{
	struct channel *ch = container_of(msg, struct channel, msgs.opened);

	ch->at_port.half_open = false;
	ch->port->half_open_cnt--;
	ch->nexus->negotiated = ch->negotiated;
	/* Not before: a login may be refused, or end before its initiator knows of
	 * it. */
	if (!ch->at_port.drain_sent)
		ch->nexus->ended_here = false;
}

void port_channel_opened(struct channel *ch)
{
	ch->msgs.opened.run = port_run_opened;
	reactor_send(port_reactor(ch->port), &ch->msgs.opened);
}

void port_channel_closed(struct channel *ch)
{
	ch->msgs.closed.run = port_run_closed;
	reactor_send(port_reactor(ch->port), &ch->msgs.closed);
}

void port_channel_gone(struct channel *ch)
{
	ch->msgs.gone.run = port_run_gone;
	reactor_send(port_reactor(ch->port), &ch->msgs.gone);
}

/* ---- login ---- */

static struct nexus *port_find_or_create_nexus(struct port *port,
					       const struct access_who *who,
					       const struct lun_view *view)
{
	struct nexus *nexus = port_find_nexus(port, who);
	const struct port_past_nexus *was;

	if (nexus) {
		nexus->who = *who;
		return nexus;
	}
	nexus = nexus_create(who, port->luns, view, port->worker_cnt);
	if (!nexus)
		return NULL;
	port_group(port, nexus);
	was = port_find_past(port, who);
	if (was) {
		if (was->left)
			nexus->left = *was->left;
		nexus->ended_here = true;
		nexus_come_back(nexus, was->view != lun_view_digest(view));
	}
	nexus->first_worker = port->next_worker++ % port->worker_cnt;
	list_add_tail(&port->nexuses, &nexus->node);
	return nexus;
}

/* A SINGLE login ends all channels and waiting logins of the nexus. */
static void port_replace_nexus(struct nexus *nexus, struct login *login)
{
	login_refuse_all(nexus, SRP_REJ_UNSPECIFIED,
			 "replaced by a newer login");
	if (list_empty(&nexus->channels))
		return;
	login->answer.rsp.multichan = SRP_MULTICHAN_TERMINATED;
	port_close_channels(nexus,
			    "replaced by a new login of the same initiator");
}

static struct login *login_create(struct port *port, struct nexus *nexus,
				  struct xp_conn_request *conn,
				  const struct access_who *who,
				  const struct srp_login_req *req,
				  const struct srp_login_answer *answer)
{
	struct login *login = calloc(1, sizeof(*login));

	if (!login)
		return NULL;
	login->port = port;
	login->nexus = nexus;
	login->conn = conn;
	login->who = *who;
	login->answer = *answer;
	login->single = req->multichan == SRP_MULTICHAN_SINGLE;
	login->wants_aer = req->aer;
	list_init(&login->node);
	return login;
}

/* The login rules allow @req. From here on, only limits can refuse it. */
static void port_log_in(struct port *port, struct xp_conn_request *conn,
			const struct access_who *who,
			const struct srp_login_req *req,
			const struct srp_login_answer *answer,
			const struct lun_view *view)
{
	struct nexus *nexus = port_find_or_create_nexus(port, who, view);
	struct login *login =
		nexus ? login_create(port, nexus, conn, who, req, answer)
		      : NULL;

	if (!login) {
		port_refuse(port, conn, req, SRP_REJ_NO_RESOURCES,
			    "out of memory");
		if (nexus)
			port_free_if_unused(port, nexus);
		return;
	}
	port->login_cnt++;
	port->half_open_cnt++;
	if (login->single)
		port_replace_nexus(nexus, login);
	list_add_tail(&nexus->logins, &login->node);
	nexus->login_cnt++;
	port_serve(port, nexus);
}

/* True if one login more would be more than three quarters. */
static bool port_leaves_too_few(unsigned int cnt, unsigned int max)
{
	return cnt + 1 > max - max / 4;
}

/* Logins, those that have not become channels included. */
struct port_count {
	unsigned int logins;
	unsigned int half_open;
};

static void port_count_one(struct port_count *c, bool half_open)
{
	c->logins++;
	c->half_open += half_open;
}

/* Adds those of @nexus; only those from @host, if that is not NULL. */
static void port_count_nexus(const struct nexus *nexus, const uint64_t *host,
			     struct port_count *c)
{
	struct list *it;

	list_for_each(it, &nexus->channels) {
		const struct channel *ch =
			container_of(it, struct channel, at_port.nexus_node);

		if (!host || access_host(&ch->who.addr) == *host)
			port_count_one(c, ch->at_port.half_open);
	}
	list_for_each(it, &nexus->logins) {
		const struct login *login =
			container_of(it, struct login, node);

		if (!host || access_host(&login->who.addr) == *host)
			port_count_one(c, /* half_open= */ true);
	}
}

static struct port_count port_count_host(const struct port *port, uint64_t host)
{
	struct port_count c = { 0 };
	struct list *it;

	list_for_each(it, &port->nexuses)
		port_count_nexus(container_of(it, struct nexus, node), &host,
				 &c);
	return c;
}

static struct port_count port_count_principal(const struct port *port,
					      uint64_t principal)
{
	struct port_count c = { 0 };
	struct list *it;

	list_for_each(it, &port->nexuses) {
		const struct nexus *nexus =
			container_of(it, struct nexus, node);

		if (nexus->principal == principal)
			port_count_nexus(nexus, /* host= */ NULL, &c);
	}
	return c;
}

/* Which limit is reached. NULL: none. */
static const char *port_host_is_full(const struct port *port, uint64_t host)
{
	const struct port_limits *max = &port->limits;
	struct port_count is = port_count_host(port, host);

	if (is.logins >= max->host_logins)
		return "too many logins from its address (--max-host-logins)";
	if (is.half_open >= max->host_half_open)
		return "too many logins from its address have not been "
		       "completed (--max-host-half-open)";
	return NULL;
}

static const char *port_principal_is_full(const struct port *port,
					  uint64_t principal)
{
	const struct port_limits *max = &port->limits;
	struct port_count is = port_count_principal(port, principal);

	if (port_leaves_too_few(is.logins, max->logins))
		return "too many logins by its access rule; the last quarter "
		       "is for others (--max-logins)";
	if (port_leaves_too_few(is.half_open, max->half_open))
		return "too many logins by its access rule have not been "
		       "completed; the last quarter is for others "
		       "(--max-half-open)";
	return NULL;
}

/* Which limit a login of @who reaches. NULL: none. */
static const char *port_what_is_full(struct port *port,
				     const struct access_who *who)
{
	const struct port_limits *max = &port->limits;
	struct port_groups groups;
	const char *full;

	if (port->login_cnt >= max->logins)
		return "too many logins (--max-logins)";
	if (port->half_open_cnt >= max->half_open)
		return "too many logins have not been completed "
		       "(--max-half-open)";
	groups = port_groups_of(port, who);
	full = port_host_is_full(port, groups.host);
	if (!full && groups.principal)
		full = port_principal_is_full(port, groups.principal);
	return full;
}

/*
 * A reason to reject besides the login rules, or 0. *ret_why is its text. A
 * login that replaces its nexus does not count the channels that it ends: an
 * initiator that comes back is not rejected because of the channels that it
 * lost.
 */
static uint32_t port_lacks_room(struct port *port, const struct access_who *who,
				const struct srp_login_req *req,
				const char **ret_why)
{
	const struct nexus *nexus = port_find_nexus(port, who);
	bool single = req->multichan == SRP_MULTICHAN_SINGLE;

	*ret_why = NULL;
	if (port->stopping)
		*ret_why = "the target is stopping";
	else if (!nexus || !single)
		*ret_why = port_what_is_full(port, who);
	if (*ret_why)
		return SRP_REJ_NO_RESOURCES;
	if (!single && nexus &&
	    nexus->channel_cnt + nexus->login_cnt >= port->limits.channels) {
		*ret_why = "too many channels of one initiator "
			   "(--max-channels)";
		return SRP_REJ_CHANNEL_LIMIT;
	}
	return 0;
}

/* ---- access ---- */

static void port_make_view(struct port *port,
			   const struct xp_conn_request *conn,
			   const struct access_who *who, struct lun_view *view)
{
	const struct volume *hidden;
	char name[SRP_PORT_ID_TEXT_SIZE];
	unsigned int dropped;

	lun_view_make(view, port->luns, &port->allow, who, &hidden);
	if (hidden &&
	    log_limit_pass(&port->login_log, REFUSALS_BURST, &dropped))
		log_warn("%s from %s does not see volume '%s': its LUN is "
			 "another volume's; give one of them another lun=",
			 srp_port_id_format(&who->port, name), conn->peer,
			 hidden->name);
}

/* An initiator that comes back after the target has ended its nexus may still take a LUN
 * for the volume that it was. */
static void port_keep_meaning(struct port *port,
			      const struct xp_conn_request *conn,
			      const struct access_who *who,
			      struct lun_view *view)
{
	const struct port_past_nexus *was = port_find_past(port, who);
	unsigned int cnt = view->cnt;
	char name[SRP_PORT_ID_TEXT_SIZE];
	unsigned int dropped;

	if (was && was->left)
		nexus_keep_meaning(was->left, view);
	if (view->cnt == cnt ||
	    !log_limit_pass(&port->login_log, REFUSALS_BURST, &dropped))
		return;
	log_warn("%s from %s knows the LUNs of %u volumes as other volumes; it "
		 "sees them when it has logged out and in again",
		 srp_port_id_format(&who->port, name), conn->peer,
		 cnt - view->cnt);
}

/*
 * Why the initiator is rejected for what it may see. NULL: it is not. The view
 * of a nexus is decided once; one that is to see other volumes by now must
 * end before. Volumes whose LUN was another volume to the nexus are removed
 * from @view.
 */
static const char *port_lacks_access(struct port *port,
				     const struct xp_conn_request *conn,
				     const struct access_who *who,
				     struct lun_view *view)
{
	const struct nexus *nexus = port_find_nexus(port, who);

	if (conn->proved && !who->name[0])
		return "the key by which it has proved its name was removed "
		       "meanwhile";
	if (view->cnt == 0 && who->must_prove && !who->name[0])
		return "it has proved no name by a key (--keys), and no rule "
		       "by address allows a volume (--allow, ,allow=)";
	if (view->cnt == 0 && lun_view_awaits(view))
		return "what it may see is not here yet";
	if (view->cnt == 0)
		return "no volume is allowed for it (--allow, ,allow=)";
	if (nexus)
		nexus_keep_meaning(&nexus->left, view);
	else
		port_keep_meaning(port, conn, who, view);
	if (!nexus || lun_view_equal(&nexus->view, view))
		return NULL;
	if (lun_view_has_leaver(&nexus->view))
		return "a volume that it sees is being removed, and commands "
		       "of it still run";
	return "its last session is still ending, as its access rules have "
	       "changed";
}

static void port_requested(struct xp_conn_request *conn)
{
	struct port *port = conn->user;
	struct srp_login_answer answer;
	struct srp_login_req req;
	struct access_who who;
	struct lun_view view;
	const char *why;
	uint32_t reason;

	if (srp_login_req_decode(conn->pdata, conn->pdata_len, &req) < 0) {
		port_log_refusal(port, conn, NULL,
				 "not an SRP login (no SRP_LOGIN_REQ in the "
				 "connection request)");
		xp_reject(conn, NULL, 0);
		return;
	}
	if (*conn->unfit) {
		port_refuse(port, conn, &req, SRP_REJ_CHANNEL_LIMIT,
			    conn->unfit);
		return;
	}
	srp_login_check(&req, &port->policy, &answer);
	if (answer.reason) {
		port_refuse(port, conn, &req, answer.reason,
			    srp_rej_reason_hint(answer.reason));
		return;
	}
	who = port_who(port, conn, &req);
	port_make_view(port, conn, &who, &view);
	why = port_lacks_access(port, conn, &who, &view);
	if (why) {
		port_refuse(port, conn, &req, SRP_REJ_CHANNEL_LIMIT, why);
		return;
	}
	reason = port_lacks_room(port, &who, &req, &why);
	if (reason)
		port_refuse(port, conn, &req, reason, why);
	else
		port_log_in(port, conn, &who, &req, &answer, &view);
}

/* ---- start and stop ---- */

static int port_add_listener(struct port *port, const struct listen_point *at,
			     struct xp_listener *xl, struct error *e)
{
	int err = port->listener_cnt == ARRAY_SIZE(port->listeners)
			  ? error_set(e, -ENOSPC,
				      "there are too many addresses already")
			  : xp_demand(xl, &at->route, e);

	if (err) {
		xp_unlisten(xl);
		return err;
	}
	if (port->keys)
		xp_listener_set_keys(xl, &port->keyring);
	port->listeners[port->listener_cnt++] =
		(struct port_listener){ .xl = xl, .tag = at->tag };
	return 0;
}

int port_listen(struct port *port, const struct listen_point *at, int fd,
		struct error *e)
{
	const struct sockaddr *addr = (const struct sockaddr *)&at->addr;
	struct xp *xp = port->workers[0].xp[at->kind];
	struct xp_listener *xl;
	int err = fd < 0 ? xp_listen(xp, addr, at->addr_len, port_requested,
				     port, &xl, e)
			 : xp_listen_on(xp, fd, addr, port_requested, port, &xl,
					e);

	return err ? err : port_add_listener(port, at, xl, e);
}

int port_listen_later(struct port *port, const struct listen_point *at,
		      struct error *e)
{
	struct xp_listener *xl;
	int err = xp_listen_later(port->workers[0].xp[at->kind],
				  (const struct sockaddr *)&at->addr,
				  at->addr_len, port_requested, port, &xl, e);

	return err ? err : port_add_listener(port, at, xl, e);
}

void port_unlisten(struct port *port, unsigned int tag)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < port->listener_cnt; i++) {
		if (port->listeners[i].tag == tag)
			xp_unlisten(port->listeners[i].xl);
		else
			port->listeners[kept++] = port->listeners[i];
	}
	port->listener_cnt = kept;
}

static void port_stop_listening(struct port *port)
{
	while (port->listener_cnt > 0)
		xp_unlisten(port->listeners[--port->listener_cnt].xl);
}

void port_end_nexus(struct port *port, struct nexus *nexus, const char *why)
{
	struct list *it;

	nexus->ended_here = true;
	login_refuse_all(nexus, SRP_REJ_NO_RESOURCES, why);
	list_for_each(it, &nexus->channels)
		channel_send_drain(
			container_of(it, struct channel, at_port.nexus_node),
			why);
	port_free_if_unused(port, nexus);
}

bool port_has_one_principal(const struct port *port, const struct nexus *nexus)
{
	struct list *it;

	list_for_each(it, &nexus->channels) {
		const struct channel *ch =
			container_of(it, struct channel, at_port.nexus_node);

		if (!port_is_same(port, &nexus->who, &ch->who))
			return false;
	}
	list_for_each(it, &nexus->logins) {
		const struct login *login =
			container_of(it, struct login, node);

		if (!port_is_same(port, &nexus->who, &login->who))
			return false;
	}
	return true;
}

static void port_run_stopped(struct reactor_msg *msg)
{
	port_look_stopped(container_of(msg, struct port, stopped_msg));
}

void port_stop(struct port *port)
{
	struct list *it;
	struct list *tmp;

	assert(!port->stopping);
	port->stopping = true;
	port_stop_listening(port);
	list_for_each_safe(it, tmp, &port->nexuses)
		port_end_nexus(port, container_of(it, struct nexus, node),
			       "the target is stopping");
	port->stopped_msg.run = port_run_stopped;
	reactor_send(port_reactor(port), &port->stopped_msg);
}

void port_fini(struct port *port)
{
	port_stop_listening(port);
	assert(port->login_cnt == 0 && port->closed_cnt == 0 &&
	       list_empty(&port->nexuses));
	for (unsigned int i = 0; i < PORT_REMEMBERED; i++)
		free(port->remembered[i].left);
	login_log_fini(&port->channel_log);
}

void port_send_aer(struct nexus *nexus, unsigned int lun,
		   enum channel_event event)
{
	struct list *it;

	list_for_each(it, &nexus->channels)
		channel_send_aer(
			container_of(it, struct channel, at_port.nexus_node),
			lun, event);
}

/* Sends it to all initiators that see @vol. */
static void port_send_aers(struct port *port, const struct volume *vol,
			   enum channel_event event)
{
	struct list *it;

	list_for_each(it, &port->nexuses) {
		struct nexus *nexus = container_of(it, struct nexus, node);

		for (unsigned int lun = 0; lun < LUNS_MAX; lun++) {
			if (nexus->view.vol[lun] == vol)
				port_send_aer(nexus, lun, event);
		}
	}
}

void port_capacity_changed(struct port *port, const struct volume *vol)
{
	scsi_attention_others(port->luns, vol, /* except= */ NULL,
			      SCSI_UA_CAPACITY_CHANGED);
	port_send_aers(port, vol, CHANNEL_CAPACITY_CHANGED);
}

void port_access_changed(struct port *port, const struct volume *vol)
{
	scsi_attention_others(port->luns, vol, /* except= */ NULL,
			      SCSI_UA_PATH_CHANGED);
	port_send_aers(port, vol, CHANNEL_ACCESS_CHANGED);
}
