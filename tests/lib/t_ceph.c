/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_ceph.h"

#include "tests/lib/t_must.h"

#include <errno.h>
#include <stdarg.h>
#include <string.h>

struct t_ceph t_ceph;

void t_ceph_begin(void)
{
	memset(&t_ceph, 0, sizeof(t_ceph));
	t_ceph.err = -EIO;
	t_ceph.id = "";
	sem_init(&t_ceph.acked, 0, 0);
}

static int answer(const char *function)
{
	const char *failing = t_ceph.failing;

	if (failing && !strcmp(failing, function))
		return t_ceph.err;
	return t_ceph.fenced ? -ESHUTDOWN : 0;
}

__attribute__((format(printf, 1, 2))) static void write_down(const char *fmt,
							     ...)
{
	size_t len = strlen(t_ceph.log);
	va_list args;

	va_start(args, fmt);
	vsnprintf(t_ceph.log + len, T_CEPH_LOG_LEN - len, fmt, args);
	va_end(args);
}

/* Opens something that must be closed. */
static int open_one(const char *function, void **ret)
{
	int err = answer(function);

	if (err)
		return err;
	t_ceph.opened++;
	*ret = &t_ceph;
	return 0;
}

/* ---- librados: clients and pools ---- */

int rados_create2(rados_t *ret, const char *name_of_cluster, const char *name,
		  uint64_t flags)
{
	write_down("%s\n", name);
	return open_one("rados_create2", ret);
}

void rados_shutdown(rados_t c)
{
	t_ceph.opened--;
}

int rados_conf_read_file(rados_t c, const char *path)
{
	return answer("rados_conf_read_file");
}

int rados_conf_set(rados_t c, const char *option, const char *value)
{
	write_down("%s=%s\n", option, value);
	return answer(option);
}

int rados_connect(rados_t c)
{
	return answer("rados_connect");
}

int rados_cluster_fsid(rados_t c, char *buf, size_t len)
{
	snprintf(buf, len, "fsid");
	return answer("rados_cluster_fsid");
}

int rados_ioctx_create(rados_t c, const char *pool_name, rados_ioctx_t *ret)
{
	return open_one("rados_ioctx_create", ret);
}

void rados_ioctx_destroy(rados_ioctx_t io)
{
	t_ceph.opened--;
}

void rados_ioctx_set_namespace(rados_ioctx_t io, const char *nspace)
{
	write_down("namespace %s\n", nspace);
}

int64_t rados_ioctx_get_id(rados_ioctx_t io)
{
	return 7;
}

int rados_blocklist_add(rados_t cluster, char *client_address,
			uint32_t expire_seconds)
{
	int err = answer("rados_blocklist_add");

	T_MUST(!strcmp(client_address, T_CEPH_OWNER));
	if (!err)
		t_ceph.fence_s = expire_seconds;
	return err;
}

int rados_getaddrs(rados_t cluster, char **addrs)
{
	int err = answer("rados_getaddrs");

	if (!err)
		*addrs = strdup(T_CEPH_OWNER);
	return err;
}

int rados_wait_for_latest_osdmap(rados_t cluster)
{
	return answer("rados_wait_for_latest_osdmap");
}

uint64_t rados_get_instance_id(rados_t c)
{
	return 1;
}

/* ---- librados: objects ---- */

int rados_write_full(rados_ioctx_t io, const char *oid, const char *buf,
		     size_t len)
{
	return answer("rados_write_full");
}

int rados_stat(rados_ioctx_t io, const char *o, uint64_t *psize, time_t *pmtime)
{
	return t_ceph.is_silent ? -ETIMEDOUT : answer("rados_stat");
}

rados_read_op_t rados_create_read_op(void)
{
	t_ceph.opened++;
	return &t_ceph;
}

void rados_release_read_op(rados_read_op_t op)
{
	t_ceph.opened--;
}

void rados_read_op_omap_get_vals_by_keys2(rados_read_op_t op,
					  char const *const *keys,
					  size_t num_keys,
					  const size_t *key_lens,
					  rados_omap_iter_t *iter, int *prval)
{
	write_down("get %zu\n", num_keys);
	t_ceph.opened++;
	t_ceph.next_pair = 0;
	*iter = &t_ceph;
	*prval = answer("rados_read_op_omap_get_vals_by_keys2");
}

int rados_read_op_operate(rados_read_op_t op, rados_ioctx_t io, const char *oid,
			  int flags)
{
	write_down("%s\n", oid);
	return answer("rados_read_op_operate");
}

int rados_omap_get_next2(rados_omap_iter_t iter, char **key, char **val,
			 size_t *key_len, size_t *val_len)
{
	const struct t_ceph_pair *p = &t_ceph.pairs[t_ceph.next_pair];

	*key = NULL;
	*val = NULL;
	if (t_ceph.next_pair == 2 || !p->key)
		return 0;
	t_ceph.next_pair++;
	*key = (char *)(uintptr_t)p->key;
	*val = (char *)(uintptr_t)p->val;
	*key_len = strlen(p->key);
	*val_len = p->len ? p->len : strlen(p->val);
	return 0;
}

void rados_omap_get_end(rados_omap_iter_t iter)
{
	t_ceph.opened--;
}

rados_write_op_t rados_create_write_op(void)
{
	t_ceph.opened++;
	return &t_ceph;
}

void rados_release_write_op(rados_write_op_t op)
{
	t_ceph.opened--;
}

void rados_write_op_assert_exists(rados_write_op_t op)
{
	write_down("exists\n");
}

void rados_write_op_omap_cmp2(rados_write_op_t op, const char *key,
			      uint8_t comparison_operator, const char *val,
			      size_t key_len, size_t val_len, int *prval)
{
	T_MUST(comparison_operator == LIBRADOS_CMPXATTR_OP_EQ);
	write_down("%.*s == '%.*s'\n", (int)key_len, key, (int)val_len, val);
}

void rados_write_op_omap_set2(rados_write_op_t op, char const *const *keys,
			      char const *const *vals, const size_t *key_lens,
			      const size_t *val_lens, size_t num)
{
	for (size_t i = 0; i < num; i++)
		write_down("%.*s = '%.*s'\n", (int)key_lens[i], keys[i],
			   (int)val_lens[i], vals[i]);
}

int rados_write_op_operate2(rados_write_op_t op, rados_ioctx_t io,
			    const char *oid, struct timespec *mtime, int flags)
{
	return answer("rados_write_op_operate2");
}

/* ---- librados: requests that do not wait ---- */

struct completion {
	rbd_callback_t cb;
	void *arg;
	ssize_t res;
};

int rados_aio_create_completion2(void *cb_arg, rados_callback_t cb_complete,
				 rados_completion_t *pc)
{
	return rbd_aio_create_completion(cb_arg, cb_complete, pc);
}

void rados_aio_release(rados_completion_t c)
{
	rbd_aio_release(c);
}

int rados_aio_get_return_value(rados_completion_t c)
{
	return (int)((struct completion *)c)->res;
}

int rados_aio_stat(rados_ioctx_t io, const char *o,
		   rados_completion_t completion, uint64_t *psize,
		   time_t *pmtime)
{
	int err = answer("rados_aio_stat");

	if (err)
		return err;
	write_down("stat %s\n", o);
	t_ceph.asked = completion;
	if (!t_ceph.is_slow)
		t_ceph_answer();
	return 0;
}

void t_ceph_answer(void)
{
	struct completion *done = t_ceph.asked;

	t_ceph.asked = NULL;
	done->res = answer("stat");
	done->cb(done, done->arg);
}

/* ---- librados: watches and notifications ---- */

int rados_watch3(rados_ioctx_t io, const char *o, uint64_t *cookie,
		 rados_watchcb2_t watchcb, rados_watcherrcb_t watcherrcb,
		 uint32_t timeout, void *arg)
{
	t_ceph.heard = watchcb;
	t_ceph.watch_failed = watcherrcb;
	t_ceph.heard_user = arg;
	t_ceph.watches++;
	return answer("rados_watch3");
}

int rados_unwatch2(rados_ioctx_t io, uint64_t cookie)
{
	return answer("rados_unwatch2");
}

int rados_watch_flush(rados_t c)
{
	if (t_ceph.last_message)
		t_ceph.heard(t_ceph.heard_user, 5, 6, /* notifier= */ 99,
			     (void *)(uintptr_t)t_ceph.last_message,
			     strlen(t_ceph.last_message));
	return answer("rados_watch_flush");
}

int rados_notify2(rados_ioctx_t io, const char *o, const char *buf, int buf_len,
		  uint64_t timeout_ms, char **reply_buffer,
		  size_t *reply_buffer_len)
{
	static char reply[1];

	*reply_buffer = reply;
	return answer("rados_notify2");
}

int rados_notify_ack(rados_ioctx_t io, const char *o, uint64_t notify_id,
		     uint64_t cookie, const char *buf, int buf_len)
{
	snprintf(t_ceph.ack, sizeof(t_ceph.ack), "%.*s", buf_len,
		 buf ? buf : "");
	t_ceph.ack_cnt++;
	sem_post(&t_ceph.acked);
	return answer("rados_notify_ack");
}

int rados_decode_notify_response(char *reply_buffer, size_t reply_buffer_len,
				 struct notify_ack_t **acks, size_t *nr_acks,
				 struct notify_timeout_t **timeouts,
				 size_t *nr_timeouts)
{
	static char owner[] = T_CEPH_OWNER;
	static struct notify_ack_t ack = { .payload = owner,
					   .payload_len = sizeof(owner) - 1 };

	if (t_ceph.is_deaf)
		return -EINVAL;
	*acks = &ack;
	*nr_acks = 1;
	*timeouts = NULL;
	*nr_timeouts = 0;
	return 0;
}

void rados_free_notify_response(struct notify_ack_t *acks, size_t nr_acks,
				struct notify_timeout_t *timeouts)
{
}

void rados_buffer_free(char *buf)
{
}

/* ---- librbd: images ---- */

int rbd_open(rados_ioctx_t io, const char *name, rbd_image_t *image,
	     const char *snap_name)
{
	write_down("image %s@%s\n", name, snap_name ? snap_name : "");
	return open_one("rbd_open", image);
}

int rbd_open_read_only(rados_ioctx_t io, const char *name, rbd_image_t *image,
		       const char *snap_name)
{
	write_down("read-only image %s@%s\n", name, snap_name ? snap_name : "");
	return open_one("rbd_open", image);
}

int rbd_close(rbd_image_t image)
{
	t_ceph.opened--;
	return 0;
}

int rbd_update_watch(rbd_image_t image, uint64_t *handle,
		     rbd_update_callback_t watch_cb, void *arg)
{
	int err = answer("rbd_update_watch");

	if (err)
		return err;
	t_ceph.opened++;
	t_ceph.changed = watch_cb;
	t_ceph.changed_user = arg;
	return 0;
}

int rbd_update_unwatch(rbd_image_t image, uint64_t handle)
{
	t_ceph.opened--;
	return 0;
}

int rbd_get_id(rbd_image_t image, char *id, size_t id_len)
{
	snprintf(id, id_len, "%s", t_ceph.id);
	return answer("rbd_get_id");
}

int rbd_snap_get_id(rbd_image_t image, const char *snapname, uint64_t *snap_id)
{
	*snap_id = 4;
	return answer("rbd_snap_get_id");
}

int rbd_get_size(rbd_image_t image, uint64_t *size)
{
	*size = t_ceph.size;
	return answer("rbd_get_size");
}

int rbd_get_stripe_unit(rbd_image_t image, uint64_t *stripe_unit)
{
	*stripe_unit = T_CEPH_OBJECT_LEN;
	return answer("rbd_get_stripe_unit");
}

int rbd_get_overlap(rbd_image_t image, uint64_t *overlap)
{
	*overlap = t_ceph.parent_bytes;
	return answer("rbd_get_overlap");
}

int rbd_config_image_list(rbd_image_t image, rbd_config_option_t *options,
			  int *max_options)
{
	const char *const list[][2] = {
		{ "rbd_cache_size", "1" },
		{ "rbd_cache", t_ceph.has_cache ? "true" : "false" },
		{ "rbd_persistent_cache_mode",
		  t_ceph.has_log ? "ssd" : "disabled" },
		{ "rbd_blocklist_on_break_lock",
		  t_ceph.has_no_fence ? "false" : "true" },
	};
	int err = answer("rbd_config_image_list");

	*max_options = sizeof(list) / sizeof(list[0]);
	if (err)
		return err;
	if (!options)
		return -ERANGE;
	t_ceph.opened++;
	for (int i = 0; i < *max_options; i++) {
		options[i].name = (char *)(uintptr_t)list[i][0];
		options[i].value = (char *)(uintptr_t)list[i][1];
	}
	return 0;
}

void rbd_config_image_list_cleanup(rbd_config_option_t *options,
				   int max_options)
{
	t_ceph.opened--;
}

int rbd_get_features(rbd_image_t img, uint64_t *features)
{
	*features = RBD_FEATURE_EXCLUSIVE_LOCK;
	return answer("rbd_get_features");
}

/* ---- librbd: the lock ---- */

int rbd_is_exclusive_lock_owner(rbd_image_t img, int *is_owner)
{
	*is_owner = t_ceph.is_locked && !t_ceph.lost;
	return answer("rbd_is_exclusive_lock_owner");
}

int rbd_lock_acquire(rbd_image_t img, rbd_lock_mode_t lock_mode)
{
	int err = answer("rbd_lock_acquire");

	if (!err)
		t_ceph.is_locked = true;
	return err;
}

int rbd_lock_release(rbd_image_t img)
{
	t_ceph.is_locked = false;
	t_ceph.released_cnt++;
	return answer("rbd_lock_release");
}

int rbd_lock_break(rbd_image_t img, rbd_lock_mode_t lock_mode,
		   const char *lock_owner)
{
	t_ceph.broken_cnt++;
	return answer("rbd_lock_break");
}

int rbd_lock_get_owners(rbd_image_t img, rbd_lock_mode_t *lock_mode,
			char **lock_owners, size_t *max_lock_owners)
{
	lock_owners[0] = (char *)T_CEPH_OWNER;
	*max_lock_owners = 1;
	return answer("rbd_lock_get_owners");
}

void rbd_lock_get_owners_cleanup(char **lock_owners, size_t lock_owner_count)
{
}

/* ---- librbd: I/O ---- */

/* The pieces end with one of length 0. */
int rbd_diff_iterate2(rbd_image_t image, const char *fromsnapname, uint64_t ofs,
		      uint64_t len, uint8_t include_parent,
		      uint8_t whole_object,
		      int (*cb)(uint64_t, size_t, int, void *), void *arg)
{
	const struct t_ceph_piece *p =
		whole_object ? t_ceph.by_object : t_ceph.by_byte;
	int res = answer("rbd_diff_iterate2");

	for (; !res && p->len; p++)
		res = cb(p->offset, p->len, p->exists, arg);
	return res;
}

int rbd_aio_create_completion(void *cb_arg, rbd_callback_t complete_cb,
			      rbd_completion_t *c)
{
	int err = answer("rbd_aio_create_completion");
	struct completion *done = err ? NULL : malloc(sizeof(*done));

	if (err)
		return err;
	*done = (struct completion){ complete_cb, cb_arg, 0 };
	t_ceph.opened++;
	*c = done;
	return 0;
}

void rbd_aio_release(rbd_completion_t c)
{
	t_ceph.opened--;
	free(c);
}

ssize_t rbd_aio_get_return_value(rbd_completion_t c)
{
	return ((struct completion *)c)->res;
}

/* Ends an operation, which returns @res or the error that a test wants. */
static int complete(rbd_completion_t c, ssize_t res)
{
	struct completion *done = c;
	int err = answer("begin");

	if (err)
		return err;
	err = answer("answer");
	done->res = err ? err : res;
	done->cb(c, done->arg);
	return 0;
}

int rbd_aio_read(rbd_image_t image, uint64_t off, size_t len, char *buf,
		 rbd_completion_t c)
{
	ssize_t got = off + len <= t_ceph.size ? (ssize_t)len
					       : (ssize_t)(t_ceph.size - off);
	const struct t_ceph_piece *hole = t_ceph.zeroes;

	write_down("read %zu@%llu\n", len, (unsigned long long)off);
	memset(buf, 'r', (size_t)got);
	for (; hole && hole->len; hole++)
		memset(buf + hole->offset - off, 0, hole->len);
	return complete(c, got);
}

int rbd_aio_write(rbd_image_t image, uint64_t off, size_t len, const char *buf,
		  rbd_completion_t c)
{
	write_down("write %zu@%llu\n", len, (unsigned long long)off);
	return complete(c, 0);
}

int rbd_aio_flush(rbd_image_t image, rbd_completion_t c)
{
	write_down("flush\n");
	return complete(c, 0);
}

int rbd_aio_write_zeroes(rbd_image_t image, uint64_t off, size_t len,
			 rbd_completion_t c, int zero_flags, int op_flags)
{
	write_down("%szero %zu@%llu\n",
		   zero_flags == RBD_WRITE_ZEROES_FLAG_THICK_PROVISION
			   ? "thick "
			   : "",
		   len, (unsigned long long)off);
	return complete(c, 0);
}
