# SPDX-License-Identifier: BSD-2-Clause
"""The interface whose calls wait."""
from __future__ import annotations

from typing import Any, Iterator, Optional

from ._core import Core, Request
from ._session import ExtentMerger, SessionBase, VolumeBase
from ._types import Buffer, Extent, Options


class Volume(VolumeBase):
    """A volume. Offsets and lengths are bytes, and multiples of block_size."""

    _session: Session

    def _wait(self, request: Request) -> Request:
        try:
            self._core.run_until(lambda: request.done)
        except BaseException:
            # Its memory stays until it has ended.
            request.abandoned = True
            raise
        if request.error:
            raise request.error
        return request

    def read(self, offset: int, length: int) -> bytes:
        """Reads length bytes at offset."""
        return self._wait(self._start_read(offset, length)).data()

    def read_into(self, offset: int, buffer: Buffer) -> int:
        """Fills the buffer with what is at offset; returns its length. The data is
        not copied if the buffer is in registered memory."""
        return self._wait(self._start_read_into(offset, buffer)).length

    def write(self, offset: int, data: Buffer, fua: bool = False) -> None:
        """Writes data at offset. fua: it is stable when this returns. The data is
        not copied if it is in registered memory."""
        self._wait(self._start_write(offset, data, fua))

    def flush(self) -> None:
        """Makes the writes that have ended stable. Fails if one may be lost."""
        self._wait(self._start_flush())

    def unmap(self, offset: int, length: int) -> None:
        """Tells the target that the contents are not needed any more. They become
        zeroes if unmap_zeroes, else undefined."""
        self._wait(self._start_unmap(offset, length))

    def zero(
        self, offset: int, length: int, unmap: bool = False, fua: bool = False
    ) -> None:
        """Makes the range read as zeroes. unmap: its space may be freed."""
        self._wait(self._start_zero(offset, length, unmap, fua))

    def extents(
        self, offset: int = 0, length: Optional[int] = None
    ) -> Iterator[Extent]:
        """Which parts are data, and which are holes? Default: the whole volume."""
        end = self._end_of(offset, length)
        merger = ExtentMerger()
        while offset < end:
            found = self._wait(self._start_extent(offset, end - offset)).extent
            complete = merger.add(offset, found)
            if complete:
                yield complete
            offset += found[0]
        last = merger.end()
        if last:
            yield last


class Session(SessionBase[Volume]):
    """A session with a target, made by srpi.connect(). It is a context manager that
    closes the session."""

    _volume_class = Volume

    def __init__(self, core: Core, options: Options) -> None:
        super().__init__(core, options)
        core.on_state = options.on_state

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def run(self, timeout: float = 0) -> bool:
        """Handles events for at most this many seconds: on_state and on_volume are
        called, and a lost connection is made again. The calls that wait do the
        same; a program that makes none for long calls this now and then.
        Returns False if nothing happened."""
        self._core.check()
        return self._core.run(max(0, round(timeout * 1000)))

    def close(self) -> None:
        """Logs out. Registered memory is not registered any more. May be repeated."""
        self._core.close_wait()


def connect(uri: str, **options: Any) -> Session:
    """Logs in to the target of the URI and finds its volumes.

    uri: srp://HOST[:PORT][,HOST[:PORT]]...[/VOLUME][?KEY=VALUE]; srp+rdma:// and
    srp+tcp:// force the transport. Options are keyword arguments, in seconds where
    they are times: see srpi-python(3), or help(srpi.Options).
    """
    o = Options(**options)
    core = Core(uri, o, pollable=False)
    try:
        core.run_until(lambda: core.is_connected)
        error = core.connect_error()
        if error:
            raise error
        return Session(core, o)
    except BaseException:
        core.close_wait()
        raise
