/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/std_files.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

void std_files_hold(void)
{
	for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) {
		/* Opened in the wrong direction, so that using it is an
		 * error. */
		int flags = fd == STDIN_FILENO ? O_WRONLY : O_RDONLY;

		/* open() returns the lowest free number, which is @fd. */
		if (fcntl(fd, F_GETFD) < 0 && open("/dev/null", flags) < 0)
			exit(EXIT_FAILURE);
	}
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGCHLD, SIG_DFL);
}

bool std_files_flush(void)
{
	if (fflush(stdout) == 0 && !ferror(stdout))
		return true;
	log_error("cannot write to standard output: %s", strerror(errno));
	return false;
}
