#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Measures how a flood of discovery datagrams slows the I/O of a target.

    flood.py BUILD [ROUNDS [SECONDS]]

Reads 4 KiB blocks of a RAM volume through rdma-fuse, at depth 8, while somebody sends
queries as fast as a process can: to the port of the target, and, for comparison, to a
port that nobody has, as the sender itself takes processor time. Prints the commands a
second of each round, the ratio of the sums, and the processor time that the target spent on
the flood.
"""
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import time

QUERY = b"SRPd\x01\x01\x00\x00" + bytes(8 + 16 + 1)
PORT = 25999


def flood(port):
    pid = os.fork()
    if pid:
        return pid
    sock = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    query = QUERY.ljust(334, b"\0")
    while True:
        try:
            sock.sendto(query, ("127.0.0.1", port))
        except OSError:
            pass


def fio(path, seconds):
    out = subprocess.run(
        ["fio", "--name=j", f"--filename={path}", "--rw=randread", "--bs=4k",
         "--iodepth=8", "--ioengine=libaio", "--direct=1", "--time_based",
         f"--runtime={seconds}", "--output-format=json"],
        check=True, capture_output=True, text=True).stdout
    return json.loads(out)["jobs"][0]["read"]["iops"]


def spent(pid):
    """The seconds of processor time of the target's thread for discovery."""
    for task in pathlib.Path(f"/proc/{pid}/task").iterdir():
        name, _, rest = (task / "stat").read_text().rpartition(")")
        if name.endswith("(discovery"):
            user, system = rest.split()[11:13]
            return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
    raise ProcessLookupError("no thread for discovery")


def measure(path, port, seconds):
    pid = flood(port)
    try:
        return fio(path, seconds)
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)


def main():
    build = sys.argv[1]
    rounds = int(sys.argv[2]) if len(sys.argv) > 2 else 3
    seconds = int(sys.argv[3]) if len(sys.argv) > 3 else 5
    sums = {"target": 0, "nobody": 0}
    with tempfile.TemporaryDirectory() as mnt, subprocess.Popen(
            [f"{build}/target/rdma-target", "--listen", f"srp+tcp://127.0.0.1:{PORT}",
             "--backing", "ram:256M,name=disk", "-q"]) as target:
        time.sleep(1)
        subprocess.run([f"{build}/fuse/rdma-fuse", "-q", f"srp+tcp://127.0.0.1:{PORT}",
                        mnt], check=True)
        try:
            before, began = spent(target.pid), time.monotonic()
            for _ in range(rounds):
                for name, port in (("nobody", PORT + 1), ("target", PORT)):
                    iops = measure(f"{mnt}/disk", port, seconds)
                    sums[name] += iops
                    print(f"flood at {name}: {iops:.0f}/s", flush=True)
            # Half of the time it was flooded.
            flooded = (time.monotonic() - began) / 2
            print(f"ratio {sums['target'] / sums['nobody']:.2f}; processor time for the flood: "
                  f"{(spent(target.pid) - before) / flooded:.1%}")
        finally:
            subprocess.run(["fusermount3", "-u", mnt], check=False)
            target.terminate()


main()
