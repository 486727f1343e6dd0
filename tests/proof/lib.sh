# SPDX-License-Identifier: BSD-2-Clause
# Proofs: a target, clients, and proof-load, which writes through them and
# checks the results while faults are caused. Source this file in place of
# functional/lib.sh, which it includes.
#
#   p_target ARG...   start rdma-target; after its end, start it again on the
#                     same port with the same arguments: p_target_again
#   p_load ARG...     start proof-load
#   p_note TEXT...    makes proof-load print TEXT, with the time, if it finds
#                     a violation
#   p_ask COMMAND...  give it a command (proof-load --help) and wait for the
#                     answer, in $P_ANSWER; fails after a violation, and
#                     $T/load.out then says what
#   p_end             check the results, and end proof-load
#   p_random N        a number from 0 to N - 1, in $P_RANDOM
#   p_pick VAR A B    sets VAR to A or B
#   p_times           notes "usable after" of the answer
#   p_tell_times      prints their distribution
#   p_go_on           true P_COUNT times; sometimes prints the progress
#
# P_COUNT: number of turns; P_SECONDS: duration instead; P_SEED: random seed.
# P_WITHIN: seconds within which everything must be usable again.
# P_KEEP: a directory for the files of $T after a failed run.

. "$(dirname "$0")/../functional/lib.sh"
trap 'exit 1' HUP
PATH="$BUILD/tests/proof:$PATH"
P_SEED=${P_SEED:-$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')}
echo "# seed $P_SEED"
p_seed=$P_SEED
p_began=$(date +%s)
p_told=$p_began
p_turn=0
: >"$T/times"

p_random() {
	p_seed=$(((p_seed * 1103515245 + 12345) % 2147483648))
	P_RANDOM=$((p_seed / 512 % $1))
}

p_pick() { # VARIABLE A B: one of them
	p_random 2
	[ "$P_RANDOM" = 0 ] && eval "$1=$2" || eval "$1=$3"
}

p_seconds() {
	echo $(($(date +%s) - p_began))
}

p_go_on() {
	if [ $(($(date +%s) - p_told)) -ge 10 ]; then
		p_told=$(date +%s)
		echo "# $(p_seconds) of ${P_SECONDS:-?} s, $p_turn of ${P_COUNT:-?} times: ${P_ANSWER-}"
	fi
	if [ -n "${P_SECONDS-}" ]; then
		[ "$(p_seconds)" -lt "$P_SECONDS" ] || return 1
	else
		[ $p_turn -lt "$P_COUNT" ] || return 1
	fi
	p_turn=$((p_turn + 1))
}

# ---- the target

p_target() {
	t_target "$@"
	cp "$T/target.log" "$T/target.first"
	p_save_args "$@"
}

p_save_args() {
	p_args=
	for p_arg in "$@"; do
		p_args="$p_args '$p_arg'"
	done
}

# Returns before the target serves. A killed target may still have the port, or
# its last writes may still be in the kernel. Then the new target reports this
# and is started again.
p_target_again() {
	t_new_log
	eval "exec rdma-target --listen '$URI' $p_args" >"$T/target.log" 2>&1 &
	T_TARGET=$!
	t_pids="$t_pids $T_TARGET"
}

p_target_serves() {
	grep -q 'rdma-fuse srp' "$T/target.log" && return
	t_is_gone "$T_TARGET" || return
	echo "# $(tail -n 1 "$T/target.log"); once more"
	p_target_again
	return 1
}

# ---- the load

p_load() {
	mkfifo "$T/ask" "$T/answer"
	proof-load "$@" <"$T/ask" >"$T/answer" 2>"$T/load.err" &
	P_LOAD=$!
	t_pids="$t_pids $P_LOAD"
	exec 7>"$T/ask" 8<"$T/answer"
	rm "$T/ask" "$T/answer"
	p_answer round
}

# Waits for the answer to COMMAND; other output is kept.
p_answer() {
	while read -r P_ANSWER <&8; do
		echo "$P_ANSWER" >>"$T/load.out"
		case $P_ANSWER in
		*wrong* | *failed* | HANGS* | ENDED*) break ;;
		"$1"* | "${1}ed"*) return 0 ;;
		esac
	done
	cat <&8 >>"$T/load.out"
	cat "$T/load.err" >>"$T/load.out"
	p_keep
	# Starting at the violation. Without one, the end of the output.
	grep -En 'VIOLATION|HANGS|ENDED' "$T/load.out" | head -n 1 | cut -d: -f1 |
		(read -r p_line && tail -n "+$p_line" "$T/load.out" |
			head -n 200 || tail -n 20 "$T/load.out")
	return 1
}

# The store, the logs and the output of proof-load.
p_keep() {
	[ -n "${P_KEEP-}" ] || return 0
	mkdir -p "$P_KEEP"
	find "$T" -maxdepth 1 -type f \
		-exec cp --sparse=always --target-directory="$P_KEEP" {} +
	echo "# kept in $P_KEEP"
}

p_note() { p_ask note "$@"; }

p_ask() {
	echo "$*" >&7
	p_answer "$1"
}

p_end() {
	echo quit >&7
	p_answer round || return 1
	exec 7>&- 8<&-
	wait "$P_LOAD"
}

# ---- times

p_times() {
	case $P_ANSWER in
	*'usable after'*) P_USABLE=${P_ANSWER##*usable after } ;;
	*) return 1 ;;
	esac
	echo "${P_USABLE% s}" >>"$T/times"
}

p_tell_times() { # WHAT
	sort -n "$T/times" | awk -v what="$1" '
		{ t[NR] = $1; sum += $1 }
		function at(p) { return t[int((NR - 1) * p) + 1] }
		END { if (NR) printf "# %s, %d times, seconds: min %.3f, " \
			"median %.3f, mean %.3f, 95%% %.3f, max %.3f\n", what, \
			NR, t[1], at(.5), sum / NR, at(.95), t[NR] }'
}

p_all_within() {
	[ -z "${P_WITHIN-}" ] ||
		awk -v m="$P_WITHIN" '$1 > m { print; n++ } END { exit n > 0 }' \
			"$T/times"
}
