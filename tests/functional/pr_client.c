/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * pr_client: initiators for tests of persistent reservations. Each line of
 * standard input is a command. The answer is a line on standard output.
 *
 *	NAME login ADDR:PORT N [SOURCE]
 *				a nexus, called NAME, of the initiator port ...N
 *	NAME out ACTION KEY ACTION-KEY TYPE FLAGS
 *				PERSISTENT RESERVE OUT, numbers in hexadecimal
 *	NAME full		READ FULL STATUS: "gen 2; 1/1=a; 1/2=a* 5": initiator
 *				1 through target ports 1 and 2, with key a; the
 *				second one holds the reservation, of type 5
 *	NAME cdb HEX LEN	a command that prints LEN bytes of data-in
 *	NAME send HEX DATA	a command with DATA, such as 00*3,02, as data-out
 *	NAME write BLOCK	one block of 512 bytes
 *	NAME read BLOCK
 *	NAME start BLOCK	only sends a write ...
 *	NAME wait		... and this waits for its answer
 *
 * Answers: good, conflict, busy, aborted; 06/29/00 (sense data); closed.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_sense.h"
#include "protocol/wire.h"
#include "tests/functional/t_peer.h"
#include "tests/lib/t_hex.h"

#define NEXUSES	  16
#define LINE_LEN  512
#define BLOCK_LEN 512u
#define IU_LEN	  4096

static struct nexus {
	char name[16];
	struct t_peer peer;
	uint64_t tag;
} nexuses[NEXUSES];

static struct nexus *find(const char *name)
{
	for (unsigned int i = 0; i < NEXUSES; i++) {
		if (!strcmp(nexuses[i].name, name))
			return &nexuses[i];
	}
	return NULL;
}

/* ---- commands ---- */

struct command {
	uint8_t cdb[SCSI_CDB_LEN];
	uint32_t out_len;
	uint32_t in_len;
};

/* The IU contains data-out, so that the target need not fetch it. */
static size_t encode(struct nexus *n, const struct command *c,
		     uint8_t iu[IU_LEN])
{
	struct srp_desc desc = t_peer_desc(&n->peer, 0, c->in_len);
	struct srp_cmd_args args = {
		.tag = ++n->tag,
		.cdb = c->cdb,
		.cdb_len = SCSI_CDB_LEN,
	};
	int len;

	if (c->out_len) {
		args.out.format = SRP_DATA_IMMEDIATE;
		args.out.imm_len = c->out_len;
		args.out.imm_offset = SRP_IMM_OFFSET;
	}
	if (c->in_len) {
		args.in.format = SRP_DATA_DIRECT;
		args.in.descs = &desc;
		args.in.desc_cnt = 1;
	}
	len = srp_cmd_encode(iu, IU_LEN - c->out_len, &args);
	if (len < 0)
		abort();
	memcpy(iu + len, n->peer.mem, c->out_len);
	return (size_t)len + c->out_len;
}

/* Returns a static buffer. */
static const char *tell(const struct srp_rsp *rsp)
{
	static char text[16];
	struct scsi_sense sense;

	switch (rsp->status) {
	case SCSI_STATUS_GOOD:
		return "good";
	case SCSI_STATUS_RESERVATION_CONFLICT:
		return "conflict";
	case SCSI_STATUS_BUSY:
		return "busy";
	case SCSI_STATUS_TASK_ABORTED:
		return "aborted";
	default:
		break;
	}
	if (scsi_sense_decode(rsp->sense, rsp->sense_len, &sense))
		return "no sense";
	snprintf(text, sizeof(text), "%02x/%02x/%02x", sense.key,
		 SCSI_ASC(sense.code), SCSI_ASCQ(sense.code));
	return text;
}

static const char *run(struct nexus *n, const struct command *c)
{
	uint8_t iu[IU_LEN];
	size_t len = encode(n, c, iu);

	if (n->peer.ini.closed || t_peer_ask(&n->peer, iu, len) != T_ANSWERED)
		return "closed";
	return tell(&n->peer.rsp);
}

static struct command rw_command(uint64_t block, bool writes)
{
	struct command c = { .out_len = writes ? BLOCK_LEN : 0,
			     .in_len = writes ? 0 : BLOCK_LEN };

	if (writes)
		scsi_cdb_write(block, 1, false, c.cdb);
	else
		scsi_cdb_read(block, 1, false, c.cdb);
	return c;
}

/* ---- lines ---- */

static const char *do_login(struct nexus *n, const char *args)
{
	struct srp_login_req req = t_peer_login_req();
	uint8_t pdata[SRP_LOGIN_REQ_SIZE];
	char source[64] = "";
	char addr[64];
	unsigned int port;

	if (sscanf(args, "%63s %u %63s", addr, &port, source) < 2)
		return "?";
	req.initiator = srp_port_id_make(0, port);
	srp_login_req_encode(pdata, sizeof(pdata), &req);
	t_peer_init(&n->peer);
	snprintf(n->peer.ini.route.source, sizeof(source), "%s", source);
	return t_peer_login(&n->peer, addr, pdata, sizeof(pdata)) == T_LOGGED_IN
		       ? "good"
		       : "closed";
}

static const char *do_out(struct nexus *n, const char *args)
{
	struct command c = { .cdb = { 0x5f }, .out_len = 24 };
	unsigned int action, type, flags;
	uint64_t key, action_key;

	if (sscanf(args, "%x %" SCNx64 " %" SCNx64 " %x %x", &action, &key,
		   &action_key, &type, &flags) != 5)
		return "?";
	c.cdb[1] = (uint8_t)action;
	c.cdb[2] = (uint8_t)type;
	wire_put32(c.cdb + 5, c.out_len);
	memset(n->peer.mem, 0, c.out_len);
	wire_put64(n->peer.mem, key);
	wire_put64(n->peer.mem + 8, action_key);
	n->peer.mem[20] = (uint8_t)flags;
	return run(n, &c);
}

/* Returns a static buffer. */
static const char *tell_full(const uint8_t *b)
{
	static char text[4096];
	uint32_t left = wire_get32(b + 4);
	int len = snprintf(text, sizeof(text), "gen %u", wire_get32(b));

	for (b += 8; left >= 48; b += 48, left -= 48) {
		len += snprintf(text + len, sizeof(text) - (size_t)len,
				"; %" PRIx64 "/%u=%" PRIx64, wire_get64(b + 40),
				wire_get16(b + 18), wire_get64(b));
		if (b[12] & 1)
			len += snprintf(text + len, sizeof(text) - (size_t)len,
					"* %x", b[13] & 15);
	}
	return text;
}

static const char *do_full(struct nexus *n, const char *args)
{
	struct command c = { .cdb = { 0x5e, 3 }, .in_len = 8192 };
	const char *told;

	wire_put16(c.cdb + 7, (uint16_t)c.in_len);
	memset(n->peer.mem, 0, c.in_len);
	told = run(n, &c);
	return strcmp(told, "good") ? told : tell_full(n->peer.mem);
}

static const char *do_cdb(struct nexus *n, const char *args)
{
	static char text[256];
	struct command c = { 0 };
	char hex[64];
	unsigned int in_len;
	const char *told;
	uint8_t *cdb;
	size_t len;

	if (sscanf(args, "%63s %u", hex, &in_len) != 2 || in_len > 64)
		return "?";
	cdb = t_hex(hex, &len);
	memcpy(c.cdb, cdb, len < sizeof(c.cdb) ? len : sizeof(c.cdb));
	free(cdb);
	c.in_len = in_len;
	told = run(n, &c);
	if (strcmp(told, "good"))
		return told;
	strcpy(text, "good");
	for (unsigned int i = 0; i < in_len; i++)
		snprintf(text + strlen(text), 4, " %02x", n->peer.mem[i]);
	return text;
}

static const char *do_send(struct nexus *n, const char *args)
{
	struct command c = { 0 };
	char hex[64], data[256];
	uint8_t *bytes;
	size_t len;

	if (sscanf(args, "%63s %255s", hex, data) != 2)
		return "?";
	bytes = t_hex(hex, &len);
	memcpy(c.cdb, bytes, len < sizeof(c.cdb) ? len : sizeof(c.cdb));
	free(bytes);
	for (char *comma = data; (comma = strchr(comma, ','));)
		*comma = ' ';
	bytes = t_hex(data, &len);
	c.out_len = (uint32_t)(len < IU_LEN / 2 ? len : IU_LEN / 2);
	memcpy(n->peer.mem, bytes, c.out_len);
	free(bytes);
	return run(n, &c);
}

static const char *do_write(struct nexus *n, const char *args)
{
	struct command c = rw_command(strtoull(args, NULL, 0), true);

	memset(n->peer.mem, (int)n->tag, c.out_len);
	return run(n, &c);
}

static const char *do_read(struct nexus *n, const char *args)
{
	struct command c = rw_command(strtoull(args, NULL, 0), false);

	return run(n, &c);
}

static const char *do_start(struct nexus *n, const char *args)
{
	struct command c = rw_command(strtoull(args, NULL, 0), true);
	uint8_t iu[IU_LEN];
	size_t len = encode(n, &c, iu);

	t_peer_post(&n->peer, iu, len);
	while (n->peer.ini.send_cnt)
		reactor_run_once(n->peer.reactor, -1);
	return "good";
}

static const char *do_wait(struct nexus *n, const char *args)
{
	const struct srp_rsp *rsp = t_peer_await(&n->peer, n->tag);

	return rsp ? tell(rsp) : "closed";
}

static const struct {
	const char *name;
	const char *(*run)(struct nexus *n, const char *args);
} verbs[] = {
	{ "login", do_login }, { "out", do_out },     { "full", do_full },
	{ "cdb", do_cdb },     { "send", do_send },   { "write", do_write },
	{ "read", do_read },   { "start", do_start }, { "wait", do_wait },
};

static const char *do_line(char *line)
{
	char name[16], verb[16];
	int at = 0;
	struct nexus *n;

	line[strcspn(line, "\n")] = '\0';
	if (sscanf(line, "%15s %15s %n", name, verb, &at) < 2)
		return "?";
	n = find(name);
	if (!n) {
		n = find("");
		if (!n)
			return "?";
		strcpy(n->name, name);
	}
	for (size_t i = 0; i < sizeof(verbs) / sizeof(verbs[0]); i++) {
		if (!strcmp(verbs[i].name, verb))
			return verbs[i].run(n, line + at);
	}
	return "?";
}

int main(void)
{
	char line[LINE_LEN];

	setvbuf(stdout, NULL, _IOLBF, 0);
	while (fgets(line, sizeof(line), stdin))
		puts(do_line(line));
	return 0;
}
