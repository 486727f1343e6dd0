/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/store_generation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "transport/cleanup.h"

static int new_generation(uint8_t ret_generation[SCSI_GENERATION_LEN])
{
	ssize_t n = getrandom(ret_generation, SCSI_GENERATION_LEN, 0);

	return n == SCSI_GENERATION_LEN ? 0 : -EIO;
}

static void read_boot_id(char *buf, size_t len)
{
	_cleanup_close_ int fd =
		open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, len - 1);

	buf[n > 0 ? n : 0] = '\0';
}

/* Does the store outlive this process? */
static bool is_lasting(const struct volume_spec *spec)
{
	return spec->ops == &backend_file && !spec->forgets;
}

int store_generation_of_boot(const struct volume_spec *spec, const char *boot,
			     uint8_t ret_generation[SCSI_GENERATION_LEN])
{
	_cleanup_free_ char *canonical = realpath(spec->path, NULL);
	char text[sizeof(spec->path) + 160];
	struct stat st;

	if (!is_lasting(spec) || !*boot || stat(spec->path, &st) < 0)
		return new_generation(ret_generation);
	snprintf(text, sizeof(text), "%s:%llx:%llx:%llx:%s", boot,
		 (unsigned long long)st.st_dev, (unsigned long long)st.st_ino,
		 (unsigned long long)st.st_rdev,
		 canonical ? canonical : spec->path);
	scsi_text_digest(text, ret_generation);
	return 0;
}

int store_generation(const struct volume_spec *spec,
		     const struct backend_info *info,
		     struct scsi_store *ret_store)
{
	char boot[64];

	read_boot_id(boot, sizeof(boot));
	ret_store->is_memory = info->memory != NULL;
	return store_generation_of_boot(spec, boot, ret_store->generation);
}
