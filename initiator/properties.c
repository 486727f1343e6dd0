/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Properties that can change while a volume stays the same: its size (2Ah/09h)
 * and its mode pages (2Ah/01h, and after a reset). The target reports a change
 * by a unit attention, or by SRP_AER_REQ. libsrpi then asks for the property
 * again, and I/O goes on meanwhile. If an attention arrives during a question,
 * the answer is dropped and the question repeated.
 */
#include <stdlib.h>
#include <string.h>

#include "initiator/session.h"
#include "protocol/scsi_cdb.h"
#include "protocol/scsi_mode.h"
#include "protocol/scsi_pages.h"

#define MODE_LEN 192u

struct ini_properties {
	struct srpi_session *session;
	struct ini_cmd cmd;
	struct ini_volume *volume; /* that is asked; NULL: none */
	uint8_t *buf;
	struct srpi_mem *mem;
};

static void ask_next(struct ini_properties *p);

static void learn_capacity(struct ini_properties *p, const uint8_t *answer)
{
	struct srpi_session *s = p->session;
	struct ini_volume *v = p->volume;
	struct scsi_capacity cap;

	if (v->capacity_changed ||
	    scsi_read_capacity_16_decode(answer, p->cmd.data_len, &cap))
		return;
	/* With another block size, this may be another volume. */
	if (cap.block_size != v->info.block_size)
		ini_link_look_again(s, v->lun_field, NULL, /* asked= */ false);
	else
		ini_volume_resize(s, v, cap.blocks * cap.block_size);
}

static void learn_modes(struct ini_properties *p, const uint8_t *answer)
{
	struct ini_volume *v = p->volume;
	const struct srpi_volume_info before = v->info;
	struct scsi_mode mode;

	if (v->modes_changed ||
	    scsi_mode_sense_6_decode(answer, p->cmd.data_len, &mode))
		return;
	ini_volume_set_modes(v, &mode);
	ini_volume_tell_changes(p->session, v, &before);
}

static void properties_answered(struct ini_cmd *cmd, int err)
{
	struct ini_properties *p =
		container_of(cmd, struct ini_properties, cmd);
	uint8_t answer[MODE_LEN]; /* the target may change buf at any time */

	memcpy(answer, p->buf, sizeof(answer));
	/* While discovery runs, its answers count. */
	if (!err && p->session->link == INI_LINK_UP &&
	    p->volume->state == SRPI_RUNNING) {
		if (cmd->len == MODE_LEN)
			learn_modes(p, answer);
		else
			learn_capacity(p, answer);
	}
	p->volume = NULL;
	if (!p->session->closing)
		ask_next(p);
}

static void properties_ask(struct ini_properties *p, struct ini_volume *v)
{
	p->volume = v;
	p->cmd = (struct ini_cmd){
		.volume = v,
		.lun = v->lun_field,
		.dir = INI_DATA_IN,
		.buf = p->buf,
		.mr = p->mem->mr,
		.done = properties_answered,
	};
	if (v->modes_changed) {
		v->modes_changed = false;
		p->cmd.len = MODE_LEN;
		scsi_cdb_mode_sense_6(SCSI_MODE_CACHING, MODE_LEN, p->cmd.cdb);
	} else {
		v->capacity_changed = false;
		p->cmd.len = SCSI_READ_CAPACITY_16_LEN;
		scsi_cdb_read_capacity_16(SCSI_READ_CAPACITY_16_LEN,
					  p->cmd.cdb);
	}
	/* It does not wait for a volume that is absent. */
	ini_session_probe(p->session, &p->cmd);
}

static void ask_next(struct ini_properties *p)
{
	struct srpi_session *s = p->session;

	for (unsigned int i = 0; !p->volume && i < s->volume_cnt; i++) {
		struct ini_volume *v = s->volumes[i];

		if (v->modes_changed || v->capacity_changed)
			properties_ask(p, v);
	}
}

static struct ini_properties *properties_create(struct srpi_session *s)
{
	struct ini_properties *p = calloc(1, sizeof(*p));

	if (!p)
		return NULL;
	p->session = s;
	p->buf = aligned_alloc(4096, 4096);
	if (p->buf) {
		memset(p->buf, 0, 4096);
		if (!srpi_mem_register(s, p->buf, 4096, &p->mem, NULL))
			return p;
	}
	ini_properties_free(p);
	return NULL;
}

void ini_properties_changed(struct srpi_session *s, struct ini_volume *v,
			    bool capacity, bool modes)
{
	v->capacity_changed |= capacity;
	v->modes_changed |= modes;
	if (!s->properties)
		s->properties = properties_create(s);
	/* Without memory the size stays the same, and the modes are those
	 * that lose nothing. */
	if (s->properties)
		ask_next(s->properties);
}

bool ini_properties_ask(const struct srpi_session *s,
			const struct ini_volume *v)
{
	return s->properties && s->properties->volume == v;
}

void ini_properties_free(struct ini_properties *p)
{
	if (!p)
		return;
	srpi_mem_free(p->mem);
	free(p->buf);
	free(p);
}
