/* SPDX-License-Identifier: BSD-2-Clause */
#include "tests/lib/t_attempt.h"

#include <stdarg.h>
#include <stddef.h>
#include <setjmp.h>
#include <string.h>

#include <cmocka.h>

#include "protocol/scsi_cdb_bits.h"
#include "protocol/scsi_vpd.h"
#include "protocol/wire.h"

static void put_field(uint8_t *cdb, struct scsi_cdb_field field, uint32_t value)
{
	if (field.len)
		cdb[field.byte + field.len - 1] = (uint8_t)value;
}

bool t_attempt_mode_sense(const struct scsi_cdb_info *row,
			  struct t_attempt *ret)
{
	*ret = (struct t_attempt){ .out_len = 0 };
	if (row->op == SCSI_OP_MODE_SELECT_6)
		memcpy(ret->cdb, "\x1a\x08\x0a\0\xff", 5);
	else if (row->op == SCSI_OP_MODE_SELECT_10)
		memcpy(ret->cdb, "\x5a\x08\x0a\0\0\0\0\0\xff", 9);
	return ret->cdb[0];
}

/* The current mode page, but with software write protection. */
static void make_mode_select(uint8_t *p, struct t_attempt *a, uint32_t header)
{
	memset(p, 0, header);
	p[header] &= 0x7f; /* PS: the page can be saved */
	p[header + 4] |= T_ATTEMPT_SWP;
	a->cdb[1] |= CDB_PF;
	a->out_len = header + 12;
}

static void make_persistent_out(uint8_t *p, struct t_attempt *a)
{
	bool preempts = a->cdb[1] == 4 || a->cdb[1] == 5;

	memset(p, 0, 24);
	wire_put64(p, T_ATTEMPT_KEY);
	wire_put64(p + 8, preempts ? T_ATTEMPT_KEY : T_ATTEMPT_OTHER_KEY);
	a->cdb[2] = 1; /* write exclusive */
	a->out_len = 24;
}

static void make_copy(uint8_t *p, struct t_attempt *a, const uint8_t *naa)
{
	memset(p, 0, 76);
	p[0] = 1;
	p[3] = 32;
	p[11] = 28;
	p[16] = 0xe4;
	p[16 + 4] = 1;
	p[16 + 5] = 3;
	p[16 + 7] = SCSI_NAA_LEN;
	memcpy(p + 16 + 8, naa, SCSI_NAA_LEN);
	p[16 + 30] = T_ATTEMPT_BLOCK >> 8;
	p[48] = 2;
	p[48 + 3] = 0x18;
	p[48 + 11] = 1;
	p[48 + 19] = 1; /* from block 1 to block 0 */
	a->out_len = 76;
}

static void make_unmap(uint8_t *p, struct t_attempt *a)
{
	memset(p, 0, 24);
	p[1] = 22;
	p[3] = 16;
	p[8 + 11] = T_ATTEMPT_UNMAPPED;
	a->out_len = 24;
}

struct t_attempt t_attempt(const struct scsi_cdb_info *row, uint8_t *p,
			   const uint8_t *naa)
{
	struct t_attempt a = { .cdb = { row->opcode } };
	struct scsi_sense sense;
	struct scsi_cmd cmd;

	if (row->service_action != SCSI_SERVICE_ACTION_NONE)
		a.cdb[1] = (uint8_t)row->service_action;
	put_field(a.cdb, row->blocks, 1);
	put_field(a.cdb, row->alloc_len, T_ATTEMPT_IN_LEN);
	if (!t_attempt_mode_sense(row, &(struct t_attempt){ 0 }))
		memset(p, 0xab, T_ATTEMPT_OUT_LEN);
	switch ((enum scsi_op)row->op) {
	case SCSI_OP_MODE_SELECT_6:
	case SCSI_OP_MODE_SELECT_10:
		make_mode_select(p, &a,
				 row->op == SCSI_OP_MODE_SELECT_6 ? 4 : 8);
		break;
	case SCSI_OP_PERSISTENT_OUT:
		make_persistent_out(p, &a);
		break;
	case SCSI_OP_START_STOP:
		a.cdb[4] = CDB_LOEJ;
		break;
	case SCSI_OP_PREVENT_REMOVAL:
		a.cdb[4] = CDB_PREVENT;
		break;
	case SCSI_OP_SANITIZE_OVERWRITE:
		memcpy(p, "\x01\x00\x00\x04", 4);
		a.out_len = 8;
		break;
	case SCSI_OP_UNMAP:
		make_unmap(p, &a);
		break;
	case SCSI_OP_EXTENDED_COPY:
		make_copy(p, &a, naa);
		break;
	case SCSI_OP_READ_BUFFER:
		a.cdb[1] = SCSI_BUFFER_DATA;
		break;
	case SCSI_OP_WRITE_BUFFER:
		a.cdb[1] = SCSI_BUFFER_DATA;
		a.out_len = 96;
		break;
	case SCSI_OP_COMPARE_WRITE:
		memset(p, 1, T_ATTEMPT_BLOCK); /* the data that the block has */
		break;
	default:
		break;
	}
	put_field(a.cdb, row->param_len, a.out_len);
	assert_int_equal(scsi_cdb_decode(a.cdb, sizeof(a.cdb), &cmd, &sense),
			 0);
	if (!a.out_len)
		a.out_len =
			(uint32_t)scsi_cmd_data_out_len(&cmd, T_ATTEMPT_BLOCK);
	return a;
}
