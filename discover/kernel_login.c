/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/kernel_login.h"

#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "discover/print.h"

/* A number in a file of /sys; 0: there is none. */
static uint64_t read_number(const char *dir, const char *name)
{
	char path[512];
	char text[32] = "";
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "re");
	if (!f)
		return 0;
	if (!fgets(text, sizeof(text), f))
		text[0] = '\0';
	fclose(f);
	return strtoull(text, NULL, 16);
}

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	ssize_t len = (ssize_t)strlen(text);
	bool done = fd >= 0 && write(fd, text, (size_t)len) == len;
	int err = errno;

	if (fd >= 0)
		close(fd);
	errno = err;
	return done;
}

/* Calls each(@user) for the SCSI host of each login to @id. Returns how many. */
static unsigned int for_each_host(const struct srp_port_id *id,
				  void (*each)(const char *dir))
{
	unsigned int cnt = 0;
	glob_t g;

	if (glob("/sys/class/scsi_host/host*", 0, NULL, &g))
		return 0;
	for (size_t i = 0; i < g.gl_pathc; i++) {
		const char *dir = g.gl_pathv[i];

		if (read_number(dir, "id_ext") != srp_port_id_ext(id) ||
		    read_number(dir, "ioc_guid") != srp_port_id_guid(id))
			continue;
		cnt++;
		if (each)
			each(dir);
	}
	globfree(&g);
	return cnt;
}

bool kernel_login_exists(const struct srp_port_id *id)
{
	return for_each_host(id, NULL);
}

static void host_remove(const char *dir)
{
	char path[128];

	snprintf(path, sizeof(path),
		 "/sys/class/srp_remote_ports/port-%s:1/delete",
		 strstr(dir, "/host") + strlen("/host"));
	if (!write_text(path, "1"))
		log_warn("%s: %s", path, strerror(errno));
}

void kernel_login_remove(const struct srp_port_id *id)
{
	for_each_host(id, host_remove);
}

/* ---- login ---- */

static bool login_by(const struct found_target *t,
		     const struct found_address *a, const char *options)
{
	char pattern[128], line[PRINT_ADD_TARGET_SIZE], text[512];
	bool done;
	glob_t g;

	snprintf(pattern, sizeof(pattern),
		 "/sys/class/infiniband_srp/srp-%s-*/add_target", a->by);
	if (glob(pattern, 0, NULL, &g)) {
		log_error("%s: the kernel's initiator is not there; try "
			  "modprobe ib_srp",
			  t->instance);
		return false;
	}
	snprintf(text, sizeof(text), "%s%s", add_target_text(t, a, line),
		 options);
	/* EEXIST: it is logged in already. */
	done = write_text(g.gl_pathv[0], text) || errno == EEXIST;
	if (!done)
		log_error("%s: the kernel's initiator cannot log in by %s: %s; "
			  "see dmesg",
			  t->instance, a->text, strerror(errno));
	globfree(&g);
	return done;
}

int kernel_login_start(const struct found_target *t, const char *options)
{
	bool tried = false;

	for (unsigned int i = 0; i < t->address_cnt; i++) {
		const struct found_address *a = &t->addresses[i];

		if (!a->usable || !xp_kind_traits(a->uri.kind)->ib_srp)
			continue;
		if (login_by(t, a, options))
			return EXIT_SUCCESS;
		tried = true;
	}
	if (tried)
		return EXIT_FAILURE;
	log_error("%s: no address that the kernel's initiator can use; it "
		  "needs RDMA",
		  t->instance);
	return EXIT_FAILURE;
}
