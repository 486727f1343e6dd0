/* SPDX-License-Identifier: BSD-2-Clause */
#define FUSE_USE_VERSION 312
#include "fuse/dev.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <fuse_lowlevel.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "fuse/answer.h"
#include "fuse/reader.h"
#include "fuse/fair_queue.h"
#include "fuse/slots.h"
#include "base/log.h"
#include "base/size.h"

/* With fewer entries in each queue, reading from /dev/fuse is faster. */
#define ENTRIES_GOOD 8u
/* For requests that are read although there are queues. */
#define SLOTS_READ 4u
#define SLOTS_MAX  1024u

#define READ_MAX (512u << 10)

/* linux/fuse.h, flag of FUSE_INIT: FUSE_DIRECT_IO_ALLOW_MMAP (protocol 7.39) */
#define DIRECT_IO_ALLOW_MMAP (1ull << 36)

/* Header and arguments of a request. */
#define REQUEST_HEAD_MAX                 \
	(sizeof(struct fuse_in_header) + \
	 sizeof(((struct uring_headers *)NULL)->args))

enum dev_state {
	DEV_NEW,     /* dev_create(): there is no mount yet */
	DEV_SERVING, /* dev_start(): requests come */
	DEV_STOPPED, /* dev_stop(), or reading failed: only answers leave */
	DEV_CLOSED,  /* dev_close(): the session may end */
};

struct dev {
	struct dev_options options;
	enum dev_state state; /* see dev_set_state() */
	struct reactor *reactor;
	struct fuse_session *se;
	int fd;
	int file; /* the reactor's number for it, -1: none */

	struct slots slots;
	struct fair_queue fair_queue;
	uint8_t *request;	   /* a whole one, for libfuse */
	struct slot *libfuse_slot; /* libfuse has its request; NULL: claimed */
	unsigned int busy;	   /* slots that data.c has */

	struct uring *uring; /* NULL: all requests are read */
	bool uring_agreed;   /* in INIT */
	bool offered_entries;
	struct slot *libfuse_entries; /* entries whose request libfuse has */

	struct reader reader;
	struct answers answers;
	bool ended;	     /* options.ended() was called */
	bool unmounted;	     /* the kernel has unmounted */
	uint64_t init_flags; /* that the kernel's INIT offers */
	bool init_done;
};

/* A device never returns to an earlier state. */
static void dev_set_state(struct dev *dev, enum dev_state state)
{
	assert(state > dev->state);
	dev->state = state;
}

/* A registered file spares the kernel a reference for each operation. */
void dev_prep_file(const struct dev *dev, struct io_uring_sqe *sqe)
{
	if (dev->file < 0)
		return;
	sqe->fd = dev->file;
	sqe->flags |= IOSQE_FIXED_FILE;
}

/* ---- slots of requests ---- */

struct slot *dev_claim(struct dev *dev)
{
	struct slot *slot = dev->libfuse_slot;

	assert(slot);
	dev->libfuse_slot = NULL;
	return slot;
}

/* The slot of an entry belongs to the kernel when the request is answered. */
void dev_release(struct slot *slot)
{
	struct dev *dev = slot->dev;

	dev->busy--;
	slots_request_ended(&dev->slots, slot);
	fair_queue_leave(slot);
	if (!slot->entry.uring)
		slots_put(&dev->slots, slot);
	fair_queue_resume(dev);
}

/* ---- what libfuse sends ---- */

/* Adds flags to the answer of INIT that libfuse 3.14 does not know: mmap() of
 * files with direct I/O, and io_uring. */
static void dev_amend_init(struct dev *dev, const struct iovec *iov, int count)
{
	struct fuse_init_out *out = count > 1 ? iov[1].iov_base : NULL;
	uint64_t wanted = DIRECT_IO_ALLOW_MMAP;

	if (!out || iov[1].iov_len < sizeof(*out) ||
	    !(out->flags & FUSE_INIT_EXT))
		return;
	if (dev->uring)
		wanted |= URING_INIT_FLAG;
	wanted &= dev->init_flags;
	out->flags2 |= (uint32_t)(wanted >> 32);
	dev->uring_agreed = wanted & URING_INIT_FLAG;
}

/* Removes the entry whose request has that number from the list. */
static struct slot *dev_take_libfuse_entry(struct dev *dev, uint64_t unique)
{
	struct slot **p = &dev->libfuse_entries;
	struct slot *slot;

	while (*p && (*p)->request.unique != unique)
		p = &(*p)->next_free;
	slot = *p;
	if (slot)
		*p = slot->next_free;
	return slot;
}

/* Sends an answer of libfuse by an entry. */
static ssize_t dev_answer_entry(struct slot *slot, const struct iovec *iov,
				int count)
{
	const struct fuse_out_header *header = iov[0].iov_base;
	size_t len = 0;

	if (header->len - sizeof(*header) > DEV_ANSWER_MAX) {
		uring_answer(slot, 0, -EIO);
		return header->len;
	}
	for (int i = 1; i < count; i++) {
		memcpy(slot->payload + len, iov[i].iov_base, iov[i].iov_len);
		len += iov[i].iov_len;
	}
	uring_answer(slot, len, header->error);
	return header->len;
}

/* libfuse calls this to write an answer. */
static ssize_t dev_send_for_libfuse(int fd, struct iovec *iov, int count,
				    void *userdata)
{
	const struct fuse_out_header *header = iov[0].iov_base;
	struct dev *dev = userdata;
	struct slot *slot;
	ssize_t n;
	int err;

	if (!dev->init_done) {
		dev->init_done = true;
		dev_amend_init(dev, iov, count);
	}
	slot = dev_take_libfuse_entry(dev, header->unique);
	if (slot)
		return dev_answer_entry(slot, iov, count);
	n = writev(fd, iov, count);
	err = n < 0 ? -errno : 0;
	/* A message without a number is not an answer. */
	if (answer_is_refused(err) && header->unique)
		answer_with_error(dev, header->unique, err);
	errno = -err;
	return n;
}

/* Never called: fuse/reader.c reads the requests. */
static ssize_t dev_no_read(int fd, void *buf, size_t len, void *userdata)
{
	errno = ENOTSUP;
	return -1;
}

static const struct fuse_custom_io dev_custom_io = {
	.writev = dev_send_for_libfuse,
	.read = dev_no_read,
};

/* ---- requests ---- */

/* Gives the slots to the queues, once. */
static void dev_offer_entries(struct dev *dev)
{
	unsigned int cnt = uring_entry_cnt(dev->uring);

	if (dev->offered_entries)
		return;
	dev->offered_entries = true;
	log_info("requests come over io_uring: %u queues of %u",
		 dev->options.queues, cnt / dev->options.queues);
	for (unsigned int i = 0; i < cnt; i++) {
		uring_add(dev->uring, slots_take_for_request(&dev->slots),
			  dev->options.max_write);
	}
}

/* Interrupts are not supported: aborting a command takes about as long as its
 * answer. After ENOSYS, the kernel sends no more of them. */
static void dev_refuse_interrupt(struct dev *dev,
				 const struct fuse_in_header *in)
{
	const struct fuse_out_header out = {
		.len = sizeof(out),
		.error = -ENOSYS,
		.unique = in->unique,
	};

	if (write(dev->fd, &out, sizeof(out)) < 0)
		log_debug("interrupt %llu: %s", (unsigned long long)in->unique,
			  strerror(errno));
}

static void dev_note_init(struct dev *dev, const struct fuse_in_header *in)
{
	const struct fuse_init_in *init = (const void *)(in + 1);

	if (in->len >= sizeof(*in) + sizeof(*init) &&
	    (init->flags & FUSE_INIT_EXT))
		dev->init_flags = init->flags | (uint64_t)init->flags2 << 32;
}

/* Passes the request of @slot to libfuse: @len bytes at dev->request. */
static void dev_pass_to_libfuse(struct dev *dev, struct slot *slot, size_t len)
{
	struct fuse_buf buf = { .size = len, .mem = dev->request };

	dev->libfuse_slot = slot;
	fuse_session_process_buf(dev->se, &buf);
	if (dev->libfuse_slot)
		dev_release(slot);
	dev->libfuse_slot = NULL;
}

/* Handles the request of @len bytes that was read into @slot. */
static void dev_handle_request(struct dev *dev, struct slot *slot, size_t len)
{
	const struct fuse_in_header *in = (const void *)slot->request.headers;

	if (in->opcode == FUSE_INTERRUPT) {
		dev_refuse_interrupt(dev, in);
		dev_release(slot);
		return;
	}
	slot->request.unique = in->unique;
	if (dev->options.request(slot, in))
		return;
	memcpy(dev->request, slot->request.headers, SLOT_HEADERS_LEN);
	if (len > SLOT_HEADERS_LEN)
		memcpy(dev->request + SLOT_HEADERS_LEN, slot->data,
		       len - SLOT_HEADERS_LEN);
	if (in->opcode == FUSE_INIT)
		dev_note_init(dev, (const void *)dev->request);
	dev_pass_to_libfuse(dev, slot, len);
	if (dev->uring_agreed)
		dev_offer_entries(dev);
}

/* An entry has a request. A request that comes after dev_stop() has no answer;
 * the kernel ends it with the mount. */
static void dev_entry_request(struct slot *slot)
{
	const struct fuse_in_header *in = (const void *)slot->request.headers;
	struct dev *dev = slot->dev;
	size_t payload;
	size_t head;

	if (dev->state != DEV_SERVING)
		return;
	dev->busy++;
	uring_head(slot, slot->request.headers, sizeof(slot->request.headers),
		   &payload);
	slot->request.unique = in->unique;
	if (in->opcode == FUSE_WRITE)
		slots_take_payload(&dev->slots, slot, payload);
	if (dev->options.request(slot, in))
		return;
	head = uring_head(slot, dev->request, REQUEST_HEAD_MAX, &payload);
	memcpy(dev->request + head, slot->payload, payload);
	slot->next_free = dev->libfuse_entries;
	dev->libfuse_entries = slot;
	dev_pass_to_libfuse(dev, slot, head + payload);
}

/* If the kernel refuses one entry, it refuses all: fall back to reading. */
static void dev_entry_refused(struct slot *slot, int err)
{
	struct dev *dev = slot->dev;

	if (dev->uring_agreed)
		log_warn("reading requests from /dev/fuse: the kernel does "
			 "not send them over io_uring: %s",
			 strerror(-err));
	dev->uring_agreed = false;
	slots_put(&dev->slots, slot);
}

/* ---- for the reader ---- */

struct reader *dev_reader(struct dev *dev)
{
	return &dev->reader;
}

int dev_fd(const struct dev *dev)
{
	return dev->fd;
}

unsigned int dev_busy(const struct dev *dev)
{
	return dev->busy;
}

struct answers *dev_answers(struct dev *dev)
{
	return &dev->answers;
}

struct reactor *dev_reactor(const struct dev *dev)
{
	return dev->reactor;
}

struct slots *dev_slots(struct dev *dev)
{
	return &dev->slots;
}

struct fair_queue *dev_fair_queue(struct dev *dev)
{
	return &dev->fair_queue;
}

void dev_fail(struct dev *dev)
{
	if (dev)
		fair_queue_close(dev);
}

/* ---- for the reader ---- */

void dev_slot_parts(struct slot *slot, struct iovec parts[2])
{
	parts[0] = (struct iovec){ slot->request.headers,
				   sizeof(slot->request.headers) };
	parts[1] = (struct iovec){ slot->data, slot->dev->options.max_write };
}

void dev_request(struct slot *slot, size_t len)
{
	if (slot->spare)
		slots_use_spare(&slot->dev->slots, slot, len);
	slot->dev->busy++;
	dev_handle_request(slot->dev, slot, len);
}

void dev_failed(struct dev *dev, int err)
{
	dev_stop(dev);
	if (dev->ended)
		return;
	dev->ended = true;
	dev->unmounted = err == -ENODEV;
	dev->options.ended(dev, dev->unmounted ? 0 : err);
}

/* ---- the life of a device ---- */

static int dev_make_request_buffer(struct dev *dev, struct error *e)
{
	dev->request = malloc(REQUEST_HEAD_MAX + dev->options.max_write);
	if (dev->request)
		return 0;
	return error_set(e, -ENOMEM, "out of memory");
}

/* Each queue gets the wanted number of slots: the requests of a program go to
 * the queue of its processor only. */
static void dev_want_queues(struct dev_options *o)
{
	unsigned int cnt = (SLOTS_MAX - SLOTS_READ) / o->queues;

	o->slots = o->queues * (o->slots < cnt ? o->slots : cnt) + SLOTS_READ;
}

/* Divides the slots among the queues. If that is not possible, dev->uring stays
 * NULL, and requests are read. */
static int dev_make_uring(struct dev *dev, struct error *e)
{
	struct dev_options *o = &dev->options;
	const struct uring_options uo = {
		.reactor = dev->reactor,
		.queues = o->queues,
		.entries = (o->slots - SLOTS_READ) / o->queues,
		.request = dev_entry_request,
		.refused = dev_entry_refused,
	};
	int err;

	if (uo.entries < ENTRIES_GOOD) {
		log_info("reading requests from /dev/fuse: memory for %u "
			 "requests is too little for %u queues",
			 o->slots, o->queues);
		return 0;
	}
	err = slots_make_payloads(&dev->slots, o);
	if (err) {
		log_info("reading requests from /dev/fuse: the memory for "
			 "io_uring cannot be mapped: %s",
			 strerror(-err));
		return 0;
	}
	err = uring_create(&uo, &dev->uring);
	return err ? error_set(e, err, "out of memory") : 0;
}

int dev_create(const struct dev_options *options, struct dev **ret_dev,
	       struct error *e)
{
	struct dev *dev = calloc(1, sizeof(*dev));
	char size[SIZE_TEXT_SIZE];
	unsigned int wanted;
	int err;

	if (!dev) {
		return error_set(e, -ENOMEM, "out of memory");
	}
	dev->options = *options;
	dev->reactor = options->reactor;
	dev->fd = -1;
	dev->file = -1;
	fair_queue_init(&dev->fair_queue, options->depth, options->volumes);
	if (options->queues)
		dev_want_queues(&dev->options);
	wanted = dev->options.slots;
	err = slots_open(&dev->slots, &dev->options, dev, e);
	if (!err)
		err = dev_make_request_buffer(dev, e);
	if (!err && options->queues)
		err = dev_make_uring(dev, e);
	if (err) {
		dev_free(dev);
		return err;
	}
	if (dev->options.slots < wanted ||
	    dev->options.max_write < options->max_write)
		log_info("at most %u requests of %s in flight: more memory "
			 "may not be locked for the RDMA device",
			 dev->options.slots,
			 size_format(dev->options.max_write, size));
	*ret_dev = dev;
	return 0;
}

int dev_start(struct dev *dev, struct fuse_session *se)
{
	int err;

	dev->se = se;
	dev->fd = fuse_session_fd(se);
	if (fcntl(dev->fd, F_SETFL, O_NONBLOCK) < 0)
		return -errno;
	err = fuse_session_custom_io(se, &dev_custom_io, dev->fd);
	if (err)
		return err;
	dev_set_state(dev, DEV_SERVING);
	answers_init(&dev->answers);
	if (reactor_file_add(dev->reactor, dev->fd, &dev->file))
		dev->file = -1;
	reader_start(&dev->reader, dev, dev->reactor);
	return 0;
}

void dev_stop(struct dev *dev)
{
	if (dev->state != DEV_SERVING)
		return;
	dev_set_state(dev, DEV_STOPPED);
	slots_stop(&dev->slots);
	reader_stop(&dev->reader);
}

void dev_close(struct dev *dev)
{
	if (!dev || dev->state == DEV_CLOSED)
		return;
	assert(dev->state != DEV_SERVING && dev_idle(dev));
	dev_set_state(dev, DEV_CLOSED);
	if (dev->file >= 0)
		reactor_file_remove(dev->reactor, dev->file);
	uring_close(dev->uring);
	slots_deregister(&dev->slots);
}

void dev_free(struct dev *dev)
{
	if (!dev)
		return;
	dev_close(dev);
	free(dev->request);
	uring_free(dev->uring);
	slots_close(&dev->slots);
	free(dev);
}

bool dev_idle(const struct dev *dev)
{
	/* After the unmount, the kernel ends the commands that wait. */
	if (dev->unmounted && uring_waiting(dev->uring) > 0)
		return false;
	return dev->busy == 0 && reader_idle(&dev->reader);
}

void *dev_user(const struct dev *dev)
{
	return dev->options.user;
}

void *dev_owner(const struct dev *dev)
{
	return dev->options.owner;
}

struct srpi_session *dev_session(const struct dev *dev)
{
	return dev->options.session;
}

struct srpi_mem *dev_mem(const struct dev *dev)
{
	return dev->slots.mem;
}

bool dev_is_ready(const struct dev *dev)
{
	return dev->init_done;
}

bool dev_uses_uring(const struct dev *dev)
{
	return dev->uring_agreed;
}

uint32_t dev_max_write(const struct dev *dev)
{
	return dev->options.max_write;
}

uint32_t dev_max_read(const struct dev *dev)
{
	return dev->options.max_write < READ_MAX ? dev->options.max_write
						 : READ_MAX;
}

unsigned int dev_background(const struct dev *dev)
{
	unsigned int cnt = 2 * dev->options.slots;

	if (dev->uring) {
		cnt = uring_entry_cnt(dev->uring) / dev->options.queues;
		return cnt - cnt / 8;
	}
	return cnt > 256 ? cnt : 256;
}
