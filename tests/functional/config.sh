#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The configuration file of rdma-target, and the schema that describes it.
. "$(dirname "$0")/lib.sh"
if [ ! -e "$BUILD/ctl/rdma-ctl" ]; then
	# --check must not be taken as short for --check-plugin, which writes.
	head -c 1M /dev/urandom >"$T/checked"
	cp "$T/checked" "$T/before"
	t_refused 'without jansson, a configuration is refused' \
		'built without jansson' rdma-target --check "$T/checked"
	t_check 'and not written' cmp "$T/checked" "$T/before"
	t_done
fi
SCHEMA=$BUILD/docs/rdma-target.schema.json
P=$BUILD/plugins
export RDMA_BLOCK_PLUGIN_PATH=$P/srp:$P/qos:$P/log LD_LIBRARY_PATH=$BUILD/initiator

# file TEXT: writes a configuration file; @ in TEXT stands for the scratch
# directory
file() { printf '%s\n' "$1" | sed "s|@|$T|g" >"$T/c.json"; }

# schema_says: true if the file conforms to the schema; its comments are removed
schema_says() {
	sed 's/^[[:space:]]*\(#\|\/\/\).*//' "$T/c.json" >"$T/plain.json"
	python3 -W ignore - "$SCHEMA" "$T/plain.json" <<-'END'
		import json, sys, jsonschema
		jsonschema.Draft7Validator(json.load(open(sys.argv[1]))).validate(
		    json.load(open(sys.argv[2])))
	END
}
schema_says_no() { ! schema_says; }
has_jsonschema() { python3 -c 'import jsonschema' 2>/dev/null; }

# good NAME TEXT: the target and the schema accept this file
good() {
	file "$2"
	t_check "$1: is taken" rdma-target --check "$T/c.json"
	if has_jsonschema; then
		t_check "$1: the schema says so" schema_says
	fi
}

# bad NAME PATTERN TEXT: the target and the schema refuse this file
bad() {
	file "$3"
	t_refused "$1: is refused" "c.json:$2" rdma-target --check "$T/c.json"
	if has_jsonschema; then
		t_check "$1: the schema says so" schema_says_no
	fi
}

# The example of the manual page.
example() {
	sed -n '/^```/,/^```/p' "$(dirname "$0")/../../docs/rdma-target.json.5.scd" |
		grep -v '^```'
}

good 'the example of the manual page' "$(example)"
good 'all kinds of values' '{ "threads": "2", "buffers": 67108864,
	"no-sandbox": true, "allow": "all", "backing": [
	{ "store": "srp:x", "block-size": "4k", "removable": false,
	  "parameters": { "wait": 1 }, "layer": [ "log",
	    { "plugin": "qos", "parameters": { "iops": "5" } } ] } ] }'
bad 'a key that is nearly one' "2: max-login: no key.*'max-logins'" '{
	"max-login": 3 }'
bad 'a key of volumes that is none' '3: backing\[0\].nmae: no key' '{
	"backing": [ { "store": "a",
		"nmae": "a" } ] }'
bad 'a volume without a store' "2: backing\[0\]: a volume needs 'store'" '{
	"backing": [ { "name": "a" } ] }'
bad 'a number that is too large' '1: threads: .*from 1 to' '{ "threads": 999 }'
bad 'a flag that is a text' '1: no-sandbox: .*true or false' \
	'{ "no-sandbox": "yes" }'
# Rules that a schema cannot express.
refused() { # NAME PATTERN TEXT
	file "$3"
	t_refused "$1" "c.json:$2" rdma-target --check "$T/c.json"
}
refused 'a name that is given twice is refused' \
	"3: backing\[1\].name: backing\[0\] has the name 'a'" '{
	"backing": [ "ram:1M,name=a",
		"ram:2M,name=a" ] }'
refused 'so is a LUN' '3: backing\[1\].lun: backing\[0\] is LUN 3' '{ "backing": [
	{ "store": "a", "lun": 3 }, { "store": "b",
	"lun": 3 } ] }'
refused 'so is a store plugin that is not there' \
	"2: backing\[0\]: there is no plugin 'nosuch': .*mean a file" '{ "backing":
	[ "nosuch:x" ] }'
refused 'so is a layer that is not there' \
	"1: backing\[0\]: there is no plugin 'nosuch': [^;]*$" \
	'{ "backing": [ "ram:1M,layer=nosuch" ] }'
refused 'so is the layer that was removed' \
	"1: backing\[0\].layer\[0\]: .*was removed; use dm-integrity" \
	'{ "backing": [ { "store": "a", "layer": [ { "plugin": "crc32c",
	"parameters": { "sums": "b", "init": "on" } } ] } ] }'
refused 'so is a parameter that the plugin does not have' \
	"1: backing\[0\]: no parameter 'iopz'" \
	'{ "backing": [ "ram:1M,layer=qos,iopz=3" ] }'
refused 'so is a store as a layer' '1: backing\[0\]: plugin srp is a store' \
	'{ "backing": [ "ram:1M,layer=srp" ] }'
refused 'so is a user that is not there' "2: user: .*there is no such user" '{
	"user": "no-such-user", "backing": [ "ram:1M" ] }'
refused 'so is a port of metrics that is too large' '1: metrics: .*1 to 65535' \
	'{ "metrics": "127.0.0.1:99999", "backing": [ "ram:1M" ] }'
refused 'so is one that is no number' '1: metrics: .*not ADDR:PORT' \
	'{ "metrics": "9560x", "backing": [ "ram:1M" ] }'
refused 'so is an address of metrics that is none' '1: metrics: .*not ADDR:PORT' \
	'{ "metrics": "localhost.:9560", "backing": [ "ram:1M" ] }'
refused 'so are buffers that do not suffice for the threads' \
	'3: buffers: 4 MiB is too small for 2 threads, give at least 4M for each' '{
	"threads": 2,
	"buffers": "4M", "backing": [ "ram:1M" ] }'
t_refused 'the command line is told with its own words' \
	'--buffers: 4 MiB is too small' rdma-target --threads 2 --buffers 4M --backing ram:1M
t_refused 'a target that would listen elsewhere does not start' '1 to 65535' \
	timeout 10 rdma-target --listen srp+tcp://127.0.0.1:1 --metrics 99999 --backing ram:1M
for addr in 9560 127.0.0.1:9560 '[::1]:9560' ::1:9560 '[fe80::1%lo]:9560'; do
	file '{ "metrics": "'$addr'", "backing": [ "ram:1M" ] }'
	t_check "metrics at $addr are taken" rdma-target --check "$T/c.json"
done
file '{ "backing": [ "ram:1M" ] }'
t_check 'a file without an address does not count none' grep -qx \
	'.*c.json: correct: 1 volume, listens by default' \
	<(rdma-target --check "$T/c.json")
bad 'an option of the command line' '1: config: .*command line' \
	'{ "config": "x" }'

file '{ "a": 1,
 "a": 2 }'
t_refused 'a key twice is refused' 'c.json:2: not JSON: duplicate' \
	rdma-target --check "$T/c.json"
t_refused 'a directory is refused' 'not a regular file' rdma-target --check "$T"
t_refused 'a file that cannot be read is refused' 'mem: Input/output error' \
	rdma-target --check /proc/self/mem
t_refused 'no file is refused' 'No such file' rdma-target --config "$T/none"

file '{}'
t_refused 'an empty file serves nothing' 'nothing to serve' \
	rdma-target --config "$T/c.json"
t_refused 'which --check says, too' 'c.json: there is nothing to serve' \
	rdma-target --check "$T/c.json"
t_check 'with --control it is right' rdma-target --control "$T/control" \
	--check "$T/c.json"

# ---- a target with a configuration file

has_volumes() { # NAME...
	rdma-info "$URI" | tee "$T/info" >&2
	for name; do
		grep -qw "$name" "$T/info" || return 1
	done
}

file '{ "max-logins": 7, "threads": 1,
  # a volume that the file has
  "backing": [ { "store": "ram:1M", "name": "filed", "lun": 5 } ] }'
t_target --config "$T/c.json" --backing ram:2M,name=added
t_check 'the command line adds to the volumes of the file' \
	has_volumes filed added
kill "$T_TARGET"
wait "$T_TARGET"
t_refused 'a value of the command line replaces that of the file' \
	'buffers: 4 MiB is too small' \
	rdma-target --config "$T/c.json" --threads 2 --buffers 4M

# ---- config/, which rdma-ctl shares with the target

shares_nothing_else() {
	nm "$BUILD/ctl/rdma-ctl" | awk '{ print $NF }' >"$T/names"
	grep -qx config_check_volume "$T/names" &&
		! grep -E '^(backend|block|reactor|store|io_uring|ibv)_' "$T/names" >&2
}
t_check 'rdma-ctl has no store, reactor or ring' shares_nothing_else
t_done
