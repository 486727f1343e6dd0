/* SPDX-License-Identifier: BSD-2-Clause */
#include "doctor/measure.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "initiator/exchange.h"

/* Each measurement ends after this time, or this many exchanges. */
#define MEASURE_NS  200000000ull
#define SAMPLES_MAX 2000u

/* For bandwidth. */
#define IN_FLIGHT   8u
#define SMALL_LEN   4096u
#define LARGE_LEN   65536u
#define INQUIRY_LEN 36u

/* Memory of the exchanges. The session uses it until it is closed. */
static struct {
	uint8_t *buf; /* IN_FLIGHT pieces of LARGE_LEN */
	struct srpi_mem *mem;
	struct ini_exchange exchanges[IN_FLIGHT];
} stage;

static uint64_t measure_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

/* ---- one exchange after the other ---- */

/* The result of an exchange; 1: still in flight. */
static void exchange_over(struct ini_exchange *x, int err)
{
	*(int *)x->arg = err;
}

/* Returns 0, or a negative errno; -ECONNRESET: the connection is lost. */
static int exchange_once(const struct measuring *m, enum ini_exchange_kind kind,
			 void *buf, uint32_t len)
{
	static int state;
	struct ini_exchange *x = &stage.exchanges[0];

	state = 1;
	*x = (struct ini_exchange){ .kind = kind,
				    .buf = buf,
				    .len = len,
				    .mem = stage.mem,
				    .done = exchange_over,
				    .arg = &state };
	ini_exchange_begin(m->session, x);
	while (state == 1 && !*m->lost) {
		if (srpi_ctx_run(m->ctx, -1) < 0)
			return -ECONNRESET;
	}
	return state == 1 ? -ECONNRESET : state;
}

static int compare_ns(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a;
	uint64_t y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

static double quantile_us(const uint64_t *sorted, unsigned int cnt,
			  unsigned int percent)
{
	unsigned int at = (cnt * percent + 99) / 100;

	return (double)sorted[at ? at - 1 : 0] / 1000;
}

/* Exchanges @kind for a while; fills in the latencies of @to. */
static int measure_latency(const struct measuring *m,
			   enum ini_exchange_kind kind, uint32_t len,
			   struct measurement *to)
{
	static uint64_t samples[SAMPLES_MAX];
	uint64_t end = measure_now_ns() + MEASURE_NS;
	uint64_t before;
	unsigned int cnt = 0;
	int err;

	do {
		before = measure_now_ns();
		err = exchange_once(m, kind, stage.buf, len);
		if (err)
			return err;
		samples[cnt++] = measure_now_ns() - before;
	} while (cnt < SAMPLES_MAX && measure_now_ns() < end);
	qsort(samples, cnt, sizeof(samples[0]), compare_ns);
	to->cnt = cnt;
	to->bytes = kind == INI_EXCHANGE_SEND ? 0 : len;
	to->p50 = quantile_us(samples, cnt, 50);
	to->p99 = quantile_us(samples, cnt, 99);
	return 0;
}

/* ---- several in flight ---- */

struct stream {
	const struct measuring *m;
	uint64_t end_ns;
	unsigned int in_flight;
	uint64_t done;
	int err;
};

static void stream_next(struct ini_exchange *x, int err)
{
	struct stream *s = x->arg;

	s->in_flight--;
	if (err && !s->err)
		s->err = err;
	if (err)
		return;
	s->done++;
	if (s->err || measure_now_ns() >= s->end_ns)
		return;
	s->in_flight++;
	ini_exchange_begin(s->m->session, x);
}

static int measure_bandwidth(const struct measuring *m,
			     enum ini_exchange_kind kind, double *ret_mb_per_s)
{
	static struct stream s; /* answers may come until the session ends */
	uint64_t begin = measure_now_ns();

	s = (struct stream){ .m = m,
			     .end_ns = begin + MEASURE_NS,
			     .in_flight = IN_FLIGHT };
	for (unsigned int i = 0; i < IN_FLIGHT; i++) {
		struct ini_exchange *x = &stage.exchanges[i];

		*x = (struct ini_exchange){
			.kind = kind,
			.buf = stage.buf + (size_t)i * LARGE_LEN,
			.len = LARGE_LEN,
			.mem = stage.mem,
			.done = stream_next,
			.arg = &s,
		};
		ini_exchange_begin(m->session, x);
	}
	while (s.in_flight && !*m->lost) {
		if (srpi_ctx_run(m->ctx, -1) < 0)
			return -ECONNRESET;
	}
	if (s.in_flight)
		return -ECONNRESET;
	*ret_mb_per_s = (double)s.done * LARGE_LEN * 1000 /
			(double)(measure_now_ns() - begin);
	return s.err;
}

/* ---- measurements ---- */

static bool is_refusal(int err)
{
	return err == -EOPNOTSUPP || err == -EINVAL || err == -EIO ||
	       err == -EACCES || err == -EROFS;
}

static void measure_failed(const struct measuring *m, const char *what, int err)
{
	struct finding *f =
		report_add(m->report, m->group, "exchange",
			   is_refusal(err) ? FINDING_NOTE : FINDING_PROBLEM);

	if (err == -ECONNRESET) {
		finding_value(f, "%s: the connection was lost", what);
		f->why = "The login worked, but data does not pass.";
		finding_mend(f, "check MTU and pause frames of each switch; "
				"the log of the target may say more");
		return;
	}
	finding_value(f, "%s: %s", what, strerror(-err));
	f->why = "The target has refused a command that touches no volume.";
}

static const struct exchange_row {
	const char *what;
	const char *how;
	enum ini_exchange_kind kind;
	uint32_t len;
	bool streams; /* also measure the bandwidth */
} exchange_rows[] = {
	{ "SEND", "INQUIRY without data", INI_EXCHANGE_SEND, 0, false },
	{ "WRITE", "READ BUFFER, echo", INI_EXCHANGE_READ_ECHO, SMALL_LEN,
	  false },
	{ "READ", "WRITE BUFFER, echo", INI_EXCHANGE_WRITE_ECHO, SMALL_LEN,
	  false },
	{ "WRITE", "READ BUFFER; 8 in flight", INI_EXCHANGE_READ_BUFFER,
	  LARGE_LEN, true },
	{ "READ", "WRITE BUFFER; 8 in flight", INI_EXCHANGE_WRITE_BUFFER,
	  LARGE_LEN, true },
	{ 0 },
};

/* For a target without the buffers. */
static const struct exchange_row inquiry_rows[] = {
	{ "SEND", "INQUIRY without data", INI_EXCHANGE_SEND, 0, false },
	{ "WRITE", "INQUIRY", INI_EXCHANGE_INQUIRY, INQUIRY_LEN, false },
	{ 0 },
};

static int measure_row(const struct measuring *m,
		       const struct exchange_row *row)
{
	struct measurement to = { .group = m->group,
				  .what = row->what,
				  .how = row->how };
	int err = measure_latency(m, row->kind, row->len, &to);

	if (!err && row->streams)
		err = measure_bandwidth(m, row->kind, &to.mb_per_s);
	if (err)
		measure_failed(m, row->how, err);
	else if (m->report->measure_cnt < REPORT_MEASURES_MAX)
		m->report->measures[m->report->measure_cnt++] = to;
	return err;
}

/* Finds out whether data comes back as it was sent. */
static int try_echo(const struct measuring *m)
{
	uint8_t *out = stage.buf;
	uint8_t *in = stage.buf + LARGE_LEN;
	struct finding *f;
	int err;

	for (uint32_t i = 0; i < SMALL_LEN; i++)
		out[i] = (uint8_t)(i * 7 + (i >> 8));
	memset(in, 0, SMALL_LEN);
	err = exchange_once(m, INI_EXCHANGE_WRITE_ECHO, out, SMALL_LEN);
	if (!err)
		err = exchange_once(m, INI_EXCHANGE_READ_ECHO, in, SMALL_LEN);
	if (is_refusal(err)) {
		f = report_add(m->report, m->group, "echo", FINDING_OK);
		finding_value(f, "the target has no echo buffer: only INQUIRY "
				 "is measured, and no READ");
		return err;
	}
	if (err) {
		measure_failed(m, "echo", err);
		return err;
	}
	if (memcmp(in, out, SMALL_LEN) == 0) {
		f = report_add(m->report, m->group, "echo", FINDING_OK);
		finding_value(f, "%u bytes came back as they were sent",
			      SMALL_LEN);
		return 0;
	}
	f = report_add(m->report, m->group, "echo", FINDING_PROBLEM);
	finding_value(f, "%u bytes did not come back as they were sent",
		      SMALL_LEN);
	f->why = "The network, or a device, changes data.";
	finding_mend(f, "replace cable, adapter or switch; do not use the "
			"volumes over this way");
	return 0;
}

static bool stage_set(const struct measuring *m)
{
	const size_t len = (size_t)IN_FLIGHT * LARGE_LEN;
	struct srpi_error e = { .text = "out of memory" };
	struct finding *f;

	if (!stage.buf)
		stage.buf = aligned_alloc(4096, len);
	if (stage.buf &&
	    !srpi_mem_register(m->session, stage.buf, len, &stage.mem, &e))
		return true;
	f = report_add(m->report, m->group, "memory", FINDING_PROBLEM);
	finding_value(f, "%s", e.text);
	f->why = "Data moves only into memory that is registered.";
	finding_mend(f, "ulimit -l unlimited; rdma-doctor says more");
	return false;
}

bool measure_session(const struct measuring *m)
{
	const struct exchange_row *row = exchange_rows;
	int err;

	if (!stage_set(m))
		return true;
	err = try_echo(m);
	if (is_refusal(err)) {
		row = inquiry_rows;
		err = 0;
	}
	for (; !err && row->what; row++) {
		if (row->streams && !ini_exchange_has_buffer(m->session))
			break;
		err = measure_row(m, row);
	}
	return err != -ECONNRESET;
}

void measure_end(void)
{
	srpi_mem_free(stage.mem);
	stage.mem = NULL;
}
