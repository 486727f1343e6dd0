/* SPDX-License-Identifier: BSD-2-Clause */
/* Private to machine*.c: the parts of machine_read(). */
#ifndef DOCTOR_MACHINE_READ_H
#define DOCTOR_MACHINE_READ_H

#include "doctor/machine.h"

void machine_read_devices(const char *root, struct machine *m);

#endif
