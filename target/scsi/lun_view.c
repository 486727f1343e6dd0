/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/lun_view.h"
#include "base/hash.h"

#include <string.h>

#include "protocol/wire.h"

/* False: there is a volume with that LUN already. */
static bool lun_view_add(struct lun_view *view, struct volume *vol,
			 unsigned int lun, const struct access_rule *rule,
			 const struct access_who *who)
{
	if (view->vol[lun])
		return false;
	view->vol[lun] = vol;
	view->read_only[lun] = rule->read_only || who->read_only;
	view->principal[lun] = access_principal(rule, who);
	view->cnt++;
	return true;
}

static const struct access_rules *
lun_view_rules(const struct volume *vol, const struct access_rules *of_target)
{
	return vol->allow.cnt ? &vol->allow : of_target;
}

static void lun_view_await(struct lun_view *view, const struct lun_map *luns,
			   const struct access_rules *of_target,
			   const struct access_who *who)
{
	for (unsigned int i = 0; i < luns->awaited_cnt; i++) {
		const struct volume *vol = luns->awaited[i];
		const struct access_rule *rule =
			access_rules_find(lun_view_rules(vol, of_target), who);

		if (rule)
			view->awaited[rule->lun >= 0 ? (unsigned int)rule->lun
						     : vol->lun] = true;
	}
}

void lun_view_make(struct lun_view *view, struct lun_map *luns,
		   const struct access_rules *of_target,
		   const struct access_who *who,
		   const struct volume **ret_hidden)
{
	memset(view, 0, sizeof(*view));
	*ret_hidden = NULL;
	for (unsigned int i = 0; i < luns->cnt; i++) {
		struct volume *vol = luns->vol[i];
		const struct access_rule *rule =
			access_rules_find(lun_view_rules(vol, of_target), who);
		unsigned int lun = vol->lun;

		if (!rule)
			continue;
		if (rule->lun >= 0)
			lun = (unsigned int)rule->lun;
		else
			luns->seen[lun] = true;
		if (!lun_view_add(view, vol, lun, rule, who))
			*ret_hidden = vol;
	}
	lun_view_await(view, luns, of_target, who);
}

/* Who is known on a volume. */
struct lun_view_known {
	const struct access_rules *rules;
	const struct access_names *names;
};

/* For writers_follow(). */
static bool lun_view_names(const void *known, const uint8_t *principal)
{
	const struct lun_view_known *k = known;

	return access_rules_name(k->rules, k->names, wire_get64(principal));
}

void lun_map_follow_rules(struct lun_map *luns,
			  const struct access_rules *of_target,
			  const struct access_names *names)
{
	for (unsigned int i = 0; i < luns->cnt; i++) {
		struct volume *vol = luns->vol[i];
		const struct lun_view_known known = {
			.rules = lun_view_rules(vol, of_target),
			.names = names,
		};

		unit_state_follow_rules(&vol->state, known.rules, names);
		writers_follow(&vol->dev.writers, lun_view_names, &known);
	}
}

uint64_t lun_map_principal(const struct lun_map *luns,
			   const struct access_rules *of_target,
			   const struct access_who *who)
{
	uint64_t one = access_rules_principal(of_target, who);
	uint64_t hash = hash_bytes(HASH_BEGIN, &one, sizeof(one));

	for (unsigned int i = 0; i < luns->cnt; i++) {
		if (!luns->vol[i]->allow.cnt)
			continue;
		one = access_rules_principal(&luns->vol[i]->allow, who);
		hash = hash_bytes(hash, &one, sizeof(one));
	}
	return hash;
}

bool lun_map_has_principals(const struct lun_map *luns,
			    const struct access_rules *of_target,
			    const struct access_names *names)
{
	for (unsigned int i = 0; i < luns->cnt; i++) {
		if (luns->vol[i]->allow.cnt)
			return true;
	}
	return of_target->cnt > 1 || names->demanded;
}

/* Over the identities of the volumes, empty LUNs included, in the order of the
 * LUNs. A volume may have the address of one that is gone. */
uint64_t lun_view_digest(const struct lun_view *view)
{
	static const uint8_t none[SCSI_NAA_LEN];
	uint64_t hash = HASH_BEGIN;

	for (unsigned int i = 0; i < LUNS_MAX; i++)
		hash = hash_bytes(hash,
				  view->vol[i] ? view->vol[i]->info.naa : none,
				  SCSI_NAA_LEN);
	return hash;
}

bool lun_view_equal(const struct lun_view *a, const struct lun_view *b)
{
	return !memcmp(a->vol, b->vol, sizeof(a->vol)) &&
	       !memcmp(a->read_only, b->read_only, sizeof(a->read_only));
}

bool lun_view_awaits(const struct lun_view *view)
{
	return memchr(view->awaited, 1, sizeof(view->awaited));
}

bool lun_view_has_leaver(const struct lun_view *view)
{
	for (unsigned int lun = 0; lun < LUNS_MAX; lun++) {
		if (view->vol[lun] && view->vol[lun]->leaving)
			return true;
	}
	return false;
}
