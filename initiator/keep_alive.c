/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a session without I/O notices. A target that sends SRP_AER_REQ reports
 * changes by itself, but others report them only with the answer to a command.
 * So, from time to time, TEST UNIT READY goes to each volume, one after the
 * other. Its answer has the unit attention, or tells that the port is in standby;
 * without an answer, the connection is lost (io_timeout_ms). When there is no
 * volume left to ask, REPORT LUNS tells whether there are new ones.
 */
#include <string.h>

#include "initiator/session.h"
#include "protocol/scsi_cdb.h"
#include "protocol/wire.h"

/* REPORT LUNS: the header, and one LUN. */
#define LUNS_LEN 16u

_Static_assert(LUNS_LEN <= INI_PARAM_MAX, "ini_cmd.param is too small");

static struct srpi_session *keep_alive_session(struct ini_cmd *cmd)
{
	return container_of(cmd, struct srpi_session, keep_alive.cmd);
}

static void keep_alive_luns_reported(struct ini_cmd *cmd, int err)
{
	const struct scsi_sense news = scsi_sense(
		SCSI_KEY_UNIT_ATTENTION, SCSI_ASC_REPORTED_LUNS_CHANGED);
	struct srpi_session *s = keep_alive_session(cmd);

	s->keep_alive.asking = false;
	if (!err && !s->closing && cmd->data_len >= 4 &&
	    wire_get32(cmd->param) > 0)
		ini_link_look_again(s, 0, &news, /* asked= */ false);
}

static void keep_alive_ask_luns(struct srpi_session *s)
{
	struct ini_cmd *cmd = &s->keep_alive.cmd;

	*cmd = (struct ini_cmd){ .dir = INI_PARAM_IN,
				 .len = LUNS_LEN,
				 .done = keep_alive_luns_reported };
	scsi_cdb_report_luns(LUNS_LEN, cmd->cdb);
	s->keep_alive.asking = true;
	ini_session_probe(s, cmd);
}

/* The next volume to ask; NULL: none is left. */
static struct ini_volume *keep_alive_next(struct srpi_session *s)
{
	while (s->keep_alive.next < s->volume_cnt) {
		struct ini_volume *v = s->volumes[s->keep_alive.next++];

		if (v->state == SRPI_RUNNING && ini_path_wants(s, v))
			return v;
	}
	return NULL;
}

static void keep_alive_ask(struct srpi_session *s);

/* What the answer says has been noted (ini_volume_attention()). */
static void keep_alive_answered(struct ini_cmd *cmd, int err)
{
	struct srpi_session *s = keep_alive_session(cmd);

	s->keep_alive.asking = false;
	if (!s->closing && s->state == SRPI_RUNNING)
		keep_alive_ask(s);
}

static void keep_alive_ask(struct srpi_session *s)
{
	bool is_first = s->keep_alive.next == 0;
	struct ini_volume *v = keep_alive_next(s);
	struct ini_cmd *cmd = &s->keep_alive.cmd;

	if (!v) {
		if (is_first)
			keep_alive_ask_luns(s);
		return;
	}
	*cmd = (struct ini_cmd){ .volume = v,
				 .lun = v->lun_field,
				 .dir = INI_NO_DATA,
				 .done = keep_alive_answered };
	scsi_cdb_test_unit_ready(cmd->cdb);
	s->keep_alive.asking = true;
	ini_session_probe(s, cmd);
}

static void keep_alive_due(struct reactor_timer *t)
{
	struct srpi_session *s =
		container_of(t, struct srpi_session, keep_alive.timer);

	if (s->state != SRPI_RUNNING)
		return; /* it starts again then */
	ini_keep_alive_start(s);
	if (s->keep_alive.asking)
		return;
	s->keep_alive.next = 0;
	keep_alive_ask(s);
}

void ini_keep_alive_init(struct srpi_session *s)
{
	reactor_timer_init(&s->keep_alive.timer, keep_alive_due);
}

void ini_keep_alive_start(struct srpi_session *s)
{
	if (s->options.keep_alive_ms > 0)
		reactor_timer_set(s->ctx->reactor, &s->keep_alive.timer,
				  (uint64_t)s->options.keep_alive_ms);
}

void ini_keep_alive_stop(struct srpi_session *s)
{
	reactor_timer_stop(&s->keep_alive.timer);
}

bool ini_keep_alive_asks(const struct srpi_session *s,
			 const struct ini_volume *v)
{
	return s->keep_alive.asking && s->keep_alive.cmd.volume == v;
}
