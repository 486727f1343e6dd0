/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_keys.h"

#include "target/port/port_change.h"

static bool manage_has_keys(const struct manage *m, struct manage_fault *f)
{
	return m->server->opt->keys ||
	       manage_refuse(f, "target", "keys",
			     "it was started without --keys");
}

static void manage_run_names(struct server *s, void *arg)
{
	struct access_names *names = arg;

	*names = s->port.names;
}

bool manage_get_names(struct manage *m, struct access_names *ret,
		      struct manage_fault *f)
{
	if (!manage_has_keys(m, f))
		return false;
	return !server_call(m->server, manage_run_names, ret) ||
	       manage_refuse_end(f);
}

struct manage_keys {
	struct key_file next; /* those of before after the change */
	unsigned int ended;
};

static void manage_run_keys(struct server *s, void *arg)
{
	struct manage_keys *c = arg;

	c->ended = port_keys_changed(&s->port, &c->next);
}

static bool manage_read_keys(const struct manage *m, struct given_files *given,
			     struct key_file *ret, struct manage_fault *f)
{
	const char *path = m->server->opt->keys_file;
	struct given_file *file = given_files_find(given, path);
	struct error e;
	int err = file && file->cnt
			  ? key_file_read_fd(file->fds[0], path, ret, &e)
			  : key_file_read(path, ret, &e);

	return !err || manage_refuse(f, "target", "keys", "%s", e.text);
}

bool manage_reload_keys(struct manage *m, struct given_files *given,
			unsigned int *ret_ended, struct manage_fault *f)
{
	struct log_about about = { .event = "config" };
	struct manage_keys c;
	bool good;

	if (!manage_has_keys(m, f) || !manage_read_keys(m, given, &c.next, f))
		return false;
	good = !server_call(m->server, manage_run_keys, &c) ||
	       manage_refuse_end(f);
	*ret_ended = c.ended;
	if (good)
		log_event(LOG_NOTICE, &about,
			  "configuration: change target: keys: %u, before %u",
			  m->server->opt->keys->cnt, c.next.cnt);
	key_file_free(&c.next);
	return good;
}
