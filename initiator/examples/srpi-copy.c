/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * srpi-copy URI FILE: copies the volume that the URI names to a file, with many
 * reads in flight. The program waits with poll(2), as a program with an event
 * loop of its own would.
 */
#include <srp_initiator.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define READS	 32u
#define READ_LEN (256u << 10)

struct copy {
	struct srpi_session *s;
	struct srpi_mem *mem;
	char *buf;	  /* READS pieces of READ_LEN bytes */
	uint64_t next;	  /* bytes: what the next read begins with */
	uint64_t size;	  /* bytes */
	unsigned int cnt; /* reads in flight */
	unsigned int volume;
	int file;
	int err; /* the first error */
	struct srpi_io ios[READS];
};

/* Begins the next read, if there is one, with a free srpi_io. */
static void copy_read_next(struct copy *c, struct srpi_io *io)
{
	uint64_t left = c->size - c->next;

	if (c->err || left == 0)
		return;
	io->offset = c->next;
	io->len = left < READ_LEN ? left : READ_LEN;
	c->next += io->len;
	c->cnt++;
	srpi_submit(c->s, io);
}

/* The library calls this from srpi_ctx_run(), once for each read. */
static void copy_read_done(struct srpi_io *io, int res)
{
	struct copy *c = (struct copy *)io->arg;
	ssize_t n;

	c->cnt--;
	if (!res) {
		n = pwrite(c->file, io->buf, io->len, (off_t)io->offset);
		res = n < 0 ? -errno : (uint64_t)n < io->len ? -ENOSPC : 0;
	}
	if (res && !c->err)
		c->err = res;
	copy_read_next(c, io);
}

/* Handles all that there is, then waits for more. Return: 0 or -errno. */
static int copy_turn(struct srpi_ctx *ctx)
{
	struct pollfd p;
	int res;

	while ((res = srpi_ctx_run(ctx, 0)) > 0)
		;
	if (res < 0)
		return res;
	p.fd = srpi_ctx_fd(ctx);
	p.events = POLLIN;
	return poll(&p, 1, -1) < 0 && errno != EINTR ? -errno : 0;
}

static int copy_volume(struct srpi_ctx *ctx, struct copy *c)
{
	struct srpi_error e;
	int err = srpi_mem_register(c->s, c->buf, (size_t)READS * READ_LEN,
				    &c->mem, &e);

	if (err) {
		fprintf(stderr, "%s\n", e.text);
		return err;
	}
	for (unsigned int i = 0; i < READS; i++) {
		c->ios[i].op = SRPI_READ;
		c->ios[i].volume = c->volume;
		c->ios[i].buf = c->buf + (size_t)i * READ_LEN;
		c->ios[i].mem = c->mem;
		c->ios[i].done = copy_read_done;
		c->ios[i].arg = c;
		copy_read_next(c, &c->ios[i]);
	}
	while (c->cnt > 0 && !err)
		err = copy_turn(ctx);
	err = err ? err : c->err;
	if (err)
		fprintf(stderr, "copying failed: %s\n", strerror(-err));
	return err;
}

/* The volume that the URI names, else the only one. */
static int copy_choose_volume(struct copy *c)
{
	struct srpi_session_info si;

	memset(&si, 0, sizeof(si));
	si.struct_size = sizeof(si);
	srpi_session_info(c->s, &si);
	if (*si.volume ? srpi_volume_find(c->s, si.volume, &c->volume)
		       : srpi_volume_cnt(c->s) != 1) {
		fprintf(stderr, "name one volume of %s: srp://HOST/VOLUME\n",
			si.peer);
		return -ENOENT;
	}
	c->size = srpi_volume_info(c->s, c->volume)->size;
	return 0;
}

static int copy_from(struct srpi_ctx *ctx, const char *uri, struct copy *c)
{
	struct srpi_error e;
	int err = srpi_connect_wait(ctx, uri, NULL, &c->s, &e);

	if (err) {
		fprintf(stderr, "%s\n", e.text);
		return err;
	}
	err = copy_choose_volume(c);
	if (!err)
		err = copy_volume(ctx, c);
	srpi_close_wait(ctx, c->s);
	srpi_mem_free(c->mem);
	return err;
}

int main(int argc, char **argv)
{
	static struct copy c;
	struct srpi_ctx_options options;
	struct srpi_ctx *ctx;
	struct srpi_error e;
	int err;

	if (argc != 3) {
		fprintf(stderr, "Usage: srpi-copy URI FILE\n");
		return 2;
	}
	c.file = open(argv[2], O_WRONLY | O_CREAT | O_TRUNC, 0666);
	c.buf = (char *)malloc((size_t)READS * READ_LEN);
	if (c.file < 0 || !c.buf) {
		perror(argv[2]);
		return 1;
	}
	memset(&options, 0, sizeof(options));
	options.struct_size = sizeof(options);
	options.pollable = true;
	if (srpi_ctx_create(&options, &ctx, &e)) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	err = copy_from(ctx, argv[1], &c);
	srpi_ctx_destroy(ctx);
	if (!err && close(c.file) < 0) {
		perror(argv[2]);
		err = -EIO;
	}
	free(c.buf);
	return err ? 1 : 0;
}
