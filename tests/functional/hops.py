#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Prints the messages of discovery that pass an interface to a multicast group.

    hops.py INTERFACE

Prints "ready" first, then a line for each message: IPv4 or IPv6, the group, the
kind of message, and the number of hops that it may go (TTL or hop limit).
"""
import ipaddress
import socket
import struct
import sys

ETH_P_ALL = 3
PORT = 5555
UDP_LEN = 8
KINDS = {1: "query", 2: "announcement", 3: "bye"}


def parse(packet):
    """Returns the version, destination, hops and UDP datagram of an IP packet."""
    if packet[0] >> 4 == 6 and packet[6] == socket.IPPROTO_UDP:
        return "IPv6", packet[24:40], packet[7], packet[40:]
    if packet[0] >> 4 == 4 and packet[9] == socket.IPPROTO_UDP:
        return "IPv4", packet[16:20], packet[8], packet[4 * (packet[0] & 15):]
    return None


def main():
    sock = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(ETH_P_ALL))
    sock.bind((sys.argv[1], ETH_P_ALL))
    print("ready", flush=True)
    while True:
        parsed = parse(sock.recv(2048).ljust(48, b"\0"))
        if not parsed:
            continue
        version, group, hops, udp = parsed
        group = ipaddress.ip_address(group)
        data = udp[UDP_LEN:]
        if (group.is_multicast and data[:4] == b"SRPd" and
                struct.unpack(">H", udp[2:4])[0] == PORT):
            print(version, group, KINDS[data[5]], hops, flush=True)


main()
