#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-2-Clause
"""Print the links of documents that lead nowhere: to no file, or to no heading of it.

usage: links.py TREE            README.md, CONTRIBUTING.md, ..., docs/ of the source
       links.py --build BUILD   what `meson install` installs, where it installs it
"""
import glob
import json
import os
import re
import subprocess
import sys

LINK = re.compile(r'\]\(([^)#:]*)(?:#([^)]*))?\)')


def anchors(page):
    """Return the names of the headings, as web sites make them."""
    with open(page, encoding='utf-8') as f:
        heads = re.findall(r'^#+ (.*)', f.read(), re.M)
    return {re.sub(r'[^\w -]', '', head.lower()).replace(' ', '-') for head in heads}


def dead_links(files):
    """@files: the source of each file, by its path. A folder has the source None."""
    for path, source in sorted(files.items()):
        if not path.endswith('.md'):
            continue
        with open(source, encoding='utf-8') as f:
            text = re.sub(r'^```.*?^```', '', f.read(), flags=re.S | re.M)
        for name, anchor in LINK.findall(text):
            to = os.path.normpath(os.path.join(os.path.dirname(path), name)) if name else path
            if to not in files or (anchor and anchor not in anchors(files[to])):
                yield f'{path}: {name}{"#" if anchor else ""}{anchor}'


def with_folders(files):
    for path in list(files):
        while path := os.path.dirname(path):
            if path in files or path == '/':
                break
            files[path] = None
    return files


def of_tree(tree):
    return {os.path.relpath(path, tree): path
            for pattern in ('*', 'docs/*', 'docs/evidence/*', 'docs/evidence/plots/*')
            for path in glob.glob(os.path.join(tree, pattern)) if os.path.isfile(path)}


def of_build(build):
    """What is installed; a folder as a whole has its files."""
    files = {}
    said = subprocess.run(['meson', 'introspect', '--installed', build],
                          stdout=subprocess.PIPE, check=True).stdout
    for source, path in json.loads(said).items():
        files[path] = source
        for where, _, names in os.walk(source):
            for name in names:
                inside = os.path.join(where, name)
                files[os.path.join(path, os.path.relpath(inside, source))] = inside
    return files


def main():
    files = of_build(sys.argv[2]) if sys.argv[1] == '--build' else of_tree(sys.argv[1])
    dead = list(dead_links(with_folders(files)))
    print('\n'.join(dead))
    sys.exit(bool(dead) or not any(path.endswith('README.md') for path in files))


main()
