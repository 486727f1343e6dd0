/* SPDX-License-Identifier: BSD-2-Clause */
#include "target/block/writers.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/text.h"

/* Shared by writers without an entry of their own. */
#define REST 0

/* ---- numbers ---- */

static void raise_to(_Atomic uint64_t *number, uint64_t to)
{
	uint64_t is = atomic_load(number);

	while (is < to && !atomic_compare_exchange_weak(number, &is, to))
		;
}

static bool is_uncovered(const struct writers *ws, uint64_t wrote)
{
	return wrote && wrote >= atomic_load(&ws->stable);
}

static bool is_dirty(const struct writers *ws, const struct writer *w)
{
	return is_uncovered(ws, atomic_load(&w->wrote));
}

static bool is_needed(const struct writers *ws, const struct writer *w)
{
	return atomic_load(&w->owed) || is_dirty(ws, w);
}

/* Whoever has no entry is owed what the first one is. */
static bool writers_is_named(const struct writers *ws, const struct writer *w)
{
	return is_needed(ws, w) ||
	       (w->known && atomic_load(&ws->writers[REST].owed));
}

static enum writers_failure failure_of(const struct writers *ws)
{
	if (atomic_load(&ws->failed))
		return WRITERS_FLUSH_FAILED;
	return is_uncovered(ws, atomic_load(&ws->doubt)) ? WRITERS_WRITE_FAILED
							 : WRITERS_NO_FAILURE;
}

uint64_t writers_flush_begins(struct writers *ws)
{
	return atomic_fetch_add(&ws->begun, 1) + 1;
}

void writers_flush_ends(struct writers *ws, uint64_t nr, int res)
{
	if (res) {
		atomic_store(&ws->failed, true);
		return;
	}
	raise_to(&ws->stable, nr);
	if (ws->keep && writers_may_drop(ws))
		ws->keep(ws, /* now= */ false);
}

void writers_doubt(struct writers *ws)
{
	raise_to(&ws->doubt, atomic_load(&ws->begun));
}

bool writers_failure_is_kept(const struct writers *ws)
{
	return !ws->keep || atomic_load(&ws->failure_kept);
}

void writers_flushed(struct writers *ws)
{
	raise_to(&ws->stable, atomic_load(&ws->begun) + 1);
}

/* ---- entries ---- */

#define PRINCIPAL_LEN (WRITER_PORT_LEN - WRITER_PRINCIPAL_AT)

static bool has_no_principal(const struct writer *w)
{
	static const uint8_t none[PRINCIPAL_LEN];

	return !memcmp(w->port + WRITER_PRINCIPAL_AT, none, sizeof(none));
}

static struct writer *find_known(struct writers *ws, const uint8_t *port)
{
	struct writer *found = NULL;

	for (unsigned int i = REST + 1; i < WRITERS_MAX; i++) {
		struct writer *w = &ws->writers[i];

		if (!w->known || memcmp(w->port, port, WRITER_PRINCIPAL_AT))
			continue;
		if (!memcmp(w->port, port, WRITER_PORT_LEN))
			return w;
		if (has_no_principal(w))
			found = w;
	}
	return found;
}

static struct writer *take_free(struct writers *ws, bool unknown)
{
	for (unsigned int i = REST + 1; i < WRITERS_MAX; i++) {
		struct writer *w = &ws->writers[i];

		if (!w->known || (!unknown && !w->users && !is_needed(ws, w)))
			return w;
	}
	return NULL;
}

/* Returns an entry for a writer that has none. A writer that found no room
 * shares the first entry, and is owed what that is owed. So an entry that is
 * not needed stays known while there is room. */
static struct writer *writers_add(struct writers *ws, const uint8_t *port)
{
	struct writer *w = take_free(ws, /* unknown= */ true);

	if (!w)
		w = take_free(ws, /* unknown= */ false);
	if (!w)
		return &ws->writers[REST];
	*w = (struct writer){ .known = true, .owed = ws->writers[REST].owed };
	memcpy(w->port, port, WRITER_PORT_LEN);
	return w;
}

static struct writer *writers_find(struct writers *ws, writer_ref *ref,
				   const uint8_t *port, bool may_add)
{
	struct writer *w = atomic_load(ref);

	if (w)
		return w;
	pthread_mutex_lock(&ws->lock);
	w = atomic_load(ref);
	if (!w) {
		w = find_known(ws, port);
		if (!w && may_add)
			w = writers_add(ws, port);
		if (w) {
			w->users++;
			atomic_store(ref, w);
		}
	}
	pthread_mutex_unlock(&ws->lock);
	return w;
}

void writers_leave(struct writers *ws, writer_ref *ref)
{
	struct writer *w = atomic_exchange(ref, NULL);

	if (!w)
		return;
	pthread_mutex_lock(&ws->lock);
	w->users--;
	pthread_mutex_unlock(&ws->lock);
}

static void set_principal(uint8_t *port, const uint8_t *principal)
{
	memcpy(port + WRITER_PRINCIPAL_AT, principal, PRINCIPAL_LEN);
}

void writers_rename(struct writers *ws, writer_ref *ref, uint8_t *port,
		    const uint8_t *principal)
{
	struct writer *w = atomic_load(ref);

	pthread_mutex_lock(&ws->lock);
	if (!w)
		w = find_known(ws, port);
	if (w && w != &ws->writers[REST])
		set_principal(w->port, principal);
	set_principal(port, principal);
	pthread_mutex_unlock(&ws->lock);
	if (w && ws->keep)
		ws->keep(ws, /* now= */ true);
}

void writers_follow(struct writers *ws,
		    bool (*names)(const void *arg, const uint8_t *principal),
		    const void *arg)
{
	static const uint8_t none[PRINCIPAL_LEN];

	pthread_mutex_lock(&ws->lock);
	for (unsigned int i = REST + 1; i < WRITERS_MAX; i++) {
		uint8_t *port = ws->writers[i].port;

		if (!names(arg, port + WRITER_PRINCIPAL_AT))
			set_principal(port, none);
	}
	pthread_mutex_unlock(&ws->lock);
}

/* Order: first the number, then the look whether the journal names the writer.
 * writer_keep_unflushed() has it the other way round, so one of the two sees the other. */
bool writers_wrote(struct writers *ws, writer_ref *ref, const uint8_t *port)
{
	struct writer *w;

	if (!ws->keep)
		return true;
	w = writers_find(ws, ref, port, /* may_add= */ true);
	raise_to(&w->wrote, atomic_load(&ws->begun));
	return atomic_load(&w->kept);
}

/* ---- debts ---- */

bool writers_owes(struct writers *ws, writer_ref *ref, const uint8_t *port)
{
	const struct writer *w;

	if (!ws->owes)
		return false;
	w = writers_find(ws, ref, port, ws->writers[REST].owed);
	return w && atomic_load(&w->owed);
}

void writers_told(struct writers *ws, writer_ref *ref, const uint8_t *port)
{
	struct writer *w = writers_find(ws, ref, port, /* may_add= */ false);

	if (!w || w == &ws->writers[REST])
		return;
	atomic_store(&w->owed, false);
	if (ws->keep)
		ws->keep(ws, /* now= */ true);
}

/* ---- waiting ---- */

static void wait_ends(struct reactor_msg *msg)
{
	struct writers_wait *wait = container_of(msg, struct writers_wait, msg);

	wait->done(wait, wait->err);
}

void writers_wait(struct writers *ws, struct writers_wait *wait,
		  struct reactor *r,
		  void (*done)(struct writers_wait *wait, int err))
{
	wait->reactor = r;
	wait->msg.run = wait_ends;
	wait->done = done;
	pthread_mutex_lock(&ws->lock);
	list_add_tail(&ws->waiting, &wait->node);
	pthread_mutex_unlock(&ws->lock);
	ws->keep(ws, /* now= */ true);
}

bool writers_stop_waiting(struct writers *ws, struct writers_wait *wait)
{
	bool waited;

	pthread_mutex_lock(&ws->lock);
	waited = !list_empty(&wait->node);
	list_del(&wait->node);
	pthread_mutex_unlock(&ws->lock);
	return waited;
}

/* ---- what outlives the process ---- */

#define FIRST_LINE "rdma-target writers 1\n"

static const char *const failures[] = {
	[WRITERS_WRITE_FAILED] = "write",
	[WRITERS_FLUSH_FAILED] = "flush",
};

static bool has_loss(const struct writers *ws)
{
	static const uint8_t none[WRITERS_LOSS_LEN];

	return memcmp(ws->loss, none, sizeof(none));
}

/* Writers that wait have wrote; see writers_wrote() for the order. */
static void writer_keep_unflushed(struct writers *ws, struct writer *w)
{
	bool kept = atomic_exchange(&w->kept, false);

	w->being_kept = is_dirty(ws, w);
	atomic_store(&w->kept, kept && w->being_kept);
}

static enum writers_failure failure_to_keep(struct writers *ws)
{
	bool kept = atomic_exchange(&ws->failure_kept, false);
	enum writers_failure failure = failure_of(ws);

	ws->keeps_failure = failure;
	atomic_store(&ws->failure_kept, kept && failure);
	return failure;
}

static void format_writer(const struct writers *ws, unsigned int i,
			  struct text *t)
{
	const struct writer *w = &ws->writers[i];

	text_add(t, "%s", i == REST ? "rest" : "writer ");
	if (i != REST)
		text_add_hex(t, w->port, WRITER_PORT_LEN);
	text_add(t, "%s%s\n", w->being_kept ? " unflushed" : "",
		 atomic_load(&w->owed) ? " owed" : "");
}

static void format_writers(struct writers *ws, struct text *t)
{
	for (unsigned int i = 0; i < WRITERS_MAX; i++) {
		struct writer *w = &ws->writers[i];

		writer_keep_unflushed(ws, w);
		if (w->being_kept || writers_is_named(ws, w))
			format_writer(ws, i, t);
	}
}

/* Empty if there is nothing to say. */
static void format_all(struct writers *ws, const char *boot, const char *life,
		       struct text *t)
{
	enum writers_failure failure = failure_to_keep(ws);
	size_t head;

	text_add(t, FIRST_LINE "boot %s\nlife %s\nloss ", *boot ? boot : "-",
		 life);
	text_add_hex(t, ws->loss, sizeof(ws->loss));
	text_add(t, "\n");
	head = t->len;
	if (failure)
		text_add(t, "failed %s\n", failures[failure]);
	format_writers(ws, t);
	if (t->len == head && !has_loss(ws))
		t->len = 0;
	else
		text_add(t, "end\n");
}

size_t writers_format(struct writers *ws, const char *boot, const char *life,
		      char *buf, size_t cap)
{
	struct text t = { .buf = buf, .cap = cap };

	assert(cap >= WRITERS_TEXT_MAX);
	pthread_mutex_lock(&ws->lock);
	list_splice_tail(&ws->being_kept, &ws->waiting);
	format_all(ws, boot, life, &t);
	pthread_mutex_unlock(&ws->lock);
	return t.len;
}

static void wake(struct writers *ws, int err)
{
	while (!list_empty(&ws->being_kept)) {
		struct list *node = list_pop(&ws->being_kept);
		struct writers_wait *wait =
			container_of(node, struct writers_wait, node);

		list_init(node);
		wait->err = err;
		reactor_send(wait->reactor, &wait->msg);
	}
}

void writers_kept(struct writers *ws, int err)
{
	pthread_mutex_lock(&ws->lock);
	for (unsigned int i = 0; i < WRITERS_MAX; i++) {
		struct writer *w = &ws->writers[i];

		if (w->being_kept && !err)
			atomic_store(&w->kept, true);
		w->being_kept = false;
	}
	if (ws->keeps_failure && !err)
		atomic_store(&ws->failure_kept, true);
	wake(ws, err);
	pthread_mutex_unlock(&ws->lock);
}

bool writers_may_drop(struct writers *ws)
{
	bool may;

	pthread_mutex_lock(&ws->lock);
	may = atomic_load(&ws->failure_kept) && !failure_of(ws);
	for (unsigned int i = 0; i < WRITERS_MAX && !may; i++) {
		struct writer *w = &ws->writers[i];

		may = atomic_load(&w->kept) && !is_dirty(ws, w);
	}
	pthread_mutex_unlock(&ws->lock);
	return may;
}

/* ---- what a start finds ---- */

static bool parse_writer(struct writers *ws, const char **text,
			 struct writer *w, struct writers_found *ret)
{
	bool unflushed = text_take(text, " unflushed");

	w->known = true;
	atomic_store(&w->owed, text_take(text, " owed"));
	/* Any number does that no flush has. */
	atomic_store(&w->wrote, unflushed);
	ret->unclean |= unflushed;
	return text_take(text, "\n");
}

static bool parse_writers(struct writers *ws, const char **text,
			  struct writers_found *ret)
{
	struct writer *w = &ws->writers[REST];

	if (text_take(text, "rest") &&
	    !parse_writer(ws, text, &ws->writers[REST], ret))
		return false;
	while (text_take(text, "writer ")) {
		if (++w == ws->writers + WRITERS_MAX ||
		    !text_take_hex(text, w->port, sizeof(w->port)) ||
		    !parse_writer(ws, text, w, ret))
			return false;
	}
	return true;
}

static bool parse_failure(const char **text, enum writers_failure *ret)
{
	if (!text_take(text, "failed "))
		return true;
	*ret = text_take(text, "flush") ? WRITERS_FLUSH_FAILED
					: WRITERS_WRITE_FAILED;
	return (*ret == WRITERS_FLUSH_FAILED || text_take(text, "write")) &&
	       text_take(text, "\n");
}

static bool parse_all(struct writers *ws, const char *text,
		      struct writers_found *ret)
{
	return text_take(&text, FIRST_LINE "boot ") &&
	       text_take_until(&text, '\n', ret->boot, sizeof(ret->boot)) &&
	       *ret->boot && text_take(&text, "\nlife ") &&
	       text_take_until(&text, '\n', ret->life, sizeof(ret->life)) &&
	       text_take(&text, "\nloss ") &&
	       text_take_hex(&text, ws->loss, sizeof(ws->loss)) &&
	       text_take(&text, "\n") && parse_failure(&text, &ret->failed) &&
	       parse_writers(ws, &text, ret) && text_take(&text, "end\n") &&
	       !*text;
}

int writers_parse(struct writers *ws, const char *text,
		  struct writers_found *ret)
{
	*ret = (struct writers_found){ .failed = WRITERS_NO_FAILURE };
	if (!*text || parse_all(ws, text, ret))
		return 0;
	return -EBADMSG;
}

static void draw_loss(struct writers *ws)
{
	/* Blocks until there are random numbers. A call for so few bytes
	 * returns all of them. */
	if (getrandom(ws->loss, sizeof(ws->loss), 0) != sizeof(ws->loss))
		abort();
}

void writers_lose(struct writers *ws)
{
	for (unsigned int i = 0; i < WRITERS_MAX; i++) {
		if (is_dirty(ws, &ws->writers[i]))
			atomic_store(&ws->writers[i].owed, true);
	}
	draw_loss(ws);
}

void writers_lose_all(struct writers *ws)
{
	memset(ws->writers, 0, sizeof(ws->writers));
	atomic_store(&ws->writers[REST].owed, true);
	draw_loss(ws);
}

void writers_begin(struct writers *ws, bool forget)
{
	bool rest_owed = !forget && atomic_load(&ws->writers[REST].owed);

	ws->owes = rest_owed;
	for (unsigned int i = 0; i < WRITERS_MAX; i++) {
		struct writer *w = &ws->writers[i];

		atomic_store(&w->wrote, 0);
		if (forget)
			*w = (struct writer){ .known = false };
		ws->owes |= atomic_load(&w->owed);
		w->known = rest_owed ? w->known : atomic_load(&w->owed);
	}
	if (forget)
		memset(ws->loss, 0, sizeof(ws->loss));
}

/* ---- life ---- */

void writers_init(struct writers *ws)
{
	memset(ws, 0, sizeof(*ws));
	atomic_store(&ws->begun, 1);
	pthread_mutex_init(&ws->lock, NULL);
	list_init(&ws->waiting);
	list_init(&ws->being_kept);
}

void writers_fini(struct writers *ws)
{
	assert(list_empty(&ws->waiting) && list_empty(&ws->being_kept));
	pthread_mutex_destroy(&ws->lock);
}
