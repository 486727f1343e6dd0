#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Changes of a running target that are saved, that cannot be saved, that wait, or that a
# kill cuts short.
. "$(dirname "$0")/control_lib.sh"

# ---- file and command line together

echo '{ "backing": [ "ram:1M", "ram:1M", "ram:2M,name=f" ] }' >"$T/f.json"
t_target --config "$T/f.json" --backing ram:1M,name=given --control "$S" \
	--threads 2 --max-logins 300
t_check 'what the command line has added is no difference' exits 0 \
	ctl diff --prune "$T/f.json"
t_check 'it is not pruned' exits 0 ctl apply --prune "$T/f.json"
t_check 'two volumes alike are two' shows ram0 ram1 f given
echo '{ "backing": [ "ram:1M", "ram:1M", "ram:1M", "ram:2M,name=f" ] }' >"$T/g.json"
t_check 'a third one is added' exits 0 ctl apply "$T/g.json"
t_check 'and applying it again changes nothing' exits 0 ctl diff --prune "$T/g.json"
t_check 'with --prune one of them goes' exits 0 ctl apply --prune "$T/f.json"
t_check 'and no other' [ "$(volume_list | grep -c ' ram[0-9] ')" = 2 ]
t_check 'all that is saved' exits 0 ctl save
saved_no_given() { ! grep -q given "$T/f.json"; }
t_check 'without what the command line adds' saved_no_given
t_check 'is no difference' exits 0 ctl diff --prune "$T/f.json"
ctl volume remove given >/dev/null
ctl volume add ram:3M,name=given >/dev/null
cp "$T/f.json" "$T/f.before"
t_refused 'another store under a name of the command line is not saved' \
	"volume 'given': store: the command line" ctl save
t_check 'nothing is written then' cmp "$T/f.json" "$T/f.before"
ctl volume remove given >/dev/null
ctl volume add ram:1M,name=given >/dev/null
ctl volume allow given 10.9.9.9 >/dev/null
t_check 'rules of the command line that come again are told' warned \
	"'given': allow: 10.9.9.9 now, but as the target again" ctl save
kill "$T_TARGET"
wait "$T_TARGET"

# ---- a configuration that cannot be saved

mkdir "$T/conf"
echo '{ "backing": [ "ram:1M,name=k0" ] }' >"$T/conf/k.json"
t_target --config "$T/conf/k.json" --auto-save --control "$S"
echo '{ "backing": ' >"$T/conf/k.json"
t_check 'a change that is not saved is told' warned 'the change is done, but not saved' \
	ctl volume add ram:1M,name=k1
t_check 'it is done' shows k0 k1
kill "$T_TARGET"
wait "$T_TARGET"

# ---- what the sandbox must not forbid

truncate -s 1M "$T/held"
# hold FILE: another process locks it, until it is killed; sets $holder
hold() {
	t_new_log "$T/holder.log"
	python3 -c 'import fcntl, signal, sys
f = open(sys.argv[1])
fcntl.flock(f, fcntl.LOCK_EX)
print("held", flush=True)
signal.pause()' "$1" >"$T/holder.log" &
	holder=$!
	t_pids="$t_pids $holder"
	t_wait_for 10 grep -q held "$T/holder.log"
}
says() { grep -q "$1" "$T/target.log"; }
t_target --control "$S" --backing ram:1M,name=open
hold "$T/held"
ctl volume add "$T/held,name=held" >/dev/null 2>&1 &
add=$!
t_check 'a volume that is locked is waited for' \
	t_wait_for 10 says 'held: in use by process .* waiting at most'
kill $holder
t_check 'and added' wait $add
ctl volume remove held >/dev/null
hold "$T/held"
ctl volume add "$T/held,name=held" >"$T/add.out" 2>"$T/add.err" &
add=$!
waits_again() { [ "$(grep -c 'held: in use by process .* waiting' "$T/target.log")" = 2 ]; }
t_wait_for 10 waits_again
kill "$T_TARGET"
ends_the_wait() {
	! wait $add
	cat "$T/add.err"
	grep -q 'a signal ended the wait for it' "$T/add.err"
}
t_check 'a target that stops does not wait for a lock' ends_the_wait
t_check 'it ends' wait "$T_TARGET"
kill $holder
t_target --control "$S" --backing ram:1M,name=open
echo '{ "discovery": "lo" }' >"$T/lo.json"
t_check 'an interface is looked up' exits 0 ctl apply --dry-run "$T/lo.json"
echo '{ "discovery": "nowhere0" }' >"$T/lo.json"
t_refused 'one that there is not is refused' "'nowhere0' is no interface" \
	ctl apply --dry-run "$T/lo.json"
kill "$T_TARGET"
wait "$T_TARGET"

# ---- nobody sees a volume by rules that are on their way

truncate -s 1M "$T/goes"
cat >"$T/narrow.json" <<-END
	{ "allow": [ "10.9.9.9" ],
	  "backing": [ "ram:1M,name=secret", "$T/held,name=held" ] }
END
t_target --control "$S" --backing ram:1M,name=open
hold "$T/held"
ctl apply "$T/narrow.json" >/dev/null 2>&1 &
apply=$!
hidden() { says "'secret' is served" && sees_not secret; }
t_wait_for 10 says "'secret' is served"
t_check 'a new volume is not seen before its rules hold' hidden
kill $holder
t_check 'the file is applied' wait $apply
t_check 'and now they hold' sees_not open
kill "$T_TARGET"
wait "$T_TARGET"

echo '{ "allow": "all", "backing": [ "ram:1M,name=open" ] }' >"$T/wide.json"
t_target --control "$S" --backing ram:1M,name=open \
	--backing "$T/goes,name=goes,fault=flush:stuck:count=1"
ctl allow 10.9.9.9 >/dev/null
ctl apply --prune "$T/wide.json" >/dev/null 2>&1 &
apply=$!
t_check 'a volume that goes is being flushed' t_wait_for 10 says 'is stuck'
t_check 'it is not seen by the wider rules' sees_not goes
t_check 'the list shows it' grep -q ' goes ' <(ctl volume list)
t_check 'status tells of a change' grep -q ', being changed for [0-9]* s' <(ctl status)
t_check 'sessions are listed' exits 0 ctl session list
t_check 'metrics are told' exits 0 ctl metrics
t_check 'show prints what was before' grep -q '"name": "goes"' <(timeout 60 rdma-ctl \
	--control "$S" show)
t_check 'with its address' grep -q "$URI" <(ctl status)
t_check 'diff tells what differs from that' grep -q "change *target: *allow" <(timeout 60 \
	rdma-ctl --control "$S" diff "$T/wide.json")
kill -USR1 "$T_TARGET"
t_check 'it is gone' wait $apply
shows_no_more() { ! ctl show | grep -q '"name": "goes"'; }
t_check 'show tells that' shows_no_more
t_check 'the wider rules hold' sees open
kill "$T_TARGET"
wait "$T_TARGET"

t_target --control "$S" --backing "$T/goes,name=goes,fault=flush:stuck:count=1"
ctl volume remove --force goes &
remove=$!
t_wait_for 10 says 'is stuck'
kill -USR1 "$T_TARGET"
t_check 'SIGUSR1 also releases what is stuck on a volume that goes' \
	t_wait_for 5 t_has_ended $remove
t_target_stop KILL

# ---- the limits of a group

echo '{ "backing": [ "ram:1M,name=q1,layer=qos,iops=100,group=g",
	"ram:1M,name=q2,layer=qos,iops=100,group=g",
	"ram:1M,name=q3,layer=qos,iops=100" ] }' >"$T/q.json"
t_target --config "$T/q.json" --auto-save --control "$S"
limits_are() { [ "$(ctl qos | xargs)" = "$1" ]; }
t_check 'a limit of a group is set' exits 0 ctl qos q1 iops=50
t_check 'all volumes of the group have it' limits_are \
	'q1 iops=50 group=g q2 iops=50 group=g q3 iops=100'
kill "$T_TARGET"
wait "$T_TARGET"
t_target --config "$T/q.json" --control "$S"
t_check 'they also have it after a restart' limits_are \
	'q1 iops=50 group=g q2 iops=50 group=g q3 iops=100'
kill "$T_TARGET"
wait "$T_TARGET"

# ---- a limit for the size of files

truncate -s 4M "$T/small"
ulimit -S -f 8192 # KiB
t_target --control "$S" --backing "$T/small,name=small"
ulimit -S -f unlimited
t_refused 'a file does not grow beyond ulimit -f' 'small: File too large' \
	ctl volume resize small 12M
t_check 'the target goes on' shows small

# ---- a target that has no place for another open file

# One descriptor is left, for the connection of rdma-ctl.
only_one_left() {
	python3 - "$T_TARGET" <<-'END'
		import os, resource, sys
		pid = int(sys.argv[1])
		used = {int(fd) for fd in os.listdir(f"/proc/{pid}/fd")}
		free = [fd for fd in range(len(used) + 2) if fd not in used]
		soft, hard = resource.prlimit(pid, resource.RLIMIT_NOFILE)
		resource.prlimit(pid, resource.RLIMIT_NOFILE, (free[1], hard))
	END
}
cp "$T/small" "$T/another"
t_check 'its limit of open files is reached' only_one_left
t_refused 'what could not be handed over is told, of a socket' \
	"address 'srp.*; rdma-ctl could not hand over srp.*: no open file came .*ulimit -n" \
	ctl listen add srp+tcp://127.0.0.1:$((T_PORT + 1))
t_refused 'and of a file' \
	"volume '.*/another': .*; rdma-ctl could not hand over /.*: no open file came .*ulimit -n" \
	ctl volume add "$T/another"
kill "$T_TARGET"
wait "$T_TARGET"

# ---- kill -9 during a change

two_states() { # the file has the state before or after the change
	rdma-ctl check "$T/k.json" || return 1
	grep -c '"name": "k' "$T/k.json" | grep -Eqx '1|4'
}
echo '{ "backing": [ "ram:1M,name=k0" ] }' >"$T/k.json"
echo '{ "backing": [ "ram:1M,name=k0", "ram:1M,name=k1", "ram:1M,name=k2",
	"ram:1M,name=k3" ] }' >"$T/after.json"
bad=0
for i in 1 2 3 4 5 6; do
	cat >"$T/k.json" <<-END
		{
		  "backing": [
		    {
		      "store": "ram:1M",
		      "name": "k0"
		    } ] }
	END
	t_target --config "$T/k.json" --auto-save --control "$S"
	ctl apply "$T/after.json" >/dev/null 2>&1 &
	ctl=$!
	# Waits a different time in each round, to kill at another point.
	for ((n = 0; n < i * 40; n++)); do :; done
	kill -9 "$T_TARGET"
	wait $ctl "$T_TARGET" 2>/dev/null
	two_states >"$T/.out" 2>&1 || bad=$((bad + 1))
done
t_result $bad 'a target that is killed leaves the state before or after'
t_target --config "$T/k.json" --control "$S"
t_check 'a socket that was left behind is no harm' ctl status
t_done
