/* SPDX-License-Identifier: BSD-2-Clause */
/* Without ncurses. */
#include "ctl/ctl_top.h"

bool ctl_screen_open(void)
{
	return false;
}

void ctl_screen_draw(const struct top_sample *from, const struct top_sample *to,
		     struct top_view *view)
{
}

bool ctl_screen_wait(const struct top_sample *from, const struct top_sample *to,
		     struct top_view *view, int ms)
{
	return false;
}

void ctl_screen_close(void)
{
}
