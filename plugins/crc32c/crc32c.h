/* SPDX-License-Identifier: BSD-2-Clause */
/* CRC-32C (Castagnoli), as in iSCSI, ext4 and NVMe (RFC 3720, B.4). */
#ifndef CRC32C_CRC32C_H
#define CRC32C_CRC32C_H

#include <stddef.h>
#include <stdint.h>

/* The checksum of @len bytes. Thread: any. */
uint32_t crc32c_of(const void *buf, size_t len);

#endif
