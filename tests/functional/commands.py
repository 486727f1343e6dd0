#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Print the commands of a document, for doc_lib.sh, which describes the format.

usage: commands.py PAGE [TEST]

Each line has three parts, separated by tabs:
  console  COMMAND  OUTPUT    a command with what it prints (lines joined by a literal \\n)
  sh       COMMAND            a command alone
  skip     COMMAND  WHY       nobody runs it
  end                         the end of a block of "sh"
TEST selects the blocks that the page assigns to it. Default: blocks that the
page assigns to no test.
"""
import os
import re
import sys

HERE = os.path.dirname(os.path.realpath(__file__))
MARK = re.compile(r'run by (?P<test>\S+)|not run: (?P<why>.*)')
PROMPT = re.compile(r'[a-z]*[$#] (.*)')


def marks(path):
    """Return the marks of a page by heading: matches of MARK."""
    page = os.path.relpath(os.path.realpath(path), os.path.join(HERE, '..', '..'))
    with open(os.path.join(HERE, 'doc_marks'), encoding='utf-8') as f:
        lines = [line.strip().split(' | ') for line in f if not line.startswith('#')]
    return {line[1]: MARK.fullmatch(line[2]) for line in lines if line[0] == page}


def blocks(path):
    """Yield (language, mark, lines) of each block; mark is None or a match of MARK."""
    mark = language = None
    of_heading = marks(path)
    for line in open(path, encoding='utf-8').read().splitlines():
        if line.startswith('```'):
            if language is None:
                language, lines = line[3:], []
            else:
                yield language, mark, lines
                language = None
        elif language is not None:
            lines.append(line)
        elif line.startswith('#'):
            mark = of_heading.get(line.lstrip('# '))


def console(lines):
    """Yield (command, its output)."""
    command, output = None, []
    for line in lines:
        prompt = PROMPT.match(line)
        if prompt:
            if command:
                yield command, output
            command, output = prompt[1], []
        else:
            output.append(line)
    yield command, output


def sh(lines):
    """Yield (command, no output), with its lines joined."""
    text = re.sub(r'\\\n\s*', '', '\n'.join(lines))
    for line in text.splitlines():
        if line and not line.startswith('#'):
            yield line, []


LANGUAGES = {'console': console, 'sh': sh}


def main():
    test = sys.argv[2] if len(sys.argv) > 2 else None
    for language, mark, lines in blocks(sys.argv[1]):
        if language not in LANGUAGES:
            continue
        why = mark and mark['why']
        if (mark and mark['test']) != (test or None) or (test and why):
            continue
        for command, output in LANGUAGES[language](lines):
            if why:
                print('skip', command, why, sep='\t')
            else:
                print(language, command, '\\n'.join(output), sep='\t')
        if language == 'sh' and not why:
            print('end')


main()
