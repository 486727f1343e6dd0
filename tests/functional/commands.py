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
import re
import sys

MARK = re.compile(r'<!-- (?:run by (?P<test>\S+)|not run: (?P<why>.*)) -->')
PROMPT = re.compile(r'[a-z]*[$#] (.*)')


def blocks(page):
    """Yield (language, mark, lines) of each block; mark is None or a match of MARK."""
    mark = language = None
    for line in page.splitlines():
        if line.startswith('```'):
            if language is None:
                language, lines = line[3:], []
            else:
                yield language, mark, lines
                language = None
        elif language is not None:
            lines.append(line)
        elif line.startswith('#'):
            mark = None
        else:
            mark = MARK.match(line) or mark


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
    page = open(sys.argv[1], encoding='utf-8').read()
    test = sys.argv[2] if len(sys.argv) > 2 else None
    for language, mark, lines in blocks(page):
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
