/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/manage_save.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/directory.h"
#include "base/own_file.h"
#include "config/config_text.h"
#include "target/manage_access.h"
#include "target/manage_read.h"

#define SAVE_VERSIONS 3
#define SAVE_PATH_MAX (PATH_MAX + 16) /* and ".1.new" */

/* ---- contents of the file ---- */

static json_t *save_list(const struct manage *m, const char *key, json_t *list)
{
	json_t *to = json_array();
	json_t *one;
	size_t i;

	json_array_foreach(list, i, one) {
		if (!manage_is_added(m, key, one))
			json_array_append(to, one);
	}
	return to;
}

static json_t *save_form_of(const struct manage *m, const json_t *config)
{
	const struct option_table *t = &target_option_table;
	json_t *to = json_object();

	for (unsigned int i = 0; i < t->cnt; i++) {
		const char *key = t->rows[i].name;
		json_t *is = json_object_get(config, key);
		json_t *was = json_object_get(m->at_start, key);

		/* Volumes have names and LUNs that the file may not have. */
		if (json_equal(is, was) && !t->rows[i].keys)
			is = json_copy(json_object_get(m->file, key));
		else
			is = t->rows[i].again ? save_list(m, key, is)
					      : json_copy(is);
		if (is && (!json_is_array(is) || json_array_size(is)))
			json_object_set(to, key, is);
		json_decref(is);
	}
	return to;
}

/* ---- files ---- */

static int save_write(const char *path, mode_t mode, const char *text,
		      size_t len)
{
	_cleanup_close_ int fd = own_file_create(path, mode);

	if (fd < 0)
		return fd;
	while (len > 0) {
		ssize_t n = write(fd, text, len);

		if (n < 0)
			return -errno;
		text += n;
		len -= (size_t)n;
	}
	return fsync(fd) ? -errno : 0;
}

/* FILE.2 becomes FILE.3, FILE.1 becomes FILE.2, and @copy FILE.1. */
static int save_rotate(const char *path, const char *copy)
{
	char from[SAVE_PATH_MAX];
	char to[SAVE_PATH_MAX];

	for (int i = SAVE_VERSIONS; i > 1; i--) {
		snprintf(from, sizeof(from), "%s.%d", path, i - 1);
		snprintf(to, sizeof(to), "%s.%d", path, i);
		if (rename(from, to) && errno != ENOENT)
			return -errno;
	}
	snprintf(to, sizeof(to), "%s.1", path);
	return rename(copy, to) ? -errno : 0;
}

/* FILE.1 is a copy of @old: there is always a whole FILE. On a full disk, both texts fail
 * before any version has moved. */
static int save_replace(const char *path, mode_t mode, const char *old,
			const char *text)
{
	char copy[SAVE_PATH_MAX];
	char new[SAVE_PATH_MAX];
	int err = 0;

	snprintf(copy, sizeof(copy), "%s.1.new", path);
	snprintf(new, sizeof(new), "%s.new", path);
	if (old)
		err = save_write(copy, mode, old, strlen(old));
	if (!err)
		err = save_write(new, mode, text, strlen(text));
	if (!err && old)
		err = save_rotate(path, copy);
	if (!err && rename(new, path))
		err = -errno;
	if (!err)
		return directory_sync_of(path);
	unlink(copy);
	unlink(new);
	return err;
}

/* For manage_read_file(). Of a file without a complete text, it has only the place and
 * the reason. */
static void save_read_file(const char *path, struct manage_file *file)
{
	char *blanked = NULL;
	struct stat st;

	file->place = config_place_of(path);
	if (!file->place)
		return;
	file->mode = stat(file->place, &st) ? 0600 : st.st_mode & 0777;
	file->config = config_read_json(file->place, &blanked, &file->e);
	free(blanked);
	if (file->config)
		file->text = config_read_text(file->place, &file->e);
}

static bool save_refuse(const struct manage *m, struct manage_fault *f, int err)
{
	bool may_not = err == -EROFS || err == -EACCES || err == -EPERM;

	return manage_refuse(f, "configuration", "", "%s: %s%s",
			     m->server->opt->config, strerror(-err),
			     may_not ? "; the target must be able to write its "
				       "directory (systemd: ReadWritePaths=), "
				       "which may have no other secrets; or "
				       "write it yourself: rdma-ctl show >FILE"
				     : "");
}

/* What is to be in the file. */
struct save_form {
	const char *text;
	bool is_empty; /* it has no volumes */
	bool force;
};

static bool save_text(struct manage *m, const struct manage_file *old,
		      const struct save_form *form, struct manage_fault *f)
{
	bool had_volumes =
		old->text &&
		json_array_size(json_object_get(old->config, "backing")) > 0;
	int err;

	if (!old->place)
		return manage_refuse(f, "configuration", "", "%s",
				     old->e.err ? old->e.text
						: "out of memory");
	/* Somebody is editing it. */
	if (!old->text && old->e.err != -ENOENT && !form->force)
		return manage_refuse(f, "configuration", "",
				     "%s; what is there would be lost: correct "
				     "it, or replace it with --force",
				     old->e.text);
	if (form->is_empty && had_volumes && !form->force)
		return manage_refuse(f, "configuration", "backing",
				     "there are no volumes now, and %s has "
				     "some; --force replaces it",
				     old->place);
	if (old->text && !strcmp(old->text, form->text))
		return true;
	err = save_replace(old->place, old->mode, old->text, form->text);
	/* It may have been replaced, although not all went well. */
	m->file_uses++;
	return !err || save_refuse(m, f, err);
}

/* Volumes of the command line are left out, because they are added again at the
 * next start. If the file had another store under the same name, the target
 * would have two volumes of that name. */
static bool save_has_no_conflict(const struct manage *m, const json_t *config,
				 struct manage_fault *f)
{
	json_t *added;
	size_t i;

	json_array_foreach(json_object_get(m->added, "backing"), i, added) {
		const char *name = config_get_text(added, "name");
		const json_t *is = name ? manage_find_in(config, name) : NULL;

		if (is && !json_equal(json_object_get(is, "store"),
				      json_object_get(added, "store")))
			return manage_refuse_volume(
				f, name, "store",
				"the command line of the target gives another "
				"store to this name; the target would not "
				"start with both");
	}
	return true;
}

/* What the command line says is not saved, and holds again at the next start. */
static void save_warn_of_rules(const struct manage *m, const json_t *config)
{
	json_t *rules = json_object_get(config, "allow");
	char is[MANAGE_RULES_SIZE];
	char next[MANAGE_RULES_SIZE];
	json_t *added;
	size_t i;

	json_array_foreach(json_object_get(m->added, "allow"), i, added) {
		if (!manage_list_has(rules, added))
			log_warn("the command line of the target allows '%s' "
				 "again at its next start",
				 json_string_value(added));
	}
	json_array_foreach(json_object_get(m->added, "backing"), i, added) {
		const char *name = config_get_text(added, "name");
		const json_t *now =
			json_object_get(manage_find_in(config, name), "allow");
		const json_t *then = json_object_get(added, "allow");

		if (now && !json_equal(now, then))
			log_warn(
				"volume '%s': allow: %s now, but %s again at the "
				"next start, by the command line of the "
				"target",
				name, manage_rules_text(now, is),
				manage_rules_text(then, next));
	}
}

/* Returns the text of a file, which the caller frees. NULL: no memory. */
static char *manage_text_of(const json_t *form)
{
	char *json = json_dumps(form, JSON_INDENT(2));
	char *text = NULL;

	if (json && asprintf(&text, "%s\n", json) < 0)
		text = NULL;
	free(json);
	return text;
}

static bool save_over(struct manage *m, const json_t *config,
		      const struct manage_file *old, bool force,
		      struct manage_fault *f)
{
	json_t *form = NULL;
	char *text = NULL;
	bool good = false;

	if (!save_has_no_conflict(m, config, f))
		return false;
	form = save_form_of(m, config);
	text = form ? manage_text_of(form) : NULL;
	if (text) {
		good = save_text(
			m, old,
			&(struct save_form){
				.text = text,
				.is_empty = !json_object_get(form, "backing"),
				.force = force,
			},
			f);
	} else {
		manage_refuse(f, "configuration", "", "out of memory");
	}
	json_decref(form);
	free(text);
	if (good)
		save_warn_of_rules(m, config);
	return good;
}

bool manage_save(struct manage *m, bool force, struct manage_fault *f)
{
	struct manage_view *view;
	struct manage_file old;
	bool good;

	if (!m->file)
		return manage_refuse(f, "configuration", "",
				     "the target was started without --config");
	pthread_mutex_lock(&m->file_lock);
	manage_read_file(m, save_read_file, &old);
	view = manage_view_get(m);
	good = !old.is_given_up ? save_over(m, view->config, &old, force, f)
				: manage_refuse_end(f);
	manage_view_put(view);
	pthread_mutex_unlock(&m->file_lock);
	manage_file_drop(&old);
	return good;
}

bool manage_save_change(struct manage *m, struct manage_fault *f)
{
	bool good = manage_save(m, /* force= */ false, f);

	pthread_mutex_lock(&m->view_lock);
	m->saves--;
	pthread_cond_broadcast(&m->saves_ended);
	pthread_mutex_unlock(&m->view_lock);
	return good;
}
