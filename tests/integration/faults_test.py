# SPDX-License-Identifier: Apache-2.0
"""Stores that cannot be read or written: nothing goes cold, nothing is lost, the place is named, and the next command
works once the fault is gone. Full disks are in full_disk_test.py, clocks in clock_test.py."""
import contextlib
import json
import os
import shutil
import sys
import unittest

import harness

SLOT = "session/fault"


class Faults(harness.CliTest):
    """As a user whom modes of files bind."""

    ordinary = True
    settings = ()

    def setUp(self):
        super().setUp()
        if os.geteuid() == 0 and not self.place.ordinary:
            self.skipTest("an ordinary user: modes of files do not bind root")
        harness.need_sandbox(self.place)

    def run_in(self, *args, **options):
        at = args.index("--") if "--" in args else len(args)
        return self.place.run(*args[:at], *self.settings, *args[at:], **options)

    def ok(self, *args, **options):
        return self.check(self.run_in(*args, **options))

    def sandboxes(self):
        folder = self.place.program_state("sandboxes")
        return sorted(name for name in os.listdir(folder) if name.startswith("sb-")) if os.path.isdir(folder) else []

    @contextlib.contextmanager
    def content(self, path, data):
        with open(path, "rb") as file:
            before, info = file.read(), os.stat(path)
        self.put(path, data(before) if callable(data) else data)
        try:
            yield
        finally:
            self.put(path, before)
            os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))

    @staticmethod
    def put(path, data):
        with open(path, "r+b") as file:
            file.write(data)
            file.truncate()

    @contextlib.contextmanager
    def away(self, path, instead=None):
        os.rename(path, path + ".away")
        if instead == "file":
            with open(path, "w", encoding="ascii"):
                pass
        elif instead == "folder":
            os.mkdir(path)
        try:
            yield
        finally:
            if os.path.isdir(path):
                shutil.rmtree(path)
            elif os.path.exists(path):
                os.unlink(path)
            os.rename(path + ".away", path)

    def refused(self, rule, kind, code, names):
        """`explain`, `start` and `run` say the same: this rule, this kind, this place; and nothing new is made."""
        before = self.sandboxes()
        predicted = self.run_in("explain", SLOT, "-o", "json")
        if rule is None:
            self.assertEqual(predicted.code, code, predicted)
            self.assertEqual(predicted.error()["kind"], kind)
        else:
            self.check(predicted)
            self.assertEqual((predicted.json()["rule"], predicted.json()["branch"]), (rule, None), predicted)
            self.assertEqual(predicted.json()["error"]["kind"], kind, predicted)
        done = self.run_in("start", SLOT, "-o", "json")
        self.assertEqual((done.code, done.error()["kind"], done.error()["exit_code"]), (code, kind, code), done)
        if names:
            self.assertIn(names, done.error()["message"])
        status = self.place.path("status")
        done = self.run_in("run", SLOT, "--status-file", status, "--", "sh", "-c", "echo ran > /workspace/ran; echo ran")
        self.assertEqual((done.code, done.out), (125, b""), done)
        with open(status, encoding="utf-8") as file:
            told = json.load(file)
        self.assertEqual(told["exit_code"] if "exit_code" in told else told["error"]["exit_code"], code, told)
        self.assertEqual(self.sandboxes(), before)

    def warm(self):
        self.ok("run", SLOT, "--", "sh", "-c", "echo saved > f")
        self.ok("exec", SLOT, "--", "sh", "-c", "echo unsaved > g")

    def whole(self, text="saved\nunsaved\n"):
        self.assertEqual(self.ok("run", SLOT, "--", "sh", "-c", "cat f g 2>/dev/null; test ! -e ran").text, text)


class SqliteTest(Faults):
    def file(self):
        return self.place.program_state("state.db")

    def test_a_file_that_may_not_be_read(self):
        self.warm()
        with harness.mode_of(self.file(), 0):
            self.refused("S1", "store_unavailable", 10, "state.db")
            for command in (["ls"], ["show", SLOT], ["history", SLOT], ["snapshot", "ls", SLOT], ["stop", SLOT],
                            ["snapshot", SLOT], ["rm", SLOT], ["gc", "--yes"], ["lock", "ls"]):
                done = self.run_in(*command)
                self.assertEqual(done.code, 10, done)
                self.assertIn("state.db", done.errors)
            self.assertEqual(self.run_in("exec", SLOT, "--", "true").code, 125)
        self.whole()

    def test_a_folder_that_may_not_be_entered(self):
        self.warm()
        with harness.mode_of(self.place.program_state(), 0):
            self.assertEqual(self.ok("explain", SLOT, "-o", "json").json()["rule"], "S1")
            done = self.run_in("start", SLOT)
            self.assertEqual(done.code, 15, done)  # not even its locks can be written
            self.assertIn(self.place.program_state(), done.errors)
        self.whole()

    def test_a_file_that_may_not_be_written(self):
        self.warm()
        with harness.mode_of(self.file(), 0o400):
            predicted = self.ok("explain", SLOT, "-o", "json").json()
            self.assertEqual((predicted["rule"], predicted["branch"]), ("A1", "A"))
            for command in (["start", SLOT], ["snapshot", SLOT], ["stop", SLOT], ["rm", SLOT]):
                done = self.run_in(*command)
                self.assertEqual(done.code, 15, done)
                self.assertIn("state.db", done.errors)
                self.assertIn("hint: ", done.errors)
            self.ok("show", SLOT)
        self.whole()

    def test_a_file_that_is_no_database(self):
        self.warm()
        for name, damage in (("begin", b"no database" * 800), ("pages", lambda old: old[:4096] + b"\xa5" * (len(old) - 4096)),
                             ("cut", lambda old: old[:len(old) // 2 + 100])):
            with self.subTest(name), self.content(self.file(), damage):
                self.refused(None, "corrupt", 8, "state.db")
                for command in (["ls"], ["show", SLOT], ["stop", SLOT], ["rm", SLOT], ["rm", "--purge", "--yes", SLOT],
                                ["gc", "--yes"], ["snapshot", "rm", "--yes", SLOT + "@latest"]):
                    self.assertEqual(self.run_in(*command).code, 8, command)
        self.whole()

    def test_a_state_that_is_gone_is_not_a_first_start(self):
        self.warm()
        with self.away(self.file()):
            for running in (True, False):
                done = self.run_in("start", SLOT, "-o", "json")
                self.assertEqual((done.code, done.error()["kind"]), (7, "refused"), done)
                self.assertIn("adopt", done.error()["hint"])
                if running:
                    self.end_sandboxes()
        self.whole()

    def end_sandboxes(self):
        for name in self.sandboxes():
            with open(self.place.program_state("sandboxes", name, "run.json"), encoding="ascii") as file:
                os.kill(json.load(file)["pid"], 9)


class JsonTest(Faults):
    def setUp(self):
        super().setUp()
        self.settings = ("--set", "state=json:" + self.place.path("states"))

    def record(self):
        base = self.place.path("states", "__anon__")
        [segment] = [name for name in os.listdir(base) if os.path.exists(os.path.join(base, name, "_sandbox_state.json"))]
        return os.path.join(base, segment, "_sandbox_state.json")

    def test_broken_records(self):
        self.warm()
        for name, damage in (("empty", b""), ("cut", lambda old: old[:len(old) // 2]), ("no object", b"[]"),
                             ("inner", b'{"json":"{","deleted":false}'), ("no json", b'{"deleted":false}'),
                             ("unknown type", lambda old: old.replace(b'\\"bubblewrap\\"', b'\\"firecracker\\"')),
                             ("bytes", b"\xff\xfe\x00" * 100)):
            with self.subTest(name), self.content(self.record(), damage):
                self.refused("S3", "corrupt", 8, None)
                for command in (["stop", SLOT], ["rm", SLOT], ["snapshot", SLOT], ["snapshot", "ls", SLOT]):
                    self.assertEqual(self.run_in(*command).code, 8, command)
                self.ok("ls")
                self.assertEqual(self.ok("show", SLOT, "-o", "json").json()["state"], "corrupt")
        self.whole()

    def test_records_that_cannot_be_read(self):
        self.warm()
        record = self.record()
        folder = os.path.dirname(record)
        for name, fault in (("mode", harness.mode_of(record, 0)), ("folder", harness.mode_of(folder, 0)),
                            ("above", harness.mode_of(os.path.dirname(folder), 0)), ("type", self.away(record, "folder"))):
            with self.subTest(name), fault:
                self.refused("S1", "store_unavailable", 10, "states")
                self.assertEqual(self.run_in("show", SLOT).code, 10)
        self.whole()

    def test_a_folder_that_may_not_be_written(self):
        self.warm()
        with harness.mode_of(os.path.dirname(self.record()), 0o500):
            for command in (["start", SLOT], ["snapshot", SLOT], ["stop", SLOT]):
                done = self.run_in(*command)
                self.assertEqual(done.code, 15, done)
                self.assertIn("states", done.errors)
        self.whole()

    def test_damaged_receipts_stop_nothing(self):
        self.warm()
        path = os.path.join(os.path.dirname(self.record()), "_ascope_receipts.jsonl")
        with self.content(path, lambda old: b"{broken\n\xff\xff\n" + old + b'{"half": '):
            self.assertEqual(len(self.ok("history", SLOT, "-o", "json").json()["receipts"]), 1)
            self.whole()


class SnapshotStoreTest(Faults):
    def folder(self):
        return self.place.program_state("snapshots")

    def cold(self):
        """No sandbox: the next start needs the snapshot."""
        self.warm()
        self.ok("rm", SLOT)

    def test_a_folder_that_cannot_be_read(self):
        self.cold()
        for name, fault, code in (("mode", harness.mode_of(self.folder(), 0), 10),
                                  ("type", self.away(self.folder(), "file"), 10),
                                  ("gone", self.away(self.folder()), 4), ("empty", self.away(self.folder(), "folder"), 4)):
            with self.subTest(name), fault:
                self.refused("C1", {10: "store_unavailable", 4: "not_found"}[code], code, None)
                self.assertEqual(self.run_in("start", SLOT, "--no-cold").code, code)
                self.ok("show", SLOT)
        self.whole()

    def test_damaged_objects(self):
        self.cold()
        snapshot = self.ok("show", SLOT, "-o", "json").json()["snapshot"]
        path = os.path.join(self.folder(), snapshot["object"])
        for name, damage in (("cut", lambda old: old[:len(old) // 2]), ("empty", b""), ("longer", lambda old: old + b"x"),
                             ("other bytes", lambda old: old[:600] + b"\xa5" * 100 + old[700:])):
            with self.subTest(name), self.content(path, damage):
                self.refused("C1", "corrupt", 8, None)
                self.assertEqual(self.run_in("snapshot", "check", f"{SLOT}@latest").code, 8)
        self.whole()

    def test_an_object_that_rotted_in_silence(self):
        """Same size, same times: seen when it is read, and nothing of it is taken for the workspace."""
        self.ok("run", SLOT, "--", "sh", "-c", "head -c 300000 /dev/zero > big; echo saved > f; echo unsaved > g")
        self.ok("rm", SLOT)
        path = os.path.join(self.folder(), self.ok("show", SLOT, "-o", "json").json()["snapshot"]["object"])
        info = os.stat(path)
        with self.content(path, lambda old: old[:200000] + b"\xa5" * 100 + old[200100:]):
            os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
            self.assertEqual(self.run_in("snapshot", "check", "--read-data", f"{SLOT}@latest").code, 8)
            done = self.run_in("start", SLOT, "-o", "json")
            self.assertEqual((done.code, done.error()["kind"]), (8, "corrupt"), done)
            self.assertEqual(self.run_in("exec", SLOT, "--", "true").code, 125)
        self.whole()

    def test_a_folder_that_may_not_be_written(self):
        self.warm()
        with contextlib.ExitStack() as modes:
            for folder, _, _ in os.walk(self.folder(), topdown=False):
                modes.enter_context(harness.mode_of(folder, 0o500))
            for command in (["snapshot", SLOT], ["stop", SLOT], ["rm", SLOT]):
                done = self.run_in(*command)
                self.assertEqual(done.code, 15, done)
                self.assertIn(self.folder(), done.errors)
            status = self.place.path("status")
            done = self.run_in("run", SLOT, "--status-file", status, "--", "sh", "-c", "echo more >> g; echo said")
            self.assertEqual((done.code, done.out), (125, b"said\n"), done)
            with open(status, encoding="utf-8") as file:
                self.assertEqual(json.load(file)["exit_code"], 15)
            self.assertEqual(self.ok("explain", SLOT, "-o", "json").json()["rule"], "A1")
        self.whole("saved\nunsaved\nmore\n")

    def test_unsaved_work_waits_for_its_store(self):
        """A tree that is not current is saved before it is overwritten; without a store it is left alone."""
        self.warm()
        record = self.ok("state", "export", "--raw", SLOT).out
        changed = json.loads(record)
        changed["ascope"]["live"]["tree"] = "sb-0000000000000000"
        self.replace_record(json.dumps(changed, separators=(",", ":")))
        with self.away(self.folder(), "file"):
            self.refused("A1", "store_unavailable", 10, None)
            self.assertEqual(self.run_in("start", SLOT, "--allow-loss").code, 10)
        started = self.ok("start", SLOT, "-o", "json").json()
        self.assertIsNotNone(started["stranded"])
        self.assertEqual(self.ok("snapshot", "cat", f"{SLOT}@{started['stranded']}", "g").text, "unsaved\n")
        self.whole("saved\n")

    def replace_record(self, text):
        import sqlite3
        with contextlib.closing(sqlite3.connect(self.place.program_state("state.db"))) as db, db:
            db.execute("UPDATE agentscope_sessions SET state_data=? WHERE state_key='_sandbox_state'", (text,))


if __name__ == "__main__":
    sys.exit(unittest.main())
