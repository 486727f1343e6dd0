# SPDX-License-Identifier: BSD-2-Clause
"""srpi: read and write volumes of SRP targets, over RDMA or TCP.

    import srpi

    with srpi.connect("srp://10.0.0.1/disk") as session:
        volume = session.volume()
        volume.write(0, b"x" * volume.block_size)
        print(volume.read(0, 4096))

srpi.aio has the same for asyncio, with many requests in flight. The manual page is
srpi-python(3).
"""
from . import aio
from ._memory import Memory
from ._sync import Session, Volume, connect
from ._types import (
    URI,
    ClosedError,
    Error,
    Extent,
    Options,
    Path,
    PathState,
    Sense,
    SessionInfo,
    State,
    Stats,
    VolumeEvent,
    library_version,
    parse_uri,
    port_of_identity,
)

__version__ = library_version()
__all__ = [
    "URI", "ClosedError", "Error", "Extent", "Memory", "Options", "Path",
    "PathState", "Sense", "Session", "SessionInfo", "State", "Stats", "Volume",
    "VolumeEvent", "aio", "connect", "library_version", "parse_uri",
    "port_of_identity",
]
