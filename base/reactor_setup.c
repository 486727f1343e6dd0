/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/reactor_internal.h"

#include <assert.h>
#include <errno.h>
#include <limits.h>

/* Operations that the reactor itself needs. */
static const uint8_t own_ops[] = {
	IORING_OP_NOP,	   IORING_OP_POLL_ADD,	     IORING_OP_ASYNC_CANCEL,
	IORING_OP_TIMEOUT, IORING_OP_TIMEOUT_REMOVE,
};

/* Calls of io_uring_register() after the ring is enabled. The last ones came
 * with Linux 5.13 and 5.18; older kernels do not know their numbers. */
static const uint8_t register_ops[] = {
	IORING_UNREGISTER_BUFFERS,	IORING_UNREGISTER_FILES,
	IORING_REGISTER_FILES_UPDATE,	IORING_REGISTER_ENABLE_RINGS,
	IORING_REGISTER_BUFFERS_UPDATE, IORING_REGISTER_RING_FDS,
	IORING_UNREGISTER_RING_FDS,
};

/* Links and the like are flags of an entry, and affect only that entry. */
#define ANY_SQE_FLAGS UINT8_MAX

/* The ring is still disabled. Once enabled, it takes only these operations. */
int reactor_ring_restrict(struct reactor *r, const struct reactor_options *opt)
{
	struct io_uring_restriction res[UINT8_MAX];
	unsigned int cnt = 0;
	int err;

	assert(opt->op_cnt <= UINT8_MAX / 2);
	res[cnt++] = (struct io_uring_restriction){
		.opcode = IORING_RESTRICTION_SQE_FLAGS_ALLOWED,
		.sqe_flags = ANY_SQE_FLAGS,
	};
	for (size_t i = 0; i < ARRAY_SIZE(own_ops); i++)
		res[cnt++] = (struct io_uring_restriction){
			.opcode = IORING_RESTRICTION_SQE_OP,
			.sqe_op = own_ops[i],
		};
	for (unsigned int i = 0; i < opt->op_cnt; i++)
		res[cnt++] = (struct io_uring_restriction){
			.opcode = IORING_RESTRICTION_SQE_OP,
			.sqe_op = opt->ops[i],
		};
	for (size_t i = 0; i < ARRAY_SIZE(register_ops); i++)
		res[cnt++] = (struct io_uring_restriction){
			.opcode = IORING_RESTRICTION_REGISTER_OP,
			.register_op = register_ops[i],
		};
	do {
		err = io_uring_register((unsigned int)r->ring.ring_fd,
					IORING_REGISTER_RESTRICTIONS, res, cnt);
	} while (err == -EINVAL &&
		 res[--cnt].register_op >= IORING_REGISTER_BUFFERS_UPDATE);
	return err;
}

/*
 * What may block, io_uring gives to threads. For regular files and block devices, it has
 * at most four of them for each processor. One store that hangs would keep all, and the
 * others of this ring wait. So each operation may have its own, as those on sockets may:
 * the kernel makes one only if all that it has are blocked. Linux before 5.15 cannot.
 */
static void reactor_ring_unbind_threads(struct reactor *r)
{
	unsigned int max[2] = { INT_MAX, 0 /* stays */ };

	io_uring_register_iowq_max_workers(&r->ring, max);
}

int reactor_ring_init(struct reactor *r, const struct reactor_options *opt)
{
	static const unsigned int flags[] = {
		[REACTOR_DEFER] =
			IORING_SETUP_SINGLE_ISSUER |
			IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG |
			IORING_SETUP_R_DISABLED | IORING_SETUP_SUBMIT_ALL,
		[REACTOR_COOP] = IORING_SETUP_COOP_TASKRUN |
				 IORING_SETUP_TASKRUN_FLAG |
				 IORING_SETUP_SUBMIT_ALL,
		[REACTOR_PLAIN] = 0,
	};
	unsigned int entries = opt->ring_entries ? opt->ring_entries : 256;
	enum reactor_mode mode = opt->mode;
	struct io_uring_params p;
	int err;

	/* A deferred completion does not wake a thread in poll() on the ring
	 * (Linux 6.3 and later; poll() sees it only if it came before). */
	if (opt->pollable && mode == REACTOR_DEFER)
		mode = REACTOR_COOP;
	do {
		/* Room for the completions of many turns. An overflow would
		 * cost memory and end multishot operations. */
		p = (struct io_uring_params){
			.flags = flags[mode] | IORING_SETUP_CQSIZE |
				 IORING_SETUP_CLAMP |
				 (opt->wide ? IORING_SETUP_SQE128 : 0) |
				 (opt->ops ? IORING_SETUP_R_DISABLED : 0),
			.cq_entries = 8 * entries,
		};
		err = io_uring_queue_init_params(entries, &r->ring, &p);
	} while (err == -EINVAL && ++mode < ARRAY_SIZE(flags));
	if (err)
		return err;
	if ((p.features & IORING_FEAT_EXT_ARG) &&
	    (p.features & IORING_FEAT_NODROP)) {
		r->enabled = !(p.flags & IORING_SETUP_R_DISABLED);
		r->polls_first = mode != REACTOR_PLAIN;
		reactor_ring_unbind_threads(r);
		return 0;
	}
	io_uring_queue_exit(&r->ring);
	return -ENOSYS;
}

const char *reactor_create_hint(int err)
{
	switch (err) {
	case -EMFILE:
		return "; raise the limit of open files (ulimit -n)";
	/* Linux before 5.12, and 6.18, count rings as locked memory. */
	case -ENOMEM:
		return "; raise the limit of locked memory (ulimit -l), which "
		       "all processes of a user share";
	case -EPERM:
	case -ENOSYS:
		return "; it is forbidden here: see /proc/sys/kernel/"
		       "io_uring_disabled, or what a container may call";
	default:
		return "";
	}
}
