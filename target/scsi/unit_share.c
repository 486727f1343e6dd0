/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/unit_share.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "target/block/plugin_host.h"
#include "target/scsi/disk.h"

/* ---- notes that come ---- */

/* True if it is news for a nexus of this target that knew the notes of @was. */
static bool unit_share_concerns(const struct unit_share *sh,
				const struct pr_news *news, uint64_t was)
{
	return news->version > was &&
	       news->nexus.target_port == sh->vol->info.target_port;
}

/* The lock is held. */
static void unit_share_add_abort(struct unit_share *sh,
				 const struct scsi_pr_nexus *nexus)
{
	for (unsigned int i = 0; i < sh->abort_cnt; i++) {
		if (scsi_pr_nexus_equal(&sh->aborts[i], nexus))
			return;
	}
	/* Since the last check, no more have been registered. */
	if (sh->abort_cnt < SCSI_PR_MAX)
		sh->aborts[sh->abort_cnt++] = *nexus;
}

static void unit_share_add_aborts(struct unit_share *sh, uint64_t was)
{
	for (uint16_t i = 0; i < sh->notes.news_cnt; i++) {
		const struct pr_news *news = &sh->notes.news[i];

		if (news->news & SCSI_PR_NEWS_ABORT &&
		    unit_share_concerns(sh, news, was))
			unit_share_add_abort(sh, &news->nexus);
	}
}

/* True: the notes are newer than those of @ret_was, which were known.
 * @ret_ends: commands are being ended. */
static bool unit_share_apply(struct unit_share *sh, uint64_t version,
			     uint64_t *ret_was, bool *ret_ends)
{
	struct unit_state *st = &sh->vol->state;
	bool is_new;

	pthread_mutex_lock(&st->lock);
	*ret_was = sh->is_known ? sh->version : version;
	is_new = !sh->is_known || version > sh->version;
	if (is_new) {
		sh->is_known = true;
		sh->version = version;
		sh->notes = sh->incoming;
		st->pr = sh->incoming.pr;
		unit_state_pr_changed(st);
		/* If a volume is being removed, all its commands are being
		 * ended. */
		if (!sh->vol->leaving)
			unit_share_add_aborts(sh, *ret_was);
	}
	*ret_ends = sh->abort_cnt || sh->is_aborting;
	pthread_mutex_unlock(&st->lock);
	return is_new;
}

/* Raises the unit attentions of nexuses of this target. */
static void unit_share_tell(const struct unit_share *sh, uint64_t was)
{
	const struct pr_notes *notes = &sh->incoming;

	if (was < notes->forgotten)
		scsi_attention_others(sh->luns, sh->vol, /* except= */ NULL,
				      SCSI_UA_PREEMPTED);
	for (uint16_t i = 0; i < notes->news_cnt; i++) {
		const struct pr_news *news = &notes->news[i];

		if (!unit_share_concerns(sh, news, was))
			continue;
		scsi_attention_nexus(sh->luns, sh->vol, &news->nexus,
				     scsi_pr_attentions(news->news));
		/* SPC-4, preempting and aborting, item h */
		if (news->news & SCSI_PR_NEWS_ABORT)
			scsi_nexus_allow_removal(sh->luns, sh->vol,
						 &news->nexus);
	}
}

/* For backend_on_notes(). */
static int unit_share_take(void *user, uint64_t version, const void *data,
			   size_t len)
{
	struct unit_share *sh = user;
	const struct volume *vol = sh->vol;
	bool ends = false;
	uint64_t was;
	int err;

	pthread_mutex_lock(&sh->taking);
	err = pr_notes_decode(data, len, &sh->incoming);
	if (!err && unit_share_apply(sh, version, &was, &ends))
		unit_share_tell(sh, was);
	pthread_mutex_unlock(&sh->taking);
	if (err)
		volume_log(LOG_ERROR, NULL, vol,
			   "the store's reservations (version %llu) cannot be "
			   "read; has a newer rdma-target written them?",
			   (unsigned long long)version);
	if (ends)
		backend_plugin_look();
	return err ? err : ends;
}

/* ---- commands that end ---- */

unsigned int unit_share_take_aborts(struct volume *vol,
				    struct scsi_pr_nexus *nexuses)
{
	struct unit_state *st = &vol->state;
	struct unit_share *sh = st->share;
	unsigned int cnt = 0;

	if (!sh)
		return 0;
	pthread_mutex_lock(&st->lock);
	if (!sh->is_aborting) {
		cnt = sh->abort_cnt;
		memcpy(nexuses, sh->aborts, cnt * sizeof(*nexuses));
		sh->is_aborting = cnt;
	}
	pthread_mutex_unlock(&st->lock);
	return cnt;
}

/* Keeps those that came meanwhile. The lock is held. */
static void unit_share_drop_aborts(struct unit_share *sh, unsigned int cnt)
{
	sh->abort_cnt -= cnt;
	memmove(sh->aborts, sh->aborts + cnt,
		sh->abort_cnt * sizeof(sh->aborts[0]));
}

bool unit_share_aborted(struct volume *vol, unsigned int cnt)
{
	struct unit_state *st = &vol->state;
	struct unit_share *sh = st->share;
	uint64_t version;
	bool more;

	pthread_mutex_lock(&st->lock);
	unit_share_drop_aborts(sh, cnt);
	sh->is_aborting = false;
	more = sh->abort_cnt;
	version = sh->version;
	pthread_mutex_unlock(&st->lock);
	if (!more)
		backend_notes_taken(sh->store, version);
	return more;
}

/* ---- turns ---- */

static void unit_share_asked(struct block_io *bio, int res)
{
	struct unit_share *sh = container_of(bio, struct unit_share, bio);
	struct unit_turn *turn = sh->vol->state.turn;

	if (res && res != -ESTALE)
		volume_log(LOG_ERROR, NULL, sh->vol,
			   "the store's reservations: %s", strerror(-res));
	turn->next(turn, res);
}

static void unit_share_ask(struct volume *vol, uint32_t len,
			   void (*next)(struct unit_turn *turn, int err))
{
	struct unit_share *sh = vol->state.share;
	struct unit_turn *turn = vol->state.turn;

	turn->next = next;
	sh->bio = (struct block_io){
		.io.buf = len ? sh->buf : NULL,
		.io.len = len,
		.io.version = sh->base,
		.buf_index = -1,
		.worker = turn->worker,
		.done = unit_share_asked,
	};
}

void unit_share_refresh(struct volume *vol,
			void (*next)(struct unit_turn *turn, int err))
{
	struct unit_share *sh = vol->state.share;

	unit_share_ask(vol, /* len= */ 0, next);
	backend_get_notes(sh->store, &sh->bio);
}

struct scsi_pr *unit_share_begin(struct volume *vol)
{
	struct unit_state *st = &vol->state;
	struct unit_share *sh = st->share;

	pthread_mutex_lock(&st->lock);
	sh->to_be = sh->notes;
	sh->base = sh->version;
	pthread_mutex_unlock(&st->lock);
	return &sh->to_be.pr;
}

bool unit_share_has_newer(struct volume *vol)
{
	struct unit_share *sh = vol->state.share;
	uint64_t version;

	pthread_mutex_lock(&vol->state.lock);
	version = sh->version;
	pthread_mutex_unlock(&vol->state.lock);
	if (version > sh->base)
		return true;
	log_error("LUN %u (%s): the store has lost its reservations of version "
		  "%llu, which stay in force here; end all targets that serve "
		  "it, then start them again",
		  vol->lun, vol->name, (unsigned long long)version);
	return false;
}

void unit_share_put(struct volume *vol,
		    void (*next)(struct unit_turn *turn, int err))
{
	struct unit_share *sh = vol->state.share;
	size_t len;

	pr_notes_add(&sh->to_be, sh->base + 1, &vol->state.effects);
	len = pr_notes_encode(&sh->to_be, sh->buf);
	unit_share_ask(vol, (uint32_t)len, next);
	backend_put_notes(sh->store, &sh->bio);
}

/* ---- life ---- */

static int unit_share_refuse_file(const struct volume *vol, struct error *e)
{
	return error_set(e, -ESTALE,
			 "%s: state file %s holds registrations of a time when "
			 "one target served the volume; serve it once more "
			 "without gateway= and clear them, or remove that file",
			 vol->path, vol->journal.path);
}

int unit_share_start(struct volume *vol, struct lun_map *luns, struct error *e)
{
	struct backend *store = backend_with_notes(vol->dev.backend);
	struct unit_state *st = &vol->state;
	struct unit_share *sh;
	int res;

	if (!store)
		return 0;
	if (st->pr.cnt)
		return unit_share_refuse_file(vol, e);
	sh = calloc(1, sizeof(*sh));
	if (!sh)
		return error_set(e, -ENOMEM, "out of memory");
	pthread_mutex_init(&sh->taking, NULL);
	sh->vol = vol;
	sh->luns = luns;
	sh->store = store;
	st->share = sh;
	vol->info.no_reservations = false;
	res = backend_on_notes(store, unit_share_take, sh);
	if (res < 0)
		return error_set(e, res,
				 "%s: cannot read the reservations that the "
				 "store holds: %s",
				 vol->path, strerror(-res));
	return 0;
}

void unit_share_free(struct unit_share *sh)
{
	if (!sh)
		return;
	pthread_mutex_destroy(&sh->taking);
	free(sh);
}
