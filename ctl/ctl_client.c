/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_client.h"

#include <errno.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/given_files.h"
#include "config/control_path.h"
#include "transport/uri.h"

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
	else if (err == -EAGAIN)
		error_set(e, err,
			  "%s: the target accepts no connection; is its "
			  "process stopped?",
			  path);
	else
		error_set(
			e, err,
			"%s: %s; start rdma-target with --control %s, or name "
			"its socket with --control",
			path, reason, path);
}

/* None of them is taken: a change would go to the wrong one. */
static void ctl_refuse_choice(const struct control_path *found,
			      unsigned int cnt, struct error *e)
{
	error_set(e, -EEXIST, "%s targets run here; choose one with --control:",
		  cnt < CONTROL_PATHS_MAX ? "several" : "many");
	for (unsigned int i = 0; i < cnt; i++)
		error_add(e, "%s %s", i ? "," : "", found[i].text);
}

const char *ctl_find_control(struct error *e)
{
	static struct control_path found[CONTROL_PATHS_MAX];
	const char *named = getenv("RDMA_TARGET_CONTROL");
	unsigned int cnt;

	if (named && *named)
		return named;
	cnt = control_path_find(found);
	if (cnt == 1)
		return found[0].text;
	if (cnt)
		ctl_refuse_choice(found, cnt, e);
	else if (control_path_default(XP_URI_PORT, &found[0]))
		error_set(e, -ENOENT,
			  "no target runs here: none listens at %s; start "
			  "rdma-target, or name its socket with --control",
			  found[0].text);
	else
		error_set(e, -ENOENT,
			  "no target runs here; start rdma-target, or name its "
			  "socket with --control");
	return NULL;
}

/* A target that is stopped accepts nothing: its queue may be full. */
static void ctl_limit_connect(int fd, int ms)
{
	struct timeval limit = { .tv_sec = ms / 1000,
				 .tv_usec = ms % 1000 * 1000 };

	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
}

static int ctl_connect(const struct ctl_options *opt, struct error *e)
{
	const char *path = opt->control;
	struct sockaddr_un addr = { .sun_family = AF_UNIX };
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);

	if (fd >= 0)
		ctl_limit_connect(fd, opt->timeout_ms);
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

int ctl_link_open(struct ctl_link *l, const struct ctl_options *opt,
		  struct error *e)
{
	*l = (struct ctl_link){ .opt = opt, .fd = ctl_connect(opt, e) };
	return l->fd < 0 ? e->err : 0;
}

void ctl_link_close(struct ctl_link *l)
{
	if (l->fd >= 0)
		close(l->fd);
	free(l->buf);
}

static bool ctl_send(int fd, const char *text, const int *fds, unsigned int cnt)
{
	size_t len = strlen(text) + 1;

	while (len > 0) {
		ssize_t n = given_files_send(fd, text, len, fds, cnt);

		if (n <= 0)
			return false;
		cnt = 0;
		text += n;
		len -= (size_t)n;
	}
	return true;
}

static bool ctl_is_readable(const struct ctl_link *l)
{
	struct pollfd p = { .fd = l->fd, .events = POLLIN };

	return poll(&p, 1, l->opt->timeout_ms) != 0;
}

/* Does the target answer anything at all? One that has no place for another
 * connection closes it. */
static bool ctl_is_alive(const struct ctl_options *opt)
{
	static const char question[] =
		"{\"method\":\"org.varlink.service.GetInfo\"}";
	struct error ignored;
	struct ctl_link l;
	bool alive = false;

	if (ctl_link_open(&l, opt, &ignored) == 0)
		alive = ctl_send(l.fd, question, NULL, 0) &&
			ctl_is_readable(&l);
	ctl_link_close(&l);
	return alive;
}

static bool ctl_make_room(struct ctl_link *l)
{
	size_t size = l->size ? 2 * l->size : 65536;
	char *buf;

	if (l->len < l->size)
		return true;
	buf = size <= CTL_ANSWER_MAX ? realloc(l->buf, size) : NULL;
	if (!buf)
		return false;
	l->buf = buf;
	l->size = size;
	return true;
}

static int ctl_explain_silence(const struct ctl_link *l, struct error *e)
{
	return error_set(e, -ETIMEDOUT,
			 "%s: the target does not answer; is its process "
			 "stopped? What was asked for may be done when it goes "
			 "on",
			 l->opt->control);
}

static int ctl_explain_end(const struct ctl_link *l, struct error *e)
{
	return error_set(e, -ECONNRESET,
			 "%s: the target has closed the connection; what was "
			 "asked for may have been done or not",
			 l->opt->control);
}

/* More bytes. */
static int ctl_receive(struct ctl_link *l, struct error *e)
{
	ssize_t n;

	while (!ctl_is_readable(l)) {
		if (!ctl_is_alive(l->opt))
			return ctl_explain_silence(l, e);
	}
	if (!ctl_make_room(l))
		return ctl_explain_end(l, e);
	n = recv(l->fd, l->buf + l->len, l->size - l->len, 0);
	if (n <= 0)
		return ctl_explain_end(l, e);
	l->len += (size_t)n;
	return 0;
}

/* The next message, to be freed. NULL: @e says why. */
static json_t *ctl_next(struct ctl_link *l, struct error *e)
{
	json_t *message;
	char *end;

	while (!l->len || !(end = memchr(l->buf, '\0', l->len))) {
		if (ctl_receive(l, e))
			return NULL;
	}
	message = json_loads(l->buf, 0, NULL);
	l->len -= (size_t)(end + 1 - l->buf);
	memmove(l->buf, end + 1, l->len);
	if (!message)
		ctl_explain_end(l, e);
	return message;
}

static int ctl_ask(struct ctl_link *l, json_t *call, const int *fds,
		   unsigned int cnt, struct error *e)
{
	char *text = call ? json_dumps(call, JSON_COMPACT) : NULL;
	int err = 0;

	if (!text || !ctl_send(l->fd, text, fds, cnt))
		err = text && errno == EAGAIN ? ctl_explain_silence(l, e)
					      : ctl_explain_end(l, e);
	json_decref(call);
	free(text);
	return err;
}

/* Takes over @in. */
static json_t *ctl_make_call(const char *method, json_t *in)
{
	char name[128];

	snprintf(name, sizeof(name), "%s.%s", CTL_INTERFACE, method);
	return json_pack("{s:s, s:o}", "method", name, "parameters", in);
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

/* Hands the parameters of one answer to *ret_out. */
static enum ctl_exit ctl_take(json_t *message, json_t **ret_out,
			      struct error *e)
{
	json_t *out = json_object_get(message, "parameters");
	const char *error =
		json_string_value(json_object_get(message, "error"));

	if (error)
		ctl_explain(error, out, e);
	else
		*ret_out = out ? json_incref(out) : json_object();
	return error ? CTL_REFUSED : CTL_DONE;
}

enum ctl_exit ctl_link_call(struct ctl_link *l, const char *method, json_t *in,
			    const int *fds, unsigned int cnt, json_t **ret_out,
			    struct error *e)
{
	enum ctl_exit code = CTL_UNREACHABLE;
	json_t *message = NULL;

	if (ctl_ask(l, ctl_make_call(method, in), fds, cnt, e) == 0)
		message = ctl_next(l, e);
	if (message)
		code = ctl_take(message, ret_out, e);
	json_decref(message);
	return code;
}

enum ctl_exit ctl_call(const struct ctl_options *opt, const char *method,
		       json_t *in, json_t **ret_out, struct error *e)
{
	enum ctl_exit code = CTL_UNREACHABLE;
	struct ctl_link l;

	if (ctl_link_open(&l, opt, e))
		json_decref(in);
	else
		code = ctl_link_call(&l, method, in, NULL, 0, ret_out, e);
	ctl_link_close(&l);
	return code;
}

/* False: it was the last one. */
static bool ctl_follow_one(json_t *message, bool (*take)(const json_t *out),
			   enum ctl_exit *code, struct error *e)
{
	json_t *out = NULL;
	bool more = json_is_true(json_object_get(message, "continues"));

	*code = ctl_take(message, &out, e);
	/* The last answer has parameters, too. */
	more = *code == CTL_DONE && take(out) && more;
	json_decref(out);
	return more;
}

enum ctl_exit ctl_follow(const struct ctl_options *opt, const char *method,
			 json_t *in, bool (*take)(const json_t *out),
			 struct error *e)
{
	json_t *call = ctl_make_call(method, in);
	enum ctl_exit code = CTL_UNREACHABLE;
	struct ctl_link l;
	bool more = true;

	json_object_set_new(call, "more", json_true());
	if (ctl_link_open(&l, opt, e)) {
		json_decref(call);
		more = false;
	} else if (ctl_ask(&l, call, NULL, 0, e)) {
		more = false;
	}
	while (more) {
		json_t *message = ctl_next(&l, e);

		if (!message && code == CTL_DONE)
			error_set(e, -ECONNRESET, "%s: the target has ended",
				  opt->control);
		code = CTL_UNREACHABLE;
		more = message && ctl_follow_one(message, take, &code, e);
		json_decref(message);
	}
	ctl_link_close(&l);
	return code;
}
