/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/store_generation.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "target/block/writers.h"

static int new_generation(uint8_t ret_generation[SCSI_GENERATION_LEN])
{
	ssize_t n = getrandom(ret_generation, SCSI_GENERATION_LEN, 0);

	return n == SCSI_GENERATION_LEN ? 0 : -EIO;
}

void store_boot(char buf[STORE_BOOT_SIZE])
{
	_cleanup_close_ int fd =
		open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, buf, STORE_BOOT_SIZE - 1);

	buf[n > 0 ? n : 0] = '\0';
	buf[strcspn(buf, "\n")] = '\0';
}

int store_generation(const struct backend_info *info, const char *boot,
		     const uint8_t *loss, struct scsi_store *ret_store)
{
	const struct backend_life *life = &info->life;
	static const uint8_t none[WRITERS_LOSS_LEN];
	char text[256 + 2 * WRITERS_LOSS_LEN];
	int n;

	if (!backend_life_is_known(life) || info->forgets || !*boot)
		return new_generation(ret_store->generation);
	n = snprintf(
		text, sizeof(text), "%s:%llx:%llx:%llx:%llx:%llx.%x:", boot,
		(unsigned long long)life->dev, (unsigned long long)life->ino,
		(unsigned long long)life->rdev, (unsigned long long)life->seq,
		(unsigned long long)life->born_s, life->born_ns);
	if (!loss)
		loss = none;
	for (size_t i = 0; i < WRITERS_LOSS_LEN; i++)
		n += sprintf(text + n, "%02x", loss[i]);
	scsi_text_digest(text, ret_store->generation);
	return 0;
}
