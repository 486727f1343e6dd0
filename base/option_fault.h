/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What getopt_long() did not like, said the same way by all programs. It needs
 * opterr 0 and a ':' before the letters.
 *
 * Thread: setup.
 */
#ifndef BASE_OPTION_FAULT_H
#define BASE_OPTION_FAULT_H

/* Logs one line; @c is what getopt_long() returned, '?' or ':'. */
void option_fault_log(int c, char *const argv[]);

#endif
