#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# What initiators see of an RBD image that two targets serve: target port groups,
# commands that read and write, and persistent reservations. These are stored in the
# image, each target shows the same ones, and a target that cannot learn of new ones
# does not write.
. "$(dirname "$0")/rbd_lib.sh"
r_needs_ceph --store bluestore
PATH="$BUILD/tests/functional:$PATH"

REGISTER=0 RESERVE=1 RELEASE=2 CLEAR=3 PREEMPT=4 PREEMPT_ABORT=5 IGNORE=6
WERO=5 WE=1
POWER_ON=06/29/01 PREEMPTED=06/2a/03 RELEASED=06/2a/04 UNREGISTERED=06/2a/05
STANDBY=02/04/0b
TUR=000000000000

mkfifo "$T/ask" "$T/answer"
pr_client <"$T/ask" >"$T/answer" 2>"$T/client.err" &
t_pids="$t_pids $!"
exec 7>"$T/ask" 8<"$T/answer"

ask() { # NAME COMMAND...: stores the answer in $ANSWER
	echo "$*" >&7
	read -r ANSWER <&8 || t_bail "$(cat "$T/client.err")"
}
is() { # EXPECTED NAME COMMAND...
	expected=$1
	shift
	ask "$@"
	[ "$ANSWER" = "$expected" ] || {
		echo "$*: '$ANSWER', not '$expected'"
		return 1
	}
}
# Clears any unit attentions after a login or a change of paths.
settle() {
	for nexus; do
		for try in 1 2 3 4 5 6; do
			ask "$nexus" cdb $TUR 0
			case $ANSWER in
			06/*) ;;
			*) break ;;
			esac
		done
	done
}

all() { # CMD... [-- CMD...]: each must succeed
	while [ $# -gt 0 ]; do
		all_cmd=
		while [ $# -gt 0 ] && [ "$1" != -- ]; do
			all_cmd="$all_cmd '$1'"
			shift
		done
		[ $# = 0 ] || shift
		eval "$all_cmd" || return 1
	done
}

ceph auth get-or-create client.gate mon 'profile rbd' \
	osd 'profile rbd pool=rbd' -o "$T/gate" >/dev/null
USER_OF="id=gate,keyring=$T/gate,timeout=5"
rbd create -s 64M img
ID=$(rbd info img | sed -n 's/.*block_name_prefix: rbd_data\.//p')

r_gateway 1 "$USER_OF,role=active"
r_gateway 2 "$USER_OF"
t_check 'the second one is in standby' \
	t_wait_for 10 r_said 2 'in standby (target port group 2 of 2; 1 is' 1

# Initiators 1 and 2, each through both targets.
login() {
	is good a1 login 127.0.0.1:$PORT_1 1 && is good a2 login 127.0.0.1:$PORT_2 1 &&
		is good b1 login 127.0.0.1:$PORT_1 2 &&
		is good b2 login 127.0.0.1:$PORT_2 2
}
t_check 'initiators log in' login
settle a1 a2 b1 b2

t_check 'nobody is registered' is 'gen 0' a1 full
t_check 'register through both' all is good a1 out $REGISTER 0 a 0 0 -- \
	is good a2 out $REGISTER 0 a 0 0 -- is good b1 out $REGISTER 0 b 0 0
t_check 'one target shows what came through the other' \
	all is 'gen 3; 1/1=a; 1/2=a; 2/1=b' a1 full -- \
	is 'gen 3; 1/1=a; 1/2=a; 2/1=b' b2 full
t_check 'a nexus of each is another one' \
	is conflict b2 out $RESERVE b 0 $WERO 0
t_check 'reserve through the one in standby' is good a2 out $RESERVE a 0 $WE 0
t_check 'who does not hold it is shut out at the active one' \
	all is conflict b1 write 0 -- is conflict a1 write 0 -- is good b1 read 0
t_check 'a conflict is one through both' \
	all is conflict b1 out $RESERVE b 0 $WE 0 -- \
	is conflict a1 out $RESERVE a 0 $WE 0
t_check 'release through the one in standby' is good a2 out $RELEASE a 0 $WE 0
t_check 'then others write again' is good b1 write 0

t_check 'registrants only' all is good b1 out $RESERVE b 0 $WERO 0 -- \
	is good a1 write 0
t_check 'the release is told to registrants of both' \
	all is good b1 out $RELEASE b 0 $WERO 0 -- \
	is $RELEASED a1 cdb $TUR 0 -- is $RELEASED a2 cdb $TUR 0

t_check 'the standby preempts what the active one serves' \
	all is good b1 out $RESERVE b 0 $WERO 0 -- \
	is good a2 out $PREEMPT a b $WERO 0
t_check 'its registration is gone, which it hears' \
	all is $UNREGISTERED b1 cdb $TUR 0 -- is conflict b1 write 0 -- \
	is 'gen 4; 1/1=a; 1/2=a* 5' b1 full
t_check 'clear is told to all' \
	all is good a1 out $CLEAR a 0 0 0 -- is $PREEMPTED a2 cdb $TUR 0 -- \
	is 'gen 5' b2 full -- is good b1 write 0

t_check 'all target ports at once' \
	all is good a1 out $REGISTER 0 a 0 4 -- is good b2 out $REGISTER 0 b 0 4 -- \
	is 'gen 7; 1/1=a; 1/2=a; 2/1=b; 2/2=b' a2 full
t_check 'capabilities: no RESERVE, but what survives' \
	is 'good 00 08 0d 80 ea 01 00 00' a2 cdb 5e020000000000000800 8
t_check 'RESERVE is refused' is 05/20/00 a1 cdb 160000000000 0

# ---- target port groups

# STATE1 STATE2: both targets report the groups 1 and 2 so (0: active, 2: standby)
groups_are() {
	groups="good 00 00 00 18 0$1 05 00 01 00 00 00 01 00 00 00 01"
	groups="$groups 0$2 05 00 02 00 00 00 01 00 00 00 02"
	for nexus in a1 a2; do
		is "$groups" $nexus cdb a30a000000000000001c0000 28 || return 1
	done
}
are_soon() { t_wait_for 10 groups_are "$@" && settle a1 a2 b1 b2; }
set_active() { # NEXUS GROUP
	is good "$1" send a40a00000000000000080000 "00*4,00,00,00,0$2"
}
caw() { # EXPECTED NEXUS COMPARE WRITE: of block 8
	is "$1" "$2" send 89000000000000000008000000010000 "$3*512,$4*512"
}

t_check 'the first one is active' are_soon 0 2
t_check 'COMPARE AND WRITE' all caw good a1 00 11 -- caw 0e/1d/00 b1 00 22 -- \
	caw $STANDBY b2 11 22
t_check 'no target makes another one active' \
	is 05/26/00 a1 send a40a00000000000000080000 '00*4,00,00,00,02'
t_check 'SET TARGET PORT GROUPS makes the second one active' \
	all set_active a2 2 -- are_soon 2 0
t_check 'the first one executes nothing more' all is $STANDBY a1 write 0 -- \
	is $STANDBY b1 read 0 -- caw $STANDBY a1 11 22
t_check 'the second one does' all is good b2 write 0 -- caw good b2 11 22
t_check 'and back' all set_active a1 1 -- are_soon 0 2

# The first one is frozen while the second one writes to objects that the first one
# knows as missing. It gets a VERIFY of zeroes before it continues, and its librbd may
# answer from memory.
sees_no_stale_zeroes() {
	for block in 00004000 00008000 0000c000; do
		kill -STOP "$GATE_1"
		set_active a2 2 && settle b2 &&
			is good b2 send 2a00${block}00000100 "77*512" || return
		echo "b1 send 2f02${block}00000100 00*512" >&7
		kill -CONT "$GATE_1"
		read -r ANSWER <&8
		echo "$block: $ANSWER"
		[ "$ANSWER" != good ] && are_soon 2 0 && set_active a1 1 &&
			are_soon 0 2 || return
	done
}
t_check 'a target that was fenced shows no stale zeroes' sees_no_stale_zeroes

# ---- after failover

t_check 'reserve' is good a1 out $RESERVE a 0 $WERO 0
stpg() { # the other target becomes active
	kill -9 "$GATE_1"
	wait "$GATE_1"
	r_gateway 1 "$USER_OF,role=active" "$PORT_1"
}
stpg
t_check 'after kill -9 they are there' all login -- true
settle a1 a2 b1 b2
t_check 'at both' all is 'gen 7; 1/1=a* 5; 1/2=a; 2/1=b; 2/2=b' a1 full -- \
	is 'gen 7; 1/1=a* 5; 1/2=a; 2/1=b; 2/2=b' b2 full
t_check 'and they hold' all is good b1 write 0 -- \
	is good a2 out $PREEMPT a b $WERO 0 -- \
	is $UNREGISTERED b1 cdb $TUR 0 -- is conflict b1 write 0

# ---- a target that does not answer

r_gateway_stop 2
r_gateway 2 "$USER_OF" "$PORT_2"
t_wait_for 10 r_said 2 'in standby (target port group 2 of 2; 1 is' 1
t_check 'the standby starts again' \
	all is good a2 login 127.0.0.1:$PORT_2 1 -- \
	is good b2 login 127.0.0.1:$PORT_2 2
settle a1 a2 b1 b2
t_check 'register again' all is good b1 out $REGISTER 0 b 0 4 -- \
	is good b1 write 0
kill -STOP "$GATE_1"
is good b1 start 0
t_check 'preempt while the active one is frozen' \
	is good a2 out $PREEMPT_ABORT a b $WERO 0
t_check 'it is fenced off' r_said 2 'fences .* off, which has not answered' 1
kill -CONT "$GATE_1"
# It opens the image again, and answers then. Nothing but unit attentions before.
answers_as_standby() {
	while ask a1 full; do
		case $ANSWER in
		06/*) ;;
		*) break ;;
		esac
	done
	[ "$ANSWER" = 'gen 10; 1/1=a* 5; 1/2=a' ] || { echo "$ANSWER"; false; }
}
t_check 'the fenced one shows what the other one has put' answers_as_standby
late_write() {
	ask b1 wait
	case $ANSWER in
	conflict | aborted | $STANDBY | $UNREGISTERED) ;;
	*) echo "$ANSWER" && return 1 ;;
	esac
}
t_check 'the late write of the preempted initiator fails' late_write
t_check 'it goes on as standby' \
	t_wait_for 20 r_said 1 'in standby (target port group 1 of 2; 0 is' 1
settle a1 a2 b1 b2
t_check 'both show the same' all \
	is 'gen 10; 1/1=a* 5; 1/2=a' a1 full -- \
	is 'gen 10; 1/1=a* 5; 1/2=a' b2 full

# ---- a cluster that does not answer

kill -9 "$(cat "$C/osd.pid")"
t_check 'PERSISTENT RESERVE IN and OUT fail without the cluster' \
	all is 04/44/00 a2 full -- is 04/44/00 a2 out $CLEAR a 0 0 0
"$src/scripts/ceph" start "$C" osd
answers() { ask a2 full; case $ANSWER in gen*) ;; *) false ;; esac; }
t_check 'then it is there again' t_wait_for 30 answers
t_check 'as before or after' eval 'case $ANSWER in
	"gen 10; 1/1=a* 5; 1/2=a" | "gen 11") ;; *) false ;; esac'
t_check 'they lie in the image' \
	eval 'rados -p rbd listomapkeys "rbd_header.$ID" | grep -qx rdma_block.notes'
exec 7>&- 8<&-
t_done
