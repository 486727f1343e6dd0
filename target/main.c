/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/options.h"
#include "target/server.h"
#include "transport/log.h"

int main(int argc, char **argv)
{
	struct options opt;
	int code = 1;

	switch (options_parse(argc, argv, &opt)) {
	case OPTIONS_RUN:
		log_init("rdma-target", opt.log_level);
		code = server_run(&opt);
		break;
	case OPTIONS_DONE:
		code = 0;
		break;
	case OPTIONS_BAD:
		break;
	}
	options_free(&opt);
	return code;
}
