/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/plugin_load.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "base/size.h"
#include "target/block/plugin_host.h"
#include "target/block/plugin_unprivileged.h"
#include "base/cleanup.h"

#define SYMBOL_PREFIX "rdma_block_plugin_"
/* Other major versions, for an error message. */
#define ABI_NEWEST 20

/* A plugin that is loaded. The list only grows. */
struct loaded {
	struct loaded *next;
	/* A copy of the size of our struct: members that the plugin's struct
	 * lacks are zero. */
	struct rbp_plugin plugin;
	struct rbp_blocking blocking;
	dev_t dev; /* of its file */
	ino_t ino;
	/* Stays open: dlopen() identifies files by path, here /proc/self/fd/FD.
	 * A later file with the same FD would be taken for this plugin. */
	int fd;
};

static struct loaded *all_loaded;

/* ---- the file ---- */

bool plugin_load_dir(unsigned int i, char *dir, size_t len)
{
	const char *dirs = getenv("RDMA_BLOCK_PLUGIN_PATH");

	while (dirs && *dirs) {
		size_t dir_len = strcspn(dirs, ":");

		if (dir_len && i-- == 0) {
			snprintf(dir, len, "%.*s", (int)dir_len, dirs);
			return true;
		}
		dirs += dir_len + (dirs[dir_len] == ':');
	}
	snprintf(dir, len, "%s", PLUGIN_DIR);
	return i == 0;
}

/* A descriptor of DIR/rdma-block-plugin-NAME.so; -1: it is not there. */
static int open_by_name(const char *name)
{
	char dir[PATH_MAX];
	int fd = -1;

	for (unsigned int i = 0; fd < 0 && plugin_load_dir(i, dir, sizeof(dir));
	     i++) {
		char path[PATH_MAX + 512];

		snprintf(path, sizeof(path), "%s/rdma-block-plugin-%s.so", dir,
			 name);
		fd = open(path, O_RDONLY | O_CLOEXEC);
	}
	return fd;
}

static int plugin_load_open_plugin(const char *name, int *ret_fd,
				   struct error *e)
{
	if (strchr(name, '/')) {
		*ret_fd = open(name, O_RDONLY | O_CLOEXEC);
		if (*ret_fd < 0)
			return error_set(e, -errno, "plugin %s: %s", name,
					 strerror(errno));
		return 0;
	}
	*ret_fd = open_by_name(name);
	if (*ret_fd < 0)
		return error_set(e, -ENOENT,
				 "there is no plugin '%s': "
				 "rdma-block-plugin-%s.so is neither in "
				 "$RDMA_BLOCK_PLUGIN_PATH nor in " PLUGIN_DIR,
				 name, name);
	return 0;
}

/* A plugin runs with the rights of rdma-target, so its file must be as safe as
 * the program. */
static int plugin_load_check_owner(const char *name, const struct stat *st,
				   struct error *e)
{
	if (!S_ISREG(st->st_mode))
		return error_set(e, -EINVAL, "plugin %s: not a regular file",
				 name);
	if (st->st_uid != 0 && st->st_uid != geteuid())
		return error_set(
			e, -EPERM,
			"plugin %s: its file belongs to user %u; only "
			"files of root or of the user of rdma-target are "
			"loaded",
			name, st->st_uid);
	if (st->st_mode & (S_IWGRP | S_IWOTH))
		return error_set(
			e, -EPERM,
			"plugin %s: other users may write to its file; "
			"try: chmod go-w",
			name);
	return 0;
}

/* ---- the symbol ---- */

typedef const struct rbp_plugin *entry_fn(const struct rbp_host *host);

static void *find_entry(void *so, unsigned int abi)
{
	char symbol[sizeof(SYMBOL_PREFIX) + 10];

	snprintf(symbol, sizeof(symbol), SYMBOL_PREFIX "%u", abi);
	return dlsym(so, symbol);
}

static int explain_no_entry(const char *name, void *so, struct error *e)
{
	for (unsigned int abi = 0; abi <= ABI_NEWEST; abi++) {
		if (find_entry(so, abi))
			return error_set(
				e, -ENOEXEC,
				"plugin %s: made for plugin ABI %u, this "
				"rdma-target has ABI %u; build it with "
				"the header of this version",
				name, abi, RBP_ABI);
	}
	return error_set(e, -ENOEXEC,
			 "plugin %s: no plugin of rdma-target: it has no "
			 "symbol " SYMBOL_PREFIX "%u",
			 name, RBP_ABI);
}

/* Checks what every use of a plugin relies on. NULL: nothing is wrong. */
static const char *plugin_load_what_is_wrong(const struct rbp_plugin *p)
{
	if (!p->name || !p->version || !p->help)
		return "it has no name, version or help";
	if (!p->open || !p->close)
		return "it cannot open or close a volume";
	if (p->is_layer && !p->submit)
		return "it is a layer without submit()";
	if (!p->submit && (!p->blocking || !p->blocking->read))
		return "it has neither submit() nor a blocking read()";
	if (p->scratch_len > 65536)
		return "its scratch_len is above 64 KiB";
	return NULL;
}

/* The first @size bytes of @from; the rest of the @len at @to is zero. */
static void take_struct(void *to, size_t len, const void *from, size_t size)
{
	memset(to, 0, len);
	memcpy(to, from, size < len ? size : len);
}

static int plugin_load_enter(const char *name, void *so, struct loaded *l,
			     struct error *e)
{
	void *symbol = find_entry(so, RBP_ABI);
	const struct rbp_plugin *theirs;
	const char *wrong;
	entry_fn *entry;

	if (!symbol)
		return explain_no_entry(name, so, e);
	/* The cast that dlsym(3) recommends. */
	memcpy(&entry, &symbol, sizeof(entry));
	theirs = entry(backend_plugin_host());
	if (!theirs)
		return error_set(e, -ENOEXEC, "plugin %s: refuses to be used",
				 name);
	take_struct(&l->plugin, sizeof(l->plugin), theirs, theirs->size);
	if (l->plugin.blocking) {
		take_struct(&l->blocking, sizeof(l->blocking), theirs->blocking,
			    theirs->blocking->size);
		l->plugin.blocking = &l->blocking;
	}
	wrong = plugin_load_what_is_wrong(&l->plugin);
	if (wrong)
		return error_set(e, -ENOEXEC, "plugin %s: %s", name, wrong);
	return 0;
}

/* ---- loading ---- */

static const struct rbp_plugin *find_loaded(const struct stat *st)
{
	for (struct loaded *l = all_loaded; l; l = l->next) {
		if (l->dev == st->st_dev && l->ino == st->st_ino)
			return &l->plugin;
	}
	return NULL;
}

static int load_file(const char *name, int fd, struct loaded *l,
		     struct error *e)
{
	char path[64];
	void *so;
	int err;

	/* The file that was checked, even if its name belongs to another one
	 * now. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	so = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!so)
		return error_set(e, -ENOEXEC, "plugin %s: cannot be loaded: %s",
				 name, dlerror());
	err = plugin_load_enter(name, so, l, e);
	if (err)
		dlclose(so);
	return err;
}

/* A call of load_file(). */
struct plugin_loading {
	const char *name;
	int fd;
	struct loaded *l;
	struct error *e;
	int err;
};

static void load_run(void *arg)
{
	struct plugin_loading *p = arg;

	p->err = load_file(p->name, p->fd, p->l, p->e);
}

/* Libraries may start threads when they are loaded. */
static int load_unprivileged(const char *name, int fd, struct loaded *l,
			     struct error *e)
{
	struct plugin_loading p = { .name = name, .fd = fd, .l = l, .e = e };
	int err = plugin_run_unprivileged(load_run, &p);

	if (err)
		return error_set(e, err, "plugin %s: cannot start a thread: %s",
				 name, strerror(-err));
	return p.err;
}

int plugin_load(const char *name, const struct rbp_plugin **ret,
		struct error *e)
{
	_cleanup_close_ int fd = -1;
	struct loaded *l;
	struct stat st;
	int err = plugin_load_open_plugin(name, &fd, e);

	if (err)
		return err;
	if (fstat(fd, &st))
		return error_set(e, -errno, "plugin %s: %s", name,
				 strerror(errno));
	*ret = find_loaded(&st);
	if (*ret)
		return 0;
	err = plugin_load_check_owner(name, &st, e);
	if (err)
		return err;
	l = calloc(1, sizeof(*l));
	if (!l)
		return error_set(e, -ENOMEM, "out of memory");
	err = load_unprivileged(name, fd, l, e);
	if (err) {
		free(l);
		return err;
	}
	l->fd = fd;
	fd = -1;
	l->dev = st.st_dev;
	l->ino = st.st_ino;
	l->next = all_loaded;
	all_loaded = l;
	*ret = &l->plugin;
	return 0;
}

void plugin_load_advise(const char *name, struct error *e)
{
	static const char *const ours[] = { "nbd", "rbd", "srp", NULL };
	bool is_ours = false;

	for (int i = 0; ours[i]; i++)
		is_ours |= !strcmp(name, ours[i]);
	if (e->err == -ENOENT && is_ours)
		error_add(e, "; install the package rdma-block-plugin-%s",
			  name);
	if (e->err == -ENOENT && !strchr(name, '/'))
		error_add(e,
			  "; write ./%s:... if you mean a file, and the store "
			  "before a URI, as in nbd:nbds://HOST",
			  name);
}

uint32_t plugin_needs(void)
{
	uint32_t needs = 0;

	for (struct loaded *l = all_loaded; l; l = l->next)
		needs |= l->plugin.needs;
	return needs;
}

/* ---- parameters ---- */

static const struct rbp_param *find_param(const struct rbp_plugin *plugin,
					  const char *name, size_t len)
{
	const struct rbp_param *p = plugin->params;

	for (; p && p->name; p++) {
		if (strlen(p->name) == len && !strncmp(p->name, name, len))
			return p;
	}
	return NULL;
}

/* "a, b, c" */
static void list_params(const struct rbp_plugin *plugin, char *buf, size_t len)
{
	const struct rbp_param *p = plugin->params;
	size_t used = 0;

	buf[0] = '\0';
	for (; p && p->name && used < len; p++)
		used += (size_t)snprintf(buf + used, len - used, "%s%s",
					 used ? ", " : "", p->name);
}

static bool parse_text(enum rbp_type type, struct rbp_arg *arg)
{
	switch (type) {
	case RBP_STRING:
		return true;
	case RBP_NUMBER:
		return number_parse(arg->text, UINT64_MAX, &arg->number);
	case RBP_SIZE:
		return size_parse(arg->text, &arg->number) == 0;
	case RBP_BOOL:
		arg->number = !strcmp(arg->text, "on");
		return arg->number || !strcmp(arg->text, "off");
	}
	return false;
}

static const char *type_text(enum rbp_type type)
{
	switch (type) {
	case RBP_STRING:
		return "a text";
	case RBP_NUMBER:
		return "a decimal number";
	case RBP_SIZE:
		return "a size, such as 64M";
	case RBP_BOOL:
		return "on or off";
	}
	return "of a type that is not known";
}

static int refuse_unknown(const struct rbp_plugin *plugin, const char *text,
			  struct error *e)
{
	char known[256];

	list_params(plugin, known, sizeof(known));
	return error_set(
		e, -EINVAL,
		"no parameter '%.*s' of a volume or of plugin %s, which "
		"has %s",
		(int)strcspn(text, "="), text, plugin->name,
		*known ? known : "none");
}

/* Puts one "KEY=VALUE" into the place of its parameter in the table. */
static int set_arg(const struct rbp_plugin *plugin, const char *text,
		   struct rbp_arg *args, struct error *e)
{
	size_t len = strcspn(text, "=");
	const struct rbp_param *p = find_param(plugin, text, len);
	struct rbp_arg *arg;

	if (!p)
		return refuse_unknown(plugin, text, e);
	if (!text[len])
		return error_set(e, -EINVAL, "'%s' needs a value: %s=...", text,
				 text);
	arg = &args[p - plugin->params];
	if (arg->name)
		return error_set(e, -EINVAL, "'%s' is given twice", p->name);
	arg->name = p->name;
	arg->text = text + len + 1;
	if (!parse_text(p->type, arg))
		return error_set(e, -EINVAL, "'%s': %s of plugin %s is %s",
				 text, p->name, plugin->name,
				 type_text(p->type));
	return 0;
}

/* Adds the defaults of parameters that are not given. */
static void add_defaults(const struct rbp_plugin *plugin, struct rbp_arg *args)
{
	for (unsigned int i = 0; plugin->params && plugin->params[i].name;
	     i++) {
		const struct rbp_param *p = &plugin->params[i];

		if (args[i].name || !p->dflt)
			continue;
		args[i].name = p->name;
		args[i].text = p->dflt;
		parse_text(p->type, &args[i]);
	}
}

/* Closes the gaps. */
static void close_gaps(unsigned int cnt, struct rbp_arg *args)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < cnt; i++) {
		if (args[i].name)
			args[kept++] = args[i];
	}
	args[kept] = (struct rbp_arg){ 0 };
}

static int read_args(const struct rbp_plugin *plugin,
		     const struct plugin_spec *spec, bool with_defaults,
		     struct rbp_arg **ret, struct error *e)
{
	_cleanup_free_ struct rbp_arg *args = NULL;
	unsigned int cnt = 0;
	char *texts;

	while (plugin->params && plugin->params[cnt].name)
		cnt++;
	/* The texts behind the list, so that one free() takes both. */
	args = calloc(1, (cnt + 1) * sizeof(*args) + spec->args_len + 1);
	if (!args)
		return error_set(e, -ENOMEM, "out of memory");
	texts = (char *)&args[cnt + 1];
	memcpy(texts, spec->args, spec->args_len);
	for (size_t at = 0; at < spec->args_len; at += strlen(texts + at) + 1) {
		int err = set_arg(plugin, texts + at, args, e);

		if (err)
			return err;
	}
	if (with_defaults)
		add_defaults(plugin, args);
	close_gaps(cnt, args);
	*ret = args;
	args = NULL;
	return 0;
}

int plugin_args(const struct rbp_plugin *plugin, const struct plugin_spec *spec,
		struct rbp_arg **ret, struct error *e)
{
	return read_args(plugin, spec, /* with_defaults= */ true, ret, e);
}

int plugin_args_given(const struct rbp_plugin *plugin,
		      const struct plugin_spec *spec, struct rbp_arg **ret,
		      struct error *e)
{
	return read_args(plugin, spec, /* with_defaults= */ false, ret, e);
}
