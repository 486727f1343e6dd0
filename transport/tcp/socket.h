/* SPDX-License-Identifier: BSD-2-Clause */
/* Options of TCP sockets. Thread: any. */
#ifndef TRANSPORT_TCP_SOCKET_H
#define TRANSPORT_TCP_SOCKET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>

#include "base/error.h"

/* Small messages leave at once. */
void tcp_no_delay(int fd);
/*
 * Has the kernel notice when the peer of @fd is gone: one that has been silent
 * for @keepalive_ms is asked three times in as long again; one that does not
 * acknowledge, or does not take, what it was sent, has twice that. What a
 * socket accepts inherits this.
 */
void tcp_keep_alive(int fd, unsigned int keepalive_ms);
/* Makes a socket that listens on @addr. The IPv6 wildcard includes IPv4, whatever
 * net.ipv6.bindv6only says. Return: the socket, or -errno with one clause in @e. */
int tcp_open_listener(const struct sockaddr *addr, socklen_t addr_len,
		      struct error *e);
/* The same, also while this machine does not have the address: connections come when it
 * has. */
int tcp_open_listener_early(const struct sockaddr *addr, socklen_t addr_len,
			    struct error *e);
/*
 * Does @fd, which another process has made, listen on exactly @addr, in the network
 * namespace of this process? Kernels before Linux 5.14 do not tell the namespace. Return:
 * 0, or -EINVAL with one clause in @e.
 */
int tcp_check_listener(int fd, const struct sockaddr *addr, struct error *e);
/*
 * Call it before @fd connects or listens, with the address that @fd will use.
 * On a loopback address, @fd then uses no congestion control that paces, as BBR
 * does: pacing takes time, and nothing there can be congested. Later is too
 * late, because the kernel does not stop pacing. Accepted sockets inherit this.
 */
void tcp_control_loopback(int fd, const struct sockaddr *addr);
/* True if the kernel has heard from the peer of @fd within @ms, and neither side has
 * ended the connection as far as it knows. */
bool tcp_lives(int fd, unsigned int ms);
/* Bytes that can be read from @fd now, at most @most. */
size_t tcp_unread(int fd, size_t most);
/*
 * True if so much lies unread, with @taken bytes that were taken just now, that the window
 * may have been closed. Then the kernel of the peer keeps what was sent since, and behind
 * that the end of the connection.
 */
bool tcp_held_back(int fd, size_t taken);
/* True if it keeps nothing any more: all is read, and nothing has come for longer than a
 * round trip. */
bool tcp_is_quiet(int fd);
/* The bytes that were ever written to @fd, and how many of them the peer has acknowledged,
 * or one more. The kernel of one that has closed its socket acknowledges none. */
uint64_t tcp_bytes_written(int fd);
uint64_t tcp_bytes_acked(int fd);
/* From now on the kernel asks a peer that has been silent for a second; at once, if it
 * has been. tcp_keep_alive() ends this. */
void tcp_ask_soon(int fd);
/* Bytes that ever arrived at @fd; 0: it cannot be told. */
uint64_t tcp_bytes_received(int fd);

#endif
