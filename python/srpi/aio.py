# SPDX-License-Identifier: BSD-2-Clause
"""srpi for asyncio: many requests in flight on one thread.

    async with srpi.aio.connect("srp://10.0.0.1/disk") as session:
        volume = session.volume()
        first, second = await asyncio.gather(
            volume.read(0, 4096), volume.read(4096, 4096)
        )

A session belongs to the event loop that it was connected in. The loop waits for the
file descriptor of the library; there are no threads.

A request that is cancelled goes on in the target. Its memory stays until it has ended,
and a buffer of read_into() that is registered memory may still change. A write may be
done, done in part, or not done, but it never replaces what a later write of the session
has written. A write from registered memory writes what is there when
the target fetches it: leave that memory as it is until Memory.free() succeeds.
"""
from __future__ import annotations

import asyncio
from typing import Any, AsyncIterator, Callable, Generator, Optional

from ._core import Core, Request
from ._session import ExtentMerger, SessionBase, VolumeBase
from ._types import Buffer, Extent, Options

__all__ = ["Session", "Volume", "connect"]


class _Driver:
    """Runs a Core in an event loop. The loop refers to this, and not to the session:
    one that nobody uses is found by the garbage collector."""

    def __init__(self, core: Core) -> None:
        self.core = core
        self.loop = asyncio.get_running_loop()
        self._scheduled = False
        self._fd = core.fd
        self._watching = True
        self._closed = self.loop.create_future()
        core.on_closed = self._core_closed
        self.loop.add_reader(self._fd, self._turn)
        self.kick()

    def kick(self) -> None:
        """The library must run once more before the loop sleeps."""
        if not self._scheduled and not self.loop.is_closed():
            self._scheduled = True
            self.loop.call_soon(self._turn_scheduled)

    def _turn_scheduled(self) -> None:
        self._scheduled = False
        self._turn()

    def _turn(self) -> None:
        if self.core.ctx is None:
            return
        if self.core.run(0):
            self.kick()
        if self.core.broken:
            self._unwatch()

    def _unwatch(self) -> None:
        if self._watching and not self.loop.is_closed():
            self.loop.remove_reader(self._fd)
        self._watching = False

    def _core_closed(self) -> None:
        # The library has closed the descriptor; the selector may know it still.
        self._unwatch()
        if not self.loop.is_closed() and not self._closed.done():
            self._closed.set_result(None)

    def begin_close(self) -> None:
        self.core.begin_close()
        self.kick()

    async def close(self) -> None:
        if self.core.ctx is None or self.core.broken:
            return
        self.begin_close()
        await asyncio.shield(self._closed)

    async def wait(self, request: Request) -> Request:
        future: asyncio.Future[None] = self.loop.create_future()

        def ended() -> None:
            if not future.done() and not self.loop.is_closed():
                future.set_result(None)

        request.on_end = ended
        self.kick()
        try:
            if not request.done:
                await future
        except BaseException:
            request.abandoned = True
            raise
        if request.error:
            raise request.error
        return request


class Volume(VolumeBase):
    """A volume. Offsets and lengths are bytes, and multiples of block_size. Leave
    buffers as they are until the request has ended."""

    _session: Session

    def _number(self) -> int:
        self._session._driver_check()
        return super()._number()

    async def read(self, offset: int, length: int) -> bytes:
        """Reads length bytes at offset."""
        return (await self._wait(self._start_read(offset, length))).data()

    async def read_into(self, offset: int, buffer: Buffer) -> int:
        """Fills the buffer with what is at offset; returns its length. The data is
        not copied if the buffer is in registered memory."""
        return (await self._wait(self._start_read_into(offset, buffer))).length

    async def write(self, offset: int, data: Buffer, fua: bool = False) -> None:
        """Writes data at offset. fua: it is stable when this returns. The data is
        not copied if it is in registered memory."""
        await self._wait(self._start_write(offset, data, fua))

    async def flush(self) -> None:
        """Makes the writes that have ended stable. Fails if one may be lost."""
        await self._wait(self._start_flush())

    async def unmap(self, offset: int, length: int) -> None:
        """Tells the target that the contents are not needed any more. They become
        zeroes if unmap_zeroes, else undefined."""
        await self._wait(self._start_unmap(offset, length))

    async def zero(
        self, offset: int, length: int, unmap: bool = False, fua: bool = False
    ) -> None:
        """Makes the range read as zeroes. unmap: its space may be freed."""
        await self._wait(self._start_zero(offset, length, unmap, fua))

    async def extents(
        self, offset: int = 0, length: Optional[int] = None
    ) -> AsyncIterator[Extent]:
        """Which parts are data, and which are holes? Default: the whole volume."""
        end = self._end_of(offset, length)
        merger = ExtentMerger()
        while offset < end:
            request = await self._wait(self._start_extent(offset, end - offset))
            complete = merger.add(offset, request.extent)
            if complete:
                yield complete
            offset += request.extent[0]
        last = merger.end()
        if last:
            yield last

    async def _wait(self, request: Request) -> Request:
        return await self._session._driver.wait(request)


class Session(SessionBase[Volume]):
    """A session with a target, made by srpi.aio.connect()."""

    _volume_class = Volume

    def __init__(self, driver: _Driver, options: Options) -> None:
        super().__init__(driver.core, options)
        self._driver = driver
        # The callbacks run on their own: an exception in one goes to the loop.
        driver.core.on_state = self._later(options.on_state)
        driver.core.on_volume = self._later(driver.core.on_volume)

    def _later(self, callback: Optional[Callable[..., object]]) -> Any:
        if callback is None:
            return None
        loop, wanted = self._driver.loop, callback
        return lambda *args: loop.call_soon(wanted, *args)

    def _driver_check(self) -> None:
        if self._driver.loop.is_closed():
            raise RuntimeError("the event loop of the session is closed")

    async def __aenter__(self) -> Session:
        return self

    async def __aexit__(self, *exc: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Logs out. Requests in flight fail with ECANCELED. May be repeated."""
        await self._driver.close()


class _Connecting:
    """What connect() returns: await it, or use it in "async with"."""

    def __init__(self, uri: str, options: Options) -> None:
        self._uri = uri
        self._options = options
        self._session: Optional[Session] = None

    def __await__(self) -> Generator[Any, None, Session]:
        return self._connect().__await__()

    async def __aenter__(self) -> Session:
        self._session = await self._connect()
        return self._session

    async def __aexit__(self, *exc: object) -> None:
        if self._session is not None:
            await self._session.close()

    async def _connect(self) -> Session:
        core = Core(self._uri, self._options, pollable=True)
        driver = _Driver(core)
        connected: asyncio.Future[None] = driver.loop.create_future()

        def on_connected() -> None:
            if not connected.done():
                connected.set_result(None)

        core.on_connected = on_connected
        try:
            await connected
            error = core.connect_error()
            if error:
                raise error
            return Session(driver, self._options)
        except asyncio.CancelledError:
            # The driver goes on until the session is closed.
            driver.begin_close()
            raise
        except BaseException:
            await driver.close()
            raise


def connect(uri: str, **options: Any) -> _Connecting:
    """Logs in to the target of the URI and finds its volumes. Use it as "await
    connect(...)" or "async with connect(...) as session".

    The options are those of srpi.connect(). A host name is resolved before this
    goes on, which may block the loop: use an address if that matters.
    """
    return _Connecting(uri, Options(**options))
