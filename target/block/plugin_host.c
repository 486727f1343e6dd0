/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/plugin_host.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "base/log.h"
#include "target/block/backend.h"
#include "target/block/plugin_events.h"
#include "target/block/plugin_io.h"
#include "target/block/plugin_load.h"

/* ---- the log ---- */

static enum log_level to_log_level(enum rbp_log_level level)
{
	switch (level) {
	case RBP_ERROR:
		return LOG_ERROR;
	case RBP_WARNING:
		return LOG_WARNING;
	case RBP_NOTICE:
		return LOG_NOTICE;
	case RBP_DEBUG:
		return LOG_DEBUG;
	}
	return LOG_ERROR;
}

/* Errors have a limit of their own: other lines of a plugin must not hide them. */
static bool plugin_host_may_log(struct rbp_vol *vol, enum rbp_log_level level,
				unsigned int *ret_dropped)
{
	bool pass;

	pthread_mutex_lock(&vol->lock);
	pass = log_limit_pass(level == RBP_ERROR ? &vol->error_limit
						 : &vol->limit,
			      /* burst= */ 5, ret_dropped);
	pthread_mutex_unlock(&vol->lock);
	return pass;
}

void plugin_host_log(struct rbp_vol *vol, enum rbp_log_level level,
		     const char *fmt, ...)
{
	unsigned int dropped = 0;
	char line[512];
	va_list ap;

	if (!log_is_wanted(to_log_level(level)) ||
	    (vol && !plugin_host_may_log(vol, level, &dropped)))
		return;
	va_start(ap, fmt);
	vsnprintf(line, sizeof(line), fmt, ap);
	va_end(ap);
	if (dropped)
		log_write(to_log_level(level), "%s: %u lines were left out",
			  vol->name, dropped);
	log_write(to_log_level(level), "%s: %s", vol ? vol->name : "plugin",
		  line);
}

/* ---- size and paths ---- */

/* Guards the next two, and is held while @changed runs. */
static pthread_mutex_t resized_lock = PTHREAD_MUTEX_INITIALIZER;
static void (*resized_hook)(void *user);
static void *resized_user;

void backend_plugin_on_resize(void (*changed)(void *user), void *user)
{
	pthread_mutex_lock(&resized_lock);
	resized_hook = changed;
	resized_user = user;
	pthread_mutex_unlock(&resized_lock);
}

void backend_plugin_look(void)
{
	pthread_mutex_lock(&resized_lock);
	if (resized_hook)
		resized_hook(resized_user);
	pthread_mutex_unlock(&resized_lock);
}

static void host_resized(struct rbp_vol *vol)
{
	backend_plugin_look();
}

/* ---- events ---- */

static struct rbp_watch *
host_watch_add(struct rbp_queue *q, int fd, uint32_t what,
	       void (*ready)(void *user, uint32_t what), void *user)
{
	return plugin_watch_add(&q->events, fd, what, ready, user);
}

static struct rbp_timer *host_timer_add(struct rbp_queue *q,
					void (*fire)(void *user), void *user)
{
	return plugin_timer_add(&q->events, fire, user);
}

/* The same measurement of all volumes finds it. */
static void host_path_changed(struct rbp_vol *vol)
{
	backend_plugin_look();
}

static const struct rbp_host host = {
	.size = sizeof(host),
	.version = RDMA_BLOCK_VERSION,
	.done = plugin_io_done,
	.log = plugin_host_log,
	.resized = host_resized,
	.child = plugin_io_child,
	.below = plugin_io_below,
	.watch_add = host_watch_add,
	.watch_set = plugin_watch_set,
	.watch_del = plugin_watch_del,
	.timer_add = host_timer_add,
	.timer_set = plugin_timer_set,
	.timer_stop = plugin_timer_stop,
	.timer_del = plugin_timer_del,
	.path_changed = host_path_changed,
	.notes = backend_notes_came,
	.forward = plugin_io_forward,
};

const struct rbp_host *backend_plugin_host(void)
{
	return &host;
}

/* ---- parameters that change ---- */

/* The uppermost plugin with that name. NULL: there is none. */
static struct backend *plugin_host_find(struct backend *be, const char *name)
{
	while (be && (be->type || strcmp(be->plugin->name, name) != 0))
		be = be->below;
	return be;
}

static int plugin_host_set_params(struct backend *be,
				  const struct rbp_arg *args, struct error *e)
{
	char clause[256] = "";
	int err = be->plugin->set_params(be->v, args, clause, sizeof(clause));

	if (!err)
		return 0;
	err = err < 0 ? err : -EIO;
	clause[sizeof(clause) - 1] = '\0';
	return error_set(e, err, "%s: %s", be->vol.name,
			 *clause ? clause : strerror(-err));
}

int backend_set_params(struct backend *base, const struct plugin_spec *spec,
		       struct error *e)
{
	struct backend *be = plugin_host_find(base, spec->name);
	struct rbp_arg *args;
	int err;

	if (!be)
		return error_set(e, -ENOENT, "the volume has no plugin '%s'",
				 spec->name);
	if (!be->plugin->set_params)
		return error_set(
			e, -ENOTSUP,
			"no parameter of plugin %s can be changed while the "
			"volume is served",
			spec->name);
	err = plugin_args_given(be->plugin, spec, &args, e);
	if (err)
		return err;
	pthread_mutex_lock(&be->set_lock);
	err = plugin_host_set_params(be, args, e);
	pthread_mutex_unlock(&be->set_lock);
	free(args);
	return err;
}
