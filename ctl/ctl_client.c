/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_client.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"

#define CTL_INTERFACE "org.rdmablock.target"

/* An answer may be long, and its sender is trusted as far as this. Bytes. */
#define CTL_ANSWER_MAX (64u << 20)

static void ctl_explain_connect(const char *path, int err, struct error *e)
{
	const char *reason = strerror(-err);

	if (err == -EACCES)
		error_set(e, err,
			  "%s: %s; be root, the user of the target, or in the "
			  "group of the socket",
			  path, reason);
	else if (err == -ENAMETOOLONG)
		error_set(e, err,
			  "%s: %s; a socket's path has at most %zu "
			  "characters",
			  path, reason,
			  sizeof(((struct sockaddr_un *)0)->sun_path) - 1);
	else
		error_set(
			e, err,
			"%s: %s; start rdma-target with --control %s, or name "
			"its socket with --control",
			path, reason, path);
}

static int ctl_connect(const char *path, struct error *e)
{
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	snprintf(addr.sun_path, sizeof(addr.sun_path), "%s", path);
	if (strlen(path) >= sizeof(addr.sun_path))
		errno = ENAMETOOLONG;
	else if (fd >= 0 &&
		 connect(fd, (struct sockaddr *)&addr, sizeof(addr)) == 0)
		return fd;
	ctl_explain_connect(path, -errno, e);
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool ctl_send(int fd, const char *text)
{
	size_t len = strlen(text) + 1;

	while (len > 0) {
		ssize_t n = send(fd, text, len, MSG_NOSIGNAL);

		if (n <= 0)
			return false;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

/* Up to the NUL; to be freed. NULL: the connection has ended. */
static char *ctl_receive(int fd)
{
	size_t size = 65536;
	size_t len = 0;
	char *buf = malloc(size);

	while (buf && size <= CTL_ANSWER_MAX) {
		ssize_t n = recv(fd, buf + len, size - len, 0);
		char *more;

		if (n <= 0)
			break;
		len += (size_t)n;
		if (!buf[len - 1])
			return buf;
		if (len < size)
			continue;
		size *= 2;
		more = realloc(buf, size);
		if (!more)
			break;
		buf = more;
	}
	free(buf);
	return NULL;
}

static json_t *ctl_exchange(int fd, const char *method, json_t *in)
{
	char name[128];
	json_t *call;
	char *text;
	char *answer = NULL;
	json_t *message;

	snprintf(name, sizeof(name), "%s.%s", CTL_INTERFACE, method);
	call = json_pack("{s:s, s:o}", "method", name, "parameters", in);
	text = call ? json_dumps(call, JSON_COMPACT) : NULL;
	if (text && ctl_send(fd, text))
		answer = ctl_receive(fd);
	message = answer ? json_loads(answer, 0, NULL) : NULL;
	json_decref(call);
	free(text);
	free(answer);
	return message;
}

static const char *ctl_text(const json_t *of, const char *key)
{
	const char *text = json_string_value(json_object_get(of, key));

	return text ? text : "";
}

/* "volume 'a': lun: all 256 LUNs are taken" */
static void ctl_explain(const char *error, const json_t *out, struct error *e)
{
	const char *field = ctl_text(out, "field");

	if (!strcmp(error, CTL_INTERFACE ".Refused"))
		error_set(e, -EPERM, "%s: %s%s%s", ctl_text(out, "object"),
			  field, *field ? ": " : "", ctl_text(out, "reason"));
	else if (!strcmp(error, "org.varlink.service.PermissionDenied"))
		error_set(e, -EPERM,
			  "only root and the user of the target may change it");
	else if (!strcmp(error, "org.varlink.service.InvalidParameter"))
		error_set(e, -EPERM, "the target does not take this %s",
			  ctl_text(out, "parameter"));
	else
		error_set(e, -EPERM, "%s; the target may be of another version",
			  error);
}

enum ctl_exit ctl_call(const char *path, const char *method, json_t *in,
		       json_t **ret_out, struct error *e)
{
	_cleanup_close_ int fd = ctl_connect(path, e);
	json_t *message;
	json_t *out;
	const char *error;

	if (fd < 0) {
		json_decref(in);
		return CTL_UNREACHABLE;
	}
	message = ctl_exchange(fd, method, in);
	if (!message) {
		error_set(e, -ECONNRESET,
			  "%s: the target has closed the connection; what was "
			  "asked for may have been done or not",
			  path);
		return CTL_UNREACHABLE;
	}
	out = json_object_get(message, "parameters");
	error = json_string_value(json_object_get(message, "error"));
	if (error)
		ctl_explain(error, out, e);
	else
		*ret_out = out ? json_incref(out) : json_object();
	json_decref(message);
	return error ? CTL_REFUSED : CTL_DONE;
}
