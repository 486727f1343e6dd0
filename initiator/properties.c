/* SPDX-License-Identifier: BSD-2-Clause */
/* The size of a volume is asked for again when the target says that it has
 * changed (2Ah/09h): in a unit attention, or unasked in SRP_AER_REQ. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "initiator/session.h"
#include "protocol/scsi_pages.h"

struct ini_capacity {
	struct srpi_session *session;
	struct ini_cmd cmd;
	struct ini_volume *volume; /* that is asked; NULL: none */
	uint8_t *buf;
	struct srpi_mem *mem;
};

static void ask_next(struct ini_capacity *c);

static void learn(struct ini_capacity *c)
{
	struct ini_volume *v = c->volume;
	uint8_t answer[SCSI_READ_CAPACITY_16_LEN]; /* buf is the target's */
	struct scsi_capacity cap;

	memcpy(answer, c->buf, sizeof(answer));
	if (scsi_read_capacity_16_decode(answer, c->cmd.data_len, &cap) ||
	    cap.block_size != v->info.block_size)
		return;
	ini_volume_resize(c->session, v, cap.blocks * cap.block_size);
}

static void answered(struct ini_cmd *cmd, int err)
{
	struct ini_capacity *c = container_of(cmd, struct ini_capacity, cmd);

	if (!err)
		learn(c);
	c->volume = NULL;
	if (!c->session->closing)
		ask_next(c);
}

static void ask(struct ini_capacity *c, struct ini_volume *v)
{
	v->capacity_changed = false;
	c->volume = v;
	c->cmd = (struct ini_cmd){
		.lun = v->lun_field,
		.dir = INI_DATA_IN,
		.len = SCSI_READ_CAPACITY_16_LEN,
		.buf = c->buf,
		.mr = c->mem->mr,
		.done = answered,
	};
	scsi_cdb_read_capacity_16(SCSI_READ_CAPACITY_16_LEN, c->cmd.cdb);
	ini_session_submit(c->session, &c->cmd);
}

static void ask_next(struct ini_capacity *c)
{
	struct srpi_session *s = c->session;

	for (unsigned int i = 0; !c->volume && i < s->volume_cnt; i++) {
		if (s->volumes[i].capacity_changed)
			ask(c, &s->volumes[i]);
	}
}

static struct ini_capacity *create(struct srpi_session *s)
{
	struct ini_capacity *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->session = s;
	c->buf = aligned_alloc(4096, 4096);
	if (c->buf) {
		memset(c->buf, 0, 4096);
		if (!srpi_mem_register(s, c->buf, 4096, &c->mem, NULL))
			return c;
	}
	ini_capacity_free(c);
	return NULL;
}

void ini_capacity_changed(struct srpi_session *s, struct ini_volume *v)
{
	v->capacity_changed = true;
	if (!s->capacity)
		s->capacity = create(s);
	/* Without memory the size stays what it was: nothing breaks. */
	if (s->capacity)
		ask_next(s->capacity);
}

void ini_capacity_free(struct ini_capacity *c)
{
	if (!c)
		return;
	srpi_mem_free(c->mem);
	free(c->buf);
	free(c);
}
