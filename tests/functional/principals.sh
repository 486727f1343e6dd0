#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Two hosts with one port identifier, of which another rule lets in the second one, and only
# for reading: it is nothing that the first one is, before and after a restart. When other
# rules fit the first one, it stays what it is, also after a restart.
. "$(dirname "$0")/control_lib.sh"

PATH="$BUILD/tests/functional:$PATH"
truncate -s 1M "$T/disk"
mkdir "$T/state"
start() { # RULE RULE
	t_target --state-dir "$T/state" --control "$S" --allow "$1" \
		--allow "$2" --backing "$T/disk,name=disk"
	ADDR=${URI#*://}
}
mkfifo "$T/ask" "$T/answer"
pr_client <"$T/ask" >"$T/answer" 2>"$T/client.err" &
t_pids="$t_pids $!"
exec 7>"$T/ask" 8<"$T/answer"
ask() { # NAME COMMAND...
	echo "$*" >&7
	read -r -t 20 ANSWER <&8 || t_bail "$(cat "$T/client.err")"
}
is() { # EXPECTED NAME COMMAND...
	ask "${@:2}"
	[ "$ANSWER" = "$1" ] || {
		echo "${*:2}: '$ANSWER', not '$1'"
		return 1
	}
}
# The unit is not ready while its journal is behind.
becomes() { # EXPECTED NAME COMMAND...
	t_wait_for 10 is "$@"
}
comes() { # NAME SOURCE: as initiator 1, without the attention that a login brings
	is good "$1" login "$ADDR" 1 "$2" && ask "$1" cdb 000000000000 0
}
reserves() {
	is good owner out 0 0 a 0 1 && is good owner out 1 a 0 3 0
}

start 127.0.0.4/31 127.0.0.2:ro
t_check 'the owner of the identifier logs in' comes owner 127.0.0.5
t_check '... and reserves the volume, to survive a loss of power' reserves
t_check 'another host logs in with the identifier' comes other 127.0.0.2
t_check '... and is not taken for the holder' is conflict other read 0
t_check '... nor has it ended the session of the owner' is good owner read 0
t_target_stop KILL
start 127.0.0.4/31 127.0.0.2:ro
t_check 'it comes first after a restart' comes other2 127.0.0.2
t_check '... and is not taken for the holder' is conflict other2 read 0
t_check 'the owner comes back' comes owner2 127.0.0.5
t_check '... as the holder' is good owner2 read 0
# The rule that was the owner's still fits another host.
t_check 'another rule fits the owner' ctl allow 127.0.0.5 127.0.0.4/31
t_check '... and it stays the holder' becomes good owner2 read 0
t_target_stop KILL
start 127.0.0.5 127.0.0.4/31
t_check 'after a restart, a host of its old rule comes first' \
	comes other3 127.0.0.4
t_check '... and is not taken for the holder' is conflict other3 read 0
t_check 'the owner comes back' comes owner3 127.0.0.5
t_check '... as the holder' is good owner3 read 0
exec 7>&-
t_done
