/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/link.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/ticks.h"
#include "discover/kernel_login.h"
#include "discover/mounted.h"

static uint64_t link_now_ms(void)
{
	return ticks_clock_ns() / 1000000;
}

static bool link_is_mount(const struct link *l)
{
	return *l->rule.mount;
}

static const char *link_what(const struct link *l)
{
	return link_is_mount(l) ? l->rule.mount : "login of the kernel";
}

void link_init(struct link *l, const struct rule *rule,
	       const struct found_target *t)
{
	*l = (struct link){ .rule = *rule,
			    .id = t->id,
			    .pause_ms = LINK_PAUSE_MIN_MS };
	memcpy(l->instance, t->instance, sizeof(l->instance));
}

/* ---- what the system shows ---- */

static bool link_is_up(struct link *l)
{
	if (!link_is_mount(l))
		return kernel_login_exists(&l->id);
	return mounted_is_up(l->rule.mount, *l->uri ? NULL : l->uri,
			     sizeof(l->uri));
}

static void link_remove(const struct link *l)
{
	if (link_is_mount(l))
		mounted_remove(l->rule.mount);
	else
		kernel_login_remove(&l->id);
}

/* Has @t none of the addresses that it was started with? */
static bool link_has_moved(const struct link *l, const struct found_target *t)
{
	if (!*l->uri)
		return false;
	for (unsigned int i = 0; i < t->address_cnt; i++) {
		const char *at = strstr(t->addresses[i].text, "://") + 3;

		if (t->addresses[i].usable && strstr(l->uri, at))
			return false;
	}
	return true;
}

/* ---- steps ---- */

static int link_wait(struct link *l)
{
	l->due_ms = link_now_ms() + l->pause_ms;
	if (l->pause_ms < LINK_PAUSE_MAX_MS)
		l->pause_ms *= 2;
	return (int)(l->due_ms - link_now_ms());
}

static int link_failed(struct link *l)
{
	int ms = link_wait(l);

	l->state = LINK_DOWN;
	log_warn("%s: %s failed; trying again in %d s", l->instance,
		 link_what(l), ms / 1000);
	return ms;
}

static int link_is_made(struct link *l, const char *how)
{
	l->state = LINK_UP;
	l->pause_ms = LINK_PAUSE_MIN_MS;
	log_notice("%s: %s%s", l->instance, link_what(l), how);
	return -1;
}

/* The child has the signals of a program that was just started. */
static void link_unblock_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

static int link_start(struct link *l, const struct found_target *t)
{
	if (!found_uri(t, l->rule.volume, l->uri))
		return link_failed(l);
	l->child_ended = false;
	l->child = fork();
	if (l->child == 0) {
		link_unblock_signals();
		_exit(link_is_mount(l)
			      ? mounted_start(l->uri, l->rule.mount)
			      : kernel_login_start(t, l->rule.options));
	}
	if (l->child < 0)
		return link_failed(l);
	l->state = LINK_STARTING;
	return -1;
}

static int link_step_down(struct link *l, const struct found_target *t)
{
	uint64_t now = link_now_ms();

	if (link_is_up(l))
		return link_is_made(l, ": is there already");
	if (!t)
		return -1;
	if (now < l->due_ms)
		return (int)(l->due_ms - now);
	return link_start(l, t);
}

static int link_step_starting(struct link *l)
{
	if (!l->child_ended)
		return -1;
	if (l->child_failed || !link_is_up(l))
		return link_failed(l);
	return link_is_made(l, ": done");
}

/* It begins again at once. */
static int link_again(struct link *l, const struct found_target *t,
		      const char *why)
{
	log_notice("%s: %s%s", l->instance, link_what(l), why);
	link_remove(l);
	*l->uri = '\0';
	l->state = LINK_DOWN;
	return t ? link_start(l, t) : -1;
}

static int link_step_up(struct link *l, const struct found_target *t)
{
	if (!link_is_up(l)) {
		l->state = LINK_DOWN;
		link_remove(l);
		log_notice("%s: %s is no more", l->instance, link_what(l));
		*l->uri = '\0';
		return link_wait(l);
	}
	if (!t)
		return l->rule.remove_gone
			       ? link_again(l, NULL,
					    ": removed; the target is "
					    "gone")
			       : -1;
	if (link_has_moved(l, t))
		return link_again(l, t,
				  ": again; the target is at another "
				  "address");
	return -1;
}

int link_step(struct link *l, const struct found_target *t)
{
	switch (l->state) {
	case LINK_DOWN:
		return link_step_down(l, t);
	case LINK_STARTING:
		return link_step_starting(l);
	case LINK_UP:
		return link_step_up(l, t);
	}
	return -1;
}

bool link_child_ended(struct link *l, pid_t pid, int status)
{
	if (l->state != LINK_STARTING || l->child != pid)
		return false;
	l->child_ended = true;
	l->child_failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	return true;
}
