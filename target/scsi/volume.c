/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/volume.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "target/block/layer_fault.h"
#include "target/block/plugin_host.h"
#include "target/scsi/store_generation.h"
#include "base/cleanup.h"

/* Limits of one command, in bytes; volume.h has the other limits and the
 * reasons. */
#define OPTIMAL_TRANSFER      (1u << 20)
#define VOLUME_MAX_UNMAP_DESC 64

/* A working directory and a path in it. */
#define IDENTITY_PATH_MAX 8192

#define LARGEST_PHYSICAL_BLOCK (64u << 10)

/* ---- name and identity ---- */

static void name_from_path(const char *path, char *name, size_t len)
{
	const char *base = strrchr(path, '/');

	snprintf(name, len, "%.*s", (int)len - 1,
		 base && base[1] ? base + 1 : path);
	for (char *c = name; *c; c++) {
		if (*c < '!' || *c > '~' || *c == '/')
			*c = '_';
	}
}

static const struct backend_type *
volume_store_type(const struct volume_spec *spec)
{
	static const struct backend_type *const types[] = {
		[VOLUME_STORE_FILE] = &backend_file,
		[VOLUME_STORE_RAM] = &backend_ram,
		[VOLUME_STORE_NULL] = &backend_null,
		[VOLUME_STORE_PLUGIN] = &backend_plugin,
	};

	return spec->type ? spec->type : types[spec->store];
}

static void volume_choose_name(const struct volume_spec *spec,
			       struct volume *vol)
{
	if (*spec->name)
		snprintf(vol->name, sizeof(vol->name), "%s", spec->name);
	else if (volume_store_type(spec)->location != BACKEND_AT_SIZE &&
		 *spec->path)
		name_from_path(spec->path, vol->name, sizeof(vol->name));
	else
		snprintf(vol->name, sizeof(vol->name), "%s%u",
			 volume_store_type(spec)->plugin.name, vol->lun);
}

static int identity_of_file(const char *target, const struct volume_spec *spec,
			    const struct store_id *id, char *text, size_t len)
{
	char path[IDENTITY_PATH_MAX] = "";
	int err = store_path_clean(spec->path, path, sizeof(path));

	snprintf(text, len, "%s:%u:%s", target, spec->block_size,
		 *id->own ? id->own : path);
	return *id->own ? 0 : err;
}

/* What the plugin reports as identity of the data; else its name. */
static void identity_of_plugin(const char *target,
			       const struct volume_spec *spec,
			       const struct store_id *id, char *text,
			       size_t len)
{
	if (*id->own)
		snprintf(text, len, "%s:%u:plugin:%s", target, spec->block_size,
			 id->own);
	else
		snprintf(text, len, "%s:%u:plugin:%s:%s", target,
			 spec->block_size, spec->plugin.name, spec->path);
}

static int identity_of_this_start(char *text, size_t len)
{
	uint64_t random[2];

	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return -EIO;
	snprintf(text, len, "start:%016llx%016llx",
		 (unsigned long long)random[0], (unsigned long long)random[1]);
	return 0;
}

static enum volume_identity trust(const struct volume_spec *spec,
				  const struct backend_info *store)
{
	if (*spec->serial)
		return VOLUME_LASTING;
	if (!store->is_lasting)
		return VOLUME_NEW;
	return store->id.is_device && !*store->id.own ? VOLUME_BY_PATH
						      : VOLUME_LASTING;
}

static void choose_identity_of_serial(const struct volume_spec *spec,
				      struct volume *vol)
{
	char text[sizeof("serial:") + SCSI_SERIAL_MAX];

	snprintf(vol->serial, sizeof(vol->serial), "%s", spec->serial);
	snprintf(text, sizeof(text), "serial:%s", spec->serial);
	scsi_naa_make(text, vol->info.naa);
}

static int choose_identity(const struct volume_spec *spec, const char *target,
			   struct volume *vol)
{
	char text[IDENTITY_PATH_MAX + 512];
	const struct store_id *id;
	int err = 0;

	assert(vol->dev.backend);
	id = &vol->dev.backend->info.id;
	vol->identity = trust(spec, &vol->dev.backend->info);
	if (*spec->serial) {
		choose_identity_of_serial(spec, vol);
		return 0;
	}
	if (vol->identity == VOLUME_NEW)
		err = identity_of_this_start(text, sizeof(text));
	else if (volume_store_type(spec)->location == BACKEND_AT_PATH)
		err = identity_of_file(target, spec, id, text, sizeof(text));
	else
		identity_of_plugin(target, spec, id, text, sizeof(text));
	if (err)
		return err;
	scsi_naa_make(text, vol->info.naa);
	/* Of the identifier, only the part that differs between volumes. */
	for (size_t i = 4; i < SCSI_NAA_LEN; i++)
		sprintf(vol->serial + 2 * (i - 4), "%02x", vol->info.naa[i]);
	return 0;
}

/* ---- limits ---- */

static uint8_t physical_exp(uint32_t physical, uint32_t block_size)
{
	uint8_t exp = 0;

	if (physical > LARGEST_PHYSICAL_BLOCK)
		physical = LARGEST_PHYSICAL_BLOCK;
	while (physical >> (exp + 1) >= block_size)
		exp++;
	return exp;
}

static uint32_t to_blocks(uint64_t bytes, const struct volume *vol)
{
	uint64_t blocks = (bytes + vol->block_size - 1) / vol->block_size;

	return blocks < UINT32_MAX ? (uint32_t)blocks : UINT32_MAX;
}

static uint32_t blocks_within(uint32_t len, uint32_t block_size, uint32_t max)
{
	return len / block_size < max ? len / block_size : max;
}

static void set_limits(struct volume *vol)
{
	const struct backend_info *store = &vol->dev.backend->info;
	struct scsi_disk_info *info = &vol->info;

	info->physical_exp =
		physical_exp(store->optimal_block, vol->block_size);
	info->optimal_granularity_blocks = (uint16_t)(1u << info->physical_exp);
	info->max_transfer_blocks = to_blocks(VOLUME_MAX_TRANSFER, vol);
	info->optimal_transfer_blocks = to_blocks(OPTIMAL_TRANSFER, vol);
	info->max_write_same_blocks = to_blocks(VOLUME_MAX_WRITE_SAME, vol);
	info->max_caw_blocks = UINT8_MAX;
	info->max_atomic_blocks = (uint16_t)blocks_within(
		store->atomic_len, vol->block_size, UINT16_MAX);
	info->unmap = store->unmap_granularity;
	if (!info->unmap)
		return;
	info->lbprz = store->unmap_zeroes;
	info->max_unmap_blocks = to_blocks(block_unmap_max(&vol->dev), vol);
	info->max_unmap_descs = VOLUME_MAX_UNMAP_DESC;
	info->unmap_granularity_blocks =
		to_blocks(store->unmap_granularity, vol);
}

static void describe_paths(struct volume *vol)
{
	struct scsi_port_groups *groups = &vol->info.groups;
	struct backend_paths paths;

	block_paths(&vol->dev, &paths);
	groups->cnt = (uint16_t)paths.cnt;
	groups->own = (uint16_t)paths.own;
	groups->active = (uint16_t)paths.active;
	vol->told_active = UINT16_MAX;
	/* Other targets would neither know of a job nor end it. */
	vol->info.no_jobs = paths.cnt > 1;
	vol->info.no_reservations = paths.cnt > 1;
	vol->info.no_reserve = paths.cnt > 1;
}

static uint16_t active_path(const struct volume *vol)
{
	struct backend_paths paths;

	block_paths(&vol->dev, &paths);
	return (uint16_t)paths.active;
}

/* Several threads may look at once. Each looks again after it has stored, so
 * the last one to store has seen the last change. */
void volume_look_at_paths(struct volume *vol)
{
	uint16_t active = active_path(vol);
	uint16_t stored;

	do {
		stored = active;
		atomic_store(&vol->info.groups.active, stored);
		active = active_path(vol);
	} while (active != stored);
	volume_status_look(vol);
}

static void volume_describe(struct volume *vol)
{
	const struct backend_info *store = &vol->dev.backend->info;
	bool is_alone;

	describe_paths(vol);
	is_alone = vol->info.groups.cnt <= 1;
	vol->kind = store->kind;
	vol->blocks = store->size / vol->block_size;
	vol->read_only = store->read_only;
	vol->dev.write_cache = backend_has_cache(store);
	vol->info.name = vol->name;
	vol->info.serial = vol->serial;
	vol->info.target_port = vol->info.groups.cnt ? vol->info.groups.own : 1;
	vol->info.blocks = vol->blocks;
	vol->info.block_size = vol->block_size;
	vol->info.read_only = vol->read_only;
	vol->info.write_cache = vol->dev.write_cache;
	vol->info.mode_default.wce = vol->dev.write_cache;
	vol->info.mode_saved = vol->info.mode_default;
	/* Other targets would not know of WCE and SWP: after a failover, the
	 * medium would not be protected. */
	vol->info.mode_changeable = (struct scsi_modes){
		.wce = vol->dev.write_cache && is_alone,
		.d_sense = true,
		.swp = is_alone,
	};
	vol->info.rotational = store->rotational;
	vol->info.store.is_memory = !store->is_lasting;
	set_limits(vol);
	volume_status_look(vol);
}

/* ---- life ---- */

void lun_map_init(struct lun_map *map)
{
	memset(map, 0, sizeof(*map));
	scsi_cdb_index_init(&map->cdbs);
	pthread_mutex_init(&map->nexuses_lock, NULL);
	list_init(&map->nexuses);
}

static int open_backend(const struct volume_spec *spec, struct volume *vol,
			struct error *e)
{
	struct backend_options opt = {
		.path = spec->path,
		.plugin = &spec->plugin,
		.given = spec->given,
		.read_only = spec->read_only,
		.direct = spec->direct,
		.write_through = spec->write_through,
		.block_size = spec->block_size,
		.submit_all = spec->submit_all || spec->fault_cnt > 0 ||
			      spec->layer_cnt > 0,
	};
	int err = backend_open(volume_store_type(spec), &opt, &vol->dev.backend,
			       e);

	if (err)
		return err;
	if (vol->dev.backend->info.min_block > spec->block_size)
		return error_set(
			e, -EINVAL,
			"%s: takes I/O in units of %u bytes; add block-size=%u",
			spec->path, vol->dev.backend->info.min_block,
			vol->dev.backend->info.min_block);
	return 0;
}

static int add_layer(struct volume *vol, const struct backend_type *type,
		     struct backend_options *opt, struct error *e)
{
	opt->path = vol->name;
	opt->below = vol->dev.backend;
	vol->dev.backend = NULL;
	return backend_open(type, opt, &vol->dev.backend, e);
}

/* Adds the layers of the spec. Faults get every I/O first: a flush that lies
 * leaves the writes in the layers below. */
static int add_layers(const struct volume_spec *spec, struct volume *vol,
		      struct error *e)
{
	const struct fault_options faults = {
		.rules = spec->faults,
		.cnt = spec->fault_cnt,
		.volume = vol->name,
	};
	struct backend_options opt = {
		.read_only = spec->read_only,
		.block_size = spec->block_size,
		.submit_all = true,
		.faults = &faults,
	};
	int err = 0;

	for (unsigned int i = 0; i < spec->layer_cnt && !err; i++) {
		opt.plugin = &spec->layers[i];
		err = add_layer(vol, &backend_plugin, &opt, e);
	}
	if (!err && faults.cnt)
		err = add_layer(vol, &backend_fault, &opt, e);
	return err;
}

/* Until there is a record: as if nothing had been lost in this boot. */
static int first_generation(struct volume *vol)
{
	char boot[STORE_BOOT_SIZE];

	store_boot(boot);
	return store_generation(&vol->dev.backend->info, boot,
				/* loss= */ NULL, &vol->info.store);
}

/* What is known without the store. */
static void volume_begin(struct volume *vol, const struct volume_spec *spec,
			 unsigned int lun)
{
	vol->lun = lun;
	vol->allow = spec->allow;
	vol->block_size = spec->block_size;
	snprintf(vol->path, sizeof(vol->path), "%s", spec->path);
	volume_choose_name(spec, vol);
}

struct volume *volume_stand_in(const struct volume_spec *spec, unsigned int lun)
{
	struct volume *vol = calloc(1, sizeof(*vol));

	if (!vol)
		return NULL;
	volume_begin(vol, spec, lun);
	vol->identity = VOLUME_LASTING;
	if (*spec->serial)
		choose_identity_of_serial(spec, vol);
	return vol;
}

int volume_open(const struct volume_spec *spec, unsigned int lun,
		const char *target, struct volume **ret_vol, struct error *e)
{
	struct volume *vol = calloc(1, sizeof(*vol));
	int err;

	if (!vol)
		return error_set(e, -ENOMEM, "out of memory");
	block_owners_init(&vol->dev.owners);
	volume_job_init(vol);
	unit_state_init(&vol->state);
	volume_status_init(vol);
	writers_init(&vol->dev.writers);
	volume_begin(vol, spec, lun);
	err = open_backend(spec, vol, e);
	if (err) {
		volume_close(vol);
		return err;
	}
	err = add_layers(spec, vol, e);
	if (err) {
		volume_close(vol);
		return err;
	}
	err = choose_identity(spec, target, vol);
	if (err) {
		error_set(e, err, "%s: has no identity: %s", spec->path,
			  strerror(-err));
		volume_close(vol);
		return err;
	}
	err = first_generation(vol);
	if (err) {
		volume_close(vol);
		return error_set(e, err, "no random numbers to be had");
	}
	vol->info.removable = spec->removable;
	volume_describe(vol);
	/* An eject is a state of this target alone. */
	if (spec->removable && vol->info.groups.cnt > 1) {
		volume_close(vol);
		return error_set(
			e, -EINVAL,
			"%s: other targets may serve it, and would not "
			"know that the medium is out; leave out "
			"removable",
			spec->path);
	}
	*ret_vol = vol;
	return 0;
}

void volume_close(struct volume *vol)
{
	if (!vol)
		return;
	/* While the store is locked: the next process may have the same journal. */
	volume_writers_save(vol);
	writers_fini(&vol->dev.writers);
	disk_journal_close(&vol->journal);
	backend_close(vol->dev.backend);
	unit_state_fini(&vol->state);
	volume_status_fini(vol);
	block_owners_fini(&vol->dev.owners);
	free(vol);
}

int volume_measure(struct volume *vol)
{
	struct backend *be = vol->dev.backend;
	uint64_t size;
	int err = backend_measure(be, &size);

	if (err)
		return err;
	size -= size % vol->block_size;
	if (size < be->info.size)
		return -ESTALE;
	if (size == be->info.size)
		return 0;
	/* Measures the store first, so no request exceeds its size. */
	be->info.size = size;
	vol->blocks = size / vol->block_size;
	vol->info.blocks = vol->blocks;
	return 1;
}

int volume_attach(struct volume *vol, struct block_worker *w, struct error *e)
{
	int err = backend_attach(vol->dev.backend, w);

	if (err)
		return error_set(e, err, "%s: %s", vol->path, strerror(-err));
	return 0;
}

void volume_detach(struct volume *vol, struct block_worker *w)
{
	backend_detach(vol->dev.backend, w);
}
