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
    from ._core import Core, Operation

# Data that is copied moves in pieces of at most this size, so that one long
# request does not take the whole pool. Bytes.
PIECE_MAX = 1 << 20
PIECE_MIN = 4096


def mem_register(core: Core, view: Any, mem: Any) -> None:
    """Stores the struct srpi_mem of a cdata view of a buffer in mem. The caller keeps
    both where they are found again, before: a signal may interrupt this function."""
    e = ffi.new("struct srpi_error *")
    err = lib.srpi_mem_register(core.session, view, len(view), mem, e)
    if err:
        raise Error(-err, f"cannot register memory: {text_of(e.text)}")


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
        self._mem: Any = ffi.new("struct srpi_mem **")
        self._users: set[Operation] = set()
        self.view: memoryview = memoryview(buffer).cast("B")
        core.memories.append(self)
        try:
            mem_register(core, self._cdata, self._mem)
        except Error:
            core.memories.remove(self)
            raise

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
        users = sum(operation.is_in_flight for operation in self._users)
        if users:
            raise Error(
                EBUSY,
                f"the memory is used by {users} operations; wait for them first",
            )
        self._drop()
        if self in core.memories:
            core.memories.remove(self)
        self._core = None

    def _drop(self) -> None:
        lib.bridge_mem_free(self._mem)
        self._cdata = None
        # The program's other references to the view keep the memory.
        self.view = memoryview(b"")

    def _holds(self, address: int, length: int) -> bool:
        if not self._mem[0]:
            return False
        end = self._address + len(self)
        return self._address <= address and address + length <= end


class Piece:
    """One piece of the pool."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.cdata = ffi.from_buffer("char[]", mmap.mmap(-1, size))
        self._mem = ffi.new("struct srpi_mem **")
        self.user: Optional[Operation] = None  # the last one that has taken it

    @property
    def mem(self) -> Any:
        return self._mem[0]

    @property
    def is_used(self) -> bool:
        # A signal may have interrupted an operation that has taken two.
        return self.user is not None and self.user.piece is self

    def register(self, core: Core) -> None:
        mem_register(core, self.cdata, self._mem)

    def drop(self) -> None:
        lib.bridge_mem_free(self._mem)


class Pool:
    """Registered pieces of powers of two, made when they are first needed.

    A signal may interrupt each function anywhere. What counts is Piece.is_used. The
    lists of free pieces are only for speed: they may have a piece that is used, or lack
    one that is free.
    """

    def __init__(self, core: Core, limit: int) -> None:
        self._core = core
        self._limit = limit  # bytes
        self._pieces: list[Piece] = []
        self._total = 0  # bytes
        self._free: dict[int, list[Piece]] = {}

    @property
    def _used(self) -> int:
        return sum(piece.is_used for piece in self._pieces)

    def take(self, length: int, user: Operation) -> bool:
        """Gives user a piece of at least length bytes. False: wait until one is given
        back."""
        size = max(PIECE_MIN, 1 << (length - 1).bit_length())
        piece = self._find(size) or self._make(size)
        if piece is None:
            return False
        piece.user = user
        user.piece = piece
        return True

    def give(self, piece: Piece) -> None:
        piece.user = None
        self._free.setdefault(piece.size, []).append(piece)

    def drop(self) -> None:
        """Frees all pieces. None is in use."""
        for piece in self._pieces:
            piece.drop()
        self._pieces.clear()
        self._free.clear()

    def _find(self, size: int) -> Optional[Piece]:
        free = self._free.get(size)
        while free:
            piece = free.pop()
            if not piece.is_used and piece.mem:
                return piece
        return None

    def _make(self, size: int) -> Optional[Piece]:
        if self._total + size > self._limit:
            piece = self._make_room(size)
            # With no piece in use, there would be nothing to wait for.
            if piece or (self._total + size > self._limit and self._used):
                return piece
        piece = Piece(size)
        self._pieces.append(piece)
        try:
            piece.register(self._core)
        except Error as e:
            self._pieces.remove(piece)
            if e.errno == ENOMEM and self._used:
                return None
            raise
        self._total += size
        return piece

    def _make_room(self, size: int) -> Optional[Piece]:
        """Returns a free piece of that size which the lists lack, if there is one."""
        unused = [piece for piece in self._pieces if not piece.is_used]
        for piece in unused:
            if piece.size == size and piece.mem:
                return piece
        self._total = sum(piece.size for piece in self._pieces)
        for piece in unused:
            if self._total + size > self._limit:
                piece.drop()
                self._pieces.remove(piece)
                self._total -= piece.size
        return None
