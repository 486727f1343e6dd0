/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/slow.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/log.h"

void slow_init(struct worker *w, unsigned int ms)
{
	uint64_t ns = (uint64_t)ms * 1000000;

	w->slow_ms = ms;
	if (!ms || ns > HISTOGRAM_MAX_NS)
		ns = HISTOGRAM_MAX_NS;
	w->slow_ticks = ticks_of_ns(ns);
	w->plain_ticks[SCSI_OP_READ] = w->slow_ticks;
}

/* The stage of @req when it ended. */
static enum meter_stage slow_last_stage(const struct request *req)
{
	switch (req->state) {
	case REQUEST_READING:
	case REQUEST_FETCHING:
		return METER_FETCH;
	case REQUEST_EXECUTING:
	case REQUEST_LINGERING:
		return METER_BACKEND;
	case REQUEST_RESPONDING:
		return METER_RESPOND;
	default:
		return METER_QUEUE;
	}
}

static uint64_t slow_spent(const struct request *req, enum meter_stage stage,
			   uint64_t now)
{
	const struct meter_clock *c = &req->clock;
	uint64_t ticks = 0;

	if (stage < METER_RESPOND && req->passed)
		ticks = c->spent[stage];
	if (stage == slow_last_stage(req))
		ticks += now - (req->passed ? c->since : request_arrived(req));
	return ticks_ns(ticks);
}

/* ": queue 0.012, fetch 0.000, backend 51.204, respond 0.031 ms" */
static void slow_stages_text(const struct request *req, uint64_t now, char *buf,
			     size_t size)
{
	size_t len = 0;

	for (int stage = 0; stage < METER_STAGES && len < size; stage++) {
		uint64_t us =
			slow_spent(req, (enum meter_stage)stage, now) / 1000;

		len += (size_t)snprintf(
			buf + len, size - len, "%s %s %" PRIu64 ".%03" PRIu64,
			stage ? "," : ":", meter_stage_names[stage], us / 1000,
			us % 1000);
	}
	if (len < size)
		snprintf(buf + len, size - len, " ms");
}

/* "READ (10) of 8 blocks at LBA 4096 on volume 'a' (LUN 0)" */
static void slow_what_text(const struct scsi_task *t, char *buf, size_t size)
{
	const struct scsi_cdb_info *info = t->cmd.info;
	char where[64] = "";
	char volume[96] = "";

	if (info && info->flags & SCSI_CDB_BLOCKS)
		snprintf(where, sizeof(where),
			 " of %" PRIu64 " blocks at LBA %" PRIu64,
			 (uint64_t)t->cmd.blocks, (uint64_t)t->cmd.lba);
	if (t->vol)
		snprintf(volume, sizeof(volume), "volume '%s' ", t->vol->name);
	snprintf(buf, size, "%s%s on %s(LUN %d)",
		 info ? info->name : "a command that was refused", where,
		 volume, t->lun);
}

static void slow_log(const struct request *req, uint64_t now, bool answered)
{
	struct worker *w = req->ch->worker;
	uint64_t us = ticks_ns(now - request_arrived(req)) / 1000;
	struct log_about about = { .event = "slow" };
	unsigned int dropped;
	char stages[160];
	char what[256];

	if (!log_limit_pass(&w->slow_log, SLOW_BURST, &dropped))
		return;
	if (dropped)
		log_warn("%u more slow commands were not shown", dropped);
	slow_what_text(&req->task, what, sizeof(what));
	slow_stages_text(req, now, stages, sizeof(stages));
	if (req->task.vol)
		about = volume_about(req->task.vol, about.event);
	about.nexus = req->ch->nexus->name;
	log_event(LOG_WARNING, &about,
		  "slow command of %s from %s: %s%s: %" PRIu64 ".%03" PRIu64
		  " ms%s",
		  about.nexus, req->ch->peer, what,
		  answered ? "" : ", not answered", us / 1000, us % 1000,
		  stages);
}

void slow_command(const struct request *req, uint64_t now, bool answered)
{
	struct worker *w = req->ch->worker;

	/* Without --slow, or with a long limit, the command was only too long
	 * for the fast count. */
	if (!w->slow_ms || ticks_ns(now - request_arrived(req)) <
				   (uint64_t)w->slow_ms * 1000000)
		return;
	w->counters.slow++;
	slow_log(req, now, answered);
}
