#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""A block device that gets stuck in one write, and continues with the others.

    slow_disk.py DEVICE MIB FIFO

Serves DEVICE (/dev/nbdN) from memory through the kernel's NBD driver, until it
reads a line "end" from FIFO. Other lines of FIFO:

    hold TEXT   the next write whose data begins with TEXT is held;
                the writes after it, also a repetition of it, are executed
    release     the held write is executed now
    dump FILE   writes the contents to FILE

Events of writes that begin with two letters or digits are written to the
kernel's log, in order with the messages of the kernel.
"""

import fcntl
import os
import socket
import struct
import sys
import threading

NBD_SET_SOCK, NBD_SET_BLKSIZE, NBD_DO_IT, NBD_CLEAR_SOCK = (
    0xAB00, 0xAB01, 0xAB03, 0xAB04)
NBD_SET_SIZE_BLOCKS, NBD_DISCONNECT, NBD_SET_FLAGS = 0xAB07, 0xAB08, 0xAB0A
HAS_FLAGS, SEND_FLUSH = 1, 4
REQUEST, REQUEST_MAGIC = struct.Struct(">IHHQQI"), 0x25609513
REPLY, REPLY_MAGIC = struct.Struct(">IIQ"), 0x67446698
READ, WRITE, DISCONNECT = 0, 1, 2
BLOCK = 512


def receive(sock, length):
    data = bytearray()
    while len(data) < length:
        part = sock.recv(length - len(data))
        if not part:
            raise EOFError
        data += part
    return data


class Disk:
    def __init__(self, sock, size):
        self.sock = sock
        self.log = open("/dev/kmsg", "w")
        self.bytes = bytearray(size)
        self.pattern = None
        self.held = []
        # Guards all members above: requests and control lines have threads of
        # their own.
        self.lock = threading.Lock()

    def tell(self, data, what):
        name = bytes(data[:2])
        if name.isalnum():
            self.log.write(f"<6>disk: {name.decode()} {what}\n")
            self.log.flush()

    def reply(self, handle, data=b""):
        self.sock.sendall(REPLY.pack(REPLY_MAGIC, 0, handle) + data)

    def write(self, handle, offset, data):
        self.bytes[offset:offset + len(data)] = data
        self.reply(handle)

    def serve_one(self):
        magic, _, kind, handle, offset, length = REQUEST.unpack(
            receive(self.sock, REQUEST.size))
        assert magic == REQUEST_MAGIC
        data = receive(self.sock, length) if kind == WRITE else b""
        with self.lock:
            if kind == DISCONNECT:
                raise EOFError
            if kind == READ:
                self.reply(handle, self.bytes[offset:offset + length])
            elif kind != WRITE:
                self.reply(handle)
            elif self.pattern and data.startswith(self.pattern):
                self.pattern = None
                self.held.append((handle, offset, data))
                self.tell(data, "has come, and is stuck")
            else:
                self.write(handle, offset, data)
                self.tell(data, "has come, and is written")

    def serve(self):
        try:
            while True:
                self.serve_one()
        except (EOFError, OSError):
            # The kernel waits for this.
            self.sock.shutdown(socket.SHUT_RDWR)

    def obey(self, line):
        word, _, argument = line.strip().partition(" ")
        with self.lock:
            if word == "hold":
                self.pattern = argument.encode()
            elif word == "release":
                for handle, offset, data in self.held:
                    self.write(handle, offset, data)
                    self.tell(data, "that was stuck is written")
                self.held.clear()
            elif word == "dump":
                with open(argument + ".part", "wb") as file:
                    file.write(self.bytes)
                os.rename(argument + ".part", argument)
        return word != "end"


def main():
    path, mib, fifo = sys.argv[1:]
    size = int(mib) << 20
    ours, kernels = socket.socketpair()
    device = os.open(path, os.O_RDWR)
    for request, value in (
            (NBD_CLEAR_SOCK, 0), (NBD_SET_BLKSIZE, BLOCK),
            (NBD_SET_SIZE_BLOCKS, size // BLOCK),
            (NBD_SET_FLAGS, HAS_FLAGS | SEND_FLUSH),
            (NBD_SET_SOCK, kernels.fileno())):
        fcntl.ioctl(device, request, value)
    disk = Disk(ours, size)
    threading.Thread(target=disk.serve, daemon=True).start()
    # Returns when the device is disconnected.
    worker = threading.Thread(
        target=lambda: fcntl.ioctl(device, NBD_DO_IT, 0))
    worker.start()
    # Also opened for writing, so that the input does not end when a writer
    # leaves.
    with open(os.open(fifo, os.O_RDWR)) as lines:
        while disk.obey(lines.readline()):
            pass
    fcntl.ioctl(device, NBD_DISCONNECT, 0)
    worker.join()


if __name__ == "__main__":
    main()
