/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/server_manage.h"

#include "target/control/control.h"
#include "target/manage.h"
#include "target/manage_arrive.h"
#include "target/manage_aside.h"
#include "target/manage_methods.h"
#include "target/manage_reload.h"

/* Nobody has asked for that socket. */
static bool server_chose_control(const struct server *s)
{
	return s->opt->control == s->configuration->own_control.text;
}

int server_manage_open(struct server *s, struct error *e)
{
	int err;

	if (!s->opt->config && !s->opt->control)
		return 0;
	err = manage_create(s, json_deep_copy(s->configuration->all),
			    s->configuration->file, &s->manage);
	if (err)
		return error_set(e, err, "out of memory");
	if (!s->opt->control)
		return 0;
	err = control_create(s->opt->control, s->opt->user, &s->control, e);
	if (!err || !server_chose_control(s))
		return err;
	s->no_control = *e;
	return 0;
}

int server_manage_start(struct server *s, struct error *e)
{
	if (!s->manage)
		return 0;
	manage_started(s->manage);
	if (s->no_control.err)
		log_notice("rdma-ctl cannot reach this target: %s",
			   s->no_control.text);
	/* Worker 0 runs from here on. */
	server_calls_open(s);
	if (s->opt->config)
		s->reload = manage_begin_reload;
	arrive_start(s->manage);
	return s->control ? control_start(s->control, &manage_interface,
					  s->manage, e)
			  : 0;
}

bool server_manage_close(struct server *s)
{
	server_calls_close(s);
	if (s->manage)
		manage_end_asides(s->manage);
	if (!control_destroy(s->control, MANAGE_LAST_MS) || !arrive_end(s) ||
	    (s->manage && !manage_await_reload(s->manage))) {
		log_error("a change does not end; the target ends without it");
		return false;
	}
	s->control = NULL;
	manage_destroy(s->manage);
	s->manage = NULL;
	return true;
}
