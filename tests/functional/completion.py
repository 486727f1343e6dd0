# SPDX-License-Identifier: BSD-2-Clause
"""
completion.py SHELL FILE TEXT: starts bash or zsh on a pseudo-terminal, loads the
completion FILE of rdma-ctl, types TEXT and waits for the end of the shell. Prints what
the shell has printed. \\t in TEXT asks for completion, \\n runs the line.
"""

import os
import pty
import sys

READY = 'ready-for-keys'
START = {
    'bash': (['bash', '--norc', '--noprofile', '-i'], 'set -o emacs; . {file}\n'),
    'zsh': (['zsh', '-f', '-i'], 'bindkey -e; fpath=({dir} $fpath); autoload -Uz compinit; '
            'compinit -u -D; compdef _rdma-ctl rdma-ctl\n'),
}


def main():
    shell, file, text = sys.argv[1:]
    command, start = START[shell]
    start = start.format(file=file, dir=os.path.dirname(file))
    pid, fd = pty.fork()
    if pid == 0:
        os.environ.update(TERM='dumb', PS1='$ ', INPUTRC='/dev/null')
        os.execvp(command[0], command)
    # The parts of READY are one word only in the output.
    typed = f"{start}echo '{READY[:5]}''{READY[5:]}'\n"
    os.write(fd, typed.encode())
    seen = b''
    try:
        while READY.encode() not in seen:
            seen += os.read(fd, 4096)
        os.write(fd, text.encode().decode('unicode_escape').encode() + b'\nexit\n')
        while True:
            data = os.read(fd, 4096)
            if not data:
                break
            seen += data
    except OSError:  # of a terminal whose other end is closed
        pass
    os.waitpid(pid, 0)
    print(seen.decode(errors='replace').replace('\r', ''))


main()
