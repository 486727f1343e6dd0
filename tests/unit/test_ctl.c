/* SPDX-License-Identifier: BSD-2-Clause */
/* What rdma-ctl prints. The test is the target: it gives the answers. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/log.h"
#include "ctl/ctl_client.h"
#include "ctl/ctl_look.h"
#include "ctl/ctl_print.h"
#include "ctl/ctl_top.h"
#include "tests/lib/t_table.h"

/* ---- stdout ---- */

static char *printed;
static size_t printed_len;
static FILE *real;

static void capture(void)
{
	real = stdout;
	stdout = open_memstream(&printed, &printed_len);
	assert_non_null(stdout);
}

static void end_capture(void)
{
	fclose(stdout);
	stdout = real;
}

/* ---- answers ---- */

static const struct print_row {
	const char *name;
	void (*print)(const json_t *out);
	const char *json;
	const char *text;
} print_rows[] = {
	{ "status", ctl_look_status,
	  "{'version':'1.2','pid':7,'threads':2,'since_ms':1000,"
	  "'listeners':['a:1','b:2'],"
	  "'volumes':3,'not_ready':['x','y'],'sessions':4,'generation':5,"
	  "'log_level':'notice','volume_list':[{'name':'z','state':'ready'},"
	  "{'name':'y','state':'ejected'},{'name':'x','state':'cannot flush',"
	  "'state_since_ms':1000,'state_error':'Lost','state_end':'until it "
	  "can'}]}",
	  "rdma-target 1.2, process 7, 2 threads, since 1970-01-01 00:00:01\n"
	  "health        volume 'x': cannot flush since 1970-01-01 00:00:01: "
	  "Lost, until it can\n"
	  "listens on    a:1\n"
	  "              b:2\n"
	  "volumes       3; not ready: x, y\n"
	  "sessions      4\n"
	  "configuration of the command line, generation 5\n"
	  "log level     notice\n" },
	{ "status of a target that is well", ctl_look_status,
	  "{'version':'1.2','pid':7,'threads':1,'log_level':'info'}",
	  "rdma-target 1.2, process 7, 1 thread\n"
	  "health        good\n"
	  "volumes       0\n"
	  "sessions      0\n"
	  "configuration of the command line, generation 0\n"
	  "log level     info\n" },
	{ "status of a target that stops", ctl_look_status,
	  "{'config':'/etc/t.json','auto_save':true,'stopping':{'seconds':9,"
	  "'commands':8,'sessions':7,'flushes':6,'seconds_left':3723},"
	  "'discovery_ended':{'since_ms':1000,'error':'signal 9','end':'until "
	  "then'},'volume_list':[{'name':'x','state_end':'a'},{'name':'y',"
	  "'state_end':'b'}]}",
	  "rdma-target , process 0, 0 threads\n"
	  "health        volume 'x':  since 1970-01-01 00:00:00, a\n"
	  "              volume 'y':  since 1970-01-01 00:00:00, b\n"
	  "              discovery has ended since 1970-01-01 00:00:01: signal "
	  "9, until then\n"
	  "volumes       0\n"
	  "sessions      0\n"
	  "configuration /etc/t.json, generation 0, saved after each change\n"
	  "log level     \n"
	  "stopping      for 9 s: waits for 8 commands of 7 sessions and 6 "
	  "flushes, about 1:02:03 to go\n" },
	{ "a tree", ctl_look_tree,
	  "{'version':'1.2','pid':7,'listeners':['a:1'],'volume_list':[{"
	  "'name':'x','lun':0,'size':1048576,'state':'ready','kind':'file','store':'/x.img',"
	  "'allow':['all'],'follows_target':true},{'name':'y','lun':12,"
	  "'size':1000,'state':'ready','read_only':true,'kind':'ram','store':'1M',"
	  "'allow':['none']}],'session_list':[{'initiator':'0x1','address':"
	  "'10.0.0.1','since_ms':1000,'volumes':1,'volume_names':['x']},{"
	  "'initiator':'0x2','address':'10.0.0.2','since_ms':2000,'volumes':2,"
	  "'volume_names':['x','y']}],'host_names':{'10.0.0.2':'two'}}",
	  "o- rdma-target ........................................."
	  "....... [1.2, process 7]\n"
	  "  o- listeners ........................................."
	  ".................... [1]\n"
	  "  | o- a:1\n"
	  "  o- volumes ..........................................."
	  ".................... [2]\n"
	  "  | o- x ..............................................."
	  ".. [LUN 0, 1 MiB, ready]\n"
	  "  | | o- store ........................................."
	  ".......... [file /x.img]\n"
	  "  | | o- allow ........................................."
	  ".......... [target: all]\n"
	  "  | | o- 0x1 ..........................................."
	  "............. [10.0.0.1]\n"
	  "  | | o- 0x2 ..........................................."
	  "....... [10.0.0.2 (two)]\n"
	  "  | o- y .................................... [LUN 12, 1"
	  "000 B, ready, read-only]\n"
	  "  |   o- store ........................................."
	  "............... [ram 1M]\n"
	  "  |   o- allow ........................................."
	  "................. [none]\n"
	  "  |   o- 0x2 ..........................................."
	  "....... [10.0.0.2 (two)]\n"
	  "  o- initiators ........................................"
	  ".................... [2]\n"
	  "    o- 0x1 ...................................... [since"
	  " 1970-01-01 00:00:01, x]\n"
	  "    o- 0x2 .................................... [since 1"
	  "970-01-01 00:00:02, x,y]\n" },
	{ "volumes", ctl_look_volumes,
	  "{'volumes':[{'lun':0,'name':'disk','size':1048576,'block_size':512,"
	  "'kind':'file','state':'ready','read_only':true,'allow':['10.0.0.1',"
	  "'10.0.0.2:ro']},{'lun':12,"
	  "'name':'other','size':512,'block_size':4096,'kind':'ram',"
	  "'state':'formatting','progress_percent':40,'seconds_left':61,"
	  "'allow':['all'],'follows_target':true},"
	  "{'lun':13,'name':'ill','size':1049088,'block_size':512,'kind':'file',"
	  "'state':'cannot flush','state_since_ms':1000,'state_error':'Lost',"
	  "'state_end':'until it can','allow':['none']}]}",
	  "LUN  NAME    SIZE  BLOCK  KIND  STATE; FOR WHOM\n"
	  "0    disk   1 MiB    512  file  ready, read-only; for "
	  "10.0.0.1 10.0.0.2:ro\n"
	  "12   other  512 B   4096  ram   formatting, 40 %, "
	  "about 0:01:01 to go; for target: all\n"
	  "13   ill    1 MiB    512  file  cannot flush since "
	  "1970-01-01 00:00:01: Lost, until it can; for none\n" },
	{ "sessions", ctl_look_sessions,
	  "{'total':5,'sessions':[{'initiator':'0x1','address':'a:1',"
	  "'channels':2,'volumes':3,'negotiated':{'mtu':1024,'port_mtu':4096,"
	  "'read_depth':16,'pkey':65535,'sl':3}},{'initiator':'0x2',"
	  "'address':'b:2','name':'backup','channels':1,'volumes':2,'since_ms':1000,"
	  "'volume_names':['a','b']}],'host_names':{'b:2':'host'}}",
	  "INITIATOR  ADDRESS     NAME    LOGIN                CHANNELS  VOLUMES  RDMA\n"
	  "0x1        a:1         -       -                           2  3        MTU "
	  "1024 of 4096, READ depth 16, P_Key 0xffff, SL 3\n"
	  "0x2        b:2 (host)  backup  1970-01-01 00:00:01         1  a,b      -\n"
	  "and 3 more\n" },
	{ "keys", ctl_print_keys,
	  "{'file':'/k','keys':[{'name':'backup','print':'0a1b2c3d',"
	  "'read_only':false},{'name':'web','print':'72e85482',"
	  "'read_only':true}]}",
	  "NAME                             PRINT    RIGHTS\n"
	  "backup                           0a1b2c3d rw\n"
	  "web                              72e85482 ro\n" },
	{ "changes", ctl_print_changes,
	  "{'changes':[{'action':'add','object':'volume disk'},"
	  "{'action':'change','object':'volume disk','field':'size','from':1,"
	  "'to':2},{'action':'restart','object':'target','field':'threads',"
	  "'to':4},{'action':'change','object':'target','field':'log',"
	  "'from':'info'}]}",
	  "add     volume disk\n"
	  "change  volume disk: size: 1 -> 2\n"
	  "restart target: threads: default -> 4 (when the target starts "
	  "again)\n"
	  "change  target: log: \"info\" -> default\n" },
	{ "limits", ctl_print_qos,
	  "{'config':{'backing':[{'name':'disk','layer':[{'plugin':'log'},"
	  "{'plugin':'qos','parameters':{'iops':'100'}}]},{'name':'free'}]}}",
	  "disk iops=100\n" },
	{ "limits as JSON", ctl_print_qos_json,
	  "{'config':{'threads':2,'backing':[{'name':'disk','layer':[{'plugin':"
	  "'log'},{'plugin':'qos','parameters':{'iops':'100'}}]},{'name':"
	  "'free'}]}}",
	  "{\n  \"limits\": [\n    {\n      \"name\": \"disk\",\n"
	  "      \"parameters\": {\n        \"iops\": \"100\"\n      }\n"
	  "    }\n  ]\n}\n" },
	{ "no limits as JSON", ctl_print_qos_json,
	  "{'config':{'backing':[{'name':'free'}]}}",
	  "{\n  \"limits\": []\n}\n" },
	{ "a configuration", ctl_print_config, "{'config':{'a':1}}",
	  "{\n  \"a\": 1\n}\n" },
	{ "JSON in a line", ctl_print_json_line, "{'a':[1,2]}",
	  "{\"a\":[1,2]}\n" },
	{ "JSON", ctl_print_json, "[]", "[]\n" },
	{ "a size", ctl_print_size, "{'size':3221225472}", "3 GiB\n" },
	{ "a size that is not exact", ctl_print_size, "{'size':1049088}",
	  "1 MiB (1049088 bytes)\n" },
	{ "a new volume", ctl_print_added,
	  "{'name':'disk','lun':3,'allow':['all'],'follows_target':true}",
	  "disk is LUN 3, for reads and writes, for target: all\n" },
	{ "a new volume for some to read", ctl_print_added,
	  "{'name':'disk','lun':3,'read_only':true,'allow':['10.0.0.1']}",
	  "disk is LUN 3, read-only, for 10.0.0.1\n" },
	{ "sessions that end", ctl_print_ended, "{'ended':2}",
	  "2 sessions end, as their volumes change\n" },
	{ "a session that ends", ctl_print_ended, "{'ended':1}",
	  "1 session ends, as its volumes change\n" },
	{ "no sessions that end", ctl_print_ended, "{'ended':0}", "" },
	{ "a file", ctl_print_saved, "{'file':'/etc/t.json'}",
	  "saved to /etc/t.json\n" },
	{ "metrics", ctl_print_metrics, "{'text':'a 1\\nb 2\\n'}",
	  "a 1\nb 2\n" },
	{ "an event", ctl_print_event,
	  "{'time_ms':1500000000000,'event':'login','text':'0x1 logs in'}",
	  "2017-07-14 02:40:00 login          0x1 logs in\n" },
};

/* JSON with ' for ". */
static json_t *parse(const char *text)
{
	char *copy = strdup(text);
	json_t *json;

	for (char *p = copy; *p; p++)
		if (*p == '\'')
			*p = '"';
	json = json_loads(copy, JSON_DECODE_ANY, NULL);
	assert_non_null(json);
	free(copy);
	return json;
}

T_ROWS(prints, print_rows)
{
	const struct print_row *row = *state;
	json_t *json = parse(row->json);

	capture();
	row->print(json);
	end_capture();
	assert_string_equal(printed, row->text);
	free(printed);
	json_decref(json);
}

/* ---- top ---- */

/* The answers to GetMetrics, one after the other; then an error. */
static const char *const *answers;

enum ctl_exit ctl_call(const struct ctl_options *opt, const char *method,
		       json_t *in, json_t **ret_out, struct error *e)
{
	assert_string_equal(method, "GetMetrics");
	json_decref(in);
	if (!*answers) {
		error_set(e, -ECONNREFUSED, "the target has gone");
		return CTL_UNREACHABLE;
	}
	*ret_out = parse(*answers++);
	return CTL_DONE;
}

#define VOLUME(what, vol, op, value)                                     \
	"{'name':'rdma_target_volume_" what "','labels':{'volume':'" vol \
	"','op':'" op "'},'value':" value "}"
#define INITIATOR(what, value)                                            \
	"{'name':'rdma_target_initiator_" what "','labels':{'initiator':" \
	"'0x1'},'value':" value "}"
#define TIMES(count)                                                      \
	"{'name':'rdma_target_volume_stage_seconds','labels':{'volume':"  \
	"'a','stage':'backend'},'times':{'buckets':[{'bound_ns':1048576," \
	"'count':" count "}]}}"

static const char *const two_samples[] = {
	"{'metrics':[" VOLUME("commands_total", "a", "read", "100") "," VOLUME(
		"data_bytes_total", "a", "read",
		"4096") "," VOLUME("commands_total", "b", "write",
				   "50") "," TIMES("10") ","
							 "{'name':'rdma_target_sessions','value':1},"
							 "{'name':'other_sessions','value':9},{'name':3}]}",
	"{'metrics':[" VOLUME("commands_total", "a", "read", "100") "," VOLUME(
		"data_bytes_total", "a", "read",
		"4096") "," VOLUME("commands_total", "b", "write",
				   "50") "," TIMES("10") ","
							 "" INITIATOR("credits", "64") "," INITIATOR(
								 "requests_in_flight",
								 "3") ","
								      "{'name':'rdma_target_sessions','value':2},"
								      "{'name':'rdma_target_requests_in_flight','value':3},"
								      "{'name':'rdma_target_buffers_bytes','value':8192},"
								      "{'name':'rdma_target_used_buffers_bytes','value':4096}]}",
	NULL,
};

static enum ctl_exit run_top(const char *const *samples, const char *seconds,
			     const char *count)
{
	const struct ctl_options opt = { 0 };
	char a[16], b[16];
	char *arg[] = { a, b };
	enum ctl_exit code;

	answers = samples;
	snprintf(a, sizeof(a), "%s", seconds);
	snprintf(b, sizeof(b), "%s", count);
	capture();
	code = ctl_top(&opt, arg, 2);
	end_capture();
	return code;
}

T_TEST(top_prints_a_sample_and_ends)
{
	assert_int_equal(run_top(two_samples, "0.1", "1"), CTL_DONE);
	assert_string_equal(
		printed,
		"target sessions 2 in-flight 3 buffers 4096/8192\n"
		"volume a read/s 0 write/s 0 other/s 0 read-MB/s 0.0 "
		"write-MB/s 0.0 queue -/-/- fetch -/-/- backend -/-/- "
		"respond -/-/-\n"
		"volume b read/s 0 write/s 0 other/s 0 read-MB/s 0.0 "
		"write-MB/s 0.0 queue -/-/- fetch -/-/- backend -/-/- "
		"respond -/-/-\n"
		"initiator 0x1 read/s 0 write/s 0 other/s 0 read-MB/s 0.0 "
		"write-MB/s 0.0 queue -/-/- fetch -/-/- backend -/-/- "
		"respond -/-/-\n");
	free(printed);
}

T_TEST(top_ends_with_the_target)
{
	log_level = LOG_ERROR;
	assert_int_equal(run_top(two_samples, "0.1", "9"), CTL_UNREACHABLE);
	assert_non_null(strstr(printed, "target sessions 2"));
	free(printed);
}

T_TEST(top_prints_nothing_without_a_target)
{
	log_level = LOG_ERROR;
	assert_int_equal(run_top(two_samples + 2, "0.1", "9"), CTL_UNREACHABLE);
	assert_string_equal(printed, "");
	free(printed);
}

static const struct usage_row {
	const char *name;
	const char *seconds;
	const char *count;
} usage_rows[] = {
	{ "no time", "0", "1" },
	{ "too short", "0.09", "1" },
	{ "too long", "3601", "1" },
	{ "not a number", "soon", "1" },
	{ "a number and more", "1s", "1" },
	{ "NaN", "nan", "1" },
	{ "no samples", "1", "0" },
	{ "minus one", "1", "-1" },
	{ "half a sample", "1", "1.5" },
	{ "nothing", "1", "" },
};

T_ROWS(top_refuses, usage_rows)
{
	const struct usage_row *row = *state;

	assert_int_equal(run_top(two_samples, row->seconds, row->count),
			 CTL_REFUSED);
	assert_string_equal(printed, "");
	free(printed);
}

/* ---- differences ---- */

static const struct difference_row {
	const char *name;
	struct top_view view;
	const char *order; /* the names */
} difference_rows[] = {
	{ "by name", { .column = TOP_BY_NAME }, "aa ab b " },
	{ "by name, reversed",
	  { .column = TOP_BY_NAME, .reverse = true },
	  "b ab aa " },
	{ "the busiest first", { .column = TOP_BY_COMMANDS }, "ab b aa " },
	{ "the most reads first", { .column = TOP_BY_READS }, "ab b aa " },
	{ "the most writes first", { .column = TOP_BY_WRITES }, "b aa ab " },
	{ "the most bytes read", { .column = TOP_BY_READ_BYTES }, "aa ab b " },
	{ "the most bytes written",
	  { .column = TOP_BY_WRITE_BYTES },
	  "ab aa b " },
	{ "the longest time",
	  { .column = TOP_BY_TIME, .permille = 1000 },
	  "b aa ab " },
	{ "filtered", { .column = TOP_BY_READS, .filter = "a" }, "ab aa " },
	{ "initiators", { .kind = TOP_SESSIONS }, "" },
};

T_ROWS(difference, difference_rows)
{
	const struct difference_row *row = *state;
	struct top_row from[] = { { .name = "aa", .reads = 90 },
				  { .name = "b", .reads = 1000 } };
	/* b: the target was started again, and counts from 0. */
	struct top_row to[] = {
		{ .name = "b", .reads = 20, .writes = 9 },
		{ .name = "aa", .reads = 100, .writes = 1, .read_bytes = 5 },
		{ .name = "ab", .reads = 30, .write_bytes = 7 },
	};
	const struct top_sample before = { .rows[TOP_VOLUMES] = { from, 2 } };
	const struct top_sample now = { .rows[TOP_VOLUMES] = { to, 3 } };
	struct top_rows rows;
	char order[256] = "";

	to[0].stage[1].bucket[100] = 1;
	assert_int_equal(top_difference(&before, &now, &row->view, &rows), 0);
	for (size_t i = 0; i < rows.cnt; i++) {
		const struct top_row *r = &rows.row[i];

		snprintf(order + strlen(order), sizeof(order) - strlen(order),
			 "%s ", r->name);
		assert_int_equal(r->reads, !strcmp(r->name, "aa")   ? 10
					   : !strcmp(r->name, "ab") ? 30
								    : 20);
	}
	assert_string_equal(order, row->order);
	free(rows.row);
}

T_TEST(total_has_all_rows)
{
	struct top_row two[] = {
		{ .name = "a", .reads = 1, .write_bytes = 5, .in_flight = 2 },
		{ .name = "b", .reads = 2, .others = 3, .in_flight = 4 },
	};
	const struct top_rows rows = { two, 2 };
	struct top_row total;

	two[0].stage[2].bucket[9] = two[1].stage[2].bucket[9] = 7;
	top_total(&rows, &total);
	assert_string_equal(total.name, "total");
	assert_int_equal(total.reads, 3);
	assert_int_equal(total.others, 3);
	assert_int_equal(total.write_bytes, 5);
	assert_int_equal(total.in_flight, 6);
	assert_int_equal(total.stage[2].bucket[9], 14);
}

T_TEST(times_have_units)
{
	char text[TOP_TIME_SIZE];

	assert_string_equal(top_time_text(0, text), "-");
	assert_string_equal(top_time_text(1, text), "1us");
	assert_string_equal(top_time_text(9999000, text), "9999us");
	assert_string_equal(top_time_text(10000000, text), "10ms");
	assert_string_equal(top_time_text(10000000000, text), "10s");
}

int main(void)
{
	setenv("TZ", "UTC", 1);
	return t_run();
}
