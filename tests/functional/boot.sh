# SPDX-License-Identifier: BSD-2-Clause
# For tests of units: a container that uses this machine's own files (changes
# stay in memory) and whose first process is systemd. Source this after lib.sh.
#
# Outside:
#   b_root             make the files: $ROOT, with $UNITS in it; skip if impossible
#   b_install FILE...  install units and programs of $BUILD
#   b_boot SCRIPT      run `SCRIPT inside` as a service of the container, with $BUILD;
#                      its TAP lines become lines of this test
# Inside:
#   b_up                       say that systemd is up, and wake the loopback interface
#   b_is UNIT PROPERTY REGEX   compare a property
#   b_pid UNIT                 print its process
#   b_journal UNIT [ARG...]    print what it has logged
#   b_is_restricted PID        the process can gain nothing, and has a system call
#                              filter
#   b_may_write UNIT DIR       by a drop-in, which daemon-reload reads; for a target, its
#                              user gets the directory
#   b_disk PATH SIZE           make a file for a target

b_root() {
	[ -z "${SANITIZED-}" ] || t_skip_all 'the unit allows no sanitizer its memory'
	[ "$(id -u)" = 0 ] || t_skip_all 'needs root for a container'
	t_needs_fuse
	for tool in systemd-nspawn nsenter; do
		command -v $tool >/dev/null || t_skip_all "no $tool here"
	done
	ROOT=$T/root
	UNITS=$ROOT/etc/systemd/system
	mkdir "$ROOT" "$T/over" "$T/share"
	t_mounts="$ROOT $T/over"
	mount -t tmpfs none "$T/over" || t_skip_all 'may not mount here'
	mkdir "$T/over/upper" "$T/over/work"
	mount -t overlay -o "lowerdir=/,upperdir=$T/over/upper,workdir=$T/over/work" \
		none "$ROOT" || t_skip_all 'no overlay of / here'
	mkdir -p "$UNITS"
}

b_install() { # FILE...
	bindir=$(sed -n 's/^ExecStart=\([^ ]*\)\/rdma-target .*/\1/p' \
		"$BUILD/target/rdma-target.service")
	mkdir -p "$ROOT$bindir"
	for file; do
		case $file in
		target/*.service)
			cp "$BUILD/$file" "$UNITS"
			systemd-sysusers --root="$ROOT" \
				"$(dirname "$0")/../../scripts/rdma-target.sysusers"
			;;
		*.service) cp "$BUILD/$file" "$UNITS" ;;
		*) cp "$BUILD/$file" "$ROOT$bindir" ;;
		esac
	done
}

b_boot() { # SCRIPT
	cp "$1" "$(dirname "$1")/lib.sh" "$(dirname "$1")/boot.sh" "$T/share"
	cat >"$UNITS/check.service" <<-END
		[Unit]
		Requires=basic.target
		After=basic.target
		SuccessAction=poweroff-force
		FailureAction=poweroff-force
		[Service]
		Type=oneshot
		Environment=BUILD=/mnt/build
		ExecStart=/bin/sh /mnt/share/${1##*/} inside
		StandardOutput=truncate:/mnt/share/tap
	END
	mkdir -p "$ROOT/mnt/build" "$ROOT/mnt/share"
	autofs=
	[ ! -e /dev/autofs ] || autofs=--bind=/dev/autofs
	# In the process group of the test, which meson kills at its time limit.
	# systemd restricts devices (DeviceAllow=) by a BPF program.
	# shellcheck disable=SC2086 # nothing, or one word
	SYSTEMD_NSPAWN_UNIFIED_HIERARCHY=1 timeout --foreground 900 \
		systemd-nspawn --quiet --register=no --keep-unit \
		--capability=CAP_BPF,CAP_NET_ADMIN,CAP_PERFMON --system-call-filter=bpf \
		--private-network --machine="rdma-test-$$" --directory="$ROOT" \
		--bind=/dev/fuse $autofs --bind-ro="$BUILD:/mnt/build" \
		--bind="$T/share:/mnt/share" --console=pipe \
		--boot systemd.unit=check.service </dev/null >"$T/console" 2>&1
	[ -s "$T/share/tap" ] || t_skip_all 'systemd does not get up in a container here'
	cat "$T/share/tap"
	grep -q '^1\.\.' "$T/share/tap" || t_bail 'the container ended too early'
	! grep -q '^not ok' "$T/share/tap"
}

# ---- inside

b_up() {
	echo '# systemd is up'
	ip link set lo up
}

b_is() { # UNIT PROPERTY REGEX
	systemctl show -p "$2" --value "$1"
	systemctl show -p "$2" --value "$1" | grep -Eqx "$3"
}

b_pid() { systemctl show -p MainPID --value "$1"; }

b_journal() { # UNIT [ARG...]
	unit=$1
	shift
	journalctl -q -u "$unit" -o cat "$@"
}

b_is_restricted() { # PID
	grep -E 'Seccomp|NoNewPrivs' "/proc/$1/status"
	grep -Eq '^NoNewPrivs:.1$' "/proc/$1/status" &&
		grep -Eq '^Seccomp:.2$' "/proc/$1/status"
}

b_may_write() { # UNIT DIR
	mkdir -p "$2" "/etc/systemd/system/$1.d"
	printf '[Service]\nReadWritePaths=%s\n' "$2" \
		>"/etc/systemd/system/$1.d/volumes.conf"
	case $1 in
	rdma-target*) chown rdma-target: "$2" ;;
	esac
}

b_disk() { # PATH SIZE
	truncate -s "$2" "$1" && chown rdma-target: "$1"
}
