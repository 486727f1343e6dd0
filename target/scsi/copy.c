/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * EXTENDED COPY (LID1), from blocks to blocks, and RECEIVE COPY RESULTS (SPC-4,
 * third-party copies).
 *
 * A copy can use only volumes that its initiator could READ and WRITE: the disk
 * looks up descriptors among the LUNs of the nexus that sent the command, never
 * among all volumes.
 *
 * The whole list is checked before a block is copied. A copy is not atomic:
 * each piece has the blocks that it reads, and then those that it writes,
 * never both. So two copies cannot wait for each other.
 *
 * For its volumes, each piece is a command of its own. Before each piece, the
 * copy checks again what may have changed since the list was checked:
 * reservations, write protection, the medium, and a job on the volume. (A volume
 * never shrinks, and the volumes and rights of a nexus are constant.) Task
 * management of any of the volumes ends it, as it does a command for that volume.
 */
#include <string.h>

#include "base/ticks.h"
#include "protocol/wire.h"
#include "target/scsi/disk.h"

#define HEADER_LEN  16
#define TARGET_LEN  32
#define SEGMENT_LEN 28
#define LIST_MAX    (HEADER_LEN + SCSI_COPY_DESCRIPTORS_LEN)

#define TARGET_IDENTIFICATION 0xe4
#define TARGET_NUL	      0x20 /* a null device */
#define SEGMENT_BLOCKS	      0x02
#define SEGMENT_DC	      0x02 /* the count is of destination blocks */
#define ID_THIS_UNIT	      0xffff

#define HEADER_STR	 0x20
#define LIST_ID_USAGE(b) ((b) >> 3 & 3)
#define LIST_ID_DISCARD	 2 /* no status is kept */
#define LIST_ID_NONE	 3

/* What a segment reads, or writes. */
struct side {
	struct volume *vol;
	unsigned int lun; /* of the nexus */
	uint64_t at;	  /* byte */
	uint64_t epoch;	  /* backend_epoch() when the list was checked */
};

struct segment {
	struct side from;
	struct side to;
	uint64_t len; /* bytes */
	bool stable;  /* as in struct scsi_task, for what it writes */
};

/*
 *   buf: the list | struct copy | a piece (BLOCK_PIECE)
 */
struct copy {
	struct segment segments[SCSI_COPY_SEGMENTS];
	unsigned int cnt;
	unsigned int next; /* completed segments */
	uint64_t at;	   /* completed bytes of the current segment */
	uint64_t piece;	   /* bytes of the current piece */
	bool writing;	   /* the piece has been read */
	uint64_t copied;   /* bytes, of all segments */
	uint8_t list_id;
	bool keep; /* keep the status under list_id */
};

#define COPY_AT	 2048u
#define PIECE_AT 8192u

_Static_assert(LIST_MAX <= COPY_AT, "the list fits before the copy");
_Static_assert(sizeof(struct copy) <= PIECE_AT - COPY_AT,
	       "the copy fits before the piece");

static struct copy *copy_of(const struct scsi_task *task)
{
	return (struct copy *)(void *)(task->buf + COPY_AT);
}

/* ---- what came of it ---- */

/* A record: 1 | LUN (8 bits) | list id (8) | status (8) | segments (8) | KiB
 * (31), so that one store changes it whole. 0: none. */
enum copy_status {
	COPY_RUNS = 0,
	COPY_DONE = 1,
	COPY_FAILED = 2,
};

#define RECORD_KEY(lun, id) \
	(1ull << 63 | (uint64_t)(lun) << 55 | (uint64_t)(id) << 47)
#define RECORD_KEY_MASK (~0ull << 47)
#define RECORD_LUN_MASK (~0ull << 55)
#define RECORD_KIB_MAX	0x7fffffffu

static uint64_t record_key(const struct scsi_task *task, uint8_t list_id)
{
	return RECORD_KEY((unsigned int)task->lun, list_id);
}

/* The record with @key, or a free one for it. */
static _Atomic uint64_t *find_record(struct scsi_nexus *nexus, uint64_t key)
{
	_Atomic uint64_t *unused =
		&nexus->copies[(key >> 47) % SCSI_NEXUS_COPIES];

	for (unsigned int i = 0; i < SCSI_NEXUS_COPIES; i++) {
		uint64_t record = atomic_load(&nexus->copies[i]);

		if ((record & RECORD_KEY_MASK) == key)
			return &nexus->copies[i];
		if (!record)
			unused = &nexus->copies[i];
	}
	return unused;
}

static void record(const struct scsi_task *task, enum copy_status status)
{
	const struct copy *c = copy_of(task);
	uint64_t key = record_key(task, c->list_id);
	uint64_t kib = scsi_min(c->copied >> 10, RECORD_KIB_MAX);

	if (c->keep)
		atomic_store(find_record(task->nexus, key),
			     key | (uint64_t)status << 39 |
				     (uint64_t)c->next << 31 | kib);
}

void scsi_copies_forget(struct scsi_nexus *nexus, unsigned int lun)
{
	for (unsigned int i = 0; i < SCSI_NEXUS_COPIES; i++) {
		uint64_t record = atomic_load(&nexus->copies[i]);

		/* A copy that another worker begins meanwhile keeps its own. */
		if ((record & RECORD_LUN_MASK) == RECORD_KEY(lun, 0))
			atomic_compare_exchange_strong(&nexus->copies[i],
						       &record, 0);
	}
}

static int copy_status(struct scsi_task *task, void *buf, size_t cap,
		       size_t *ret_len, struct scsi_sense *ret_sense)
{
	uint64_t key = record_key(task, task->cmd.list_id);
	uint64_t r = atomic_load(find_record(task->nexus, key));
	uint8_t b[12] = { 0 };

	if ((r & RECORD_KEY_MASK) != key) {
		*ret_sense = scsi_sense_cdb_field(2, 7);
		return -1;
	}
	wire_put32(b, sizeof(b) - 4);
	b[4] = r >> 39 & 0x7f;
	wire_put16(b + 5, r >> 31 & 0xff);
	b[7] = 1; /* TRANSFER COUNT UNITS: KiB */
	wire_put32(b + 8, (uint32_t)(r & RECORD_KIB_MAX));
	*ret_len = sizeof(b);
	if (cap)
		memcpy(buf, b, scsi_min(sizeof(b), cap));
	return 0;
}

const struct scsi_handler scsi_copy_status = { .answer = copy_status };

static int copy_parameters(struct scsi_task *task, void *buf, size_t cap,
			   size_t *ret_len, struct scsi_sense *ret_sense)
{
	uint8_t b[46] = { 0 };

	wire_put32(b, sizeof(b) - 4);
	b[4] = 0x01; /* SNLID: a list identifier is not needed */
	wire_put16(b + 8, SCSI_COPY_TARGETS);
	wire_put16(b + 10, SCSI_COPY_SEGMENTS);
	wire_put32(b + 12, SCSI_COPY_DESCRIPTORS_LEN);
	wire_put32(b + 16, SCSI_COPY_SEGMENT_MAX);
	wire_put16(b + 34, SCSI_COPY_CONCURRENT);
	b[36] = SCSI_COPY_CONCURRENT;
	b[37] = 9; /* DATA SEGMENT GRANULARITY: 512 bytes */
	b[43] = 2; /* IMPLEMENTED DESCRIPTOR LIST LENGTH */
	b[44] = SEGMENT_BLOCKS;
	b[45] = TARGET_IDENTIFICATION;
	*ret_len = sizeof(b);
	if (cap)
		memcpy(buf, b, scsi_min(sizeof(b), cap));
	return 0;
}

const struct scsi_handler scsi_copy_parameters = { .answer = copy_parameters };

/* ---- the list ---- */

static bool copy_refuse(struct scsi_sense sense, struct scsi_sense *ret_sense)
{
	*ret_sense = sense;
	return false;
}

static bool refuse_code(enum scsi_asc code, struct scsi_sense *ret_sense)
{
	return copy_refuse(scsi_sense(SCSI_KEY_ILLEGAL_REQUEST, code),
			   ret_sense);
}

static bool refuse_field(size_t byte, uint8_t bit, struct scsi_sense *ret_sense)
{
	return copy_refuse(scsi_sense_data_field((uint16_t)byte, bit),
			   ret_sense);
}

/* The LUN of the volume with this name. False: there is none. */
static bool find_naa(const struct scsi_nexus *nexus, const uint8_t *naa,
		     unsigned int *ret_lun)
{
	for (unsigned int i = 0; i < LUNS_MAX; i++) {
		const struct volume *vol = scsi_nexus_volume(nexus, i);

		*ret_lun = i;
		if (vol && !memcmp(vol->info.naa, naa, SCSI_NAA_LEN))
			return true;
	}
	return false;
}

/* True for an NAA designator of a disk, of the length that ours have. */
static bool names_disk(const uint8_t *d)
{
	return (d[1] & 0x1f) == 0 && (d[4] & 0x0f) == 1 && (d[5] & 0x3f) == 3 &&
	       d[7] == SCSI_NAA_LEN;
}

static bool find_target(const struct scsi_task *task, size_t at,
			unsigned int *ret_lun, struct scsi_sense *ret_sense)
{
	const uint8_t *d = task->buf + at;

	if (d[0] != TARGET_IDENTIFICATION)
		return refuse_code(SCSI_ASC_UNSUPPORTED_TARGET, ret_sense);
	/* LU ID TYPE is for descriptors that have a LU IDENTIFIER. */
	if (d[1] & TARGET_NUL)
		return refuse_field(at + 1, 5, ret_sense);
	if (!names_disk(d) || !find_naa(task->nexus, d + 8, ret_lun))
		return copy_refuse(scsi_sense(SCSI_KEY_COPY_ABORTED,
					      SCSI_ASC_COPY_TARGET_UNREACHABLE),
				   ret_sense);
	if (wire_get24(d + 29) !=
	    scsi_nexus_slot(task->nexus, *ret_lun)->block_size)
		return refuse_field(at + 29, 7, ret_sense);
	return true;
}

/* Resolves the index at @at of a segment descriptor. */
static bool choose_target(const struct scsi_task *task, size_t at,
			  const unsigned int *targets, unsigned int cnt,
			  struct side *ret, struct scsi_sense *ret_sense)
{
	uint16_t index = wire_get16(task->buf + at);

	if (index != ID_THIS_UNIT && index >= cnt)
		return refuse_field(at, 7, ret_sense);
	ret->lun = index == ID_THIS_UNIT ? (unsigned int)task->lun
					 : targets[index];
	ret->vol = scsi_nexus_slot(task->nexus, ret->lun);
	ret->epoch = backend_epoch(ret->vol->dev.backend);
	return true;
}

/* INFORMATION has no LBA: for a copy it is the residue of the current segment,
 * and VALID is 0 if there is none (SPC-4, EXTENDED COPY). */
static bool copy_set_range(struct side *side, uint64_t lba, uint64_t len,
			   struct scsi_sense *ret_sense)
{
	const struct volume *vol = side->vol;

	side->at = lba * vol->block_size;
	if (lba <= vol->blocks && len / vol->block_size <= vol->blocks - lba)
		return true;
	return refuse_code(SCSI_ASC_LBA_OUT_OF_RANGE, ret_sense);
}

static bool side_is_shut_out(struct scsi_nexus *nexus, const struct side *side,
			     enum scsi_access access)
{
	return scsi_nexus_is_shut_out(nexus, side->vol, side->lun, access);
}

static bool may_write(const struct scsi_nexus *nexus, const struct side *side)
{
	return !side->vol->read_only &&
	       !scsi_nexus_is_reader(nexus, (int)side->lun) &&
	       !volume_is_protected(side->vol);
}

static bool check_segment(struct scsi_nexus *nexus, const struct segment *s,
			  size_t at, struct scsi_sense *ret_sense)
{
	if (!may_write(nexus, &s->to))
		return copy_refuse(scsi_sense(SCSI_KEY_DATA_PROTECT,
					      SCSI_ASC_WRITE_PROTECTED),
				   ret_sense);
	if (s->len % s->from.vol->block_size || s->len % s->to.vol->block_size)
		return refuse_code(SCSI_ASC_INEXACT_SEGMENT, ret_sense);
	if (s->len > SCSI_COPY_SEGMENT_MAX)
		return refuse_field(at + 10, 7, ret_sense);
	if (side_is_shut_out(nexus, &s->from, SCSI_ACCESS_READS) ||
	    side_is_shut_out(nexus, &s->to, SCSI_ACCESS_CHANGES))
		return copy_refuse(scsi_sense(SCSI_KEY_COPY_ABORTED,
					      SCSI_ASC_THIRD_PARTY_FAILURE),
				   ret_sense);
	return true;
}

/* Must the data for @vol be stable, whatever happens to WCE? Until an initiator
 * has been told of a change, it may assume that the cache is off. A change is
 * announced first, so this checks in the other order. */
static bool must_be_stable(const struct scsi_nexus *nexus,
			   const struct side *side)
{
	return block_writes_through(&side->vol->dev) ||
	       (side->vol->dev.write_cache &&
		atomic_load(&nexus->ua[side->lun]));
}

/* CAT is for streams; between blocks it changes nothing. */
static bool read_segment(const struct scsi_task *task, size_t at,
			 const unsigned int *targets, unsigned int cnt,
			 struct segment *s, struct scsi_sense *ret_sense)
{
	const uint8_t *d = task->buf + at;

	if (d[0] != SEGMENT_BLOCKS)
		return refuse_code(SCSI_ASC_UNSUPPORTED_SEGMENT, ret_sense);
	if (d[1] & 0xfc)
		return refuse_field(at + 1, 7, ret_sense);
	if (wire_get16(d + 2) != SEGMENT_LEN - 4)
		return refuse_field(at + 2, 7, ret_sense);
	if (!choose_target(task, at + 4, targets, cnt, &s->from, ret_sense) ||
	    !choose_target(task, at + 6, targets, cnt, &s->to, ret_sense))
		return false;
	s->len = (uint64_t)wire_get16(d + 10) *
		 (d[1] & SEGMENT_DC ? s->to : s->from).vol->block_size;
	s->stable = must_be_stable(task->nexus, &s->to);
	return check_segment(task->nexus, s, at, ret_sense) &&
	       copy_set_range(&s->from, wire_get64(d + 12), s->len,
			      ret_sense) &&
	       copy_set_range(&s->to, wire_get64(d + 20), s->len, ret_sense);
}

/* Checks the lengths of the header, and stores its list identifier and status
 * handling in the copy. */
static bool read_header(const struct scsi_task *task, unsigned int *ret_targets,
			unsigned int *ret_segments,
			struct scsi_sense *ret_sense)
{
	const uint8_t *b = task->buf;
	uint32_t targets_len = wire_get16(b + 2);
	uint32_t segments_len = wire_get32(b + 8);
	uint8_t usage = LIST_ID_USAGE(b[1]);
	struct copy *c = copy_of(task);

	if (b[1] & 0xc0)
		return refuse_field(1, 7, ret_sense);
	if (b[1] & HEADER_STR)
		return refuse_field(1, 5, ret_sense);
	if (usage == 1)
		return refuse_field(1, 4, ret_sense);
	if (usage == LIST_ID_NONE && b[0])
		return refuse_field(0, 7, ret_sense);
	if (targets_len % TARGET_LEN)
		return refuse_field(2, 7, ret_sense);
	if (targets_len > SCSI_COPY_TARGETS * TARGET_LEN)
		return refuse_code(SCSI_ASC_TOO_MANY_TARGETS, ret_sense);
	if (segments_len > SCSI_COPY_SEGMENTS * SEGMENT_LEN)
		return refuse_code(SCSI_ASC_TOO_MANY_SEGMENTS, ret_sense);
	if (wire_get32(b + 12))
		return refuse_code(SCSI_ASC_INLINE_DATA_EXCEEDED, ret_sense);
	if (task->fetch_len - HEADER_LEN < targets_len + segments_len)
		return refuse_code(SCSI_ASC_PARAMETER_LIST_LENGTH_ERROR,
				   ret_sense);
	*ret_targets = targets_len / TARGET_LEN;
	*ret_segments = segments_len / SEGMENT_LEN;
	c->list_id = b[0];
	c->keep = usage != LIST_ID_NONE && usage != LIST_ID_DISCARD;
	/* Segments of other types may have another length. */
	if (segments_len % SEGMENT_LEN)
		return refuse_code(SCSI_ASC_UNSUPPORTED_SEGMENT, ret_sense);
	return true;
}

static bool copy_read_list(const struct scsi_task *task,
			   struct scsi_sense *ret_sense)
{
	unsigned int targets[SCSI_COPY_TARGETS];
	struct copy *c = copy_of(task);
	unsigned int target_cnt;
	size_t at = HEADER_LEN;

	memset(c, 0, sizeof(*c));
	if (!read_header(task, &target_cnt, &c->cnt, ret_sense))
		return false;
	for (unsigned int i = 0; i < target_cnt; i++, at += TARGET_LEN) {
		if (!find_target(task, at, &targets[i], ret_sense))
			return false;
	}
	for (unsigned int i = 0; i < c->cnt; i++, at += SEGMENT_LEN) {
		if (!read_segment(task, at, targets, target_cnt,
				  &c->segments[i], ret_sense))
			return false;
	}
	return true;
}

/* ---- its volumes ---- */

bool scsi_task_touches(const struct scsi_task *task, const struct volume *vol)
{
	const struct copy *c;

	if (!task->copies)
		return false;
	c = copy_of(task);
	for (unsigned int i = 0; i < c->cnt; i++) {
		if (c->segments[i].from.vol == vol ||
		    c->segments[i].to.vol == vol)
			return true;
	}
	return false;
}

bool scsi_task_may_copy(const struct scsi_task *task)
{
	const struct scsi_cdb_info *row = scsi_cdb_row(
		&task->nexus->luns->cdbs, task->cdb, task->cdb_len);

	return row && row->op == SCSI_OP_EXTENDED_COPY && !task->copies;
}

/* ---- copying ---- */

static bool copy_on(struct scsi_task *task);

static bool abort_copy(struct scsi_task *task, enum scsi_asc code)
{
	struct scsi_sense sense = scsi_sense(SCSI_KEY_COPY_ABORTED, code);

	record(task, COPY_FAILED);
	return scsi_task_fail(task, &sense);
}

/* Begins the next piece after the previous one has ended. False: there is none. */
static bool copy_next_piece(struct copy *c)
{
	while (c->next < c->cnt) {
		uint64_t left = c->segments[c->next].len - c->at;

		if (c->writing)
			return true;
		c->piece = scsi_min(left, BLOCK_PIECE);
		if (left)
			return true;
		c->next++;
		c->at = 0;
	}
	return false;
}

/* What is read or written next. */
static const struct side *copy_side(const struct copy *c)
{
	const struct segment *s = &c->segments[c->next];

	return c->writing ? &s->to : &s->from;
}

static void side_done(struct scsi_task *task)
{
	struct copy *c = copy_of(task);

	scsi_task_release(task);
	if (c->writing) {
		c->at += c->piece;
		c->copied += c->piece;
	}
	c->writing = !c->writing;
}

static void turn_comes(struct reactor_msg *msg)
{
	struct scsi_task *task = container_of(msg, struct scsi_task, msg);

	scsi_task_run(task, copy_on(task));
}

/* If a store answers at once, no other command would run. So other commands run
 * first, among them one that ends the copy. */
static bool let_others(struct scsi_task *task)
{
	task->msg.run = turn_comes;
	reactor_send(task->worker->reactor, &task->msg);
	return false;
}

static bool copy_blk_done(struct scsi_task *task)
{
	const struct block_cmd *blk = &task->blk;

	if (blk->was_stopped)
		return copy_on(task);
	if (blk->res) {
		scsi_task_log_blk(task);
		return abort_copy(task, SCSI_ASC_THIRD_PARTY_FAILURE);
	}
	side_done(task);
	return task->was_instant ? let_others(task) : copy_on(task);
}

static bool copy_submit(struct scsi_task *task)
{
	const struct copy *c = copy_of(task);
	const struct side *side = copy_side(c);
	struct block_cmd *blk = &task->blk;

	scsi_task_blk(task, c->writing ? BLOCK_CMD_WRITE : BLOCK_CMD_READ,
		      copy_blk_done);
	blk->dev = &side->vol->dev;
	blk->writer = &task->nexus->writers[side->lun].ref;
	blk->port = task->nexus->writers[side->lun].port;
	blk->offset = side->at + c->at;
	blk->len = c->piece;
	blk->bio.io.epoch = side->epoch;
	blk->fua = c->writing && c->segments[c->next].stable;
	blk->buf = task->buf + PIECE_AT;
	return true;
}

static void copy_has_blocks(struct block_owner *owner)
{
	struct scsi_task *task =
		container_of(owner, struct scsi_task, blk.owner);

	scsi_task_run(task, copy_on(task));
}

/* Before it is checked whether the piece may begin. False: copy_on() is called
 * again. */
static bool copy_own_blocks(struct scsi_task *task)
{
	const struct copy *c = copy_of(task);
	const struct side *side = copy_side(c);

	return task->blk.owner.state != BLOCK_OWNER_NONE ||
	       block_own(&task->blk, &side->vol->dev, task->worker,
			 side->at + c->at, c->piece,
			 c->writing ? BLOCK_CHANGES : BLOCK_READS,
			 copy_has_blocks);
}

/* May the current piece be read or written now? */
static bool check_side(const struct scsi_task *task, enum scsi_asc *ret_code)
{
	const struct copy *c = copy_of(task);
	const struct side *side = copy_side(c);
	struct scsi_sense sense;

	*ret_code = SCSI_ASC_THIRD_PARTY_FAILURE;
	if (side_is_shut_out(task->nexus, side,
			     c->writing ? SCSI_ACCESS_CHANGES
					: SCSI_ACCESS_READS))
		return false;
	if (c->writing && !may_write(task->nexus, side))
		return false;
	*ret_code = SCSI_ASC_COPY_TARGET_UNREACHABLE;
	return !scsi_volume_no_medium(side->vol, &sense) &&
	       !scsi_volume_not_ready(side->vol, &sense);
}

static bool copy_on(struct scsi_task *task)
{
	struct copy *c = copy_of(task);
	enum scsi_asc code;

	if (task->stopped) {
		record(task, COPY_FAILED);
		return scsi_task_end_stopped(task);
	}
	if (!copy_next_piece(c)) {
		record(task, COPY_DONE);
		return scsi_task_good(task);
	}
	if (!copy_own_blocks(task))
		return false;
	if (!check_side(task, &code))
		return abort_copy(task, code);
	return copy_submit(task);
}

/* ---- the command ---- */

/* A longer list is refused without reading it. */
static void prepare_copy(struct scsi_task *task)
{
	if (task->fetch_len > LIST_MAX)
		task->fetch_len = 0;
	task->buf_len = task->fetch_len ? PIECE_AT + BLOCK_PIECE : 0;
}

static bool execute_copy(struct scsi_task *task)
{
	struct scsi_sense sense = scsi_sense(
		SCSI_KEY_ILLEGAL_REQUEST, SCSI_ASC_PARAMETER_LIST_LENGTH_ERROR);

	if (!task->cmd.param_len)
		return scsi_task_good(task);
	if (task->fetch_len < HEADER_LEN || !copy_read_list(task, &sense))
		return scsi_task_fail(task, &sense);
	task->copies = true;
	record(task, COPY_RUNS);
	return copy_on(task);
}

const struct scsi_handler scsi_extended_copy = {
	.prepare = prepare_copy,
	.execute = execute_copy,
};
