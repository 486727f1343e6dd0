/* SPDX-License-Identifier: BSD-2-Clause */
/* Which volumes a mount shows, what it tells the kernel when they change, and the
 * file with the metrics. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "fuse/metrics_writer.h"
#include "fuse/mount_volumes.h"
#include "fuse/notify.h"
#include "tests/lib/t_table.h"
#include "tests/unit/test_fuse_rig.h"

/* ---- the volumes at the beginning ---- */

static const struct make_row {
	const char *name;
	bool is_file;	     /* the mount point */
	const char *wanted;  /* volume of the URI; NULL: none */
	unsigned int cnt;    /* of volumes */
	uint32_t block_size; /* 0: 512 */
	int err;
	const char *text; /* a part of the message */
} make_rows[] = {
	{ "a directory shows all", false, NULL, 1 },
	{ "a file shows the only volume", true, NULL, 1 },
	{ "a file cannot show two", true, NULL, 2, .err = -EINVAL,
	  .text = "as in srp://host/disk?channels=2: disk, disk" },
	{ "a volume that is there", true, "disk", 2 },
	{ "a volume that is not there", false, "other", 1, .err = -ENOENT,
	  .text = "target here has no volume 'other'; it has: disk" },
	{ "no volumes", false, NULL, 0, .err = -ENOENT,
	  .text = "shows no volumes to initiator me" },
	{ "blocks of 64 KiB", false, NULL, 1, 65536 },
	{ "blocks of 128 KiB", false, NULL, 1, 131072, -ENOTSUP,
	  "volume 'disk' has blocks of 131072 bytes" },
	{ "blocks of 520 bytes", false, NULL, 1, 520, -ENOTSUP,
	  "only powers of two" },
	{ "blocks of 256 bytes", false, NULL, 1, 256, -ENOTSUP,
	  "only powers of two" },
};

T_ROWS(mount_shows, make_rows)
{
	const struct make_row *row = *state;
	const struct fuse_options o = { .uri = "srp://host?channels=2" };
	const struct mount m = { .path = "/mnt", .is_file = row->is_file };
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });
	struct tree *t = NULL;
	struct error e;

	r->target->volumes = row->cnt;
	r->target->wanted = row->wanted;
	if (row->block_size)
		r->target->info.block_size = row->block_size;
	assert_int_equal(mount_volumes_make(&o, &m, r->target, &t, &e),
			 row->err);
	if (row->err) {
		assert_null(t);
		assert_non_null(strstr(e.text, row->text));
	} else {
		assert_int_equal(t->is_file, row->is_file);
		assert_int_equal(tree_shown_cnt(t), 1);
		mount_volumes_log(&m, t);
		tree_free(t);
	}
	rig_free(r);
}

static const struct follow_row {
	const char *name;
	const char *uri;
	bool is_file;
	bool follows;
} follow_rows[] = {
	{ "all volumes in a directory", "srp://host", false, true },
	{ "one volume in a directory", "srp://host/disk", false, false },
	{ "a file", "srp://host", true, false },
};

T_ROWS(mount_follows, follow_rows)
{
	const struct follow_row *row = *state;
	const struct fuse_options o = { .uri = row->uri };
	const struct mount m = { .is_file = row->is_file };

	assert_int_equal(mount_volumes_follow(&o, &m), row->follows);
}

/* ---- volumes that come, go and change ---- */

struct follower {
	struct rig *rig;
	struct mount mount;
	struct notify notify;
	struct mount_volumes volumes;
};

static void start_follower(struct follower *f)
{
	struct error e;

	*f = (struct follower){ .mount.path = "/mnt" };
	f->rig = rig_new(&(struct rig_options){ .thick = true });
	assert_int_equal(
		notify_start(&f->notify, f->rig->reactor, rig_fd(f->rig), &e),
		0);
	f->volumes = (struct mount_volumes){ .mount = &f->mount,
					     .tree = f->rig->tree,
					     .dev = f->rig->dev,
					     .reactor = f->rig->reactor,
					     .notify = &f->notify,
					     .edge = 4096 };
}

static void stop_follower(struct follower *f)
{
	notify_stop(&f->notify);
	while (!notify_has_ended(&f->notify))
		reactor_run_once(f->rig->reactor, 100000);
	notify_end(&f->notify);
	rig_free(f->rig);
}

static void happens(struct follower *f, enum srpi_volume_event event)
{
	mount_volumes_event(&f->volumes, 0, event, "it left");
}

/* Waits for a message to the kernel; returns its length without the header. */
static size_t receive_message(struct follower *f, int code, void *ret,
			      size_t size)
{
	struct fuse_out_header out;
	struct iovec iov[] = { { &out, sizeof(out) }, { ret, size } };
	ssize_t n = readv(f->rig->kernel, iov, 2);

	assert_true(n > (ssize_t)sizeof(out));
	assert_int_equal(out.len, n);
	assert_int_equal(out.unique, 0);
	assert_int_equal(out.error, code);
	return (size_t)n - sizeof(out);
}

static void expect_attributes_forgotten(struct follower *f, uint64_t ino)
{
	struct fuse_notify_inval_inode_out m;

	assert_int_equal(
		receive_message(f, FUSE_NOTIFY_INVAL_INODE, &m, sizeof(m)),
		sizeof(m));
	assert_int_equal(m.ino, ino);
	assert_true(m.off < 0);
}

static void expect_name_forgotten(struct follower *f, const char *name)
{
	struct {
		struct fuse_notify_inval_entry_out entry;
		char name[64];
	} m;

	assert_int_equal(
		receive_message(f, FUSE_NOTIFY_INVAL_ENTRY, &m, sizeof(m)),
		sizeof(m.entry) + strlen(name) + 1);
	assert_int_equal(m.entry.parent, FUSE_ROOT_ID);
	assert_int_equal(m.entry.namelen, strlen(name));
	assert_string_equal(m.name, name);
}

T_TEST(kernel_forgets_a_volume_that_has_left)
{
	struct follower f;

	start_follower(&f);
	happens(&f, SRPI_VOLUME_GONE);
	expect_name_forgotten(&f, "disk");
	expect_attributes_forgotten(&f, RIG_FILE);
	assert_null(tree_find(f.rig->tree, "disk"));
	/* The target tells it again: no file has the volume. */
	happens(&f, SRPI_VOLUME_GONE);
	assert_int_equal(f.rig->target->forgotten, 2);
	stop_follower(&f);
}

T_TEST(new_volume_is_shown)
{
	const struct fuse_open_in in = { .flags = O_RDWR };
	struct tree_file *file;
	struct follower f;

	start_follower(&f);
	happens(&f, SRPI_VOLUME_GONE);
	expect_name_forgotten(&f, "disk");
	expect_attributes_forgotten(&f, RIG_FILE);
	happens(&f, SRPI_VOLUME_ADDED);
	expect_attributes_forgotten(&f, FUSE_ROOT_ID);
	file = tree_find(f.rig->tree, "disk");
	assert_non_null(file);
	rig_send(f.rig, FUSE_OPEN, file->ino, &in, sizeof(in), NULL, 0);
	rig_receive(f.rig);
	assert_int_equal(f.rig->out.error, 0);
	stop_follower(&f);
}

static const struct hidden_row {
	const char *name;
	uint32_t block_size;
} hidden_rows[] = {
	{ "no power of two", 520 },
	{ "longer than the mount has room for", 8192 },
};

T_ROWS(new_volume_is_not_shown, hidden_rows)
{
	const struct hidden_row *row = *state;
	struct follower f;

	start_follower(&f);
	happens(&f, SRPI_VOLUME_GONE);
	expect_name_forgotten(&f, "disk");
	expect_attributes_forgotten(&f, RIG_FILE);
	f.rig->target->info.block_size = row->block_size;
	log_level = LOG_ERROR;
	happens(&f, SRPI_VOLUME_ADDED);
	log_level = LOG_NOTICE;
	assert_null(tree_find(f.rig->tree, "disk"));
	stop_follower(&f);
}

T_TEST(kernel_asks_again_for_the_size)
{
	struct follower f;

	start_follower(&f);
	f.rig->target->info.size = RIG_SIZE / 2;
	happens(&f, SRPI_VOLUME_RESIZED);
	expect_attributes_forgotten(&f, RIG_FILE);
	f.rig->target->info.size = RIG_SIZE;
	stop_follower(&f);
}

T_TEST(volume_becomes_read_only_and_writable)
{
	struct follower f;

	start_follower(&f);
	f.rig->target->info.read_only = true;
	happens(&f, SRPI_VOLUME_CHANGED);
	expect_attributes_forgotten(&f, RIG_FILE);
	assert_true(f.rig->tree->files[0]->read_only);
	f.rig->target->info.read_only = false;
	happens(&f, SRPI_VOLUME_CHANGED);
	expect_attributes_forgotten(&f, RIG_FILE);
	assert_false(f.rig->tree->files[0]->read_only);
	stop_follower(&f);
}

T_TEST(read_only_mount_stays_read_only)
{
	struct follower f;

	start_follower(&f);
	f.rig->tree->read_only = true;
	happens(&f, SRPI_VOLUME_CHANGED);
	expect_attributes_forgotten(&f, RIG_FILE);
	assert_true(f.rig->tree->files[0]->read_only);
	stop_follower(&f);
}

T_TEST(end_drops_what_the_kernel_was_not_told)
{
	struct notify n;
	struct error e;
	struct rig *r = rig_new(&(struct rig_options){ .thick = true });

	assert_int_equal(notify_start(&n, r->reactor, -1, &e), 0);
	notify_stop(&n);
	while (!notify_has_ended(&n))
		reactor_run_once(r->reactor, 100000);
	notify_name(&n, "late");
	notify_attributes(&n, RIG_FILE);
	notify_end(&n);
	notify_name(&n, "later");
	notify_end(&n);
	rig_free(r);
}

/* ---- metrics ---- */

struct report {
	struct rig *rig;
	struct metrics_writer writer;
	char dir[64];
	int events; /* inotify: a file was renamed */
	char text[65536];
};

static void start_report(struct report *p, const char *path)
{
	struct error e;

	p->rig = rig_new(
		&(struct rig_options){ .thick = true, .metered = true });
	assert_int_equal(metrics_writer_start(&p->writer, path, p->rig->reactor,
					      p->rig->tree, "/mnt", &e),
			 0);
}

static void make_dir(struct report *p)
{
	strcpy(p->dir, "/tmp/fuse-metrics-XXXXXX");
	assert_non_null(mkdtemp(p->dir));
	p->events = inotify_init1(IN_CLOEXEC);
	assert_true(inotify_add_watch(p->events, p->dir, IN_MOVED_TO) >= 0);
}

static void stop_report(struct report *p)
{
	metrics_writer_stop(&p->writer);
	while (!metrics_writer_has_ended(&p->writer))
		reactor_run_once(p->rig->reactor, 100000);
	metrics_writer_end(&p->writer);
	rig_free(p->rig);
}

static void remove_dir(struct report *p)
{
	char path[96];

	snprintf(path, sizeof(path), "%s/file", p->dir);
	unlink(path);
	assert_int_equal(rmdir(p->dir), 0);
	close(p->events);
}

/* Waits until the file was written, and reads it. */
static void read_report(struct report *p)
{
	char event[sizeof(struct inotify_event) + 256];
	char path[96];
	ssize_t n;
	int fd;

	assert_true(read(p->events, event, sizeof(event)) > 0);
	snprintf(path, sizeof(path), "%s/file", p->dir);
	fd = open(path, O_RDONLY);
	assert_true(fd >= 0);
	n = read(fd, p->text, sizeof(p->text) - 1);
	assert_true(n > 0);
	p->text[n] = '\0';
	close(fd);
}

/* As after METRICS_WRITER_MS. */
static void write_again(struct report *p)
{
	reactor_timer_set(p->rig->reactor, &p->writer.timer, 0);
	rig_settle(p->rig);
}

static void expect_line(const struct report *p, const char *line)
{
	if (!strstr(p->text, line))
		print_error("%s\n%s\n", line, p->text);
	assert_non_null(strstr(p->text, line));
}

T_TEST(file_has_the_metrics)
{
	static struct report p;
	char path[96];
	uint64_t fh;

	make_dir(&p);
	snprintf(path, sizeof(path), "%s/file", p.dir);
	start_report(&p, path);
	read_report(&p);
	expect_line(&p, "rdma_fuse_connected{mount=\"/mnt\"} 1\n");
	expect_line(&p, "rdma_fuse_volume_size_bytes{mount=\"/mnt\","
			"volume=\"disk\"} 1048576\n");
	assert_null(strstr(p.text, "op=\"read\""));
	fh = rig_open(p.rig, O_RDWR);
	assert_int_equal(rig_read(p.rig, 0, 1024), 0);
	t_srpi_fail(p.rig->target, p.rig->target->cnt + 1, -EIO);
	assert_int_equal(rig_read(p.rig, 0, 512), -EIO);
	rig_release(p.rig, fh);
	write_again(&p);
	read_report(&p);
	expect_line(&p, "rdma_fuse_volume_requests_total{mount=\"/mnt\","
			"volume=\"disk\",op=\"read\"} 2\n");
	expect_line(&p, "rdma_fuse_volume_errors_total{mount=\"/mnt\","
			"volume=\"disk\",op=\"read\"} 1\n");
	expect_line(&p, "rdma_fuse_volume_data_bytes_total{mount=\"/mnt\","
			"volume=\"disk\",op=\"read\"} 1024\n");
	stop_report(&p);
	remove_dir(&p);
}

/* A daemon changes its directory. */
T_TEST(relative_path_stays_where_it_was)
{
	static struct report p;
	int old = open(".", O_RDONLY | O_DIRECTORY);

	make_dir(&p);
	assert_int_equal(chdir(p.dir), 0);
	start_report(&p, "file");
	assert_int_equal(*p.writer.path, '/');
	assert_int_equal(chdir("/"), 0);
	read_report(&p);
	write_again(&p);
	read_report(&p);
	assert_int_equal(fchdir(old), 0);
	close(old);
	stop_report(&p);
	remove_dir(&p);
}

/* Reads one line of the log. */
static void expect_log(int fd, const char *text)
{
	char line[512];
	size_t len = 0;

	do
		assert_int_equal(read(fd, line + len, 1), 1);
	while (line[len++] != '\n' && len < sizeof(line));
	line[len - 1] = '\0';
	assert_non_null(strstr(line, text));
}

T_TEST(failure_is_told_once_and_so_is_its_end)
{
	static struct report p;
	int old = dup(STDERR_FILENO);
	struct pollfd left;
	char path[96];
	int fds[2];

	make_dir(&p);
	assert_int_equal(rmdir(p.dir), 0);
	snprintf(path, sizeof(path), "%s/file", p.dir);
	assert_int_equal(pipe(fds), 0);
	dup2(fds[1], STDERR_FILENO);
	start_report(&p, path);
	expect_log(fds[0], "error: --metrics-file: ");
	write_again(&p);
	write_again(&p);
	assert_int_equal(mkdir(p.dir, 0700), 0);
	write_again(&p);
	expect_log(fds[0], "file is written again");
	stop_report(&p);
	dup2(old, STDERR_FILENO);
	left = (struct pollfd){ .fd = fds[0], .events = POLLIN };
	assert_int_equal(poll(&left, 1, 0), 0);
	close(old);
	close(fds[0]);
	close(fds[1]);
	remove_dir(&p);
}

T_TEST(writer_that_was_not_started_has_ended)
{
	struct metrics_writer w = { 0 };

	metrics_writer_stop(&w);
	assert_true(metrics_writer_has_ended(&w));
	metrics_writer_end(&w);
}
