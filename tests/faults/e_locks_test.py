# SPDX-License-Identifier: Apache-2.0
"""Faults of section E: holders that slept through their lease, beside a machine that went on meanwhile."""
import json
import os
import signal
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "cli")]
import harness  # noqa: E402
from faults import SandboxTest  # noqa: E402

STEPS = ["before-claim", "after-claim", "before-objects", "after-objects", "before-aux", "before-commit"]


class LostLeaseTest(SandboxTest):
    """Two places of one machine that share their stores."""

    def setUp(self):
        super().setUp()
        common = self.place.path("common")
        os.mkdir(common)
        self.at = ("--set", f"state=sqlite:{common}/state.db", "--set", f"lock.store=sqlite:{common}/state.db", "--set",
                   f"snapshots.store=local:{common}/snapshots", "--set", "lock.ttl=1500ms")
        self.other = harness.Place()
        self.addCleanup(self.other.close)
        self.do("echo first > f", *self.at)
        harness.make_same_host(self.place, self.other)

    def go_on_elsewhere(self, text):
        """The other machine takes the slot once its lease is over, and saves."""
        self.other.ok("lock", "break", "--yes", *self.at)
        self.other.ok("run", *self.at, "--release", "destroy", "--", "sh", "-c", f"echo {text} > f")
        return self.snapshots(*self.at)

    def stranded(self):
        return [row["snapshot"] for row in self.snapshots(*self.at) if row["kind"] == "stranded"]

    def test_a_call_that_slept_through_its_lease(self):
        """Holder goes on after the lease is lost"""
        child = self.place.popen("run", *self.at, "--status-file", "status", "--release", "destroy", "--", "sh", "-c",
                                 "echo held; echo stale > f; sleep 60")
        child.stdout.readline()
        child.send_signal(signal.SIGSTOP)
        after = self.go_on_elsewhere("other")
        child.send_signal(signal.SIGCONT)
        self.assertEqual(child.wait(30), 125)
        with open(self.place.path("status"), encoding="utf-8") as file:
            status = json.load(file)
        self.assertEqual((status["exit_code"], status["error"]["kind"]), (6, "conflict"))
        self.assertEqual(self.snapshots(*self.at), after, "it wrote all the same")
        self.assertEqual(len(self.sandboxes()), 1, "it destroyed all the same")
        started = self.start(*self.at)
        self.assertEqual(self.place.ok("snapshot", "cat", started["stranded"], "f", *self.at).out, b"stale\n")
        self.assertEqual(self.sh("cat f", *self.at), "other\n")

    def test_a_save_that_slept_at_any_step(self):
        """Holder goes on after the lease is lost"""
        for number, step in enumerate(STEPS):
            with self.subTest(step):
                self.place.ok("start", *self.at)
                self.sh(f"echo mine-{step} > f", *self.at)
                child = self.place.popen("snapshot", *self.at, env={"ASCOPE_TEST_FAULT": "stop:" + step})
                stopped = os.waitid(os.P_PID, child.pid, os.WSTOPPED | os.WEXITED | os.WNOWAIT)
                self.assertEqual(stopped.si_status, signal.SIGSTOP)
                after = self.go_on_elsewhere(f"other-{step}")
                child.send_signal(signal.SIGCONT)
                self.assertEqual(child.wait(30), 6, child.stderr.read())
                self.assertEqual(self.snapshots(*self.at), after)
                started = self.start(*self.at)
                self.assertEqual(len(self.stranded()), number + 1)
                self.assertEqual(self.place.ok("snapshot", "cat", started["stranded"], "f", *self.at).text, f"mine-{step}\n")
                self.assertEqual(self.sh("cat f", *self.at), f"other-{step}\n")


if __name__ == "__main__":
    unittest.main()
