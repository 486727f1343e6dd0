/* SPDX-License-Identifier: BSD-2-Clause */
/* The option tables of the programs: what each row states is true. */
#include <string.h>
#include <unistd.h>

#include "base/list.h"
#include "base/reactor.h"
#include "copy/options.h"
#include "discover/options.h"
#include "ctl/ctl_options.h"
#include "doctor/doctor_options.h"
#include "fuse/options.h"
#include "initiator/info_options.h"
#include "target/configure.h"
#include "tests/lib/t_table.h"

/* Large enough for each program's options. */
union any_options {
	struct target_options target;
	struct fuse_options fuse;
	struct info_options info;
	struct discover_options discover;
	struct doctor_options doctor;
	struct copy_options copy;
	struct ctl_options ctl;
	struct volume_spec volume;
};

static bool begin_target(union any_options *o)
{
	static char *argv[] = { (char *)(uintptr_t) "rdma-target",
				(char *)(uintptr_t) "-bram:1M", NULL };

	target_options_init(&o->target);
	return configuration_add(2, argv, &o->target) == OPTION_RUN &&
	       configuration_finish(&o->target);
}

static bool begin_fuse(union any_options *o)
{
	static char *argv[] = { (char *)(uintptr_t) "rdma-fuse",
				(char *)(uintptr_t) "srp://host",
				(char *)(uintptr_t) "/mnt", NULL };

	return fuse_options_parse(3, argv, &o->fuse) == OPTION_RUN;
}

static bool begin_info(union any_options *o)
{
	static char *argv[] = { (char *)(uintptr_t) "rdma-info",
				(char *)(uintptr_t) "srp://host", NULL };

	return info_options_parse(2, argv, &o->info) == OPTION_RUN;
}

static bool begin_discover(union any_options *o)
{
	static char *argv[] = { (char *)(uintptr_t) "rdma-discover", NULL };

	return discover_options_parse(1, argv, &o->discover) == OPTION_RUN;
}

static bool begin_doctor(union any_options *o)
{
	static char *argv[] = { (char *)(uintptr_t) "rdma-doctor", NULL };

	return doctor_options_parse(1, argv, &o->doctor) == OPTION_RUN;
}

static bool begin_copy(union any_options *o)
{
	static char *argv[] = { (char *)(uintptr_t) "srpcopy",
				(char *)(uintptr_t) "from",
				(char *)(uintptr_t) "to", NULL };

	return copy_options_parse(3, argv, &o->copy) == OPTION_RUN;
}

/* Like main() of rdma-ctl, which also stores the default of --control, a
 * text. */
static bool begin_ctl(union any_options *o)
{
	o->ctl = (struct ctl_options){ 0 };
	option_defaults(&ctl_option_table, &o->ctl);
	return true;
}

static bool begin_volume(union any_options *o)
{
	struct error e;

	return volume_spec_parse("disk", &o->volume, &e);
}

static const struct program {
	const char *name;
	const struct option_table *table;
	/* Parses no options: all values are defaults. */
	bool (*begin)(union any_options *o);
} programs[] = {
	{ "rdma-target", &target_option_table, begin_target },
	{ "--backing", &volume_option_table, begin_volume },
	{ "rdma-fuse", &fuse_option_table, begin_fuse },
	{ "rdma-fuse -o", &fuse_mount_table, begin_fuse },
	{ "rdma-info", &info_option_table, begin_info },
	{ "rdma-discover", &discover_option_table, begin_discover },
	{ "rdma-doctor", &doctor_option_table, begin_doctor },
	{ "srpcopy", &copy_option_table, begin_copy },
	{ "rdma-ctl", &ctl_option_table, begin_ctl },
};

static void end(const struct program *p, union any_options *o)
{
	if (p->begin == begin_target)
		target_options_free(&o->target);
}

static bool accepts(const struct program *p, const struct option_row *row,
		    uint64_t value)
{
	static union any_options o;
	char text[64];
	struct error e;

	if (row->type == OPTION_DURATION)
		snprintf(text, sizeof(text), "%.3f", (double)value / 1000);
	else if (row->type == OPTION_OCTAL)
		snprintf(text, sizeof(text), "%lo", (unsigned long)value);
	else
		snprintf(text, sizeof(text), "%lu", (unsigned long)value);
	return option_set(row, p->table->style, &o, text, &e);
}

static bool has_range(const struct option_row *row)
{
	return row->max &&
	       (row->type == OPTION_NUMBER || row->type == OPTION_OCTAL ||
		row->type == OPTION_SIZE || row->type == OPTION_DURATION);
}

T_ROWS(ranges_are_real, programs)
{
	const struct program *p = *state;

	for (unsigned int i = 0; i < p->table->cnt; i++) {
		const struct option_row *row = &p->table->rows[i];
		uint64_t step = row->step ? row->step : 1;

		if (!has_range(row))
			continue;
		if (!accepts(p, row, row->min) || !accepts(p, row, row->max) ||
		    accepts(p, row, row->max + step) ||
		    (row->min && accepts(p, row, row->min - step)))
			fail_msg("%s: its range is another", row->name);
	}
}

T_ROWS(choices_are_real, programs)
{
	static union any_options o;
	const struct program *p = *state;
	struct error e;

	for (unsigned int i = 0; i < p->table->cnt; i++) {
		const struct option_row *row = &p->table->rows[i];

		if (!row->choices)
			continue;
		assert_true(p->begin(&o));
		for (int j = 0; row->choices[j]; j++)
			assert_true(option_set(row, p->table->style, &o,
					       row->choices[j], &e));
		assert_false(option_set(row, p->table->style, &o, "other", &e));
		end(p, &o);
	}
}

/* An option that is given its stated default changes nothing. */
T_ROWS(defaults_are_real, programs)
{
	static union any_options none;
	static union any_options given;
	const struct program *p = *state;
	char text[OPTION_TEXT_SIZE];
	struct error e;

	assert_true(p->begin(&none));
	for (unsigned int i = 0; i < p->table->cnt; i++) {
		const struct option_row *row = &p->table->rows[i];

		option_default_text(row, text);
		if (!*text || row->dflt_text)
			continue;
		assert_true(p->begin(&given));
		if (!option_set(row, p->table->style, &given, text, &e) ||
		    memcmp((char *)&none + row->offset,
			   (char *)&given + row->offset, row->size) != 0)
			fail_msg("%s: the default is not %s", row->name, text);
		end(p, &given);
	}
	end(p, &none);
}

/* Defaults that are described in words. Each is checked here; none may be
 * missing. */
static const struct {
	const char *name;
	const char *text;
} texts[] = {
	{ "control", "_control_, or _control.PORT_ if the port is not 5555, in "
		     "a directory of the user" },
	{ "control", "$RDMA_TARGET_CONTROL, else the only target that runs "
		     "here" },
	{ "threads", "the number of processors, at most 4, and at most one "
		     "thread for each 8M of *--buffers*" },
	{ "poll-us", "200; with one processor 0" },
	{ "buffers", "32M, or 8M for each thread if that is more" },
	{ "state-dir", "a directory of the user that *rdma-target* runs as" },
	{ "volumes-from", "new volumes come from *rdma-ctl* alone" },
	{ "channels", "2 over RDMA; 1 over TCP or with one processor" },
	{ "dev-loss-tmo", "off" },
	{ "subtype", "rdma-block" },
	{ "uid", "the user that mounts" },
	{ "gid", "the group that mounts" },
	{ "direct", "on for block devices, off for files" },
	{ "ro", "*rw*" },
	{ "for", "*all*" },
	{ "rules", "_/etc/rdma-discover.conf_" },
};

T_ROWS(defaults_in_words_are_checked, programs)
{
	const struct program *p = *state;

	for (unsigned int i = 0; i < p->table->cnt; i++) {
		const struct option_row *row = &p->table->rows[i];
		size_t j = 0;

		/* An empty default of a text or a list is described in
		 * words. */
		if (!row->dflt_text || !row->size)
			continue;
		while (j < ARRAY_SIZE(texts) &&
		       (strcmp(texts[j].name, row->name) != 0 ||
			strcmp(texts[j].text, row->dflt_text) != 0))
			j++;
		if (j == ARRAY_SIZE(texts) && row->type != OPTION_USER &&
		    strcmp(row->name, "lun") != 0 &&
		    strcmp(row->name, "fsname") != 0)
			fail_msg("%s: check its default here", row->name);
	}
}

T_TEST(defaults_in_words_are_real)
{
	unsigned int cpus = reactor_processors();
	static union any_options o;

	assert_true(begin_target(&o));
	assert_int_equal(o.target.threads, cpus < 4 ? cpus : 4);
	assert_int_equal(o.target.buffers, 32 << 20);
	assert_int_equal(OPTIONS_BUFFERS_THREAD, 8 << 20);
	assert_int_equal(o.target.poll_us, cpus > 1 ? 200 : 0);
	assert_null(o.target.state_dir);
	assert_null(o.target.volumes_from);
	assert_string_equal(o.target.discovery, "on");
	target_options_free(&o.target);
	assert_true(begin_discover(&o));
	assert_string_equal(o.discover.rules, "/etc/rdma-discover.conf");
	assert_true(begin_fuse(&o));
	assert_int_equal(o.fuse.poll_us, cpus > 1 ? 200 : 0);
	assert_int_equal(o.fuse.channels, 0);	 /* the library chooses */
	assert_int_equal(o.fuse.dev_loss_ms, 0); /* the library: off */
	assert_string_equal(o.fuse.subtype, "rdma-block");
	assert_string_equal(o.fuse.fsname, "");
	assert_int_equal(o.fuse.uid, getuid());
	assert_int_equal(o.fuse.gid, getgid());
	assert_false(o.fuse.read_only);
	assert_true(begin_doctor(&o));
	assert_int_equal(o.doctor.whom, DOCTOR_FOR_ALL);
	assert_true(begin_volume(&o));
	assert_int_equal(o.volume.direct, -1);
	assert_false(o.volume.has_lun);
}

/* No name or letter occurs twice, and each row has a place and a text. */
T_ROWS(rows_are_complete, programs)
{
	const struct program *p = *state;

	for (unsigned int i = 0; i < p->table->cnt; i++) {
		const struct option_row *row = &p->table->rows[i];
		bool prints =
			row->type == OPTION_HELP || row->type == OPTION_VERSION;

		if (!row->set && !row->size && !prints)
			fail_msg("%s is stored nowhere", row->name);
		if (i == 0 && !row->help)
			fail_msg("%s has no help", row->name);
		if ((row->type == OPTION_FLAG || prints) != !row->value)
			fail_msg("%s: has it a value?", row->name);
		for (unsigned int j = 0; j < i; j++)
			if (!strcmp(p->table->rows[j].name, row->name) ||
			    (row->letter &&
			     p->table->rows[j].letter == row->letter))
				fail_msg("%s is there twice", row->name);
	}
}
