/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/events.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#include "base/log.h"
#include "target/control/varlink.h"

struct event {
	uint64_t time_ms;
	enum log_level level;
	char name[24];
	char nexus[40]; /* empty: none, like the next two */
	char volume[64];
	unsigned int lun;
	char text[512];
};

static pthread_mutex_t events_lock = PTHREAD_MUTEX_INITIALIZER;
/* Guarded by the lock. */
static struct list events_readers = LIST_INIT(events_readers);
static struct event *events_ring; /* NULL: there is no reader */
static uint64_t events_cnt;	  /* events that have been put into the ring */

/* ---- writing ---- */

static void events_fill(struct event *ev, enum log_level level,
			const struct log_about *about, const char *line)
{
	struct timespec ts;

	clock_gettime(CLOCK_REALTIME, &ts);
	*ev = (struct event){
		.time_ms = (uint64_t)ts.tv_sec * 1000 +
			   (uint64_t)ts.tv_nsec / 1000000,
		.level = level,
		.lun = about->lun,
	};
	snprintf(ev->name, sizeof(ev->name), "%s", about->event);
	snprintf(ev->nexus, sizeof(ev->nexus), "%s",
		 about->nexus ? about->nexus : "");
	snprintf(ev->volume, sizeof(ev->volume), "%s",
		 about->volume ? about->volume : "");
	snprintf(ev->text, sizeof(ev->text), "%s", line);
}

static void events_take(enum log_level level, const struct log_about *about,
			const char *line)
{
	struct list *it;

	if (!about->event)
		return;
	pthread_mutex_lock(&events_lock);
	if (events_ring) {
		events_fill(&events_ring[events_cnt++ % EVENTS_KEPT], level,
			    about, line);
		list_for_each(it, &events_readers)
			eventfd_write(
				container_of(it, struct events_reader, node)->fd,
				1);
	}
	pthread_mutex_unlock(&events_lock);
}

/* ---- reading ---- */

int events_follow(struct events_reader *r)
{
	int err = 0;

	r->has_begun = false;
	r->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (r->fd < 0)
		return -errno;
	pthread_mutex_lock(&events_lock);
	if (!events_ring)
		events_ring = calloc(EVENTS_KEPT, sizeof(*events_ring));
	if (events_ring) {
		r->next = events_cnt;
		list_add_tail(&events_readers, &r->node);
		log_set_sink(events_take);
	} else {
		err = -ENOMEM;
	}
	pthread_mutex_unlock(&events_lock);
	if (err)
		close(r->fd);
	return err;
}

void events_leave(struct events_reader *r)
{
	pthread_mutex_lock(&events_lock);
	list_del(&r->node);
	if (list_empty(&events_readers)) {
		log_set_sink(NULL);
		free(events_ring);
		events_ring = NULL;
	}
	pthread_mutex_unlock(&events_lock);
	close(r->fd);
}

static json_t *events_json(const struct event *ev)
{
	json_t *json = json_pack("{s:s, s:I, s:s, s:o}", "event", ev->name,
				 "time_ms", (json_int_t)ev->time_ms, "level",
				 log_level_names[ev->level], "text",
				 varlink_text(ev->text));

	/* "initiator" is the word of all other answers. */
	if (*ev->nexus) {
		json_object_set_new(json, "nexus", json_string(ev->nexus));
		json_object_set_new(json, "initiator", json_string(ev->nexus));
	}
	if (*ev->volume) {
		json_object_set_new(json, "volume", json_string(ev->volume));
		json_object_set_new(json, "lun", json_integer(ev->lun));
	}
	return json;
}

static void events_tell_begin(struct event *ev)
{
	events_fill(ev, LOG_INFO, &(struct log_about){ .event = "begin" },
		    "what happens from now on is told");
}

static void events_tell_lost(struct event *ev, uint64_t cnt)
{
	char text[64];

	snprintf(text, sizeof(text), "%llu events are lost: too slow",
		 (unsigned long long)cnt);
	events_fill(ev, LOG_WARNING, &(struct log_about){ .event = "lost" },
		    text);
}

/* Called with the lock held. False: there is no event. */
static bool events_pick(struct events_reader *r, struct event *ev)
{
	if (!r->has_begun) {
		r->has_begun = true;
		events_tell_begin(ev);
		return true;
	}
	if (events_cnt - r->next > EVENTS_KEPT) {
		events_tell_lost(ev, events_cnt - r->next - EVENTS_KEPT);
		r->next = events_cnt - EVENTS_KEPT;
		return true;
	}
	if (r->next == events_cnt)
		return false;
	*ev = events_ring[r->next++ % EVENTS_KEPT];
	return true;
}

json_t *events_next(struct events_reader *r)
{
	struct event ev;
	eventfd_t ignored;
	bool found;

	eventfd_read(r->fd, &ignored);
	pthread_mutex_lock(&events_lock);
	found = events_pick(r, &ev);
	pthread_mutex_unlock(&events_lock);
	return found ? events_json(&ev) : NULL;
}
