/* SPDX-License-Identifier: BSD-2-Clause */
#include "ctl/ctl_keys.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/key_file.h"
#include "base/own_file.h"
#include "base/secret.h"
#include "config/config_json.h"
#include "ctl/ctl_print.h"

/* Room for a text with one line more. */
#define KEYS_TEXT_SIZE (KEY_FILE_MAX + 512u)

/* Text with keys in it. */
struct keys_text {
	char *p; /* secret.h, KEYS_TEXT_SIZE bytes */
	size_t len;
};

/* A change of the file. */
struct keys_edit {
	struct ctl_link link;
	char path[PATH_MAX];
	const char *name;
	bool read_only;
	int fd; /* the file, which is locked; -1: not open */
	struct stat st;
	struct keys_text in;  /* standard input */
	struct keys_text was; /* the file */
	struct keys_text is;
};

struct keys_line {
	const char *p;
	size_t len; /* with its end */
};

/* ---- text ---- */

static bool keys_text_open(struct keys_text *t, struct error *e)
{
	t->p = secret_map(KEYS_TEXT_SIZE);
	return t->p || error_refuse(e, "out of memory");
}

static void keys_text_add(struct keys_text *t, const char *p, size_t len)
{
	size_t room = KEYS_TEXT_SIZE - t->len;

	/* What is too long is refused when it is parsed. */
	len = len < room ? len : room;
	memcpy(t->p + t->len, p, len);
	t->len += len;
}

static bool keys_next_line(const struct keys_text *t, size_t *at,
			   struct keys_line *ret)
{
	const char *end;

	if (*at >= t->len)
		return false;
	ret->p = t->p + *at;
	end = memchr(ret->p, '\n', t->len - *at);
	ret->len = end ? (size_t)(end + 1 - ret->p) : t->len - *at;
	*at += ret->len;
	return true;
}

static bool keys_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The next word of @line from *at on; length 0: there is none. */
static struct keys_line keys_next_word(const struct keys_line *line, size_t *at)
{
	struct keys_line word;

	while (*at < line->len && keys_is_blank(line->p[*at]))
		++*at;
	word.p = line->p + *at;
	while (*at < line->len && !keys_is_blank(line->p[*at]))
		++*at;
	word.len = (size_t)(line->p + *at - word.p);
	return word;
}

static bool keys_word_is(struct keys_line word, const char *text)
{
	return word.len == strlen(text) && !memcmp(word.p, text, word.len);
}

static bool keys_is_of(const struct keys_line *line, const char *name)
{
	size_t at = 0;

	return keys_word_is(keys_next_word(line, &at), name);
}

/* @key: all characters, or those behind its name. */
static void keys_add_line(struct keys_edit *k, struct keys_line key,
			  bool read_only)
{
	struct keys_text *to = &k->is;

	if (to->len && to->p[to->len - 1] != '\n')
		keys_text_add(to, "\n", 1);
	keys_text_add(to, k->name, strlen(k->name));
	keys_text_add(to, " ", 1);
	keys_text_add(to, key.p, key.len);
	if (read_only)
		keys_text_add(to, " ro", 3);
	keys_text_add(to, "\n", 1);
}

/* ---- what comes in ---- */

static bool keys_read(int fd, const char *what, struct keys_text *t,
		      struct error *e)
{
	ssize_t n = 1;

	while (n > 0 && t->len < KEY_FILE_MAX) {
		n = read(fd, t->p + t->len, KEY_FILE_MAX - t->len);
		t->len += n > 0 ? (size_t)n : 0;
	}
	return n >= 0 ||
	       error_refuse(e, "cannot read %s: %s", what, strerror(errno));
}

/* The key on standard input: "KEY", or a line of a file of keys. */
static bool keys_take_input(struct keys_edit *k, struct keys_line *ret,
			    struct error *e)
{
	struct keys_line line;
	struct keys_line name;
	struct key ignored;
	size_t at = 0;
	size_t in = 0;
	bool is_key;

	ret->len = 0;
	if (isatty(STDIN_FILENO))
		return error_refuse(e,
				    "give the key on standard input: < FILE, "
				    "or openssl rand -hex 32 |");
	if (!keys_text_open(&k->in, e) ||
	    !keys_read(STDIN_FILENO, "standard input", &k->in, e))
		return false;
	while (keys_next_line(&k->in, &at, &line)) {
		in = 0;
		name = keys_next_word(&line, &in);
		if (!name.len || name.p[0] == '#')
			continue;
		if (ret->len)
			return error_refuse(e, "standard input has several "
					       "lines; give one key");
		*ret = keys_is_of(&line, k->name) ? keys_next_word(&line, &in)
						  : name;
	}
	is_key = key_parse_bytes(ret->p, ret->len, &ignored);
	explicit_bzero(&ignored, sizeof(ignored));
	return is_key ||
	       error_refuse(e,
			    "standard input is neither a key of 32 to 64 "
			    "bytes, in hexadecimal digits or base64, nor a "
			    "line of '%s' with one",
			    k->name);
}

/* ---- the file ---- */

/* Another rdma-ctl may replace the file while this one waits. */
static bool keys_lock(struct keys_edit *k, struct error *e)
{
	struct stat now;

	for (;;) {
		k->fd = open(k->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW |
					      O_NONBLOCK | O_NOCTTY);
		if (k->fd < 0 || flock(k->fd, LOCK_EX) ||
		    fstat(k->fd, &k->st) || stat(k->path, &now))
			return error_refuse(e, "keys '%s': %s", k->path,
					    errno == ELOOP ? "a symbolic link"
							   : strerror(errno));
		if (now.st_ino == k->st.st_ino && now.st_dev == k->st.st_dev)
			return true;
		close(k->fd);
	}
}

static bool keys_open_file(struct keys_edit *k, struct error *e)
{
	struct key_file good;

	if (!keys_lock(k, e) || !keys_text_open(&k->was, e) ||
	    !keys_text_open(&k->is, e))
		return false;
	/* Root edits the file of another user. */
	if (k->st.st_mode & (S_IRWXG | S_IRWXO) || !S_ISREG(k->st.st_mode) ||
	    k->st.st_size > KEY_FILE_MAX)
		return key_file_read_fd(k->fd, k->path, &good, e) == 0;
	return keys_read(k->fd, k->path, &k->was, e);
}

static int keys_write_fd(int fd, const struct keys_edit *k)
{
	size_t done = 0;

	if (fchown(fd, k->st.st_uid, k->st.st_gid) ||
	    fchmod(fd, S_IRUSR | S_IWUSR))
		return -errno;
	while (done < k->is.len) {
		ssize_t n = write(fd, k->is.p + done, k->is.len - done);

		if (n < 0)
			return -errno;
		done += (size_t)n;
	}
	return fsync(fd) ? -errno : 0;
}

static int keys_replace(const struct keys_edit *k, const char *new)
{
	_cleanup_close_ int fd = own_file_create(new, S_IRUSR | S_IWUSR);
	int err = fd < 0 ? fd : keys_write_fd(fd, k);

	if (!err && rename(new, k->path))
		err = -errno;
	if (err)
		unlink(new);
	return err ? err : directory_sync_of(k->path);
}

static bool keys_write(struct keys_edit *k, struct error *e)
{
	char new[PATH_MAX + 8];
	struct key_file good;
	int err;

	if (key_file_parse(k->is.p, k->is.len, k->path, &good, e))
		return false;
	key_file_free(&good);
	snprintf(new, sizeof(new), "%s.new", k->path);
	err = keys_replace(k, new);
	return !err || error_refuse(e, "keys '%s': cannot be written: %s",
				    k->path, own_file_strerror(err));
}

/* ---- the target ---- */

static enum ctl_exit keys_find_file(struct keys_edit *k, struct error *e)
{
	json_t *out = NULL;
	enum ctl_exit code = ctl_link_call(&k->link, "ListKeys", json_object(),
					   NULL, 0, &out, e);

	if (code == CTL_DONE)
		snprintf(k->path, sizeof(k->path), "%s",
			 config_get_text(out, "file"));
	json_decref(out);
	return code;
}

/* The target opens the file itself if this process may not. */
static enum ctl_exit keys_give(struct keys_edit *k, struct error *e)
{
	_cleanup_close_ int fd =
		open(k->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	enum ctl_exit code = CTL_DONE;
	json_t *out = NULL;

	if (fd >= 0)
		code = ctl_link_call(&k->link, "GiveFile",
				     json_pack("{ss}", "path", k->path), &fd, 1,
				     &out, e);
	json_decref(out);
	return code;
}

static enum ctl_exit keys_reload(struct keys_edit *k, struct error *e)
{
	enum ctl_exit code = keys_give(k, e);
	json_t *out = NULL;

	if (code == CTL_DONE)
		code = ctl_link_call(&k->link, "ReloadKeys", json_object(),
				     NULL, 0, &out, e);
	if (code == CTL_DONE && k->link.opt->json)
		ctl_print_json(out);
	else if (code == CTL_DONE)
		ctl_print_sessions_ended(out);
	json_decref(out);
	return code;
}

/* ---- verbs ---- */

static void keys_end(struct keys_edit *k)
{
	ctl_link_close(&k->link);
	secret_unmap(k->in.p, KEYS_TEXT_SIZE);
	secret_unmap(k->was.p, KEYS_TEXT_SIZE);
	secret_unmap(k->is.p, KEYS_TEXT_SIZE);
	if (k->fd >= 0)
		close(k->fd);
}

/* Lets @edit make k->is of k->was, and the target read it. False: @e has one line. */
static enum ctl_exit
keys_change(const struct ctl_options *opt, struct keys_edit *k,
	    bool (*edit)(struct keys_edit *k, struct error *e))
{
	enum ctl_exit code = CTL_UNREACHABLE;
	struct error e;

	k->fd = -1;
	if (!ctl_link_open(&k->link, opt, &e))
		code = keys_find_file(k, &e);
	if (code == CTL_DONE && edit &&
	    (!keys_open_file(k, &e) || !edit(k, &e) || !keys_write(k, &e)))
		code = CTL_REFUSED;
	else if (code == CTL_DONE) {
		code = keys_reload(k, &e);
		if (code != CTL_DONE && edit)
			error_add(&e, "; the file has the change; try "
				      "rdma-ctl key reload");
	}
	if (code != CTL_DONE)
		log_error("%s", e.text);
	keys_end(k);
	return code;
}

static bool keys_has_name(const struct keys_edit *k)
{
	struct keys_line line;
	size_t at = 0;

	while (keys_next_line(&k->was, &at, &line)) {
		if (keys_is_of(&line, k->name))
			return true;
	}
	return false;
}

static bool keys_refuse_unknown(const struct keys_edit *k, struct error *e)
{
	return error_refuse(e,
			    "keys '%s': '%s' has no key; see rdma-ctl key "
			    "list",
			    k->path, k->name);
}

static bool keys_edit_add(struct keys_edit *k, struct error *e)
{
	struct keys_line key;

	if (keys_has_name(k))
		return error_refuse(e,
				    "keys '%s': '%s' has a key; rdma-ctl key "
				    "rotate gives it a newer one",
				    k->path, k->name);
	if (!keys_take_input(k, &key, e))
		return false;
	keys_text_add(&k->is, k->was.p, k->was.len);
	keys_add_line(k, key, k->read_only);
	return true;
}

static bool keys_line_is_read_only(const struct keys_line *line)
{
	size_t at = 0;

	keys_next_word(line, &at);
	keys_next_word(line, &at);
	return keys_word_is(keys_next_word(line, &at), "ro");
}

/* The new key comes before the newest one. A third one goes. */
static bool keys_edit_rotate(struct keys_edit *k, struct error *e)
{
	unsigned int seen = 0;
	struct keys_line line;
	struct keys_line key;
	size_t at = 0;

	if (!keys_has_name(k))
		return keys_refuse_unknown(k, e);
	if (!keys_take_input(k, &key, e))
		return false;
	while (keys_next_line(&k->was, &at, &line)) {
		if (keys_is_of(&line, k->name) && seen++ == 0)
			keys_add_line(k, key, keys_line_is_read_only(&line));
		else if (keys_is_of(&line, k->name))
			continue;
		keys_text_add(&k->is, line.p, line.len);
	}
	return true;
}

/* All of a name; or all but the newest. */
static bool keys_drop(struct keys_edit *k, unsigned int keep)
{
	unsigned int seen = 0;
	struct keys_line line;
	size_t at = 0;

	while (keys_next_line(&k->was, &at, &line)) {
		if (!keys_is_of(&line, k->name) || seen++ < keep)
			keys_text_add(&k->is, line.p, line.len);
	}
	return seen > keep;
}

static bool keys_edit_remove(struct keys_edit *k, struct error *e)
{
	return keys_drop(k, /* keep= */ 0) || keys_refuse_unknown(k, e);
}

static bool keys_edit_remove_old(struct keys_edit *k, struct error *e)
{
	return keys_drop(k, /* keep= */ 1) ||
	       error_refuse(e,
			    "keys '%s': '%s' has no older key; see rdma-ctl "
			    "key list",
			    k->path, k->name);
}

/* @word: what may follow the name; "": nothing. */
static bool keys_take_arguments(struct keys_edit *k, char **arg, int cnt,
				const char *word)
{
	k->name = arg[0];
	if (!key_name_is_good(arg[0], strlen(arg[0]))) {
		log_error("'%s' is not 1 to 63 letters, digits, '-', '_' and "
			  "'.'",
			  arg[0]);
		return false;
	}
	if (cnt < 2 || !strcmp(arg[1], word))
		return true;
	/* It may be a key. */
	log_error("what follows the name is not %s; a key comes from standard "
		  "input",
		  word);
	return false;
}

enum ctl_exit ctl_key_add(const struct ctl_options *opt, char **arg, int cnt)
{
	struct keys_edit k = { .read_only = cnt > 1 };

	if (!keys_take_arguments(&k, arg, cnt, "ro"))
		return CTL_REFUSED;
	return keys_change(opt, &k, keys_edit_add);
}

enum ctl_exit ctl_key_rotate(const struct ctl_options *opt, char **arg, int cnt)
{
	struct keys_edit k = { 0 };

	if (!keys_take_arguments(&k, arg, cnt, ""))
		return CTL_REFUSED;
	return keys_change(opt, &k, keys_edit_rotate);
}

enum ctl_exit ctl_key_remove(const struct ctl_options *opt, char **arg, int cnt)
{
	struct keys_edit k = { 0 };

	if (!keys_take_arguments(&k, arg, cnt, "old"))
		return CTL_REFUSED;
	return keys_change(opt, &k,
			   cnt > 1 ? keys_edit_remove_old : keys_edit_remove);
}

enum ctl_exit ctl_key_reload(const struct ctl_options *opt, char **arg, int cnt)
{
	struct keys_edit k = { 0 };

	return keys_change(opt, &k, NULL);
}
