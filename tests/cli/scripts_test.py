# SPDX-License-Identifier: Apache-2.0
"""scripts/demo and bench/run do what the README says, at small sizes."""
import glob
import json
import os
import re
import shutil
import subprocess
import unittest

import harness

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))


def run(argv, **env):
    return subprocess.run(argv, env={**os.environ, **env}, stdin=subprocess.DEVNULL, capture_output=True, check=False,
                          timeout=500)


class Demo(harness.CliTest):
    def test_each_branch_in_turn(self):
        harness.need_sandbox(self.place)
        harness.need("g++", shutil.which("g++") is not None, "the demo compiles inside the sandbox")
        before = set(glob.glob("/tmp/ascope-demo.*"))
        done = run([os.path.join(SOURCE, "scripts", "demo")], ASCOPE_PROGRAM=harness.program())
        text = done.stdout.decode()
        self.assertEqual(done.returncode, 0, text + done.stderr.decode())
        self.assertEqual(re.findall(r"^Branch ([A-D])", text, re.M), ["A", "B", "C", "D"], text)
        for line in ("hello, alice", "hello, bob", "hello, carol"):
            self.assertIn(line, text)
        self.assertEqual(set(glob.glob("/tmp/ascope-demo.*")) - before, set(), "the demo left its folder behind")


class Bench(harness.CliTest):
    def test_every_row(self):
        harness.need_sandbox(self.place)
        for name in ("curl", "zstd", "find", "tar"):
            harness.need_program(name)
        report = self.place.path("bench.json")
        done = run([os.path.join(SOURCE, "bench", "run"), "--rounds", "2", "--size", "1", "--files", "20", "--big", "4",
                    "--build", os.path.dirname(harness.program()), "--json", report])
        self.assertEqual(done.returncode, 0, done.stderr.decode())
        with open(report, encoding="utf-8") as file:
            rows = json.load(file)["rows"]
        peers = [name for name in ("restic", "borg") if shutil.which(name)]
        self.assertEqual(len(rows), 15 + sum(8 if name == "restic" else 7 for name in peers), [row["row"] for row in rows])
        for row in rows:
            self.assertGreater(row["ours"], 0, row)
            self.assertEqual(row["met"], (row["ours"] if row["ratio"] is None else row["ratio"]) <= row["goal"], row)


if __name__ == "__main__":
    unittest.main()
