# SPDX-License-Identifier: BSD-2-Clause
"""Values that srpi takes and returns, and its exceptions."""
from __future__ import annotations

import enum
import operator
import re
from dataclasses import dataclass
from typing import Any, Callable, NamedTuple, Optional, Union

from ._srpi import ffi, lib

# What write() accepts, and read_into() if it is writable: bytes, bytearray,
# memoryview, mmap, array, numpy arrays, ...
Buffer = Any


class Sense(NamedTuple):
    """Why the target failed a command: sense key and additional sense code."""

    key: int
    asc: int
    ascq: int


class Error(OSError):
    """An operation of srpi failed.

    errno     the error number, as in the module errno
    text      one line: what failed, both addresses, the reason, what to try
    answer    what the target said, as text; "" if it did not answer
    sense     the same as numbers: a Sense, or None
    refused   True: the operation failed only because the session was not running
    """

    def __init__(
        self, errno: int, text: str, answer: str = "", refused: bool = False
    ) -> None:
        super().__init__(errno, text)
        self.text = text
        self.answer = answer
        self.refused = refused

    def __str__(self) -> str:
        return self.text

    @property
    def sense(self) -> Optional[Sense]:
        found = re.search(r"\((\w\w)/(\w\w)/(\w\w)\)", self.answer)
        return Sense(*(int(x, 16) for x in found.groups())) if found else None


class ClosedError(Error, ValueError):
    """The session is closed. It is a ValueError, too, as for a closed file."""


class State(enum.Enum):
    """The state of a session; see srpi(3)."""

    CONNECTING = lib.SRPI_CONNECTING
    RUNNING = lib.SRPI_RUNNING
    BLOCKED = lib.SRPI_BLOCKED
    FAIL_FAST = lib.SRPI_FAIL_FAST
    LOST = lib.SRPI_LOST
    CLOSED = lib.SRPI_CLOSED

    def __str__(self) -> str:
        return text_of(lib.srpi_state_name(self.value))


class VolumeEvent(enum.Enum):
    """What has happened to a volume."""

    ADDED = lib.SRPI_VOLUME_ADDED
    GONE = lib.SRPI_VOLUME_GONE
    RESIZED = lib.SRPI_VOLUME_RESIZED
    CHANGED = lib.SRPI_VOLUME_CHANGED
    STATE = lib.SRPI_VOLUME_STATE


class PathState(enum.Enum):
    """The state of one address of the URI; see srpi(3)."""

    UNTRIED = lib.SRPI_PATH_UNTRIED
    IN_USE = lib.SRPI_PATH_IN_USE
    DOWN = lib.SRPI_PATH_DOWN
    STANDBY = lib.SRPI_PATH_STANDBY
    UNSAFE = lib.SRPI_PATH_UNSAFE
    OTHER = lib.SRPI_PATH_OTHER

    def __str__(self) -> str:
        return text_of(lib.srpi_path_state_name(self.value))


class Path(NamedTuple):
    """One address of the URI."""

    address: str
    state: PathState
    why: str  # why it is not in use; "": not known


class Extent(NamedTuple):
    """A part of a volume that is all data, or all a hole."""

    offset: int  # bytes
    length: int  # bytes
    is_data: bool


class SessionInfo(NamedTuple):
    """The connection of a session: the present one, or the last."""

    transport: str  # "RDMA (verbs)" or "TCP"
    why: str  # why this transport; "" if the URI demands it
    device: str
    local: str
    peer: str
    volume: str  # the volume that the URI names, or ""
    initiator: str  # our port identifier
    channels: int
    fewer: str  # why fewer channels than wanted; ""
    queue_depth: int  # most commands in flight
    immediate_data: bool
    pins_memory: bool  # registered memory counts for RLIMIT_MEMLOCK
    # What was negotiated over RDMA; over TCP they are 0 and "".
    mtu: int  # bytes
    port_mtu: int  # bytes; the active MTU of our port
    read_depth: int  # RDMA READs of the target at a time
    gid: str  # ours, "fe80::1"
    pkey: int
    sl: int  # service level
    # Why the initiator is not that of the purpose; "": it is, or there is none.
    purpose_fault: str
    # Why the first unit that cannot describe itself is no volume of the session; "": all can.
    not_ready: str


class Stats(NamedTuple):
    """Counters since the session was connected."""

    commands: int
    replayed: int
    timeouts: int
    reconnects: int
    attempts: int
    last_error: str


class URI(NamedTuple):
    """The parts of a URI."""

    host: str
    port: int
    volume: str
    initiator: str
    addresses: list[tuple[str, int]]


StateCallback = Callable[[State, str], object]


@dataclass
class Options:
    """The keyword arguments of connect(). Times are in seconds.

    None: the default of the library. math.inf: no limit.
    """

    channels: Optional[int] = None
    queue_depth: Optional[int] = None
    timeout: Optional[float] = None
    immediate_data: bool = True
    identity: Optional[str] = None
    purpose: Optional[str] = None
    fast_io_fail: Optional[float] = None
    dev_loss: Optional[float] = None
    reconnect_delay: Optional[float] = None
    io_timeout: Optional[float] = None
    follow_volumes: bool = False
    keep_alive: Optional[float] = None
    copy_memory: int = 32 << 20
    on_state: Optional[StateCallback] = None
    on_volume: Optional[Callable[[Any, VolumeEvent, str], object]] = None


def text_of(chars: Any) -> str:
    """A string of C. Names of volumes may hold any bytes."""
    return str(ffi.string(chars), "utf-8", "replace") if chars else ""


def milliseconds(name: str, seconds: Optional[float]) -> int:
    """A time for struct srpi_options: 0 is the default there."""
    if seconds is None:
        return 0
    if seconds == float("inf"):
        return int(lib.SRPI_OFF)
    if not 0 < seconds <= 2_000_000:
        raise ValueError(
            f"{name}={seconds!r}: not a number of seconds; use 0.001 to 2000000, "
            "math.inf for no limit, or None for the default"
        )
    return max(1, round(seconds * 1000))


def c_text(name: str, text: str) -> bytes:
    if not isinstance(text, str):
        raise TypeError(f"{name} must be a str, not {type(text).__name__}")
    if "\0" in text:
        raise ValueError(f"{name} must not contain a NUL character")
    return text.encode()


def parse_uri(text: str) -> URI:
    """Takes a URI apart, without connecting. Raises Error if it is wrong."""
    c_uri = c_text("uri", text)
    uri = ffi.new("struct srpi_uri *")
    uri.struct_size = ffi.sizeof("struct srpi_uri")
    e = ffi.new("struct srpi_error *")
    err = lib.srpi_uri_parse(c_uri, uri, e)
    if err:
        raise Error(-err, text_of(e.text))
    addresses = []
    host = ffi.new("char[256]")
    port = ffi.new("uint16_t *")
    for n in range(uri.addresses):
        if lib.srpi_uri_address(c_uri, n, host, port) == 0:
            addresses.append((text_of(host), int(port[0])))
    return URI(
        text_of(uri.host),
        int(uri.port),
        text_of(uri.volume),
        text_of(uri.initiator),
        addresses,
    )


def port_of_identity(identity: str) -> str:
    """The port identifier that connect(identity=...) logs in with."""
    port = ffi.new("char[]", lib.SRPI_PORT_SIZE)
    lib.srpi_port_of_identity(c_text("identity", identity), port)
    return text_of(port)


def library_version() -> str:
    """The version of libsrpi that runs: "0.2.0"."""
    return text_of(lib.srpi_version())


def range_text(offset: int, length: int) -> str:
    return f"{length} bytes at {offset}"


def whole(name: str, value: Union[int, Any]) -> int:
    """An offset or a length: an int that fits into 64 bits."""
    try:
        number = operator.index(value)
    except TypeError:
        raise TypeError(f"{name} {value!r} is not a number of bytes") from None
    if not 0 <= number < 1 << 63:
        raise ValueError(f"{name} {number} is not a number of bytes")
    return number
