/* SPDX-License-Identifier: BSD-2-Clause */
/* A build without jansson changes nothing while the target runs. */
#include "target/server_manage.h"

int server_manage_open(struct server *s, struct error *e)
{
	return 0;
}

int server_manage_start(struct server *s, struct error *e)
{
	return 0;
}

void server_manage_stop(struct server *s)
{
}

void server_manage_close(struct server *s)
{
}
