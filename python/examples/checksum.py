#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""checksum.py URI: prints the SHA-256 of a volume, one read after another."""
import hashlib
import sys

import srpi

READ_LEN = 1 << 20


def checksum(uri: str) -> str:
    digest = hashlib.sha256()
    with srpi.connect(uri) as session, session.alloc(READ_LEN) as memory:
        volume = session.volume()
        for offset in range(0, volume.size, READ_LEN):
            part = memory.view[: min(READ_LEN, volume.size - offset)]
            volume.read_into(offset, part)
            digest.update(part)
        del part
    return digest.hexdigest()


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("Usage: checksum.py URI")
    try:
        print(checksum(sys.argv[1]))
    except srpi.Error as e:
        sys.exit(f"checksum.py: {e}")


if __name__ == "__main__":
    main()
