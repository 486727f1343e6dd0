/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qos: a layer that limits how many requests and bytes a volume, or a group of
 * volumes, is given each second.
 *
 * A limit is a bucket of tokens that fills at the rate of the limit. It is kept as
 * one number: the time at which the bucket will be full again. A request may pass
 * when the bucket is not empty, and takes what it needs even if that leaves a debt:
 * the requests behind it then wait until the debt is paid. For this reason large
 * requests pass at all, and no more than the rate in the long run.
 *
 * Requests of a worker pass in the order of their arrival, so that none is left
 * waiting by smaller ones. FLUSH and EXTENT are not limited: they move no data.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <time.h>

#include <rdma_block_plugin.h>

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull

/* Wider than any rate allows: a debt of at most an hour is remembered. */
#define DEBT_MAX_NS (3600 * NS_PER_S)

struct qos_bucket {
	uint64_t rate;	       /* tokens a second; 0: no limit */
	_Atomic uint64_t full; /* when it is full again, CLOCK_MONOTONIC, ns */
};

/* What limits one volume, or those that name the same group. */
struct qos_group {
	struct qos_group *next;
	unsigned int users;
	char name[64]; /* empty: of one volume */
	uint64_t burst_ns;
	struct qos_bucket requests;
	struct qos_bucket bytes;
};

struct qos_io {
	STAILQ_ENTRY(qos_io) node;
	struct rbp_io *io;
};

struct qos_queue {
	struct qos_group *group;
	struct rbp_timer *timer;
	STAILQ_HEAD(qos_waiting, qos_io) waiting;
};

static const struct rbp_host *qos_host;
static struct qos_group *qos_groups; /* [setup] those with a name */

/* ---- buckets ---- */

static uint64_t qos_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* How long until the bucket is not empty; 0: it is not. */
static uint64_t qos_bucket_wait(const struct qos_bucket *b, uint64_t burst_ns,
				uint64_t now)
{
	uint64_t full = atomic_load(&b->full);

	if (!b->rate || full <= now + burst_ns)
		return 0;
	return full - now - burst_ns;
}

static void qos_bucket_take(struct qos_bucket *b, uint64_t tokens, uint64_t now)
{
	uint64_t full = atomic_load(&b->full);
	uint64_t next;
	double ns;

	if (!b->rate)
		return;
	ns = (double)tokens * (double)NS_PER_S / (double)b->rate;
	if (ns > (double)DEBT_MAX_NS)
		ns = (double)DEBT_MAX_NS;
	do
		next = (full > now ? full : now) + (uint64_t)ns;
	while (!atomic_compare_exchange_weak(&b->full, &full, next));
}

/* ---- I/O ---- */

static int qos_is_limited(const struct rbp_io *io)
{
	return io->op != RBP_FLUSH && io->op != RBP_EXTENT;
}

static uint64_t qos_bytes_of(const struct rbp_io *io)
{
	return io->op == RBP_READ || io->op == RBP_WRITE ? io->len : 0;
}

/* 0: @io has paid and may pass. Else the time to wait, ns. */
static uint64_t qos_admit(struct qos_group *g, const struct rbp_io *io)
{
	uint64_t now = qos_now_ns();
	uint64_t wait = qos_bucket_wait(&g->requests, g->burst_ns, now);
	uint64_t other = qos_bucket_wait(&g->bytes, g->burst_ns, now);

	if (wait || other)
		return wait > other ? wait : other;
	qos_bucket_take(&g->requests, 1, now);
	qos_bucket_take(&g->bytes, qos_bytes_of(io), now);
	return 0;
}

static void qos_ended(struct rbp_io *child, int res)
{
	struct rbp_io *io = child->parent;

	io->extent_len = child->extent_len;
	io->extent_mapped = child->extent_mapped;
	io->progress = child->progress;
	qos_host->done(io, res);
}

static void qos_pass(struct rbp_io *io)
{
	struct rbp_io *child = qos_host->child(io);

	child->ended = qos_ended;
	qos_host->below(child);
}

static void qos_set_timer(struct qos_queue *q, uint64_t wait_ns)
{
	qos_host->timer_set(q->timer, (wait_ns + NS_PER_MS - 1) / NS_PER_MS);
}

static void qos_fire(void *user)
{
	struct qos_queue *q = user;
	struct qos_io *n;

	while ((n = STAILQ_FIRST(&q->waiting))) {
		uint64_t wait = qos_admit(q->group, n->io);

		if (wait) {
			qos_set_timer(q, wait);
			return;
		}
		STAILQ_REMOVE_HEAD(&q->waiting, node);
		qos_pass(n->io);
	}
}

static void qos_submit(void *v, struct rbp_io *io)
{
	struct qos_queue *q = io->queue_data;
	struct qos_io *n = io->scratch;
	uint64_t wait = 0;

	if (!qos_is_limited(io)) {
		qos_pass(io);
		return;
	}
	if (STAILQ_EMPTY(&q->waiting)) {
		wait = qos_admit(q->group, io);
		if (!wait) {
			qos_pass(io);
			return;
		}
		qos_set_timer(q, wait);
	}
	n->io = io;
	STAILQ_INSERT_TAIL(&q->waiting, n, node);
}

static int qos_queue_add(void *v, struct rbp_queue *queue, void **ret)
{
	struct qos_queue *q = calloc(1, sizeof(*q));

	if (!q)
		return -ENOMEM;
	q->group = v;
	STAILQ_INIT(&q->waiting);
	q->timer = qos_host->timer_add(queue, qos_fire, q);
	if (!q->timer) {
		free(q);
		return -ENOMEM;
	}
	*ret = q;
	return 0;
}

static void qos_queue_del(void *queue_data)
{
	struct qos_queue *q = queue_data;

	qos_host->timer_del(q->timer);
	free(q);
}

/* ---- open ---- */

static struct qos_group *qos_find(const char *name)
{
	struct qos_group *g = qos_groups;

	while (g && strcmp(g->name, name) != 0)
		g = g->next;
	return g;
}

static void qos_take_args(struct qos_group *g, const struct rbp_arg *args)
{
	for (; args->name; args++) {
		if (!strcmp(args->name, "iops"))
			g->requests.rate = args->number;
		else if (!strcmp(args->name, "bps"))
			g->bytes.rate = args->number;
		else if (!strcmp(args->name, "burst"))
			g->burst_ns = args->number * NS_PER_MS;
	}
}

static const char *qos_group_name(const struct rbp_arg *args)
{
	for (; args->name; args++) {
		if (!strcmp(args->name, "group"))
			return args->text;
	}
	return "";
}

/* A group has the limits that all its volumes name. */
static int qos_join(struct qos_group *g, const struct qos_group *wanted,
		    char *msg, size_t msg_len)
{
	if (g->requests.rate != wanted->requests.rate ||
	    g->bytes.rate != wanted->bytes.rate ||
	    g->burst_ns != wanted->burst_ns) {
		snprintf(msg, msg_len,
			 "group '%s' has other limits on another volume: give "
			 "all volumes of a group the same iops, bps and burst",
			 g->name);
		return -EINVAL;
	}
	g->users++;
	return 0;
}

static int qos_make(const struct qos_group *wanted, struct qos_group **ret)
{
	struct qos_group *g = calloc(1, sizeof(*g));

	if (!g)
		return -ENOMEM;
	snprintf(g->name, sizeof(g->name), "%s", wanted->name);
	g->requests.rate = wanted->requests.rate;
	g->bytes.rate = wanted->bytes.rate;
	g->burst_ns = wanted->burst_ns;
	g->users = 1;
	if (*g->name) {
		g->next = qos_groups;
		qos_groups = g;
	}
	*ret = g;
	return 0;
}

static int qos_open(struct rbp_vol *vol, const char *location,
		    const struct rbp_arg *args, void **ret_v,
		    struct rbp_info *info, char *msg, size_t msg_len)
{
	const char *name = qos_group_name(args);
	struct qos_group wanted = { 0 };
	struct qos_group *g;
	int err;

	qos_take_args(&wanted, args);
	if (!wanted.requests.rate && !wanted.bytes.rate) {
		snprintf(msg, msg_len, "needs a limit: iops= or bps=");
		return -EINVAL;
	}
	if (strlen(name) >= sizeof(wanted.name)) {
		snprintf(msg, msg_len, "the name of the group is too long");
		return -EINVAL;
	}
	snprintf(wanted.name, sizeof(wanted.name), "%s", name);
	g = *name ? qos_find(name) : NULL;
	err = g ? qos_join(g, &wanted, msg, msg_len) : qos_make(&wanted, &g);
	if (!err)
		*ret_v = g;
	return err;
}

static void qos_close(void *v)
{
	struct qos_group *g = v;
	struct qos_group **at = &qos_groups;

	if (--g->users)
		return;
	while (*at && *at != g)
		at = &(*at)->next;
	if (*at)
		*at = g->next;
	free(g);
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static const struct rbp_param params[] = {
		{ "iops", RBP_NUMBER, "0", "requests a second; 0: no limit" },
		{ "bps", RBP_SIZE, "0", "bytes a second; 0: no limit" },
		{ "burst", RBP_NUMBER, "100",
		  "milliseconds of the rate that may pass at once" },
		{ "group", RBP_STRING, NULL,
		  "volumes that name the same group share its limits" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.is_layer = 1,
		.name = "qos",
		.version = "1",
		.help = "limits the requests and bytes of each second",
		.params = params,
		.scratch_len = sizeof(struct qos_io),
		.open = qos_open,
		.close = qos_close,
		.queue_add = qos_queue_add,
		.queue_del = qos_queue_del,
		.submit = qos_submit,
	};

	if (host->size <
	    offsetof(struct rbp_host, timer_del) + sizeof(host->timer_del)) {
		host->log(NULL, RBP_ERROR,
			  "qos: this rdma-target is too old for the plugin");
		return NULL;
	}
	qos_host = host;
	return &plugin;
}
