/* SPDX-License-Identifier: BSD-2-Clause */
#include "base/lasting_id.h"

#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"

static bool lasting_id_is_good(const char *id)
{
	for (const char *c = id; *c; c++) {
		if (*c <= ' ' || *c > '~')
			return false;
	}
	return *id && strlen(id) < LASTING_ID_SIZE;
}

static int lasting_id_read(int dir, char *ret_id)
{
	/* A FIFO must not block. */
	_cleanup_close_ int fd =
		openat(dir, LASTING_ID_FILE,
		       O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	char text[LASTING_ID_SIZE + 1];
	ssize_t n = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (n < 0)
		return -errno;
	text[n] = '\0';
	text[strcspn(text, "\n")] = '\0';
	if (!lasting_id_is_good(text))
		return -EBADMSG;
	strcpy(ret_id, text);
	return 0;
}

static int lasting_id_draw(char *ret_id)
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	snprintf(ret_id, LASTING_ID_SIZE, "%016llx%016llx",
		 (unsigned long long)random[0], (unsigned long long)random[1]);
	return 0;
}

static int lasting_id_put(int fd, const char *id)
{
	if (dprintf(fd, "%s\n", id) < 0 || fsync(fd))
		return errno ? -errno : -EIO;
	return 0;
}

/* NFS cannot keep a file that is there: the last one of two stays. */
static int lasting_id_name(int dir, const char *name)
{
	if (!renameat2(dir, name, dir, LASTING_ID_FILE, RENAME_NOREPLACE) ||
	    errno == EEXIST)
		return 0;
	if (errno != EINVAL || renameat(dir, name, dir, LASTING_ID_FILE))
		return -errno;
	return 0;
}

/* The file gets its name when it is complete and stable. */
static int lasting_id_write(int dir, const char *id)
{
	char name[32];
	int fd, err;

	snprintf(name, sizeof(name), LASTING_ID_FILE ".%d", (int)getpid());
	unlinkat(dir, name, 0); /* of a process that was killed */
	fd = openat(dir, name,
		    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
	if (fd < 0)
		return -errno;
	err = lasting_id_put(fd, id);
	close(fd);
	if (!err)
		err = lasting_id_name(dir, name);
	unlinkat(dir, name, 0);
	if (!err && fsync(dir))
		err = -errno;
	return err;
}

int lasting_id_get(int dir, const char *seed, char ret_id[LASTING_ID_SIZE])
{
	char id[LASTING_ID_SIZE];
	int err = lasting_id_read(dir, ret_id);

	if (err != -ENOENT)
		return err;
	if (seed && !lasting_id_is_good(seed))
		return -EINVAL;
	err = seed ? 0 : lasting_id_draw(id);
	if (!err)
		err = lasting_id_write(dir, seed ? seed : id);
	return err ? err : lasting_id_read(dir, ret_id);
}
