# SPDX-License-Identifier: Apache-2.0
"""Full disks under each place that is written to: the failure is 15 and names the place, nothing is lost, what frees
room still works, and the next command works once there is room."""
import json
import os
import signal
import subprocess
import sys
import unittest

import harness

SLOT = "session/full"
KIB, MIB = 1 << 10, 1 << 20


class FullDisk(harness.CliTest):
    def setUp(self):
        if os.geteuid() != 0:
            self.skipTest("root: small disks are mounted")
        super().setUp()
        harness.need_sandbox(self.place)

    def small_disk(self, path, size):
        """A file system of `size` bytes at `path`."""
        os.makedirs(path, mode=0o700, exist_ok=True)
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size},mode=0700", "tmpfs", path],
                              capture_output=True, check=False, text=True)
        harness.need("mount", done.returncode == 0, "no file system can be mounted: " + done.stderr.strip())
        self.addCleanup(self.unmount, path)

    def unmount(self, path):
        folder = self.place.program_state("sandboxes")
        for name in os.listdir(folder) if os.path.isdir(folder) else []:
            try:
                with open(os.path.join(folder, name, "run.json"), encoding="ascii") as file:
                    os.kill(json.load(file)["pid"], signal.SIGKILL)
            except (OSError, ValueError):
                pass
        # Whoever sits on it is on the way out.
        harness.wait_for(lambda: subprocess.run(["umount", path], capture_output=True, check=False).returncode == 0,
                         what=f"the unmount of {path}")

    def fill(self, path, leave=0):
        """Fills the disk but for `leave` bytes; gives the file to remove."""
        name = os.path.join(path, "ballast")
        with open(name, "ab", buffering=0) as file:
            for part in (MIB, 4 * KIB):
                try:
                    while True:
                        file.write(b"x" * part)
                except OSError:
                    pass
            file.truncate(os.path.getsize(name) - leave)
        return name

    def fails(self, *args, places, code=15):
        done = self.place.run(*args)
        self.assertEqual(done.code, code, done)
        self.assertIn("No space left on device", done.errors)
        self.assertIn("hint: free some space", done.errors)
        self.assertTrue(any(place in done.errors for place in places), done)
        return done

    def run_fails(self, *args, places, out=b""):
        status = self.place.path("status")
        done = self.fails("run", SLOT, "--status-file", status, *args, places=places, code=125)
        self.assertEqual(done.out, out, done)
        with open(status, encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual((told["error"]["kind"], told["exit_code"]), ("io", 15), told)

    def work(self, text):
        """Leaves unsaved work in the running sandbox, more of it than a full disk keeps back for those who look."""
        self.place.ok("exec", SLOT, "--", "sh", "-c", f"echo {text} > g; head -c 500000 /dev/urandom > noise")

    def whole(self, text):
        self.assertEqual(self.place.ok("run", SLOT, "--", "sh", "-c", "cat f g; wc -c < big").text.split(),
                         ["saved", *text, "1000000"])

    def begin(self, *more):
        self.place.ok("run", SLOT, *more, "--", "sh", "-c", "echo saved > f; head -c 1000000 /dev/urandom > big")


class StateFolderTest(FullDisk):
    """Everything on one disk, as it is by default."""

    def setUp(self):
        super().setUp()
        self.state = self.place.program_state()
        self.small_disk(self.state, 40 * MIB)
        self.begin()

    def test_nothing_is_lost_and_room_makes_it_work(self):
        self.work("unsaved")
        ballast = self.fill(self.state)
        for command in ("snapshot", "stop"):
            self.fails(command, SLOT, places=[self.state])
        self.run_fails("--", "true", places=[self.state])
        self.assertEqual(self.place.ok("exec", SLOT, "--", "cat", "g").text, "unsaved\n")
        os.unlink(ballast)
        self.whole(["unsaved"])

    def test_a_command_that_fills_it_can_be_taken_back(self):
        done = self.place.run("run", SLOT, "--", "sh", "-c", "cat /dev/zero > fill")
        self.assertNotEqual(done.code, 0, done)  # its own failure, or that of the save
        # Even the mark of the next command must be written somewhere.
        self.place.ok("exec", SLOT, "--", "sh", "-c", "rm fill; echo unsaved > g")
        self.whole(["unsaved"])

    def test_what_frees_room_works_on_a_full_disk(self):
        """Room is kept back for that."""
        self.assertGreaterEqual(os.stat(os.path.join(self.state, "reserve")).st_blocks * 512, MIB)
        self.place.ok("run", "session/other", "--", "sh", "-c", "head -c 3000000 /dev/urandom > big")
        self.place.ok("run", SLOT, "--", "sh", "-c", "echo second > g")
        self.place.run("run", SLOT, "--", "true", env={"ASCOPE_TEST_FAULT": "kill:after-objects"})
        self.fill(self.state)
        self.place.ok("gc", "--yes")
        self.place.ok("snapshot", "rm", "--yes", SLOT + "@latest~1")
        self.place.ok("rm", "--purge", "--yes", "session/other")
        self.place.ok("gc", "--yes", "--grace", "0s")
        self.assertEqual([row["slot"] for row in self.place.ok("ls", "-o", "json").json()["slots"]], [SLOT])
        self.assertFalse(self.place.run("snapshot", "ls", "session/other").text)
        # What they freed is enough to go on with.
        self.whole(["second"])

    def test_removing_a_slot_frees_what_it_took(self):
        self.fill(self.state)
        self.place.ok("rm", "--purge", "--yes", SLOT)
        self.place.ok("gc", "--yes", "--grace", "0s")
        left = [name for _, _, files in os.walk(os.path.join(self.state, "snapshots")) for name in files]
        self.assertEqual(sorted(left), ["repo", "repo.copy"])
        self.assertEqual([name for name in os.listdir(os.path.join(self.state, "sandboxes")) if name != ".lock"], [])
        self.begin()

    def test_a_disk_that_is_full_at_the_first_start(self):
        self.place.ok("rm", "--purge", "--yes", SLOT)
        for leave in (0, 64 * KIB, 256 * KIB):
            with self.subTest(leave=leave):
                slot = f"session/new{leave}"
                ballast = self.fill(self.state, leave)
                done = self.place.run("start", slot)
                os.unlink(ballast)
                self.assertIn(done.code, (0, 15), done)
                if done.code == 15:
                    self.assertIn(self.state, done.errors)
                    self.assertEqual(self.place.run("show", slot).code, 4)
                self.place.ok("run", slot, "--", "sh", "-c", "echo x > f")
                self.place.ok("rm", "--purge", "--yes", slot)

    def test_every_amount_of_room(self):
        """Whatever step of a save the room ends in: done, or not begun."""
        rounds = 60 if harness.full() else 5
        for number in range(rounds):
            self.work(f"work{number}")
            ballast = self.fill(self.state, leave=number * 3 * MIB // rounds)
            done = self.place.run("run", SLOT, "--", "true")
            self.assertIn(done.code, (0, 125), done)
            shown = self.place.run("show", SLOT, "-o", "json")
            os.unlink(ballast)
            self.assertIn(shown.code, (0, 15), shown)
            self.place.ok("snapshot", "check", f"{SLOT}@latest")
            self.whole([f"work{number}"])


class SnapshotStoreTest(FullDisk):
    """Snapshots on a disk of their own."""

    def setUp(self):
        super().setUp()
        self.store = self.place.path("store")
        self.small_disk(self.store, 8 * MIB)
        self.place.write("ascope.yaml", f"version: 1\nsnapshots:\n  store: local:{self.store}\n")
        self.place.ok("profile", "trust")
        self.begin()

    def objects(self):
        return sorted(os.path.join(folder, name) for folder, _, files in os.walk(self.store) for name in files
                      if name != "ballast")

    def test_nothing_is_lost_and_room_makes_it_work(self):
        before = self.objects()
        self.work("unsaved")
        ballast = self.fill(self.store)
        for command in ("snapshot", "stop", "rm"):
            self.fails(command, SLOT, places=[self.store])
            self.assertEqual(self.objects(), before)
        self.run_fails("--", "sh", "-c", "echo more >> g; echo said", places=[self.store], out=b"said\n")
        predicted = self.place.ok("explain", SLOT, "-o", "json").json()
        self.assertEqual((predicted["rule"], predicted["branch"]), ("A1", "A"))
        done = self.place.run("restore", SLOT + "@latest", "--yes")
        self.assertEqual(done.code, 15, done)  # what would be overwritten must be saved first
        self.assertEqual(self.objects(), before)
        os.unlink(ballast)
        self.whole(["unsaved", "more"])

    def test_room_comes_from_old_snapshots(self):
        for number in range(3):
            self.place.ok("run", SLOT, "--", "sh", "-c", f"head -c 1000000 /dev/urandom > big; echo {number} > g")
        ballast = self.fill(self.store)
        self.work("unsaved")
        self.fails("snapshot", SLOT, places=[self.store])
        self.place.ok("gc", SLOT, "--yes", "--grace", "0s", "--set", "snapshots.keep={last: 2}")
        self.whole(["unsaved"])
        os.unlink(ballast)
        self.place.ok("run", SLOT, "--", "sh", "-c", "head -c 1000000 /dev/urandom > big")
        self.fill(self.store)
        self.work("again")
        self.fails("snapshot", SLOT, places=[self.store])
        self.place.ok("snapshot", "rm", "--yes", SLOT + "@latest~1", SLOT + "@latest~2")
        self.place.ok("gc", "--yes", "--grace", "0s")
        self.whole(["again"])

    def test_a_restore_needs_no_room_in_the_store(self):
        self.place.ok("rm", SLOT)
        self.fill(self.store)
        done = self.place.ok("start", SLOT, "-o", "json").json()
        self.assertEqual(done["branch"], "C")
        self.assertEqual(self.place.ok("exec", SLOT, "--", "cat", "f").text, "saved\n")


class WorkspaceTest(FullDisk):
    """The sandboxes' trees on a disk of their own."""

    def setUp(self):
        super().setUp()
        self.trees = self.place.program_state("sandboxes")
        self.small_disk(self.trees, 8 * MIB)
        self.begin()

    def test_a_command_sees_the_full_disk_and_its_work_is_saved(self):
        done = self.place.run("run", SLOT, "--", "sh", "-c", "echo kept > g; cat /dev/zero > fill || exit 9")
        self.assertEqual(done.code, 9, done)
        self.assertIn("No space left", done.errors)
        self.place.ok("run", SLOT, "--", "rm", "fill")
        self.whole(["kept"])

    def test_a_sandbox_on_a_full_disk_can_be_removed(self):
        self.place.ok("exec", SLOT, "--", "sh", "-c", "echo kept > g")
        ballast = self.fill(self.trees)
        self.place.ok("stop", SLOT)
        done = self.place.ok("rm", SLOT)
        self.assertNotIn("warning", done.errors)
        self.assertEqual(self.sandboxes(), [])
        os.unlink(ballast)
        self.whole(["kept"])

    def test_a_restore_that_has_no_room_is_done_over(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "head -c 4000000 /dev/urandom > more; echo kept > g")
        self.place.ok("rm", SLOT)
        ballast = self.fill(self.trees, leave=3 * MIB)
        for _ in range(2):
            done = self.place.run("start", SLOT)
            self.assertIn(done.code, (12, 15), done)
            self.assertIn("No space left on device", done.errors)
            self.assertIn(self.trees, done.errors)
            self.assertEqual(self.sandboxes(), [], "a half made sandbox is left")
        os.unlink(ballast)
        self.assertEqual(self.place.ok("start", SLOT, "-o", "json").json()["branch"], "C")
        self.whole(["kept"])

    def sandboxes(self):
        return [name for name in os.listdir(self.trees) if name.startswith("sb-")]

    def test_a_restore_in_place_that_has_no_room_changes_nothing(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "head -c 2500000 /dev/urandom > more; echo first > g")
        self.place.ok("run", SLOT, "--", "sh", "-c", "rm more; echo second > g")
        ballast = self.fill(self.trees, leave=MIB)
        done = self.place.run("restore", SLOT + "@latest~1", "--yes")
        self.assertIn(done.code, (12, 15), done)
        self.assertIn("No space left on device", done.errors)
        os.unlink(ballast)
        self.whole(["second"])
        self.assertEqual(self.place.run("run", SLOT, "--", "test", "-e", "more").code, 1)
        self.place.ok("restore", SLOT + "@latest~1", "--yes")
        self.whole(["first"])

    def test_a_new_sandbox_that_has_no_room(self):
        before = self.sandboxes()
        for leave in (0, 16 * KIB):
            ballast = self.fill(self.trees, leave)
            done = self.place.run("start", "session/new")
            self.assertEqual(done.code, 15, done)
            self.assertIn(self.trees, done.errors)
            self.assertEqual(self.sandboxes(), before)
            os.unlink(ballast)
        self.place.ok("start", "session/new")
        self.whole([])

    def whole(self, text):
        if not text:
            self.assertEqual(self.place.ok("run", SLOT, "--", "cat", "f").text, "saved\n")
            return
        super().whole(text)


if __name__ == "__main__":
    sys.exit(unittest.main())
