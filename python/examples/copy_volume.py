#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""copy_volume.py URI FILE: copies a volume to a file, with many reads in flight.

The volume is read into registered memory, so that the data is not copied on its way.
Holes of the volume become holes of the file.
"""
import asyncio
import os
import sys
from typing import AsyncIterator

import srpi

READS = 16
READ_LEN = 1 << 20


async def copy(uri: str, path: str) -> int:
    """Returns the bytes of data."""
    copied = 0
    async with srpi.aio.connect(uri) as session:
        volume = session.volume()
        memory = session.alloc(READS * READ_LEN)
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o666)
        # Every reader takes the next range from here.
        ranges = iter([r async for r in volume_ranges(volume)])

        async def reader(n: int) -> None:
            nonlocal copied
            mine = memory.view[n * READ_LEN : (n + 1) * READ_LEN]
            for offset, length in ranges:
                await volume.read_into(offset, mine[:length])
                os.pwrite(file, mine[:length], offset)
                copied += length

        try:
            os.ftruncate(file, volume.size)
            await asyncio.gather(*(reader(n) for n in range(READS)))
        finally:
            os.close(file)
    return copied


async def volume_ranges(
    volume: srpi.aio.Volume,
) -> AsyncIterator[tuple[int, int]]:
    """(offset, length) of all data, in parts of at most READ_LEN."""
    async for extent in volume.extents():
        if extent.is_data:
            end = extent.offset + extent.length
            for offset in range(extent.offset, end, READ_LEN):
                yield offset, min(READ_LEN, end - offset)


def main() -> None:
    if len(sys.argv) != 3:
        sys.exit("Usage: copy_volume.py URI FILE")
    try:
        copied = asyncio.run(copy(sys.argv[1], sys.argv[2]))
    except OSError as e:
        sys.exit(f"copy_volume.py: {e}")
    print(f"{copied} bytes of data")


if __name__ == "__main__":
    main()
