/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/state_port.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/number.h"
#include "base/own_file.h"
#include "target/scsi/target_id.h"

#define STATE_PORT_MAX 65535

static bool state_port_parse(const char *text, unsigned int *ret)
{
	uint64_t number;

	if (!number_parse(text, STATE_PORT_MAX, &number) || !number)
		return false;
	*ret = (unsigned int)number;
	return true;
}

/* 0, and *ret_number is 0 if there is no file. */
static int state_port_read(int dir, unsigned int port, unsigned int *ret_number)
{
	_cleanup_close_ int fd = -1;
	char name[32];
	char text[16];
	ssize_t len;

	*ret_number = 0;
	snprintf(name, sizeof(name), "port.%u", port);
	fd = own_file_open(dir, name, O_RDONLY | O_NONBLOCK, 0);
	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	len = read(fd, text, sizeof(text) - 1);
	if (len < 0)
		return -errno;
	text[len] = '\0';
	text[strcspn(text, "\n")] = '\0';
	return state_port_parse(text, ret_number) ? 0 : -EBADMSG;
}

static int state_port_fail(int err, const char *dir, unsigned int port,
			   struct error *e)
{
	return error_set(e, err, "%s/port.%u: %s", dir, port,
			 err == -EBADMSG ? "it is damaged; it has the number "
					   "of a target that had that port"
					 : own_file_strerror(err));
}

static bool state_port_has(int dir, const char *prefix, unsigned int port)
{
	struct stat st;
	char name[32];

	snprintf(name, sizeof(name), "%s%u", prefix, port);
	return !fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW);
}

int state_port_find(const char *dir, unsigned int port,
		    unsigned int *ret_number, struct error *e)
{
	_cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	unsigned int number = 0;
	int err = 0;

	if (fd >= 0 && !state_port_has(fd, "luns.", port))
		err = state_port_read(fd, port, &number);
	if (err)
		return state_port_fail(err, dir, port, e);
	*ret_number = number ? number : port;
	return 0;
}

/* A version that kept no LUNs has left it. */
static bool state_port_is_old(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *entry;
	bool has_luns = false;

	if (!list) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!has_luns && (entry = readdir(list)))
		has_luns = !strncmp(entry->d_name, "luns.", strlen("luns."));
	closedir(list);
	return !has_luns && target_id_has_volumes(dir);
}

bool state_port_is_known(const char *dir, unsigned int port)
{
	_cleanup_close_ int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	return fd >= 0 && !state_port_has(fd, "", port) &&
	       (state_port_has(fd, "luns.", port) ||
		state_port_has(fd, "port.", port) || state_port_is_old(fd));
}

/* The number of the directory @name in @base, if its target had @port; else 0. What cannot be
 * read belongs to another user. */
static unsigned int state_port_look(int base, const char *name,
				    unsigned int port)
{
	_cleanup_close_ int dir = -1;
	unsigned int is = 0;
	unsigned int number;

	if (!state_port_parse(name, &is))
		return 0;
	dir = openat(base, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (dir < 0 || state_port_read(dir, port, &number) || number != is)
		return 0;
	return number;
}

static int state_port_search(DIR *list, const char *base, unsigned int port,
			     unsigned int *ret_number, struct error *e)
{
	const struct dirent *entry;
	unsigned int found = 0;

	while ((entry = readdir(list))) {
		unsigned int number =
			state_port_look(dirfd(list), entry->d_name, port);

		if (number && found)
			return error_set(
				e, -EEXIST,
				"port %u was one of the target %u and one of "
				"the target %u: name the state directory of "
				"the right one, %s/%u or %s/%u (--state-dir)",
				port, found, number, base, found, base, number);
		if (number)
			found = number;
	}
	*ret_number = found ? found : port;
	return 0;
}

int state_port_find_in(const char *base, unsigned int port,
		       unsigned int *ret_number, struct error *e)
{
	int fd = open(base, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *list =
		fd < 0 || state_port_has(fd, "", port) ? NULL : fdopendir(fd);
	int err = 0;

	*ret_number = port;
	if (list) {
		err = state_port_search(list, base, port, ret_number, e);
		closedir(list);
	} else if (fd >= 0) {
		close(fd);
	}
	return err;
}

static int state_port_write(const char *path, unsigned int number)
{
	char new[4096 + 32];
	int fd, err = 0;

	snprintf(new, sizeof(new), "%s.new", path);
	fd = own_file_create(new, 0600);
	if (fd < 0)
		return fd;
	if (dprintf(fd, "%u\n", number) < 0 || fsync(fd))
		err = -errno;
	close(fd);
	if (!err && rename(new, path))
		err = -errno;
	if (err)
		unlink(new);
	return err ? err : directory_sync_of(path);
}

int state_port_keep(const char *dir, unsigned int number, unsigned int port,
		    struct error *e)
{
	char path[4096 + 16];
	unsigned int is = 0;
	int err;

	if (!port || !number || port == number)
		return 0;
	if (!state_port_find(dir, port, &is, e) && is == number)
		return 0;
	snprintf(path, sizeof(path), "%s/port.%u", dir, port);
	err = state_port_write(path, number);
	return err ? state_port_fail(err, dir, port, e) : 0;
}
