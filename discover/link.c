/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/link.h"

#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "base/ticks.h"
#include "discover/kernel_login.h"
#include "discover/serves.h"

static bool link_is_mount(const struct link *l)
{
	return *l->rule.mount;
}

const char *link_what(const struct link *l)
{
	return link_is_mount(l) ? l->rule.mount : "login of the kernel";
}

void link_init(struct link *l, const struct rule *rule,
	       const struct found_target *t)
{
	*l = (struct link){ .rule = *rule,
			    .id = t->id,
			    .look.fd = -1,
			    .pause_ms = LINK_PAUSE_MIN_MS };
	memcpy(l->instance, t->instance, sizeof(l->instance));
}

void link_fini(struct link *l)
{
	if (l->look.fd >= 0)
		close(l->look.fd);
}

/* ---- state of the system ---- */

static enum mounted link_look(struct link *l)
{
	if (!link_is_mount(l))
		return kernel_login_exists(&l->id) ? MOUNTED_TARGET
						   : MOUNTED_NOTHING;
	return mounted_at(&l->look, l->rule.mount, &l->id,
			  *l->uri ? NULL : l->uri, sizeof(l->uri));
}

/* Looks at the system for l->seen. False: it does not answer. */
static bool link_sees(struct link *l)
{
	l->seen = link_look(l);
	if (l->seen == MOUNTED_HANGS && !l->said_hangs)
		log_warn("%s: %s does not answer, maybe because of a mount on "
			 "the way to it; waiting until it does",
			 l->instance, l->rule.mount);
	l->said_hangs = l->seen == MOUNTED_HANGS;
	return !l->said_hangs;
}

static bool link_is_up(struct link *l)
{
	l->is_foreign = l->seen == MOUNTED_UNKNOWN;
	return l->seen == MOUNTED_TARGET || l->seen == MOUNTED_UNKNOWN;
}

static void link_remove(const struct link *l)
{
	if (link_is_mount(l))
		mounted_remove(l->rule.mount);
	else
		kernel_login_remove(&l->id);
}

/* True if the link leads to @at, HOST:PORT. */
static bool link_leads_to(const struct link *l, const char *at)
{
	size_t len = strlen(at);

	for (const char *p = l->uri; (p = strstr(p, at)); p++) {
		if (p > l->uri && strchr("/,", p[-1]) && strchr(",/?", p[len]))
			return true;
	}
	return false;
}

/* True if @t has other usable addresses, and none of those that the link was
 * started with. */
static bool link_has_moved(const struct link *l, const struct found_target *t)
{
	bool has_others = false;

	if (!*l->uri)
		return false;
	for (unsigned int i = 0; i < t->address_cnt; i++) {
		const struct found_address *a = &t->addresses[i];

		if (link_leads_to(l, strstr(a->text, "://") + 3))
			return false;
		has_others |= a->usable;
	}
	return has_others;
}

bool link_is_busy(const struct link *l)
{
	return link_is_mount(l) && l->state != LINK_DOWN;
}

bool link_has_child(const struct link *l)
{
	return (l->state == LINK_STARTING || l->state == LINK_DOUBTED) &&
	       !l->child_ended;
}

/* ---- steps ---- */

static int link_wait(struct link *l)
{
	l->due_ms = ticks_clock_ms() + l->pause_ms;
	l->pause_ms = l->pause_ms < LINK_PAUSE_MAX_MS / 2 ? l->pause_ms * 2
							  : LINK_PAUSE_MAX_MS;
	return (int)(l->due_ms - ticks_clock_ms());
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

/* Gives the child the signals of a newly started program. */
static void link_unblock_signals(void)
{
	sigset_t none;

	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
}

/* Runs in the child: makes a login or a mount to @t, or, without @t, asks
 * whether it still serves. */
static int link_work(const struct link *l, const struct found_target *t)
{
	if (!t)
		return serves_start(l->uri);
	return link_is_mount(l) ? mounted_start(l->uri, l->rule.mount)
				: kernel_login_start(t, l->rule.options);
}

/* False: there is no child. */
static bool link_fork(struct link *l, const struct found_target *t)
{
	l->child_ended = false;
	l->child = fork();
	if (l->child == 0) {
		link_unblock_signals();
		_exit(link_work(l, t));
	}
	return l->child > 0;
}

static int link_start(struct link *l, const struct found_target *t)
{
	if (!found_uri(t, l->rule.volume, l->uri) || !link_fork(l, t))
		return link_failed(l);
	l->state = LINK_STARTING;
	return -1;
}

/* The directory has the mount of another target, which stays. */
static int link_is_taken(struct link *l)
{
	if (!l->said_taken)
		log_warn("%s: %s is the mount of another target, and stays; "
			 "waiting until it is unmounted",
			 l->instance, l->rule.mount);
	l->said_taken = true;
	*l->uri = '\0';
	return LINK_PAUSE_MAX_MS;
}

static int link_step_down(struct link *l, const struct found_target *t,
			  bool may_start)
{
	uint64_t now = ticks_clock_ms();

	if (t || !link_is_mount(l))
		*l->uri = '\0';
	if (!link_sees(l))
		return -1;
	if (link_is_up(l)) {
		if (t && !*l->uri)
			found_uri(t, l->rule.volume, l->uri);
		return link_is_made(l, ": is there already");
	}
	if (l->seen == MOUNTED_OTHER)
		return link_is_taken(l);
	l->said_taken = false;
	if (!t)
		return -1;
	if (now < l->due_ms)
		return (int)(l->due_ms - now);
	if (!may_start)
		return -1;
	if (l->seen == MOUNTED_DEAD)
		link_remove(l);
	return link_start(l, t);
}

static int link_step_starting(struct link *l)
{
	if (!l->child_ended)
		return -1;
	if (l->child_failed)
		return link_failed(l);
	if (!link_sees(l))
		return -1;
	if (!link_is_up(l))
		return link_failed(l);
	return link_is_made(l, ": done");
}

/* If there is a target, the link begins again at once. */
static int link_again(struct link *l, const char *why)
{
	log_notice("%s: %s%s", l->instance, link_what(l), why);
	link_remove(l);
	*l->uri = '\0';
	l->state = LINK_DOWN;
	return 0;
}

/* Asks the target itself, if possible. */
static int link_doubt(struct link *l, bool may_start)
{
	uint64_t now = ticks_clock_ms();

	if (l->is_foreign || !*l->uri)
		return -1;
	if (now < l->due_ms)
		return (int)(l->due_ms - now);
	if (!may_start)
		return -1;
	l->due_ms = now + LINK_DOUBT_MS;
	if (link_fork(l, NULL))
		l->state = LINK_DOUBTED;
	return LINK_DOUBT_MS;
}

static int link_step_up(struct link *l, const struct found_target *t,
			bool may_start)
{
	if (!link_sees(l))
		return -1;
	if (!link_is_up(l)) {
		l->state = LINK_DOWN;
		if (l->seen != MOUNTED_OTHER)
			link_remove(l);
		log_notice("%s: %s is no more", l->instance, link_what(l));
		*l->uri = '\0';
		return link_wait(l);
	}
	if (t ? link_has_moved(l, t) : l->rule.remove_gone)
		return link_doubt(l, may_start);
	return -1;
}

static int link_step_doubted(struct link *l, const struct found_target *t)
{
	if (!l->child_ended)
		return -1;
	l->state = LINK_UP;
	if (!l->child_failed) {
		log_info("%s: %s stays; the target serves where it was",
			 l->instance, link_what(l));
		return -1;
	}
	l->due_ms = 0;
	if (!t && l->rule.remove_gone)
		return link_again(l, ": removed; the target is gone");
	if (t && link_has_moved(l, t))
		return link_again(l,
				  ": again; the target is at another address");
	return -1;
}

int link_step(struct link *l, const struct found_target *t, bool may_start)
{
	switch (l->state) {
	case LINK_DOWN:
		return link_step_down(l, t, may_start);
	case LINK_STARTING:
		return link_step_starting(l);
	case LINK_UP:
		return link_step_up(l, t, may_start);
	case LINK_DOUBTED:
		return link_step_doubted(l, t);
	}
	return -1;
}

bool link_child_ended(struct link *l, pid_t pid, int status)
{
	if ((l->state != LINK_STARTING && l->state != LINK_DOUBTED) ||
	    l->child != pid)
		return false;
	l->child_ended = true;
	l->child_failed = !WIFEXITED(status) || WEXITSTATUS(status) != 0;
	return true;
}
