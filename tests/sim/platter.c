/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/platter.h"

#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/lib/t_must.h"
#include "tests/sim/sim.h"

/* Smaller than that of a disk, because the texts are short here. */
#define SECTOR 64u
/* More than there are journals at a time. */
#define FILES 16

/* Those that were synchronized last. */
static struct {
	ino_t ino;
	uint8_t bytes[PLATTER_LEN];
} files[FILES];
static unsigned int next_file;

static uint8_t *platter_find(ino_t ino)
{
	for (unsigned int i = 0; i < FILES; i++) {
		if (files[i].ino == ino)
			return files[i].bytes;
	}
	return NULL;
}

static uint8_t *platter_of(ino_t ino)
{
	uint8_t *bytes = platter_find(ino);

	if (bytes)
		return bytes;
	next_file = (next_file + 1) % FILES;
	files[next_file].ino = ino;
	return files[next_file].bytes;
}

static ino_t platter_ino(const char *path)
{
	struct stat st;

	T_MUST(!stat(path, &st));
	return st.st_ino;
}

void platter_read(const char *path, uint8_t bytes[PLATTER_LEN])
{
	const uint8_t *stable = platter_find(platter_ino(path));

	T_MUST(stable);
	memcpy(bytes, stable, PLATTER_LEN);
}

void platter_put(const char *path, const uint8_t bytes[PLATTER_LEN])
{
	memcpy(platter_of(platter_ino(path)), bytes, PLATTER_LEN);
}

void platter_cut(uint8_t bytes[PLATTER_LEN], const uint8_t stable[PLATTER_LEN])
{
	unsigned int how = sim_random(3);

	for (size_t at = 0; at < PLATTER_LEN; at += SECTOR) {
		bool differs = memcmp(bytes + at, stable + at, SECTOR);

		/* all of them, none, or some */
		if (differs && how && (how == 1 || sim_chance(50)))
			memcpy(bytes + at, stable + at, SECTOR);
	}
}

/* Directories are always stable. */
static int platter_synced(int fd)
{
	struct stat st;

	T_MUST(!fstat(fd, &st));
	if (S_ISREG(st.st_mode))
		T_MUST(pread(fd, platter_of(st.st_ino), PLATTER_LEN, 0) ==
		       PLATTER_LEN);
	return 0;
}

int __wrap_fdatasync(int fd);
int __wrap_fsync(int fd);

int __wrap_fdatasync(int fd)
{
	return platter_synced(fd);
}

int __wrap_fsync(int fd)
{
	return platter_synced(fd);
}
