/* SPDX-License-Identifier: BSD-2-Clause */
/* --backing arguments, and the identity and limits of volumes. */
#include "target/scsi/volume.h"

#include "target/scsi/store_generation.h"

#include "tests/lib/t_table.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- SPEC ---- */

static const struct spec_row {
	const char *name;
	const char *text;
	struct volume_spec want;
} specs[] = {
	{ "a path", "disk.img", .want.store = VOLUME_STORE_FILE,
	  .want.path = "disk.img", .want.block_size = 512, .want.direct = -1 },
	{ "ram", "ram:256M", .want.store = VOLUME_STORE_RAM,
	  .want.path = "256M", .want.block_size = 512, .want.direct = -1 },
	{ "null, 4096-byte blocks", "null:1E,block-size=4096",
	  .want.store = VOLUME_STORE_NULL, .want.path = "1E",
	  .want.block_size = 4096, .want.direct = -1 },
	{ "every option",
	  "/a/b,name=n,ro,block-size=4k,direct=on,write-through,removable,serial=S-1",
	  .want.store = VOLUME_STORE_FILE, .want.path = "/a/b",
	  .want.name = "n", .want.serial = "S-1", .want.read_only = true,
	  .want.block_size = 4096, .want.direct = 1, .want.write_through = true,
	  .want.removable = true },
	{ "direct off", "x,direct=off", .want.store = VOLUME_STORE_FILE,
	  .want.path = "x", .want.block_size = 512 },
	{ "a comma in the path", "a\\,b,ro", .want.store = VOLUME_STORE_FILE,
	  .want.path = "a,b", .want.read_only = true, .want.block_size = 512,
	  .want.direct = -1 },
	{ "a file that is named like ram", "./ram:1",
	  .want.store = VOLUME_STORE_FILE, .want.path = "./ram:1",
	  .want.block_size = 512, .want.direct = -1 },
};

T_ROWS(spec_is_read, specs)
{
	const struct spec_row *row = *state;
	struct volume_spec spec;
	struct error e;

	assert_true(volume_spec_parse(row->text, &spec, &e));
	assert_int_equal(spec.store, row->want.store);
	assert_string_equal(spec.path, row->want.path);
	assert_string_equal(spec.name, row->want.name);
	assert_string_equal(spec.serial, row->want.serial);
	assert_int_equal(spec.read_only, row->want.read_only);
	assert_int_equal(spec.block_size, row->want.block_size);
	assert_int_equal(spec.direct, row->want.direct);
	assert_int_equal(spec.write_through, row->want.write_through);
	assert_int_equal(spec.removable, row->want.removable);
}

static const struct bad_spec_row {
	const char *name;
	const char *text;
	const char *complaint; /* must occur in the message */
} bad_specs[] = {
	{ "a key twice", "ram:1M,name=a,name=b", "'name' is given twice" },
	{ "nothing", "", "no path" },
	{ "options only", ",ro", "no path" },
	{ "ram without size", "ram:", "not a size" },
	{ "size with a strange unit", "ram:10X", "'10X' is not a size" },
	{ "size with a sign", "null:-1", "'-1' is not a size" },
	{ "unknown option", "x,rw", "no option 'rw'" },
	{ "empty option", "x,", "no option ''" },
	{ "block size 1024", "x,block-size=1024", "'block-size=1024'" },
	{ "block size of words", "x,block-size=big", "'block-size=big'" },
	{ "value for ro", "x,ro=1", "'ro' takes no value" },
	{ "name without value", "x,name", "'name' needs a value" },
	{ "empty name", "x,name=", "a name has" },
	{ "name with a slash", "x,name=a/b", "'name=a/b'" },
	{ "name of two dots", "x,name=..", "a name has" },
	{ "direct of maybe", "x,direct=maybe", "on or off" },
	{ "direct ram", "ram:1M,direct=on", "files and devices only" },
	{ "serial with a colon", "x,serial=a:b", "'serial=a:b'" },
	{ "a fault that there is not", "x,fault=write:eror",
	  "'fault=write:eror': 'eror' is not a fault" },
	{ "the layer that was removed", "x,layer=crc32c,sums=y",
	  "'layer=crc32c': this layer was removed; use dm-integrity" },
	{ "seventeen faults",
	  "x,fault=any:short,fault=any:short,fault=any:short,fault=any:short,"
	  "fault=any:short,fault=any:short,fault=any:short,fault=any:short,"
	  "fault=any:short,fault=any:short,fault=any:short,fault=any:short,"
	  "fault=any:short,fault=any:short,fault=any:short,fault=any:short,"
	  "fault=any:short",
	  "more than 16 faults" },
	{ "serial of 33 characters",
	  "x,serial=012345678901234567890123456789012", "serial number has" },
};

T_ROWS(bad_spec_is_refused, bad_specs)
{
	const struct bad_spec_row *row = *state;
	struct volume_spec spec;
	struct error e = { 0 };

	assert_false(volume_spec_parse(row->text, &spec, &e));
	if (!strstr(e.text, row->complaint))
		fail_msg("the message is: %s", e.text);
}

T_TEST(too_long_a_path_is_refused)
{
	static char text[8192];
	struct volume_spec spec;
	struct error e;

	memset(text, 'p', sizeof(text) - 1);
	assert_false(volume_spec_parse(text, &spec, &e));
}

/* ---- volumes ---- */

static char scratch[32];

static void make_scratch(void)
{
	int fd;

	snprintf(scratch, sizeof(scratch), "./t_volume.XXXXXX");
	fd = mkstemp(scratch);
	assert_true(fd >= 0);
	assert_int_equal(ftruncate(fd, 1 << 20), 0);
	close(fd);
}

/* Opens a volume. @fmt is its SPEC, where %s stands for the scratch file. */
static struct volume *open_volume(const char *fmt, unsigned int lun)
{
	struct volume_spec spec;
	struct volume *vol;
	char text[256];
	struct error e = { 0 };

	if (strchr(fmt, '%'))
		snprintf(text, sizeof(text), "%s%s", scratch, fmt + 2);
	else
		snprintf(text, sizeof(text), "%s", fmt);
	assert_true(volume_spec_parse(text, &spec, &e));
	assert_int_equal(volume_open(&spec, lun, "t", &vol, &e), 0);
	return vol;
}

struct identity {
	char serial[SCSI_SERIAL_MAX + 1];
	uint8_t naa[SCSI_NAA_LEN];
};

static struct identity identity_of(const char *fmt, unsigned int lun)
{
	struct volume *vol = open_volume(fmt, lun);
	struct identity id;

	memcpy(id.serial, vol->serial, sizeof(id.serial));
	memcpy(id.naa, vol->info.naa, sizeof(id.naa));
	assert_ptr_equal(vol->info.serial, vol->serial);
	volume_close(vol);
	return id;
}

static bool is_same(const struct identity *a, const struct identity *b)
{
	bool same = !memcmp(a->naa, b->naa, sizeof(a->naa));

	assert_int_equal(same, !strcmp(a->serial, b->serial));
	return same;
}

static const struct identity_row {
	const char *name;
	const char *first;
	const char *second;
	bool same;
} identities[] = {
	{ "a file is the same after a restart", "%s", "%s", true },
	{ "whatever its name", "%s,name=a", "%s,name=b", true },
	{ "and read-only", "%s", "%s,ro", true },
	{ "other blocks are another disk", "%s", "%s,block-size=4096", false },
	{ "a serial number counts", "%s", "%s,serial=abc", false },
	{ "the same serial number is the same disk", "%s,serial=abc",
	  "ram:1M,serial=abc", true },
	{ "ram is another disk after a restart", "ram:1M", "ram:1M", false },
	{ "null is another disk after a restart", "null:1M", "null:1M", false },
};

T_ROWS(identity_is_stable, identities)
{
	const struct identity_row *row = *state;
	struct identity a, b;

	make_scratch();
	a = identity_of(row->first, 0);
	b = identity_of(row->second, 3);
	assert_int_equal(a.naa[0] >> 4, 6);
	assert_int_equal(is_same(&a, &b), row->same);
	unlink(scratch);
}

static struct identity identity_of_path(const char *path)
{
	struct identity id;
	char was[sizeof(scratch)];

	strcpy(was, scratch);
	assert_true(strlen(path) < sizeof(scratch));
	memmove(scratch, path, strlen(path) + 1);
	id = identity_of("%s", 0);
	strcpy(scratch, was);
	return id;
}

/* The identity does not depend on where the link leads today. */
T_TEST(identity_is_that_of_the_path_as_given)
{
	struct identity file, dots, link, switched;
	char other[sizeof(scratch)];
	char path[sizeof(scratch)];

	make_scratch();
	strcpy(other, scratch);
	make_scratch();
	file = identity_of_path(scratch);
	snprintf(path, sizeof(path), "././%.24s", scratch + 2);
	dots = identity_of_path(path);
	assert_true(is_same(&file, &dots));
	snprintf(path, sizeof(path), "./%.24s.l", scratch + 2);
	assert_int_equal(symlink(scratch + 2, path), 0);
	link = identity_of_path(path);
	assert_false(is_same(&file, &link));
	unlink(path);
	assert_int_equal(symlink(other + 2, path), 0);
	switched = identity_of_path(path);
	assert_true(is_same(&link, &switched));
	unlink(path);
	unlink(other);
	unlink(scratch);
}

/* An earlier version computed this for a path without links. */
T_TEST(identity_of_a_file_stays_what_it_was)
{
	char text[4096 + 128];
	char real[4096];
	uint8_t naa[SCSI_NAA_LEN];
	struct identity id;

	make_scratch();
	assert_non_null(realpath(scratch, real));
	snprintf(text, sizeof(text), "t:512:%.4000s", real);
	scsi_naa_make(text, naa);
	id = identity_of("%s", 0);
	assert_memory_equal(id.naa, naa, sizeof(naa));
	unlink(scratch);
}

/* ---- the generation ---- */

static struct scsi_store store_of(const char *fmt)
{
	struct volume *vol = open_volume(fmt, 0);
	struct scsi_store store = vol->info.store;

	volume_close(vol);
	return store;
}

static const struct generation_row {
	const char *name;
	const char *spec;
	bool same; /* after a restart of the target */
	bool is_memory;
} generations[] = {
	{ "a file's lasts", "%s", true, false },
	{ "ram's does not", "ram:1M", false, true },
	{ "nor with a serial number", "ram:1M,serial=abc", false, true },
	{ "nor behind a layer", "ram:1M,serial=abc,fault=read:delay=1", false,
	  true },
	{ "null's does not", "null:1M,serial=abc", false, true },
};

T_ROWS(generation_tells_what_may_be_gone, generations)
{
	const struct generation_row *row = *state;
	struct scsi_store a, b;

	make_scratch();
	a = store_of(row->spec);
	b = store_of(row->spec);
	assert_int_equal(
		!memcmp(a.generation, b.generation, sizeof(a.generation)),
		row->same);
	assert_int_equal(a.is_memory, row->is_memory);
	unlink(scratch);
}

/* The generation of a file or a device: each number tells it from others. */
static struct scsi_store generation_in(const char *boot, uint8_t loss,
				       const struct backend_life *life,
				       bool forgets)
{
	struct backend_info info = { .life = *life, .forgets = forgets };
	uint8_t drawn[WRITERS_LOSS_LEN] = { loss };
	struct scsi_store store;

	assert_int_equal(
		store_generation(&info, boot, loss ? drawn : NULL, &store), 0);
	return store;
}

#define LIFE                        \
	{                           \
		.ino = 1, .rdev = 1 \
	}
static const struct backend_life first_life = LIFE;

static const struct other_row {
	const char *name;
	const char *boot;
	uint8_t loss;
	struct backend_life life;
	bool forgets;
	bool same; /* the same as that of boot 1 without a loss */
} others[] = {
	{ "another start", "boot 1", 0, LIFE, .same = true },
	{ "another boot", "boot 2", 0, LIFE },
	{ "a loss", "boot 1", 1, LIFE },
	{ "the disk was unplugged",
	  "boot 1",
	  0,
	  { .ino = 1, .rdev = 1, .seq = 2 } },
	{ "another device", "boot 1", 0, { .ino = 1, .rdev = 2 } },
	{ "another file", "boot 1", 0, { .ino = 2, .rdev = 1 } },
	{ "another file system",
	  "boot 1",
	  0,
	  { .ino = 1, .rdev = 1, .dev = 2 } },
	{ "a new file has the inode",
	  "boot 1",
	  0,
	  { .ino = 1, .rdev = 1, .born_s = 2 } },
	/* another generation each time, to be safe */
	{ "the boot is not known", "", 0, LIFE },
	{ "its cache goes with the process", "boot 1", 0, LIFE,
	  .forgets = true },
};

T_ROWS(generation_changes_with_what_loses_writes, others)
{
	const struct other_row *row = *state;
	struct scsi_store one = generation_in("boot 1", 0, &first_life, false);
	struct scsi_store two =
		generation_in(row->boot, row->loss, &row->life, row->forgets);
	struct scsi_store three =
		generation_in(row->boot, row->loss, &row->life, row->forgets);
	bool lasts = *row->boot && !row->forgets;

	assert_int_equal(
		!memcmp(one.generation, two.generation, SCSI_GENERATION_LEN),
		row->same);
	assert_int_equal(
		!memcmp(three.generation, two.generation, SCSI_GENERATION_LEN),
		lasts);
}

static const struct name_row {
	const char *name;
	const char *spec;
	unsigned int lun;
	const char *want; /* NULL: the scratch file's */
} names[] = {
	{ "a file's own", "%s", 0, NULL },
	{ "given", "%s,name=vol", 0, "vol" },
	{ "ram by its LUN", "ram:1M", 7, "ram7" },
	{ "null by its LUN", "null:1M", 0, "null0" },
};

T_ROWS(volume_has_a_name, names)
{
	const struct name_row *row = *state;
	struct volume *vol;

	make_scratch();
	vol = open_volume(row->spec, row->lun);
	assert_string_equal(vol->name, row->want ? row->want : scratch + 2);
	assert_ptr_equal(vol->info.name, vol->name);
	assert_int_equal(vol->lun, row->lun);
	volume_close(vol);
	unlink(scratch);
}

static const struct cache_row {
	const char *name;
	const char *spec;
	bool write_cache;
	bool unmap;
} caches[] = {
	{ "file", "%s", true, true },
	{ "file, write-through", "%s,write-through", false, true },
	{ "file, read-only", "%s,ro", false, false },
	{ "file, direct", "%s,direct=on", true, true },
	{ "ram", "ram:1M", false, true },
	{ "ram, read-only", "ram:1M,ro", false, false },
	{ "null", "null:1M", false, true },
};

T_ROWS(cache_and_provisioning_are_told, caches)
{
	const struct cache_row *row = *state;
	struct volume *vol;

	make_scratch();
	vol = open_volume(row->spec, 0);
	assert_int_equal(vol->dev.write_cache, row->write_cache);
	assert_int_equal(vol->info.write_cache, row->write_cache);
	assert_int_equal(vol->info.unmap, row->unmap);
	assert_int_equal(vol->info.lbprz, row->unmap);
	assert_int_equal(vol->info.read_only, strstr(row->spec, ",ro") != NULL);
	volume_close(vol);
	unlink(scratch);
}

T_TEST(limits_count_blocks)
{
	struct volume *small = open_volume("null:16T", 0);
	struct volume *large = open_volume("null:16T,block-size=4096", 0);

	assert_int_equal(small->blocks, 16ull << 31);
	assert_int_equal(large->blocks, 16ull << 28);
	assert_int_equal(small->info.max_transfer_blocks,
			 VOLUME_MAX_TRANSFER / 512);
	assert_int_equal(large->info.max_transfer_blocks,
			 VOLUME_MAX_TRANSFER / 4096);
	assert_int_equal(small->info.physical_exp, 3);
	assert_int_equal(large->info.physical_exp, 0);
	assert_int_equal(small->info.optimal_granularity_blocks, 8);
	assert_true(small->info.max_unmap_blocks > 0);
	assert_true(small->info.max_unmap_descs > 0);
	volume_close(small);
	volume_close(large);
}

T_TEST(missing_file_is_named)
{
	struct volume_spec spec;
	struct volume *vol;
	struct error e = { 0 };

	assert_true(volume_spec_parse("./no.img", &spec, &e));
	assert_int_equal(volume_open(&spec, 0, "t", &vol, &e), -ENOENT);
	assert_non_null(strstr(e.text, "./no.img: does not exist"));
}

T_TEST(attach_and_detach_leave_nothing)
{
	struct reactor_options opt = { .max_files = 1 };
	struct block_worker worker = { .index = 2 };
	struct error e = { 0 };
	struct volume *vol;

	make_scratch();
	assert_int_equal(reactor_create(&opt, &worker.reactor), 0);
	vol = open_volume("%s", 0);
	for (int i = 0; i < 3; i++) {
		assert_int_equal(volume_attach(vol, &worker, &e), 0);
		volume_detach(vol, &worker);
	}
	reactor_destroy(worker.reactor);
	volume_close(vol);
	unlink(scratch);
}
