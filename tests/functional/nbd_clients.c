/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Three clients of an NBD export whose first flush fails: nbd_clients URI.
 * Exits with 0 if each client that has written gets the error once, and no
 * other client does.
 */
#include <libnbd.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static bool is_bad;

static void expect(bool is_so, const char *what)
{
	printf("%s: %s\n", what, is_so ? "yes" : "NO");
	is_bad |= !is_so;
}

static struct nbd_handle *client(const char *uri)
{
	struct nbd_handle *h = nbd_create();

	if (!h || nbd_connect_uri(h, uri)) {
		printf("%s\n", nbd_get_error());
		exit(EXIT_FAILURE);
	}
	return h;
}

static bool writes(struct nbd_handle *h)
{
	static const char buf[4096];

	return !nbd_pwrite(h, buf, sizeof(buf), 0, 0);
}

static bool flushes(struct nbd_handle *h)
{
	return !nbd_flush(h, 0);
}

int main(int argc, char **argv)
{
	struct nbd_handle *first = client(argv[1]);
	struct nbd_handle *other = client(argv[1]);
	struct nbd_handle *idle = client(argv[1]);

	expect(writes(first) && writes(other), "two clients write");
	expect(!flushes(first), "the first one's flush fails");
	expect(flushes(first), "and not again");
	expect(flushes(idle), "who has written nothing does not hear of it");
	expect(writes(idle) && flushes(idle), "nor who writes after it");
	expect(!flushes(other), "the other one hears of it");
	expect(flushes(other), "and once");
	nbd_close(first);
	nbd_close(other);
	nbd_close(idle);
	return is_bad ? EXIT_FAILURE : EXIT_SUCCESS;
}
