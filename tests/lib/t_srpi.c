/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_srpi.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct srpi_mem {
	struct srpi_session *session;
	uint8_t *addr;
	size_t len;
};

/* ---- operations ---- */

/* What srpi_io.priv holds. */
struct op {
	struct srpi_session *session;
	int err; /* the operation fails with it */
	bool refused;
	struct ini_range range; /* of a write */
};

_Static_assert(sizeof(struct op) <= sizeof(((struct srpi_io *)0)->priv), "");

static struct op *op_of(struct srpi_io *io)
{
	return (struct op *)(void *)io->priv;
}

static void mark(struct srpi_session *s, const struct srpi_io *io, bool mapped)
{
	uint32_t bs = s->info.block_size;

	memset(s->mapped + io->offset / bs, mapped, io->len / bs);
}

static void tell_extent(struct srpi_session *s, struct srpi_io *io)
{
	uint64_t first = io->offset / s->info.block_size;
	uint64_t end = (io->offset + io->len) / s->info.block_size;
	uint64_t b = first;

	while (b < end && s->mapped[b] == s->mapped[first])
		b++;
	io->extent_mapped = s->mapped[first];
	io->extent_len = (b - first) * s->info.block_size;
}

static void execute(struct srpi_session *s, struct srpi_io *io)
{
	uint8_t *p = s->disk + io->offset;

	switch (io->op) {
	case SRPI_READ:
		memcpy(io->buf, p, io->len);
		break;
	case SRPI_WRITE:
		memcpy(p, io->buf, io->len);
		mark(s, io, true);
		break;
	case SRPI_DISCARD:
	case SRPI_WRITE_ZEROES:
		memset(p, 0, io->len);
		mark(s, io, io->op == SRPI_WRITE_ZEROES && !io->discard);
		break;
	case SRPI_EXTENT:
		tell_extent(s, io);
		break;
	case SRPI_FLUSH:
		break;
	}
}

static void write_down(struct srpi_session *s, const struct srpi_io *io)
{
	static const char letters[] = { 'R', 'W', 'F', 'D', 'Z', 'E' };
	size_t len = strlen(s->log);
	char text[64] = "F";

	if (io->op != SRPI_FLUSH)
		snprintf(text, sizeof(text), "%c%llu@%llu%s%s", letters[io->op],
			 (unsigned long long)io->len,
			 (unsigned long long)io->offset, io->fua ? "!" : "",
			 io->op == SRPI_WRITE_ZEROES && io->discard ? "d" : "");
	snprintf(s->log + len, sizeof(s->log) - len, "%s%s", len ? " " : "",
		 text);
}

/* Mistakes of the caller, which libsrpi would refuse. */
static void check(const struct srpi_session *s, const struct srpi_io *io)
{
	const uint8_t *buf = io->buf;

	assert(io->volume == 0);
	assert(io->offset % s->info.block_size == 0);
	assert(io->len % s->info.block_size == 0);
	assert(io->offset + io->len <= s->info.size);
	if (io->op != SRPI_READ && io->op != SRPI_WRITE)
		return;
	assert(io->mem && buf >= io->mem->addr &&
	       buf + io->len <= io->mem->addr + io->mem->len);
}

static void answer(struct reactor_msg *msg)
{
	struct srpi_session *s = container_of(msg, struct srpi_session, msg);
	struct srpi_io *ios[T_SRPI_OPS];
	unsigned int cnt = s->waiting_cnt;
	const struct srpi_mem *mem;

	s->msg_sent = false;
	if (s->hold)
		return;
	memcpy(ios, s->waiting, sizeof(ios));
	s->waiting_cnt = 0;
	for (unsigned int i = 0; i < cnt; i++) {
		struct op *op = op_of(ios[i]);

		if (!op->err)
			execute(s, ios[i]);
		mem = ios[i]->mem;
		if (op->range.held)
			ini_range_give_back(&s->ranges, &op->range);
		ios[i]->done(ios[i], op->err);
		if (s->hostile && mem)
			memset(mem->addr, 0xff, mem->len);
	}
}

static void answer_soon(struct srpi_session *s)
{
	if (s->msg_sent || s->hold || s->waiting_cnt == 0)
		return;
	s->msg_sent = true;
	reactor_send(s->reactor, &s->msg);
}

static void submit_now(struct srpi_session *s, struct srpi_io *io)
{
	struct op *op = op_of(io);

	write_down(s, io);
	s->cnt++;
	op->err = s->cnt == s->fail_nth ? s->fail_err : 0;
	op->refused = s->state != SRPI_RUNNING;
	assert(s->waiting_cnt < T_SRPI_OPS);
	s->waiting[s->waiting_cnt++] = io;
	answer_soon(s);
}

static void op_range_taken(struct ini_range *range)
{
	struct op *op = container_of(range, struct op, range);

	submit_now(op->session, container_of((uint64_t *)(void *)op,
					     struct srpi_io, priv[0]));
}

void srpi_submit(struct srpi_session *s, struct srpi_io *io)
{
	struct op *op = op_of(io);
	bool is_write = io->op == SRPI_WRITE || io->op == SRPI_DISCARD ||
			io->op == SRPI_WRITE_ZEROES;

	check(s, io);
	*op = (struct op){ .session = s,
			   .range = { .begin = io->offset,
				      .end = io->offset + io->len,
				      .taken = op_range_taken } };
	if (!is_write || !io->len || ini_range_take(&s->ranges, &op->range))
		submit_now(s, io);
}

/* ---- ranges: srpi_range.priv holds struct ini_range ---- */

static struct ini_range *range_of(struct srpi_range *range)
{
	return (struct ini_range *)(void *)range->priv;
}

static void program_range_taken(struct ini_range *range)
{
	struct srpi_range *r = container_of((uint64_t *)(void *)range,
					    struct srpi_range, priv[0]);

	r->taken(r);
}

bool srpi_range_take(struct srpi_session *s, struct srpi_range *range)
{
	assert(range->volume == 0 && range->len);
	*range_of(range) =
		(struct ini_range){ .begin = range->offset,
				    .end = range->offset + range->len,
				    .taken = program_range_taken };
	return ini_range_take(&s->ranges, range_of(range));
}

void srpi_range_submit(struct srpi_session *s, struct srpi_range *range,
		       struct srpi_io *io)
{
	assert(range_of(range)->held && io->offset >= range->offset &&
	       io->offset + io->len <= range->offset + range->len);
	check(s, io);
	*op_of(io) = (struct op){ .session = s };
	submit_now(s, io);
}

void srpi_range_give_back(struct srpi_session *s, struct srpi_range *range)
{
	ini_range_give_back(&s->ranges, range_of(range));
}

bool srpi_io_answer(const struct srpi_io *io, char buf[SRPI_ANSWER_SIZE])
{
	return false;
}

bool srpi_io_refused(const struct srpi_io *io)
{
	return ((const struct op *)(const void *)io->priv)->refused;
}

void t_srpi_let_go(struct srpi_session *s)
{
	s->hold = false;
	answer_soon(s);
}

void t_srpi_reset(struct srpi_session *s)
{
	s->log[0] = '\0';
	s->cnt = 0;
	s->fail_nth = 0;
}

void t_srpi_fail(struct srpi_session *s, unsigned int nth, int err)
{
	s->fail_nth = nth;
	s->fail_err = err;
}

/* ---- other functions ---- */

enum srpi_state srpi_session_state(const struct srpi_session *s)
{
	return s->state;
}

void srpi_session_info(const struct srpi_session *s,
		       struct srpi_session_info *ret_info)
{
	*ret_info = (struct srpi_session_info){
		.struct_size = ret_info->struct_size,
		.transport = "memory",
		.peer = "here",
		.initiator = "me",
		.channels = 1,
		.volume = s->wanted ? s->wanted : "",
		.purpose_fault = s->purpose_fault ? s->purpose_fault : "",
		.not_ready = "",
	};
}

unsigned int srpi_path_cnt(const struct srpi_session *s)
{
	return 1;
}

void srpi_path_info(const struct srpi_session *s, unsigned int path,
		    struct srpi_path_info *ret_info)
{
	*ret_info = (struct srpi_path_info){
		.struct_size = sizeof(*ret_info),
		.address = "nowhere:1",
		.state = SRPI_PATH_IN_USE,
		.why = "",
	};
}

const char *srpi_path_state_name(enum srpi_path_state state)
{
	return "in use";
}

void srpi_session_stats(const struct srpi_session *s,
			struct srpi_session_stats *ret_stats)
{
	*ret_stats = s->stats;
	ret_stats->struct_size = sizeof(*ret_stats);
	ret_stats->commands = s->cnt;
}

unsigned int srpi_volume_cnt(const struct srpi_session *s)
{
	return s->volumes;
}

/* Only of "srp://HOST/VOLUME". */
int srpi_uri_parse(const char *text, struct srpi_uri *ret_uri,
		   struct srpi_error *e)
{
	const char *slash = strchr(text + strlen("srp://"), '/');

	snprintf(ret_uri->volume, sizeof(ret_uri->volume), "%s",
		 slash ? slash + 1 : "");
	return 0;
}

int srpi_volume_find(const struct srpi_session *s, const char *name_or_lun,
		     unsigned int *ret_volume)
{
	*ret_volume = 0;
	return strcmp(name_or_lun, s->info.name) ? -ENOENT : 0;
}

const struct srpi_volume_info *srpi_volume_info(const struct srpi_session *s,
						unsigned int volume)
{
	return &s->info;
}

enum srpi_state srpi_volume_state(const struct srpi_session *s,
				  unsigned int volume)
{
	return srpi_session_state(s);
}

void srpi_volume_forget(struct srpi_session *s, unsigned int volume)
{
	s->forgotten++;
}

int srpi_mem_register(struct srpi_session *s, void *addr, size_t len,
		      struct srpi_mem **ret_mem, struct srpi_error *e)
{
	struct srpi_mem *mem = calloc(1, sizeof(*mem));

	mem->session = s;
	mem->addr = addr;
	mem->len = len;
	s->regions++;
	*ret_mem = mem;
	return 0;
}

void srpi_mem_free(struct srpi_mem *mem)
{
	if (mem)
		mem->session->regions--;
	free(mem);
}

struct srpi_session *t_srpi_new(struct reactor *r, uint64_t size,
				uint32_t block_size)
{
	struct srpi_session *s = calloc(1, sizeof(*s));

	s->reactor = r;
	s->msg.run = answer;
	ini_ranges_init(&s->ranges);
	s->state = SRPI_RUNNING;
	s->volumes = 1;
	s->stats.last_error = "";
	s->info = (struct srpi_volume_info){
		.name = "disk",
		.size = size,
		.block_size = block_size,
		.physical_block_size = block_size,
		.write_cache = true,
		.fua = true,
		.unmap = true,
		.unmap_zeroes = true,
	};
	s->disk = calloc(1, size);
	s->mapped = calloc(1, size / block_size);
	return s;
}

void t_srpi_free(struct srpi_session *s)
{
	assert(s->waiting_cnt == 0 && s->regions == 0);
	free(s->disk);
	free(s->mapped);
	free(s);
}
