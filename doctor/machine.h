/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * Facts about this machine: RDMA devices with their ports and addresses, limits
 * of this process, kernel modules, FUSE, io_uring, memory. check.h evaluates
 * them.
 *
 * Everything but the limits of devices is read from files below one root directory.
 * For tests, it can be a made-up /sys, /proc, /dev and so on.
 *
 * Thread: setup.
 */
#ifndef DOCTOR_MACHINE_H
#define DOCTOR_MACHINE_H

#include <net/if.h>
#include <stdbool.h>
#include <stdint.h>

#include "transport/device_facts.h"

#define MACHINE_DEVICES_MAX 8
#define MACHINE_PORTS_MAX   4
#define MACHINE_GIDS_MAX    16

/* No limit. */
#define MACHINE_ANY UINT64_MAX

/* The result of opening a file of the kernel: 0, or a negative errno. */
typedef int machine_open;

struct machine_gid {
	unsigned int index;
	char address[64]; /* "10.0.0.1", "fe80::1", or the GID */
	char type[16];	  /* "RoCE v2", "IB/RoCE v1" */
	char netdev[IFNAMSIZ];
	bool is_link_local;
};

/* State of a port, as in /sys (InfiniBand 14.2.5.6). */
enum machine_port_state {
	MACHINE_PORT_DOWN = 1,
	MACHINE_PORT_INIT = 2, /* InfiniBand: no subnet manager has been here */
	MACHINE_PORT_ARMED = 3,
	MACHINE_PORT_ACTIVE = 4,
};

struct machine_port {
	unsigned int number;
	unsigned int state;    /* enum machine_port_state, or another number */
	char state_text[32];   /* "ACTIVE" */
	char phys_text[32];    /* "LinkUp" */
	char link_layer[16];   /* "Ethernet", "InfiniBand" */
	char rate[48];	       /* "100 Gb/sec (4X EDR)" */
	char netdev[IFNAMSIZ]; /* interface of this port; "": none */
	unsigned int netdev_mtu; /* bytes; 0: unknown */
	unsigned int active_mtu; /* bytes; 0: unknown */
	struct machine_gid gids[MACHINE_GIDS_MAX];
	unsigned int gid_cnt;
	unsigned int more_gids; /* that do not fit into gids[] */
};

struct machine_device {
	char name[64];	   /* "mlx5_0" */
	char hca_type[64]; /* "MT4123"; "": unknown */
	char firmware[32]; /* "": it reports none */
	bool is_iwarp;
	bool is_soft;	       /* soft-RoCE or siw */
	char uverbs[16];       /* "uverbs0"; "": the kernel has no such file */
	machine_open opens;    /* /dev/infiniband/uverbsN */
	bool has_facts;	       /* facts is filled in */
	struct error no_facts; /* the reason; err 0: it was not tried */
	struct xp_device_facts facts;
	struct machine_port ports[MACHINE_PORTS_MAX];
	unsigned int port_cnt;
};

enum machine_module {
	MACHINE_IB_UVERBS,
	MACHINE_RDMA_UCM,
	MACHINE_RDMA_CM,
	MACHINE_RDMA_RXE,
	MACHINE_IB_SRP,
	MACHINE_IB_SRPT,
	MACHINE_FUSE,
	MACHINE_MODULES,
};

enum machine_module_state {
	MACHINE_MODULE_ABSENT,	 /* this kernel does not have it */
	MACHINE_MODULE_CAN_LOAD, /* it is on the disk */
	MACHINE_MODULE_IN,	 /* loaded, or built in */
};

/* "ib_uverbs" */
const char *machine_module_name(enum machine_module module);

struct machine {
	char kernel[80]; /* "6.1.0-28-amd64" */
	unsigned int kernel_major, kernel_minor;
	bool is_container;
	bool is_root;
	struct machine_device devices[MACHINE_DEVICES_MAX];
	unsigned int device_cnt;
	bool has_ipoib;	       /* an interface of IP over InfiniBand */
	machine_open cm_opens; /* /dev/infiniband/rdma_cm */
	uint64_t memlock;      /* bytes; MACHINE_ANY */
	bool ignores_memlock;  /* CAP_IPC_LOCK */
	uint64_t open_files;   /* MACHINE_ANY */
	enum machine_module_state modules[MACHINE_MODULES];
	machine_open fuse_opens; /* /dev/fuse */
	bool has_fusermount;
	int fuse_uring; /* 1: on; 0: off; -1: this kernel does not have it */
	/* kernel.io_uring_disabled: 0, 1 (only for privileged users), 2;
	 * -1: this kernel does not have the setting. */
	int uring_disabled;
	int uring_err;	    /* result of a ring: 0, or a negative errno */
	uint64_t huge_size; /* bytes of a huge page; 0: unknown */
	uint64_t huge_total, huge_free;
	char transparent[16]; /* "always", "madvise", "never"; "": unknown */
};

/*
 * Reads the files below @root ("": this machine). A file that cannot be read
 * counts as unknown or missing. RDMA devices and io_uring are only tried if
 * @root is "".
 */
void machine_read(const char *root, struct machine *ret);

/* True if @port has an address by which the RDMA connection manager finds
 * it. */
bool machine_port_is_usable(const struct machine *m,
			    const struct machine_port *port);

#endif
