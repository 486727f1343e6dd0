/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/privileges.h"

#include <errno.h>
#include <grp.h>
#include <linux/capability.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/capabilities.h"
#include "base/number.h"
#include "base/log.h"

/* Raises a limit to the hard limit. A privileged process raises that first. */
static void raise_limit(int resource, rlim_t hard)
{
	struct rlimit lim = { .rlim_cur = hard, .rlim_max = hard };

	if (hard && setrlimit(resource, &lim) == 0)
		return;
	if (getrlimit(resource, &lim) || lim.rlim_cur == lim.rlim_max)
		return;
	lim.rlim_cur = lim.rlim_max;
	if (setrlimit(resource, &lim))
		log_info("cannot raise limit %d: %s", resource,
			 strerror(errno));
}

static bool is_unlimited(int resource)
{
	struct rlimit lim;

	return getrlimit(resource, &lim) == 0 && lim.rlim_cur == RLIM_INFINITY;
}

/* ---- capabilities ---- */

/* Programs that this process might execute get no more rights. A capability
 * that was removed before the start cannot be dropped, and need not be. */
static void drop_bounding_set(void)
{
	for (unsigned long cap = 0; cap <= CAP_LAST_CAP; cap++)
		prctl(PR_CAPBSET_DROP, cap, 0, 0, 0);
	prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
}

/* ---- the user ---- */

static int find_user(const char *name, uid_t *ret_uid, gid_t *ret_gid,
		     struct error *e)
{
	const struct passwd *pw = getpwnam(name);
	uint64_t uid;

	if (!pw && number_parse(name, UINT32_MAX, &uid))
		pw = getpwuid((uid_t)uid);
	if (!pw) {
		error_set(e, -ENOENT, "--user '%s': there is no such user",
			  name);
		return -ENOENT;
	}
	*ret_uid = pw->pw_uid;
	*ret_gid = pw->pw_gid;
	return 0;
}

int privileges_check_user(const char *user, struct error *e)
{
	uid_t uid;
	gid_t gid;

	return find_user(user, &uid, &gid, e);
}

/* By the calls themselves, because those of the C library change all threads. */
int privileges_use_files_as(const char *user, struct error *e)
{
	uid_t uid = getuid();
	gid_t gid = getgid();
	int err = user ? find_user(user, &uid, &gid, e) : 0;

	if (err || uid == geteuid())
		return err;
	/* The group first, or last: only root may change it. */
	if ((user && syscall(SYS_setresgid, -1, gid, -1)) ||
	    syscall(SYS_setresuid, -1, uid, -1) ||
	    (!user && syscall(SYS_setresgid, -1, gid, -1)))
		return error_set(e, -errno, "--user '%s': %s", user,
				 strerror(errno));
	return 0;
}

void privileges_give(const char *path, const char *user)
{
	struct error ignored;
	uid_t uid;
	gid_t gid;

	if (!find_user(user, &uid, &gid, &ignored) && lchown(path, uid, gid))
		log_info("%s: cannot give it to user %s: %s", path, user,
			 strerror(errno));
}

static int become(const char *user, struct error *e)
{
	uid_t uid = 0;
	gid_t gid = 0;
	int err = find_user(user, &uid, &gid, e);

	if (err || (uid == getuid() && uid == geteuid()))
		return err;
	if (initgroups(user, gid) || setresgid(gid, gid, gid) ||
	    setresuid(uid, uid, uid)) {
		err = -errno;
		error_set(e, err,
			  "--user '%s': cannot become that user: %s; start "
			  "as root, or without --user",
			  user, strerror(-err));
	}
	return err;
}

void privileges_raise_limits(void)
{
	raise_limit(RLIMIT_NOFILE, 0);
	raise_limit(RLIMIT_MEMLOCK, RLIM_INFINITY);
}

bool privileges_has_low_ports(void)
{
	return capabilities_has(CAP_NET_BIND_SERVICE);
}

bool privileges_is_port_of_all(unsigned int port)
{
	FILE *f = fopen("/proc/sys/net/ipv4/ip_unprivileged_port_start", "re");
	uint64_t first = IPPORT_RESERVED;
	char text[16] = "";

	if (f && fgets(text, sizeof(text), f)) {
		text[strcspn(text, "\n")] = '\0';
		number_parse(text, UINT16_MAX + 1, &first);
	}
	if (f)
		fclose(f);
	return port >= first;
}

int privileges_drop(const char *user, bool low_port, struct error *e)
{
	uint64_t keep = 0;
	int err;

	if (!is_unlimited(RLIMIT_MEMLOCK))
		keep |= 1ull << CAP_IPC_LOCK;
	if (low_port)
		keep |= 1ull << CAP_NET_BIND_SERVICE;
	prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
	drop_bounding_set();
	err = user ? become(user, e) : 0;
	if (err)
		return err;
	err = capabilities_keep(keep);
	if (err)
		error_set(e, err, "cannot give up privileges: %s",
			  strerror(-err));
	/*
	 * With the change of the user, the kernel takes away core dumps and
	 * /proc/self/fd, which target/block/store_file.c needs to open a
	 * backing file again. Core dumps leave out data and keys (secret.h).
	 */
	prctl(PR_SET_DUMPABLE, 1, 0, 0, 0);
	return err;
}
