/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Probes for bpftrace, SystemTap and perf, where the build has sys/sdt.h: one NOP in the
 * code each, and a note that says where its arguments are. Nothing is done until a tool
 * attaches. Give arguments that lie in memory or a register: these cost nothing.
 *
 * Thread: any.
 */
#ifndef BASE_PROBE_H
#define BASE_PROBE_H

#include "config.h"

#if HAVE_PROBES
#define SDT_USE_VARIADIC /* STAP_PROBEV() */
#include <sys/sdt.h>
#define PROBE(provider, name, ...) STAP_PROBEV(provider, name, __VA_ARGS__)
#else
#define PROBE(provider, name, ...) ((void)0)
#endif

#endif
