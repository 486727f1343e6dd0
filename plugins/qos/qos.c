/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * qos: a layer that limits the requests and bytes per second of a volume or of
 * a group of volumes.
 *
 * A limit is a bucket of tokens that fills at the rate of the limit. It is
 * stored as one number: the time when the bucket will be full again. A request
 * may pass if the bucket is not empty. It takes the tokens that it needs, even
 * if that leaves a debt, and the next requests wait until the debt is paid.
 * This lets large requests pass, and keeps the rate in the long run.
 *
 * Waiting requests are in flows. Each queue has one flow for small requests and
 * one for large requests. All flows of a group take turns, and each gets as
 * many bytes as the others (deficit round robin). Therefore small requests do
 * not wait for all large ones, and a volume of a group does not wait for all
 * requests of another one. FLUSH and EXTENT are not limited: they move no data.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/queue.h>
#include <time.h>
#include <unistd.h>

#include <rdma_block_plugin.h>

#define NS_PER_S  1000000000ull
#define NS_PER_MS 1000000ull

/* More than any rate needs: the layer remembers a debt of at most an hour. */
#define DEBT_MAX_NS (3600 * NS_PER_S)

/* Requests of at most this many bytes count as small. */
#define QOS_SMALL_MAX (32u << 10)
/* Bytes that a flow may pass in its turn. A request counts as at least
 * QOS_COST_MIN. */
#define QOS_QUANTUM  (64u << 10)
#define QOS_COST_MIN 4096u

struct qos_bucket {
	_Atomic uint64_t rate; /* tokens a second; 0: no limit */
	_Atomic uint64_t full; /* time when it is full again, CLOCK_MONOTONIC,
			        * ns */
};

struct qos_queue;

struct qos_io {
	STAILQ_ENTRY(qos_io) node;
	struct rbp_io *io;
};

STAILQ_HEAD(qos_ios, qos_io);

/* Waiting requests; guarded by the lock of the group. */
struct qos_flow {
	TAILQ_ENTRY(qos_flow) node; /* in qos_group.flows, if it has requests */
	struct qos_queue *queue;
	struct qos_ios waiting; /* oldest first */
	uint64_t deficit;	/* bytes that it may pass in its turn */
};

/* The limits of one volume, or of all volumes that name the same group. */
struct qos_group {
	struct qos_group *next;
	unsigned int users;
	char name[64]; /* empty: the group of one volume */
	_Atomic uint64_t burst_ns;
	struct qos_bucket requests;
	struct qos_bucket bytes;
	atomic_uint waiting_cnt;
	pthread_mutex_t lock; /* never held during a call */
	/* Guarded by the lock. The worker of the first flow passes its
	 * requests. */
	TAILQ_HEAD(qos_flows, qos_flow) flows;
};

enum qos_lane {
	QOS_SMALL,
	QOS_LARGE,
	QOS_LANES,
};

struct qos_queue {
	struct qos_group *group;
	struct rbp_timer *timer;
	int wake_fd; /* eventfd: it may be the turn of this queue */
	struct rbp_watch *wake;
	struct qos_flow flows[QOS_LANES];
};

static const struct rbp_host *qos_host;
static struct qos_group *qos_groups; /* [setup] groups that have a name */

/* ---- buckets ---- */

static uint64_t qos_now_ns(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * NS_PER_S + (uint64_t)ts.tv_nsec;
}

/* Returns the time until the bucket is not empty; 0: now. */
static uint64_t qos_bucket_wait(const struct qos_bucket *b, uint64_t burst_ns,
				uint64_t now)
{
	uint64_t full = atomic_load(&b->full);

	if (!atomic_load(&b->rate) || full <= now + burst_ns)
		return 0;
	return full - now - burst_ns;
}

static void qos_bucket_take(struct qos_bucket *b, uint64_t tokens, uint64_t now)
{
	uint64_t full = atomic_load(&b->full);
	uint64_t rate = atomic_load(&b->rate);
	uint64_t next;
	double ns;

	if (!rate)
		return;
	ns = (double)tokens * (double)NS_PER_S / (double)rate;
	if (ns > (double)DEBT_MAX_NS)
		ns = (double)DEBT_MAX_NS;
	do
		next = (full > now ? full : now) + (uint64_t)ns;
	while (!atomic_compare_exchange_weak(&b->full, &full, next));
}

/* The debt in tokens stays: at another rate it takes another time. */
static void qos_bucket_set_rate(struct qos_bucket *b, uint64_t rate,
				uint64_t now)
{
	uint64_t old = atomic_exchange(&b->rate, rate);
	uint64_t full = atomic_load(&b->full);
	double ns;

	if (old == rate)
		return;
	do {
		ns = full > now && rate
			     ? (double)(full - now) * (double)old / (double)rate
			     : 0;
		if (ns > (double)DEBT_MAX_NS)
			ns = (double)DEBT_MAX_NS;
	} while (!atomic_compare_exchange_weak(&b->full, &full,
					       now + (uint64_t)ns));
}

/* ---- one request ---- */

static int qos_is_limited(const struct rbp_io *io)
{
	return io->op != RBP_FLUSH && io->op != RBP_EXTENT;
}

static uint64_t qos_bytes_of(const struct rbp_io *io)
{
	return io->op == RBP_READ || io->op == RBP_WRITE ? io->len : 0;
}

/* Returns 0 if @io has paid and may pass, otherwise the time to wait in ns. */
static uint64_t qos_admit(struct qos_group *g, const struct rbp_io *io)
{
	uint64_t now = qos_now_ns();
	uint64_t burst_ns = atomic_load(&g->burst_ns);
	uint64_t wait = qos_bucket_wait(&g->requests, burst_ns, now);
	uint64_t other = qos_bucket_wait(&g->bytes, burst_ns, now);

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

/* ---- waiting requests ---- */

static uint64_t qos_cost(const struct qos_io *n)
{
	uint64_t bytes = qos_bytes_of(n->io);

	return bytes > QOS_COST_MIN ? bytes : QOS_COST_MIN;
}

/* Moves the flow whose turn it is to the front. Called with the lock held.
 * NULL: no request waits. */
static struct qos_flow *qos_turn(struct qos_group *g)
{
	struct qos_flow *f;

	while ((f = TAILQ_FIRST(&g->flows)) &&
	       f->deficit < qos_cost(STAILQ_FIRST(&f->waiting))) {
		f->deficit += QOS_QUANTUM;
		TAILQ_REMOVE(&g->flows, f, node);
		TAILQ_INSERT_TAIL(&g->flows, f, node);
	}
	return f;
}

/* Takes the oldest request, which has paid. Called with the lock held. */
static void qos_take(struct qos_group *g, struct qos_flow *f,
		     struct qos_ios *passed)
{
	struct qos_io *n = STAILQ_FIRST(&f->waiting);

	f->deficit -= qos_cost(n);
	STAILQ_REMOVE_HEAD(&f->waiting, node);
	STAILQ_INSERT_TAIL(passed, n, node);
	atomic_fetch_sub(&g->waiting_cnt, 1);
	if (STAILQ_EMPTY(&f->waiting)) {
		TAILQ_REMOVE(&g->flows, f, node);
		f->deficit = 0;
	}
}

static void qos_set_timer(struct qos_queue *q, uint64_t wait_ns)
{
	qos_host->timer_set(q->timer, (wait_ns + NS_PER_MS - 1) / NS_PER_MS);
}

/* Takes requests that may pass as long as it is the turn of @q. Returns the
 * time to wait in ns; 0: it is the turn of another queue, or no request
 * waits. */
static uint64_t qos_take_all(struct qos_queue *q, struct qos_ios *passed)
{
	struct qos_group *g = q->group;
	struct qos_flow *f;
	uint64_t wait = 0;

	pthread_mutex_lock(&g->lock);
	while ((f = qos_turn(g)) && f->queue == q && !wait) {
		wait = qos_admit(g, STAILQ_FIRST(&f->waiting)->io);
		if (!wait)
			qos_take(g, f, passed);
	}
	if (f && f->queue != q)
		eventfd_write(f->queue->wake_fd, 1);
	pthread_mutex_unlock(&g->lock);
	return wait;
}

/* It may be the turn of @q. [worker] */
static void qos_run(struct qos_queue *q)
{
	struct qos_ios passed = STAILQ_HEAD_INITIALIZER(passed);
	uint64_t wait = qos_take_all(q, &passed);
	struct qos_io *n;

	if (wait)
		qos_set_timer(q, wait);
	while ((n = STAILQ_FIRST(&passed))) {
		STAILQ_REMOVE_HEAD(&passed, node);
		qos_pass(n->io);
	}
}

static void qos_fire(void *user)
{
	qos_run(user);
}

static void qos_woken(void *user, uint32_t events)
{
	struct qos_queue *q = user;
	eventfd_t count;

	eventfd_read(q->wake_fd, &count);
	qos_run(q);
}

static void qos_wait(struct qos_queue *q, struct qos_io *n)
{
	struct qos_group *g = q->group;
	struct qos_flow *f = &q->flows[qos_bytes_of(n->io) > QOS_SMALL_MAX];
	bool is_first;

	pthread_mutex_lock(&g->lock);
	is_first = TAILQ_EMPTY(&g->flows);
	if (STAILQ_EMPTY(&f->waiting))
		TAILQ_INSERT_TAIL(&g->flows, f, node);
	STAILQ_INSERT_TAIL(&f->waiting, n, node);
	atomic_fetch_add(&g->waiting_cnt, 1);
	pthread_mutex_unlock(&g->lock);
	/* Otherwise the queue whose turn it is already handles it. */
	if (is_first)
		qos_run(q);
}

static void qos_submit(void *v, struct rbp_io *io)
{
	struct qos_queue *q = io->queue_data;
	struct qos_io *n = io->scratch;

	if (!qos_is_limited(io) || (!atomic_load(&q->group->waiting_cnt) &&
				    !qos_admit(q->group, io))) {
		qos_pass(io);
		return;
	}
	n->io = io;
	qos_wait(q, n);
}

/* ---- queues ---- */

static void qos_queue_del(void *queue_data)
{
	struct qos_queue *q = queue_data;

	if (q->timer)
		qos_host->timer_del(q->timer);
	if (q->wake)
		qos_host->watch_del(q->wake);
	if (q->wake_fd >= 0)
		close(q->wake_fd);
	free(q);
}

static int qos_queue_open(struct qos_queue *q, struct rbp_queue *queue)
{
	q->timer = qos_host->timer_add(queue, qos_fire, q);
	if (!q->timer)
		return -ENOMEM;
	q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->wake_fd < 0)
		return -errno;
	q->wake = qos_host->watch_add(queue, q->wake_fd, RBP_READABLE,
				      qos_woken, q);
	return q->wake ? 0 : -ENOMEM;
}

static int qos_queue_add(void *v, struct rbp_queue *queue, void **ret)
{
	struct qos_queue *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	q->group = v;
	q->wake_fd = -1;
	for (unsigned int i = 0; i < QOS_LANES; i++) {
		q->flows[i].queue = q;
		STAILQ_INIT(&q->flows[i].waiting);
	}
	err = qos_queue_open(q, queue);
	if (err)
		qos_queue_del(q);
	else
		*ret = q;
	return err;
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

/* All volumes of a group must name the same limits. */
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
	pthread_mutex_init(&g->lock, NULL);
	TAILQ_INIT(&g->flows);
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
	pthread_mutex_destroy(&g->lock);
	free(g);
}

/* ---- changes while the volume is served ---- */

static int qos_set_params(void *v, const struct rbp_arg *args, char *msg,
			  size_t msg_len)
{
	struct qos_group *g = v;
	struct qos_group wanted = {
		.requests.rate = atomic_load(&g->requests.rate),
		.bytes.rate = atomic_load(&g->bytes.rate),
		.burst_ns = atomic_load(&g->burst_ns),
	};
	struct qos_flow *f;
	uint64_t now = qos_now_ns();

	if (*qos_group_name(args)) {
		snprintf(msg, msg_len,
			 "the group cannot be changed while the volume is "
			 "served");
		return -EINVAL;
	}
	qos_take_args(&wanted, args);
	pthread_mutex_lock(&g->lock);
	qos_bucket_set_rate(&g->requests, wanted.requests.rate, now);
	qos_bucket_set_rate(&g->bytes, wanted.bytes.rate, now);
	atomic_store(&g->burst_ns, wanted.burst_ns);
	/* Waiting requests may now pass at another time. */
	f = TAILQ_FIRST(&g->flows);
	if (f)
		eventfd_write(f->queue->wake_fd, 1);
	pthread_mutex_unlock(&g->lock);
	return 0;
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
		.set_params = qos_set_params,
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
