#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""extents.py URI: prints where the volumes of a target have data and holes."""
import sys

import srpi


def main() -> None:
    if len(sys.argv) != 2:
        sys.exit("Usage: extents.py URI")
    try:
        with srpi.connect(sys.argv[1]) as session:
            for volume in session.volumes:
                print(f"{volume.name}: {volume.size} bytes")
                for extent in volume.extents():
                    kind = "data" if extent.is_data else "hole"
                    print(f"  {kind} {extent.length} bytes at {extent.offset}")
    except srpi.Error as e:
        sys.exit(f"extents.py: {e}")


if __name__ == "__main__":
    main()
