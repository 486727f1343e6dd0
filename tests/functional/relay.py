#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""An address that a test can cut: relay.py PORT TO forwards connections from
port PORT of 127.0.0.1 to port TO. Prints "ready" when it listens. Kill it to
cut the address."""
import asyncio
import sys


async def pump(reader, writer):
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except ConnectionError:
        pass
    writer.close()


async def relay(reader, writer):
    try:
        to_reader, to_writer = await asyncio.open_connection(
            '127.0.0.1', int(sys.argv[2]))
    except ConnectionError:
        writer.close()
        return
    await asyncio.gather(pump(reader, to_writer), pump(to_reader, writer))


async def main():
    server = await asyncio.start_server(relay, '127.0.0.1', int(sys.argv[1]))
    print('ready', flush=True)
    async with server:
        await server.serve_forever()

asyncio.run(main())
