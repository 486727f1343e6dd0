/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * An error on its way to the code that decides what to do about it: a number
 * for the program and one line for a person. The caller owns it, mostly on its
 * stack. A function that fails fills in the struct error; a function that
 * succeeds does not touch it.
 *
 * Thread: any. Nothing here allocates or logs.
 */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <stdbool.h>

/* Bytes of the line with its NUL. A longer line is cut. */
#define ERROR_TEXT_SIZE 768

struct error {
	int err; /* negative errno; 0: no error */
	/* What failed, the reason, what to try; one clause, no line break. */
	char text[ERROR_TEXT_SIZE];
};

/*
 * Fills in @e, which may be NULL. The arguments must not point into @e: use
 * error_prefix() and error_add() for that.
 *
 * Return: @err, for `return error_set(e, -EINVAL, ...)`.
 */
int error_set(struct error *e, int err, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* error_set() with -EINVAL, for readers of options. Return: false. */
bool error_refuse(struct error *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* Puts text before or after the line of @e, which may be NULL. A line that gets
 * too long is cut at its end. Return: e->err; 0 if @e is NULL. */
int error_prefix(struct error *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
int error_add(struct error *e, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

#endif
