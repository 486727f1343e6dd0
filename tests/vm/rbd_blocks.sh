#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The commands of sg_blocks, to an image of Ceph RBD.
VM_STORE=rbd exec bash "${VM_LIB%/*}/sg_blocks.sh"
