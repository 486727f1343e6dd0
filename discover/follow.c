/* SPDX-License-Identifier: BSD-2-Clause */
#include "discover/follow.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/ticks.h"
#include "discover/ear.h"
#include "discover/link.h"
#include "transport/device_watch.h"

#define LINKS_MAX FOUND_MAX

/* How long the ear may take to open all endpoints, before it asks. */
#define EAR_OPEN_MS 30000

/* A link, and when its target was last seen. */
struct followed {
	struct link link;
	unsigned int misses;
	bool said_bye; /* since it has answered */
};

struct follow {
	const struct discover_options *o;
	struct rules rules;
	struct ear ear;
	bool asked;	    /* the targets have answered */
	uint64_t due_ms;    /* of the next question */
	bool said_failed;   /* the log says that nobody can be asked */
	bool said_left_out; /* the log says that there are too many ways to ask */
	bool said_more;	    /* the log says that there are too many targets */
	struct device_watch devices;
	struct found found;
	struct followed *links[LINKS_MAX];
	unsigned int link_cnt;
	int signal_fd;
	bool stopping;
};

/* ---- targets ---- */

static void follow_cannot_ask(struct follow *f, const char *why)
{
	if (!f->said_failed)
		log_warn("%s; trying again", why);
	f->said_failed = true;
	ear_close(&f->ear);
}

/* Opened again for each round, because interfaces and devices are added and
 * removed. */
static void follow_ask(struct follow *f)
{
	int err;

	ear_close(&f->ear);
	found_clear(&f->found);
	device_watch_renew(&f->devices);
	f->asked = false;
	f->due_ms = ticks_clock_ms() + (uint64_t)f->o->period_ms +
		    f->o->finder.wait_ms + EAR_OPEN_MS;
	err = ear_open(&f->ear, &f->o->finder, f->said_left_out);
	if (err)
		follow_cannot_ask(f, strerror(-err));
}

/* ---- links ---- */

static struct followed *follow_find(struct follow *f,
				    const struct srp_port_id *id)
{
	for (unsigned int i = 0; i < f->link_cnt; i++) {
		if (srp_port_id_equal(&f->links[i]->link.id, id))
			return f->links[i];
	}
	return NULL;
}

/* True if another link has the directory of @l. A link that is down has none: a
 * target that cannot be mounted does not block the directory for others. */
static bool follow_is_taken(const struct follow *f, const struct link *l)
{
	for (unsigned int i = 0; i < f->link_cnt; i++) {
		const struct link *other = &f->links[i]->link;

		if (other != l && link_is_busy(other) &&
		    strcmp(other->rule.mount, l->rule.mount) == 0)
			return true;
	}
	return false;
}

static void follow_add(struct follow *f, const struct rule *rule,
		       const struct found_target *t)
{
	struct followed *new;

	if (f->link_cnt == LINKS_MAX)
		return;
	new = calloc(1, sizeof(*new));
	if (!new)
		return;
	link_init(&new->link, rule, t);
	f->links[f->link_cnt++] = new;
	log_notice("%s: found; line %u of the rules", t->instance, rule->line);
}

static void follow_free_link(struct followed *l)
{
	link_fini(&l->link);
	free(l);
}

/* A link that is down, of a rule that does not hold any more. @rule: the one that
 * holds now; NULL: none. */
static void follow_drop(struct follow *f, struct followed *l,
			const struct rule *rule)
{
	unsigned int i = 0;

	log_notice("%s: %s", l->link.instance,
		   rule ? "another rule holds now"
			: "no rule allows it any more");
	while (f->links[i] != l)
		i++;
	f->links[i] = f->links[--f->link_cnt];
	follow_free_link(l);
}

/* A link may end at any step, so its rule is looked up before each one. */
static void follow_match(struct follow *f)
{
	for (unsigned int i = 0; i < f->found.cnt; i++) {
		const struct found_target *t = f->found.targets[i];
		const struct rule *rule = rules_match(&f->rules, t);
		struct followed *l = follow_find(f, &t->id);
		bool fits = l && rule &&
			    strcmp(l->link.rule.mount, rule->mount) == 0;

		if (l && !fits && l->link.state == LINK_DOWN) {
			follow_drop(f, l, rule);
			l = NULL;
		}
		if (fits)
			l->link.rule = *rule;
		else if (rule && !l)
			follow_add(f, rule, t);
	}
}

/* The target has not answered. */
static void follow_missed(struct followed *l)
{
	if (l->misses == FOLLOW_MISSES)
		return;
	l->misses = l->said_bye ? FOLLOW_MISSES : l->misses + 1;
	if (l->misses == FOLLOW_MISSES && l->link.state == LINK_UP &&
	    !l->link.rule.remove_gone)
		log_notice("%s: gone; %s stays", l->link.instance,
			   link_what(&l->link));
}

/* Counts for each link whether its target has answered. */
static void follow_count_misses(struct follow *f)
{
	for (unsigned int i = 0; i < f->link_cnt; i++) {
		struct followed *l = f->links[i];

		if (found_find(&f->found, &l->link.id)) {
			l->misses = 0;
			l->said_bye = false;
		} else {
			follow_missed(l);
		}
	}
}

/* The end of a child wakes the daemon, which then starts the next one. */
static bool follow_may_start(const struct follow *f)
{
	unsigned int cnt = 0;

	for (unsigned int i = 0; i < f->link_cnt; i++)
		cnt += link_has_child(&f->links[i]->link);
	return cnt < FOLLOW_CHILDREN;
}

/* Milliseconds to the next step. */
static int follow_step(struct follow *f, int wait_ms)
{
	follow_match(f);
	for (unsigned int i = 0; i < f->link_cnt; i++) {
		struct followed *l = f->links[i];
		const struct found_target *t =
			found_find(&f->found, &l->link.id);
		static struct found_target narrow;
		int ms;

		if (l->link.state == LINK_DOWN && follow_is_taken(f, &l->link))
			continue;
		if (t) {
			rule_narrow(&l->link.rule, t, &narrow);
			t = &narrow;
		}
		/* The target may have missed the question. */
		if (!t && l->link.state == LINK_UP && l->misses < FOLLOW_MISSES)
			continue;
		ms = link_step(&l->link, t, follow_may_start(f));
		if (ms >= 0 && ms < wait_ms)
			wait_ms = ms;
	}
	return wait_ms;
}

/* Forgets links that are down and whose target is gone. If the target returns,
 * they are found again. */
static void follow_forget(struct follow *f)
{
	unsigned int kept = 0;

	for (unsigned int i = 0; i < f->link_cnt; i++) {
		struct followed *l = f->links[i];

		if (l->misses == FOLLOW_MISSES && l->link.state == LINK_DOWN) {
			log_notice("%s: gone", l->link.instance);
			follow_free_link(l);
		} else {
			f->links[kept++] = l;
		}
	}
	f->link_cnt = kept;
}

static void follow_answered(struct follow *f, const struct ear_record *r)
{
	f->asked = true;
	f->due_ms = ticks_clock_ms() + (uint64_t)f->o->period_ms;
	found_check(&f->found);
	found_sort(&f->found);
	f->said_left_out = f->said_left_out || r->said_left_out;
	f->found.more_cnt = r->more < FOUND_MORE ? r->more : FOUND_MORE;
	if (!f->said_more)
		found_warn(&f->found);
	f->said_more = f->found.more_cnt;
	follow_count_misses(f);
	follow_forget(f);
}

/* Nobody has answered: as if all had been asked. */
static void follow_failed(struct follow *f, const char *why)
{
	const struct ear_record none = { .kind = EAR_ASKED };

	if (!f->asked)
		follow_answered(f, &none);
	follow_cannot_ask(f, why);
}

/* ---- signals ---- */

/* True if a child has ended that a link knows, or that hung. Those that ended in
 * time (aside.h) are not here any more, and change nothing. */
static bool follow_reap(struct follow *f)
{
	bool some = false;
	int status;
	pid_t pid;

	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		some = true;
		for (unsigned int i = 0; i < f->link_cnt; i++) {
			if (link_child_ended(&f->links[i]->link, pid, status))
				break;
		}
	}
	return some;
}

/* Links that are up stay, also if their rule now has another directory or is gone.
 * When they end, the new rules apply. */
static void follow_reload(struct follow *f)
{
	struct error e;

	if (rules_read(f->o->rules, &f->rules, &e))
		log_error("%s; the old rules stay", e.text);
	else
		log_notice("%s: %u rule%s", f->o->rules, f->rules.cnt,
			   f->rules.cnt == 1 ? "" : "s");
}

/* Returns true if it is time to ask for targets. *ret_stirs: links have a step to make. */
static bool follow_on_signals(struct follow *f, bool *ret_stirs)
{
	struct signalfd_siginfo info;
	bool asks = false;

	while (read(f->signal_fd, &info, sizeof(info)) == sizeof(info)) {
		switch (info.ssi_signo) {
		case SIGCHLD:
			*ret_stirs |= follow_reap(f);
			break;
		case SIGHUP:
			follow_reload(f);
			asks = *ret_stirs = true;
			break;
		default:
			f->stopping = *ret_stirs = true;
		}
	}
	return asks;
}

/* ---- wait ---- */

static void follow_on_bye(struct follow *f, const struct srp_port_id *id)
{
	struct followed *l = follow_find(f, id);

	if (l)
		l->said_bye = true;
}

/* One record. True: it is time to ask. */
static bool follow_take(struct follow *f, const struct ear_record *r)
{
	switch (r->kind) {
	case EAR_FAILED:
		follow_failed(f, r->why);
		break;
	case EAR_TARGET:
		if (!f->asked)
			found_unpack(&f->found, &r->target);
		break;
	case EAR_ASKED:
		if (f->asked)
			break;
		f->said_failed = false;
		follow_answered(f, r);
		break;
	case EAR_BYE:
		follow_on_bye(f, &r->id);
		break;
	case EAR_NEWS:
		return f->asked;
	}
	return false;
}

/* Until it is time to ask, or links have a step to make. */
static bool follow_listen(struct follow *f)
{
	bool was_asked = f->asked;
	struct ear_record r;
	int n;

	while (f->ear.fd >= 0 && f->asked == was_asked) {
		n = ear_read(&f->ear, &r);
		if (n == 0)
			return false;
		if (n < 0)
			follow_failed(f, n == -EPIPE ? "the child that asks "
						       "for targets has ended"
						     : "the child that asks "
						       "for targets sends "
						       "nonsense");
		else if (follow_take(f, &r))
			return true;
	}
	return false;
}

/* Takes what has come. Returns whether to ask. */
static bool follow_hear(struct follow *f, int ms, bool *ret_stirs)
{
	struct pollfd fds[3];
	int ready;
	bool asks;

	fds[0] = (struct pollfd){ .fd = f->signal_fd, .events = POLLIN };
	fds[1] = (struct pollfd){ .fd = f->devices.fd, .events = POLLIN };
	fds[2] = (struct pollfd){ .fd = f->ear.fd, .events = POLLIN };
	ready = poll(fds, 3, ms);
	if (ready <= 0)
		return false;
	*ret_stirs = ready > 1 || !fds[0].revents;
	asks = follow_on_signals(f, ret_stirs);
	asks |= device_watch_changed(&f->devices);
	return follow_listen(f) || asks;
}

/* Until @wait_ms have passed, or something happens that may let a link make a step. Returns whether to ask. */
static bool follow_wait(struct follow *f, int wait_ms)
{
	uint64_t due = ticks_clock_ms() + (uint64_t)wait_ms;
	uint64_t now = ticks_clock_ms();
	bool stirs = false;
	bool asks = false;

	for (; now < due && !stirs && !asks; now = ticks_clock_ms())
		asks = follow_hear(f, (int)(due - now), &stirs);
	return asks;
}

static void follow_run(struct follow *f)
{
	while (!f->stopping) {
		bool asks = false;

		follow_ask(f);
		while (!f->stopping && !asks) {
			uint64_t now = ticks_clock_ms();
			int ms = now < f->due_ms ? (int)(f->due_ms - now) : 0;

			if (!ms)
				break;
			if (f->asked)
				ms = follow_step(f, ms);
			asks = follow_wait(f, ms);
		}
	}
}

/* ---- life cycle ---- */

static int follow_catch_signals(struct follow *f)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGHUP);
	sigaddset(&set, SIGCHLD);
	sigprocmask(SIG_BLOCK, &set, NULL);
	f->signal_fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC);
	return f->signal_fd < 0 ? -errno : 0;
}

static void follow_free(struct follow *f)
{
	ear_close(&f->ear);
	device_watch_close(&f->devices);
	found_clear(&f->found);
	for (unsigned int i = 0; i < f->link_cnt; i++)
		follow_free_link(f->links[i]);
	if (f->signal_fd >= 0)
		close(f->signal_fd);
	free(f);
}

int follow(const struct discover_options *o)
{
	struct follow *f = calloc(1, sizeof(*f));
	struct error e;
	int code = EXIT_FAILURE;

	if (!f) {
		log_error("out of memory");
		return code;
	}
	f->o = o;
	f->signal_fd = -1;
	f->ear.fd = -1;
	device_watch_open(&f->devices);
	if (rules_read(o->rules, &f->rules, &e)) {
		log_error("%s", e.text);
	} else if (follow_catch_signals(f)) {
		log_error("cannot watch for signals: %s", strerror(errno));
	} else {
		log_notice("%s: %u rule%s; looking for targets", o->rules,
			   f->rules.cnt, f->rules.cnt == 1 ? "" : "s");
		follow_run(f);
		log_notice("stopped; what is mounted and logged in stays");
		code = EXIT_SUCCESS;
	}
	follow_free(f);
	return code;
}
