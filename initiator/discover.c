/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Discovery sends REPORT LUNS, then the questions of steps[] to each logical
 * unit, one command at a time. It skips units that are not disks, and questions
 * that an older target does not know. A unit that does not answer INQUIRY or READ
 * CAPACITY is not known (ini_volume.is_known), and the others are asked.
 */
#include "initiator/session.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_mode.h"
#include "protocol/scsi_pages.h"
#include "protocol/scsi_vpd.h"
#include "protocol/srp_iu.h"

#define BUF_LEN	 16384u
#define LUNS_MAX 1024u
/* Target port groups that are looked at; there may be more. */
#define GROUPS_MAX 32u
#define GROUPS_LEN 1024u

struct ini_discovery {
	struct srpi_session *session;
	struct ini_cmd cmd;
	struct srpi_mem *mem;
	uint8_t *buf; /* the target can write to it at any time ... */
	uint8_t answer[BUF_LEN]; /* ... so answers are read from a copy */
	uint64_t luns[LUNS_MAX]; /* as the target wrote them */
	size_t lun_cnt;
	size_t lun;	       /* index of the one that is asked */
	unsigned int step;     /* of steps[], enum ini_question */
	const char *question;  /* asked last: the name of a command */
	bool pages[256];       /* VPD pages that the unit has */
	struct ini_volume vol; /* what is known of it */
	bool has_alua;	       /* it can tell its target port groups */
	struct scsi_port_group groups[GROUPS_MAX];
	bool has_own_group;
	uint16_t own_group;	    /* of the port that we ask */
	bool has_volume;	    /* false: not a disk */
	bool aside;		    /* only what is absent; I/O goes on */
	struct ini_volume *volumes; /* that were found */
	unsigned int volume_cnt;
	void (*done)(struct srpi_session *s, int err);
};

/* What to do with an answer that is an error or nonsense. */
enum step_need {
	NEEDED,	  /* the unit is not known */
	OPTIONAL, /* we know less */
};

struct step {
	const char *name;
	enum step_need need;
	int page; /* VPD page to ask for when the unit lists it; -1: no page */
	/* Fills in the CDB; returns the length of data-in. */
	uint32_t (*ask)(struct ini_discovery *d);
	/* Reads @len bytes of answer; 0 or -EBADMSG. */
	int (*learn)(struct ini_discovery *d, size_t len);
};

/* ---- the questions ---- */

static uint32_t ask_inquiry(struct ini_discovery *d)
{
	scsi_cdb_inquiry(SCSI_INQUIRY_LEN, d->cmd.cdb);
	return SCSI_INQUIRY_LEN;
}

static int learn_inquiry(struct ini_discovery *d, size_t len)
{
	struct srpi_volume_info *info = &d->vol.info;
	struct scsi_inquiry inq;

	if (scsi_inquiry_decode(d->answer, len, &inq))
		return -EBADMSG;
	d->has_volume = inq.qualifier == 0 && inq.device_type == 0;
	d->has_alua = inq.alua;
	snprintf(info->vendor, sizeof(info->vendor), "%s", inq.vendor);
	snprintf(info->product, sizeof(info->product), "%s", inq.product);
	snprintf(info->revision, sizeof(info->revision), "%s", inq.revision);
	return 0;
}

/* Only a session with several addresses needs the groups. */
static uint32_t ask_groups(struct ini_discovery *d)
{
	if (!d->has_alua || !ini_paths_several(d->session))
		return 0;
	scsi_cdb_report_port_groups(GROUPS_LEN, d->cmd.cdb);
	return GROUPS_LEN;
}

static int learn_groups(struct ini_discovery *d, size_t len)
{
	struct ini_access *access = &d->vol.access;
	size_t total;

	if (scsi_report_port_groups_decode(d->answer, len, d->groups,
					   GROUPS_MAX, &total))
		return -EBADMSG;
	access->group_cnt =
		total < GROUPS_MAX ? (unsigned int)total : GROUPS_MAX;
	for (unsigned int i = 0; i < access->group_cnt; i++)
		access->active_cnt += scsi_alua_is_active(d->groups[i].state);
	return 0;
}

static uint32_t ask_vpd(struct ini_discovery *d, uint8_t page)
{
	scsi_cdb_inquiry_vpd(page, SCSI_VPD_MAX_LEN, d->cmd.cdb);
	return SCSI_VPD_MAX_LEN;
}

static uint32_t ask_page_list(struct ini_discovery *d)
{
	return ask_vpd(d, SCSI_VPD_SUPPORTED_PAGES);
}

static int learn_page_list(struct ini_discovery *d, size_t len)
{
	for (unsigned int p = 0; p < 256; p++)
		d->pages[p] = scsi_vpd_lists(d->answer, len, (uint8_t)p);
	return 0;
}

static int learn_serial(struct ini_discovery *d, size_t len)
{
	char serial[SCSI_SERIAL_MAX + 1];

	if (scsi_vpd_decode_serial(d->answer, len, serial))
		return -EBADMSG;
	snprintf(d->vol.info.serial, sizeof(d->vol.info.serial), "%s", serial);
	return 0;
}

static int learn_ids(struct ini_discovery *d, size_t len)
{
	struct srpi_volume_info *info = &d->vol.info;
	struct scsi_vpd_ids ids;
	int n;

	if (scsi_vpd_decode_ids(d->answer, len, &ids))
		return -EBADMSG;
	snprintf(info->name, sizeof(info->name), "%.*s",
		 (int)sizeof(info->name) - 1, ids.name);
	d->has_own_group = ids.has_port_group;
	d->own_group = ids.port_group;
	d->vol.access.port_len = ids.port_len;
	memcpy(d->vol.access.port, ids.port, ids.port_len);
	if (ids.naa_len == 0)
		return 0;
	n = snprintf(info->naa, sizeof(info->naa), "naa.");
	for (unsigned int i = 0; i < ids.naa_len; i++)
		n += snprintf(info->naa + n, sizeof(info->naa) - n, "%02x",
			      ids.naa[i]);
	return 0;
}

/* Limits stay in blocks until the block size is known. */
static int learn_limits(struct ini_discovery *d, size_t len)
{
	struct scsi_block_limits lim;

	if (scsi_vpd_decode_limits(d->answer, len, &lim))
		return -EBADMSG;
	d->vol.info.max_transfer = lim.max_transfer_blocks;
	d->vol.info.optimal_transfer = lim.optimal_transfer_blocks;
	d->vol.info.unmap_granularity = lim.unmap_granularity_blocks;
	d->vol.unmap_alignment = lim.unmap_alignment_blocks;
	d->vol.max_unmap_blocks =
		lim.max_unmap_descs ? lim.max_unmap_blocks : 0;
	d->vol.max_write_same_blocks =
		lim.max_write_same_blocks > UINT32_MAX
			? UINT32_MAX
			: (uint32_t)lim.max_write_same_blocks;
	return 0;
}

static int learn_rotation(struct ini_discovery *d, size_t len)
{
	uint16_t rate;

	if (scsi_vpd_decode_rotation(d->answer, len, &rate))
		return -EBADMSG;
	d->vol.info.rotational = rate > 1;
	return 0;
}

static int learn_provisioning(struct ini_discovery *d, size_t len)
{
	struct scsi_provisioning p;

	if (scsi_vpd_decode_provisioning(d->answer, len, &p))
		return -EBADMSG;
	d->vol.info.unmap = p.lbpu || p.lbpws;
	d->vol.info.unmap_zeroes |= p.lbprz;
	d->vol.unmap_by_write_same = p.lbpws && !p.lbpu;
	d->vol.write_same_unmap = p.lbpws;
	return 0;
}

static int learn_store(struct ini_discovery *d, size_t len)
{
	if (scsi_vpd_decode_store(d->answer, len, &d->vol.store))
		return -EBADMSG;
	d->vol.has_store = true;
	return 0;
}

static uint32_t ask_capacity_16(struct ini_discovery *d)
{
	scsi_cdb_read_capacity_16(SCSI_READ_CAPACITY_16_LEN, d->cmd.cdb);
	return SCSI_READ_CAPACITY_16_LEN;
}

static void set_capacity(struct ini_discovery *d,
			 const struct scsi_capacity *cap)
{
	struct srpi_volume_info *info = &d->vol.info;

	info->size = cap->blocks * cap->block_size;
	info->block_size = cap->block_size;
	d->vol.block_shift = (uint8_t)__builtin_ctz(cap->block_size);
	info->physical_block_size = cap->block_size << cap->physical_exp;
	if (cap->lbpme && cap->lbprz)
		info->unmap_zeroes = true;
}

static int learn_capacity_16(struct ini_discovery *d, size_t len)
{
	struct scsi_capacity cap;

	if (scsi_read_capacity_16_decode(d->answer, len, &cap))
		return -EBADMSG;
	set_capacity(d, &cap);
	return 0;
}

/* Asked only when READ CAPACITY (16) gave no size. */
static uint32_t ask_capacity_10(struct ini_discovery *d)
{
	if (d->vol.info.size > 0)
		return 0;
	scsi_cdb_read_capacity_10(d->cmd.cdb);
	return SCSI_READ_CAPACITY_10_LEN;
}

static int learn_capacity_10(struct ini_discovery *d, size_t len)
{
	struct scsi_capacity cap;

	if (scsi_read_capacity_10_decode(d->answer, len, &cap))
		return -EBADMSG;
	set_capacity(d, &cap);
	return 0;
}

static uint32_t ask_mode(struct ini_discovery *d)
{
	scsi_cdb_mode_sense_6(SCSI_MODE_CACHING, 192, d->cmd.cdb);
	return 192;
}

static int learn_mode(struct ini_discovery *d, size_t len)
{
	struct scsi_mode mode;

	if (scsi_mode_sense_6_decode(d->answer, len, &mode))
		return -EBADMSG;
	ini_volume_set_modes(&d->vol, &mode);
	return 0;
}

/*
 * READ CAPACITY comes before the pages: it receives a pending unit attention,
 * so the pages show the state after that.
 */
static const struct step steps[] = {
	[INI_Q_INQUIRY] = { "INQUIRY", NEEDED, -1, ask_inquiry, learn_inquiry },
	[INI_Q_GROUPS] = { "REPORT TARGET PORT GROUPS", OPTIONAL, -1,
			   ask_groups, learn_groups },
	[INI_Q_CAPACITY_16] = { "READ CAPACITY (16)", OPTIONAL, -1,
				ask_capacity_16, learn_capacity_16 },
	[INI_Q_CAPACITY_10] = { "READ CAPACITY (10)", NEEDED, -1,
				ask_capacity_10, learn_capacity_10 },
	[INI_Q_PAGES] = { "INQUIRY, VPD page 00h", OPTIONAL, -1, ask_page_list,
			  learn_page_list },
	[INI_Q_SERIAL] = { "INQUIRY, VPD page 80h", OPTIONAL, 0x80, NULL,
			   learn_serial },
	[INI_Q_IDS] = { "INQUIRY, VPD page 83h", OPTIONAL, 0x83, NULL,
			learn_ids },
	[INI_Q_LIMITS] = { "INQUIRY, VPD page B0h", OPTIONAL, 0xb0, NULL,
			   learn_limits },
	[INI_Q_ROTATION] = { "INQUIRY, VPD page B1h", OPTIONAL, 0xb1, NULL,
			     learn_rotation },
	[INI_Q_PROVISIONING] = { "INQUIRY, VPD page B2h", OPTIONAL, 0xb2, NULL,
				 learn_provisioning },
	[INI_Q_STORE] = { "INQUIRY, VPD page C0h", OPTIONAL, 0xc0, NULL,
			  learn_store },
	[INI_Q_MODES] = { "MODE SENSE (6)", OPTIONAL, -1, ask_mode,
			  learn_mode },
};

const char *ini_discovery_question(enum ini_question q)
{
	return steps[q].name;
}

/* ---- what becomes of the answers ---- */

/* s->error tells of the last question, which failed with @err. */
static void discover_explain(struct ini_discovery *d, int err)
{
	ini_error_no_volumes(d->session, err, d->question, d->vol.info.lun,
			     d->cmd.has_sense ? &d->cmd.sense : NULL);
}

/* Keeps the reason of the first unit that cannot describe itself. */
static void discover_note_fault(struct ini_discovery *d, int err)
{
	struct error *fault = &d->session->not_ready;
	const struct error before = d->session->error;

	if (fault->err)
		return;
	discover_explain(d, err);
	*fault = d->session->error;
	d->session->error = before;
}

/* Ends discovery. @err: of the last question, or 0. */
static void discover_finish(struct ini_discovery *d, int err)
{
	if (err && err != -ECANCELED)
		discover_explain(d, err);
	d->done(d->session, err);
}

static bool name_is_taken(const struct ini_discovery *d, const char *name)
{
	for (unsigned int i = 0; i < d->volume_cnt; i++) {
		if (strcmp(d->volumes[i].info.name, name) == 0)
			return true;
	}
	return false;
}

void ini_volume_rename(struct srpi_volume_info *info, const char *base,
		       unsigned int n)
{
	snprintf(info->name, sizeof(info->name), n ? "%s-lun%u-%u" : "%s-lun%u",
		 base, info->lun, n);
}

/* Chooses a printable file name that is unique in this session. */
static void discover_choose_name(const struct ini_discovery *d,
				 struct srpi_volume_info *info)
{
	char base[60];

	if (info->name[0] == '\0')
		snprintf(info->name, sizeof(info->name), "%s", info->product);
	for (char *c = info->name; *c; c++) {
		if (*c == '/' || *c < ' ' || *c > '~')
			*c = '_';
	}
	if (info->name[0] == '\0' || info->name[0] == '.')
		snprintf(info->name, sizeof(info->name), "lun%u", info->lun);
	snprintf(base, sizeof(base), "%.49s", info->name);
	for (unsigned int n = 0; name_is_taken(d, info->name); n++)
		ini_volume_rename(info, base, n);
}

/* Converts the limits to bytes, and sets those that the target does not
 * report. */
static void settle_limits(struct ini_volume *vol)
{
	struct srpi_volume_info *info = &vol->info;
	uint64_t max = (uint64_t)info->max_transfer * info->block_size;
	uint64_t optimal = (uint64_t)info->optimal_transfer * info->block_size;

	if (max == 0 || max > 4u << 20)
		max = 4u << 20;
	info->max_transfer = (uint32_t)max;
	info->optimal_transfer = optimal <= max ? (uint32_t)optimal : 0;
	if (vol->max_unmap_blocks == 0 && !vol->unmap_by_write_same)
		info->unmap = false;
	/* SBC-3: 0 is "not reported". Every target takes this number. */
	if (vol->max_write_same_blocks == 0)
		vol->max_write_same_blocks = 0xffff;
	/* LBPRZ is about blocks that are deallocated. Whether UNMAP deallocates
	 * a block is up to the target. WRITE SAME with the UNMAP bit has to
	 * leave zeroes. */
	if (!info->unmap_zeroes ||
	    info->unmap_granularity > vol->max_write_same_blocks)
		vol->write_same_unmap = false;
	info->unmap_zeroes = vol->write_same_unmap;
	info->unmap_granularity *= info->block_size;
	vol->unmap_alignment *= info->block_size;
}

/* The state of the group of our port counts. If that group is unknown, those
 * of all groups count. */
static void settle_access(struct ini_discovery *d)
{
	struct ini_access *access = &d->vol.access;

	for (unsigned int i = 0; i < access->group_cnt; i++) {
		if (!d->has_own_group || d->groups[i].id != d->own_group)
			continue;
		access->own_is_active = scsi_alua_is_active(d->groups[i].state);
		access->is_standby |= !access->own_is_active;
	}
	if (access->group_cnt && !access->active_cnt)
		access->is_standby = true;
}

static int add_volume(struct ini_discovery *d)
{
	struct ini_volume *all =
		reallocarray(d->volumes, d->volume_cnt + 1, sizeof(*all));

	if (!all)
		return -ENOMEM;
	d->volumes = all;
	settle_limits(&d->vol);
	settle_access(d);
	discover_choose_name(d, &d->vol.info);
	all[d->volume_cnt++] = d->vol;
	return 0;
}

/* ---- the row of steps ---- */

static void discover_ask(struct ini_discovery *d);

static void begin_lun(struct ini_discovery *d)
{
	uint64_t field = d->luns[d->lun];

	memset(&d->vol, 0, sizeof(d->vol));
	memset(d->pages, 0, sizeof(d->pages));
	d->has_volume = false;
	d->has_alua = false;
	d->has_own_group = false;
	d->step = 0;
	d->vol.lun_field = field;
	/* Assume a cache until the unit reports none: no flush may be
	 * skipped by mistake. */
	d->vol.info.write_cache = true;
	d->vol.cache_unknown = true;
	d->vol.is_known = true;
	if (srp_lun_decode(field, &d->vol.info.lun))
		d->vol.info.lun = (uint32_t)d->lun;
}

/* On to the next question; false when there is none left. */
static bool discover_advance(struct ini_discovery *d, int *ret_err)
{
	d->step++;
	if (d->has_volume && d->step < ARRAY_SIZE(steps))
		return true;
	if (d->has_volume)
		*ret_err = add_volume(d);
	d->lun++;
	if (*ret_err || d->lun == d->lun_cnt)
		return false;
	begin_lun(d);
	return true;
}

/* The target can change the buffer: copy the answer before a length in it is
 * checked. */
static size_t take_answer(struct ini_discovery *d)
{
	memcpy(d->answer, d->buf, d->cmd.data_len);
	return d->cmd.data_len;
}

static enum ini_answer judge_answer(const struct ini_cmd *cmd, int err)
{
	if (!err)
		return INI_ANSWERED;
	return cmd->has_sense && cmd->sense.key == SCSI_KEY_ILLEGAL_REQUEST
		       ? INI_REFUSED
		       : INI_FAILED;
}

/*
 * A unit that cannot describe itself costs no other one anything: it is ejected, is
 * being formatted, or has odd blocks. It may still tell which one it is. Whether the
 * program needs it is known when all have been asked.
 */
static bool discover_does_without(struct ini_discovery *d, int err)
{
	if (err == -ESHUTDOWN)
		return false;
	d->vol.is_known = false;
	d->has_volume = err != -ENODEV;
	if (d->step == INI_Q_INQUIRY)
		d->step = ARRAY_SIZE(steps) - 1;
	discover_note_fault(d, err);
	return true;
}

/* The connection is gone or going; or all volumes have to be asked. */
static bool discover_is_over(const struct ini_discovery *d)
{
	return d->session->closing ||
	       d->session->link != (d->aside ? INI_LINK_UP : INI_LINK_ASKING);
}

static void discover_answered(struct ini_cmd *cmd, int err)
{
	struct ini_discovery *d = container_of(cmd, struct ini_discovery, cmd);
	const struct step *step = &steps[d->step];
	int lun_err = 0;

	if (err == -ECANCELED || discover_is_over(d)) {
		discover_finish(d, -ECANCELED);
		return;
	}
	if (!err)
		err = step->learn(d, take_answer(d));
	d->vol.answers[d->step] = judge_answer(cmd, err);
	/* A LUN of the list without a unit is not an error. */
	if (err == -ENODEV && d->step == 0)
		err = 0;
	if (err && ini_paths_several(d->session) && cmd->has_sense &&
	    ini_path_sense_is_standby(&cmd->sense)) {
		d->vol.access.is_standby = true;
		err = -ESHUTDOWN;
	}
	if (err && step->need == NEEDED && !discover_does_without(d, err)) {
		discover_finish(d, err);
		return;
	}
	if (discover_advance(d, &lun_err))
		discover_ask(d);
	else
		discover_finish(d, lun_err);
}

static void send_cmd(struct ini_discovery *d, const char *question,
		     uint32_t len, void (*done)(struct ini_cmd *cmd, int err))
{
	struct ini_cmd *cmd = &d->cmd;

	d->question = question;

	cmd->dir = INI_DATA_IN;
	cmd->buf = d->buf;
	cmd->mr = d->mem->mr;
	cmd->len = len;
	cmd->done = done;
	if (!d->aside)
		ini_session_await_answer(d->session);
	ini_session_ask(d->session, cmd);
}

static void discover_ask(struct ini_discovery *d)
{
	int lun_err = 0;
	uint32_t len = 0;

	memset(&d->cmd, 0, sizeof(d->cmd));
	d->cmd.lun = d->vol.lun_field;
	for (;;) {
		const struct step *step = &steps[d->step];

		if (step->page >= 0 && d->pages[step->page])
			len = ask_vpd(d, (uint8_t)step->page);
		else if (step->page < 0)
			len = step->ask(d);
		if (len > 0) {
			send_cmd(d, step->name, len, discover_answered);
			return;
		}
		/* Without the list nobody knows whether the unit has the
		 * page. */
		if (step->page >= 0)
			d->vol.answers[d->step] =
				d->vol.answers[INI_Q_PAGES] == INI_FAILED
					? INI_FAILED
					: INI_NOT_ASKED;
		if (!discover_advance(d, &lun_err))
			break;
		d->cmd.lun = d->vol.lun_field;
	}
	discover_finish(d, lun_err);
}

static int compare_luns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return (x > y) - (x < y);
}

/* Volumes that are RUNNING are not asked. */
static void discover_drop_running(struct ini_discovery *d)
{
	size_t left = 0;

	for (size_t i = 0; i < d->lun_cnt; i++) {
		const struct ini_volume *v =
			ini_volumes_find(d->session, d->luns[i]);

		if (!v || v->state != SRPI_RUNNING)
			d->luns[left++] = d->luns[i];
	}
	d->lun_cnt = left;
}

/* LIO reports LUNs in any order. The order of the volumes, and so their
 * names, must stay the same. */
static void luns_reported(struct ini_cmd *cmd, int err)
{
	struct ini_discovery *d = container_of(cmd, struct ini_discovery, cmd);
	uint32_t total;

	if (!err)
		err = scsi_report_luns_decode(d->answer, take_answer(d),
					      d->luns, LUNS_MAX, &d->lun_cnt,
					      &total);
	if (!err && d->aside && discover_is_over(d))
		err = -ECANCELED;
	if (!err && d->aside)
		discover_drop_running(d);
	if (err || d->lun_cnt == 0) {
		discover_finish(d, err);
		return;
	}
	qsort(d->luns, d->lun_cnt, sizeof(d->luns[0]), compare_luns);
	begin_lun(d);
	discover_ask(d);
}

int ini_discover(struct srpi_session *s,
		 void (*done)(struct srpi_session *s, int err), struct error *e)
{
	struct ini_discovery *d = calloc(1, sizeof(*d));
	int err;

	if (!d) {
		error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	s->discovery = d;
	s->not_ready.err = 0;
	d->session = s;
	d->aside = s->link == INI_LINK_UP;
	d->done = done;
	d->buf = aligned_alloc(4096, BUF_LEN);
	if (!d->buf) {
		error_set(e, -ENOMEM, "out of memory");
		return -ENOMEM;
	}
	/* A short answer must not show old memory. */
	memset(d->buf, 0, BUF_LEN);
	err = ini_mem_register(s, d->buf, BUF_LEN, &d->mem, e);
	if (err)
		return err;
	scsi_cdb_report_luns(8 + 8 * LUNS_MAX, d->cmd.cdb);
	send_cmd(d, "REPORT LUNS", 8 + 8 * LUNS_MAX, luns_reported);
	return 0;
}

bool ini_discovery_settles(const struct srpi_session *s,
			   const struct scsi_sense *sense)
{
	const struct ini_discovery *d = s->discovery;

	if (d->lun_cnt == 0)
		return true;
	return d->step <= INI_Q_CAPACITY_10 &&
	       sense->code != SCSI_ASC_REPORTED_LUNS_CHANGED;
}

const char *ini_discovery_asks(const struct srpi_session *s, uint32_t *ret_lun)
{
	*ret_lun = s->discovery->vol.info.lun;
	return s->discovery->question;
}

void ini_discovery_take(struct srpi_session *s, struct ini_volume **ret_volumes,
			unsigned int *ret_cnt)
{
	*ret_volumes = s->discovery->volumes;
	*ret_cnt = s->discovery->volume_cnt;
	s->discovery->volumes = NULL;
}

void ini_discovery_free(struct srpi_session *s)
{
	struct ini_discovery *d = s->discovery;

	s->discovery = NULL;
	if (!d)
		return;
	srpi_mem_free(d->mem);
	free(d->volumes);
	free(d->buf);
	free(d);
}
