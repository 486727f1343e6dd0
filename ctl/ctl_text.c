/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_text.h"

#include <string.h>
#include <time.h>

#include "base/size.h"
#include "base/text.h"

const char *ctl_field(const json_t *of, const char *key)
{
	const char *text = json_string_value(json_object_get(of, key));

	return text ? text : "";
}

long long ctl_number(const json_t *of, const char *key)
{
	return json_integer_value(json_object_get(of, key));
}

/* An empty text in @buf, which has CTL_TEXT_SIZE bytes. */
static struct text text_of(char *buf)
{
	*buf = '\0';
	return (struct text){ .buf = buf, .cap = CTL_TEXT_SIZE };
}

char *ctl_time_text(long long ms, char *buf)
{
	time_t seconds = (time_t)(ms / 1000);
	struct tm tm;

	*buf = '\0';
	if (localtime_r(&seconds, &tm))
		strftime(buf, CTL_TEXT_SIZE, "%F %T", &tm);
	return buf;
}

char *ctl_size_text(long long bytes, char *buf)
{
	struct text t = text_of(buf);
	char size[SIZE_TEXT_SIZE];
	uint64_t exact = 0;

	text_add(&t, "%s", size_format((uint64_t)bytes, size));
	if (size_parse(size, &exact) || exact != (uint64_t)bytes)
		text_add(&t, " (%lld bytes)", bytes);
	return buf;
}

/* Room for "and 1000000 more". */
#define TEXT_REST 24

char *ctl_list_text(const json_t *list, const char *between, char *buf)
{
	size_t cnt = json_array_size(list);
	struct text t = text_of(buf);

	for (size_t i = 0; i < cnt; i++) {
		const char *text = json_string_value(json_array_get(list, i));

		if (strlen(buf) + strlen(between) + strlen(text ? text : "") +
			    TEXT_REST >=
		    CTL_TEXT_SIZE) {
			text_add(&t, " and %zu more", cnt - i);
			break;
		}
		text_add(&t, "%s%s", i ? between : "", text ? text : "");
	}
	return buf;
}

char *ctl_access_text(const json_t *rules, bool is_of_target, char *buf)
{
	struct text t = text_of(buf);
	char list[CTL_TEXT_SIZE];

	text_add(&t, "%s%s", is_of_target ? "target: " : "",
		 ctl_list_text(rules, " ", list));
	return buf;
}

char *ctl_progress_text(const json_t *vol, char *buf)
{
	long long left = ctl_number(vol, "seconds_left");
	struct text t = text_of(buf);

	if (ctl_number(vol, "progress_percent"))
		text_add(&t, ", %lld %%", ctl_number(vol, "progress_percent"));
	if (left)
		text_add(&t, ", about %lld:%02lld:%02lld to go", left / 3600,
			 left / 60 % 60, left % 60);
	return buf;
}

char *ctl_trouble_text(long long since_ms, const char *why, const char *end,
		       char *buf)
{
	struct text t = text_of(buf);
	char since[CTL_TEXT_SIZE];

	text_add(&t, " since %s%s%s, %s", ctl_time_text(since_ms, since),
		 *why ? ": " : "", why, end);
	return buf;
}

char *ctl_state_text(const json_t *vol, char *buf)
{
	struct text t = text_of(buf);
	char more[CTL_TEXT_SIZE];

	text_add(&t, "%s%s%s", ctl_field(vol, "state"),
		 json_is_true(json_object_get(vol, "read_only")) ? ", read-only"
								 : "",
		 json_is_true(json_object_get(vol, "never_stable"))
			 ? ", writes never stable"
			 : "");
	text_add(&t, "%s", ctl_progress_text(vol, more));
	/* Nobody has asked for that. */
	if (json_object_get(vol, "state_end"))
		text_add(&t, "%s",
			 ctl_trouble_text(ctl_number(vol, "state_since_ms"),
					  ctl_field(vol, "state_error"),
					  ctl_field(vol, "state_end"), more));
	return buf;
}
