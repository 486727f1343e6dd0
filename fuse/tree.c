/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/tree.h"

#include <errno.h>
#include <linux/fuse.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fuse/open_file.h"

/* st_blocks counts these, whatever st_blksize says: stat(2). */
#define STAT_BLOCK 512

/* The inode number of a file is the number of its place, plus so much for each
 * file that had a place before. */
#define TREE_ROUND (1ull << 20)

/* The name of the volume; if it cannot be a file name, one with the LUN. */
static void tree_set_name(struct tree_file *f)
{
	const char *name = f->info->name;

	if (*name && strcmp(name, ".") && strcmp(name, "..") &&
	    !strchr(name, '/'))
		snprintf(f->name, sizeof(f->name), "%s", name);
	else
		snprintf(f->name, sizeof(f->name), "lun%u", f->info->lun);
}

/* NULL is fine. */
static void tree_file_free(struct tree_file *f)
{
	if (f)
		free(f->meter);
	free(f);
}

static struct tree_file *tree_file_new(const struct tree *t,
				       unsigned int volume, uint64_t ino)
{
	struct tree_file *f = calloc(1, sizeof(*f));

	if (!f)
		return NULL;
	if (t->metered) {
		f->meter = calloc(1, sizeof(*f->meter));
		if (!f->meter) {
			free(f);
			return NULL;
		}
	}
	f->volume = volume;
	f->info = srpi_volume_info(t->session, volume);
	f->ino = ino;
	f->read_only = t->read_only || f->info->read_only;
	clock_gettime(CLOCK_REALTIME, &f->mtime);
	list_init(&f->opens);
	volume_queue_init(&f->queue);
	tree_set_name(f);
	return f;
}

int tree_create(const struct tree_options *o, struct tree **ret_tree)
{
	unsigned int cnt = o->volume < 0 ? srpi_volume_cnt(o->session) : 1;
	unsigned int first = o->volume < 0 ? 0 : (unsigned int)o->volume;
	struct tree *t = calloc(1, sizeof(*t));

	if (!t)
		return -ENOMEM;
	t->files = calloc(cnt ? cnt : 1, sizeof(struct tree_file *));
	if (!t->files) {
		tree_free(t);
		return -ENOMEM;
	}
	t->session = o->session;
	t->read_only = o->read_only;
	t->metered = o->metered;
	t->is_file = o->is_file;
	t->uid = o->uid;
	t->gid = o->gid;
	t->umask = o->umask;
	clock_gettime(CLOCK_REALTIME, &t->changed);
	for (t->cnt = 0; t->cnt < cnt; t->cnt++) {
		t->files[t->cnt] = tree_file_new(
			t, first + t->cnt,
			o->is_file ? FUSE_ROOT_ID : FUSE_ROOT_ID + 1 + t->cnt);
		if (!t->files[t->cnt]) {
			tree_free(t);
			return -ENOMEM;
		}
	}
	*ret_tree = t;
	return 0;
}

void tree_free(struct tree *t)
{
	if (!t)
		return;
	for (unsigned int i = 0; i < t->open_max; i++) {
		if (t->opens[i])
			open_file_close(t, t->opens[i]);
	}
	free(t->opens);
	for (unsigned int i = 0; i < t->cnt; i++)
		tree_file_free(t->files[i]);
	free(t->files);
	free(t);
}

struct tree_file *tree_file_of(const struct tree *t, uint64_t ino)
{
	uint64_t number = ino - (t->is_file ? FUSE_ROOT_ID : FUSE_ROOT_ID + 1);
	uint64_t place = number % TREE_ROUND;
	struct tree_file *f = place < t->cnt ? t->files[place] : NULL;

	return f && f->ino == ino ? f : NULL;
}

bool tree_is_dir(const struct tree *t, uint64_t ino)
{
	return !t->is_file && ino == FUSE_ROOT_ID;
}

struct tree_file *tree_find(const struct tree *t, const char *name)
{
	for (unsigned int i = 0; i < t->cnt; i++) {
		struct tree_file *f = tree_shown(t, i);

		if (f && !strcmp(f->name, name))
			return f;
	}
	return NULL;
}

struct tree_file *tree_find_volume(const struct tree *t, unsigned int volume)
{
	for (unsigned int i = 0; i < t->cnt; i++) {
		struct tree_file *f = tree_shown(t, i);

		if (f && f->volume == volume)
			return f;
	}
	return NULL;
}

struct tree_file *tree_shown(const struct tree *t, unsigned int place)
{
	struct tree_file *f = place < t->cnt ? t->files[place] : NULL;

	return f && !f->gone ? f : NULL;
}

unsigned int tree_shown_cnt(const struct tree *t)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < t->cnt; i++)
		cnt += tree_shown(t, i) != NULL;
	return cnt;
}

/* ---- files that come and go ---- */

/* t->cnt: there is none. */
static unsigned int tree_free_place(const struct tree *t)
{
	unsigned int place = 0;

	while (place < t->cnt && t->files[place])
		place++;
	return place;
}

struct tree_file *tree_add(struct tree *t, unsigned int volume)
{
	unsigned int place = tree_free_place(t);
	struct tree_file **files = t->files;
	struct tree_file *f;

	if (place == t->cnt)
		files = reallocarray(t->files, t->cnt + 1,
				     sizeof(struct tree_file *));
	if (!files)
		return NULL;
	t->files = files;
	f = tree_file_new(t, volume,
			  FUSE_ROOT_ID + 1 + place +
				  ++t->next_round * TREE_ROUND);
	if (!f)
		return NULL;
	t->files[place] = f;
	t->cnt += place == t->cnt;
	clock_gettime(CLOCK_REALTIME, &t->changed);
	return f;
}

void tree_lose(struct tree *t, struct tree_file *f)
{
	f->gone = true;
	f->allocation.gone = true;
	f->unflushed = false;
	clock_gettime(CLOCK_REALTIME, &t->changed);
	tree_reap(t);
}

static bool tree_is_unused(const struct tree_file *f)
{
	return list_empty(&f->opens) && f->queue.running == 0 &&
	       list_empty(&f->queue.waiting) &&
	       !allocation_busy(&f->allocation) &&
	       list_empty(&f->allocation.waiters);
}

void tree_reap(struct tree *t)
{
	for (unsigned int i = 0; i < t->cnt; i++) {
		struct tree_file *f = t->files[i];

		if (!f || !f->gone || !tree_is_unused(f))
			continue;
		srpi_volume_forget(t->session, f->volume);
		tree_file_free(f);
		t->files[i] = NULL;
	}
}

static uint32_t tree_best_block(const struct srpi_volume_info *info)
{
	if (info->optimal_transfer > 4096)
		return info->optimal_transfer;
	return info->physical_block_size > 4096 ? info->physical_block_size
						: 4096;
}

void tree_file_stat(const struct tree *t, const struct tree_file *f,
		    uint64_t allocated, struct stat *ret)
{
	*ret = (struct stat){
		.st_ino = f->ino,
		.st_mode = S_IFREG | ((f->read_only ? 0444 : 0666) & ~t->umask),
		.st_nlink = f->gone ? 0 : 1,
		.st_uid = t->uid,
		.st_gid = t->gid,
		.st_size = (off_t)f->info->size,
		.st_blksize = tree_best_block(f->info),
		.st_blocks =
			(blkcnt_t)((allocated + STAT_BLOCK - 1) / STAT_BLOCK),
		.st_atim = f->mtime,
		.st_mtim = f->mtime,
		.st_ctim = f->mtime,
	};
}

void tree_dir_stat(const struct tree *t, struct stat *ret)
{
	mode_t readable = 0444 & ~t->umask;

	*ret = (struct stat){
		.st_ino = FUSE_ROOT_ID,
		/* Users who may read it may search it. None may write it. */
		.st_mode = S_IFDIR | readable | (readable >> 2),
		.st_nlink = 2,
		.st_uid = t->uid,
		.st_gid = t->gid,
		.st_blksize = 4096,
		.st_atim = t->changed,
		.st_mtim = t->changed,
		.st_ctim = t->changed,
	};
}

void tree_file_touch(struct tree_file *f)
{
	/* The coarse clock suffices, and reading it needs no hardware. */
	clock_gettime(CLOCK_REALTIME_COARSE, &f->mtime);
	f->unflushed = true;
	allocation_changed(&f->allocation);
}
