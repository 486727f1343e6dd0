/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/check_plugin.h"
#include "target/options.h"
#include "target/server.h"
#include "base/log.h"
#include "base/std_files.h"

int main(int argc, char **argv)
{
	struct target_options opt;
	int code = 1;

	std_files_hold();
	log_init("rdma-target", LOG_NOTICE);
	switch (target_options_parse(argc, argv, &opt)) {
	case OPTION_RUN:
		log_init("rdma-target", opt.log_level);
		code = opt.check_plugin ? check_plugin(&opt.backings[0])
					: server_run(&opt);
		break;
	case OPTION_DONE:
		code = std_files_flush() ? 0 : 1;
		break;
	case OPTION_BAD:
		break;
	}
	target_options_free(&opt);
	return code;
}
