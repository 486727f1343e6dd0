#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Writes the C source of the extension module srpi._srpi.

    build_srpi.py OUTPUT HEADER...

cffi reads declarations, but no preprocessor lines. So this script takes the comments,
the preprocessor lines and the C++ guards out of the headers. What is left declares
all of their functions, structures and constants: nothing is written twice. The C
compiler then checks each declaration against the header itself.
"""
import re
import sys

from cffi import FFI


def declarations(header: str) -> str:
    """The declarations of a header, for FFI.cdef()."""
    text = re.sub(r"/\*.*?\*/", " ", header, flags=re.S)
    text = re.sub(r"^#ifdef __cplusplus$.*?^#endif$", "", text, flags=re.S | re.M)
    # Numbers stay, because they are sizes of arrays.
    numbers = re.findall(r"^#define[ \t]+(\w+)[ \t]+(\d+|\(-\d+\))[ \t]*$", text, re.M)
    text = re.sub(r"^#.*$", "", text, flags=re.M)
    return "".join(
        f"#define {name} {value.strip('()')}\n" for name, value in numbers
    ) + text


def main(output: str, headers: list[str]) -> None:
    ffi = FFI()
    for header in headers:
        with open(header, encoding="utf-8") as file:
            ffi.cdef(declarations(file.read()))
    ffi.set_source("srpi._srpi", '#include "bridge.h"')
    ffi.emit_c_code(output)


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2:])
