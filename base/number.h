/* SPDX-License-Identifier: BSD-2-Clause */
/* Whole decimal numbers as people write them. Thread: any. */
#ifndef BASE_NUMBER_H
#define BASE_NUMBER_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Reads @text, which must be digits and nothing else. False: it is anything else,
 * or more than @max; then *ret is as before. strtoul() takes more: "", " 1", "-1",
 * "1x", and what is too large.
 */
bool number_parse(const char *text, uint64_t max, uint64_t *ret);

#endif
