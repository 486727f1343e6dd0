#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A port of 127.0.0.1 that is not that of an SRP target: doctor_peer.py HOW. Prints
the port when it is ready, and lasts until it is killed.

silent  takes connections and says nothing
banner  takes connections and talks as an SSH server does
closes  takes connections and closes them
drops   answers nothing, as behind a firewall that drops: its queue is full
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
    # The kernel takes one more connection than was asked for, and then drops.
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
