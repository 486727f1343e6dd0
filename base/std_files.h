/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Standard input, output and error: whoever started a program may have closed
 * them. Then the next files that it opens get their numbers, and what it prints
 * lands there: in a volume, say.
 *
 * Thread: setup.
 */
#ifndef BASE_STD_FILES_H
#define BASE_STD_FILES_H

#include <stdbool.h>

/*
 * First thing in main(): sees to it that file descriptors 0 to 2 are taken.
 * What was closed still fails with EBADF when it is read or written.
 * Exits with 1 where not even /dev/null can be had: nothing could be said.
 */
void std_files_hold(void);

/* Everything printed has been written; false: not, and an error was logged. */
bool std_files_flush(void);

#endif
