/* SPDX-License-Identifier: BSD-2-Clause */
/* Results of operations on sockets as fault points; see fault_calls.h. */
#ifndef TRANSPORT_TCP_FAULT_H
#define TRANSPORT_TCP_FAULT_H

#include "base/fault_calls.h"

#define tcp_result(...) FAULT_RESULT(tcp_result, -ENOMEM, __VA_ARGS__)

#endif
