/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/layer_fault.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/secret.h"
#include "target/block/block_worker.h"

/* Direct I/O wants its memory aligned to the sectors of the device. */

struct fault_layer;

/* Rules that were given together. Requests point to them, so they stay
 * allocated. */
struct fault_set {
	struct fault_set *before; /* no longer in force */
	unsigned int cnt;
	struct fault_rule rules[FAULT_RULES_MAX];
	struct fault_tally tallies[FAULT_RULES_MAX];
};

/* A worker's part. */
struct fault_worker {
	struct fault_layer *layer;
	struct rbp_queue *queue;
	struct list stuck;    /* struct faulty, node */
	struct list delayed;  /* with its timer running */
	unsigned int replays; /* with the store; no request waits for them */
	struct reactor_msg release;
	_Atomic bool releasing; /* the message is under way */
};

struct fault_layer {
	const char *name; /* of the volume */
	char kind[32];
	uint32_t block_size;
	_Atomic(struct fault_set *) set; /* in force */
};

/* An I/O that a rule has hit, until it is ended. */
struct faulty {
	struct block_io inner; /* the I/O that the store gets instead */
	struct rbp_io *outer;
	struct fault_worker *fw;
	const struct fault_rule *rule; /* NULL: it is only delayed */
	uint64_t pick;
	unsigned int delay_ms;
	struct list node; /* in stuck or delayed */
	struct reactor_timer timer;
	void *copy; /* of the data */
	size_t copy_len;
};

static struct faulty *to_faulty(struct block_io *inner)
{
	return container_of(inner, struct faulty, inner);
}

static struct reactor *layer_fault_reactor(const struct fault_worker *fw)
{
	return fw->queue->worker->reactor;
}

/* ---- below ---- */

static void ask_store(struct faulty *f)
{
	block_io_submit(f->fw->queue->be->below, &f->inner);
}

static void layer_fault_end(struct faulty *f)
{
	secret_unmap(f->copy, f->copy_len);
	free(f);
}

static void layer_fault_answer(struct faulty *f, int res)
{
	struct rbp_io *outer = f->outer;

	outer->progress = f->inner.io.progress;
	layer_fault_end(f);
	block_io_done(outer, res);
}

/* Submits @len bytes from @start of the I/O to the store. done() follows. */
static void do_part(struct faulty *f, uint64_t start, uint64_t len,
		    void (*done)(struct block_io *inner, int res))
{
	struct rbp_io *outer = f->outer;
	uint8_t *buf = f->copy ? f->copy : outer->buf;

	f->inner = (struct block_io){
		.io.op = outer->op,
		.io.flags = outer->flags,
		.io.offset = outer->offset + start,
		.io.len = len,
		.io.buf = buf ? buf + start : NULL,
		.io.epoch = outer->epoch,
		.buf_index = f->copy ? -1 : block_io_of(outer)->buf_index,
		.worker = f->fw->queue->worker,
		.done = done,
	};
	ask_store(f);
}

static bool copy_data(struct faulty *f)
{
	f->copy_len = f->outer->len;
	f->copy = secret_map(f->copy_len);
	if (f->copy)
		memcpy(f->copy, f->outer->buf, f->outer->len);
	return f->copy;
}

/* ---- errors, and halves ---- */

static int error_of(const struct faulty *f)
{
	return f->rule->kind == FAULT_ERROR ? f->rule->err : -EIO;
}

static void layer_fault_part_done(struct block_io *inner, int res)
{
	struct faulty *f = to_faulty(inner);

	if (!res)
		inner->io.progress = inner->io.len;
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

/* Bytes of the request before the first block of the rule. */
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

static void next_block_done(struct block_io *inner, int res)
{
	struct faulty *f = to_faulty(inner);
	uint64_t block_size = f->fw->layer->block_size;
	uint64_t next = inner->io.offset - f->outer->offset + 2 * block_size;

	/* What was written in between is not progress that the caller may rely
	 * on. */
	inner->io.progress = 0;
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

static void whole_done(struct block_io *inner, int res)
{
	struct faulty *f = to_faulty(inner);

	if (!res && inner->io.op == RBP_READ)
		flip_bit(f, inner->io.buf);
	layer_fault_answer(f, res);
}

static void corrupt(struct faulty *f)
{
	if (f->outer->op == RBP_WRITE) {
		if (!copy_data(f)) {
			layer_fault_answer(f, -ENOMEM);
			return;
		}
		flip_bit(f, f->copy);
	}
	do_part(f, 0, f->outer->len, whole_done);
}

/* ---- stale writes ---- */

static void replay_done(struct block_io *inner, int res)
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
	ask_store(f);
}

static void replay_due(struct reactor_timer *t)
{
	replay(container_of(t, struct faulty, timer));
}

static void first_time_done(struct block_io *inner, int res)
{
	struct faulty *f = to_faulty(inner);
	struct rbp_io *outer = f->outer;

	f->outer = NULL;
	list_add_tail(&f->fw->delayed, &f->node);
	reactor_timer_init(&f->timer, replay_due);
	reactor_timer_set(layer_fault_reactor(f->fw), &f->timer, f->rule->ms);
	outer->progress = inner->io.progress;
	block_io_done(outer, res);
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
		[RBP_READ] = "read",   [RBP_WRITE] = "write",
		[RBP_FLUSH] = "flush", [RBP_UNMAP] = "unmap",
		[RBP_ZERO] = "zero",   [RBP_EXTENT] = "look-up",
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

/* Forwards the I/O unchanged. */
static void let_go(struct faulty *f)
{
	struct rbp_io *outer = f->outer;

	layer_fault_end(f);
	block_io_forward(outer);
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
	reactor_timer_set(layer_fault_reactor(f->fw), &f->timer, f->delay_ms);
}

/*
 * Tries the rules in their order. Delays add up; the first other fault that
 * hits is chosen. False: no rule hits.
 */
static bool layer_fault_choose(struct fault_layer *layer,
			       const struct rbp_io *io, struct faulty *what)
{
	struct fault_set *set = atomic_load(&layer->set);
	bool hit = false;

	for (unsigned int i = 0; i < set->cnt && !what->rule; i++) {
		const struct fault_rule *rule = &set->rules[i];

		if (!fault_rule_hits(rule, &set->tallies[i], io,
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

static void fault_submit(void *v, struct rbp_io *io)
{
	struct faulty what = { .outer = io };
	struct faulty *f;

	if (!layer_fault_choose(v, io, &what)) {
		block_io_forward(io);
		return;
	}
	f = malloc(sizeof(*f));
	if (!f) {
		block_io_done(io, -ENOMEM);
		return;
	}
	*f = what;
	f->fw = io->queue_data;
	layer_fault_begin(f);
}

/* ---- requests that are stuck ---- */

static void run_release(struct reactor_msg *msg)
{
	struct fault_worker *fw =
		container_of(msg, struct fault_worker, release);
	struct list all;
	struct list *node;

	/* Before the list is read, so that no later release is missed. */
	atomic_store(&fw->releasing, false);
	list_init(&all);
	list_splice_tail(&all, &fw->stuck);
	while ((node = list_pop(&all)))
		let_go(container_of(node, struct faulty, node));
}

/* ---- the table ---- */

static int fault_queue_add(void *v, struct rbp_queue *queue, void **ret)
{
	struct fault_worker *fw = calloc(1, sizeof(*fw));

	if (!fw)
		return -ENOMEM;
	fw->layer = v;
	fw->queue = queue;
	fw->release.run = run_release;
	list_init(&fw->stuck);
	list_init(&fw->delayed);
	*ret = fw;
	return 0;
}

/* Replays belong to no request, so only this function waits for them. */
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
		reactor_run_once(layer_fault_reactor(fw), /* timeout_ms= */ -1);
}

static void fault_queue_del(void *queue_data)
{
	end_replays(queue_data);
	free(queue_data);
}

static void fault_free_sets(struct fault_set *set)
{
	while (set) {
		struct fault_set *before = set->before;

		free(set);
		set = before;
	}
}

static void fault_close(void *v)
{
	struct fault_layer *layer = v;

	fault_free_sets(atomic_load(&layer->set));
	free(layer);
}

/* A write that is cut in two is not atomic. */
static bool breaks_writes(const struct fault_rule *rule)
{
	return rule->ops & 1u << RBP_WRITE &&
	       (rule->kind == FAULT_SHORT || rule->kind == FAULT_TORN ||
		rule->kind == FAULT_ERROR);
}

static int fault_take_rules(struct fault_layer *layer, const char *below,
			    const struct fault_rule *rules, unsigned int cnt)
{
	struct fault_set *set = calloc(1, sizeof(*set));

	if (!set)
		return -ENOMEM;
	set->before = atomic_load(&layer->set);
	set->cnt = cnt;
	if (cnt)
		memcpy(set->rules, rules, cnt * sizeof(*rules));
	snprintf(layer->kind, sizeof(layer->kind), "%s, %u fault%s", below, cnt,
		 cnt == 1 ? "" : "s");
	atomic_store(&layer->set, set);
	return 0;
}

static int fault_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	const struct backend_options *opt = block_info_of(info)->opt;
	const struct fault_options *faults = opt->faults;
	struct fault_layer *layer = calloc(1, sizeof(*layer));

	if (!layer || fault_take_rules(layer, opt->below->info.kind,
				       faults->rules, faults->cnt)) {
		free(layer);
		return -ENOMEM;
	}
	block_info_of(info)->kind = layer->kind;
	layer->name = faults->volume;
	layer->block_size = info->volume_block;
	for (unsigned int i = 0; i < faults->cnt; i++) {
		if (breaks_writes(&faults->rules[i]))
			info->atomic_write = 0;
	}
	*ret_v = layer;
	return 0;
}

const struct backend_type backend_fault = {
	.plugin = {
		.size = sizeof(struct rbp_plugin),
		.is_layer = 1,
		.name = "fault",
		.help = "lets I/O go wrong by rule",
		.open = fault_open,
		.close = fault_close,
		.queue_add = fault_queue_add,
		.queue_del = fault_queue_del,
		.submit = fault_submit,
	},
};

int backend_fault_set(struct backend *be, const struct fault_rule *rules,
		      unsigned int cnt)
{
	int err = be->type == &backend_fault
			  ? fault_take_rules(be->v, be->below->info.kind, rules,
					     cnt)
			  : -ENOENT;

	if (!err)
		backend_fault_release(be);
	return err;
}

void backend_fault_release(struct backend *be)
{
	if (be->type != &backend_fault)
		return;
	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX; i++) {
		struct fault_worker *fw =
			be->queues[i] ? be->queues[i]->data : NULL;

		if (fw && !atomic_exchange(&fw->releasing, true))
			reactor_send(layer_fault_reactor(fw), &fw->release);
	}
}

unsigned int backend_fault_stuck(const struct backend *be,
				 const struct block_worker *w)
{
	const struct fault_worker *fw = be->queues[w->index]->data;
	unsigned int cnt = 0;
	struct list *it;

	list_for_each(it, &fw->stuck)
		cnt++;
	return cnt;
}
