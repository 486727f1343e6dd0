/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * A fake target, for tests of libsrpi: the transport, logins, and the posting
 * of answers. Its user decides on the answers. The fake target requires that
 * every IU of the initiator can be decoded, and that every CDB is valid.
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
#define T_TGT_IU_LEN	1024u /* the longest IU that the target sends */
#define T_TGT_CHANS	64
#define T_TGT_LISTENERS 2

struct t_tgt;

struct t_tgt_chan {
	struct t_tgt *tgt;
	struct xp_chan *xp; /* NULL: there is no connection */
	bool open;	    /* established, and not closed */
	struct srp_cmd_rules rules;
};

/* An answer, or another IU, from t_tgt_take() until the IU has left. */
struct t_tgt_send {
	struct xp_chain chain;
	struct t_tgt_chan *ch;
	/* The decoded command, the place of its data-in, and the number of
	 * bytes. */
	struct scsi_cmd cmd;
	struct srp_desc desc;
	uint32_t in_len;
	struct srp_rsp rsp; /* tag and one credit, and members that the user
			     * sets */
	uint8_t sense[SCSI_SENSE_MAX_LEN];
	uint8_t *data; /* tgt->data_len bytes, registered */
	uint8_t *iu;   /* T_TGT_IU_LEN bytes, registered */
	bool busy;
};

struct t_tgt_ops {
	/* A login. The user calls t_tgt_accept() or xp_reject(), now or
	 * later. */
	void (*login)(struct t_tgt *tgt, struct xp_conn_request *req,
		      const struct srp_login_req *login);
	/* Optional: the channel is established. */
	void (*established)(struct t_tgt_chan *ch);
	/* Optional: called for every IU, in place of t_tgt_receive(). */
	void (*received)(struct t_tgt_chan *ch, const struct xp_iu *iu);
	/* An SRP_CMD. The user answers with @s, now or later, or drops it. */
	void (*command)(struct t_tgt_send *s, const struct srp_cmd_view *cmd);
	/* Optional: any other IU. */
	void (*other)(struct t_tgt_chan *ch, enum srp_opcode opcode);
};

/* The user sets the first part before t_tgt_start(). */
struct t_tgt {
	const struct t_tgt_ops *ops;
	struct srp_login_rsp rsp; /* answer to logins, without the tag */
	unsigned int send_cnt;	  /* number of sends */
	uint32_t data_len;	  /* bytes of each send */
	bool loses_commands;	  /* if all sends are busy */
	void *user;

	struct xp *xp;
	struct xp_listener *listeners[T_TGT_LISTENERS];
	struct t_tgt_chan chans[T_TGT_CHANS];
	struct t_tgt_send *sends;
	uint8_t *mem;
	struct xp_mr *mr; /* for @mem */
};

/* Borrows @xp until t_tgt_stop(). */
void t_tgt_start(struct t_tgt *tgt, struct xp *xp);
void t_tgt_listen(struct t_tgt *tgt, const struct sockaddr_in *addr);
/* Stops listening. */
void t_tgt_unlisten(struct t_tgt *tgt);
/* Begins to close all channels. */
void t_tgt_close(struct t_tgt *tgt);
/* Returns the number of channels that have not ended. */
unsigned int t_tgt_chan_cnt(const struct t_tgt *tgt);
/* Only when no channel is left. */
void t_tgt_stop(struct t_tgt *tgt);

/* NULL: all channels are in use. */
struct t_tgt_chan *t_tgt_free_chan(struct t_tgt *tgt);
/* Accepts with tgt->rsp. Immediate data only if @login requests it, too. */
struct t_tgt_chan *t_tgt_accept(struct t_tgt *tgt, struct xp_conn_request *req,
				const struct srp_login_req *login);
/* Accepts with any bytes. The limits are those of tgt->rsp. */
struct t_tgt_chan *t_tgt_accept_with(struct t_tgt *tgt,
				     struct xp_conn_request *req,
				     const struct srp_login_req *login,
				     const void *pdata, size_t len);
void t_tgt_reject(struct xp_conn_request *req, uint64_t tag, uint32_t reason);

/* Decodes @iu and calls the function for it. */
void t_tgt_receive(struct t_tgt_chan *ch, const struct xp_iu *iu);

/* Takes a send for an IU on @ch. NULL: all are busy. */
struct t_tgt_send *t_tgt_take(struct t_tgt_chan *ch);
/* Ends a send without an answer, or after it. */
void t_tgt_drop(struct t_tgt_send *s);
/* The done function of s->chain, unless the user sets another one: drops the
 * send. */
void t_tgt_send_done(struct xp_chain *chain, int status);
/* Posts s->chain, or drops the send if the channel has ended. */
void t_tgt_post(struct t_tgt_send *s);

/* Sends any bytes. False: all sends are busy. */
bool t_tgt_send(struct t_tgt_chan *ch, const void *iu, size_t len);
bool t_tgt_send_rsp(struct t_tgt_chan *ch, const struct srp_rsp *rsp);

/* Answers with up to @len bytes of s->data, as many as fit, and with the
 * residual count. */
void t_tgt_respond(struct t_tgt_send *s, uint32_t len);
/* The same with an unchanged s->rsp. */
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
	/* VPD pages except 00h, which lists them. NULL: the pages of the
	 * product, in its order. */
	const uint8_t *pages;
	uint8_t page_cnt;
};

/*
 * Answers of a disk to REPORT LUNS, INQUIRY, READ CAPACITY, MODE SENSE (6) and,
 * if there are groups, REPORT TARGET PORT GROUPS. GET LBA STATUS reports that
 * all is mapped. Returns the bytes of data-in in @b; -1: no such command or
 * page.
 */
int t_tgt_disk_data(const struct t_tgt_disk *d, const struct scsi_cmd *cmd,
		    uint8_t *b, size_t cap);

#endif
