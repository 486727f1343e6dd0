/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/uring.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "fuse/dev.h"
#include "base/log.h"

#define ENABLED	 "/sys/module/fuse/parameters/enable_uring"
#define POSSIBLE "/sys/devices/system/cpu/possible"

struct uring {
	struct uring_options options;
	struct uring_headers *headers;
	unsigned int added;
	unsigned int waiting;
	bool closed; /* uring_close() */
	struct log_limit limit;
};

/* ---- what the kernel offers ---- */

static bool uring_read_line(const char *path, char *buf, int size)
{
	FILE *f = fopen(path, "re");
	bool ok = f && fgets(buf, size, f);

	if (f)
		fclose(f);
	return ok;
}

unsigned int uring_list_cnt(const char *text)
{
	unsigned long first;
	unsigned long last;
	unsigned int cnt = 0;
	char *end;

	for (;; text = end + 1) {
		first = last = strtoul(text, &end, 10);
		if (end == text)
			return 0;
		if (*end == '-') {
			text = end + 1;
			last = strtoul(text, &end, 10);
			if (end == text || last < first)
				return 0;
		}
		cnt += (unsigned int)(last - first + 1);
		if (*end != ',')
			return *end == '\n' ? cnt : 0;
	}
}

unsigned int uring_queues(void)
{
	char line[256];

	if (!uring_read_line(ENABLED, line, sizeof(line)) || line[0] != 'Y')
		return 0;
	/* The kernel needs one for each processor that may be added later, too:
	 * with fewer, requests wait without limit. */
	return uring_read_line(POSSIBLE, line, sizeof(line))
		       ? uring_list_cnt(line)
		       : 0;
}

/* ---- commands ---- */

static struct slot *uring_slot(struct uring_entry *e)
{
	return container_of(e, struct slot, entry);
}

/* The kernel ends all entries with these errors when the mount ends. */
static bool uring_is_end(int err)
{
	return err == -ENOTCONN || err == -ECONNABORTED || err == -ECANCELED;
}

static void uring_failed(struct uring_entry *e, int err)
{
	struct uring *u = e->uring;
	unsigned int dropped;

	if (!e->accepted && !uring_is_end(err)) {
		e->uring = NULL;
		u->options.refused(uring_slot(e), err);
		return;
	}
	if (!uring_is_end(err) && log_limit_pass(&u->limit, 10, &dropped))
		log_error("the kernel refused an answer: %s", strerror(-err));
}

static void uring_entry_done(struct reactor_op *op, int res, unsigned int flags)
{
	struct uring_entry *e = container_of(op, struct uring_entry, op);

	e->uring->waiting--;
	if (e->uring->closed)
		return;
	if (res < 0) {
		uring_failed(e, res);
		return;
	}
	e->accepted = true;
	e->uring->options.request(uring_slot(e));
}

static struct io_uring_sqe *uring_prep(struct uring_entry *e, uint32_t command,
				       uint64_t commit_id)
{
	const struct uring_cmd cmd = {
		.commit_id = commit_id,
		.queue = e->queue,
	};
	struct uring *u = e->uring;
	struct io_uring_sqe *sqe = reactor_sqe(u->options.reactor);

	memset(sqe, 0, sizeof(*sqe));
	sqe->opcode = IORING_OP_URING_CMD;
	sqe->fd = dev_fd(uring_slot(e)->dev);
	dev_prep_file(uring_slot(e)->dev, sqe);
	sqe->cmd_op = command;
	memcpy((uint8_t *)sqe + offsetof(struct io_uring_sqe, cmd), &cmd,
	       sizeof(cmd));
	reactor_prep_done(sqe, &e->op);
	u->waiting++;
	return sqe;
}

void uring_add(struct uring *u, struct slot *slot, size_t len)
{
	struct uring_entry *e = &slot->entry;
	struct io_uring_sqe *sqe;

	assert(u->added < uring_entry_cnt(u));
	e->uring = u;
	e->headers = &u->headers[u->added];
	/* In turn: the queues then differ by at most one entry. */
	e->queue = (uint16_t)(u->added++ % u->options.queues);
	e->op.done = uring_entry_done;
	e->parts[0] = (struct iovec){ e->headers, sizeof(*e->headers) };
	e->parts[1] = (struct iovec){ slot->payload, len };
	sqe = uring_prep(e, URING_REGISTER, 0);
	sqe->addr = (uintptr_t)e->parts;
	sqe->len = 2;
}

/* ---- requests and answers ---- */

size_t uring_head(const struct slot *slot, void *buf, size_t max,
		  size_t *ret_payload)
{
	const struct uring_headers *h = slot->entry.headers;
	const struct fuse_in_header *in = (const void *)h->in_out;
	size_t head = in->len - h->payload_len;
	size_t args = head - sizeof(*in);

	if (args > max - sizeof(*in))
		args = max - sizeof(*in);
	if (args > sizeof(h->args))
		args = sizeof(h->args);
	memcpy(buf, in, sizeof(*in));
	memcpy((uint8_t *)buf + sizeof(*in), h->args, args);
	*ret_payload = h->payload_len;
	return sizeof(*in) + args;
}

void uring_answer(struct slot *slot, size_t len, int err)
{
	struct uring_headers *h = slot->entry.headers;
	const struct fuse_out_header out = {
		.len = (uint32_t)(sizeof(out) + len),
		.error = err,
		.unique = slot->request.unique,
	};

	memcpy(h->in_out, &out, sizeof(out));
	h->payload_len = (uint32_t)len;
	uring_prep(&slot->entry, URING_COMMIT_AND_FETCH, h->commit_id);
}

/* ---- life ---- */

int uring_create(const struct uring_options *options, struct uring **ret)
{
	size_t cnt = (size_t)options->queues * options->entries;
	struct uring *u = calloc(1, sizeof(*u));

	if (!u)
		return -ENOMEM;
	u->options = *options;
	u->headers = calloc(cnt, sizeof(*u->headers));
	if (!u->headers) {
		free(u);
		return -ENOMEM;
	}
	*ret = u;
	return 0;
}

void uring_close(struct uring *u)
{
	if (u)
		u->closed = true;
}

void uring_free(struct uring *u)
{
	if (!u)
		return;
	free(u->headers);
	free(u);
}

unsigned int uring_entry_cnt(const struct uring *u)
{
	return u->options.queues * u->options.entries;
}

unsigned int uring_waiting(const struct uring *u)
{
	return u ? u->waiting : 0;
}
