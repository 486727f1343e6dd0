/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Are the volumes that discovery has found those of the session? A volume is found by
 * its identifier or serial number, at whatever LUN it is now; one without either, by its
 * LUN. Block size, size and the kind of store tell whether it is the same still.
 * path.h tells what another address must show besides.
 */
#include <stdio.h>
#include <string.h>

#include "initiator/session.h"

/* Has @now the identifier or serial number of @was? */
static bool verify_has_id(const struct ini_volume *was,
			  const struct ini_volume *now)
{
	const struct srpi_volume_info *a = &was->info;
	const struct srpi_volume_info *b = &now->info;

	if (*a->naa)
		return !strcmp(a->naa, b->naa);
	return *a->serial && !*b->naa && !strcmp(a->serial, b->serial) &&
	       !strcmp(a->vendor, b->vendor) && !strcmp(a->product, b->product);
}

/*
 * The one of @all that is @was, or that is in its place. Some targets have one serial
 * number for all units, so an identifier that is there twice tells nothing.
 */
static const struct ini_volume *verify_find(const struct ini_volume *was,
					    const struct ini_volume *all,
					    unsigned int cnt)
{
	const struct ini_volume *there = NULL, *moved = NULL;
	unsigned int same = 0;

	for (unsigned int i = 0; i < cnt; i++) {
		if (all[i].lun_field == was->lun_field)
			there = &all[i];
		else if (verify_has_id(was, &all[i]) && ++same)
			moved = &all[i];
	}
	return same != 1 || (there && verify_has_id(was, there)) ? there
								 : moved;
}

/* The data was in the memory of a process that has ended. */
static bool verify_is_gone(const struct ini_volume *was,
			   const struct ini_volume *now)
{
	return was->has_store && was->store.is_memory &&
	       (!now->has_store ||
		memcmp(was->store.generation, now->store.generation,
		       SCSI_GENERATION_LEN));
}

/* Without the answer to this question, @now may be @was or not. */
static bool verify_is_unanswered(enum ini_answer was, enum ini_answer now)
{
	return (now == INI_FAILED && was != INI_FAILED) ||
	       (now == INI_REFUSED && was == INI_ANSWERED);
}

static const char *verify_find_unanswered(const struct ini_volume *was,
					  const struct ini_volume *now)
{
	for (unsigned int q = 0; q < INI_QUESTIONS; q++) {
		if (verify_is_unanswered(was->answers[q], now->answers[q]))
			return ini_discovery_question(q);
	}
	return now->is_known ? NULL : ini_discovery_question(INI_Q_CAPACITY_10);
}

/* Do the identifiers differ? Only questions that were answered both times
 * count. An answer that @was lacked is believed now. */
static bool verify_compare_ids(const struct ini_volume *was,
			       const struct ini_volume *now, char *buf,
			       size_t len)
{
	const struct srpi_volume_info *a = &was->info;
	const struct srpi_volume_info *b = &now->info;

	buf[0] = '\0';
	if (was->answers[INI_Q_IDS] != INI_FAILED && strcmp(a->naa, b->naa))
		snprintf(buf, len,
			 "another volume is there now, %s instead of %s",
			 *b->naa ? b->naa : "one without identifier",
			 *a->naa ? a->naa : "one without identifier");
	else if (!*a->naa && was->answers[INI_Q_SERIAL] != INI_FAILED &&
		 strcmp(a->serial, b->serial))
		snprintf(buf, len,
			 "another volume is there now, serial number '%s' "
			 "instead of '%s'",
			 b->serial, a->serial);
	return *buf;
}

/* What makes @now another volume than @was. */
static bool verify_compare(const struct ini_volume *was,
			   const struct ini_volume *now, char *buf, size_t len)
{
	const struct srpi_volume_info *a = &was->info;
	const struct srpi_volume_info *b = &now->info;

	if (verify_compare_ids(was, now, buf, len))
		return true;
	if (verify_is_gone(was, now))
		snprintf(buf, len, "it was in memory, which is gone");
	else if (a->block_size != b->block_size)
		snprintf(buf, len, "its blocks have %u bytes now instead of %u",
			 b->block_size, a->block_size);
	else if (b->size < a->size)
		snprintf(buf, len, "it has shrunk from %llu to %llu bytes",
			 (unsigned long long)a->size,
			 (unsigned long long)b->size);
	return *buf;
}

/* Is there one that the session needs while it has this one? */
static bool verify_uses_any(const struct srpi_session *s)
{
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		const struct ini_volume *v = s->volumes[i];

		if (v->is_used && v->state <= SRPI_BLOCKED)
			return true;
	}
	return false;
}

/* A program that has named a volume, or uses one, does not lose it with another one
 * that it has never used. The session needs one, or it could be another target. */
static bool verify_ignores(const struct srpi_session *s,
			   const struct ini_volume *was)
{
	return !was->is_used && (!ini_path_wants(s, was) ||
				 (!*s->uri.volume && verify_uses_any(s)));
}

static bool verify_is_unused_and_gone(const struct srpi_session *s,
				      const struct ini_volume *was,
				      const struct ini_volume *now)
{
	char what[256];

	return verify_ignores(s, was) &&
	       (!now || verify_find_unanswered(was, now) ||
		verify_compare(was, now, what, sizeof(what)));
}

/* Does the present address lead to the target that was used last? Any volume
 * shows it. */
static bool verify_is_same_target(const struct srpi_session *s,
				  const struct ini_volume *found,
				  unsigned int cnt)
{
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		const struct ini_volume *was = s->volumes[i];
		const struct ini_volume *now = verify_find(was, found, cnt);

		if (was->state != SRPI_LOST && now &&
		    ini_path_is_same_target(was, now))
			return true;
	}
	return false;
}

/* May volumes come and go by the present address? If another target shows other
 * volumes, it is the address that is wrong. */
static bool verify_may_follow(const struct srpi_session *s,
			      const struct ini_volume *found, unsigned int cnt)
{
	return s->options.follow_volumes &&
	       (ini_path_is_sibling(s, s->paths.home) ||
		verify_is_same_target(s, found, cnt));
}

static bool verify_is_named(const struct srpi_session *s,
			    const struct ini_volume *v)
{
	return *s->uri.volume && ini_path_wants(s, v);
}

/*
 * Has @was left, of a session that follows? @what: why. After a reconnect, a
 * target may show its volumes one by one.
 */
static bool verify_has_left(struct srpi_session *s,
			    const struct ini_volume *was,
			    const struct ini_volume *now, char *what,
			    size_t len)
{
	if (verify_is_named(s, was))
		return false;
	if (now && verify_find_unanswered(was, now))
		return false;
	if (now)
		return now->access.is_standby
			       ? verify_compare_ids(was, now, what, len)
			       : verify_compare(was, now, what, len);
	snprintf(what, len, "the target does not show it any more");
	return !was->is_used || s->looking || ini_absent_waited(s, was);
}

/* Unless the result is INI_CHECK_SAME or INI_CHECK_GONE, s->error says why. */
static enum ini_check verify_volume(struct srpi_session *s,
				    struct ini_volume *was,
				    const struct ini_volume *now)
{
	const char *question = now ? verify_find_unanswered(was, now) : NULL;
	bool standby = now && now->access.is_standby && ini_path_wants(s, was);
	char what[256];

	if (!now && (s->looking || was->state == SRPI_FAIL_FAST))
		return INI_CHECK_GONE;
	if (verify_is_unused_and_gone(s, was, now))
		return INI_CHECK_GONE;
	if (!now) {
		ini_error_other_volume(s, was, "the target does not show it");
		s->error.err = -ENODEV;
		return INI_CHECK_MISSING;
	}
	if (question && !standby) {
		ini_error_unanswered(s, was, question);
		return INI_CHECK_UNKNOWN;
	}
	if (!question &&
	    (standby ? verify_compare_ids(was, now, what, sizeof(what))
		     : verify_compare(was, now, what, sizeof(what)))) {
		ini_error_other_volume(s, was, what);
		return INI_CHECK_OTHER;
	}
	if (standby) {
		ini_error_standby(s, was);
		return INI_CHECK_STANDBY;
	}
	if (!ini_path_is_sibling(s, was->home) &&
	    !ini_path_is_fenced(was, now)) {
		ini_error_unsafe(s, was);
		return INI_CHECK_UNSAFE;
	}
	return INI_CHECK_SAME;
}

/* Its commands that wait go to its new LUN. Over the same connection, some of those that
 * were sent to the old one may be left: another login ends them. */
static void verify_note_move(struct srpi_session *s, const struct ini_volume *v)
{
	ini_queue_moved(s, v);
	s->reconnect.again |= s->looking;
}

static void verify_take_volume(struct srpi_session *s, struct ini_volume *was,
			       const struct ini_volume *now)
{
	const struct srpi_volume_info info = was->info;
	bool absent = was->state != SRPI_RUNNING;
	bool lost = ini_volume_back(was, now);

	was->home = s->paths.now;
	s->reconnect.lost_writes |= lost;
	if (was->info.lun != info.lun)
		verify_note_move(s, was);
	was->info.size = info.size;
	ini_volume_resize(s, was, now->info.size);
	ini_volume_tell_changes(s, was, &info);
	if (absent)
		ini_absent_found(s, was, lost);
}

static void verify_take_away(struct srpi_session *s, struct ini_volume *v)
{
	bool is_news = v->state != SRPI_FAIL_FAST && v->is_used;

	s->reconnect.lost_writes |= ini_volume_gone(v);
	if (is_news)
		ini_follow_tell(s, v, SRPI_VOLUME_STATE,
				"the target does not show it any more");
}

/* What becomes of @was by what was found. */
static void verify_settle_volume(struct srpi_session *s, struct ini_volume *was,
				 const struct ini_volume *now)
{
	switch (verify_volume(s, was, now)) {
	case INI_CHECK_SAME:
		verify_take_volume(s, was, now);
		break;
	case INI_CHECK_GONE:
		verify_take_away(s, was);
		break;
	case INI_CHECK_OTHER:
		ini_follow_lose(s, was, s->error.text);
		break;
	case INI_CHECK_MISSING:
	case INI_CHECK_UNKNOWN:
	case INI_CHECK_STANDBY:
	case INI_CHECK_UNSAFE:
		ini_absent_miss(s, was);
		break;
	}
}

static void verify_note_missed(struct srpi_session *s, struct ini_volume *v)
{
	if (!v->absent_us)
		v->absent_us = reactor_now_us(s->ctx->reactor);
}

static void verify_add_volumes(struct srpi_session *s,
			       const struct ini_volume *found, unsigned int cnt)
{
	for (unsigned int i = 0; i < cnt; i++) {
		if (found[i].is_known && !found[i].access.is_standby &&
		    !ini_volumes_find(s, found[i].lun_field))
			ini_follow_add(s, &found[i]);
	}
}

/* Which volumes the session follows. */
static bool verify_loses(struct srpi_session *s, const struct ini_volume *was,
			 const struct ini_volume *now, bool follow, char *what,
			 size_t len)
{
	return follow && verify_has_left(s, was, now, what, len);
}

/*
 * Can the session go on by the present address? INI_CHECK_SAME: with one that it needs,
 * or there is none that it needs. A volume in standby, or of a target that does not
 * know what the one before still writes, stands for all of the address. Else the result
 * is not final (INI_CHECK_OTHER) if any of them may come back.
 */
static enum ini_check verify_address(struct srpi_session *s,
				     const struct ini_volume *found,
				     unsigned int cnt, bool follow)
{
	enum ini_check bad = INI_CHECK_SAME;
	bool has_one = false;
	struct error why;

	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		struct ini_volume *was = s->volumes[i];
		const struct ini_volume *now = verify_find(was, found, cnt);
		enum ini_check check;
		char what[256];

		if (was->state == SRPI_LOST ||
		    verify_loses(s, was, now, follow, what, sizeof(what)))
			continue;
		check = verify_volume(s, was, now);
		if (check == INI_CHECK_STANDBY || check == INI_CHECK_UNSAFE)
			return check;
		if (check == INI_CHECK_SAME)
			has_one |= !verify_ignores(s, was);
		if (check <= INI_CHECK_GONE)
			continue;
		verify_note_missed(s, was);
		if (bad != INI_CHECK_SAME && bad != INI_CHECK_OTHER)
			continue;
		bad = check;
		why = s->error;
	}
	if (bad == INI_CHECK_SAME || has_one)
		return INI_CHECK_SAME;
	s->error = why;
	return bad;
}

static void verify_settle(struct srpi_session *s, struct ini_volume *was,
			  const struct ini_volume *now, bool follow)
{
	char what[256];

	if (was->state == SRPI_LOST)
		return;
	if (!verify_loses(s, was, now, follow, what, sizeof(what))) {
		verify_settle_volume(s, was, now);
		return;
	}
	s->reconnect.again |= !now && s->looking;
	ini_follow_lose(s, was, what);
}

enum ini_check ini_verify_volumes(struct srpi_session *s,
				  const struct ini_volume *found,
				  unsigned int cnt)
{
	bool follow = verify_may_follow(s, found, cnt);
	enum ini_check check = verify_address(s, found, cnt, follow);

	if (check != INI_CHECK_SAME)
		return check;
	if (s->paths.now != s->paths.home &&
	    verify_is_same_target(s, found, cnt))
		ini_path_note_sibling(s);
	for (unsigned int i = 0; i < s->volume_cnt; i++)
		verify_settle(s, s->volumes[i],
			      verify_find(s->volumes[i], found, cnt), follow);
	if (follow)
		verify_add_volumes(s, found, cnt);
	ini_queue_refuse_unready(s);
	return check;
}

void ini_verify_absent(struct srpi_session *s, const struct ini_volume *found,
		       unsigned int cnt)
{
	bool follow = verify_may_follow(s, found, cnt);

	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		struct ini_volume *was = s->volumes[i];

		if (was->state != SRPI_RUNNING)
			verify_settle(s, was, verify_find(was, found, cnt),
				      follow);
	}
	ini_queue_refuse_unready(s);
	ini_queue_sort(s);
	ini_queue_send(s);
}
