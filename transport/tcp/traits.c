/* SPDX-License-Identifier: BSD-2-Clause */
#include "transport/kind.h"

const struct xp_traits xp_tcp_traits = {
	.name = "TCP",
	.scheme = "srp+tcp",
	.tls_scheme = "srp+tls",
	.fabric = "TCP",
	.fast_channels = 1, /* a second one was slower */
	.show_listeners = "ss -tlp",
};
