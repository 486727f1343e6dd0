/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The messages of varlink (varlink.org/Method-Call): JSON objects, each
 * followed by a NUL. Thread: any. Nothing here does I/O or logs.
 */
#ifndef TARGET_CONTROL_VARLINK_H
#define TARGET_CONTROL_VARLINK_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>

#define VARLINK_NAME_MAX 128

/* Errors that varlink defines. */
#define VARLINK_NO_INTERFACE  "org.varlink.service.InterfaceNotFound"
#define VARLINK_NO_METHOD     "org.varlink.service.MethodNotFound"
#define VARLINK_BAD_PARAMETER "org.varlink.service.InvalidParameter"
#define VARLINK_NOT_ALLOWED   "org.varlink.service.PermissionDenied"
#define VARLINK_WANTS_MORE    "org.varlink.service.ExpectedMore"

/* A call, as it was received. */
struct varlink_call {
	char interface[VARLINK_NAME_MAX]; /* "org.varlink.service" */
	char method[VARLINK_NAME_MAX];	  /* "GetInfo" */
	json_t *parameters;		  /* an object; to be freed */
	bool oneway;			  /* no reply is wanted */
	bool more;			  /* several replies are */
};

/*
 * Decodes the @len bytes at @text, without their NUL; may change them. False:
 * they are no call, the connection must be closed, and *ret_why is static text.
 * On success free call->parameters.
 */
bool varlink_decode(char *text, size_t len, struct varlink_call *ret_call,
		    const char **ret_why);

/* @text as JSON. A text that is not UTF-8, such as the name of a file, or a text that was
 * cut within a character, has '?' for each byte that is not ASCII. NULL: no memory. */
json_t *varlink_text(const char *text);

/* A reply, and a failure; @parameters are taken over, NULL: none. The text is to be
 * freed and is sent with its NUL. NULL: no memory. */
char *varlink_encode_reply(json_t *parameters);
/* The same of a reply that others follow. */
char *varlink_encode_part(json_t *parameters);
char *varlink_encode_error(const char *error, json_t *parameters);

#endif
