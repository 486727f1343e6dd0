/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/disk/journal.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/file_lock.h"
#include "base/hash.h"
#include "base/own_file.h"

#define VERSION	   3
#define FIRST_WORD "rdma-target journal "
/* A file that had no slots. */
#define OLD_VERSION    2
#define OLD_FIRST_WORD "rdma-target state "
#define OLD_END	       "\nend\n"
/* The first line of a slot, filled up with spaces. */
#define HEADER 128

/* ---- a slot ---- */

/* Writes the first line up to the digest, and returns its length. */
static size_t slot_head_text(uint64_t number, const size_t lens[],
			     char text[HEADER])
{
	return (size_t)snprintf(text, HEADER,
				FIRST_WORD "%d %" PRIu64 " %zu %zu ", VERSION,
				number, lens[0], lens[1]);
}

static uint64_t slot_digest(uint64_t number, const size_t lens[],
			    const void *body)
{
	char head[HEADER];
	uint64_t hash = hash_bytes(HASH_BEGIN, head,
				   slot_head_text(number, lens, head));

	return hash_bytes(hash, body, lens[0] + lens[1]);
}

/* Fills j->bytes; j->len covers whole blocks. */
static void slot_make(struct disk_journal *j,
		      char parts[][DISK_JOURNAL_PART_MAX + 1])
{
	size_t lens[DISK_JOURNAL_PARTS] = { strlen(parts[0]),
					    strlen(parts[1]) };
	char *body = (char *)j->bytes + HEADER;
	char head[HEADER];
	size_t len;

	j->number++;
	memset(j->bytes, 0, DISK_JOURNAL_SLOT);
	memcpy(body, parts[0], lens[0]);
	memcpy(body + lens[0], parts[1], lens[1]);
	len = slot_head_text(j->number, lens, head);
	snprintf(head + len, sizeof(head) - len, "%016" PRIx64,
		 slot_digest(j->number, lens, body));
	sprintf((char *)j->bytes, "%-*s", HEADER - 1, head);
	j->bytes[HEADER - 1] = '\n';
	j->at = 0;
	j->len = (HEADER + lens[0] + lens[1] + 4095) / 4096 * 4096;
}

static off_t slot_place(unsigned int slot)
{
	return (off_t)slot * DISK_JOURNAL_SLOT;
}

/* What a slot says of itself. */
struct slot_head {
	uint64_t version; /* 0: nothing that can be read */
	uint64_t number;
	size_t lens[DISK_JOURNAL_PARTS];
	uint64_t digest;
};

/* The next number of a text; 0: there is none. Advances it. */
static uint64_t slot_take_number(const char **text, int base)
{
	char *end;
	uint64_t number = strtoull(*text, &end, base);

	*text = end;
	return number;
}

static void slot_read_head(const uint8_t *slot, struct slot_head *ret)
{
	char head[HEADER + 1];
	const char *text = head + strlen(FIRST_WORD);

	memcpy(head, slot, HEADER);
	head[HEADER] = '\0';
	*ret = (struct slot_head){ .version = 0 };
	if (strncmp(head, FIRST_WORD, strlen(FIRST_WORD)))
		return;
	ret->version = slot_take_number(&text, 10);
	ret->number = slot_take_number(&text, 10);
	for (unsigned int i = 0; i < DISK_JOURNAL_PARTS; i++)
		ret->lens[i] = slot_take_number(&text, 10);
	ret->digest = slot_take_number(&text, 16);
}

static bool slot_is_valid(const uint8_t *slot, const struct slot_head *head)
{
	const void *body = slot + HEADER;

	return head->version == VERSION &&
	       head->lens[0] <= DISK_JOURNAL_PART_MAX &&
	       head->lens[1] <= DISK_JOURNAL_PART_MAX &&
	       head->digest == slot_digest(head->number, head->lens, body) &&
	       !memchr(body, '\0', head->lens[0] + head->lens[1]);
}

static void slot_take(struct disk_journal *j, unsigned int slot,
		      const uint8_t *bytes, const struct slot_head *head)
{
	const char *body = (const char *)bytes + HEADER;

	j->newest = slot;
	j->number = head->number;
	for (unsigned int i = 0; i < DISK_JOURNAL_PARTS; i++) {
		memcpy(j->is[i], body, head->lens[i]);
		j->is[i][head->lens[i]] = '\0';
		body += head->lens[i];
	}
}

/* ---- changes ---- */

static void change_ends(struct reactor_msg *msg)
{
	struct disk_journal_change *c =
		container_of(msg, struct disk_journal_change, msg);

	c->done(c, c->err);
}

static void journal_prepare(struct disk_journal *j)
{
	struct list *it;

	memcpy(j->next, j->is, DISK_JOURNAL_PARTS * sizeof(*j->is));
	list_splice_tail(&j->changing, &j->waiting);
	list_for_each(it, &j->changing) {
		struct disk_journal_change *c =
			container_of(it, struct disk_journal_change, node);
		char *text = j->next[c->part];

		text[c->format(c, text, DISK_JOURNAL_PART_MAX)] = '\0';
	}
	slot_make(j, j->next);
}

static void journal_go(struct disk_journal *j, enum disk_journal_step step)
{
	struct io_uring_sqe *sqe = reactor_sqe(j->reactor);

	j->step = step;
	if (step == DISK_JOURNAL_SYNCS || step == DISK_JOURNAL_SYNCS_BACK)
		io_uring_prep_fsync(sqe, j->fd, IORING_FSYNC_DATASYNC);
	else
		io_uring_prep_write(sqe, j->fd, j->bytes + j->at,
				    (unsigned int)(j->len - j->at),
				    (uint64_t)slot_place(!j->newest) + j->at);
	reactor_prep_done(sqe, &j->op);
}

static void journal_begin(struct disk_journal *j)
{
	journal_prepare(j);
	journal_go(j, DISK_JOURNAL_WRITES);
}

static void journal_tell(struct disk_journal *j, int err)
{
	while (!list_empty(&j->changing)) {
		struct disk_journal_change *c =
			container_of(list_pop(&j->changing),
				     struct disk_journal_change, node);

		c->err = err;
		reactor_send(c->reactor, &c->msg);
	}
}

/* What is in j->bytes is stable. */
static void journal_is_written(struct disk_journal *j)
{
	j->newest = !j->newest;
	j->unsure = false;
}

static void journal_end(struct disk_journal *j, int err)
{
	j->step = DISK_JOURNAL_RESTS;
	journal_tell(j, err);
	if (!list_empty(&j->waiting))
		journal_begin(j);
}

static void journal_fail(struct disk_journal *j, int err)
{
	if (j->step == DISK_JOURNAL_PUTS_BACK ||
	    j->step == DISK_JOURNAL_SYNCS_BACK) {
		j->unsure = true;
		journal_end(j, j->err);
		return;
	}
	j->err = err;
	slot_make(j, j->is);
	journal_go(j, DISK_JOURNAL_PUTS_BACK);
}

static void journal_next(struct disk_journal *j, int res)
{
	switch (j->step) {
	case DISK_JOURNAL_WRITES:
	case DISK_JOURNAL_PUTS_BACK:
		j->at += (size_t)res;
		journal_go(j, j->at < j->len ? j->step : j->step + 1);
		return;
	case DISK_JOURNAL_SYNCS:
		memcpy(j->is, j->next, DISK_JOURNAL_PARTS * sizeof(*j->is));
		journal_is_written(j);
		journal_end(j, 0);
		return;
	case DISK_JOURNAL_SYNCS_BACK:
		journal_is_written(j);
		journal_end(j, j->err);
		return;
	case DISK_JOURNAL_RESTS:
	case DISK_JOURNAL_CALLS:
		return;
	}
}

static void journal_step_done(struct reactor_op *op, int res,
			      unsigned int cqe_flags)
{
	struct disk_journal *j = container_of(op, struct disk_journal, op);
	bool writes = j->step == DISK_JOURNAL_WRITES ||
		      j->step == DISK_JOURNAL_PUTS_BACK;

	pthread_mutex_lock(&j->lock);
	if (res == -EINTR || res == -EAGAIN)
		journal_go(j, j->step);
	else if (res < 0 || (writes && res == 0))
		journal_fail(j, res < 0 ? res : -EIO);
	else
		journal_next(j, res);
	pthread_mutex_unlock(&j->lock);
}

static void journal_is_called(struct reactor_msg *msg)
{
	struct disk_journal *j = container_of(msg, struct disk_journal, call);

	pthread_mutex_lock(&j->lock);
	journal_begin(j);
	pthread_mutex_unlock(&j->lock);
}

void disk_journal_serve(struct disk_journal *j, struct reactor *r)
{
	j->reactor = r;
}

void disk_journal_start(struct disk_journal *j, struct disk_journal_change *c)
{
	c->msg.run = change_ends;
	pthread_mutex_lock(&j->lock);
	list_add_tail(&j->waiting, &c->node);
	if (!j->reactor)
		j->reactor = c->reactor;
	if (j->step == DISK_JOURNAL_RESTS) {
		j->step = DISK_JOURNAL_CALLS;
		reactor_send(j->reactor, &j->call);
	}
	pthread_mutex_unlock(&j->lock);
}

static int write_slot(struct disk_journal *j, int fd, off_t place)
{
	while (j->at < j->len) {
		ssize_t n = pwrite(fd, j->bytes + j->at, j->len - j->at,
				   place + (off_t)j->at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return n < 0 ? -errno : -EIO;
		j->at += (size_t)n;
	}
	return 0;
}

/* Makes the texts @parts stable. */
static int journal_write_now(struct disk_journal *j,
			     char parts[][DISK_JOURNAL_PART_MAX + 1])
{
	int err;

	slot_make(j, parts);
	err = write_slot(j, j->fd, slot_place(!j->newest));
	if (!err && fdatasync(j->fd))
		err = -errno;
	if (!err)
		journal_is_written(j);
	return err;
}

int disk_journal_write(struct disk_journal *j, unsigned int part,
		       const char *text)
{
	int err;

	if (j->step != DISK_JOURNAL_RESTS)
		return -EBUSY;
	if (!strcmp(j->is[part], text) && !j->unsure)
		return 0;
	memcpy(j->next, j->is, DISK_JOURNAL_PARTS * sizeof(*j->is));
	snprintf(j->next[part], sizeof(*j->next), "%s", text);
	err = journal_write_now(j, j->next);
	if (!err)
		memcpy(j->is, j->next, DISK_JOURNAL_PARTS * sizeof(*j->is));
	else if (journal_write_now(j, j->is))
		j->unsure = true;
	return err;
}

/* ---- opening ---- */

static int journal_busy(const char *name, pid_t pid, struct error *e)
{
	char who[FILE_LOCK_NAME_MAX];

	if (pid == getpid())
		return error_set(e, -EBUSY,
				 "state file %s: in use by another volume of "
				 "this name",
				 name);
	return error_set(e, -EBUSY, "state file %s: in use by %s", name,
			 file_lock_name(pid, who));
}

/* One target at a time; the kernel drops the lock when the process ends. */
static int journal_lock(struct disk_journal *j, struct error *e)
{
	_cleanup_free_ char *name = NULL;
	pid_t pid = 0;
	int err;

	if (asprintf(&name, "%s.lock", j->path) < 0) {
		name = NULL;
		return error_set(e, -ENOMEM, "out of memory");
	}
	j->lock_fd = own_file_open_path(name, O_RDWR | O_CREAT, 0600);
	err = j->lock_fd < 0
		      ? j->lock_fd
		      : file_lock_take(j->lock_fd, name, /* shared= */ false,
				       FILE_LOCK_STORE_MS, &pid);
	if (err == -EBUSY)
		return journal_busy(name, pid, e);
	return err ? error_set(e, err, "state file %s: %s", name,
			       own_file_strerror(err))
		   : 0;
}

static int journal_fill(struct disk_journal *j, int fd)
{
	int err = -posix_fallocate(fd, 0, 2 * DISK_JOURNAL_SLOT);

	slot_make(j, j->is);
	j->newest = 0;
	if (!err)
		err = write_slot(j, fd, slot_place(0));
	return err || !fsync(fd) ? err : -errno;
}

/* Makes the file with the texts that were read, in the place of what is there. */
static int journal_create(struct disk_journal *j)
{
	_cleanup_free_ char *name = NULL;
	int err;

	if (asprintf(&name, "%s.new", j->path) < 0) {
		name = NULL;
		return -ENOMEM;
	}
	j->fd = own_file_create(name, 0600);
	if (j->fd < 0)
		return j->fd;
	err = journal_fill(j, j->fd);
	if (!err && rename(name, j->path))
		err = -errno;
	if (err)
		unlink(name);
	return err ? err : directory_sync_of(j->path);
}

static int journal_bad(const struct disk_journal *j, const char *what,
		       struct error *e)
{
	return error_set(
		e, -EBADMSG,
		"state file %s: %s; put the right one there, or remove that "
		"file to start without what it holds",
		j->path, what);
}

/* Reads a slot into j->bytes. */
static int slot_read(struct disk_journal *j, unsigned int slot, size_t *ret_len,
		     struct error *e)
{
	ssize_t len =
		pread(j->fd, j->bytes, DISK_JOURNAL_SLOT, slot_place(slot));

	if (len < 0)
		return error_set(e, -errno, "state file %s: %s", j->path,
				 strerror(errno));
	*ret_len = (size_t)len;
	return 0;
}

static int journal_read_slots(struct disk_journal *j, struct error *e)
{
	bool found = false;

	for (unsigned int i = 0; i < 2; i++) {
		struct slot_head head;
		size_t len = 0;
		int err = slot_read(j, i, &len, e);

		if (err)
			return err;
		if (len < DISK_JOURNAL_SLOT)
			return journal_bad(j, "it is cut short", e);
		slot_read_head(j->bytes, &head);
		if (head.version > VERSION)
			return journal_bad(j, "a newer version wrote it", e);
		if (!slot_is_valid(j->bytes, &head) ||
		    (found && head.number < j->number))
			continue;
		slot_take(j, i, j->bytes, &head);
		found = true;
	}
	return found ? 0 : journal_bad(j, "it is damaged", e);
}

/* What is wrong with the text of a version that had no slots; NULL: nothing. */
static const char *old_fault(const char *text, size_t len)
{
	size_t end = strlen(OLD_END);

	if (len > DISK_JOURNAL_PART_MAX || memchr(text, '\0', len))
		return "it is damaged";
	if (len < end || memcmp(text + len - end, OLD_END, end))
		return "it is cut short";
	text += strlen(OLD_FIRST_WORD);
	return slot_take_number(&text, 10) > OLD_VERSION
		       ? "a newer version wrote it"
		       : NULL;
}

/* Such a text is in j->bytes. It stays there until disk_journal_make(). */
static int journal_take_old(struct disk_journal *j, size_t len, struct error *e)
{
	const char *fault = old_fault((const char *)j->bytes, len);

	if (fault)
		return journal_bad(j, fault, e);
	memcpy(j->is[0], j->bytes, len);
	close(j->fd);
	j->fd = -1;
	return 0;
}

static bool journal_is_old(const struct disk_journal *j, size_t len)
{
	return len >= strlen(OLD_FIRST_WORD) &&
	       !memcmp(j->bytes, OLD_FIRST_WORD, strlen(OLD_FIRST_WORD));
}

static int journal_read(struct disk_journal *j, struct error *e)
{
	struct stat st;
	size_t len = 0;
	int err = slot_read(j, 0, &len, e);

	if (err)
		return err;
	if (journal_is_old(j, len))
		return journal_take_old(j, len, e);
	if (fstat(j->fd, &st) || st.st_size != 2 * DISK_JOURNAL_SLOT)
		return journal_bad(j, "it is cut short, or no state file", e);
	return journal_read_slots(j, e);
}

static int journal_fail_file(const struct disk_journal *j, int err,
			     struct error *e)
{
	return error_set(e, err, "state file %s: %s", j->path,
			 own_file_strerror(err));
}

/* A process that was killed may have written what is read, and not synchronized it. The
 * next change goes to the other slot, which has what was stable before. */
static int journal_open_file(struct disk_journal *j, struct error *e)
{
	int err;

	j->fd = own_file_open_path(j->path, O_RDWR, 0);
	if (j->fd == -ENOENT)
		return 0;
	if (j->fd < 0)
		return journal_fail_file(j, j->fd, e);
	err = journal_read(j, e);
	if (!err && disk_journal_is_made(j) && fdatasync(j->fd))
		err = journal_fail_file(j, -errno, e);
	return err;
}

int disk_journal_make(struct disk_journal *j, struct error *e)
{
	int err = disk_journal_is_made(j) ? 0 : journal_create(j);

	return err ? journal_fail_file(j, err, e) : 0;
}

static bool journal_allocate(struct disk_journal *j, const char *path)
{
	*j = (struct disk_journal){ .fd = -1, .lock_fd = -1 };
	pthread_mutex_init(&j->lock, NULL);
	list_init(&j->waiting);
	list_init(&j->changing);
	j->op.done = journal_step_done;
	j->call.run = journal_is_called;
	j->path = strdup(path);
	j->is = calloc(DISK_JOURNAL_PARTS, sizeof(*j->is));
	j->next = calloc(DISK_JOURNAL_PARTS, sizeof(*j->next));
	j->bytes = malloc(DISK_JOURNAL_SLOT);
	return j->path && j->is && j->next && j->bytes;
}

static void journal_free(struct disk_journal *j)
{
	if (j->fd >= 0)
		close(j->fd);
	if (j->lock_fd >= 0)
		close(j->lock_fd);
	free(j->path);
	free(j->is);
	free(j->next);
	free(j->bytes);
	pthread_mutex_destroy(&j->lock);
	*j = (struct disk_journal){ .path = NULL };
}

int disk_journal_open(struct disk_journal *j, const char *path, bool is_alone,
		      struct error *e)
{
	int err = 0;

	if (!journal_allocate(j, path)) {
		journal_free(j);
		return error_set(e, -ENOMEM, "out of memory");
	}
	if (!is_alone)
		err = journal_lock(j, e);
	if (!err)
		err = journal_open_file(j, e);
	if (err)
		journal_free(j);
	return err;
}

void disk_journal_close(struct disk_journal *j)
{
	if (!j->path)
		return;
	if (!*j->is[0] && !*j->is[1] && !j->unsure)
		unlink(j->path);
	journal_free(j);
}
