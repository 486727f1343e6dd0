# SPDX-License-Identifier: BSD-2-Clause
"""Counts the results in meson's logs, and lists the tests that failed or were
skipped: with the assertion, and the command that repeats only this one.

Usage: summary.py [--failed PART=LOG]... [--left-out TEXT] LOG.junit.xml...

If a test program reports its cases (TAP), each case counts. A program that
ended badly without a failed case counts as failed; only LOG.json beside the log
says this. A missing log also counts as failed, and so does each PART, which is
something else that failed.
"""
import argparse
import collections
import itertools
import json
import os
import shlex
import sys
import xml.etree.ElementTree as ET

GOOD = ("OK", "EXPECTEDFAIL")
LINES_MAX = 8


def lines_of(text):
    return [line.strip() for line in (text or "").strip().splitlines()]


def last_words(program):
    """Returns the output lines that best tell how a program ended."""
    out = lines_of(program["stdout"])
    err = [line for line in lines_of(program.get("stderr"))
           if not line.startswith("(test program exited")]
    told = [line for line in out + err
            if line.startswith(("not ok", "Bail out!", "SUMMARY:", "SKIP", "1..0 #"))]
    return (told or err or out or [""])[-1:]


def case_words(case, program):
    """Returns the lines below a case that failed."""
    out = lines_of(program["stdout"])
    try:
        below = out[out.index("not ok " + case) + 1:]
    except ValueError:
        return []
    return [line.lstrip("# ") for line in
            itertools.takewhile(lambda line: line.startswith("#"), below)][:LINES_MAX]


def repeat(program, build, case=None):
    """Returns the command that runs a test again, or only a case of a cmocka program."""
    suite, _, name = program["name"].partition(" / ")
    words = ["meson", "test", "-C", build, "--print-errorlogs",
             "--suite", suite.split(":")[-1].split("+")[0], name]
    command = " ".join(map(shlex.quote, words))
    if case and "CMOCKA_MESSAGE_OUTPUT" in program["env"]:
        command = "T_FILTER=%s %s" % (shlex.quote(case.partition(" - ")[2]), command)
    return command


def how_it_ended(program):
    if program["result"] in ("TIMEOUT", "INTERRUPT"):
        return program["result"].lower()
    return "exit status %s" % program["returncode"]


class Results:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def add_case(self, case, program, build):
        """Counts a case of TAP. False: it failed."""
        title = case.get("name")
        name = "%s: %s" % (program["name"], title)
        if case.find("skipped") is not None:
            self.skipped.append((name, [case.findtext("system-out") or ""]))
        elif case.find("failure") is None and case.find("error") is None:
            self.passed += 1
        else:
            self.failed.append((name, case_words(title, program)
                                + [repeat(program, build, title)]))
            return False
        return True

    def add_program(self, program, build):
        """Counts a program whose cases do not tell how it ended."""
        if program["result"] in GOOD:
            self.passed += 1
        elif program["result"] == "SKIP":
            self.skipped.append((program["name"], last_words(program)))
        else:
            self.add_died(program, build)

    def add_died(self, program, build):
        self.failed.append((
            "%s (%s)" % (program["name"], how_it_ended(program)),
            last_words(program) + [repeat(program, build)]))

    def add_meson(self, path):
        build = os.path.dirname(os.path.dirname(path))
        with open(path.replace(".junit.xml", ".json"), encoding="utf-8") as log:
            programs = [json.loads(line) for line in log]
        suites = {suite.get("name"): suite.findall("testcase")
                  for suite in ET.parse(path).getroot().iter("testsuite")}
        runs = collections.Counter(program["name"] for program in programs)
        for program in programs:
            project = program["name"].partition(":")[0]
            cases = suites.get("%s.%s" % (project, program["name"]))
            # Of a test that is repeated, meson has the cases of one run only.
            if cases is None or runs[program["name"]] > 1:
                self.add_program(program, build)
            elif all([self.add_case(case, program, build) for case in cases]) \
                    and program["result"] not in GOOD + ("SKIP",):
                self.add_died(program, build)

    def add_fuzz(self, path):
        for case in ET.parse(path).getroot().iter("testcase"):
            if case.find("failure") is None:
                self.passed += 1
            else:
                self.failed.append(("fuzz: " + case.get("name"), ["a finding"]))

    def add(self, path):
        if not os.path.exists(path):
            self.failed.append((path, ["was not written"]))
        elif path.endswith(".junit.xml"):
            self.add_meson(path)
        else:
            self.add_fuzz(path)

    def add_part(self, part, log):
        with open(log, encoding="utf-8", errors="replace") as f:
            lines = lines_of(f.read())
        self.failed.append((part, lines[-LINES_MAX:] + ["see " + log]))

    def tell(self, left_out):
        for title, rows in (("skipped", self.skipped), ("failed", self.failed)):
            for name, why in rows:
                name = name.split(":", 1)[1] if " / " in name else name
                if title == "skipped":
                    print("skipped: %s: %s" % (name, " ".join(why)))
                else:
                    print("\n    ".join(["failed: " + name] + why))
        if left_out:
            print("left out: " + left_out)
        print("\n%d passed, %d failed, %d skipped"
              % (self.passed, len(self.failed), len(self.skipped)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--failed", action="append", default=[])
    parser.add_argument("--left-out")
    parser.add_argument("log", nargs="*")
    args = parser.parse_args()
    results = Results()
    for path in args.log:
        results.add(path)
    for part in args.failed:
        results.add_part(*part.split("=", 1))
    results.tell(args.left_out)
    return 1 if results.failed or args.log and not results.passed else 0


sys.exit(main())
