#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Tests of the Python package srpi. python.sh runs them, each in a process of
its own: python_srpi.py --list prints the tests; python_srpi.py NAME runs one.

$T is a scratch directory; rdma-target is in $PATH.
"""
import array
import asyncio
import errno
import gc
import math
import mmap
import os
import pathlib
import pickle
import random
import re
import signal
import subprocess
import sys
import threading
import time
import warnings
import weakref

import srpi
from srpi import _core, _session, _srpi

T = pathlib.Path(os.environ["T"])
SOURCE = pathlib.Path(__file__).resolve().parents[2]
MIB = 1 << 20
STUCK = "fault=read:stuck:lba=0-1023"


class Target:
    """An rdma-target, over TCP."""

    def __init__(self, *backings: str, options=()) -> None:
        self.args = list(options)
        for backing in backings:
            self.args += ["--backing", backing]
        self.log = T / f"target.{os.getpid()}.log"
        for _ in range(5):
            self.port = 20000 + random.randrange(12000)
            self.uri = f"srp+tcp://127.0.0.1:{self.port}"
            if self.start():
                return
        raise AssertionError(self.log.read_text())

    def start(self) -> bool:
        args = ["rdma-target", "--listen", self.uri, *self.args]
        with self.log.open("w") as log:
            self.process = subprocess.Popen(args, stdout=log, stderr=log)
        wait_for(lambda: self.says("rdma-fuse srp") or self.has_ended())
        return not self.has_ended()

    def says(self, pattern: str, count: int = 1) -> bool:
        return len(re.findall(pattern, self.log.read_text())) >= count

    def has_ended(self) -> bool:
        return self.process.poll() is not None

    def kill(self) -> None:
        self.process.kill()
        self.process.wait()

    def release_stuck(self) -> None:
        self.process.send_signal(signal.SIGUSR1)

    def __enter__(self) -> "Target":
        return self

    def __exit__(self, *exc: object) -> None:
        self.kill()


def wait_for(condition) -> None:
    for _ in range(6000):
        if condition():
            return
        time.sleep(0.02)
    raise AssertionError("waited in vain")


async def wait_for_async(condition) -> None:
    for _ in range(6000):
        if condition():
            return
        await asyncio.sleep(0.02)
    raise AssertionError("waited in vain")


def raises(kind, pattern, function, *args):
    """Calls @function and returns its exception."""
    try:
        function(*args)
    except kind as e:
        assert re.search(pattern, str(e)), f"{e!r}; wanted {pattern}"
        assert "\n" not in str(e), e
        return e
    raise AssertionError(f"no {kind}")


async def raises_async(kind, pattern, awaitable):
    try:
        await awaitable
    except kind as e:
        assert re.search(pattern, str(e)), f"{e!r}; wanted {pattern}"
        return e
    raise AssertionError(f"no {kind}")


def ram(name="disk", size="64M", **more):
    options = "".join(f",{k.replace('_', '-')}={v}" for k, v in more.items())
    return f"ram:{size},name={name}{options}"


def sparse(name="sparse.img"):
    """Makes a file with 3 MiB of data after a hole of 1 MiB."""
    path = T / f"{os.getpid()}.{name}"
    with path.open("wb") as file:
        file.truncate(64 * MIB)
        file.seek(MIB)
        file.write(os.urandom(3 * MIB))
    return path


def inflight(session):
    return len(session._core.inflight)


# ---- connecting ----


def refused_port():
    """a refused port is one line and an errno"""
    e = raises(
        srpi.Error, r"127\.0\.0\.1:9 over TCP.*connection refused; is rdma-target",
        srpi.connect, "srp+tcp://127.0.0.1:9",
    )
    assert e.errno == errno.ECONNREFUSED, e.errno
    assert e.sense is None and not e.answer


def refused_port_async():
    """the same with asyncio"""

    async def main():
        await raises_async(
            srpi.Error, "connection refused", srpi.aio.connect("srp+tcp://127.0.0.1:9")
        )

    asyncio.run(main())
    assert not _core._cores


def bad_arguments():
    """bad addresses and options are refused with one line"""
    raises(srpi.Error, "scheme 'http'", srpi.connect, "http://127.0.0.1")
    raises(ValueError, "NUL", srpi.connect, "srp://a\0b")
    raises(TypeError, "uri must be a str", srpi.connect, b"srp://a")
    for name, value, pattern in (
        ("timeout", -1, "timeout=-1: not a number of seconds"),
        ("io_timeout", math.nan, "io_timeout=nan"),
        ("colour", "red", "colour"),
    ):
        raises(
            (ValueError, TypeError), pattern,
            lambda: srpi.connect("srp://127.0.0.1", **{name: value}),
        )
    raises(
        ValueError, ".", lambda: srpi.connect(
            "srp://127.0.0.1", fast_io_fail=20, dev_loss=10)
    )


def uri_parts():
    """a URI is taken apart, and an identity becomes a port identifier"""
    uri = srpi.parse_uri("srp://10.0.0.1,[::1]:7/disk?initiator=" + "1" * 32)
    assert uri.addresses == [("10.0.0.1", 5555), ("::1", 7)], uri
    assert uri.volume == "disk" and uri.host == "10.0.0.1" and uri.port == 5555
    raises(srpi.Error, "port '70000'", srpi.parse_uri, "srp://10.0.0.1:70000")
    port = srpi.port_of_identity("me")
    with Target(ram()) as target:
        with srpi.connect(target.uri, identity="me") as s:
            assert s.info.initiator == port, (s.info, port)


def every_function_is_bound():
    """each function of the header is used by the package, or known to be left out"""
    # The package waits on its own, so that Ctrl-C ends the wait.
    left_out = {"srpi_connect_wait", "srpi_close_wait", "srpi_io_wait"}
    # A request that is cancelled begins no further operation, so it needs no range.
    left_out |= {"srpi_range_take", "srpi_range_submit", "srpi_range_give_back"}
    header = (SOURCE / "initiator/srp_initiator.h").read_text()
    header = re.sub(r"/\*.*?\*/", "", header, flags=re.S)
    functions = set(re.findall(r"\b(srpi_\w+)\(", header))
    functions -= {f for f in functions if re.search(rf"\b{f}\(\*", header)}
    assert len(functions) > 30, functions
    for function in functions:
        assert hasattr(_srpi.lib, function), f"not declared: {function}"
    package = SOURCE / "python"
    used = set(re.findall(r"\b(srpi_\w+)\(", (package / "bridge.c").read_text()))
    for file in (package / "srpi").glob("*.py"):
        used |= set(re.findall(r"lib\.(srpi_\w+)", file.read_text()))
    assert functions - used == left_out, functions - used ^ left_out


def every_option_is_bound():
    """each member of struct srpi_options can be set"""
    bridge = (SOURCE / "python/bridge.c").read_text()
    options = {name for name, _ in _srpi.ffi.typeof("struct srpi_options").fields}
    core = (SOURCE / "python/srpi/_core.py").read_text()
    used = set(re.findall(r"\bc\.(\w+) = ", core))
    used |= set(re.findall(r"\boptions->(\w+) = ", bridge))
    assert options == used, options ^ used


def purpose_survives_a_kill():
    """a program with a purpose is the same initiator after kill -9"""
    program = (
        "import os, signal, srpi, sys\n"
        "s = srpi.connect(sys.argv[1], purpose='database')\n"
        "print(s.info.initiator, flush=True)\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )

    def start_and_kill():
        child = subprocess.run(
            [sys.executable, "-c", program, target.uri], capture_output=True, text=True
        )
        assert child.returncode == -signal.SIGKILL, child
        return child.stdout

    with Target(ram()) as target:
        ports = {start_and_kill(), start_and_kill()}
        assert len(ports) == 1, ports


def purpose_is_for_one_session():
    """a second session with a purpose is told why it is another initiator"""
    purpose = f"a test, {os.getpid()}"
    with Target(ram()) as target:
        with srpi.connect(target.uri, purpose=purpose) as s:
            first = s.info
            assert first.purpose_fault == "", first
            with srpi.connect(target.uri, purpose=purpose) as other:
                assert other.info.initiator != first.initiator, first
                assert "another session" in other.info.purpose_fault, other.info
        with srpi.connect(target.uri, purpose=purpose) as s:
            assert s.info.initiator == first.initiator, (s.info, first)


# ---- volumes and I/O ----


def volumes_and_info():
    """volumes and the session describe themselves"""
    with Target(ram(), "ram:32M,name=scratch,block-size=4096,ro") as target:
        with srpi.connect(target.uri) as s:
            assert [v.name for v in s.volumes] == ["disk", "scratch"]
            disk, scratch = s.volumes
            assert (disk.size, disk.lun, disk.block_size) == (64 * MIB, 0, 512)
            assert scratch.block_size == 4096 and scratch.read_only
            assert not disk.read_only and disk.can_unmap and disk.is_present
            for name in dir(disk):
                if not name.startswith("_"):
                    getattr(disk, name)
            assert s.volume("scratch") is scratch and s.volume(1) is scratch
            raises(srpi.Error, "name one volume of .*disk, scratch", s.volume)
            e = raises(srpi.Error, "no volume 'x' on .*has: disk", s.volume, "x")
            assert e.errno == errno.ENOENT
            assert s.state is srpi.State.RUNNING and str(s.state) == "running"
            assert s.info.transport == "TCP" and s.info.peer == target.uri[10:]
            assert s.stats.commands > 0 and s.stats.reconnects == 0
            (path,) = s.paths
            assert str(path.state) == "in use", path
            assert "running" in repr(s) and "'disk'" in repr(disk)
            raises(srpi.Error, "not gone", s.forget, disk)
            e = raises(srpi.Error, "write-protected", scratch.write, 0, bytes(4096))
            assert e.errno == errno.EROFS
        with srpi.connect(target.uri + "/scratch") as s:
            assert s.volume().name == "scratch"


def a_number_is_a_lun_and_a_text_a_name():
    """volume(0) is LUN 0, also if another volume is named "0"; "0" is a name"""
    backings = ("ram:16M,name=0,lun=1", "ram:16M,name=disk,lun=0")
    with Target(*backings) as target:
        with srpi.connect(target.uri) as s:
            assert s.volume(0).name == "disk" and s.volume(1).name == "0"
            assert s.volume("0").lun == 1
            raises(srpi.Error, "no volume '1' on .*has: ", s.volume, "1")
            e = raises(srpi.Error, "no LUN 2 on .*has: ", s.volume, 2)
            assert e.errno == errno.ENOENT
        # VOLUME of a URI can only be text: a name, else a LUN.
        for volume, lun in (("0", 1), ("1", 1), ("disk", 0)):
            with srpi.connect(f"{target.uri}/{volume}") as s:
                assert s.volume().lun == lun, volume


def info_has_what_rdma_negotiated():
    """a session tells what RDMA negotiated"""
    # There may be no RDMA here, so the library's answer is replaced.
    c_fields = [name for name, _ in
                _srpi.ffi.typeof("struct srpi_session_info").fields]
    assert list(srpi.SessionInfo._fields) == c_fields[1:], c_fields
    gid = _srpi.ffi.new("char[]", b"fe80::1")

    class Library:
        def __getattr__(self, name):
            return getattr(_srpi.lib, name)

        def srpi_session_info(self, session, c):
            _srpi.lib.srpi_session_info(session, c)
            c.mtu, c.port_mtu, c.read_depth = 1024, 4096, 16
            c.gid, c.pkey, c.sl = gid, 0x8001, 3

    with Target(ram()) as target, srpi.connect(target.uri) as s:
        assert s.info[-8:] == (0, 0, 0, "", 0, 0, "", ""), s.info
        real, _session.lib = _session.lib, Library()
        try:
            info = s.info
        finally:
            _session.lib = real
        assert (info.mtu, info.port_mtu, info.read_depth) == (1024, 4096, 16), info
        assert (info.gid, info.pkey, info.sl) == ("fe80::1", 0x8001, 3), info


def reads_what_was_written():
    """reads what was written, from all kinds of buffers"""
    with Target(ram()) as target, srpi.connect(target.uri) as s:
        v = s.volume()
        data = os.urandom(5 * MIB + 512)
        for offset, source in (
            (0, data), (8 * MIB, bytearray(data)), (16 * MIB, memoryview(data)),
            (24 * MIB, array.array("B", data)),
        ):
            v.write(offset, source)
            assert v.read(offset, len(data)) == data
        v.write(512, b"x" * 512, fua=True)
        assert v.read(0, 1536) == data[:512] + b"x" * 512 + data[1024:1536]
        target_buffer = bytearray(len(data))
        assert v.read_into(8 * MIB, target_buffer) == len(data)
        assert target_buffer == data
        part = memoryview(target_buffer)[512:1024]
        v.read_into(1024, part)
        assert part == data[1024:1536]
        assert v.read(0, 0) == b"" and inflight(s) == 0
        v.write(0, b"")
        v.flush()


def zero_unmap_flush():
    """zero, unmap and flush"""
    with Target(f"{sparse()},name=disk") as target, srpi.connect(target.uri) as s:
        v = s.volume()
        assert v.read(MIB, MIB) != bytes(MIB)
        v.zero(MIB, MIB)
        assert v.read(MIB, MIB) == bytes(MIB)
        v.write(MIB, b"1" * 4096)
        v.zero(MIB, MIB, unmap=True, fua=True)
        v.unmap(2 * MIB, MIB)
        assert v.unmap_zeroes
        assert v.read(MIB, 2 * MIB) == bytes(2 * MIB)
        v.flush()
        assert list(v.extents()) == [(0, 3 * MIB, False), (3 * MIB, MIB, True),
                                     (4 * MIB, 60 * MIB, False)]


def extents_of_a_sparse_file():
    """extents of a sparse file, waiting and with asyncio"""
    wanted = [(0, MIB, False), (MIB, 3 * MIB, True), (4 * MIB, 60 * MIB, False)]

    async def main(uri):
        async with srpi.aio.connect(uri) as s:
            return [x async for x in s.volume().extents()]

    with Target(f"{sparse()},name=disk") as target:
        with srpi.connect(target.uri) as s:
            v = s.volume()
            assert list(v.extents()) == wanted
            assert list(v.extents(2 * MIB, 3 * MIB)) == [
                (2 * MIB, 2 * MIB, True), (4 * MIB, MIB, False)]
            assert list(v.extents(0, 0)) == []
        assert asyncio.run(main(target.uri)) == wanted


def wrong_ranges():
    """what is not aligned, or outside, is refused with the reason"""
    with Target(ram()) as target, srpi.connect(target.uri) as s:
        v = s.volume()
        for pattern, call, args in (
            ("multiples of 512", v.read, (3, 512)),
            ("multiples of 512", v.write, (0, b"abc")),
            ("ends at 67108864", v.read, (64 * MIB, 512)),
            ("ends at 67108864", v.read, (0, 1 << 62)),
            ("ends at 67108864", v.write, (64 * MIB - 512, bytes(1024))),
            ("ends at 67108864", v.zero, (0, 65 * MIB)),
        ):
            e = raises(srpi.Error, f"disk of .*failed: .*{pattern}", call, *args)
            assert e.errno == errno.EINVAL
        raises(ValueError, "offset -512", v.read, -512, 512)
        raises(TypeError, "offset 'a' is not a number", v.read, "a", 512)
        raises(TypeError, "length 0.5 is not a number", v.zero, 0, 0.5)
        raises(TypeError, ".", v.read_into, 0, bytes(512))
        raises(TypeError, ".", v.write, 0, memoryview(bytes(1024))[::2])
        assert v.read(0, 512) == bytes(512)


def sense_of_a_medium_error():
    """an error of the target carries its sense data"""
    with Target(ram() + ",fault=read:error:lba=2048-2055") as target:
        with srpi.connect(target.uri) as s:
            v = s.volume()
            e = raises(srpi.Error, "read of 4096 bytes at 1048576 on volume disk of .*"
                       "MEDIUM ERROR.*at block 2048", v.read, MIB, 4096)
            assert e.errno == errno.EIO and e.sense.key == 3, e.sense
            assert e.answer.startswith("MEDIUM ERROR") and not e.refused
            # One piece of several fails: the request fails once.
            raises(srpi.Error, "MEDIUM ERROR", v.read, 0, 8 * MIB)
            assert inflight(s) == 0
            assert v.read(0, 512) == bytes(512)
            assert pickle.loads(pickle.dumps(e)).errno == errno.EIO


def registered_memory():
    """registered memory is read into and written from in place"""
    with Target(ram()) as target, srpi.connect(target.uri) as s:
        v = s.volume()
        data = os.urandom(MIB)
        mine = bytearray(MIB)
        with s.alloc(2 * MIB) as memory, s.register(mine) as other:
            memory.view[:MIB] = data
            v.write(0, memory.view[:MIB])
            v.read_into(0, memory.view[MIB:])
            assert memory.view[MIB:] == data
            v.read_into(0, mine)
            assert mine == data
            # The pool was not used.
            assert s._core.pool._total == 0
            raises(BufferError, ".", mine.extend, b"x")
            assert len(memory) == 2 * MIB and len(other) == MIB
        mine.extend(b"x")
        view = memory.view
        assert len(view) == 0 and "free" in repr(memory)
        memory.free()
        raises(ValueError, "0 bytes", s.alloc, 0)
        late = s.alloc(4096)
        kept = late.view
    assert bytes(kept) == bytes(4096)
    late.free()


def copy_memory_is_limited():
    """copied data shares a limited pool, and more requests than fit wait"""

    async def main(uri):
        async with srpi.aio.connect(uri, copy_memory=2 * MIB) as s:
            v = s.volume()
            data = os.urandom(16 * MIB)
            await asyncio.gather(*(
                v.write(i * MIB, data[i * MIB:(i + 1) * MIB]) for i in range(16)))
            parts = await asyncio.gather(v.read(0, 8 * MIB), *(
                v.read(8 * MIB + i * 4096, 4096) for i in range(2048)))
            assert b"".join(parts) == data
            assert s._core.pool._total <= 2 * MIB, s._core.pool._total
            assert s._core.pool._used == 0

    with Target(ram()) as target:
        asyncio.run(main(target.uri))


# ---- asyncio ----


def sixty_four_in_flight():
    """64 requests are in flight at once"""

    async def main(target):
        async with srpi.aio.connect(target.uri) as s:
            v = s.volume()
            data = os.urandom(64 * 4096)
            await v.write(0, data)
            reads = asyncio.gather(*(v.read(i * 4096, 4096) for i in range(64)))
            await wait_for_async(lambda: target.says("stuck|hold", 1))
            await wait_for_async(lambda: inflight(s) == 64)
            assert not reads.done()
            while not reads.done():
                await asyncio.sleep(0.02)
                target.release_stuck()
            assert b"".join(await reads) == data

    with Target(f"{ram()},{STUCK}:count=64") as target:
        asyncio.run(main(target))


def cancelled_read_keeps_its_memory():
    """a cancelled read keeps its memory until it has ended"""

    async def main(target):
        async with srpi.aio.connect(target.uri) as s:
            v = s.volume()
            mine = bytearray(b"m" * 4096)
            memory = s.register(mine)
            copied = bytearray(b"c" * 4096)
            tasks = [asyncio.ensure_future(v.read_into(0, mine)),
                     asyncio.ensure_future(v.read_into(4096, copied)),
                     asyncio.ensure_future(v.read(8192, 4096))]
            await wait_for_async(lambda: inflight(s) == 3 and target.says("stuck|hold"))
            for task in tasks:
                task.cancel()
            for task in tasks:
                await raises_async(asyncio.CancelledError, "", task)
            assert inflight(s) == 3
            e = raises(srpi.Error, "used by 1 operation", memory.free)
            assert e.errno == errno.EBUSY
            raises(BufferError, ".", mine.extend, b"x")
            # No other request gets the pieces of the pool meanwhile.
            assert await v.read(32 * MIB, 4096) == bytes(4096)
            assert s._core.pool._used == 2
            while inflight(s):
                target.release_stuck()
                await asyncio.sleep(0.02)
            assert s._core.pool._used == 0
            assert mine == bytes(4096), "read in place after all"
            assert copied == b"c" * 4096, "nobody waits for it"
            memory.free()
            mine.extend(b"x")

    with Target(f"{ram()},{STUCK}:count=3") as target:
        asyncio.run(main(target))


def dropped_request_keeps_its_memory():
    """what nobody refers to stays as long as the target may write into it"""

    async def main(target):
        s = await srpi.aio.connect(target.uri)
        v = s.volume()
        await v.write(0, b"w" * 4096)
        core = s._core
        memory = s.register(mmap.mmap(-1, 4096))
        weak = weakref.ref(memory)
        task = asyncio.ensure_future(v.read_into(0, memory.view))
        await wait_for_async(lambda: len(core.inflight) == 1
                             and target.says("stuck|hold"))
        address = memory._address
        task.cancel()
        await asyncio.wait([task])
        del task, memory
        gc.collect()
        assert weak() is not None and len(core.inflight) == 1
        while core.inflight:
            target.release_stuck()
            await asyncio.sleep(0.02)
        ffi = _srpi.ffi
        assert ffi.buffer(ffi.cast("char *", address), 4096)[:] == b"w" * 4096
        # A session without references is also kept, and closed first.
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            del s, v
            gc.collect()
        assert any("was not closed" in str(w.message) for w in said), said
        assert core.ctx is None and weak() is None

    with Target(f"{ram()},{STUCK}:count=1") as target:
        asyncio.run(main(target))


def session_closed_during_requests():
    """closing ends requests in flight with ECANCELED, and later calls fail"""

    async def main(target):
        s = await srpi.aio.connect(target.uri)
        v = s.volume()
        reads = [asyncio.ensure_future(v.read(i * 4096, 4096)) for i in range(4)]
        await wait_for_async(lambda: inflight(s) == 4 and target.says("stuck|hold"))
        await asyncio.gather(s.close(), s.close())
        for read in reads:
            e = await raises_async(srpi.Error, "session was closed", read)
            assert e.errno == errno.ECANCELED
        await raises_async(srpi.ClosedError, "is closed", v.read(0, 512))
        raises(ValueError, "is closed", lambda: s.volumes)
        raises(ValueError, "is closed", lambda: v.size)
        await s.close()
        assert s.closed and s.state is srpi.State.CLOSED and "closed" in repr(s)
        assert "disk" in repr(v) and not _core._cores

    with Target(f"{ram()},{STUCK}") as target:
        asyncio.run(main(target))
        s = srpi.connect(target.uri)
        v = s.volume()
        s.close()
        s.close()
        e = raises(srpi.ClosedError, "is closed", v.read, 0, 512)
        assert e.errno == errno.ENOTCONN


def cancelled_connect():
    """a cancelled connect leaves nothing behind"""

    async def main(target):
        target.process.send_signal(signal.SIGSTOP)
        task = asyncio.ensure_future(srpi.aio.connect(target.uri)._connect())
        await asyncio.sleep(0.1)
        task.cancel()
        await raises_async(asyncio.CancelledError, "", task)
        target.process.send_signal(signal.SIGCONT)
        await wait_for_async(lambda: not _core._cores)
        async with srpi.aio.connect(target.uri) as s:
            assert s.volume().size == 64 * MIB

    with Target(ram()) as target:
        asyncio.run(main(target))


def target_restarted_during_io():
    """I/O goes on when the target is killed and started again"""
    path = sparse()
    states = []

    async def worker(v, n, until):
        """Writes blocks of its own and reads them back."""
        turns = 0
        while not until():
            data = os.urandom(4096)
            await v.write(n * 4096, data)
            assert await v.read(n * 4096, 4096) == data
            turns += 1
        return turns

    async def main(target):
        async with srpi.aio.connect(
            target.uri, fast_io_fail=math.inf,
            on_state=lambda state, why: states.append((state, why)),
        ) as s:
            v = s.volume()
            over = False
            tasks = [asyncio.ensure_future(worker(v, n, lambda: over))
                     for n in range(16)]
            await wait_for_async(lambda: s.stats.commands > 200)
            target.kill()
            await wait_for_async(lambda: s.state is srpi.State.BLOCKED)
            assert target.start()
            await wait_for_async(lambda: s.stats.reconnects == 1)
            before = s.stats.commands
            await wait_for_async(lambda: s.stats.commands > before + 200)
            over = True
            turns = await asyncio.gather(*tasks)
            assert all(turns), turns
            assert s.stats.last_error
        assert [x[0] for x in states][:2] == [srpi.State.BLOCKED, srpi.State.RUNNING]
        assert all(why for _, why in states), states

    with Target(f"{path},name=disk") as target:
        asyncio.run(main(target))


def session_given_up():
    """when the session is given up, requests fail and say so"""
    with Target(ram()) as target:
        states = []
        with srpi.connect(
            target.uri, fast_io_fail=0.2, dev_loss=0.4,
            on_state=lambda state, why: states.append(state),
        ) as s:
            target.kill()
            e = raises(srpi.Error, "state '(fast_io_fail|fail.fast|lost)'|failed",
                       s.volume().read, 0, 4096)
            assert e.errno == errno.EIO
            while s.state is not srpi.State.LOST:
                s.run(1)
            e = raises(srpi.Error, "in state 'lost'", s.volume().read, 0, 4096)
            assert e.refused
        assert states[0] is srpi.State.BLOCKED and states[-1] is srpi.State.LOST


# ---- threads, signals, processes ----


def interrupted_read():
    """Ctrl-C ends the waiting for a read, and the session stays usable"""
    with Target(f"{ram()},{STUCK}:count=1") as target, srpi.connect(target.uri) as s:
        v = s.volume()

        def interrupt():
            wait_for(lambda: target.says("stuck|hold"))
            os.kill(os.getpid(), signal.SIGINT)

        thread = threading.Thread(target=interrupt)
        thread.start()
        raises(KeyboardInterrupt, "", v.read, 0, 4096)
        thread.join()
        assert inflight(s) == 1
        assert v.read(MIB, 4096) == bytes(4096)
        target.release_stuck()
        while inflight(s):
            s.run(1)
        assert v.read(0, 4096) == bytes(4096)


class Interrupt(BaseException):
    """What the handler of a signal raises."""


def is_interrupted(nth, call):
    """Raises Interrupt before the nth byte code of the package that runs in the call.
    False: there are fewer."""
    left = nth

    def trace(frame, event, arg):
        nonlocal left
        if os.path.dirname(frame.f_code.co_filename) != os.path.dirname(srpi.__file__):
            return None
        frame.f_trace_opcodes = True
        left -= event == "opcode"
        if left:
            return trace
        sys.settrace(None)
        raise Interrupt

    sys.settrace(trace)
    try:
        call()
        return False
    except Interrupt:
        return True
    finally:
        sys.settrace(None)


def interrupted_anywhere():
    """an exception of a signal handler, anywhere in a call, loses no memory and no end"""
    data = os.urandom(8192)
    with Target(ram()) as target, srpi.connect(
        target.uri, copy_memory=64 << 10
    ) as s:
        v = s.volume()
        v.write(0, data)
        memory = s.alloc(8192)
        memory.view[:] = data
        for call in (
            lambda: v.read(0, 8192),
            lambda: v.write(0, data),
            lambda: v.write(0, memory.view),
            v.flush,
        ):
            nth = 1
            while is_interrupted(nth, call):
                assert v.read(0, 8192) == data
                nth += 1
            assert nth > 100, nth
        while inflight(s):
            s.run(1)
        assert s._core.pool._used == 0 and not s._core.waiting
        memory.free()


def other_threads():
    """another thread is refused, and may have a session of its own"""
    with Target(ram()) as target, srpi.connect(target.uri) as s:
        results = []

        def main():
            results.append(
                raises(RuntimeError, "another thread", s.volume, "disk"))
            with srpi.connect(target.uri) as mine:
                results.append(mine.volume().read(0, 512))

        thread = threading.Thread(target=main)
        thread.start()
        thread.join()
        assert len(results) == 2 and results[1] == bytes(512), results
        assert s.volume().read(0, 512) == bytes(512)


def forked_child():
    """a child process is refused; the session of the parent goes on"""
    with Target(ram()) as target, srpi.connect(target.uri) as s:
        v = s.volume()
        pid = os.fork()
        if pid == 0:
            try:
                raises(RuntimeError, "parent process", v.read, 0, 512)
                raises(RuntimeError, "parent process", s.close)
                with srpi.connect(target.uri) as mine:
                    assert mine.volume().read(0, 512) == bytes(512)
                sys.exit(0)
            except SystemExit:
                del s, v
                gc.collect()
                os._exit(0)
            except BaseException as e:
                print(e)
                os._exit(1)
        assert os.waitpid(pid, 0)[1] == 0
        v.write(0, b"p" * 512)
        assert v.read(0, 512) == b"p" * 512
        subprocess.run(["true"], check=True)
        assert v.read(0, 512) == b"p" * 512


def process_ends_with_requests():
    """a process that ends with requests in flight logs out first"""
    program = """
import atexit
# Runs after what srpi has registered.
atexit.register(lambda: print("sessions left:", len(srpi._core._cores)))
import asyncio, srpi, sys
async def main():
    global s, tasks
    s = await srpi.aio.connect(sys.argv[1])
    tasks = [asyncio.ensure_future(s.volume().read(0, 4096)) for _ in range(8)]
    await asyncio.sleep(0.1)
asyncio.run(main())
"""
    with Target(f"{ram()},{STUCK}") as target:
        done = subprocess.run([sys.executable, "-c", program, target.uri],
                              capture_output=True, text=True)
        assert done.returncode == 0 and not done.stderr, done
        assert done.stdout == "sessions left: 0\n", done

        def is_out():
            target.release_stuck()
            return target.says("logout")

        wait_for(is_out)


def volumes_that_come_and_go():
    """follow_volumes reports volumes that come and go"""
    events = []
    control = T / "control"
    with Target(
        ram(), ram("other"), ram("third"), options=["--control", str(control)]
    ) as target:
        with srpi.connect(
            target.uri, follow_volumes=True, keep_alive=0.1,
            on_volume=lambda v, event, why: events.append((v, event)),
        ) as s:
            third = s.volume("third")
            subprocess.run(["rdma-ctl", "--control", str(control), "--force",
                            "volume", "remove", "third"], check=True, capture_output=True)
            while not events:
                s.run(1)
            assert events == [(third, srpi.VolumeEvent.GONE)], events
            assert not third.is_present and len(s.volumes) == 2
            e = raises(srpi.Error, "gone", third.read, 0, 512)
            assert e.errno == errno.ENODEV
            s.forget(third)
            raises(srpi.Error, "forgotten", third.read, 0, 512)


TESTS = [
    refused_port, refused_port_async, bad_arguments, uri_parts,
    every_function_is_bound, every_option_is_bound, purpose_survives_a_kill,
    purpose_is_for_one_session, volumes_and_info,
    a_number_is_a_lun_and_a_text_a_name, info_has_what_rdma_negotiated,
    reads_what_was_written, zero_unmap_flush, extents_of_a_sparse_file, wrong_ranges,
    sense_of_a_medium_error, registered_memory, copy_memory_is_limited,
    sixty_four_in_flight, cancelled_read_keeps_its_memory,
    dropped_request_keeps_its_memory, session_closed_during_requests,
    cancelled_connect, target_restarted_during_io, session_given_up,
    interrupted_read, interrupted_anywhere, other_threads, forked_child,
    process_ends_with_requests,
    volumes_that_come_and_go,
]

if __name__ == "__main__":
    if sys.argv[1] == "--list":
        for test in TESTS:
            print(test.__name__, test.__doc__)
    else:
        warnings.simplefilter("error")
        {test.__name__: test for test in TESTS}[sys.argv[1]]()
