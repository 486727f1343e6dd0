/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/sim/target.h"

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "target/scsi/volume_writers.h"
#include "tests/lib/t_must.h"
#include "tests/sim/disk.h"
#include "tests/sim/platter.h"
#include "tests/sim/sim.h"

/* Small, so that commands have to wait for one another. With copies, each of
 * which takes half a MiB, there is room for two of these. */
#define ARENA_LEN	 (64u << 10)
#define ARENA_LEN_COPIES (1u << 20)

static char machine_dir[32];
static unsigned int boot;

/* The files that a killed target has left. */
static struct {
	char *path; /* NULL: nothing */
	uint8_t bytes[PLATTER_LEN];
	uint8_t stable[PLATTER_LEN];
} left[BLOCKS_LUNS];

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
	/* In memory, because it is written and synchronized all the time. */
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

void target_killed(const struct t_port *t, bool power_cut)
{
	for (unsigned int i = 0; i < t->luns.cnt; i++) {
		const struct disk_journal *j = &t->luns.vol[i]->journal;
		FILE *f = disk_journal_is_open(j) ? fopen(j->path, "r") : NULL;

		if (!f)
			continue;
		left[i].path = strdup(j->path);
		T_MUST(fread(left[i].bytes, PLATTER_LEN, 1, f) == 1);
		fclose(f);
		platter_read(j->path, left[i].stable);
		if (!power_cut)
			continue;
		platter_cut(left[i].bytes, left[i].stable);
		memcpy(left[i].stable, left[i].bytes, PLATTER_LEN);
	}
}

void target_put_back(void)
{
	for (unsigned int i = 0; i < BLOCKS_LUNS; i++) {
		FILE *f = left[i].path ? fopen(left[i].path, "w") : NULL;

		if (!f)
			continue;
		T_MUST(fwrite(left[i].bytes, PLATTER_LEN, 1, f) == 1);
		T_MUST(!fclose(f));
		platter_put(left[i].path, left[i].stable);
		free(left[i].path);
		left[i].path = NULL;
	}
}

/* ---- start ---- */

static void start_volume(struct t_port *t, unsigned int lun)
{
	struct volume_spec *spec = calloc(1, sizeof(*spec));
	struct volume *vol;
	struct error e;
	char now[32];

	spec->type = &disk_type;
	spec->block_size = BLOCK_BYTES;
	spec->direct = -1;
	snprintf(spec->path, sizeof(spec->path), "%u", lun);
	snprintf(spec->serial, sizeof(spec->serial), "sim%u", lun);
	vol = t_port_open_volume(t, spec);
	free(spec);
	snprintf(now, sizeof(now), "boot %u", boot);
	if (backend_life_is_known(&vol->dev.backend->info.life) &&
	    (unit_state_load(vol, machine_dir, &e) ||
	     volume_writers_open_in(vol, machine_dir, /* run_dir= */ NULL, now,
				    &e)))
		sim_wrong("%s", e.text);
	t_port_attach_volume(t, vol);
}

void target_start(struct t_port *t, struct t_fabric *hub,
		  unsigned int worker_cnt, bool copies)
{
	while (t->worker_cnt < worker_cnt)
		t_port_add_worker(t, hub,
				  copies ? ARENA_LEN_COPIES : ARENA_LEN);
	for (unsigned int lun = 0; lun < BLOCKS_LUNS; lun++)
		start_volume(t, lun);
	t_port_start(t, worker_cnt);
}

void target_unplug(struct t_port *t)
{
	for (unsigned int i = 0; i < t->worker_cnt; i++)
		t_fabric_unplug(t->workers[i].xp[XP_VERBS]);
}

void target_plug(struct t_port *t)
{
	for (unsigned int i = 0; i < t->worker_cnt; i++)
		t_fabric_plug(t->workers[i].xp[XP_VERBS]);
}

void target_end(struct t_port *t)
{
	if (t_port_leftover(t))
		sim_wrong("%s is left", t_port_leftover(t));
	if (sim_is_wrong())
		return;
	t_port_end(t);
	t_port_close_volumes(t);
	t_port_close_workers(t);
}
