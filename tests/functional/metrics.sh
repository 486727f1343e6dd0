#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# Metrics over HTTP and in a file, of a known load; hostile scrapers; slow
# commands.
. "${0%/*}/lib.sh"
t_needs_fuse
here=${0%/*}

control=()
! command -v rdma-ctl >/dev/null || control=(--control "$T/control")
# Below the ports of targets, and of connections that others make.
port=$((8000 + ($(od -An -N2 -tu2 /dev/urandom) % 12000)))
# Scrapes come over IPv4.
{ [ "$T_ALONE" != yes ] || echo 1 >/proc/sys/net/ipv6/bindv6only; } 2>/dev/null
t_target "${control[@]}" --backing ram:16M,name=a \
	--backing 'ram:16M,name=b"odd",fault=read:delay=60' --slow 50 \
	--metrics "[::]:$port" --metrics-file "$T/m.prom" --threads 2

mkdir "$T/mnt"
t_mount --metrics-file "$T/mount.prom" "$URI" "$T/mnt"

scrape() { python3 "$here/scrape.py" "$port" "$@"; }
checked() { # SCRAPE-PATH ARG...: arguments of exposition.py
	scrape >"$T/scraped" && python3 "$here/exposition.py" "$@" <"$T/scraped"
}
value() { checked --value "$1"; }
# grows_by NUMBER SERIES CMD...: the collected values may be 0.2 s old
grows_by() {
	local by=$1 series=$2 before
	shift 2
	sleep 0.3
	before=$(value "$series")
	[ "$before" != none ] || before=0
	"$@" || return 1
	t_wait_for 5 is "$((before + by))" "$series" && return
	echo "$series was $before, is $(value "$series")"
	return 1
}
is() { [ "$(value "$2" | sed 's/none/0/')" = "$1" ]; }
reads() { # VOLUME COUNT
	dd if="$T/mnt/$1" of=/dev/null bs=4k count="$2" iflag=direct status=none
}
writes() {
	dd if=/dev/zero of="$T/mnt/a" bs=64k count="$1" oflag=direct \
		conv=notrunc status=none
}

# ---- a known load

t_check 'the metrics are as Prometheus wants them' checked
t_check '100 reads are 100 reads of the volume' grows_by 100 \
	'rdma_target_volume_commands_total{volume="a",op="read"}' reads a 100
t_check 'of 4 KiB each' grows_by 409600 \
	'rdma_target_volume_data_bytes_total{volume="a",op="read"}' reads a 100
t_check 'each has a time' grows_by 100 \
	'rdma_target_volume_stage_seconds_count{volume="a",op="read",stage="respond"}' \
	reads a 100
t_check '20 writes fetch their data' grows_by 20 \
	'rdma_target_volume_stage_seconds_count{volume="a",op="write",stage="fetch"}' \
	writes 20
initiator=$(grep -o 'initiator="0x[0-9a-f]*"' "$T/scraped" | head -n 1)
t_check 'they are those of the initiator' grows_by 100 \
	"rdma_target_initiator_commands_total{$initiator,op=\"read\"}" reads a 100
t_check 'a session is counted' is 1 'rdma_target_sessions'
t_check 'another page is none' sh -c '! "$@"' sh \
	python3 "$here/scrape.py" "$port" /other

# Every metric of the dashboard and of the alerts, and every probe of the script, exists.
dashboard_metrics() { # FILE
	local name base
	for name in $(grep -oE 'rdma_(target|fuse)_[a-z_]*' "$here/../../docs/$1" | sort -u); do
		base=$(echo "$name" | sed -E 's/_(bucket|sum|count)$//')
		cat "$T/scraped" "$T/mount.prom" | grep -qE "^# TYPE ($name|$base) " || {
			echo "there is no $name"
			return 1
		}
	done
}
script_probes() {
	local name
	for name in $(grep -o 'rdma_target:[a-z_]*' "$here/../../scripts/slow-commands.bt" |
		sort -u); do
		grep -q "Name: ${name#*:}$" "$T/notes" || {
			echo "there is no $name"
			return 1
		}
	done
}
# It is written every ten seconds.
t_wait_for 30 grep -q rdma_fuse_volume_data "$T/mount.prom"
t_check 'the dashboard asks for metrics that there are' \
	dashboard_metrics grafana-rdma-target.json
t_check 'so do the alerts' dashboard_metrics prometheus-rdma-block.yml
alerts_are_yaml() {
	python3 - "$here/../../docs/prometheus-rdma-block.yml" <<-'END'
		import sys, yaml
		rules = yaml.safe_load(open(sys.argv[1]))['groups'][0]['rules']
		assert len(rules) > 5 and all(r['alert'] and r['expr'] for r in rules)
	END
}
if python3 -c 'import yaml' 2>/dev/null; then
	t_check 'the alerts are YAML' alerts_are_yaml
fi
readelf -n "$(command -v rdma-target)" >"$T/notes" 2>/dev/null
if grep -q 'Provider: rdma_target' "$T/notes"; then
	t_check 'the script uses probes that there are' script_probes
fi

# ---- slow commands

odd=$(ls "$T/mnt" | grep odd)
t_check 'a slow read is read' reads "$odd" 1
t_check 'the log says where its time went' t_wait_for 5 grep -qE \
	'slow command of 0x[0-9a-f]{32} from 127.*: READ.* of 8 blocks at LBA 0 on volume .b.*odd.*LUN 1\): [0-9.]+ ms: queue [0-9.]+, fetch 0.000, backend ([5-9][0-9]|[0-9]{3})[0-9.]*' \
	"$T/target.log"
if [ ${#control[@]} -gt 0 ]; then
	rdma-ctl "${control[@]}" --json events >"$T/events" &
	t_pids="$t_pids $!"
	t_wait_for 10 grep -q begin "$T/events" || t_bail 'no events'
	t_check 'more are read than the limit of the log' reads "$odd" 25
	t_check 'each is an event, with its volume and its nexus' t_wait_for 5 \
		jq -es 'map(select(.event == "slow")) | length > 0 and
			all(.volume == "b\"odd\"" and .lun == 1 and .level == "warning" and
			(.nexus | test("^0x[0-9a-f]{32}$")))' "$T/events"
	t_check 'which the limit of the log holds for' \
		jq -es 'map(select(.event == "slow")) | length <= 20' "$T/events"
fi
t_check 'a quick one is not in the log' sh -c \
	"! grep 'slow command' '$T/target.log' | grep -vE ': ([5-9][0-9]|[0-9]{3,})[.][0-9]{3} ms: queue'"

# ---- the file

file_is_good() { python3 "$here/exposition.py" "$@" <"$T/m.prom"; }
t_check 'the file has them, too' t_wait_for 20 file_is_good
t_check 'nothing lies beside it' sh -c "! ls '$T' | grep -q prom.new"

# ---- a limit of file sizes, which holds for the log, too

prlimit --pid "$T_TARGET" --fsize=$(($(stat -c %s "$T/m.prom") - 1)):
t_check 'a file that would be larger than it may be is in the log' t_wait_for 20 \
	grep -q 'm.prom: cannot write it: File too large' "$T/target.log"
t_check 'the target goes on' reads a 20
prlimit --pid "$T_TARGET" --fsize=unlimited:

# ---- hostile scrapers

mkfifo "$T/hold"
python3 "$here/scrape.py" "$port" --hostile "$T/stormed" <"$T/hold" &
t_pids="$t_pids $!"
exec 8>"$T/hold"
t_check 'hostile scrapers come' t_wait_for 60 test -e "$T/stormed"
t_check 'reads go on' reads a 200
exec 8>&-
t_check 'when they are gone, others get the metrics' t_wait_for 30 checked
t_check 'the target is well' kill -0 "$T_TARGET"

# ---- refusals

t_refused 'an address that is none is refused' "'nowhere': not ADDR:PORT" \
	rdma-target --backing ram:1M --metrics nowhere --listen srp+tcp://127.0.0.1:1
t_refused 'a port that is taken is refused' "cannot listen: .*in use" \
	rdma-target --backing ram:1M --metrics "$port" \
	--listen "srp+tcp://127.0.0.1:$((port + 1))"
fusermount3 -u "$T/mnt"
kill "$T_TARGET"
t_check 'the target ends' t_wait_for 20 t_is_gone "$T_TARGET"
t_done
