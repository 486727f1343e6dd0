/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A Ceph cluster with one pool and one image: the functions of librados and librbd
 * that plugins/rbd/ calls. Link it in place of the two libraries. There is one
 * cluster, t_ceph; the test owns it and sets its members, also while it is in use.
 *
 *   fail    One function fails, or all of them, because the client is fenced.
 *   log     Settings and I/O, a line each, as the plugin asks for them.
 *   opened  Clients, pools, images, watches and operations: 0 when all are closed.
 *   say     The test answers with extents and the omap, and is the other gateways.
 *
 * I/O ends at once, in the call that begins it. Threads: members that two threads
 * use are atomic; the others change only while the plugin does nothing.
 */
#ifndef TESTS_LIB_T_CEPH_H
#define TESTS_LIB_T_CEPH_H

#include <rados/librados.h>
#include <rbd/librbd.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define T_CEPH_LOG_LEN 1024
#define T_CEPH_PIECES  4
#define T_CEPH_OWNER   "this client"

/* The bytes of the image that are in one object. */
#define T_CEPH_OBJECT_LEN 4096u

/* A piece of an image with data, or without. One of length 0 ends a list. */
struct t_ceph_piece {
	uint64_t offset;
	uint64_t len;
	int exists;
};

/* A key of the omap. */
struct t_ceph_pair {
	const char *key;
	const char *val;
	size_t len; /* of val; 0: that of the text */
};

struct t_ceph {
	/* ---- fail ---- */
	/* This function fails with err; NULL: none. "begin" is the begin of an
	 * I/O, "answer" its end, and the name of a setting its change. */
	const char *_Atomic failing;
	atomic_int err;	    /* -EIO at first */
	atomic_bool fenced; /* the client is on the blocklist: -ESHUTDOWN */
	/* It does not say whether an object is there. */
	atomic_bool is_silent;
	bool is_slow; /* t_ceph_answer() answers rados_aio_stat() */
	bool is_deaf; /* the owner of the lock does not answer news */

	/* ---- the image ---- */
	uint64_t size;
	const char *id;
	uint64_t parent_bytes; /* that a clone has in common with it */
	bool has_cache;
	bool has_log;	   /* writes are kept on a disk of this machine first */
	bool has_no_fence; /* its metadata turns the blocklist off */
	const struct t_ceph_piece *by_object;
	const struct t_ceph_piece *by_byte;
	const struct t_ceph_piece *zeroes; /* in what is read */
	atomic_bool is_locked; /* by the client: it has taken the lock */
	atomic_bool lost;      /* the lock, without a fence */

	/* ---- the answer to a request for the omap ---- */
	struct t_ceph_pair pairs[2];
	unsigned int next_pair;

	/* ---- what the plugin has called ---- */
	char log[T_CEPH_LOG_LEN];
	unsigned int opened;
	rados_completion_t asked; /* waits for t_ceph_answer() */
	atomic_uint broken_cnt;	  /* locks of others */
	atomic_uint released_cnt;
	atomic_uint fence_s; /* how long the last one is shut out */
	/* The watch of the image's size. */
	rbd_update_callback_t changed;
	void *changed_user;
	/* The watch of messages, and the answers to them. */
	rados_watchcb2_t heard;
	rados_watcherrcb_t watch_failed;
	atomic_uint watches; /* calls of rados_watch3() */
	void *heard_user;
	const char *last_message; /* of another gateway, in the flush */
	sem_t acked;
	char ack[128];
	atomic_uint ack_cnt;
};

extern struct t_ceph t_ceph;

/* "stat" may fail. */
void t_ceph_answer(void);

/* Makes the cluster anew: nothing is open, and nothing fails. */
void t_ceph_begin(void);

#endif
