/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * GnuTLS is asked for the handshake only. Its session then goes, and its keys to records.c.
 *
 * Bytes of the peer lie in a buffer: those before in_off were used, those up to in_whole
 * are whole records, those up to in_len are there. What was read of a record but not yet
 * taken is at plain. Bytes for the peer lie in another buffer, from out_off to out_len.
 */
#include "transport/tcp/tls.h"

#include <assert.h>
#include <errno.h>
#include <linux/tls.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include <gnutls/gnutls.h>

#include "base/secret.h"
#include "protocol/wire.h"
#include "transport/tcp/records.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

/* Of each buffer, before the channel is open. */
#define SHAKE_LEN 4096u
#define OPEN_LEN \
	(TLS_WRITE_MAX + (TLS_WRITE_MAX / TLS_CONTENT_MAX + 1) * TLS_EXTRA_LEN)
/* Less free memory than this is not worth a read. */
#define READ_MIN (64u << 10)

/* The only ones that we send and take (docs/tls.md). */
#define PRIORITY                                                         \
	"NONE:+VERS-TLS1.3:+COMP-NULL:+ECDHE-PSK:+AEAD:"                 \
	"+AES-128-GCM:+CHACHA20-POLY1305:+GROUP-X25519:+GROUP-SECP256R1" \
	":+SIGN-ALL:%SERVER_PRECEDENCE:%DISABLE_TLS13_COMPAT_MODE"

/* Alerts (RFC 8446, 6) that tell why a key does not fit. */
#define ALERT_CLOSE_NOTIFY     0
#define ALERT_DECRYPT_ERROR    51
#define ALERT_UNKNOWN_IDENTITY 115

#define NEW_SESSION_TICKET 4

struct tls_bytes {
	uint8_t *p;
	size_t off;
	size_t len;
	size_t size;
};

struct tcp_tls {
	bool server;
	bool up;
	bool open;
	/* The server has answered nothing, and can begin again with what is in
	 * the buffer. */
	bool hello;
	gnutls_session_t session;
	gnutls_psk_client_credentials_t client_psk;
	gnutls_psk_server_credentials_t server_psk;
	const struct xp_keyring *keys;
	struct xp_key key;
	unsigned int nth; /* secret of the name */
	bool found;	  /* there is one */
	bool asked;	  /* the peer has named a key */
	struct tls_bytes in;
	size_t in_whole;
	struct tls_bytes out;
	uint8_t *plain;
	size_t plain_len;
	struct tls_half rx;
	struct tls_half tx;
	uint8_t *big; /* both buffers, once the channel is open; NULL: not */
	uint8_t small[2][SHAKE_LEN];
};

/* ---- bytes ---- */

/* Bytes of the record at @off, with header; 0: not even its header is there. */
static size_t tls_record_len(const struct tls_bytes *b, size_t off)
{
	if (b->len - off < TLS_HDR_LEN)
		return 0;
	return TLS_HDR_LEN + wire_get16(b->p + off + 3);
}

static void tls_find_whole(struct tcp_tls *t)
{
	size_t n;

	while ((n = tls_record_len(&t->in, t->in_whole)) > 0 &&
	       t->in.len - t->in_whole >= n)
		t->in_whole += n;
}

static ssize_t tls_pull(gnutls_transport_ptr_t p, void *buf, size_t len)
{
	struct tcp_tls *t = p;

	if (len > t->in_whole - t->in.off)
		len = t->in_whole - t->in.off;
	if (len == 0) {
		gnutls_transport_set_errno(t->session, EAGAIN);
		return -1;
	}
	memcpy(buf, t->in.p + t->in.off, len);
	t->in.off += len;
	return (ssize_t)len;
}

static int tls_pull_waits(gnutls_transport_ptr_t p, unsigned int ms)
{
	const struct tcp_tls *t = p;

	return t->in_whole > t->in.off;
}

static ssize_t tls_push(gnutls_transport_ptr_t p, const void *buf, size_t len)
{
	struct tcp_tls *t = p;

	if (len > t->out.size - t->out.len) {
		gnutls_transport_set_errno(t->session, EMSGSIZE);
		return -1;
	}
	memcpy(t->out.p + t->out.len, buf, len);
	t->out.len += len;
	t->hello = false;
	return (ssize_t)len;
}

/* ---- keys ---- */

static int tls_give_secret(const struct xp_key *key, gnutls_datum_t *ret)
{
	ret->data = gnutls_malloc(key->len);
	if (!ret->data)
		return -1;
	memcpy(ret->data, key->secret, key->len);
	ret->size = (unsigned int)key->len;
	return 0;
}

static int tls_client_key(gnutls_session_t s, gnutls_datum_t *name,
			  gnutls_datum_t *ret)
{
	struct tcp_tls *t = gnutls_session_get_ptr(s);
	size_t len = strlen(t->key.name);

	name->data = gnutls_malloc(len + 1);
	if (!name->data)
		return -1;
	memcpy(name->data, t->key.name, len + 1);
	name->size = (unsigned int)len;
	return tls_give_secret(&t->key, ret);
}

static int tls_server_key(gnutls_session_t s, const gnutls_datum_t *name,
			  gnutls_datum_t *ret)
{
	struct tcp_tls *t = gnutls_session_get_ptr(s);
	char text[XP_KEY_NAME_SIZE] = "";
	int err = -ENOENT;

	t->asked = true;
	if (xp_key_name_is_valid((const char *)name->data, name->size)) {
		memcpy(text, name->data, name->size);
		if (t->keys)
			err = t->keys->find(t->keys->ctx, text, t->nth,
					    &t->key);
		memcpy(t->key.name, text, sizeof(text));
	}
	t->found = err == 0;
	return err ? -1 : tls_give_secret(&t->key, ret);
}

/* ---- beginning ---- */

static void tls_end_session(struct tcp_tls *t)
{
	if (t->session)
		gnutls_deinit(t->session);
	t->session = NULL;
	if (t->client_psk)
		gnutls_psk_free_client_credentials(t->client_psk);
	t->client_psk = NULL;
	if (t->server_psk)
		gnutls_psk_free_server_credentials(t->server_psk);
	t->server_psk = NULL;
	xp_key_wipe(&t->key);
}

static int tls_set_credentials(struct tcp_tls *t)
{
	int ret;

	if (t->server) {
		ret = gnutls_psk_allocate_server_credentials(&t->server_psk);
		if (ret < 0)
			return ret;
		gnutls_psk_set_server_credentials_function2(t->server_psk,
							    tls_server_key);
		return gnutls_credentials_set(t->session, GNUTLS_CRD_PSK,
					      t->server_psk);
	}
	ret = gnutls_psk_allocate_client_credentials(&t->client_psk);
	if (ret < 0)
		return ret;
	gnutls_psk_set_client_credentials_function2(t->client_psk,
						    tls_client_key);
	return gnutls_credentials_set(t->session, GNUTLS_CRD_PSK,
				      t->client_psk);
}

static int tls_start_session(struct tcp_tls *t)
{
	unsigned int flags =
		GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL | GNUTLS_NO_TICKETS;
	int ret = gnutls_init(&t->session, flags | (t->server ? GNUTLS_SERVER
							      : GNUTLS_CLIENT));

	if (ret < 0) {
		t->session = NULL;
		return ret;
	}
	ret = gnutls_priority_set_direct(t->session, PRIORITY, NULL);
	if (ret < 0)
		return ret;
	gnutls_session_set_ptr(t->session, t);
	gnutls_transport_set_ptr(t->session, t);
	gnutls_transport_set_pull_function(t->session, tls_pull);
	gnutls_transport_set_pull_timeout_function(t->session, tls_pull_waits);
	gnutls_transport_set_push_function(t->session, tls_push);
	gnutls_handshake_set_timeout(t->session, GNUTLS_INDEFINITE_TIMEOUT);
	gnutls_handshake_set_max_packet_length(t->session, SHAKE_LEN);
	return tls_set_credentials(t);
}

static int tls_new(bool server, struct tcp_tls **ret, struct error *e)
{
	struct tcp_tls *t = secret_map(sizeof(*t));
	int err;

	if (!t)
		return error_set(e, -ENOMEM, "out of memory");
	t->server = server;
	t->hello = server;
	t->in.p = t->small[0];
	t->in.size = SHAKE_LEN;
	t->out.p = t->small[1];
	t->out.size = SHAKE_LEN;
	err = tls_start_session(t);
	if (err < 0) {
		tls_free(t);
		return error_set(e, -ENOMEM, "TLS: %s", gnutls_strerror(err));
	}
	*ret = t;
	return 0;
}

int tls_new_client(const struct xp_key *key, struct tcp_tls **ret,
		   struct error *e)
{
	int err;

	if (!xp_key_name_is_valid(key->name, strlen(key->name)) ||
	    key->len < XP_KEY_LEN_MIN || key->len > XP_KEY_LEN_MAX)
		return error_set(e, -EINVAL, "this is no key for TLS");
	err = tls_new(false, ret, e);
	if (!err)
		(*ret)->key = *key;
	return err;
}

int tls_new_server(const struct xp_keyring *keys, const void *first, size_t len,
		   struct tcp_tls **ret, struct error *e)
{
	int err = tls_new(true, ret, e);

	if (err)
		return err;
	(*ret)->keys = keys;
	assert(len <= SHAKE_LEN);
	memcpy((*ret)->in.p, first, len);
	tls_received(*ret, len);
	return 0;
}

void tls_free(struct tcp_tls *t)
{
	if (!t)
		return;
	tls_end_session(t);
	tls_half_fini(&t->rx);
	tls_half_fini(&t->tx);
	secret_unmap(t->big, 2 * OPEN_LEN);
	secret_unmap(t, sizeof(*t));
}

const char *tls_name(const struct tcp_tls *t)
{
	return t->up ? t->key.name : NULL;
}

/* ---- the handshake ---- */

static int tls_take_keys(struct tcp_tls *t)
{
	gnutls_cipher_algorithm_t alg = gnutls_cipher_get(t->session);
	struct tls_half *half[2] = { &t->tx, &t->rx };
	unsigned char seq[8];
	gnutls_datum_t mac;
	gnutls_datum_t key;
	gnutls_datum_t iv;
	int err = 0;

	for (unsigned int read = 0; read < 2 && !err; read++) {
		if (gnutls_record_get_state(t->session, read, &mac, &iv, &key,
					    seq) < 0)
			return -ENOTSUP;
		err = wire_get64(seq)
			      ? -ENOTSUP
			      : tls_half_init(half[read], alg, &key, &iv);
	}
	return err;
}

/* GnuTLS says that it is done: is it what was wanted? */
static bool tls_is_proved(const struct tcp_tls *t)
{
	return gnutls_protocol_get_version(t->session) == GNUTLS_TLS1_3 &&
	       gnutls_auth_get_type(t->session) == GNUTLS_CRD_PSK &&
	       !gnutls_session_is_resumed(t->session);
}

static int tls_finish(struct tcp_tls *t, struct error *e)
{
	int err = tls_is_proved(t) ? tls_take_keys(t) : -ENOTSUP;

	tls_end_session(t);
	if (err)
		return error_set(e, -ENOPROTOOPT,
				 "TLS: the connection has no usable keys");
	t->up = true;
	return tls_has_unsent(t) ? TLS_SEND : TLS_UP;
}

static void tls_put_alert(struct tcp_tls *t, uint8_t alert)
{
	const uint8_t record[] = { TLS_ALERT, 3, 3, 0, 2, 2, alert };

	memcpy(t->out.p, record, sizeof(record));
	t->out.off = 0;
	t->out.len = sizeof(record);
}

static int tls_server_failed(struct tcp_tls *t, int ret, struct error *e)
{
	bool wrong = ret == GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER;
	const char *name = *t->key.name ? t->key.name : "that it wants";

	if (t->hello && t->asked && !t->found && t->nth == 0) {
		tls_put_alert(t, ALERT_UNKNOWN_IDENTITY);
		return error_set(e, -ENOKEY,
				 t->keys ? "TLS: this target has no key %s"
					 : "TLS: this target has no keys (the "
					   "peer wants %s)",
				 name);
	}
	if (t->hello && t->asked && (wrong || t->nth > 0)) {
		tls_put_alert(t, ALERT_DECRYPT_ERROR);
		return error_set(e, -EKEYREJECTED,
				 "TLS: the peer has another secret for the key "
				 "%s",
				 name);
	}
	gnutls_alert_send_appropriate(t->session, ret);
	if (ret == GNUTLS_E_FATAL_ALERT_RECEIVED)
		return error_set(
			e, -EPROTO, "TLS: the peer gave up (%s)",
			gnutls_alert_get_name(gnutls_alert_get(t->session)));
	return error_set(e, -EPROTO, "TLS: %s", gnutls_strerror(ret));
}

static int tls_client_refused(const struct tcp_tls *t, struct error *e)
{
	gnutls_alert_description_t alert = gnutls_alert_get(t->session);

	switch ((int)alert) {
	case ALERT_UNKNOWN_IDENTITY:
		return error_set(e, -ENOKEY, "the target has no key %s",
				 t->key.name);
	case ALERT_DECRYPT_ERROR:
		return error_set(e, -EKEYREJECTED,
				 "the target has another secret for the key %s",
				 t->key.name);
	default:
		return error_set(e, -ENOPROTOOPT,
				 "the other side refuses TLS (%s)",
				 gnutls_alert_get_name(alert));
	}
}

static int tls_client_failed(struct tcp_tls *t, int ret, struct error *e)
{
	if (ret == GNUTLS_E_FATAL_ALERT_RECEIVED)
		return tls_client_refused(t, e);
	gnutls_alert_send_appropriate(t->session, ret);
	return error_set(e, -ENOPROTOOPT,
			 "what answers there has no TLS 1.3 with this key (%s)",
			 gnutls_strerror(ret));
}

/* Another secret of the name may fit; nothing was answered. */
static bool tls_tries_again(struct tcp_tls *t, int ret)
{
	if (ret != GNUTLS_E_RECEIVED_ILLEGAL_PARAMETER || !t->hello ||
	    !t->found || t->nth + 1 == XP_KEY_SECRETS_MAX)
		return false;
	tls_end_session(t);
	t->nth++;
	t->in.off = 0;
	return tls_start_session(t) == 0;
}

/* The next record must fit behind what is still needed. */
static bool tls_is_too_long(const struct tcp_tls *t)
{
	size_t len = tls_record_len(&t->in, t->in_whole);
	size_t used = t->in_whole - (t->hello ? 0 : t->in.off);

	return (len ? len : TLS_HDR_LEN) > t->in.size - used;
}

int tls_handshake(struct tcp_tls *t, struct error *e)
{
	int ret;

	if (tls_has_unsent(t))
		return TLS_SEND;
	if (t->up)
		return TLS_UP;
	do {
		ret = gnutls_handshake(t->session);
	} while (ret == GNUTLS_E_INTERRUPTED ||
		 ret == GNUTLS_E_WARNING_ALERT_RECEIVED ||
		 (ret < 0 && tls_tries_again(t, ret)));
	if (ret == GNUTLS_E_SUCCESS)
		return tls_finish(t, e);
	if (!t->session)
		return error_set(e, -ENOMEM, "TLS: out of memory");
	if (gnutls_error_is_fatal(ret))
		return t->server ? tls_server_failed(t, ret, e)
				 : tls_client_failed(t, ret, e);
	if (tls_has_unsent(t))
		return TLS_SEND;
	if (tls_is_too_long(t))
		return t->server
			       ? error_set(e, -EMSGSIZE,
					   "TLS: the peer sent more than %u "
					   "bytes of a handshake",
					   SHAKE_LEN)
			       : error_set(e, -ENOPROTOOPT,
					   "what answers there has no TLS 1.3 "
					   "with this key");
	return TLS_RECV;
}

/* ---- reading ---- */

static int tls_take_alert(const uint8_t *content, size_t len)
{
	return len == 2 && content[1] == ALERT_CLOSE_NOTIFY ? -ESHUTDOWN
							    : -EPROTO;
}

/* @len bytes of another type than data. */
static int tls_take_other(enum tls_type type, const uint8_t *content,
			  size_t len)
{
	if (type == TLS_ALERT)
		return tls_take_alert(content, len);
	if (type == TLS_HANDSHAKE && len > 0 &&
	    content[0] == NEW_SESSION_TICKET)
		return 0;
	return -EPROTO;
}

/*
 * Opens the next record, into @to if @room is enough for it, else where it lies (plain).
 * Return: the bytes at @to; -EAGAIN: it is not there; else as tls_read().
 */
static int tls_open_next(struct tcp_tls *t, uint8_t *to, size_t room)
{
	uint8_t *record = t->in.p + t->in.off;
	size_t len = tls_record_len(&t->in, t->in.off);
	enum tls_type type;
	bool direct;
	int n;

	if (len > TLS_HDR_LEN + TLS_PEER_BODY_MAX || len > t->in.size)
		return -EPROTO;
	if (len == 0 || t->in.len - t->in.off < len)
		return -EAGAIN;
	direct = room >= len - TLS_HDR_LEN - TLS_TAG_LEN;
	if (!direct)
		to = record + TLS_HDR_LEN;
	n = tls_open(&t->rx, record, len - TLS_HDR_LEN, to, &type);
	if (n < 0)
		return n;
	t->in.off += len;
	if (type != TLS_DATA)
		return tls_take_other(type, to, (size_t)n);
	if (direct)
		return n;
	t->plain = to;
	t->plain_len = (size_t)n;
	return 0;
}

static size_t tls_take_plain(struct tcp_tls *t, uint8_t *to, size_t room)
{
	size_t n = t->plain_len < room ? t->plain_len : room;

	memcpy(to, t->plain, n);
	t->plain += n;
	t->plain_len -= n;
	return n;
}

ssize_t tls_read(struct tcp_tls *t, const struct iovec *iov, size_t cnt)
{
	size_t total = 0;
	size_t off = 0;
	int n;

	while (cnt > 0) {
		uint8_t *to = (uint8_t *)iov->iov_base + off;
		size_t room = iov->iov_len - off;

		if (room == 0) {
			iov++;
			cnt--;
			off = 0;
			continue;
		}
		n = t->plain_len ? (int)tls_take_plain(t, to, room)
				 : tls_open_next(t, to, room);
		/* An error is there again at the next call. */
		if (n < 0)
			return total ? (ssize_t)total : n;
		total += (size_t)n;
		off += (size_t)n;
	}
	return (ssize_t)total;
}

/* ---- writing ---- */

/* Moves up to @room bytes of @iov from *off on, over all its pieces. */
static size_t tls_gather(uint8_t *to, size_t room, const struct iovec **iov,
			 size_t *cnt, size_t *off)
{
	size_t total = 0;

	while (*cnt > 0 && total < room) {
		size_t n = (*iov)->iov_len - *off;

		if (n > room - total)
			n = room - total;
		memcpy(to + total, (uint8_t *)(*iov)->iov_base + *off, n);
		total += n;
		*off += n;
		if (*off == (*iov)->iov_len) {
			++*iov;
			--*cnt;
			*off = 0;
		}
	}
	return total;
}

int tls_write(struct tcp_tls *t, const struct iovec *iov, size_t cnt)
{
	size_t off = 0;

	assert(t->out.off == t->out.len);
	t->out.off = 0;
	t->out.len = 0;
	while (cnt > 0) {
		uint8_t *record = t->out.p + t->out.len;
		size_t room = t->out.size - t->out.len;
		size_t len;
		int n;

		assert(room > TLS_EXTRA_LEN);
		room -= TLS_EXTRA_LEN;
		if (room > TLS_CONTENT_MAX)
			room = TLS_CONTENT_MAX;
		len = tls_gather(record + TLS_HDR_LEN, room, &iov, &cnt, &off);
		n = tls_seal(&t->tx, TLS_DATA, record, len);
		if (n < 0) {
			t->out.len = 0;
			return n;
		}
		t->out.len += (size_t)n;
	}
	return 0;
}

/* ---- moving bytes ---- */

void tls_prep_send(struct tcp_tls *t, int fd, struct io_uring_sqe *sqe)
{
	io_uring_prep_send(sqe, fd, t->out.p + t->out.off,
			   t->out.len - t->out.off, MSG_NOSIGNAL | MSG_WAITALL);
}

bool tls_sent(struct tcp_tls *t, size_t n)
{
	assert(n <= t->out.len - t->out.off);
	t->out.off += n;
	if (t->out.off < t->out.len)
		return false;
	t->out.off = 0;
	t->out.len = 0;
	return true;
}

bool tls_has_unsent(const struct tcp_tls *t)
{
	return t->out.len > t->out.off;
}

/* What lies in front of the buffer is needed while a hello may be read again, and while
 * plain bytes are there. */
static void tls_make_room(struct tcp_tls *t)
{
	struct tls_bytes *in = &t->in;

	if (t->hello || t->plain_len || in->off == 0 ||
	    (in->len > in->off && in->size - in->len >= READ_MIN))
		return;
	memmove(in->p, in->p + in->off, in->len - in->off);
	in->len -= in->off;
	if (!t->up)
		t->in_whole -= in->off;
	in->off = 0;
}

size_t tls_prep_recv(struct tcp_tls *t, int fd, struct io_uring_sqe *sqe,
		     size_t max)
{
	size_t at;
	size_t len;

	tls_make_room(t);
	at = t->up ? t->in.off : t->in_whole;
	len = tls_record_len(&t->in, at);
	len = (len ? len : TLS_HDR_LEN) - (t->in.len - at);
	if (t->open)
		len = max;
	if (len > t->in.size - t->in.len)
		len = t->in.size - t->in.len;
	io_uring_prep_recv(sqe, fd, t->in.p + t->in.len, len, 0);
	return len;
}

void tls_received(struct tcp_tls *t, size_t n)
{
	assert(n <= t->in.size - t->in.len);
	t->in.len += n;
	if (!t->up)
		tls_find_whole(t);
}

bool tls_is_half(const struct tcp_tls *t)
{
	return t->in.len > t->in.off || t->plain_len;
}

/* ---- the channel is open ---- */

int tls_begin(struct tcp_tls *t, int fd)
{
	size_t left = t->in.len - t->in.off;
	uint8_t *big;

	assert(t->up && t->out.len == t->out.off);
	if (tls_half_offload(&t->tx, fd, true) && !tls_is_half(t))
		tls_half_offload(&t->rx, fd, false);
	t->open = true;
	if (t->tx.kernel && t->rx.kernel)
		return 0;
	big = secret_map(2 * OPEN_LEN);
	if (!big)
		return -ENOMEM;
	t->big = big;
	/* Plain bytes that were not taken stay where they are. */
	memcpy(big, t->in.p + t->in.off, left);
	t->in = (struct tls_bytes){ .p = big, .len = left, .size = OPEN_LEN };
	t->out = (struct tls_bytes){ .p = big + OPEN_LEN, .size = OPEN_LEN };
	return 0;
}

bool tls_kernel_sends(const struct tcp_tls *t)
{
	return t->tx.kernel;
}

bool tls_kernel_receives(const struct tcp_tls *t)
{
	return t->rx.kernel;
}

bool tls_count_sent(struct tcp_tls *t, size_t n)
{
	return tls_half_count(&t->tx, n);
}

bool tls_count_received(struct tcp_tls *t, size_t n)
{
	return tls_half_count(&t->rx, n);
}

int tls_kernel_failed(int fd)
{
	char control[CMSG_SPACE(sizeof(unsigned char))];
	uint8_t content[256];
	struct iovec iov = { content, sizeof(content) };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	ssize_t n = recvmsg(fd, &msg, MSG_DONTWAIT);
	const struct cmsghdr *c = n < 0 ? NULL : CMSG_FIRSTHDR(&msg);

	if (!c || c->cmsg_level != SOL_TLS ||
	    c->cmsg_type != TLS_GET_RECORD_TYPE || *CMSG_DATA(c) != TLS_ALERT)
		return -EPROTO;
	return tls_take_alert(content, (size_t)n);
}

/* ---- the end ---- */

void tls_send_last(struct tcp_tls *t, int fd)
{
	if (tls_has_unsent(t))
		send(fd, t->out.p + t->out.off, t->out.len - t->out.off,
		     MSG_DONTWAIT | MSG_NOSIGNAL);
	t->out.off = t->out.len;
}

static void tls_kernel_says_bye(int fd, uint8_t *content, size_t len)
{
	char control[CMSG_SPACE(sizeof(unsigned char))] = { 0 };
	struct iovec iov = { content, len };
	struct msghdr msg = {
		.msg_iov = &iov,
		.msg_iovlen = 1,
		.msg_control = control,
		.msg_controllen = sizeof(control),
	};
	struct cmsghdr *c = CMSG_FIRSTHDR(&msg);

	c->cmsg_level = SOL_TLS;
	c->cmsg_type = TLS_SET_RECORD_TYPE;
	c->cmsg_len = CMSG_LEN(sizeof(unsigned char));
	*CMSG_DATA(c) = TLS_ALERT;
	sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
}

void tls_say_bye(struct tcp_tls *t, int fd)
{
	uint8_t content[2] = { 1, ALERT_CLOSE_NOTIFY };
	uint8_t record[TLS_EXTRA_LEN + sizeof(content)];
	int n;

	if (!t->up || tls_has_unsent(t))
		return;
	if (t->tx.kernel) {
		tls_kernel_says_bye(fd, content, sizeof(content));
		return;
	}
	memcpy(record + TLS_HDR_LEN, content, sizeof(content));
	n = tls_seal(&t->tx, TLS_ALERT, record, sizeof(content));
	if (n > 0)
		send(fd, record, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL);
}
