/* SPDX-License-Identifier: BSD-2-Clause */
#ifndef PLUGINS_RBD_EXTENT_H
#define PLUGINS_RBD_EXTENT_H

#include <rbd/librbd.h>
#include <rdma_block_plugin.h>

/*
 * Finds out whether the blocks at io->offset are allocated, and sets extent_len
 * and extent_mapped. The result may end before the extent does. The image has
 * @bytes now, a multiple of @block_size. The function blocks. Returns 0 or a
 * negative errno.
 */
int rbdp_extent_find(rbd_image_t image, uint64_t bytes, struct rbp_io *io,
		     uint64_t block_size);

#endif
