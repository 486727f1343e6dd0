# SPDX-License-Identifier: BSD-2-Clause
"""Counts the results in meson's logs, and lists the tests that failed or were
skipped.

Usage: summary.py [--failed PART]... LOG.junit.xml...

If a test program reports its cases (TAP), each case counts. A program that
ended badly without a failed case counts as failed; only LOG.json beside the log
says this. A missing log also counts as failed, and so does each PART, which is
something else that failed.
"""
import argparse
import json
import os
import sys
import xml.etree.ElementTree as ET

GOOD = ("OK", "EXPECTEDFAIL")


def lines_of(text):
    return [line.strip() for line in (text or "").strip().splitlines()]


def last_words(program):
    """Returns the output line that best tells how a program ended."""
    out = lines_of(program["stdout"])
    err = [line for line in lines_of(program.get("stderr"))
           if not line.startswith("(test program exited")]
    told = [line for line in out + err
            if line.startswith(("Bail out!", "SUMMARY:", "SKIP", "1..0 #"))]
    return (told or err or out or [""])[-1]


def case_words(case, program):
    """Returns the line below a case that failed."""
    out = lines_of(program["stdout"])
    try:
        below = out[out.index("not ok " + case) + 1]
    except (ValueError, IndexError):
        return ""
    return below.lstrip("# ") if below.startswith("#") else ""


def how_it_ended(program):
    if program["result"] in ("TIMEOUT", "INTERRUPT"):
        return program["result"].lower()
    return "exit status %s" % program["returncode"]


class Results:
    def __init__(self):
        self.passed, self.failed, self.skipped = 0, [], []

    def add_case(self, case, program):
        """Counts a case of TAP. False: it failed."""
        name = "%s: %s" % (program["name"], case.get("name"))
        if case.find("skipped") is not None:
            self.skipped.append((name, case.findtext("system-out") or ""))
        elif case.find("failure") is None and case.find("error") is None:
            self.passed += 1
        else:
            words = case_words(case.get("name"), program)
            self.failed.append((name, words))
            return False
        return True

    def add_program(self, program):
        """Counts a program whose cases do not tell how it ended."""
        if program["result"] in GOOD:
            self.passed += 1
        elif program["result"] == "SKIP":
            self.skipped.append((program["name"], last_words(program)))
        else:
            self.add_died(program)

    def add_died(self, program):
        self.failed.append((
            "%s (%s)" % (program["name"], how_it_ended(program)),
            last_words(program)))

    def add_meson(self, path):
        with open(path.replace(".junit.xml", ".json"), encoding="utf-8") as log:
            programs = [json.loads(line) for line in log]
        suites = {suite.get("name"): suite.findall("testcase")
                  for suite in ET.parse(path).getroot().iter("testsuite")}
        for program in programs:
            project = program["name"].partition(":")[0]
            cases = suites.get("%s.%s" % (project, program["name"]))
            if cases is None:
                self.add_program(program)
            elif all([self.add_case(case, program) for case in cases]) \
                    and program["result"] not in GOOD + ("SKIP",):
                self.add_died(program)

    def add_fuzz(self, path):
        for case in ET.parse(path).getroot().iter("testcase"):
            if case.find("failure") is None:
                self.passed += 1
            else:
                self.failed.append(("fuzz: " + case.get("name"), "a finding"))

    def add(self, path):
        if not os.path.exists(path):
            self.failed.append((path, "was not written"))
        elif path.endswith(".junit.xml"):
            self.add_meson(path)
        else:
            self.add_fuzz(path)

    def tell(self):
        for title, rows in (("skipped", self.skipped), ("failed", self.failed)):
            for name, why in rows:
                name = name.split(":", 1)[1] if " / " in name else name
                print("%s: %s%s" % (title, name, ": " + why if why else ""))
        print("\n%d passed, %d failed, %d skipped"
              % (self.passed, len(self.failed), len(self.skipped)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--failed", action="append", default=[])
    parser.add_argument("log", nargs="+")
    args = parser.parse_args()
    results = Results()
    for path in args.log:
        results.add(path)
    results.failed += [(part, "see above") for part in args.failed]
    results.tell()
    return 1 if results.failed or not results.passed else 0


sys.exit(main())
