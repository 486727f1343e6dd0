/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/tcp/wire.h"

#include <errno.h>
#include <stdbool.h>
#include <string.h>

#include "protocol/wire.h"

#define VERSION 3u

#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
#define HOST_ORDER TCP_LITTLE
#else
#define HOST_ORDER TCP_BIG
#endif

static uint64_t tcp_get64(const uint8_t *p, enum tcp_order order)
{
	uint64_t v = wire_get64(p);

	return order == TCP_BIG ? v : __builtin_bswap64(v);
}

static void tcp_put64(uint8_t *p, enum tcp_order order, uint64_t v)
{
	wire_put64(p, order == TCP_BIG ? v : __builtin_bswap64(v));
}

/* ---- connection management ---- */

size_t tcp_cm_encode(void *buf, enum tcp_cm_type type, const void *data,
		     size_t len)
{
	uint8_t *p = buf;

	memset(p, 0, TCP_CM_LEN);
	p[0] = VERSION;
	p[1] = (uint8_t)type;
	wire_put16(p + 2, (uint16_t)len);
	tcp_put64(p + 24, HOST_ORDER, 1);
	if (len)
		memcpy(p + TCP_CM_LEN, data, len);
	return TCP_CM_LEN + len;
}

static bool tcp_is_cm_type(uint8_t type)
{
	return type == TCP_CM_CONNECT || type == TCP_CM_ACCEPT ||
	       type == TCP_CM_REJECT;
}

int tcp_cm_decode(const void *buf, struct tcp_cm *ret_cm)
{
	const uint8_t *p = buf;
	uint16_t len = wire_get16(p + 2);
	bool same = tcp_get64(p + 24, HOST_ORDER) == 1;

	if (p[0] != VERSION)
		return -ENOPROTOOPT;
	if (!tcp_is_cm_type(p[1]) || len > TCP_CM_DATA_MAX)
		return -EBADMSG;
	if (!same && p[1] != TCP_CM_REJECT &&
	    tcp_get64(p + 24, HOST_ORDER) != (uint64_t)1 << 56)
		return -EBADMSG;
	ret_cm->type = p[1];
	ret_cm->order = same ? HOST_ORDER : TCP_BIG;
	ret_cm->data_len = len;
	return 0;
}

/* ---- messages ---- */

size_t tcp_hdr_encode(void *buf, enum tcp_order order, uint8_t id,
		      const struct tcp_hdr *hdr)
{
	size_t len = TCP_HDR_LEN + hdr->region_cnt * TCP_REGION_LEN;
	uint8_t *p = buf;

	memset(p, 0, TCP_HDR_LEN);
	p[0] = VERSION;
	p[1] = (uint8_t)hdr->op;
	p[5] = (uint8_t)hdr->region_cnt;
	p[6] = (uint8_t)len;
	p[7] = id;
	tcp_put64(p + 8, order, len + hdr->data_len);
	p += TCP_HDR_LEN;
	for (unsigned int i = 0; i < hdr->region_cnt; i++) {
		tcp_put64(p, order, hdr->region[i].addr);
		tcp_put64(p + 8, order, hdr->region[i].len);
		tcp_put64(p + 16, order, hdr->region[i].key);
		p += TCP_REGION_LEN;
	}
	return len;
}

static bool tcp_has_regions(uint8_t op)
{
	return op == TCP_READ_REQ || op == TCP_WRITE;
}

/* What is wrong with the first 16 bytes; NULL: nothing. */
static const char *tcp_base_fault(const uint8_t *p, uint64_t size)
{
	/* The answer to a READ repeats the number of the request. */
	unsigned int cnt = tcp_has_regions(p[1]) ? p[5] : 0;

	if (p[0] != VERSION)
		return "a message of another version, or none at all";
	if (p[1] != TCP_MSG && p[1] != TCP_READ_RSP && !tcp_has_regions(p[1]))
		return "an unknown operation";
	if (p[2] || p[3] || p[4])
		return "flags that were not agreed on";
	if (tcp_has_regions(p[1]) && (cnt == 0 || cnt > TCP_REGIONS_MAX))
		return "a wrong number of memory regions";
	if (p[6] != TCP_HDR_LEN + cnt * TCP_REGION_LEN)
		return "a header of the wrong length";
	if (size < p[6] || size > INT64_MAX)
		return "a message of an impossible length";
	return NULL;
}

/* What is wrong with the regions for the data; NULL: nothing. */
static const char *tcp_region_fault(const struct tcp_hdr *hdr)
{
	uint64_t sum = 0;

	for (unsigned int i = 0; i < hdr->region_cnt; i++) {
		if (hdr->region[i].len > INT64_MAX - sum)
			return "memory regions of an impossible length";
		sum += hdr->region[i].len;
	}
	if (hdr->op == TCP_READ_REQ && hdr->data_len)
		return "a READ that brings data";
	if (hdr->op == TCP_WRITE && hdr->data_len != sum)
		return "a WRITE that does not fit its memory regions";
	return NULL;
}

int tcp_hdr_decode(const void *buf, size_t len, enum tcp_order order,
		   struct tcp_hdr *ret_hdr, const char **ret_why)
{
	const uint8_t *p = buf;
	uint64_t size;

	if (len < TCP_HDR_LEN)
		return 0;
	size = tcp_get64(p + 8, order);
	*ret_why = tcp_base_fault(p, size);
	if (*ret_why)
		return -EBADMSG;
	if (len < p[6])
		return 0;
	ret_hdr->op = p[1];
	ret_hdr->region_cnt = tcp_has_regions(p[1]) ? p[5] : 0;
	ret_hdr->data_len = size - p[6];
	for (unsigned int i = 0; i < ret_hdr->region_cnt; i++) {
		const uint8_t *r = p + TCP_HDR_LEN + i * TCP_REGION_LEN;

		ret_hdr->region[i].addr = tcp_get64(r, order);
		ret_hdr->region[i].len = tcp_get64(r + 8, order);
		ret_hdr->region[i].key = tcp_get64(r + 16, order);
	}
	*ret_why = tcp_region_fault(ret_hdr);
	return *ret_why ? -EBADMSG : p[6];
}
