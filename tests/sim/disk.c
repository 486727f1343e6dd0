/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/disk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/host.h"
#include "tests/sim/sim.h"
#include "base/list.h"

#define PENDING_MAX  512
#define VERSIONS_MAX 32

struct version {
	uint32_t stamp;
	bool done; /* its request has been answered */
};

/* What a block may turn out to hold after a power cut: versions from durable
 * on, the last one being what is read now. */
struct cell {
	struct version versions[VERSIONS_MAX];
	unsigned int cnt;
	unsigned int durable;
	unsigned int changes;
};

struct disk {
	struct backend base;
	struct disk_config cfg;
	struct cell cells[BLOCKS_CNT];
	unsigned int errors;
	bool flush_failed; /* and so does every other one */
	bool unseen;	   /* something was lost, and no flush has told it */
	bool write_saw;	   /* ... but a synchronous write has */
	bool had_loss;
	_Alignas(4096) uint8_t memory[BLOCKS_CNT * BLOCK_BYTES];
};

/* A request under way. */
struct job {
	struct block_request *req;
	struct disk *disk;
	bool dead;	      /* of a target that was killed */
	unsigned int applied; /* blocks */
	/* Flush: versions that were done when it was submitted. */
	uint32_t upto[BLOCKS_CNT];
};

static struct disk disks[BLOCKS_LUNS];
static struct job jobs[PENDING_MAX];
static unsigned int job_cnt;
static bool unplugged; /* the target that is there has been killed */

static unsigned int lun_of(const struct disk *d)
{
	return (unsigned int)(d - disks);
}

static struct version *newest(struct cell *c)
{
	return &c->versions[c->cnt - 1];
}

void disks_reset(const struct disk_config *cfg)
{
	for (unsigned int i = 0; i < BLOCKS_LUNS; i++) {
		struct disk *d = &disks[i];

		d->cfg = cfg[i];
		d->errors = 0;
		d->flush_failed = false;
		d->unseen = false;
		d->write_saw = false;
		d->had_loss = false;
		memset(d->memory, 0, sizeof(d->memory));
		for (unsigned int b = 0; b < BLOCKS_CNT; b++) {
			d->cells[b].cnt = 1;
			d->cells[b].durable = 0;
			d->cells[b].changes = 0;
			d->cells[b].versions[0] = (struct version){ 0, true };
		}
	}
	job_cnt = 0;
	unplugged = false;
}

uint32_t disk_peek(unsigned int lun, unsigned int lba)
{
	struct disk *d = &disks[lun];

	if (d->cfg.memory)
		return stamp_parse(d->memory + lba * BLOCK_BYTES);
	return newest(&d->cells[lba])->stamp;
}

unsigned int disk_changes(unsigned int lun, unsigned int lba)
{
	return disks[lun].cells[lba].changes;
}

unsigned int disk_errors(unsigned int lun)
{
	return disks[lun].errors;
}

bool disk_had_loss(unsigned int lun)
{
	bool had = disks[lun].had_loss;

	disks[lun].had_loss = false;
	return had;
}

/* ---- blocks ---- */

static void forget_oldest(struct cell *c)
{
	memmove(c->versions, c->versions + 1,
		(c->cnt - 1) * sizeof(c->versions[0]));
	c->cnt--;
	if (c->durable)
		c->durable--;
}

static void put(struct disk *d, unsigned int lba, uint32_t stamp, bool stable)
{
	struct cell *c = &d->cells[lba];

	if (c->cnt == VERSIONS_MAX)
		forget_oldest(c);
	c->versions[c->cnt++] = (struct version){ .stamp = stamp };
	c->changes++;
	if (stable)
		c->durable = c->cnt - 1;
}

/* Nobody writes a stamp of another block, or none, but a copy. */
static bool is_copied(unsigned int lun, unsigned int lba, uint32_t stamp)
{
	return !stamp || stamps[stamp].lun != lun || stamps[stamp].lba != lba;
}

static void write_block(struct job *j, unsigned int i)
{
	const struct block_request *req = j->req;
	unsigned int lba = (unsigned int)(req->offset / BLOCK_BYTES) + i;
	unsigned int lun = lun_of(j->disk);
	uint32_t stamp =
		stamp_parse((const uint8_t *)req->buf + i * BLOCK_BYTES);

	sim_tell("  disk %u: block %u <- stamp %u", lun, lba, stamp);
	if (stamp == STAMP_GARBAGE) {
		sim_wrong("LUN %u block %u was written with garbage", lun, lba);
		return;
	}
	if (is_copied(lun, lba, stamp))
		stamp = hosts_copy_lands(lun, lba, stamp);
	put(j->disk, lba, stamp,
	    req->fua || !j->disk->base.info.volatile_cache);
}

static unsigned int blocks_of(const struct block_request *req)
{
	return (unsigned int)(req->len / BLOCK_BYTES);
}

static void apply(struct job *j, unsigned int upto)
{
	if (j->req->op != BLOCK_WRITE)
		return;
	while (j->applied < upto && !sim_is_wrong())
		write_block(j, j->applied++);
}

static void read_blocks(const struct job *j)
{
	const struct block_request *req = j->req;
	unsigned int first = (unsigned int)(req->offset / BLOCK_BYTES);

	for (unsigned int i = 0; i < blocks_of(req); i++)
		stamp_fill(newest(&j->disk->cells[first + i])->stamp,
			   (uint8_t *)req->buf + i * BLOCK_BYTES);
}

static void mark_done(const struct job *j)
{
	unsigned int first = (unsigned int)(j->req->offset / BLOCK_BYTES);

	for (unsigned int i = 0; i < blocks_of(j->req); i++) {
		struct cell *c = &j->disk->cells[first + i];

		for (unsigned int k = 0; k < c->cnt; k++)
			c->versions[k].done = true;
	}
}

static void flush_upto(const struct job *j)
{
	for (unsigned int b = 0; b < BLOCKS_CNT; b++) {
		struct cell *c = &j->disk->cells[b];

		for (unsigned int k = c->durable; k < c->cnt; k++) {
			if (c->versions[k].stamp == j->upto[b])
				c->durable = k;
		}
	}
}

/* ---- requests ---- */

static void note_failure(const struct job *j)
{
	const struct block_request *req = j->req;

	j->disk->errors++;
	if (req->op == BLOCK_FLUSH)
		j->disk->flush_failed = true;
	else if (req->fua) {
		j->disk->unseen = true;
		j->disk->write_saw = true;
	}
	if (req->op == BLOCK_FLUSH || req->fua)
		j->disk->had_loss = true;
	for (unsigned int i = 0; req->op == BLOCK_WRITE && i < blocks_of(req);
	     i++) {
		uint32_t stamp = stamp_parse((const uint8_t *)req->buf +
					     i * BLOCK_BYTES);

		unsigned int lba =
			(unsigned int)(req->offset / BLOCK_BYTES) + i;

		if (stamp == STAMP_GARBAGE)
			continue;
		if (is_copied(lun_of(j->disk), lba, stamp))
			hosts_copy_fails(lun_of(j->disk), lba, stamp);
		else
			stamps[stamp].disk_failed = true;
	}
	if (req->op == BLOCK_READ)
		memset(req->buf, 0xee, req->len);
}

/* The other jobs keep their order; it means nothing. */
static void answer(struct job *j, int res)
{
	struct block_request *req = j->req;

	*j = jobs[--job_cnt];
	req->progress = res ? 0 : req->len;
	req->done(req, res);
}

static void fail(struct job *j)
{
	apply(j, sim_random(blocks_of(j->req) + 1));
	note_failure(j);
	sim_tell("  disk %u: op %d fails", lun_of(j->disk), j->req->op);
	answer(j, -EIO);
}

static void finish(struct job *j)
{
	apply(j, blocks_of(j->req));
	if (j->req->op == BLOCK_WRITE)
		mark_done(j);
	else if (j->req->op == BLOCK_READ)
		read_blocks(j);
	else
		flush_upto(j);
	answer(j, 0);
}

unsigned int disks_pending(void)
{
	return job_cnt;
}

static bool cannot_flush(const struct job *j)
{
	return j->req->op == BLOCK_FLUSH &&
	       (j->disk->flush_failed || j->disk->unseen);
}

void disks_step(unsigned int nth)
{
	struct job *j = &jobs[nth];

	if (j->dead)
		answer(j, -EIO);
	else if (cannot_flush(j))
		fail(j);
	else if (j->disk->cfg.errors && sim_chance(3))
		fail(j);
	else if (j->req->op == BLOCK_WRITE && j->applied < blocks_of(j->req) &&
		 sim_chance(40))
		apply(j, j->applied + 1);
	else
		finish(j);
}

/* The newest version that was done when a flush was submitted. */
static void note_upto(struct job *j)
{
	for (unsigned int b = 0; b < BLOCKS_CNT; b++) {
		struct cell *c = &j->disk->cells[b];

		j->upto[b] = c->versions[c->durable].stamp;
		for (unsigned int k = c->durable; k < c->cnt; k++) {
			if (c->versions[k].done)
				j->upto[b] = c->versions[k].stamp;
		}
	}
}

/* A dead target's requests come to nothing. */
static void judge_copies(const struct job *j)
{
	const struct block_request *req = j->req;
	unsigned int first = (unsigned int)(req->offset / BLOCK_BYTES);

	if (j->dead || req->op != BLOCK_WRITE)
		return;
	for (unsigned int i = 0; i < blocks_of(req); i++) {
		uint32_t stamp = stamp_parse((const uint8_t *)req->buf +
					     i * BLOCK_BYTES);

		if (stamp != STAMP_GARBAGE &&
		    is_copied(lun_of(j->disk), first + i, stamp))
			hosts_copy_begins(lun_of(j->disk), first + i, stamp);
	}
}

static void disk_submit(struct backend *be, struct block_request *req)
{
	struct job *j = &jobs[job_cnt++];

	assert(job_cnt <= PENDING_MAX);
	*j = (struct job){ .req = req,
			   .disk = container_of(be, struct disk, base),
			   .dead = unplugged };
	if (req->op == BLOCK_FLUSH)
		note_upto(j);
	judge_copies(j);
}

/* ---- the end of a target ---- */

static void lose_unstable(struct disk *d)
{
	for (unsigned int b = 0; b < BLOCKS_CNT; b++) {
		struct cell *c = &d->cells[b];
		unsigned int k = c->durable + sim_random(c->cnt - c->durable);

		for (unsigned int i = k + 1; i < c->cnt; i++)
			stamps[c->versions[i].stamp].lost = true;
		c->versions[0] = (struct version){ c->versions[k].stamp, true };
		c->cnt = 1;
		c->durable = 0;
	}
	d->had_loss = true;
}

void disks_kill(bool power_cut)
{
	for (unsigned int i = 0; i < job_cnt; i++) {
		struct job *j = &jobs[i];

		if (j->dead)
			continue;
		if (j->req->op == BLOCK_WRITE && sim_chance(50))
			apply(j, sim_random(blocks_of(j->req) + 1));
		j->dead = true;
	}
	unplugged = true;
	for (unsigned int i = 0; power_cut && i < BLOCKS_LUNS; i++)
		lose_unstable(&disks[i]);
}

/* ---- life ---- */

static void disk_close(struct backend *be)
{
}

static bool is_dirty(const struct disk *d)
{
	for (unsigned int b = 0; b < BLOCKS_CNT; b++) {
		if (d->cells[b].durable + 1 < d->cells[b].cnt)
			return true;
	}
	return false;
}

/* What has become of it since the last target. */
static void be_forgetful(struct disk *d)
{
	bool fails = d->cfg.errors && is_dirty(d) && sim_chance(30);

	if (d->flush_failed || d->write_saw || fails)
		lose_unstable(d);
	d->unseen = fails;
	d->flush_failed = false;
	d->write_saw = false;
}

static int disk_sync(struct backend *be)
{
	struct disk *d = container_of(be, struct disk, base);

	if (d->unseen) {
		d->unseen = false;
		return -EIO;
	}
	for (unsigned int b = 0; b < BLOCKS_CNT; b++)
		d->cells[b].durable = d->cells[b].cnt - 1;
	return 0;
}

static int disk_open(const struct backend_options *opt, struct backend **ret,
		     struct error *e)
{
	struct disk *d = &disks[atoi(opt->path)];

	unplugged = false;
	be_forgetful(d);
	d->base.ops = &disk_ops;
	d->base.info = (struct backend_info){
		.kind = "simulated",
		.size = BLOCKS_CNT * BLOCK_BYTES,
		.min_block = BLOCK_BYTES,
		.optimal_block = 4096,
		.volatile_cache = d->cfg.cache,
		.fua = d->cfg.fua,
		.memory = d->cfg.memory ? d->memory : NULL,
	};
	if (!d->cfg.memory)
		d->base.info.life =
			(struct backend_life){ .dev = 1, .ino = lun_of(d) + 1 };
	memset(d->memory, 0, sizeof(d->memory));
	*ret = &d->base;
	return 0;
}

const struct backend_ops disk_ops = {
	.name = "sim",
	.open = disk_open,
	.sync = disk_sync,
	.close = disk_close,
	.submit = disk_submit,
};
