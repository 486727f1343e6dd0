/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/backend.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "target/block/plugin_io.h"
#include "target/block/plugin_load.h"
#include "target/block/plugin_threads.h"
#include "target/block/plugin_unprivileged.h"

#define THREADS_DEFAULT 4u
#define THREADS_MAX	64u

/* Targets that serve the same data. */
#define PATHS_MAX 8u

/* Offsets are signed numbers nearly everywhere. */
#define BYTES_MAX (uint64_t) INT64_MAX

const struct backend_type backend_plugin = {
	.plugin.name = "plugin",
	.location = BACKEND_AT_PLUGIN,
};

/* ---- what may be asked ---- */

static bool is_declared(const struct backend_info *info,
			const struct rbp_io *io)
{
	bool has_fua = info->fua || !(io->flags & RBP_FUA);

	switch (io->op) {
	case RBP_READ:
		return !info->memory;
	case RBP_WRITE:
		return !info->memory && !info->read_only && has_fua;
	case RBP_FLUSH:
		return true;
	case RBP_UNMAP:
		return info->unmap_granularity && !info->read_only;
	case RBP_ZERO:
		return info->zero && !info->read_only && has_fua;
	case RBP_EXTENT:
		return info->extents;
	}
	return false;
}

bool backend_has_range(const struct backend *be, const struct rbp_io *io)
{
	const struct backend_info *info = &be->info;

	if (io->op == RBP_FLUSH)
		return !io->offset && !io->len;
	return io->len && io->len <= info->size &&
	       io->offset <= info->size - io->len;
}

bool backend_accepts(const struct backend *be, const struct block_io *bio)
{
	const struct rbp_io *io = &bio->io;
	bool has_data = io->op == RBP_READ || io->op == RBP_WRITE;

	return is_declared(&be->info, io) && backend_has_range(be, io) &&
	       bio->done && bio->worker && (io->buf || !has_data);
}

/* ---- what a backend reports about itself ---- */

static const struct {
	uint32_t cap;
	size_t member; /* of struct backend_info */
} backend_traits[] = {
	{ RBP_CAN_FUA, offsetof(struct backend_info, fua) },
	{ RBP_CAN_ZERO, offsetof(struct backend_info, zero) },
	{ RBP_CAN_EXTENT, offsetof(struct backend_info, extents) },
	{ RBP_LOSES_UNFLUSHED, offsetof(struct backend_info, forgets) },
	{ RBP_LASTING, offsetof(struct backend_info, is_lasting) },
	{ RBP_UNMAP_ZEROES, offsetof(struct backend_info, unmap_zeroes) },
	{ RBP_ROTATIONAL, offsetof(struct backend_info, rotational) },
	{ RBP_READ_CACHE, offsetof(struct backend_info, read_cache) },
};

void backend_describe_below(const struct backend_info *below,
			    struct rbp_info *ret)
{
	ret->caps = RBP_CAN_FLUSH;
	for (size_t i = 0; i < ARRAY_SIZE(backend_traits); i++) {
		const char *at = (const char *)below + backend_traits[i].member;

		if (*(const bool *)at)
			ret->caps |= backend_traits[i].cap;
	}
	if (!below->read_only)
		ret->caps |= RBP_CAN_WRITE;
	if (backend_has_cache(below))
		ret->caps |= RBP_WRITE_CACHE;
	ret->durability = below->durability;
	if (below->unmap_granularity)
		ret->caps |= RBP_CAN_UNMAP;
	ret->bytes = below->size;
	ret->block_size = below->min_block;
	ret->optimal_io = below->optimal_block;
	ret->unmap_granularity = below->unmap_granularity;
	ret->atomic_write = below->atomic_len;
	snprintf(ret->below_mark, sizeof(ret->below_mark), "%s",
		 below->id.mark.lasting);
}

/* A layer that knows only caps leaves the durability as it was below. */
static enum rbp_durability durability_of(const struct backend *be)
{
	const struct rbp_info *info = &be->said.info;
	enum rbp_durability own = (enum rbp_durability)info->durability;
	enum rbp_durability below =
		be->below ? be->below->info.durability : RBP_STABLE_WHEN_ENDED;

	if (own < RBP_STABLE_AFTER_FLUSH && info->caps & RBP_WRITE_CACHE)
		own = RBP_STABLE_AFTER_FLUSH;
	return own > below ? own : below;
}

static bool lacks_function(const struct backend *be)
{
	const struct rbp_blocking *b = be->plugin->blocking;
	uint32_t caps = be->said.info.caps;

	if (be->plugin->submit)
		return false;
	return ((caps & RBP_CAN_WRITE) && !b->write) ||
	       ((caps & RBP_CAN_FLUSH) && !b->flush) ||
	       ((caps & RBP_CAN_UNMAP) && !b->unmap) ||
	       ((caps & RBP_CAN_ZERO) && !b->zero) ||
	       ((caps & RBP_CAN_EXTENT) && !b->extent);
}

static bool has_wrong_paths(const struct backend *be)
{
	struct rbp_paths paths = { .size = sizeof(paths) };

	if (!be->plugin->paths)
		return false;
	be->plugin->paths(be->v, &paths);
	return paths.cnt && (paths.cnt > PATHS_MAX || !paths.own ||
			     paths.own > paths.cnt || !be->plugin->set_path);
}

static const char *backend_wrong_size(const struct backend *be,
				      uint32_t block_size)
{
	const struct rbp_info *info = &be->said.info;
	uint64_t measured = info->bytes;

	if (!info->block_size || info->block_size > 4096 ||
	    info->block_size & (info->block_size - 1))
		return "its block_size is no power of two from 1 to 4096";
	if (info->bytes < block_size)
		return "is smaller than one block";
	if (info->bytes > BYTES_MAX || info->bytes % info->block_size)
		return "its size is out of range, or no multiple of its "
		       "block_size";
	if (be->plugin->measure && info->memory)
		return "it lies in memory, and its size may change";
	if (be->plugin->measure && !be->type &&
	    (be->plugin->measure(be->v, &measured) || measured != info->bytes))
		return "it says one size at open() and another one by "
		       "measure()";
	return NULL;
}

/* Returns why the plugin contradicts itself and cannot be served. NULL: it does
 * not. */
static const char *backend_what_is_wrong(const struct backend *be,
					 uint32_t block_size)
{
	const struct rbp_info *info = &be->said.info;
	const char *wrong = backend_wrong_size(be, block_size);

	if (wrong)
		return wrong;
	if (info->durability > RBP_STABLE_NEVER)
		return "its durability is none that this rdma-target knows";
	if (durability_of(be) == RBP_STABLE_AFTER_FLUSH &&
	    !(info->caps & RBP_CAN_FLUSH))
		return "its writes are stable after a flush, and it has no "
		       "flush";
	if ((info->caps & RBP_LOSES_UNFLUSHED) &&
	    !(info->caps & RBP_WRITE_CACHE))
		return "it loses what was not flushed, and has no write cache";
	if ((info->caps & RBP_CAN_UNMAP) && !info->unmap_granularity)
		return "it can unmap, but has no unmap_granularity";
	if (info->memory && be->below)
		return "it is a layer, and lies in memory";
	if (has_wrong_paths(be))
		return "it serves with more than 8 targets, or is none of "
		       "them, or cannot change that";
	if (!be->plugin->get_notes != !be->plugin->put_notes ||
	    !be->plugin->put_notes != !be->plugin->notes_taken)
		return "it has some of the functions for notes, and not all";
	if (info->threads > THREADS_MAX)
		return "it wants more than 64 threads";
	if (lacks_function(be))
		return "it lacks a function for one of its capabilities";
	if (!memchr(info->identity, '\0', sizeof(info->identity)))
		return "its identity has no end";
	return NULL;
}

/* store_id.h needs one word of visible characters. */
static void name_store(const struct rbp_info *from, struct store_id *id)
{
	snprintf(id->own, sizeof(id->own), "%s", from->identity);
	for (char *c = id->own; *c; c++) {
		if (*c <= ' ' || *c > '~')
			*c = '_';
	}
	memcpy(id->mark.lasting, id->own, sizeof(id->mark.lasting));
}

/* Identifies the data. The data of a layer is that of the backend below, unless
 * the layer has an identity of its own or is not lasting. A store without
 * identity may be another one tomorrow. */
static void identify(struct backend *be)
{
	const struct backend *below = be->below;
	struct backend_info *to = &be->info;

	if (below && (to->is_lasting || !below->info.is_lasting)) {
		to->id = below->info.id;
		to->life = below->info.life;
	}
	if (be->type && !below) {
		to->id = be->said.id;
		to->life = be->said.life;
	}
	if (!be->type && !below)
		to->id.is_device = true;
	if (*be->said.info.identity)
		name_store(&be->said.info, &to->id);
}

/* Each store warns of what its own blocks leave out. */
static void backend_warn_of_rest(const struct backend *be, uint32_t block_size)
{
	uint64_t rest = be->said.info.bytes % block_size;

	if (rest)
		log_warn("%s: the last %llu bytes are no whole block of %u "
			 "bytes and are left out",
			 be->vol.name, (unsigned long long)rest, block_size);
}

static void backend_describe(struct backend *be,
			     const struct backend_options *opt)
{
	const struct rbp_info *from = &be->said.info;
	struct backend_info *to = &be->info;
	uint32_t caps = from->caps;

	for (size_t i = 0; i < ARRAY_SIZE(backend_traits); i++) {
		char *at = (char *)to + backend_traits[i].member;

		*(bool *)at = caps & backend_traits[i].cap;
	}
	be->can_flush = caps & RBP_CAN_FLUSH;
	to->kind = be->said.kind ? be->said.kind : be->plugin->name;
	to->size = from->bytes - from->bytes % opt->block_size;
	to->min_block = from->block_size;
	to->volume_block = opt->block_size;
	to->optimal_block = from->optimal_io ? from->optimal_io : 4096;
	to->read_only = opt->read_only || !(caps & RBP_CAN_WRITE);
	if (caps & RBP_CAN_UNMAP && !to->read_only)
		to->unmap_granularity = from->unmap_granularity;
	to->durability =
		to->read_only ? RBP_STABLE_WHEN_ENDED : durability_of(be);
	if (be->below)
		to->may_flush_to_write =
			!be->type || be->below->info.may_flush_to_write;
	to->atomic_len = from->atomic_write;
	to->memory = opt->submit_all ? NULL : from->memory;
	to->has_notes = be->notes && be->plugin->put_notes;
	identify(be);
}

static bool backend_is_trusted(const struct backend *be)
{
	const struct rbp_arg *arg = be->args;

	while (arg && arg->name && strcmp(arg->name, "trust-server") != 0)
		arg++;
	return arg && arg->name && arg->number;
}

/* Only the administrator can accept that nothing makes writes stable. */
static int backend_check_durability(const struct backend *be, struct error *e)
{
	bool may_lose = be->info.durability == RBP_STABLE_NEVER;

	if (be->below && be->below->info.durability == RBP_STABLE_NEVER)
		may_lose = false;
	if (!may_lose || backend_is_trusted(be))
		return 0;
	return error_set(e, -EPERM,
			 "%s: it has neither flush nor FUA, so nothing makes "
			 "writes stable: if its server fails, writes that were "
			 "answered may be lost, and nobody is told; turn flush "
			 "on there, or add ,ro, or accept it with "
			 ",trust-server=on",
			 be->vol.name);
}

/* ---- opening ---- */

static int out_of_memory(struct error *e)
{
	return error_set(e, -ENOMEM, "out of memory");
}

/* The name in the log and in messages. */
static void backend_name(struct backend *be, const struct backend_type *type,
			 const struct backend_options *opt)
{
	const char *kind = be->type ? type->plugin.name : opt->plugin->name;
	char *name = be->vol.name;
	size_t len = sizeof(be->vol.name);

	if (opt->below)
		snprintf(name, len, "%.200s: %s", opt->path, kind);
	else if (type->location == BACKEND_AT_PATH)
		snprintf(name, len, "%.400s", opt->path);
	else
		snprintf(name, len, "%s:%.200s", kind, opt->path);
}

static int backend_load(struct backend *be, const struct plugin_spec *spec,
			struct error *e)
{
	int err = plugin_load(spec->name, &be->plugin, e);

	if (err && !be->below)
		plugin_load_advise(spec->name, e);
	if (err)
		return err;
	if (!be->plugin->is_layer != !be->below)
		return error_set(
			e, -EINVAL,
			be->below
				? "plugin %s is a store, not a layer: name it "
				  "in front, %s:LOCATION"
				: "plugin %s is a layer: put it on a store "
				  "with ,layer=%s",
			spec->name, spec->name);
	return plugin_args(be->plugin, spec, &be->args, e);
}

/* A call of the plugin's open(), maybe on a thread of its own. */
struct backend_opening {
	struct backend *be;
	char clause[ERROR_TEXT_SIZE];
	int err;
};

static void backend_run_open(void *arg)
{
	static const struct rbp_arg no_args[1];
	struct backend_opening *o = arg;
	struct backend *be = o->be;

	o->err = be->plugin->open(&be->vol, be->location,
				  be->args ? be->args : no_args, &be->v,
				  &be->said.info, o->clause, sizeof(o->clause));
	o->clause[sizeof(o->clause) - 1] = '\0';
}

/* A plugin that uses the capabilities of rdma-target. */
static int backend_run_open_with_rights(struct backend_opening *o)
{
	unsigned int before = plugin_privileged_threads();

	backend_run_open(o);
	if (o->err || plugin_privileged_threads() <= before)
		return 0;
	o->be->plugin->close(o->be->v);
	o->err = -EPERM;
	snprintf(o->clause, sizeof(o->clause),
		 "plugin %s starts a thread in open(), which would keep the "
		 "capabilities of rdma-target; its author must start it later, "
		 "or do without RBP_NEEDS_RIGHTS",
		 o->be->plugin->name);
	return 0;
}

/* The plugin's open(), with the rights that it may have. 0, or -errno: it was
 * not called. */
static int backend_open_by_rights(struct backend_opening *o)
{
	if (o->be->type) {
		backend_run_open(o);
		return 0;
	}
	if (o->be->plugin->needs & RBP_NEEDS_RIGHTS)
		return backend_run_open_with_rights(o);
	return plugin_run_unprivileged(backend_run_open, o);
}

static void backend_describe_for_layer(struct backend *below,
				       struct rbp_info *ret)
{
	struct backend_paths paths;

	backend_describe_below(&below->info, ret);
	backend_paths(below, &paths);
	ret->below_targets = paths.cnt;
}

/* Opens the plugin itself. Its clause gets the volume's name in front. */
static int backend_call_open(struct backend *be,
			     const struct backend_options *opt, struct error *e)
{
	struct rbp_info *info = &be->said.info;
	struct backend_opening o = { .be = be };
	const char *wrong;
	int err;

	if (be->below)
		backend_describe_for_layer(be->below, info);
	info->size = sizeof(*info);
	info->volume_block = opt->block_size;
	info->open_flags = opt->read_only ? RBP_OPEN_READ_ONLY : 0;
	be->said.opt = opt;
	err = backend_open_by_rights(&o);
	be->said.opt = NULL;
	if (!err)
		err = o.err;
	if (err) {
		err = err < 0 ? err : -EIO;
		return error_set(e, err, "%s: %s", be->vol.name,
				 *o.clause ? o.clause : strerror(-err));
	}
	be->is_open = true;
	wrong = backend_what_is_wrong(be, opt->block_size);
	if (!wrong)
		return 0;
	return error_set(e, -EINVAL, "%s: %s", be->vol.name, wrong);
}

static int backend_run_blocking(void *user, struct rbp_io *io)
{
	const struct backend *be = user;
	const struct rbp_blocking *b = be->plugin->blocking;

	switch (io->op) {
	case RBP_READ:
		return b->read(be->v, io->buf, io->len, io->offset);
	case RBP_WRITE:
		return b->write(be->v, io->buf, io->len, io->offset, io->flags);
	case RBP_FLUSH:
		return b->flush(be->v);
	case RBP_UNMAP:
		return b->unmap(be->v, io->len, io->offset);
	case RBP_ZERO:
		return b->zero(be->v, io->len, io->offset, io->flags);
	case RBP_EXTENT:
		return b->extent(be->v, io->len, io->offset, &io->extent_len,
				 &io->extent_mapped);
	}
	return -EOPNOTSUPP;
}

static int backend_start_helpers(struct backend *be, struct error *e)
{
	unsigned int threads = be->said.info.threads;

	if (be->plugin->submit)
		return 0;
	if (plugin_threads_create(backend_run_blocking, be,
				  threads ? threads : THREADS_DEFAULT,
				  plugin_io_done, &be->helpers))
		return out_of_memory(e);
	return 0;
}

static int backend_start(struct backend *be, const struct backend_options *opt,
			 struct error *e)
{
	int err = 0;

	if (!opt->below) {
		be->location = strdup(opt->path);
		if (!be->location)
			return out_of_memory(e);
	}
	if (!be->type)
		err = backend_load(be, opt->plugin, e);
	if (!err)
		err = backend_call_open(be, opt, e);
	if (!err)
		err = backend_start_helpers(be, e);
	return err;
}

int backend_open(const struct backend_type *type,
		 const struct backend_options *opt, struct backend **ret,
		 struct error *e)
{
	struct backend *be = calloc(1, sizeof(*be));
	int err;

	if (!be) {
		backend_close(opt->below);
		return out_of_memory(e);
	}
	be->type = type == &backend_plugin ? NULL : type;
	be->plugin = &type->plugin;
	be->below = opt->below;
	pthread_mutex_init(&be->vol.lock, NULL);
	pthread_mutex_init(&be->set_lock, NULL);
	pthread_mutex_init(&be->notes_lock, NULL);
	backend_name(be, type, opt);
	err = backend_start(be, opt, e);
	if (!err) {
		backend_describe(be, opt);
		err = backend_check_durability(be, e);
	}
	if (err) {
		backend_close(be);
		return err;
	}
	backend_warn_of_rest(be, opt->block_size);
	be->with_paths = be->plugin->paths ? be
			 : be->below	   ? be->below->with_paths
					   : NULL;
	*ret = be;
	return 0;
}

static void backend_free(struct backend *be)
{
	plugin_threads_free(be->helpers);
	if (be->is_open)
		be->plugin->close(be->v);
	pthread_mutex_destroy(&be->vol.lock);
	pthread_mutex_destroy(&be->set_lock);
	pthread_mutex_destroy(&be->notes_lock);
	free(be->notes);
	free(be->location);
	free(be->args);
	free(be);
}

void backend_close(struct backend *be)
{
	while (be) {
		struct backend *below = be->below;

		backend_free(be);
		be = below;
	}
}

/* ---- workers ---- */

int backend_attach(struct backend *be, struct block_worker *w)
{
	int err = be->below ? backend_attach(be->below, w) : 0;

	if (err)
		return err;
	err = block_queue_open(be, w, &be->queues[w->index]);
	if (err && be->below)
		backend_detach(be->below, w);
	return err;
}

void backend_detach(struct backend *be, struct block_worker *w)
{
	for (; be; be = be->below) {
		block_queue_close(be->queues[w->index]);
		be->queues[w->index] = NULL;
	}
}

/* ---- functions that a layer may lack ---- */

int backend_sync(struct backend *be)
{
	for (; be; be = be->below) {
		if (be->type && be->type->sync)
			return be->type->sync(be->v);
	}
	return 0;
}

int backend_grow(struct backend *be, uint64_t bytes)
{
	for (; be; be = be->below) {
		if (be->type && be->type->grow)
			return be->type->grow(be->v, bytes);
	}
	return -EINVAL;
}

int backend_prepare(struct backend *be, unsigned int workers)
{
	int err = 0;

	for (; be && !err; be = be->below) {
		if (be->type && be->type->prepare)
			err = be->type->prepare(be->v, workers);
	}
	return err;
}

uint64_t backend_used(struct backend *be)
{
	uint64_t size = be->info.size;

	for (; be; be = be->below) {
		if (be->plugin->used)
			return be->plugin->used(be->v);
	}
	return size;
}

static struct backend *backend_that_looks(struct backend *be)
{
	while (be && !(be->type && be->type->look))
		be = be->below;
	return be;
}

void backend_look(struct backend *be)
{
	be = backend_that_looks(be);
	if (be)
		be->type->look(be->v);
}

void backend_ask_to_look(struct backend *be, struct block_io *bio)
{
	be = backend_that_looks(be);
	if (be)
		block_io_ask(be, bio, be->type->ask_to_look);
	else
		bio->done(bio, 0);
}

/* Sizes are whole blocks. Otherwise a layer whose size is rounded would differ
 * from the backend below, and would no longer grow with it. */
static int backend_measure_below(struct backend *below, uint64_t *ret_size)
{
	int err = backend_measure(below, ret_size);

	*ret_size -= *ret_size % below->info.volume_block;
	if (!err && *ret_size > below->info.size)
		below->info.size = *ret_size;
	return err;
}

int backend_measure(struct backend *be, uint64_t *ret_size)
{
	struct backend *below = be->below;
	bool is_same = below && below->info.size == be->info.size;
	uint64_t size_below = 0;
	int err = below ? backend_measure_below(below, &size_below) : 0;

	if (err)
		return err;
	*ret_size = is_same ? size_below : be->info.size;
	if (be->plugin->measure)
		err = be->plugin->measure(be->v, ret_size);
	return err < 0 ? err : 0;
}

void backend_paths(struct backend *be, struct backend_paths *ret)
{
	struct rbp_paths paths = { .size = sizeof(paths) };

	if (be->with_paths)
		be->with_paths->plugin->paths(be->with_paths->v, &paths);
	ret->cnt = paths.cnt;
	ret->own = paths.own;
	ret->active = paths.active <= paths.cnt ? paths.active : 0;
}

uint64_t backend_epoch_of(struct backend *with_paths)
{
	struct rbp_paths paths = { .size = sizeof(paths) };

	with_paths->plugin->paths(with_paths->v, &paths);
	return paths.epoch;
}

void backend_set_path(struct backend *be, struct block_io *bio)
{
	for (; be; be = be->below) {
		if (be->plugin->set_path) {
			block_io_ask(be, bio, be->plugin->set_path);
			return;
		}
	}
	bio->done(bio, -EOPNOTSUPP);
}

/* ---- notes ---- */

struct backend *backend_with_notes(struct backend *be)
{
	while (be->below)
		be = be->below;
	return be->info.has_notes ? be : NULL;
}

int backend_on_notes(struct backend *store, backend_take_notes_fn *take,
		     void *user)
{
	pthread_mutex_lock(&store->notes_lock);
	store->take_notes = take;
	store->notes_user = user;
	pthread_mutex_unlock(&store->notes_lock);
	/* Nobody writes to these. */
	return take(user, store->notes_version, store->notes, store->notes_len);
}

void backend_get_notes(struct backend *store, struct block_io *bio)
{
	block_io_ask(store, bio, store->plugin->get_notes);
}

void backend_put_notes(struct backend *store, struct block_io *bio)
{
	block_io_ask(store, bio, store->plugin->put_notes);
}

void backend_notes_taken(struct backend *store, uint64_t version)
{
	store->plugin->notes_taken(store->v, version);
}

/* The lock is held. */
static int backend_keep_notes(struct backend *be, uint64_t version,
			      const void *data, size_t len)
{
	if (be->notes && version < be->notes_version)
		return 0;
	if (!be->notes)
		be->notes = malloc(RBP_NOTES_MAX);
	if (!be->notes)
		return -ENOMEM;
	if (len)
		memcpy(be->notes, data, len);
	be->notes_len = len;
	be->notes_version = version;
	return 0;
}

int backend_notes_came(struct rbp_vol *vol, uint64_t version, const void *data,
		       size_t len)
{
	struct backend *be = container_of(vol, struct backend, vol);
	int err = 0;
	bool waits;

	if (len > RBP_NOTES_MAX)
		return -EMSGSIZE;
	pthread_mutex_lock(&be->notes_lock);
	waits = !be->take_notes;
	if (waits)
		err = backend_keep_notes(be, version, data, len);
	pthread_mutex_unlock(&be->notes_lock);
	return waits ? err : be->take_notes(be->notes_user, version, data, len);
}
