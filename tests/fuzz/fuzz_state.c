/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Persistent reservations. Decodes a state file, runs service actions on the
 * result, checks every rule for such a state after each one, then saves the
 * state and reads it back.
 */
#include <errno.h>

#include "target/scsi/pr_notes.h"
#include "target/scsi/state_file.h"
#include "tests/fuzz/fuzz.h"

#define PORTS 8

static bool is_for_all(uint8_t type)
{
	return type == SCSI_PR_WRITE_EXCLUSIVE_AR ||
	       type == SCSI_PR_EXCLUSIVE_ACCESS_AR;
}

/* Each nexus is registered once, and has a key. */
static void check_registrations(const struct scsi_pr *pr)
{
	for (unsigned int i = 0; i < pr->cnt; i++) {
		FUZZ_CLAIM(pr->regs[i].key);
		FUZZ_CLAIM(scsi_pr_find(pr, &pr->regs[i].nexus) ==
			   &pr->regs[i]);
	}
}

static void check_pr(const struct scsi_pr *pr)
{
	FUZZ_CLAIM(pr->cnt <= SCSI_PR_MAX);
	if (!pr->type)
		return;
	FUZZ_CLAIM(scsi_pr_type_name(pr->type) && pr->cnt);
	if (is_for_all(pr->type))
		return;
	FUZZ_CLAIM(pr->holder < pr->cnt);
	FUZZ_CLAIM(scsi_pr_is_holder(pr, &pr->regs[pr->holder].nexus));
}

static void check_same(const struct scsi_pr *a, const struct scsi_pr *b)
{
	FUZZ_CLAIM(a->cnt == b->cnt && a->type == b->type);
	FUZZ_CLAIM(is_for_all(a->type) || a->holder == b->holder || !a->type);
	for (unsigned int i = 0; i < a->cnt; i++)
		FUZZ_CLAIM(a->regs[i].key == b->regs[i].key &&
			   a->regs[i].all_ports == b->regs[i].all_ports &&
			   a->regs[i].registrar == b->regs[i].registrar &&
			   scsi_pr_nexus_equal(&a->regs[i].nexus,
					       &b->regs[i].nexus));
}

/* A saved state is read back unchanged. */
static void check_lasting(const struct state_file *state)
{
	static char text[STATE_FILE_MAX];
	static struct state_file again;
	struct error e = { 0 };
	size_t len = state_file_format(state, text, sizeof(text));

	FUZZ_CLAIM(len < sizeof(text) - 1);
	FUZZ_CLAIM(!state_file_parse(text, len, &again, &e));
	FUZZ_CLAIM(
		again.store.size == state->store.size &&
		again.store.block_size == state->store.block_size &&
		!strcmp(again.store.mark.lasting, state->store.mark.lasting) &&
		!strcmp(again.store.mark.here, state->store.mark.here));
	FUZZ_CLAIM(again.has_modes == state->has_modes);
	if (state->has_modes)
		FUZZ_CLAIM(again.modes.wce == state->modes.wce &&
			   again.modes.d_sense == state->modes.d_sense &&
			   again.modes.swp == state->modes.swp);
	if (state->pr.aptpl)
		check_same(&state->pr, &again.pr);
	else
		FUZZ_CLAIM(!again.pr.cnt);
}

static void check_answers(const struct scsi_pr *pr, uint16_t cap)
{
	static uint8_t all[8 + SCSI_PR_MAX * 48], cut[sizeof(all)];
	const struct scsi_pr_unit unit = { 1, true, true };

	cap %= sizeof(cut);
	for (int action = 0; action < 4; action++) {
		size_t len =
			scsi_pr_in_encode(pr, action, &unit, all, sizeof(all));

		FUZZ_CLAIM(len <= sizeof(all));
		FUZZ_CLAIM(scsi_pr_in_encode(pr, action, &unit, cut, cap) ==
			   len);
		FUZZ_CLAIM(!memcmp(all, cut, cap < len ? cap : len));
	}
}

static struct srp_port_id port_of(uint8_t n)
{
	return srp_port_id_make(0, n % PORTS);
}

/* A list that mostly fits the service action. */
static size_t make_list(struct fuzz_input *in, uint8_t action, uint8_t *b)
{
	uint8_t how = fuzz_u8(in);
	size_t len = SCSI_PR_OUT_LEN;
	uint8_t cnt = 0;

	memset(b, 0, SCSI_PR_OUT_MAX);
	b[7] = fuzz_u8(in) & 3;
	b[15] = fuzz_u8(in) & 3;
	b[20] = how & 0x0d;
	if (action == SCSI_PR_REGISTER_AND_MOVE) {
		b[17] = how & 3;
		b[19] = how & 0x10 ? 2 : SCSI_PR_TARGET_PORT;
		b[23] = SCSI_PR_TRANSPORT_ID_LEN;
		cnt = 1;
	} else if (how & 0x08) {
		/* Many of them, to reach the limit. */
		cnt = fuzz_u8(in) % (SCSI_PR_MAX + 2);
		wire_put32(b + 24, cnt * SCSI_PR_TRANSPORT_ID_LEN);
		len = 28;
	}
	for (uint8_t i = 0; i < cnt; i++, len += SCSI_PR_TRANSPORT_ID_LEN) {
		struct srp_port_id port = how & 0x80 ? srp_port_id_make(1, i)
						     : port_of(fuzz_u8(in));

		scsi_pr_transport_id_encode(&port, b + len);
	}
	if (how & 0x40)
		b[fuzz_u8(in) % (len ? len : 1)] ^= fuzz_u8(in);
	return how & 0x20 ? fuzz_u16(in) % SCSI_PR_OUT_MAX : len;
}

static bool is_news_for_others(const struct scsi_pr_effects *e,
			       const struct scsi_pr_nexus *from)
{
	for (unsigned int i = 0; i < e->cnt; i++) {
		if (scsi_pr_nexus_equal(&e->to[i].nexus, from) ||
		    !e->to[i].news)
			return false;
	}
	return e->cnt <= SCSI_PR_MAX;
}

static void act(struct fuzz_input *in, struct state_file *state)
{
	static uint8_t list[SCSI_PR_OUT_MAX];
	static struct scsi_pr_effects effects;
	static struct scsi_pr before;
	const struct scsi_pr_unit unit = { 1, true, true };
	struct scsi_pr_nexus from = { port_of(fuzz_u8(in)),
				      SCSI_PR_TARGET_PORT };
	uint8_t action = fuzz_u8(in) & 7;
	uint8_t byte = fuzz_u8(in);
	size_t len = make_list(in, action, list);
	struct scsi_pr_request req;
	struct scsi_sense sense;
	int err;

	before = state->pr;
	if (scsi_pr_out_decode(action, byte >> 6, byte & 15, list, len, &unit,
			       &req, &sense))
		return;
	err = scsi_pr_execute(&state->pr, &from, &req, &effects, &sense);
	FUZZ_CLAIM(!err || err == -EBUSY || err == -EINVAL);
	check_pr(&state->pr);
	if (err)
		FUZZ_CLAIM(!memcmp(&before, &state->pr, sizeof(before)));
	else
		FUZZ_CLAIM(is_news_for_others(&effects, &from));
}

/* Parses a file with as many registrations as the input says. Too many are
 * refused. */
static void parse_many(struct fuzz_input *in, struct state_file *state)
{
	static char text[STATE_FILE_MAX];
	unsigned int cnt = fuzz_u8(in);
	struct error e = { 0 };
	int len = snprintf(text, sizeof(text), "rdma-target state 1\n");

	for (unsigned int i = 0; i < cnt; i++)
		len += snprintf(text + len, sizeof(text) - (size_t)len,
				"registration %016x %032x\n", 1 + i % 4, i);
	len += snprintf(text + len, sizeof(text) - (size_t)len, "end\n");
	FUZZ_CLAIM(!state_file_parse(text, (size_t)len, state, &e) ==
		   (cnt <= SCSI_PR_MAX));
}

/* Parses a file, which ends at a NUL. */
static void parse(struct fuzz_input *in, struct state_file *state)
{
	const uint8_t *nul = memchr(in->p, 0, in->left);
	size_t len = nul ? (size_t)(nul - in->p) : in->left;
	struct error e = { 0 };

	memset(e.text, 'x', sizeof(e.text));
	FUZZ_FILL(*state);
	if (state_file_parse((const char *)in->p, len, state, &e)) {
		FUZZ_UNTOUCHED(*state);
		FUZZ_CLAIM(memchr(e.text, '\0', sizeof(e.text)) && *e.text);
		memset(state, 0, sizeof(*state));
	}
	*in = fuzz_input(in->p + len, in->left - len);
	fuzz_u8(in); /* skips the NUL */
}

/* Notes that targets share: the decoded notes are encoded to the same bytes. */
static void read_notes(struct fuzz_input *in)
{
	static uint8_t buf[PR_NOTES_MAX];
	static struct pr_notes notes;

	FUZZ_FILL(notes);
	if (pr_notes_decode(in->p, in->left, &notes)) {
		FUZZ_UNTOUCHED(notes);
		return;
	}
	check_pr(&notes.pr);
	check_registrations(&notes.pr);
	FUZZ_CLAIM(notes.news_cnt <= PR_NOTES_NEWS_MAX);
	FUZZ_CLAIM(!in->left || (pr_notes_encode(&notes, buf) == in->left &&
				 !memcmp(buf, in->p, in->left)));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct state_file state;
	struct fuzz_input in = fuzz_input(data, size);
	uint8_t how;

	if (!size)
		return 0;
	memset(&state, 0, sizeof(state));
	how = fuzz_u8(&in);
	if (how == 'N') {
		read_notes(&in);
		return 0;
	}
	if (how & 1)
		parse_many(&in, &state);
	else
		parse(&in, &state);
	check_pr(&state.pr);
	check_registrations(&state.pr);
	while (in.left)
		act(&in, &state);
	check_registrations(&state.pr);
	/* A long state takes a millisecond to save: not each time. */
	if (state.pr.cnt < 16 || size % 8 == 0)
		check_lasting(&state);
	check_answers(&state.pr, (uint16_t)size);
	return 0;
}
