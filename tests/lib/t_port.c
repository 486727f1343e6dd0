/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_port.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

#include "tests/lib/t_must.h"

void t_port_add_worker(struct t_port *t, struct t_fabric *hub, size_t arena_len)
{
	struct worker *w = &t->workers[t->worker_cnt];
	struct worker_options opt = { .index = t->worker_cnt++,
				      .arena_len = arena_len };
	struct xp_config cfg = { .recv_len = CHANNEL_IT_IU_LEN,
				 .recv_aligned_at = SRP_IMM_OFFSET };
	struct error e;
	struct xp *xp;

	T_MUST(t->worker_cnt <= T_PORT_WORKERS);
	memset(w, 0, sizeof(*w));
	T_MUST(!worker_open(w, &opt, &e));
	cfg.reactor = w->reactor;
	T_MUST(!t_xp_create(hub, &cfg, &xp));
	T_MUST(!worker_add_xp(w, xp, &e));
}

struct volume *t_port_open_volume(struct t_port *t, struct volume_spec *spec)
{
	unsigned int lun = t->luns.cnt;
	struct error e;

	if (lun == 0)
		lun_map_init(&t->luns);
	if (!*spec->name)
		snprintf(spec->name, sizeof(spec->name), "vol%u", lun);
	T_MUST(!volume_open(spec, lun, "t", &t->luns.vol[lun], &e));
	t->luns.cnt++;
	return t->luns.vol[lun];
}

void t_port_attach_volume(struct t_port *t, struct volume *vol)
{
	struct error e;

	for (unsigned int i = 0; i < t->worker_cnt; i++)
		T_MUST(!worker_add_volume(&t->workers[i], vol, &e));
	volume_writers_start(vol, t->workers[0].reactor);
}

struct sockaddr_in t_port_addr(void)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(5555) };

	inet_pton(AF_INET, "10.0.0.1", &sin.sin_addr);
	return sin;
}

struct srp_port_id t_port_name(void)
{
	return srp_port_id_make(0x1122334455667788, 0x99aabbccddeeff00);
}

static void port_stopped(struct port *port)
{
	struct t_port *t = port->user;

	T_MUST(!t->stopped);
	t->stopped = true;
}

void t_port_allow(struct t_port *t, const char *rule)
{
	struct error e;

	t->port.allow.cnt = 0;
	T_MUST(access_rules_add(&t->port.allow, rule, &e));
}

void t_port_start(struct t_port *t, unsigned int workers)
{
	struct sockaddr_in addr = t_port_addr();
	struct listen_point at = { .kind = XP_VERBS, .addr_len = sizeof(addr) };
	struct srp_port_id id = t_port_name();
	struct error e;

	t->stopped = false;
	t->port.workers = t->workers;
	t->port.worker_cnt = workers;
	t->port.luns = &t->luns;
	t->port.stopped = port_stopped;
	t->port.user = t;
	port_init(&t->port, &id);
	if (!t->port.allow.cnt)
		t_port_allow(t, ACCESS_DEFAULT);
	memcpy(&at.addr, &addr, sizeof(addr));
	T_MUST(!port_listen(&t->port, &at, /* fd= */ -1, &e));
}

struct nexus *t_port_nexus(const struct t_port *t, unsigned int who)
{
	struct srp_port_id id = srp_port_id_make(0, who);
	struct nexus *found = NULL;
	struct list *it;

	list_for_each(it, &t->port.nexuses) {
		struct nexus *nexus = container_of(it, struct nexus, node);

		if (!found && !nexus->over &&
		    srp_port_id_equal(&nexus->who.port, &id))
			found = nexus;
	}
	T_MUST(found);
	return found;
}

bool t_port_turn(struct t_port *t)
{
	bool busy = false;

	for (unsigned int i = 0; i < t->worker_cnt; i++)
		busy |= reactor_run_once(t->workers[i].reactor, 0) > 0;
	return busy;
}

size_t t_port_used(const struct t_port *t)
{
	size_t used = 0;

	for (unsigned int i = 0; i < t->worker_cnt; i++)
		used += arena_used(t->workers[i].arena) +
			arena_used(t->workers[i].tables);
	return used;
}

const char *t_port_leftover(const struct t_port *t)
{
	if (t_port_used(t))
		return "memory of an arena";
	if (t->port.login_cnt)
		return "a login";
	if (!list_empty(&t->port.nexuses) || !list_empty(&t->luns.nexuses))
		return "a nexus";
	for (unsigned int i = 0; i < t->worker_cnt; i++) {
		if (!list_empty(&t->workers[i].channels))
			return "a channel";
		if (!list_empty(&t->workers[i].managing))
			return "a task management function";
	}
	return NULL;
}

void t_port_end(struct t_port *t)
{
	T_MUST(t->stopped);
	port_fini(&t->port);
	memset(&t->port, 0, sizeof(t->port));
}

struct t_rest {
	struct reactor_msg msg;
	bool rested;
};

static void volume_rested(struct reactor_msg *msg)
{
	container_of(msg, struct t_rest, msg)->rested = true;
}

static void let_rest(struct t_port *t, struct volume *vol)
{
	struct t_rest rest = { .msg.run = volume_rested };

	volume_writers_rest(vol, t->workers[0].reactor, &rest.msg);
	while (!rest.rested)
		t_port_turn(t);
}

void t_port_close_volumes(struct t_port *t)
{
	for (unsigned int lun = 0; lun < t->luns.cnt; lun++) {
		struct volume *vol = t->luns.vol[lun];

		let_rest(t, vol);
		for (unsigned int i = 0; i < t->worker_cnt; i++)
			worker_remove_volume(&t->workers[i], vol);
		volume_close(vol);
	}
	t->luns.cnt = 0;
}

void t_port_close_workers(struct t_port *t)
{
	while (t->worker_cnt)
		worker_close(&t->workers[--t->worker_cnt]);
}
