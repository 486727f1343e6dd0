#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""notify.py SOCKET FILE: acts as a service manager. Appends each datagram from SOCKET to
FILE, as a JSON string on one line."""
import json
import os
import socket
import sys

with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as s, open(sys.argv[2], 'w') as out:
    s.bind(sys.argv[1])
    # Targets may run as another user.
    os.chmod(sys.argv[1], 0o666)
    while True:
        print(json.dumps(s.recv(65536).decode(errors='replace')), file=out, flush=True)
