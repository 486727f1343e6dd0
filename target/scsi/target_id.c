/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/target_id.h"

#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash.h"
#include "protocol/scsi_vpd.h"

/* The machine ID of systemd, or the host name. */
static void target_id_of_machine(char id[LASTING_ID_SIZE])
{
	_cleanup_close_ int fd = open("/etc/machine-id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, id, LASTING_ID_SIZE - 1);

	id[n > 0 ? n : 0] = '\0';
	id[strcspn(id, "\n")] = '\0';
	if (!*id && gethostname(id, LASTING_ID_SIZE))
		snprintf(id, LASTING_ID_SIZE, "localhost");
	id[LASTING_ID_SIZE - 1] = '\0';
}

/* The names of all files of a volume begin with its NAA identifier. */
static bool target_id_is_of_volume(const char *name)
{
	size_t len = 0;

	while (isxdigit((unsigned char)name[len]))
		len++;
	return len == 2 * SCSI_NAA_LEN && (!name[len] || name[len] == '.');
}

bool target_id_has_volumes(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *files = fd < 0 ? NULL : fdopendir(fd);
	const struct dirent *file;
	bool found = false;

	if (!files) {
		if (fd >= 0)
			close(fd);
		return false;
	}
	while (!found && (file = readdir(files)))
		found = target_id_is_of_volume(file->d_name);
	closedir(files);
	return found;
}

static int target_id_keep(const char *state_dir, struct target_id *ret)
{
	_cleanup_close_ int dir =
		open(state_dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char machine[LASTING_ID_SIZE];

	if (dir < 0)
		return -errno;
	target_id_of_machine(machine);
	return lasting_id_get(dir, target_id_has_volumes(dir) ? machine : NULL,
			      ret->text);
}

int target_id_open(const char *state_dir, struct target_id *ret,
		   struct error *e)
{
	int err;

	ret->lasts = state_dir;
	if (!state_dir) {
		target_id_of_machine(ret->text);
		return 0;
	}
	err = target_id_keep(state_dir, ret);
	if (err)
		error_set(e, err,
			  "--state-dir '%s': cannot keep the identifier of "
			  "this target in the file " LASTING_ID_FILE ": %s",
			  state_dir,
			  err == -EBADMSG ? "it holds something else; put the "
					    "right one there"
					  : strerror(-err));
	return err;
}

struct srp_port_id target_id_port(const char *id, uint16_t port)
{
	char text[LASTING_ID_SIZE + 64];
	uint64_t h;

	snprintf(text, sizeof(text), "rdma-block target port %s:%u", id, port);
	h = hash_bytes(HASH_BEGIN, text, strlen(text));
	/* All zero would name no port. */
	return srp_port_id_make(h ? h : 1, h ? h : 1);
}
