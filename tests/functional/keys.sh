#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# The file of keys of a target: how rdma-ctl changes it while the target runs, and who
# is let in.
. "$(dirname "$0")/control_lib.sh"

# All that it prints is in all.log.
ctl() {
	rdma-ctl --control "$S" "$@" >"$T/out" 2>"$T/err"
	local status=$?
	cat "$T/out"
	cat "$T/err" >&2
	cat "$T/out" "$T/err" >>"$T/all.log"
	return $status
}
hex() { head -c 32 /dev/urandom | od -An -tx1 | tr -d ' \n'; }
key_list() { ctl key list >"$T/keys.list" && cat "$T/keys.list"; }
# has NAME...: these names have keys, in this order; NAME:ro for the right
has() {
	key_list
	[ "$(awk 'NR > 1 { print $1 ($3 == "ro" ? ":ro" : "") }' "$T/keys.list" | xargs)" = "$*" ]
}
# The file has only whole lines, and nothing else lies beside it.
is_clean() { [ "$(ls "$T/conf")" = keys ] && [ "$(stat -c %a "$T/conf/keys")" = 600 ]; }
# keeps CMD...: the file stays as it is
keeps() {
	local status
	cp "$T/conf/keys" "$T/keys.before"
	"$@"
	status=$?
	cmp "$T/conf/keys" "$T/keys.before" && is_clean && return $status
}
# told TEXT: rdma-ctl or the target has printed it
told() { grep -qF "$1" "$T/all.log" "$T/target.log"; }

# ---- a file that is not right

mkdir "$T/conf"
refused_file() { rdma-target --keys "$T/conf/keys" --backing ram:1M; }
(umask 077 && echo "a $(hex)" >"$T/conf/keys")
chmod 640 "$T/conf/keys"
t_refused 'a file that its group may read' "keys '$T/conf/keys': .*chmod 600" refused_file
chmod 600 "$T/conf/keys"
echo 'b short' >>"$T/conf/keys"
t_refused 'a file with a short key' 'line 2: the key is not 32 to 64 bytes' refused_file
t_refused 'a file that is not there' 'No such file' rdma-target --keys "$T/none" --backing ram:1M

# ---- changes

first=$(hex)
second=$(head -c 32 /dev/urandom | base64)
third=$(hex)
(umask 077 && printf '# hosts\nbackup %s\n' "$first" >"$T/conf/keys")
t_target --control "$S" --keys "$T/conf/keys" --allow name:backup --allow 127.0.0.2:ro \
	--backing ram:1M,name=disk
t_check 'names are listed' has backup
t_check 'who has no key is refused' sees_not disk
says() { grep -q "$1" "$T/target.log"; }
t_check 'and the log says why' t_wait_for 10 says \
	'refused: .*has proved no name by a key (--keys), and no rule by address'
t_check 'a rule by address lets in without a key' \
	grep -qw disk <(rdma-info "$URI?source=127.0.0.2")
t_check 'a key is added' exits 0 ctl key add web <<<"$second"
t_check 'it is known' has backup web
t_check 'the file has it' grep -qxF "web $second" "$T/conf/keys"
t_check 'and its comment' grep -qx '# hosts' "$T/conf/keys"
t_check 'with its mode, and nothing beside it' is_clean
t_check 'a line of a file is a key' exits 0 ctl key add reader ro <<<"reader $third"
t_check 'with a right' has backup web reader:ro
t_check 'a key is replaced' exits 0 ctl key rotate backup <<<"$(hex)"
t_check 'both are good' has backup backup web reader:ro
t_check 'the newer one is first' [ "$(grep -n "$first" "$T/conf/keys" | cut -d: -f1)" = 3 ]
t_check 'a third one' exits 0 ctl key rotate backup <<<"$(hex)"
t_check 'replaces the oldest' has backup backup web reader:ro
t_check 'which is gone' [ "$(grep -c "$first" "$T/conf/keys")" = 0 ]
t_check 'the older one is removed' exits 0 ctl key remove backup old
t_check 'the newer one stays' has backup web reader:ro
t_check 'a right stays with a newer key' exits 0 ctl key rotate reader <<<"$(hex)"
t_check 'of both' has backup web reader:ro reader:ro
t_check 'a name is removed' exits 0 ctl key remove reader
t_check 'with all its keys' has backup web
(umask 077 && grep -v ^web "$T/conf/keys" >"$T/conf/other" && mv "$T/conf/other" "$T/conf/keys")
t_check 'what another program has written is read' exits 0 ctl key reload
t_check 'and counts' has backup
json_names() { ctl --json key list | python3 -c 'import json, sys
print(*[k["name"] for k in json.load(sys.stdin)["keys"]])'; }
t_check 'as JSON' [ "$(json_names)" = backup ]

# ---- what is refused changes nothing

no() { # NAME PATTERN INPUT ARG...
	local name=$1 pattern=$2 input=$3
	shift 3
	t_refused "$name" "$pattern" keeps ctl key "$@" <<<"$input"
}
no 'a name that has a key' "'backup' has a key; rdma-ctl key rotate" "$third" add backup
no 'a name without a key' "'web' has no key" "$third" rotate web
no 'nothing to remove' "'web' has no key" '' remove web
no 'no older key' "'backup' has no older key" '' remove backup old
no 'a short key' 'standard input is neither a key' "${third#??}" add web
no 'no key' 'standard input is neither a key' '' add web
no 'a key of another name' 'standard input is neither a key' "other $third" add web
no 'several keys' 'several lines' "$third
$first" add web
no 'a key that another name has' 'a key that another line has' \
	"$(sed -n 's/^backup //p' "$T/conf/keys")" add web
no 'a bad name' "'a:b' is not 1 to 63 letters" "$third" add a:b
no 'a key on the command line' 'a key comes from standard input' '' add web "$third"
t_check 'nothing has changed' has backup
echo 'nonsense' >>"$T/conf/keys"
t_refused 'a file that others have spoilt is not taken' 'line 3: the key is not' ctl key reload
t_check 'the target keeps what it has' has backup
no 'and it is not edited' 'line 3: the key is not' "$third" add web
sed -i '$d' "$T/conf/keys"
chmod 644 "$T/conf/keys"
t_refused 'nor one that everybody reads' 'chmod 600' ctl key add web <<<"$third"
chmod 600 "$T/conf/keys"
tells_no_key() { told web && ! told "$first" && ! told "$second" && ! told "$third"; }
t_check 'no key was printed or logged' tells_no_key

# ---- rules

t_check 'rules by name are live' exits 0 ctl allow 'name:*' 127.0.0.2
t_check 'and shown' grep -qF 'name:* 127.0.0.2' <(ctl allow)
t_refused 'a rule that never counts' 'rule 1 before it fits the same' ctl allow 'name:*' name:a:ro
t_check 'the last name is removed' exits 0 ctl key remove backup
t_check 'then there is none' has
t_check 'nobody comes in but by address' sees_not disk
t_target_stop TERM
t_target --control "$S" --keys "$T/conf/keys" --backing ram:1M,name=disk
t_check 'a file without keys lets in nobody' sees_not disk
t_target_stop TERM

# ---- TLS

key_file() { (umask 077 && echo "$2 $3" >"$T/$1"); }
by() { rdma-info "srp+tls://127.0.0.1:$T_PORT?key=$T/$1"; } # FILE
key_file mine backup "$first"
key_file wrong backup "$third"
key_file unknown nobody "$first"
(umask 077 && printf 'backup %s\nweb %s ro\n' "$first" "$second" >"$T/conf/keys")
t_target --control "$S" --keys "$T/conf/keys" --backing ram:1M,name=disk
t_check 'who has the key comes in' grep -qw disk <(by mine)
t_check 'the log names it' t_wait_for 10 says 'login of 0x.* as backup on '
t_refused 'another key of that name is no use' 'key' by wrong
t_refused 'a name without a key is none' 'key' by unknown
t_refused 'a file that others may read is not used' 'chmod 600' eval \
	'chmod 644 "$T/mine"; by mine'
chmod 600 "$T/mine"
t_refused 'srp+tls without a key' 'needs a key: [?]key=FILE' rdma-info "srp+tls://127.0.0.1:$T_PORT"
t_refused 'a key does not go over RDMA' "option 'key' needs TCP" \
	rdma-info "srp+rdma://127.0.0.1:$T_PORT?key=$T/mine"
finds() { # PATTERN URI: rdma-doctor has that finding
	rdma-doctor "$2" >"$T/doctor"
	cat "$T/doctor"
	tr '\n' ' ' <"$T/doctor" | grep -Eq "$1"
}
doctor() { finds "$1" "srp+tls://127.0.0.1:$T_PORT?key=$T/$2"; }
t_check 'the doctor shows the key' doctor "name 'backup', print [0-9a-f]{8}" mine
t_check '... that the target has another one' doctor 'target has another key for that name' wrong
t_check '... that the target has none of that name' doctor 'has no key of that name' unknown
t_check '... that this side has none' doctor 'This side has no key' nowhere
t_check '... that a key is missing in the URI' finds 'no key is given' "srp+tcp://127.0.0.1:$T_PORT"
print() { awk -v name="$1" '$1 == name { print $2 }' <(ctl key list); }
t_check 'the print is that of the target' doctor "print $(print backup)" mine
t_target_stop TERM

t_target --control "$S" --backing ram:1M,name=disk
t_check 'the doctor tells of a target without keys' doctor 'has no key of that name' mine
t_refused 'a target without keys' 'started without --keys' ctl key list
t_refused 'gets none' 'started without --keys' ctl key add web <<<"$third"
t_target_stop TERM
t_done
