#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# How rdma-target starts, refuses to start, and stops, over TCP. TAP on stdout.
# A refusal is one line on stderr that names the object, and exit status 1.
# Nothing is left behind.
#
# It has mounts of its own: another test that begins with a copy of all mounts
# would keep the loop device in use when it is unmounted here.
if [ -z "${IN_NAMESPACE-}" ] && unshare -m true 2>/dev/null; then
	IN_NAMESPACE=1 exec unshare -m "$0"
fi
set -uo pipefail

bin=$BUILD/target/rdma-target
work=$(mktemp -d)
chmod 755 "$work"
export STATE_DIRECTORY=$work/default-state # of targets without --state-dir
mkdir -m 755 "$STATE_DIRECTORY"
export RUNTIME_DIRECTORY=$work/default-run # without --control
# Two unused ports, below those that the kernel gives to connections.
while port=$((20000 + SRANDOM % 12000)) &&
	ss -Htan "sport = $port or sport = $((port + 1))" | grep -q .; do :; done
number=0
targets=()

# As t_is_not_ours() in lib.sh: the number of a target that has ended may belong to
# another process now.
is_ours() {
	grep -qs "^PPid:[^0-9]*$$\$" "/proc/$1/status"
}

cleanup() {
	local pid

	for pid in "${targets[@]}"; do
		! is_ours "$pid" || kill -KILL "$pid" 2>/dev/null
	done
	if [ -n "${loop-}" ]; then
		umount "$work/mnt" 2>/dev/null
		delpart "$loop" 1 2>/dev/null
		losetup -d "$loop" 2>/dev/null
	fi
	rm -rf "$work"
}
trap cleanup EXIT

# result NAME STATUS [DIAGNOSIS]
result() {
	number=$((number + 1))
	if [ "$2" = 0 ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		sed 's/^/# /' <<<"${3-}"
	fi
}

skip() {
	number=$((number + 1))
	echo "ok $number - $1 # SKIP $2"
}

wait_until() {
	local deadline=$((SECONDS + 300))

	until "$@"; do
		[ "$SECONDS" -lt "$deadline" ] || return 1
		sleep 0.05
	done
}

is_up_or_gone() {
	test -s "$1" || ! is_ours "$pid"
}

# start NAME ARG...: a target with its log and PID file under NAME; sets pid.
start() {
	local name=$1
	shift
	"$bin" --pidfile "$work/$name.pid" "$@" >"$work/$name.out" \
		2>"$work/$name.log" &
	pid=$!
	targets+=("$pid")
	wait_until is_up_or_gone "$work/$name.pid"
	test -s "$work/$name.pid"
}

# refused NAME PATTERN ARG...: does not start, and says why in one line.
refused() {
	local name=$1 pattern=$2 status lines
	shift 2
	timeout 300 "${as[@]}" "$bin" "$@" >"$work/out" 2>"$work/err"
	status=$?
	lines=$(wc -l <"$work/err")
	[ "$status" = 1 ] && [ "$lines" = 1 ] && [ ! -s "$work/out" ] &&
		grep -qE -- "$pattern" "$work/err"
	result "$name" $? "exit status $status, $lines lines: $(cat "$work/err")"
}

as=()
at() {
	echo "srp+tcp://127.0.0.1:$1"
}

mkdir "$work/sub"
truncate -s 16M "$work/disk.img" "$work/sub/disk.img"
: >"$work/empty.img"
here=(--listen "$(at "$port")")
disk=(--backing "$work/disk.img")

# --- the command line ---

refused "nothing to serve" "give at least one --backing"
refused "unknown option" "unknown option '--colour'" --colour
refused "unknown letter before a known one" "unknown option '-x'" -xv
refused "value that is not asked for" "no value is possible in '--verbose=3'" \
	--verbose=3
refused "value missing" "value is missing after '--backing'" --backing
refused "stray argument" "unexpected 'disk.img'.*--backing" disk.img
refused "size that does not parse" "12Q" "${here[@]}" --backing ram:12Q
refused "size of nothing" "ram:0" "${here[@]}" --backing ram:0
refused "no directory of state" "'$work/none': does not exist; create it" \
	--state-dir "$work/none" "${disk[@]}"
refused "a comma in a path" 'no option .b.img.*a comma in a path is \\,' \
	--backing a,b.img
refused "unknown key of a volume" "colour" "${here[@]}" --backing "$work/disk.img,colour=red"
refused "block size that is none" "1000" "${here[@]}" \
	--backing "$work/disk.img,block-size=1000"
refused "buffers that do not parse" "--buffers 'lots'" --buffers lots "${disk[@]}"
refused "buffers that are too small" "too small" --buffers 1M "${disk[@]}"
refused "buffers that are too small for two" "too small for 2 threads, .*4M for each" \
	--buffers 4M --threads 2 "${disk[@]}"
refused "buffers that are just enough" "$work/none.img.*does not exist" \
	--buffers 4M "${here[@]}" --backing "$work/none.img"
refused "no threads" "--threads '0'" --threads 0 "${disk[@]}"
refused "too many threads" "--threads '65'.*1 to 64" --threads 65 "${disk[@]}"
refused "URI of another kind" "--listen 'http://x'" --listen http://x "${disk[@]}"
refused "URI with a volume" "only an address, a port, pkey and sl" \
	--listen srp://127.0.0.1/disk "${disk[@]}"
refused "URI with a source" "source and gid are not possible here" \
	--listen "srp://127.0.0.1?source=127.0.0.1" "${disk[@]}"
refused "URI with a P_Key, over TCP" "option 'pkey' needs RDMA: TCP has no" \
	--listen "srp+tcp://127.0.0.1?pkey=ffff" "${disk[@]}"

# --- what it cannot serve ---

refused "backing file missing" "$work/none.img.*does not exist" \
	"${here[@]}" --backing "$work/none.img"
refused "block device missing" "/dev/no-such: does not exist; lsblk lists the block devices$" \
	"${here[@]}" --backing /dev/no-such
refused "plugin missing" "install the package rdma-block-plugin-nbd;" \
	"${here[@]}" --backing nbd:nbd://127.0.0.1
refused "backing file empty" "$work/empty.img" \
	"${here[@]}" --backing "$work/empty.img"
refused "backing is a directory" "$work.*directory" \
	"${here[@]}" --backing "$work"
refused "two volumes of one name" "two volumes have the name 'disk.img'.*name=" \
	"${here[@]}" "${disk[@]}" --backing "$work/sub/disk.img"
refused "one file twice" "$work/disk.img: is given twice" \
	"${here[@]}" "${disk[@]}" "${disk[@]},name=b"
ln -s disk.img "$work/link.img"
refused "one store under two names" "$work/link.img: is given twice" \
	"${here[@]}" "${disk[@]}" --backing "$work/link.img"

# A loop device is another name of its file.
loop=
if [ "$(id -u)" = 0 ]; then
	truncate -s 1M "$work/loop.img"
	loop=$(losetup --show -f "$work/loop.img" 2>/dev/null)
fi
if [ -n "$loop" ]; then
	file=(--backing "$work/loop.img")
	refused "a loop device and its file" \
		"$work/loop.img: is in use: mounted or served as $loop" \
		"${here[@]}" --backing "$loop" "${file[@]}"
	refused "a file and its loop device" "$loop: is given twice" \
		"${here[@]}" "${file[@]}" --backing "$loop"
	if addpart "$loop" 1 8 1024 2>/dev/null && [ -b "${loop}p1" ]; then
		refused "a file and a partition of its loop device" \
			"${loop}p1: is given twice" \
			"${here[@]}" "${file[@]}" --backing "${loop}p1"
		delpart "$loop" 1
	else
		skip "a partition of a loop device" "no partitions here"
	fi
	mkdir "$work/mnt"
	mke2fs -q "$loop" && mount "$loop" "$work/mnt"
	refused "the file of a loop device that is mounted" \
		"$work/loop.img: is in use: mounted or served as $loop" \
		"${here[@]}" "${file[@]}"
	start beside "${here[@]}" "${disk[@]}"
	result "another file of the same file system is served" $? \
		"$(cat "$work/beside.log")"
	kill "$pid" && wait "$pid"
	umount "$work/mnt"
	start idle "${here[@]}" "${file[@]}"
	result "the file of a loop device that is idle is served" $? \
		"$(cat "$work/idle.log")"
	kill "$pid" && wait "$pid"
	losetup -d "$loop"
	loop= # another test may have the device now
else
	skip "a file that has a loop device" "no loop device here"
fi
refused "one serial number twice" \
	"volumes 'disk.img' and 'b' are the same disk: .*serial=" \
	"${here[@]}" "${disk[@]},serial=S" --backing ram:1M,name=b,serial=S
# --- what another process has locked ---

mkfifo "$work/go"
# holds the volume as udev does, until something is written to $work/go
hold() {
	rm -f "$work/holder"
	python3 - "$work/disk.img" "$work/go" >"$work/holder" <<'END' &
import fcntl, sys
f = open(sys.argv[1])
fcntl.flock(f, fcntl.LOCK_SH)
print("locked", flush=True)
open(sys.argv[2]).read()
END
	holder=$!
	targets+=("$holder")
	wait_until test -s "$work/holder"
}
# begin NAME: starts a target that has to wait
begin() {
	"$bin" --pidfile "$work/$1.pid" "${here[@]}" "${disk[@]}" \
		>"$work/$1.out" 2>"$work/$1.log" &
	pid=$!
	targets+=("$pid")
}
# The target has slept $1 times, each time for 10 ms.
has_slept() {
	[ "$(awk '/^voluntary_ctxt_switches/ { print $2 }' \
		"/proc/$pid/status")" -ge "$1" ]
}
hold
begin patient
wait_until has_slept 200 && [ ! -s "$work/patient.pid" ] &&
	grep -q "disk.img: in use by process $holder .python3.; waiting at most 10 s\$" \
		"$work/patient.log"
result "a volume that is locked is waited for, for seconds, with a notice" $? \
	"$(cat "$work/patient.log")"
: >"$work/go"
wait_until test -s "$work/patient.pid"
result "and served" $? "$(cat "$work/patient.log")"
kill "$pid"
wait "$pid" "$holder"
hold
begin stopped
wait_until has_slept 5
kill -TERM "$pid"
wait "$pid"
[ $? = 1 ] && grep -q 'a signal ended the wait' "$work/stopped.log"
result "a signal ends the wait" $? "$(cat "$work/stopped.log")"
refused "in the end the process is named" \
	"disk.img: is in use by process $holder .python3.\$" \
	--quiet "${here[@]}" "${disk[@]}"
: >"$work/go"
wait "$holder"

chmod 000 "$work/empty.img"
truncate -s 1M "$work/empty.img"
if [ "$(id -u)" = 0 ]; then
	as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
fi
if "${as[@]}" test -x "$bin"; then
	refused "backing file unreadable" "$work/empty.img.*Permission denied" \
		"${here[@]}" --backing "$work/empty.img" --state-dir none
else
	skip "backing file unreadable" "another user cannot run $bin"
fi
as=()

# --- where it cannot listen ---

refused "address of another machine" "192.0.2.1:$port" \
	--listen "srp+tcp://192.0.2.1:$port" "${disk[@]}"
few_files() {
	prlimit --nofile=6 "$bin" "${here[@]}" "${disk[@]}" --state-dir none \
		2>"$work/err"
	[ $? = 1 ] && grep -q "io_uring: .*; raise the limit .*ulimit -n" "$work/err"
}
few_files
result "too few files" $? "$(cat "$work/err")"
# Whatever it opens when there are no more: the volume, the control socket, rings.
each_step_says_it() {
	for limit in {4..13}; do
		timeout 60 prlimit --nofile="$limit" "$bin" "${here[@]}" "${disk[@]}" \
			--threads 2 --control "$work/few" --state-dir none 2>"$work/err"
		[ $? = 1 ] && [ "$(wc -l <"$work/err")" = 1 ] &&
			grep -q "Too many open files; raise the limit .*ulimit -n" "$work/err" ||
			return
	done
}
each_step_says_it
result "each step of the start says what helps" $? "$(cat "$work/err")"
refused "host that is none" "no.such.host.invalid" \
	--listen srp+tcp://no.such.host.invalid "${disk[@]}"
if [ -d /sys/class/infiniband ] && [ -n "$(ls /sys/class/infiniband)" ]; then
	skip "RDMA without a device" "there is one"
	skip "a fallback to TCP says why" "there is an RDMA device"
else
	refused "RDMA without a device" "127.0.0.1:$port.*no RDMA device; see rdma-doctor" \
		--listen "srp+rdma://127.0.0.1:$port" "${disk[@]}"
	start fallback --listen "srp://127.0.0.1:$port" "${disk[@]}"
	grep -q "no RDMA device; using TCP for 127.0.0.1:$port" \
		"$work/fallback.log"
	result "a fallback to TCP says why" $? "$(cat "$work/fallback.log")"
	kill "$pid"
	wait "$pid"
fi
refused "PID file that cannot be" "$work/none/pid.*No such file" \
	"${here[@]}" "${disk[@]}" --pidfile "$work/none/pid"

# --- which initiators may log in ---

refused "rule that does not parse" "--allow '10.0.0.0/33'.*10.0.0.0/24" \
	--allow 10.0.0.0/33 "${disk[@]}"
refused "rule of a volume that does not parse" "allow=nobody" \
	"${here[@]}" --backing "$work/disk.img,allow=nobody"
refused "two volumes of one number" "'disk.img' and 'b' are both LUN 3" \
	"${here[@]}" --backing "$work/disk.img,lun=3" --backing ram:1M,name=b,lun=3
start closed "${here[@]}" "${disk[@]},allow=192.0.2.0/24"
"$BUILD/initiator/rdma-info" "$(at "$port")" >"$work/info" 2>&1
status=$?
[ "$status" = 1 ] && grep -q 'access rules (rdma-target: --allow' "$work/info" && grep -q \
	"login of 0x.* from 127.0.0.1:.* on 127.0.0.1:$port refused: .*no volume is allowed" \
	"$work/closed.log"
result "an initiator without a volume is refused, and the log says why" $? \
	"$(cat "$work/info" "$work/closed.log")"
kill "$pid"
wait "$pid"
start open --listen "$(at "$port")" --listen "srp+tcp://0.0.0.0:$((port + 1))" \
	"${disk[@]}"
[ "$(grep -c 'nothing is authenticated' "$work/open.log")" = 1 ] &&
	grep -q "listening on 0.0.0.0:$((port + 1)) over TCP" "$work/open.log"
result "TCP beyond loopback is warned of" $? "$(cat "$work/open.log")"
kill "$pid"
wait "$pid"

# --- privileges that it drops ---

start bare "${here[@]}" "${disk[@]}" --threads 2
[ "$(grep -c 'NoNewPrivs:.1' "/proc/$pid/task/"*/status | grep -c ':1$')" -ge 2 ] &&
	grep -q 'CapBnd:.0*$' "/proc/$pid/status"
result "no capabilities can come back" $? "$(cat "/proc/$pid/status")"
if [ -z "${SANITIZED-}" ]; then
	! grep -L 'Seccomp:.2' "/proc/$pid/task/"*/status | grep -q .
	result "every thread is in the sandbox" $? "$(cat "/proc/$pid/status")"
fi
kill "$pid"
wait "$pid"
refused "user that is none" "--user 'no.such.user': there is no such user" \
	--user no.such.user "${here[@]}" "${disk[@]}"
if [ "$(id -u)" = 0 ]; then
	mkdir -m 700 "$work/mine"
	refused "state that the user cannot write" \
		"--state-dir '$work/mine': Permission denied: it must belong to user nobody" \
		--user nobody --state-dir "$work/mine" "${here[@]}" "${disk[@]}"
	refused "state by default of another user" \
		"state directory $STATE_DIRECTORY: Permission denied; give it to the user .*chown -R" \
		--user nobody "${here[@]}" "${disk[@]}"
	chmod 600 "$work/disk.img"
	STATE_DIRECTORY=$work/nobody-state
	start nobody --user nobody "${here[@]}" "${disk[@]}"
	grep -Eq 'Uid:(.65534){4}$' "/proc/$pid/status" &&
		grep -Eq 'Gid:(.65534){4}$' "/proc/$pid/status" &&
		"$BUILD/initiator/rdma-info" "$(at "$port")" >"$work/info" 2>&1
	result "another user serves what root has opened" $? \
		"$(cat "/proc/$pid/status" "$work/nobody.log")"
	kill "$pid"
	wait "$pid" && [ ! -s "$work/nobody.pid" ]
	result "and leaves an empty PID file" $? "$(cat "$work/nobody.log")"
	[ -s "$work/nobody-state/id" ] &&
		[ -z "$(find "$work/nobody-state" ! -user nobody)" ]
	result "its state by default is its own" $? "$(ls -lR "$work/nobody-state")"
	STATE_DIRECTORY=$work/default-state
	mkdir -m 700 "$work/theirs"
	chown nobody "$work/theirs"
	start theirs --user nobody --state-dir "$work/theirs" "${here[@]}" \
		"${disk[@]}"
	[ -s "$work/theirs/id" ] &&
		[ -z "$(find "$work/theirs" ! -user nobody)" ]
	result "root makes nothing in the directory of another user" $? \
		"$(ls -l "$work/theirs" "$work/theirs.log")"
	kill "$pid"
	wait "$pid"
else
	skip "another user serves what root has opened" "not root"
fi

# --- output when it is ready, and its end ---

start one "${here[@]}" "${disk[@]}" --backing ram:8M,name=scratch,ro --threads 2
result "ready: the PID file has its process ID" \
	"$([ "$(cat "$work/one.pid")" = "$pid" ]; echo $?)" "$(cat "$work/one.log")"
grep -q "LUN 0 .*disk.img .*16 MiB .*512-byte" "$work/one.out" &&
	grep -q "LUN 1 .*scratch .*8 MiB .*read-only" "$work/one.out"
result "ready: names the volumes" $? "$(cat "$work/one.out")"
uri=$(grep -o 'srp+tcp://[0-9.:]*' "$work/one.out")
"$BUILD/initiator/rdma-info" "$uri" >"$work/info" 2>&1 &&
	grep -q scratch "$work/info"
result "ready: the line to paste works" $? "$(cat "$work/info")"
refused "the PID file of one that runs" \
	"PID file $work/one.pid is that of process $pid .rdma-target., which still runs" \
	--listen "$(at $((port + 1)))" --backing ram:1M --pidfile "$work/one.pid" \
	--state-dir none
[ "$(cat "$work/one.pid")" = "$pid" ]
result "it is still there" $? "$(cat "$work/one.pid")"
refused "port in use" "127.0.0.1:$port.*in use" "${here[@]}" --backing ram:1M \
	--state-dir none
"$BUILD/initiator/rdma-info" "$uri" >"$work/info" 2>&1
result "the one that has the port goes on" $? "$(cat "$work/info")"
kill -USR2 "$pid"
wait_until grep -qE 'worker 0: [1-9][0-9]* commands, .* [1-9][0-9]* ring enters' \
	"$work/one.log" &&
	wait_until grep -qE 'worker 0 over .*: [1-9][0-9]* work requests' \
		"$work/one.log"
result "SIGUSR2: what it has done" $? "$(cat "$work/one.log")"
kill -TERM "$pid"
wait "$pid"
status=$?
[ "$status" = 0 ] && [ ! -e "$work/one.pid" ] && grep -q stopped "$work/one.log"
result "SIGTERM: a clean end, the PID file is gone" $? \
	"exit status $status: $(cat "$work/one.log")"
start two "${here[@]}" "${disk[@]}"
result "the port can be had again at once" $? "$(cat "$work/two.log")"
kill -INT "$pid"
wait "$pid"
result "SIGINT: a clean end" $? "$(cat "$work/two.log")"
# The output must not be written to the volume.
rm -f "$work/disk.img"
truncate -s 16M "$work/disk.img"
"$bin" "${here[@]}" "${disk[@]}" --pidfile "$work/mute.pid" <&- >&- 2>&- &
pid=$!
targets+=("$pid")
wait_until test -s "$work/mute.pid" &&
	"$BUILD/initiator/rdma-info" "$(at "$port")" >"$work/info" 2>&1
status=$?
kill "$pid"
wait "$pid" && [ $status = 0 ] && cmp "$work/disk.img" /dev/zero -n 16M
result "standard files closed: it serves, and prints into no volume" $? \
	"$(cat "$work/info"; head -c 300 "$work/disk.img" | tr -d '\0')"
start three --quiet "${here[@]}" "${disk[@]}"
kill -TERM "$pid"
wait "$pid"
[ ! -s "$work/three.out" ] && [ ! -s "$work/three.log" ]
result "--quiet: nothing is said" $? \
	"$(cat "$work/three.out" "$work/three.log")"

# A process that waits for the PID file finds the lines that were printed
# before. The output is a full pipe, so the target stops when it prints.
python3 - "$work/full.pid" "$bin" "${here[@]}" "${disk[@]}" \
	--pidfile "$work/full.pid" >"$work/full.say" 2>&1 <<'END'
import fcntl, os, subprocess, sys
pid_file, *command = sys.argv[1:]
r, w = os.pipe()
size = fcntl.fcntl(w, 1031, 4096)  # F_SETPIPE_SZ
os.write(w, b"x" * size)
target = subprocess.Popen(command, stdout=w)
os.close(w)
# write(1, ...): it is printing
while open(f"/proc/{target.pid}/syscall").read().split()[:2] != ["1", "0x1"]:
    if os.path.getsize(pid_file) if os.path.exists(pid_file) else 0:
        break
early = os.path.getsize(pid_file)
text = b""
while b"rdma-fuse srp" not in text:
    text += os.read(r, 65536)
while not os.path.getsize(pid_file):
    pass
target.terminate()
print("the PID file was there first" if early else "in order")
sys.exit(bool(early) or target.wait())
END
result "the PID file is written after the lines to paste" $? \
	"$(cat "$work/full.say")"

# --- an unfinished SANITIZE ---

# mark_of FILE: the name of the store in a state file
mark_of() {
	local born

	born=$(stat -c %w "$1")
	echo "inode:$(stat -c %i "$1")/born:$(date -d "$born" +%s.%N)"
}

mkdir "$work/state"
start killed "${here[@]}" "${disk[@]}" --state-dir "$work/state"
kill -KILL "$pid"
wait "$pid" 2>/dev/null
state=$(echo "$work/state/"[0-9a-f]*.lock)
state=${state%.lock}
cat >"$state" <<END
rdma-target state 2
store size=$((8 << 20)) block-size=512 lasting=$(mark_of "$work/disk.img") here=
sanitize running lenient=0 overwrite=2 invert=1 scrub=0 erase=0 f0
end
END
cp "$work/disk.img" "$work/before.img"
start failed "${here[@]}" "${disk[@]}" --state-dir "$work/state"
kill "$pid"
wait "$pid"
grep -q 'SANITIZE has not come to its end' "$work/failed.log" &&
	! grep -q 'SANITIZE ended' "$work/failed.log" &&
	cmp "$work/disk.img" "$work/before.img"
result "SANITIZE of before kill -9 does not begin again" $? \
	"$(cat "$state" "$work/failed.log")"
rm "$work/before.img"

# --- resources of an idle target ---

truncate -s 1T "$work/large.img"
start idle "${here[@]}" --backing "$work/large.img"
rss=$(awk '/VmRSS/ { print $2 }' "/proc/$pid/status")
if [ -n "${SANITIZED-}" ]; then
	skip "idle: under 64 MiB resident" "built with a sanitizer"
else
	[ "$rss" -lt $((64 << 10)) ]
	result "idle: under 64 MiB resident" $? "$rss KiB"
fi
serving_threads() {
	echo $((1 + $(cat /proc/"$pid"/task/*/comm | grep -c '^worker-')))
}
processors=$(nproc)
[ "$(serving_threads)" = $((processors < 4 ? processors : 4)) ]
result "a thread for each processor" $? \
	"$(serving_threads) threads, $processors processors"
switches() {
	awk '/ctxt_switches/ { sum += $2 } END { print sum }' \
		"/proc/$pid/task/$pid/status"
}
# It may still be about to sleep. Once asleep, it stays asleep.
is_asleep() {
	local before
	before=$(switches)
	sleep 1
	[ "$(switches)" = "$before" ]
}
wait_until is_asleep
result "idle: does not wake up" $? "$(switches) context switches"
kill "$pid"
wait "$pid"

start crowded "${here[@]}" "${disk[@]}"
# The lowest free number is the next one. There may be higher ones that the target has
# inherited.
free=0
while [ -h "/proc/$pid/fd/$free" ]; do free=$((free + 1)); done
limit=$(prlimit --pid "$pid" --nofile --output SOFT --noheadings)
prlimit --pid "$pid" --nofile="$free:"
exec {caller}<>"/dev/tcp/127.0.0.1/$port"
wait_until grep -q "connections on 127.0.0.1:$port: Too many open files" \
	"$work/crowded.log"
result "out of files: says so" $? "$(cat "$work/crowded.log")"
prlimit --pid "$pid" --nofile="${limit// /}:"
"$BUILD/initiator/rdma-info" "$(at "$port")" >"$work/out" 2>&1
result "and goes on when there are some" $? "$(cat "$work/out")"
exec {caller}>&-
kill "$pid"
wait "$pid"

start small "${here[@]}" "${disk[@]}" --buffers 4M
[ "$(serving_threads)" = 1 ]
result "no more threads than there are buffers for" $? "$(serving_threads)"
kill "$pid"
wait "$pid"

echo "1..$number"
