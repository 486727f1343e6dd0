/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a program inherits and cannot rely on.
 *
 * Standard input, output and error: the caller may have closed them. Then the
 * next files that the program opens get their numbers, and its output may land
 * in one of these files: in a volume, for example.
 *
 * The limit of file sizes (ulimit -f): by default the kernel kills a program
 * that writes beyond it.
 *
 * An ignored SIGCHLD: the kernel then tells nobody how a child has ended.
 *
 * Thread: setup.
 */
#ifndef BASE_STD_FILES_H
#define BASE_STD_FILES_H

#include <stdbool.h>

/*
 * Call this first in main(): it makes sure that file descriptors 0 to 2 are in
 * use. Reading or writing a descriptor that was closed still fails with EBADF.
 * If /dev/null cannot be opened, the program exits with 1, without a message.
 * A write beyond the limit of file sizes fails with EFBIG from then on, and ended children
 * wait for waitpid().
 */
void std_files_hold(void);

/* True: everything printed has been written. False: not, and an error was
 * logged. */
bool std_files_flush(void);

#endif
