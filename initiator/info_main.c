/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-info: what volumes does a target have? */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "initiator/info_options.h"
#include "initiator/srp_initiator.h"
#include "base/size.h"
#include "base/log.h"
#include "base/std_files.h"

#if HAVE_JSON
#include <jansson.h>
#endif

static const char *flags_of(const struct srpi_volume_info *v, char *buf,
			    size_t len)
{
	snprintf(buf, len, "%s%s%s%s%s", v->read_only ? "ro" : "rw",
		 v->write_cache ? ",write-cache" : "", v->fua ? ",fua" : "",
		 v->unmap ? ",discard" : "",
		 v->rotational ? ",rotational" : "");
	return buf;
}

/* Volumes to print: all, or the one that the URI names. */
struct range {
	unsigned int first;
	unsigned int end; /* one past the last */
};

static void info_print_volume(const struct srpi_volume_info *v)
{
	char size[SIZE_TEXT_SIZE];
	char flags[64];

	printf("%4u  %-20s %12s %6u  %-28s %s\n", v->lun, v->name,
	       size_format(v->size, size), v->block_size,
	       flags_of(v, flags, sizeof(flags)), v->serial);
}

/* Of a URI that has several. */
static void print_addresses(const struct srpi_session *s)
{
	if (srpi_path_cnt(s) < 2)
		return;
	for (unsigned int i = 0; i < srpi_path_cnt(s); i++) {
		struct srpi_path_info p = { .struct_size = sizeof(p) };

		srpi_path_info(s, i, &p);
		printf("address %s: %s%s%s\n", p.address,
		       srpi_path_state_name(p.state), *p.why ? ": " : "",
		       p.why);
	}
}

static void print_text(const struct srpi_session *s, const struct range *r)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };

	srpi_session_info(s, &si);
	printf("target %s over %s from %s\n", si.peer, si.transport, si.local);
	if (si.mtu)
		printf("%s: MTU %u of %u, READ depth %u, P_Key 0x%04x, SL %u, "
		       "GID %s\n",
		       si.device, si.mtu, si.port_mtu, si.read_depth, si.pkey,
		       si.sl, si.gid);
	print_addresses(s);
	if (*si.why)
		printf("RDMA is not used: %s\n", si.why);
	if (r->first == r->end) {
		printf("It has no volumes.\n");
		return;
	}
	printf("%4s  %-20s %12s %6s  %-28s %s\n", "LUN", "NAME", "SIZE",
	       "BLOCK", "FLAGS", "SERIAL");
	for (unsigned int i = r->first; i < r->end; i++)
		info_print_volume(srpi_volume_info(s, i));
}

#if HAVE_JSON
static json_t *volume_json(const struct srpi_volume_info *v)
{
	return json_pack("{s:i, s:s, s:s, s:s, s:s, s:s, s:s, s:I, s:i, s:i, "
			 "s:i, s:I, s:b, s:b, s:b, s:b, s:b, s:b}",
			 "lun", (int)v->lun, "name", v->name, "serial",
			 v->serial, "vendor", v->vendor, "product", v->product,
			 "revision", v->revision, "naa", v->naa, "size",
			 (json_int_t)v->size, "block_size", (int)v->block_size,
			 "physical_block_size", (int)v->physical_block_size,
			 "max_transfer", (int)v->max_transfer,
			 "unmap_granularity", (json_int_t)v->unmap_granularity,
			 "read_only", v->read_only, "write_cache",
			 v->write_cache, "fua", v->fua, "discard", v->unmap,
			 "discard_zeroes", v->unmap_zeroes, "rotational",
			 v->rotational);
}

static json_t *addresses_json(const struct srpi_session *s)
{
	json_t *all = json_array();

	for (unsigned int i = 0; i < srpi_path_cnt(s); i++) {
		struct srpi_path_info p = { .struct_size = sizeof(p) };

		srpi_path_info(s, i, &p);
		json_array_append_new(
			all, json_pack("{s:s, s:s, s:s}", "address", p.address,
				       "state", srpi_path_state_name(p.state),
				       "why", p.why));
	}
	return all;
}

/* NULL: not over RDMA. */
static json_t *negotiated_json(const struct srpi_session_info *si)
{
	return si->mtu ? json_pack("{s:i, s:i, s:i, s:s, s:i, s:i}", "mtu",
				   (int)si->mtu, "port_mtu", (int)si->port_mtu,
				   "read_depth", (int)si->read_depth, "gid",
				   si->gid, "pkey", (int)si->pkey, "sl",
				   (int)si->sl)
		       : NULL;
}

static void print_json(const struct srpi_session *s, const struct range *r)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	json_t *volumes = json_array();
	json_t *root;

	srpi_session_info(s, &si);
	for (unsigned int i = r->first; i < r->end; i++)
		json_array_append_new(volumes,
				      volume_json(srpi_volume_info(s, i)));
	root = json_pack("{s:s, s:o, s:s, s:s, s:s, s:s, s:b, s:i, s:o*, s:o}",
			 "target", si.peer, "addresses", addresses_json(s),
			 "transport", si.transport, "device", si.device,
			 "local", si.local, "initiator", si.initiator,
			 "immediate_data", si.immediate_data, "queue_depth",
			 (int)si.queue_depth, "negotiated",
			 negotiated_json(&si), "volumes", volumes);
	json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
}
#else
static void print_json(const struct srpi_session *s, const struct range *r)
{
}
#endif

static void say_no_such_volume(const struct srpi_session *s,
			       const struct srpi_session_info *si)
{
	char names[256] = "";
	size_t len = 0;

	for (unsigned int i = 0; i < srpi_volume_cnt(s); i++) {
		const char *name = srpi_volume_info(s, i)->name;

		if (len + strlen(name) + sizeof(", ...") > sizeof(names)) {
			strcpy(names + len, ", ...");
			break;
		}
		len += sprintf(names + len, "%s%s", len ? ", " : "", name);
	}
	log_error("no volume '%s' on %s; it has: %s", si->volume, si->peer,
		  *names ? names : "none");
}

static bool info_choose(const struct srpi_session *s, struct range *ret_range)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	unsigned int i;

	srpi_session_info(s, &si);
	if (*si.volume == '\0') {
		*ret_range = (struct range){ 0, srpi_volume_cnt(s) };
		return true;
	}
	if (srpi_volume_find(s, si.volume, &i)) {
		say_no_such_volume(s, &si);
		return false;
	}
	*ret_range = (struct range){ i, i + 1 };
	return true;
}

static int show(const struct srpi_session *s, const struct info_options *o)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	struct range range;

	srpi_session_info(s, &si);
	if (*si.not_ready)
		log_warn("%s", si.not_ready);
	if (!info_choose(s, &range))
		return EXIT_FAILURE;
	if (o->json)
		print_json(s, &range);
	else
		print_text(s, &range);
	return std_files_flush() ? EXIT_SUCCESS : EXIT_FAILURE;
}

static int connect_and_show(const struct info_options *o)
{
	const struct srpi_options sopt = {
		.struct_size = sizeof(sopt),
		.channels = 1,
		.timeout_ms = (unsigned int)o->timeout_ms,
	};
	struct srpi_session *s;
	struct srpi_error e = { 0 };
	struct srpi_ctx *ctx;
	int status;

	if (srpi_ctx_create(NULL, &ctx, &e)) {
		log_error("%s", e.text);
		return EXIT_FAILURE;
	}
	if (srpi_connect_wait(ctx, o->uri, &sopt, &s, &e)) {
		log_error("%s", e.text);
		srpi_ctx_destroy(ctx);
		return EXIT_FAILURE;
	}
	status = show(s, o);
	srpi_close_wait(ctx, s);
	srpi_ctx_destroy(ctx);
	return status;
}

int main(int argc, char **argv)
{
	struct info_options o;

	std_files_hold();
	log_init("rdma-info", LOG_NOTICE);
	switch (info_options_parse(argc, argv, &o)) {
	case OPTION_RUN:
		break;
	case OPTION_DONE:
		return std_files_flush() ? EXIT_SUCCESS : EXIT_FAILURE;
	case OPTION_BAD:
		return EXIT_FAILURE;
	}
	return connect_and_show(&o);
}
