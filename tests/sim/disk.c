/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/disk.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/sim/clock.h"
#include "tests/sim/host.h"
#include "tests/sim/sim.h"
#include "transport/xport.h"

#define PENDING_MAX  512
#define VERSIONS_MAX 32

struct version {
	uint32_t stamp;
	bool done; /* the request has been answered */
};

/* The possible contents of a block after a power cut: all versions from durable
 * on. The last one is what a read returns now. */
struct cell {
	struct version versions[VERSIONS_MAX];
	unsigned int cnt;
	unsigned int durable;
	unsigned int changes;
};

struct disk {
	struct disk_config cfg;
	struct cell cells[BLOCKS_CNT];
	unsigned int errors;
	bool flush_failed; /* all further flushes fail, too */
	bool unseen;	   /* data was lost, and no flush has reported it */
	bool write_saw;	   /* ... but a synchronous write has */
	bool had_loss;
	_Alignas(4096) uint8_t memory[BLOCKS_CNT * BLOCK_BYTES];
};

/* A request in flight. */
struct job {
	struct rbp_io *io;
	struct disk *disk;
	bool dead;	      /* its target was killed */
	unsigned int applied; /* blocks that are done */
	struct copy *copy;    /* a piece of it */
	/* Flush: the versions that were done when it was submitted. */
	uint32_t upto[BLOCKS_CNT];
};

static struct disk disks[BLOCKS_LUNS];
static struct job jobs[PENDING_MAX];
static unsigned int job_cnt;
static bool unplugged; /* the present target has been killed */

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

/* Only a copy writes a block without a stamp, or with the stamp of another
 * block. */
static bool is_copied(unsigned int lun, unsigned int lba, uint32_t stamp)
{
	return !stamp || stamps[stamp].lun != lun || stamps[stamp].lba != lba;
}

static void write_block(struct job *j, unsigned int i)
{
	const struct rbp_io *io = j->io;
	unsigned int lba = (unsigned int)(io->offset / BLOCK_BYTES) + i;
	unsigned int lun = lun_of(j->disk);
	uint32_t stamp =
		stamp_parse((const uint8_t *)io->buf + i * BLOCK_BYTES);

	sim_tell("  disk %u: block %u <- stamp %u", lun, lba, stamp);
	if (stamp == STAMP_GARBAGE) {
		sim_wrong("LUN %u block %u was written with garbage", lun, lba);
		return;
	}
	if (is_copied(lun, lba, stamp))
		stamp = hosts_copy_lands(j->copy, lun, lba, stamp);
	put(j->disk, lba, stamp, io->flags & RBP_FUA || !j->disk->cfg.cache);
}

static unsigned int blocks_of(const struct rbp_io *io)
{
	return (unsigned int)(io->len / BLOCK_BYTES);
}

static void apply(struct job *j, unsigned int upto)
{
	if (j->io->op != RBP_WRITE)
		return;
	while (j->applied < upto && !sim_is_wrong())
		write_block(j, j->applied++);
}

static void read_blocks(const struct job *j)
{
	const struct rbp_io *io = j->io;
	unsigned int first = (unsigned int)(io->offset / BLOCK_BYTES);

	for (unsigned int i = 0; i < blocks_of(io); i++)
		stamp_fill(newest(&j->disk->cells[first + i])->stamp,
			   (uint8_t *)io->buf + i * BLOCK_BYTES);
}

static void mark_done(const struct job *j)
{
	unsigned int first = (unsigned int)(j->io->offset / BLOCK_BYTES);

	for (unsigned int i = 0; i < blocks_of(j->io); i++) {
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

static void note_failed_writes(const struct job *j)
{
	const struct rbp_io *io = j->io;

	for (unsigned int i = 0; io->op == RBP_WRITE && i < blocks_of(io);
	     i++) {
		uint32_t stamp =
			stamp_parse((const uint8_t *)io->buf + i * BLOCK_BYTES);

		unsigned int lba = (unsigned int)(io->offset / BLOCK_BYTES) + i;

		if (stamp == STAMP_GARBAGE)
			continue;
		if (is_copied(lun_of(j->disk), lba, stamp))
			hosts_copy_fails(j->copy);
		else
			stamps[stamp].disk_failed = true;
	}
}

static void note_failure(const struct job *j)
{
	const struct rbp_io *io = j->io;

	j->disk->errors++;
	if (io->op == RBP_FLUSH)
		j->disk->flush_failed = true;
	else if (io->flags & RBP_FUA) {
		j->disk->unseen = true;
		j->disk->write_saw = true;
	}
	if (io->op == RBP_FLUSH || io->flags & RBP_FUA)
		j->disk->had_loss = true;
	note_failed_writes(j);
	if (io->op == RBP_READ)
		memset(io->buf, 0xee, io->len);
}

/* The other jobs keep their order, but the order has no meaning. */
static void answer(struct job *j, int res)
{
	struct rbp_io *io = j->io;

	*j = jobs[--job_cnt];
	io->progress = res ? 0 : io->len;
	block_io_done(io, res);
}

static void fail(struct job *j)
{
	apply(j, sim_random(blocks_of(j->io) + 1));
	note_failure(j);
	sim_tell("  disk %u: op %d fails", lun_of(j->disk), j->io->op);
	answer(j, -EIO);
}

static void finish(struct job *j)
{
	apply(j, blocks_of(j->io));
	if (j->io->op == RBP_WRITE)
		mark_done(j);
	else if (j->io->op == RBP_READ)
		read_blocks(j);
	else
		flush_upto(j);
	answer(j, 0);
}

bool disk_has_write(unsigned int lun, unsigned int lba)
{
	for (unsigned int i = 0; i < job_cnt; i++) {
		const struct rbp_io *io = jobs[i].io;

		if (jobs[i].disk == &disks[lun] && io->op == RBP_WRITE &&
		    lba - io->offset / BLOCK_BYTES < blocks_of(io))
			return true;
	}
	return false;
}

unsigned int disks_pending(void)
{
	return job_cnt;
}

static bool cannot_flush(const struct job *j)
{
	return j->io->op == RBP_FLUSH &&
	       (j->disk->flush_failed || j->disk->unseen);
}

void disks_step(unsigned int nth)
{
	struct job *j = &jobs[nth];

	if (j->dead)
		answer(j, -EIO);
	else if (cannot_flush(j) || (j->disk->cfg.errors && sim_chance(3)))
		fail(j);
	else if (j->io->op == RBP_WRITE && j->applied < blocks_of(j->io) &&
		 sim_chance(40))
		apply(j, j->applied + 1);
	else
		finish(j);
}

/* Notes the newest version that was done when the flush was submitted. */
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

/* May it be written now? The requests of a dead target fail. */
static void judge_write(struct job *j)
{
	const struct rbp_io *io = j->io;
	unsigned int first = (unsigned int)(io->offset / BLOCK_BYTES);

	if (j->dead || io->op != RBP_WRITE)
		return;
	for (unsigned int i = 0; i < blocks_of(io); i++) {
		uint32_t stamp =
			stamp_parse((const uint8_t *)io->buf + i * BLOCK_BYTES);

		if (stamp == STAMP_GARBAGE)
			continue;
		if (is_copied(lun_of(j->disk), first + i, stamp))
			j->copy = hosts_copy_begins(lun_of(j->disk), first + i,
						    stamp);
		else if (stamps[stamp].given_up_us &&
			 block_seen(lun_of(j->disk), first + i) >
				 stamps[stamp].given_up &&
			 clock_now() - stamps[stamp].given_up_us >
				 XP_SIGN_MS * 1000)
			sim_wrong("stamp %u is written, its host gave it up "
				  "long ago, and others were there since",
				  stamp);
	}
}

static void disk_submit(void *v, struct rbp_io *io)
{
	struct job *j = &jobs[job_cnt++];

	assert(job_cnt <= PENDING_MAX);
	*j = (struct job){ .io = io, .disk = v, .dead = unplugged };
	if (io->op == RBP_FLUSH)
		note_upto(j);
	judge_write(j);
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
		if (j->io->op == RBP_WRITE && sim_chance(50))
			apply(j, sim_random(blocks_of(j->io) + 1));
		note_failed_writes(j);
		j->dead = true;
	}
	unplugged = true;
	for (unsigned int i = 0; power_cut && i < BLOCKS_LUNS; i++)
		lose_unstable(&disks[i]);
}

/* ---- life cycle ---- */

static void disk_close(void *v)
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

/* What has happened to the disk since the last target. */
static void be_forgetful(struct disk *d)
{
	bool fails = d->cfg.errors && is_dirty(d) && sim_chance(30);

	if (d->flush_failed || d->write_saw || fails)
		lose_unstable(d);
	d->unseen = fails;
	d->flush_failed = false;
	d->write_saw = false;
}

static int disk_sync(void *v)
{
	struct disk *d = v;

	if (d->unseen) {
		d->unseen = false;
		return -EIO;
	}
	for (unsigned int b = 0; b < BLOCKS_CNT; b++)
		d->cells[b].durable = d->cells[b].cnt - 1;
	return 0;
}

static int disk_open(struct rbp_vol *vol, const char *location,
		     const struct rbp_arg *args, void **ret_v,
		     struct rbp_info *info, char *msg, size_t msg_len)
{
	struct disk *d = &disks[strtoul(location, NULL, 10)];

	unplugged = false;
	be_forgetful(d);
	info->caps = RBP_CAN_WRITE | RBP_CAN_FLUSH;
	if (d->cfg.cache)
		info->caps |= RBP_WRITE_CACHE;
	if (d->cfg.fua)
		info->caps |= RBP_CAN_FUA;
	info->bytes = BLOCKS_CNT * BLOCK_BYTES;
	info->block_size = BLOCK_BYTES;
	info->memory = d->cfg.memory ? d->memory : NULL;
	if (!d->cfg.memory)
		block_info_of(info)->life =
			(struct backend_life){ .dev = 1, .ino = lun_of(d) + 1 };
	memset(d->memory, 0, sizeof(d->memory));
	*ret_v = d;
	return 0;
}

const struct backend_type disk_type = {
	.plugin = {
		.size = sizeof(struct rbp_plugin),
		.name = "sim",
		.open = disk_open,
		.close = disk_close,
		.submit = disk_submit,
	},
	.sync = disk_sync,
};
