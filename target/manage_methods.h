/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The methods of rdma-target's control socket. struct control_interface calls
 * these with the struct manage as their user.
 */
#ifndef TARGET_MANAGE_METHODS_H
#define TARGET_MANAGE_METHODS_H

#include "target/control/control.h"
#include "target/manage.h"

extern const struct control_interface manage_interface;

/* Answers that nothing has changed because of @f. Thread: any. */
void method_refused(struct control_call *c, const struct manage_fault *f);

#endif
