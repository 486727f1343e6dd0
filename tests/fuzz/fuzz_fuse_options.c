/* SPDX-License-Identifier: BSD-2-Clause */
/* rdma-fuse's command line. */
#include "fuse/options.h"
#include "tests/fuzz/fuzz_argv.h"

static bool is_text(const char *text, size_t size)
{
	return memchr(text, '\0', size);
}

static void check(const struct fuse_options *o)
{
	FUZZ_CLAIM(o->uri && o->mountpoint);
	FUZZ_CLAIM(o->channels <= 16);
	FUZZ_CLAIM(o->queue_depth >= 1 && o->queue_depth <= 4096);
	FUZZ_CLAIM(o->max_write >= OPTIONS_MAX_WRITE_MIN &&
		   o->max_write <= OPTIONS_MAX_WRITE_MAX);
	FUZZ_CLAIM(o->umask <= 0777);
	FUZZ_CLAIM(is_text(o->fsname, sizeof(o->fsname)) &&
		   is_text(o->subtype, sizeof(o->subtype)) &&
		   is_text(o->vfs, sizeof(o->vfs)));
	FUZZ_CLAIM(!*o->vfs || *o->vfs == ',');
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = fuzz_input(data, size);
	struct fuzz_argv a;
	struct fuse_options o;
	enum option_verdict verdict;

	fuzz_argv(&in, "rdma-fuse", &a);
	verdict = fuse_options_parse(a.argc, a.argv, &o);
	if (verdict == OPTION_RUN)
		check(&o);
	else
		FUZZ_CLAIM(verdict == OPTION_DONE || verdict == OPTION_BAD);
	free(a.text);
	return 0;
}
