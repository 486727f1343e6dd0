/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/verbs/verbs.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/memlock.h"
#include "base/size.h"

struct wc_reason {
	int err;
	const char *text;
};

static const struct wc_reason wc_reasons[] = {
	[IBV_WC_SUCCESS] = { 0, "success" },
	[IBV_WC_LOC_LEN_ERR] = { -EMSGSIZE, "local length error: the peer sent "
					    "more than fits" },
	[IBV_WC_LOC_QP_OP_ERR] = { -EIO, "local queue pair operation error" },
	[IBV_WC_LOC_EEC_OP_ERR] = { -EIO, "local EE context operation error" },
	[IBV_WC_LOC_PROT_ERR] = { -EFAULT, "local protection error" },
	[IBV_WC_WR_FLUSH_ERR] = { -ECANCELED,
				  "flushed: the queue pair has failed" },
	[IBV_WC_MW_BIND_ERR] = { -EIO, "memory window bind error" },
	[IBV_WC_BAD_RESP_ERR] = { -EIO, "the peer answered with nonsense" },
	[IBV_WC_LOC_ACCESS_ERR] = { -EFAULT, "local access error" },
	[IBV_WC_REM_INV_REQ_ERR] = { -EREMOTEIO,
				     "the peer calls our request invalid" },
	[IBV_WC_REM_ACCESS_ERR] = { -EREMOTEIO, "remote access error" },
	[IBV_WC_REM_OP_ERR] = { -EREMOTEIO, "remote operation error" },
	[IBV_WC_RETRY_EXC_ERR] = { -ETIMEDOUT,
				   "the peer does not answer: transport "
				   "retries exceeded" },
	[IBV_WC_RNR_RETRY_EXC_ERR] = { -ETIMEDOUT,
				       "the peer has no receive buffer: "
				       "receiver-not-ready retries exceeded" },
	[IBV_WC_REM_ABORT_ERR] = { -ECONNABORTED, "the peer aborted" },
	[IBV_WC_FATAL_ERR] = { -EIO, "fatal error of the device" },
	[IBV_WC_RESP_TIMEOUT_ERR] = { -ETIMEDOUT,
				      "the peer's response timed out" },
	[IBV_WC_GENERAL_ERR] = { -EIO, "general error of the device" },
};

static const struct wc_reason *wc_reason(enum ibv_wc_status status)
{
	static const struct wc_reason unknown = {
		-EIO, "a completion status unknown to us"
	};

	if ((unsigned int)status >= ARRAY_SIZE(wc_reasons) ||
	    !wc_reasons[status].text)
		return &unknown;
	return &wc_reasons[status];
}

int vb_wc_errno(enum ibv_wc_status status)
{
	return wc_reason(status)->err;
}

const char *vb_wc_text(enum ibv_wc_status status)
{
	return wc_reason(status)->text;
}

/* Reject reasons: InfiniBand Architecture, volume 1, "Rejection Reason". */
struct reject_reason {
	int status;
	int err;
	const char *text;
};

static const struct reject_reason reject_reasons[] = {
	{ 1, -EAGAIN, "the peer has no queue pair left" },
	{ 3, -EAGAIN, "the peer has no resources left" },
	{ 4, -ETIMEDOUT, "the peer timed out" },
	{ 5, -EOPNOTSUPP, "the peer does not support the request" },
	{ 8, -ECONNREFUSED, "nobody listens on that port" },
	{ 9, -EOPNOTSUPP, "the peer does not speak this transport" },
	{ 10, -EISCONN,
	  "the peer still has an older connection of this queue pair (stale "
	  "connection)" },
	{ 12, -EHOSTUNREACH, "the peer does not have that GID" },
	{ 24, -EREMOTE, "the peer redirects to another port" },
	{ 28, -ECONNREFUSED, "the peer rejected the connection" },
	{ 30, -EISCONN, "the peer already has this connection" },
	{ -ECONNREFUSED, -ECONNREFUSED, "nobody listens on that port" },
	{ -ETIMEDOUT, -ETIMEDOUT, "the peer does not answer" },
	{ -ECONNRESET, -ECONNRESET, "the peer reset the connection" },
};

static const struct reject_reason *reject_reason(int status)
{
	static const struct reject_reason unknown = {
		0, -ECONNREFUSED, "the peer rejected the connection"
	};

	for (size_t i = 0; i < ARRAY_SIZE(reject_reasons); i++) {
		if (reject_reasons[i].status == status)
			return &reject_reasons[i];
	}
	return &unknown;
}

int vb_reject_errno(int status)
{
	return reject_reason(status)->err;
}

const char *vb_reject_text(int status)
{
	return reject_reason(status)->text;
}

const char *vb_cm_text(enum rdma_cm_event_type type, int status)
{
	switch (status) {
	case -ETIMEDOUT:
		return "no answer from that address";
	case -EHOSTUNREACH:
	case -ENETUNREACH:
		return "there is no route to that address";
	case -ENODEV:
	case -EADDRNOTAVAIL:
		return "no RDMA device of this machine reaches that address";
	case -ECONNREFUSED:
		return "nobody listens on that port";
	}
	switch (type) {
	case RDMA_CM_EVENT_ADDR_ERROR:
		return "the address cannot be resolved";
	case RDMA_CM_EVENT_ROUTE_ERROR:
		return "there is no route to that address";
	case RDMA_CM_EVENT_UNREACHABLE:
		return "the peer cannot be reached";
	default:
		return "the connection could not be made";
	}
}

void vb_mr_error(struct error *e, int err, size_t len, const char *device)
{
	char size[SIZE_TEXT_SIZE], most[SIZE_TEXT_SIZE], used[SIZE_TEXT_SIZE];
	uint64_t limit = memlock_limit();

	size_format(len, size);
	if ((err != -ENOMEM && err != -EAGAIN) || limit == MEMLOCK_ANY) {
		error_set(e, err, "cannot register %s with %s: %s", size,
			  device, strerror(-err));
		return;
	}
	error_set(
		e, -ENOMEM,
		"cannot lock %s for %s: at most %s may be locked (ulimit -l), "
		"%s are already; raise the limit "
		"(/etc/security/limits.conf, LimitMEMLOCK=); see rdma-doctor",
		size, device, size_format(limit, most),
		size_format(memlock_used(), used));
}
