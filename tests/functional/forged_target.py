#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Answers requests for targets on the loopback interface with a forgery.

    forged_target.py ID_EXT URI [forget | bye | COUNT]

The forged answer says that a target with this identifier listens at URI. With
"forget", the answer lacks the nonce. With "bye", it answers nobody: it says that
the target goes, and ends. With COUNT, the answers are those of COUNT
targets, forged1 and up, with consecutive identifiers; if they are more than 100, 100 of
them answer each question of a client, whose socket holds about 250 answers. Prints
"ready" first, and a line for each query.
"""
import socket
import struct
import sys

GROUP, PORT = "239.255.83.82", 5555
ANNOUNCE, BYE = 2, 3


def forge(name, id_ext, uri, head, nonce, kind=ANNOUNCE):
    return (head + bytes([kind, 0, 1]) + nonce + struct.pack(">QQ", id_ext, id_ext) +
            bytes([len(name)]) + name + struct.pack(">H", len(uri)) + uri)


def say_bye(id_ext, uri):
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_MULTICAST_IF,
                    socket.inet_aton("127.0.0.1"))
    sock.sendto(forge(b"forged", id_ext, uri, b"SRPd\1", bytes(8), BYE), (GROUP, PORT))


def main():
    id_ext, uri = int(sys.argv[1], 16), sys.argv[2].encode()
    if sys.argv[3:] == ["bye"]:
        say_bye(id_ext, uri)
        return
    forget = sys.argv[3:] == ["forget"]
    names = [b"forged"]
    if sys.argv[3:] and not forget:
        names = [b"forged%d" % (n + 1) for n in range(int(sys.argv[3]))]
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.bind((GROUP, PORT))
    sock.setsockopt(socket.IPPROTO_IP, socket.IP_ADD_MEMBERSHIP,
                    socket.inet_aton(GROUP) + socket.inet_aton("127.0.0.1"))
    print("ready", flush=True)
    nonce, asked = None, 0
    while True:
        query, peer = sock.recvfrom(2048)
        if query[:4] != b"SRPd" or query[5] != 1:
            continue
        print("query", flush=True)
        asked = asked + 1 if query[8:16] == nonce else 0
        nonce = query[8:16]
        answers = list(enumerate(names))
        if len(answers) > 100:
            answers = answers[asked * 100:][:100]
        for n, name in answers:
            sock.sendto(forge(name, id_ext + n, uri, query[:5],
                              bytes(8) if forget else query[8:16]), peer)


main()
