/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The configuration of a running target as a whole: what a difference is, that it is made
 * as a whole or not at all, and what is saved and read again.
 */
#include <errno.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/list.h"
#include "target/manage_apply.h"
#include "target/port/task_mgmt.h"
#include "tests/lib/t_json.h"
#include "tests/lib/t_server.h"
#include "tests/lib/t_table.h"

#define REFUSED "org.rdmablock.target.Refused"

#define FILE_LISTEN "'listen': ['srp+rdma://10.0.0.1']"
#define FILE_A	    "{'store': 'ram:1M', 'name': 'a'}"
#define FILE_F	    "{'store': 'file', 'name': 'f', 'allow': ['10.0.0.9']}"
#define FILE_LIMITS "'max-logins': 500, 'allow': ['all']"
#define FILE_ALL                                                             \
	"{" FILE_LIMITS ", " FILE_LISTEN ", 'backing': [" FILE_A ", " FILE_F \
	"]}"

/* ---- the target ---- */

/* With a volume, a rule and a limit of the command line. */
static const char *const args[] = { "--config",
				    "c.json",
				    "--backing",
				    "ram:1M,name=c",
				    "--max-host-logins",
				    "50",
				    "--allow",
				    "10.0.0.8",
				    NULL };

static int enter(void **state)
{
	t_server_enter();
	t_server_make_file("file", 1u << 20);
	t_server_make_file("spare", 1u << 20);
	t_server_write("c.json", t_json(FILE_ALL));
	return 0;
}

static int start(void **state)
{
	enter(NULL);
	t_server_start(args);
	return 0;
}

static int stop(void **state)
{
	t_server_end(SIGTERM);
	t_server_leave();
	return 0;
}

static int leave(void **state)
{
	t_server_leave();
	return 0;
}

T_EACH(start, stop)

/* All but the generation, which grows with changes that are undone. */
static char *look(void)
{
	json_t *all = json_array();
	char *text;

	json_array_append_new(
		all, json_deep_copy(t_json_at(t_server_ask("GetConfig", NULL),
					      "config")));
	json_array_append_new(
		all, json_deep_copy(t_server_ask("ListVolumes", NULL)));
	json_array_append_new(
		all, json_deep_copy(t_json_at(t_server_ask("GetStatus", NULL),
					      "listeners")));
	text = json_dumps(all, JSON_SORT_KEYS);
	json_decref(all);
	assert_non_null(text);
	return text;
}

/* ---- differences ---- */

static const struct difference {
	const char *name;
	const char *in; /* of Diff and Apply, without "config" */
	const char *config;
	const char *changes; /* "action object field;..." */
} differences[] = {
	{ "the file does not differ", "", FILE_ALL, "" },
	{ "what a configuration leaves out stays", "", "{}", "" },
	{ "what prune leaves out goes, but not what the command line has added",
	  "'prune': true", "{" FILE_LISTEN "}",
	  "remove volume 'a';remove volume 'f';change target allow;"
	  "change target max-logins" },
	{ "prune has nothing to do with the file", "'prune': true", FILE_ALL,
	  "" },
	{ "a volume is added", "", "{'backing': ['ram:1M,name=x']}",
	  "add volume 'x'" },
	{ "a volume without a name is told by its store", "",
	  "{'backing': ['spare']}", "add volume 'spare'" },
	{ "a store that is served is the volume that has it", "",
	  "{'backing': ['file,allow=10.0.0.9']}", "" },
	{ "rules of a volume change", "",
	  "{'backing': ['file,name=f,allow=10.0.0.7']}",
	  "change volume 'f' allow" },
	{ "everybody may use a volume by the word", "",
	  "{'backing': ['file,name=f,allow=all']}", "change volume 'f' allow" },
	{ "an empty list of rules is nobody", "",
	  "{'allow': [], 'backing': [{'store': 'file', 'allow': []}]}",
	  "change volume 'f' allow;change target allow" },
	{ "rules of the target change", "", "{'allow': ['all', '10.0.0.7']}",
	  "change target allow" },
	{ "a limit changes", "", "{'max-channels': 3}",
	  "change target max-channels" },
	{ "a limit of the command line is replaced", "",
	  "{'max-host-logins': 9}", "change target max-host-logins" },
	{ "what needs another start is told", "", "{'threads': 2}",
	  "restart target threads" },
	/* Who may only look would learn what files there are. */
	{ "what options name is not looked at", "",
	  "{'keys': 'none', 'state-dir': 'none'}",
	  "restart target keys;restart target state-dir" },
	{ "an address is added", "", "{'listen': ['srp+rdma://10.0.0.2']}",
	  "change target listen" },
	{ "an address is replaced by prune", "'prune': true",
	  "{" FILE_LIMITS
	  ", 'listen': ['srp+rdma://10.0.0.2'], 'backing': [" FILE_A ", " FILE_F
	  "]}",
	  "change target listen" },
	{ "the generation is the present one", "'generation': 1",
	  "{'max-logins': 9}", "change target max-logins" },
	{ "all of it at once", "'prune': true",
	  "{'max-logins': 9, 'listen': ['srp+rdma://10.0.0.1', "
	  "'srp+rdma://10.0.0.3'], 'backing': ['spare,name=s', "
	  "'file,name=f,allow=all']}",
	  "add volume 's';change volume 'f' allow;remove volume 'a';"
	  "change target listen;change target allow;change target max-logins" },
};

/* "add volume 'x';change target allow" */
static const char *changes_of(const json_t *changes)
{
	static char text[1024];
	size_t len = 0;
	const json_t *c;
	size_t i;

	text[0] = '\0';
	json_array_foreach((json_t *)(uintptr_t)changes, i, c) {
		const char *field = t_json_text(c, "field");

		len += (size_t)snprintf(
			text + len, sizeof(text) - len, "%s%s %s%s%s",
			i ? ";" : "", t_json_text(c, "action"),
			t_json_text(c, "object"), *field ? " " : "", field);
		assert_true(len < sizeof(text));
	}
	return t_server_names(text);
}

static const json_t *changes_by(const char *method, const struct difference *d)
{
	char in[4096];

	snprintf(in, sizeof(in), "{'config': %s%s%s}", d->config,
		 *d->in ? ", " : "", d->in);
	return t_json_at(t_server_ask(method, t_json(in)), "changes");
}

/* Afterwards there is no difference any more. */
T_ROWS(difference_is_told_and_made, differences)
{
	/* Only the first of two changes is of the present generation. */
	struct difference again = *(const struct difference *)*state;
	const struct difference *d = *state;
	char *before = look();
	char *after;

	assert_string_equal(changes_of(changes_by("Diff", d)), d->changes);
	after = look();
	assert_string_equal(after, before);
	free(after);
	free(before);
	assert_string_equal(changes_of(changes_by("Apply", d)), d->changes);
	if (strstr(d->in, "generation"))
		again.in = "";
	assert_string_equal(changes_of(changes_by("Diff", &again)), "");
}

/* The plan goes on behind what apply would refuse. */
T_TEST(plan_tells_what_stands_in_the_way)
{
	static const struct difference d = {
		.in = "'whole': true",
		.config = "{'backing': ['file,name=f,ro', 'ram:2M,name=a', "
			  "'spare,name=s'], 'max-logins': 9}",
	};
	char *before = look();
	char *after;

	assert_string_equal(changes_of(changes_by("Diff", &d)),
			    "refused volume 'f' ro;refused volume 'a' store;"
			    "add volume 's';change target max-logins");
	after = look();
	assert_string_equal(after, before);
	free(after);
	free(before);
}

/* ---- all or nothing ---- */

static const struct undone {
	const char *name;
	const char *config;
	const char *object;
	const char *reason; /* a part of it */
} undone[] = {
	{ "a volume without a store takes the others with it",
	  "{'max-logins': 5, 'listen': ['srp+rdma://10.0.0.2'], "
	  "'backing': ['ram:1M,name=x', 'spare,name=y', 'none,name=z']}",
	  "volume 'z'", "does not exist" },
	{ "a volume with a LUN that is taken takes the others with it",
	  "{'backing': ['ram:1M,name=x', 'spare,name=y,lun=2']}", "volume 'y'",
	  "are both LUN 2" },
	{ "an address of another machine takes the others with it",
	  "{'max-logins': 5, 'backing': ['ram:1M,name=x'], 'listen': "
	  "['srp+rdma://10.0.0.2', 'srp+tcp://198.51.100.1']}",
	  "address 'srp+tcp://198.51.100.1'", "cannot listen on" },
	{ "rules of a volume that are left out keep the others",
	  "{'max-logins': 5, 'backing': ['ram:1M,name=x', 'file,name=f']}",
	  "volume 'f'", "but now it has some (10.0.0.9): write who may" },
	{ "a volume that cannot change keeps the others",
	  "{'backing': ['ram:1M,name=x', 'ram:2M,name=a']}", "volume 'a'",
	  "it cannot change" },
};

T_ROWS(refused_change_is_undone, undone)
{
	const struct undone *u = *state;
	char *before = look();
	char in[1024];
	const json_t *answer;
	const json_t *p;
	char *after;

	snprintf(in, sizeof(in), "{'config': %s}", u->config);
	answer = t_server_call("Apply", t_json(in));
	assert_string_equal(t_json_text(answer, "error"), REFUSED);
	p = json_object_get(answer, "parameters");
	assert_string_equal(t_json_text(p, "object"), u->object);
	if (!strstr(t_json_text(p, "reason"), u->reason))
		fail_msg("%s", t_json_text(p, "reason"));
	after = look();
	assert_string_equal(after, before);
	free(after);
	free(before);
}

/* Opening needs the word "all": neither a file without rules nor a prune opens. */
static const struct {
	const char *in; /* of SetAllow */
	const char *method;
	const char *config; /* of the file, or of Apply */
	const char *object;
} omissions[] = {
	{ "{'volume': 'a', 'rules': ['10.0.0.7']}", "Reload", FILE_ALL,
	  "volume 'a'" },
	{ "{'rules': ['10.0.0.7']}", "Apply",
	  "{'config': {" FILE_LISTEN "}, 'prune': true}", "target" },
};

T_TEST(omission_opens_nothing)
{
	for (size_t i = 0; i < ARRAY_SIZE(omissions); i++) {
		bool reload = !strcmp(omissions[i].method, "Reload");
		const json_t *answer;
		char *before;
		char *after;

		t_server_ask("SetAllow", t_json(omissions[i].in));
		before = look();
		if (reload)
			t_server_write("c.json", t_json(omissions[i].config));
		answer = t_server_call(omissions[i].method,
				       reload ? NULL
					      : t_json(omissions[i].config));
		assert_string_equal(t_json_text(answer, "error"), REFUSED);
		assert_string_equal(
			t_json_text(json_object_get(answer, "parameters"),
				    "object"),
			omissions[i].object);
		after = look();
		assert_string_equal(after, before);
		free(after);
		free(before);
	}
}

/* A volume that is in use cannot be taken from the administrator's view of what was done
 * before: the refusal comes first. */
T_TEST(prune_asks_before_it_changes_anything)
{
	char *before = look();
	const json_t *answer;
	char *after;

	assert_true(t_server_login(1)->established);
	answer = t_server_call("Apply",
			       t_json("{'config': {'max-logins': 5, 'backing': "
				      "['ram:1M,name=x']}, 'prune': true}"));
	assert_string_equal(t_json_text(answer, "error"), REFUSED);
	after = look();
	assert_string_equal(after, before);
	free(after);
	free(before);
}

/* 0: all succeed; n: the n-th one fails. */
static atomic_uint failing_eviction;

int __real_task_mgmt_evict_prepare(struct port *port, struct volume *vol,
				   struct task_mgmt_eviction *ev);
int __wrap_task_mgmt_evict_prepare(struct port *port, struct volume *vol,
				   struct task_mgmt_eviction *ev);
int __wrap_task_mgmt_evict_prepare(struct port *port, struct volume *vol,
				   struct task_mgmt_eviction *ev)
{
	if (atomic_load(&failing_eviction) &&
	    atomic_fetch_sub(&failing_eviction, 1) == 1)
		return -ENOMEM;
	return __real_task_mgmt_evict_prepare(port, vol, ev);
}

T_TEST(prune_without_memory_removes_nothing)
{
	const char *prune = t_json("{'config': {'backing': "
				   "['ram:1M,name=x']}, 'prune': true}");
	char *before = look();
	char *after;

	atomic_store(&failing_eviction, 2);
	assert_string_equal(t_json_text(t_server_call("Apply", prune), "error"),
			    REFUSED);
	after = look();
	assert_string_equal(after, before);
	free(after);
	free(before);
	/* What was taken for the first volume keeps it from nothing. */
	t_server_ask("RemoveVolume", t_json("{'name': 'a'}"));
}

/* While a configuration is applied: 0: all succeed; n: the n-th one fails. */
static _Thread_local unsigned int failing_calloc;
static atomic_uint fails_calloc; /* of the next one */

void *__real_calloc(size_t cnt, size_t size);
void *__wrap_calloc(size_t cnt, size_t size);
void *__wrap_calloc(size_t cnt, size_t size)
{
	if (failing_calloc && --failing_calloc == 0)
		return NULL;
	return __real_calloc(cnt, size);
}

bool __real_manage_apply(struct manage *m, const json_t *want,
			 const struct manage_apply *how, json_t **ret_changes,
			 struct manage_fault *f);
bool __wrap_manage_apply(struct manage *m, const json_t *want,
			 const struct manage_apply *how, json_t **ret_changes,
			 struct manage_fault *f);
bool __wrap_manage_apply(struct manage *m, const json_t *want,
			 const struct manage_apply *how, json_t **ret_changes,
			 struct manage_fault *f)
{
	bool good;

	failing_calloc = fails_calloc;
	good = __real_manage_apply(m, want, how, ret_changes, f);
	/* All have succeeded before the one that should fail. */
	if (failing_calloc)
		fails_calloc = 0;
	failing_calloc = 0;
	return good;
}

/* Whatever memory is lacking. */
T_TEST(apply_without_memory_changes_nothing)
{
	const char *apply =
		t_json("{'config': {'max-logins': 5, 'allow': ['10.0.0.7'], "
		       "'backing': ['ram:1M,name=x', "
		       "'file,name=f,allow=10.0.0.6']}, 'prune': true}");
	char *before = look();
	const json_t *answer;
	unsigned int n;
	char *after;

	for (n = 1;; n++) {
		fails_calloc = n;
		answer = t_server_call("Apply", apply);
		if (!fails_calloc)
			break;
		assert_string_equal(t_json_text(answer, "error"), REFUSED);
		after = look();
		assert_string_equal(after, before);
		free(after);
	}
	free(before);
	assert_true(n > 1);
	assert_null(json_object_get(answer, "error"));
	t_json_expect(t_server_ask("GetConfig", NULL), "config.max-logins",
		      "5");
}

/* ---- saving ---- */

#define SAVED_A "{'store': 'ram:1M', 'name': 'a', 'lun': 0}"
#define SAVED_F \
	"{'store': 'file', 'name': 'f', 'allow': ['10.0.0.9'], 'lun': 1}"
#define SAVED_X "{'name': 'x', 'store': 'ram:1M', 'lun': 3}"

static const struct saved {
	const char *name;
	const char *method; /* what happens before; NULL: nothing */
	const char *in;
	const char *file; /* what the file then says */
} saved[] = {
	{ "the LUN that a volume has got is saved", NULL, NULL,
	  "{" FILE_LIMITS ", " FILE_LISTEN ", 'backing': [" SAVED_A ", " SAVED_F
	  "]}" },
	{ "a volume that has come is saved", "AddVolume",
	  "{'volume': 'ram:1M,name=x'}",
	  "{" FILE_LIMITS ", " FILE_LISTEN ", 'backing': [" SAVED_A ", "
	  "{'store': 'file', 'name': 'f', 'allow': ['10.0.0.9'], 'lun': 1}," SAVED_X
	  "]}" },
	{ "a volume that has gone is not", "RemoveVolume", "{'name': 'a'}",
	  "{" FILE_LIMITS ", " FILE_LISTEN ", 'backing': [" SAVED_F "]}" },
	{ "a limit is saved", "Apply", "{'config': {'max-logins': 7}}",
	  "{'max-logins': 7, 'allow': ['all'], " FILE_LISTEN
	  ", 'backing': [" SAVED_A ", " SAVED_F "]}" },
};

static void expect_file(const char *name, const char *want)
{
	char *text = t_server_read(name);
	json_t *is = text ? json_loads(t_server_names(text), 0, NULL) : NULL;
	json_t *should = json_loads(t_json(want), 0, NULL);

	assert_non_null(should);
	if (!is || !json_equal(is, should))
		fail_msg("%s is %s", name, text ? text : "not there");
	json_decref(is);
	json_decref(should);
	free(text);
}

/* The version before is kept. What does not change is not written again. */
T_ROWS(change_is_saved, saved)
{
	const struct saved *s = *state;

	if (s->method)
		t_server_ask(s->method, t_json(s->in));
	t_json_expect(t_server_ask("Save", NULL), "file", "'c.json'");
	expect_file("c.json", s->file);
	expect_file("c.json.1", FILE_ALL);
	t_server_ask("Save", NULL);
	assert_int_equal(access("c.json.2", F_OK), -1);
}

T_TEST(save_warns_of_rules_that_the_command_line_has)
{
	t_server_ask("SetAllow", t_json("{'rules': ['10.0.0.7']}"));
	t_server_ask("SetAllow",
		     t_json("{'rules': ['10.0.0.6'], 'volume': 'c'}"));
	t_server_ask("Save", NULL);
	assert_non_null(strstr(t_server_log(), "allows '10.0.0.8' again"));
	assert_non_null(strstr(t_server_log(),
			       "volume 'c': allow: 10.0.0.6 now, but as the "
			       "target again"));
}

T_TEST(limit_holds_from_the_next_login_on)
{
	t_server_ask("Apply", t_json("{'config': {'max-logins': 1}}"));
	assert_true(t_server_login(1)->established);
	assert_false(t_server_login(2)->established);
}

T_TEST(versions_before_are_kept)
{
	static const char *const limits[] = {
		"{'config': {'max-logins': 1}}",
		"{'config': {'max-logins': 2}}",
		"{'config': {'max-logins': 3}}",
		"{'config': {'max-logins': 4}}",
		"{'config': {'max-logins': 5}}",
	};
	static const char *const names[] = { "c.json", "c.json.1", "c.json.2",
					     "c.json.3" };

	for (size_t i = 0; i < ARRAY_SIZE(limits); i++) {
		t_server_ask("Apply", t_json(limits[i]));
		t_server_ask("Save", NULL);
	}
	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *text = t_server_read(names[i]);
		json_t *is = json_loads(text, 0, NULL);

		assert_int_equal(
			json_integer_value(json_object_get(is, "max-logins")),
			5 - i);
		json_decref(is);
		free(text);
	}
	assert_int_equal(access("c.json.4", F_OK), -1);
}

static void lose_all_volumes(void)
{
	t_server_ask("RemoveVolume", t_json("{'name': 'a'}"));
	t_server_ask("RemoveVolume", t_json("{'name': 'f'}"));
}

static void edit_badly(void)
{
	t_server_write("c.json", "{ \"backing\": [\n");
}

static void give_name_to_other_store(void)
{
	t_server_ask("RemoveVolume", t_json("{'name': 'c'}"));
	t_server_ask("AddVolume", t_json("{'volume': 'spare,name=c'}"));
}

static void take_place_of_new_file(void)
{
	assert_int_equal(mkdir("c.json.new", 0755), 0);
}

static const struct not_saved {
	const char *name;
	void (*before)(void);
	const char *object;
	const char *field;
	const char *reason; /* a part of it */
	bool can_force;
} not_saved[] = {
	{ "no volumes do not replace some", lose_all_volumes, "configuration",
	  "backing", "there are no volumes now, and c.json has some", true },
	{ "what somebody edits is not replaced", edit_badly, "configuration",
	  "", "what is there would be lost", true },
	{ "a volume of the command line keeps its store",
	  give_name_to_other_store, "volume 'c'", "store",
	  "the command line of the target gives another store", false },
	{ "a file that cannot be written is named", take_place_of_new_file,
	  "configuration", "", "c.json: Is a directory", false },
};

static void expect_versions(void)
{
	static const char *const names[] = { "c.json.1", "c.json.2",
					     "c.json.3" };

	for (size_t i = 0; i < ARRAY_SIZE(names); i++) {
		char *text = t_server_read(names[i]);

		assert_non_null(text);
		assert_string_equal(text, names[i]);
		free(text);
	}
	assert_int_equal(access("c.json.1.new", F_OK), -1);
}

T_ROWS(refused_save_keeps_the_file, not_saved)
{
	const struct not_saved *n = *state;
	const json_t *answer;
	const json_t *p;
	char *before;
	char *after;

	t_server_write("c.json.1", "c.json.1");
	t_server_write("c.json.2", "c.json.2");
	t_server_write("c.json.3", "c.json.3");
	n->before();
	before = t_server_read("c.json");
	answer = t_server_call("Save", NULL);
	assert_string_equal(t_json_text(answer, "error"), REFUSED);
	p = json_object_get(answer, "parameters");
	assert_string_equal(t_json_text(p, "object"), n->object);
	assert_string_equal(t_json_text(p, "field"), n->field);
	if (!strstr(t_json_text(p, "reason"), n->reason))
		fail_msg("%s", t_json_text(p, "reason"));
	after = t_server_read("c.json");
	assert_string_equal(after, before);
	free(after);
	free(before);
	expect_versions();
	answer = t_server_call("Save", t_json("{'force': true}"));
	assert_int_equal(!json_object_get(answer, "error"), n->can_force);
}

/* ---- reading again ---- */

/* Reading a file hangs, once. */
static atomic_bool holds_reader;
static sem_t has_read;
static sem_t goes_on;
static sem_t has_gone_on;

static void hold_reader(void)
{
	sem_init(&has_read, 0, 0);
	sem_init(&goes_on, 0, 0);
	sem_init(&has_gone_on, 0, 0);
	atomic_store(&holds_reader, true);
}

static void await_reader(void)
{
	sem_wait(&has_read);
}

static void let_reader_go_on(void)
{
	sem_post(&goes_on);
	sem_wait(&has_gone_on);
	sem_destroy(&has_gone_on);
	sem_destroy(&goes_on);
	sem_destroy(&has_read);
}

static void maybe_hold(void)
{
	if (!atomic_exchange(&holds_reader, false))
		return;
	sem_post(&has_read);
	sem_wait(&goes_on);
	sem_post(&has_gone_on);
}

json_t *__real_config_read_json(const char *path, char **ret_text,
				struct error *e);
json_t *__wrap_config_read_json(const char *path, char **ret_text,
				struct error *e);
json_t *__wrap_config_read_json(const char *path, char **ret_text,
				struct error *e)
{
	json_t *config = __real_config_read_json(path, ret_text, e);

	maybe_hold();
	return config;
}

json_t *__real_config_read(const char *path, struct error *e);
json_t *__wrap_config_read(const char *path, struct error *e);
json_t *__wrap_config_read(const char *path, struct error *e)
{
	json_t *config = __real_config_read(path, e);

	maybe_hold();
	return config;
}

T_TEST(reload_makes_what_the_file_says)
{
	t_server_write("c.json", t_json("{'max-logins': 9, 'backing': ["
					"'ram:1M,name=a', 'spare,name=s']}"));
	assert_string_equal(
		changes_of(t_json_at(t_server_ask("Reload", NULL), "changes")),
		"add volume 's';change target max-logins");
	t_json_expect(t_server_ask("GetConfig", NULL), "config.max-logins",
		      "9");
}

T_TEST(reload_of_a_broken_file_is_refused)
{
	char *before = look();
	const json_t *answer;
	char *after;

	edit_badly();
	answer = t_server_call("Reload", NULL);
	assert_string_equal(t_json_text(answer, "error"), REFUSED);
	assert_non_null(strstr(
		t_json_text(json_object_get(answer, "parameters"), "reason"),
		"c.json:2: not JSON"));
	assert_non_null(
		strstr(t_server_log(), "the configuration is not applied: "));
	after = look();
	assert_string_equal(after, before);
	free(after);
	free(before);
}

T_TEST(hangup_reads_the_file_again)
{
	t_server_write("c.json", t_json("{'max-logins': 9}"));
	t_server_signal(SIGHUP);
	t_server_await_log("configuration: change target: max-logins");
}

T_TEST(hangup_while_reloading_reloads_again)
{
	t_server_write("c.json", t_json("{'max-logins': 9}"));
	hold_reader();
	t_server_signal(SIGHUP);
	await_reader();
	t_server_write("c.json", t_json("{'max-host-logins': 8}"));
	t_server_signal(SIGHUP);
	t_server_await_log("it will be applied again after that");
	let_reader_go_on();
	t_server_await_log("configuration: change target: max-host-logins");
}

/* What is saved has the change that was made meanwhile. */
T_TEST(change_while_saving_is_saved)
{
	const json_t *answer;
	int fd;

	hold_reader();
	fd = t_server_begin("Save", NULL);
	await_reader();
	t_server_ask("RemoveVolume", t_json("{'name': 'a'}"));
	let_reader_go_on();
	answer = t_server_finish(fd, "Save");
	assert_null(json_object_get(answer, "error"));
	expect_file("c.json", "{" FILE_LIMITS ", " FILE_LISTEN
			      ", 'backing': [" SAVED_F "]}");
}

T_EACH(start, leave)

/* The file may be on a server that never answers. */
T_TEST(end_does_not_wait_for_a_reload)
{
	hold_reader();
	t_server_signal(SIGHUP);
	await_reader();
	assert_int_equal(t_server_end(SIGTERM), 0);
	let_reader_go_on();
}

T_TEST(end_does_not_wait_for_a_save)
{
	int fd;

	hold_reader();
	fd = t_server_begin("Save", NULL);
	await_reader();
	assert_int_equal(t_server_end(SIGTERM), 0);
	close(fd);
	let_reader_go_on();
}

/* ---- the default address ---- */

bool __wrap_xp_present(enum xp_kind kind);
/* Else the default is a port of this machine. */
bool __wrap_xp_present(enum xp_kind kind)
{
	return true;
}

static int start_default(void **state)
{
	static const char *const default_args[] = { "--config", "c.json",
						    NULL };

	enter(NULL);
	t_server_write("c.json", t_json("{'backing': [" FILE_A "]}"));
	t_server_start(default_args);
	return 0;
}

T_EACH(start_default, stop)

static const struct default_case {
	const char *name;
	const char *method;
	const char *in;
} default_cases[] = {
	{ "an address that cannot be added", "AddListener",
	  "{'uri': 'srp+tcp://198.51.100.1'}" },
	{ "an address to remove that is not there", "RemoveListener",
	  "{'uri': 'srp+rdma://10.0.0.9'}" },
	{ "an apply that cannot add a volume", "Apply",
	  "{'config': {'listen': ['srp+rdma://10.0.0.2'], "
	  "'backing': ['nofile']}}" },
};

/* Else, "save" would write down where the target listens by chance today. */
T_ROWS(refused_address_leaves_the_default, default_cases)
{
	const struct default_case *c = *state;
	char *before = look();
	char *after;

	assert_string_equal(
		t_json_text(t_server_call(c->method, t_json(c->in)), "error"),
		REFUSED);
	after = look();
	assert_string_equal(after, before);
	free(after);
	free(before);
	/* The next change shows all that is in the configuration. */
	t_server_ask("SetAllow", t_json("{'rules': ['all']}"));
	t_json_expect(t_server_ask("GetConfig", NULL), "config.listen", NULL);
}

/* ---- auto-save ---- */

static int start_auto_save(void **state)
{
	static const char *const auto_args[] = { "--config", "c.json",
						 "--auto-save", NULL };

	enter(NULL);
	t_server_start(auto_args);
	return 0;
}

T_EACH(start_auto_save, stop)

T_TEST(change_saves_itself)
{
	t_server_ask("RemoveVolume", t_json("{'name': 'a'}"));
	expect_file("c.json", "{" FILE_LIMITS ", " FILE_LISTEN
			      ", 'backing': [" SAVED_F "]}");
}

/* It is made all the same. */
T_TEST(change_that_is_not_saved_warns)
{
	const json_t *answer;

	take_place_of_new_file();
	answer = t_server_ask("RemoveVolume", t_json("{'name': 'a'}"));
	t_json_expect(answer, "warnings",
		      "['the change is done, but not saved: configuration: "
		      "c.json: Is a directory']");
	t_json_expect(t_server_ask("ListVolumes", NULL), "volumes.0.name",
		      "'f'");
}

/* The rules stay, but the next start reads none. */
T_TEST(reload_warns_of_rules_that_will_go)
{
	t_server_ask("SetAllow", t_json("{'rules': ['10.0.0.9']}"));
	t_server_write("c.json", t_json("{'max-logins': 9}"));
	t_json_expect(
		t_server_ask("Reload", NULL), "warnings",
		"['the configuration has no rules for the target, which "
		"keeps 10.0.0.9 until it ends: at the next start, "
		"everybody may come in; write who may, or all, into it']");
}

/* A file that cannot be read now, as its server is gone, keeps nobody waiting. But what was
 * read before a change must not be applied after it. */
T_TEST(change_while_reloading_stays)
{
	const char *change;

	hold_reader();
	t_server_signal(SIGHUP);
	await_reader();
	t_server_ask("SetAllow", t_json("{'rules': ['10.0.0.7']}"));
	t_server_write("c.json", t_json("{'max-logins': 9}"));
	let_reader_go_on();
	t_server_await_log("configuration: change target: max-logins");
	/* The one of SetAllow, and none by the file. */
	change = strstr(t_server_log(), "configuration: change target: allow");
	assert_non_null(change);
	assert_null(strstr(change + 1, "configuration: change target: allow"));
	t_json_expect(t_server_ask("GetConfig", NULL), "config.allow",
		      "['10.0.0.7']");
}

/* The file does not have the change yet. */
T_TEST(reload_while_saving_undoes_nothing)
{
	const json_t *answer;
	int change;
	int reload;

	hold_reader();
	change = t_server_begin("SetAllow", t_json("{'rules': ['10.0.0.7']}"));
	await_reader();
	reload = t_server_begin("Reload", NULL);
	/* The change is made, and others need not wait for its save. */
	t_json_expect(t_server_ask("GetConfig", NULL), "config.allow",
		      "['10.0.0.7']");
	let_reader_go_on();
	answer = t_server_finish(change, "SetAllow");
	assert_null(json_object_get(answer, "error"));
	answer = t_server_finish(reload, "Reload");
	assert_null(json_object_get(answer, "error"));
	t_json_expect(json_object_get(answer, "parameters"), "changes", "[]");
	t_json_expect(t_server_ask("GetConfig", NULL), "config.allow",
		      "['10.0.0.7']");
}
