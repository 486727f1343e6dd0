/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/fuzz/fuzz_target.h"

#include <sys/mman.h>

#include "tests/fuzz/fuzz_peer.h"
#include "tests/lib/t_store.h"
#include "tests/sim/clock.h"

/* Many more turns than any input needs that ends. */
#define AWAIT_MS  20000
#define TURNS_MAX 1000000u

struct fuzz_target fuzz_target;

static struct fuzz_target *const t = &fuzz_target;

/* ---- objects that are made once ---- */

static uint8_t *open_memory(size_t len, struct xp_mr **ret_mr)
{
	uint8_t *mem = aligned_alloc(4096, len);
	struct error e;

	FUZZ_CLAIM(mem);
	memset(mem, 0, len);
	FUZZ_CLAIM(
		!xp_mr_register(t->peer_xp, mem, len, XP_REMOTE, ret_mr, &e));
	return mem;
}

static void open_once(void)
{
	struct reactor_options ropt = { 0 };
	struct xp_config cfg = { .recv_len = CHANNEL_TI_IU_LEN };

	t->hub = t_fabric_create();
	for (unsigned int i = 0; i < T_PORT_WORKERS; i++)
		t_port_add_worker(&t->target, t->hub, FUZZ_ARENA_LEN);
	FUZZ_CLAIM(!reactor_create(&ropt, &t->peer_reactor));
	cfg.reactor = t->peer_reactor;
	FUZZ_CLAIM(!t_xp_create(t->hub, &cfg, &t->peer_xp));
	t->mem = open_memory(FUZZ_MEM_LEN, &t->mem_mr);
	t->own_mem = open_memory(4096, &t->own_mr);
}

/* ---- volumes ---- */

/* The store has half of its size at first, so that it can grow. */
static void reset_store(void)
{
	t_store_reset(&(struct backend_info){
		.size = FUZZ_STORE_SIZE / 2,
		.min_block = 512,
		.fua = true,
		.durability = RBP_STABLE_AFTER_FLUSH,
		.read_cache = true,
		.zero = true,
		.extents = true,
		.unmap_granularity = 4096,
		.unmap_zeroes = true,
		.atomic_len = 4096,
	});
	t_store.room = FUZZ_STORE_SIZE;
	t_store.extent_unit = 8192;
}

/* Returns "/proc/self/fd/N" of a file without a name. */
static const char *file_path(void)
{
	static char path[64];
	int fd;

	if (*path)
		return path;
	fd = memfd_create("fuzz", MFD_CLOEXEC);
	FUZZ_CLAIM(fd >= 0 && !ftruncate(fd, FUZZ_STORE_SIZE));
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	return path;
}

static void open_volume(unsigned int lun, const struct backend_type *store,
			const char *path, enum fuzz_other other)
{
	static struct volume_spec spec;

	spec = (struct volume_spec){
		.type = store,
		.block_size = 512,
		.direct = -1,
		.removable = other == FUZZ_OTHER_REMOVABLE,
		.read_only = other == FUZZ_OTHER_READ_ONLY,
	};
	snprintf(spec.path, sizeof(spec.path), "%s", path);
	snprintf(spec.serial, sizeof(spec.serial), "fuzz%u", lun);
	t_port_attach_volume(&t->target, t_port_open_volume(&t->target, &spec));
}

static void open_volumes(enum fuzz_other other)
{
	static const struct backend_type *const stores[] = {
		[FUZZ_OTHER_NULL] = &backend_null,
		[FUZZ_OTHER_FILE] = &backend_file,
		[FUZZ_OTHER_REMOVABLE] = &backend_null,
		[FUZZ_OTHER_READ_ONLY] = &backend_ram,
	};

	reset_store();
	open_volume(FUZZ_LUN_STORE, &t_store_type, "store", 0);
	open_volume(FUZZ_LUN_RAM, &backend_ram, "256k", 0);
	open_volume(FUZZ_LUN_OTHER, stores[other],
		    other == FUZZ_OTHER_FILE ? file_path() : "256k", other);
	open_volume(FUZZ_LUN_BYSTANDER, &backend_ram, "64k", 0);
}

/* ---- an input ---- */

void fuzz_target_begin(unsigned int workers, enum fuzz_other other)
{
	if (!t->hub)
		open_once();
	open_volumes(other);
	t->rnr = t_fabric_rnr(t->hub);
	t_port_start(&t->target, workers);
	t_fabric_come_from(t->hub, "10.0.0.2");
}

bool fuzz_turn(void)
{
	bool busy = reactor_run_once(t->peer_reactor, 0) > 0;

	return t_port_turn(&t->target) || busy;
}

void fuzz_settle(void)
{
	unsigned int turns = 0;

	while (fuzz_turn())
		FUZZ_CLAIM(turns++ < TURNS_MAX);
}

void fuzz_skip(unsigned int ms)
{
	clock_skip(ms);
}

/* The kernel, or the thread of a store, may have something of a volume that is a file.
 * Nothing else takes time. */
static void await(bool (*is_over)(void))
{
	for (unsigned int ms = 0; !is_over(); ms++) {
		FUZZ_CLAIM(ms < AWAIT_MS);
		usleep(1000);
		fuzz_settle();
	}
}

static bool is_stopped(void)
{
	return t->target.stopped;
}

void fuzz_target_stop(void)
{
	if (!t->target.port.stopping)
		port_stop(&t->target.port);
	fuzz_settle();
	/* Waits some time for peers that do not answer. */
	for (unsigned int i = 0; i < 4 && !t->target.stopped; i++) {
		fuzz_skip(CHANNEL_DRAIN_MS);
		fuzz_settle();
	}
	await(is_stopped);
	FUZZ_CLAIM(!t_port_leftover(&t->target));
}

static bool jobs_are_over(void)
{
	for (unsigned int lun = 0; lun < FUZZ_LUNS; lun++) {
		enum volume_state state = volume_state(t->target.luns.vol[lun]);

		if (state == VOLUME_FORMATTING || state == VOLUME_SANITIZING)
			return false;
	}
	return true;
}

void fuzz_target_end(void)
{
	for (unsigned int lun = 0; lun < FUZZ_LUNS; lun++)
		volume_job_stop(t->target.luns.vol[lun]);
	fuzz_settle();
	await(jobs_are_over);
	if (!fuzz_peer_overruns)
		FUZZ_CLAIM(t_fabric_rnr(t->hub) == t->rnr);
	t_port_end(&t->target);
	t_port_close_volumes(&t->target);
}
