#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Adds up what `meson test` ran: doctest cases, cases of Python tests, and programs that count as one.

summary.py TESTLOG.json CONSOLE.txt   prints what failed with its output, each reason for a skip, a line a
program, and last "N passed, N failed, N skipped". A program that crashed, timed out or could not be read
counts as a failure, whatever it had counted before. Exit code 1 if anything failed or nothing ran.
"""
import json
import re
import sys

DOCTEST = re.compile(r"^\[doctest\] test cases:\s*\d+ \|\s*(\d+) passed \|\s*(\d+) failed \|", re.M)
COUNTED = re.compile(r"^(\d+) passed, (\d+) failed, (\d+) skipped$", re.M)
SKIPPED = re.compile(r"^skipped: (.*)$", re.M)
GOOD = {"OK", "EXPECTEDFAIL"}
KEPT_LINES = 200


def count(test):
    """(passed, failed, skipped) of one program."""
    output = test.get("stdout") or ""
    skips = len(SKIPPED.findall(output))
    if test["result"] == "SKIP":
        return 0, 0, max(1, skips)
    doctests = DOCTEST.findall(output)
    counts = COUNTED.findall(output)
    if doctests:
        passed, failed = (sum(int(row[i]) for row in doctests) for i in (0, 1))
        # A case that could not run says so and returns; doctest has it among the passed.
        passed -= min(skips, passed)
    elif counts:
        passed, failed, skips = (int(n) for n in counts[-1])
    else:
        passed, failed = (1, 0) if test["result"] in GOOD else (0, 1)
    if test["result"] not in GOOD and failed == 0:
        failed = 1
    return passed, failed, skips


def read(path):
    with open(path, encoding="utf-8", errors="replace") as file:
        return [json.loads(line) for line in file if line.strip()]


def main(log, console):
    try:
        tests = read(log)
    except (OSError, ValueError) as error:
        print(f"the log of the tests cannot be read: {error}")
        try:
            print(open(console, encoding="utf-8", errors="replace").read())
        except OSError:
            pass
        print("0 passed, 1 failed, 0 skipped")
        return 1
    totals = [0, 0, 0]
    for test in tests:
        numbers = count(test)
        totals = [a + b for a, b in zip(totals, numbers)]
        if numbers[1]:
            output = (test.get("stdout") or "") + (test.get("stderr") or "")
            print(f"==== {test['name']}: {test['result']}, exit code {test.get('returncode')}")
            print("\n".join(output.splitlines()[-KEPT_LINES:]))
    print(f"{'':4}{'passed':>7}{'failed':>7}{'skipped':>8}{'seconds':>9}")
    for test in tests:
        passed, failed, skipped = count(test)
        print(f"{'':4}{passed:7}{failed:7}{skipped:8}{test.get('duration', 0):9.1f}  {test['name']}")
        for reason in SKIPPED.findall(test.get("stdout") or ""):
            print(f"      skipped: {reason}")
    if not tests:
        print("no test was run")
        totals[1] += 1
    print("{} passed, {} failed, {} skipped".format(*totals))
    return 1 if totals[1] else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
