/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-discover: lists the targets in the network. */
#include <stdlib.h>

#include "base/std_files.h"
#include "base/ticks.h"
#include "discover/fabric.h"
#include "discover/follow.h"
#include "discover/mount.h"
#include "discover/options.h"
#include "discover/print.h"
#include "discover/serves.h"

/* True: there are targets. */
static bool show_all(const struct discover_options *o, const struct found *f)
{
	if (o->json) {
		show_json(f);
		return f->cnt > 0;
	}
	if (o->add_target)
		show_add_target(f);
	else
		show_text(f);
	return fabric_print(o->add_target) || f->cnt > 0;
}

static int discover(const struct discover_options *o)
{
	struct found f = { .cnt = 0 };
	struct finder *finder;
	struct error e;
	bool some;
	int code;

	if (finder_open(&o->finder, &finder, &e)) {
		log_error("%s", e.text);
		return EXIT_FAILURE;
	}
	finder_warn(finder);
	finder_ask(finder, &f);
	finder_close(finder);
	found_check(&f);
	found_sort(&f);
	found_warn(&f);
	if (o->mount) {
		discover_mount(&f, o->mount);
		found_clear(&f);
		return EXIT_FAILURE;
	}
	some = show_all(o, &f);
	if (!some)
		log_notice(
			"no target has answered within %.1f s; %s",
			o->wait_ms / 1000.0,
			o->finder.host_cnt
				? "the kernel's target answers no such "
				  "questions; rdma-doctor srp://HOST tries the way"
				: "a target that multicast does not reach "
				  "is asked by its name: "
				  "rdma-discover HOST");
	code = some && std_files_flush() ? EXIT_SUCCESS : EXIT_FAILURE;
	found_clear(&f);
	return code;
}

int main(int argc, char **argv)
{
	struct discover_options o;

	std_files_hold();
	log_init("rdma-discover", LOG_NOTICE);
	switch (discover_options_parse(argc, argv, &o)) {
	case OPTION_RUN:
		break;
	case OPTION_DONE:
		return std_files_flush() ? EXIT_SUCCESS : EXIT_FAILURE;
	case OPTION_BAD:
		return EXIT_FAILURE;
	}
	log_init("rdma-discover", o.log_level);
	ticks_init();
	if (o.serves)
		return discover_serves(o.serves) ? EXIT_SUCCESS : EXIT_FAILURE;
	return o.daemon ? follow(&o) : discover(&o);
}
