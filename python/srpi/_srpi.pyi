# SPDX-License-Identifier: BSD-2-Clause
# The extension module, which cffi makes of srp_initiator.h and bridge.h.
from typing import Any

ffi: Any
lib: Any
