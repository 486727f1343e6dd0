/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What a logical unit reports about itself in INQUIRY: standard data, the vital
 * product data pages 00h, 80h, 83h, 86h, 8Fh, B0h, B1h, B2h (SPC-4 and SBC-3,
 * vital product data parameters), and our own page C0h.
 *
 * Builders write as much as fits into the caller's buffer and return the full
 * length. The caller cuts that to the allocation length. The lengths inside the
 * data are always the full ones (SPC-4 4.2.5.6).
 *
 * Parsers are for our initiator. They trust no length that the target wrote.
 *
 * Thread: any, for every function here.
 */
#ifndef PROTOCOL_SCSI_VPD_H
#define PROTOCOL_SCSI_VPD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "protocol/scsi_sense.h"

/* T10 VENDOR IDENTIFICATION and PRODUCT REVISION LEVEL of our units. */
#define SCSI_OUR_VENDOR	  "RDMABLK "
#define SCSI_OUR_REVISION "0001"

/* The longest volume name and unit serial number, in bytes without NUL. */
#define SCSI_VOLUME_NAME_MAX 180
#define SCSI_SERIAL_MAX	     64

#define SCSI_NAA_LEN 16

/* See struct scsi_store. */
#define SCSI_GENERATION_LEN 16

/* The target port group of a unit that only one target serves. */
#define SCSI_TARGET_PORT_GROUP 1

/* Most targets that may serve one unit. */
#define SCSI_PORT_GROUPS_MAX 8

/*
 * The target port groups of a unit are 1 ... cnt. Each has one port of the same
 * number. All targets that serve the unit report the same groups.
 */
struct scsi_port_groups {
	uint16_t cnt; /* 0: one group, which is active */
	uint16_t own; /* that of this target's port, constant */
	/* The group that is active and optimized; 0: none. The others are in
	 * standby. */
	_Atomic uint16_t active;
};

/*
 * Page C0h, which is our own. Bytes 4-11: SCSI_OUR_VENDOR. Byte 12 bit 0:
 * is_memory. Bytes 16-31: the generation. An initiator reads it after it lost
 * the connection with unflushed writes: if the generation is the same, no
 * acknowledged write is lost.
 */
struct scsi_store {
	uint8_t generation[SCSI_GENERATION_LEN];
	/* With another generation, all data is lost, flushed or not. */
	bool is_memory;
};

/* What MODE SELECT can change: values, or a mask of changeable values. */
struct scsi_modes {
	bool wce;     /* caching page: writes may sit in a volatile cache */
	bool d_sense; /* control page: sense data in descriptor format */
	bool swp;     /* control page: software write protect */
};

/*
 * A logical unit, as its INQUIRY, mode and capacity data describe it. The
 * target fills in one for each volume; builders only read it. Lengths in blocks
 * are logical blocks. A limit of 0 means "not reported".
 *
 * Members that may change while the unit is in use are atomic, each one
 * separately.
 */
struct scsi_disk_info {
	const char *name;   /* volume name; longer than the maximum is cut */
	const char *serial; /* unit serial number, printable ASCII */
	uint8_t naa[SCSI_NAA_LEN]; /* NAA 6h designator; see scsi_naa_make() */
	uint16_t target_port;	   /* relative target port identifier, 1.. */
	struct scsi_port_groups groups;
	struct scsi_store store;

	_Atomic uint64_t blocks; /* capacity, at least 1; never shrinks */
	uint32_t block_size;	 /* bytes: 512 or 4096 */
	uint8_t physical_exp;	 /* log2 of logical blocks per physical block */

	bool read_only;		  /* WP, whatever SWP says */
	_Atomic bool write_cache; /* WCE */
	_Atomic bool d_sense;	  /* D_SENSE */
	_Atomic bool swp;	  /* SWP */
	/* For MODE SENSE and SELECT. @mode_saved is read and written under the
	 * target's lock. The others are constant. */
	bool mode_save; /* the target has a place that survives a restart */
	/* The unit has no FORMAT UNIT and SANITIZE: an unfinished job must
	 * survive a restart and a takeover by another target, and cannot.
	 * Constant. */
	bool no_jobs;
	/* The unit has no persistent reservations, or no RESERVE: other targets
	 * serve it, and would not know of them. Constant. */
	bool no_reservations;
	bool no_reserve;
	struct scsi_modes mode_changeable;
	struct scsi_modes mode_default;
	struct scsi_modes mode_saved;

	bool unmap;	 /* thinly provisioned: LBPME, LBPU, LBPWS, LBPWS10 */
	bool lbprz;	 /* unmapped blocks read as zeroes */
	bool rotational; /* false: medium rotation rate 1, an SSD */
	bool removable;	 /* RMB */

	uint16_t optimal_granularity_blocks;
	uint32_t max_transfer_blocks;
	uint32_t optimal_transfer_blocks;
	uint32_t max_unmap_blocks; /* per command; UINT32_MAX: no limit */
	uint32_t max_unmap_descs;  /* per command; UINT32_MAX: no limit */
	uint32_t unmap_granularity_blocks;
	uint32_t unmap_alignment_blocks;
	uint64_t max_write_same_blocks;
	bool write_same_nonzero; /* WSNZ: a block count of 0 is refused */
	uint8_t max_caw_blocks;	 /* COMPARE AND WRITE */
	/* WRITE ATOMIC; 0: the unit does not have it */
	uint16_t max_atomic_blocks;
};

/* Log2 of the blocks in one unit of a count of LBA mapping resources. The
 * counts are in MiB (SBC-3, THRESHOLD EXPONENT). */
#define SCSI_THRESHOLD_EXPONENT(info) ((info)->block_size == 4096 ? 8 : 11)

enum scsi_vpd_page {
	SCSI_VPD_SUPPORTED_PAGES = 0x00,
	SCSI_VPD_UNIT_SERIAL_NUMBER = 0x80,
	SCSI_VPD_DEVICE_IDENTIFICATION = 0x83,
	SCSI_VPD_EXTENDED_INQUIRY = 0x86,
	SCSI_VPD_THIRD_PARTY_COPY = 0x8f,
	SCSI_VPD_BLOCK_LIMITS = 0xb0,
	SCSI_VPD_BLOCK_CHARACTERISTICS = 0xb1,
	SCSI_VPD_PROVISIONING = 0xb2, /* Logical Block Provisioning */
	SCSI_VPD_STORE = 0xc0,	      /* ours: struct scsi_store */
};

/* The longest data that a builder here makes. */
#define SCSI_INQUIRY_LEN 96
#define SCSI_VPD_MAX_LEN 512

/**
 * scsi_naa_make() - a world-wide name from a volume's identity
 * @identity: text that is the same whenever it is the same volume, such as
 *	      host and path; NUL-terminated
 * @ret_naa:  IEEE Registered Extended (NAA 6h), with a locally administered
 *	      company ID; the remaining 100 bits are a hash of @identity
 */
void scsi_naa_make(const char *identity, uint8_t ret_naa[SCSI_NAA_LEN]);

/* Standard INQUIRY data (SPC-4, standard INQUIRY data). */
size_t scsi_inquiry_encode(const struct scsi_disk_info *info, void *buf,
			   size_t cap);

/* The same for a LUN without a logical unit: byte 0 is 7Fh. */
size_t scsi_inquiry_encode_absent(void *buf, size_t cap);

/**
 * scsi_vpd_encode() - one VPD page
 * @page_code: what INQUIRY asked for
 * @ret_len:   the page's full length
 * @ret_sense: written only on failure
 *
 * Return: 0, or -EINVAL for a page that we do not have (05/24/00, byte 2).
 */
int scsi_vpd_encode(const struct scsi_disk_info *info, uint8_t page_code,
		    void *buf, size_t cap, size_t *ret_len,
		    struct scsi_sense *ret_sense);

/* What an initiator reads from standard INQUIRY data. */
struct scsi_inquiry {
	uint8_t qualifier;   /* peripheral qualifier; 0: a unit is there */
	uint8_t device_type; /* 0: direct access block device */
	bool alua;	     /* TPGS: REPORT TARGET PORT GROUPS is there */
	/* trailing spaces cut, bytes that are not printable ASCII become '?' */
	char vendor[8 + 1];
	char product[16 + 1];
	char revision[4 + 1];
};

/* Return: 0, or -EBADMSG if fewer than 36 bytes arrived or were announced. */
int scsi_inquiry_decode(const void *buf, size_t len,
			struct scsi_inquiry *ret_inquiry);

/* Is @page_code in page 00h's list? False also for a malformed page. */
bool scsi_vpd_lists(const void *buf, size_t len, uint8_t page_code);

/**
 * scsi_vpd_decode_serial() - page 80h
 * @ret_serial: text without surrounding spaces, cut to fit, always terminated
 *
 * Return: 0, or -EBADMSG when this is not page 80h or it is cut short.
 */
int scsi_vpd_decode_serial(const void *buf, size_t len,
			   char ret_serial[SCSI_SERIAL_MAX + 1]);

/* What page 83h says about the logical unit. What is absent has length 0. */
#define SCSI_PORT_NAME_MAX 255

struct scsi_vpd_ids {
	uint8_t naa[SCSI_NAA_LEN];
	uint8_t naa_len; /* 8 or 16; the longest NAA designator */
	/*
	 * From the T10 vendor designator. Our target and LIO write it as
	 * "name:serial", and this is the part before the last colon; without a
	 * colon, all of it. Control characters and '/' become '_'. "." and ".."
	 * are not accepted.
	 */
	char name[SCSI_VOLUME_NAME_MAX + 1];
	char t10_vendor[8 + 1];
	/* The first designator that names the target port, unchanged (EUI-64,
	 * NAA or SCSI name string), after a byte with its type. */
	uint8_t port[SCSI_PORT_NAME_MAX];
	uint8_t port_len; /* 0: none, or longer */
	uint16_t port_group;
	bool has_port_group;
};

/*
 * If the page is incomplete, this reads the designators that arrived. Return:
 * 0, or -EBADMSG if this is not page 83h, or the length of a designator does
 * not fit.
 */
int scsi_vpd_decode_ids(const void *buf, size_t len,
			struct scsi_vpd_ids *ret_ids);

/* Page B0h. Zero means "not reported" in each member. */
struct scsi_block_limits {
	uint32_t max_transfer_blocks;
	uint32_t optimal_transfer_blocks;
	uint32_t max_unmap_blocks;
	uint32_t max_unmap_descs;
	uint32_t unmap_granularity_blocks;
	uint32_t unmap_alignment_blocks; /* 0 unless UGAVALID */
	uint64_t max_write_same_blocks;
};

/*
 * Pages of SBC-2 end after 16 bytes: what is absent reads as zero. Return: 0,
 * or -EBADMSG if this is not page B0h or it is cut short.
 */
int scsi_vpd_decode_limits(const void *buf, size_t len,
			   struct scsi_block_limits *ret_limits);

/* Page B1h. @ret_rate: 0 not reported, 1 not rotating, else rotations per
 * minute. */
int scsi_vpd_decode_rotation(const void *buf, size_t len, uint16_t *ret_rate);

/* Page B2h. */
struct scsi_provisioning {
	bool lbpu;  /* UNMAP */
	bool lbpws; /* WRITE SAME (16) with UNMAP */
	bool lbprz;
};

int scsi_vpd_decode_provisioning(const void *buf, size_t len,
				 struct scsi_provisioning *ret_prov);

/* -EBADMSG also if the page is that of another vendor. */
int scsi_vpd_decode_store(const void *buf, size_t len,
			  struct scsi_store *ret_store);

/* 16 bytes that differ if @text differs. They are not secret, only well
 * distributed. */
void scsi_text_digest(const char *text, uint8_t ret_digest[16]);

#endif
