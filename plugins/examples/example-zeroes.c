/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A small layer: a write of zeroes only becomes RBP_ZERO, which may deallocate
 * the range. All other I/O passes unchanged.
 *
 *     rdma-target --backing disk.img,layer=example-zeroes,min=4k
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <rdma_block_plugin.h>

struct layer {
	uint64_t min; /* bytes; shorter writes pass */
	int can_zero; /* the backend below supports ZERO */
};

static const struct rbp_host *host;

static int layer_open(struct rbp_vol *vol, const char *location,
		      const struct rbp_arg *args, void **ret_v,
		      struct rbp_info *info, char *msg, size_t msg_len)
{
	struct layer *layer = (struct layer *)calloc(1, sizeof(*layer));

	if (!layer)
		return -ENOMEM;
	for (; args->name; args++) {
		if (!strcmp(args->name, "min"))
			layer->min = args->number;
	}
	layer->can_zero = !!(info->caps & RBP_CAN_ZERO);
	*ret_v = layer;
	return 0;
}

static void layer_close(void *v)
{
	free(v);
}

static int is_zero(const void *buf, uint64_t len)
{
	const char *c = (const char *)buf;

	return !*c && !memcmp(c, c + 1, len - 1);
}

static void layer_ended(struct rbp_io *child, int res)
{
	child->parent->progress = child->progress;
	host->done(child->parent, res);
}

static void layer_submit(void *v, struct rbp_io *io)
{
	const struct layer *layer = (const struct layer *)v;
	struct rbp_io *child;

	if (io->op != RBP_WRITE || !layer->can_zero || io->len < layer->min ||
	    !is_zero(io->buf, io->len)) {
		host->forward(io);
		return;
	}
	child = host->child(io);
	child->op = RBP_ZERO;
	child->flags |= RBP_MAY_UNMAP;
	child->buf = NULL;
	child->ended = layer_ended;
	host->below(child);
}

const struct rbp_plugin *rdma_block_plugin_1(const struct rbp_host *h)
{
	static const struct rbp_param params[] = {
		{ "min", RBP_SIZE, "4k", "shorter writes pass unchanged" },
		{ NULL, RBP_STRING, NULL, NULL },
	};
	static struct rbp_plugin plugin;

	/* forward() was added later than the other members. */
	if (h->size < offsetof(struct rbp_host, forward) + sizeof(h->forward)) {
		h->log(NULL, RBP_ERROR,
		       "example-zeroes: this rdma-target is too old");
		return NULL;
	}
	host = h;
	plugin.size = sizeof(plugin);
	plugin.is_layer = 1;
	plugin.name = "example-zeroes";
	plugin.version = "1";
	plugin.help = "turns writes of zeroes into deallocation";
	plugin.params = params;
	plugin.open = layer_open;
	plugin.close = layer_close;
	plugin.submit = layer_submit;
	return &plugin;
}
