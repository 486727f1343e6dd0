/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * rbd:POOL[/NAMESPACE]/IMAGE[@SNAP]: an image of Ceph's block device, through
 * librbd.
 *
 * librbd has queues and threads of its own: submit() passes an I/O to librbd,
 * and a thread of librbd ends the I/O. A thread of the volume makes the calls
 * of librbd that always block (jobs.h).
 */
#include <errno.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <rdma_block_plugin.h>

#include "check.h"
#include "extent.h"
#include "gateway.h"
#include "image.h"
#include "jobs.h"
#include "notes.h"

#define RBDP_BLOCK_SIZE 512u
/* librbd's default for discards. Smaller discards free nothing in the OSD. */
#define RBDP_UNMAP_GRANULARITY (64u << 10)

/* rbp_paths.cnt */
#define RBDP_GATEWAYS_MAX 8u

struct rbdp_vol {
	struct rbp_vol *vol;
	struct rbdp_config cfg;
	/* A gateway opens it again. The lock keeps the thread of jobs out
	 * meanwhile, and rbdp_gateway_enter() keeps I/O out. */
	struct rbdp_image img;
	pthread_mutex_t img_lock;
	char identity[sizeof(((struct rbp_info *)0)->identity)];
	bool has_cache;	 /* of librbd */
	bool is_gateway; /* otherwise gw is not used */
	bool begins_active;
	struct rbdp_gateway gw;
	struct rbdp_check check; /* as gw */
	struct rbdp_jobs jobs;
	/* Whole blocks. librbd may block when it is asked for the size. */
	_Atomic uint64_t bytes;
};

static const struct rbp_host *rbdp_host;

/* ---- I/O ---- */

/* Initiators repeat a command that timed out several times, which would
 * multiply the wait. */
static int rbdp_io_timed_out(struct rbdp_vol *s, enum rbp_op op)
{
	rbdp_host->log(s->vol, RBP_ERROR,
		       "the cluster has not answered for %u s: failing the "
		       "I/O; is an OSD down, or the cluster full? (ceph -s)",
		       s->cfg.timeout_s);
	/* Without a cache, writes that have ended are already stable. */
	if (op == RBP_FLUSH && !s->has_cache)
		return -ENOTCONN;
	if (op != RBP_READ && op != RBP_EXTENT)
		s->img.in_doubt = true;
	return -EIO;
}

/* The result of an I/O is known. */
static void rbdp_io_finish(struct rbdp_vol *s, struct rbp_io *io, int res)
{
	if (s->is_gateway)
		res = rbdp_gateway_leave(&s->gw, res);
	if (s->is_gateway && res < 0 && res != -ESHUTDOWN)
		rbdp_gateway_judge(&s->gw, io, res);
	else
		rbdp_host->done(io, res);
}

/* For struct rbdp_check. */
static void rbdp_io_checked(void *user, struct rbp_io *io, int res)
{
	if (res == -ETIMEDOUT)
		res = rbdp_io_timed_out(user, io->op);
	rbdp_io_finish(user, io, res);
}

/* Ends an I/O that has begun. */
static void rbdp_io_end(struct rbp_io *io, int res)
{
	struct rbdp_vol *s = io->queue_data;

	if (s->is_gateway && !res && rbdp_check_applies(&s->check, io))
		rbdp_check_io(&s->check, io);
	else
		rbdp_io_finish(s, io, res);
}

static void rbdp_io_done(rbd_completion_t completion, void *arg)
{
	ssize_t res = rbd_aio_get_return_value(completion);
	struct rbp_io *io = arg;

	rbd_aio_release(completion);
	if (res == -ETIMEDOUT)
		res = rbdp_io_timed_out(io->queue_data, io->op);
	/* The image has been made smaller. */
	if (io->op == RBP_READ && res >= 0 && (uint64_t)res != io->len)
		res = -EIO;
	rbdp_io_end(io, res < 0 ? (int)res : 0);
}

/* Returns 0, or a negative errno: then @completion is not called. */
static int rbdp_io_begin(rbd_image_t image, struct rbp_io *io,
			 rbd_completion_t completion)
{
	switch (io->op) {
	case RBP_READ:
		return rbd_aio_read(image, io->offset, io->len, io->buf,
				    completion);
	case RBP_WRITE:
		return rbd_aio_write(image, io->offset, io->len, io->buf,
				     completion);
	case RBP_FLUSH:
		return rbd_aio_flush(image, completion);
	case RBP_UNMAP:
		/* Not rbd_aio_discard(): it does nothing to the parts of the
		 * range that are less than its granularity, and they would
		 * keep their data. */
		return rbd_aio_write_zeroes(image, io->offset, io->len,
					    completion, /* zero_flags= */ 0,
					    /* op_flags= */ 0);
	case RBP_ZERO:
		return rbd_aio_write_zeroes(
			image, io->offset, io->len, completion,
			io->flags & RBP_MAY_UNMAP
				? 0
				: RBD_WRITE_ZEROES_FLAG_THICK_PROVISION,
			/* op_flags= */ 0);
	case RBP_EXTENT:
		break;
	}
	return -EOPNOTSUPP;
}

static void rbdp_submit(void *v, struct rbp_io *io)
{
	struct rbdp_vol *s = v;
	rbd_completion_t completion;
	int err;

	if (s->is_gateway && !rbdp_gateway_enter(&s->gw, io)) {
		rbdp_host->done(io, -ESHUTDOWN);
		return;
	}
	if (io->op == RBP_EXTENT) {
		rbdp_jobs_extent(&s->jobs, io);
		return;
	}
	err = rbd_aio_create_completion(io, rbdp_io_done, &completion);
	if (!err) {
		err = rbdp_io_begin(s->img.image, io, completion);
		if (err < 0)
			rbd_aio_release(completion);
	}
	if (err < 0)
		rbdp_io_end(io, err);
}

/* rbp_plugin.queue_add(): an I/O leads to its volume through the queue. */
static int rbdp_queue_add(void *v, struct rbp_queue *queue, void **ret)
{
	*ret = v;
	return 0;
}

/* ---- on the thread of the volume ---- */

static void rbdp_do_extent(void *user, struct rbp_io *io)
{
	struct rbdp_vol *s = user;
	int err = rbdp_extent_find(s->img.image, atomic_load(&s->bytes), io,
				   RBDP_BLOCK_SIZE);

	rbdp_io_end(io, err == -ETIMEDOUT ? rbdp_io_timed_out(s, io->op) : err);
}

static int rbdp_ask_bytes(struct rbdp_vol *s, uint64_t *ret)
{
	int err = rbd_get_size(s->img.image, ret);

	*ret -= err ? 0 : *ret % RBDP_BLOCK_SIZE;
	return err;
}

static void rbdp_look_at_size(void *user)
{
	struct rbdp_vol *s = user;
	uint64_t bytes = 0;
	int err;

	pthread_mutex_lock(&s->img_lock);
	err = s->img.image ? rbdp_ask_bytes(s, &bytes) : -ENODEV;
	pthread_mutex_unlock(&s->img_lock);
	/* The image is fenced, and will be opened again. */
	if (err == -ESHUTDOWN || err == -ENODEV)
		return;
	if (err) {
		rbdp_host->log(s->vol, RBP_WARNING,
			       "the image has changed, but its size cannot be "
			       "found out (%s); the old one stays in use",
			       strerror(-err));
		return;
	}
	if (atomic_exchange(&s->bytes, bytes) != bytes)
		rbdp_host->resized(s->vol);
}

/* librbd calls it: the image's header has changed. */
static void rbdp_updated(void *arg)
{
	struct rbdp_vol *s = arg;

	rbdp_jobs_resized(&s->jobs);
}

static int rbdp_measure(void *v, uint64_t *ret_bytes)
{
	struct rbdp_vol *s = v;

	*ret_bytes = atomic_load(&s->bytes);
	return 0;
}

/* ---- gateways ---- */

static void rbdp_paths(void *v, struct rbp_paths *ret)
{
	struct rbdp_vol *s = v;

	if (s->is_gateway)
		rbdp_gateway_paths(&s->gw, ret);
}

static void rbdp_set_path(void *v, struct rbp_io *io)
{
	struct rbdp_vol *s = v;

	rbdp_gateway_set(&s->gw, io);
}

static void rbdp_get_notes(void *v, struct rbp_io *io)
{
	struct rbdp_vol *s = v;

	rbdp_gateway_get_notes(&s->gw, io);
}

static void rbdp_put_notes(void *v, struct rbp_io *io)
{
	struct rbdp_vol *s = v;

	rbdp_gateway_put_notes(&s->gw, io);
}

static void rbdp_notes_taken(void *v, uint64_t version)
{
	struct rbdp_vol *s = v;

	rbdp_gateway_taken(&s->gw, version);
}

/* If another target fences this one, the data in librbd's cache is lost, and no
 * flush through the other target can report this. */
static int rbdp_refuse_cache(struct rbdp_vol *s, const struct rbdp_msg *msg)
{
	if (s->gw.cnt < 2 || !rbdp_image_has_cache(&s->img))
		return 0;
	return rbdp_refuse(
		msg, -EINVAL,
		"the image has rbd_cache on, or rbd_persistent_cache_mode, "
		"which would lose writes when another target takes over; try: "
		"rbd config image set ... rbd_cache false, and "
		"rbd_persistent_cache_mode disabled");
}

/* Without the blocklist, the target that was active before could still write. */
static int rbdp_refuse_unfenced(struct rbdp_vol *s, const struct rbdp_msg *msg)
{
	if (!s->is_gateway || rbdp_image_is_fenced(&s->img))
		return 0;
	return rbdp_refuse(msg, -EINVAL,
			   "the image or its pool sets "
			   "rbd_blocklist_on_break_lock, so another target "
			   "could still write after a takeover; try: rbd "
			   "config image rm (or: pool rm) ... "
			   "rbd_blocklist_on_break_lock");
}

/* The name may now belong to another image. */
static int rbdp_refuse_other(struct rbdp_vol *s, const struct rbdp_msg *msg)
{
	char identity[sizeof(s->identity)];
	int err = rbdp_image_identity(&s->cfg, &s->img, identity,
				      sizeof(identity));

	if (err)
		return rbdp_refuse(msg, err, "cannot describe the image: %s",
				   strerror(-err));
	if (!strcmp(identity, s->identity))
		return 0;
	return rbdp_refuse(msg, -ESTALE,
			   "another image has its name now; start the target "
			   "again to serve that one");
}

/* A write that has timed out may still be on its way to an OSD, also when this
 * process has ended. It must not arrive after a newer one of another client. */
static void rbdp_close_image(struct rbdp_vol *s)
{
	int err = s->img.in_doubt ? rbdp_image_shut_out(&s->img) : 0;

	if (err)
		rbdp_host->log(s->vol, RBP_WARNING,
			       "a write that got no answer may still be done; "
			       "cannot prevent it: %s",
			       strerror(-err));
	rbdp_image_close(&s->img);
}

/* A flatten makes that less; nothing makes it more. */
static int rbdp_ask_parent_bytes(struct rbdp_vol *s, const struct rbdp_msg *msg)
{
	int err = rbd_get_overlap(s->img.image, &s->check.parent_bytes);

	if (err)
		return rbdp_refuse(msg, err,
				   "cannot describe the image's parent: %s",
				   strerror(-err));
	return 0;
}

/* Called by the thread of the gateway, without I/O in flight. */
static int rbdp_reopen(void *user, const struct rbdp_msg *msg)
{
	struct rbdp_vol *s = user;
	int err;

	if (s->img.image)
		rbdp_image_retire(&s->img);
	pthread_mutex_lock(&s->img_lock);
	rbdp_close_image(s);
	err = rbdp_image_open(&s->cfg, &s->img, msg);
	if (!err)
		err = rbdp_refuse_other(s, msg);
	if (!err)
		err = rbdp_refuse_cache(s, msg);
	if (!err)
		err = rbdp_refuse_unfenced(s, msg);
	if (!err)
		err = rbdp_ask_parent_bytes(s, msg);
	if (!err) {
		err = rbdp_image_watch(&s->img, rbdp_updated, s);
		if (err)
			rbdp_refuse(msg, err, "cannot watch the image: %s",
				    strerror(-err));
	}
	if (err)
		rbdp_image_close(&s->img);
	pthread_mutex_unlock(&s->img_lock);
	if (!err)
		rbdp_jobs_resized(&s->jobs);
	return err;
}

/* ---- life cycle ---- */

static void rbdp_close(void *v)
{
	struct rbdp_vol *s = v;

	if (s->is_gateway) {
		rbdp_gateway_stop(&s->gw);
		rbdp_check_free(&s->check);
	}
	if (s->img.image)
		rbdp_image_retire(&s->img);
	rbdp_jobs_stop(&s->jobs);
	rbdp_close_image(s);
	free(s);
}

/* Returns 1 for "a", 0 for "b", and refuses other values. */
static int rbdp_choose(const struct rbp_arg *arg, const char *a, const char *b,
		       bool *ret, const struct rbdp_msg *msg)
{
	*ret = !strcmp(arg->text, a);
	if (*ret || !strcmp(arg->text, b))
		return 0;
	return rbdp_refuse(msg, -EINVAL, "%s=%s: it is %s or %s", arg->name,
			   arg->text, a, b);
}

static int rbdp_take_gateway_arg(struct rbdp_vol *s, const struct rbp_arg *arg,
				 const struct rbdp_msg *msg)
{
	struct rbdp_gateway *gw = &s->gw;

	if (!strcmp(arg->name, "gateway"))
		gw->own = arg->number <= RBDP_GATEWAYS_MAX
				  ? (unsigned int)arg->number
				  : UINT_MAX;
	else if (!strcmp(arg->name, "gateways"))
		gw->cnt = arg->number <= RBDP_GATEWAYS_MAX
				  ? (unsigned int)arg->number
				  : UINT_MAX;
	else if (!strcmp(arg->name, "role"))
		return rbdp_choose(arg, "active", "standby", &s->begins_active,
				   msg);
	else if (!strcmp(arg->name, "failover"))
		return rbdp_choose(arg, "auto", "manual", &gw->takes_over, msg);
	else if (!strcmp(arg->name, "failover-after"))
		gw->after_ms = (arg->number < 3600 ? arg->number : 3600) * 1000;
	return 0;
}

static int rbdp_check_gateway(struct rbdp_vol *s, const struct rbdp_msg *msg)
{
	struct rbdp_gateway *gw = &s->gw;

	s->is_gateway = gw->own || gw->cnt;
	if (!s->is_gateway && (s->begins_active || gw->takes_over))
		return rbdp_refuse(msg, -EINVAL,
				   "role= and failover= need gateway=N and "
				   "gateways=M");
	if (s->is_gateway && (gw->cnt < 1 || gw->cnt > RBDP_GATEWAYS_MAX ||
			      gw->own < 1 || gw->own > gw->cnt))
		return rbdp_refuse(msg, -EINVAL,
				   "gateway=N,gateways=M: M is 1 to %u, and N "
				   "1 to M",
				   RBDP_GATEWAYS_MAX);
	if (s->is_gateway && s->cfg.read_only)
		return rbdp_refuse(
			msg, -EINVAL,
			"gateway= is for volumes that are written; "
			"any number of targets can serve a snapshot");
	gw->host = rbdp_host;
	gw->vol = s->vol;
	gw->img = &s->img;
	gw->reopen = rbdp_reopen;
	gw->user = s;
	return 0;
}

static int rbdp_take_gateway_args(struct rbdp_vol *s,
				  const struct rbp_arg *args,
				  const struct rbdp_msg *msg)
{
	int err = 0;

	for (; args->name && !err; args++)
		err = rbdp_take_gateway_arg(s, args, msg);
	return err ? err : rbdp_check_gateway(s, msg);
}

static int rbdp_take_args(struct rbdp_config *cfg, const struct rbp_arg *args,
			  const struct rbdp_msg *msg)
{
	for (; args->name; args++) {
		if (!strcmp(args->name, "conf"))
			cfg->conf = args->text;
		else if (!strcmp(args->name, "id"))
			cfg->id = args->text;
		else if (!strcmp(args->name, "keyring"))
			cfg->keyring = args->text;
		else if (!strcmp(args->name, "timeout"))
			cfg->timeout_s = args->number < 86400
						 ? (unsigned int)args->number
						 : 86400;
		else if (!strcmp(args->name, "zero-copy"))
			cfg->zero_copy = args->number;
	}
	/*
	 * A write that has timed out may still be in librados's send queue. If
	 * the queue has no copy of the data, the write would be sent with the
	 * data of the next command that uses the buffer.
	 */
	if (cfg->zero_copy && cfg->timeout_s)
		return rbdp_refuse(
			msg, -EINVAL,
			"zero-copy=on needs timeout=0: a write that "
			"times out may still be sent, and its buffer "
			"has other data by then");
	return 0;
}

static int rbdp_describe(struct rbdp_vol *s, struct rbp_info *info,
			 const struct rbdp_msg *msg)
{
	uint64_t bytes;
	int err = rbdp_ask_bytes(s, &bytes);

	if (!err)
		err = rbdp_image_identity(&s->cfg, &s->img, info->identity,
					  sizeof(info->identity));
	if (err)
		return rbdp_refuse(msg, err, "cannot describe the image: %s",
				   strerror(-err));
	snprintf(s->identity, sizeof(s->identity), "%s", info->identity);
	s->bytes = bytes;
	info->bytes = bytes;
	info->block_size = RBDP_BLOCK_SIZE;
	info->unmap_granularity = RBDP_UNMAP_GRANULARITY;
	info->caps = RBP_CAN_FLUSH | RBP_CAN_EXTENT | RBP_LASTING;
	if (!s->cfg.read_only)
		info->caps |= RBP_CAN_WRITE | RBP_CAN_UNMAP | RBP_CAN_ZERO |
			      RBP_UNMAP_ZEROES;
	s->has_cache = rbdp_image_has_cache(&s->img);
	info->caps |= s->has_cache ? RBP_WRITE_CACHE : RBP_CAN_FUA;
	return 0;
}

/* This target has reservations of its own. Those in the notes are for
 * initiators of gateways. */
static void rbdp_look_for_notes_of_others(struct rbdp_vol *s)
{
	uint64_t version = 0;
	char header[96];

	if (rbdp_image_header(&s->img, header, sizeof(header)) ||
	    rbdp_notes_read_version(s->img.pool, header, &version) || !version)
		return;
	rbdp_host->log(s->vol, RBP_WARNING,
		       "the image holds reservations of targets with gateway=; "
		       "a target without it does not go by them");
}

static int rbdp_start_gateway(struct rbdp_vol *s, const struct rbdp_msg *msg)
{
	struct rbdp_check *check = &s->check;
	int err = rbd_get_stripe_unit(s->img.image, &check->piece_bytes);

	if (err || !check->piece_bytes)
		return rbdp_refuse(msg, err ? err : -EIO,
				   "cannot describe the image: %s",
				   strerror(err ? -err : EIO));
	err = rbdp_ask_parent_bytes(s, msg);
	if (err)
		return err;
	check->end = rbdp_io_checked;
	check->user = s;
	check->img = &s->img;
	check->object = s->gw.header;
	rbdp_check_init(check);
	err = rbdp_gateway_start(&s->gw, s->begins_active, msg);
	if (err)
		rbdp_check_free(check);
	return err;
}

/* Starts with an open image. rbdp_close() undoes it. */
static int rbdp_start(struct rbdp_vol *s, const struct rbdp_msg *msg)
{
	int err;

	s->jobs.extent = rbdp_do_extent;
	s->jobs.resized = rbdp_look_at_size;
	s->jobs.user = s;
	err = rbdp_jobs_start(&s->jobs);
	if (err)
		return rbdp_refuse(msg, err, "cannot start a thread: %s",
				   strerror(-err));
	/* A snapshot keeps its size. */
	if (!*s->cfg.snap) {
		err = rbdp_image_watch(&s->img, rbdp_updated, s);
		if (err)
			rbdp_refuse(msg, err, "cannot watch the image: %s",
				    strerror(-err));
	}
	if (!err && !s->is_gateway && !s->cfg.read_only)
		rbdp_look_for_notes_of_others(s);
	if (!err && s->is_gateway)
		err = rbdp_start_gateway(s, msg);
	if (err) {
		rbdp_image_retire(&s->img);
		rbdp_jobs_stop(&s->jobs);
	}
	return err;
}

static int rbdp_open(struct rbp_vol *vol, const char *location,
		     const struct rbp_arg *args, void **ret_v,
		     struct rbp_info *info, char *msg_text, size_t msg_len)
{
	const struct rbdp_msg msg = { msg_text, msg_len };
	struct rbdp_vol *s = calloc(1, sizeof(*s));
	int err;

	if (!s)
		return -ENOMEM;
	s->vol = vol;
	pthread_mutex_init(&s->img_lock, NULL);
	err = rbdp_location_parse(location, &s->cfg, &msg);
	if (!err)
		err = rbdp_take_args(&s->cfg, args, &msg);
	s->cfg.read_only =
		(info->open_flags & RBP_OPEN_READ_ONLY) || *s->cfg.snap;
	if (!err)
		err = rbdp_take_gateway_args(s, args, &msg);
	if (!err)
		err = rbdp_image_open(&s->cfg, &s->img, &msg);
	if (!err)
		err = rbdp_describe(s, info, &msg);
	if (!err)
		err = rbdp_refuse_cache(s, &msg);
	if (!err)
		err = rbdp_refuse_unfenced(s, &msg);
	if (!err)
		err = rbdp_start(s, &msg);
	if (err) {
		rbdp_image_close(&s->img);
		free(s);
		return err;
	}
	*ret_v = s;
	return 0;
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static const struct rbp_param params[] = {
		{ "conf", RBP_STRING, NULL,
		  "configuration file of Ceph (default: as Ceph finds it)" },
		{ "id", RBP_STRING, "admin",
		  "user of Ceph, without 'client.'" },
		{ "keyring", RBP_STRING, NULL,
		  "file with the user's key (default: as the configuration "
		  "says)" },
		{ "timeout", RBP_NUMBER, "30",
		  "fail an I/O after so many seconds without an answer; 0: "
		  "wait for ever" },
		{ "zero-copy", RBP_BOOL, "off",
		  "send writes from rdma-target's buffers; needs timeout=0" },
		{ "gateway", RBP_NUMBER, NULL,
		  "number of this target among those that serve the image" },
		{ "gateways", RBP_NUMBER, NULL, "how many these are, 1 to 8" },
		{ "role", RBP_STRING, NULL,
		  "active: take the image over at the start; standby "
		  "(default): do not" },
		{ "failover", RBP_STRING, NULL,
		  "auto: take over when no other target is active; manual "
		  "(default): only by SET TARGET PORT GROUPS" },
		{ "failover-after", RBP_NUMBER, "5",
		  "with failover=auto, seconds without word of an active "
		  "target" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.name = "rbd",
		.version = "1",
		.help = "image of Ceph RBD; LOCATION is "
			"POOL[/NAMESPACE]/IMAGE[@SNAP]",
		.params = params,
		.needs = RBP_NEEDS_NETWORK,
		.scratch_len = sizeof(struct rbdp_ask),
		.open = rbdp_open,
		.close = rbdp_close,
		.queue_add = rbdp_queue_add,
		.submit = rbdp_submit,
		.measure = rbdp_measure,
		.paths = rbdp_paths,
		.set_path = rbdp_set_path,
		.get_notes = rbdp_get_notes,
		.put_notes = rbdp_put_notes,
		.notes_taken = rbdp_notes_taken,
	};

	rbdp_host = host;
	return &plugin;
}
