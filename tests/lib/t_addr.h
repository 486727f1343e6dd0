/* SPDX-License-Identifier: BSD-2-Clause */
/* Addresses of the targets in tests. Works without cmocka. */
#ifndef TESTS_LIB_T_ADDR_H
#define TESTS_LIB_T_ADDR_H

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "tests/lib/t_must.h"

/* @host: "10.0.0.1" */
static inline struct sockaddr_in t_addr(const char *host, uint16_t port)
{
	struct sockaddr_in sin = { .sin_family = AF_INET,
				   .sin_port = htons(port) };

	T_MUST(inet_pton(AF_INET, host, &sin.sin_addr) == 1);
	return sin;
}

/* Writes an address like "127.64.12.34:5750" to @buf. Nothing listens there,
 * and no other process uses it: 127.64.0.0/10 has an address for each process
 * ID. Each call returns another port. */
void t_addr_next(char *buf, size_t len);

/* @text: as written by t_addr_next() */
static inline struct sockaddr_in t_addr_parse(const char *text)
{
	char host[32];
	unsigned int port;

	T_MUST(sscanf(text, "%31[0-9.]:%u", host, &port) == 2);
	return t_addr(host, (uint16_t)port);
}

#endif
