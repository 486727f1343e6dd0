/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The requests that libfuse decodes: names, attributes, open and close. The user
 * data of the FUSE session is the device; the user of the device is the tree.
 *
 * Thread: the context's reactor.
 */
#ifndef FUSE_OPS_H
#define FUSE_OPS_H

struct fuse_lowlevel_ops;

extern const struct fuse_lowlevel_ops ops_lowlevel;

#endif
