/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_faults.h"

#include <errno.h>

#include "target/block/layer_fault.h"

static bool manage_read_faults(const char *name, const json_t *rules,
			       struct fault_rule *ret, struct manage_fault *f)
{
	const json_t *rule;
	struct error e;
	size_t i;

	if (json_array_size(rules) > FAULT_RULES_MAX)
		return manage_refuse_volume(f, name, "fault",
					    "more than 16 faults");
	json_array_foreach((json_t *)(uintptr_t)rules, i, rule) {
		if (!fault_rule_parse(json_string_value(rule), &ret[i], &e))
			return manage_refuse_volume(f, name, "fault", e.text);
	}
	return true;
}

bool manage_set_faults(struct manage *m, const char *name, const json_t *rules,
		       struct manage_fault *f)
{
	struct fault_rule parsed[FAULT_RULES_MAX] = { 0 };
	struct volume *vol = manage_served(m, name);
	char object[MANAGE_LABEL_SIZE];
	int err;

	if (!vol)
		return manage_refuse_unknown(f, name);
	if (!manage_read_faults(name, rules, parsed, f))
		return false;
	err = backend_fault_set(vol->dev.backend, parsed,
				(unsigned int)json_array_size(rules));
	if (err == -ENOENT)
		return manage_refuse_volume(
			f, name, "fault",
			"it was added without a fault, and its I/O cannot be "
			"made to fail; remove it, then add it with ,fault=RULE");
	if (err)
		return manage_refuse_volume(f, name, "fault", "out of memory");
	manage_edit_key(m, name, "fault",
			json_array_size(rules) ? rules : NULL);
	manage_log_change("change", manage_label(name, object), "fault");
	return true;
}
