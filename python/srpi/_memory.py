# SPDX-License-Identifier: BSD-2-Clause
"""Memory that is registered with a session.

The target reads and writes this memory directly. Data in it is not copied. Data
in other buffers is copied to or from pieces of a pool of registered memory.
"""
from __future__ import annotations

import mmap
from errno import EBUSY, ENOMEM
from typing import TYPE_CHECKING, Any, Optional

from ._srpi import ffi, lib
from ._types import Buffer, Error, text_of

if TYPE_CHECKING:
    from ._core import Core

# Data that is copied moves in pieces of at most this size, so that one long
# request does not take the whole pool. Bytes.
PIECE_MAX = 1 << 20
PIECE_MIN = 4096


def mem_register(core: Core, view: Any) -> Any:
    """struct srpi_mem of a cdata view of a buffer."""
    e = ffi.new("struct srpi_error *")
    mem = ffi.new("struct srpi_mem **")
    err = lib.srpi_mem_register(core.session, view, len(view), mem, e)
    if err:
        raise Error(-err, f"cannot register memory: {text_of(e.text)}")
    return mem[0]


class Memory:
    """Memory that the target reads and writes directly, without a copy.

    Session.alloc() makes it, or Session.register() of a buffer of yours. Read into
    parts of it, and write parts of it:

        with session.alloc(1 << 20) as memory:
            volume.read_into(0, memory.view[:4096])

    The target can write to all of the memory until free(): copy data before you
    check it.
    """

    def __init__(self, core: Core, buffer: Buffer) -> None:
        core.check()
        self._core: Optional[Core] = core
        # This export of the buffer keeps it where it is: a bytearray, for
        # example, cannot be resized.
        self._cdata = ffi.from_buffer("char[]", buffer, require_writable=True)
        if len(self._cdata) == 0:
            raise ValueError("memory of 0 bytes cannot be registered")
        self._address = int(ffi.cast("uintptr_t", self._cdata))
        self._mem = mem_register(core, self._cdata)
        self._users = 0  # operations in flight
        self.view: memoryview = memoryview(buffer).cast("B")
        core.memories.append(self)

    def __len__(self) -> int:
        return len(self._cdata) if self._cdata is not None else 0

    def __enter__(self) -> Memory:
        return self

    def __exit__(self, *exc: object) -> None:
        self.free()

    def __repr__(self) -> str:
        state = "" if self._core else ", free"
        return f"<srpi.Memory of {len(self)} bytes{state}>"

    def free(self) -> None:
        """Ends the registration. Python frees the memory when nobody uses it."""
        core = self._core
        if core is None:
            return
        core.check_thread()
        if self._users:
            raise Error(
                EBUSY,
                f"the memory is used by {self._users} operations; wait for them first",
            )
        core.memories.remove(self)
        self._drop()

    def _drop(self) -> None:
        lib.srpi_mem_free(self._mem)
        self._core = self._mem = self._cdata = None
        # The program's other references to the view keep the memory.
        self.view = memoryview(b"")

    def _holds(self, address: int, length: int) -> bool:
        end = self._address + len(self)
        return self._address <= address and address + length <= end


class Piece:
    """One piece of the pool."""

    def __init__(self, core: Core, size: int) -> None:
        self.size = size
        self.cdata = ffi.from_buffer("char[]", mmap.mmap(-1, size))
        self.mem = mem_register(core, self.cdata)


class Pool:
    """Registered pieces of powers of two, made when they are first needed."""

    def __init__(self, core: Core, limit: int) -> None:
        self._core = core
        self._limit = limit  # bytes
        self._total = 0  # bytes
        self._used = 0  # pieces
        self._free: dict[int, list[Piece]] = {}

    def take(self, length: int) -> Optional[Piece]:
        """A piece of at least length bytes. None: wait until one is given back."""
        size = max(PIECE_MIN, 1 << (length - 1).bit_length())
        free = self._free.get(size)
        piece = free.pop() if free else self._make(size)
        if piece is not None:
            self._used += 1
        return piece

    def give(self, piece: Piece) -> None:
        self._used -= 1
        self._free.setdefault(piece.size, []).append(piece)

    def drop(self) -> None:
        """Frees all pieces. None is in use."""
        for free in self._free.values():
            while free:
                self._drop_piece(free.pop())

    def _make(self, size: int) -> Optional[Piece]:
        for free in self._free.values():
            while free and self._total + size > self._limit:
                self._drop_piece(free.pop())
        # With no piece in use, there would be nothing to wait for.
        if self._total + size > self._limit and self._used:
            return None
        try:
            piece = Piece(self._core, size)
        except Error as e:
            if e.errno == ENOMEM and self._used:
                return None
            raise
        self._total += size
        return piece

    def _drop_piece(self, piece: Piece) -> None:
        lib.srpi_mem_free(piece.mem)
        self._total -= piece.size
