/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Records of TLS 1.3 (RFC 8446, 5): how one direction of a connection encrypts. Made and
 * opened here, by GnuTLS' ciphers, or by the kernel once it has the keys.
 *
 * Thread: the reactor that has the connection. Nothing here allocates per record.
 */
#ifndef TRANSPORT_TCP_RECORDS_H
#define TRANSPORT_TCP_RECORDS_H

#include <gnutls/crypto.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/uio.h>

#define TLS_HDR_LEN 5u
#define TLS_TAG_LEN 16u
/* Content of one record. */
#define TLS_CONTENT_MAX 16384u
/* Behind the header of one of ours: content, its type, the tag. */
#define TLS_BODY_MAX  (TLS_CONTENT_MAX + 1 + TLS_TAG_LEN)
#define TLS_EXTRA_LEN (TLS_HDR_LEN + 1 + TLS_TAG_LEN)
/* Behind the header of one of a peer's, which may pad. */
#define TLS_PEER_BODY_MAX (TLS_CONTENT_MAX + 256)
/* Bytes for which one key is good. */
#define TLS_KEY_BYTES_MAX ((uint64_t)1 << 46)

enum tls_type {
	TLS_CHANGE_CIPHER_SPEC = 20, /* means nothing in TLS 1.3 */
	TLS_ALERT = 21,
	TLS_HANDSHAKE = 22,
	TLS_DATA = 23,
};

/* One direction. All zero: it has no keys. */
struct tls_half {
	gnutls_aead_cipher_hd_t aead;
	gnutls_cipher_algorithm_t alg;
	uint8_t key[32];
	size_t key_len;
	uint8_t iv[12];
	uint64_t seq;	/* of the next record */
	uint64_t bytes; /* under this key */
	bool kernel;	/* the kernel has it */
};

/* -ENOTSUP: another cipher; -ENOMEM. */
int tls_half_init(struct tls_half *h, gnutls_cipher_algorithm_t alg,
		  const gnutls_datum_t *key, const gnutls_datum_t *iv);
/* Wipes it. */
void tls_half_fini(struct tls_half *h);

/* Makes a record in @buf, where @len bytes of content, at most TLS_CONTENT_MAX, lie behind
 * TLS_HDR_LEN bytes. Returns its length, @len + TLS_EXTRA_LEN; or -EIO. */
int tls_seal(struct tls_half *h, enum tls_type type, uint8_t *buf, size_t len);

/*
 * Opens the record in @buf, whose body of @body_len bytes is all there, at most
 * TLS_PEER_BODY_MAX. Writes at most @body_len - TLS_TAG_LEN bytes to @to, which may be the
 * body. Returns the length of the content; -EBADMSG: it was not made with this key.
 */
int tls_open(struct tls_half *h, uint8_t *buf, size_t body_len, uint8_t *to,
	     enum tls_type *ret_type);

/* Gives the keys to the kernel for the socket @fd. False: it does not take them, and
 * nothing has changed. */
bool tls_half_offload(struct tls_half *h, int fd, bool tx);

/* Counts @n bytes that the kernel has encrypted. False: the key has been used enough. */
static inline bool tls_half_count(struct tls_half *h, size_t n)
{
	h->bytes += n;
	return h->bytes < TLS_KEY_BYTES_MAX;
}

#endif
