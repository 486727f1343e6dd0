#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Answers requests for targets on the loopback interface with a forgery.

    forged_target.py ID_EXT URI [forget]

It says that a target with this identifier listens at URI. With "forget" it does not
repeat the nonce. It prints "ready" first.
"""
import socket
import struct
import sys

GROUP, PORT = "239.255.83.82", 5555
ANNOUNCE = 2


def forge(query, id_ext, uri, forget):
    nonce = bytes(8) if forget else query[8:16]
    name = b"forged"
    return (query[:5] + bytes([ANNOUNCE, 0, 1]) + nonce + bytes.fromhex(id_ext) * 2 +
            bytes([len(name)]) + name + struct.pack(">H", len(uri)) + uri)


def main():
    id_ext, uri = sys.argv[1], sys.argv[2].encode()
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((GROUP, PORT))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                    socket.inet_aton(GROUP) + socket.inet_aton("127.0.0.1"))
    print("ready", flush=True)
    while True:
        query, peer = sock.recvfrom(2048)
        if query[:4] == b"SRPd" and query[5] == 1:
            sock.sendto(forge(query, id_ext, uri, len(sys.argv) > 3), peer)


main()
