/* SPDX-License-Identifier: BSD-2-Clause */
#include "initiator/range.h"

void ini_ranges_init(struct ini_ranges *of)
{
	*of = (struct ini_ranges){ .waiting = 0 };
	list_init(&of->all);
}

/* Adds @change to the counts of the regions of @range. True: all of them were 0. */
static bool ranges_count(struct ini_ranges *of, const struct ini_range *range,
			 int change)
{
	uint64_t first = range->begin >> INI_REGION_SHIFT;
	uint64_t cnt = ((range->end - 1) >> INI_REGION_SHIFT) - first + 1;
	unsigned int others = 0;

	if (cnt > INI_REGIONS)
		cnt = INI_REGIONS;
	for (uint64_t i = first; i < first + cnt; i++) {
		others |= of->in[i % INI_REGIONS];
		of->in[i % INI_REGIONS] += change;
	}
	return !others;
}

static bool ranges_overlap(const struct ini_range *a, const struct ini_range *b)
{
	return a->begin < b->end && b->begin < a->end;
}

static bool range_must_wait(const struct ini_ranges *of,
			    const struct ini_range *range)
{
	const struct list *it;

	list_for_each(it, &of->all) {
		const struct ini_range *other =
			container_of(it, struct ini_range, node);

		if (other == range)
			return false;
		if (ranges_overlap(other, range))
			return true;
	}
	return false;
}

bool ini_range_take(struct ini_ranges *of, struct ini_range *range)
{
	bool alone = ranges_count(of, range, 1);

	list_add_tail(&of->all, &range->node);
	range->held = alone || !range_must_wait(of, range);
	of->waiting += !range->held;
	return range->held;
}

static void ranges_look_again(struct ini_ranges *of)
{
	struct list *it;
	struct list *tmp;

	list_for_each_safe(it, tmp, &of->all) {
		struct ini_range *other =
			container_of(it, struct ini_range, node);

		if (other->held || range_must_wait(of, other))
			continue;
		other->held = true;
		of->waiting--;
		other->taken(other);
		if (!of->waiting)
			return;
		/* taken() may have changed the list: start again. */
		tmp = of->all.next;
	}
}

void ini_range_give_back(struct ini_ranges *of, struct ini_range *range)
{
	list_del(&range->node);
	ranges_count(of, range, -1);
	of->waiting -= !range->held;
	range->held = false;
	if (of->waiting)
		ranges_look_again(of);
}
