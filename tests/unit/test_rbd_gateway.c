/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A gateway of an RBD image that has been fenced: what its target answers. The
 * functions of librados, librbd and image.h that it calls are those of this
 * file; they play a cluster with one image.
 */
#include "plugins/rbd/gateway.h"

#include "tests/lib/t_table.h"

#include <errno.h>
#include <semaphore.h>
#include <stdarg.h>
#include <string.h>

#define OWNER "this client"

static struct {
	/* The client of the gateway is on the blocklist. */
	atomic_bool fenced;
	atomic_bool put_done; /* a put is done, although it fails */
	atomic_int reopen_error;
	_Atomic uint64_t version;
	size_t len;
	uint8_t data[RBP_NOTES_MAX];
} cluster;

static struct {
	sem_t done;
	int res;
	uint64_t version; /* of the notes */
} host;

static struct rbdp_gateway gw;
static struct rbdp_image image;

/* ---- the cluster ---- */

static int answer(void)
{
	return cluster.fenced ? -ESHUTDOWN : 0;
}

int rbdp_refuse(const struct rbdp_msg *msg, int err, const char *fmt, ...)
{
	return err;
}

int rbdp_image_header(const struct rbdp_image *img, char *buf, size_t len)
{
	buf[0] = '\0';
	return 0;
}

int rbdp_notes_read(rados_ioctx_t pool, const char *object,
		    struct rbdp_notes *ret)
{
	ret->version = cluster.version;
	ret->len = cluster.len;
	memcpy(ret->data, cluster.data, cluster.len);
	return answer();
}

int rbdp_notes_read_version(rados_ioctx_t pool, const char *object,
			    uint64_t *ret)
{
	*ret = cluster.version;
	return answer();
}

int rbdp_notes_put(rados_ioctx_t pool, const char *object, uint64_t version,
		   const void *data, size_t len)
{
	if (cluster.fenced && !cluster.put_done)
		return -ESHUTDOWN;
	if (version != cluster.version)
		return -ESTALE;
	cluster.version++;
	cluster.len = len;
	memcpy(cluster.data, data, len);
	return answer();
}

size_t rbdp_news_encode(const struct rbdp_news *news, uint8_t *buf)
{
	return 0;
}

bool rbdp_news_decode(const void *buf, size_t len, struct rbdp_news *ret)
{
	return false;
}

uint64_t rados_get_instance_id(rados_t cluster_of_client)
{
	return 1;
}

int rados_write_full(rados_ioctx_t io, const char *oid, const char *buf,
		     size_t len)
{
	return answer();
}

int rados_stat(rados_ioctx_t io, const char *o, uint64_t *psize, time_t *pmtime)
{
	return answer();
}

int rados_watch3(rados_ioctx_t io, const char *o, uint64_t *cookie,
		 rados_watchcb2_t watchcb, rados_watcherrcb_t watcherrcb,
		 uint32_t timeout, void *arg)
{
	return answer();
}

int rados_unwatch2(rados_ioctx_t io, uint64_t cookie)
{
	return answer();
}

int rados_watch_flush(rados_t cluster_of_watch)
{
	return answer();
}

int rados_notify2(rados_ioctx_t io, const char *o, const char *buf, int buf_len,
		  uint64_t timeout_ms, char **reply_buffer,
		  size_t *reply_buffer_len)
{
	return answer();
}

int rados_notify_ack(rados_ioctx_t io, const char *o, uint64_t notify_id,
		     uint64_t cookie, const char *buf, int buf_len)
{
	return answer();
}

int rados_decode_notify_response(char *reply_buffer, size_t reply_buffer_len,
				 struct notify_ack_t **acks, size_t *nr_acks,
				 struct notify_timeout_t **timeouts,
				 size_t *nr_timeouts)
{
	return -EINVAL;
}

void rados_free_notify_response(struct notify_ack_t *acks, size_t nr_acks,
				struct notify_timeout_t *timeouts)
{
}

void rados_buffer_free(char *buf)
{
}

int rbd_get_features(rbd_image_t img, uint64_t *features)
{
	*features = RBD_FEATURE_EXCLUSIVE_LOCK;
	return answer();
}

int rbd_get_id(rbd_image_t img, char *id, size_t id_len)
{
	id[0] = '\0';
	return answer();
}

int rbd_is_exclusive_lock_owner(rbd_image_t img, int *is_owner)
{
	*is_owner = *gw.owner != '\0';
	return answer();
}

int rbd_lock_acquire(rbd_image_t img, rbd_lock_mode_t lock_mode)
{
	return answer();
}

int rbd_lock_release(rbd_image_t img)
{
	return answer();
}

int rbd_lock_break(rbd_image_t img, rbd_lock_mode_t lock_mode,
		   const char *lock_owner)
{
	return answer();
}

int rbd_lock_get_owners(rbd_image_t img, rbd_lock_mode_t *lock_mode,
			char **lock_owners, size_t *max_lock_owners)
{
	lock_owners[0] = (char *)OWNER;
	*max_lock_owners = 1;
	return answer();
}

void rbd_lock_get_owners_cleanup(char **lock_owners, size_t lock_owner_count)
{
}

/* For rbdp_gateway.reopen. */
static int reopen(void *user, const struct rbdp_msg *msg)
{
	if (!cluster.reopen_error)
		cluster.fenced = false;
	return cluster.reopen_error;
}

/* ---- the host ---- */

static void host_done(struct rbp_io *io, int res)
{
	host.res = res;
	sem_post(&host.done);
}

static void host_log(struct rbp_vol *vol, enum rbp_log_level level,
		     const char *fmt, ...)
{
}

static void host_path_changed(struct rbp_vol *vol)
{
}

static int host_notes(struct rbp_vol *vol, uint64_t version, const void *data,
		      size_t len)
{
	host.version = version;
	return 0;
}

/* ---- tests ---- */

/* Begins as the active one, with notes of version 1. */
static void start(void)
{
	static const struct rbp_host functions = {
		.size = sizeof(functions),
		.done = host_done,
		.log = host_log,
		.path_changed = host_path_changed,
		.notes = host_notes,
	};
	const struct rbdp_msg msg = { NULL, 0 };

	memset(&cluster, 0, sizeof(cluster));
	memset(&gw, 0, sizeof(gw));
	cluster.version = 1;
	sem_init(&host.done, 0, 0);
	gw.host = &functions;
	gw.img = &image;
	gw.reopen = reopen;
	gw.own = 1;
	gw.cnt = 2;
	assert_int_equal(rbdp_gateway_start(&gw, /* active= */ true, &msg), 0);
	assert_int_equal(gw.state, RBDP_ACTIVE);
}

static void stop(void)
{
	rbdp_gateway_stop(&gw);
	pthread_cond_destroy(&gw.work);
	pthread_mutex_destroy(&gw.lock);
	sem_destroy(&host.done);
}

/* Another gateway has taken over. The thread of this one may have noticed it, or
 * not: the answers are the same. */
static void be_fenced(void)
{
	cluster.fenced = true;
}

static int ask(void (*how)(struct rbdp_gateway *, struct rbp_io *),
	       uint64_t version)
{
	struct rbdp_ask scratch;
	struct rbp_io io = {
		.scratch = &scratch,
		.version = version,
		.offset = 1, /* for rbdp_gateway_set() */
		.buf = (void *)"new",
		.len = 3,
	};

	how(&gw, &io);
	while (sem_wait(&host.done))
		;
	return host.res;
}

static void fenced_gateway_reports_the_notes_as_a_standby(void **state)
{
	start();
	be_fenced();
	cluster.version = 7;
	assert_int_equal(ask(rbdp_gateway_get_notes, 0), 0);
	assert_int_equal(host.version, 7);
	assert_int_equal(gw.state, RBDP_STANDBY);
	stop();
}

static void fenced_gateway_without_an_image_sends_initiators_away(void **state)
{
	start();
	cluster.reopen_error = -ENOENT;
	be_fenced();
	assert_int_equal(ask(rbdp_gateway_get_notes, 0), -ESHUTDOWN);
	assert_int_equal(ask(rbdp_gateway_put_notes, 1), -ESHUTDOWN);
	assert_int_equal(ask(rbdp_gateway_set, 0), -ESHUTDOWN);
	assert_int_equal(gw.state, RBDP_FENCED);
	cluster.reopen_error = 0;
	assert_int_equal(ask(rbdp_gateway_get_notes, 0), 0);
	stop();
}

static void fenced_gateway_puts_notes_as_a_standby(void **state)
{
	start();
	be_fenced();
	assert_int_equal(ask(rbdp_gateway_put_notes, 1), 0);
	assert_int_equal(cluster.version, 2);
	assert_int_equal(host.version, 2);
	stop();
}

static void notes_of_another_are_not_replaced(void **state)
{
	start();
	be_fenced();
	cluster.version = 2;
	assert_int_equal(ask(rbdp_gateway_put_notes, 1), -ESTALE);
	assert_int_equal(cluster.version, 2);
	stop();
}

/* The OSD has put them, but its answer did not arrive before the fence. */
static void notes_that_are_put_count_once(void **state)
{
	start();
	cluster.put_done = true;
	be_fenced();
	assert_int_equal(ask(rbdp_gateway_put_notes, 1), 0);
	assert_int_equal(cluster.version, 2);
	assert_int_equal(host.version, 2);
	stop();
}

static void fenced_gateway_becomes_active_again(void **state)
{
	start();
	be_fenced();
	assert_int_equal(ask(rbdp_gateway_set, 0), 0);
	assert_int_equal(gw.state, RBDP_ACTIVE);
	stop();
}

int main(void)
{
	static struct t_table t;

	T_ADD(&t, fenced_gateway_reports_the_notes_as_a_standby);
	T_ADD(&t, fenced_gateway_without_an_image_sends_initiators_away);
	T_ADD(&t, fenced_gateway_puts_notes_as_a_standby);
	T_ADD(&t, notes_of_another_are_not_replaced);
	T_ADD(&t, notes_that_are_put_count_once);
	T_ADD(&t, fenced_gateway_becomes_active_again);
	return t_run(&t);
}
