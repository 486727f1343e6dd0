#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# The steps of reservations, to an image of Ceph RBD.
VM_STORE=rbd exec bash "${VM_LIB%/*}/reservations.sh"
