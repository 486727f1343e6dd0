/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/layer_fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "target/block/block_worker.h"

/* Direct I/O wants its memory aligned to the sectors of the device. */
#define COPY_ALIGN 4096u

struct fault_layer;

/* A worker's part. */
struct fault_worker {
	struct fault_layer *layer;
	struct block_worker *worker;
	struct list stuck;    /* struct faulty, node */
	struct list delayed;  /* with its timer running */
	unsigned int replays; /* with the store, and nobody waits for them */
	struct reactor_msg release;
	_Atomic bool releasing; /* the message is under way */
};

struct fault_layer {
	struct backend base;
	const char *name; /* of the volume */
	char kind[32];
	uint32_t block_size;
	unsigned int rule_cnt;
	struct fault_rule rules[FAULT_RULES_MAX];
	struct fault_tally tallies[FAULT_RULES_MAX];
	/* As every backend's: the first failure of a flush stays. */
	_Atomic int flush_error;
	struct fault_worker *workers[BLOCK_WORKERS_MAX];
};

/* A request that a rule has hit, until it is answered. */
struct faulty {
	struct block_request inner; /* what the store is asked for instead */
	struct block_request *outer;
	struct fault_worker *fw;
	const struct fault_rule *rule; /* NULL: it is only late */
	uint64_t pick;
	unsigned int delay_ms;
	struct list node; /* in stuck or delayed */
	struct reactor_timer timer;
	void *copy; /* of the data */
};

static struct fault_layer *layer_fault_to_layer(const struct backend *be)
{
	return container_of(be, struct fault_layer, base);
}

static struct faulty *to_faulty(struct block_request *inner)
{
	return container_of(inner, struct faulty, inner);
}

/* ---- below ---- */

static void ask_store(struct fault_layer *layer, struct block_request *req)
{
	backend_submit(layer->base.below, req);
}

static void layer_fault_end(struct faulty *f)
{
	free(f->copy);
	free(f);
}

static void layer_fault_answer(struct faulty *f, int res)
{
	struct block_request *outer = f->outer;

	if (outer->op == BLOCK_FLUSH && res)
		f->fw->layer->flush_error = res;
	outer->progress = f->inner.progress;
	layer_fault_end(f);
	outer->done(outer, res);
}

/* Has the store do @len bytes from @start of the request; then comes done. */
static void do_part(struct faulty *f, uint64_t start, uint64_t len,
		    void (*done)(struct block_request *inner, int res))
{
	struct block_request *outer = f->outer;
	uint8_t *buf = f->copy ? f->copy : outer->buf;

	f->inner = (struct block_request){
		.op = outer->op,
		.fua = outer->fua,
		.may_unmap = outer->may_unmap,
		.offset = outer->offset + start,
		.len = len,
		.buf = buf ? buf + start : NULL,
		.buf_index = f->copy ? -1 : outer->buf_index,
		.worker = outer->worker,
		.epoch = outer->epoch,
		.done = done,
	};
	ask_store(f->fw->layer, &f->inner);
}

static bool copy_data(struct faulty *f)
{
	size_t len = (f->outer->len + COPY_ALIGN - 1) & ~(COPY_ALIGN - 1ull);

	f->copy = aligned_alloc(COPY_ALIGN, len);
	if (f->copy)
		memcpy(f->copy, f->outer->buf, f->outer->len);
	return f->copy;
}

/* ---- errors, and halves ---- */

static int error_of(const struct faulty *f)
{
	return f->rule->kind == FAULT_ERROR ? f->rule->err : -EIO;
}

static void layer_fault_part_done(struct block_request *inner, int res)
{
	struct faulty *f = to_faulty(inner);

	if (!res)
		inner->progress = inner->len;
	layer_fault_answer(f, res ? res : error_of(f));
}

/* Only the first @len bytes are done. */
static void cut_short(struct faulty *f, uint64_t len)
{
	if (len)
		do_part(f, 0, len, layer_fault_part_done);
	else
		layer_fault_answer(f, error_of(f));
}

/* Bytes of the request before the first block that the rule is about. */
static uint64_t bytes_before(const struct faulty *f)
{
	uint64_t block_size = f->fw->layer->block_size;
	uint64_t lba = f->outer->offset / block_size;

	return f->rule->first_lba > lba
		       ? (f->rule->first_lba - lba) * block_size
		       : 0;
}

static uint64_t half(const struct faulty *f)
{
	uint64_t block_size = f->fw->layer->block_size;

	return f->outer->len / block_size / 2 * block_size;
}

/* ---- torn writes ---- */

static void next_block_done(struct block_request *inner, int res)
{
	struct faulty *f = to_faulty(inner);
	uint64_t block_size = f->fw->layer->block_size;
	uint64_t next = inner->offset - f->outer->offset + 2 * block_size;

	/* What was written in between is no progress to rely on. */
	inner->progress = 0;
	if (res || next >= f->outer->len)
		layer_fault_answer(f, res ? res : -EIO);
	else
		do_part(f, next, block_size, next_block_done);
}

static void tear(struct faulty *f)
{
	do_part(f, 0, f->fw->layer->block_size, next_block_done);
}

/* ---- corruption ---- */

static void flip_bit(struct faulty *f, uint8_t *data)
{
	uint64_t block_size = f->fw->layer->block_size;
	uint64_t lba = f->outer->offset / block_size;
	uint64_t first = bytes_before(f);
	uint64_t end_of = f->outer->len;
	uint64_t bit;

	if (f->rule->last_lba - lba < f->outer->len / block_size)
		end_of = (f->rule->last_lba - lba + 1) * block_size;
	bit = f->pick % ((end_of - first) * 8);
	data[first + bit / 8] ^= (uint8_t)(1u << bit % 8);
}

static void whole_done(struct block_request *inner, int res)
{
	struct faulty *f = to_faulty(inner);

	if (!res && inner->op == BLOCK_READ)
		flip_bit(f, inner->buf);
	layer_fault_answer(f, res);
}

static void corrupt(struct faulty *f)
{
	if (f->outer->op == BLOCK_WRITE) {
		if (!copy_data(f)) {
			layer_fault_answer(f, -ENOMEM);
			return;
		}
		flip_bit(f, f->copy);
	}
	do_part(f, 0, f->outer->len, whole_done);
}

/* ---- stale writes ---- */

static void replay_done(struct block_request *inner, int res)
{
	struct faulty *f = to_faulty(inner);

	f->fw->replays--;
	layer_fault_end(f);
}

static void replay(struct faulty *f)
{
	list_del(&f->node);
	f->fw->replays++;
	f->inner.done = replay_done;
	ask_store(f->fw->layer, &f->inner);
}

static void replay_due(struct reactor_timer *t)
{
	replay(container_of(t, struct faulty, timer));
}

static void first_time_done(struct block_request *inner, int res)
{
	struct faulty *f = to_faulty(inner);
	struct block_request *outer = f->outer;

	f->outer = NULL;
	list_add_tail(&f->fw->delayed, &f->node);
	reactor_timer_init(&f->timer, replay_due);
	reactor_timer_set(f->fw->worker->reactor, &f->timer, f->rule->ms);
	outer->progress = inner->progress;
	outer->done(outer, res);
}

static void write_twice(struct faulty *f)
{
	if (copy_data(f))
		do_part(f, 0, f->outer->len, first_time_done);
	else
		layer_fault_answer(f, -ENOMEM);
}

/* ---- stuck requests ---- */

static void get_stuck(struct faulty *f)
{
	static const char *const names[] = {
		[BLOCK_READ] = "read",	 [BLOCK_WRITE] = "write",
		[BLOCK_FLUSH] = "flush", [BLOCK_UNMAP] = "unmap",
		[BLOCK_ZERO] = "zero",	 [BLOCK_EXTENT] = "look-up",
	};
	const struct fault_layer *layer = f->fw->layer;
	uint64_t cnt = f->outer->len / layer->block_size;
	static _Thread_local struct log_limit limit;
	unsigned int dropped;

	list_add_tail(&f->fw->stuck, &f->node);
	if (!log_limit_pass(&limit, 20, &dropped))
		return;
	if (dropped)
		log_notice("%u more stuck requests were not shown", dropped);
	log_notice("volume '%s': a %s of %llu block%s at block %llu is stuck, "
		   "by a fault; SIGUSR1 releases it",
		   layer->name, names[f->outer->op], (unsigned long long)cnt,
		   cnt == 1 ? "" : "s",
		   (unsigned long long)(f->outer->offset / layer->block_size));
}

/* ---- the faults ---- */

/* To the store as it came. */
static void let_go(struct faulty *f)
{
	struct fault_layer *layer = f->fw->layer;
	struct block_request *outer = f->outer;

	layer_fault_end(f);
	ask_store(layer, outer);
}

static void perform(struct faulty *f)
{
	if (!f->rule) {
		let_go(f);
		return;
	}
	switch (f->rule->kind) {
	case FAULT_ERROR:
		cut_short(f, bytes_before(f));
		return;
	case FAULT_SHORT:
		cut_short(f, half(f));
		return;
	case FAULT_TORN:
		tear(f);
		return;
	case FAULT_CORRUPT:
		corrupt(f);
		return;
	case FAULT_STUCK:
		get_stuck(f);
		return;
	case FAULT_LIE:
		layer_fault_answer(f, 0);
		return;
	case FAULT_STALE:
		write_twice(f);
		return;
	case FAULT_DELAY: /* never alone: see layer_fault_choose() */
		return;
	}
}

static void delay_over(struct reactor_timer *t)
{
	struct faulty *f = container_of(t, struct faulty, timer);

	list_del(&f->node);
	perform(f);
}

static void layer_fault_begin(struct faulty *f)
{
	if (!f->delay_ms) {
		perform(f);
		return;
	}
	list_add_tail(&f->fw->delayed, &f->node);
	reactor_timer_init(&f->timer, delay_over);
	reactor_timer_set(f->fw->worker->reactor, &f->timer, f->delay_ms);
}

/*
 * Looks at the rules in their order: delays add up, and the first other fault
 * that hits is the one. False: the request is to be left alone.
 */
static bool layer_fault_choose(struct fault_layer *layer,
			       const struct block_request *req,
			       struct faulty *what)
{
	bool hit = false;

	for (unsigned int i = 0; i < layer->rule_cnt && !what->rule; i++) {
		const struct fault_rule *rule = &layer->rules[i];

		if (!fault_rule_hits(rule, &layer->tallies[i], req,
				     layer->block_size, &what->pick))
			continue;
		hit = true;
		if (rule->kind == FAULT_DELAY)
			what->delay_ms += rule->ms;
		else
			what->rule = rule;
	}
	return hit;
}

static void fault_submit(struct backend *be, struct block_request *req)
{
	struct fault_layer *layer = layer_fault_to_layer(be);
	struct faulty what = { .outer = req };
	struct faulty *f;

	if (req->op == BLOCK_FLUSH && layer->flush_error) {
		req->done(req, layer->flush_error);
		return;
	}
	if (!layer_fault_choose(layer, req, &what)) {
		ask_store(layer, req);
		return;
	}
	f = malloc(sizeof(*f));
	if (!f) {
		req->done(req, -ENOMEM);
		return;
	}
	*f = what;
	f->fw = layer->workers[req->worker->index];
	layer_fault_begin(f);
}

/* ---- what is stuck ---- */

static void run_release(struct reactor_msg *msg)
{
	struct fault_worker *fw =
		container_of(msg, struct fault_worker, release);
	struct list all;
	struct list *node;

	/* Before the list is looked at: who asks from now on is heard. */
	atomic_store(&fw->releasing, false);
	list_init(&all);
	list_splice_tail(&all, &fw->stuck);
	while ((node = list_pop(&all)))
		let_go(container_of(node, struct faulty, node));
}

/* ---- the table ---- */

static int fault_attach(struct backend *be, struct block_worker *w)
{
	struct fault_layer *layer = layer_fault_to_layer(be);
	struct fault_worker *fw = calloc(1, sizeof(*fw));

	if (!fw)
		return -ENOMEM;
	fw->layer = layer;
	fw->worker = w;
	fw->release.run = run_release;
	list_init(&fw->stuck);
	list_init(&fw->delayed);
	layer->workers[w->index] = fw;
	return 0;
}

/* Replays are nobody's request, so only here somebody waits for them. */
static void end_replays(struct fault_worker *fw)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &fw->delayed) {
		struct faulty *f = container_of(it, struct faulty, node);

		reactor_timer_stop(&f->timer);
		list_del(&f->node);
		layer_fault_end(f);
	}
	while (fw->replays || atomic_load(&fw->releasing))
		reactor_run_once(fw->worker->reactor, /* timeout_ms= */ -1);
}

static void fault_detach(struct backend *be, struct block_worker *w)
{
	struct fault_layer *layer = layer_fault_to_layer(be);
	struct fault_worker *fw = layer->workers[w->index];

	if (!fw)
		return;
	end_replays(fw);
	free(fw);
	layer->workers[w->index] = NULL;
}

static void fault_close(struct backend *be)
{
	free(layer_fault_to_layer(be));
}

static const struct backend_ops fault_ops = {
	.name = "fault",
	.close = fault_close,
	.attach = fault_attach,
	.detach = fault_detach,
	.submit = fault_submit,
};

/* A write that is cut in two is not done whole or not at all. */
static bool breaks_writes(const struct fault_rule *rule)
{
	return rule->ops & 1u << BLOCK_WRITE &&
	       (rule->kind == FAULT_SHORT || rule->kind == FAULT_TORN ||
		rule->kind == FAULT_ERROR);
}

int backend_fault_open(struct backend *below, const struct fault_rule *rules,
		       unsigned int cnt, uint32_t block_size, const char *name,
		       struct backend **ret)
{
	struct fault_layer *layer = calloc(1, sizeof(*layer));

	if (!layer) {
		backend_close(below);
		return -ENOMEM;
	}
	layer->base.ops = &fault_ops;
	layer->base.info = below->info;
	snprintf(layer->kind, sizeof(layer->kind), "%s, %u fault%s",
		 below->info.kind, cnt, cnt == 1 ? "" : "s");
	layer->base.info.kind = layer->kind;
	layer->base.below = below;
	layer->name = name;
	layer->block_size = block_size;
	layer->rule_cnt = cnt;
	for (unsigned int i = 0; i < cnt; i++) {
		layer->rules[i] = rules[i];
		if (breaks_writes(&rules[i]))
			layer->base.info.atomic_len = 0;
	}
	*ret = &layer->base;
	return 0;
}

void backend_fault_release(struct backend *be)
{
	struct fault_layer *layer = layer_fault_to_layer(be);

	if (be->ops != &fault_ops)
		return;
	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX; i++) {
		struct fault_worker *fw = layer->workers[i];

		if (fw && !atomic_exchange(&fw->releasing, true))
			reactor_send(fw->worker->reactor, &fw->release);
	}
}

unsigned int backend_fault_stuck(const struct backend *be,
				 const struct block_worker *w)
{
	const struct fault_worker *fw =
		layer_fault_to_layer(be)->workers[w->index];
	unsigned int cnt = 0;
	struct list *it;

	list_for_each(it, &fw->stuck)
		cnt++;
	return cnt;
}
