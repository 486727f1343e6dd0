# SPDX-License-Identifier: BSD-2-Clause
"""One session of libsrpi in a context of its own, below both interfaces.

A request of the program becomes one operation of libsrpi if its buffer is
registered memory. Otherwise it becomes one for each piece of the pool that its
data is copied through. Operations, and the memory that they use, stay in
Core.inflight until the library has ended them, whatever becomes of the request.

A handler of a signal may raise an exception anywhere in here. So each step that a later
one relies on can be repeated, and is: an operation that is begun stays in Core.waiting
until C has it, and one that has ended stays in the list of C until all is done.

Thread: the one that made the Core.
"""
from __future__ import annotations

import atexit
import errno
import os
import threading
from collections import deque
from typing import Any, Callable, Optional

from ._memory import PIECE_MAX, Memory, Piece, Pool
from ._srpi import ffi, lib
from ._types import (
    Buffer,
    ClosedError,
    Error,
    Options,
    State,
    VolumeEvent,
    c_text,
    milliseconds,
    range_text,
    text_of,
)

# Sessions that are not closed. They end with the process, and a child process
# must not use them.
_cores: set[Core] = set()

_names = {
    lib.SRPI_READ: "read",
    lib.SRPI_WRITE: "write",
    lib.SRPI_FLUSH: "flush",
    lib.SRPI_DISCARD: "unmap",
    lib.SRPI_WRITE_ZEROES: "zero",
    lib.SRPI_EXTENT: "extents",
}


class Request:
    """One call of the program, until all its operations have ended."""

    __slots__ = (
        "op", "volume", "name", "offset", "length", "source", "target", "parts", "fua",
        "unmap", "left", "done", "error", "abandoned", "on_end", "extent",
    )

    def __init__(
        self, op: int, volume: int, name: str, offset: int, length: int
    ) -> None:
        self.op = op
        self.volume = volume
        self.name = name  # of the volume, for messages
        self.offset = offset
        self.length = length
        self.source: Optional[memoryview] = None  # of a write
        self.target: Optional[memoryview] = None  # of a read; None: parts
        self.parts: list[bytes] = []
        self.fua = False
        self.unmap = False
        self.left: set[Operation] = set()  # that have not ended
        self.done = False
        self.error: Optional[Error] = None
        self.abandoned = False  # no caller waits for it
        self.on_end: Optional[Callable[[], None]] = None
        self.extent: tuple[int, bool] = (0, False)

    def data(self) -> bytes:
        return self.parts[0] if len(self.parts) == 1 else b"".join(self.parts)


class Operation:
    """One operation of libsrpi."""

    __slots__ = (
        "request", "start", "length", "index", "io", "is_over", "piece", "memory",
        "keep",
    )

    def __init__(self, request: Request, start: int, length: int) -> None:
        self.request = request
        self.start = start  # bytes, from request.offset on
        self.length = length
        self.index = 0  # in request.parts
        self.io: Any = None  # struct bridge_io
        self.is_over = False
        self.piece: Optional[Piece] = None
        self.memory: Optional[Memory] = None
        self.keep: Any = None  # exports the buffer of the program

    @property
    def is_submitted(self) -> bool:
        return self.io is not None and bool(self.io.submitted)

    @property
    def is_in_flight(self) -> bool:
        return self.is_submitted and not self.is_over


class Core:
    def __init__(self, uri: str, options: Options, pollable: bool) -> None:
        self.forked = False
        self.closing = False
        self.broken: Optional[Error] = None
        self.thread = threading.get_ident()
        self.name = uri  # for messages
        self.session: Any = None
        self.inflight: dict[int, Operation] = {}  # by the address of io
        self._last_ended: Optional[Operation] = None
        self.waiting: deque[Operation] = deque()  # for a piece of the pool
        # Ended without a call of the library.
        self.failed: deque[tuple[Operation, Error]] = deque()
        self.memories: list[Memory] = []
        self.pool = Pool(self, options.copy_memory)
        # Set by the interface above this one.
        self.on_connected: Optional[Callable[[], None]] = None
        self.on_closed: Optional[Callable[[], None]] = None
        self.on_state: Optional[Callable[[State, str], object]] = None
        self.on_volume: Optional[Callable[[int, VolumeEvent, str], object]] = None
        self._bridge = ffi.new("struct bridge *")
        self._event = ffi.new("struct bridge_event *")
        self._connected = False
        self.ctx: Any = None
        c_uri = c_text("uri", uri)
        c_options = self._c_options(options)
        self.ctx = self._make_context(pollable)
        try:
            self._connect(c_uri, c_options)
        except BaseException:
            lib.srpi_ctx_destroy(self.ctx)
            raise
        _cores.add(self)

    def _c_options(self, o: Options) -> Any:
        c = ffi.new("struct srpi_options *")
        c.channels = o.channels or 0
        c.queue_depth = o.queue_depth or 0
        c.timeout_ms = max(0, milliseconds("timeout", o.timeout))
        c.no_immediate_data = not o.immediate_data
        # Members of c do not keep their texts.
        self._identity = self._c_name("identity", o.identity)
        self._purpose = self._c_name("purpose", o.purpose)
        c.identity = self._identity
        c.purpose = self._purpose
        c.fast_io_fail_ms = milliseconds("fast_io_fail", o.fast_io_fail)
        c.dev_loss_ms = milliseconds("dev_loss", o.dev_loss)
        c.reconnect_delay_ms = milliseconds("reconnect_delay", o.reconnect_delay)
        c.io_timeout_ms = milliseconds("io_timeout", o.io_timeout)
        c.keep_alive_ms = milliseconds("keep_alive", o.keep_alive)
        c.follow_volumes = o.follow_volumes
        fault = lib.srpi_timeouts_fault(c)
        if fault:
            raise ValueError(text_of(fault))
        return c

    @staticmethod
    def _c_name(option: str, text: Optional[str]) -> Any:
        if text is None:
            return ffi.NULL
        return ffi.new("char[]", c_text(option, text))

    @staticmethod
    def _make_context(pollable: bool) -> Any:
        options = ffi.new("struct srpi_ctx_options *")
        options.struct_size = ffi.sizeof("struct srpi_ctx_options")
        options.pollable = pollable
        ctx = ffi.new("struct srpi_ctx **")
        e = ffi.new("struct srpi_error *")
        # Python programs start others by fork().
        if not _cores:
            lib.srpi_fork_init()
        err = lib.srpi_ctx_create(options, ctx, e)
        if err:
            raise Error(-err, text_of(e.text))
        return ctx[0]

    def _connect(self, uri: bytes, options: Any) -> None:
        session = ffi.new("struct srpi_session **")
        e = ffi.new("struct srpi_error *")
        err = lib.bridge_connect(self._bridge, self.ctx, uri, options, session, e)
        if err:
            raise Error(-err, text_of(e.text))
        self.session = session[0]

    # ---- checks ----

    def check_thread(self) -> None:
        if self.forked:
            raise RuntimeError(
                "the session belongs to the parent process; connect in the child"
            )
        if threading.get_ident() != self.thread:
            raise RuntimeError(
                "the session belongs to another thread; use one session per thread"
            )

    def check(self) -> None:
        """The session can be used now and on this thread."""
        self.check_thread()
        if self.closing:
            raise ClosedError(
                errno.ENOTCONN, f"the session with {self.name} is closed"
            )
        if self.broken:
            raise self.broken

    # ---- the event loop ----

    @property
    def fd(self) -> int:
        return int(lib.srpi_ctx_fd(self.ctx))

    def run(self, timeout_ms: int) -> bool:
        """Waits, and handles all events. False: nothing is left to do."""
        if self.ctx is None:
            return False
        if self.failed:
            timeout_ms = 0
        more = lib.bridge_run(self._bridge, self.ctx, timeout_ms)
        if more < 0:
            self._break(-more)
            return False
        self._take_ended()
        self._take_events()
        if self._bridge.connected and not self._connected:
            self._connected = True
            if self.on_connected:
                self.on_connected()
        if self._bridge.closed and self.ctx is not None:
            self._destroy()
        return more > 0 or bool(self.failed)

    def run_until(self, is_over: Callable[[], bool]) -> None:
        while not is_over() and self.ctx is not None:
            self.run(-1)
            if self.broken:
                raise self.broken

    def _break(self, err: int) -> None:
        """The loop cannot run any more: operations in flight will never end.
        Their memory stays."""
        if self.broken:
            return
        self.broken = Error(
            err, f"the event loop of libsrpi failed: {os.strerror(err)}"
        )
        for operation in [*self.inflight.values(), *self.waiting]:
            self._operation_over(operation, self.broken)

    def _take_ended(self) -> None:
        while io := lib.bridge_io_first(self._bridge):
            address = int(ffi.cast("uintptr_t", io))
            operation = self.inflight.get(address)
            if operation:
                self._operation_ended(operation, int(io.res))
                self._last_ended = operation  # C still has it
                self.inflight.pop(address, None)
            lib.bridge_io_drop(self._bridge)
            self._last_ended = None
        while self.failed:
            self._operation_over(*self.failed[0])
            self.failed.popleft()
        self._start_waiting()

    def _take_events(self) -> None:
        event = self._event
        while lib.bridge_event_next(self._bridge, event):
            why = text_of(event.why.text)
            if event.kind == lib.BRIDGE_STATE:
                if self.on_state:
                    self.on_state(State(event.code), why)
            elif event.kind == lib.BRIDGE_RESIZED:
                self._tell_volume(event.volume, VolumeEvent.RESIZED, why)
            # The library reports a new size by both callbacks.
            elif event.code != lib.SRPI_VOLUME_RESIZED:
                self._tell_volume(event.volume, VolumeEvent(event.code), why)

    def _tell_volume(self, volume: int, event: VolumeEvent, why: str) -> None:
        if self.on_volume:
            self.on_volume(volume, event, why)

    # ---- connecting and closing ----

    @property
    def is_connected(self) -> bool:
        return self._connected

    def connect_error(self) -> Optional[Error]:
        e = self._bridge.connect_error
        return Error(-e.err, text_of(e.text)) if e.err else None

    def begin_close(self) -> None:
        """I/O in flight fails with ECANCELED; then on_closed runs."""
        if self._bridge.closing:
            return
        self.check_thread()
        self.closing = True
        canceled = Error(errno.ECANCELED, f"the session with {self.name} was closed")
        while self.waiting:
            if not self.waiting[0].is_submitted:
                self.failed.append((self.waiting[0], canceled))
            self.waiting.popleft()
        lib.bridge_close(self._bridge, self.session)

    def close_wait(self) -> None:
        if self.ctx is None:
            return
        self.begin_close()
        self.run_until(lambda: False)

    def _destroy(self) -> None:
        for memory in self.memories:
            memory._drop()
            memory._core = None
        self.memories.clear()
        self.pool.drop()
        ctx, self.ctx, self.session = self.ctx, None, None
        lib.srpi_ctx_destroy(ctx)
        _cores.discard(self)
        if self.on_closed:
            self.on_closed()

    # ---- requests ----

    def start(self, request: Request, buffer: Buffer = None) -> None:
        """Begins a request. request.done is set, and on_end called, in run()."""
        self.check()
        try:
            self._start(request, buffer)
        except BaseException:
            request.abandoned = True
            for operation in list(request.left):
                if not operation.is_submitted and operation not in self.waiting:
                    self._operation_given_up(operation)
            raise

    def _start(self, request: Request, buffer: Buffer) -> None:
        if request.op not in (lib.SRPI_READ, lib.SRPI_WRITE):
            self._submit(Operation(request, 0, request.length), ffi.NULL, ffi.NULL)
        elif buffer is None or not self._start_registered(request, buffer):
            self._start_copied(request)

    def _start_registered(self, request: Request, buffer: Buffer) -> bool:
        """False: the buffer is not in registered memory."""
        if not self.memories or isinstance(buffer, bytes):
            return False
        data = ffi.from_buffer("char[]", buffer)
        address = int(ffi.cast("uintptr_t", data))
        for memory in self.memories:
            if memory._holds(address, len(data)):
                break
        else:
            return False
        operation = Operation(request, 0, request.length)
        operation.keep = data
        operation.memory = memory
        memory._users.add(operation)
        self._submit(operation, data, memory._mem[0])
        return True

    def _start_copied(self, request: Request) -> None:
        for start in range(0, max(1, request.length), PIECE_MAX):
            operation = Operation(
                request, start, min(PIECE_MAX, request.length - start)
            )
            operation.index = len(request.parts)
            request.parts.append(b"")
            request.left.add(operation)
            self.waiting.append(operation)
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self.waiting:
            operation = self.waiting[0]
            if not operation.is_submitted and not self._start_copy(operation):
                return
            self.waiting.popleft()

    def _start_copy(self, operation: Operation) -> bool:
        """False: it waits for a piece of the pool."""
        request = operation.request
        if request.abandoned or request.error:
            self._operation_given_up(operation)
            return True
        try:
            if not operation.piece and not self.pool.take(
                max(1, operation.length), operation
            ):
                return False
        except Error as e:
            self.failed.append((operation, e))
            return True
        piece = operation.piece
        assert piece
        if request.source is not None:
            end = operation.start + operation.length
            ffi.memmove(
                piece.cdata,
                request.source[operation.start : end],
                operation.length,
            )
        self._submit(operation, piece.cdata, piece.mem)
        return True

    def _operation_given_up(self, operation: Operation) -> None:
        """It was not submitted."""
        piece = operation.piece
        if piece and piece.user is operation:
            self.pool.give(piece)
        if operation.io is not None:
            self.inflight.pop(int(ffi.cast("uintptr_t", operation.io)), None)
        self._operation_over(operation, operation.request.error)

    def _submit(self, operation: Operation, buf: Any, mem: Any) -> None:
        request = operation.request
        request.left.add(operation)
        if operation.io is None:
            operation.io = ffi.new("struct bridge_io *")
        io = operation.io.io
        io.op = request.op
        io.volume = request.volume
        io.offset = request.offset + operation.start
        io.len = operation.length
        io.buf = buf
        io.mem = mem
        io.fua = request.fua
        io.discard = request.unmap
        self.inflight[int(ffi.cast("uintptr_t", operation.io))] = operation
        lib.bridge_submit(self._bridge, self.session, operation.io)

    def _operation_ended(self, operation: Operation, res: int) -> None:
        request = operation.request
        piece = operation.piece
        error = self._io_error(operation, -res) if res else None
        if request.op == lib.SRPI_EXTENT:
            io = operation.io.io
            request.extent = (int(io.extent_len), bool(io.extent_mapped))
        if piece and piece.user is operation:
            if request.op == lib.SRPI_READ and not error and not request.abandoned:
                self._copy_out(operation, piece)
            self.pool.give(piece)
        if operation.memory:
            operation.memory._users.discard(operation)
        operation.keep = None
        self._operation_over(operation, error)

    @staticmethod
    def _copy_out(operation: Operation, piece: Piece) -> None:
        request = operation.request
        if request.target is None:
            request.parts[operation.index] = ffi.buffer(
                piece.cdata, operation.length
            )[:]
        else:
            end = operation.start + operation.length
            ffi.memmove(
                request.target[operation.start : end], piece.cdata, operation.length
            )

    def _operation_over(
        self, operation: Operation, error: Optional[Error]
    ) -> None:
        """The end of every operation. May be repeated."""
        request = operation.request
        operation.is_over = True
        request.error = request.error or error
        request.left.discard(operation)
        if not request.left and not request.done:
            if request.on_end:
                request.on_end()
            request.source = request.target = None
            request.done = True

    def _io_error(self, operation: Operation, err: int) -> Error:
        request = operation.request
        answer = ""
        buf = ffi.new("char[]", lib.SRPI_ANSWER_SIZE)
        io = ffi.addressof(operation.io, "io")
        if lib.srpi_io_answer(io, buf):
            answer = text_of(buf)
        what = _names[request.op]
        if request.op != lib.SRPI_FLUSH:
            what += " of " + range_text(
                request.offset + operation.start, operation.length
            )
        why = answer or self._reason(request, err)
        return Error(
            err,
            f"{what} on volume {request.name} of {self.name} failed: {why}",
            answer,
            bool(lib.srpi_io_refused(io)),
        )

    def _reason(self, request: Request, err: int) -> str:
        """Called if the target has not answered."""
        # The library may have freed the session.
        if self.closing:
            return "the session was closed"
        if err == errno.EINVAL:
            volume = lib.srpi_volume_info(self.session, request.volume)
            if request.offset + request.length > volume.size:
                return f"the volume ends at {volume.size}"
            block = volume.block_size
            if request.offset % block or request.length % block:
                return f"offset and length must be multiples of {block}"
        if err == errno.ENODEV:
            return "the volume is gone"
        if err == errno.EIO:
            state = State(lib.srpi_session_state(self.session))
            if state is not State.RUNNING:
                return f"the session is in state '{state}'"
        if err == errno.EROFS:
            return "the volume is write-protected"
        return os.strerror(err)


def _close_all() -> None:
    """At the end of the process: the target must not write into memory that
    Python frees."""
    for core in list(_cores):
        if core.thread == threading.get_ident() and not core.broken:
            core.close_wait()


def _forget_all() -> None:
    """In the child after a fork: the sessions are those of the parent."""
    for core in list(_cores):
        core.forked = True
    _kept.extend(_cores)
    _cores.clear()


_kept: list[Core] = []
atexit.register(_close_all)
os.register_at_fork(after_in_child=_forget_all)
