/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_medium.h"

#include "target/manage_volume.h"

bool manage_eject_volume(struct manage *m, const char *name, bool eject,
			 struct manage_fault *f)
{
	struct volume *vol = manage_served(m, name);
	struct error e;
	int res;

	if (!vol)
		return manage_refuse_unknown(f, name);
	if (!vol->info.removable)
		return manage_refuse_volume(
			f, name, "removable",
			"its medium cannot be removed (option removable)");
	if (eject && manage_flush_volume(m, vol, &e))
		return manage_refuse_volume(f, name, "", e.text);
	res = unit_state_eject(&vol->state, eject);
	if (res < 0)
		return manage_refuse_volume(
			f, name, "",
			"an initiator prevents the removal of its medium");
	if (res > 0 && !eject)
		scsi_attention_others(&m->server->luns, vol, /* except= */ NULL,
				      SCSI_UA_MEDIUM_MAY_DIFFER);
	return true;
}
