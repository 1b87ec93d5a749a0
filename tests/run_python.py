#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Runs one file of unittest cases: run_python.py FILE [NAME…]

Prints each failure, each reason for a skip ("skipped: NAME: REASON"), and last "N passed, N failed, N skipped".
Exit code 1 if a case failed or none was found, 77 if all were skipped.
"""
import importlib.util
import os
import signal
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.dont_write_bytecode = True
sys.path[:0] = [HERE, os.path.join(HERE, "cli")]


def short(case):
    return ".".join(case.id().split(".")[-2:])


class Counting(unittest.TextTestResult):
    """Counts cases, not subtests: a case with failing subtests is one failure."""

    def __init__(self, *args):
        super().__init__(*args)
        self.ran, self.bad, self.left = 0, set(), {}

    def startTest(self, test):
        super().startTest(test)
        self.ran += 1

    def addFailure(self, test, err):
        super().addFailure(test, err)
        self.bad.add(test.id())

    def addError(self, test, err):
        super().addError(test, err)
        self.bad.add(test.id())

    def addSubTest(self, test, subtest, err):
        super().addSubTest(test, subtest, err)
        if err is not None:
            self.bad.add(test.id())

    def addUnexpectedSuccess(self, test):
        super().addUnexpectedSuccess(test)
        self.bad.add(test.id())

    def addSkip(self, test, reason):
        super().addSkip(test, reason)
        self.left[test.id()] = f"skipped: {short(test)}: {reason}"


def main(path, names):
    # A shell starts what runs in the background with these ignored, and what we start would inherit that.
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.path.insert(0, os.path.dirname(path))
    name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    loader = unittest.defaultTestLoader
    suite = loader.loadTestsFromNames(names, module) if names else loader.loadTestsFromModule(module)
    result = unittest.TextTestRunner(stream=sys.stdout, resultclass=Counting, verbosity=2, buffer=False).run(suite)
    harness = sys.modules.get("harness")
    if harness:
        harness.remove_copies()
    skipped = {key: text for key, text in result.left.items() if key not in result.bad}
    for text in skipped.values():
        print(text)
    passed = result.ran - len([key for key in result.bad if not key.startswith("setUp")]) - len(
        [key for key in skipped if not key.startswith("setUp")])
    print(f"{max(passed, 0)} passed, {len(result.bad)} failed, {len(skipped)} skipped")
    if result.bad or result.ran + len(skipped) == 0:
        return 1
    return 77 if passed <= 0 else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2:]))
