/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * TCP sockets whose peer does not know the protocol: one that connects to a
 * listener, and one that we connect to.
 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tests/lib/t_table.h"
#include "tests/lib/t_world.h"

/* ---- peers that connect ---- */

static const struct visitor_case {
	const char *name;
	const char *says;
	size_t len;
} visitor_cases[] = {
	{ "says nothing", "", 0 },
	{ "speaks HTTP", "GET / HTTP/1.1\r\nHost: somewhere.else\r\n\r\n", 40 },
	{ "says one byte", "\3", 1 },
	{ "says half of a connect", "\3\1\xff\xff\1\0\0\0\0\0\0\0\0\0\0\0",
	  16 },
	{ "accepts us",
	  "\3\1\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\1\0\0"
	  "\0\0\0\0\0",
	  32 },
	{ "promises too much",
	  "\3\0\xff\xff\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
	  "\0\1\0\0\0\0\0\0\0",
	  32 },
	{ "does not keep its promise",
	  "\3\0\0\5\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
	  "\0\0\0\0\0\1\0\0\0\0\0\0\0only",
	  36 },
	{ "says more than it may",
	  "\3\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"
	  "\0\0\0\1\0\0\0\0\0\0\0more",
	  36 },
};

T_ROWS(visitor_does_not_disturb_a_listener, visitor_cases)
{
	const struct visitor_case *vc = *state;
	struct t_world *w = t_world_open(NULL);
	unsigned int fds;
	int fd;

	t_check_listener(w);
	fds = t_open_fds();
	for (int i = 0; i < 20; i++) {
		fd = t_raw_connect(&w->addr);
		t_raw_send(fd, vc->says, vc->len);
		t_settle(w);
		t_check_listener(w);
		close(fd);
		t_settle(w);
	}
	t_check_listener(w);
	assert_int_equal(t_open_fds(), fds);
	assert_int_equal(w->server_cnt, 0);
	t_world_close(w);
}

/* ---- peers that we connect to ---- */

static const struct host_case {
	const char *name;
	bool answers;
	const char *says;
	int err;
	const char *text;
} host_cases[] = {
	{ "that hangs up", true, "", -ECONNRESET, "before it answered" },
	{ "that speaks SSH", true, "SSH-2.0-OpenSSH_9.2p1 Debian-2+deb12u3\r\n",
	  -ENOPROTOOPT, "does not speak" },
	{ "that is silent", false, "", -ETIMEDOUT, "no answer" },
};

T_ROWS(connecting_to_a_host_fails_with_a_reason, host_cases)
{
	const struct host_case *hc = *state;
	struct t_world *w = t_world_open(NULL);
	struct xp_chan_params p = { .recv_cnt = 1 };
	struct sockaddr_in addr = t_free_addr();
	int listener = socket(AF_INET, SOCK_STREAM, 0);
	struct t_end *client;
	char buf[512];
	int fd;

	p.timeout_ms = hc->answers ? 0 : 50;
	assert_int_equal(bind(listener, (struct sockaddr *)&addr, sizeof(addr)),
			 0);
	assert_int_equal(listen(listener, 1), 0);
	client = t_connect_to(w, &addr, &p);
	t_settle(w);
	fd = accept(listener, NULL, NULL);
	assert_true(fd >= 0);
	if (hc->answers) {
		t_settle(w);
		assert_true(recv(fd, buf, sizeof(buf), 0) > 0);
		t_raw_send(fd, hc->says, strlen(hc->says));
		shutdown(fd, SHUT_WR);
	}
	T_WAIT(w, client->closed);
	assert_int_equal(client->why.err, hc->err);
	assert_non_null(strstr(client->why.text, hc->text));
	assert_memory_equal(xp_chan_local(client->ch), "127.0.0.1:", 10);
	close(fd);
	close(listener);
	t_world_close(w);
}

int main(void)
{
	setenv("T_PROVIDER", "tcp", 1);
	return t_run();
}
