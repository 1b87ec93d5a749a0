# SPDX-License-Identifier: Apache-2.0
"""migrate: slots go to other stores and formats, whole, and killed at any step go on."""
import hashlib
import io
import os
import signal
import sys
import tarfile
import unittest

import harness

SLOT = "session/s1"
TAR = ("--to-set", "snapshots.format=tar")
STEPS = ("before-objects", "after-objects", "before-target", "after-target", "before-claim", "after-claim",
         "before-aux", "before-commit", "after-commit")


class MigrateTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)

    def elsewhere(self):
        """--set words of stores that are not the built-in ones."""
        return [f"state=json:{self.place.path('states')}", f"snapshots.store=local:{self.place.path('saved')}"]

    def at(self, settings):
        return [word for setting in settings for word in ("--set", setting)]

    def to(self, settings):
        return [word for setting in settings for word in ("--to-set", setting)]

    def made(self, slot=SLOT):
        """A slot with three snapshots, one of them tagged, of odd content; its sandbox runs."""
        script = ("echo one > a; mkdir -p d; ln a d/hard; ln -s ../a d/soft; printf 'x\\n' > \"$(printf 'n\\303')\"; "
                  "touch -d '1969-03-01 04:05:06.123456789' a; chmod 4751 a; echo home > ~/at-home")
        self.place.ok("run", slot, "--", "sh", "-c", script)
        self.place.ok("snapshot", "tag", slot + "@latest", "first")
        self.place.ok("run", slot, "--", "sh", "-c", "echo two > b; rm d/soft")
        self.place.ok("run", slot, "--", "sh", "-c", "echo three > c; dd if=/dev/urandom of=big bs=1M count=3 2>&1")

    def history(self, *settings, slot=SLOT):
        rows = self.place.ok("snapshot", "ls", slot, "-o", "json", *settings).json()["snapshots"]
        return [{key: row[key] for key in ("time", "kind", "tags")} for row in rows]

    def listings(self, *settings, slot=SLOT):
        """What the three snapshots hold, as their exports tell."""
        out = []
        for number in range(3):
            name = f"{slot}@latest~{number}" if number else f"{slot}@latest"
            with tarfile.open(fileobj=io.BytesIO(self.place.ok("snapshot", "export", name, "-", *settings).out)) as tar:
                out.append(sorted((one.name, one.type, one.mode, one.mtime, one.linkname, one.uid,
                                   hashlib.sha256(tar.extractfile(one).read()).hexdigest() if one.isreg() else "")
                                  for one in tar))
        return out

    def assert_whole(self, history, listings, *settings):
        self.assertEqual(self.history(*settings), history)
        self.assertEqual(self.listings(*settings), listings)
        self.place.ok("snapshot", "check", "--all", "--read-data", *settings)

    # ---- formats

    def test_formats_change_both_ways_and_the_sandbox_stays(self):
        self.made()
        history, listings = self.history(), self.listings()
        sandbox = self.place.ok("show", SLOT, "-o", "json").json()["sandbox"]["id"]
        packs = self.place.program_state("snapshots", "packs")
        self.assertTrue(os.listdir(packs))
        receipt = self.place.ok("migrate", SLOT, *TAR, "-o", "json").json()
        self.assertEqual((receipt["command"], receipt["changed"], receipt["outcome"]), ("migrate", True, "done"))
        self.assertNotEqual(receipt["snapshot"], receipt["parent"])
        self.assert_whole(history, listings, "--set", "snapshots.format=tar")
        objects = os.listdir(self.place.program_state("snapshots"))
        self.assertEqual(sum(name.endswith(".roots.tar") for name in objects), 3, objects)
        self.assertEqual(sum(name.endswith(".tar") and not name.endswith(".roots.tar") for name in objects), 3)
        again = self.place.ok("migrate", SLOT, *TAR, "-o", "json").json()
        self.assertFalse(again["changed"], again)
        # The warm sandbox is the slot's still, and current.
        started = self.place.ok("start", SLOT, "--expect", "A", "--set", "snapshots.format=tar", "-o", "json").json()
        self.assertEqual(started["sandbox"], sandbox)
        self.place.ok("migrate", SLOT, "--set", "snapshots.format=tar", "--to-set", "snapshots.format=chunks")
        self.assert_whole(history, listings)
        self.assertFalse([name for name in os.listdir(self.place.program_state("snapshots")) if name.endswith(".tar")])
        self.place.ok("rm", SLOT)
        self.place.ok("start", SLOT, "--expect", "C")
        self.assertEqual(self.place.ok("exec", SLOT, "--", "sh", "-c", "cat a b c ~/at-home").text,
                         "one\ntwo\nthree\nhome\n")

    def test_a_fork_keeps_what_it_names(self):
        self.made()
        self.place.ok("restore", SLOT + "@first", "--into", "session/fork", "--yes")
        self.place.ok("migrate", SLOT, *TAR)
        self.place.ok("gc", "--yes", "--grace", "0s")
        self.place.ok("start", "session/fork")
        self.assertEqual(self.place.ok("exec", "session/fork", "--", "cat", "a").text, "one\n")

    def test_undo_goes_on_after_a_move(self):
        self.made()
        self.place.ok("restore", SLOT + "@first", "--yes")
        self.place.ok("migrate", SLOT, *TAR)
        self.place.ok("undo", SLOT, "--yes", "--set", "snapshots.format=tar")
        self.place.ok("start", SLOT, "--set", "snapshots.format=tar")
        self.assertEqual(self.place.ok("exec", SLOT, "--", "cat", "c").text, "three\n")

    # ---- stores

    def test_to_other_stores(self):
        self.made()
        self.place.ok("exec", SLOT, "--", "sh", "-c", "echo unsaved > late")
        there = self.elsewhere()
        receipts = len(self.place.ok("history", SLOT, "-o", "json").json()["receipts"])
        self.place.ok("migrate", SLOT, *self.to(there))
        self.assertEqual(self.place.ok("ls", "-o", "name").text, "")
        self.place.ok("snapshot", "check", "--all", "--read-data", *self.at(there))
        self.assertGreater(len(self.place.ok("history", SLOT, "-o", "json", *self.at(there)).json()["receipts"]), receipts)
        self.assertEqual([row["tags"] for row in self.history(*self.at(there))].count(["first"]), 1)
        started = self.place.ok("start", SLOT, "--expect", "C", "-o", "json", *self.at(there)).json()
        self.assertEqual(started["branch"], "C")
        self.assertEqual(self.place.ok("exec", SLOT, *self.at(there), "--", "sh", "-c", "cat late c ~/at-home").text,
                         "unsaved\nthree\nhome\n")
        # Nothing of it is left here but the tombstone, and gc leaves the sandbox of the other state alone.
        self.place.ok("gc", "--yes", "--grace", "0s")
        self.assertFalse([names for _, _, names in os.walk(self.place.program_state("snapshots", "packs")) if names])
        self.assertEqual(self.place.ok("exec", SLOT, *self.at(there), "--", "cat", "late").text, "unsaved\n")
        error = self.place.run("migrate", SLOT, *TAR, "-o", "json").error()
        self.assertEqual((error["kind"], error["exit_code"]), ("not_found", 4))
        self.assertIn("json:", error["hint"])

    def test_what_begins_anew_says_where_the_old_one_is(self):
        self.made()
        self.place.ok("migrate", SLOT, *self.to(self.elsewhere()))
        done = self.place.run("start", SLOT, "-o", "json")
        receipt = done.json()
        self.assertEqual((done.code, receipt["branch"]), (0, "D"), done)
        self.assertIn("was moved to json:", receipt["warnings"][0])
        self.place.ok("state", "rm", SLOT, "--yes", "--allow-loss")
        removed = self.place.ok("gc", "--yes", "--grace", "0s", "-o", "json").json()["items"]
        self.assertIn(("removed", "sandbox"), [(row["action"], row["kind"]) for row in removed])

    def test_a_copy_leaves_both(self):
        self.made()
        there = self.elsewhere()
        history, listings = self.history(), self.listings()
        self.place.ok("migrate", SLOT, "--copy", *self.to(there + ["snapshots.format=tar"]))
        self.assert_whole(history, listings)
        self.assert_whole(history, listings, *self.at(there + ["snapshots.format=tar"]))
        error = self.place.run("migrate", SLOT, "--copy", *TAR, "-o", "json").error()
        self.assertEqual((error["kind"], error["exit_code"]), ("usage", 2))

    def test_one_that_is_there_stays(self):
        there = self.elsewhere()
        self.made()
        self.place.ok("create", SLOT, *self.at(there))
        before = self.place.ok("state", "export", "--raw", SLOT, *self.at(there)).out
        error = self.place.run("migrate", SLOT, "-o", "json", *self.to(there)).error()
        self.assertEqual((error["kind"], error["exit_code"]), ("conflict", 6))
        self.assertEqual(self.place.ok("state", "export", "--raw", SLOT, *self.at(there)).out, before)
        self.assertEqual(len(self.history()), 3)

    def test_all_of_a_store(self):
        there = self.elsewhere()
        for number in range(3):
            self.place.ok("run", f"session/s{number}", "--", "sh", "-c", f"echo {number} > f")
        self.place.ok("create", "session/s1", *self.at(there))
        dry = self.place.ok("migrate", "--all", "--dry-run", "-o", "json", *self.to(there[1:])).json()
        self.assertEqual([row["slot"] for row in dry["receipts"]], [f"session/s{n}" for n in range(3)])
        self.assertFalse(os.path.exists(self.place.path("saved")))
        done = self.place.run("migrate", "--all", "-o", "json", *self.to(there))
        self.assertEqual(done.code, 3, done)
        self.assertEqual([row["outcome"] for row in done.json()["receipts"]], ["done", "failed", "done"])
        self.assertEqual(self.place.ok("ls", "-o", "name").text.split(), ["session/s1"])
        for number in (0, 2):
            self.place.ok("start", f"session/s{number}", "--expect", "C", *self.at(there))
            self.assertEqual(self.place.ok("exec", f"session/s{number}", *self.at(there), "--", "cat", "f").text,
                             f"{number}\n")

    # ---- what goes wrong

    def test_a_damaged_snapshot_stops_it_and_nothing_is_lost(self):
        self.made()
        self.place.ok("rm", SLOT)
        folder = self.place.program_state("snapshots", "packs")
        pack = max((os.path.join(top, name) for top, _, names in os.walk(folder) for name in names), key=os.path.getsize)
        with open(pack, "r+b") as file:
            file.seek(os.path.getsize(pack) // 3)
            byte = file.read(1)
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte[0] ^ 1]))
        history = self.history()
        for target in (self.to(self.elsewhere()), TAR):
            error = self.place.run("migrate", SLOT, "-o", "json", *target).error()
            self.assertEqual((error["kind"], error["exit_code"]), ("corrupt", 8), error)
            self.assertEqual(self.history(), history)
        self.assertEqual(self.place.ok("ls", "-o", "name", *self.at(self.elsewhere())).text, "")

    def test_bad_command_lines(self):
        self.place.ok("create", SLOT)
        for words in ((), ("--to-set", "x"), ("--to-set", "no.such.key=1"), ("--all", SLOT, *TAR),
                      ("--to-profile", "nowhere.yaml")):
            self.assertEqual(self.place.run("migrate", *([] if "--all" in words else [SLOT]), *words).code, 2, words)
        self.assertEqual(self.place.run("migrate", "session/none", *TAR).code, 4)

    def test_killed_at_each_step_it_goes_on(self):
        self.made()
        self.place.ok("stop", SLOT)
        history, listings = self.history(), self.listings()
        for target, settings in ((TAR, ["snapshots.format=tar"]), (self.to(self.elsewhere()), self.elsewhere())):
            for step in STEPS:
                with self.subTest(step=step, target=target):
                    done = self.place.run("migrate", SLOT, *target, env={"ASCOPE_TEST_FAULT": "kill:" + step})
                    self.assertIn(done.code, (0, -signal.SIGKILL), done)
                    again = self.place.run("migrate", SLOT, *target)
                    self.assertIn(again.code, (0, 4), again)
                    self.assert_whole(history, listings, *self.at(settings))
                    # Back, for the next step.
                    back = ["state=sqlite:", "snapshots.store=local:", "snapshots.format=chunks"]
                    self.place.ok("migrate", SLOT, *self.at(settings), *self.to(back))
                    self.assert_whole(history, listings)
            for where in ([], self.at(settings)):
                self.place.ok("gc", "--yes", "--grace", "0s", *where)
            self.assert_whole(history, listings)
            left = self.place.program_state("pending")
            self.assertFalse(os.path.exists(left) and [name for name in os.listdir(left) if name[0] != "."])


if __name__ == "__main__":
    sys.exit(unittest.main())
