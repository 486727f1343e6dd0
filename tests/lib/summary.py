# SPDX-License-Identifier: BSD-2-Clause
"""Counts the results in meson's JUnit files; lists what failed or was skipped.

A test program that reports each of its cases (TAP) counts case by case.
"""
import sys
import xml.etree.ElementTree as ET


def reason(suite, case, kind):
    node = case.find(kind)
    text = (node.get("message") or node.text or "").strip()
    if not text:
        text = suite_output(suite)
    return text.splitlines()[-1] if text else ""


def suite_output(suite):
    lines = []
    for name in ("system-out", "system-err"):
        for node in suite.iter(name):
            lines += (node.text or "").strip().splitlines()
    skips = [l for l in lines if l.upper().startswith("SKIP")]
    return (skips or lines or [""])[-1]


def main(paths):
    passed, failed, skipped = 0, [], []
    for path in paths:
        for suite in ET.parse(path).getroot().iter("testsuite"):
            for case in suite.iter("testcase"):
                name = "%s: %s" % (suite.get("name"), case.get("name"))
                if case.find("failure") is not None:
                    failed.append((name, reason(suite, case, "failure")))
                elif case.find("error") is not None:
                    failed.append((name, reason(suite, case, "error")))
                elif case.find("skipped") is not None:
                    skipped.append((name, reason(suite, case, "skipped")))
                else:
                    passed += 1
    for title, rows in (("skipped", skipped), ("failed", failed)):
        if rows:
            print("\n%s:" % title)
        for name, why in rows:
            print("  %s%s" % (name, " (%s)" % why if why else ""))
    print("\n%d passed, %d failed, %d skipped"
          % (passed, len(failed), len(skipped)))
    return 1 if failed or passed == 0 else 0


sys.exit(main(sys.argv[1:]))
