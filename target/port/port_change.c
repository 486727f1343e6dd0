/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/port_change.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

static void change_make_view_anew(const struct port *port,
				  const struct nexus *nexus,
				  struct lun_view *view)
{
	const struct volume *hidden;

	lun_view_make(view, port->luns, &port->allow, &nexus->who, &hidden);
}

static void change_make_view(const struct port *port, const struct nexus *nexus,
			     struct lun_view *view)
{
	change_make_view_anew(port, nexus, view);
	nexus_keep_meaning(&nexus->left, view);
}

/* What survives a restart has the principals of the rules as they are now. */
static void change_follow_rules(struct port *port)
{
	struct lun_map *luns = port->luns;

	lun_map_follow_rules(luns, &port->allow, &port->names);
	for (unsigned int i = 0; i < luns->cnt; i++)
		volume_job_save_again(luns->vol[i], &port->workers[0].block);
}

/* ---- volumes that are added ---- */

static void change_show(struct nexus *nexus, const struct lun_view *view,
			unsigned int lun)
{
	scsi_nexus_attention(&nexus->scsi, /* lun= */ -1, SCSI_UA_LUNS_CHANGED);
	nexus->view.principal[lun] = view->principal[lun];
	scsi_nexus_gain(&nexus->scsi, lun);
	nexus->view.read_only[lun] = view->read_only[lun];
	nexus->view.cnt++;
	/* Last: a thread that finds the volume must find the rest. */
	__atomic_store_n(&nexus->view.vol[lun], view->vol[lun],
			 __ATOMIC_RELEASE);
}

/* Shows @nexus the volumes that a new login would see and that it does not
 * have. */
static void change_show_new(struct port *port, struct nexus *nexus)
{
	struct lun_view view;

	change_make_view(port, nexus, &view);
	for (unsigned int lun = 0; lun < LUNS_MAX; lun++) {
		if (!view.vol[lun] || nexus->view.vol[lun])
			continue;
		change_show(nexus, &view, lun);
		port_send_aer(nexus, /* lun= */ 0, CHANNEL_LUNS_CHANGED);
	}
}

/* True if a new nexus would see @vol, and this one does not. */
static bool change_keeps_from(const struct port *port,
			      const struct nexus *nexus,
			      const struct volume *vol)
{
	struct lun_view view;

	change_make_view_anew(port, nexus, &view);
	for (unsigned int lun = 0; lun < LUNS_MAX; lun++) {
		if (view.vol[lun] == vol)
			return nexus->view.vol[lun] != vol;
	}
	return false;
}

void port_volume_added(struct port *port, struct volume *vol)
{
	struct lun_map *luns = port->luns;
	unsigned int kept = 0;
	struct list *it;
	struct list *tmp;

	assert(luns->cnt < LUNS_MAX);
	luns->vol[luns->cnt++] = vol;
	change_follow_rules(port);
	port_regroup(port);
	list_for_each_safe(it, tmp, &port->nexuses) {
		struct nexus *nexus = container_of(it, struct nexus, node);

		if (nexus->over)
			continue;
		if (!port_has_one_principal(port, nexus)) {
			port_end_nexus(port, nexus,
				       "other rules of the new volume fit one "
				       "of its addresses than another");
			continue;
		}
		change_show_new(port, nexus);
		kept += change_keeps_from(port, nexus, vol);
	}
	if (kept)
		log_warn("volume '%s': %u initiators that are logged in know "
			 "its LUN as another volume; they see it when they "
			 "have logged out and in again",
			 vol->name, kept);
}

void port_awaits_less(struct port *port)
{
	struct list *it;

	list_for_each(it, &port->nexuses) {
		struct nexus *nexus = container_of(it, struct nexus, node);
		struct lun_view view;

		change_make_view_anew(port, nexus, &view);
		for (unsigned int lun = 0; lun < LUNS_MAX; lun++)
			__atomic_store_n(&nexus->view.awaited[lun],
					 view.awaited[lun], __ATOMIC_RELAXED);
	}
}

/* ---- volumes that are removed ---- */

static bool change_sees(const struct nexus *nexus, const struct volume *vol)
{
	for (unsigned int lun = 0; lun < LUNS_MAX; lun++) {
		if (nexus->view.vol[lun] == vol)
			return true;
	}
	return false;
}

const char *port_volume_user(const struct port *port, const struct volume *vol)
{
	struct list *it;

	list_for_each(it, &port->nexuses) {
		const struct nexus *nexus =
			container_of(it, struct nexus, node);

		if (!nexus->over && change_sees(nexus, vol))
			return nexus->name;
	}
	return NULL;
}

/* True if @nexus and another one, which is older, are of one initiator now: only another
 * principal made them two. A login would find the older one, and leave the commands of this
 * one alone. */
static bool change_is_twin(const struct port *port, const struct nexus *nexus)
{
	return port_find_nexus(port, &nexus->who) != nexus;
}

/* The rules of the volume may have told two initiators apart. */
static void change_end_twins(struct port *port)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &port->nexuses) {
		struct nexus *nexus = container_of(it, struct nexus, node);

		if (!nexus->over && change_is_twin(port, nexus))
			port_end_nexus(
				port, nexus,
				"another session is of the same initiator "
				"without the rules of the volume that goes");
	}
}

void port_volume_leaves(struct port *port, struct volume *vol)
{
	struct lun_map *luns = port->luns;
	unsigned int at = 0;

	while (luns->vol[at] != vol)
		at++;
	luns->cnt--;
	for (; at < luns->cnt; at++)
		luns->vol[at] = luns->vol[at + 1];
	luns->vol[at] = NULL;
	vol->leaving = true;
	volume_status_look(vol);
	port_regroup(port);
	change_end_twins(port);
}

static void change_hide(struct nexus *nexus, unsigned int lun)
{
	scsi_nexus_lose(&nexus->scsi, lun);
	nexus_leave(nexus, lun);
	__atomic_store_n(&nexus->view.vol[lun], NULL, __ATOMIC_RELEASE);
	nexus->view.read_only[lun] = false;
	nexus->view.cnt--;
	scsi_nexus_attention(&nexus->scsi, /* lun= */ -1, SCSI_UA_LUNS_CHANGED);
}

void port_volume_gone(struct port *port, struct volume *vol)
{
	struct list *it;

	list_for_each(it, &port->nexuses) {
		struct nexus *nexus = container_of(it, struct nexus, node);

		for (unsigned int lun = 0; lun < LUNS_MAX; lun++) {
			if (nexus->view.vol[lun] != vol)
				continue;
			change_hide(nexus, lun);
			port_send_aer(nexus, /* lun= */ 0,
				      CHANNEL_LUNS_CHANGED);
		}
	}
}

/* ---- sessions ---- */

/* Linux logs in again by itself, and repeats its commands. */
static void change_leave_luns(struct nexus *nexus, const struct lun_view *next)
{
	for (unsigned int lun = 0; lun < LUNS_MAX; lun++) {
		if (nexus->view.vol[lun] &&
		    nexus->view.vol[lun] != next->vol[lun])
			nexus_leave(nexus, lun);
	}
}

/* Other rules fit its address now. It keeps what it has reserved. */
static void change_take_principals(struct nexus *nexus,
				   const struct lun_view *next)
{
	for (unsigned int lun = 0; lun < LUNS_MAX; lun++) {
		if (nexus->view.vol[lun] &&
		    nexus->view.vol[lun] == next->vol[lun])
			scsi_nexus_take_principal(&nexus->scsi, lun,
						  &nexus->view.principal[lun],
						  next->principal[lun]);
	}
}

unsigned int port_rules_changed(struct port *port)
{
	struct list *it;
	struct list *tmp;
	unsigned int cnt = 0;

	list_for_each_safe(it, tmp, &port->nexuses) {
		struct nexus *nexus = container_of(it, struct nexus, node);
		struct lun_view view;

		if (nexus->over)
			continue;
		change_make_view(port, nexus, &view);
		change_take_principals(nexus, &view);
		if (lun_view_equal(&nexus->view, &view) &&
		    port_has_one_principal(port, nexus) &&
		    !change_is_twin(port, nexus))
			continue;
		cnt++;
		change_leave_luns(nexus, &view);
		port_end_nexus(port, nexus, "its access rules have changed");
	}
	change_follow_rules(port);
	port_regroup(port);
	return cnt;
}

static bool change_has_key(const struct key_file *keys,
			   const struct access_name *key)
{
	for (unsigned int i = 0; i < keys->cnt; i++) {
		if (!strcmp(keys->key[i].name, key->name) &&
		    !strcmp(keys->key[i].print, key->print))
			return true;
	}
	return false;
}

/* Is a key of @name not in @keys? Nobody knows which key of a name a session has used. */
static bool change_loses_key(const struct port *port, const char *name,
			     const struct key_file *keys)
{
	for (unsigned int i = 0; i < port->names.cnt; i++) {
		const struct access_name *key = &port->names.name[i];

		if (!strcmp(key->name, name) && !change_has_key(keys, key))
			return true;
	}
	return false;
}

static unsigned int change_end_without_key(struct port *port,
					   const struct key_file *keys)
{
	unsigned int cnt = 0;
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &port->nexuses) {
		struct nexus *nexus = container_of(it, struct nexus, node);

		if (nexus->over || !nexus->who.name[0] ||
		    !change_loses_key(port, nexus->who.name, keys))
			continue;
		cnt++;
		port_end_nexus(port, nexus, "a key of its name was removed");
	}
	return cnt;
}

static void change_take_rights(struct port *port)
{
	struct list *it;

	list_for_each(it, &port->nexuses) {
		struct access_who *who =
			&container_of(it, struct nexus, node)->who;
		const struct access_name *name =
			access_names_find(&port->names, who->name);

		if (name)
			who->read_only = name->read_only;
	}
}

unsigned int port_keys_changed(struct port *port, struct key_file *keys)
{
	unsigned int cnt = change_end_without_key(port, keys);
	struct key_file was = *port->keys;

	*port->keys = *keys;
	*keys = was;
	access_names_take(&port->names, port->keys);
	change_take_rights(port);
	return cnt + port_rules_changed(port);
}

unsigned int port_sessions(const struct port *port, struct port_session *ret,
			   unsigned int max)
{
	struct list *it;
	unsigned int cnt = 0;

	list_for_each(it, &port->nexuses) {
		const struct nexus *nexus =
			container_of(it, struct nexus, node);

		if (nexus->over || cnt++ >= max)
			continue;
		ret[cnt - 1].who = nexus->who;
		ret[cnt - 1].negotiated = nexus->negotiated;
		ret[cnt - 1].channels = nexus->channel_cnt;
		ret[cnt - 1].volumes = nexus->view.cnt;
		ret[cnt - 1].since_ms = nexus->since_ms;
		ret[cnt - 1].view = &nexus->view;
		snprintf(ret[cnt - 1].initiator, sizeof(ret->initiator), "%s",
			 nexus->name);
	}
	return cnt;
}

unsigned int port_ending(const struct port *port, unsigned int before)
{
	unsigned int cnt = 0;
	struct list *n;
	struct list *c;

	list_for_each(n, &port->nexuses) {
		const struct nexus *nexus = container_of(n, struct nexus, node);

		list_for_each(c, &nexus->channels) {
			const struct channel *ch = container_of(
				c, struct channel, at_port.nexus_node);

			cnt += ch->number < before && (ch->at_port.drain_sent ||
						       ch->at_port.close_sent);
		}
	}
	return cnt;
}

bool port_kick(struct port *port, const struct srp_port_id *initiator)
{
	bool found = false;
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &port->nexuses) {
		struct nexus *nexus = container_of(it, struct nexus, node);

		if (nexus->over ||
		    !srp_port_id_equal(&nexus->who.port, initiator))
			continue;
		port_end_nexus(port, nexus,
			       "the administrator has ended the session");
		found = true;
	}
	return found;
}
