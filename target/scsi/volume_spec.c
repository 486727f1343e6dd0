/* SPDX-License-Identifier: BSD-2-Clause */
#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "base/size.h"
#include "target/block/plugin_host.h"
#include "target/scsi/volume.h"
#include "base/list.h"

/* What is being read, and where to complain. */
struct parse {
	struct volume_spec *spec;
	uint32_t seen; /* bits, as in options[] */
	char *msg;
	size_t msg_len;
	struct plugin_spec *plugin; /* named last; NULL: none */
};

static bool spec_refuse(const struct parse *p, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static bool spec_refuse(const struct parse *p, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(p->msg, p->msg_len, fmt, ap);
	va_end(ap);
	return false;
}

/*
 * Copies up to the next comma, which a backslash takes its meaning from, and
 * moves *text past it; *text is NULL after the last piece. False: too long.
 */
static bool spec_next_piece(const char **text, char *buf, size_t len)
{
	const char *s = *text;
	size_t n = 0;

	while (*s && *s != ',') {
		if (s[0] == '\\' && s[1] == ',')
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

static bool spec_set_name(struct parse *p, const char *value)
{
	if (!is_good_name(value) || strlen(value) >= sizeof(p->spec->name))
		return spec_refuse(
			p,
			"'name=%s': a name has 1 to %zu visible ASCII "
			"characters other than '/'",
			value, sizeof(p->spec->name) - 1);
	snprintf(p->spec->name, sizeof(p->spec->name), "%s", value);
	return true;
}

static bool set_serial(struct parse *p, const char *value)
{
	bool good = *value && strlen(value) < sizeof(p->spec->serial);

	for (const char *c = value; *c; c++)
		good = good && (isalnum((unsigned char)*c) || *c == '-' ||
				*c == '_' || *c == '.');
	if (!good)
		return spec_refuse(p,
				   "'serial=%s': a serial number has 1 to %zu "
				   "letters, digits, '-', '_' or '.'",
				   value, sizeof(p->spec->serial) - 1);
	snprintf(p->spec->serial, sizeof(p->spec->serial), "%s", value);
	return true;
}

static bool set_block_size(struct parse *p, const char *value)
{
	uint64_t size;

	if (size_parse(value, &size) || (size != 512 && size != 4096))
		return spec_refuse(p, "'block-size=%s': it is 512 or 4096",
				   value);
	p->spec->block_size = (uint32_t)size;
	return true;
}

static bool spec_set_direct(struct parse *p, const char *value)
{
	if (p->spec->ops != &backend_file)
		return spec_refuse(
			p, "'direct=%s' is for files and devices only", value);
	if (strcmp(value, "on") != 0 && strcmp(value, "off") != 0)
		return spec_refuse(p, "'direct=%s': it is on or off", value);
	p->spec->direct = !strcmp(value, "on");
	return true;
}

static bool set_read_only(struct parse *p, const char *value)
{
	p->spec->read_only = true;
	return true;
}

static bool set_write_through(struct parse *p, const char *value)
{
	p->spec->write_through = true;
	return true;
}

static bool set_lun(struct parse *p, const char *value)
{
	char *end;
	unsigned long lun = strtoul(value, &end, 10);

	if (*value < '0' || *value > '9' || *end || lun >= LUNS_MAX)
		return spec_refuse(p, "'lun=%s': it is a number from 0 to %u",
				   value, LUNS_MAX - 1);
	p->spec->has_lun = true;
	p->spec->lun = (unsigned int)lun;
	return true;
}

static bool spec_add_allow(struct parse *p, const char *value)
{
	char msg[256];

	if (!access_rules_add(&p->spec->allow, value, msg, sizeof(msg)))
		return spec_refuse(p, "'allow=%s': %s", value, msg);
	return true;
}

static bool set_removable(struct parse *p, const char *value)
{
	p->spec->removable = true;
	return true;
}

#if FAULT_INJECTION
static bool set_volatile(struct parse *p, const char *value)
{
	if (p->spec->ops != &backend_file)
		return spec_refuse(p,
				   "'volatile' is for files and devices only");
	p->spec->forgets = true;
	return true;
}
#endif

static bool add_fault(struct parse *p, const char *value)
{
	struct volume_spec *spec = p->spec;

	if (spec->fault_cnt == FAULT_RULES_MAX)
		return spec_refuse(p, "more than %u faults", FAULT_RULES_MAX);
	return fault_rule_parse(value, &spec->faults[spec->fault_cnt++], p->msg,
				p->msg_len);
}

static bool add_layer(struct parse *p, const char *value)
{
	struct volume_spec *spec = p->spec;

	if (spec->layer_cnt == VOLUME_LAYERS_MAX)
		return spec_refuse(p, "more than %u layers", VOLUME_LAYERS_MAX);
	p->plugin = &spec->layers[spec->layer_cnt++];
	if (!*value || strlen(value) >= sizeof(p->plugin->name))
		return spec_refuse(p, "'layer=%s': name a plugin", value);
	snprintf(p->plugin->name, sizeof(p->plugin->name), "%s", value);
	return true;
}

static const struct {
	const char *key;
	bool has_value;
	bool (*set)(struct parse *p, const char *value);
	bool again; /* it may be given several times */
} options[] = {
	{ "name", true, spec_set_name },
	{ "ro", false, set_read_only },
	{ "block-size", true, set_block_size },
	{ "direct", true, spec_set_direct },
	{ "write-through", false, set_write_through },
	{ "removable", false, set_removable },
	{ "serial", true, set_serial },
	{ "lun", true, set_lun },
	{ "allow", true, spec_add_allow, true },
	{ "fault", true, add_fault, true },
	{ "layer", true, add_layer, true },
#if FAULT_INJECTION
	{ "volatile", false, set_volatile },
#endif
};

static bool set_option(struct parse *p, char *piece)
{
	char *value = strchr(piece, '=');

	if (value)
		*value++ = '\0';
	for (size_t i = 0; i < ARRAY_SIZE(options); i++) {
		if (strcmp(options[i].key, piece) != 0)
			continue;
		if (options[i].has_value && !value)
			return spec_refuse(p, "'%s' needs a value: %s=...",
					   piece, piece);
		if (!options[i].has_value && value)
			return spec_refuse(p, "'%s' takes no value", piece);
		if (p->seen & 1u << i && !options[i].again)
			return spec_refuse(p, "'%s' is given twice", piece);
		p->seen |= 1u << i;
		return options[i].set(p, value);
	}
	if (p->plugin) {
		if (value)
			*--value = '=';
		return plugin_spec_add(p->plugin, piece) ||
		       spec_refuse(p,
				   "the parameters of plugin %s are too long",
				   p->plugin->name);
	}
	return spec_refuse(
		p,
		"no option '%s'; there are name=, ro, block-size=, "
		"direct=, write-through, removable, serial=, lun=, allow=, "
		"layer= and fault= (a comma in a path is \\,)",
		piece);
}

/* What stands behind @prefix, or NULL. */
static const char *behind(const char *text, const char *prefix)
{
	while (*prefix && *text == *prefix) {
		text++;
		prefix++;
	}
	return *prefix ? NULL : text;
}

static bool spec_set_size(struct parse *p, const struct backend_ops *ops,
			  const char *text)
{
	uint64_t size;

	p->spec->ops = ops;
	if (size_parse(text, &size))
		return spec_refuse(p,
				   "'%s' is not a size; write 512M or 2G, for "
				   "example",
				   text);
	snprintf(p->spec->path, sizeof(p->spec->path), "%s", text);
	return true;
}

/* How long the name of a plugin is that @piece begins with, or 0: letters,
 * digits and '-', or a path that ends with ".so". A colon follows. */
static size_t plugin_name_len(const char *piece)
{
	const char *so = strstr(piece, ".so:");
	size_t len = strspn(piece, "abcdefghijklmnopqrstuvwxyz0123456789-");

	if (len && piece[len] == ':')
		return len;
	len = so ? (size_t)(so - piece) + strlen(".so") : 0;
	return len && memchr(piece, '/', len) ? len : 0;
}

static bool set_plugin(struct parse *p, const char *piece, size_t len)
{
	struct plugin_spec *plugin = &p->spec->plugin;

	if (len >= sizeof(plugin->name))
		return spec_refuse(p, "the name of the plugin is too long");
	snprintf(plugin->name, sizeof(plugin->name), "%.*s", (int)len, piece);
	snprintf(p->spec->path, sizeof(p->spec->path), "%s", piece + len + 1);
	p->spec->ops = &backend_plugin;
	p->plugin = plugin;
	return true;
}

static bool set_store(struct parse *p, const char *piece)
{
	size_t len = plugin_name_len(piece);

	if (behind(piece, "ram:"))
		return spec_set_size(p, &backend_ram, behind(piece, "ram:"));
	if (behind(piece, "null:"))
		return spec_set_size(p, &backend_null, behind(piece, "null:"));
	if (len)
		return set_plugin(p, piece, len);
	if (!*piece)
		return spec_refuse(p, "no path given");
	p->spec->ops = &backend_file;
	snprintf(p->spec->path, sizeof(p->spec->path), "%s", piece);
	return true;
}

bool volume_spec_parse(const char *text, struct volume_spec *ret_spec,
		       char *msg, size_t msg_len)
{
	struct volume_spec spec = { .block_size = 512, .direct = -1 };
	struct parse p = { .spec = &spec, .msg = msg, .msg_len = msg_len };
	char piece[sizeof(spec.path)];

	if (!spec_next_piece(&text, piece, sizeof(piece)))
		return spec_refuse(&p, "the path is too long");
	if (!set_store(&p, piece))
		return false;
	while (text) {
		if (!spec_next_piece(&text, piece, sizeof(piece)))
			return spec_refuse(&p, "an option is too long");
		if (!set_option(&p, piece))
			return false;
	}
	*ret_spec = spec;
	return true;
}
