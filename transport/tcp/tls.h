/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * One TLS connection of the tcp provider, as bytes in memory: the handshake by GnuTLS, then
 * records (records.h). The caller moves the bytes, with the ring. docs/tls.md is the
 * design.
 *
 * Order of calls: tls_new_*(), tls_handshake() until TLS_UP, tls_read() and tls_write(),
 * tls_begin() when the channel opens, then the same again.
 *
 * Thread: that of the reactor that has the socket.
 */
#ifndef TRANSPORT_TCP_TLS_H
#define TRANSPORT_TCP_TLS_H

#include <liburing.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/error.h"
#include "transport/keys.h"

struct tcp_tls;

/* First byte of a ClientHello's record. */
#define TLS_FIRST_BYTE 22
/* Bytes that tls_write() takes. */
#define TLS_WRITE_MAX (256u << 10)

enum tls_step {
	TLS_UP,	  /* both sides have proved that they have the secret */
	TLS_SEND, /* tls_prep_send(), then again */
	TLS_RECV, /* tls_prep_recv(), then again */
};

/* For the side that connects. @key is copied. -ENOMEM;
 * -EINVAL: it is no key. */
int tls_new_client(const struct xp_key *key, struct tcp_tls **ret,
		   struct error *e);
/* For the side that accepts. @keys (NULL: there are none) must live until the handshake is
 * over. @first: @len bytes that the peer has sent, at most 512. */
int tls_new_server(const struct xp_keyring *keys, const void *first, size_t len,
		   struct tcp_tls **ret, struct error *e);
/* NULL is fine. */
void tls_free(struct tcp_tls *t);

/*
 * Goes on with what is there. Return: an enum tls_step; -errno: the handshake failed, and
 * @e has a clause about it, without the name of the peer. tls_send_last() then tells the
 * peer. At the connecting side:
 *   -ENOKEY       the target has no key of that name
 *   -EKEYREJECTED it has another secret for the name
 *   -ENOPROTOOPT  the answer is no TLS 1.3 with a pre-shared key
 */
int tls_handshake(struct tcp_tls *t, struct error *e);

/* The name of the key that was proved; NULL before TLS_UP. Valid as long as @t. */
const char *tls_name(const struct tcp_tls *t);

/*
 * As readv(): plain bytes from records that are there. -EAGAIN: TLS_RECV first;
 * -ESHUTDOWN: the peer has said that it closes the connection; -EBADMSG: a record does
 * not decrypt; -EPROTO: it is none that the peer may send; -EKEYEXPIRED.
 */
ssize_t tls_read(struct tcp_tls *t, const struct iovec *iov, size_t cnt);

/* Makes records of at most TLS_WRITE_MAX bytes (4,000 before tls_begin()), for TLS_SEND.
 * What was made before has been sent. -EIO, -EKEYEXPIRED. */
int tls_write(struct tcp_tls *t, const struct iovec *iov, size_t cnt);

/* Operations of the ring, and what they have moved. tls_sent() returns true when all is
 * sent. Before tls_begin(), at most the rest of one record is received; then at most
 * @max. */
void tls_prep_send(struct tcp_tls *t, int fd, struct io_uring_sqe *sqe);
bool tls_sent(struct tcp_tls *t, size_t n);
bool tls_has_unsent(const struct tcp_tls *t);
size_t tls_prep_recv(struct tcp_tls *t, int fd, struct io_uring_sqe *sqe,
		     size_t max);
void tls_received(struct tcp_tls *t, size_t n);
/* Has a record begun, or is one there that was not read? */
bool tls_is_half(const struct tcp_tls *t);

/*
 * The channel is open: gives what the kernel takes to the kernel. Return: 0, or -ENOMEM.
 * tls_read() and tls_write() are then for the directions that the kernel has not
 * taken.
 */
int tls_begin(struct tcp_tls *t, int fd);
bool tls_kernel_sends(const struct tcp_tls *t);
bool tls_kernel_receives(const struct tcp_tls *t);
/* The kernel has encrypted @n bytes. False: the key has been used enough. */
bool tls_count_sent(struct tcp_tls *t, size_t n);
bool tls_count_received(struct tcp_tls *t, size_t n);
/* After -EIO of the kernel: what tls_read() would say. */
int tls_kernel_failed(int fd);

/* Sends what is left, such as an alert, if the socket takes it. */
void tls_send_last(struct tcp_tls *t, int fd);
/* Sends close_notify if the socket takes it. Nothing else may be under way. */
void tls_say_bye(struct tcp_tls *t, int fd);

#endif
