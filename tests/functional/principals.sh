#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Two hosts with one port identifier, of which another rule lets in the second one, and only
# for reading: it is nothing that the first one is, before and after a restart.
. "$(dirname "$0")/lib.sh"

PATH="$BUILD/tests/functional:$PATH"
truncate -s 1M "$T/disk"
mkdir "$T/state"
start() {
	t_target --state-dir "$T/state" --allow 127.0.0.1 --allow 127.0.0.2:ro \
		--backing "$T/disk,name=disk"
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
comes() { # NAME SOURCE: as initiator 1, without the attention that a login brings
	is good "$1" login "$ADDR" 1 "$2" && ask "$1" cdb 000000000000 0
}
reserves() {
	is good owner out 0 0 a 0 1 && is good owner out 1 a 0 3 0
}

start
t_check 'the owner of the identifier logs in' comes owner 127.0.0.1
t_check '... and reserves the volume, to survive a loss of power' reserves
t_check 'another host logs in with the identifier' comes other 127.0.0.2
t_check '... and is not taken for the holder' is conflict other read 0
t_check '... nor has it ended the session of the owner' is good owner read 0
t_target_stop KILL
start
t_check 'it comes first after a restart' comes other2 127.0.0.2
t_check '... and is not taken for the holder' is conflict other2 read 0
t_check 'the owner comes back' comes owner2 127.0.0.1
t_check '... as the holder' is good owner2 read 0
exec 7>&-
t_done
