/* SPDX-License-Identifier: BSD-2-Clause */
/* Commands that the disk answers from the properties of the unit. */
#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "protocol/scsi_pages.h"
#include "protocol/srp_iu.h"
#include "target/scsi/disk.h"

/* SPC-4 6.39: reports unit attentions and deferred errors, in this order, and
 * also the reasons why there is no unit or why it is not ready, with the
 * progress; the status is GOOD. */
static int request_sense(struct scsi_task *task, void *buf, size_t cap,
			 size_t *ret_len, struct scsi_sense *ret_sense)
{
	struct scsi_sense sense =
		scsi_sense(SCSI_KEY_NO_SENSE, SCSI_ASC_NO_ADDITIONAL_SENSE);

	if (!task->vol)
		sense = scsi_nexus_no_volume(task->nexus, task->lun);
	else if (!scsi_nexus_take_attention(task->nexus, task->lun, &sense) &&
		 !scsi_nexus_take_deferred(task->nexus, task->lun, &sense) &&
		 !scsi_volume_no_medium(task->vol, &sense))
		scsi_volume_not_ready(task->vol, &sense);
	*ret_len = scsi_sense_encode(&sense,
				     task->cmd.desc ? SCSI_SENSE_DESCRIPTOR
						    : SCSI_SENSE_FIXED,
				     buf, cap);
	return 0;
}

const struct scsi_handler scsi_request_sense = { .answer = request_sense };

static int inquiry(struct scsi_task *task, void *buf, size_t cap,
		   size_t *ret_len, struct scsi_sense *ret_sense)
{
	if (!task->vol && task->cmd.evpd) {
		*ret_sense = scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					SCSI_ASC_LUN_NOT_SUPPORTED);
		return -EINVAL;
	}
	if (task->cmd.evpd)
		return scsi_vpd_encode(&task->vol->info, task->cmd.page_code,
				       buf, cap, ret_len, ret_sense);
	*ret_len = task->vol ? scsi_inquiry_encode(&task->vol->info, buf, cap)
			     : scsi_inquiry_encode_absent(buf, cap);
	return 0;
}

const struct scsi_handler scsi_inquiry = { .answer = inquiry };

/* The units here are not well-known, and belong to no other. */
static bool lists_ours(enum scsi_select_report select)
{
	return select == SCSI_LUNS_USUAL || select == SCSI_LUNS_ALL ||
	       select == SCSI_LUNS_TOP;
}

static int report_luns(struct scsi_task *task, void *buf, size_t cap,
		       size_t *ret_len, struct scsi_sense *ret_sense)
{
	enum scsi_select_report select =
		(enum scsi_select_report)task->cmd.select_report;
	uint64_t luns[LUNS_MAX];
	size_t cnt = 0;

	if ((select == SCSI_LUNS_ADMINISTRATIVE || select == SCSI_LUNS_TOP) &&
	    task->lun != 0) {
		*ret_sense = scsi_sense_cdb_field(2, 7);
		return -EINVAL;
	}
	for (uint32_t i = 0; i < LUNS_MAX && lists_ours(select); i++) {
		if (scsi_nexus_volume(task->nexus, i))
			srp_lun_encode(i, &luns[cnt++]);
	}
	/* SPC-4 6.33: an initiator that gets the list needs no unit attention
	 * about it. */
	for (unsigned int i = 0; i < LUNS_MAX; i++)
		atomic_fetch_and(&task->nexus->ua[i],
				 ~(uint32_t)SCSI_UA_LUNS_CHANGED);
	*ret_len = scsi_report_luns_encode(luns, cnt, buf, cap);
	return 0;
}

const struct scsi_handler scsi_report_luns = { .answer = report_luns };

static int report_opcodes(struct scsi_task *task, void *buf, size_t cap,
			  size_t *ret_len, struct scsi_sense *ret_sense)
{
	return scsi_report_opcodes_encode(&task->vol->info, &task->cmd, buf,
					  cap, ret_len, ret_sense);
}

const struct scsi_handler scsi_report_opcodes = { .answer = report_opcodes };

static int report_tmf(struct scsi_task *task, void *buf, size_t cap,
		      size_t *ret_len, struct scsi_sense *ret_sense)
{
	/* This answer is never truncated to fewer bytes (SPC-4 6.36). */
	if (task->cmd.alloc_len < 4) {
		*ret_sense = scsi_sense_cdb_field(6, 7);
		return -EINVAL;
	}
	*ret_len = scsi_report_tmf_encode(
		!scsi_nexus_is_reader(task->nexus, task->lun), task->cmd.repd,
		buf, cap);
	return 0;
}

const struct scsi_handler scsi_report_tmf = { .answer = report_tmf };

static int report_port_groups(struct scsi_task *task, void *buf, size_t cap,
			      size_t *ret_len, struct scsi_sense *ret_sense)
{
	*ret_len = scsi_report_port_groups_encode(
		&task->vol->info, task->cmd.ext_header, buf, cap);
	return 0;
}

const struct scsi_handler scsi_report_port_groups = {
	.answer = report_port_groups,
};

static bool path_is_set(struct scsi_task *task)
{
	struct scsi_sense sense = scsi_sense(SCSI_KEY_HARDWARE_ERROR,
					     SCSI_ASC_SET_PORT_GROUPS_FAILED);

	if (task->blk.was_stopped)
		return scsi_task_end_stopped(task);
	/* Must end before the next command. */
	volume_look_at_paths(task->vol);
	if (!task->blk.res)
		return scsi_task_good(task);
	volume_log(LOG_ERROR, NULL, task->vol, "%s: %s", task->cmd.info->name,
		   strerror(-task->blk.res));
	return scsi_task_fail(task, &sense);
}

static void set_path_done(struct block_cmd *cmd)
{
	path_is_set(container_of(cmd, struct scsi_task, blk));
}

static bool set_port_groups(struct scsi_task *task)
{
	enum scsi_group_wish wish;
	struct scsi_sense sense;

	if (scsi_set_port_groups_decode(&task->vol->info, task->buf,
					task->fetch_len, &wish, &sense))
		return scsi_task_fail(task, &sense);
	if (wish == SCSI_GROUP_STAYS)
		return scsi_task_good(task);
	scsi_task_blk(task,
		      wish == SCSI_GROUP_ACTIVE ? BLOCK_CMD_SERVE
						: BLOCK_CMD_CEASE,
		      path_is_set);
	/* path_is_set() reports failures, with its own sense data. */
	task->blk.done = set_path_done;
	return block_start(&task->blk) && path_is_set(task);
}

const struct scsi_handler scsi_set_port_groups = {
	.execute = set_port_groups,
};

static int read_capacity_10(struct scsi_task *task, void *buf, size_t cap,
			    size_t *ret_len, struct scsi_sense *ret_sense)
{
	*ret_len = scsi_read_capacity_10_encode(&task->vol->info, buf, cap);
	return 0;
}

const struct scsi_handler scsi_read_capacity_10 = {
	.answer = read_capacity_10,
};

static int read_capacity_16(struct scsi_task *task, void *buf, size_t cap,
			    size_t *ret_len, struct scsi_sense *ret_sense)
{
	*ret_len = scsi_read_capacity_16_encode(&task->vol->info, buf, cap);
	return 0;
}

const struct scsi_handler scsi_read_capacity_16 = {
	.answer = read_capacity_16,
};

/* The disk has no defects: each list is empty, in every format (SBC-3 5.17,
 * 5.18). */
static int read_defects(struct scsi_task *task, void *buf, size_t cap,
			size_t *ret_len, struct scsi_sense *ret_sense)
{
	const uint8_t head[8] = { 0, task->cmd.defects };

	*ret_len = task->cmd.info->cdb_len == 10 ? 4 : sizeof(head);
	if (cap)
		memcpy(buf, head, scsi_min(*ret_len, cap));
	return 0;
}

const struct scsi_handler scsi_read_defects = { .answer = read_defects };
