/* SPDX-License-Identifier: BSD-2-Clause */
/* Sizes as people write them. Thread: any. */
#ifndef BASE_SIZE_H
#define BASE_SIZE_H

#include <stddef.h>
#include <stdint.h>

/**
 * size_parse() - "4096", "512k", "64M", "1GiB", "1.5 GiB", "512 B"; up to E
 * @ret: bytes, rounded down; written only on success
 *
 * Letters of either case are powers of 1024. What size_format() writes is read. With "B"
 * behind the letter, they are powers of 1000, as of truncate(1): "1GB" is 1000000000.
 *
 * Return: 0, -EINVAL for anything else, -ERANGE above 2^64 - 1.
 */
int size_parse(const char *text, uint64_t *ret);

#define SIZE_TEXT_SIZE 32 /* holds every formatted size */

/*
 * "256 MiB", "1.5 GiB", "512 B": rounded down to one decimal. Returns @buf,
 * which holds SIZE_TEXT_SIZE bytes.
 */
char *size_format(uint64_t bytes, char *buf);

#endif
