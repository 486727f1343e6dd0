#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""inflight.py URI [SECONDS]: reads blocks at random, 32 at a time, and prints how many
were read in a second."""
import asyncio
import random
import sys
import time

import srpi

IN_FLIGHT = 32
READ_LEN = 4096


async def read_for(uri: str, seconds: float) -> int:
    """Returns the number of reads."""
    reads = 0
    end = time.monotonic() + seconds
    async with srpi.aio.connect(uri) as session:
        volume = session.volume()
        memory = session.alloc(IN_FLIGHT * READ_LEN)

        async def reader(n: int) -> None:
            nonlocal reads
            buffer = memory.view[n * READ_LEN : (n + 1) * READ_LEN]
            while time.monotonic() < end:
                offset = random.randrange(volume.size // READ_LEN) * READ_LEN
                await volume.read_into(offset, buffer)
                reads += 1

        await asyncio.gather(*(reader(n) for n in range(IN_FLIGHT)))
    return reads


def main() -> None:
    if len(sys.argv) not in (2, 3):
        sys.exit("Usage: inflight.py URI [SECONDS]")
    seconds = float(sys.argv[2]) if len(sys.argv) == 3 else 3.0
    try:
        reads = asyncio.run(read_for(sys.argv[1], seconds))
    except srpi.Error as e:
        sys.exit(f"inflight.py: {e}")
    print(f"{reads / seconds:.0f} reads of {READ_LEN} bytes a second")


if __name__ == "__main__":
    main()
