/* SPDX-License-Identifier: BSD-2-Clause */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/random.h>
#include <unistd.h>

#include "volume.h"

const struct rbp_host *nbd_host;

/* If the server states none. Bytes. */
#define PREFERRED_DEFAULT 4096u

#define MEMORY_RETRY_MS 100u

/* ---- open ---- */

/* @location is "//host/export", the rest of nbd://host/export. */
static char *nbdvol_uri(const char *location)
{
	const char *scheme = strncmp(location, "//", 2) != 0 ? "" : "nbd:";
	char *uri = NULL;

	if (asprintf(&uri, "%s%s", scheme, location) < 0)
		return NULL;
	return uri;
}

/* A longer time would overflow; this one is 68 years. */
static uint64_t nbdvol_ms(uint64_t seconds)
{
	return (seconds < INT32_MAX ? seconds : INT32_MAX) * 1000;
}

static void nbdvol_take_args(struct nbdvol *vol, const struct rbp_arg *args,
			     bool *ret_may_share, struct rbp_info *info)
{
	for (; args->name; args++) {
		if (!strcmp(args->name, "wait"))
			vol->wait_ms = nbdvol_ms(args->number);
		else if (!strcmp(args->name, "timeout"))
			vol->timeout_ms = nbdvol_ms(args->number);
		else if (!strcmp(args->name, "trust-server"))
			vol->trusts_server = args->number;
		else if (!strcmp(args->name, "multi-conn"))
			*ret_may_share = args->number;
		else if (!strcmp(args->name, "identity"))
			snprintf(info->identity, sizeof(info->identity), "%s",
				 args->text);
	}
}

/* Returns 0, or -errno and a clause in @msg. */
static int nbdvol_size_up(struct nbdvol *vol, struct nbd_handle *h,
			  struct rbp_info *info, char *msg, size_t msg_len)
{
	uint64_t min = nbdlink_min(h);
	int64_t preferred = nbd_get_block_size(h, LIBNBD_SIZE_PREFERRED);
	int64_t size = nbd_get_size(h);

	if (min > 4096) {
		snprintf(msg, msg_len,
			 "the server takes no I/O smaller than %llu bytes, "
			 "volumes have blocks of up to 4096; put nbdkit's "
			 "filter 'blocksize' before it",
			 (unsigned long long)min);
		return -EINVAL;
	}
	if (size < 0) {
		snprintf(msg, msg_len, "%s", nbd_get_error());
		return -EIO;
	}
	if ((uint64_t)size % min)
		nbd_host->log(vol->vol, RBP_WARNING,
			      "the last %llu bytes of the export are no whole "
			      "block of %llu bytes and are left out",
			      (unsigned long long)((uint64_t)size % min),
			      (unsigned long long)min);
	vol->block_size = (uint32_t)min;
	vol->bytes = (uint64_t)size / min * min;
	vol->max_piece = nbdlink_max(h) / min * min;
	info->bytes = vol->bytes;
	info->block_size = vol->block_size;
	info->optimal_io =
		preferred > 0 ? (uint32_t)preferred : PREFERRED_DEFAULT;
	return 0;
}

static struct nbdconn *nbdvol_add_conn(struct nbdvol *vol, struct nbd_handle *h)
{
	struct nbdconn *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->vol = vol;
	c->h = h;
	if (h)
		nbdwire_begin(c);
	TAILQ_INIT(&c->waiting);
	TAILQ_INIT(&c->sent);
	TAILQ_INIT(&c->answered);
	TAILQ_INIT(&c->inbox);
	pthread_mutex_lock(&vol->lock);
	c->next = vol->conns;
	vol->conns = c;
	pthread_mutex_unlock(&vol->lock);
	return c;
}

static void nbdvol_close(void *v)
{
	struct nbdvol *vol = v;
	struct nbdconn *c;

	nbdlink_close(vol);
	while ((c = vol->conns)) {
		vol->conns = c->next;
		nbdconn_free(c);
	}
	free(vol->uri);
	free(vol);
}

/* Without flush the server may have a cache all the same. */
static void nbdvol_declare_durability(struct nbdvol *vol, struct rbp_info *info)
{
	bool is_stable = vol->caps & (RBP_CAN_FLUSH | RBP_CAN_FUA);

	vol->writes_through = !(vol->caps & RBP_CAN_FLUSH) && is_stable;
	/* An older rdma-target does not know it. */
	if (!is_stable && info->size > offsetof(struct rbp_info, durability))
		info->durability = RBP_STABLE_NEVER;
}

static int nbdvol_connect(struct nbdvol *vol, bool may_share,
			  struct rbp_info *info, char *msg, size_t msg_len)
{
	struct nbd_handle *h = nbdlink_connect(vol, msg, msg_len);
	int err;

	if (!h)
		return -ENOTCONN;
	err = nbdvol_size_up(vol, h, info, msg, msg_len);
	if (!err && !nbdvol_add_conn(vol, h))
		err = -ENOMEM;
	if (err) {
		nbd_close(h);
		return err;
	}
	vol->caps = nbdlink_caps(h);
	nbdvol_declare_durability(vol, info);
	vol->multi_conn = may_share && nbd_can_multi_conn(h) == 1;
	info->caps = vol->caps | RBP_LASTING;
	info->unmap_granularity = info->optimal_io;
	return 0;
}

static int nbdvol_open(struct rbp_vol *rbp, const char *location,
		       const struct rbp_arg *args, void **ret_v,
		       struct rbp_info *info, char *msg, size_t msg_len)
{
	struct nbdvol *vol = calloc(1, sizeof(*vol));
	bool may_share = true;
	int err;

	if (!vol)
		return -ENOMEM;
	if (getrandom(&vol->salt, sizeof(vol->salt), 0) !=
	    (ssize_t)sizeof(vol->salt)) {
		free(vol);
		return -EIO;
	}
	vol->vol = rbp;
	TAILQ_INIT(&vol->queues);
	nbdlink_open(vol);
	nbdvol_take_args(vol, args, &may_share, info);
	vol->uri = nbdvol_uri(location);
	err = vol->uri ? nbdvol_connect(vol, may_share, info, msg, msg_len)
		       : -ENOMEM;
	if (err) {
		nbdvol_close(vol);
		return err;
	}
	*ret_v = vol;
	return 0;
}

/* ---- queues ---- */

/* Returns a connection that has lost its home, or NULL. Called with the lock
 * held. */
static struct nbdconn *nbdvol_homeless(const struct nbdvol *vol)
{
	struct nbdconn *c = vol->conns;

	while (c && c->home)
		c = c->next;
	return c;
}

static int nbdqueue_move_in(struct nbdqueue *q)
{
	struct nbdvol *vol = q->vol;
	struct nbdconn *c;
	int err = 0;

	pthread_mutex_lock(&vol->lock);
	c = nbdvol_homeless(vol);
	if (c)
		err = nbdconn_adopt(c, q);
	if (c && !err) {
		c->home = q;
		q->conn = c;
	}
	pthread_mutex_unlock(&vol->lock);
	return err;
}

/* [worker] */
static void nbdqueue_look(void *user)
{
	struct nbdqueue *q = user;

	/* The shared connection has moved here. */
	if (!q->vol->multi_conn && nbdqueue_move_in(q)) {
		nbd_host->log(q->vol->vol, RBP_WARNING,
			      "out of memory; trying again");
		nbd_host->timer_set(q->retry, MEMORY_RETRY_MS);
	}
	if (q->conn)
		nbdconn_woken(q->conn);
}

/* [worker] */
static void nbdqueue_woken(void *user, uint32_t events)
{
	struct nbdqueue *q = user;
	eventfd_t count;

	eventfd_read(q->wake_fd, &count);
	nbdqueue_look(q);
}

/* With multi-conn, each queue has a connection of its own. If it cannot be made
 * now, it is made later. */
static int nbdqueue_ensure_conn(struct nbdvol *vol)
{
	char msg[256];
	struct nbd_handle *h;
	bool have;

	pthread_mutex_lock(&vol->lock);
	have = nbdvol_homeless(vol) || !vol->multi_conn;
	pthread_mutex_unlock(&vol->lock);
	if (have)
		return 0;
	h = nbdlink_connect_again(vol, msg, sizeof(msg));
	if (!h)
		nbd_host->log(vol->vol, RBP_WARNING, "%s; trying again", msg);
	if (nbdvol_add_conn(vol, h))
		return 0;
	if (h)
		nbd_close(h);
	return -ENOMEM;
}

static void nbdqueue_free(struct nbdqueue *q)
{
	if (q->wake)
		nbd_host->watch_del(q->wake);
	if (q->retry)
		nbd_host->timer_del(q->retry);
	if (q->wake_fd >= 0)
		close(q->wake_fd);
	free(q);
}

static int nbdqueue_open(struct nbdqueue *q)
{
	int err = nbdqueue_ensure_conn(q->vol);

	if (err)
		return err;
	q->wake_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (q->wake_fd < 0)
		return -errno;
	q->wake = nbd_host->watch_add(q->queue, q->wake_fd, RBP_READABLE,
				      nbdqueue_woken, q);
	q->retry = nbd_host->timer_add(q->queue, nbdqueue_look, q);
	return q->wake && q->retry ? nbdqueue_move_in(q) : -ENOMEM;
}

static int nbdvol_queue_add(void *v, struct rbp_queue *queue, void **ret)
{
	struct nbdvol *vol = v;
	struct nbdqueue *q = calloc(1, sizeof(*q));
	int err;

	if (!q)
		return -ENOMEM;
	q->vol = vol;
	q->queue = queue;
	q->wake_fd = -1;
	err = nbdqueue_open(q);
	if (err) {
		nbdqueue_free(q);
		return err;
	}
	pthread_mutex_lock(&vol->lock);
	TAILQ_INSERT_TAIL(&vol->queues, q, node);
	pthread_mutex_unlock(&vol->lock);
	nbdqueue_wake(q);
	*ret = q;
	return 0;
}

/* The shared connection moves to another queue. I/O of other queues may be in
 * flight. */
static void nbdvol_queue_del(void *queue_data)
{
	struct nbdqueue *q = queue_data;
	struct nbdvol *vol = q->vol;
	struct nbdqueue *heir;

	pthread_mutex_lock(&vol->lock);
	TAILQ_REMOVE(&vol->queues, q, node);
	heir = TAILQ_FIRST(&vol->queues);
	if (q->conn) {
		nbdconn_release(q->conn);
		q->conn->home = NULL;
	}
	if (q->conn && heir && !vol->multi_conn)
		nbdqueue_wake(heir);
	pthread_mutex_unlock(&vol->lock);
	nbdqueue_free(q);
}

/* ---- I/O ---- */

/* Passes @n to the worker that has the connection. */
static void nbdvol_pass_on(struct nbdvol *vol, struct nbdio *n)
{
	struct nbdconn *c = vol->conns;

	n->conn = c;
	pthread_mutex_lock(&vol->lock);
	TAILQ_INSERT_TAIL(&c->inbox, n, node);
	if (c->home)
		nbdqueue_wake(c->home);
	pthread_mutex_unlock(&vol->lock);
}

static void nbdvol_submit(void *v, struct rbp_io *io)
{
	struct nbdqueue *q = io->queue_data;
	struct nbdio *n = io->scratch;

	*n = (struct nbdio){ .io = io, .conn = q->conn };
	if (q->conn)
		nbdconn_submit(q->conn, n);
	else
		nbdvol_pass_on(v, n);
}

static void nbdvol_kick(void *v, void *queue_data)
{
	struct nbdqueue *q = queue_data;

	if (q->conn)
		nbdconn_kick(q->conn);
}

static int nbdvol_measure(void *v, uint64_t *ret_bytes)
{
	*ret_bytes = atomic_load(&((struct nbdvol *)v)->bytes);
	return 0;
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static const struct rbp_param params[] = {
		{ "wait", RBP_NUMBER, "30",
		  "seconds that I/O waits for a server that is away" },
		{ "timeout", RBP_NUMBER, "60",
		  "seconds that a server may take to answer a request; 0: no "
		  "limit" },
		{ "multi-conn", RBP_BOOL, "on",
		  "a connection for each thread, where the server offers it" },
		{ "trust-server", RBP_BOOL, "off",
		  "the server keeps writes, though it has no flush, or a "
		  "connection was lost" },
		{ "identity", RBP_STRING, NULL,
		  "names the data, for other targets of the same export" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.name = "nbd",
		.version = "1",
		.help = "an export of an NBD server; LOCATION is its URI, "
			"//HOST[:PORT][/EXPORT] or nbd+unix:///EXPORT?socket="
			"PATH",
		.params = params,
		.needs = RBP_NEEDS_NETWORK,
		.scratch_len = sizeof(struct nbdio),
		.open = nbdvol_open,
		.close = nbdvol_close,
		.queue_add = nbdvol_queue_add,
		.queue_del = nbdvol_queue_del,
		.submit = nbdvol_submit,
		.measure = nbdvol_measure,
		.kick = nbdvol_kick,
	};

	if (host->size <
	    offsetof(struct rbp_host, timer_del) + sizeof(host->timer_del)) {
		host->log(NULL, RBP_ERROR,
			  "nbd: this rdma-target is too old for the plugin");
		return NULL;
	}
	nbd_host = host;
	return &plugin;
}
