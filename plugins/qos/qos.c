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
 * Each queue has one flow for small requests and one for large requests. A flow
 * owes the part of the debt that its requests have made. As time pays the debt,
 * all volumes that owe something for small or for large requests are paid the
 * same, and share it out among their queues. A request of a flow that owes
 * nothing passes although the bucket is empty, and adds to the debt. So a client
 * with one small request at a time does not wait for the debt of large requests,
 * and those wait longer. The rate is kept, because a flow that owes something
 * waits while the bucket is empty.
 *
 * While the bucket is not empty, flows with waiting requests take turns, and
 * each gets as many bytes as the others (deficit round robin). FLUSH and EXTENT
 * are not limited: they move no data.
 */
#include <assert.h>
#include <errno.h>
#include <pthread.h>
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
/* A flow that owes no more than this counts as one that owes nothing. Otherwise
 * it would lose a part of its share whenever a timer is late: timers are exact to
 * a tick of the kernel, up to 10 ms. */
#define QOS_OWED_MAX_NS (10 * NS_PER_MS)
/* Less is paid later: it would take longer to share it out than it is worth. */
#define QOS_PAID_MIN_NS (NS_PER_MS / 10)

struct qos_bucket {
	uint64_t rate; /* tokens a second; 0: no limit */
	uint64_t full; /* time when it is full again, CLOCK_MONOTONIC, ns */
};

struct qos_queue;

struct qos_io {
	STAILQ_ENTRY(qos_io) node;
	struct rbp_io *io;
};

STAILQ_HEAD(qos_ios, qos_io);

/* Guarded by the lock of the group. */
struct qos_flow {
	struct qos_queue *queue;
	unsigned int *debtor_cnt; /* in qos_vol */
	/* in qos_group.flows, if it has waiting requests */
	TAILQ_ENTRY(qos_flow) node;
	struct qos_ios waiting; /* oldest first */
	uint64_t deficit;	/* bytes that it may pass in its turn */
	/* in qos_group.debtors, if it owes something */
	TAILQ_ENTRY(qos_flow) debt_node;
	uint64_t owed_ns;
};

TAILQ_HEAD(qos_flows, qos_flow);

/* The limits of one volume, or of all volumes that name the same group. */
struct qos_group {
	struct qos_group *next;
	unsigned int users;
	char name[64];	      /* empty: the group of one volume */
	pthread_mutex_t lock; /* never held during a call */
	/* guarded by the lock */
	uint64_t burst_ns;
	struct qos_bucket requests;
	struct qos_bucket bytes;
	/* Flows with waiting requests. It is the turn of the first one: its
	 * worker has set the timer, or is woken. */
	struct qos_flows flows;
	struct qos_flows debtors;
	unsigned int debtor_cnt;
	unsigned int part_cnt; /* counters of qos_vol that are not 0 */
	uint64_t owed_ns;      /* by all debtors */
};

enum qos_lane {
	QOS_SMALL,
	QOS_LARGE,
	QOS_LANES,
};

struct qos_vol {
	struct qos_group *group;
	/* Flows that owe something; guarded by the lock of the group. */
	unsigned int debtor_cnt[QOS_LANES];
};

struct qos_queue {
	struct qos_group *group;
	struct rbp_timer *timer;
	int wake_fd; /* eventfd: requests of this queue may pass */
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

static uint64_t qos_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static uint64_t qos_min(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static uint64_t qos_limit_ns(double ns)
{
	return ns > (double)DEBT_MAX_NS ? DEBT_MAX_NS : (uint64_t)ns;
}

/* Returns the time until the bucket is full. */
static uint64_t qos_bucket_debt(const struct qos_bucket *b, uint64_t now)
{
	return b->rate && b->full > now ? b->full - now : 0;
}

/* Returns the time in which the bucket gets as many tokens again. */
static uint64_t qos_bucket_take(struct qos_bucket *b, uint64_t tokens,
				uint64_t now)
{
	uint64_t ns;

	if (!b->rate)
		return 0;
	ns = qos_limit_ns((double)tokens * (double)NS_PER_S / (double)b->rate);
	b->full = qos_max(b->full, now) + ns;
	return ns;
}

/* The debt in tokens stays: at another rate it takes another time. */
static void qos_bucket_set_rate(struct qos_bucket *b, uint64_t rate,
				uint64_t now)
{
	double tokens = (double)qos_bucket_debt(b, now) * (double)b->rate;

	if (b->rate == rate)
		return;
	b->rate = rate;
	b->full = now + (rate ? qos_limit_ns(tokens / (double)rate) : 0);
}

/* ---- debts ---- */

static uint64_t qos_debt(const struct qos_group *g, uint64_t now)
{
	return qos_max(qos_bucket_debt(&g->requests, now),
		       qos_bucket_debt(&g->bytes, now));
}

/* Called with the lock held, as the functions below. */
static void qos_owe(struct qos_flow *f, uint64_t ns)
{
	struct qos_group *g = f->queue->group;

	if (!ns)
		return;
	if (!f->owed_ns) {
		TAILQ_INSERT_TAIL(&g->debtors, f, debt_node);
		g->debtor_cnt++;
		g->part_cnt += !(*f->debtor_cnt)++;
	}
	f->owed_ns += ns;
	g->owed_ns += ns;
}

static void qos_owe_less(struct qos_flow *f, uint64_t ns)
{
	struct qos_group *g = f->queue->group;

	if (!f->owed_ns)
		return;
	f->owed_ns -= ns;
	g->owed_ns -= ns;
	if (!f->owed_ns) {
		TAILQ_REMOVE(&g->debtors, f, debt_node);
		g->debtor_cnt--;
		g->part_cnt -= !--*f->debtor_cnt;
	}
}

/* A flow that owes something is paid one of so many parts. */
static uint64_t qos_part_cnt(const struct qos_flow *f)
{
	uint64_t cnt = (uint64_t)f->queue->group->part_cnt * *f->debtor_cnt;

	assert(cnt); /* it is one of them */
	return cnt;
}

/* Shares out what time has paid, so that the flows owe together what the buckets
 * lack. */
static void qos_share_out(struct qos_group *g, uint64_t now)
{
	uint64_t debt = qos_debt(g, now);
	uint64_t paid = g->owed_ns > debt ? g->owed_ns - debt : 0;

	if (debt && paid < QOS_PAID_MIN_NS)
		return;
	/* Each part is at least 1 ns. */
	while (paid && paid >= (uint64_t)g->part_cnt * g->debtor_cnt) {
		uint64_t all = paid;
		struct qos_flow *next;

		for (struct qos_flow *f = TAILQ_FIRST(&g->debtors); f;
		     f = next) {
			uint64_t ns = qos_min(all / qos_part_cnt(f), paid);

			next = TAILQ_NEXT(f, debt_node);
			ns = qos_min(ns, f->owed_ns);
			paid -= ns;
			qos_owe_less(f, ns);
		}
	}
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

static struct qos_flow *qos_flow_of(struct qos_queue *q,
				    const struct rbp_io *io)
{
	bool is_large = qos_bytes_of(io) > QOS_SMALL_MAX;

	return &q->flows[is_large ? QOS_LARGE : QOS_SMALL];
}

/* Returns the time until the buckets are not empty; 0: now. */
static uint64_t qos_wait_of(const struct qos_group *g, uint64_t now)
{
	uint64_t debt = qos_debt(g, now);

	return debt > g->burst_ns ? debt - g->burst_ns : 0;
}

/* @io of @f takes its tokens. */
static void qos_charge(struct qos_flow *f, const struct rbp_io *io,
		       uint64_t now)
{
	struct qos_group *g = f->queue->group;
	uint64_t ns = qos_bucket_take(&g->requests, 1, now);
	uint64_t other = qos_bucket_take(&g->bytes, qos_bytes_of(io), now);

	qos_owe(f, qos_max(ns, other));
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

/* Takes the oldest request. Called with the lock held. */
static void qos_take(struct qos_flow *f, uint64_t now, struct qos_ios *passed)
{
	struct qos_group *g = f->queue->group;
	struct qos_io *n = STAILQ_FIRST(&f->waiting);

	qos_charge(f, n->io, now);
	f->deficit -= qos_min(f->deficit, qos_cost(n));
	STAILQ_REMOVE_HEAD(&f->waiting, node);
	STAILQ_INSERT_TAIL(passed, n, node);
	if (STAILQ_EMPTY(&f->waiting)) {
		TAILQ_REMOVE(&g->flows, f, node);
		f->deficit = 0;
	}
}

/* Takes requests of @f while it owes nothing. Returns the time after which it
 * may owe nothing again, in ns; UINT64_MAX: no request waits. Called with the
 * lock held. */
static uint64_t qos_take_free(struct qos_flow *f, uint64_t now,
			      struct qos_ios *passed)
{
	while (!STAILQ_EMPTY(&f->waiting)) {
		if (f->owed_ns > QOS_OWED_MAX_NS)
			return (f->owed_ns - QOS_OWED_MAX_NS) * qos_part_cnt(f);
		qos_take(f, now, passed);
	}
	return UINT64_MAX;
}

/* Takes requests while it is the turn of @q and the buckets are not empty.
 * Returns the time until they are not empty; UINT64_MAX: it is the turn of
 * another queue, or no request waits. Called with the lock held. */
static uint64_t qos_take_turns(struct qos_queue *q, uint64_t now,
			       struct qos_ios *passed)
{
	struct qos_flow *f;
	uint64_t wait;

	while ((f = qos_turn(q->group)) && f->queue == q) {
		wait = qos_wait_of(q->group, now);
		if (wait)
			return wait;
		qos_take(f, now, passed);
	}
	return UINT64_MAX;
}

/* Takes the requests of @q that may pass. Returns the time until the next ones
 * may; UINT64_MAX: none waits. */
static uint64_t qos_take_all(struct qos_queue *q, struct qos_ios *passed)
{
	struct qos_group *g = q->group;
	uint64_t wait = UINT64_MAX;
	uint64_t now = qos_now_ns();
	const struct qos_flow *before;
	const struct qos_flow *first;

	pthread_mutex_lock(&g->lock);
	before = TAILQ_FIRST(&g->flows);
	qos_share_out(g, now);
	for (unsigned int i = 0; i < QOS_LANES; i++)
		wait = qos_min(wait, qos_take_free(&q->flows[i], now, passed));
	wait = qos_min(wait, qos_take_turns(q, now, passed));
	first = TAILQ_FIRST(&g->flows);
	if (first && first != before && first->queue != q)
		eventfd_write(first->queue->wake_fd, 1);
	pthread_mutex_unlock(&g->lock);
	return wait;
}

/* Requests of @q may pass. [worker] */
static void qos_run(struct qos_queue *q)
{
	struct qos_ios passed = STAILQ_HEAD_INITIALIZER(passed);
	uint64_t wait = qos_take_all(q, &passed);
	struct qos_io *n;

	if (wait != UINT64_MAX)
		qos_host->timer_set(q->timer,
				    (wait + NS_PER_MS - 1) / NS_PER_MS);
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

/* Returns true if @io has paid and passes. Called with the lock held. */
static bool qos_admit(struct qos_flow *f, const struct rbp_io *io)
{
	struct qos_group *g = f->queue->group;
	uint64_t now = qos_now_ns();

	if (!TAILQ_EMPTY(&g->flows) || qos_wait_of(g, now))
		return false;
	qos_share_out(g, now);
	qos_charge(f, io, now);
	return true;
}

/* Called with the lock held. Returns true if the worker must run the queue;
 * otherwise its timer is set. */
static bool qos_wait(struct qos_flow *f, struct rbp_io *io)
{
	bool is_first = STAILQ_EMPTY(&f->waiting);
	struct qos_io *n = io->scratch;

	n->io = io;
	if (is_first)
		TAILQ_INSERT_TAIL(&f->queue->group->flows, f, node);
	STAILQ_INSERT_TAIL(&f->waiting, n, node);
	return is_first;
}

static void qos_submit(void *v, struct rbp_io *io)
{
	struct qos_queue *q = io->queue_data;
	struct qos_flow *f = qos_flow_of(q, io);
	bool passes = true;
	bool must_run = false;

	if (qos_is_limited(io)) {
		pthread_mutex_lock(&q->group->lock);
		passes = qos_admit(f, io);
		if (!passes)
			must_run = qos_wait(f, io);
		pthread_mutex_unlock(&q->group->lock);
	}
	if (passes)
		qos_pass(io);
	if (must_run)
		qos_run(q);
}

/* ---- queues ---- */

static void qos_queue_del(void *queue_data)
{
	struct qos_queue *q = queue_data;

	pthread_mutex_lock(&q->group->lock);
	for (unsigned int i = 0; i < QOS_LANES; i++)
		qos_owe_less(&q->flows[i], q->flows[i].owed_ns);
	pthread_mutex_unlock(&q->group->lock);
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
	struct qos_vol *vol = v;
	struct qos_queue *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	q->group = vol->group;
	q->wake_fd = -1;
	for (unsigned int i = 0; i < QOS_LANES; i++) {
		q->flows[i].queue = q;
		q->flows[i].debtor_cnt = &vol->debtor_cnt[i];
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
	TAILQ_INIT(&g->debtors);
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

/* Finds or makes the group. */
static int qos_enter(const struct rbp_arg *args, struct qos_group **ret,
		     char *msg, size_t msg_len)
{
	const char *name = qos_group_name(args);
	struct qos_group wanted = { 0 };
	struct qos_group *g;

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
	if (!g)
		return qos_make(&wanted, ret);
	*ret = g;
	return qos_join(g, &wanted, msg, msg_len);
}

static void qos_leave(struct qos_group *g)
{
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

static int qos_open(struct rbp_vol *vol, const char *location,
		    const struct rbp_arg *args, void **ret_v,
		    struct rbp_info *info, char *msg, size_t msg_len)
{
	struct qos_vol *v = calloc(1, sizeof(*v));
	int err;

	if (!v)
		return -ENOMEM;
	err = qos_enter(args, &v->group, msg, msg_len);
	if (err)
		free(v);
	else
		*ret_v = v;
	return err;
}

static void qos_close(void *v)
{
	struct qos_vol *vol = v;

	qos_leave(vol->group);
	free(vol);
}

/* ---- changes while the volume is served ---- */

static int qos_set_params(void *v, const struct rbp_arg *args, char *msg,
			  size_t msg_len)
{
	struct qos_group *g = ((struct qos_vol *)v)->group;
	struct qos_group wanted = { 0 };
	struct qos_flow *f;
	uint64_t now = qos_now_ns();

	if (*qos_group_name(args)) {
		snprintf(msg, msg_len,
			 "the group cannot be changed while the volume is "
			 "served");
		return -EINVAL;
	}
	pthread_mutex_lock(&g->lock);
	wanted.requests.rate = g->requests.rate;
	wanted.bytes.rate = g->bytes.rate;
	wanted.burst_ns = g->burst_ns;
	qos_take_args(&wanted, args);
	qos_bucket_set_rate(&g->requests, wanted.requests.rate, now);
	qos_bucket_set_rate(&g->bytes, wanted.bytes.rate, now);
	g->burst_ns = wanted.burst_ns;
	/* Waiting requests may now pass at another time. */
	for (f = TAILQ_FIRST(&g->flows); f; f = TAILQ_NEXT(f, node))
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
