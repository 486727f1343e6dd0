/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Tells the sanitizers about memory. Thread: any.
 *
 * ASAN_POISON_MEMORY_REGION marks memory that is not in use. AddressSanitizer
 * reports each access to it.
 *
 * TSAN_RACES_ARE_MEANT marks memory whose accesses are ordered in a way that
 * ThreadSanitizer does not see, such as by the kernel.
 */
#ifndef BASE_SANITIZER_H
#define BASE_SANITIZER_H

#include <stddef.h>

#if defined(__SANITIZE_ADDRESS__)
#define HAVE_ASAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAVE_ASAN 1
#endif
#endif
#ifdef HAVE_ASAN
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(addr, len)   ((void)(addr), (void)(len))
#define ASAN_UNPOISON_MEMORY_REGION(addr, len) ((void)(addr), (void)(len))
#endif

#if defined(__SANITIZE_THREAD__)
#define HAVE_TSAN 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define HAVE_TSAN 1
#endif
#endif
#ifdef HAVE_TSAN
/* The run-time library of the sanitizer has it, but none of its headers
 * does. */
void AnnotateBenignRaceSized(const char *file, int line,
			     const volatile void *addr, size_t len,
			     const char *why);
#define TSAN_RACES_ARE_MEANT(addr, len) \
	AnnotateBenignRaceSized(__FILE__, __LINE__, addr, len, "")
#else
#define TSAN_RACES_ARE_MEANT(addr, len) ((void)(addr), (void)(len))
#endif

#endif
