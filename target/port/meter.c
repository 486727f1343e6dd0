/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/port/meter.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "protocol/scsi_cdb.h"

const char *const meter_op_names[METER_OPS] = {
	[METER_OTHER] = "other", [METER_READ] = "read",
	[METER_WRITE] = "write", [METER_FLUSH] = "flush",
	[METER_UNMAP] = "unmap",
};

const char *const meter_stage_names[METER_STAGES] = {
	[METER_QUEUE] = "queue",
	[METER_FETCH] = "fetch",
	[METER_BACKEND] = "backend",
	[METER_RESPOND] = "respond",
};

/* All others are METER_OTHER. */
const uint8_t meter_op_of[SCSI_OP_CNT] = {
	[SCSI_OP_READ] = METER_READ,
	[SCSI_OP_WRITE] = METER_WRITE,
	[SCSI_OP_WRITE_VERIFY] = METER_WRITE,
	[SCSI_OP_WRITE_ATOMIC] = METER_WRITE,
	[SCSI_OP_COMPARE_WRITE] = METER_WRITE,
	[SCSI_OP_ORWRITE] = METER_WRITE,
	[SCSI_OP_SYNC_CACHE] = METER_FLUSH,
	[SCSI_OP_UNMAP] = METER_UNMAP,
	[SCSI_OP_WRITE_SAME] = METER_UNMAP,
};

/* ---- all of them ---- */

/* Guards the list, and the references of its meters. It is held for short moments
 * only: worker 0 takes it at logins. */
static pthread_mutex_t meters_lock = PTHREAD_MUTEX_INITIALIZER;
static struct list meters = LIST_INIT(meters);

static struct meter *meter_find(enum meter_kind kind, const char *name)
{
	struct list *it;

	list_for_each(it, &meters) {
		struct meter *m = container_of(it, struct meter, node);

		if (m->kind == kind && !strcmp(m->name, name))
			return m;
	}
	return NULL;
}

static struct meter *meter_create(enum meter_kind kind, const char *name)
{
	struct meter *m = calloc(1, sizeof(*m));

	if (!m)
		return NULL;
	m->kind = kind;
	snprintf(m->name, sizeof(m->name), "%s", name);
	list_add_tail(&meters, &m->node);
	return m;
}

struct meter *meter_begin(enum meter_kind kind, const char *name)
{
	struct meter *m;

	pthread_mutex_lock(&meters_lock);
	m = meter_find(kind, name);
	if (!m)
		m = meter_create(kind, name);
	if (m) {
		m->users++;
		m->refs++;
	}
	pthread_mutex_unlock(&meters_lock);
	return m;
}

/* Pages that cost nothing before they are touched: an idle initiator has one.
 * NULL: no memory. */
static struct meter_share *share_map(void)
{
	void *mem =
		mmap(NULL, sizeof(struct meter_share), PROT_READ | PROT_WRITE,
		     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		return NULL;
	madvise(mem, sizeof(struct meter_share), MADV_NOHUGEPAGE);
	return mem;
}

static void share_unmap(struct meter_share *share)
{
	if (share)
		munmap(share, sizeof(*share));
}

static void meter_put(struct meter *m)
{
	bool last;

	pthread_mutex_lock(&meters_lock);
	last = --m->refs == 0;
	pthread_mutex_unlock(&meters_lock);
	if (!last)
		return;
	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX; i++)
		share_unmap(m->shares[i]);
	free(m);
}

void meter_end(struct meter *m)
{
	if (!m)
		return;
	pthread_mutex_lock(&meters_lock);
	if (--m->users == 0)
		list_del(&m->node);
	pthread_mutex_unlock(&meters_lock);
	meter_put(m);
}

struct meter_share *meter_share(struct meter *m, unsigned int index)
{
	if (!m->shares[index])
		__atomic_store_n(&m->shares[index], share_map(),
				 __ATOMIC_RELEASE);
	return m->shares[index];
}

static struct meter **meter_list_room(enum meter_kind kind)
{
	struct list *it;
	size_t cnt = 0;

	list_for_each(it, &meters)
		cnt += container_of(it, struct meter, node)->kind == kind;
	return calloc(cnt + 1, sizeof(struct meter *));
}

struct meter **meter_list(enum meter_kind kind)
{
	struct meter **list;
	struct list *it;
	size_t cnt = 0;

	pthread_mutex_lock(&meters_lock);
	list = meter_list_room(kind);
	list_for_each(it, &meters) {
		struct meter *m = container_of(it, struct meter, node);

		if (!list || m->kind != kind)
			continue;
		m->refs++;
		list[cnt++] = m;
	}
	pthread_mutex_unlock(&meters_lock);
	return list;
}

void meter_list_free(struct meter **list)
{
	for (size_t i = 0; list && list[i]; i++)
		meter_put(list[i]);
	free(list);
}

/* ---- sums ---- */

/* A busy worker may count a command while its counts are read. */
#define METER_TRIES 4

/* Changes with every command. */
static uint64_t meter_version(const struct meter_counts *counts)
{
	return count_read(&counts->stage[METER_RESPOND].sum);
}

static void meter_add_counts(struct meter_counts *to,
			     const struct meter_counts *from)
{
	struct meter_counts sum;
	uint64_t version;
	int tries = 0;

	/* Reads counts of one moment, if possible. Otherwise a command that is
	 * counted in only one stage would look as if it had not waited in the
	 * others. */
	do {
		sum = *to;
		version = meter_version(from);
		atomic_thread_fence(memory_order_acquire);
		sum.bytes += count_read(&from->bytes);
		for (int stage = 0; stage < METER_STAGES; stage++)
			histogram_merge(&sum.stage[stage], &from->stage[stage]);
		atomic_thread_fence(memory_order_acquire);
	} while (version != meter_version(from) && ++tries < METER_TRIES);
	*to = sum;
}

static void meter_add_share(struct meter_share *sum,
			    const struct meter_share *share)
{
	for (int op = 0; op < METER_OPS; op++)
		meter_add_counts(&sum->op[op], &share->op[op]);
	sum->channels += count_read(&share->channels);
	sum->credits += count_read(&share->credits);
	sum->in_flight += count_read(&share->in_flight);
}

/* Commands that did not wait in @stage were counted only by their response. */
static void meter_fill_in(struct meter_counts *counts, enum meter_stage stage)
{
	uint64_t all = meter_commands(counts);
	uint64_t waited = histogram_cnt(&counts->stage[stage]);

	/* A command that was counted during the reading may be in one count
	 * only. */
	if (all > waited)
		counts->stage[stage].bucket[0] += all - waited;
}

static void meter_finish(struct meter_counts *counts)
{
	for (int stage = 0; stage < METER_STAGES; stage++)
		counts->stage[stage].sum = ticks_ns(counts->stage[stage].sum);
	meter_fill_in(counts, METER_QUEUE);
	meter_fill_in(counts, METER_BACKEND);
}

void meter_sum(const struct meter *m, struct meter_share *ret_sum)
{
	memset(ret_sum, 0, sizeof(*ret_sum));
	for (unsigned int i = 0; i < BLOCK_WORKERS_MAX; i++) {
		const struct meter_share *share =
			__atomic_load_n(&m->shares[i], __ATOMIC_ACQUIRE);

		if (share)
			meter_add_share(ret_sum, share);
	}
	for (int op = 0; op < METER_OPS; op++)
		meter_finish(&ret_sum->op[op]);
}

uint64_t meter_commands(const struct meter_counts *sum)
{
	return histogram_cnt(&sum->stage[METER_RESPOND]);
}

/* ---- one command ---- */

void meter_clock_pass(struct meter_clock *c, enum meter_stage stage,
		      uint64_t when, bool first)
{
	if (first) {
		memset(c->spent, 0, sizeof(c->spent));
		c->since = meter_clock_arrived(c, /* passed= */ false);
		c->arrived += METER_PASSED;
	}
	c->spent[stage] += when - c->since;
	c->since = when;
}

uint64_t meter_bucket(uint64_t ticks)
{
	return histogram_index((double)histogram_cap(ticks_ns(ticks)));
}

void meter_count_stages(struct meter_counts *counts,
			const struct meter_clock *c)
{
	for (int stage = 0; stage < METER_RESPOND; stage++) {
		uint64_t ticks = c->spent[stage];

		if (!ticks)
			continue;
		count_add(&counts->stage[stage].bucket[meter_bucket(ticks)], 1);
		count_add(&counts->stage[stage].sum, ticks);
	}
}
