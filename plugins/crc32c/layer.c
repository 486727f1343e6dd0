/* SPDX-License-Identifier: BSD-2-Clause */
/* Open and close of a volume with the layer, and its functions for
 * rdma-target. */
#include "layer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "crc32c.h"

const struct rbp_host *crclayer_host;

static void crclayer_take_args(struct crclayer *l, struct crcsums_wanted *w,
			       const struct rbp_arg *args)
{
	for (; args->name; args++) {
		if (!strcmp(args->name, "sums"))
			w->path = args->text;
		else if (!strcmp(args->name, "init"))
			w->make = args->number;
		else if (!strcmp(args->name, "sync"))
			l->syncs = args->number;
	}
}

static void crclayer_take_info(struct crclayer *l, const struct rbp_info *info)
{
	uint32_t caps = info->caps;

	l->block_size = info->volume_block;
	l->is_read_only = info->open_flags & RBP_OPEN_READ_ONLY ||
			  !(caps & RBP_CAN_WRITE);
	l->has_cache = caps & RBP_WRITE_CACHE;
	l->has_fua = caps & RBP_CAN_FUA;
	/* Deallocated blocks may return any data. */
	l->learns = !l->is_read_only &&
		    (caps & RBP_UNMAP_ZEROES || !(caps & RBP_CAN_UNMAP));
}

static void crclayer_close(void *v)
{
	struct crclayer *l = v;

	pthread_mutex_lock(&l->lock);
	l->stopping = true;
	pthread_cond_signal(&l->work);
	pthread_mutex_unlock(&l->lock);
	if (l->has_thread)
		pthread_join(l->thread, NULL);
	crcsums_close(&l->sums, !l->has_cache && !l->is_broken);
	pthread_cond_destroy(&l->work);
	pthread_mutex_destroy(&l->lock);
	free(l);
}

static int crclayer_open_sums(struct crclayer *l, const struct rbp_info *info,
			      const struct rbp_arg *args, char *msg,
			      size_t msg_len)
{
	bool lasts = info->caps & RBP_LASTING;
	struct crcsums_wanted wanted = {
		.mark = info->below_mark,
		.bytes = info->bytes - info->bytes % l->block_size,
		.block_size = l->block_size,
		.forget = !lasts,
		.read_only = l->is_read_only,
	};

	crclayer_take_args(l, &wanted, args);
	if (!wanted.path) {
		snprintf(msg, msg_len, "needs sums=PATH");
		return -EINVAL;
	}
	return crcsums_open(&l->sums, &wanted, msg, msg_len);
}

static int crclayer_zero_sum(struct crclayer *l)
{
	void *zeroes = calloc(1, l->block_size);

	if (!zeroes)
		return -ENOMEM;
	l->zero_sum = crc32c_of(zeroes, l->block_size);
	free(zeroes);
	return 0;
}

/* The layer knows only the checksums of what this target writes. */
static bool crclayer_others_write(const struct rbp_info *info)
{
	return info->size >= offsetof(struct rbp_info, below_targets) +
				     sizeof(info->below_targets) &&
	       info->below_targets > 1;
}

static int crclayer_open(struct rbp_vol *vol, const char *location,
			 const struct rbp_arg *args, void **ret_v,
			 struct rbp_info *info, char *msg, size_t msg_len)
{
	struct crclayer *l;
	int err;

	if (info->size <
	    offsetof(struct rbp_info, below_mark) + sizeof(info->below_mark)) {
		snprintf(msg, msg_len, "this rdma-target is too old for it");
		return -ENOTSUP;
	}
	if (crclayer_others_write(info)) {
		snprintf(msg, msg_len,
			 "other targets may serve the data below, and the "
			 "checksums of what they write would be missing here");
		return -ENOTSUP;
	}
	l = calloc(1, sizeof(*l));
	if (!l)
		return -ENOMEM;
	l->vol = vol;
	l->sums.fd = -1;
	pthread_mutex_init(&l->lock, NULL);
	pthread_cond_init(&l->work, NULL);
	TAILQ_INIT(&l->inbox);
	TAILQ_INIT(&l->claims);
	TAILQ_INIT(&l->parked);
	TAILQ_INIT(&l->ready);
	crclayer_take_info(l, info);
	err = crclayer_zero_sum(l);
	if (!err)
		err = crclayer_open_sums(l, info, args, msg, msg_len);
	if (err)
		crclayer_close(l);
	else
		*ret_v = l;
	return err;
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *host)
{
	static const struct rbp_param params[] = {
		{ "sums", RBP_STRING, NULL, "the file of checksums" },
		{ "init", RBP_BOOL, "off",
		  "make the file if there is none; blocks get their sums when "
		  "they are read or written first" },
		{ "sync", RBP_BOOL, "on",
		  "make checksums stable before data is written, so that they "
		  "hold after a power cut" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static const struct rbp_plugin plugin = {
		.size = sizeof(plugin),
		.is_layer = 1,
		.name = "crc32c",
		.version = "1",
		.help = "keeps a checksum of each block, and checks reads",
		.params = params,
		/* For the file, which may belong to anybody. */
		.needs = RBP_NEEDS_RIGHTS,
		.scratch_len = sizeof(struct crclayer_io),
		.open = crclayer_open,
		.close = crclayer_close,
		.queue_add = crclayer_queue_add,
		.queue_del = crclayer_queue_del,
		.submit = crclayer_submit,
	};

	crclayer_host = host;
	return &plugin;
}
