/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * srpi-volumes URI: prints the volumes of a target, and where each has data
 * and where it has holes.
 */
#include <srp_initiator.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* One line for each extent. Return: 0 or a negative errno. */
static int print_extents(struct srpi_ctx *ctx, struct srpi_session *s,
			 unsigned int volume)
{
	const struct srpi_volume_info *info = srpi_volume_info(s, volume);
	uint64_t offset = 0;

	while (offset < info->size) {
		struct srpi_io io;
		int err;

		memset(&io, 0, sizeof(io));
		io.op = SRPI_EXTENT;
		io.volume = volume;
		io.offset = offset;
		io.len = info->size - offset;
		err = srpi_io_wait(ctx, s, &io);
		if (err)
			return err;
		printf("  %s %" PRIu64 " bytes at %" PRIu64 "\n",
		       io.extent_mapped ? "data" : "hole", io.extent_len,
		       offset);
		offset += io.extent_len;
	}
	return 0;
}

static int print_volumes(struct srpi_ctx *ctx, struct srpi_session *s)
{
	for (unsigned int i = 0; i < srpi_volume_cnt(s); i++) {
		const struct srpi_volume_info *info = srpi_volume_info(s, i);
		int err;

		printf("%s: %" PRIu64 " bytes, blocks of %u bytes, serial %s\n",
		       info->name, info->size, (unsigned int)info->block_size,
		       info->serial);
		err = print_extents(ctx, s, i);
		if (err) {
			fprintf(stderr, "%s: %s\n", info->name, strerror(-err));
			return 1;
		}
	}
	return 0;
}

int main(int argc, char **argv)
{
	struct srpi_session *s;
	struct srpi_error e;
	struct srpi_ctx *ctx;
	int status;

	if (argc != 2) {
		fprintf(stderr, "Usage: srpi-volumes URI\n");
		return 2;
	}
	if (srpi_ctx_create(NULL, &ctx, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	if (srpi_connect_wait(ctx, argv[1], NULL, &s, &e)) {
		fprintf(stderr, "%s\n", e.text);
		srpi_ctx_destroy(ctx);
		return 1;
	}
	status = print_volumes(ctx, s);
	srpi_close_wait(ctx, s);
	srpi_ctx_destroy(ctx);
	return status;
}
