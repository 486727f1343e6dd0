/* SPDX-License-Identifier: BSD-2-Clause */
#include "fuse/mount_volumes.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <linux/fuse.h>

#include "fuse/fair_queue.h"
#include "fuse/dev.h"
#include "fuse/notify.h"
#include "base/log.h"
#include "base/size.h"

#define BLOCK_SIZE_MAX 65536u

/* "disk, scratch": the names of all volumes. */
static const char *mount_volumes_names(const struct srpi_session *s, char *buf,
				       size_t size)
{
	size_t len = 0;

	buf[0] = '\0';
	for (unsigned int i = 0; i < srpi_volume_cnt(s) && len < size; i++)
		len += (size_t)snprintf(buf + len, size - len, "%s%s",
					i ? ", " : "",
					srpi_volume_info(s, i)->name);
	return buf;
}

static int mount_volumes_refuse_file(const struct fuse_options *o,
				     const struct mount *m,
				     const struct srpi_session *s,
				     struct error *e)
{
	int len = (int)strcspn(o->uri, "?");
	char names[256];

	return error_set(
		e, -EINVAL,
		"mount point %s is a regular file, which can show only one "
		"volume, but the target has %u; select one, as in %.*s/%s%s: "
		"%s",
		m->path, srpi_volume_cnt(s), len, o->uri,
		srpi_volume_info(s, 0)->name, o->uri + len,
		mount_volumes_names(s, names, sizeof(names)));
}

static int mount_volumes_choose(const struct fuse_options *o,
				const struct mount *m,
				const struct srpi_session *s, int *ret_volume,
				struct error *e)
{
	struct srpi_session_info si = { .struct_size = sizeof(si) };
	unsigned int cnt = srpi_volume_cnt(s);
	unsigned int found;
	char names[256];

	srpi_session_info(s, &si);
	if (*si.volume) {
		if (srpi_volume_find(s, si.volume, &found) == 0) {
			*ret_volume = (int)found;
			return 0;
		}
		return error_set(e, -ENOENT,
				 "target %s has no volume '%s'; it has: %s",
				 si.peer, si.volume,
				 mount_volumes_names(s, names, sizeof(names)));
	}
	if (cnt == 0) {
		return error_set(
			e, -ENOENT,
			"target %s shows no volumes to initiator %s; its "
			"access rules may exclude this initiator",
			si.peer, si.initiator);
	}
	*ret_volume = m->is_file && cnt == 1 ? 0 : -1;
	if (!m->is_file || cnt == 1)
		return 0;
	return mount_volumes_refuse_file(o, m, s, e);
}

static bool mount_volumes_has_good_blocks(const struct srpi_volume_info *v)
{
	return v->block_size >= 512 && v->block_size <= BLOCK_SIZE_MAX &&
	       (v->block_size & (v->block_size - 1)) == 0;
}

static int mount_volumes_check(const struct tree *t, struct error *e)
{
	for (unsigned int i = 0; i < t->cnt; i++) {
		const struct srpi_volume_info *v = t->files[i]->info;

		if (mount_volumes_has_good_blocks(v))
			continue;
		return error_set(
			e, -ENOTSUP,
			"volume '%s' has blocks of %u bytes; only powers "
			"of two from 512 to %u can be mounted",
			v->name, v->block_size, BLOCK_SIZE_MAX);
	}
	return 0;
}

int mount_volumes_make(const struct fuse_options *o, const struct mount *m,
		       struct srpi_session *s, struct tree **ret_tree,
		       struct error *e)
{
	struct tree_options to = {
		.session = s,
		.is_file = m->is_file,
		.read_only = o->read_only,
		.metered = *o->metrics_file != '\0',
		.uid = o->uid,
		.gid = o->gid,
		.umask = o->umask,
	};
	struct tree *t;
	int err = mount_volumes_choose(o, m, s, &to.volume, e);

	if (err)
		return err;
	err = tree_create(&to, &t);
	if (err)
		return error_set(e, err, "out of memory");
	err = mount_volumes_check(t, e);
	if (err)
		tree_free(t);
	else
		*ret_tree = t;
	return err;
}

static void mount_volumes_log_file(const struct mount *m, const struct tree *t,
				   const struct tree_file *f)
{
	char size[SIZE_TEXT_SIZE];

	log_notice("%s%s%s: volume %s, %s, blocks of %u bytes%s", m->path,
		   t->is_file ? "" : "/", t->is_file ? "" : f->name,
		   f->info->name, size_format(f->info->size, size),
		   f->info->block_size, f->read_only ? ", read-only" : "");
}

void mount_volumes_log(const struct mount *m, const struct tree *t)
{
	for (unsigned int i = 0; i < t->cnt; i++) {
		const struct tree_file *f = tree_shown(t, i);

		if (f)
			mount_volumes_log_file(m, t, f);
	}
}

/* ---- volumes that come, go and change ---- */

bool mount_volumes_follow(const struct fuse_options *o, const struct mount *m)
{
	struct srpi_uri u = { .struct_size = sizeof(u) };

	return !m->is_file && !srpi_uri_parse(o->uri, &u, NULL) && !*u.volume;
}

static void mount_volumes_add(struct mount_volumes *mv, unsigned int volume)
{
	const struct srpi_volume_info *v =
		srpi_volume_info(mv->tree->session, volume);
	struct tree_file *f;

	if (!mount_volumes_has_good_blocks(v) || v->block_size > mv->edge) {
		log_warn("%s does not show the new volume %s: its blocks have "
			 "%u bytes, and this mount has room for %u; unmount, "
			 "and mount again",
			 mv->mount->path, v->name, v->block_size, mv->edge);
		return;
	}
	f = tree_add(mv->tree, volume);
	if (!f) {
		log_error("%s does not show the new volume %s: out of memory",
			  mv->mount->path, v->name);
		return;
	}
	allocation_init(&f->allocation, mv->tree->session, mv->reactor, volume);
	fair_queue_set_volumes(dev_fair_queue(mv->dev),
			       tree_shown_cnt(mv->tree));
	mount_volumes_log_file(mv->mount, mv->tree, f);
	notify_attributes(mv->notify, FUSE_ROOT_ID);
}

static void mount_volumes_lose(struct mount_volumes *mv, struct tree_file *f,
			       const char *why)
{
	log_warn("%s/%s is gone: %s%s%s", mv->mount->path, f->name, why,
		 list_empty(&f->opens) ? ""
				       : "; programs that have it open get I/O "
					 "errors",
		 f->unflushed
			 ? "; data written since the last fsync may be lost"
			 : "");
	notify_name(mv->notify, f->name);
	notify_attributes(mv->notify, f->ino);
	tree_lose(mv->tree, f);
	fair_queue_set_volumes(dev_fair_queue(mv->dev),
			       tree_shown_cnt(mv->tree));
}

static void mount_volumes_resize(struct mount_volumes *mv, struct tree_file *f)
{
	char size[SIZE_TEXT_SIZE];

	log_notice("volume %s now has %s", f->info->name,
		   size_format(f->info->size, size));
	allocation_changed(&f->allocation);
	notify_attributes(mv->notify, f->ino);
}

/* The others go on. */
static void mount_volumes_log_state(const struct mount_volumes *mv,
				    const struct tree_file *f, const char *why)
{
	switch (srpi_volume_state(mv->tree->session, f->volume)) {
	case SRPI_RUNNING:
		log_notice("volume %s: %s; reads and writes continue", f->name,
			   why);
		break;
	case SRPI_FAIL_FAST:
		log_error(
			"volume %s: %s; its reads and writes fail with an I/O "
			"error until it is back",
			f->name, why);
		break;
	case SRPI_CONNECTING:
	case SRPI_BLOCKED:
	case SRPI_LOST:
	case SRPI_CLOSED:
		log_warn("volume %s: %s; its reads and writes wait", f->name,
			 why);
	}
}

void mount_volumes_event(struct mount_volumes *mv, unsigned int volume,
			 enum srpi_volume_event event, const char *why)
{
	struct tree_file *f = tree_find_volume(mv->tree, volume);

	switch (event) {
	case SRPI_VOLUME_ADDED:
		mount_volumes_add(mv, volume);
		break;
	case SRPI_VOLUME_GONE:
		if (f)
			mount_volumes_lose(mv, f, why);
		else
			srpi_volume_forget(mv->tree->session, volume);
		break;
	case SRPI_VOLUME_RESIZED:
		if (f)
			mount_volumes_resize(mv, f);
		break;
	case SRPI_VOLUME_CHANGED:
		if (!f)
			break;
		f->read_only = mv->tree->read_only || f->info->read_only;
		notify_attributes(mv->notify, f->ino);
		break;
	case SRPI_VOLUME_STATE:
		if (f)
			mount_volumes_log_state(mv, f, why);
		break;
	}
}
