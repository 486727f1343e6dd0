/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/scsi/volume_status.h"

#include <errno.h>
#include <string.h>
#include <time.h>

#include "target/scsi/volume.h"

static const struct {
	const char *name;
	const char *end;
} statuses[VOLUME_STATUS_CNT] = {
	[VOLUME_STATUS_LEAVING] = { "leaving" },
	[VOLUME_STATUS_EJECTING] = { "ejecting" },
	[VOLUME_STATUS_EJECTED] = { "ejected" },
	[VOLUME_STATUS_CANNOT_SAVE] = { "cannot save",
					"until the state file can be written, "
					"which each command tries again" },
	[VOLUME_STATUS_FORMATTING] = { "formatting" },
	[VOLUME_STATUS_SANITIZING] = { "sanitizing" },
	[VOLUME_STATUS_FORMAT_FAILED] = { "format failed",
					  "until an initiator sends FORMAT "
					  "UNIT again" },
	[VOLUME_STATUS_SANITIZE_FAILED] = { "sanitize failed",
					    "until an initiator sends "
					    "SANITIZE again" },
	[VOLUME_STATUS_STANDBY] = { "standby" },
	[VOLUME_STATUS_CANNOT_FLUSH] = { "cannot flush",
					 "until the volume is removed and "
					 "added again, or rdma-target is "
					 "started again" },
	[VOLUME_STATUS_READY] = { "ready" },
};

const char *volume_status_name(enum volume_status status)
{
	return statuses[status].name;
}

const char *volume_status_end(const struct volume_status_facts *facts)
{
	/* Nothing is lost (rbp_io_done()), so the backend goes on flushing. */
	if (facts->err == -ENOTCONN)
		return "until a flush reaches the store";
	return statuses[facts->status].end;
}

/* ---- what follows from the facts ---- */

static enum volume_status status_without_job(const struct volume *vol)
{
	if (volume_is_standby(vol))
		return VOLUME_STATUS_STANDBY;
	return vol->dev.flush_err ? VOLUME_STATUS_CANNOT_FLUSH
				  : VOLUME_STATUS_READY;
}

static enum volume_status status_with_medium(const struct volume *vol)
{
	switch (volume_state(vol)) {
	case VOLUME_READY:
		return status_without_job(vol);
	case VOLUME_FORMATTING:
		return VOLUME_STATUS_FORMATTING;
	case VOLUME_SANITIZING:
		return VOLUME_STATUS_SANITIZING;
	case VOLUME_FORMAT_FAILED:
		return VOLUME_STATUS_FORMAT_FAILED;
	case VOLUME_SANITIZE_FAILED:
		return VOLUME_STATUS_SANITIZE_FAILED;
	case VOLUME_SAVING:
		if (!vol->state.unsaved)
			return status_without_job(vol);
		return VOLUME_STATUS_CANNOT_SAVE;
	case VOLUME_UNSAVED:
		return VOLUME_STATUS_CANNOT_SAVE;
	}
	return VOLUME_STATUS_READY;
}

static enum volume_status status_of(const struct volume *vol)
{
	enum unit_medium medium =
		vol->state.medium; /* clang: no switch on _Atomic */

	if (vol->leaving)
		return VOLUME_STATUS_LEAVING;
	switch (medium) {
	case UNIT_MEDIUM_IN:
		break;
	case UNIT_MEDIUM_DRAINING:
	case UNIT_MEDIUM_FLUSHING:
		return VOLUME_STATUS_EJECTING;
	case UNIT_MEDIUM_OUT:
		return VOLUME_STATUS_EJECTED;
	}
	return status_with_medium(vol);
}

/* ---- the door ---- */

static int64_t status_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

static void status_log(const struct volume *vol,
		       const struct volume_status_facts *was)
{
	const struct volume_status_facts *is = &vol->told.facts;
	const char *end = volume_status_end(is);

	if (end)
		volume_log(LOG_WARNING, "volume-state", vol, "%s%s%s, %s",
			   volume_status_name(is->status), is->err ? ": " : "",
			   is->err ? strerror(-is->err) : "", end);
	else
		volume_log(volume_status_end(was) ? LOG_NOTICE : LOG_INFO,
			   "volume-state", vol, "%s, after %lld s of '%s'",
			   volume_status_name(is->status),
			   (long long)(is->since_ms - was->since_ms) / 1000,
			   volume_status_name(was->status));
}

void volume_status_look(struct volume *vol)
{
	struct volume_status_told *told = &vol->told;
	struct volume_status_facts *is = &told->facts;
	struct volume_status_facts was;

	pthread_mutex_lock(&told->lock);
	was = *is;
	is->status = status_of(vol);
	is->err = is->status == VOLUME_STATUS_CANNOT_FLUSH ? vol->dev.flush_err
							   : 0;
	if (is->status != was.status)
		is->since_ms = status_now_ms();
	if (is->status != was.status || is->err != was.err)
		status_log(vol, &was);
	pthread_mutex_unlock(&told->lock);
}

void volume_status_read(const struct volume *vol,
			struct volume_status_facts *ret)
{
	/* Only the lock is changed. */
	pthread_mutex_t *lock = (pthread_mutex_t *)&vol->told.lock;

	pthread_mutex_lock(lock);
	*ret = vol->told.facts;
	pthread_mutex_unlock(lock);
}

/* ---- life ---- */

static void status_flush_changed(struct block_device *dev)
{
	volume_status_look(container_of(dev, struct volume, dev));
}

void volume_status_init(struct volume *vol)
{
	pthread_mutex_init(&vol->told.lock, NULL);
	vol->told.facts = (struct volume_status_facts){
		.status = VOLUME_STATUS_READY,
		.since_ms = status_now_ms(),
	};
	vol->dev.flush_changed = status_flush_changed;
}

void volume_status_fini(struct volume *vol)
{
	pthread_mutex_destroy(&vol->told.lock);
}
