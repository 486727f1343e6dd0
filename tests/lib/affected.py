# SPDX-License-Identifier: BSD-2-Clause
"""Prints what the changes since a commit can break, by what the build knows: a line
for each, what is nearest to the changes first. The build directory has to be built.

Usage: affected.py [--build DIR] [--room SECONDS] sources|tests|fuzz [COMMIT]

COMMIT is by default the one that .ci/green names. If it names none that HEAD has grown
from, all may have changed.

sources  C files that changed, or that include a changed header; all if it has changed
         what the analysers look for
tests    unit and functional tests, by their names in meson. Functional ones only as
         many as take SECONDS together (they took so long last time). Those that are
         left out, also of other suites, go to standard error.
fuzz     fuzz targets that include the header of a changed file
"""
import argparse
import functools
import glob
import json
import os
import re
import subprocess
import sys

NOT_MEASURED_S = 10


def lines_of(*command):
    return subprocess.run(command, check=True, capture_output=True,
                          text=True).stdout.splitlines()


def green():
    """Returns the commit whose tree has passed everything, or None."""
    try:
        with open(".ci/green", encoding="ascii") as f:
            commit = f.read().strip()
        lines_of("git", "merge-base", "--is-ancestor", commit, "HEAD")
        return commit
    except (OSError, subprocess.CalledProcessError):
        return None


def changed_since(commit):
    """Returns the paths of files that changed, also those that git does not have."""
    return set(lines_of("git", "diff", "--name-only", "--no-renames", commit)
               + lines_of("git", "ls-files", "-o", "--exclude-standard"))


def by_age():
    """Returns the paths of files, the last that changed first."""
    try:
        return list(dict.fromkeys(lines_of("git", "log", "-n", "1000", "--name-only",
                                           "--format=")))
    except (OSError, subprocess.CalledProcessError):
        return []


def stem(path):
    return os.path.splitext(path)[0]


class Build:
    def __init__(self, build):
        self.build = build

    def path(self, name):
        """Returns a path from the top of the tree for one from the build directory."""
        return os.path.relpath(os.path.join(self.build, name))

    def objects(self):
        """Returns the files that each object was made of."""
        made_of = {}
        for line in lines_of("ninja", "-C", self.build, "-t", "deps"):
            if line.startswith("    "):
                if not line.startswith("    /"):
                    files.add(self.path(line.strip()))
            elif line:
                files = made_of.setdefault(self.path(line.split(": #")[0]), set())
        return made_of

    def sources(self):
        """Returns the files that each source includes, itself among them."""
        with open(os.path.join(self.build, "compile_commands.json"),
                  encoding="utf-8") as f:
            commands = json.load(f)
        objects = self.objects()
        includes = {}
        for command in commands:
            source = self.path(command["file"])
            if not source.startswith(self.build + "/"):
                includes.setdefault(source, {source}).update(
                    objects.get(self.path(command["output"]), ()))
        return includes

    def makes(self):
        """Returns the files that are made of each file."""
        makes = {}
        with open(os.path.join(self.build, "build.ninja"), encoding="utf-8") as f:
            for line in f:
                # Without what only has to be there before (||).
                rule = re.match(r"build (.*?): \S+ (.*?)(?:\|\||$)", line.strip())
                if rule:
                    outs, ins = (re.findall(r"(?:\$.|[^\s$|])+", part)
                                 for part in rule.groups())
                    for name in ins:
                        makes.setdefault(self.path(name), set()).update(
                            map(self.path, outs))
        for made, files in self.objects().items():
            for name in files:
                makes.setdefault(name, set()).add(made)
        return makes

    def stale(self, changed):
        """Returns all files that are changed, or made of such a file."""
        makes = self.makes()
        # What a meson.build says may be of anything in its folder.
        folders = tuple(os.path.dirname(name) for name in changed
                        if os.path.basename(name) == "meson.build")
        stale, look = set(), set(changed)
        if folders:
            look |= {name for outs in makes.values() for name in outs if
                     os.path.relpath(name, self.build).startswith(folders)}
        while look:
            name = look.pop()
            # These phony targets and the rule of ninja's own file know everything.
            if name not in stale and not name.endswith("build.ninja"):
                stale.add(name)
                look |= makes.get(name, set())
        return stale

    def introspect(self, what):
        with open(os.path.join(self.build, "meson-info/intro-%s.json" % what),
                  encoding="utf-8") as f:
            return json.load(f)

    def seconds(self):
        """Returns how long each test took when it last ran here."""
        took = {}
        for log in glob.glob(os.path.join(self.build, "meson-logs/*.json")):
            with open(log, encoding="utf-8") as f:
                for run in map(json.loads, f):
                    took[run["name"].split(" / ")[-1]] = run["duration"]
        return took


def affected_sources(build, changed):
    includes = build.sources()
    if any(name.startswith((".clang-tidy", "scripts/cppcheck")) for name in changed):
        changed = set(includes)
    age = {name: i for i, name in enumerate(by_age())}

    def distance(source):
        if source in changed:
            return 0
        return 1 if stem(source) + ".h" in changed else 2
    return sorted((s for s, files in includes.items() if files & changed),
                  key=lambda s: (distance(s), age.get(s, len(age)), s))


def affected_fuzz(build, changed):
    near = {stem(name) for name in changed if name.endswith((".c", ".h"))}
    found = []
    for source, files in build.sources().items():
        name = re.fullmatch(r"tests/fuzz/fuzz_(\w+)\.c", source)
        # The others are sources that several targets share.
        if name and os.path.exists(build.path("tests/fuzz/fuzz_" + name.group(1))) and \
                near & {stem(f) for f in files if f != "tests/fuzz/fuzz.h"}:
            found.append(name.group(1))
    return sorted(found)


@functools.lru_cache(maxsize=None)
def words_in(path):
    with open(path, encoding="utf-8", errors="replace") as f:
        return frozenset(re.findall(r"[\w.-]+", f.read()))


def is_script(name):
    return name.endswith((".sh", ".py"))


def words_of(script):
    """Returns the words of a script, and the scripts that those name which it uses."""
    words = set(words_in(script))
    for name in filter(is_script, words_in(script)):
        beside = os.path.join(os.path.dirname(script), name)
        if os.path.isfile(beside):
            words.update(filter(is_script, words_in(beside)))
    return words


def affected_tests(build, changed):
    """Yields suites, distance and name of each test."""
    stale = build.stale(changed)
    files_of = {t["id"]: list(map(os.path.relpath, t["filename"]))
                for t in build.introspect("targets")}
    names = {os.path.basename(name) for name in changed}
    near = set(map(stem, names)) | {name.split("/")[0] for name in changed}
    for test in build.introspect("tests"):
        files = {os.path.relpath(word) for word in test["cmd"] if "/" in word}
        files.update(*(files_of.get(target, ()) for target in test["depends"]))
        said = set().union(*(words_of(word) for word in test["cmd"]
                             if is_script(word)))
        if stale & files or names & said:
            yield ({suite.split(":")[-1] for suite in test["suite"]},
                   0 if names & said or any(n in test["name"] for n in near)
                   else 1 if near & said else 2, test["name"])


def print_tests(build, changed, room):
    seconds = build.seconds()
    run, left = [], []
    for distance, took, name, suites in sorted(
            (distance, seconds.get(name, NOT_MEASURED_S), name, sorted(suites))
            for suites, distance, name in affected_tests(build, changed)):
        if "functional" in suites:
            room -= took
        if "unit" in suites or "functional" in suites and room >= 0:
            run.append(name)
        else:
            left.append(name)
    # Once: the name may be that of a unit and of a functional test, and meson runs both.
    for name in dict.fromkeys(run):
        print(name)
    if left:
        print(*left, file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default="build-test")
    parser.add_argument("--room", type=float, default=200)
    parser.add_argument("what", choices=("sources", "tests", "fuzz"))
    parser.add_argument("commit", nargs="?", default=green())
    args = parser.parse_args()
    build = Build(args.build)
    if args.commit:
        changed = changed_since(args.commit)
    else:
        changed = set().union(*build.sources().values())
    if args.what == "tests":
        print_tests(build, changed, args.room)
        return
    affected = affected_fuzz if args.what == "fuzz" else affected_sources
    for name in affected(build, changed):
        print(name)


main()
