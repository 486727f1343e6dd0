/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A backend for the fuzz targets that drive a whole target: a little memory,
 * whose requests can be kept back, answered in any order, and made to fail. It
 * claims what target/block/backend.h promises a backend.
 */
#ifndef TESTS_FUZZ_FUZZ_STORE_H
#define TESTS_FUZZ_FUZZ_STORE_H

#include "target/block/backend.h"

#define FUZZ_STORE_SIZE (256u << 10)

extern const struct backend_type fuzz_store_type;

/* From now on requests are kept back. */
void fuzz_store_hold(bool hold);
unsigned int fuzz_store_held(void);
/* How many requests there have been, and whether one that changes the medium
 * from before there were @cnt is still kept back. */
unsigned long long fuzz_store_cnt(void);
bool fuzz_store_changes_since(unsigned long long cnt);
/* Answers the @nth of those kept back; @res: 0 or negative errno. */
void fuzz_store_answer(unsigned int nth, int res);
/* The next @cnt requests fail with @res. */
void fuzz_store_fail(unsigned int cnt, int res);
/* What it measures from now on, bytes; at most FUZZ_STORE_SIZE. */
void fuzz_store_measures(uint64_t size);

#endif
