/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * engine-bench: N reads of 4 KiB from a RAM volume, 32 in flight, through the
 * whole target, with the transport in the same process. To count instructions,
 * run it with N and with 2 N: the difference is the cost of N reads.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/bench/apart.h"
#include "tests/lib/t_rig.h"

#define DEPTH 32u
#define READ  4096u

struct command {
	struct xp_chain chain;
	uint8_t iu[256];
	uint32_t len;
};

static struct command commands[DEPTH];

static void sent(struct xp_chain *chain, int status)
{
}

static void encode(struct t_ini *ch, struct command *cmd, unsigned int slot)
{
	struct srp_desc desc = rig_desc(ch, (size_t)slot * READ, READ);
	struct rig_cmd read =
		rig_read(RIG_RAM, slot * (READ / RIG_BLOCK), READ / RIG_BLOCK);
	struct srp_cmd_args args = {
		.tag = slot,
		.cdb = read.cdb,
		.cdb_len = sizeof(read.cdb),
		.in = { .format = SRP_DATA_DIRECT,
			.descs = &desc,
			.desc_cnt = 1 },
	};

	srp_lun_encode(RIG_RAM, &args.lun);
	cmd->len = (uint32_t)srp_cmd_encode(cmd->iu, sizeof(cmd->iu), &args);
}

/* What is counted: --toggle-collect. */
static APART bool target_turn(struct rig *rig)
{
	return reactor_run_once(rig->target.workers[0].reactor, 0) > 0;
}

static void settle(struct rig *rig)
{
	for (unsigned int idle = 0; idle < 4; idle++) {
		if (reactor_run_once(rig->peer_reactor, 0) > 0)
			idle = 0;
		if (target_turn(rig))
			idle = 0;
	}
}

static void run(struct t_ini *ch)
{
	ch->iu_cnt = 0;
	for (unsigned int i = 0; i < DEPTH; i++) {
		struct command *cmd = &commands[i];

		cmd->chain = (struct xp_chain){
			.send = { { .addr = cmd->iu, .len = cmd->len } },
			.send_cnt = 1,
			.done = sent,
		};
		xp_post(ch->xp, &cmd->chain);
	}
	settle(rig_of(ch));
	if (ch->iu_cnt != DEPTH) {
		fprintf(stderr, "engine-bench: %u answers\n", ch->iu_cnt);
		exit(1);
	}
}

int main(int argc, char **argv)
{
	unsigned long n = argc == 2 ? strtoul(argv[1], NULL, 10) : 0;
	struct rig *rig;
	struct t_ini *ch;

	if (n == 0) {
		fprintf(stderr, "Usage: engine-bench READS\n");
		return 2;
	}
	rig = rig_create(NULL);
	ch = rig_login(rig, 1, SRP_MULTICHAN_SINGLE);
	rig_clear_ua(ch, RIG_RAM, NULL);
	for (unsigned int i = 0; i < DEPTH; i++)
		encode(ch, &commands[i], i);
	for (unsigned long done = 0; done < n; done += DEPTH)
		run(ch);
	rig_chan_free(ch);
	rig_destroy(rig);
	return 0;
}
