# SPDX-License-Identifier: Apache-2.0
"""kill -9 at every step of every command that changes a slot: the next command finds a consistent slot, and no work
that a command has done is gone."""
import sys
import unittest

import harness

# Where the engine looks at ASCOPE_TEST_FAULT, in the order of a call.
START_STEPS = ["before-create", "after-create", "before-entries", "before-start-commit", "before-aux", "before-commit",
               "after-commit", "after-ready"]
SAVE_STEPS = ["before-claim", "after-claim", "before-objects", "after-objects", "before-aux", "before-commit",
              "after-commit"]
RELEASE_STEPS = ["before-release", "after-release"]
RESTORE_STEPS = ["after-safety", "before-mark", "after-mark", "after-restore", "before-restore-commit", "before-objects",
                 "after-objects"]


class CrashTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)

    def killed(self, step, *args):
        """Runs a command that is killed at `step`; steps that it does not pass leave it whole (code 0)."""
        done = self.place.run(*args, env={"ASCOPE_TEST_FAULT": "kill:" + step})
        self.assertIn(done.code, (0, -9), f"{step}: {done}")
        return done.code == -9

    def consistent(self, step):
        """What must hold after any kill: the record names no snapshot that the store has not."""
        shown = self.place.run("show", "-o", "json")
        if shown.code == 4:
            return
        self.assertEqual(shown.code, 0, f"{step}: {shown}")
        snapshot = shown.json()["snapshot"]
        if snapshot is not None:
            self.assertTrue(snapshot["in_store"], f"{step}: {shown}")

    def content(self, step):
        done = self.place.run("run", "--", "cat", "f")
        self.assertEqual(done.code, 0, f"{step}: {done}")
        return done.text

    def test_first_start(self):
        for step in START_STEPS:
            with self.subTest(step=step):
                self.place.run("rm", "--purge", "--yes", "--allow-loss")
                self.assertTrue(self.killed(step, "start"), step)
                self.consistent(step)
                self.place.ok("run", "--", "sh", "-c", "echo one > f")
                self.assertEqual(self.content(step), "one\n")

    def test_run_keeps_what_the_command_did(self):
        self.place.ok("run", "--", "sh", "-c", "echo 0 > f")
        for number, step in enumerate(SAVE_STEPS + RELEASE_STEPS, 1):
            with self.subTest(step=step):
                before = self.content(step)
                self.killed(step, "run", "--release", "stop", "--", "sh", "-c", f"echo {number} > f")
                self.consistent(step)
                after = self.content(step)
                # Killed before the command ran: the old content; after it: the new one. Never anything else.
                self.assertIn(after, (before, f"{number}\n"), step)
                if step in ("before-objects", "after-objects", "before-release", "after-release"):
                    self.assertEqual(after, f"{number}\n", step)

    def test_snapshot_stop_and_rm(self):
        for command in (["snapshot"], ["stop"], ["rm"]):
            for step in SAVE_STEPS + RELEASE_STEPS:
                with self.subTest(command=command[0], step=step):
                    self.place.ok("start")
                    self.place.ok("exec", "--", "sh", "-c", f"echo {command[0]}-{step} > f")
                    self.killed(step, *command)
                    self.consistent(step)
                    self.assertEqual(self.content(step), f"{command[0]}-{step}\n")

    def test_restore_is_done_or_undone(self):
        self.place.ok("run", "--", "sh", "-c", "echo old > f; echo only-old > g")
        self.place.ok("snapshot", "--tag", "old")
        for step in RESTORE_STEPS:
            with self.subTest(step=step):
                self.place.ok("run", "--", "sh", "-c", f"rm -f g; echo new-{step} > f")
                self.assertTrue(self.killed(step, "restore", "old"), step)
                self.consistent(step)
                self.assertEqual(self.content(step), f"new-{step}\n")
                done = self.place.run("run", "--", "test", "-e", "g")
                self.assertEqual(done.code, 1, f"{step}: a half restored tree is left: {done}")

    def test_restore_into_a_new_sandbox(self):
        for step in ("after-create", "after-mark", "after-restore", "before-start-commit", "after-commit", "after-ready"):
            with self.subTest(step=step):
                self.place.ok("run", "--", "sh", "-c", f"echo {step} > f")
                self.place.ok("rm")
                self.assertTrue(self.killed(step, "start"), step)
                self.consistent(step)
                self.assertEqual(self.content(step), f"{step}\n")

    def test_gc_after_kills_finds_the_rest(self):
        self.place.ok("run", "--", "sh", "-c", "echo one > f")
        self.assertTrue(self.killed("after-objects", "run", "--", "sh", "-c", "echo two > f"))
        listed = self.place.ok("gc", "--dry-run", "-o", "json").json()["items"]
        self.assertIn("object", [item["kind"] for item in listed if item["action"] == "removed"])
        self.place.ok("gc", "--yes")
        again = self.place.ok("gc", "--dry-run", "-o", "json").json()["items"]
        self.assertEqual([item for item in again if item["action"] == "removed"], [])
        self.assertEqual(self.content("gc"), "two\n")

    def test_a_failing_step_is_said_and_loses_nothing(self):
        self.place.ok("run", "--", "sh", "-c", "echo one > f")
        for step in ("before-objects", "after-objects"):
            with self.subTest(step=step):
                done = self.place.run("run", "--", "sh", "-c", f"echo {step} > f", env={"ASCOPE_TEST_FAULT": "fail:" + step})
                self.assertEqual(done.code, 125, f"{step}: {done}")
                self.consistent(step)
                self.assertEqual(self.content(step), f"{step}\n")


if __name__ == "__main__":
    sys.exit(unittest.main())
