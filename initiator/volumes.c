/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "initiator/session.h"

unsigned int srpi_volume_cnt(const struct srpi_session *s)
{
	return s->volume_cnt;
}

const struct srpi_volume_info *srpi_volume_info(const struct srpi_session *s,
						unsigned int volume)
{
	return &s->volumes[volume].info;
}

int srpi_volume_find(const struct srpi_session *s, const char *name_or_lun,
		     unsigned int *ret_volume)
{
	unsigned long lun;
	char *end;

	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		if (strcmp(s->volumes[i].info.name, name_or_lun) == 0) {
			*ret_volume = i;
			return 0;
		}
	}
	lun = strtoul(name_or_lun, &end, 10);
	if (end == name_or_lun || *end)
		return -ENOENT;
	for (unsigned int i = 0; i < s->volume_cnt; i++) {
		if (s->volumes[i].info.lun == lun) {
			*ret_volume = i;
			return 0;
		}
	}
	return -ENOENT;
}
