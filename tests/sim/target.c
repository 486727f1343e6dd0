/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/target.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/scsi/volume_record.h"
#include "tests/sim/disk.h"
#include "tests/sim/sim.h"

/* Small, so that commands have to wait for one another; with copies, each of
 * which takes half a MiB, two of these have room. */
#define ARENA_LEN	 (64u << 10)
#define ARENA_LEN_COPIES (1u << 20)

const struct srp_port_id target_id = { .b = { 't', 'a', 'r', 'g', 'e', 't' } };
const struct sockaddr_in target_addr = { .sin_family = AF_INET,
					 .sin_port = 0xb315 };

static char machine_dir[32];
static unsigned int boot;

/* What a target that was killed has left. */
static struct {
	char *path; /* NULL: nothing */
	uint8_t bytes[64 << 10];
	size_t len;
} left[BLOCKS_LUNS];

static void must(int err)
{
	if (err)
		abort();
}

/* ---- the machine ---- */

static void empty_dir(void)
{
	DIR *dir = opendir(machine_dir);
	struct dirent *it;

	while (dir && (it = readdir(dir))) {
		if (*it->d_name != '.')
			unlinkat(dirfd(dir), it->d_name, 0);
	}
	if (dir)
		closedir(dir);
}

static void remove_dir(void)
{
	empty_dir();
	rmdir(machine_dir);
}

void target_machine_new(void)
{
	if (*machine_dir) {
		empty_dir();
		return;
	}
	/* In memory, as it is written and synchronized all the time. */
	strcpy(machine_dir, access("/dev/shm", W_OK) ? "/tmp/sim-XXXXXX"
						     : "/dev/shm/sim-XXXXXX");
	if (!mkdtemp(machine_dir))
		abort();
	atexit(remove_dir);
}

void target_machine_boots(void)
{
	boot++;
}

void target_killed(const struct target *t)
{
	for (unsigned int i = 0; i < t->luns.cnt; i++) {
		const struct flush_record *r = &t->luns.vol[i]->dev.record;
		FILE *f = r->file ? fopen(r->path, "r") : NULL;

		if (!f)
			continue;
		left[i].path = strdup(r->path);
		left[i].len = fread(left[i].bytes, 1, sizeof(left[i].bytes), f);
		fclose(f);
	}
}

void target_put_back(void)
{
	for (unsigned int i = 0; i < BLOCKS_LUNS; i++) {
		FILE *f = left[i].path ? fopen(left[i].path, "r+") : NULL;

		if (f && (fwrite(left[i].bytes, left[i].len, 1, f) != 1 ||
			  fclose(f)))
			abort();
		free(left[i].path);
		left[i].path = NULL;
	}
}

/* ---- start ---- */

static void start_worker(struct target *t, struct t_fabric *hub,
			 size_t arena_len)
{
	struct worker *w = &t->workers[t->worker_cnt];
	struct worker_options opt = { .index = t->worker_cnt++,
				      .arena_len = arena_len };
	struct xp_config cfg = { .recv_len = CHANNEL_IT_IU_LEN,
				 .recv_aligned_at = SRP_IMM_OFFSET };
	struct error e;
	struct xp *xp;

	must(worker_open(w, &opt, &e));
	cfg.reactor = w->reactor;
	must(t_xp_create(hub, &cfg, &xp));
	must(worker_add_xp(w, xp, &e));
}

static void start_volume(struct target *t, unsigned int lun)
{
	struct volume_spec *spec = calloc(1, sizeof(*spec));
	struct error e;
	char now[32];

	spec->ops = &disk_ops;
	spec->block_size = BLOCK_BYTES;
	spec->direct = -1;
	snprintf(spec->path, sizeof(spec->path), "%u", lun);
	snprintf(spec->name, sizeof(spec->name), "vol%u", lun);
	snprintf(spec->serial, sizeof(spec->serial), "sim%u", lun);
	must(volume_open(spec, lun, &t->luns.vol[lun], &e));
	free(spec);
	snprintf(now, sizeof(now), "boot %u", boot);
	if (backend_life_is_known(&t->luns.vol[lun]->dev.backend->info.life))
		must(volume_record_open_in(t->luns.vol[lun],
					   /* forgets= */ false, machine_dir,
					   now, &e));
	t->luns.cnt++;
	for (unsigned int i = 0; i < t->worker_cnt; i++)
		must(worker_add_volume(&t->workers[i], t->luns.vol[lun], &e));
}

static void stopped(struct port *port)
{
	((struct target *)port->user)->stopped = true;
}

void target_start(struct target *t, struct t_fabric *hub,
		  unsigned int worker_cnt, bool copies)
{
	struct error e;

	memset(t, 0, sizeof(*t));
	lun_map_init(&t->luns);
	while (t->worker_cnt < worker_cnt)
		start_worker(t, hub, copies ? ARENA_LEN_COPIES : ARENA_LEN);
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++)
		start_volume(t, lun);
	t->port.workers = t->workers;
	t->port.worker_cnt = t->worker_cnt;
	t->port.luns = &t->luns;
	t->port.stopped = stopped;
	t->port.user = t;
	port_init(&t->port, &target_id);
	must(port_listen(&t->port, XP_VERBS,
			 (const struct sockaddr *)&target_addr,
			 sizeof(target_addr), &e));
}

void target_unplug(struct target *t)
{
	for (unsigned int i = 0; i < t->worker_cnt; i++)
		t_fabric_unplug(t->workers[i].xp[XP_VERBS]);
}

void target_plug(struct target *t)
{
	for (unsigned int i = 0; i < t->worker_cnt; i++)
		t_fabric_plug(t->workers[i].xp[XP_VERBS]);
}

static void check_all_is_back(const struct target *t)
{
	for (unsigned int i = 0; i < t->worker_cnt; i++) {
		const struct worker *w = &t->workers[i];
		size_t used = arena_used(w->arena) + arena_used(w->tables);

		if (used)
			sim_wrong("worker %u kept %zu bytes of its arenas", i,
				  used);
		if (!list_empty(&w->managing))
			sim_wrong("a task management function is left");
	}
	if (t->port.login_cnt || !list_empty(&t->port.nexuses))
		sim_wrong("a login or a nexus is left");
}

void target_end(struct target *t)
{
	check_all_is_back(t);
	if (sim_is_wrong())
		return;
	port_fini(&t->port);
	for (unsigned int i = 0; i < t->worker_cnt; i++) {
		for (unsigned int k = 0; k < t->luns.cnt; k++)
			worker_remove_volume(&t->workers[i], t->luns.vol[k]);
		worker_close(&t->workers[i]);
	}
	for (unsigned int k = 0; k < t->luns.cnt; k++)
		volume_close(t->luns.vol[k]);
}
