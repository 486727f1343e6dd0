/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator/exchange.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "initiator/session.h"
#include "protocol/scsi_cdb.h"
#include "protocol/scsi_vpd.h"

static void exchange_answered(struct ini_cmd *cmd, int err)
{
	struct ini_exchange *x = container_of(cmd, struct ini_exchange, cmd);

	/* INQUIRY has as much as it has. */
	if (!err && ini_dir_is_in(cmd->dir) &&
	    x->kind != INI_EXCHANGE_INQUIRY && cmd->data_len != cmd->len)
		err = -EIO;
	x->done(x, err);
}

static void exchange_data(struct ini_exchange *x, enum ini_dir dir)
{
	x->cmd.dir = dir;
	x->cmd.buf = x->buf;
	x->cmd.len = x->len;
	x->cmd.mr = x->mem->mr;
}

void ini_exchange_begin(struct srpi_session *s, struct ini_exchange *x)
{
	uint8_t *cdb = x->cmd.cdb;

	x->cmd = (struct ini_cmd){ .done = exchange_answered };
	if (s->volume_cnt) {
		x->cmd.volume = s->volumes[0];
		x->cmd.lun = s->volumes[0]->lun_field;
	}
	switch (x->kind) {
	case INI_EXCHANGE_SEND:
		x->cmd.dir = INI_NO_DATA;
		scsi_cdb_inquiry(0, cdb);
		break;
	case INI_EXCHANGE_INQUIRY:
		exchange_data(x, INI_DATA_IN);
		scsi_cdb_inquiry((uint16_t)x->len, cdb);
		break;
	case INI_EXCHANGE_READ_ECHO:
		exchange_data(x, INI_DATA_IN);
		scsi_cdb_read_buffer(SCSI_BUFFER_ECHO, 0, x->len, cdb);
		break;
	case INI_EXCHANGE_WRITE_ECHO:
		exchange_data(x, INI_DATA_OUT);
		scsi_cdb_write_buffer(SCSI_BUFFER_ECHO, 0, x->len, cdb);
		break;
	case INI_EXCHANGE_READ_BUFFER:
		exchange_data(x, INI_DATA_IN);
		scsi_cdb_read_buffer(SCSI_BUFFER_DATA, 0, x->len, cdb);
		break;
	case INI_EXCHANGE_WRITE_BUFFER:
		exchange_data(x, INI_DATA_OUT);
		scsi_cdb_write_buffer(SCSI_BUFFER_DATA, 0, x->len, cdb);
		break;
	}
	ini_session_submit(s, &x->cmd);
}

bool ini_exchange_has_buffer(const struct srpi_session *s)
{
	char vendor[sizeof(SCSI_OUR_VENDOR)];

	if (!s->volume_cnt)
		return false;
	/* The spaces at its end were cut off. */
	snprintf(vendor, sizeof(vendor), "%-8s", s->volumes[0]->info.vendor);
	return strcmp(vendor, SCSI_OUR_VENDOR) == 0;
}

void ini_login_failure(const struct srpi_session *s,
		       struct ini_login_failure *ret)
{
	*ret = (struct ini_login_failure){ .is_rejected = s->login_rejected,
					   .reason = s->login_reason,
					   .err = s->login_why.err,
					   .text = s->login_why.text };
}
