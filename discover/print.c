/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/print.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "config.h"
#include "base/list.h"

#if HAVE_JSON
#include <jansson.h>
#endif

static const enum dgram_carrier carriers[] = { DGRAM_UNICAST, DGRAM_MULTICAST,
					       DGRAM_RDMA };

/* ---- text ---- */

static void print_carriers(const struct found_target *t)
{
	const char *comma = "";

	for (size_t i = 0; i < ARRAY_SIZE(carriers); i++) {
		if (!(t->carriers & 1u << carriers[i]))
			continue;
		printf("%s%s", comma, dgram_carrier_name(carriers[i]));
		comma = ", ";
	}
}

static void print_address(const struct found_address *a)
{
	if (a->usable)
		printf("  %-38s by %s\n", a->text, a->by);
	else
		printf("  %-38s not usable here: %s\n", a->text, a->why_not);
}

static void print_hint(const struct found_target *t)
{
	const struct found_address *a = &t->addresses[0];

	if (a->usable)
		printf("  its volumes: rdma-info %s\n", a->text);
	else
		printf("  no address of it can be used; see rdma-doctor\n");
}

void show_text(const struct found *f)
{
	for (unsigned int i = 0; i < f->cnt; i++) {
		const struct found_target *t = f->targets[i];

		printf("%s%s\n", i ? "\n" : "",
		       *t->instance ? t->instance : "(without a name)");
		printf("  id_ext=%016" PRIx64 ",ioc_guid=%016" PRIx64
		       "  answered by ",
		       srp_port_id_ext(&t->id), srp_port_id_guid(&t->id));
		print_carriers(t);
		printf("\n");
		for (unsigned int k = 0; k < t->address_cnt; k++)
			print_address(&t->addresses[k]);
		print_hint(t);
	}
}

/* ---- add_target ---- */

const char *add_target_text(const struct found_target *t,
			    const struct found_address *a, char *buf)
{
	snprintf(buf, PRINT_ADD_TARGET_SIZE,
		 "id_ext=%016" PRIx64 ",ioc_guid=%016" PRIx64 ",dest=%s",
		 srp_port_id_ext(&t->id), srp_port_id_guid(&t->id),
		 strstr(a->text, "://") + 3);
	return buf;
}

void show_add_target(const struct found *f)
{
	char line[PRINT_ADD_TARGET_SIZE];

	for (unsigned int i = 0; i < f->cnt; i++) {
		const struct found_target *t = f->targets[i];

		for (unsigned int k = 0; k < t->address_cnt; k++) {
			if (xp_kind_traits(t->addresses[k].uri.kind)->ib_srp)
				printf("%s\n",
				       add_target_text(t, &t->addresses[k],
						       line));
		}
	}
}

/* ---- JSON ---- */

#if HAVE_JSON
static json_t *address_json(const struct found_address *a)
{
	return json_pack("{s:s, s:s, s:b, s:s*, s:s*}", "uri", a->text,
			 "transport", xp_kind_name(a->uri.kind), "usable",
			 a->usable, "by", a->usable ? a->by : NULL, "why_not",
			 a->usable ? NULL : a->why_not);
}

static json_t *carriers_json(const struct found_target *t)
{
	json_t *all = json_array();

	for (size_t i = 0; i < ARRAY_SIZE(carriers); i++) {
		if (t->carriers & 1u << carriers[i])
			json_array_append_new(
				all,
				json_string(dgram_carrier_name(carriers[i])));
	}
	return all;
}

static json_t *target_json(const struct found_target *t)
{
	json_t *addresses = json_array();

	for (unsigned int i = 0; i < t->address_cnt; i++)
		json_array_append_new(addresses,
				      address_json(&t->addresses[i]));
	return json_pack(
		"{s:s, s:o, s:o, s:o, s:o}", "instance", t->instance, "id_ext",
		json_sprintf("%016" PRIx64, srp_port_id_ext(&t->id)),
		"ioc_guid",
		json_sprintf("%016" PRIx64, srp_port_id_guid(&t->id)),
		"answered_by", carriers_json(t), "addresses", addresses);
}

void show_json(const struct found *f)
{
	json_t *targets = json_array();
	json_t *root;

	for (unsigned int i = 0; i < f->cnt; i++)
		json_array_append_new(targets, target_json(f->targets[i]));
	root = json_pack("{s:o, s:i}", "targets", targets, "left_out",
			 (int)f->more_cnt);
	json_dumpf(root, stdout, JSON_INDENT(2));
	putchar('\n');
	json_decref(root);
}
#else
void show_json(const struct found *f)
{
}
#endif
