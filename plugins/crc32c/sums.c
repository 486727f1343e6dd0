/* SPDX-License-Identifier: BSD-2-Clause */
#include "sums.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "crc32c.h"

/* The header has a page of its own, and is written as one sector. Numbers are
 * little-endian. */
#define CRCSUMS_MAGIC	    "rdmacrc1"
#define CRCSUMS_HEADER	    4096u
#define CRCSUMS_HEADER_USED 512u
#define CRCSUMS_RECORD	    16u
/* Records that are read and written at once. */
#define CRCSUMS_CHUNK 4096u
/* Epochs that are reserved at once. */
#define CRCSUMS_RESERVE 65536u

/* The last 8 bytes of a record: 3 of the check, 2 bits of flags, the epoch. */
#define CRCSUMS_CHECK_MASK  0xffffffull
#define CRCSUMS_ANY_BIT	    24u
#define CRCSUMS_DOUBT_BIT   25u
#define CRCSUMS_EPOCH_SHIFT 26u

/* ---- bytes ---- */

static void crcsums_put(uint8_t *p, uint64_t value, unsigned int len)
{
	for (unsigned int i = 0; i < len; i++)
		p[i] = (uint8_t)(value >> (8 * i));
}

static uint64_t crcsums_get(const uint8_t *p, unsigned int len)
{
	uint64_t value = 0;

	for (unsigned int i = 0; i < len; i++)
		value |= (uint64_t)p[i] << (8 * i);
	return value;
}

static int crcsums_transfer(int fd, bool write, void *buf, size_t len,
			    uint64_t at)
{
	uint8_t *p = buf;

	while (len) {
		ssize_t n = write ? pwrite(fd, p, len, (off_t)at)
				  : pread(fd, p, len, (off_t)at);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		if (!n && write)
			return -EIO;
		if (!n) { /* not written yet: like a hole */
			memset(p, 0, len);
			return 0;
		}
		p += n;
		at += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* ---- a record ---- */

static uint64_t crcsums_at(uint64_t block)
{
	return CRCSUMS_HEADER + block * CRCSUMS_RECORD;
}

/* Computes the check of a record from its bytes and the number of its block. */
static uint64_t crcsums_check_of(const uint8_t *record, uint64_t tail,
				 uint64_t block)
{
	uint8_t bytes[24];

	memcpy(bytes, record, 8);
	crcsums_put(bytes + 8, tail & ~CRCSUMS_CHECK_MASK, 8);
	crcsums_put(bytes + 16, block, 8);
	return crc32c_of(bytes, sizeof(bytes)) & CRCSUMS_CHECK_MASK;
}

static void crcsums_encode(uint8_t *record, uint64_t block,
			   const struct crcsum *c)
{
	uint64_t tail = c->epoch << CRCSUMS_EPOCH_SHIFT;

	if (c->flags & CRCSUM_NONE) {
		memset(record, 0, CRCSUMS_RECORD);
		return;
	}
	if (c->flags & CRCSUM_ANY)
		tail |= 1ull << CRCSUMS_ANY_BIT;
	if (c->flags & CRCSUM_DOUBT)
		tail |= 1ull << CRCSUMS_DOUBT_BIT;
	crcsums_put(record, c->sum, 4);
	crcsums_put(record + 4, c->before, 4);
	tail |= crcsums_check_of(record, tail, block);
	crcsums_put(record + 8, tail, 8);
}

static void crcsums_decode(const uint8_t *record, uint64_t block,
			   struct crcsum *ret)
{
	static const uint8_t zeroes[CRCSUMS_RECORD];
	uint64_t tail = crcsums_get(record + 8, 8);

	*ret = (struct crcsum){
		.sum = (uint32_t)crcsums_get(record, 4),
		.before = (uint32_t)crcsums_get(record + 4, 4),
		.epoch = tail >> CRCSUMS_EPOCH_SHIFT,
	};
	if (tail >> CRCSUMS_ANY_BIT & 1)
		ret->flags |= CRCSUM_ANY;
	if (tail >> CRCSUMS_DOUBT_BIT & 1)
		ret->flags |= CRCSUM_DOUBT;
	if (!memcmp(record, zeroes, sizeof(zeroes)))
		ret->flags = CRCSUM_NONE;
	else if (crcsums_check_of(record, tail, block) !=
		 (tail & CRCSUMS_CHECK_MASK))
		ret->flags = CRCSUM_DAMAGED;
}

int crcsums_read(struct crcsums *s, uint64_t first, unsigned int cnt,
		 struct crcsum *ret)
{
	uint8_t buf[CRCSUMS_RECORD * 256];

	while (cnt) {
		unsigned int n = cnt < 256 ? cnt : 256;
		int err = crcsums_transfer(s->fd, false, buf,
					   (size_t)n * CRCSUMS_RECORD,
					   crcsums_at(first));

		if (err)
			return err;
		for (unsigned int i = 0; i < n; i++)
			crcsums_decode(buf + (size_t)i * CRCSUMS_RECORD,
				       first + i, ret++);
		first += n;
		cnt -= n;
	}
	return 0;
}

uint64_t crcsums_without(const struct crcsums *s, uint64_t first, uint64_t cnt)
{
	off_t data = lseek(s->fd, (off_t)crcsums_at(first), SEEK_DATA);
	uint64_t next;

	if (data < 0)
		return errno == ENXIO ? cnt : 0;
	next = ((uint64_t)data - CRCSUMS_HEADER) / CRCSUMS_RECORD;
	return next - first < cnt ? next - first : cnt;
}

int crcsums_write(struct crcsums *s, uint64_t first, unsigned int cnt,
		  const struct crcsum *sums)
{
	uint8_t buf[CRCSUMS_RECORD * 256];

	while (cnt) {
		unsigned int n = cnt < 256 ? cnt : 256;
		int err;

		for (unsigned int i = 0; i < n; i++, sums++) {
			crcsums_encode(buf + (size_t)i * CRCSUMS_RECORD,
				       first + i, sums);
			if (sums->epoch > s->used)
				s->used = sums->epoch;
			s->has_doubt |= sums->flags & CRCSUM_DOUBT;
		}
		err = crcsums_transfer(s->fd, true, buf,
				       (size_t)n * CRCSUMS_RECORD,
				       crcsums_at(first));
		if (err)
			return err;
		first += n;
		cnt -= n;
	}
	return 0;
}

/* Writes zeroes if the file system cannot make a hole. */
static int crcsums_write_none(struct crcsums *s, uint64_t first, uint64_t cnt)
{
	uint8_t zeroes[4096] = { 0 };
	uint64_t at = crcsums_at(first);
	uint64_t end = crcsums_at(first + cnt);
	int err = 0;

	while (at < end && !err) {
		size_t len =
			end - at < sizeof(zeroes) ? end - at : sizeof(zeroes);

		err = crcsums_transfer(s->fd, true, zeroes, len, at);
		at += len;
	}
	return err;
}

int crcsums_forget(struct crcsums *s, uint64_t first, uint64_t cnt)
{
	s->forgot = s->epoch;
	if (!fallocate(s->fd, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
		       (off_t)crcsums_at(first), (off_t)(cnt * CRCSUMS_RECORD)))
		return 0;
	return crcsums_write_none(s, first, cnt);
}

int crcsums_sync(struct crcsums *s)
{
	if (fdatasync(s->fd))
		return -errno;
	s->has_doubt = false;
	return 0;
}

/* ---- the header ---- */

static int crcsums_refuse(char *msg, size_t msg_len, int err, const char *fmt,
			  ...) __attribute__((format(printf, 4, 5)));

static int crcsums_refuse(char *msg, size_t msg_len, int err, const char *fmt,
			  ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(msg, msg_len, fmt, ap);
	va_end(ap);
	return err;
}

static int crcsums_write_header(struct crcsums *s, bool clean)
{
	uint8_t h[CRCSUMS_HEADER_USED] = { 0 };

	memcpy(h, CRCSUMS_MAGIC, 8);
	crcsums_put(h + 8, s->block_size, 4);
	h[12] = clean;
	crcsums_put(h + 16, s->bytes, 8);
	crcsums_put(h + 24, s->settled, 8);
	crcsums_put(h + 32, s->reserved, 8);
	memcpy(h + 40, s->mark, sizeof(s->mark));
	crcsums_put(h + sizeof(h) - 4, crc32c_of(h, sizeof(h) - 4), 4);
	return crcsums_transfer(s->fd, true, h, sizeof(h), 0);
}

static int crcsums_check_mark(const uint8_t *h,
			      const struct crcsums_wanted *wanted, char *msg,
			      size_t msg_len)
{
	const char *mark = (const char *)h + 40;

	if (!*mark || !*wanted->mark ||
	    !strncmp(mark, wanted->mark, CRCSUM_MARK_MAX))
		return 0;
	return crcsums_refuse(msg, msg_len, -ESTALE,
			      "sums=%s: has the checksums of another store: of "
			      "%.60s, and this is %.60s",
			      wanted->path, mark, wanted->mark);
}

/* Checks that the file belongs to this volume. */
static int crcsums_read_header(struct crcsums *s,
			       const struct crcsums_wanted *wanted,
			       bool *ret_clean, char *msg, size_t msg_len)
{
	uint8_t h[CRCSUMS_HEADER_USED];
	int err = crcsums_transfer(s->fd, false, h, sizeof(h), 0);

	if (err)
		return crcsums_refuse(msg, msg_len, err, "sums=%s: %s",
				      wanted->path, strerror(-err));
	if (memcmp(h, CRCSUMS_MAGIC, 8) ||
	    crcsums_get(h + sizeof(h) - 4, 4) != crc32c_of(h, sizeof(h) - 4))
		return crcsums_refuse(msg, msg_len, -EINVAL,
				      "sums=%s: is no file of checksums, or a "
				      "damaged one",
				      wanted->path);
	if (crcsums_get(h + 8, 4) != wanted->block_size)
		return crcsums_refuse(
			msg, msg_len, -EINVAL,
			"sums=%s: has the checksums of blocks of %u bytes, the "
			"volume's have %u; add block-size=%u",
			wanted->path, (unsigned int)crcsums_get(h + 8, 4),
			wanted->block_size,
			(unsigned int)crcsums_get(h + 8, 4));
	if (crcsums_get(h + 16, 8) > wanted->bytes)
		return crcsums_refuse(
			msg, msg_len, -ESTALE,
			"sums=%s: has the checksums of a volume of %llu bytes, "
			"this one has %llu",
			wanted->path,
			(unsigned long long)crcsums_get(h + 16, 8),
			(unsigned long long)wanted->bytes);
	err = crcsums_check_mark(h, wanted, msg, msg_len);
	if (err)
		return err;
	*ret_clean = h[12];
	s->settled = crcsums_get(h + 24, 8);
	s->life = crcsums_get(h + 32, 8);
	return 0;
}

/* ---- records of an earlier life ---- */

/* Marks the records of a chunk that are not settled as in doubt. */
static int crcsums_doubt_chunk(struct crcsums *s, struct crcsum *sums,
			       uint64_t first)
{
	bool changed = false;
	int err = crcsums_read(s, first, CRCSUMS_CHUNK, sums);

	for (unsigned int i = 0; i < CRCSUMS_CHUNK && !err; i++) {
		if (sums[i].flags & CRCSUM_DAMAGED ||
		    !crcsums_in_doubt(s, &sums[i]))
			continue;
		sums[i].flags |= CRCSUM_DOUBT;
		changed = true;
	}
	/* A damaged record must stay damaged. */
	for (unsigned int i = 0; i < CRCSUMS_CHUNK && changed && !err; i++) {
		if (sums[i].flags & CRCSUM_DOUBT)
			err = crcsums_write(s, first + i, 1, &sums[i]);
	}
	return err;
}

/* The same for all records: epochs of an earlier life will soon count as settled. */
static int crcsums_doubt_all(struct crcsums *s)
{
	struct crcsum *sums = calloc(CRCSUMS_CHUNK, sizeof(*sums));
	off_t at = CRCSUMS_HEADER;
	int err = sums ? 0 : -ENOMEM;

	while (!err && (at = lseek(s->fd, at, SEEK_DATA)) >= 0) {
		uint64_t block =
			((uint64_t)at - CRCSUMS_HEADER) / CRCSUMS_RECORD;

		block -= block % CRCSUMS_CHUNK;
		err = crcsums_doubt_chunk(s, sums, block);
		at = (off_t)crcsums_at(block + CRCSUMS_CHUNK);
	}
	if (!err && errno != ENXIO)
		err = -errno;
	free(sums);
	return err ? err : crcsums_sync(s);
}

/* ---- epochs ---- */

/* True if the epoch fits into the bits of a record. */
static bool crcsums_has_epochs(const struct crcsums *s)
{
	return s->epoch + CRCSUMS_RESERVE < 1ull << (64 - CRCSUMS_EPOCH_SHIFT);
}

static int crcsums_reserve(struct crcsums *s)
{
	int err;

	if (!crcsums_has_epochs(s))
		return -EOVERFLOW;
	s->reserved = s->epoch + CRCSUMS_RESERVE;
	err = crcsums_write_header(s, /* clean= */ false);
	return err ? err : crcsums_sync(s);
}

int crcsums_next_epoch(struct crcsums *s)
{
	if (++s->epoch < s->reserved)
		return 0;
	return crcsums_reserve(s);
}

int crcsums_settle(struct crcsums *s, uint64_t epoch)
{
	int err = 0;

	/* After a power cut, the header must not count records as settled whose
	 * mark of doubt is lost. */
	if (epoch > s->settled && s->has_doubt)
		err = crcsums_sync(s);
	if (!err && epoch > s->settled) {
		s->settled = epoch;
		err = crcsums_write_header(s, /* clean= */ false);
	}
	return err ? err : crcsums_sync(s);
}

/* ---- open ---- */

/* Sets @ret_new if the file has no checksums yet. */
static int crcsums_open_file(struct crcsums *s,
			     const struct crcsums_wanted *wanted, bool *ret_new,
			     char *msg, size_t msg_len)
{
	int flags = wanted->read_only ? O_RDONLY : O_RDWR;
	struct stat st = { 0 };
	int err = 0;

	if (wanted->make && !wanted->read_only)
		flags |= O_CREAT;
	s->fd = open(wanted->path, flags | O_CLOEXEC, 0600);
	if (s->fd < 0 && errno == ENOENT && !wanted->make)
		return crcsums_refuse(msg, msg_len, -ENOENT,
				      "sums=%s: there is no such file; add "
				      "init=on to begin one",
				      wanted->path);
	if (s->fd < 0 || fstat(s->fd, &st))
		err = -errno;
	else if (flock(s->fd,
		       (wanted->read_only ? LOCK_SH : LOCK_EX) | LOCK_NB))
		err = errno == EWOULDBLOCK ? -EBUSY : -errno;
	if (err)
		return crcsums_refuse(msg, msg_len, err, "sums=%s: %s",
				      wanted->path,
				      err == -EBUSY ? "another volume uses it"
						    : strerror(-err));
	if (!S_ISREG(st.st_mode))
		return crcsums_refuse(msg, msg_len, -EINVAL,
				      "sums=%s: is no regular file",
				      wanted->path);
	*ret_new = !st.st_size && wanted->make;
	return 0;
}

static int crcsums_begin_life(struct crcsums *s, bool is_new, bool clean)
{
	int err = 0;

	if (is_new)
		s->life = 1;
	else if (!clean)
		err = crcsums_doubt_all(s);
	s->epoch = s->life;
	s->used = s->settled;
	s->forgot = clean ? 0 : s->epoch;
	return err ? err : crcsums_reserve(s);
}

static int crcsums_forget_all(struct crcsums *s,
			      const struct crcsums_wanted *wanted, char *msg,
			      size_t msg_len)
{
	s->settled = 0;
	if (!ftruncate(s->fd, 0))
		return 0;
	return crcsums_refuse(msg, msg_len, -errno, "sums=%s: %s", wanted->path,
			      strerror(errno));
}

/* Loads the header of the open file. */
static int crcsums_load(struct crcsums *s, const struct crcsums_wanted *wanted,
			bool is_new, char *msg, size_t msg_len)
{
	bool clean = true;
	int err = 0;

	if (!is_new)
		err = crcsums_read_header(s, wanted, &clean, msg, msg_len);
	if (!err && !is_new && wanted->forget) {
		is_new = true;
		err = crcsums_forget_all(s, wanted, msg, msg_len);
	}
	if (err || s->read_only)
		return err;
	snprintf(s->mark, sizeof(s->mark), "%s", wanted->mark);
	err = crcsums_begin_life(s, is_new, clean);
	if (err)
		crcsums_refuse(msg, msg_len, err, "sums=%s: %s", wanted->path,
			       strerror(-err));
	return err;
}

int crcsums_open(struct crcsums *s, const struct crcsums_wanted *wanted,
		 char *msg, size_t msg_len)
{
	bool is_new = false;
	int err;

	*s = (struct crcsums){
		.fd = -1,
		.block_size = wanted->block_size,
		.bytes = wanted->bytes,
		.read_only = wanted->read_only,
	};
	err = crcsums_open_file(s, wanted, &is_new, msg, msg_len);
	if (!err)
		err = crcsums_load(s, wanted, is_new, msg, msg_len);
	/* The file of another volume is not changed. */
	if (err && s->fd >= 0) {
		close(s->fd);
		s->fd = -1;
	}
	return err;
}

void crcsums_close(struct crcsums *s, bool is_settled)
{
	uint64_t last = s->used > s->forgot ? s->used : s->forgot;

	if (s->fd < 0)
		return;
	if (is_settled && last > s->settled)
		s->settled = last;
	/* The header is stable after the records. */
	if (!s->read_only && !crcsums_sync(s) &&
	    !crcsums_write_header(s, last <= s->settled))
		crcsums_sync(s);
	close(s->fd);
	s->fd = -1;
}
