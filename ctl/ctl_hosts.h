/* SPDX-License-Identifier: BSD-2-Clause */
/* Names of the hosts of initiators, from /etc/hosts or a server of names. Thread: main. */
#ifndef CTL_CTL_HOSTS_H
#define CTL_CTL_HOSTS_H

#include <jansson.h>

/* {ADDRESS: NAME} of the "address" of each of @sessions. A server that does not answer may
 * take long: what is not known after @ms is left out. To be freed. */
json_t *ctl_host_names(const json_t *sessions, unsigned int ms);

#endif
