/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/announce.h"

#include <inttypes.h>
#include <netinet/in.h>
#include <stdio.h>

#include "config.h"
#include "base/size.h"

/* Addresses to print for each listener. Administrators of machines with more
 * addresses choose by themselves. */
#define REACH_MAX 4

static const char *announce_cache(const struct volume *vol)
{
	if (!vol->dev.write_cache)
		return "";
	return volume_is_never_stable(vol) ? ", writes never stable"
					   : ", write cache";
}

static void announce_print_volume(const struct volume *vol)
{
	char size[SIZE_TEXT_SIZE];

	printf("  LUN %-3u %-16s %10s  %u-byte blocks  %s%s%s\n", vol->lun,
	       vol->name, size_format(vol->blocks * vol->block_size, size),
	       vol->block_size, vol->kind, vol->read_only ? ", read-only" : "",
	       announce_cache(vol));
}

/* Uses the scheme of the transport, so that the client chooses no other. */
static void print_mount(const struct listen_point *p, bool has_keys)
{
	const char *tls = xp_kind_traits(p->kind)->tls_scheme;
	char text[LISTEN_TEXT_SIZE];

	if (has_keys && tls)
		printf("  rdma-fuse '%s://%s?key=FILE' MOUNTPOINT\n", tls,
		       listen_point_text(p, text));
	else
		printf("  rdma-fuse %s://%s MOUNTPOINT\n",
		       xp_kind_scheme(p->kind), listen_point_text(p, text));
}

static void print_add_target(const struct listen_point *p,
			     const struct srp_port_id *id)
{
	char text[LISTEN_TEXT_SIZE];

	printf("  id_ext=%016" PRIx64 ",ioc_guid=%016" PRIx64 ",dest=%s\n",
	       srp_port_id_ext(id), srp_port_id_guid(id),
	       listen_point_text(p, text));
}

/* Some machines have only link-local addresses. */
static unsigned int announce_reach(const struct listen_point *p,
				   struct listen_point reach[REACH_MAX])
{
	unsigned int cnt = listen_point_reach(p, reach, REACH_MAX);

	return cnt ? cnt : listen_point_reach_link(p, reach, REACH_MAX);
}

static bool announce_is_link_local(const struct listen_point *p)
{
	const struct sockaddr_in6 *sin6 = (const void *)&p->addr;

	return p->addr.ss_family == AF_INET6 &&
	       IN6_IS_ADDR_LINKLOCAL(&sin6->sin6_addr);
}

/* Prints a line for each address. Returns how many; *ret_link: some are link-local. */
static unsigned int for_each_reach(const struct listen_points *points,
				   bool for_ib_srp,
				   const struct srp_port_id *id, bool has_keys,
				   bool *ret_link)
{
	struct listen_point reach[REACH_MAX];
	unsigned int cnt, all = 0;

	*ret_link = false;
	for (unsigned int i = 0; i < points->cnt; i++) {
		const struct listen_point *p = &points->point[i];

		if (for_ib_srp && !xp_kind_traits(p->kind)->ib_srp)
			continue;
		cnt = announce_reach(p, reach);
		all += cnt;
		for (unsigned int k = 0; k < cnt; k++) {
			*ret_link |= announce_is_link_local(&reach[k]);
			if (for_ib_srp)
				print_add_target(&reach[k], id);
			else
				print_mount(&reach[k], has_keys);
		}
	}
	return all;
}

/* Can only this machine reach it? */
static bool announce_is_local(const struct listen_points *points)
{
	struct listen_point reach[REACH_MAX];
	unsigned int all = 0;

	for (unsigned int i = 0; i < points->cnt; i++) {
		unsigned int cnt = announce_reach(&points->point[i], reach);

		all += cnt;
		for (unsigned int k = 0; k < cnt; k++)
			if (!listen_point_is_loopback(&reach[k]))
				return false;
	}
	return all > 0;
}

static void print_mounts(const struct listen_points *points,
			 const struct srp_port_id *id, bool has_keys)
{
	bool link;

	printf("To mount, on this %smachine:\n",
	       announce_is_local(points) ? "" : "or another ");
	if (!for_each_reach(points, false, id, has_keys, &link))
		printf("  (no address that another machine can reach: give an "
		       "interface one, see ip address)\n");
	if (link)
		printf("  (behind %%, another machine names its own "
		       "interface)\n");
}

static bool serves_ib_srp(const struct listen_points *points)
{
	for (unsigned int i = 0; i < points->cnt; i++)
		if (xp_kind_traits(points->point[i].kind)->ib_srp &&
		    listen_point_is_up(&points->point[i]))
			return true;
	return false;
}

static void print_listeners(const struct listen_points *points)
{
	char text[LISTEN_TEXT_SIZE];

	/* The first one is up. */
	for (unsigned int i = 0; i < points->cnt; i++)
		if (listen_point_is_up(&points->point[i]))
			printf("%s%s over %s", i ? ", " : "",
			       listen_point_text(&points->point[i], text),
			       xp_kind_name(points->point[i].kind));
}

void announce(const struct lun_map *luns, const struct listen_points *points,
	      const struct srp_port_id *id, bool has_keys)
{
	bool link;

	printf("rdma-target " RDMA_BLOCK_VERSION " serves on ");
	print_listeners(points);
	printf(":\n");
	for (unsigned int i = 0; i < LUNS_MAX; i++)
		if (luns->vol[i])
			announce_print_volume(luns->vol[i]);
	print_mounts(points, id, has_keys);
	if (serves_ib_srp(points)) {
		printf("To log in with the Linux kernel (modprobe ib_srp), write "
		       "to\n/sys/class/infiniband_srp/srp-DEVICE-PORT/"
		       "add_target:\n");
		for_each_reach(points, true, id, has_keys, &link);
	}
	fflush(stdout);
}
