#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
# An administrator's mistakes with rdma-ctl, with files and with the command line. None of
# them lets anybody in who could not come before, or write who could not. The table in
# docs/security.md has them.
. "$(dirname "$0")/control_lib.sh"

for name in a b r w new; do truncate -s 1M "$T/$name.img"; done
# conf [SED]: the configuration of the target, changed
conf() {
	sed -e "s|@|$T/|" -e "${1:-}" <<-'END'
		{ "allow": ["10.0.0.1"], "backing": [
		{ "store": "@a.img", "name": "a", "lun": 0, "allow": ["10.0.0.2"] },
		{ "store": "@b.img", "name": "b", "lun": 1 },
		{ "store": "@r.img", "name": "r", "lun": 2, "ro": true },
		{ "store": "@w.img", "name": "w", "lun": 3, "allow": ["10.0.0.3:ro"] } ] }
	END
}
conf >"$T/c.json"
t_target --config "$T/c.json" --control "$S" --discovery off
access() { ctl allow && ctl volume list; }
access >"$T/access"
same_access() {
	access >"$T/access.now"
	diff "$T/access" "$T/access.now"
}

# Nothing is set, typed or spelt as it was meant.
while read -r line; do
	mistake() {
		eval "$line"
		same_access
	}
	t_check "$line" mistake
done <<'END'
ctl allow
ctl allow ${UNSET-}
ctl allow ''
ctl allow ' '
ctl allow "10.0.0.1 10.0.0.4"
ctl allow 10.0.0.1,10.0.0.4
ctl allow 0.0.0.0/0
ctl allow 10.0.0.0/
ctl allow 10.0.0.0/00
ctl allow '[::]/0'
ctl allow '[::1]/64'
ctl allow '[::ffff:0.0.0.0]/96'
ctl allow '[::ffff:10.0.0.0]/8'
ctl allow localhost
ctl allow ALL
ctl allow '*'
ctl allow 10.0.0.1:rw
ctl allow 10.0.0.1: all
ctl allow 10.0.0.1 none
ctl allow all none
ctl allow all 10.0.0.1:ro
ctl allow b all
ctl allow --volume b all
ctl allow --force all
ctl volume allow
ctl volume allow a ${UNSET-}
ctl volume allow a ''
ctl volume allow "${UNSET-}" all
ctl volume allow ${UNSET-} all
ctl volume allow A all
ctl volume allow all
ctl volume allow all a
ctl volume allow a b all
ctl volume allow a target
ctl volume allow w 10.0.0.3 10.0.0.3:ro
ctl volumes allow a all
ctl volume alow a all
ctl volume add "$T/new.img,allow="
ctl volume add "$T/new.img,allow"
ctl volume add "$T/new.img,alow=10.0.0.2"
ctl volume add "$T/new.img" allow=10.0.0.2
ctl volume add "$T/new.img,allow=10.0.0.2 10.0.0.3"
ctl volume add "$T/new.img,allow=10.0.0.2,allow=none"
ctl volume add "$T/new.img,ro=off"
ctl volume add "$T/new.img,RO"
ctl volume add "$T/new.img, ro"
ctl volume add "$T/new.img:ro"
ctl volume add "$T/new.img;ro"
ctl volume add "$T/new.img\\,ro"
ctl volume add "$T/new.img,name=a"
ctl volume add "$T/r.img,name=again"
ctl volume set r ro off=1
ctl volume remove ''
ctl listen add ''
ctl listen add all
ctl listen add srp+tcp://:5555
ctl listen add 'srp+tcp://*:5555'
ctl listen add localhost
ctl save && ctl reload
END

# A file, by each way to apply it.
while IFS='|' read -r name change; do
	mistake() {
		local same=0
		conf "$change" >"$T/d.json"
		! cmp "$T/d.json" <(conf) || return 1
		ctl apply "$T/d.json"
		ctl apply --prune "$T/d.json"
		cp "$T/d.json" "$T/c.json"
		ctl reload
		same_access || same=1
		conf >"$T/c.json"
		return $same
	}
	t_check "a file: $name" mistake
done <<'END'
no rules for the target|s/"allow": ."10.0.0.1".,//
the key Allow|s/"allow": ."10.0.0.1"/"Allow": ["10.0.0.1"/
the key alow of a volume|s/"allow": ."10.0.0.2"/"alow": ["10.0.0.2"/
no rules for a volume|s/, "allow": ."10.0.0.2".//
no rules and no name for a volume|s/"name": "a", "lun": 0, "allow": ."10.0.0.2"./"lun": 0/
an empty rule|s/"10.0.0.2"/""/
null|s/."10.0.0.2"./null/
rules in one text|s/"10.0.0.2"/"10.0.0.2,10.0.0.4"/
rules twice|s/"10.0.0.2".$/&, "allow": ["all"]/;s/"allow": ."10.0.0.2"./&, "allow": ["all"]/
nobody behind somebody|s/"10.0.0.1"/&, "none"/
read-only behind the same rule|s/"10.0.0.3:ro"/"10.0.0.3", &/
not read-only|s/, "ro": true//
read-only as a text|s/"ro": true/"ro": "true"/
RO|s/"ro": true/"RO": true/
another name|s/"name": "a"/"name": "z"/
two names exchanged|s/"name": "a"/"name": "r"/;s/"name": "r", "lun": 2/"name": "a", "lun": 2/
a volume twice|s/"name": "b"/"name": "a"/
the comma of the next option|s/b.img"/b.img\\"/
cut off|/"b"/,$d
END

kill "$T_TARGET"
wait "$T_TARGET"
# At the start.
starts_not() { t_refused "$1" "$2" timeout 10 rdma-target --listen "$URI" "${@:3}"; }
starts_not 'a start with an empty rule' 'a rule is' --allow '' --backing ram:1M
starts_not 'with nobody behind somebody' 'none .nobody. takes nothing' \
	--config "$T/c.json" --allow none
starts_not 'with read-only behind the rule of the file' 'never counts' \
	--config "$T/c.json" --allow 10.0.0.1:ro
starts_not 'with a store twice' 'is given twice' --backing "$T/a.img,ro" \
	--backing "$T/a.img,name=again"
t_done
