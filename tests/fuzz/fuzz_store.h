/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A backend for the fuzz targets that drive a whole target: a little memory.
 * Its requests can be held, answered in any order, and made to fail. It checks
 * that the target keeps the rules of target/block/backend.h.
 */
#ifndef TESTS_FUZZ_FUZZ_STORE_H
#define TESTS_FUZZ_FUZZ_STORE_H

#include "target/block/backend.h"

#define FUZZ_STORE_SIZE (256u << 10)

extern const struct backend_type fuzz_store_type;

/* From now on, requests are held. */
void fuzz_store_hold(bool hold);
unsigned int fuzz_store_held(void);
/* Returns the number of requests so far. The other function: true if one of the
 * first @cnt requests changes the medium and is still held. */
unsigned long long fuzz_store_cnt(void);
bool fuzz_store_changes_since(unsigned long long cnt);
/* Answers the @nth held request. @res: 0 or a negative errno. */
void fuzz_store_answer(unsigned int nth, int res);
/* The next @cnt requests fail with @res. */
void fuzz_store_fail(unsigned int cnt, int res);
/* Sets the size in bytes, at most FUZZ_STORE_SIZE. */
void fuzz_store_measures(uint64_t size);

#endif
