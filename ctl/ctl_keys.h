/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Changes of the file of keys of a target. rdma-ctl edits the file, with the rights of
 * whoever runs it, and hands it over to the target: no key goes through the control
 * socket, and the target needs no right to write the file. A key comes from standard
 * input, and is printed nowhere.
 *
 * Thread: main.
 */
#ifndef CTL_CTL_KEYS_H
#define CTL_CTL_KEYS_H

#include "ctl/ctl_client.h"

/* @arg: "NAME [ro]". */
enum ctl_exit ctl_key_add(const struct ctl_options *opt, char **arg, int cnt);
/* @arg: "NAME". The key of before stays beside the new one. */
enum ctl_exit ctl_key_rotate(const struct ctl_options *opt, char **arg,
			     int cnt);
/* @arg: "NAME [old]". */
enum ctl_exit ctl_key_remove(const struct ctl_options *opt, char **arg,
			     int cnt);
/* The file has changed. */
enum ctl_exit ctl_key_reload(const struct ctl_options *opt, char **arg,
			     int cnt);

#endif
