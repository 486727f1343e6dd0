/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What of the journals a loss of power leaves. fdatasync() and fsync() are wrapped by the
 * linker: a file is stable as it was when one of them returned last.
 */
#ifndef TESTS_SIM_PLATTER_H
#define TESTS_SIM_PLATTER_H

#include <stdint.h>

#include "target/disk/journal.h"

#define PLATTER_LEN (2 * DISK_JOURNAL_SLOT) /* of a file, bytes */

/* What is stable of the file @path, which has been synchronized. */
void platter_read(const char *path, uint8_t bytes[PLATTER_LEN]);
/* The file @path has been put there, and @bytes of it are stable. */
void platter_put(const char *path, const uint8_t bytes[PLATTER_LEN]);

/* Power is cut: each sector of @bytes, which was written, may be as it is in @stable. */
void platter_cut(uint8_t bytes[PLATTER_LEN], const uint8_t stable[PLATTER_LEN]);

#endif
