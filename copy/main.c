/* SPDX-License-Identifier: BSD-2-Clause */
/* srpcopy: copies between volumes of SRP targets, files and streams. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/heap.h"
#include "base/log.h"
#include "base/reactor.h"
#include "base/size.h"
#include "base/std_files.h"
#include "copy/copier.h"
#include "copy/options.h"
#include "copy/place.h"
#include "copy/progress.h"
#include "copy/resume.h"
#include "initiator/srp_initiator.h"

/* Static: if a copy is abandoned, the kernel still writes to its memory until the
 * process ends. */
static struct program {
	struct copy_options o;
	struct place_env env;
	struct place *source;
	struct place *destination;
	struct copier copier;
	struct place_identity source_id;
	uint64_t begin; /* a copy is resumed here */
	bool resumes;
	struct reactor_watch signals;
	bool signals_stopped;
} program;

/* ---- start ---- */

static int program_start_up(struct program *p, struct error *e)
{
	const struct reactor_options ropt = { .max_buffers = 16,
					      .max_files = 16 };
	struct srpi_ctx_options copt = { .struct_size = sizeof(copt) };
	struct place_env *env = &p->env;
	struct srpi_error why;
	int err = reactor_create(&ropt, &env->reactor);

	if (err)
		return error_set(e, err, "cannot set up io_uring: %s%s",
				 strerror(-err), reactor_create_hint(err));
	copt.reactor = env->reactor;
	if (srpi_ctx_create(&copt, &env->ctx, &why))
		return error_set(e, why.err, "%s", why.text);
	env->mem_len = copier_mem_len(&p->o);
	env->mem = mmap(NULL, env->mem_len, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (env->mem == MAP_FAILED) {
		env->mem = NULL;
		return error_set(e, -errno, "no memory for %u requests: %s",
				 p->o.requests, strerror(errno));
	}
	env->destination = p->o.compare ? NULL : p->o.destination;
	env->channels = p->o.channels;
	env->timeout_ms = p->o.timeout_ms;
	env->wait_ms = p->o.wait_ms;
	return 0;
}

static void program_shut_down(struct program *p)
{
	place_close(p->destination);
	place_close(p->source);
	srpi_ctx_destroy(p->env.ctx);
	reactor_destroy(p->env.reactor);
	if (p->env.mem)
		munmap(p->env.mem, p->env.mem_len);
}

/* ---- signals ---- */

static void program_signalled(struct reactor_watch *w, uint32_t events)
{
	struct signalfd_siginfo info;

	while (read(w->fd, &info, sizeof(info)) == sizeof(info))
		copier_interrupt(&program.copier);
}

static void program_signals_stopped(struct reactor_watch *w)
{
	program.signals_stopped = true;
}

/* Also SIGHUP: the terminal is gone. */
static int program_watch_signals(struct program *p, struct error *e)
{
	sigset_t set;

	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	p->signals = (struct reactor_watch){
		.fd = signalfd(-1, &set, SFD_NONBLOCK | SFD_CLOEXEC),
		.events = POLLIN,
		.ready = program_signalled,
		.stopped = program_signals_stopped,
	};
	if (p->signals.fd < 0)
		return error_set(e, -errno, "signalfd: %s", strerror(errno));
	reactor_watch_start(p->env.reactor, &p->signals);
	return 0;
}

static void program_leave_signals(struct program *p)
{
	reactor_watch_stop(&p->signals);
	while (!p->signals_stopped && reactor_run_once(p->env.reactor, -1) >= 0)
		;
	close(p->signals.fd);
}

/* ---- before the copy ---- */

static int program_check_streams(const struct program *p, struct error *e)
{
	bool stream = p->source->kind == PLACE_STREAM ||
		      p->destination->kind == PLACE_STREAM;

	if (!stream || (!p->o.resume && !p->o.verify && !p->o.compare))
		return 0;
	return error_set(e, -ESPIPE,
			 "%s cannot be read again; use files, devices and "
			 "volumes with --resume, --verify and --compare",
			 p->source->kind == PLACE_STREAM
				 ? p->source->name
				 : p->destination->name);
}

static int program_check_size(const struct program *p, struct error *e)
{
	const struct place *from = p->source;
	const struct place *to = p->destination;
	char a[SIZE_TEXT_SIZE], b[SIZE_TEXT_SIZE];
	bool grows = to->kind == PLACE_FILE && !p->o.compare;

	if (grows || to->kind == PLACE_STREAM || !from->size_known ||
	    from->size <= to->size)
		return 0;
	return error_set(e, -EFBIG,
			 "%s is smaller than %s: %" PRIu64 " bytes (%s), not "
			 "%" PRIu64 " (%s)",
			 to->name, from->name, to->size,
			 size_format(to->size, a), from->size,
			 size_format(from->size, b));
}

static int program_check_blocks(const struct program *p,
				const struct place *place, struct error *e)
{
	if (p->o.request_size % place->block_size == 0)
		return 0;
	return error_set(e, -EINVAL,
			 "--request-size %u is not a multiple of the block "
			 "size of %s, %u",
			 p->o.request_size, place->name, place->block_size);
}

static int program_check(const struct program *p, struct error *e)
{
	int err = program_check_streams(p, e);

	if (!err && !p->o.compare && place_is_same(p->source, p->destination))
		err = error_set(e, -EINVAL, "%s and %s are the same %s",
				p->source->name, p->destination->name,
				p->source->kind == PLACE_VOLUME ||
						p->destination->kind ==
							PLACE_VOLUME
					? "volume"
					: "file");
	if (!err)
		err = program_check_size(p, e);
	if (!err)
		err = program_check_blocks(p, p->source, e);
	if (!err)
		err = program_check_blocks(p, p->destination, e);
	return err;
}

static int program_open(struct program *p, struct error *e)
{
	int err = place_open(&p->env, p->o.source, PLACE_SOURCE, NULL,
			     &p->source, e);

	if (!err)
		err = place_open(&p->env, p->o.destination,
				 p->o.compare ? PLACE_COMPARED
					      : PLACE_DESTINATION,
				 p->source, &p->destination, e);
	if (err)
		return err;
	err = program_check(p, e);
	if (err)
		place_forget(p->destination);
	return err;
}

/* Returns 0. Sets begin if there is a copy to be resumed. */
static int program_load_state(struct program *p, struct error *e)
{
	struct resume saved;
	struct resume now = { .source = p->source_id };
	char text[SIZE_TEXT_SIZE];
	int err = place_identify(p->destination, &now.destination, e);

	if (!err)
		err = resume_load(p->o.resume, &saved, e);
	if (err == -ENOENT)
		return 0;
	if (!err)
		err = resume_check(p->o.resume, &saved, &now, e);
	if (err)
		return err;
	p->resumes = true;
	p->begin = saved.done;
	log_notice("continuing at %s", size_format(p->begin, text));
	return 0;
}

/* A state exists before the first change, so that a killed copy differs from
 * one that never began. */
static int program_save_first_state(const struct program *p, struct error *e)
{
	struct resume state = { .source = p->source_id };
	int err = place_identify(p->destination, &state.destination, e);

	return err ? err : resume_save(p->o.resume, &state, e);
}

static int program_prepare(struct program *p, struct error *e)
{
	bool saves = p->o.resume;
	int err = place_identify(p->source, &p->source_id, e);

	if (!err && saves)
		err = program_load_state(p, e);
	if (!err && saves && !p->resumes)
		err = program_save_first_state(p, e);
	if (err) {
		if (!p->resumes)
			place_forget(p->destination);
		return err;
	}
	err = place_prepare(p->destination, p->source->size, p->resumes, e);
	if (err) {
		place_forget(p->destination);
		if (saves && !p->resumes)
			unlink(p->o.resume);
		return err;
	}
	if (saves && !p->resumes)
		err = program_save_first_state(p, e);
	return err;
}

/* ---- the copy ---- */

static int program_report_interrupt(const struct program *p, struct error *e)
{
	const struct copier *c = &p->copier;
	char done[SIZE_TEXT_SIZE];

	size_format(c->stable, done);
	if (c->compares || !p->o.resume)
		return error_set(e, -EINTR, "interrupted%s",
				 c->compares ? ""
					     : "; the copy is not complete");
	return error_set(e, -EINTR,
			 "interrupted after %s; to continue, run the same "
			 "command again",
			 done);
}

static int program_run_copier(struct program *p, bool compares, struct error *e)
{
	struct copier *c = &p->copier;
	int err;

	*c = (struct copier){ .reactor = p->env.reactor,
			      .o = &p->o,
			      .source = p->source,
			      .destination = p->destination,
			      .compares = compares,
			      .source_id = p->source_id,
			      .begin = compares ? 0 : p->begin };
	err = copier_run(c, p->env.mem);
	if (err) {
		*e = c->e;
		return err;
	}
	return c->interrupted ? program_report_interrupt(p, e) : 0;
}

static int program_compare(struct program *p, struct error *e)
{
	int err = program_run_copier(p, true, e);

	if (err || p->copier.differs_at == COPIER_NOWHERE)
		return err;
	return error_set(e, -EILSEQ, "%s differs from %s at byte %" PRIu64,
			 p->destination->name, p->source->name,
			 p->copier.differs_at);
}

static int program_copy(struct program *p, struct error *e)
{
	char data[SIZE_TEXT_SIZE], all[SIZE_TEXT_SIZE];
	int err = program_run_copier(p, false, e);

	if (err)
		return err;
	log_info("copied %s, %s of it read as data",
		 size_format(p->copier.done - p->begin, all),
		 size_format(p->copier.data, data));
	if (p->o.resume && unlink(p->o.resume) < 0)
		log_warn("cannot remove %s: %s", p->o.resume, strerror(errno));
	if (!p->o.verify)
		return 0;
	place_drop_cache(p->source);
	place_drop_cache(p->destination);
	return program_compare(p, e);
}

static int program_work(struct program *p, struct error *e)
{
	int err = program_open(p, e);

	if (!err && !p->o.compare)
		err = program_prepare(p, e);
	if (!err)
		err = program_watch_signals(p, e);
	if (err)
		return err;
	err = p->o.compare ? program_compare(p, e) : program_copy(p, e);
	if (!p->copier.abandoned)
		program_leave_signals(p);
	return err;
}

int main(int argc, char **argv)
{
	struct program *p = &program;
	struct error e;
	int err;

	heap_share();
	std_files_hold();
	log_init("srpcopy", LOG_NOTICE);
	switch (copy_options_parse(argc, argv, &p->o)) {
	case OPTION_RUN:
		break;
	case OPTION_DONE:
		return std_files_flush() ? EXIT_SUCCESS : EXIT_FAILURE;
	case OPTION_BAD:
		return EXIT_FAILURE;
	}
	log_init("srpcopy", p->o.log_level);
	signal(SIGPIPE, SIG_IGN);
	err = program_start_up(p, &e);
	if (!err)
		err = program_work(p, &e);
	if (err)
		log_error("%s", e.text);
	if (!p->copier.abandoned)
		program_shut_down(p);
	return err ? EXIT_FAILURE : EXIT_SUCCESS;
}
