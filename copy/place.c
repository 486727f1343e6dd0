/* SPDX-License-Identifier: BSD-2-Clause */
#include "copy/place.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool place_text_is_uri(const char *text)
{
	return !strncmp(text, "srp://", 6) || !strncmp(text, "srp+", 4);
}

int place_open(const struct place_env *env, const char *text,
	       enum place_role role, struct place *other,
	       struct place **ret_place, struct error *e)
{
	if (place_text_is_uri(text))
		return place_open_volume(env, text, role, other, ret_place, e);
	return place_open_file(env, text, role, ret_place, e);
}

void place_close(struct place *p)
{
	if (p)
		p->ops->close(p);
}

bool place_is_same(const struct place *a, const struct place *b)
{
	struct place_identity ia, ib;

	/* Pipes are never the same, because a pipe has no identity. */
	return !place_identify(a, &ia, NULL) && !place_identify(b, &ib, NULL) &&
	       *ia.id && !strcasecmp(ia.id, ib.id);
}

int place_prepare(struct place *p, uint64_t size, bool keeps, struct error *e)
{
	return p->ops->prepare(p, size, keeps, e);
}

int place_set_end(struct place *p, uint64_t size, struct error *e)
{
	return p->ops->set_end(p, size, e);
}

void place_forget(struct place *p)
{
	p->ops->forget(p);
}

void place_submit(struct place_io *io)
{
	io->pos = 0;
	io->is_polling = false;
	io->place->ops->submit(io);
}

bool place_is_running(const struct place *p)
{
	return p->ops->is_running(p);
}

int place_identify(const struct place *p, struct place_identity *ret,
		   struct error *e)
{
	*ret = (struct place_identity){ .mtime = "-", .size = p->size };
	return p->ops->identify(p, ret, e);
}

int place_explain(const struct place_io *io, int res, struct error *e)
{
	static const char *const verbs[] = {
		[PLACE_READ] = "read",
		[PLACE_WRITE] = "write to",
		[PLACE_ZERO] = "zero",
		[PLACE_FLUSH] = "flush",
		[PLACE_EXTENT] = "read the allocation map of",
	};
	char buf[SRPI_ANSWER_SIZE + 640];
	const char *why = io->place->ops->reason(io, res, buf, sizeof(buf));
	enum place_op op = io->op;
	char where[32] = "";

	if (io->place->kind == PLACE_STREAM)
		op = op == PLACE_ZERO ? PLACE_WRITE : op;
	else if (op != PLACE_FLUSH)
		snprintf(where, sizeof(where), " at %" PRIu64, io->offset);
	return error_set(e, res, "cannot %s %s%s: %s", verbs[op],
			 io->place->name, where, why);
}

void place_drop_cache(struct place *p)
{
	p->ops->drop_cache(p);
}
