/* SPDX-License-Identifier: BSD-2-Clause */
/* Volumes of a target, through libsrpi. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/list.h"
#include "base/log.h"
#include "copy/place.h"
#include "copy/progress.h"

/* A session. Two volumes of one target share it: a login with an initiator that the
 * URIs name would end the session of the other volume. */
struct volume_link {
	const struct place_env *env;
	struct srpi_session *session;
	struct srpi_mem *mem;
	unsigned int users;
	enum srpi_state state;
	char why[512]; /* of the present state */
};

struct place_volume {
	struct place place;
	struct volume_link *link;
	unsigned int volume;
	char *tail; /* one block, registered: the old one at the end of a write */
	struct srpi_mem *tail_mem;
};

static struct place_volume *place_volume_of(const struct place *p)
{
	return container_of(p, struct place_volume, place);
}

static const struct srpi_volume_info *place_volume_info(const struct place *p)
{
	const struct place_volume *v = place_volume_of(p);

	return srpi_volume_info(v->link->session, v->volume);
}

/* ---- the session ---- */

static void volume_link_changed(struct srpi_session *s, enum srpi_state state,
				const struct srpi_error *why, void *arg)
{
	struct volume_link *link = arg;
	bool is_new = state != link->state;

	link->state = state;
	snprintf(link->why, sizeof(link->why), "%s", why->text);
	progress_hide();
	if (state == SRPI_RUNNING && why->err)
		log_warn("%s; the copy continues", why->text);
	else if (state == SRPI_RUNNING)
		log_notice("%s; the copy continues", why->text);
	else if (state == SRPI_BLOCKED && is_new)
		log_notice("%s; the copy waits for the connection", why->text);
	else if (state == SRPI_BLOCKED)
		log_info("%s; still trying", why->text);
}

/* After a kill, the target may still have writes of this copy. */
static void volume_link_warn_of_identifier(const struct volume_link *link)
{
	struct srpi_session_info info = { .struct_size = sizeof(info) };

	srpi_session_info(link->session, &info);
	if (*info.purpose_fault)
		log_warn("%s", info.purpose_fault);
}

/* @writes: the destination is there. A copy that was killed may have left writes,
 * which must not be done after those of this one. */
static int volume_link_connect(struct volume_link *link, const char *uri,
			       bool writes, struct error *e)
{
	const struct place_env *env = link->env;
	char purpose[1024];
	const struct srpi_options options = {
		.struct_size = sizeof(options),
		.channels = env->channels,
		.timeout_ms = (unsigned int)env->timeout_ms,
		.fast_io_fail_ms = SRPI_OFF,
		.dev_loss_ms = env->wait_ms,
		.state_changed = volume_link_changed,
		.state_arg = link,
		.purpose = writes ? purpose : NULL,
	};
	struct srpi_error why;

	if (writes)
		snprintf(purpose, sizeof(purpose), "srpcopy %s",
			 env->destination);
	if (srpi_connect_wait(env->ctx, uri, &options, &link->session, &why))
		return error_set(e, why.err, "%s", why.text);
	link->state = SRPI_RUNNING;
	volume_link_warn_of_identifier(link);
	if (srpi_mem_register(link->session, env->mem, env->mem_len, &link->mem,
			      &why))
		return error_set(e, why.err, "%s", why.text);
	return 0;
}

static void volume_link_put(struct volume_link *link)
{
	if (!link || --link->users > 0)
		return;
	if (link->session)
		srpi_close_wait(link->env->ctx, link->session);
	srpi_mem_free(link->mem);
	free(link);
}

/* ---- operations ---- */

static void place_volume_submit(struct place_io *io);

static void place_volume_done(struct srpi_io *srpi, int res)
{
	struct place_io *io = srpi->arg;

	io->got = io->len;
	if (io->op == PLACE_EXTENT) {
		const struct srpi_volume_info *info =
			place_volume_info(io->place);

		/* The blocks of a hole may read as any data. */
		io->is_hole = !srpi->extent_mapped && info->unmap_zeroes;
		io->extent_len =
			srpi->extent_len < io->len ? srpi->extent_len : io->len;
	}
	io->done(io, res);
}

static uint64_t place_round_up(const struct place *p, uint64_t pos)
{
	return (pos + p->block_size - 1) / p->block_size * p->block_size;
}

static void place_volume_write(struct place_io *io)
{
	io->srpi.op = SRPI_WRITE;
	io->srpi.offset = io->offset;
	io->srpi.len = place_round_up(io->place, io->len);
	io->srpi.buf = io->buf;
	io->srpi.mem = place_volume_of(io->place)->link->mem;
	io->srpi.done = place_volume_done;
	srpi_submit(place_volume_of(io->place)->link->session, &io->srpi);
}

static void place_volume_tail_read(struct srpi_io *srpi, int res)
{
	struct place_io *io = srpi->arg;
	const struct place_volume *v = place_volume_of(io->place);
	uint64_t end = place_round_up(io->place, io->len);
	uint64_t rest = io->len % io->place->block_size;

	if (res) {
		io->done(io, res);
		return;
	}
	memcpy(io->buf + io->len, v->tail + rest, end - io->len);
	place_volume_write(io);
}

/* The end of a file may be inside a block: the data of the volume after it
 * stays. */
static void place_volume_read_tail(struct place_io *io)
{
	const struct place_volume *v = place_volume_of(io->place);
	uint32_t block = io->place->block_size;

	io->srpi.op = SRPI_READ;
	io->srpi.offset = io->offset + io->len / block * block;
	io->srpi.len = block;
	io->srpi.buf = v->tail;
	io->srpi.mem = v->tail_mem;
	io->srpi.done = place_volume_tail_read;
	srpi_submit(v->link->session, &io->srpi);
}

static void place_volume_submit(struct place_io *io)
{
	static const enum srpi_op ops[] = {
		[PLACE_READ] = SRPI_READ,	  [PLACE_WRITE] = SRPI_WRITE,
		[PLACE_ZERO] = SRPI_WRITE_ZEROES, [PLACE_FLUSH] = SRPI_FLUSH,
		[PLACE_EXTENT] = SRPI_EXTENT,
	};
	const struct place_volume *v = place_volume_of(io->place);
	bool has_data = io->op == PLACE_READ || io->op == PLACE_WRITE;

	io->srpi = (struct srpi_io){
		.op = ops[io->op],
		.volume = v->volume,
		.offset = io->offset,
		.len = place_round_up(io->place, io->len),
		.buf = has_data ? io->buf : NULL,
		.mem = has_data ? v->link->mem : NULL,
		.discard = true,
		.done = place_volume_done,
		.arg = io,
	};
	if (io->op == PLACE_WRITE && io->len % io->place->block_size)
		place_volume_read_tail(io);
	else
		srpi_submit(v->link->session, &io->srpi);
}

static const char *place_volume_reason(const struct place_io *io, int res,
				       char *buf, size_t len)
{
	const struct volume_link *link = place_volume_of(io->place)->link;
	char answer[SRPI_ANSWER_SIZE];

	if (link->state != SRPI_RUNNING)
		snprintf(buf, len, "%s", link->why);
	else if (srpi_io_answer(&io->srpi, answer))
		snprintf(buf, len, "%s", answer);
	else if (io->op == PLACE_FLUSH && res == -EIO)
		snprintf(buf, len, "the target may have lost written data%s%s",
			 *link->why ? ": " : "", link->why);
	else
		snprintf(buf, len, "%s", strerror(-res));
	return buf;
}

static bool place_volume_is_running(const struct place *p)
{
	return place_volume_of(p)->link->state == SRPI_RUNNING;
}

/* ---- before and after ---- */

static int place_volume_prepare(struct place *p, uint64_t size, bool keeps,
				struct error *e)
{
	struct place_volume *v = place_volume_of(p);
	struct srpi_error why;

	v->tail = aligned_alloc(4096, (p->block_size + 4095) / 4096 * 4096);
	if (!v->tail)
		return error_set(e, -ENOMEM, "out of memory");
	if (srpi_mem_register(v->link->session, v->tail, p->block_size,
			      &v->tail_mem, &why))
		return error_set(e, why.err, "%s", why.text);
	return 0;
}

static int place_volume_set_end(struct place *p, uint64_t size, struct error *e)
{
	return 0;
}

static void place_volume_forget(struct place *p)
{
}

static void place_volume_drop_cache(struct place *p)
{
}

static int place_volume_identify(const struct place *p,
				 struct place_identity *ret, struct error *e)
{
	const struct srpi_volume_info *info = place_volume_info(p);

	if (*info->naa)
		snprintf(ret->id, sizeof(ret->id), "volume %s", info->naa);
	else if (*info->serial)
		snprintf(ret->id, sizeof(ret->id), "volume %s %s %s",
			 info->vendor, info->product, info->serial);
	ret->size = info->size;
	return 0;
}

static void place_volume_close(struct place *p)
{
	struct place_volume *v = place_volume_of(p);

	volume_link_put(v->link);
	srpi_mem_free(v->tail_mem);
	free(v->tail);
	free(v);
}

static const struct place_ops place_volume_ops = {
	.submit = place_volume_submit,
	.prepare = place_volume_prepare,
	.set_end = place_volume_set_end,
	.forget = place_volume_forget,
	.drop_cache = place_volume_drop_cache,
	.identify = place_volume_identify,
	.is_running = place_volume_is_running,
	.reason = place_volume_reason,
	.close = place_volume_close,
};

/* ---- opening ---- */

/* Returns the position of the volume in a URI: its '/', or the place for
 * one. */
static size_t place_uri_volume(const char *uri, size_t *ret_len)
{
	const char *host = strstr(uri, "://");
	const char *at = (host ? host + 3 : uri);

	at += strcspn(at, "/?");
	*ret_len = *at == '/' ? strcspn(at, "?") : 0;
	return (size_t)(at - uri);
}

static bool place_is_same_target(const char *a, const char *b)
{
	size_t a_len, b_len;
	size_t a_at = place_uri_volume(a, &a_len);
	size_t b_at = place_uri_volume(b, &b_len);

	return a_at == b_at && !strncmp(a, b, a_at) &&
	       !strcmp(a + a_at + a_len, b + b_at + b_len);
}

static int place_volume_link(struct place_volume *v, struct place *other,
			     struct error *e)
{
	const struct place_env *env = v->place.env;
	bool writes;

	if (other && other->kind == PLACE_VOLUME &&
	    place_is_same_target(other->name, v->place.name)) {
		v->link = place_volume_of(other)->link;
		v->link->users++;
		return 0;
	}
	v->link = calloc(1, sizeof(*v->link));
	if (!v->link)
		return error_set(e, -ENOMEM, "out of memory");
	v->link->env = env;
	v->link->users = 1;
	writes = env->destination &&
		 place_is_same_target(v->place.name, env->destination);
	return volume_link_connect(v->link, v->place.name, writes, e);
}

static void place_volume_names(const struct srpi_session *s, char *buf,
			       size_t len)
{
	size_t at = 0;

	snprintf(buf, len, "none");
	for (unsigned int i = 0; i < srpi_volume_cnt(s) && at < len; i++)
		at += (size_t)snprintf(buf + at, len - at, "%s%s",
				       at ? ", " : "",
				       srpi_volume_info(s, i)->name);
}

/* Chooses the volume that the URI names, or the only one. */
static int place_volume_choose(struct place_volume *v, struct error *e)
{
	struct srpi_session *s = v->link->session;
	struct srpi_uri uri = { .struct_size = sizeof(uri) };
	struct srpi_error why;
	char names[256];

	if (srpi_uri_parse(v->place.name, &uri, &why))
		return error_set(e, why.err, "%s", why.text);
	place_volume_names(s, names, sizeof(names));
	if (*uri.volume && srpi_volume_find(s, uri.volume, &v->volume))
		return error_set(e, -ENOENT,
				 "no volume '%s' at %s; the target has: %s",
				 uri.volume, v->place.name, names);
	if (!*uri.volume && srpi_volume_cnt(s) != 1)
		return error_set(e, -ENOENT,
				 "%s names no volume, as in "
				 "srp://HOST/VOLUME; the target has: %s",
				 v->place.name, names);
	return 0;
}

static int place_volume_setup(struct place_volume *v, struct place *other,
			      struct error *e)
{
	const struct srpi_volume_info *info;
	int err = place_volume_link(v, other, e);

	if (!err)
		err = place_volume_choose(v, e);
	if (err)
		return err;
	info = place_volume_info(&v->place);
	if (v->place.role == PLACE_DESTINATION && info->read_only)
		return error_set(e, -EROFS, "%s is read-only", v->place.name);
	v->place.kind = PLACE_VOLUME;
	v->place.size_known = true;
	v->place.size = info->size;
	v->place.block_size = info->block_size;
	return 0;
}

int place_open_volume(const struct place_env *env, const char *text,
		      enum place_role role, struct place *other,
		      struct place **ret_place, struct error *e)
{
	struct place_volume *v = calloc(1, sizeof(*v));
	int err;

	if (!v)
		return error_set(e, -ENOMEM, "out of memory");
	v->place = (struct place){
		.ops = &place_volume_ops, .env = env, .name = text, .role = role
	};
	err = place_volume_setup(v, other, e);
	if (err) {
		place_volume_close(&v->place);
		return err;
	}
	*ret_place = &v->place;
	return 0;
}
