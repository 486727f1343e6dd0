# SPDX-License-Identifier: BSD-2-Clause
"""Stores the inputs of a fuzz target in one file, one line of base64 each.

    corpus.py unpack FILE DIR    writes each line of FILE to a file in DIR
    corpus.py pack DIR FILE      the reverse, with the shortest input first
"""
import base64
import hashlib
import os
import sys


def unpack(path, directory):
    os.makedirs(directory, exist_ok=True)
    if not os.path.exists(path):
        return
    with open(path, "rb") as lines:
        for line in lines:
            data = base64.b64decode(line)
            name = hashlib.sha1(data).hexdigest()
            with open(os.path.join(directory, name), "wb") as out:
                out.write(data)


def pack(directory, path):
    inputs = []
    for name in os.listdir(directory):
        with open(os.path.join(directory, name), "rb") as data:
            inputs.append(data.read())
    inputs.sort(key=lambda data: (len(data), data))
    with open(path, "wb") as out:
        for data in inputs:
            out.write(base64.b64encode(data) + b"\n")


{"unpack": unpack, "pack": pack}[sys.argv[1]](sys.argv[2], sys.argv[3])
