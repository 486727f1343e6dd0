/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/answer.h"

#include <errno.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#include "fuse/dev.h"
#include "fuse/reader.h"
#include "fuse/slots.h"
#include "fuse/tree.h"

/* The copy of an answer's data into /dev/fuse takes longer the larger the answer is.
 * From this size on, a thread of the kernel makes it, and this thread goes on with
 * the next answer meanwhile. With fewer processors, the two threads take the
 * processor from each other, and large reads get slower
 * (docs/evidence/performance.md). */
#define HANDED_MIN	  (192u << 10)
#define HANDED_PROCESSORS 4

void answers_init(struct answers *a)
{
	*a = (struct answers){ .by_ring = true, .handed_min = SIZE_MAX };
	if (reactor_processors() >= HANDED_PROCESSORS)
		a->handed_min = HANDED_MIN;
}

/* ENOENT: the program does not wait any more. ENODEV: unmounted. */
bool answer_is_refused(int err)
{
	return err < 0 && err != -ENOENT && err != -ENODEV;
}

/* Without an answer, the program would wait without limit. */
void answer_with_error(struct dev *dev, uint64_t unique, int err)
{
	const struct fuse_out_header out = {
		.len = sizeof(out),
		.error = -EIO,
		.unique = unique,
	};
	unsigned int dropped;

	if (log_limit_pass(&dev_answers(dev)->limit, 10, &dropped))
		log_error("the kernel refused an answer: %s; the program gets "
			  "an I/O error",
			  strerror(-err));
	if (write(dev_fd(dev), &out, sizeof(out)) < 0)
		log_debug("the kernel refused the I/O error, too: %s",
			  strerror(errno));
}

static void answer_sent(struct slot *slot, int res)
{
	if (answer_is_refused(res))
		answer_with_error(slot->dev, slot->request.unique, res);
	dev_release(slot);
}

static void answer_write_now(struct slot *slot)
{
	ssize_t n = writev(dev_fd(slot->dev), slot->transfer.parts, 2);

	answer_sent(slot, n < 0 ? -errno : 0);
}

static void answer_write_done(struct reactor_op *op, int res,
			      unsigned int flags)
{
	struct slot *slot = container_of(op, struct slot, transfer.op);

	/* Before Linux 6.9, the kernel needs a thread of its own for this. */
	if (res == -EAGAIN || res == -EOPNOTSUPP) {
		dev_answers(slot->dev)->by_ring = false;
		answer_write_now(slot);
		return;
	}
	/* The kernel could not make a thread (RLIMIT_NPROC, pids.max). */
	if (res == -ECANCELED) {
		dev_answers(slot->dev)->handed_min = SIZE_MAX;
		answer_write_now(slot);
		return;
	}
	reader_use_ring(dev_reader(slot->dev));
	answer_sent(slot, res);
}

/* Prepares a write to /dev/fuse: the header, and @len bytes at @p. */
static void answer_make_parts(struct slot *slot, void *p, size_t len, int err)
{
	slot->answer.header = (struct fuse_out_header){
		.len = (uint32_t)(sizeof(slot->answer.header) + len),
		.error = err,
		.unique = slot->request.unique,
	};
	slot->transfer.parts[0] = (struct iovec){ &slot->answer.header,
						  sizeof(slot->answer.header) };
	slot->transfer.parts[1] = (struct iovec){ p, len };
}

static void answer_write_by_ring(struct slot *slot)
{
	struct dev *dev = slot->dev;
	struct io_uring_sqe *sqe = reactor_sqe(dev_reactor(dev));

	io_uring_prep_writev(sqe, dev_fd(dev), slot->transfer.parts,
			     slot->transfer.parts[1].iov_len ? 2 : 1, 0);
	if (slot->transfer.parts[1].iov_len >= dev_answers(dev)->handed_min)
		sqe->flags |= IOSQE_ASYNC;
	else
		dev_prep_file(dev, sqe);
	slot->transfer.op.done = answer_write_done;
	reactor_prep_done(sqe, &slot->transfer.op);
}

/* All answers to requests for data: an error, or the @len bytes at @p, which is
 * slot->data or in slot->answer. */
static void answer_send(struct slot *slot, void *p, size_t len, int err)
{
	struct dev *dev = slot->dev;

	if (slot->file && slot->file->meter)
		file_meter_end(slot, err);
	if (slot->entry.uring) {
		slots_show_kernel(dev_slots(dev), slot, p, len);
		uring_answer(slot, len, err);
		dev_release(slot);
		return;
	}
	answer_make_parts(slot, p, len, err);
	if (dev_answers(dev)->by_ring)
		answer_write_by_ring(slot);
	else
		answer_write_now(slot);
}

void answer_error(struct slot *slot, int err)
{
	answer_send(slot, slot->data, 0, err);
}

void answer_data(struct slot *slot, uint32_t len)
{
	answer_send(slot, slot->data, len, 0);
}

void answer_written(struct slot *slot, uint32_t len)
{
	slot->answer.write = (struct fuse_write_out){ .size = len };
	answer_send(slot, &slot->answer.write, sizeof(slot->answer.write), 0);
}

void answer_position(struct slot *slot, uint64_t pos)
{
	slot->answer.lseek = (struct fuse_lseek_out){ .offset = pos };
	answer_send(slot, &slot->answer.lseek, sizeof(slot->answer.lseek), 0);
}
