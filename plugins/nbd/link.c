/* SPDX-License-Identifier: BSD-2-Clause */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <time.h>

#include "volume.h"

/* Limit for one attempt, without the name lookup before it. */
#define ATTEMPT_MS 10000
/* The pause between two attempts grows from the first to the last value. */
#define PAUSE_FIRST_MS 50
#define PAUSE_LAST_MS  2000
/* If a connection is lost sooner, the next one is made after a pause. */
#define STEADY_MS 1000
/* Limits of the protocol, if the server states none. Bytes. */
#define BLOCK_DEFAULT 512u
#define PIECE_DEFAULT (32u << 20)
/* How often a wait checks whether it should stop. */
#define LOOK_MS 100

uint64_t nbdlink_now_ms(void)
{
	struct timespec ts;

	clock_gettime(CLOCK_MONOTONIC, &ts);
	return (uint64_t)ts.tv_sec * 1000 + (uint64_t)ts.tv_nsec / 1000000;
}

static bool link_is_stopping(struct nbdvol *vol)
{
	bool stopping;

	pthread_mutex_lock(&vol->lock);
	stopping = vol->stopping;
	pthread_mutex_unlock(&vol->lock);
	return stopping;
}

/* ---- one attempt ---- */

/* What to try, by a part of libnbd's text. */
static const struct {
	const char *part, *hint;
} link_hints[] = {
	{ "no export named", "; nbdinfo --list shows its exports" },
	{ "requires TLS", "; write nbd:nbds://... for TLS" },
	{ "connect: ", "; is the NBD server running?" },
	{ "NBD magic", "; is that an NBD server?" },
};

static const char *link_hint(const char *text)
{
	for (size_t i = 0; i < sizeof(link_hints) / sizeof(link_hints[0]); i++)
		if (strstr(text, link_hints[i].part))
			return link_hints[i].hint;
	return "";
}

/* libnbd begins with the name of its function, which tells a user nothing. */
static void link_explain(char *msg, size_t msg_len)
{
	const char *text = nbd_get_error();
	const char *end = text ? strstr(text, ": ") : NULL;

	if (end && !strncmp(text, "nbd_", 4))
		text = end + 2;
	if (!text)
		text = "no reason";
	snprintf(msg, msg_len, "cannot connect: %s%s", text, link_hint(text));
}

/* A server whose machine is gone does not answer. With keep-alive, the kernel
 * gives up after half a minute. */
static void link_keep_alive(struct nbd_handle *h)
{
	int fd = nbd_aio_get_fd(h);
	int on = 1;
	int idle_s = 10;
	int interval_s = 5;
	unsigned int timeout_ms = 30000;

	setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof(on));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle_s, sizeof(idle_s));
	setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &interval_s,
		   sizeof(interval_s));
	setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &timeout_ms,
		   sizeof(timeout_ms));
}

static struct nbd_handle *link_make(void)
{
	struct nbd_handle *h = nbd_create();

	if (!h)
		return NULL;
#ifdef LIBNBD_HAVE_NBD_SET_REQUEST_EXTENDED_HEADERS
	nbd_set_request_extended_headers(h, false); /* wire.c has none */
#endif
	/* The data of a failed read is not used. */
	if (nbd_add_meta_context(h, LIBNBD_CONTEXT_BASE_ALLOCATION) ||
	    nbd_set_pread_initialize(h, false) ||
	    nbd_set_uri_allow_local_file(h, true)) {
		nbd_close(h);
		return NULL;
	}
	return h;
}

static bool link_negotiate(struct nbdvol *vol, struct nbd_handle *h, char *msg,
			   size_t msg_len)
{
	uint64_t until = nbdlink_now_ms() + ATTEMPT_MS;

	if (nbd_aio_connect_uri(h, vol->uri)) {
		link_explain(msg, msg_len);
		return false;
	}
	while (nbd_aio_is_connecting(h) == 1) {
		if (nbdlink_now_ms() > until || link_is_stopping(vol)) {
			snprintf(msg, msg_len,
				 "cannot connect: the server does not answer "
				 "within %d seconds",
				 ATTEMPT_MS / 1000);
			return false;
		}
		if (nbd_poll(h, LOOK_MS) < 0)
			break;
	}
	if (nbd_aio_is_ready(h) == 1)
		return true;
	link_explain(msg, msg_len);
	return false;
}

struct nbd_handle *nbdlink_connect(struct nbdvol *vol, char *msg,
				   size_t msg_len)
{
	struct nbd_handle *h = link_make();

	if (!h) {
		link_explain(msg, msg_len);
		return NULL;
	}
	if (!link_negotiate(vol, h, msg, msg_len)) {
		nbd_close(h);
		return NULL;
	}
	link_keep_alive(h);
	return h;
}

/* ---- capabilities of a server ---- */

uint32_t nbdlink_caps(struct nbd_handle *h)
{
	uint32_t caps = 0;

	if (nbd_can_meta_context(h, LIBNBD_CONTEXT_BASE_ALLOCATION) == 1)
		caps |= RBP_CAN_EXTENT;
	if (nbd_can_flush(h) == 1)
		caps |= RBP_CAN_FLUSH | RBP_WRITE_CACHE;
	if (nbd_is_rotational(h) == 1)
		caps |= RBP_ROTATIONAL;
	if (nbd_is_read_only(h) == 1)
		return caps;
	caps |= RBP_CAN_WRITE;
	if (nbd_can_fua(h) == 1)
		caps |= RBP_CAN_FUA;
	if (nbd_can_trim(h) == 1)
		caps |= RBP_CAN_UNMAP;
	if (nbd_can_zero(h) == 1)
		caps |= RBP_CAN_ZERO;
	return caps;
}

uint64_t nbdlink_min(struct nbd_handle *h)
{
	int64_t min = nbd_get_block_size(h, LIBNBD_SIZE_MINIMUM);

	return min > 0 ? (uint64_t)min : BLOCK_DEFAULT;
}

uint64_t nbdlink_max(struct nbd_handle *h)
{
	int64_t max = nbd_get_block_size(h, LIBNBD_SIZE_MAXIMUM);

	return max > 0 && max < PIECE_DEFAULT ? (uint64_t)max : PIECE_DEFAULT;
}

/* Requests that wait, or that are cut by the old limits, must fit the new ones. */
static bool link_has_limits(const struct nbdvol *vol, struct nbd_handle *h,
			    char *msg, size_t msg_len)
{
	const char *which = "";
	uint64_t limit = 0;

	if (nbdlink_min(h) > vol->block_size) {
		which = "smaller";
		limit = nbdlink_min(h);
	} else if (nbdlink_max(h) < vol->max_piece) {
		which = "larger";
		limit = nbdlink_max(h);
	}
	if (limit)
		snprintf(msg, msg_len,
			 "the server now takes no I/O %s than %llu bytes: "
			 "restart rdma-target to accept that",
			 which, (unsigned long long)limit);
	return !limit;
}

/* A server that comes back must support all that was promised to initiators. */
static bool link_is_same(struct nbdvol *vol, struct nbd_handle *h, char *msg,
			 size_t msg_len)
{
	const uint32_t hints = RBP_ROTATIONAL;
	int64_t size = nbd_get_size(h);
	uint64_t bytes = atomic_load(&vol->bytes);

	if (size < 0 || (uint64_t)size < bytes) {
		snprintf(
			msg, msg_len,
			"the export is smaller than it was (%lld bytes instead "
			"of %llu): another disk?",
			(long long)size, (unsigned long long)bytes);
		return false;
	}
	if (vol->caps & ~nbdlink_caps(h) & ~hints) {
		snprintf(msg, msg_len,
			 "the export can do less than before (flags 0x%x, "
			 "before 0x%x): restart rdma-target to accept that",
			 nbdlink_caps(h), vol->caps);
		return false;
	}
	if (vol->multi_conn && nbd_can_multi_conn(h) != 1) {
		snprintf(msg, msg_len,
			 "the export no longer offers multi-conn: restart "
			 "rdma-target to accept that");
		return false;
	}
	return link_has_limits(vol, h, msg, msg_len);
}

static void link_measure(struct nbdvol *vol, struct nbd_handle *h)
{
	uint64_t bytes =
		(uint64_t)nbd_get_size(h) / vol->block_size * vol->block_size;

	if (bytes == atomic_load(&vol->bytes))
		return;
	atomic_store(&vol->bytes, bytes);
	nbd_host->resized(vol->vol);
}

struct nbd_handle *nbdlink_connect_again(struct nbdvol *vol, char *msg,
					 size_t msg_len)
{
	struct nbd_handle *h = nbdlink_connect(vol, msg, msg_len);

	if (h && !link_is_same(vol, h, msg, msg_len)) {
		nbd_close(h);
		h = NULL;
	}
	if (!h)
		return NULL;
	nbdvol_begin_life(vol);
	link_measure(vol, h);
	return h;
}

/* ---- the thread ---- */

void nbdqueue_wake(const struct nbdqueue *q)
{
	eventfd_write(q->wake_fd, 1);
}

/* Returns a connection that is wanted and not made yet, or NULL. Called with the
 * lock held. */
static struct nbdconn *link_wanted(const struct nbdvol *vol)
{
	struct nbdconn *c = vol->conns;

	while (c && (!c->wants_link || c->made))
		c = c->next;
	return c;
}

static struct nbdconn *link_next(struct nbdvol *vol)
{
	struct nbdconn *c;

	pthread_mutex_lock(&vol->lock);
	c = link_wanted(vol);
	pthread_mutex_unlock(&vol->lock);
	return c;
}

/* Logs the reason once, and again only if it changes. */
static bool link_try(struct nbdvol *vol, struct nbdconn *c, char *said,
		     size_t said_len)
{
	char msg[256] = "";

	c->made = nbdlink_connect_again(vol, msg, sizeof(msg));
	if (c->made) {
		*said = '\0';
		return true;
	}
	pthread_mutex_lock(&vol->lock);
	snprintf(vol->why, sizeof(vol->why), "%s", msg);
	pthread_mutex_unlock(&vol->lock);
	if (strcmp(msg, said) != 0 && !link_is_stopping(vol))
		nbd_host->log(vol->vol, RBP_WARNING, "%s; trying again", msg);
	snprintf(said, said_len, "%s", msg);
	return false;
}

/* Called with the lock held. */
static void link_give(struct nbdconn *c)
{
	c->linked_ms = nbdlink_now_ms();
	c->wants_link = false;
	c->fresh = c->made;
	c->made = NULL;
	if (c->home)
		nbdqueue_wake(c->home);
}

/* Connections that were lost together are used together: a write on the first of
 * them would be in doubt when the second one is made. */
static void link_give_all(struct nbdvol *vol)
{
	pthread_mutex_lock(&vol->lock);
	for (struct nbdconn *c = vol->conns; c; c = c->next) {
		if (c->made)
			link_give(c);
	}
	pthread_mutex_unlock(&vol->lock);
}

/* False: an attempt has failed. */
static bool link_try_all(struct nbdvol *vol, char *said, size_t said_len)
{
	bool is_made = true;
	struct nbdconn *c;

	while (is_made && (c = link_next(vol)))
		is_made = link_try(vol, c, said, said_len);
	link_give_all(vol);
	return is_made;
}

/* The last pause is so short that I/O does not time out after a few of them. */
static uint64_t link_pause_max(const struct nbdvol *vol)
{
	return vol->wait_ms / 4 < PAUSE_LAST_MS ? vol->wait_ms / 4
						: PAUSE_LAST_MS;
}

/* Makes the next pause longer. */
static void link_pause(struct nbdvol *vol, unsigned int *pause_ms)
{
	unsigned int ms = *pause_ms;
	struct timespec until;

	if (*pause_ms < link_pause_max(vol))
		*pause_ms *= 2;
	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_nsec += (long)(ms % 1000) * 1000000;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	pthread_mutex_lock(&vol->lock);
	if (!vol->stopping)
		pthread_cond_timedwait(&vol->work, &vol->lock, &until);
	pthread_mutex_unlock(&vol->lock);
}

/* True for a server that dies of a request, or accepts and closes: the next
 * attempt comes after a pause. */
static bool link_was_short(const struct nbdconn *c)
{
	return c->linked_ms && nbdlink_now_ms() - c->linked_ms < STEADY_MS;
}

static void *link_main(void *arg)
{
	struct nbdvol *vol = arg;
	unsigned int pause_ms = PAUSE_FIRST_MS;
	char said[256] = "";
	struct nbdconn *c;
	bool was_short;

	for (;;) {
		pthread_mutex_lock(&vol->lock);
		while (!(c = link_wanted(vol)) && !vol->stopping)
			pthread_cond_wait(&vol->work, &vol->lock);
		pthread_mutex_unlock(&vol->lock);
		if (!c || link_is_stopping(vol))
			return NULL;
		was_short = link_was_short(c);
		if (was_short)
			link_pause(vol, &pause_ms);
		if (!link_try_all(vol, said, sizeof(said)))
			link_pause(vol, &pause_ms);
		else if (!was_short)
			pause_ms = PAUSE_FIRST_MS;
	}
}

int nbdlink_ask(struct nbdconn *c)
{
	struct nbdvol *vol = c->vol;
	int err = 0;

	pthread_mutex_lock(&vol->lock);
	c->wants_link = true;
	if (!vol->has_thread)
		err = pthread_create(&vol->thread, NULL, link_main, vol);
	vol->has_thread = !err;
	pthread_cond_signal(&vol->work);
	pthread_mutex_unlock(&vol->lock);
	return -err;
}

void nbdlink_open(struct nbdvol *vol)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&vol->work, &attr);
	pthread_condattr_destroy(&attr);
	pthread_mutex_init(&vol->lock, NULL);
}

void nbdlink_close(struct nbdvol *vol)
{
	pthread_mutex_lock(&vol->lock);
	vol->stopping = true;
	pthread_cond_signal(&vol->work);
	pthread_mutex_unlock(&vol->lock);
	if (vol->has_thread)
		pthread_join(vol->thread, NULL);
	pthread_cond_destroy(&vol->work);
	pthread_mutex_destroy(&vol->lock);
}
