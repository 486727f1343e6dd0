/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/lun_view.h"

#include <string.h>

/* False: there is a volume with that LUN already. */
static bool lun_view_add(struct lun_view *view, struct volume *vol,
			 unsigned int lun, bool read_only)
{
	if (view->vol[lun])
		return false;
	view->vol[lun] = vol;
	view->read_only[lun] = read_only;
	view->cnt++;
	return true;
}

void lun_view_make(struct lun_view *view, const struct lun_map *luns,
		   const struct access_rules *everybody,
		   const struct srp_port_id *port, const struct in6_addr *addr,
		   const struct volume **ret_hidden)
{
	memset(view, 0, sizeof(*view));
	*ret_hidden = NULL;
	for (unsigned int i = 0; i < luns->cnt; i++) {
		struct volume *vol = luns->vol[i];
		const struct access_rules *rules =
			vol->allow.cnt ? &vol->allow : everybody;
		const struct access_rule *rule =
			access_rules_find(rules, port, addr);
		unsigned int lun = vol->lun;

		if (rules->cnt && !rule)
			continue;
		if (rule && rule->lun >= 0)
			lun = (unsigned int)rule->lun;
		if (!lun_view_add(view, vol, lun, rule && rule->read_only))
			*ret_hidden = vol;
	}
}

/* FNV-1a over the volumes, empty LUNs included, in the order of the LUNs. */
uint64_t lun_view_digest(const struct lun_view *view)
{
	uint64_t hash = 0xcbf29ce484222325u;

	for (unsigned int i = 0; i < LUNS_MAX; i++)
		hash = (hash ^ (uintptr_t)view->vol[i]) * 0x100000001b3u;
	return hash;
}

bool lun_view_equal(const struct lun_view *a, const struct lun_view *b)
{
	return !memcmp(a->vol, b->vol, sizeof(a->vol)) &&
	       !memcmp(a->read_only, b->read_only, sizeof(a->read_only));
}
