# SPDX-License-Identifier: Apache-2.0
"""A fork names what another slot saved: nothing that removes a snapshot there may take it away."""
import os
import signal
import sys
import unittest

import harness

FROM, INTO = "session/from", "session/into"


class ForkTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)

    def made(self, form):
        settings = ("--set", f"snapshots.format={form}")
        for number in (1, 2):
            self.place.ok("run", FROM, *settings, "--", "sh", "-c", f"echo {number} > f")
        return settings

    def gc(self, *settings):
        self.place.ok("gc", "--yes", "--grace", "0s", *settings)

    def assert_fork_is_whole(self, *settings):
        self.place.ok("snapshot", "check", "--all", "--read-data", *settings)
        self.place.ok("start", INTO, "--expect", "C,A", *settings)
        self.assertEqual(self.place.ok("exec", INTO, *settings, "--", "cat", "f").text, "1\n")

    def test_what_is_removed_there_stays_here(self):
        for form in ("chunks", "tar"):
            for how in (("snapshot", "rm", "--yes", FROM + "@latest~1"), ("rm", "--purge", "--yes", FROM),
                        ("gc", "--yes", "--grace", "0s", "--set", "snapshots.keep={last: 1}", FROM)):
                with self.subTest(form=form, how=how):
                    settings = self.made(form)
                    self.place.ok("restore", FROM + "@latest~1", "--into", INTO, "--yes", *settings)
                    self.place.ok(*how, *settings)
                    self.gc(*settings)
                    self.gc(*settings)
                    self.assert_fork_is_whole(*settings)
                    for slot in (FROM, INTO):
                        self.place.run("rm", slot, "--purge", "--yes", *settings)  # one is gone already
                    self.assertEqual(self.place.ok("ls", "-o", "name").text, "")
                    self.gc(*settings)
                    left = self.place.program_state("snapshots")
                    self.assertFalse([name for top, _, names in os.walk(os.path.join(left, "snapshots"))
                                      for name in names] + [n for n in os.listdir(left) if n.endswith(".tar")])

    def test_a_save_that_was_killed_before_it_was_forgotten(self):
        for form in ("chunks", "tar"):
            with self.subTest(form=form):
                settings = ("--set", f"snapshots.format={form}")
                self.place.ok("start", FROM, *settings)
                self.place.ok("exec", FROM, *settings, "--", "sh", "-c", "echo 1 > f")
                done = self.place.run("snapshot", FROM, *settings, env={"ASCOPE_TEST_FAULT": "kill:after-commit"})
                self.assertEqual(done.code, -signal.SIGKILL, done)
                self.assertEqual(len(os.listdir(self.place.program_state("pending"))), 1)
                self.place.ok("restore", FROM + "@latest", "--into", INTO, "--yes", *settings)
                self.place.ok("run", FROM, *settings, "--", "sh", "-c", "echo 2 > f")
                self.place.ok("snapshot", "rm", "--yes", FROM + "@latest~1", *settings)
                self.gc(*settings)
                self.assert_fork_is_whole(*settings)
                for slot in (FROM, INTO):
                    self.place.ok("rm", slot, "--purge", "--yes", *settings)
                self.gc(*settings)
                self.assertEqual(os.listdir(self.place.program_state("pending")), [])

    def test_one_that_is_removed_while_it_is_forked_is_told(self):
        for running in (False, True):
            with self.subTest(running=running):
                self.made("chunks")
                if running:
                    self.place.ok("run", INTO, "--", "sh", "-c", "echo mine > f")
                child = self.place.popen("restore", FROM + "@latest~1", "--into", INTO, "--yes", "-o", "json",
                                         env={"ASCOPE_TEST_FAULT": "stop:fork-published"}, stdout=-1, stderr=-1)
                harness.wait_for(lambda pid=child.pid: self.is_stopped(pid), what="the restore at its step")
                # As a remover does that looked before the fork was there.
                self.place.ok("snapshot", "rm", "--yes", FROM + "@latest~1")
                os.kill(child.pid, signal.SIGCONT)
                out, err = child.communicate(timeout=30)
                self.assertEqual(child.returncode, 4, (out, err))
                self.assertIn(b"was removed meanwhile", err)
                if running:
                    self.assertEqual(self.place.ok("exec", INTO, "--", "cat", "f").text, "mine\n")
                    names = [row["kind"] for row in self.place.ok("snapshot", "ls", INTO, "-o", "json").json()["snapshots"]]
                    self.assertEqual(names, ["run"])
                else:
                    self.assertNotIn(INTO, self.place.ok("ls", "-o", "name").text.split())
                self.gc()
                self.place.ok("snapshot", "check", "--all", "--read-data")
                for slot in (FROM, INTO):
                    self.place.run("rm", slot, "--purge", "--yes")

    def test_a_fork_taken_back_leaves_the_undo(self):
        self.made("chunks")
        for number in (1, 2):
            self.place.ok("run", INTO, "--", "sh", "-c", f"echo mine {number} > f")
        self.place.ok("restore", INTO + "@latest~1")
        self.place.ok("rm", INTO)
        child = self.place.popen("restore", FROM + "@latest~1", "--into", INTO, "--yes",
                                 env={"ASCOPE_TEST_FAULT": "stop:fork-published"}, stdout=-1, stderr=-1)
        harness.wait_for(lambda: self.is_stopped(child.pid), what="the restore at its step")
        self.place.ok("snapshot", "rm", "--yes", FROM + "@latest~1")
        os.kill(child.pid, signal.SIGCONT)
        out, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 4, (out, err))
        self.place.ok("undo", INTO)
        self.place.ok("start", INTO)
        self.assertEqual(self.place.ok("exec", INTO, "--", "cat", "f").text, "mine 2\n")

    @staticmethod
    def is_stopped(pid):
        with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] == "T"


if __name__ == "__main__":
    sys.exit(unittest.main())
