/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What sanitizers are told of memory. Thread: any.
 *
 * ASAN_POISON_MEMORY_REGION: memory that is ours but nobody's at the moment.
 * Whoever touches it is caught by AddressSanitizer.
 *
 * TSAN_RACES_ARE_MEANT: memory of which others say in which order it is
 * touched, in ways that ThreadSanitizer does not see.
 */
#ifndef BASE_POISON_H
#define BASE_POISON_H

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
/* Of the sanitizer's run-time library, in none of its headers. */
void AnnotateBenignRaceSized(const char *file, int line,
			     const volatile void *addr, size_t len,
			     const char *why);
#define TSAN_RACES_ARE_MEANT(addr, len) \
	AnnotateBenignRaceSized(__FILE__, __LINE__, addr, len, "")
#else
#define TSAN_RACES_ARE_MEANT(addr, len) ((void)(addr), (void)(len))
#endif

#endif
