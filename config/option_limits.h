/* SPDX-License-Identifier: BSD-2-Clause */
/* Limits and defaults that both options and the objects of the target need. */
#ifndef CONFIG_OPTION_LIMITS_H
#define CONFIG_OPTION_LIMITS_H

#define LUNS_MAX    256
#define WORKERS_MAX 64
/* Bytes of the largest READ or WRITE; volume.h says why. */
#define VOLUME_MAX_TRANSFER (4u << 20)
/* Until an RDMA operation without progress ends its channel; see watchdog.h. */
#define WATCHDOG_RDMA_TIMEOUT_MS 30000

/*
 * Limits of what initiators can make grow. A login counts from its request
 * until its channel is gone. It is half open until its connection is
 * established.
 *
 * If the rules know several principals (access.h), one of them has at most three quarters of
 * those of all.
 */
struct port_limits {
	unsigned int logins;	     /* of all */
	unsigned int host_logins;    /* from one host: access_host() */
	unsigned int half_open;	     /* of all */
	unsigned int host_half_open; /* from one host */
	unsigned int channels;	     /* of one I_T nexus, with waiting logins;
			        * ib_srp opens about one for each processor */
};

#define PORT_LOGINS_DEFAULT	    4096
#define PORT_HOST_LOGINS_DEFAULT    1024
#define PORT_HALF_OPEN_DEFAULT	    512
#define PORT_HOST_HALF_OPEN_DEFAULT 128
#define PORT_CHANNELS_DEFAULT	    64
#define PORT_LIMITS_DEFAULT                                    \
	{                                                      \
		.logins = PORT_LOGINS_DEFAULT,                 \
		.host_logins = PORT_HOST_LOGINS_DEFAULT,       \
		.half_open = PORT_HALF_OPEN_DEFAULT,           \
		.host_half_open = PORT_HOST_HALF_OPEN_DEFAULT, \
		.channels = PORT_CHANNELS_DEFAULT,             \
	}

#endif
