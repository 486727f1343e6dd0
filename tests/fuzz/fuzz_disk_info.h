/* SPDX-License-Identifier: BSD-2-Clause */
/* Makes any logical unit that a volume may describe from an input. */
#ifndef TESTS_FUZZ_FUZZ_DISK_INFO_H
#define TESTS_FUZZ_FUZZ_DISK_INFO_H

#include "protocol/scsi_vpd.h"
#include "tests/fuzz/fuzz.h"

#define FUZZ_UNMAP_DESCS 64

static inline void fuzz_disk_info(struct fuzz_input *in,
				  struct scsi_disk_info *info)
{
	/* No name, a short one, and one that is too long and is cut inside a
	 * character. */
	static char too_long[SCSI_VOLUME_NAME_MAX + 8];
	const char *const names[] = { "", "a name", "\u00e9", too_long };
	uint8_t how = fuzz_u8(in);
	uint8_t mode = fuzz_u8(in);

	memset(too_long, 'x', SCSI_VOLUME_NAME_MAX - 1);
	strcpy(too_long + SCSI_VOLUME_NAME_MAX - 1, "\u00e9");
	*info = (struct scsi_disk_info){
		.name = names[fuzz_u8(in) & 3],
		.serial = mode & 0x40 ? "0123456789" : "",
		.target_port = 1,
		.block_size = how & 1 ? 4096 : 512,
		.read_only = how & 2,
		.unmap = how & 4,
		.lbprz = how & 4 && how & 8,
		.rotational = how & 16,
		.removable = how & 32,
		.write_same_nonzero = how & 64,
		.max_atomic_blocks = how & 128 ? 8 : 0,
		.write_cache = mode & 1,
		.d_sense = mode & 2,
		.swp = mode & 4,
		.mode_save = mode & 8,
		.mode_changeable = { mode & 1, true, true },
		.mode_default = { mode & 16, false, false },
		.mode_saved = { false, mode & 32, false },
		.max_transfer_blocks = 8192,
		.optimal_transfer_blocks = 2048,
		.optimal_granularity_blocks = 8,
		.max_unmap_blocks = mode & 32 ? UINT32_MAX : 1u << 20,
		.max_unmap_descs = FUZZ_UNMAP_DESCS,
		.unmap_granularity_blocks = 8,
		.unmap_alignment_blocks = mode & 0x80 ? 7 : 0,
		.max_write_same_blocks = 1u << 19,
		.max_caw_blocks = 255,
		.physical_exp = 3,
	};
	info->blocks = fuzz_u64(in) >> (fuzz_u8(in) & 63);
	if (!info->blocks)
		info->blocks = 1;
	scsi_naa_make(info->name, info->naa);
}

#endif
