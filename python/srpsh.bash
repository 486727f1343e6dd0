# SPDX-License-Identifier: BSD-2-Clause
# bash completion of srpsh
_srpsh()
{
	case $3 in
	-u | --uri | -c | --command) return ;;
	esac
	mapfile -t COMPREPLY < <(compgen -W \
		'--uri --command --version --help' -- "$2")
}
complete -F _srpsh srpsh
