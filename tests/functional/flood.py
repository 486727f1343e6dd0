#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Sends queries of discovery endlessly, from 30 hosts, 127.0.1.1 and up:
flood.py PORT. Prints a line when it has begun, and runs until it is killed."""
import itertools
import socket
import sys

# Queries are short, so that a socket holds more of them than are answered per
# second.
QUERY = b"SRPd\x01\x01\x00\x00" + bytes(8 + 16 + 1)
hosts = []
for n in range(1, 31):
    host = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    host.bind((f"127.0.1.{n}", 0))
    host.setblocking(False)
    hosts.append(host)
for n, host in enumerate(itertools.cycle(hosts)):
    if n == 10000:
        print("ready", flush=True)
    try:
        host.sendto(QUERY, ("127.0.0.1", int(sys.argv[1])))
    except OSError:
        pass
