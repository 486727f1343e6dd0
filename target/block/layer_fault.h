/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A layer that lets requests fail by rule (fault_rule.h), to test what is above
 * it. It forwards requests that no rule hits unchanged.
 *
 * Each request is still answered exactly once, on its worker. No request is
 * answered while the store or the layer may still use the medium or the buffer
 * for it. For task management and for the fence of a nexus, the store still has
 * a request that is delayed or stuck. FAULT_STALE breaks this rule: tests use
 * it for an old write that arrives after a newer one.
 */
#ifndef TARGET_BLOCK_LAYER_FAULT_H
#define TARGET_BLOCK_LAYER_FAULT_H

#include "target/block/backend.h"
#include "config/fault_rule.h"

/* The layer's part of backend_options. @rules are copied; @volume is for the
 * log and must outlive the layer. */
struct fault_options {
	const struct fault_rule *rules;
	unsigned int cnt;
	const char *volume;
};

extern const struct backend_type backend_fault;

/*
 * Replaces the rules of a backend that is the layer, and releases requests that
 * are stuck. The limit of atomic writes stays as it was when the layer was
 * opened. -ENOENT: @be is no such layer; -ENOMEM. One caller at a time. Thread:
 * any, while the workers are attached.
 */
int backend_fault_set(struct backend *be, const struct fault_rule *rules,
		      unsigned int cnt);

/*
 * Releases all requests that are stuck, and those that get stuck before the
 * workers have seen this. Does nothing on a backend without the layer. Thread:
 * any, while the workers are attached.
 */
void backend_fault_release(struct backend *be);

/* Requests that are stuck on worker @w. Thread: the worker. */
unsigned int backend_fault_stuck(const struct backend *be,
				 const struct block_worker *w);

#endif
