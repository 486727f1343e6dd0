#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# rdma-ctl and the control socket of a running target: volumes are added and
# removed while others are used, configurations, refusals, and malicious
# clients.
. "$(dirname "$0")/control_lib.sh"

# raw PYTHON: runs lines that have a connected socket s and a function
# call(method, {})
raw() {
	timeout 60 python3 - "$S" <<-END
		import json, socket, sys, time
		def connect():
		    s = socket.socket(socket.AF_UNIX)
		    s.connect(sys.argv[1])
		    return s
		def receive(s):
		    b = b''
		    while not b.endswith(b'\0'):
		        d = s.recv(65536)
		        if not d:
		            return None
		        b += d
		    return json.loads(b[:-1])
		def call(method, parameters={}, s=None):
		    s = s or connect()
		    s.sendall(json.dumps({"method": method,
		        "parameters": parameters}).encode() + b'\0')
		    return receive(s)
		I = "org.rdmablock.target."
		$1
	END
}

truncate -s 8M "$T/file"
truncate -s 4M "$T/late"
truncate -s 1M "$T/ill.img"
cat >"$T/c.json" <<-END
	# a comment
	{ "max-logins": 500,
	  "backing": [ { "store": "ram:64M", "name": "stays" },
	    { "store": "$T/file", "name": "grows" } ] }
END
t_target --config "$T/c.json" --control "$S" --threads 2

# ---- queries

t_check 'status tells of the target' grep -q 'rdma-target .*process' <(ctl status)
t_check 'the volumes are listed' shows stays grows
ctl show >"$T/shown.json"
t_check 'show prints what check takes' rdma-ctl check "$T/shown.json"
check_in_json() { rdma-ctl --json check "$T/shown.json" | python3 -m json.tool; }
t_check 'with --json it answers in JSON' check_in_json
t_check 'that is no difference' exits 0 ctl diff "$T/shown.json"
t_check 'nor is the file' exits 0 ctl diff "$T/c.json"

# exposition [ARG]...: reads the target's metrics
exposition() {
	ctl metrics >"$T/metrics" &&
		python3 "${0%/*}/exposition.py" "$@" <"$T/metrics"
}
commands() {
	exposition --sum rdma_target_commands_total
}
more_commands() {
	local before
	before=$(commands)
	rdma-info "$URI" >/dev/null && [ "$(commands)" -gt "$before" ]
}
t_check 'metrics are as Prometheus wants them' exposition
t_check 'they count' more_commands

# ---- refusals, each with its own error

t_refused 'an unknown volume is named' "volume 'none': there is no volume" \
	ctl volume remove none
t_refused 'a store that is not there is named' "volume '$T/none': .*not exist" \
	ctl volume add "$T/none"
t_refused 'a name that is taken is refused' "two volumes have the name 'stays'" \
	ctl volume add ram:1M,name=stays
t_refused 'a LUN that is taken is refused' 'both LUN 0' \
	ctl volume add ram:1M,name=other,lun=0
t_refused 'a store that is taken is refused' 'is given twice' \
	ctl volume add "$T/file,name=again"
t_refused 'a bad SPEC is refused' "volume 'ram:x': .*not a size" ctl volume add ram:x
t_refused 'a smaller size is refused' 'become smaller' ctl volume resize grows 1M
t_refused 'a size that is none is refused' "size: 'abc' is not a size" \
	ctl volume resize grows abc
t_refused 'a log level that is none is refused' "'loud' is not error, warning" \
	ctl loglevel loud
t_refused 'memory does not grow' 'by its own means' ctl volume resize stays 1G
t_refused 'a volume without removable is not ejected' 'cannot be removed' \
	ctl volume eject stays
t_refused 'a name is no address of a target that serves' \
	"'localhost': a target that serves looks up no names; give an IP address" \
	ctl listen add srp+tcp://localhost:1
t_check '... and its port is not kept as one of this target' \
	test ! -e "$STATE_DIRECTORY/$T_PORT/port.1"
t_refused 'an initiator that is not there is refused' 'not logged in' \
	ctl session kick 0x00000000000000000000000000000001
t_check 'nothing has changed by all that' shows stays grows
t_check 'a verb that there is not is wrong usage' exits 1 ctl volume destroy x
t_check 'the nearest one is named' grep -q "no verb 'volume lst'; did you mean 'volume list'?" \
	<(ctl volume lst 2>&1)
t_check 'also of one word' grep -q "no verb 'aply'; did you mean 'apply'?" \
	<(ctl aply x.json 2>&1)
t_check 'half of a verb is told how to go on' \
	grep -q "after 'session' comes one of: list, kick;" <(ctl session 2>&1)
t_check 'a missing argument is wrong usage' exits 1 ctl volume remove
t_check 'so is a parameter without a value' exits 1 ctl volume set stays qos iops
t_check 'a dry run is not taken for a removal' exits 1 \
	ctl --dry-run volume remove grows
t_check 'nor --prune for save' exits 1 ctl --prune save
t_check 'nor --force for a list' exits 1 ctl --force volume list
t_check 'nothing has changed by these either' shows stays grows
t_check 'no target is told apart' exits 3 rdma-ctl --control "$T/no" status

# A stopped process does not answer.
is_stopped() { grep -q '^State:.T' "/proc/$T_TARGET/status"; }
told_of_silence() {
	exits 3 ctl --timeout 0.5 status 2>"$T/silence"
	cat "$T/silence"
	[ "$(wc -l <"$T/silence")" = 1 ] && grep -q 'does not answer' "$T/silence"
}
kill -STOP "$T_TARGET"
t_wait_for 10 is_stopped
t_check 'a target that is stopped is told apart' told_of_silence
kill -CONT "$T_TARGET"
t_check 'it answers when it goes on' ctl status

fails_in_new_dir() {
	! rdma-target --strict --backing "$T/none" --control "$T/made/control" 2>/dev/null &&
		[ ! -e "$T/made" ] &&
		! rdma-target --backing ram:1M --listen srp+tcp://127.0.0.1:1 \
			--user nosuchuser --control "$T/made/control" 2>/dev/null &&
		[ ! -e "$T/made" ]
}
t_check 'a start that fails leaves no directory' fails_in_new_dir
t_refused 'a file is not replaced by a socket' 'is not a socket' \
	rdma-target --backing ram:1M --listen srp+tcp://127.0.0.1:1 --state-dir none \
	--control "$T/file"

# ---- volumes, without any login

t_check 'a volume is added' exits 0 ctl volume add "$T/late,name=late,ro"
t_check 'initiators see it' sees late
lun_of() { volume_list >/dev/null && awk -v n="$1" '$2 == n { print $1 }' "$T/list"; }
late_lun=$(lun_of late)
t_check 'it is removed' exits 0 ctl volume remove late
t_check 'initiators see it no more' sees_not late
ctl volume add ram:1M,name=other >/dev/null
t_check 'the list is in the order of LUNs' sort -nc <(volume_list | awk '{ print $1 }' |
	tail -n +2)
t_check 'another volume does not get its LUN' \
	[ "$(lun_of other)" -gt "$late_lun" ]
ctl volume remove other >/dev/null
add_here() { (cd "$T" && ctl volume add late,name=late); }
t_check 'its file can be used again, by the directory of rdma-ctl' add_here
t_check 'the whole path is known' grep -q "\"store\": \"$T/late\"" <(ctl show)
t_check 'it grows' exits 0 ctl volume resize late 6M
sees_6M() {
	[ "$(stat -c %s "$T/late")" = 6291456 ] &&
		rdma-info "$URI" | grep -w late | grep -Eq '6(\.0)? MiB'
}
t_check 'the file is larger, and the volume' sees_6M
truncate -s 7M "$T/late"
t_check 'a store that has grown is looked at' exits 0 ctl volume resize late
mv "$T/late" "$T/moved" && truncate -s 1M "$T/late"
t_refused 'another file at its path is not resized' 'not the one that is served' \
	ctl volume resize late 8M
t_check 'and has the size that it had' [ "$(stat -c %s "$T/late")" = 1048576 ]
mv "$T/moved" "$T/late"
t_check 'and removed again' exits 0 ctl volume remove late

# ---- a volume that cannot be flushed

add_bad() { ctl volume add "$T/late,name=bad,fault=flush:error" >/dev/null; }
add_bad
t_refused 'a volume that cannot be flushed is not removed' \
	"volume 'bad': it cannot be flushed: .*--force" ctl volume remove bad
ctl volume add ram:1M,name=before >/dev/null
ctl volume remove --force bad >/dev/null
add_bad
t_refused 'nor by --prune' "volume 'bad': it cannot be flushed: .*--force" \
	ctl apply --prune "$T/c.json"
t_check 'it is still there, and one that was to go before it' shows stays grows before bad
ctl volume remove before >/dev/null
t_check 'with --force it is' warned "volume 'bad' .*; it could not be flushed" \
	ctl volume remove --force bad
t_check 'the log tells' t_wait_for 10 \
	grep -q "'bad' is removed, but could not be flushed" "$T/target.log"
add_bad
t_check 'so it is by --prune' exits 0 ctl apply --prune --force "$T/c.json"
t_check 'it is gone' shows stays grows

# ---- parameters of plugins

t_check 'a volume with a limit is added' exits 0 \
	ctl volume add ram:1M,name=slow,layer=qos,iops=100
t_check 'the limit is changed' exits 0 ctl volume set slow qos iops=700
t_check 'show tells' grep -q '"iops": "700"' <(ctl show)
t_refused 'a parameter that there is not is refused' "volume 'slow': qos: .*iopz" \
	ctl volume set slow qos iopz=1
t_refused 'a plugin that there is not is refused' 'no such plugin' \
	ctl volume set slow log iops=1
t_check 'the limit is what it was' grep -q '"iops": "700"' <(ctl show)
t_check 'qos is short for it' exits 0 ctl qos slow iops=900 burst=50
t_check 'qos lists the limits' grep -qx 'slow iops=900 burst=50' <(ctl qos)
limits_of() { # VOLUME: as --json lists them, with the names of all keys
	ctl --json qos | python3 -c '
import json, sys
a = json.load(sys.stdin)
print(list(a), [v["parameters"] for v in a["limits"] if v["name"] == sys.argv[1]])
' "$1"
}
t_check 'so it does with --json, and nothing else' test "$(limits_of slow)" = \
	"['limits'] [{'iops': '900', 'burst': '50'}]"
t_check 'a limit without a value is wrong usage' exits 1 ctl qos slow iops
t_check 'a volume alone shows its limits' grep -qx 'slow iops=900 burst=50' <(ctl qos slow)
t_refused 'a volume without limits gets none' 'no such plugin' ctl qos stays iops=1
t_check 'the volume is removed' exits 0 ctl volume remove slow

# ---- faults

t_check 'a volume with a fault is added' exits 0 \
	ctl volume add ram:1M,name=faulty,fault=write:error:count=1
t_check 'its faults are replaced' exits 0 ctl fault faulty read:delay=1 write:error=ENOSPC
t_check 'show tells the faults' grep -q '"write:error=ENOSPC"' <(ctl show)
t_check 'the list counts them' grep -q 'faulty .*2 faults' <(ctl volume list)
t_refused 'a fault that is none is refused' "volume 'faulty': fault: .*" \
	ctl fault faulty read:nonsense
t_check 'the faults are what they were' grep -q 'faulty .*2 faults' <(ctl volume list)
t_refused 'a volume without faults gets none' 'was added without a fault' \
	ctl fault stays read:error
t_check 'without a rule they are shown' test "$(ctl fault faulty | xargs)" = \
	'read:delay=1 write:error=ENOSPC'
t_check 'and stay' grep -q 'faulty .*2 faults' <(ctl volume list)
t_check 'faults go' exits 0 ctl fault faulty none
has_no_fault() { ! ctl show | grep -q '"fault"'; }
t_check 'none is left' has_no_fault
t_check 'the volume with faults is removed' exits 0 ctl volume remove faulty

# ---- addresses

other_port() { OTHER=srp+tcp://127.0.0.1:$((20000 + RANDOM % 12000)); }
listens_anew() {
	local try
	for try in 1 2 3 4 5; do
		other_port
		ctl listen add "$OTHER" && return
	done
	return 1
}
t_check 'an address is added' listens_anew
t_check 'status shows it' grep -q "$OTHER" <(ctl status)
t_check 'initiators come by it' rdma-info "$OTHER"
t_check 'and by the other one' rdma-info "$URI"
t_refused 'an address twice is refused' 'listens there already' ctl listen add "$OTHER"
t_refused 'an address that is not here is refused' 'does not have that address' \
	ctl listen add srp+tcp://192.0.2.77
t_refused 'so is a name' 'cannot listen on' ctl listen add srp+tcp://nosuchhost.invalid
t_refused 'so is an interface' 'looks up no interface' \
	ctl listen add 'srp+tcp://[fe80::1%lo]:5999'
t_refused 'so is what is no address' 'only an address' ctl listen add srp://a/b
is_in_config() { ctl show | grep -q "\"$OTHER\""; }
t_check 'the configuration has it' is_in_config
ctl show >"$T/listens.json"
t_check 'that is no difference' exits 0 ctl diff --prune "$T/listens.json"
t_check 'it goes' exits 0 ctl listen remove "$OTHER"
comes_no_more() { ! rdma-info "$OTHER"; }
t_check 'initiators come by it no more' comes_no_more
t_check 'the other one stays' rdma-info "$URI"
t_refused 'it is gone' 'does not listen there' ctl listen remove "$OTHER"
t_refused 'the last one does not go' 'the only one' ctl listen remove "$URI"
t_check 'apply adds it' exits 0 ctl apply "$T/listens.json"
t_check 'initiators come by it again' rdma-info "$OTHER"
ctl show | grep -v "$OTHER" | sed "s|\"$URI\",|\"$URI\"|" >"$T/unlistens.json"
t_check 'apply --prune removes it' exits 0 ctl apply --prune "$T/unlistens.json"
t_check 'it is not listened on' comes_no_more

# ---- events

ctl events >"$T/events" 2>"$T/events.err" &
events=$!
t_pids="$t_pids $events"
ctl --json events >"$T/events.json" 2>/dev/null &
t_pids="$t_pids $!"
t_wait_for 10 grep -q begin "$T/events"
t_wait_for 10 grep -q begin "$T/events.json"
rdma-info "$URI" >/dev/null
ctl volume add ram:1M,name=eventful >/dev/null
ctl volume remove eventful >/dev/null
told() { t_wait_for 10 grep -Eq "$1" "$T/events"; }
t_check 'a login is an event' told 'login +login of 0x'
t_check 'so is a logout' told 'logout +logout of 0x'
t_check 'so is a volume that comes' told "volume-added +volume 'eventful' is served"
t_check 'so is one that goes' told "volume-removed +volume 'eventful'"
events_are_json() {
	python3 -c 'import json, sys
all = [json.loads(line) for line in open(sys.argv[1])]
added = [e for e in all if e["event"] == "volume-added"]
assert added[0]["volume"] == "eventful" and added[0]["lun"] >= 0, added
assert [e for e in all if e["event"] == "login"][0]["nexus"].startswith("0x")
assert [e for e in all if e["event"] == "login"][0]["initiator"].startswith("0x")
' "$T/events.json"
}
told_json() { t_wait_for 10 grep -q volume-removed "$T/events.json" && events_are_json; }
t_check 'programs get objects' told_json
ctl volume add "$T/ill.img,name=ill,removable,fault=flush:error" >/dev/null
ctl volume eject ill >/dev/null 2>&1
t_check 'so is a volume that cannot flush' told \
	'volume-state +LUN [0-9]+ \(ill\): cannot flush: Input/output error, until'
ctl volume list >"$T/list"
t_check 'the list says since when, why, and what ends it' grep -Eq \
	'cannot flush since 20[-0-9: ]+: Input/output error, until the volume is removed' "$T/list"
ctl status >"$T/status"
t_check 'the status names it' grep -q '; not ready: ill$' "$T/status"
ctl metrics >"$T/metrics"
t_check 'so do the metrics' eval \
	"grep -q '^rdma_target_volume_ready{volume=\"ill\"} 0$' \"$T/metrics\" &&
	grep -q 'volume_errors_total{volume=\"ill\",op=\"flush\"} 1$' \"$T/metrics\" &&
	grep -q 'volume_state_since_seconds{volume=\"ill\",state=\"cannot flush\"}' \"$T/metrics\""
ctl volume remove --force ill >/dev/null
ctl volume add ram:1M,name=changes,layer=qos,iops=100,fault=read:error:lba=9 >/dev/null
ctl qos changes iops=200 >/dev/null
ctl fault changes none >/dev/null
ctl volume allow changes 10.9.9.9 >/dev/null
ctl allow 10.9.9.9 >/dev/null
ctl allow all >/dev/null
t_check 'so is a limit that changes' told "config +configuration: change volume 'changes': qos"
t_check 'so are faults' told "config +configuration: change volume 'changes': fault"
t_check 'so are rules of a volume, from what to what' told \
	"config +configuration: change volume 'changes': allow: as the target -> 10.9.9.9$"
t_check 'so are rules of the target' told \
	'config +configuration: change target: allow: 10.9.9.9 -> all$'
ctl volume remove changes >/dev/null
kill "$events"
needs_more() {
	raw 'r = call(I + "FollowEvents")
assert r["error"] == "org.varlink.service.ExpectedMore", r'
}
t_check 'events need a client that wants more' needs_more

# ---- rules

t_check 'rules are replaced' exits 0 ctl allow 10.9.9.9
t_check 'who is not allowed gets in no more' sees_not stays
t_check 'a rule that is no text is refused' exits 1 ctl allow "$(printf '10.0.0.9\351')"
t_check 'the rules stay' sees_not stays
t_check 'without a rule they are shown' test "$(ctl allow)" = 10.9.9.9
t_check 'and stay' sees_not stays
t_refused 'an empty rule is refused' "target: allow: '': a rule is" ctl allow ''
t_check 'and opens nothing' sees_not stays
t_check 'no rule of a client is nobody' raw 'r = call(I + "SetAllow", {"rules": []})
assert "parameters" in r, r'
t_check 'which is shown' test "$(ctl allow)" = none
t_check 'nobody gets in' sees_not stays
t_check 'everybody may come in by the word' exits 0 ctl allow all
t_check 'everybody gets in' sees stays
t_check 'a volume has its own' exits 0 ctl volume allow grows 10.9.9.9
t_check 'it is hidden' sees_not grows
t_check 'without a rule they are shown' test "$(ctl volume allow grows)" = 10.9.9.9
t_check 'those of the target are told apart' test "$(ctl volume allow stays)" = 'target: all'
t_check 'also in JSON' grep -q '"follows_target": true' <(ctl --json volume allow stays)
t_check 'the list tells who may use a volume' grep -q 'grows .*; for 10.9.9.9$' <(ctl volume list)
t_check 'and who follows the target' grep -q 'stays .*; for target: all$' <(ctl volume list)
t_refused 'a volume that is not there has no rules' "volume 'none': there is no volume" \
	ctl volume allow none
t_check 'it is still hidden' sees_not grows
t_check 'everybody may use it by the word' exits 0 ctl volume allow grows all
t_check 'it is seen' sees grows

# ---- files

cat >"$T/d.json" <<-END
	{ "max-logins": 400, "backing": [ "ram:1M,name=x", "ram:1M,name=y",
	  "$T/file,name=grows" ] }
END
cp "$T/d.json" "$T/bad.json"
sed -i 's|"ram:1M,name=y"|"/none/such"|' "$T/bad.json"
t_check 'diff tells that there are differences' exits 4 ctl diff "$T/d.json"
t_check 'a dry run changes nothing' exits 0 ctl apply --dry-run "$T/d.json"
t_check 'it did not' shows stays grows
t_refused 'a file of which one volume cannot be opened is refused' '/none/such' \
	ctl apply "$T/bad.json"
t_check 'none of its volumes is there' shows stays grows
plan_is_whole() {
	exits 1 ctl apply --dry-run "$T/bad.json" >"$T/plan" 2>&1
	local as_wanted=$?
	cat "$T/plan"
	[ $as_wanted = 0 ] && grep -qx "add     volume 'x'" "$T/plan" &&
		grep -qx "refused volume '/none/such': store: No such file or directory" "$T/plan" &&
		grep -qx 'rdma-ctl: error: 1 of these stands in the way: nothing would change' "$T/plan"
}
t_check 'a plan has all of it, and what stands in the way' plan_is_whole
t_check 'a file is applied' exits 0 ctl apply "$T/d.json"
t_check 'its volumes are there, and the others' shows stays grows x y
t_check 'applying it again changes nothing' exits 0 ctl diff "$T/d.json"
t_check 'with --prune the others go' exits 0 ctl apply --prune "$T/d.json"
t_check 'they are gone' shows grows x y
sed 's/"ram:1M,name=x"/"ram:2M,name=x"/' "$T/d.json" >"$T/e.json"
t_refused 'another store under the same name is refused' \
	"volume 'x': store: it cannot change" ctl apply "$T/e.json"
sed 's/"ram:1M,name=x"/"ram:1M,name=x,layer=qos,iops=1"/' "$T/d.json" >"$T/e.json"
t_refused 'a layer does not come while the volume is served' \
	"volume 'x': layer: it cannot change" ctl apply "$T/e.json"
ctl volume add ram:1M,name=q,layer=qos,iops=100 >/dev/null
limits_apply() { # LIMITS
	echo "{ \"backing\": [ \"ram:1M,name=q,layer=qos,$1\" ] }" >"$T/q.json"
	exits 0 ctl apply "$T/q.json" && [ "$(ctl qos q)" = "q $(tr , ' ' <<<"$1")" ] &&
		exits 0 ctl diff "$T/q.json"
}
t_check 'limits of a layer change by apply, too' limits_apply iops=200,bps=1000000
echo '{ "backing": [ "ram:1M,name=q,layer=qos,iops=300" ] }' >"$T/q.json"
t_refused 'one that the file leaves out is refused' "volume 'q': layer: it cannot change" \
	ctl apply "$T/q.json"
ctl volume remove q
old_generation_is_refused() {
	raw 'r = call(I + "Apply", {"config": {}, "generation": 1})
assert r["error"] == I + "Refused", r
assert r["parameters"]["field"] == "generation", r'
}
t_check 'who has not seen the last change is refused' old_generation_is_refused

cp "$T/c.json" "$T/before.json"
t_check 'the configuration is saved' exits 0 ctl save
t_check 'the version before is kept' cmp "$T/c.json.1" "$T/before.json"
t_check 'what was saved is no difference' exits 0 ctl diff --prune "$T/c.json"
saved_has_no_socket() { ! grep -q control "$T/c.json"; }
t_check 'the command line is not saved' saved_has_no_socket
for i in 1 2 3 4; do
	ctl volume add "ram:1M,name=n$i" >/dev/null
	ctl save >/dev/null
done
t_check 'four versions are there, and no more' \
	[ "$(echo "$T"/c.json*)" = "$T/c.json $T/c.json.1 $T/c.json.2 $T/c.json.3" ]

is_link_to() { [ "$(readlink "$1")" = "$2" ] && cmp "$2" "$1"; }
mkdir "$T/real"
mv "$T/c.json" "$T/real/c.json"
ln -s "$T/real/c.json" "$T/c.json"
ctl volume add ram:1M,name=linked >/dev/null
t_check 'a file behind a link is saved' exits 0 ctl save
t_check 'the link stays' is_link_to "$T/c.json" "$T/real/c.json"
t_check 'the file behind it is the new one' grep -q linked "$T/real/c.json"
t_check 'the version before is beside it' test -e "$T/real/c.json.1"
ctl volume remove linked >/dev/null

# ---- SIGHUP

cat >"$T/c.json" <<-END
	{ "backing": [ "ram:1M,name=reloaded" ] }
END
kill -HUP "$T_TARGET"
t_check 'a hang-up signal applies the file' t_wait_for 10 sees reloaded
echo '{ "backing": ' >"$T/c.json"
kill -HUP "$T_TARGET"
t_check 'a file that is cut off is not applied' t_wait_for 10 \
	grep -q 'not applied: .*c.json:[0-9]*: not JSON' "$T/target.log"
t_refused 'reload tells of it' 'configuration: .*c.json:[0-9]*: not JSON' ctl reload
t_refused 'save does not replace it' 'c.json:.* what is there would be lost' ctl save
t_refused 'nor is a target started with it' 'the version before: cp ' \
	rdma-target --config "$T/c.json"
t_check 'the target goes on' shows grows x y n1 n2 n3 n4 reloaded
t_check 'with --force it is replaced' exits 0 ctl save --force
echo '{ "backing": [ "ram:1M,name=again" ] }' >"$T/c.json"
t_check 'reload applies the file' exits 0 ctl reload
t_check 'it has' shows grows x y n1 n2 n3 n4 reloaded again

# ---- malicious clients

deep_nesting() {
	raw 's = connect()
s.sendall(b"{\"method\":" + b"[" * 500000 + b"\0")
assert receive(s) is None'
}
garbage() {
	raw 'import os
for i in range(50):
    s = connect()
    try:
        s.sendall(os.urandom(5000) + b"\0")
        s.recv(100)
    except OSError:
        pass'
}
too_long() {
	raw 's = connect()
try:
    for i in range(40):
        s.sendall(b" " * 100000)
    assert not s.recv(1)
except OSError:
    pass'
}
many_calls_at_once() {
	raw 's = connect()
m = json.dumps({"method": I + "GetStatus"}).encode() + b"\0"
s.sendall(m * 50)
b = b""
while b.count(b"\0") < 50:
    b += s.recv(65536)'
}
thousand_connections() {
	raw 'all = []
for i in range(1000):
    s = socket.socket(socket.AF_UNIX)
    s.settimeout(5)
    try:
        s.connect(sys.argv[1])
        s.sendall(b"{")
    except OSError:
        pass
    all.append(s)
for s in all:
    s.close()'
}
t_check 'deep nesting ends the connection' deep_nesting
t_check 'so does garbage' garbage
t_check 'so does a message without an end' too_long
t_check 'calls may follow each other at once' many_calls_at_once
t_check 'a thousand connections' thousand_connections
t_check 'are no harm' t_wait_for 10 ctl status
introspection() {
	raw 'r = call("org.varlink.service.GetInfo")["parameters"]
assert "org.rdmablock.target" in r["interfaces"], r
d = call("org.varlink.service.GetInterfaceDescription",
    {"interface": "org.rdmablock.target"})["parameters"]["description"]
assert "method AddVolume(volume: object)" in d, d
r = call("org.example.Foo")
assert r["error"] == "org.varlink.service.InterfaceNotFound", r
r = call(I + "Foo")
assert r["error"] == "org.varlink.service.MethodNotFound", r
r = call(I + "AddVolume", {"vol": 1})
assert r["error"] == "org.varlink.service.InvalidParameter", r'
}
t_check 'programs can ask what there is' introspection
wrong_types() { # which mean something else when they count as left out
	raw 'bad = "org.varlink.service.InvalidParameter"
r = call(I + "SetAllow", {"rules": ["10.9.9.9"], "volume": 5})
assert r.get("error") == bad, r
for generation in ["1", 1.0, True]:
    r = call(I + "Apply", {"config": {"allow": ["10.9.9.9"]},
        "generation": generation})
    assert r.get("error") == bad, r
assert call(I + "Apply", {"config": {}, "generation": None}).get("parameters")
assert call(I + "GetConfig")["parameters"]["config"]["allow"] == ["all"]'
}
t_check 'a value of a wrong type is refused' wrong_types
# Texts that are cut are cut within a character of one of the two.
long=$(printf 'é%.0s' $(seq 60))
truncate -s 1M "$T/$long" "$T/x$long"
not_ascii() {
	raw "e = connect()
e.sendall(json.dumps({'method': I + 'FollowEvents', 'more': True}).encode() + b'\\0')
assert b'begin' in e.recv(65536)
r = call(I + 'Apply', {'config': {'backing': ['$T/$long', '$T/x$long']}})
assert len(r['parameters']['changes']) == 2, r
got = b''
while got.count(b'configuration: add') < 2:
    got += e.recv(65536)
for name in ['$long' * 2, 'x' + '$long' * 2]:
    r = call(I + 'RemoveVolume', {'name': name})
    assert 'no volume' in r['parameters']['reason'], r"
}
t_check 'texts that are not ASCII are told' not_ascii
for name in $(ctl volume list | awk '/_/ { print $2 }'); do
	ctl volume remove "$name"
done

# The group may read; other users cannot even connect.
as_nobody() { setpriv --reuid 65534 --clear-groups --regid "$1" "${@:2}"; }
if [ "$(id -u)" = 0 ] && as_nobody 65534 true 2>/dev/null; then
	t_check 'others cannot connect' exits 3 as_nobody 65534 \
		"$BUILD/ctl/rdma-ctl" --control "$S" status
	told_who_may() {
		as_nobody 65534 "$BUILD/ctl/rdma-ctl" --control "$S" status 2>&1 |
			grep 'be root, the user of the target'
	}
	t_check 'and are told who can' told_who_may
	chgrp 65533 "$S"
	t_check 'the group may look' exits 0 as_nobody 65533 \
		"$BUILD/ctl/rdma-ctl" --control "$S" status
	t_refused 'and change nothing' 'only root and the user' as_nobody 65533 \
		"$BUILD/ctl/rdma-ctl" --control "$S" volume remove x

	# A target of another user. Root may use ports that this user may not.
	mkdir "$T/theirs"
	chown 65534 "$T/theirs"
	their_ctl() { rdma-ctl --control "$T/theirs/control" "$@"; }
	their_target() {
		local try
		for try in 1 2 3 4 5; do
			other_port
			# No function: $! is to be the target.
			setpriv --reuid 65534 --clear-groups --regid 65534 \
				"$BUILD/target/rdma-target" --backing ram:1M \
				--listen "$OTHER" --control "$T/theirs/control" \
				2>"$T/theirs.log" &
			theirs=$!
			t_pids="$t_pids $theirs"
			t_wait_for 10 eval 'their_ctl status || t_is_gone $theirs'
			t_is_gone $theirs || return 0
		done
		return 1
	}
	add_port() { their_ctl listen add "srp+tcp://127.0.0.1:$1"; }
	t_check 'another user starts a target' their_target
	if [ "$(cat /proc/sys/net/ipv4/ip_unprivileged_port_start)" = 1024 ]; then
		t_check 'it warns of a port that it may not use itself' \
			warned 'listening, because .*will not start again with it' \
			add_port $((600 + RANDOM % 400))
	else
		t_skip 'it warns of a port that it may not use itself' \
			'everybody may use low ports here'
	fi
	no_other_warning() {
		other_port
		add_port "${OTHER##*:}" 2>"$T/told" && [ ! -s "$T/told" ] &&
			their_ctl status | grep "$OTHER"
	}
	t_check 'and of no other' no_other_warning
	for name in roots own; do truncate -s 1000000 "$T/$name"; done
	chmod 600 "$T/roots"
	chown 65534 "$T/own"
	both_files() { # each warning is a line, whatever causes it
		echo "{ \"backing\": [ \"$T/roots\", \"$T/own\" ] }" >"$T/both.json"
		exits 0 their_ctl apply "$T/both.json" >/dev/null 2>"$T/told"
		cat "$T/told"
		[ "$(grep -c '^rdma-ctl: warning: ' "$T/told")" = 3 ] &&
			[ "$(grep -c ': the last 64 bytes are no whole block' "$T/told")" = 2 ] &&
			grep -q "/roots: served, because .*will not start again" "$T/told"
	}
	t_check 'and of each file of a configuration' both_files
	kill "$theirs"
	t_check 'it ends' t_wait_for 10 t_is_gone "$theirs"
else
	t_skip 'other users' 'needs root and setpriv'
fi

# ---- while an initiator does I/O

if [ -e /dev/fuse ] && command -v fusermount3 fio >/dev/null; then
	mkdir "$T/mnt"
	ctl volume add ram:64M,name=busy >/dev/null
	t_check 'the target is mounted' t_mount "$URI?source=127.0.0.2" "$T/mnt"
	t_refused 'a volume that is seen is not removed' 'is logged in' \
		ctl volume remove x
	t_check 'the session is listed' \
		grep -Eq '^0x[0-9a-f]{32} +127\.0\.0\.2 .* -$' <(ctl session list)
	fio --name=v --filename="$T/mnt/busy" --size=16M --bs=64k --rw=randwrite \
		--verify=crc32c --do_verify=1 --loops=2 --iodepth=8 \
		--ioengine=libaio --verify_state_save=0 >"$T/fio" 2>&1 &
	fio=$!
	rounds=0
	while ! t_is_gone $fio; do
		ctl volume add ram:1M,name=comes >/dev/null &&
			ctl volume remove --force comes >/dev/null || break
		rounds=$((rounds + 1))
	done
	wait $fio
	t_result $? "fio verifies while a volume comes and goes $rounds times"
	[ $rounds -gt 0 ]
	t_result $? 'it came and went'
	cp "$T/fio" "$T/.out"

	# Malicious clients, while fio verifies.
	fio --name=h --filename="$T/mnt/busy" --size=16M --bs=16k --rw=randwrite \
		--verify=crc32c --do_verify=1 --loops=2 --iodepth=8 \
		--ioengine=libaio --verify_state_save=0 >"$T/fio" 2>&1 &
	fio=$!
	t_pids="$t_pids $fio"
	bad=0
	while :; do
		deep_nesting && garbage && too_long && thousand_connections ||
			bad=1
		t_is_gone $fio && break
	done >"$T/.out" 2>&1
	t_result $bad 'clients that mean ill are sent away during I/O'
	wait $fio
	t_result $? 'and fio verifies beside them'

	# A volume is removed while it is written to.
	dd if=/dev/zero of="$T/mnt/n1" bs=64k count=16 conv=notrunc \
		oflag=direct 2>/dev/null
	t_check 'a volume is removed by force' exits 0 ctl volume remove --force n1
	t_check 'the others go on' dd if="$T/mnt/busy" of=/dev/null bs=1M count=8
	fusermount3 -u "$T/mnt"
else
	t_skip 'volumes come and go below a mount' 'needs FUSE and fio'
fi
ctl events >"$T/last" 2>"$T/last.err" &
events=$!
t_pids="$t_pids $events"
t_wait_for 10 grep -q begin "$T/last"
kill "$T_TARGET"
wait "$T_TARGET"
t_result $? 'the target ends well'
t_check 'who follows its events hears of it' exits 3 wait $events
t_check 'by one line' grep -qx 'rdma-ctl: error: .*: the target has ended' "$T/last.err"
t_check 'its socket is gone' [ ! -e "$S" ]
t_done
