/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/state_file.h"

#include <errno.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

static int state_file_hex_digit(char c)
{
	if (c >= '0' && c <= '9')
		return c - '0';
	if (c >= 'a' && c <= 'f')
		return c - 'a' + 10;
	return -1;
}

/* Reads @len bytes, two hexadecimal digits each, at *@text and advances it. */
static bool take_hex(const char **text, uint8_t *bytes, size_t len)
{
	for (size_t i = 0; i < len; i++) {
		int high = state_file_hex_digit((*text)[0]);
		int low = high < 0 ? -1 : state_file_hex_digit((*text)[1]);

		if (low < 0)
			return false;
		bytes[i] = (uint8_t)(high << 4 | low);
		*text += 2;
	}
	return true;
}

static bool take_word(const char **text, const char *word)
{
	size_t len = strlen(word);

	if (strncmp(*text, word, len))
		return false;
	*text += len;
	return true;
}

static bool take_bool(const char **text, const char *name, bool *ret)
{
	if (!take_word(text, name) || (**text != '0' && **text != '1'))
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

/* An initiator port, with its principal if that is known. */
static bool take_nexus(const char **text, struct scsi_pr_nexus *ret)
{
	uint8_t principal[8] = { 0 };

	if (!take_hex(text, ret->port.b, sizeof(ret->port.b)) ||
	    (take_word(text, " of=") &&
	     !take_hex(text, principal, sizeof(principal))))
		return false;
	ret->principal = wire_get64(principal);
	ret->target_port = SCSI_PR_TARGET_PORT;
	return true;
}

static int parse_registration(struct parser *p, const char *t)
{
	struct scsi_pr *pr = &p->state.pr;
	struct scsi_pr_registration reg = { .key = 0 };
	uint8_t key[8];

	if (!take_hex(&t, key, sizeof(key)) || !take_word(&t, " ") ||
	    !take_nexus(&t, &reg.nexus))
		return bad(p, "not a registration");
	reg.registrar = reg.nexus.principal;
	reg.all_ports = take_word(&t, " all-ports");
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
	struct scsi_pr_nexus holder;

	if (p->has_reservation || !pr->cnt || !scsi_pr_type_name(type))
		return bad(p, "not a reservation");
	p->has_reservation = true;
	pr->type = type;
	if (type == SCSI_PR_WRITE_EXCLUSIVE_AR ||
	    type == SCSI_PR_EXCLUSIVE_ACCESS_AR)
		return *t ? bad(p, "not a reservation") : 0;
	if (!take_word(&t, " ") || !take_nexus(&t, &holder) || *t)
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
	bool is_old = take_word(&t, "running ");

	if (job->state != VOLUME_READY)
		return bad(p, "a second job");
	job->state = VOLUME_SANITIZE_FAILED;
	if ((!is_old && !take_word(&t, "failed ")) ||
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

/* Copies up to a space or the end. False: @cap bytes are too few. */
static bool take_text(const char **text, const char *name, char *ret,
		      size_t cap)
{
	size_t len;

	if (!take_word(text, name))
		return false;
	len = strcspn(*text, " ");
	if (len >= cap)
		return false;
	memcpy(ret, *text, len);
	ret[len] = '\0';
	*text += len;
	return true;
}

/* At least 1, at most @max. */
static bool take_number(const char **text, const char *name, uint64_t max,
			uint64_t *ret)
{
	char *end;

	if (!take_word(text, name) || **text < '1' || **text > '9')
		return false;
	errno = 0;
	*ret = strtoull(*text, &end, 10);
	*text = end;
	return !errno && *ret <= max;
}

static int parse_store(struct parser *p, const char *t)
{
	struct state_store *store = &p->state.store;
	uint64_t block_size;

	if (!take_word(&t, "store ") ||
	    !take_number(&t, "size=", INT64_MAX, &store->size) ||
	    !take_number(&t, " block-size=", UINT32_MAX, &block_size) ||
	    !take_text(&t, " lasting=", store->mark.lasting,
		       sizeof(store->mark.lasting)) ||
	    !take_text(&t, " here=", store->mark.here,
		       sizeof(store->mark.here)) ||
	    *t)
		return bad(p, "not a store");
	store->block_size = (uint32_t)block_size;
	return 0;
}

static int parse_line(struct parser *p, const char *line)
{
	if (take_word(&line, "modes "))
		return parse_modes(p, line);
	if (take_word(&line, "registration "))
		return parse_registration(p, line);
	if (take_word(&line, "reservation "))
		return parse_reservation(p, line);
	if (take_word(&line, "format "))
		return parse_format(p, line);
	if (take_word(&line, "sanitize "))
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

struct text {
	char *buf;
	size_t cap;
	size_t len;
};

static void state_file_add(struct text *t, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void state_file_add(struct text *t, const char *fmt, ...)
{
	va_list ap;
	int n;

	va_start(ap, fmt);
	n = vsnprintf(t->buf + t->len, t->cap - t->len, fmt, ap);
	va_end(ap);
	t->len += (size_t)n;
	if (t->len >= t->cap)
		t->len = t->cap - 1;
}

static void add_nexus(struct text *t, const struct scsi_pr_nexus *nexus)
{
	for (size_t i = 0; i < sizeof(nexus->port.b); i++)
		state_file_add(t, "%02x", nexus->port.b[i]);
	if (nexus->principal)
		state_file_add(t, " of=%016" PRIx64, nexus->principal);
}

static void add_pr(struct text *t, const struct scsi_pr *pr)
{
	for (uint16_t i = 0; i < pr->cnt; i++) {
		state_file_add(t, "registration %016" PRIx64 " ",
			       pr->regs[i].key);
		add_nexus(t, &pr->regs[i].nexus);
		state_file_add(t, "%s\n",
			       pr->regs[i].all_ports ? " all-ports" : "");
	}
	if (!pr->type)
		return;
	state_file_add(t, "reservation %u", pr->type);
	if (pr->type != SCSI_PR_WRITE_EXCLUSIVE_AR &&
	    pr->type != SCSI_PR_EXCLUSIVE_ACCESS_AR) {
		state_file_add(t, " ");
		add_nexus(t, &pr->regs[pr->holder].nexus);
	}
	state_file_add(t, "\n");
}

static void add_job(struct text *t, const struct state_job *job)
{
	if (job->state == VOLUME_FORMAT_FAILED)
		state_file_add(t, "format failed\n");
	else if (job->state == VOLUME_SANITIZE_FAILED)
		state_file_add(t, "sanitize failed lenient=%d\n", job->lenient);
}

static void add_store(struct text *t, const struct state_store *store)
{
	state_file_add(t,
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
		state_file_add(&t, FIRST_LINE_1 "\n");
	if (state->has_modes)
		state_file_add(&t, "modes wce=%d d-sense=%d swp=%d\n",
			       state->modes.wce, state->modes.d_sense,
			       state->modes.swp);
	if (state->pr.aptpl)
		add_pr(&t, &state->pr);
	add_job(&t, &state->job);
	state_file_add(&t, "end\n");
	return t.len;
}
