/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Included before every source file in builds with -Dfault_injection=true. It
 * turns calls that can fail into fault points (fault.h). Calls are grouped by
 * how they report a failure. Calls that only undo something cannot fail.
 *
 * The calls of the fabrics are in transport/verbs/fault.h and
 * transport/tcp/fault.h.
 */
#ifndef BASE_FAULT_CALLS_H
#define BASE_FAULT_CALLS_H

#include <dirent.h>
#include <errno.h>
#include <liburing.h>
#include <malloc.h>
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fault.h"

static inline void *fault_null(int err)
{
	errno = err;
	return NULL;
}

static inline int fault_minus_one(int err)
{
	errno = err;
	return -1;
}

/* Calls that return NULL or -1 and set errno, and calls that return the
 * error. */
#define FAULT_NULL(call, ...) \
	(FAULT_POINT(#call) ? fault_null(ENOMEM) : call(__VA_ARGS__))
#define FAULT_MINUS(call, ...) \
	(FAULT_POINT(#call) ? fault_minus_one(ENOMEM) : call(__VA_ARGS__))
#define FAULT_RESULT(call, err, ...) \
	(FAULT_POINT(#call) ? (err) : call(__VA_ARGS__))

#define malloc(...)	   FAULT_NULL(malloc, __VA_ARGS__)
#define calloc(...)	   FAULT_NULL(calloc, __VA_ARGS__)
#define realloc(...)	   FAULT_NULL(realloc, __VA_ARGS__)
#define reallocarray(...)  FAULT_NULL(reallocarray, __VA_ARGS__)
#define aligned_alloc(...) FAULT_NULL(aligned_alloc, __VA_ARGS__)
#undef strdup
#define strdup(...) FAULT_NULL(strdup, __VA_ARGS__)
#undef strndup
#define strndup(...)	    FAULT_NULL(strndup, __VA_ARGS__)
#define realpath(...)	    FAULT_NULL(realpath, __VA_ARGS__)
#define fopen(...)	    FAULT_NULL(fopen, __VA_ARGS__)
#define opendir(...)	    FAULT_NULL(opendir, __VA_ARGS__)
#define posix_memalign(...) FAULT_RESULT(posix_memalign, ENOMEM, __VA_ARGS__)
#define pthread_create(...) FAULT_RESULT(pthread_create, EAGAIN, __VA_ARGS__)
#define getaddrinfo(...)    FAULT_RESULT(getaddrinfo, EAI_MEMORY, __VA_ARGS__)
#define asprintf(...)	    FAULT_MINUS(asprintf, __VA_ARGS__)
#define socket(...)	    FAULT_MINUS(socket, __VA_ARGS__)
#define pipe2(...)	    FAULT_MINUS(pipe2, __VA_ARGS__)
#define eventfd(...)	    FAULT_MINUS(eventfd, __VA_ARGS__)
#define signalfd(...)	    FAULT_MINUS(signalfd, __VA_ARGS__)
#define memfd_create(...)   FAULT_MINUS(memfd_create, __VA_ARGS__)
#define mmap(...) \
	(FAULT_POINT("mmap") ? (errno = ENOMEM, MAP_FAILED) : mmap(__VA_ARGS__))

/* io_uring returns a negative errno. Callers submit again after -EAGAIN. */
#define io_uring_queue_init_params(...) \
	FAULT_RESULT(io_uring_queue_init_params, -ENOMEM, __VA_ARGS__)
#define io_uring_enable_rings(...) \
	FAULT_RESULT(io_uring_enable_rings, -ENOMEM, __VA_ARGS__)
#define io_uring_register_ring_fd(...) \
	FAULT_RESULT(io_uring_register_ring_fd, -ENOMEM, __VA_ARGS__)
#define io_uring_register_files_sparse(...) \
	FAULT_RESULT(io_uring_register_files_sparse, -ENOMEM, __VA_ARGS__)
#define io_uring_register_files_update(...) \
	FAULT_RESULT(io_uring_register_files_update, -ENOMEM, __VA_ARGS__)
#define io_uring_register_buffers_sparse(...) \
	FAULT_RESULT(io_uring_register_buffers_sparse, -ENOMEM, __VA_ARGS__)
#define io_uring_register_buffers_update_tag(...) \
	FAULT_RESULT(io_uring_register_buffers_update_tag, -ENOMEM, __VA_ARGS__)
#define io_uring_register(...) \
	FAULT_RESULT(io_uring_register, -ENOMEM, __VA_ARGS__)
#define io_uring_submit(...) FAULT_RESULT(io_uring_submit, -EAGAIN, __VA_ARGS__)
#define io_uring_submit_and_get_events(...) \
	FAULT_RESULT(io_uring_submit_and_get_events, -EAGAIN, __VA_ARGS__)
#define io_uring_submit_and_wait_timeout(...) \
	FAULT_RESULT(io_uring_submit_and_wait_timeout, -EAGAIN, __VA_ARGS__)

#endif
