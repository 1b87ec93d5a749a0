# SPDX-License-Identifier: Apache-2.0
"""The test tools themselves: what they count must be right, a crash above all."""
import json
import os
import subprocess
import sys
import tempfile
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))


def last_line(done):
    return done.stdout.decode().splitlines()[-1]


class Summary(unittest.TestCase):
    def summary(self, *tests):
        with tempfile.TemporaryDirectory() as folder:
            log = os.path.join(folder, "log")
            with open(log, "w", encoding="utf-8") as file:
                for test in tests:
                    file.write(json.dumps(test) + "\n")
            return subprocess.run([sys.executable, os.path.join(HERE, "summary.py"), log, log],
                                  capture_output=True, check=False)

    def test_counts(self):
        doctest = "[doctest] test cases: {} | {} passed | {} failed | 0 skipped\n".format
        rows = [
            ("doctest", {"result": "OK", "stdout": doctest(3, 3, 0)}, "3 passed, 0 failed, 0 skipped"),
            ("doctest failure", {"result": "FAIL", "stdout": doctest(3, 2, 1)}, "2 passed, 1 failed, 0 skipped"),
            ("doctest skip", {"result": "OK", "stdout": "skipped: a: b\n" + doctest(3, 3, 0)},
             "2 passed, 0 failed, 1 skipped"),
            ("crash after the count", {"result": "FAIL", "stdout": doctest(3, 3, 0), "returncode": -11},
             "3 passed, 1 failed, 0 skipped"),
            ("crash before it", {"result": "FAIL", "stdout": "", "returncode": -6}, "0 passed, 1 failed, 0 skipped"),
            ("timeout", {"result": "TIMEOUT", "stdout": "4 passed, 0 failed, 0 skipped\n"},
             "4 passed, 1 failed, 0 skipped"),
            ("python", {"result": "OK", "stdout": "skipped: x: y\n4 passed, 0 failed, 1 skipped\n"},
             "4 passed, 0 failed, 1 skipped"),
            ("plain program", {"result": "OK", "stdout": "fine\n"}, "1 passed, 0 failed, 0 skipped"),
            ("skipped program", {"result": "SKIP", "stdout": "skipped: no bwrap\n"}, "0 passed, 0 failed, 1 skipped"),
        ]
        for name, test, want in rows:
            with self.subTest(name):
                done = self.summary({"name": name, "duration": 1, **test})
                self.assertEqual(last_line(done), want)
                self.assertEqual(done.returncode, 0 if " 0 failed" in want else 1)

    def test_nothing_ran(self):
        done = self.summary()
        self.assertEqual((done.returncode, last_line(done)), (1, "0 passed, 1 failed, 0 skipped"))

    def test_no_log(self):
        done = subprocess.run([sys.executable, os.path.join(HERE, "summary.py"), "/nonexistent", "/nonexistent"],
                              capture_output=True, check=False)
        self.assertEqual((done.returncode, last_line(done)), (1, "0 passed, 1 failed, 0 skipped"))


class RunPython(unittest.TestCase):
    def run_file(self, text, **env):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "sample_test.py")
            with open(path, "w", encoding="utf-8") as file:
                file.write("import unittest\nimport harness\n" + text)
            return subprocess.run([sys.executable, os.path.join(HERE, "run_python.py"), path], capture_output=True,
                                  check=False, env={**os.environ, **env})

    def test_counts(self):
        case = "class T(unittest.TestCase):\n"
        rows = [
            ("passes", case + "  def test_a(self): pass\n", 0, "1 passed, 0 failed, 0 skipped"),
            ("fails", case + "  def test_a(self): self.fail()\n  def test_b(self): pass\n", 1,
             "1 passed, 1 failed, 0 skipped"),
            ("subtests are one case",
             case + "  def test_a(self):\n    for i in 1, 2:\n      with self.subTest(i=i): self.fail()\n", 1,
             "0 passed, 1 failed, 0 skipped"),
            ("all skipped", case + "  def test_a(self): self.skipTest('why')\n", 77, "0 passed, 0 failed, 1 skipped"),
            ("class skipped", case + "  @classmethod\n  def setUpClass(cls): raise unittest.SkipTest('why')\n"
             "  def test_a(self): pass\n", 77, "0 passed, 0 failed, 1 skipped"),
            ("class broken", case + "  @classmethod\n  def setUpClass(cls): raise OSError\n"
             "  def test_a(self): pass\n", 1, "0 passed, 1 failed, 0 skipped"),
            ("empty", "", 1, "0 passed, 0 failed, 0 skipped"),
        ]
        for name, text, code, want in rows:
            with self.subTest(name):
                done = self.run_file(text)
                self.assertEqual((done.returncode, last_line(done)), (code, want), done.stdout.decode())

    def test_unreadable_file_fails(self):
        self.assertEqual(self.run_file("import no_such_module\n").returncode, 1)

    def test_what_is_required_may_not_be_skipped(self):
        text = "class T(unittest.TestCase):\n  def test_a(self): harness.need('nonesuch', False, 'it is missing')\n"
        done = self.run_file(text, ASCOPE_REQUIRE="git,nonesuch")
        self.assertEqual((done.returncode, last_line(done)), (1, "0 passed, 1 failed, 0 skipped"))
        done = self.run_file(text, ASCOPE_REQUIRE="git")
        self.assertEqual((done.returncode, last_line(done)), (77, "0 passed, 0 failed, 1 skipped"))
        self.assertIn(b"skipped: T.test_a: nonesuch: it is missing", done.stdout)


class Places(unittest.TestCase):
    def test_processes_end_with_the_place(self):
        sys.path.insert(0, os.path.join(HERE, "cli"))
        import harness
        with harness.Place() as place:
            # A process that left its parent, as a sandbox does.
            done = place.call(["sh", "-c", "setsid sleep 1000 \"$0\" 2>/dev/null & setsid sh -c 'sleep 1000; :' \"$0\""
                               " >/dev/null 2>&1 & echo started", place.root])
            self.assertEqual(done.out, b"started\n")
            self.assertTrue(harness.wait_for(place.processes))
        self.assertEqual(place.processes(), set())
        self.assertFalse(os.path.exists(place.root))
