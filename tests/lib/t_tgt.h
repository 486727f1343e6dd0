/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fake target, for tests of libsrpi: the transport, logins, and the posting of
 * answers. Its user decides what the answers are. It claims that every IU of the
 * initiator can be decoded, and every CDB is valid.
 *
 * Thread: that of the transport's reactor. Works without cmocka.
 */
#ifndef TESTS_LIB_T_TGT_H
#define TESTS_LIB_T_TGT_H

#include <netinet/in.h>

#include "protocol/scsi_cdb.h"
#include "protocol/scsi_sense.h"
#include "protocol/scsi_vpd.h"
#include "protocol/srp_iu.h"
#include "protocol/srp_login.h"
#include "transport/xport.h"

#define T_TGT_RECV_LEN	8276u /* of the transport, bytes */
#define T_TGT_IU_LEN	1024u /* the longest IU that is sent */
#define T_TGT_CHANS	64
#define T_TGT_LISTENERS 2

struct t_tgt;

struct t_tgt_chan {
	struct t_tgt *tgt;
	struct xp_chan *xp; /* NULL: there is none */
	bool open;	    /* established, and not closed */
	struct srp_cmd_rules rules;
};

/* An answer, or another IU, from t_tgt_take() until it has left. */
struct t_tgt_send {
	struct xp_chain chain;
	struct t_tgt_chan *ch;
	/* Of the command: decoded, where its data-in goes, and how many bytes. */
	struct scsi_cmd cmd;
	struct srp_desc desc;
	uint32_t in_len;
	struct srp_rsp rsp; /* tag and one credit, and what the user adds */
	uint8_t sense[SCSI_SENSE_MAX_LEN];
	uint8_t *data; /* tgt->data_len bytes, registered */
	uint8_t *iu;   /* T_TGT_IU_LEN bytes, registered */
	bool busy;
};

struct t_tgt_ops {
	/* A login; ends with t_tgt_accept() or xp_reject(), now or later. */
	void (*login)(struct t_tgt *tgt, struct xp_conn_request *req,
		      const struct srp_login_req *login);
	/* Optional: the channel is up. */
	void (*established)(struct t_tgt_chan *ch);
	/* Optional: in place of t_tgt_receive() for every IU. */
	void (*received)(struct t_tgt_chan *ch, const struct xp_iu *iu);
	/* An SRP_CMD. Answers with @s, now or later, or drops it. */
	void (*command)(struct t_tgt_send *s, const struct srp_cmd_view *cmd);
	/* Optional: any other IU. */
	void (*other)(struct t_tgt_chan *ch, enum srp_opcode opcode);
};

/* The first part is the user's, before t_tgt_start(). */
struct t_tgt {
	const struct t_tgt_ops *ops;
	struct srp_login_rsp rsp; /* to logins, but for the tag */
	unsigned int send_cnt;	  /* at the same time */
	uint32_t data_len;	  /* of each, bytes */
	bool loses_commands;	  /* when all sends are busy */
	void *user;

	struct xp *xp;
	struct xp_listener *listeners[T_TGT_LISTENERS];
	struct t_tgt_chan chans[T_TGT_CHANS];
	struct t_tgt_send *sends;
	uint8_t *mem;
	struct xp_mr *mr; /* of @mem */
};

/* Borrows @xp until t_tgt_stop(). */
void t_tgt_start(struct t_tgt *tgt, struct xp *xp);
void t_tgt_listen(struct t_tgt *tgt, const struct sockaddr_in *addr);
/* Listens nowhere any more. */
void t_tgt_unlisten(struct t_tgt *tgt);
/* Closes all channels; they end later. */
void t_tgt_close(struct t_tgt *tgt);
/* Channels that have not ended. */
unsigned int t_tgt_chan_cnt(const struct t_tgt *tgt);
/* No channel is left. */
void t_tgt_stop(struct t_tgt *tgt);

/* NULL: as many channels as there can be. */
struct t_tgt_chan *t_tgt_free_chan(struct t_tgt *tgt);
/* Accepts with tgt->rsp; immediate data only if @login has it, too. */
struct t_tgt_chan *t_tgt_accept(struct t_tgt *tgt, struct xp_conn_request *req,
				const struct srp_login_req *login);
/* Accepts with any bytes. The rules are those of tgt->rsp. */
struct t_tgt_chan *t_tgt_accept_with(struct t_tgt *tgt,
				     struct xp_conn_request *req,
				     const struct srp_login_req *login,
				     const void *pdata, size_t len);
void t_tgt_reject(struct xp_conn_request *req, uint64_t tag, uint32_t reason);

/* Decodes @iu and calls what it is for. */
void t_tgt_receive(struct t_tgt_chan *ch, const struct xp_iu *iu);

/* For an IU on @ch; NULL: all are busy. */
struct t_tgt_send *t_tgt_take(struct t_tgt_chan *ch);
/* There is no answer, or no more. */
void t_tgt_drop(struct t_tgt_send *s);
/* Of s->chain, unless the user has one of its own: drops it. */
void t_tgt_send_done(struct xp_chain *chain, int status);
/* Posts s->chain, or drops it when the channel has ended. */
void t_tgt_post(struct t_tgt_send *s);

/* Sends any bytes. False: all sends are busy. */
bool t_tgt_send(struct t_tgt_chan *ch, const void *iu, size_t len);
bool t_tgt_send_rsp(struct t_tgt_chan *ch, const struct srp_rsp *rsp);

/* Answers with @len bytes of s->data, as far as there is room, and with the
 * residual count. */
void t_tgt_respond(struct t_tgt_send *s, uint32_t len);
/* The same with s->rsp as it is. */
void t_tgt_respond_as_is(struct t_tgt_send *s, uint32_t len);
void t_tgt_respond_status(struct t_tgt_send *s, enum scsi_status status);
void t_tgt_respond_sense(struct t_tgt_send *s, const struct scsi_sense *sense,
			 enum scsi_sense_format format);
/* INVALID COMMAND OPERATION CODE */
void t_tgt_refuse(struct t_tgt_send *s);

/* ---- a disk ---- */

struct t_tgt_disk {
	const struct scsi_disk_info *info;
	const uint64_t *luns;
	unsigned int lun_cnt;
	/* VPD pages but 00h, which lists them; NULL: those that the product
	 * has, as it lists them. */
	const uint8_t *pages;
	uint8_t page_cnt;
};

/*
 * What a disk says of itself: REPORT LUNS, INQUIRY, READ CAPACITY, MODE SENSE (6),
 * REPORT TARGET PORT GROUPS if there are any; to GET LBA STATUS that all is mapped.
 * Return: bytes of data-in in @b; -1: it has no such command or page.
 */
int t_tgt_disk_data(const struct t_tgt_disk *d, const struct scsi_cmd *cmd,
		    uint8_t *b, size_t cap);

#endif
