#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The Debian packages: lintian does not complain, no file is in two packages, and
# a purge leaves nothing. The packages are installed into a copy of this
# machine's own files (changes stay in memory). With P_BARE=1, apt installs them
# into a bare Debian 12 from the network. With P_TWICE=1, only compares two builds.

# ---- inside the copy

# dpkg refuses a package that needs a missing package, or has a file of another
# one.
installs() {
	[ -n "${P_BARE-}" ] || dpkg -i /mnt/share/debs/*.deb
	dpkg --audit && [ -z "$(dpkg --audit)" ]
}
is_as_installed() {
	dpkg -V $debs && [ -z "$(dpkg -V $debs)" ]
}
# Everything that the packages start by themselves, and files that they made.
has_been_used() {
	mkdir -p /var/lib/rdma-target /var/lib/rdma-target-second &&
		touch /var/lib/rdma-target/x /var/lib/rdma-target-second/x &&
		systemctl enable rdma-target.service
}
passes() { # TEST
	AUTOPKGTEST_TMP=$(mktemp -d) sh -e "/mnt/share/tests/$1"
}
# On a machine that has nothing but the packages.
tutorial_runs() {
	D_ALONE=1 bash /mnt/share/tree/tests/functional/tutorial.sh | tee "$T/tutorial"
	grep -q '^1\.\.[1-9]' "$T/tutorial" && ! grep -q '^not ok' "$T/tutorial"
}
purges() {
	dpkg --purge $debs
}
# Prints all files in /etc, /usr and /var, except those of package management.
files() {
	find /etc /usr /var -xdev ! -type d ! -path '/var/lib/dpkg/*' \
		! -path '/var/log/*' ! -path '/var/cache/*' ! -path '/etc/ld.so.cache' \
		! -path '/var/lib/systemd/catalog/*' | sort
	find /etc /usr /var -xdev -type d \( -name '*rdma*' -o -name '*srpi*' \)
}
# Packages that apt has installed for ours stay. /lib is /usr/lib.
files_but_ours() {
	dpkg -L $debs | sed 's,^/lib/,/usr/lib/,' | sort -u >/mnt/share/ours
	files | grep -vxFf /mnt/share/ours
}
# fusermount3 makes its lock file if /etc/mtab is a file.
leaves_nothing() {
	files | sort >/mnt/share/after
	sort /mnt/share/before | comm -13 - /mnt/share/after |
		grep -vx /etc/mtab.fuselock >/mnt/share/left
	cat /mnt/share/left
	[ ! -s /mnt/share/left ]
}

inside() {
	. "$SHARE/lib.sh"
	ip link set lo up
	debs=$(for deb in /mnt/share/debs/*.deb; do dpkg-deb -f "$deb" Package; done)
	if [ -n "${P_BARE-}" ]; then
		files_but_ours >/mnt/share/before
	else
		files >/mnt/share/before
	fi
	t_check 'the packages install' installs
	t_check 'and have no file changed' is_as_installed
	t_check 'the autopkgtest serve-and-mount passes' passes serve-and-mount
	t_check 'the autopkgtest build-plugin passes' passes build-plugin
	t_check 'the autopkgtest python passes' passes python
	t_check 'the commands of the tutorial run as printed' tutorial_runs
	t_check 'the target is enabled, and two have had a state' has_been_used
	t_check 'the packages are purged' purges
	t_check 'that leaves nothing' leaves_nothing
	t_done
}

if [ "${1-}" = inside ]; then
	inside
fi

# ---- outside

. "$(dirname "$0")/lib.sh"
p_needs dpkg-buildpackage dh dpkg-deb
# The message names the missing packages.
(cd "$SRC" && dpkg-checkbuilddeps -B 2>"$T/missing") ||
	t_skip_all "$(sed 's/^[^:]*: [^:]*: //' "$T/missing")"

# Objects of an earlier run will do, but not where two builds are compared.
p_cache=CCACHE_DISABLE=1
[ -n "${P_TWICE-}" ] || p_cache=CCACHE_DIR=$(ccache --get-config cache_dir 2>/dev/null)
build() { # DIR ENVIRONMENT...
	p_sources "$1"
	p_dir=$1
	shift
	(cd "$p_dir" && env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin "$p_cache" \
		DEB_BUILD_OPTIONS='nocheck parallel=2' "$@" \
		dpkg-buildpackage -b -us -uc) >"$p_dir.log" 2>&1 || {
		tail -n 30 "$p_dir.log"
		return 1
	}
}
builds() {
	build "$T/one/rdma-block" HOME=/nonexistent
}
builds_again() {
	umask 077
	build "$T/two/elsewhere/tree" HOME="$T" TZ=Asia/Tokyo LC_ALL=C.UTF-8 USER=x
}
are_the_same() {
	(cd "$T/one" && sha256sum ./*.deb) >"$T/one.sums"
	(cd "$T/two/elsewhere" && sha256sum ./*.deb) >"$T/two.sums"
	[ -s "$T/one.sums" ] && diff "$T/one.sums" "$T/two.sums"
}
# A comment stands before each override.
overrides_are_explained() {
	awk 'FNR == 1 { last = "" }
		!/^#/ && NF && last !~ /^#/ { print FILENAME ": " $0; bad = 1 }
		{ last = $0 }
		END { exit bad }' "$SRC"/debian/*.lintian-overrides
}
lints() {
	# lintian prints a warning on standard error that it runs as root.
	lintian --pedantic --display-info --display-experimental \
		"$T"/one/*.changes 2>/dev/null >"$T/lint"
	cat "$T/lint"
	[ ! -s "$T/lint" ]
}
no_file_is_in_two() {
	for deb in "$T"/one/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -t | grep -v '/$'
	done | sort | uniq -d >"$T/twice"
	cat "$T/twice"
	[ ! -s "$T/twice" ]
}
# The package of a program has its manual page and its completions.
have_their_pages() {
	for deb in "$T"/one/*.deb; do
		dpkg-deb --fsys-tarfile "$deb" | tar -t >"$T/files"
		sed -n 's,^\./usr/bin/,,p' "$T/files" | grep . | while read -r name; do
			grep -q "/man[18]/$name\.[18]\.gz$" "$T/files" ||
				echo "${deb##*/}: $name has no manual page"
			grep -q "/bash-completion/completions/$name$" "$T/files" &&
				grep -q "/zsh/vendor-completions/_$name$" "$T/files" ||
				echo "${deb##*/}: $name has no completions"
		done
	done >"$T/lacking"
	cat "$T/lacking"
	[ ! -s "$T/lacking" ]
}
run() {
	for deb in "$T"/one/rdma-block-*.deb; do
		dpkg-deb -x "$deb" "$T/tree" || return 1
	done
	for program in "$T"/tree/usr/bin/*; do
		"$program" --version | grep "$(dpkg-parsechangelog -S Version \
			-l "$SRC/debian/changelog")" || return 1
	done
}

# Runs the scripts of all packages with stubs that print what they are asked for,
# as if systemd ran here.
scripts_say() { # SCRIPT ARGUMENT...
	for deb in "$T"/one/*.deb; do
		rm -rf "$T/control" && dpkg-deb -e "$deb" "$T/control" || return 1
		[ -e "$T/control/$1" ] || continue
		sed -i 's,/run/systemd/system,/,' "$T/control/$1"
		(script=$T/control/$1 && shift && PATH="$T/stubs:$PATH" "$script" "$@")
	done
}
stubs() {
	mkdir -p "$T/stubs"
	for name in deb-systemd-invoke deb-systemd-helper systemctl systemd-sysusers py3compile \
		py3clean; do
		printf '#!/bin/sh\necho "%s $*" >>"%s/calls"\n' $name "$T" \
			>"$T/stubs/$name" && chmod 755 "$T/stubs/$name" || return 1
	done
	: >"$T/calls"
}
# The steps of dpkg, in its order.
upgrade_leaves_services() {
	stubs && scripts_say prerm upgrade 9 && scripts_say preinst upgrade 0 &&
		scripts_say postrm upgrade 9 && scripts_say postinst configure 0 ||
		return 1
	cat "$T/calls"
	[ -s "$T/calls" ] && ! grep -Ew 'start|stop|restart|try-restart' "$T/calls"
}
removal_stops_services() {
	stubs && scripts_say prerm remove || return 1
	cat "$T/calls"
	for unit in rdma-target rdma-target@ rdma-fuse@ rdma-discover; do
		grep "stop .*$unit" "$T/calls" || return 1
	done
}

t_check 'the packages build' builds
[ $t_failed = 0 ] || t_done
if [ -n "${P_TWICE-}" ]; then
	t_check 'and again elsewhere' builds_again
	t_check 'both builds have the same bytes' are_the_same
	t_done
fi
if command -v lintian >/dev/null; then
	t_check 'lintian has nothing to say' lints
else
	t_skip 'lintian has nothing to say' 'no lintian here'
fi
t_check 'each override is explained' overrides_are_explained
t_check 'no file is in two packages' no_file_is_in_two
t_check 'programs come with pages and completions' have_their_pages
t_check 'the programs run' run
t_check 'an upgrade stops and restarts nothing' upgrade_leaves_services
t_check 'a removal stops everything' removal_stops_services

# A copy of this machine's files, for inside().
can_install() {
	[ "$(id -u)" = 0 ] || { echo 'needs root for a container' && return 1; }
	command -v systemd-nspawn >/dev/null ||
		{ echo 'no systemd-nspawn here' && return 1; }
	[ -e /dev/fuse ] || { echo 'no /dev/fuse here' && return 1; }
	mkdir "$T/root" "$T/over" "$T/share"
	[ -z "${P_BARE-}" ] || return 0
	! dpkg-query -W rdma-block-target >/dev/null 2>&1 ||
		{ echo 'rdma-block-target is installed here' && return 1; }
	mount -t tmpfs none "$T/over" && mkdir "$T/over/upper" "$T/over/work" &&
		mount -t overlay -o "lowerdir=/,upperdir=$T/over/upper,workdir=$T/over/work" \
			none "$T/root" || { echo 'no overlay of / here' && return 1; }
}
t_mounts="$T/root $T/over"
if ! can_install >"$T/why" 2>&1; then
	t_skip 'the packages install' "$(tail -n 1 "$T/why")"
	t_done
fi
mkdir "$T/share/debs"
for deb in "$T"/one/*.deb; do
	case $deb in
	*-dbgsym_*) ;;
	*) cp "$deb" "$T/share/debs" ;;
	esac
done
# Also installs packages that the autopkgtests and this script need.
installs_by_apt() {
	debootstrap --variant=minbase bookworm "$T/root" || return 1
	mkdir "$T/root/debs" && cp "$T"/share/debs/* "$T/root/debs"
	chroot "$T/root" env DEBIAN_FRONTEND=noninteractive apt-get install -y \
		--no-install-recommends systemd iproute2 e2fsprogs fio gcc make pkgconf \
		libc6-dev && chroot "$T/root" sh -c 'DEBIAN_FRONTEND=noninteractive \
		apt-get install -y --no-install-recommends /debs/*.deb'
}
if [ -n "${P_BARE-}" ]; then
	t_check 'apt installs the packages into a bare Debian' installs_by_apt
	[ $t_failed = 0 ] || t_done
fi
mkdir -p "$T/root/mnt/share"
cp -r "$SRC/debian/tests" "$SRC/tests/functional/lib.sh" "$0" "$T/share"
mkdir -p "$T/share/tree/docs" "$T/share/tree/tests/functional"
cp "$SRC/docs/tutorial.md" "$T/share/tree/docs"
for file in lib.sh doc_lib.sh doc_marks commands.py tutorial.sh; do
	cp "$SRC/tests/functional/$file" "$T/share/tree/tests/functional"
done
timeout 900 systemd-nspawn --quiet --register=no --keep-unit --private-network \
	--system-call-filter="landlock_create_ruleset landlock_add_rule landlock_restrict_self" \
	--machine="rdma-packages-$$" --directory="$T/root" --bind=/dev/fuse \
	--bind="$T/share:/mnt/share" --console=pipe \
	--setenv=P_BARE="${P_BARE-}" --setenv=BUILD=/nonexistent --setenv=SHARE=/mnt/share \
	--setenv=DEBIAN_FRONTEND=noninteractive \
	sh /mnt/share/debian.sh inside </dev/null >"$T/tap" 2>"$T/console"
sed -n "s/^ok [0-9]*/ok/p; s/^not ok [0-9]*/not ok/p; /^#/p" "$T/tap" >"$T/said"
if [ ! -s "$T/said" ]; then
	t_skip 'the packages install' "no container here: $(tail -n 1 "$T/console")"
	t_done
fi
# Prints its results with consecutive numbers.
while read -r word rest; do
	case $word in
	ok) t_cnt=$((t_cnt + 1)) && echo "ok $t_cnt $rest" ;;
	not)
		t_cnt=$((t_cnt + 1)) t_failed=$((t_failed + 1))
		echo "not ok $t_cnt ${rest#ok }"
		;;
	*) echo "$word $rest" ;;
	esac
done <"$T/said"
grep -q '^1\.\.' "$T/tap" || t_bail 'the container ended too early'
t_done
