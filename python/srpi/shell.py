# SPDX-License-Identifier: BSD-2-Clause
"""srpsh: a Python prompt with a volume of an SRP target."""
from __future__ import annotations

import argparse
import code
import sys
from typing import Any, NoReturn, Optional

import srpi

_HELP = """\
s is the session, v the volume. Offsets and lengths are bytes.

  s.volumes                  the volumes of the target
  v = s.volume("disk")       another volume; volume(0) is LUN 0
  v.size, v.block_size       bytes
  v.read(0, 4096)            read 4096 bytes at 0
  v.write(0, b"..." )        write at 0; whole blocks
  v.flush()                  make the writes stable
  v.zero(0, 4096)            make the range read as zeroes
  v.unmap(0, 4096)           the contents are not needed any more
  list(v.extents())          data and holes
  s.info, s.stats, s.paths   the connection
  s = connect("srp://HOST")  another session

help(v) tells more; so does srpi-python(3). Ctrl-D ends srpsh."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        _fail(f"{message}; see --help")


def _fail(text: str) -> NoReturn:
    print(f"srpsh: {text}", file=sys.stderr)
    sys.exit(1)


def _parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="srpsh",
        description="Connect to an SRP target, and run Python with its volume as v.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "-u", "--uri", help="connect to srp://HOST[:PORT][/VOLUME]"
    )
    parser.add_argument(
        "-c",
        "--command",
        action="append",
        metavar="COMMAND",
        help="run this Python code instead of a prompt; -: code from standard "
        "input; may be repeated",
    )
    parser.add_argument(
        "-V",
        "--version",
        action="version",
        version=f"srpsh {srpi.library_version()}",
        help="print the version",
    )
    return parser


class _Help:
    """help: how to begin; help(x): Python's own help."""

    def __repr__(self) -> str:
        return _HELP

    def __call__(self, *args: Any) -> None:
        if args:
            import pydoc

            pydoc.help(*args)
        else:
            print(_HELP)


def _volume_of(session: srpi.Session) -> Optional[srpi.Volume]:
    """The one that the URI names, or the only one."""
    if session.info.volume or len(session.volumes) == 1:
        return session.volume()
    return None


def _banner(session: Optional[srpi.Session], volume: Optional[srpi.Volume]) -> str:
    lines = ["Type help for help."]
    if session is None:
        lines.insert(0, 'Not connected: s = connect("srp://HOST"); v = s.volume()')
        return "\n".join(lines)
    info = session.info
    lines.insert(0, f"s is a session with {info.peer} over {info.transport}.")
    if volume is not None:
        lines.insert(1, f"v is volume {volume.name}, {volume.size} bytes.")
    else:
        names = ", ".join(v.name for v in session.volumes) or "none"
        lines.insert(1, f"Choose a volume: v = s.volume(NAME). It has: {names}")
    return "\n".join(lines)


def _interact(names: dict[str, Any], banner: str) -> None:
    try:
        import readline
        import rlcompleter

        readline.set_completer(rlcompleter.Completer(names).complete)
        readline.parse_and_bind("tab: complete")
    except ImportError:
        pass
    sys.ps1, sys.ps2 = "srp> ", "...> "
    code.interact(banner=banner, local=names, exitmsg="")


def _run(commands: list[str], names: dict[str, Any]) -> None:
    for command in commands:
        if command == "-":
            exec(compile(sys.stdin.read(), "<standard input>", "exec"), names)
        else:
            exec(compile(command, "<command>", "exec"), names)


def _shell(uri: Optional[str], commands: Optional[list[str]]) -> None:
    session = srpi.connect(uri, purpose=f"srpsh {uri}") if uri else None
    try:
        volume = _volume_of(session) if session else None
        names: dict[str, Any] = {
            "__name__": "__console__",
            "srpi": srpi,
            "connect": srpi.connect,
            "s": session,
            "v": volume,
            "help": _Help(),
        }
        if commands:
            _run(commands, names)
        else:
            _interact(names, _banner(session, volume))
        sys.stdout.flush()
    finally:
        if session:
            session.close()


def main() -> None:
    options = _parser().parse_args()
    try:
        _shell(options.uri, options.command)
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(1)
    except (srpi.Error, SyntaxError) as e:
        _fail(str(e))
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as e:
        _fail(f"{e.filename or 'standard output'}: {e.strerror}")
    except ValueError as e:
        _fail(str(e))


if __name__ == "__main__":
    main()
