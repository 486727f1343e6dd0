/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * libsrpi and a target that breaks the rules. Every connect ends in a session
 * or with a line that names the error, and every operation is answered. The
 * target runs on the context's own reactor, over TCP.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "initiator/session.h"
#include "tests/functional/t_target.h"
#include "tests/lib/t_addr.h"
#include "tests/lib/t_table.h"
#include "tests/lib/t_tgt.h"

#define IO_LEN 16384u

/* ---- the target ---- */

/* How the target misbehaves. For NULL, it behaves correctly. */
struct manners {
	/* Changes the private data of the acceptance; returns its length. */
	size_t (*accept)(uint8_t *pdata);
	/* Fills in the private data of a reject; returns its length. */
	size_t (*reject)(uint8_t *pdata);
	/* Called right after the login. */
	void (*greet)(struct t_tgt_chan *ch);
	/* Called for an SRP_CMD. */
	void (*command)(struct t_tgt_send *s, const struct srp_cmd_view *cmd);
};

static struct {
	struct srpi_ctx *ctx;
	struct xp *xp;
	struct t_tgt tgt;
	char addr[32];
	char uri[64];
	const struct manners *manners;
	struct t_tgt_chan *ch; /* of the last login */
	uint32_t random;
} evil;

static uint32_t evil_random(void)
{
	evil.random ^= evil.random << 13;
	evil.random ^= evil.random >> 17;
	evil.random ^= evil.random << 5;
	return evil.random;
}

static void evil_send(struct t_tgt_chan *ch, const void *iu, size_t len)
{
	assert_true(t_tgt_send(ch, iu, len));
}

static void evil_established(struct t_tgt_chan *ch)
{
	if (evil.manners->greet)
		evil.manners->greet(ch);
}

static void evil_command(struct t_tgt_send *s, const struct srp_cmd_view *cmd)
{
	if (evil.manners->command)
		evil.manners->command(s, cmd);
	else
		t_tgt_drop(s);
}

static void evil_login(struct t_tgt *tgt, struct xp_conn_request *req,
		       const struct srp_login_req *login)
{
	uint8_t pdata[XP_PDATA_MAX] = { 0 };
	struct srp_login_rsp rsp = tgt->rsp;
	size_t len = SRP_LOGIN_RSP_SIZE;

	if (evil.manners->reject) {
		xp_reject(req, pdata, evil.manners->reject(pdata));
		return;
	}
	rsp.tag = login->tag;
	rsp.imm_data = login->imm_data;
	srp_login_rsp_encode(pdata, sizeof(pdata), &rsp);
	if (evil.manners->accept)
		len = evil.manners->accept(pdata);
	evil.ch = t_tgt_accept_with(tgt, req, login, pdata, len);
}

static const struct t_tgt_ops evil_ops = {
	.login = evil_login,
	.established = evil_established,
	.command = evil_command,
};

static void evil_start(const struct manners *manners)
{
	struct xp_config cfg = { .recv_len = T_TGT_RECV_LEN };
	struct sockaddr_in sin;
	struct srpi_error se;
	struct error e;

	memset(&evil, 0, sizeof(evil));
	evil.manners = manners;
	assert_int_equal(srpi_ctx_create(NULL, &evil.ctx, &se), 0);
	cfg.reactor = evil.ctx->reactor;
	assert_int_equal(xp_create(XP_TCP, &cfg, &evil.xp, &e), 0);
	t_addr_next(evil.addr, sizeof(evil.addr));
	snprintf(evil.uri, sizeof(evil.uri), "srp+tcp://%s", evil.addr);
	sin = t_addr_parse(evil.addr);
	evil.tgt = (struct t_tgt){ .ops = &evil_ops,
				   .rsp = { .req_lim = 32,
					    .it_iu_len = T_TGT_RECV_LEN,
					    .ti_iu_len = 512,
					    .formats = SRP_FORMATS,
					    .imm_data = true },
				   .send_cnt = 64,
				   .data_len = IO_LEN };
	t_tgt_start(&evil.tgt, evil.xp);
	t_tgt_listen(&evil.tgt, &sin);
}

/* Waits until no channel is left. */
static void evil_await_end(void)
{
	while (t_tgt_chan_cnt(&evil.tgt))
		assert_true(srpi_ctx_run(evil.ctx, -1) >= 0);
}

static void evil_stop(void)
{
	t_tgt_close(&evil.tgt);
	evil_await_end();
	t_tgt_stop(&evil.tgt);
	xp_destroy(evil.xp);
	srpi_ctx_destroy(evil.ctx);
}

/* ---- connects that fail ---- */

struct connect_row {
	const char *name;
	int err;
	const char *says;
	struct manners manners;
};

#define REJECT(reason_)                                                     \
	static size_t reject_##reason_(uint8_t *pdata)                      \
	{                                                                   \
		const struct srp_login_rej rej = { .reason = 0x##reason_ }; \
                                                                            \
		return (size_t)srp_login_rej_encode(pdata, XP_PDATA_MAX,    \
						    &rej);                  \
	}

REJECT(00010000)
REJECT(00010001)
REJECT(00010002)
REJECT(00010003)
REJECT(00010004)
REJECT(00010005)
REJECT(00010006)
REJECT(0badf00d)

static size_t reject_bare(uint8_t *pdata)
{
	return 0;
}

static size_t reject_garbage(uint8_t *pdata)
{
	memset(pdata, 0xc2, 9);
	return 9;
}

static size_t accept_nothing(uint8_t *pdata)
{
	return 0;
}

static size_t accept_cut(uint8_t *pdata)
{
	return 51;
}

static size_t accept_other_opcode(uint8_t *pdata)
{
	pdata[0] = 0xc1;
	return 52;
}

static size_t accept_one_credit(uint8_t *pdata)
{
	wire_put32(pdata + 4, 1);
	return 52;
}

static size_t accept_negative_credits(uint8_t *pdata)
{
	wire_put32(pdata + 4, 0x80000000);
	return 52;
}

static size_t accept_short_iu(uint8_t *pdata)
{
	wire_put32(pdata + 16, 63);
	return 52;
}

static size_t accept_no_rsp(uint8_t *pdata)
{
	wire_put32(pdata + 20, 0);
	return 52;
}

static size_t accept_no_format(uint8_t *pdata)
{
	wire_put16(pdata + 24, 0);
	return 52;
}

static void greet_and_leave(struct t_tgt_chan *ch)
{
	xp_close(ch->xp);
}

static void greet_with_logout(struct t_tgt_chan *ch)
{
	uint8_t iu[16] = { SRP_T_LOGOUT };

	wire_put32(iu + 4, SRP_LOGOUT_INACTIVE);
	evil_send(ch, iu, sizeof(iu));
}

static void greet_with_nonsense(struct t_tgt_chan *ch)
{
	evil_send(ch, "\x77nonsense nonsense", 16);
}

static void greet_with_little(struct t_tgt_chan *ch)
{
	evil_send(ch, "\xc1", 1);
}

static void greet_with_much(struct t_tgt_chan *ch)
{
	uint8_t iu[1000] = { SRP_RSP };

	evil_send(ch, iu, sizeof(iu));
}

static void greet_with_answer(struct t_tgt_chan *ch)
{
	t_tgt_send_rsp(ch, &(struct srp_rsp){ .tag = 5 });
}

static void greet_with_two_requests(struct t_tgt_chan *ch)
{
	uint8_t iu[16] = { SRP_CRED_REQ };

	for (unsigned int i = 0; i < 20; i++)
		evil_send(ch, iu, sizeof(iu));
}

static void leave(struct t_tgt_send *s, const struct srp_cmd_view *cmd)
{
	t_tgt_drop(s);
	xp_close(s->ch->xp);
}

static void say_nothing(struct t_tgt_send *s, const struct srp_cmd_view *cmd)
{
	t_tgt_drop(s);
}

static void answer_another(struct t_tgt_send *s, const struct srp_cmd_view *cmd)
{
	s->rsp.tag++;
	t_tgt_respond_as_is(s, 0);
}

static void answer_an_older(struct t_tgt_send *s,
			    const struct srp_cmd_view *cmd)
{
	s->rsp.tag -= 1ull << 32;
	t_tgt_respond_as_is(s, 0);
}

static void answer_twice(struct t_tgt_send *s, const struct srp_cmd_view *cmd)
{
	s->rsp.status = SCSI_STATUS_CHECK_CONDITION;
	t_tgt_send_rsp(s->ch, &s->rsp);
	t_tgt_respond_as_is(s, 0);
}

static void answer_cut(struct t_tgt_send *s, const struct srp_cmd_view *cmd)
{
	uint8_t iu[64];

	srp_rsp_encode(iu, sizeof(iu), &s->rsp);
	t_tgt_drop(s);
	evil_send(s->ch, iu, 35);
}

static void answer_busy(struct t_tgt_send *s, const struct srp_cmd_view *cmd)
{
	t_tgt_respond_status(s, SCSI_STATUS_BUSY);
}

static void answer_attention(struct t_tgt_send *s,
			     const struct srp_cmd_view *cmd)
{
	struct scsi_sense ua =
		scsi_sense(SCSI_KEY_UNIT_ATTENTION, SCSI_ASC_POWER_ON);

	t_tgt_respond_sense(s, &ua, SCSI_SENSE_FIXED);
}

static void take_the_credits(struct t_tgt_send *s,
			     const struct srp_cmd_view *cmd)
{
	s->rsp.req_lim_delta = INT32_MIN;
	t_tgt_respond_status(s, SCSI_STATUS_BUSY);
}

static void answer_without_data(struct t_tgt_send *s,
				const struct srp_cmd_view *cmd)
{
	s->rsp.resid_flags = SRP_RSP_IN_UNDERFLOW;
	s->rsp.in_resid = UINT32_MAX;
	t_tgt_respond_as_is(s, 0);
}

/* Writes to memory that nobody registered. */
static void write_elsewhere(struct t_tgt_send *s,
			    const struct srp_cmd_view *cmd)
{
	s->desc.addr += 1 << 20;
	s->desc.len = 512;
	t_tgt_respond_as_is(s, 512);
}

#define REJECTED -ECONNREFUSED

static const struct connect_row connect_rows[] = {
	{ "reject: unspecified", REJECTED,
	  "unable to establish a channel (reason 0x00010000)",
	  .manners.reject = reject_00010000 },
	{ "reject: no resources", REJECTED, "insufficient resources",
	  .manners.reject = reject_00010001 },
	{ "reject: IU length", REJECTED, "IU length",
	  .manners.reject = reject_00010002 },
	{ "reject: target port", REJECTED, "no such target port",
	  .manners.reject = reject_00010003 },
	{ "reject: formats", REJECTED, "unsupported data format",
	  .manners.reject = reject_00010004 },
	{ "reject: several channels", REJECTED, "multiple channels",
	  .manners.reject = reject_00010005 },
	{ "reject: access", REJECTED, "no access",
	  .manners.reject = reject_00010006 },
	{ "reject: unknown reason", REJECTED,
	  "unknown reject reason (reason 0x0badf00d)",
	  .manners.reject = reject_0badf00d },
	{ "reject without a reason", REJECTED, "connection refused",
	  .manners.reject = reject_bare },
	{ "reject with garbage", REJECTED, "connection refused",
	  .manners.reject = reject_garbage },
	{ "login response missing", -EPROTO, "is this an SRP target?",
	  .manners.accept = accept_nothing },
	{ "login response cut", -EPROTO, "is this an SRP target?",
	  .manners.accept = accept_cut },
	{ "another IU for a login response", -EPROTO, "is this an SRP target?",
	  .manners.accept = accept_other_opcode },
	{ "one credit", -EPROTO, "request limit",
	  .manners.accept = accept_one_credit },
	{ "less than no credits", -EPROTO, "request limit",
	  .manners.accept = accept_negative_credits },
	{ "takes no command", -EPROTO, "64 bytes",
	  .manners.accept = accept_short_iu },
	{ "sends no response", -EPROTO, "response",
	  .manners.accept = accept_no_rsp },
	{ "no data format", -EPROTO, "data format",
	  .manners.accept = accept_no_format },
	{ "leaves after login", -EIO, "lost",
	  .manners.greet = greet_and_leave },
	{ "logs us out", -EIO, "the target logged us out: inactive",
	  .manners.greet = greet_with_logout },
	{ "opcode from nowhere", -EIO, "protocol error",
	  .manners.greet = greet_with_nonsense },
	{ "one byte", -EIO, "shorter than its header",
	  .manners.greet = greet_with_little },
	{ "more than agreed", -EIO, "more than 512 bytes",
	  .manners.greet = greet_with_much },
	{ "answer to nothing", -EIO, "answer to a command that was not sent",
	  .manners.greet = greet_with_answer },
	{ "many requests at once", -EIO, "more requests than we can answer",
	  .manners.greet = greet_with_two_requests },
	{ "leaves at the first command", -EIO, "lost",
	  .manners.command = leave },
	{ "never answers", -ETIMEDOUT, "does not answer REPORT LUNS",
	  .manners.command = say_nothing },
	{ "answers another command", -EIO, "not sent",
	  .manners.command = answer_another },
	{ "answers an older command", -EIO, "not sent",
	  .manners.command = answer_an_older },
	{ "answers twice", -EIO, "", .manners.command = answer_twice },
	{ "answer cut", -EIO, "malformed SRP_RSP",
	  .manners.command = answer_cut },
	{ "busy for ever", -ETIMEDOUT, "REPORT LUNS",
	  .manners.command = answer_busy },
	{ "unit attention for ever", -EIO, "REPORT LUNS",
	  .manners.command = answer_attention },
	{ "takes the credits", -ETIMEDOUT, "REPORT LUNS",
	  .manners.command = take_the_credits },
	{ "GOOD without data", -EBADMSG, "REPORT LUNS",
	  .manners.command = answer_without_data },
	{ "writes elsewhere", -EIO, "lost",
	  .manners.command = write_elsewhere },
};

T_ROWS(connect_ends_with_a_line_that_says_why, connect_rows)
{
	const struct connect_row *r = *state;
	/* Long, if the row does not test timeouts. */
	const struct srpi_options opt = { .struct_size = sizeof(opt),
					  .timeout_ms = r->err == -ETIMEDOUT
								? 300
								: 60000 };
	struct srpi_session *s;
	struct srpi_error e = { 0 };

	evil_start(&r->manners);
	if (srpi_connect_wait(evil.ctx, evil.uri, &opt, &s, &e) == 0) {
		srpi_close_wait(evil.ctx, s);
		fail_msg("it connected");
	}
	if (e.err != r->err)
		fail_msg("%s: error %d, wanted %d", e.text, e.err, r->err);
	if (!strstr(e.text, r->says) || !strstr(e.text, evil.addr))
		fail_msg("'%s' does not say '%s'", e.text, r->says);
	evil_stop();
}

static void set_closed(void *arg)
{
	*(bool *)arg = true;
}

static void close_in_callback(struct srpi_session *s,
			      const struct srpi_error *e, void *arg)
{
	srpi_close(s, set_closed, arg);
}

/* A callback that reports a failure or a connection may close it. */
T_ROWS(connect_is_closed_by_who_is_told, connect_rows)
{
	const struct connect_row *r = *state;
	const struct srpi_options opt = { .struct_size = sizeof(opt),
					  .timeout_ms = r->err == -ETIMEDOUT
								? 300
								: 60000 };
	struct srpi_session *s;
	struct srpi_error e = { 0 };
	bool over = false;

	evil_start(&r->manners);
	assert_int_equal(srpi_connect(evil.ctx, evil.uri, &opt,
				      close_in_callback, &over, &s, &e),
			 0);
	while (!over)
		assert_true(srpi_ctx_run(evil.ctx, -1) >= 0);
	evil_stop();
}

/* ---- random answers ---- */

#define DISK_LEN (16384 * 512)

/* Returns the length of data-in of a disk of 8 MiB, with zeroes up to the
 * length of the buffer. If there are two units, both report the same name. */
static uint32_t evil_disk_data(struct t_tgt_send *s, unsigned int luns,
			       bool thin)
{
	static const uint64_t lun[] = { 0, 1ull << 48 };
	const struct scsi_disk_info info = {
		.name = "disk",
		.serial = "0123",
		.naa = { 0x60 },
		.blocks = DISK_LEN / 512,
		.block_size = 512,
		.unmap = thin,
		.lbprz = thin,
		.max_unmap_blocks = thin ? DISK_LEN / 512 : 0,
		.max_unmap_descs = thin,
	};
	const struct t_tgt_disk disk = { .info = &info,
					 .luns = lun,
					 .lun_cnt = luns };
	uint32_t len = s->in_len < IO_LEN ? s->in_len : IO_LEN;
	int used = t_tgt_disk_data(&disk, &s->cmd, s->data, len);

	if (used < 0)
		used = 0;
	if ((uint32_t)used < len)
		memset(s->data + used, 0, len - (uint32_t)used);
	return len;
}

static void answer_at_random(struct t_tgt_send *s,
			     const struct srp_cmd_view *cmd)
{
	uint32_t len = evil_disk_data(s, /* luns= */ 2, /* thin= */ false);

	/* Changes a few bytes. */
	for (uint32_t n = evil_random() % 4; n > 0 && len > 0; n--)
		s->data[evil_random() % (len < 64 ? len : 64)] =
			(uint8_t)evil_random();
	switch (evil_random() % 16) {
	case 0:
		s->rsp.resid_flags = SRP_RSP_IN_UNDERFLOW;
		s->rsp.in_resid = evil_random() % 8192;
		break;
	case 1:
		s->rsp.status = SCSI_STATUS_CHECK_CONDITION;
		s->rsp.sense = s->data;
		s->rsp.sense_len = evil_random() % 200;
		break;
	case 2:
		s->rsp.req_lim_delta = (int32_t)(evil_random() % 3);
		break;
	default:
		break;
	}
	t_tgt_respond_as_is(s, len);
}

/* The library's information on a volume is consistent, whatever the target
 * sent. */
static void check_volume(const struct srpi_session *s, unsigned int v)
{
	const struct srpi_volume_info *info = srpi_volume_info(s, v);
	unsigned int found;

	assert_true(info->name[0] && info->name[0] != '.');
	for (const char *c = info->name; *c; c++)
		assert_true(*c >= ' ' && *c <= '~' && *c != '/');
	assert_int_equal(srpi_volume_find(s, info->name, &found), 0);
	assert_int_equal(found, v);
	assert_true(info->size > 0 && info->size % info->block_size == 0);
	assert_true(info->block_size >= 512 &&
		    (info->block_size & (info->block_size - 1)) == 0);
	assert_true(info->max_transfer > 0 &&
		    info->max_transfer % info->block_size == 0);
}

static void some_io(struct srpi_session *s)
{
	static uint8_t buf[65536] __attribute__((aligned(4096)));
	struct srpi_mem *mem;
	struct srpi_error e;

	assert_int_equal(srpi_mem_register(s, buf, sizeof(buf), &mem, &e), 0);
	for (unsigned int v = 0; v < srpi_volume_cnt(s); v++) {
		uint32_t bs = srpi_volume_info(s, v)->block_size;

		check_volume(s, v);
		for (int op = SRPI_READ; op <= SRPI_EXTENT; op++) {
			struct srpi_io io = { .op = (enum srpi_op)op,
					      .volume = v,
					      .len = bs < 16384 ? bs : 0,
					      .buf = buf,
					      .mem = mem };

			srpi_io_wait(evil.ctx, s, &io);
		}
	}
	srpi_mem_free(mem);
}

T_TEST(random_answers_do_no_harm)
{
	static const struct manners manners = { .command = answer_at_random };
	const struct srpi_options opt = { .struct_size = sizeof(opt),
					  .timeout_ms = 200 };
	unsigned int sessions = 0;
	struct srpi_session *s;
	struct srpi_error e;

	evil_start(&manners);
	for (uint32_t i = 1; i <= 400; i++) {
		evil.random = i * 2654435761u;
		evil_await_end();
		if (srpi_connect_wait(evil.ctx, evil.uri, &opt, &s, &e)) {
			assert_true(e.err < 0 && e.text[0]);
			continue;
		}
		sessions++;
		some_io(s);
		srpi_close_wait(evil.ctx, s);
	}
	/* Most of them have a session. */
	assert_true(sessions > 100);
	evil_stop();
}

/* ---- unusual, but correct ---- */

static void greet_with_requests(struct t_tgt_chan *ch)
{
	uint8_t cred[16] = { SRP_CRED_REQ };

	wire_put32(cred + 4, 5);
	evil_send(ch, cred, sizeof(cred));
}

static void no_luns(struct t_tgt_send *s, const struct srp_cmd_view *cmd)
{
	memset(s->data, 0, 8);
	t_tgt_respond(s, 8);
}

T_TEST(target_without_volumes_is_one)
{
	static const struct manners manners = { .greet = greet_with_requests,
						.command = no_luns };
	struct srpi_session *s;
	struct srpi_error e = { 0 };

	evil_start(&manners);
	if (srpi_connect_wait(evil.ctx, evil.uri, NULL, &s, &e))
		fail_msg("%s", e.text);
	assert_int_equal(srpi_volume_cnt(s), 0);
	srpi_close_wait(evil.ctx, s);
	evil_stop();
}

/* ---- a mount of a disk that writes to memory at a wrong place or time ---- */

#define SLOTS	 16u
#define IO_LEN	 16384u
#define DISK_LEN (16384 * 512)

/* The default of rdma-fuse: 1 MiB, and the edges of pages. */
#define SLOT_LEN ((1u << 20) + 4 * 4096)

static struct srp_desc slot_descs[SLOTS]; /* source of each answer's data */

static void learn_slots(const struct scsi_cmd *cmd,
			const struct srp_cmd_view *v)
{
	struct srp_desc desc;

	if (cmd->op == SCSI_OP_READ)
		srp_desc_unpack(v->in.descs, 1, &desc);
	else if (cmd->op == SCSI_OP_WRITE)
		srp_desc_unpack(v->out.descs, 1, &desc);
	else
		return;
	for (unsigned int i = 0; i < SLOTS; i++)
		slot_descs[i] = (struct srp_desc){
			.addr = desc.addr % SLOT_LEN + (uint64_t)i * SLOT_LEN,
			.key = desc.key,
			.len = 128,
		};
}

/* Comes right after a response: the answer to the kernel has been made and has
 * not left. */
static void write_to_slots(struct t_tgt_chan *ch)
{
	struct t_tgt_send *s = t_tgt_take(ch);

	assert_non_null(s);
	memset(s->data, 0xff, IO_LEN);
	s->chain.dir = XP_RDMA_WRITE;
	s->chain.remote = slot_descs;
	s->chain.len = SLOTS * slot_descs[0].len;
	s->chain.local = s->data;
	s->chain.local_mr = evil.tgt.mr;
	t_tgt_post(s);
}

static void answer_and_write(struct t_tgt_send *s,
			     const struct srp_cmd_view *cmd)
{
	struct t_tgt_chan *ch = s->ch;

	learn_slots(&s->cmd, cmd);
	t_tgt_respond_as_is(s, evil_disk_data(s, /* luns= */ 1,
					      /* thin= */ true));
	if (slot_descs[0].len)
		write_to_slots(ch);
}

/* A program that uses the mount, on a thread of its own. */
struct user {
	char dir[64];
	char wrong[128]; /* "": no fault */
	atomic_bool over;
};

static bool run_and_wait(const char *const *argv)
{
	int status;
	pid_t pid;

	return posix_spawnp(&pid, argv[0], NULL, NULL,
			    (char *const *)(uintptr_t)argv, environ) == 0 &&
	       waitpid(pid, &status, 0) == pid && status == 0;
}

static void use_file(struct user *u, int fd)
{
	static uint8_t buf[IO_LEN];
	struct stat st = { 0 };
	ssize_t n = pread(fd, buf, sizeof(buf), 0);

	if (n != IO_LEN)
		snprintf(u->wrong, sizeof(u->wrong), "read: %zd", n);
	n = pwrite(fd, buf, sizeof(buf), 0);
	if (n != IO_LEN)
		snprintf(u->wrong, sizeof(u->wrong), "write: %zd", n);
	n = lseek(fd, 100, SEEK_DATA);
	if (n != 100)
		snprintf(u->wrong, sizeof(u->wrong), "lseek: %zd", n);
	if (fstat(fd, &st) || !S_ISREG(st.st_mode) || st.st_size != DISK_LEN)
		snprintf(u->wrong, sizeof(u->wrong), "stat: mode %o",
			 st.st_mode);
}

static void *use_mount(void *arg)
{
	struct user *u = arg;
	char program[256], file[80];
	int fd = -1;

	snprintf(program, sizeof(program), "%s/fuse/rdma-fuse", t_build());
	snprintf(file, sizeof(file), "%s/disk", u->dir);
	if (run_and_wait(
		    (const char *[]){ program, "-q", evil.uri, u->dir, NULL }))
		fd = open(file, O_RDWR);
	if (fd < 0)
		snprintf(u->wrong, sizeof(u->wrong), "no mount");
	for (int i = 0; fd >= 0 && i < 50 && !*u->wrong; i++)
		use_file(u, fd);
	if (fd >= 0)
		close(fd);
	run_and_wait((const char *[]){ "fusermount3", "-uq", u->dir, NULL });
	u->over = true;
	return NULL;
}

T_TEST(mount_answers_what_it_should)
{
	static const struct manners manners = { .command = answer_and_write };
	struct user u = { .wrong = "" };
	pthread_t thread;

	if (access("/dev/fuse", R_OK | W_OK))
		skip();
	memset(slot_descs, 0, sizeof(slot_descs));
	snprintf(u.dir, sizeof(u.dir), "%s/mnt", t_scratch());
	assert_int_equal(mkdir(u.dir, 0700), 0);
	evil_start(&manners);
	assert_int_equal(pthread_create(&thread, NULL, use_mount, &u), 0);
	while (!u.over)
		assert_true(srpi_ctx_run(evil.ctx, 20) >= 0);
	pthread_join(thread, NULL);
	evil_await_end();
	evil_stop();
	if (*u.wrong)
		fail_msg("%s", u.wrong);
}

/* ---- two targets of one context ---- */

/* RDMA WRITE on @ch into @mem, with the key that @s has for it. */
static void write_to(struct t_tgt_chan *ch, const struct srpi_session *s,
		     const struct srpi_mem *mem, const void *p, uint32_t len)
{
	struct t_tgt_send *send = t_tgt_take(ch);

	assert_non_null(send);
	xp_mr_remote(mem->mr, s->channels[0]->xp, p, &send->desc.addr,
		     &send->desc.key);
	send->desc.len = len;
	memset(send->data, 0xee, len);
	send->chain.dir = XP_RDMA_WRITE;
	send->chain.remote = &send->desc;
	send->chain.len = len;
	send->chain.local = send->data;
	send->chain.local_mr = evil.tgt.mr;
	t_tgt_post(send);
	while (send->busy)
		assert_true(srpi_ctx_run(evil.ctx, -1) >= 0);
}

static struct srpi_session *log_in(void)
{
	const struct srpi_options opt = { .struct_size = sizeof(opt),
					  .reconnect_delay_ms = SRPI_OFF };
	struct srpi_session *s;
	struct srpi_error e = { 0 };

	if (srpi_connect_wait(evil.ctx, evil.uri, &opt, &s, &e))
		fail_msg("%s", e.text);
	return s;
}

T_TEST(key_is_good_for_one_session_only)
{
	static const struct manners manners = { .command = no_luns };
	static uint8_t buf[4096];
	struct srpi_session *theirs, *ours;
	struct srpi_error e = { 0 };
	struct t_tgt_chan *our_ch, *their_ch;
	struct srpi_mem *mem;

	evil_start(&manners);
	ours = log_in();
	our_ch = evil.ch;
	assert_int_equal(srpi_mem_register(ours, buf, sizeof(buf), &mem, &e),
			 0);
	theirs = log_in();
	their_ch = evil.ch;
	write_to(their_ch, ours, mem, buf, 512);
	while (buf[0] == 0 && their_ch->xp)
		assert_true(srpi_ctx_run(evil.ctx, -1) >= 0);
	assert_int_equal(buf[0], 0);
	srpi_close_wait(evil.ctx, theirs);
	/* Memory that is closed to one target is open to the other. */
	write_to(our_ch, ours, mem, buf, 512);
	srpi_io_wait(evil.ctx, ours, &(struct srpi_io){ .op = SRPI_FLUSH });
	assert_int_equal(srpi_session_state(ours), SRPI_RUNNING);
	assert_int_equal(buf[511], 0xee);
	srpi_close_wait(evil.ctx, ours);
	srpi_mem_free(mem);
	evil_stop();
}
