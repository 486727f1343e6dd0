/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/state_file.h"

#include <errno.h>
#include <inttypes.h>
#include <string.h>

#include "base/text.h"

#define FIRST_LINE_1 "rdma-target state 1"
#define FIRST_LINE   "rdma-target state 2"
/* The longest that was ever written: a SANITIZE with a pattern of 4096 bytes. */
#define LINE_MAX_LEN (2 * 4096 + 128)

/* ---- parse ---- */

struct parser {
	struct state_file state;
	unsigned int line_no;
	bool has_reservation;
	struct error *e;
};

static int bad(struct parser *p, const char *what)
{
	return error_set(p->e, -EBADMSG, "line %u: %s", p->line_no, what);
}

static bool take_bool(const char **text, const char *name, bool *ret)
{
	if (!text_take(text, name) || (**text != '0' && **text != '1'))
		return false;
	*ret = **text == '1';
	(*text)++;
	return true;
}

static int parse_modes(struct parser *p, const char *t)
{
	struct scsi_modes *m = &p->state.modes;

	if (p->state.has_modes || !take_bool(&t, "wce=", &m->wce) ||
	    !take_bool(&t, " d-sense=", &m->d_sense) ||
	    !take_bool(&t, " swp=", &m->swp) || *t)
		return bad(p, "not mode values");
	p->state.has_modes = true;
	return 0;
}

/* Unless it is there, @ret stays. */
static bool take_principal(const char **text, const char *name, uint64_t *ret)
{
	uint8_t bytes[8];

	if (!text_take(text, name))
		return true;
	if (!text_take_hex(text, bytes, sizeof(bytes)))
		return false;
	*ret = wire_get64(bytes);
	return true;
}

/* An initiator port, with its principal if that is known. */
static bool take_nexus(const char **text, struct scsi_pr_nexus *ret)
{
	if (!text_take_hex(text, ret->port.b, sizeof(ret->port.b)) ||
	    !take_principal(text, " of=", &ret->principal))
		return false;
	ret->target_port = SCSI_PR_TARGET_PORT;
	return true;
}

static int parse_registration(struct parser *p, const char *t)
{
	struct scsi_pr *pr = &p->state.pr;
	struct scsi_pr_registration reg = { .key = 0 };
	uint8_t key[8];

	if (!text_take_hex(&t, key, sizeof(key)) || !text_take(&t, " ") ||
	    !take_nexus(&t, &reg.nexus))
		return bad(p, "not a registration");
	reg.registrar = reg.nexus.principal;
	if (!take_principal(&t, " by=", &reg.registrar))
		return bad(p, "not a registration");
	reg.all_ports = text_take(&t, " all-ports");
	reg.key = wire_get64(key);
	if (*t || !reg.key)
		return bad(p, "not a registration");
	if (p->has_reservation)
		return bad(p, "a registration behind the reservation");
	if (scsi_pr_find(pr, &reg.nexus))
		return bad(p, "an initiator port is registered twice");
	if (pr->cnt == SCSI_PR_MAX)
		return bad(p, "too many registrations");
	pr->regs[pr->cnt++] = reg;
	pr->aptpl = true;
	return 0;
}

static int parse_reservation(struct parser *p, const char *t)
{
	struct scsi_pr *pr = &p->state.pr;
	const struct scsi_pr_registration *reg;
	uint8_t type = (uint8_t)(*t ? *t++ - '0' : 0);
	struct scsi_pr_nexus holder = { .principal = 0 };

	if (p->has_reservation || !pr->cnt || !scsi_pr_type_name(type))
		return bad(p, "not a reservation");
	p->has_reservation = true;
	pr->type = type;
	if (type == SCSI_PR_WRITE_EXCLUSIVE_AR ||
	    type == SCSI_PR_EXCLUSIVE_ACCESS_AR)
		return *t ? bad(p, "not a reservation") : 0;
	if (!text_take(&t, " ") || !take_nexus(&t, &holder) || *t)
		return bad(p, "not a reservation");
	reg = scsi_pr_find(pr, &holder);
	if (!reg)
		return bad(p, "the holder is not registered");
	pr->holder = (uint16_t)(reg - pr->regs);
	return 0;
}

static int parse_sanitize(struct parser *p, const char *t)
{
	struct state_job *job = &p->state.job;
	bool is_old = text_take(&t, "running ");

	if (job->state != VOLUME_READY)
		return bad(p, "a second job");
	job->state = VOLUME_SANITIZE_FAILED;
	if ((!is_old && !text_take(&t, "failed ")) ||
	    !take_bool(&t, "lenient=", &job->lenient) || (*t && !is_old))
		return bad(p, "not a SANITIZE");
	return 0;
}

static int parse_format(struct parser *p, const char *t)
{
	struct state_job *job = &p->state.job;

	if (job->state != VOLUME_READY)
		return bad(p, "a second job");
	job->state = VOLUME_FORMAT_FAILED;
	return strcmp(t, "failed") ? bad(p, "not a FORMAT UNIT") : 0;
}

static int parse_store(struct parser *p, const char *t)
{
	struct state_store *store = &p->state.store;
	uint64_t block_size;

	if (!text_take(&t, "store size=") ||
	    !text_take_number(&t, INT64_MAX, &store->size) ||
	    !text_take(&t, " block-size=") ||
	    !text_take_number(&t, UINT32_MAX, &block_size) ||
	    !text_take(&t, " lasting=") ||
	    !text_take_until(&t, ' ', store->mark.lasting,
			     sizeof(store->mark.lasting)) ||
	    !text_take(&t, " here=") ||
	    !text_take_until(&t, ' ', store->mark.here,
			     sizeof(store->mark.here)) ||
	    *t)
		return bad(p, "not a store");
	store->block_size = (uint32_t)block_size;
	return 0;
}

static int parse_line(struct parser *p, const char *line)
{
	if (text_take(&line, "modes "))
		return parse_modes(p, line);
	if (text_take(&line, "registration "))
		return parse_registration(p, line);
	if (text_take(&line, "reservation "))
		return parse_reservation(p, line);
	if (text_take(&line, "format "))
		return parse_format(p, line);
	if (text_take(&line, "sanitize "))
		return parse_sanitize(p, line);
	return bad(p, "unknown");
}

/* The next line of *@text as a string. False: there is no complete one. */
static bool take_line(const char **text, size_t *len, char line[LINE_MAX_LEN])
{
	const char *end = memchr(*text, '\n', *len);
	size_t n = end ? (size_t)(end - *text) : 0;

	if (!end || n >= LINE_MAX_LEN || memchr(*text, '\0', n))
		return false;
	memcpy(line, *text, n);
	line[n] = '\0';
	*text += n + 1;
	*len -= n + 1;
	return true;
}

int state_file_parse(const char *text, size_t len, struct state_file *ret,
		     struct error *e)
{
	struct parser p = { .line_no = 1, .e = e };
	char line[LINE_MAX_LEN];
	int err;

	if (!take_line(&text, &len, line) ||
	    (strcmp(line, FIRST_LINE) && strcmp(line, FIRST_LINE_1)))
		return bad(&p, "not '" FIRST_LINE "'");
	if (!strcmp(line, FIRST_LINE)) {
		p.line_no++;
		err = take_line(&text, &len, line) ? parse_store(&p, line)
						   : bad(&p, "cut off");
		if (err)
			return err;
	}
	for (;;) {
		p.line_no++;
		if (!take_line(&text, &len, line))
			return bad(&p, "cut off, or too long");
		if (!strcmp(line, "end"))
			break;
		err = parse_line(&p, line);
		if (err)
			return err;
	}
	if (len)
		return bad(&p, "something behind the end");
	*ret = p.state;
	return 0;
}

bool state_file_is_empty(const struct state_file *state)
{
	return !state->has_modes && !state->pr.cnt &&
	       state->job.state == VOLUME_READY;
}

/* ---- format ---- */

static void add_nexus(struct text *t, const struct scsi_pr_nexus *nexus)
{
	text_add_hex(t, nexus->port.b, sizeof(nexus->port.b));
	if (nexus->principal)
		text_add(t, " of=%016" PRIx64, nexus->principal);
}

static void add_pr(struct text *t, const struct scsi_pr *pr)
{
	for (uint16_t i = 0; i < pr->cnt; i++) {
		text_add(t, "registration %016" PRIx64 " ", pr->regs[i].key);
		add_nexus(t, &pr->regs[i].nexus);
		if (pr->regs[i].registrar != pr->regs[i].nexus.principal)
			text_add(t, " by=%016" PRIx64, pr->regs[i].registrar);
		text_add(t, "%s\n", pr->regs[i].all_ports ? " all-ports" : "");
	}
	if (!pr->type)
		return;
	text_add(t, "reservation %u", pr->type);
	if (pr->type != SCSI_PR_WRITE_EXCLUSIVE_AR &&
	    pr->type != SCSI_PR_EXCLUSIVE_ACCESS_AR) {
		text_add(t, " ");
		add_nexus(t, &pr->regs[pr->holder].nexus);
	}
	text_add(t, "\n");
}

static void add_job(struct text *t, const struct state_job *job)
{
	if (job->state == VOLUME_FORMAT_FAILED)
		text_add(t, "format failed\n");
	else if (job->state == VOLUME_SANITIZE_FAILED)
		text_add(t, "sanitize failed lenient=%d\n", job->lenient);
}

static void add_store(struct text *t, const struct state_store *store)
{
	text_add(t,
		 FIRST_LINE "\nstore size=%" PRIu64
			    " block-size=%u lasting=%s here=%s\n",
		 store->size, store->block_size, store->mark.lasting,
		 store->mark.here);
}

size_t state_file_format(const struct state_file *state, char *buf, size_t cap)
{
	struct text t = { .buf = buf, .cap = cap };

	if (state->store.size)
		add_store(&t, &state->store);
	else
		text_add(&t, FIRST_LINE_1 "\n");
	if (state->has_modes)
		text_add(&t, "modes wce=%d d-sense=%d swp=%d\n",
			 state->modes.wce, state->modes.d_sense,
			 state->modes.swp);
	if (state->pr.aptpl)
		add_pr(&t, &state->pr);
	add_job(&t, &state->job);
	text_add(&t, "end\n");
	return t.len;
}
