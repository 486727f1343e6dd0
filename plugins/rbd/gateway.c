/* SPDX-License-Identifier: BSD-2-Clause */
#include "gateway.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* Between two beats. */
#define RBDP_BEAT_MS 1000u
/* A dead or frozen gateway delays no beat for longer. */
#define RBDP_NOTIFY_MS 1000u
/* Seconds until the OSD forgets the watch of a dead gateway. */
#define RBDP_WATCH_S 10u
/* Limit for the owner of the lock to answer that it uses the new notes. It may
 * have to end commands first. */
#define RBDP_TELL_MS 5000u
/* After a gateway has taken over, it waits twice as long before it does so
 * again, up to PATIENCE. After QUIET, it begins anew. */
#define RBDP_PATIENCE_MS 60000u
#define RBDP_QUIET_MS	 600000u
/* Another gateway may take the lock between the break and the acquisition. */
#define RBDP_LOCK_TRIES 5

static uint64_t rbdp_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void rbdp_poke(struct rbdp_gateway *gw)
{
	pthread_mutex_lock(&gw->lock);
	gw->is_poked = true;
	pthread_cond_signal(&gw->work);
	pthread_mutex_unlock(&gw->lock);
}

/* The only place where the state changes. */
static void rbdp_set_state(struct rbdp_gateway *gw, enum rbdp_state state,
			   unsigned int active)
{
	atomic_store(&gw->active, active);
	atomic_store(&gw->is_unsure, false);
	/* In this order: I/O that enters in the new state has the new epoch. */
	atomic_fetch_add(&gw->epoch, 1);
	atomic_store(&gw->state, state);
	/* Waits for the active one's beat again. */
	atomic_store(&gw->heard_ms, rbdp_now_ms());
	gw->host->path_changed(gw->vol);
}

/* True if initiators must try the other gateways, although this one has not been
 * fenced as far as it knows. */
static bool rbdp_is_cut_off(struct rbdp_gateway *gw)
{
	return gw->cnt > 1 && atomic_load(&gw->is_unsure);
}

static void rbdp_set_unsure(struct rbdp_gateway *gw, bool is_unsure)
{
	if (atomic_exchange(&gw->is_unsure, is_unsure) == is_unsure ||
	    gw->cnt < 2)
		return;
	if (is_unsure)
		gw->host->log(gw->vol, RBP_WARNING,
			      "the cluster does not answer; another target may "
			      "have taken the image over");
	gw->host->path_changed(gw->vol);
}

/* ---- beats ---- */

/* Says that @group is active; 0: asks which one is. Some gateways may miss it. */
static void rbdp_beat(struct rbdp_gateway *gw, unsigned int group)
{
	char text = (char)('0' + group);
	char *reply = NULL;
	size_t reply_len = 0;

	rados_notify2(gw->img->pool, gw->object, &text, 1, RBDP_NOTIFY_MS,
		      &reply, &reply_len);
	rados_buffer_free(reply);
}

/* ---- messages of others ---- */

/* The host uses the notes. Answers as the owner of the lock, or as nobody.
 * Called with the lock of @gw held. */
static void rbdp_send_ack(struct rbdp_gateway *gw, const struct rbdp_ack *ack)
{
	rados_notify_ack(gw->img->pool, gw->object, ack->notify_id, ack->handle,
			 gw->owner, (int)strlen(gw->owner));
}

/* Sends the answers that are due. Called with the lock held. */
static void rbdp_send_acks(struct rbdp_gateway *gw)
{
	unsigned int left = 0;

	for (unsigned int i = 0; i < gw->ack_cnt; i++) {
		if (gw->acks[i].version <= gw->taken)
			rbdp_send_ack(gw, &gw->acks[i]);
		else
			gw->acks[left++] = gw->acks[i];
	}
	gw->ack_cnt = left;
}

/* Answers when the host is @done with the notes of @ack. */
static void rbdp_ack(struct rbdp_gateway *gw, const struct rbdp_ack *ack,
		     bool done)
{
	pthread_mutex_lock(&gw->lock);
	if (done)
		rbdp_send_ack(gw, ack);
	/* A gateway without an answer breaks the lock, which is also safe. */
	else if (gw->ack_cnt < RBDP_ACKS_MAX)
		gw->acks[gw->ack_cnt++] = *ack;
	rbdp_send_acks(gw);
	pthread_mutex_unlock(&gw->lock);
}

/* @is_own: this gateway has put them, and the host knows them already. Another one may
 * have its number by mistake. */
static void rbdp_heard_news(struct rbdp_gateway *gw,
			    const struct rbdp_news *news, bool is_own,
			    uint64_t notify_id, uint64_t handle)
{
	const struct rbdp_ack ack = { news->version, notify_id, handle };
	int res = 0;

	if (!is_own)
		res = gw->host->notes(gw->vol, news->version, news->data,
				      news->len);
	if (res >= 0)
		rbdp_ack(gw, &ack, /* done= */ res == 0);
}

/* Returns the gateway that @data reports as active; 0: none. */
static unsigned int rbdp_active_of(const void *data, size_t len,
				   const struct rbdp_news *news)
{
	if (news)
		return news->is_active ? news->group : 0;
	return len == 1 ? (unsigned int)(*(const char *)data - '0') : 0;
}

/* A beat of a target with the same number, or a higher one than there are. The
 * lock keeps the data safe, but initiators cannot tell the paths apart. */
static void rbdp_heard_misfit(struct rbdp_gateway *gw, unsigned int group)
{
	atomic_store(&gw->heard_ms, rbdp_now_ms());
	if (!atomic_exchange(&gw->has_misfit, true))
		gw->host->log(gw->vol, RBP_ERROR,
			      "another target is active with gateway=%u; each "
			      "target needs a number of its own, and all need "
			      "the same gateways= (here: gateway=%u, "
			      "gateways=%u)",
			      group, gw->own, gw->cnt);
}

static void rbdp_heard(void *arg, uint64_t notify_id, uint64_t handle,
		       uint64_t notifier_id, void *data, size_t len)
{
	struct rbdp_gateway *gw = arg;
	struct rbdp_news news;
	bool has_news = rbdp_news_decode(data, len, &news);
	bool is_own = notifier_id == rados_get_instance_id(gw->img->cluster);
	unsigned int group = rbdp_active_of(data, len, has_news ? &news : NULL);

	if (has_news)
		rbdp_heard_news(gw, &news, is_own, notify_id, handle);
	else
		rados_notify_ack(gw->img->pool, gw->object, notify_id, handle,
				 NULL, 0);
	if (is_own)
		return;
	if (group > gw->cnt || group == gw->own) {
		rbdp_heard_misfit(gw, group);
		return;
	}
	if (group)
		atomic_store(&gw->heard_ms, rbdp_now_ms());
	/* Another one claims to be active, which its thread checks, or asks for
	 * a beat. */
	if (atomic_load(&gw->state) == RBDP_ACTIVE)
		rbdp_poke(gw);
	else if (group && atomic_exchange(&gw->active, group) != group)
		gw->host->path_changed(gw->vol);
}

static void rbdp_watch_failed(void *arg, uint64_t cookie, int err)
{
	struct rbdp_gateway *gw = arg;

	atomic_store(&gw->watch_is_broken, true);
	rbdp_poke(gw);
}

static void rbdp_unwatch(struct rbdp_gateway *gw)
{
	if (!gw->has_watch)
		return;
	gw->has_watch = false;
	rados_unwatch2(gw->img->pool, gw->watch);
	rados_watch_flush(gw->img->cluster);
	/* The answers are no longer needed. Not before the flush: until then,
	 * more may come, and the pool may be closed when they are due. */
	pthread_mutex_lock(&gw->lock);
	gw->ack_cnt = 0;
	pthread_mutex_unlock(&gw->lock);
}

/* Returns 0, or a negative errno: the next turn tries again. */
static int rbdp_watch(struct rbdp_gateway *gw)
{
	int err = rados_write_full(gw->img->pool, gw->object, "", 0);

	atomic_store(&gw->watch_is_broken, false);
	if (!err)
		err = rados_watch3(gw->img->pool, gw->object, &gw->watch,
				   rbdp_heard, rbdp_watch_failed, RBDP_WATCH_S,
				   gw);
	gw->has_watch = !err;
	if (!err)
		rbdp_beat(gw, 0);
	return err;
}

static int rbdp_mend_watch(struct rbdp_gateway *gw)
{
	if (atomic_load(&gw->watch_is_broken))
		rbdp_unwatch(gw);
	return gw->has_watch ? 0 : rbdp_watch(gw);
}

/* ---- notes ---- */

/* Reads the notes and passes them to the host. */
static int rbdp_tell_host(struct rbdp_gateway *gw)
{
	int res = rbdp_notes_read(gw->img->pool, gw->header, &gw->notes);

	if (res)
		return res;
	res = gw->host->notes(gw->vol, gw->notes.version, gw->notes.data,
			      gw->notes.len);
	if (res < 0) {
		gw->refused = gw->notes.version;
		return res;
	}
	gw->known = gw->notes.version;
	return 0;
}

/* Looks for notes that no gateway has announced. The host has logged that it
 * cannot read those that it refused. -ESHUTDOWN: fenced. */
static int rbdp_look_for_notes(struct rbdp_gateway *gw)
{
	uint64_t version;
	int err = rbdp_notes_read_version(gw->img->pool, gw->header, &version);

	if (err || version == gw->known || version == gw->refused)
		return err;
	return rbdp_tell_host(gw);
}

/* "": this gateway does not hold the lock. */
static void rbdp_set_owner(struct rbdp_gateway *gw, const char *owner)
{
	pthread_mutex_lock(&gw->lock);
	snprintf(gw->owner, sizeof(gw->owner), "%s", owner);
	pthread_mutex_unlock(&gw->lock);
}

/* Finds the owner of the lock; -ENOENT: there is none. */
static int rbdp_find_owner(struct rbdp_gateway *gw, char *ret, size_t len)
{
	rbd_lock_mode_t mode;
	char *owners[4];
	size_t cnt = sizeof(owners) / sizeof(owners[0]);
	int err = rbd_lock_get_owners(gw->img->image, &mode, owners, &cnt);

	if (err)
		return err;
	if (cnt)
		snprintf(ret, len, "%s", owners[0]);
	rbd_lock_get_owners_cleanup(owners, cnt);
	return cnt ? 0 : -ENOENT;
}

/* True if @owner of the lock has answered. */
static bool rbdp_has_answered(const char *owner, char *reply, size_t len)
{
	struct notify_timeout_t *timeouts = NULL;
	struct notify_ack_t *acks = NULL;
	size_t ack_cnt = 0, timeout_cnt = 0;
	bool found = false;

	if (!reply || rados_decode_notify_response(reply, len, &acks, &ack_cnt,
						   &timeouts, &timeout_cnt))
		return false;
	for (size_t i = 0; i < ack_cnt; i++)
		found |= acks[i].payload_len == strlen(owner) &&
			 !memcmp(acks[i].payload, owner, strlen(owner));
	rados_free_notify_response(acks, ack_cnt, timeouts);
	return found;
}

/* Announces the notes in @io. True: @owner of the lock has answered that it
 * uses them. */
static bool rbdp_tell_gateways(struct rbdp_gateway *gw, const struct rbp_io *io,
			       const char *owner, uint64_t timeout_ms)
{
	const struct rbdp_news news = {
		.group = gw->own,
		.is_active = atomic_load(&gw->state) == RBDP_ACTIVE,
		.version = io->version + 1,
		.data = io->buf,
		.len = io->len,
	};
	size_t len = rbdp_news_encode(&news, gw->news);
	char *reply = NULL;
	size_t reply_len = 0;
	bool found;

	rados_notify2(gw->img->pool, gw->object, (const char *)gw->news,
		      (int)len, timeout_ms, &reply, &reply_len);
	found = rbdp_has_answered(owner, reply, reply_len);
	rados_buffer_free(reply);
	return found;
}

/* Puts @owner on the blocklist, and breaks its lock. librbd's break does both,
 * but an entry keeps the time that it has. */
static int rbdp_fence(struct rbdp_gateway *gw, const char *owner)
{
	char address[RBDP_OWNER_LEN];
	int err;

	snprintf(address, sizeof(address), "%s", owner);
	err = rados_blocklist_add(gw->img->cluster, address, RBDP_FENCE_S);
	if (!err)
		err = rbd_lock_break(gw->img->image, RBD_LOCK_MODE_EXCLUSIVE,
				     owner);
	/* As librbd calls it: the user has no right to fence. */
	if (err == -EACCES)
		return -EPERM;
	return err == -ENOENT ? 0 : err; /* it has released the lock */
}

/* Fences a silent owner, so that it writes nothing by the old notes. */
static int rbdp_fence_silent(struct rbdp_gateway *gw, const char *owner)
{
	int err = rbdp_fence(gw, owner);

	gw->host->log(gw->vol, RBP_WARNING,
		      "fences %s off, which has not answered for %u s that it "
		      "goes by the new reservations",
		      owner, RBDP_TELL_MS / 1000);
	if (err)
		return err;
	if (atomic_exchange(&gw->active, 0))
		gw->host->path_changed(gw->vol);
	return 0;
}

/* The notes are put. Returns 0 if no gateway writes by older ones. */
static int rbdp_spread_notes(struct rbdp_gateway *gw, const struct rbp_io *io)
{
	char owner[RBDP_OWNER_LEN] = "";
	int err;

	/* After the notes were put: a gateway that takes the lock later reads
	 * them. */
	err = atomic_load(&gw->state) == RBDP_ACTIVE
		      ? -ENOENT
		      : rbdp_find_owner(gw, owner, sizeof(owner));
	if (err && err != -ENOENT)
		return err;
	if (rbdp_tell_gateways(gw, io, owner,
			       *owner ? RBDP_TELL_MS : RBDP_NOTIFY_MS) ||
	    !*owner)
		return 0;
	return rbdp_fence_silent(gw, owner);
}

/* ---- the lock ---- */

/* Fences the owner of the lock. */
static int rbdp_break_lock(struct rbdp_gateway *gw)
{
	rbd_lock_mode_t mode;
	char *owners[4];
	size_t cnt = sizeof(owners) / sizeof(owners[0]);
	int err = rbd_lock_get_owners(gw->img->image, &mode, owners, &cnt);

	if (err == -ENOENT)
		return 0;
	if (err)
		return err;
	for (size_t i = 0; i < cnt && !err; i++) {
		gw->host->log(gw->vol, RBP_NOTICE, "fences %s off", owners[i]);
		err = rbdp_fence(gw, owners[i]);
	}
	rbd_lock_get_owners_cleanup(owners, cnt);
	return err;
}

static int rbdp_take_lock(struct rbdp_gateway *gw)
{
	char owner[RBDP_OWNER_LEN];
	int err = -EBUSY;

	for (int i = 0; i < RBDP_LOCK_TRIES && err && err != -EPERM; i++) {
		err = rbdp_break_lock(gw);
		if (!err)
			err = rbd_lock_acquire(gw->img->image,
					       RBD_LOCK_MODE_EXCLUSIVE);
	}
	if (!err)
		err = rbdp_find_owner(gw, owner, sizeof(owner));
	if (!err)
		rbdp_set_owner(gw, owner);
	return err;
}

static int rbdp_release_lock(struct rbdp_gateway *gw)
{
	rbdp_set_owner(gw, "");
	return rbd_lock_release(gw->img->image);
}

/* STANDBY to ACTIVE. */
static int rbdp_take_over(struct rbdp_gateway *gw)
{
	int err = rbdp_take_lock(gw);

	if (err) {
		gw->host->log(gw->vol, RBP_ERROR,
			      "cannot take the image's lock: %s%s",
			      strerror(-err),
			      err == -EPERM ? "; the user needs 'profile rbd' "
					      "for the monitors"
					    : "");
		atomic_store(&gw->heard_ms, rbdp_now_ms());
		return err;
	}
	/* No other gateway writes now. This gateway will be told of new notes
	 * before they count as put. */
	err = rbdp_tell_host(gw);
	if (err) {
		gw->host->log(gw->vol, RBP_ERROR,
			      "does not take the image over: cannot read its "
			      "reservations: %s",
			      strerror(-err));
		rbdp_release_lock(gw);
		atomic_store(&gw->heard_ms, rbdp_now_ms());
		return err;
	}
	rbdp_set_state(gw, RBDP_ACTIVE, gw->own);
	return 0;
}

/* Waits until librbd has ended all I/O. Each I/O has a time limit. */
static void rbdp_await_io(struct rbdp_gateway *gw)
{
	pthread_mutex_lock(&gw->lock);
	while (atomic_load(&gw->inflight))
		pthread_cond_wait(&gw->work, &gw->lock);
	pthread_mutex_unlock(&gw->lock);
}

/* ---- fenced ---- */

/* To FENCED. The client is on the blocklist, and useless. */
static void rbdp_be_fenced(struct rbdp_gateway *gw)
{
	unsigned int active = atomic_load(&gw->active);

	if (atomic_load(&gw->state) == RBDP_ACTIVE) {
		gw->host->log(gw->vol, RBP_WARNING,
			      "another target has taken the image over; goes "
			      "on as standby");
		rbdp_set_owner(gw, "");
		active = 0;
	}
	rbdp_set_state(gw, RBDP_FENCED, active);
}

/* FENCED to STANDBY. No I/O is in flight. Returns 0 or a negative errno. */
static int rbdp_open_again(struct rbdp_gateway *gw)
{
	char text[256] = "";
	const struct rbdp_msg msg = { text, sizeof(text) };
	int err;

	rbdp_unwatch(gw);
	err = gw->reopen(gw->user, &msg);
	if (err && !gw->reopen_failed)
		gw->host->log(gw->vol, RBP_ERROR,
			      "cannot open the image again (%s); tries on",
			      text);
	gw->reopen_failed = err;
	if (err)
		return err;
	rbdp_watch(gw);
	rbdp_set_state(gw, RBDP_STANDBY, atomic_load(&gw->active));
	return 0;
}

/* Called after an error, and in the state FENCED. Returns 0 if this gateway was
 * fenced, and can answer as a standby now; else @err. */
static int rbdp_come_back(struct rbdp_gateway *gw, int err)
{
	if (err != -ESHUTDOWN)
		return err;
	if (atomic_load(&gw->state) != RBDP_FENCED)
		rbdp_be_fenced(gw);
	rbdp_await_io(gw);
	return rbdp_open_again(gw) ? -ESHUTDOWN : 0;
}

/* ---- letting go ---- */

/* ACTIVE to STANDBY. Without the lock, nothing would fence a write that has timed
 * out and is still on its way. So its client keeps the lock, and ends. */
static int rbdp_let_go(struct rbdp_gateway *gw)
{
	int err;

	rbdp_set_state(gw, RBDP_STANDBY, 0);
	rbdp_await_io(gw);
	if (gw->img->in_doubt) {
		rbdp_set_owner(gw, "");
		return rbdp_come_back(gw, -ESHUTDOWN);
	}
	err = rbdp_release_lock(gw);
	if (err)
		gw->host->log(gw->vol, RBP_WARNING,
			      "cannot give the image's lock back (%s); whoever "
			      "takes over breaks it",
			      strerror(-err));
	return 0;
}

/* ---- turns of the thread ---- */

/* The OSD knows whether this client is on the blocklist. */
static bool rbdp_has_lost(struct rbdp_gateway *gw)
{
	int is_owner = 0;
	int err = rbd_is_exclusive_lock_owner(gw->img->image, &is_owner);

	if (err == -ESHUTDOWN || (!err && !is_owner))
		return true;
	rbdp_set_unsure(gw, err);
	return false;
}

static void rbdp_turn_active(struct rbdp_gateway *gw)
{
	if (rbdp_has_lost(gw))
		rbdp_be_fenced(gw);
	else
		rbdp_beat(gw, gw->own);
}

/* If the cluster is away, all gateways are silent. */
static bool rbdp_cluster_answers(struct rbdp_gateway *gw)
{
	uint64_t began = rbdp_now_ms();
	uint64_t size;
	time_t mtime;
	int err = rados_stat(gw->img->pool, gw->object, &size, &mtime);

	return !err && rbdp_now_ms() - began < RBDP_BEAT_MS;
}

/* The time without a beat after which this gateway takes over. If it were always
 * the same, gateways on a busy machine, whose beats are late, would take over
 * from each other for ever. */
static uint64_t rbdp_patience_ms(struct rbdp_gateway *gw)
{
	uint64_t most = gw->after_ms > RBDP_PATIENCE_MS ? gw->after_ms
							: RBDP_PATIENCE_MS;
	uint64_t ms = gw->after_ms;

	if (rbdp_now_ms() - gw->took_over_ms >= RBDP_QUIET_MS)
		gw->took_over_cnt = 0;
	if (gw->took_over_cnt && ms < RBDP_BEAT_MS)
		ms = RBDP_BEAT_MS;
	for (unsigned int i = 0; i < gw->took_over_cnt && ms < most; i++)
		ms *= 2;
	/* The gateway with the lower number goes first. */
	return (ms < most ? ms : most) + gw->own * RBDP_BEAT_MS;
}

static void rbdp_tell_silence(struct rbdp_gateway *gw, uint64_t silent_ms)
{
	unsigned long long silent_s = silent_ms / 1000;

	if (!gw->took_over_cnt)
		gw->host->log(gw->vol, RBP_NOTICE,
			      "no other target has been active for %llu s; "
			      "takes over",
			      silent_s);
	else
		gw->host->log(
			gw->vol, RBP_WARNING,
			"no other target has been active for %llu s; "
			"takes over again, after %llu s; if the other "
			"target was not down, failover-after=%llu is too "
			"short for this machine",
			silent_s,
			(unsigned long long)(rbdp_now_ms() - gw->took_over_ms) /
				1000,
			(unsigned long long)gw->after_ms / 1000);
}

static void rbdp_turn_standby(struct rbdp_gateway *gw)
{
	uint64_t silent_ms = rbdp_now_ms() - atomic_load(&gw->heard_ms);

	if (!gw->takes_over || silent_ms < rbdp_patience_ms(gw))
		return;
	if (!rbdp_cluster_answers(gw)) {
		atomic_store(&gw->heard_ms, rbdp_now_ms());
		return;
	}
	rbdp_tell_silence(gw, silent_ms);
	if (rbdp_take_over(gw))
		return;
	gw->took_over_cnt++;
	gw->took_over_ms = rbdp_now_ms();
	rbdp_beat(gw, gw->own);
}

static void rbdp_turn_fenced(struct rbdp_gateway *gw)
{
	if (!atomic_load(&gw->inflight))
		rbdp_open_again(gw);
}

/* A standby may also be fenced: while it released the lock, or because its
 * answer was late. */
static int rbdp_turn_notes(struct rbdp_gateway *gw)
{
	int err = rbdp_look_for_notes(gw);

	if (err == -ESHUTDOWN)
		rbdp_be_fenced(gw);
	return err;
}

static void rbdp_turn(struct rbdp_gateway *gw)
{
	int err = 0;

	if (gw->state != RBDP_FENCED) {
		err = rbdp_mend_watch(gw);
		if (err != -ETIMEDOUT)
			err = rbdp_turn_notes(gw);
	}
	/* The next question would take as long. */
	if (err == -ETIMEDOUT && gw->state == RBDP_ACTIVE) {
		rbdp_set_unsure(gw, true);
		return;
	}
	switch (atomic_load(&gw->state)) {
	case RBDP_STANDBY:
		rbdp_turn_standby(gw);
		break;
	case RBDP_ACTIVE:
		rbdp_turn_active(gw);
		break;
	case RBDP_FENCED:
		rbdp_turn_fenced(gw);
		break;
	}
}

/* ---- requests of rdma-target ---- */

/* Returned by struct rbdp_ask.run if the I/O has not ended, but will. */
#define RBDP_LATER 1

static struct rbdp_ask *rbdp_ask_of(struct rbp_io *io)
{
	return io->scratch;
}

static int rbdp_do_set(struct rbdp_gateway *gw, struct rbp_io *io)
{
	enum rbdp_state state = atomic_load(&gw->state);
	int err = 0;

	if (!io->offset)
		return state == RBDP_ACTIVE ? rbdp_let_go(gw) : 0;
	if (state == RBDP_ACTIVE && !rbdp_has_lost(gw))
		return atomic_load(&gw->is_unsure) ? -ETIMEDOUT : 0;
	if (state != RBDP_STANDBY)
		err = rbdp_come_back(gw, -ESHUTDOWN);
	return err ? err : rbdp_take_over(gw);
}

/* If the cluster is away, many I/Os fail at once. Only the first one waits for
 * the cluster. */
static int rbdp_do_judge(struct rbdp_gateway *gw, struct rbp_io *io)
{
	if (atomic_load(&gw->state) != RBDP_ACTIVE)
		return -ESHUTDOWN;
	if (!atomic_load(&gw->is_unsure) && rbdp_has_lost(gw))
		return -ESHUTDOWN;
	return rbdp_is_cut_off(gw) ? -ESHUTDOWN : rbdp_ask_of(io)->res;
}

static int rbdp_do_get_notes(struct rbdp_gateway *gw, struct rbp_io *io)
{
	int err = atomic_load(&gw->state) == RBDP_FENCED ? -ESHUTDOWN
							 : rbdp_tell_host(gw);

	if (!err)
		return 0;
	err = rbdp_come_back(gw, err);
	return err ? err : rbdp_tell_host(gw);
}

/* True if the image holds the notes that @io was to put. */
static bool rbdp_are_put(struct rbdp_gateway *gw, const struct rbp_io *io)
{
	return !rbdp_notes_read(gw->img->pool, gw->header, &gw->notes) &&
	       gw->notes.version == io->version + 1 &&
	       gw->notes.len == io->len &&
	       !memcmp(gw->notes.data, io->buf, io->len);
}

/* Tries again if this gateway was fenced; the first try may have succeeded. */
static int rbdp_put(struct rbdp_gateway *gw, const struct rbp_io *io)
{
	int err = atomic_load(&gw->state) == RBDP_FENCED
			  ? -ESHUTDOWN
			  : rbdp_notes_put(gw->img->pool, gw->header,
					   io->version, io->buf, io->len);

	if (!err)
		return 0;
	err = rbdp_come_back(gw, err);
	if (!err)
		err = rbdp_notes_put(gw->img->pool, gw->header, io->version,
				     io->buf, io->len);
	return err == -ESTALE && rbdp_are_put(gw, io) ? 0 : err;
}

/* When the host is done with older commands, it uses the notes of @io. */
static int rbdp_await_host(struct rbdp_gateway *gw, struct rbp_io *io)
{
	int res = 0;

	pthread_mutex_lock(&gw->lock);
	if (gw->taken <= io->version) {
		gw->put = io;
		res = RBDP_LATER;
	}
	pthread_mutex_unlock(&gw->lock);
	return res;
}

static int rbdp_do_put_notes(struct rbdp_gateway *gw, struct rbp_io *io)
{
	int res = rbdp_put(gw, io);
	int err;

	if (res)
		return res;
	res = gw->host->notes(gw->vol, io->version + 1, io->buf, io->len);
	if (res < 0)
		return res;
	gw->known = io->version + 1;
	err = rbdp_spread_notes(gw, io);
	if (err)
		return err;
	return res ? rbdp_await_host(gw, io) : 0;
}

/* ---- the thread ---- */

/* Waits until there is work, at most a second. Called with the lock held. */
static void rbdp_gateway_wait(struct rbdp_gateway *gw)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += RBDP_BEAT_MS / 1000;
	if (!gw->first && !gw->is_poked && !gw->stopping)
		pthread_cond_timedwait(&gw->work, &gw->lock, &until);
	gw->is_poked = false;
}

static struct rbp_io *rbdp_gateway_take(struct rbdp_gateway *gw)
{
	struct rbp_io *io = gw->first;

	if (!io)
		return NULL;
	gw->first = rbdp_ask_of(io)->next;
	if (!gw->first)
		gw->end = &gw->first;
	return io;
}

static void rbdp_gateway_do(struct rbdp_gateway *gw, struct rbp_io *io)
{
	int res = rbdp_ask_of(io)->run(gw, io);

	if (res != RBDP_LATER)
		gw->host->done(io, res);
}

static void *rbdp_gateway_main(void *arg)
{
	struct rbdp_gateway *gw = arg;

	pthread_setname_np(pthread_self(), "rbd-gateway");
	pthread_mutex_lock(&gw->lock);
	while (!gw->stopping) {
		struct rbp_io *io;

		rbdp_gateway_wait(gw);
		io = rbdp_gateway_take(gw);
		pthread_mutex_unlock(&gw->lock);
		if (io)
			rbdp_gateway_do(gw, io);
		rbdp_turn(gw);
		pthread_mutex_lock(&gw->lock);
	}
	pthread_mutex_unlock(&gw->lock);
	return NULL;
}

/* ---- functions for others ---- */

/* True if another target may have served since the command began. */
static bool rbdp_is_outdated(struct rbdp_gateway *gw, const struct rbp_io *io)
{
	return atomic_load(&gw->host_has_epochs) && io->epoch &&
	       io->epoch != atomic_load(&gw->epoch);
}

bool rbdp_gateway_enter(struct rbdp_gateway *gw, const struct rbp_io *io)
{
	/* In this order: a change of the state reads inflight after it. */
	atomic_fetch_add(&gw->inflight, 1);
	if (atomic_load(&gw->state) == RBDP_ACTIVE && !rbdp_is_cut_off(gw) &&
	    !rbdp_is_outdated(gw, io))
		return true;
	rbdp_gateway_leave(gw, 0);
	return false;
}

int rbdp_gateway_leave(struct rbdp_gateway *gw, int res)
{
	bool is_last = atomic_fetch_sub(&gw->inflight, 1) == 1;

	/* EROFS: the lock is gone, but this client was not fenced. */
	if (res == -EROFS)
		res = -ESHUTDOWN;
	if (res == -ESHUTDOWN ||
	    (is_last && atomic_load(&gw->state) != RBDP_ACTIVE))
		rbdp_poke(gw);
	return res;
}

void rbdp_gateway_paths(struct rbdp_gateway *gw, struct rbp_paths *ret)
{
	ret->cnt = gw->cnt;
	ret->own = gw->own;
	if (ret->size >=
	    offsetof(struct rbp_paths, epoch) + sizeof(ret->epoch)) {
		ret->epoch = atomic_load(&gw->epoch);
		atomic_store(&gw->host_has_epochs, true);
	}
	/* A late beat may name another one after this one has taken over. */
	if (atomic_load(&gw->state) == RBDP_ACTIVE)
		ret->active = rbdp_is_cut_off(gw) ? 0 : gw->own;
	else
		ret->active = atomic_load(&gw->active);
}

static void rbdp_gateway_ask(struct rbdp_gateway *gw, struct rbp_io *io,
			     int (*run)(struct rbdp_gateway *gw,
					struct rbp_io *io))
{
	struct rbdp_ask *ask = rbdp_ask_of(io);

	ask->next = NULL;
	ask->run = run;
	pthread_mutex_lock(&gw->lock);
	*gw->end = io;
	gw->end = &ask->next;
	pthread_cond_signal(&gw->work);
	pthread_mutex_unlock(&gw->lock);
}

void rbdp_gateway_set(struct rbdp_gateway *gw, struct rbp_io *io)
{
	rbdp_gateway_ask(gw, io, rbdp_do_set);
}

void rbdp_gateway_judge(struct rbdp_gateway *gw, struct rbp_io *io, int res)
{
	rbdp_ask_of(io)->res = res;
	rbdp_gateway_ask(gw, io, rbdp_do_judge);
}

void rbdp_gateway_get_notes(struct rbdp_gateway *gw, struct rbp_io *io)
{
	rbdp_gateway_ask(gw, io, rbdp_do_get_notes);
}

void rbdp_gateway_put_notes(struct rbdp_gateway *gw, struct rbp_io *io)
{
	rbdp_gateway_ask(gw, io, rbdp_do_put_notes);
}

void rbdp_gateway_taken(struct rbdp_gateway *gw, uint64_t version)
{
	struct rbp_io *put = NULL;

	pthread_mutex_lock(&gw->lock);
	if (gw->taken < version)
		gw->taken = version;
	rbdp_send_acks(gw);
	if (gw->put && gw->put->version < gw->taken) {
		put = gw->put;
		gw->put = NULL;
	}
	pthread_mutex_unlock(&gw->lock);
	if (put)
		gw->host->done(put, 0);
}

/* ---- life cycle ---- */

static void rbdp_gateway_init(struct rbdp_gateway *gw)
{
	pthread_condattr_t attr;

	gw->end = &gw->first;
	pthread_mutex_init(&gw->lock, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&gw->work, &attr);
	pthread_condattr_destroy(&attr);
	gw->heard_ms = rbdp_now_ms();
	gw->epoch = 1;
	gw->is_poked = true; /* for the first beat */
}

static int rbdp_check_features(struct rbdp_gateway *gw,
			       const struct rbdp_msg *msg)
{
	uint64_t features = 0;
	char id[64];
	int err = rbd_get_features(gw->img->image, &features);

	if (!err)
		err = rbd_get_id(gw->img->image, id, sizeof(id));
	if (!err)
		err = rbdp_image_header(gw->img, gw->header,
					sizeof(gw->header));
	if (err)
		return rbdp_refuse(msg, err, "cannot describe the image: %s",
				   strerror(-err));
	snprintf(gw->object, sizeof(gw->object), "rdma_block.gateways.%s", id);
	if (!(features & RBD_FEATURE_EXCLUSIVE_LOCK))
		return rbdp_refuse(msg, -EINVAL,
				   "the image lacks the feature "
				   "exclusive-lock, which gateway=%u needs; "
				   "try: rbd feature enable",
				   gw->own);
	return 0;
}

int rbdp_gateway_start(struct rbdp_gateway *gw, bool active,
		       const struct rbdp_msg *msg)
{
	int err = rbdp_check_features(gw, msg);

	if (err)
		return err;
	rbdp_gateway_init(gw);
	err = rbdp_watch(gw);
	if (err)
		return rbdp_refuse(msg, err, "cannot watch the object %s: %s",
				   gw->object, strerror(-err));
	err = rbdp_tell_host(gw);
	if (err)
		rbdp_refuse(msg, err,
			    "cannot read the reservations that the image "
			    "holds: %s",
			    strerror(-err));
	if (!err && active) {
		err = rbdp_take_over(gw);
		if (err)
			rbdp_refuse(msg, err, "cannot take the image over: %s",
				    strerror(-err));
	}
	if (!err) {
		err = -pthread_create(&gw->thread, NULL, rbdp_gateway_main, gw);
		if (err)
			rbdp_refuse(msg, err, "cannot start a thread: %s",
				    strerror(-err));
	}
	if (err)
		rbdp_unwatch(gw);
	return err;
}

void rbdp_gateway_stop(struct rbdp_gateway *gw)
{
	pthread_mutex_lock(&gw->lock);
	gw->stopping = true;
	pthread_cond_signal(&gw->work);
	pthread_mutex_unlock(&gw->lock);
	pthread_join(gw->thread, NULL);
	rbdp_unwatch(gw);
	/* See rbdp_let_go(). */
	if (gw->state == RBDP_ACTIVE && !gw->img->in_doubt)
		rbdp_release_lock(gw);
}
