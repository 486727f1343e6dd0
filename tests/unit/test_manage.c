/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * What the administrator of a running target asks for: refusals name the object, the
 * field and the reason and change nothing; changes are made, and counted.
 */
#include <signal.h>
#include <string.h>

#include "tests/lib/t_json.h"
#include "tests/lib/t_server.h"
#include "tests/lib/t_table.h"

#define REFUSED "org.rdmablock.target.Refused"
#define BAD	"org.varlink.service.InvalidParameter"

/* ---- the target ---- */

/* A volume in memory, and two of files. Initiator 1 sees all but the last. */
static int start(void **state)
{
	static const char *const args[] = {
		"--backing",
		"ram:1M,name=a",
		"--backing",
		"file,name=f,removable,serial=S",
		"--backing",
		"other,name=bad,removable,fault=flush:error,allow=10.0.0.9",
		NULL
	};

	t_server_enter();
	t_server_make_file("file", 1u << 20);
	t_server_make_file("other", 1u << 20);
	t_server_make_file("spare", 1u << 20);
	t_server_start(args);
	return 0;
}

static int stop(void **state)
{
	/* So that the last flush is none that fails. */
	t_server_call("SetFaults", "{\"name\":\"bad\",\"rules\":[]}");
	t_server_end(SIGTERM);
	t_server_leave();
	return 0;
}

T_EACH(start, stop)

/* What an administrator can see of the target, but for times. */
static char *look(void)
{
	json_t *all = json_array();
	json_t *volumes = json_deep_copy(t_server_ask("ListVolumes", NULL));
	json_t *vol;
	size_t i;
	char *text;

	json_array_foreach(json_object_get(volumes, "volumes"), i, vol)
		json_object_del(vol, "state_since_ms");
	json_array_append_new(all,
			      json_deep_copy(t_server_ask("GetConfig", NULL)));
	json_array_append_new(all, volumes);
	json_array_append_new(all,
			      json_deep_copy(t_server_ask("GetStatus", NULL)));
	text = json_dumps(all, JSON_SORT_KEYS);
	json_decref(all);
	assert_non_null(text);
	return text;
}

/* ---- refusals ---- */

static const struct refusal {
	const char *name;
	const char *method;
	const char *in;
	const char *object;
	const char *field;
	const char *reason; /* a part of it */
} refusals[] = {
	{ "a volume needs a store", "AddVolume", "{'volume': {'name': 'x'}}",
	  "volume 'x'", "", "a volume needs 'store'" },
	{ "a volume is text or an object", "AddVolume", "{'volume': 5}",
	  "volume", "", "a SPEC, or an object" },
	{ "an option of a volume is known", "AddVolume",
	  "{'volume': {'store': 'ram:1M', 'nam': 'x'}}", "volume 'ram:1M'",
	  "nam", "'name'" },
	{ "a size is a size", "AddVolume", "{'volume': 'ram:x'}",
	  "volume 'ram:x'", "", "'x' is not a size" },
	{ "a store is there", "AddVolume", "{'volume': 'nofile'}",
	  "volume 'nofile'", "", "does not exist" },
	{ "a plugin is there", "AddVolume", "{'volume': 'noplugin:x'}",
	  "volume 'noplugin:x'", "", "there is no plugin 'noplugin'" },
	{ "two volumes have two names", "AddVolume",
	  "{'volume': 'ram:1M,name=a'}", "volume 'a'", "",
	  "two volumes have the name 'a'" },
	{ "two volumes have two LUNs", "AddVolume",
	  "{'volume': 'ram:1M,name=x,lun=1'}", "volume 'x'", "",
	  "volumes 'f' and 'x' are both LUN 1" },
	{ "a file is served once", "AddVolume", "{'volume': 'file,name=x'}",
	  "volume 'x'", "", "is given twice" },
	{ "two volumes have two serial numbers", "AddVolume",
	  "{'volume': 'spare,name=x,serial=S'}", "volume 'x'", "",
	  "are the same disk" },
	/* RemoveVolume */
	{ "the volume to remove is there", "RemoveVolume", "{'name': 'none'}",
	  "volume 'none'", "", "there is no volume of that name" },
	{ "a volume in use stays", "RemoveVolume", "{'name': 'a'}",
	  "volume 'a'", "",
	  "initiator 0x00000000000000000000000000000001 is logged in" },
	{ "a volume that cannot be flushed stays", "RemoveVolume",
	  "{'name': 'bad'}", "volume 'bad'", "",
	  "it cannot be flushed: Input/output error" },
	/* ResizeVolume */
	{ "the volume to resize is there", "ResizeVolume", "{'name': 'none'}",
	  "volume 'none'", "", "there is no volume of that name" },
	{ "a file does not shrink", "ResizeVolume",
	  "{'name': 'f', 'size': '512k'}", "volume 'f'", "size",
	  "smaller than its 1048576 bytes" },
	{ "a new size is whole blocks", "ResizeVolume",
	  "{'name': 'f', 'size': '2097153'}", "volume 'f'", "size",
	  "not a multiple of the block size" },
	{ "a new size is a size", "ResizeVolume",
	  "{'name': 'f', 'size': 'big'}", "volume 'f'", "size",
	  "'big' is not a size" },
	{ "memory does not grow", "ResizeVolume", "{'name': 'a', 'size': '2M'}",
	  "volume 'a'", "size", "by its own means" },
	/* SetParameters */
	{ "the volume to set is there", "SetParameters",
	  "{'name': 'none', 'plugin': 'p', 'parameters': {}}", "volume 'none'",
	  "", "there is no volume of that name" },
	{ "the volume has the plugin", "SetParameters",
	  "{'name': 'a', 'plugin': 'p', 'parameters': {}}", "volume 'a'", "p",
	  "the volume has no such plugin" },
	{ "parameters are an object", "SetParameters",
	  "{'name': 'a', 'plugin': 'p', 'parameters': 5}", "volume 'a'", "",
	  "'parameters' is not an object" },
	/* SetFaults */
	{ "the volume to break is there", "SetFaults",
	  "{'name': 'none', 'rules': []}", "volume 'none'", "",
	  "there is no volume of that name" },
	{ "a volume without faults gets none", "SetFaults",
	  "{'name': 'a', 'rules': ['read:error']}", "volume 'a'", "fault",
	  "it was added without a fault" },
	{ "a fault is one", "SetFaults", "{'name': 'bad', 'rules': ['jump']}",
	  "volume 'bad'", "fault", "'jump' is not an operation" },
	{ "faults have an end", "SetFaults",
	  "{'name': 'bad', 'rules': ['read:error', 'read:error', 'read:error',"
	  "'read:error', 'read:error', 'read:error', 'read:error',"
	  "'read:error', 'read:error', 'read:error', 'read:error',"
	  "'read:error', 'read:error', 'read:error', 'read:error',"
	  "'read:error', 'read:error']}",
	  "volume 'bad'", "fault", "more than 16 faults" },
	/* EjectVolume, LoadVolume */
	{ "the volume to eject is there", "EjectVolume", "{'name': 'none'}",
	  "volume 'none'", "", "there is no volume of that name" },
	{ "a medium is removable", "EjectVolume", "{'name': 'a'}", "volume 'a'",
	  "removable", "its medium cannot be removed" },
	{ "a medium that cannot be flushed stays", "EjectVolume",
	  "{'name': 'bad'}", "volume 'bad'", "",
	  "it cannot be flushed: Input/output error" },
	{ "the volume to load is there", "LoadVolume", "{'name': 'none'}",
	  "volume 'none'", "", "there is no volume of that name" },
	/* SetAllow */
	{ "a rule is one", "SetAllow", "{'rules': ['nobody!']}", "target",
	  "allow", "'nobody!': a rule is name:NAME" },
	{ "a rule of a volume is one", "SetAllow",
	  "{'rules': ['10.0.0.0/99'], 'volume': 'a'}", "volume 'a'", "allow",
	  "'10.0.0.0/99': a rule is name:NAME" },
	{ "rules are of a volume that is there", "SetAllow",
	  "{'rules': [], 'volume': 'none'}", "volume 'none'", "",
	  "there is no volume of that name" },
	/* AddListener, RemoveListener */
	{ "an address is one", "AddListener", "{'uri': 'http://x'}",
	  "address 'http://x'", "", "scheme 'http' is not srp" },
	{ "an address names no volume", "AddListener",
	  "{'uri': 'srp://10.0.0.2/a'}", "address 'srp://10.0.0.2/a'", "",
	  "only an address, a port, pkey and sl" },
	{ "the target listens once", "AddListener",
	  "{'uri': 'srp+rdma://10.0.0.1'}", "address 'srp+rdma://10.0.0.1'", "",
	  "the target listens there already" },
	{ "an address is of this machine", "AddListener",
	  "{'uri': 'srp+tcp://198.51.100.1'}",
	  "address 'srp+tcp://198.51.100.1'", "",
	  "cannot listen on 198.51.100.1:5555 over TCP: " },
	{ "the target listens where it is to leave", "RemoveListener",
	  "{'uri': 'srp+rdma://10.0.0.2'}", "address 'srp+rdma://10.0.0.2'", "",
	  "does not listen there" },
	{ "one address stays", "RemoveListener",
	  "{'uri': 'srp+rdma://10.0.0.1'}", "address 'srp+rdma://10.0.0.1'", "",
	  "it is the only one" },
	{ "an address to leave is one", "RemoveListener", "{'uri': ''}",
	  "address ''", "", "no host is named" },
	/* KickSession */
	{ "an initiator is a port", "KickSession", "{'initiator': 'me'}",
	  "session 'me'", "initiator", "not 0x and the 32 digits" },
	{ "the initiator is logged in", "KickSession",
	  "{'initiator': '0x00000000000000000000000000000002'}",
	  "session '0x00000000000000000000000000000002'", "",
	  "that initiator is not logged in" },
	/* SetLogLevel */
	{ "a log level is one", "SetLogLevel", "{'level': 'loud'}", "target",
	  "level", "'loud' is not error, warning, notice, info or debug" },
	/* Apply, Diff */
	{ "a configuration is an object", "Apply", "{'config': []}",
	  "configuration", "", "a configuration is an object" },
	{ "an option is known", "Apply", "{'config': {'max-login': 5}}",
	  "configuration", "max-login", "'max-logins'" },
	{ "a generation is the present one", "Apply",
	  "{'config': {'max-logins': 5}, 'generation': 7}", "configuration",
	  "generation", "it is 1 now, not 7" },
	{ "a volume does not change in place", "Apply",
	  "{'config': {'backing': ['file,name=a']}}", "volume 'a'", "store",
	  "it cannot change while the volume is served" },
	{ "an option of a volume does not go in place", "Diff",
	  "{'config': {'backing': ['file,name=f']}}", "volume 'f'", "removable",
	  "it cannot change while the volume is served" },
	{ "what is in use is not pruned", "Apply",
	  "{'config': {}, 'prune': true}", "volume 'a'", "",
	  "is logged in and sees it" },
	{ "a difference is told only if it can be made", "Diff",
	  "{'config': {}, 'prune': true}", "volume 'a'", "",
	  "is logged in and sees it" },
	/* Save */
	{ "a configuration is saved to a file", "Save", NULL, "configuration",
	  "", "the target was started without --config" },
};

T_ROWS(refusal_names_the_reason, refusals)
{
	const struct refusal *r = *state;
	char *before;
	char *after;
	const json_t *answer;
	const json_t *p;
	char object[256];

	t_server_login(1);
	/* The first failure of a flush changes the state of the volume. */
	t_server_call(r->method, t_json(r->in));
	before = look();
	answer = t_server_call(r->method, t_json(r->in));
	assert_string_equal(t_json_text(answer, "error"), REFUSED);
	p = json_object_get(answer, "parameters");
	snprintf(object, sizeof(object), "%s", t_json_text(p, "object"));
	assert_string_equal(t_server_names(object), r->object);
	assert_string_equal(t_json_text(p, "field"), r->field);
	if (!strstr(t_json_text(p, "reason"), r->reason))
		fail_msg("%s", t_json_text(p, "reason"));
	after = look();
	assert_string_equal(after, before);
	free(before);
	free(after);
}

/* ---- parameters of the wrong type ---- */

static const struct bad_parameter {
	const char *name;
	const char *method;
	const char *in;
	const char *parameter;
} bad_parameters[] = {
	{ "a volume to remove has a name", "RemoveVolume", "{'name': 5}",
	  "name" },
	{ "force is a flag", "RemoveVolume", "{'name': 'a', 'force': 'yes'}",
	  "force" },
	{ "a volume to resize has a name", "ResizeVolume", "{}", "name" },
	{ "a size is text", "ResizeVolume", "{'name': 'f', 'size': true}",
	  "size" },
	{ "a size is not negative", "ResizeVolume", "{'name': 'f', 'size': -1}",
	  "size" },
	{ "a volume to set has a name", "SetParameters",
	  "{'plugin': 'p', 'parameters': {}}", "name" },
	{ "parameters are of a plugin", "SetParameters",
	  "{'name': 'a', 'parameters': {}}", "plugin" },
	{ "a volume to break has a name", "SetFaults", "{'rules': []}",
	  "name" },
	{ "faults are a list", "SetFaults", "{'name': 'bad', 'rules': 'all'}",
	  "rules" },
	{ "faults are texts", "SetFaults", "{'name': 'bad', 'rules': [5]}",
	  "rules" },
	{ "a volume to eject has a name", "EjectVolume", "{'name': null}",
	  "name" },
	{ "a volume to load has a name", "LoadVolume", "{}", "name" },
	{ "rules are a list", "SetAllow", "{'rules': {}}", "rules" },
	{ "rules are texts", "SetAllow", "{'rules': ['all', null]}", "rules" },
	{ "an address to add is text", "AddListener", "{'uri': []}", "uri" },
	{ "an address to remove is text", "RemoveListener", "{}", "uri" },
	{ "an initiator is text", "KickSession", "{'initiator': 1}",
	  "initiator" },
	{ "a level is text", "SetLogLevel", "{'level': 3}", "level" },
	{ "prune is a flag", "Apply", "{'config': {}, 'prune': 1}", "prune" },
	{ "force of apply is a flag", "Diff", "{'config': {}, 'force': 'no'}",
	  "force" },
	{ "force of save is a flag", "Save", "{'force': 0}", "force" },
	{ "a parameter is known", "Apply", "{'confg': {}}", "confg" },
};

T_ROWS(bad_parameter_is_named, bad_parameters)
{
	const struct bad_parameter *b = *state;
	const json_t *answer = t_server_call(b->method, t_json(b->in));

	assert_string_equal(t_json_text(answer, "error"), BAD);
	assert_string_equal(
		t_json_text(json_object_get(answer, "parameters"), "parameter"),
		b->parameter);
}

/* ---- changes ---- */

static const struct change {
	const char *name;
	const char *method;
	const char *in;
	/* A place in the answer, and what is there; NULL: it is not looked at. */
	const char *answer;
	const char *answers;
	/* What then tells of it: a method, a place in its answer, and what is there. */
	const char *look;
	const char *at;
	const char *is;
	bool no_config; /* the configuration is as before */
} changes[] = {
	{ "a volume gets the next LUN", "AddVolume",
	  "{'volume': 'ram:1M,name=x'}", "lun", "3", "ListVolumes",
	  "volumes.3.name", "'x'" },
	{ "a volume gets the LUN it asks for", "AddVolume",
	  "{'volume': {'store': 'ram:1M', 'lun': 9}}", "lun", "9", "GetConfig",
	  "config.backing.3.lun", "9" },
	{ "a volume without a name gets one", "AddVolume",
	  "{'volume': 'spare'}", "name", "'spare'", "GetConfig",
	  "config.backing.3.name", "'spare'" },
	{ "force removes a volume in use", "RemoveVolume",
	  "{'name': 'a', 'force': true}", NULL, NULL, "ListVolumes",
	  "volumes.0.name", "'f'" },
	{ "force removes what cannot be flushed", "RemoveVolume",
	  "{'name': 'bad', 'force': true}", NULL, NULL, "GetConfig",
	  "config.backing.2", NULL },
	{ "a file grows", "ResizeVolume", "{'name': 'f', 'size': '2M'}", "size",
	  "2097152", "ListVolumes", "volumes.1.size", "2097152", true },
	{ "a size may be a number", "ResizeVolume",
	  "{'name': 'f', 'size': 3145728}", "size", "3145728", "ListVolumes",
	  "volumes.1.size", "3145728", true },
	{ "without a size the store is looked at", "ResizeVolume",
	  "{'name': 'a'}", "size", "1048576", "ListVolumes", "volumes.0.size",
	  "1048576", true },
	{ "a medium is ejected", "EjectVolume", "{'name': 'f'}", NULL, NULL,
	  "ListVolumes", "volumes.1.state", "'ejected'", true },
	{ "a medium that is there is loaded", "LoadVolume", "{'name': 'f'}",
	  NULL, NULL, "ListVolumes", "volumes.1.state", "'ready'", true },
	{ "faults are replaced", "SetFaults",
	  "{'name': 'bad', 'rules': ['read:error']}", NULL, NULL, "GetConfig",
	  "config.backing.2.fault", "['read:error']" },
	{ "faults go", "SetFaults", "{'name': 'bad', 'rules': []}", NULL, NULL,
	  "GetConfig", "config.backing.2.fault", NULL },
	{ "rules that still allow an initiator end no session", "SetAllow",
	  "{'rules': ['all']}", "ended", "0", "GetConfig", "config.allow",
	  "['all']" },
	{ "rules that allow none end its session", "SetAllow",
	  "{'rules': ['10.0.0.9']}", "ended", "1", "ListSessions", "total",
	  "0" },
	{ "no rule lets nobody in", "SetAllow", "{'rules': []}", "ended", "1",
	  "GetConfig", "config.allow", "['none']" },
	{ "no rule of a volume is nobody's", "SetAllow",
	  "{'rules': [], 'volume': 'f'}", "ended", "1", "GetConfig",
	  "config.backing.1.allow", "['none']" },
	{ "a volume has rules of its own", "SetAllow",
	  "{'rules': ['10.0.0.9'], 'volume': 'f'}", NULL, NULL, "GetConfig",
	  "config.backing.1.allow", "['10.0.0.9']" },
	{ "an address is added", "AddListener",
	  "{'uri': 'srp+rdma://10.0.0.2:7777'}", NULL, NULL, "GetStatus",
	  "listeners",
	  "['srp+rdma://10.0.0.1:5555', 'srp+rdma://10.0.0.2:7777']" },
	{ "an address has a partition and a service level", "AddListener",
	  "{'uri': 'srp+rdma://10.0.0.2:7777?sl=3&pkey=8001'}", NULL, NULL,
	  "GetStatus", "listeners",
	  "['srp+rdma://10.0.0.1:5555', "
	  "'srp+rdma://10.0.0.2:7777?pkey=8001&sl=3']" },
	{ "an address has a service level", "AddListener",
	  "{'uri': 'srp+rdma://10.0.0.2:7777?sl=3'}", NULL, NULL, "GetStatus",
	  "listeners",
	  "['srp+rdma://10.0.0.1:5555', 'srp+rdma://10.0.0.2:7777?sl=3']" },
	{ "a log level is set", "SetLogLevel", "{'level': 'warning'}", NULL,
	  NULL, "GetStatus", "log_level", "'warning'", true },
	{ "an initiator is sent away", "KickSession",
	  "{'initiator': '0x00000000000000000000000000000001'}", NULL, NULL,
	  "ListSessions", "sessions", "[]", true },
	{ "a difference is told", "Diff", "{'config': {'max-logins': 5}}",
	  "changes",
	  "[{'action': 'change', 'object': 'target', 'field': 'max-logins', "
	  "'to': 5}]",
	  "GetConfig", "config.max-logins", NULL, true },
	{ "a reload without a file changes nothing", "Reload", "{}", "changes",
	  "[]", "ListSessions", "total", "1", true },
};

T_ROWS(change_is_made, changes)
{
	const struct change *c = *state;
	const json_t *answer;

	assert_true(t_server_login(1)->established);
	answer = t_server_ask(c->method, t_json(c->in));
	if (c->answer)
		t_json_expect(answer, c->answer, c->answers);
	t_json_expect(t_server_ask(c->look, NULL), c->at, c->is);
	t_json_expect(t_server_ask("GetConfig", NULL), "generation",
		      c->no_config ? "1" : "2");
}
