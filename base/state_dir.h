/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The directory of what must outlive a program, if no option names one: the first of
 * $STATE_DIRECTORY (systemd.exec(5)); /var/lib/NAME for root; $XDG_STATE_HOME/NAME;
 * ~/.local/state/NAME (XDG Base Directory Specification).
 *
 * Thread: setup. Blocks.
 */
#ifndef BASE_STATE_DIR_H
#define BASE_STATE_DIR_H

#include <stdbool.h>
#include <stddef.h>

/* Stores the path of the directory of the program @name. "": there is none, since HOME is
 * not set. Makes nothing. */
void state_dir_default(const char *name, char *path, size_t len);

/* Makes the directory @path, for this user alone, with those between it and the home.
 * True: it was not there before. */
bool state_dir_make(const char *path);

/* Opens it. The caller closes the descriptor. -EPERM: other users may write it; another
 * negative errno: it cannot be used. */
int state_dir_open(const char *path);

#endif
