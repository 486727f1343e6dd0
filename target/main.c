/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/check_plugin.h"
#include "target/configure.h"
#include "target/daemon.h"
#include "target/server.h"
#include "base/heap.h"
#include "base/log.h"
#include "base/std_files.h"

int main(int argc, char **argv)
{
	struct configuration c;
	int code = 1;

	heap_share();
	std_files_hold();
	log_init("rdma-target", LOG_NOTICE);
	log_to_journal();
	switch (configuration_read(argc, argv, &c)) {
	case OPTION_RUN:
		log_init("rdma-target", c.opt.log_level);
		if (c.opt.daemonize)
			daemon_fork(&c.ready_fd);
		code = c.opt.check_plugin ? check_plugin(&c.opt.backings[0],
							 c.opt.no_sandbox)
					  : server_run(&c);
		break;
	case OPTION_DONE:
		code = std_files_flush() ? 0 : 1;
		break;
	case OPTION_BAD:
		break;
	}
	configuration_free(&c);
	return code;
}
