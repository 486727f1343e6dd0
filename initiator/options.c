/* SPDX-License-Identifier: BSD-2-Clause */
/* The options of a session: defaults and valid combinations. */
#include "initiator/session.h"

/*
 * Like ib_srp. ib_srpt grants 128 credits. But after a command with immediate
 * data, it posts the receive again only when its response has been
 * acknowledged, and the response has returned the credit before. With all
 * credits in use, it lacks receives at times.
 */
#define DEFAULT_DEPTH	   64u
#define DEPTH_MAX	   4096u
#define DEFAULT_TIMEOUT_MS 5000u

#define DEFAULT_FAST_IO_FAIL_MS	   15000
#define DEFAULT_DEV_LOSS_MS	   SRPI_OFF /* it may be back at any time */
#define DEFAULT_RECONNECT_DELAY_MS 1000
#define DEFAULT_IO_TIMEOUT_MS	   30000
/* The limit for I/O that only the return of the target ends, as in the
 * kernel. SRPI_OFF removes it. */
#define BLOCK_MAX_MS 600000

const char *srpi_state_name(enum srpi_state state)
{
	static const char *const names[] = {
		[SRPI_CONNECTING] = "connecting",
		[SRPI_RUNNING] = "running",
		[SRPI_BLOCKED] = "blocked",
		[SRPI_FAIL_FAST] = "fail-fast",
		[SRPI_LOST] = "lost",
		[SRPI_CLOSED] = "closed",
	};

	return names[state];
}

static int or_default(int value, int normal)
{
	return value ? value : normal;
}

const char *srpi_timeouts_fault(const struct srpi_options *options)
{
	int fail =
		or_default(options->fast_io_fail_ms, DEFAULT_FAST_IO_FAIL_MS);
	int loss = or_default(options->dev_loss_ms, DEFAULT_DEV_LOSS_MS);
	int delay = or_default(options->reconnect_delay_ms,
			       DEFAULT_RECONNECT_DELAY_MS);

	if (fail < 0 && loss < 0 && delay < 0)
		return "with fast_io_fail_tmo, dev_loss_tmo and "
		       "reconnect_delay all off, I/O would wait for ever for "
		       "nothing";
	if (fail >= 0 && loss >= 0 && fail >= loss)
		return "fast_io_fail_tmo (15 s when not given) must be less "
		       "than dev_loss_tmo";
	if (fail > BLOCK_MAX_MS)
		return "fast_io_fail_tmo is 600 s at most, or off";
	if (fail < 0 && loss > BLOCK_MAX_MS)
		return "with fast_io_fail_tmo off, dev_loss_tmo is 600 s at "
		       "most, or off";
	return NULL;
}

unsigned int ini_options_channels(const struct srpi_options *o,
				  enum xp_kind kind)
{
	if (o->channels)
		return o->channels;
	return reactor_processors() > 1 ? xp_kind_traits(kind)->fast_channels
					: 1;
}

void ini_options_set_defaults(struct srpi_options *o)
{
	if (o->channels > INI_CHANNELS_MAX)
		o->channels = INI_CHANNELS_MAX;
	if (o->queue_depth == 0)
		o->queue_depth = DEFAULT_DEPTH;
	if (o->queue_depth > DEPTH_MAX)
		o->queue_depth = DEPTH_MAX;
	if (o->timeout_ms == 0)
		o->timeout_ms = DEFAULT_TIMEOUT_MS;
	o->fast_io_fail_ms =
		or_default(o->fast_io_fail_ms, DEFAULT_FAST_IO_FAIL_MS);
	o->dev_loss_ms = or_default(o->dev_loss_ms, DEFAULT_DEV_LOSS_MS);
	o->reconnect_delay_ms =
		or_default(o->reconnect_delay_ms, DEFAULT_RECONNECT_DELAY_MS);
	o->io_timeout_ms = or_default(o->io_timeout_ms, DEFAULT_IO_TIMEOUT_MS);
}
