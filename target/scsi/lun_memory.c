/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/lun_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/file_lock.h"
#include "base/number.h"
#include "base/own_file.h"

#define LUN_FILE_FIRST "rdma-target luns 1"
#define LUN_FILE_LAST  "end"
#define LUN_LINE_MAX   128 /* with its newline and NUL */
#define LUN_FILE_MAX   ((LUN_MEMORY_MAX + 2) * LUN_LINE_MAX)

/* ---- disks ---- */

static struct lun_known lun_known_of(const struct volume *vol)
{
	struct lun_known known = { .lun = vol->lun,
				   .lasts = vol->identity != VOLUME_NEW,
				   .has_naa = true };

	memcpy(known.naa, vol->info.naa, SCSI_NAA_LEN);
	snprintf(known.name, sizeof(known.name), "%s", vol->name);
	return known;
}

static bool lun_known_is(const struct lun_known *known,
			 const struct volume *vol)
{
	if (known->lasts != (vol->identity != VOLUME_NEW))
		return false;
	return known->has_naa ? !memcmp(known->naa, vol->info.naa, SCSI_NAA_LEN)
			      : !strcmp(known->name, vol->name);
}

static bool lun_is_taken(const struct lun_map *luns, unsigned int lun)
{
	for (unsigned int i = 0; i < luns->cnt; i++) {
		if (luns->vol[i]->lun == lun)
			return true;
	}
	return false;
}

/* The disk is served under the LUN. */
static bool lun_known_is_there(const struct lun_known *known,
			       const struct lun_map *luns)
{
	for (unsigned int i = 0; i < luns->cnt; i++) {
		if (luns->vol[i]->lun == known->lun &&
		    lun_known_is(known, luns->vol[i]))
			return true;
	}
	return false;
}

static bool lun_is_known(const struct lun_memory *m, unsigned int lun)
{
	for (unsigned int i = 0; i < m->cnt; i++) {
		if (m->known[i].lun == lun)
			return true;
	}
	return false;
}

/* The LUN that @vol had last. */
static const struct lun_known *lun_memory_find(const struct lun_memory *m,
					       const struct volume *vol)
{
	for (unsigned int i = m->cnt; i-- > 0;) {
		if (lun_known_is(&m->known[i], vol))
			return &m->known[i];
	}
	return NULL;
}

/* ---- choosing ---- */

unsigned int lun_memory_free(const struct lun_memory *m,
			     const struct lun_map *luns)
{
	unsigned int lun = 0;

	while (lun < LUNS_MAX &&
	       (lun_is_taken(luns, lun) || lun_is_known(m, lun)))
		lun++;
	return lun;
}

static int lun_memory_check(const struct lun_memory *m,
			    const struct lun_map *luns,
			    const struct volume *vol, struct error *e)
{
	for (unsigned int i = 0; i < m->cnt; i++) {
		const struct lun_known *known = &m->known[i];

		if (known->lun != vol->lun || lun_known_is(known, vol) ||
		    lun_known_is_there(known, luns))
			continue;
		return error_set(
			e, -EEXIST,
			"volume '%s' cannot be LUN %u: initiators may still "
			"know it as the volume '%s' of before; give it another "
			"with ,lun=, or, if none does, let that one be forgotten "
			"(rdma-ctl volume forget %s)",
			vol->name, vol->lun, known->name, known->name);
	}
	return 0;
}

static void lun_memory_recall(const struct lun_memory *m, struct lun_map *luns,
			      const bool chooses[])
{
	for (unsigned int i = 0; i < luns->cnt; i++) {
		const struct lun_known *known =
			lun_memory_find(m, luns->vol[i]);

		if (chooses[i])
			luns->vol[i]->lun = known ? known->lun : LUNS_MAX;
	}
}

int lun_memory_choose(const struct lun_memory *m, struct lun_map *luns,
		      const bool chooses[], struct error *e)
{
	int err = 0;

	lun_memory_recall(m, luns, chooses);
	for (unsigned int i = 0; i < luns->cnt; i++) {
		struct volume *vol = luns->vol[i];

		if (vol->lun == LUNS_MAX)
			vol->lun = lun_memory_free(m, luns);
		if (vol->lun == LUNS_MAX)
			return error_set(
				e, -ENOSPC,
				"volume '%s': all %u LUNs are taken, or were "
				"other volumes before (rdma-ctl volume forget)",
				vol->name, LUNS_MAX);
	}
	for (unsigned int i = 0; i < luns->cnt && !err; i++)
		err = lun_memory_check(m, luns, luns->vol[i], e);
	return err;
}

/* ---- disks that are not here yet ---- */

bool lun_memory_knows(const struct lun_memory *m, const struct volume *vol)
{
	return lun_memory_find(m, vol);
}

static bool lun_is_of_other(const struct lun_map *luns,
			    const struct volume *vol, const uint8_t *naa)
{
	for (unsigned int i = 0; i < luns->cnt; i++) {
		if (luns->vol[i] != vol &&
		    !memcmp(luns->vol[i]->info.naa, naa, SCSI_NAA_LEN))
			return true;
	}
	return false;
}

static bool lun_known_may_be(const struct lun_known *known,
			     const struct volume *vol, bool has_lun,
			     const struct lun_map *luns)
{
	return known->lasts &&
	       (has_lun ? known->lun == vol->lun
			: !strcmp(known->name, vol->name)) &&
	       !lun_is_of_other(luns, vol, known->naa);
}

bool lun_memory_guess(const struct lun_memory *m, struct volume *vol,
		      bool has_lun, const struct lun_map *luns)
{
	static const uint8_t none[SCSI_NAA_LEN];
	char text[sizeof("not here: ") + sizeof(vol->name) + sizeof(vol->path)];

	if (memcmp(vol->info.naa, none, SCSI_NAA_LEN) != 0)
		return lun_memory_knows(m, vol);
	for (unsigned int i = m->cnt; i-- > 0;) {
		if (!lun_known_may_be(&m->known[i], vol, has_lun, luns))
			continue;
		memcpy(vol->info.naa, m->known[i].naa, SCSI_NAA_LEN);
		return true;
	}
	snprintf(text, sizeof(text), "not here: %s %s", vol->name, vol->path);
	scsi_naa_make(text, vol->info.naa);
	return false;
}

/* ---- the file ---- */

static void lun_known_format(const struct lun_known *known, FILE *f)
{
	fprintf(f, "%u ", known->lun);
	if (!known->lasts)
		fputs("memory", f);
	for (size_t i = 0; i < SCSI_NAA_LEN && known->lasts; i++)
		fprintf(f, "%02x", known->naa[i]);
	fprintf(f, " %s\n", known->name);
}

static int lun_memory_put(const struct lun_memory *m, int fd)
{
	FILE *f = fdopen(fd, "w");
	bool bad;

	if (!f) {
		close(fd);
		return -ENOMEM;
	}
	fputs(LUN_FILE_FIRST "\n", f);
	for (unsigned int i = 0; i < m->cnt; i++)
		lun_known_format(&m->known[i], f);
	fputs(LUN_FILE_LAST "\n", f);
	bad = fflush(f) || fsync(fd);
	bad |= fclose(f) != 0;
	return bad ? -EIO : 0;
}

/* Replaces the file. */
static int lun_memory_write(const struct lun_memory *m, struct error *e)
{
	int fd, err;

	if (!m->path)
		return 0;
	fd = own_file_create(m->new_path, 0600);
	err = fd < 0 ? fd : lun_memory_put(m, fd);
	if (!err && rename(m->new_path, m->path))
		err = -errno;
	if (!err)
		err = directory_sync_of(m->path);
	if (err)
		unlink(m->new_path);
	return err ? error_set(e, err, "cannot keep the LUNs in %s: %s",
			       m->path, own_file_strerror(err))
		   : 0;
}

static bool lun_known_parse_naa(struct lun_known *known, const char *text)
{
	known->lasts = known->has_naa = strcmp(text, "memory") != 0;
	if (!known->lasts)
		return true;
	if (strlen(text) != 2 * SCSI_NAA_LEN ||
	    strspn(text, "0123456789abcdef") != 2 * SCSI_NAA_LEN)
		return false;
	for (size_t i = 0; i < SCSI_NAA_LEN; i++) {
		const char byte[3] = { text[2 * i], text[2 * i + 1], '\0' };

		known->naa[i] = (uint8_t)strtoul(byte, NULL, 16);
	}
	return true;
}

/* "LUN DISK NAME" */
static bool lun_known_parse(struct lun_known *known, char *line)
{
	const char *text = strsep(&line, " ");
	const char *disk = strsep(&line, " ");
	uint64_t lun;

	if (!line || !*line || strlen(line) >= sizeof(known->name) ||
	    !number_parse(text, LUNS_MAX - 1, &lun))
		return false;
	known->lun = (unsigned int)lun;
	strcpy(known->name, line);
	return lun_known_parse_naa(known, disk);
}

static bool lun_memory_parse(struct lun_memory *m, char *text)
{
	const char *first = strsep(&text, "\n");
	char *line;

	if (!text || strcmp(first, LUN_FILE_FIRST) != 0)
		return false;
	while ((line = strsep(&text, "\n")) && text) {
		if (!strcmp(line, LUN_FILE_LAST))
			return !*text;
		if (m->cnt == LUN_MEMORY_MAX ||
		    !lun_known_parse(&m->known[m->cnt], line))
			return false;
		m->cnt++;
	}
	return false;
}

static ssize_t lun_memory_read(int fd, char *text)
{
	size_t len = 0;
	ssize_t n;

	while ((n = read(fd, text + len, LUN_FILE_MAX - len)) > 0)
		len += (size_t)n;
	text[len] = '\0';
	return n < 0 ? -errno : (ssize_t)len;
}

static int lun_memory_load(struct lun_memory *m, struct error *e)
{
	_cleanup_close_ int fd = own_file_open_path(m->path, O_RDONLY, 0);
	_cleanup_free_ char *text = malloc(LUN_FILE_MAX + 1);
	ssize_t len = !text ? -ENOMEM : fd < 0 ? fd : lun_memory_read(fd, text);
	bool good = len >= 0 && !memchr(text, '\0', (size_t)len) &&
		    lun_memory_parse(m, text);

	if (good || fd == -ENOENT)
		return 0;
	if (len < 0)
		return error_set(e, (int)len, "%s: %s", m->path,
				 own_file_strerror((int)len));
	return error_set(
		e, -EBADMSG,
		"%s, which says what disk each LUN is, is damaged, or of a "
		"newer version; put the right one there, or remove it when no "
		"initiator has a disk of this target",
		m->path);
}

static int lun_memory_lock(struct lun_memory *m, const char *state_dir,
			   struct error *e)
{
	_cleanup_free_ char *name = NULL;
	char who[FILE_LOCK_NAME_MAX];
	pid_t pid = 0;
	int err;

	if (asprintf(&name, "%s.lock", m->path) < 0) {
		name = NULL;
		return error_set(e, -ENOMEM, "out of memory");
	}
	m->lock_fd = own_file_open_path(name, O_RDWR | O_CREAT, 0600);
	err = m->lock_fd < 0
		      ? m->lock_fd
		      : file_lock_take(m->lock_fd, name, /* shared= */ false,
				       FILE_LOCK_STORE_MS, &pid);
	if (err == -EBUSY)
		return error_set(e, err,
				 "state directory %s is in use by %s: a target "
				 "of the same port is the same to initiators; "
				 "give this one another port, or its own "
				 "--state-dir",
				 state_dir, file_lock_name(pid, who));
	return err ? error_set(e, err, "%s: %s", name, own_file_strerror(err))
		   : 0;
}

int lun_memory_open(struct lun_memory *m, const char *state_dir, uint16_t port,
		    struct error *e)
{
	int err;

	m->lock_fd = -1;
	if (!state_dir || !port)
		return 0;
	if (asprintf(&m->path, "%s/luns.%u", state_dir, port) < 0)
		m->path = NULL;
	else if (asprintf(&m->new_path, "%s.new", m->path) < 0)
		m->new_path = NULL;
	if (!m->new_path)
		return error_set(e, -ENOMEM, "out of memory");
	err = lun_memory_lock(m, state_dir, e);
	return err ? err : lun_memory_load(m, e);
}

void lun_memory_close(struct lun_memory *m)
{
	if (m->path && m->lock_fd >= 0)
		close(m->lock_fd);
	free(m->path);
	free(m->new_path);
	m->path = m->new_path = NULL;
}

/* ---- changes ---- */

/* Removes the disks for which @is_gone. True: there were some. */
static bool lun_memory_remove(struct lun_memory *m, const struct lun_map *luns,
			      const char *name)
{
	unsigned int kept = 0;
	bool any;

	for (unsigned int i = 0; i < m->cnt; i++) {
		if (strcmp(m->known[i].name, name) != 0 ||
		    lun_known_is_there(&m->known[i], luns))
			m->known[kept++] = m->known[i];
	}
	any = kept < m->cnt;
	m->cnt = kept;
	return any;
}

/* Puts @vol behind all others: it is where its disk was last. False: there is no room.
 * Sets @changed if the file must change. */
static bool lun_memory_add(struct lun_memory *m, const struct volume *vol,
			   bool *changed)
{
	struct lun_known now = lun_known_of(vol);
	unsigned int i = 0;

	while (i < m->cnt && !(m->known[i].lun == vol->lun &&
			       lun_known_is(&m->known[i], vol)))
		i++;
	if (i == LUN_MEMORY_MAX)
		return false;
	now.is_new = i == m->cnt || m->known[i].is_new;
	*changed |= i == m->cnt || strcmp(m->known[i].name, now.name) != 0 ||
		    lun_memory_find(m, vol) != &m->known[i];
	if (i < m->cnt)
		memmove(&m->known[i], &m->known[i + 1],
			(m->cnt-- - i - 1) * sizeof(now));
	m->known[m->cnt++] = now;
	return true;
}

static struct lun_memory *lun_memory_copy(const struct lun_memory *m,
					  struct error *e)
{
	struct lun_memory *copy = malloc(sizeof(*copy));

	if (copy)
		*copy = *m;
	else
		error_set(e, -ENOMEM, "out of memory");
	return copy;
}

/* As lun_memory_write(); after an error @m is what @before was. */
static int lun_memory_change(struct lun_memory *m,
			     const struct lun_memory *before, struct error *e)
{
	int err = lun_memory_write(m, e);

	if (err)
		*m = *before;
	return err;
}

int lun_memory_keep(struct lun_memory *m, const struct lun_map *luns,
		    struct error *e)
{
	_cleanup_free_ struct lun_memory *before = lun_memory_copy(m, e);
	bool changed = false;

	if (!before)
		return e->err;
	for (unsigned int i = 0; i < luns->cnt; i++) {
		if (lun_memory_add(m, luns->vol[i], &changed))
			continue;
		*m = *before;
		return error_set(e, -ENOSPC,
				 "volume '%s': too many volumes had LUNs "
				 "before (rdma-ctl volume forget)",
				 luns->vol[i]->name);
	}
	return changed ? lun_memory_change(m, before, e) : 0;
}

void lun_memory_forget_unseen(struct lun_memory *m, const struct lun_map *luns)
{
	struct error ignored;
	unsigned int kept = 0;

	for (unsigned int i = 0; i < m->cnt; i++) {
		if (!m->known[i].is_new || luns->seen[m->known[i].lun])
			m->known[kept++] = m->known[i];
	}
	if (kept < m->cnt) {
		m->cnt = kept;
		lun_memory_write(m, &ignored);
	}
}

int lun_memory_forget(struct lun_memory *m, const struct lun_map *luns,
		      const char *name, struct error *e)
{
	_cleanup_free_ struct lun_memory *before = lun_memory_copy(m, e);

	if (!before)
		return e->err;
	if (!lun_memory_remove(m, luns, name))
		return error_set(e, -ENOENT,
				 "no volume of this name has had a LUN and is "
				 "gone");
	return lun_memory_change(m, before, e);
}
