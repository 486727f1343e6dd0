/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-target's command line, and the argument of --backing alone. */
#include "target/configure.h"
#include "tests/fuzz/fuzz_argv.h"

static bool is_text(const char *text, size_t size)
{
	return memchr(text, '\0', size);
}

static void check_spec(const struct volume_spec *spec)
{
	FUZZ_CLAIM(spec->store <= VOLUME_STORE_PLUGIN);
	FUZZ_CLAIM(is_text(spec->path, sizeof(spec->path)));
	FUZZ_CLAIM(*spec->path || *spec->plugin.name);
	FUZZ_CLAIM(is_text(spec->name, sizeof(spec->name)));
	FUZZ_CLAIM(!strchr(spec->name, '/'));
	FUZZ_CLAIM(is_text(spec->serial, sizeof(spec->serial)));
	FUZZ_CLAIM(spec->block_size == 512 || spec->block_size == 4096);
}

static void backing(const struct fuzz_input *in)
{
	static struct volume_spec spec;
	char *text = fuzz_text(in);
	struct error e;

	FUZZ_FILL(spec);
	memset(&e, 'x', sizeof(e));
	if (volume_spec_parse(text, &spec, &e)) {
		check_spec(&spec);
	} else {
		FUZZ_UNTOUCHED(spec);
		FUZZ_CLAIM(is_text(e.text, sizeof(e.text)) && *e.text);
	}
	free(text);
}

static void command_line(const struct fuzz_input *in)
{
	struct fuzz_argv a;
	struct target_options opt;
	enum option_verdict verdict;
	size_t len;

	fuzz_argv(in, "rdma-target", &a);
	target_options_init(&opt);
	verdict = configuration_add(a.argc, a.argv, &opt);
	if (verdict == OPTION_RUN && configuration_finish(&opt)) {
		FUZZ_CLAIM(opt.threads >= 1 && opt.threads <= WORKERS_MAX);
		FUZZ_CLAIM(opt.backing_cnt <= LUNS_MAX);
		/* Without a volume, rdma-ctl has to be able to add one. */
		FUZZ_CLAIM(opt.backing_cnt || opt.control);
		FUZZ_CLAIM(opt.listen_cnt <= OPTIONS_LISTENS_MAX);
		for (unsigned int i = 0; i < opt.backing_cnt; i++)
			check_spec(&opt.backings[i]);
		len = options_arena_len(&opt);
		FUZZ_CLAIM(len >= OPTIONS_BUFFERS_MIN && !(len & (len - 1)));
		FUZZ_CLAIM(len <= opt.buffers / opt.threads);
	}
	target_options_free(&opt);
	free(a.text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);

	if (fuzz_u8(&in) == 'b')
		backing(&in);
	else
		command_line(&in);
	return 0;
}
