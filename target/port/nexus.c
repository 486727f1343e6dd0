/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/nexus.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct nexus *nexus_create(const struct access_who *who, struct lun_map *luns,
			   const struct lun_view *view, unsigned int worker_cnt)
{
	struct nexus *nexus = calloc(
		1, sizeof(*nexus) + worker_cnt * sizeof(nexus->shares[0]));
	struct timespec now;

	if (!nexus)
		return NULL;
	clock_gettime(CLOCK_REALTIME, &now);
	nexus->since_ms = (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
	srp_port_id_format(&who->port, nexus->name);
	/* Its sessions count together, whatever identifiers they have. */
	nexus->meter = meter_begin(METER_OF_INITIATOR,
				   who->name[0] ? who->name : nexus->name);
	if (!nexus->meter) {
		free(nexus);
		return NULL;
	}
	for (unsigned int i = 0; i < worker_cnt; i++) {
		arena_user_init(&nexus->shares[i].data, NULL);
		arena_user_init(&nexus->shares[i].tables, NULL);
	}
	nexus->worker_cnt = worker_cnt;
	nexus->view = *view;
	nexus->scsi.vol = nexus->view.vol;
	nexus->scsi.read_only = nexus->view.read_only;
	nexus->scsi.principal = nexus->view.principal;
	nexus->scsi.awaited = nexus->view.awaited;
	scsi_nexus_init(&nexus->scsi, luns, &who->port);
	nexus->who = *who;
	list_init(&nexus->node);
	list_init(&nexus->channels);
	list_init(&nexus->logins);
	return nexus;
}

void nexus_set_groups(struct nexus *nexus, const struct port_groups *groups)
{
	const uint64_t group[ARENA_GROUPS] = { groups->host,
					       groups->principal };

	nexus->principal = groups->principal;
	for (unsigned int i = 0; i < nexus->worker_cnt; i++) {
		arena_user_regroup(&nexus->shares[i].data, group);
		arena_user_regroup(&nexus->shares[i].tables, group);
	}
}

void nexus_come_back(struct nexus *nexus, bool other_luns)
{
	uint32_t news = SCSI_UA_NEXUS_LOSS;

	if (other_luns)
		news |= SCSI_UA_LUNS_CHANGED;
	for (int i = 0; i < LUNS_MAX; i++)
		atomic_fetch_and(&nexus->scsi.ua[i], ~SCSI_UA_POWER_ON);
	scsi_nexus_attention(&nexus->scsi, /* lun= */ -1, news);
}

void nexus_leave(struct nexus *nexus, unsigned int lun)
{
	memcpy(nexus->left.naa[lun], nexus->view.vol[lun]->info.naa,
	       SCSI_NAA_LEN);
}

bool nexus_left_nothing(const struct nexus *nexus)
{
	static const struct lun_past nothing;

	return !memcmp(&nexus->left, &nothing, sizeof(nothing));
}

void nexus_keep_meaning(const struct lun_past *left, struct lun_view *view)
{
	static const uint8_t none[SCSI_NAA_LEN];

	for (unsigned int lun = 0; lun < LUNS_MAX; lun++) {
		const uint8_t *naa = left->naa[lun];

		if (!view->vol[lun] || !memcmp(naa, none, sizeof(none)) ||
		    !memcmp(naa, view->vol[lun]->info.naa, sizeof(none)))
			continue;
		view->vol[lun] = NULL;
		view->read_only[lun] = false;
		view->cnt--;
	}
}

void nexus_end(struct nexus *nexus)
{
	assert(list_empty(&nexus->channels) && list_empty(&nexus->logins));
	nexus->over = true;
	scsi_nexus_end(&nexus->scsi);
}

void nexus_free(struct nexus *nexus)
{
	assert(nexus->over && !nexus->closed_cnt);
	list_del(&nexus->node);
	scsi_nexus_fini(&nexus->scsi);
	meter_end(nexus->meter);
	free(nexus);
}
