/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/flush_record.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/log.h"
#include "base/own_file.h"

#define MAGIC "rdma-flushes 1\n"

struct flush_file {
	char magic[16];
	char boot[64];
	struct backend_life life;
	uint8_t volume[FLUSH_VOLUME_LEN];
	uint8_t loss[FLUSH_LOSS_LEN]; /* drawn at the last loss; zero: none */
	_Atomic uint32_t unclean;     /* open for writing, or not flushed */
	_Atomic uint32_t failed;      /* a flush has */
	_Atomic uint64_t begun;	      /* the flush that began last; 1: none */
	_Atomic uint64_t stable;      /* the last one that has succeeded */
	_Atomic uint64_t doubt;	      /* flush_record_doubt(), as "wrote" */
	struct flush_writer writers[FLUSH_WRITERS];
};

/* Shared by writers without an entry of their own. */
#define REST 0

static_assert(sizeof(((struct flush_file *)0)->magic) == sizeof(MAGIC),
	      "with its NUL");

/* ---- numbers ---- */

static void raise_to(_Atomic uint64_t *number, uint64_t to)
{
	uint64_t is = atomic_load_explicit(number, memory_order_relaxed);

	while (is < to && !atomic_compare_exchange_weak(number, &is, to))
		;
}

static bool is_uncovered(const struct flush_file *f, uint64_t wrote)
{
	return wrote && wrote >= atomic_load(&f->stable);
}

static bool is_dirty(const struct flush_file *f, const struct flush_writer *w)
{
	return is_uncovered(f, atomic_load(&w->wrote));
}

uint64_t flush_record_begin(struct flush_record *r)
{
	return r->file ? atomic_fetch_add(&r->file->begun, 1) + 1 : 0;
}

void flush_record_end(struct flush_record *r, uint64_t nr, int res)
{
	if (!r->file)
		return;
	if (res)
		atomic_store(&r->file->failed, 1);
	else
		raise_to(&r->file->stable, nr);
}

void flush_record_doubt(struct flush_record *r)
{
	if (r->file)
		raise_to(&r->file->doubt, atomic_load(&r->file->begun));
}

void flush_record_flushed(struct flush_record *r)
{
	r->flushed = true;
	if (r->file)
		atomic_store(&r->file->unclean, 0);
}

/* ---- writers ---- */

static struct flush_writer *find_known(struct flush_file *f,
				       const uint8_t *port)
{
	for (unsigned int i = REST + 1; i < FLUSH_WRITERS; i++) {
		struct flush_writer *w = &f->writers[i];

		if (atomic_load(&w->known) &&
		    !memcmp(w->initiator, port, FLUSH_PORT_LEN))
			return w;
	}
	return NULL;
}

static bool is_free(const struct flush_record *r, unsigned int i)
{
	const struct flush_writer *w = &r->file->writers[i];

	if (!atomic_load(&w->known))
		return true;
	return !r->users[i] && !atomic_load(&w->owed) && !is_dirty(r->file, w);
}

static struct flush_writer *take_free(struct flush_record *r, bool unknown)
{
	for (unsigned int i = REST + 1; i < FLUSH_WRITERS; i++) {
		struct flush_writer *w = &r->file->writers[i];

		if (unknown ? !atomic_load(&w->known) : is_free(r, i))
			return w;
	}
	return NULL;
}

/* Returns an entry for a writer that has none. A writer that found no room
 * shares the first entry, and is owed what that is owed. So an entry that is
 * not needed stays known while there is room. */
static struct flush_writer *flush_record_add(struct flush_record *r,
					     const uint8_t *port)
{
	struct flush_file *f = r->file;
	struct flush_writer *w = take_free(r, /* unknown= */ true);

	if (!w)
		w = take_free(r, /* unknown= */ false);
	if (!w)
		return &f->writers[REST];
	atomic_store(&w->known, 0);
	memcpy(w->initiator, port, FLUSH_PORT_LEN);
	atomic_store(&w->wrote, 0);
	atomic_store(&w->owed, atomic_load(&f->writers[REST].owed));
	atomic_store(&w->known, 1);
	return w;
}

static struct flush_writer *flush_record_find(struct flush_record *r,
					      flush_writer_ref *ref,
					      const uint8_t *port, bool may_add)
{
	struct flush_writer *w = atomic_load(ref);

	if (w)
		return w;
	pthread_mutex_lock(&r->lock);
	w = atomic_load(ref);
	if (!w) {
		w = find_known(r->file, port);
		if (!w && may_add)
			w = flush_record_add(r, port);
		if (w) {
			r->users[w - r->file->writers]++;
			atomic_store(ref, w);
		}
	}
	pthread_mutex_unlock(&r->lock);
	return w;
}

void flush_record_leave(struct flush_record *r, flush_writer_ref *ref)
{
	struct flush_writer *w = atomic_exchange(ref, NULL);

	if (!w)
		return;
	pthread_mutex_lock(&r->lock);
	r->users[w - r->file->writers]--;
	pthread_mutex_unlock(&r->lock);
}

void flush_record_wrote(struct flush_record *r, flush_writer_ref *ref,
			const uint8_t *port)
{
	if (r->file)
		raise_to(&flush_record_find(r, ref, port, /* may_add= */ true)
				  ->wrote,
			 atomic_load(&r->file->begun));
}

bool flush_record_owes(struct flush_record *r, flush_writer_ref *ref,
		       const uint8_t *port)
{
	const struct flush_writer *w;

	if (!r->owes)
		return false;
	w = flush_record_find(r, ref, port,
			      atomic_load(&r->file->writers[REST].owed));
	return w && atomic_load(&w->owed);
}

void flush_record_told(struct flush_record *r, flush_writer_ref *ref,
		       const uint8_t *port)
{
	struct flush_writer *w =
		flush_record_find(r, ref, port, /* may_add= */ false);

	if (w && w != &r->file->writers[REST])
		atomic_store(&w->owed, 0);
}

/* ---- at start: what has been lost ---- */

/* All writes that are not known to be stable may be lost. */
static void owe(struct flush_file *f, bool all)
{
	for (unsigned int i = 0; i < FLUSH_WRITERS; i++) {
		struct flush_writer *w = &f->writers[i];

		if (all ? atomic_load(&w->wrote) != 0 : is_dirty(f, w))
			atomic_store(&w->owed, 1);
	}
}

/* Nothing is unflushed any more. Keeps the writers that are owed a failure, and
 * those that are not although the first entry is. Returns whether any writer is
 * owed one. */
static bool flush_record_settle(struct flush_file *f)
{
	bool owes = atomic_load(&f->writers[REST].owed);
	bool keep = owes;

	for (unsigned int i = 0; i < FLUSH_WRITERS; i++) {
		struct flush_writer *w = &f->writers[i];

		atomic_store(&w->wrote, 0);
		owes |= atomic_load(&w->owed);
		if (!keep && !atomic_load(&w->owed))
			atomic_store(&w->known, 0);
	}
	atomic_store(&f->doubt, 0);
	atomic_store(&f->begun, 1);
	atomic_store(&f->stable, 0);
	return owes;
}

static void flush_loss_draw(uint8_t ret_loss[FLUSH_LOSS_LEN])
{
	/* Blocks until there are random numbers. A call for so few bytes
	 * returns all of them. */
	if (getrandom(ret_loss, FLUSH_LOSS_LEN, 0) != FLUSH_LOSS_LEN)
		abort();
}

static void log_loss(const struct flush_record_options *opt, const char *why)
{
	log_event(LOG_ERROR, &opt->about,
		  "%s: %s; writes since its last flush may be lost, so the "
		  "next flush of each initiator that made some fails",
		  opt->label, why);
}

/* After an unclean end. Checks what the kernel still has. Returns whether
 * writes may be lost, and why. */
static bool has_lost(const struct flush_record_options *opt,
		     const struct flush_file *f, char *why, size_t len)
{
	struct backend *be = opt->store;
	int err = 0;

	if (!atomic_load(&f->unclean) && !atomic_load(&f->failed))
		return false;
	log_event(LOG_INFO, &opt->about,
		  "%s: it was not closed; making it stable", opt->label);
	err = backend_sync(be);
	if (err)
		snprintf(why, len, "it cannot be flushed: %s", strerror(-err));
	else if (atomic_load(&f->failed))
		snprintf(why, len, "a flush failed before this start");
	else if (is_uncovered(f, atomic_load(&f->doubt)))
		snprintf(why, len, "a write failed before this start");
	else if (be->info.forgets)
		snprintf(why, len, "its cache is gone with the process");
	return *why;
}

static void flush_record_judge(const struct flush_record_options *opt,
			       struct flush_file *f)
{
	bool is_same =
		*opt->boot && !strncmp(f->boot, opt->boot, sizeof(f->boot)) &&
		!memcmp(&f->life, &opt->store->info.life, sizeof(f->life));
	char why[256] = "";
	bool lost;

	/* Of a new file nothing is known. */
	if (!*f->boot)
		return;
	if (!is_same && memcmp(f->volume, opt->volume, sizeof(f->volume))) {
		/* Another store had this number. */
		memset(f->writers, 0, sizeof(f->writers));
		memset(f->loss, 0, sizeof(f->loss));
		return;
	}
	if (!is_same)
		memset(f->loss, 0, sizeof(f->loss));
	lost = is_same ? has_lost(opt, f, why, sizeof(why))
		       : atomic_load(&f->unclean) || atomic_load(&f->failed);
	if (!lost)
		return;
	if (!is_same)
		snprintf(why, sizeof(why),
			 "the machine or the device was "
			 "restarted before it was flushed");
	log_loss(opt, why);
	/* In this order. If the process is killed here, the next one does it
	 * again. */
	owe(f, /* all= */ !is_same);
	flush_loss_draw(f->loss);
}

/* From here on the file describes this process. */
static void take_over(struct flush_record *r,
		      const struct flush_record_options *opt)
{
	struct flush_file *f = r->file;

	r->owes = flush_record_settle(f);
	snprintf(f->boot, sizeof(f->boot), "%s", opt->boot);
	f->life = opt->store->info.life;
	memcpy(f->volume, opt->volume, sizeof(f->volume));
	atomic_store(&f->unclean, r->writable);
	atomic_store(&f->failed, 0);
	r->flushed = !r->writable;
}

/* ---- the file ---- */

static int flush_record_map(struct flush_record *r, int fd)
{
	void *p = mmap(NULL, sizeof(*r->file), PROT_READ | PROT_WRITE,
		       MAP_SHARED, fd, 0);

	if (p == MAP_FAILED)
		return -errno;
	r->file = p;
	return 0;
}

/* Allocates the whole file, so that a store to it never fails. */
static int fill_new(struct flush_record *r, int fd, bool was_damaged)
{
	int err = -posix_fallocate(fd, 0, sizeof(*r->file));

	if (!err)
		err = flush_record_map(r, fd);
	if (err)
		return err;
	assert(r->file);
	memcpy(r->file->magic, MAGIC, sizeof(MAGIC));
	atomic_store(&r->file->begun, 1);
	if (was_damaged) {
		flush_loss_draw(r->file->loss);
		atomic_store(&r->file->writers[REST].owed, 1);
	}
	return fsync(fd) ? -errno : 0;
}

static int flush_record_create(struct flush_record *r, bool was_damaged)
{
	_cleanup_free_ char *tmp = NULL;
	_cleanup_close_ int fd = -1;
	int err;

	if (asprintf(&tmp, "%s.new", r->path) < 0) {
		tmp = NULL;
		return -ENOMEM;
	}
	fd = own_file_create(tmp, 0600);
	if (fd < 0)
		return fd;
	err = fill_new(r, fd, was_damaged);
	if (!err && rename(tmp, r->path))
		err = -errno;
	if (err)
		unlink(tmp);
	return err ? err : directory_sync_of(r->path);
}

static bool is_whole(const struct flush_file *f)
{
	return !memcmp(f->magic, MAGIC, sizeof(MAGIC)) &&
	       memchr(f->boot, '\0', sizeof(f->boot));
}

/* 0, also without a file; -EBADMSG: it is damaged. */
static int open_old(struct flush_record *r)
{
	_cleanup_close_ int fd = own_file_open_path(r->path, O_RDWR, 0);
	struct stat st;
	int err;

	if (fd < 0)
		return fd == -ENOENT ? 0 : fd;
	if (fstat(fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode) || st.st_size != sizeof(*r->file))
		return -EBADMSG;
	err = flush_record_map(r, fd);
	if (!err && !is_whole(r->file)) {
		munmap(r->file, sizeof(*r->file));
		r->file = NULL;
		err = -EBADMSG;
	}
	return err;
}

static int open_file(struct flush_record *r,
		     const struct flush_record_options *opt)
{
	int err = open_old(r);

	if (err == -EBADMSG) {
		log_loss(opt, "the record of its flushes is damaged");
		return flush_record_create(r, /* was_damaged= */ true);
	}
	if (!err && !r->file && r->writable)
		err = flush_record_create(r, /* was_damaged= */ false);
	return err;
}

/* ---- life ---- */

void flush_record_init(struct flush_record *r)
{
	*r = (struct flush_record){ .file = NULL };
	pthread_mutex_init(&r->lock, NULL);
}

static bool has_nothing_to_tell(const struct flush_record *r)
{
	static const uint8_t none[FLUSH_LOSS_LEN];
	const struct flush_file *f = r->file;

	for (unsigned int i = 0; i < FLUSH_WRITERS; i++) {
		if (atomic_load(&f->writers[i].owed))
			return false;
	}
	return r->writable && r->flushed && !atomic_load(&f->failed) &&
	       !memcmp(f->loss, none, sizeof(none));
}

void flush_record_fini(struct flush_record *r)
{
	if (r->file && has_nothing_to_tell(r))
		unlink(r->path);
	if (r->file)
		munmap(r->file, sizeof(*r->file));
	free(r->path);
	pthread_mutex_destroy(&r->lock);
}

int flush_record_open(struct flush_record *r,
		      const struct flush_record_options *opt)
{
	int err;

	r->writable = opt->writable;
	r->path = strdup(opt->path);
	err = r->path ? open_file(r, opt) : -ENOMEM;
	if (err || !r->file)
		return err;
	flush_record_judge(opt, r->file);
	take_over(r, opt);
	return 0;
}

const uint8_t *flush_record_loss(const struct flush_record *r)
{
	return r->file ? r->file->loss : NULL;
}
