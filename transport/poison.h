/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Memory that is ours but nobody's at the moment: in builds with
 * AddressSanitizer whoever touches it is caught. Thread: any.
 */
#ifndef TRANSPORT_POISON_H
#define TRANSPORT_POISON_H

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

#endif
