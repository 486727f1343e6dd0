#!/bin/bash
# SPDX-License-Identifier: BSD-2-Clause
#
# --help, the manual page and the completion of each program name the same
# options and state the same about them. Each script prints its help text. TAP
# on stdout.
set -uo pipefail
scripts=$(realpath "${BASH_SOURCE[0]%/*}/../../scripts")
number=0

# result NAME STATUS [DIAGNOSIS]
result() {
	number=$((number + 1))
	if [ "$2" = 0 ]; then
		echo "ok $number - $1"
	else
		echo "not ok $number - $1"
		sed 's/^/# /' <<<"${3-}"
	fi
}

# same NAME WANT GOT: also fails if WANT is empty
same() {
	[ -n "$2" ] && [ "$2" = "$3" ]
	result "$1" $? "$(diff <(echo "$2") <(echo "$3"))"
}

program_of() {
	case $1 in
	rdma-target) echo "$BUILD/target/$1" ;;
	rdma-fuse) echo "$BUILD/fuse/$1" ;;
	rdma-info) echo "$BUILD/initiator/$1" ;;
	rdma-discover) echo "$BUILD/discover/$1" ;;
	rdma-doctor) echo "$BUILD/doctor/$1" ;;
	srpcopy) echo "$BUILD/copy/$1" ;;
	rdma-ctl) echo "$BUILD/ctl/$1" ;;
	esac
}

help_names() {
	"$(program_of "$1")" --help | grep -oE '^  (-., |    )--[a-z-]+' |
		grep -oE -- '--[a-z-]+' | sort
}

# The facts about the options in the help text, such as the defaults.
help_facts() {
	"$(program_of "$1")" --help | tr -s ' \n' ' ' |
		grep -oE '([0-9.a-zA-Z]+ to [0-9.a-zA-Z]+[^.]*\. )?Default: [^.]*\.' |
		tr -d ' ' | sort
}


# A heading is the line before an indented paragraph.
page_names() {
	sed -n '/^\.SH OPTIONS/,/^\.SH/p' "$1" | sed 's/\\f[BIR]//g; s/\\-/-/g' |
		awk '/^\.RS/ { print last } { last = $0 }' |
		grep -oE -- '(^|, )--[a-z-]+' | grep -oE -- '--[a-z-]+' | sort
}

page_facts() {
	sed 's/\\f[BIR]//g; s/\\-/-/g; s/\\&//g' "$1" | tr -s ' \n' ' ' |
		grep -oE '([0-9.a-zA-Z]+ to [0-9.a-zA-Z]+[^.]*\. )?Default: [^.]*\.' |
		tr -d ' ' | sort
}

# bash_completes PROGRAM WORD...: prints the completions of the last word
bash_completes() {
	local program=$1
	shift
	bash -c '. "$1"; shift; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1))
		_"$1"; printf "%s\n" "${COMPREPLY[@]}"' _ \
		"$BUILD/docs/$program" "$program" "$@" | sort
}

programs=(rdma-target rdma-fuse rdma-info srpcopy rdma-discover rdma-doctor)
[ ! -e "$BUILD/ctl/rdma-ctl" ] || programs+=(rdma-ctl)
for program in "${programs[@]}"; do
	names=$(help_names $program)
	same "$program: bash completes the options of --help" "$names" \
		"$(bash_completes $program --)"
	same "$program: zsh completes them" "$names" \
		"$(grep -oE -- '([{,]|'"'"')--[a-z-]+(=?\[|=?\})' "$BUILD/docs/_$program" |
			grep -oE -- '--[a-z-]+' | sort)"
	manual=$(echo "$BUILD"/docs/$program.[18])
	if [ -e "$manual" ]; then
		same "$program: the manual page has them" "$names" \
			"$(page_names "$manual")"
		facts=$(help_facts $program)
		missing=$(comm -23 <(echo "$facts") <(page_facts "$manual"))
		[ -n "$facts" ] && [ -z "$missing" ]
		result "$program: it states the same ranges and defaults" $? "$missing"
	else
		echo "# no scdoc: no manual page of $program"
	fi
done
page=$BUILD/docs/rdma-target.json.5
if [ -e "$page" ]; then
	# Its headings, and the names of properties in the schema.
	same "the page of the configuration file has the keys of the schema" \
		"$(python3 - "$BUILD/docs/rdma-target.schema.json" <<-'END' | sort
			import json, sys
			schema = json.load(open(sys.argv[1]))
			volume = schema["definitions"]["volume"]["anyOf"][1]
			print(*(schema["properties"].keys() - {"$schema"}), *volume["properties"],
			      sep="\n")
		END
		)" "$(sed 's/\\f[BIR]//g; s/\\-/-/g; s/\\&//g' "$page" |
			awk '/^\.RS/ { print last } { last = $0 }' |
			sed -n 's/^\([a-z-]*\): .*/\1/p' | sort)"
fi
# Filled text joins lines, a backslash in a literal block is lost, and a terminal of 80
# columns breaks a line with more than 69: none can be pasted. An indented paragraph that
# no line explains is filled text.
examples_that_are_filled() {
	awk '/^```/ { literal = !literal; next }
		literal { next }
		/^\t/ && blank && !defined && !/^\t\*/ { print FILENAME ":" FNR ": " $0 }
		/^[^\t]/ { term = FNR; defined = 0 }
		/^\t/ && (term == FNR - 1 || /^\t\*/) { defined = 1 }
		{ blank = /^$/ }' "$@"
}

literal_lines() {
	awk '/^```/ { literal = !literal; next } literal' "$1" | sed 's/^[[:space:]]*//'
}

sources=("$scripts"/../docs/*.scd)
filled=$(examples_that_are_filled "${sources[@]}")
[ -z "$filled" ]
result "examples of the manual pages are literal blocks" $? "$filled"
if [ -e "$page" ] && man --version >/dev/null 2>&1; then
	for source in "${sources[@]}"; do
		name=${source##*/}
		[ -e "$BUILD/docs/${name%.scd}" ] || continue
		missing=$(literal_lines "$source" | awk 'length > 69'
			literal_lines "$source" | grep -vxFf <(MANWIDTH=80 \
			LC_ALL=C.UTF-8 man -P cat -l "$BUILD/docs/${name%.scd}" 2>&1 |
			col -bx | sed 's/^ *//'))
		[ -z "$missing" ]
		result "${name%.scd}: its examples can be pasted" $? "$missing"
	done
fi
same "bash completes the keys of a volume" "disk.img,serial=" \
	"$(bash_completes rdma-target --backing disk.img,ser)"
same "bash completes mount options" "ro,queue_depth=" \
	"$(bash_completes rdma-fuse -o ro,queue)"
if [ -e "$BUILD/ctl/rdma-ctl" ]; then
	verbs=$("$BUILD/ctl/rdma-ctl" --help | sed -n 's/^  volume \([a-z]*\) .*/\1/p' | sort)
	same "bash completes the second word of a verb" "$verbs" \
		"$(bash_completes rdma-ctl volume '')"
	same "and the keys of a volume to add" "disk.img,serial=" \
		"$(bash_completes rdma-ctl volume add disk.img,ser)"
	[ -z "$(bash_completes rdma-ctl save '')" ]
	result "and nothing behind a verb without values" $?
fi
for script in abi bench ceph check fuzz install-deps quickstart soak soft-rdma test vm; do
	text=$("$scripts/$script" --help 2>&1)
	[ $? = 0 ] && grep -q -- "$script" <<<"$text"
	result "scripts/$script --help" $? "$text"
done
echo "1..$number"
