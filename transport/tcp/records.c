/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/tcp/records.h"

#include <assert.h>
#include <errno.h>
#include <linux/tls.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

#include "base/list.h"
#include "protocol/wire.h"

#ifndef SOL_TLS
#define SOL_TLS 282
#endif

int tls_half_init(struct tls_half *h, gnutls_cipher_algorithm_t alg,
		  const gnutls_datum_t *key, const gnutls_datum_t *iv)
{
	if ((alg != GNUTLS_CIPHER_AES_128_GCM &&
	     alg != GNUTLS_CIPHER_CHACHA20_POLY1305) ||
	    key->size > sizeof(h->key) || iv->size != sizeof(h->iv))
		return -ENOTSUP;
	if (gnutls_aead_cipher_init(&h->aead, alg, key) < 0) {
		h->aead = NULL;
		return -ENOMEM;
	}
	h->alg = alg;
	memcpy(h->key, key->data, key->size);
	h->key_len = key->size;
	memcpy(h->iv, iv->data, sizeof(h->iv));
	h->seq = 0;
	h->bytes = 0;
	return 0;
}

void tls_half_fini(struct tls_half *h)
{
	if (h->aead)
		gnutls_aead_cipher_deinit(h->aead);
	explicit_bzero(h, sizeof(*h));
}

/* RFC 8446, 5.3 */
static void tls_nonce(const struct tls_half *h, uint8_t *nonce)
{
	uint8_t seq[8];

	wire_put64(seq, h->seq);
	memcpy(nonce, h->iv, sizeof(h->iv));
	for (size_t i = 0; i < sizeof(seq); i++)
		nonce[sizeof(h->iv) - sizeof(seq) + i] ^= seq[i];
}

int tls_seal(struct tls_half *h, enum tls_type type, uint8_t *buf, size_t len)
{
	uint8_t *body = buf + TLS_HDR_LEN;
	size_t body_len = len + 1 + TLS_TAG_LEN;
	uint8_t nonce[sizeof(h->iv)];

	assert(len <= TLS_CONTENT_MAX);
	if (!tls_half_count(h, len))
		return -EKEYEXPIRED;
	buf[0] = TLS_DATA;
	wire_put16(buf + 1, 0x0303);
	wire_put16(buf + 3, (uint16_t)body_len);
	body[len] = (uint8_t)type;
	tls_nonce(h, nonce);
	if (gnutls_aead_cipher_encrypt(h->aead, nonce, sizeof(nonce), buf,
				       TLS_HDR_LEN, TLS_TAG_LEN, body, len + 1,
				       body, &body_len) < 0)
		return -EIO;
	h->seq++;
	return (int)(TLS_HDR_LEN + body_len);
}

int tls_open(struct tls_half *h, uint8_t *buf, size_t body_len, uint8_t *to,
	     enum tls_type *ret_type)
{
	uint8_t nonce[sizeof(h->iv)];
	size_t len;

	if (buf[0] != TLS_DATA || body_len <= TLS_TAG_LEN ||
	    body_len > TLS_PEER_BODY_MAX)
		return -EBADMSG;
	len = body_len - TLS_TAG_LEN;
	if (!tls_half_count(h, len))
		return -EKEYEXPIRED;
	tls_nonce(h, nonce);
	if (gnutls_aead_cipher_decrypt(
		    h->aead, nonce, sizeof(nonce), buf, TLS_HDR_LEN,
		    TLS_TAG_LEN, buf + TLS_HDR_LEN, body_len, to, &len) < 0)
		return -EBADMSG;
	h->seq++;
	while (len > 0 && to[len - 1] == 0)
		len--;
	if (len == 0 || len - 1 > TLS_CONTENT_MAX)
		return -EBADMSG;
	*ret_type = to[len - 1];
	return (int)(len - 1);
}

/* ---- the kernel ---- */

static bool offload_aes(const struct tls_half *h, int fd, int option)
{
	struct tls12_crypto_info_aes_gcm_128 c = {
		.info.version = TLS_1_3_VERSION,
		.info.cipher_type = TLS_CIPHER_AES_GCM_128,
	};
	int ret;

	memcpy(c.key, h->key, sizeof(c.key));
	memcpy(c.salt, h->iv, sizeof(c.salt));
	memcpy(c.iv, h->iv + sizeof(c.salt), sizeof(c.iv));
	wire_put64(c.rec_seq, h->seq);
	ret = setsockopt(fd, SOL_TLS, option, &c, sizeof(c));
	explicit_bzero(&c, sizeof(c));
	return ret == 0;
}

static bool offload_chacha(const struct tls_half *h, int fd, int option)
{
	struct tls12_crypto_info_chacha20_poly1305 c = {
		.info.version = TLS_1_3_VERSION,
		.info.cipher_type = TLS_CIPHER_CHACHA20_POLY1305,
	};
	int ret;

	memcpy(c.key, h->key, sizeof(c.key));
	memcpy(c.iv, h->iv, sizeof(c.iv));
	wire_put64(c.rec_seq, h->seq);
	ret = setsockopt(fd, SOL_TLS, option, &c, sizeof(c));
	explicit_bzero(&c, sizeof(c));
	return ret == 0;
}

bool tls_half_offload(struct tls_half *h, int fd, bool tx)
{
	static const char ulp[] = "tls";
	int option = tx ? TLS_TX : TLS_RX;

	/* The second direction finds it there (EEXIST). */
	if (setsockopt(fd, IPPROTO_TCP, TCP_ULP, ulp, sizeof(ulp)) &&
	    errno != EEXIST)
		return false;
	h->kernel = h->alg == GNUTLS_CIPHER_AES_128_GCM
			    ? offload_aes(h, fd, option)
			    : offload_chacha(h, fd, option);
	if (!h->kernel)
		return false;
	gnutls_aead_cipher_deinit(h->aead);
	h->aead = NULL;
	explicit_bzero(h->key, sizeof(h->key));
	return true;
}
