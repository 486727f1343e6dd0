#!/bin/sh
# SPDX-License-Identifier: BSD-2-Clause
# The RPM spec: rpmlint does not complain, rpm can parse it, and its lists of
# files match the files that this build installs. The packages are not for use
# on this machine: macros of Fedora that Debian lacks are defined below.
. "$(dirname "$0")/lib.sh"
p_needs rpmlint rpmspec rpmbuild meson

spec=$SRC/packaging/rpm/rdma-block.spec
filters=$SRC/packaging/rpm/rdma-block.rpmlintrc

lints() {
	rpmlint -r "$filters" "$spec" >"$T/lint" 2>&1
	cat "$T/lint"
	grep -q '; 0 errors, 0 warnings' "$T/lint"
}
# A comment stands before each filter.
filters_are_explained() {
	awk '/^addFilter/ && last !~ /^#/ { print; bad = 1 } { last = $0 }
		END { exit bad }' "$filters"
}
is_parsed() {
	rpmspec -P "$spec" >"$T/parsed" && grep '^Name: *rdma-block$' "$T/parsed"
}
has_the_version() {
	p_version=$(sed -n "s/^  version: '\(.*\)',/\1/p" "$SRC/meson.build")
	rpmspec -q --srpm --qf '%{version}\n' "$spec" | grep -Fx "$p_version"
}

prefix=$(sed -n 's/^prefix=//p' "$BUILD"/meson-private/srpi.pc)
sitearch=$(grep -o '"[^"]*-packages/srpi/__init__.py"' \
	"$BUILD/meson-info/intro-installed.json" |
	sed 's,"\(.*\)/srpi/__init__.py",\1,')
libdir=$(sed -n "s,^libdir=\${prefix},$prefix,p" "$BUILD"/meson-private/srpi.pc)
# nbdkit itself says where its plugins are, for prefixes in its own.
plugins=$(pkg-config --variable=plugindir nbdkit)
installs() {
	echo "DESTDIR=%{buildroot} meson install -C '$BUILD' --no-rebuild --quiet;" \
		"mkdir -p '%{buildroot}$libdir/nbdkit';" \
		"[ -d '%{buildroot}$libdir/nbdkit/plugins' ] ||" \
		"mv -T '%{buildroot}$plugins' '%{buildroot}$libdir/nbdkit/plugins'"
}
builds() {
	mkdir -p "$T/rpm/SOURCES"
	p_sources "$T/rdma-block-$p_version"
	tar -C "$T" -cJf "$T/rpm/SOURCES/rdma-block-$p_version.tar.xz" \
		"rdma-block-$p_version"
	rpmbuild -bb --nodeps --nocheck --nodebuginfo --target "$(uname -m)-linux" \
		--define "_topdir $T/rpm" --define "_dbpath $T/rpm/db" \
		--define "_prefix $prefix" --define "_libdir $libdir" \
		--define "_datadir $prefix/share" \
		--define "python3_sitearch $sitearch" \
		--define "_unitdir $prefix/lib/systemd/system" \
		--define "_sysusersdir $prefix/lib/sysusers.d" \
		--define 'sysusers_create_compat true' \
		--define '__os_install_post %{nil}' --define '_build_id_links none' \
		--define 'meson true' --define 'meson_build true' \
		--define "meson_install $(installs)" \
		--define 'meson_test true' --define 'systemd_post true' \
		--define 'systemd_preun true' --define 'systemd_postun true' \
		"$spec" || return 1
	find "$T/rpm/RPMS" -name '*.rpm' >"$T/made"
}
makes_every_package() {
	rpmspec -q --builtrpms --qf '%{name}\n' "$spec" | sort >"$T/named"
	while read -r rpm; do
		rpm -qp --nosignature --dbpath "$T/rpm/db" --qf '%{name}\n' "$rpm"
	done <"$T/made" | sort | diff "$T/named" -
}
# No file is in two packages.
share_nothing() {
	while read -r rpm; do
		rpm -qlp --nosignature --dbpath "$T/rpm/db" "$rpm"
	done <"$T/made" | sort | uniq -d >"$T/twice"
	cat "$T/twice"
	[ ! -s "$T/twice" ]
}

t_check 'rpmlint has nothing to say' lints
t_check 'each filter is explained' filters_are_explained
t_check 'rpm can parse the spec' is_parsed
t_check 'it has the version of this tree' has_the_version
for part in plugins/rbd plugins/nbd nbdkit docs ctl python; do
	case $part in
	docs) made=$(find "$BUILD/docs" -name srpi.3) ;;
	ctl) made=$(find "$BUILD/ctl" -name rdma-ctl) ;;
	*) made=$(find "$BUILD/$part" -name '*.so' 2>/dev/null) ;;
	esac
	if [ -z "$made" ]; then
		t_skip 'the lists of files are complete' "built without $part"
		t_done
	fi
done
t_check 'the lists of files are complete' builds
if [ -s "$T/made" ]; then
	t_check 'every package is made' makes_every_package
	t_check 'no file is in two packages' share_nothing
fi
t_done
