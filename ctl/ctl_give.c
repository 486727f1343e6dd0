/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_give.h"

#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/given_files.h"
#include "config/config_text.h"
#include "transport/tcp/socket.h"
#include "transport/uri.h"

/* A target that takes none, as an older one, may open its files itself. If it refuses the
 * change, too, then @why says what came before. */
static enum ctl_exit give_end(enum ctl_exit code, const struct error *e,
			      struct error *why)
{
	if (code == CTL_DONE)
		return CTL_DONE;
	*why = *e;
	if (code != CTL_REFUSED)
		return code;
	error_prefix(why, "rdma-ctl could not hand over ");
	return CTL_DONE;
}

/* ---- one file ---- */

/* @cnt: how many open files the target needs of each. */
static enum ctl_exit give_file(struct ctl_link *l, const json_t *vol,
			       unsigned int cnt, struct error *why)
{
	const char *path = config_get_text(vol, "store");
	bool read_only = json_is_true(json_object_get(vol, "ro"));
	int fds[GIVEN_FILE_FDS_MAX] = { 0 };
	enum ctl_exit code;
	json_t *out = NULL;
	struct error e;
	int is_open;

	if (!path || *path != '/')
		return CTL_DONE;
	is_open = given_files_open(path, read_only, fds, cnt);
	if (is_open < 0) {
		/* The target says what it is, and that it is not there. */
		if (is_open != -EINVAL && is_open != -ENOENT)
			error_set(why, is_open,
				  "rdma-ctl cannot open %s either: %s", path,
				  strerror(-is_open));
		return CTL_DONE;
	}
	code = ctl_link_call(l, "GiveFile", json_pack("{ss}", "path", path),
			     fds, (unsigned int)is_open, &out, &e);
	json_decref(out);
	while (is_open > 0)
		close(fds[--is_open]);
	return give_end(code, &e, why);
}

/* ---- all files ---- */

/* One without a name is the volume with its store. */
static bool give_is_served(const json_t *served, const json_t *vol)
{
	const json_t *name = json_object_get(vol, "name");
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)served, i, one) {
		if (json_equal(json_object_get(one, "store"),
			       json_object_get(vol, "store")) &&
		    (!name || json_equal(json_object_get(one, "name"), name)))
			return true;
	}
	return false;
}

/* Of the configuration file that @status names. NULL: there is none, or the target will
 * say what is wrong with it. */
static json_t *give_read_config(const json_t *status)
{
	const char *path = config_get_text(status, "config");
	struct error ignored;

	return path && *path ? config_read(path, &ignored) : NULL;
}

/* One for I/O, and one for the flushes of each thread. */
static unsigned int give_cnt(const json_t *status)
{
	json_int_t threads =
		json_integer_value(json_object_get(status, "threads"));

	return threads < GIVEN_FILE_FDS_MAX ? 1 + (unsigned int)threads
					    : GIVEN_FILE_FDS_MAX;
}

static enum ctl_exit give_files(struct ctl_link *l, const json_t *vols,
				bool only_new, const json_t *status,
				struct error *why)
{
	enum ctl_exit code = CTL_DONE;
	json_t *out = NULL;
	const json_t *vol;
	size_t i;

	if (only_new && json_array_size(vols))
		code = ctl_link_call(l, "ListVolumes", json_object(), NULL, 0,
				     &out, why);
	json_array_foreach((json_t *)(uintptr_t)vols, i, vol) {
		if (code == CTL_DONE &&
		    !give_is_served(json_object_get(out, "volumes"), vol))
			code = give_file(l, vol, give_cnt(status), why);
	}
	json_decref(out);
	return code;
}

/* ---- sockets ---- */

/* Makes the socket of an address. -EINVAL: it is none over TCP; the target says what is
 * wrong with it. */
static int give_listen(const struct xp_uri *uri, struct error *e)
{
	const struct addrinfo hints = { .ai_socktype = SOCK_STREAM,
					.ai_flags = AI_NUMERICHOST |
						    AI_NUMERICSERV };
	struct addrinfo *ai;
	char port[8];
	int fd;

	if (uri->forced && xp_kind_traits(uri->kind)->needs_device)
		return -EINVAL;
	snprintf(port, sizeof(port), "%u", uri->port);
	if (getaddrinfo(uri->host, port, &hints, &ai))
		return -EINVAL;
	fd = tcp_open_listener(ai->ai_addr, ai->ai_addrlen, e);
	freeaddrinfo(ai);
	return fd;
}

/* Does the target listen there already? */
static bool give_has_listener(const json_t *listens, const struct xp_uri *uri)
{
	struct xp_uri other;
	const json_t *one;
	size_t i;

	json_array_foreach((json_t *)(uintptr_t)listens, i, one) {
		if (!xp_uri_parse(json_string_value(one), &other, NULL) &&
		    xp_uri_same_address(&other, uri))
			return true;
	}
	return false;
}

static enum ctl_exit give_socket(struct ctl_link *l, const char *text,
				 const json_t *listens, struct error *why)
{
	enum ctl_exit code;
	json_t *out = NULL;
	struct xp_uri uri;
	struct error e;
	int fd;

	if (xp_uri_parse(text, &uri, NULL) || give_has_listener(listens, &uri))
		return CTL_DONE;
	fd = give_listen(&uri, &e);
	if (fd == -EINVAL)
		return CTL_DONE;
	if (fd < 0) {
		error_set(why, fd, "rdma-ctl cannot listen on %s: %s", text,
			  e.text);
		return CTL_DONE;
	}
	code = ctl_link_call(l, "GiveSocket", json_pack("{ss}", "uri", text),
			     &fd, 1, &out, &e);
	json_decref(out);
	close(fd);
	return give_end(code, &e, why);
}

static enum ctl_exit give_sockets(struct ctl_link *l, const json_t *uris,
				  struct error *why)
{
	enum ctl_exit code = CTL_DONE;
	const json_t *have;
	json_t *out = NULL;
	const json_t *uri;
	size_t i;

	if (json_array_size(uris))
		code = ctl_link_call(l, "GetConfig", json_object(), NULL, 0,
				     &out, why);
	have = json_object_get(json_object_get(out, "config"), "listen");
	json_array_foreach((json_t *)(uintptr_t)uris, i, uri) {
		if (code == CTL_DONE)
			code = give_socket(l, json_string_value(uri), have,
					   why);
	}
	json_decref(out);
	return code;
}

enum ctl_exit ctl_give(struct ctl_link *l, const json_t *want, bool only_new,
		       struct error *why)
{
	json_t *config = NULL;
	json_t *status = NULL;
	enum ctl_exit code;

	*why = (struct error){ 0 };
	code = ctl_link_call(l, "GetStatus", json_object(), NULL, 0, &status,
			     why);
	if (code == CTL_DONE && !want)
		want = config = give_read_config(status);
	if (code == CTL_DONE)
		code = give_files(l, json_object_get(want, "backing"), only_new,
				  status, why);
	if (code == CTL_DONE)
		code = give_sockets(l, json_object_get(want, "listen"), why);
	json_decref(config);
	json_decref(status);
	return code;
}
