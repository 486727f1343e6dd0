/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What travels over a TCP connection: the protocol of libfabric's tcp provider
 * (version 3, as of libfabric 1.17; "xnet" in later ones), as far as SEND, RDMA
 * WRITE and RDMA READ need it. Its source is prov/tcp of libfabric.
 *
 * A connection begins with one message of connection management each way: 32
 * bytes, and up to 256 of private data.
 *
 *   0 version (3)   1 type   2 length of the private data (big endian)
 *   4 zeros         24 the number 1, in the byte order of the sender
 *
 * Then both send messages: a header of 16 bytes, up to four regions of the
 * receiver's memory (address, length, key; 8 bytes each), and data.
 *
 *   0 version (3)   1 operation   2 flags   4 0, or what is an acknowledgement
 *   5 number of regions   6 bytes of header and regions   7 for debugging
 *   8 bytes of header, regions and data
 *
 *   MSG        a SEND; no region
 *   READ_REQ   regions to send back; no data
 *   READ_RSP   what was asked for, in the order of the READ_REQs
 *   WRITE      data for the regions
 *
 * Numbers are in the byte order that both hosts have, or big endian when they
 * differ. Flags ask for acknowledgements and immediate data: we ask for neither
 * and refuse both.
 *
 * Thread: any. Nothing here does I/O, allocates or logs, and no length of the
 * peer's is added before it was compared.
 */
#ifndef TRANSPORT_TCP_WIRE_H
#define TRANSPORT_TCP_WIRE_H

#include <stddef.h>
#include <stdint.h>

#define TCP_CM_LEN	32u
#define TCP_CM_DATA_MAX 256u
#define TCP_HDR_LEN	16u
#define TCP_REGION_LEN	24u
#define TCP_REGIONS_MAX 4u
#define TCP_HDR_LEN_MAX (TCP_HDR_LEN + TCP_REGIONS_MAX * TCP_REGION_LEN)

enum tcp_order {
	TCP_LITTLE,
	TCP_BIG,
};

enum tcp_cm_type {
	TCP_CM_CONNECT = 0,
	TCP_CM_ACCEPT = 1,
	TCP_CM_REJECT = 6,
};

struct tcp_cm {
	enum tcp_cm_type type;
	enum tcp_order order; /* of what follows; not told by a reject */
	size_t data_len;
};

/* @buf: TCP_CM_LEN + @len bytes; returns how many that are. */
size_t tcp_cm_encode(void *buf, enum tcp_cm_type type, const void *data,
		     size_t len);

/*
 * @buf: TCP_CM_LEN bytes. Return: 0; -ENOPROTOOPT: that is another protocol or
 * version; -EBADMSG: the right one, but nonsense.
 */
int tcp_cm_decode(const void *buf, struct tcp_cm *ret_cm);

enum tcp_op {
	TCP_MSG = 0,
	TCP_READ_REQ = 2,
	TCP_READ_RSP = 3,
	TCP_WRITE = 4,
};

struct tcp_region {
	uint64_t addr;
	uint64_t len;
	uint64_t key;
};

struct tcp_hdr {
	enum tcp_op op;
	unsigned int region_cnt; /* of READ_REQ and WRITE; others have none */
	struct tcp_region region[TCP_REGIONS_MAX];
	uint64_t data_len; /* bytes that follow the header */
};

/* @buf: TCP_HDR_LEN_MAX bytes; returns how many of them are the header. @id
 * counts the messages of a connection: debug builds of libfabric look at it. */
size_t tcp_hdr_encode(void *buf, enum tcp_order order, uint8_t id,
		      const struct tcp_hdr *hdr);

/*
 * A header of which @len bytes are there. The data of a WRITE is as long as its
 * regions. Return: the bytes of the header; 0: more are needed; -EBADMSG,
 * *ret_why being a clause that says what is wrong.
 */
int tcp_hdr_decode(const void *buf, size_t len, enum tcp_order order,
		   struct tcp_hdr *ret_hdr, const char **ret_why);

#endif
