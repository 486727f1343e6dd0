/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/server_volumes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "target/block/plugin_host.h"
#if HAVE_JSON
#include "target/manage_arrive.h"
#endif
#include "target/port/port_change.h"
#include "target/port/task_mgmt.h"
#include "target/scsi/unit_share.h"
#include "target/scsi/unit_state.h"
#include "target/scsi/volume_writers.h"

/* ---- opening and closing ---- */

static int server_check_pair(const struct volume *one, const struct volume *two,
			     struct error *e)
{
	if (!strcmp(one->name, two->name))
		return error_set(e, -EEXIST,
				 "two volumes have the name '%s': give one "
				 "another with ,name=",
				 one->name);
	/* One store under two names, such as two paths to one disk, or a serial
	 * number that is given twice: initiators would take the two for one
	 * disk. */
	if (!memcmp(one->info.naa, two->info.naa, SCSI_NAA_LEN))
		return error_set(e, -EEXIST,
				 "volumes '%s' and '%s' are the same disk: "
				 "leave one out, or give one another serial "
				 "number with ,serial=",
				 one->name, two->name);
	/* They may have the same LUN if rules show them to different
	 * initiators. */
	if (one->lun == two->lun && !one->allow.cnt && !two->allow.cnt)
		return error_set(e, -EEXIST,
				 "volumes '%s' and '%s' are both LUN %u: give "
				 "one another with ,lun=",
				 one->name, two->name, one->lun);
	return 0;
}

int server_check_volumes(const struct lun_map *luns, struct error *e)
{
	int err = 0;

	for (unsigned int i = 0; i < luns->cnt && !err; i++) {
		for (unsigned int k = 0; k < i && !err; k++)
			err = server_check_pair(luns->vol[k], luns->vol[i], e);
	}
	return err;
}

/* Gives each volume a LUN: its own, or the lowest free one. Memory without a name is named
 * after it. Which one it really gets, lun_memory_choose() says. */
static void server_number_volumes(const struct target_options *opt,
				  unsigned int luns[])
{
	bool taken[LUNS_MAX] = { false };
	unsigned int next = 0;

	for (unsigned int i = 0; i < opt->backing_cnt; i++) {
		if (opt->backings[i].has_lun)
			taken[opt->backings[i].lun] = true;
	}
	for (unsigned int i = 0; i < opt->backing_cnt; i++) {
		luns[i] = opt->backings[i].lun;
		if (opt->backings[i].has_lun)
			continue;
		while (taken[next])
			next++;
		luns[i] = next++;
	}
}

void server_take_volume(struct server *s, unsigned int index,
			struct volume *vol)
{
	s->backing_of[s->luns.cnt] = index;
	s->luns.vol[s->luns.cnt++] = vol;
}

/* All of them, or the start fails. */
static int server_open_all(struct server *s, const unsigned int numbers[],
			   struct error *e)
{
	int err = 0;

	for (unsigned int i = 0; i < s->opt->backing_cnt && !err; i++) {
		struct volume *vol;

		s->opening = s->opt->backing_texts[i];
		err = volume_open(&s->opt->backings[i], numbers[i],
				  s->target.text, &vol, e);
		s->opening = NULL;
		if (!err)
			server_take_volume(s, i, vol);
	}
	return err;
}

int server_open_volumes(struct server *s, struct error *e)
{
	unsigned int numbers[LUNS_MAX] = { 0 };

	server_number_volumes(s->opt, numbers);
#if HAVE_JSON
	if (server_waits(s))
		return arrive_open_volumes(s, numbers, e);
#endif
	return server_open_all(s, numbers, e);
}

/* Those of the configuration, in its order: what is not here yet has a LUN, too. */
static void server_list_volumes(const struct server *s, struct lun_map *all,
				bool chooses[])
{
	const struct target_options *opt = s->opt;
	unsigned int here = 0;
	unsigned int absent = 0;

	for (unsigned int i = 0; i < opt->backing_cnt; i++) {
		bool is_here = here < s->luns.cnt && s->backing_of[here] == i;

		chooses[i] = !opt->backings[i].has_lun;
		all->vol[i] = is_here ? s->luns.vol[here++]
				      : s->absents.list[absent++]->stand_in;
	}
	all->cnt = opt->backing_cnt;
}

static int server_choose_luns(struct server *s, struct error *e)
{
	_cleanup_free_ struct lun_map *all = calloc(1, sizeof(*all));
	bool chooses[LUNS_MAX] = { false };
	int err;

	if (!all)
		return error_set(e, -ENOMEM, "out of memory");
	server_list_volumes(s, all, chooses);
	for (unsigned int i = 0; i < s->absents.cnt; i++) {
		struct absent *a = s->absents.list[i];

		a->is_fresh = !lun_memory_guess(&s->lun_memory, a->stand_in,
						a->spec->has_lun, all);
		s->luns.awaited[s->luns.awaited_cnt++] = a->stand_in;
	}
	err = lun_memory_choose(&s->lun_memory, all, chooses, e);
	if (err == -EEXIST && lun_memory_lasts(&s->lun_memory))
		error_add(e, ", or remove its line from %s",
			  s->lun_memory.path);
	return err ? err : server_check_volumes(all, e);
}

static void server_log_identity(const struct server *s,
				const struct volume *vol)
{
	if (vol->identity != VOLUME_BY_PATH)
		return;
	volume_log(
		LOG_NOTICE, NULL, vol,
		"%s has no identifier of its own, and its path may be that of "
		"another store after a restart; give it one with ,serial=%s",
		vol->path,
		s->state_dir.path
			? " (until then APTPL, saved mode values, FORMAT "
			  "UNIT and SANITIZE are refused)"
			: "");
}

int server_load_state(struct server *s, struct volume *vol, struct error *e)
{
	int err = s->state_dir.path ? unit_state_load(vol, s->state_dir.path, e)
				    : 0;

	if (!err)
		err = unit_share_start(vol, &s->luns, e);
	if (!err)
		server_log_identity(s, vol);
	return err;
}

int server_load_states(struct server *s, struct error *e)
{
	int err = server_choose_luns(s, e);

	for (unsigned int i = 0; i < s->luns.cnt && !err; i++)
		err = server_load_state(s, s->luns.vol[i], e);
	return err ? err : lun_memory_keep(&s->lun_memory, &s->luns, e);
}

int server_open_journal(const struct server *s, struct volume *vol,
			struct error *e)
{
	return volume_writers_open(vol, s->state_dir.path, e);
}

int server_open_journals(struct server *s, struct error *e)
{
	int err = 0;

	for (unsigned int i = 0; i < s->luns.cnt && !err; i++)
		err = server_open_journal(s, s->luns.vol[i], e);
	return err;
}

void server_save_abandoned(struct server *s)
{
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		if (s->luns.vol[i]->abandoned)
			volume_writers_save(s->luns.vol[i]);
	}
	for (unsigned int i = 0; i < s->leaving_cnt; i++)
		volume_writers_save(s->leaving[i]);
}

int server_attach_volumes(struct server *s, struct error *e)
{
	int err = 0;

	for (unsigned int w = 0; w < s->worker_cnt; w++) {
		while (err == 0 && s->attached[w] < s->luns.cnt) {
			err = worker_add_volume(&s->workers[w],
						s->luns.vol[s->attached[w]], e);
			if (err == 0)
				s->attached[w]++;
		}
	}
	for (unsigned int i = 0; i < s->luns.cnt; i++)
		volume_writers_start(s->luns.vol[i], s->journals.reactor);
	return err;
}

int server_register_volumes(struct server *s, struct error *e)
{
	int err = 0;

	for (unsigned int w = 0; w < s->worker_cnt; w++) {
		for (unsigned int i = 0; i < s->luns.cnt && err == 0; i++)
			err = worker_register_volume(&s->workers[w],
						     s->luns.vol[i], e);
	}
	return err;
}

/* Thread: that of the worker, or setup. */
void server_detach_volumes(struct server *s, struct worker *w)
{
	while (s->attached[w->index] > 0) {
		struct volume *vol = s->luns.vol[--s->attached[w->index]];

		if (!vol->abandoned)
			worker_remove_volume(w, vol);
	}
}

void server_await_no_more(struct server *s, struct absent *a)
{
	struct lun_map *luns = &s->luns;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < luns->awaited_cnt; i++) {
		if (luns->awaited[i] != a->stand_in)
			luns->awaited[kept++] = luns->awaited[i];
	}
	luns->awaited_cnt = kept;
	port_awaits_less(&s->port);
	/* Its thread may free it then. */
	absent_remove(&s->absents, a);
	if (!absents_count(&s->absents))
		store_opener_dismiss(&s->opener);
}

/* ---- sizes and paths ---- */

int server_measure_volume(struct server *s, struct volume *vol)
{
	struct log_about about = volume_about(vol, "volume-resized");
	int res = volume_measure(vol);

	if (res == -ESTALE)
		log_event(LOG_WARNING, &about,
			  "LUN %u (%s) has become smaller; initiators keep the "
			  "old size, and reads of what is missing fail",
			  vol->lun, vol->name);
	else if (res < 0)
		log_event(LOG_ERROR, &about,
			  "LUN %u (%s): cannot tell its size: %s", vol->lun,
			  vol->name, strerror(-res));
	if (res <= 0)
		return res;
	log_event(LOG_NOTICE, &about,
		  "LUN %u (%s) has grown to %llu blocks of %u bytes", vol->lun,
		  vol->name, (unsigned long long)vol->blocks, vol->block_size);
	port_capacity_changed(&s->port, vol);
	return res;
}

static void server_check_paths(struct server *s, struct volume *vol)
{
	const struct scsi_port_groups *groups = &vol->info.groups;

	volume_look_at_paths(vol);
	if (!groups->cnt || vol->told_active == groups->active)
		return;
	vol->told_active = groups->active;
	volume_log(LOG_NOTICE, "path", vol,
		   "%s (target port group %u of %u; %u is active)",
		   volume_is_standby(vol) ? "in standby" : "active",
		   groups->own, groups->cnt, groups->active);
	port_access_changed(&s->port, vol);
}

static void server_preempted(void *user, struct volume *vol, unsigned int cnt)
{
	struct server *s = user;

	if (unit_share_aborted(vol, cnt))
		server_end_preempted(s, vol);
}

void server_end_preempted(struct server *s, struct volume *vol)
{
	struct scsi_pr_nexus nexuses[SCSI_PR_MAX];
	unsigned int cnt = unit_share_take_aborts(vol, nexuses);

	if (!cnt || !task_mgmt_preempt_volume(&s->port, vol, nexuses, cnt,
					      server_preempted, s))
		return;
	/* Out of memory: once more, when others have run. */
	unit_share_aborted(vol, /* cnt= */ 0);
	backend_plugin_look();
}

void server_measure_volumes(struct server *s)
{
	for (unsigned int i = 0; i < s->luns.cnt; i++) {
		server_measure_volume(s, s->luns.vol[i]);
		server_check_paths(s, s->luns.vol[i]);
		server_end_preempted(s, s->luns.vol[i]);
	}
}

static void server_run_resized(struct reactor_msg *msg)
{
	struct server *s = container_of(msg, struct server, resized);

	/* Before the check: a later change sends another message. */
	atomic_store(&s->resizing, false);
	if (s->stop_state != SERVER_ENDED)
		server_measure_volumes(s);
}

/* Thread: any. */
static void server_volume_resized(void *user)
{
	struct server *s = user;

	if (!atomic_exchange(&s->resizing, true))
		reactor_send(s->workers[0].reactor, &s->resized);
}

void server_watch_sizes(struct server *s)
{
	s->resized.run = server_run_resized;
	backend_plugin_on_resize(server_volume_resized, s);
	/* Handles what plugins reported before anybody listened. */
	server_volume_resized(s);
}
