#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Listens at a port of 127.0.0.1 without being an SRP target: doctor_peer.py
HOW. Prints the port when it is ready, and runs until it is killed.

silent  accepts connections and sends nothing
banner  accepts connections and sends what an SSH server sends
closes  accepts connections and closes them
drops   answers nothing, like a firewall that drops packets: its queue is full
"""
import socket
import sys
import time

how = sys.argv[1]
server = socket.socket()
server.bind(('127.0.0.1', 0))
server.listen(0 if how == 'drops' else 16)
kept = []
if how == 'drops':
    # The kernel accepts one connection more than requested, and drops the
    # others.
    for _ in range(3):
        client = socket.socket()
        client.setblocking(False)
        client.connect_ex(server.getsockname())
        kept.append(client)
    time.sleep(0.2)
print(server.getsockname()[1], flush=True)
while how == 'drops':
    time.sleep(60)
while True:
    peer, _ = server.accept()
    if how == 'banner':
        peer.sendall(b'SSH-2.0-OpenSSH_9.2p1\r\n' * 8)
    if how == 'closes':
        peer.close()
    kept.append(peer)
