/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A layer on a backend that is the worst honest write cache there can be: what
 * is written stays in the memory of the process until a flush, and is gone with
 * the process. So kill -9 is a power cut, and a flush that is skipped above
 * (FAULT_LIE) is seen to be. In test builds only (-Dfault_injection=true).
 */
#ifndef TARGET_BLOCK_LAYER_VOLATILE_H
#define TARGET_BLOCK_LAYER_VOLATILE_H

#include "target/block/backend.h"

/*
 * Takes @below over, also when this fails. @block_size: bytes, of the volume.
 * The volume does not grow. 0 or -ENOMEM. Thread: setup.
 */
int backend_volatile_open(struct backend *below, uint32_t block_size,
			  struct backend **ret);

#endif
