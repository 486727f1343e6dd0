/* SPDX-License-Identifier: BSD-2-Clause */
#include "protocol/scsi_pr.h"

#include <errno.h>
#include <string.h>

#include "protocol/wire.h"

#define PROTOCOL_ID_SRP 4

/* Places in the parameter list (SPC-4, tables of PERSISTENT RESERVE OUT and of
 * REGISTER AND MOVE). */
#define AT_ACTION_KEY	 8
#define AT_FLAGS	 20
#define AT_PORTS_LEN	 24
#define AT_PORTS	 28
#define AT_MOVE_FLAGS	 17
#define AT_MOVE_PORT	 18
#define AT_MOVE_PORT_LEN 20
#define AT_MOVE_ID	 24

#define FLAG_SPEC_I_PT 0x08
#define FLAG_ALL_TG_PT 0x04
#define FLAG_APTPL     0x01
#define FLAG_UNREG     0x02

static int pr_refuse(struct scsi_sense sense, struct scsi_sense *ret_sense)
{
	*ret_sense = sense;
	return -EINVAL;
}

static int pr_refuse_data(uint16_t byte_no, uint8_t bit_no,
			  struct scsi_sense *ret_sense)
{
	return pr_refuse(scsi_sense_data_field(byte_no, bit_no), ret_sense);
}

static int pr_refuse_length(struct scsi_sense *ret_sense)
{
	return pr_refuse(scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
				    SCSI_ASC_PARAMETER_LIST_LENGTH_ERROR),
			 ret_sense);
}

static int refuse_room(struct scsi_sense *ret_sense)
{
	return pr_refuse(scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
				    SCSI_ASC_INSUFFICIENT_REGISTRATIONS),
			 ret_sense);
}

/* ---- TransportIDs ---- */

void scsi_pr_transport_id_encode(const struct srp_port_id *port, uint8_t *buf)
{
	memset(buf, 0, SCSI_PR_TRANSPORT_ID_LEN);
	buf[0] = PROTOCOL_ID_SRP;
	memcpy(buf + 8, port->b, sizeof(port->b));
}

/* The port number @i of those in @req. All of them have been checked. */
static struct srp_port_id request_port(const struct scsi_pr_request *req,
				       uint16_t i)
{
	struct srp_port_id port;

	memcpy(port.b, req->ports + (size_t)i * SCSI_PR_TRANSPORT_ID_LEN + 8,
	       sizeof(port.b));
	return port;
}

/* @at: place of its first byte in the parameter list. */
static int check_transport_id(const uint8_t *id, uint16_t at,
			      struct scsi_sense *ret_sense)
{
	if ((id[0] & 0x0f) != PROTOCOL_ID_SRP)
		return pr_refuse_data(at, 3, ret_sense);
	if (id[0] & 0xf0)
		return pr_refuse_data(at, 7, ret_sense);
	for (uint16_t i = 1; i < 8; i++) {
		if (id[i])
			return pr_refuse_data((uint16_t)(at + i), SCSI_BIT_NONE,
					      ret_sense);
	}
	return 0;
}

/* ---- the parameter list ---- */

static int decode_spec_i_pt(const uint8_t *b, size_t len,
			    struct scsi_pr_request *req,
			    struct scsi_sense *ret_sense)
{
	uint32_t ports_len;
	int err;

	if (len < AT_PORTS)
		return pr_refuse_length(ret_sense);
	ports_len = wire_get32(b + AT_PORTS_LEN);
	if (ports_len != len - AT_PORTS)
		return pr_refuse_length(ret_sense);
	/* TransportIDs of another protocol have another length. */
	if (ports_len % SCSI_PR_TRANSPORT_ID_LEN)
		return pr_refuse_data(AT_PORTS_LEN, 7, ret_sense);
	req->ports = b + AT_PORTS;
	req->port_cnt = (uint16_t)(ports_len / SCSI_PR_TRANSPORT_ID_LEN);
	for (uint16_t i = 0; i < req->port_cnt; i++) {
		uint16_t at =
			(uint16_t)(AT_PORTS + i * SCSI_PR_TRANSPORT_ID_LEN);

		err = check_transport_id(b + at, at, ret_sense);
		if (err)
			return err;
	}
	return 0;
}

static bool registers(enum scsi_pr_out action)
{
	return action == SCSI_PR_REGISTER ||
	       action == SCSI_PR_REGISTER_AND_IGNORE;
}

/* Flags that the service action does not have are ignored (SPC-4). */
static int decode_flags(const uint8_t *b, size_t len,
			struct scsi_pr_request *req,
			struct scsi_sense *ret_sense)
{
	uint8_t flags = b[AT_FLAGS];

	if (!registers(req->action)) {
		if (flags & FLAG_SPEC_I_PT)
			return pr_refuse_data(AT_FLAGS, 3, ret_sense);
		return len == SCSI_PR_OUT_LEN ? 0 : pr_refuse_length(ret_sense);
	}
	req->all_tg_pt = flags & FLAG_ALL_TG_PT;
	req->aptpl = flags & FLAG_APTPL;
	req->spec_i_pt = flags & FLAG_SPEC_I_PT;
	if (!req->spec_i_pt)
		return len == SCSI_PR_OUT_LEN ? 0 : pr_refuse_length(ret_sense);
	if (req->action == SCSI_PR_REGISTER_AND_IGNORE)
		return pr_refuse_data(AT_FLAGS, 3, ret_sense);
	return decode_spec_i_pt(b, len, req, ret_sense);
}

static int decode_move(const uint8_t *b, size_t len,
		       struct scsi_pr_request *req,
		       struct scsi_sense *ret_sense)
{
	if (wire_get32(b + AT_MOVE_PORT_LEN) != len - AT_MOVE_ID)
		return pr_refuse_length(ret_sense);
	if (len - AT_MOVE_ID != SCSI_PR_TRANSPORT_ID_LEN)
		return pr_refuse_data(AT_MOVE_PORT_LEN, 7, ret_sense);
	req->target_port = wire_get16(b + AT_MOVE_PORT);
	if (!req->target_port || req->target_port > req->target_ports)
		return pr_refuse_data(AT_MOVE_PORT, 7, ret_sense);
	req->aptpl = b[AT_MOVE_FLAGS] & FLAG_APTPL;
	req->unreg = b[AT_MOVE_FLAGS] & FLAG_UNREG;
	req->ports = b + AT_MOVE_ID;
	req->port_cnt = 1;
	return check_transport_id(b + AT_MOVE_ID, AT_MOVE_ID, ret_sense);
}

int scsi_pr_out_decode(enum scsi_pr_out action, uint8_t scope, uint8_t type,
		       const void *buf, size_t len,
		       const struct scsi_pr_unit *unit,
		       struct scsi_pr_request *ret_req,
		       struct scsi_sense *ret_sense)
{
	struct scsi_pr_request req = {
		.action = action,
		.scope = scope,
		.type = type,
		.target_ports = unit->target_ports,
		.reserve = unit->reserve,
	};
	bool moves = action == SCSI_PR_REGISTER_AND_MOVE;
	const uint8_t *b = buf;
	int err;

	if (len < SCSI_PR_OUT_LEN || len > SCSI_PR_OUT_MAX)
		return pr_refuse_length(ret_sense);
	req.key = wire_get64(b);
	req.action_key = wire_get64(b + AT_ACTION_KEY);
	err = moves ? decode_move(b, len, &req, ret_sense)
		    : decode_flags(b, len, &req, ret_sense);
	if (err)
		return err;
	if (req.aptpl && !unit->can_aptpl)
		return pr_refuse_data(moves ? AT_MOVE_FLAGS : AT_FLAGS, 0,
				      ret_sense);
	*ret_req = req;
	return 0;
}

/* ---- who is who ---- */

static int pr_find(const struct scsi_pr *pr, const struct scsi_pr_nexus *nexus)
{
	int found = -1;

	for (int i = 0; i < pr->cnt; i++) {
		if (!scsi_pr_nexus_equal(&pr->regs[i].nexus, nexus))
			continue;
		if (pr->regs[i].nexus.principal == nexus->principal)
			return i;
		found = i;
	}
	return found;
}

const struct scsi_pr_registration *
scsi_pr_find(const struct scsi_pr *pr, const struct scsi_pr_nexus *nexus)
{
	int i = pr_find(pr, nexus);

	return i < 0 ? NULL : &pr->regs[i];
}

static bool is_for_all(uint8_t type)
{
	return type == SCSI_PR_WRITE_EXCLUSIVE_AR ||
	       type == SCSI_PR_EXCLUSIVE_ACCESS_AR;
}

bool scsi_pr_type_spares_registrants(uint8_t type)
{
	return is_for_all(type) || type == SCSI_PR_WRITE_EXCLUSIVE_RO ||
	       type == SCSI_PR_EXCLUSIVE_ACCESS_RO;
}

static bool holds(const struct scsi_pr *pr, int i)
{
	return pr->type && i >= 0 && (is_for_all(pr->type) || i == pr->holder);
}

bool scsi_pr_is_holder(const struct scsi_pr *pr,
		       const struct scsi_pr_nexus *nexus)
{
	return holds(pr, pr_find(pr, nexus));
}

const char *scsi_pr_type_name(uint8_t type)
{
	static const char *const names[] = {
		[SCSI_PR_WRITE_EXCLUSIVE] = "write exclusive",
		[SCSI_PR_EXCLUSIVE_ACCESS] = "exclusive access",
		[SCSI_PR_WRITE_EXCLUSIVE_RO] =
			"write exclusive, registrants only",
		[SCSI_PR_EXCLUSIVE_ACCESS_RO] =
			"exclusive access, registrants only",
		[SCSI_PR_WRITE_EXCLUSIVE_AR] =
			"write exclusive, all registrants",
		[SCSI_PR_EXCLUSIVE_ACCESS_AR] =
			"exclusive access, all registrants",
	};

	return type < sizeof(names) / sizeof(names[0]) ? names[type] : NULL;
}

/* ---- changes ---- */

/* A service action that is being executed, on a copy of the state. */
struct work {
	struct scsi_pr pr;
	const struct scsi_pr_nexus *from;
	int me; /* registration of @from in @pr, -1: none */
	const struct scsi_pr_request *req;
	struct scsi_pr_effects *effects;
	struct scsi_sense *sense;
};

static void pr_tell(struct work *w, const struct scsi_pr_nexus *nexus,
		    uint8_t news)
{
	struct scsi_pr_effects *e = w->effects;

	if (!news || scsi_pr_nexus_equal(nexus, w->from))
		return;
	for (uint16_t i = 0; i < e->cnt; i++) {
		if (scsi_pr_nexus_equal(&e->to[i].nexus, nexus)) {
			e->to[i].news |= news;
			return;
		}
	}
	/* Only nexuses that were registered at the beginning are told
	 * anything. */
	e->to[e->cnt++] = (struct scsi_pr_effect){ *nexus, news };
}

static void tell_all(struct work *w, uint8_t news)
{
	for (uint16_t i = 0; i < w->pr.cnt; i++)
		pr_tell(w, &w->pr.regs[i].nexus, news);
}

/* The registrations that the asking principal has made. */
static unsigned int pr_made_cnt(const struct work *w)
{
	unsigned int cnt = 0;

	for (uint16_t i = 0; i < w->pr.cnt; i++)
		cnt += w->pr.regs[i].registrar == w->from->principal;
	return cnt;
}

static int pr_add(struct work *w, const struct scsi_pr_nexus *nexus,
		  uint64_t key)
{
	struct scsi_pr *pr = &w->pr;

	if (pr->cnt == SCSI_PR_MAX ||
	    pr_made_cnt(w) + w->req->reserve >= SCSI_PR_MAX)
		return refuse_room(w->sense);
	pr->regs[pr->cnt++] = (struct scsi_pr_registration){
		.nexus = *nexus,
		.registrar = w->from->principal,
		.key = key,
		.all_ports = w->req->all_tg_pt && w->req->target_ports == 1,
	};
	return 0;
}

/* Ports that stay registered are told when a reservation ends that excluded no
 * registrant. */
static void release(struct work *w)
{
	if (scsi_pr_type_spares_registrants(w->pr.type))
		tell_all(w, SCSI_PR_NEWS_RELEASED);
	w->pr.type = SCSI_PR_NONE;
	w->pr.holder = 0;
}

/* The last registration moves into the gap. */
static void delete_registration(struct work *w, int i)
{
	struct scsi_pr *pr = &w->pr;
	int last = --pr->cnt;

	pr->regs[i] = pr->regs[last];
	memset(&pr->regs[last], 0, sizeof(pr->regs[last]));
	if (pr->holder == last)
		pr->holder = (uint16_t)i;
	w->me = pr_find(pr, w->from);
}

/* Ends a registration. If its owner holds the reservation, that ends, too
 * (SPC-4 5.12.11.2, unregistering). */
static void remove_registration(struct work *w, int i)
{
	struct scsi_pr *pr = &w->pr;
	bool ends = is_for_all(pr->type) ? pr->cnt == 1 : holds(pr, i);

	delete_registration(w, i);
	if (ends)
		release(w);
}

/* LU_SCOPE is the only one (SPC-4 6.16.1). */
static int check_scope(const struct work *w)
{
	return w->req->scope ? pr_refuse(scsi_sense_cdb_field(2, 7), w->sense)
			     : 0;
}

static int check_type(const struct work *w)
{
	int err = check_scope(w);

	if (err)
		return err;
	if (!scsi_pr_type_name(w->req->type))
		return pr_refuse(scsi_sense_cdb_field(2, 3), w->sense);
	return 0;
}

/* ---- service actions; 0, -EBUSY or -EINVAL ---- */

/* Is a REGISTER about the nexuses through @target_port? */
static bool pr_is_about_port(const struct work *w, uint16_t target_port)
{
	return target_port == w->from->target_port || w->req->all_tg_pt;
}

/* Registers the port of TransportID @i, which may not have a key already (SPC-4,
 * register behaviors). @was: the number of registrations before. */
static int register_other(struct work *w, uint16_t i, uint16_t target_port,
			  uint16_t was)
{
	const struct scsi_pr_request *req = w->req;
	struct scsi_pr_nexus nexus = { request_port(req, i), target_port };
	int n = pr_find(&w->pr, &nexus);

	if (n >= 0 && n < was)
		return pr_refuse_data(
			(uint16_t)(AT_PORTS + i * SCSI_PR_TRANSPORT_ID_LEN),
			SCSI_BIT_NONE, w->sense);
	return n < 0 ? pr_add(w, &nexus, req->action_key) : 0;
}

static int register_others(struct work *w, uint16_t was)
{
	int err = 0;

	for (uint16_t i = 0; i < w->req->port_cnt; i++) {
		for (uint16_t t = 1; t <= w->req->target_ports && !err; t++) {
			if (pr_is_about_port(w, t))
				err = register_other(w, i, t, was);
		}
	}
	return err;
}

/* The asking initiator port, through @target_port. */
static struct scsi_pr_nexus pr_from(const struct work *w, uint16_t target_port)
{
	struct scsi_pr_nexus nexus = *w->from;

	nexus.target_port = target_port;
	return nexus;
}

static int register_nexus(struct work *w, uint16_t target_port)
{
	const struct scsi_pr_request *req = w->req;
	struct scsi_pr_nexus nexus = pr_from(w, target_port);
	int i = pr_find(&w->pr, &nexus);

	if (i < 0)
		return req->action_key ? pr_add(w, &nexus, req->action_key) : 0;
	if (!req->action_key) {
		remove_registration(w, i);
		return 0;
	}
	w->pr.regs[i].nexus = nexus;
	w->pr.regs[i].key = req->action_key;
	w->pr.regs[i].all_ports = req->all_tg_pt && req->target_ports == 1;
	return 0;
}

static int do_register_and_ignore(struct work *w)
{
	const struct scsi_pr_request *req = w->req;
	uint16_t was = w->pr.cnt;
	int err = 0;

	if (w->me < 0 && !req->action_key)
		return 0;
	if (w->me >= 0 && req->spec_i_pt)
		return pr_refuse_data(AT_FLAGS, 3, w->sense);
	for (uint16_t t = 1; t <= req->target_ports && !err; t++) {
		if (pr_is_about_port(w, t))
			err = register_nexus(w, t);
	}
	if (!err)
		err = register_others(w, was);
	if (err)
		return err;
	w->pr.aptpl = req->aptpl;
	w->pr.generation++;
	return 0;
}

/* ALL_TG_PT counts as a REGISTER through each target port (SPC-4). */
static int do_register(struct work *w)
{
	for (uint16_t t = 1; t <= w->req->target_ports; t++) {
		struct scsi_pr_nexus nexus = pr_from(w, t);
		int i = pr_find(&w->pr, &nexus);
		uint64_t key = i < 0 ? 0 : w->pr.regs[i].key;

		if (pr_is_about_port(w, t) && w->req->key != key)
			return -EBUSY;
	}
	return do_register_and_ignore(w);
}

static int do_reserve(struct work *w)
{
	struct scsi_pr *pr = &w->pr;
	int err = check_type(w);

	if (err)
		return err;
	if (pr->type)
		return holds(pr, w->me) && pr->type == w->req->type ? 0
								    : -EBUSY;
	pr->type = w->req->type;
	pr->holder = is_for_all(pr->type) ? 0 : (uint16_t)w->me;
	return 0;
}

/* A port that does not hold the reservation may give any type (SPC-4,
 * releasing). */
static int do_release(struct work *w)
{
	struct scsi_pr *pr = &w->pr;
	int err = check_scope(w);

	if (err)
		return err;
	if (!holds(pr, w->me))
		return 0;
	if (pr->type != w->req->type)
		return pr_refuse(scsi_sense(SCSI_KEY_ILLEGAL_REQUEST,
					    SCSI_ASC_INVALID_RELEASE),
				 w->sense);
	release(w);
	return 0;
}

static int do_clear(struct work *w)
{
	struct scsi_pr *pr = &w->pr;

	tell_all(w, SCSI_PR_NEWS_PREEMPTED);
	pr->generation++;
	pr->cnt = 0;
	pr->type = SCSI_PR_NONE;
	pr->holder = 0;
	memset(pr->regs, 0, sizeof(pr->regs));
	return 0;
}

static uint8_t preempt_news(const struct work *w)
{
	if (w->req->action == SCSI_PR_PREEMPT_AND_ABORT)
		return SCSI_PR_NEWS_UNREGISTERED | SCSI_PR_NEWS_ABORT;
	return SCSI_PR_NEWS_UNREGISTERED;
}

/* Ends the registrations with @key (0: all). With @spare_me, the port's own
 * registration stays. Returns how many have ended. */
static unsigned int remove_matching(struct work *w, uint64_t key, bool spare_me)
{
	unsigned int cnt = 0;

	for (int i = w->pr.cnt - 1; i >= 0; i--) {
		struct scsi_pr_nexus nexus = w->pr.regs[i].nexus;

		if ((key && w->pr.regs[i].key != key) ||
		    (spare_me && i == w->me))
			continue;
		cnt++;
		if (spare_me)
			delete_registration(w, i);
		else
			remove_registration(w, i);
		pr_tell(w, &nexus, preempt_news(w));
	}
	return cnt;
}

/* SPC-4 5.12.11.4: the reservation passes to the port that preempts it. */
static int preempt_reservation(struct work *w)
{
	struct scsi_pr *pr = &w->pr;
	uint8_t old = pr->type;
	int err = check_type(w);

	if (err)
		return err;
	pr->type = SCSI_PR_NONE; /* so that no removal releases it */
	remove_matching(w, w->req->action_key, /* spare_me= */ true);
	if (old != w->req->type)
		tell_all(w, SCSI_PR_NEWS_RELEASED);
	pr->type = w->req->type;
	pr->holder = is_for_all(pr->type) ? 0 : (uint16_t)w->me;
	pr->generation++;
	return 0;
}

static int do_preempt(struct work *w)
{
	struct scsi_pr *pr = &w->pr;
	uint64_t key = w->req->action_key;

	if (is_for_all(pr->type)) {
		if (!key)
			return preempt_reservation(w);
	} else if (!key) {
		return pr_refuse_data(AT_ACTION_KEY, 7, w->sense);
	} else if (pr->type && pr->regs[pr->holder].key == key) {
		return preempt_reservation(w);
	}
	if (!remove_matching(w, key, /* spare_me= */ false))
		return -EBUSY;
	pr->generation++;
	return 0;
}

static int check_move(struct work *w, const struct scsi_pr_nexus *to)
{
	if (!w->pr.type)
		return pr_refuse(scsi_sense_cdb_field(1, 4), w->sense);
	if (!holds(&w->pr, w->me) || is_for_all(w->pr.type))
		return -EBUSY;
	if (!w->req->action_key)
		return pr_refuse_data(AT_ACTION_KEY, 7, w->sense);
	if (scsi_pr_nexus_equal(to, w->from))
		return pr_refuse_data(AT_MOVE_ID, SCSI_BIT_NONE, w->sense);
	return 0;
}

static int do_register_and_move(struct work *w)
{
	struct scsi_pr *pr = &w->pr;
	struct scsi_pr_nexus to = { request_port(w->req, 0),
				    w->req->target_port };
	int err = check_move(w, &to);
	int i = pr_find(pr, &to);

	if (!err && i < 0)
		err = pr_add(w, &to, w->req->action_key);
	if (err)
		return err;
	i = pr_find(pr, &to);
	pr->regs[i].key = w->req->action_key;
	pr->holder = (uint16_t)i;
	if (w->req->unreg)
		delete_registration(w, w->me);
	pr->aptpl = w->req->aptpl;
	pr->generation++;
	return 0;
}

static const struct {
	int (*run)(struct work *w);
	bool for_registrants; /* with the right key */
} actions[] = {
	[SCSI_PR_REGISTER] = { do_register, false },
	[SCSI_PR_RESERVE] = { do_reserve, true },
	[SCSI_PR_RELEASE] = { do_release, true },
	[SCSI_PR_CLEAR] = { do_clear, true },
	[SCSI_PR_PREEMPT] = { do_preempt, true },
	[SCSI_PR_PREEMPT_AND_ABORT] = { do_preempt, true },
	[SCSI_PR_REGISTER_AND_IGNORE] = { do_register_and_ignore, false },
	[SCSI_PR_REGISTER_AND_MOVE] = { do_register_and_move, true },
};

int scsi_pr_execute(struct scsi_pr *pr, const struct scsi_pr_nexus *from,
		    const struct scsi_pr_request *req,
		    struct scsi_pr_effects *ret_effects,
		    struct scsi_sense *ret_sense)
{
	struct work w = {
		.pr = *pr,
		.from = from,
		.me = pr_find(pr, from),
		.req = req,
		.effects = ret_effects,
		.sense = ret_sense,
	};
	int err;

	ret_effects->cnt = 0;
	if (actions[req->action].for_registrants &&
	    (w.me < 0 || pr->regs[w.me].key != req->key))
		return -EBUSY;
	err = actions[req->action].run(&w);
	if (err)
		return err;
	*pr = w.pr;
	return 0;
}

/* ---- PERSISTENT RESERVE IN ---- */

static void put_header(struct wire_out *out, const struct scsi_pr *pr,
		       size_t len)
{
	uint8_t b[8];

	wire_put32(b, pr->generation);
	wire_put32(b + 4, (uint32_t)len);
	wire_give(out, b, sizeof(b));
}

static void put_keys(struct wire_out *out, const struct scsi_pr *pr)
{
	uint8_t b[8];

	put_header(out, pr, 8u * pr->cnt);
	for (uint16_t i = 0; i < pr->cnt; i++) {
		wire_put64(b, pr->regs[i].key);
		wire_give(out, b, sizeof(b));
	}
}

/* If the reservation is for all registrants, no key is reported (SPC-4
 * 6.13.3.2). */
static void put_reservation(struct wire_out *out, const struct scsi_pr *pr)
{
	uint8_t b[16] = { 0 };

	put_header(out, pr, pr->type ? sizeof(b) : 0);
	if (!pr->type)
		return;
	if (!is_for_all(pr->type))
		wire_put64(b, pr->regs[pr->holder].key);
	b[13] = pr->type;
	wire_give(out, b, sizeof(b));
}

static void put_capabilities(struct wire_out *out, const struct scsi_pr *pr,
			     const struct scsi_pr_unit *unit)
{
	uint8_t b[8] = { 0, 8 };

	b[2] = 0x0c; /* SIP_C, ATP_C */
	if (unit->has_reserve)
		b[2] |= 0x10; /* CRH */
	if (unit->can_aptpl)
		b[2] |= 0x01; /* PTPL_C */
	b[3] = 0x80;	      /* TMV */
	if (pr->aptpl)
		b[3] |= 0x01; /* PTPL_A */
	b[4] = 0xea;	      /* WR_EX_AR, EX_AC_RO, WR_EX_RO, EX_AC, WR_EX */
	b[5] = 0x01;	      /* EX_AC_AR */
	wire_give(out, b, sizeof(b));
}

static void put_full_status(struct wire_out *out, const struct scsi_pr *pr)
{
	uint8_t b[24 + SCSI_PR_TRANSPORT_ID_LEN];

	put_header(out, pr, sizeof(b) * pr->cnt);
	for (uint16_t i = 0; i < pr->cnt; i++) {
		memset(b, 0, sizeof(b));
		wire_put64(b, pr->regs[i].key);
		b[12] = pr->regs[i].all_ports ? 0x02 : 0;
		if (holds(pr, i)) {
			b[12] |= 0x01; /* R_HOLDER */
			b[13] = pr->type;
		}
		wire_put16(b + 18, pr->regs[i].nexus.target_port);
		wire_put32(b + 20, SCSI_PR_TRANSPORT_ID_LEN);
		scsi_pr_transport_id_encode(&pr->regs[i].nexus.port, b + 24);
		wire_give(out, b, sizeof(b));
	}
}

size_t scsi_pr_in_encode(const struct scsi_pr *pr, enum scsi_pr_in action,
			 const struct scsi_pr_unit *unit, void *buf, size_t cap)
{
	struct wire_out out = wire_out(buf, cap);

	switch (action) {
	case SCSI_PR_READ_KEYS:
		put_keys(&out, pr);
		break;
	case SCSI_PR_READ_RESERVATION:
		put_reservation(&out, pr);
		break;
	case SCSI_PR_REPORT_CAPABILITIES:
		put_capabilities(&out, pr, unit);
		break;
	case SCSI_PR_READ_FULL_STATUS:
		put_full_status(&out, pr);
		break;
	}
	return out.len;
}
