/* SPDX-License-Identifier: BSD-2-Clause */
#include "config/volume_spec.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

#include "base/list.h"
#include "base/number.h"
#include "base/option.h"
#include "base/size.h"

/* A SPEC and how far it has been read. */
struct parse {
	struct volume_spec *spec;
	uint32_t seen; /* a bit for each of volume_rows[] */
	struct error *e;
};

bool volume_spec_next_piece(const char **text, char *buf, size_t len)
{
	const char *s = *text;
	size_t n = 0;

	while (*s && *s != ',') {
		if (s[0] == '\\' && (s[1] == ',' || s[1] == '\\'))
			s++;
		if (n + 1 >= len)
			return false;
		buf[n++] = *s++;
	}
	buf[n] = '\0';
	*text = *s ? s + 1 : NULL;
	return true;
}

/* Names become file names and parts of INQUIRY data. */
static bool is_good_name(const char *name)
{
	if (!*name || !strcmp(name, ".") || !strcmp(name, ".."))
		return false;
	for (; *name; name++) {
		if (*name < '!' || *name > '~' || *name == '/')
			return false;
	}
	return true;
}

static bool volume_option_name(void *options, const struct option_row *row,
			       const char *value, struct error *e)
{
	struct volume_spec *spec = options;

	if (!is_good_name(value) || strlen(value) >= sizeof(spec->name))
		return error_refuse(e,
				    "a name has 1 to %zu visible ASCII "
				    "characters other than '/'",
				    sizeof(spec->name) - 1);
	snprintf(spec->name, sizeof(spec->name), "%s", value);
	return true;
}

static bool volume_option_serial(void *options, const struct option_row *row,
				 const char *value, struct error *e)
{
	struct volume_spec *spec = options;
	bool good = *value && strlen(value) < sizeof(spec->serial);

	for (const char *c = value; *c; c++)
		good = good && (isalnum((unsigned char)*c) || *c == '-' ||
				*c == '_' || *c == '.');
	if (!good)
		return error_refuse(e,
				    "a serial number has 1 to %zu letters, "
				    "digits, '-', '_' or '.'",
				    sizeof(spec->serial) - 1);
	snprintf(spec->serial, sizeof(spec->serial), "%s", value);
	return true;
}

static bool volume_option_block_size(void *options,
				     const struct option_row *row,
				     const char *value, struct error *e)
{
	struct volume_spec *spec = options;
	uint64_t size;

	if (size_parse(value, &size) || (size != 512 && size != 4096))
		return error_refuse(e, "must be 512 or 4096");
	spec->block_size = (uint32_t)size;
	return true;
}

static bool volume_option_direct(void *options, const struct option_row *row,
				 const char *value, struct error *e)
{
	struct volume_spec *spec = options;

	if (spec->store != VOLUME_STORE_FILE)
		return error_refuse(e, "possible for files and devices only");
	if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
		return error_refuse(e, "must be on or off");
	spec->direct = !strcmp(value, "on");
	return true;
}

static bool volume_option_lun(void *options, const struct option_row *row,
			      const char *value, struct error *e)
{
	struct volume_spec *spec = options;
	uint64_t lun;

	if (!number_parse(value, LUNS_MAX - 1, &lun))
		return error_refuse(e, "must be a number from 0 to %u",
				    LUNS_MAX - 1);
	spec->has_lun = true;
	spec->lun = (unsigned int)lun;
	return true;
}

static bool volume_option_allow(void *options, const struct option_row *row,
				const char *value, struct error *e)
{
	struct volume_spec *spec = options;

	return access_rules_add(&spec->allow, value, e);
}

static bool volume_option_fault(void *options, const struct option_row *row,
				const char *value, struct error *e)
{
	struct volume_spec *spec = options;

	if (spec->fault_cnt == FAULT_RULES_MAX)
		return error_refuse(e, "more than %u faults", FAULT_RULES_MAX);
	return fault_rule_parse(value, &spec->faults[spec->fault_cnt++], e);
}

static bool volume_option_layer(void *options, const struct option_row *row,
				const char *value, struct error *e)
{
	struct volume_spec *spec = options;
	struct plugin_spec *layer = &spec->layers[spec->layer_cnt];

	if (spec->layer_cnt == VOLUME_LAYERS_MAX)
		return error_refuse(e, "more than %u layers",
				    VOLUME_LAYERS_MAX);
	if (!strcmp(value, "crc32c"))
		return error_refuse(
			e, "this layer was removed; use dm-integrity "
			   "(integritysetup(8)) below the volume instead, see "
			   "rdma-block-stores(7)");
	if (!*value || strlen(value) >= sizeof(layer->name))
		return error_refuse(
			e, "the name of the plugin is missing or too long");
	snprintf(layer->name, sizeof(layer->name), "%s", value);
	spec->layer_cnt++;
	return true;
}

static const char *const volume_block_sizes[] = { "512", "4096", NULL };
static const char *const volume_off_on[] = { "off", "on", NULL };

static const struct option_row volume_rows[] = {
	{ .name = "name",
	  .type = OPTION_NAME,
	  .value = "NAME",
	  .dflt_text = "taken from the path",
	  .help = "Name the volume; *rdma-fuse* finds it by this name.",
	  .set = volume_option_name },
	{ .name = "ro",
	  .type = OPTION_FLAG,
	  .help = "Refuse writes from all initiators.",
	  OPTION_AT(volume_spec, read_only) },
	{ .name = "block-size",
	  .type = OPTION_SIZE,
	  .value = "512|4096",
	  .dflt = 512,
	  .choices = volume_block_sizes,
	  .help = "Use blocks of this size in bytes.",
	  .set = volume_option_block_size,
	  OPTION_AT(volume_spec, block_size) },
	{ .name = "direct",
	  .type = OPTION_CHOICE,
	  .value = "on|off",
	  .choices = volume_off_on,
	  .dflt_text = "on for block devices, off for files",
	  .help = "Bypass the page cache (O_DIRECT), or use it.",
	  .set = volume_option_direct,
	  OPTION_AT(volume_spec, direct) },
	{ .name = "removable",
	  .type = OPTION_FLAG,
	  .help = "Report the medium as removable: it can be ejected "
		  "and loaded.",
	  .more = "START STOP UNIT with LOEJ ejects and loads it (*sg_start --eject*, *--load*), unless an\n"
		  "initiator prevents its removal. While the medium is ejected, the volume is not ready.\n"
		  "Refused if several targets serve the store.",
	  OPTION_AT(volume_spec, removable) },
	{ .name = "write-through",
	  .type = OPTION_FLAG,
	  .help = "Put every write on stable storage before answering "
		  "it.",
	  OPTION_AT(volume_spec, write_through) },
	{ .name = "serial",
	  .type = OPTION_NAME,
	  .value = "TEXT",
	  .dflt_text = "derived from the store or its path",
	  .help = "Set the unit serial number.",
	  .more = "See *IDENTITY*.",
	  .set = volume_option_serial },
	{ .name = "lun",
	  .type = OPTION_NUMBER,
	  .value = "N",
	  .max = LUNS_MAX - 1,
	  .dflt_text = "the lowest free LUN, in the order of the options",
	  .help = "Give the volume this LUN.",
	  .set = volume_option_lun,
	  OPTION_AT(volume_spec, lun) },
	{ .name = "allow",
	  .type = OPTION_TEXT,
	  .value = "RULE",
	  .help = "Allow these initiators to use the volume. May be "
		  "given several times.",
	  .more = "See *ACCESS*.",
	  .set = volume_option_allow,
	  .again = true,
	  .empty = ACCESS_NOBODY },
	{ .name = "layer",
	  .type = OPTION_TEXT,
	  .value = "PLUGIN",
	  .help = "Put a layer on the store. May be given up to 4 "
		  "times.",
	  .more = "See *rdma-block-plugin*(3). The last layer sees each request first. Parameters of the\n"
		  "layer (_KEY_*=*_VALUE_) stand behind it.",
	  .set = volume_option_layer,
	  .again = true },
	{ .name = "fault",
	  .type = OPTION_TEXT,
	  .value = "RULE",
	  .help = "Make I/O fail on purpose, for tests: "
		  "_OP_*:*_KIND_[*:*_CONDITION_]... May be given up to "
		  "16 times.",
	  .more = "See *FAULTS*.",
	  .set = volume_option_fault,
	  .again = true },
};

const struct option_table volume_option_table = {
	.style = OPTION_SPEC,
	.rows = volume_rows,
	.cnt = ARRAY_SIZE(volume_rows),
	.head = "SPEC is PATH, ram:SIZE, null:SIZE or PLUGIN:LOCATION, then any of\n",
	.tail = "  ,KEY=VALUE              Set a parameter of the plugin named before it.\n",
};

/* The last plugin, to which the next parameters belong. Or NULL. */
static struct plugin_spec *spec_last_plugin(struct volume_spec *spec)
{
	if (spec->layer_cnt)
		return &spec->layers[spec->layer_cnt - 1];
	return *spec->plugin.name ? &spec->plugin : NULL;
}

bool volume_spec_add_parameter(struct volume_spec *spec, const char *key,
			       const char *value, struct error *e)
{
	struct plugin_spec *plugin = spec_last_plugin(spec);
	size_t len = strcspn(key, "=");
	const struct option_row *nearest;
	char names[OPTION_TEXT_SIZE];

	if (plugin)
		return plugin_spec_add(plugin, key, value) ||
		       error_refuse(e,
				    "the parameters of plugin %s are too long",
				    plugin->name);
	nearest = option_nearest(&volume_option_table, key, len);
	if (nearest)
		return error_refuse(e, "no option '%.*s'; did you mean %s%s?",
				    (int)len, key, nearest->name,
				    nearest->value ? "=" : "");
	option_names_text(&volume_option_table, names, sizeof(names));
	return error_refuse(e,
			    "no option '%.*s'; there are %s (a comma in a path "
			    "is \\,)",
			    (int)len, key, names);
}

static bool spec_set_option(struct parse *p, const char *piece)
{
	size_t len = strcspn(piece, "=");
	const struct option_row *row =
		option_find(&volume_option_table, OPTION_SPEC, piece, len);
	size_t i = row ? (size_t)(row - volume_rows) : 0;

	if (!row)
		return volume_spec_add_parameter(p->spec, piece,
						 /* value= */ NULL, p->e);
	if (p->seen & 1u << i && !row->again)
		return error_refuse(p->e, "'%s' is given twice", row->name);
	p->seen |= 1u << i;
	return option_set(row, OPTION_SPEC, p->spec,
			  piece[len] ? piece + len + 1 : NULL, p->e);
}

/* The text after @prefix. NULL: @text does not begin with it. */
static const char *behind(const char *text, const char *prefix)
{
	while (*prefix && *text == *prefix) {
		text++;
		prefix++;
	}
	return *prefix ? NULL : text;
}

static bool spec_set_size(struct volume_spec *spec, enum volume_store store,
			  const char *text, struct error *e)
{
	uint64_t size;

	spec->store = store;
	strcpy(spec->path, text);
	return size_parse(text, &size) == 0 ||
	       error_refuse(e,
			    "'%s' is not a size; write 512M or 2G, for example",
			    text);
}

/* The length of the name of a plugin at the beginning of @piece, or 0. A name has
 * letters, digits and '-', or is a path that ends with ".so". A colon follows. */
static size_t plugin_name_len(const char *piece)
{
	const char *so = strstr(piece, ".so:");
	size_t len = strspn(piece, "abcdefghijklmnopqrstuvwxyz0123456789-");

	if (len && piece[len] == ':')
		return len;
	len = so ? (size_t)(so - piece) + strlen(".so") : 0;
	return len && memchr(piece, '/', len) ? len : 0;
}

bool volume_store_is_path(const char *store)
{
	if (behind(store, "ram:") || behind(store, "null:"))
		return false;
	return !plugin_name_len(store) ||
	       memchr(store, '/', plugin_name_len(store));
}

static bool spec_set_plugin(struct volume_spec *spec, const char *store,
			    size_t len, struct error *e)
{
	struct plugin_spec *plugin = &spec->plugin;

	if (len >= sizeof(plugin->name))
		return error_refuse(e, "the name of the plugin is too long");
	snprintf(plugin->name, sizeof(plugin->name), "%.*s", (int)len, store);
	strcpy(spec->path, store + len + 1);
	spec->store = VOLUME_STORE_PLUGIN;
	return true;
}

bool volume_spec_begin(struct volume_spec *spec, const char *store,
		       struct error *e)
{
	size_t len = plugin_name_len(store);

	*spec = (struct volume_spec){ .direct = -1 };
	option_defaults(&volume_option_table, spec);
	if (strlen(store) >= sizeof(spec->path))
		return error_refuse(e, "the path is too long");
	if (behind(store, "ram:"))
		return spec_set_size(spec, VOLUME_STORE_RAM,
				     behind(store, "ram:"), e);
	if (behind(store, "null:"))
		return spec_set_size(spec, VOLUME_STORE_NULL,
				     behind(store, "null:"), e);
	if (len)
		return spec_set_plugin(spec, store, len, e);
	strcpy(spec->path, store);
	return *store || error_refuse(e, "no path given");
}

bool volume_spec_parse(const char *text, struct volume_spec *ret_spec,
		       struct error *e)
{
	struct volume_spec spec;
	struct parse p = { .spec = &spec, .e = e };
	char piece[sizeof(spec.path)];

	if (!volume_spec_next_piece(&text, piece, sizeof(piece)))
		return error_refuse(e, "the path is too long");
	if (!volume_spec_begin(&spec, piece, e))
		return false;
	while (text) {
		if (!volume_spec_next_piece(&text, piece, sizeof(piece)))
			return error_refuse(e, "an option is too long");
		if (!spec_set_option(&p, piece))
			return false;
	}
	*ret_spec = spec;
	return true;
}
