# SPDX-License-Identifier: BSD-2-Clause
"""What sessions and volumes of both interfaces have in common: nothing waits."""
from __future__ import annotations

import errno
import mmap
import warnings
import weakref
from typing import Any, Callable, Generic, Optional, TypeVar, Union

from ._core import Core, Request
from ._memory import Memory
from ._srpi import ffi, lib
from ._types import (
    Buffer,
    Error,
    Extent,
    Options,
    Path,
    PathState,
    SessionInfo,
    State,
    Stats,
    VolumeEvent,
    text_of,
    whole,
)

V = TypeVar("V", bound="VolumeBase")


class VolumeBase:
    """A volume of the target. Its attributes follow changes of the volume."""

    def __init__(self, session: SessionBase[Any], index: int) -> None:
        self._session = session
        self._core = session._core
        self._index: Optional[int] = index
        self._last_name = self.name

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.Volume {self._last_name!r}>"

    def _number(self) -> int:
        self._core.check()
        if self._index is None:
            raise Error(errno.ENODEV, f"volume {self._last_name} was forgotten")
        return self._index

    def _info(self) -> Any:
        return lib.srpi_volume_info(self._core.session, self._number())

    @property
    def lun(self) -> int:
        """The logical unit number."""
        return int(self._info().lun)

    @property
    def name(self) -> str:
        """The name; unique within the session."""
        return text_of(self._info().name)

    @property
    def serial(self) -> str:
        return text_of(self._info().serial)

    @property
    def vendor(self) -> str:
        return text_of(self._info().vendor)

    @property
    def product(self) -> str:
        return text_of(self._info().product)

    @property
    def revision(self) -> str:
        return text_of(self._info().revision)

    @property
    def naa(self) -> str:
        """The NAA identifier ("naa.6..."), or ""."""
        return text_of(self._info().naa)

    @property
    def size(self) -> int:
        """Bytes."""
        return int(self._info().size)

    @property
    def block_size(self) -> int:
        """Bytes. Offsets and lengths must be multiples of it."""
        return int(self._info().block_size)

    @property
    def physical_block_size(self) -> int:
        return int(self._info().physical_block_size)

    @property
    def max_transfer(self) -> int:
        """Bytes of one command. The library splits longer requests."""
        return int(self._info().max_transfer)

    @property
    def optimal_transfer(self) -> int:
        """Bytes; 0: not reported."""
        return int(self._info().optimal_transfer)

    @property
    def unmap_granularity(self) -> int:
        """Bytes."""
        return int(self._info().unmap_granularity)

    @property
    def read_only(self) -> bool:
        return bool(self._info().read_only)

    @property
    def write_cache(self) -> bool:
        """Written data needs flush() to be stable."""
        return bool(self._info().write_cache)

    @property
    def fua(self) -> bool:
        """The target can make a single write stable."""
        return bool(self._info().fua)

    @property
    def can_unmap(self) -> bool:
        """unmap() frees space."""
        return bool(self._info().unmap)

    @property
    def unmap_zeroes(self) -> bool:
        """Unmapped blocks read as zeroes."""
        return bool(self._info().unmap_zeroes)

    @property
    def rotational(self) -> bool:
        return bool(self._info().rotational)

    @property
    def is_present(self) -> bool:
        """False: the volume is gone."""
        return self._index is not None and bool(
            lib.srpi_volume_is_present(self._core.session, self._number())
        )

    @property
    def state(self) -> State:
        """What becomes of its I/O: RUNNING, BLOCKED, FAIL_FAST, or LOST."""
        if self._index is None:
            return State.LOST
        return State(
            lib.srpi_volume_state(self._core.session, self._number())
        )

    # ---- requests ----

    def _request(self, op: int, offset: int, length: int) -> Request:
        return Request(
            op,
            self._number(),
            self._last_name,
            whole("offset", offset),
            whole("length", length),
        )

    def _start_read(self, offset: int, length: int) -> Request:
        request = self._request(lib.SRPI_READ, offset, length)
        # Before memory is taken for it.
        if request.offset + request.length > self.size:
            raise Error(
                errno.EINVAL,
                f"read of {length} bytes at {offset} on volume {self._last_name} of "
                f"{self._core.name} failed: the volume ends at {self.size}",
            )
        self._core.start(request)
        return request

    def _start_read_into(self, offset: int, buffer: Buffer) -> Request:
        view = memoryview(buffer).cast("B")
        if view.readonly:
            raise TypeError("read_into() needs a buffer that can be written to")
        request = self._request(lib.SRPI_READ, offset, len(view))
        request.target = view
        self._core.start(request, buffer)
        return request

    def _start_write(self, offset: int, data: Buffer, fua: bool) -> Request:
        view = memoryview(data).cast("B")
        request = self._request(lib.SRPI_WRITE, offset, len(view))
        request.source = view
        request.fua = fua
        self._core.start(request, data)
        return request

    def _start_flush(self) -> Request:
        request = self._request(lib.SRPI_FLUSH, 0, 0)
        self._core.start(request)
        return request

    def _start_unmap(self, offset: int, length: int) -> Request:
        request = self._request(lib.SRPI_DISCARD, offset, length)
        self._core.start(request)
        return request

    def _start_zero(
        self, offset: int, length: int, unmap: bool, fua: bool
    ) -> Request:
        request = self._request(lib.SRPI_WRITE_ZEROES, offset, length)
        request.unmap = unmap
        request.fua = fua
        self._core.start(request)
        return request

    def _start_extent(self, offset: int, length: int) -> Request:
        request = self._request(lib.SRPI_EXTENT, offset, length)
        self._core.start(request)
        return request

    def _end_of(self, offset: int, length: Optional[int]) -> int:
        return self.size if length is None else offset + whole("length", length)


class ExtentMerger:
    """Joins extents of the same kind that follow each other."""

    def __init__(self) -> None:
        self._last: Optional[Extent] = None

    def add(self, offset: int, extent: tuple[int, bool]) -> Optional[Extent]:
        """Returns an extent that is complete, if there is one."""
        last = self._last
        if last and last.is_data == extent[1]:
            self._last = last._replace(length=last.length + extent[0])
            return None
        self._last = Extent(offset, *extent)
        return last

    def end(self) -> Optional[Extent]:
        return self._last


def _abandon(core: Core) -> None:
    """A session that nobody uses any more was not closed."""
    if core.ctx is None or core.forked or core.broken:
        return
    warnings.warn(
        f"the session with {core.name} was not closed", ResourceWarning, stacklevel=2
    )
    # On another thread, it stays until the process ends.
    try:
        core.close_wait()
    except RuntimeError:
        pass


class SessionBase(Generic[V]):
    """A session with a target."""

    _volume_class: type[V]

    def __init__(self, core: Core, options: Options) -> None:
        self._core = core
        self._volumes: dict[int, V] = {}
        core.on_volume = self._make_on_volume(options)
        self._finalizer = weakref.finalize(self, _abandon, core)
        # At the end of the process, _core.py closes it.
        self._finalizer.atexit = False

    def _make_on_volume(self, options: Options) -> Any:
        if options.on_volume is None:
            return None
        callback: Callable[..., object] = options.on_volume
        weak = weakref.ref(self)

        def on_volume(index: int, event: VolumeEvent, why: str) -> None:
            session = weak()
            if session is not None and not session.closed:
                callback(session._volume(index), event, why)

        return on_volume

    def __repr__(self) -> str:
        state = "closed" if self.closed else str(self.state)
        return f"<{type(self).__module__}.Session {self._core.name!r}, {state}>"

    @property
    def closed(self) -> bool:
        return self._core.closing

    @property
    def state(self) -> State:
        core = self._core
        if core.closing:
            return State.CLOSED
        core.check_thread()
        return State(lib.srpi_session_state(core.session))

    @property
    def info(self) -> SessionInfo:
        """The connection."""
        self._core.check()
        c = ffi.new("struct srpi_session_info *")
        c.struct_size = ffi.sizeof("struct srpi_session_info")
        lib.srpi_session_info(self._core.session, c)
        return SessionInfo(
            transport=text_of(c.transport),
            why=text_of(c.why),
            device=text_of(c.device),
            local=text_of(c.local),
            peer=text_of(c.peer),
            volume=text_of(c.volume),
            initiator=text_of(c.initiator),
            channels=int(c.channels),
            fewer=text_of(c.fewer),
            queue_depth=int(c.queue_depth),
            immediate_data=bool(c.immediate_data),
            pins_memory=bool(c.pins_memory),
            mtu=int(c.mtu),
            port_mtu=int(c.port_mtu),
            read_depth=int(c.read_depth),
            gid=text_of(c.gid),
            pkey=int(c.pkey),
            sl=int(c.sl),
            purpose_fault=text_of(c.purpose_fault),
            not_ready=text_of(c.not_ready),
        )

    @property
    def stats(self) -> Stats:
        """Counters since the session was connected."""
        self._core.check()
        c = ffi.new("struct srpi_session_stats *")
        c.struct_size = ffi.sizeof("struct srpi_session_stats")
        lib.srpi_session_stats(self._core.session, c)
        return Stats(
            commands=int(c.commands),
            replayed=int(c.replayed),
            timeouts=int(c.timeouts),
            reconnects=int(c.reconnects),
            attempts=int(c.attempts),
            last_error=text_of(c.last_error),
        )

    @property
    def paths(self) -> list[Path]:
        """The addresses of the URI."""
        self._core.check()
        paths = []
        c = ffi.new("struct srpi_path_info *")
        c.struct_size = ffi.sizeof("struct srpi_path_info")
        for i in range(lib.srpi_path_cnt(self._core.session)):
            lib.srpi_path_info(self._core.session, i, c)
            paths.append(
                Path(text_of(c.address), PathState(c.state), text_of(c.why))
            )
        return paths

    # ---- volumes ----

    def _volume(self, index: int) -> V:
        volume = self._volumes.get(index)
        if volume is None:
            volume = self._volumes[index] = self._volume_class(self, index)
        return volume

    @property
    def volumes(self) -> list[V]:
        """The volumes that the target shows, at first in the order of their LUNs."""
        self._core.check()
        session = self._core.session
        return [
            self._volume(i)
            for i in range(lib.srpi_volume_cnt(session))
            if lib.srpi_volume_is_present(session, i)
        ]

    def volume(self, name_or_lun: Union[str, int, None] = None) -> V:
        """The volume with this LUN (int) or name (str). None: the one that the URI
        names, or the only one. The text in a URI is a name, or, if no volume has that
        name, a LUN."""
        volumes = self.volumes
        if isinstance(name_or_lun, int):
            found = [v for v in volumes if v.lun == name_or_lun]
            what = f"no LUN {name_or_lun} on"
        elif name_or_lun is not None:
            found = [v for v in volumes if v.name == name_or_lun]
            what = f"no volume '{name_or_lun}' on"
        elif self.info.volume:
            found = self._volumes_of_uri()
            what = f"no volume '{self.info.volume}' on"
        else:
            found = volumes if len(volumes) == 1 else []
            what = "name one volume of"
        if found:
            return found[0]
        names = ", ".join(v.name for v in volumes) or "none"
        raise Error(errno.ENOENT, f"{what} {self.info.peer}; it has: {names}")

    def _volumes_of_uri(self) -> list[V]:
        index = ffi.new("unsigned int *")
        name = self.info.volume.encode()
        if lib.srpi_volume_find(self._core.session, name, index):
            return []
        return [self._volume(index[0])]

    def forget(self, volume: V) -> None:
        """Lets another volume have the number of a volume that is gone. Needed only
        by programs that follow volumes for very long. No request for it may be in
        progress."""
        index = volume._number()
        if volume.is_present:
            raise Error(errno.EBUSY, f"volume {volume._last_name} is not gone")
        lib.srpi_volume_forget(self._core.session, index)
        self._volumes.pop(index, None)
        volume._index = None

    # ---- memory ----

    def alloc(self, length: int) -> Memory:
        """New memory that data is read into, and written from, without a copy."""
        if whole("length", length) == 0:
            raise ValueError("memory of 0 bytes cannot be registered")
        return Memory(self._core, mmap.mmap(-1, length))

    def register(self, buffer: Buffer) -> Memory:
        """Registers a writable buffer of yours: bytearray, mmap, numpy array, ..."""
        return Memory(self._core, buffer)
