# SPDX-License-Identifier: Apache-2.0
"""Objects of the snapshot store that are cut, altered, swapped, emptied or gone: 8 or 4 with the name, never a wrong
file, never a cold start, and the store left as it was; a save finds the damage and heals it."""
import os
import shutil
import sqlite3
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from bad_input import BadInputTest, CONTENT  # noqa: E402


def rewritten(path, change, keep_time=True):
    times = os.stat(path)
    with open(path, "r+b") as file:
        data = bytearray(file.read())
        data = change(data) or data
        file.seek(0)
        file.truncate()
        file.write(data)
    if keep_time:
        os.utime(path, ns=(times.st_atime_ns, times.st_mtime_ns))


def flip(at):
    def change(data):
        data[at if at >= 0 else len(data) + at] ^= 1
    return change


class DamagedObjectTest(BadInputTest):
    snapshot_format = "tar"

    def setUp(self):
        super().setUp()
        self.store = self.place.program_state("snapshots")
        self.head = self.before[0]["snapshot"]["id"]
        self.object = os.path.join(self.store, self.head + ".tar")
        self.kept = self.place.path("kept")
        shutil.copy2(self.object, self.kept)
        # A whole snapshot of another slot, to be swapped in: of equal size, so that only its bytes tell.
        with open(self.kept, "rb") as file:
            other = bytearray(file.read())
        at = other.index(CONTENT.encode())
        other[at:at + 5] = b"OTHER"
        self.place.ok("snapshot", "import", "-", "session/other", stdin=bytes(other))
        self.other = os.path.join(self.store, self.place.ok("show", "session/other", "-o", "json").json()["snapshot"]["object"])

    def damages(self):
        """name: (what does it, code, whether a look without reading shows it)"""
        size = os.path.getsize(self.kept)
        step = 512 if harness.full() else 1536
        rows = {f"cut to {length}": (lambda length=length: os.truncate(self.object, length), 8, True)
                for length in range(0, size, step)}
        for at in (0, 150, 513, 520, -1, -1024):
            rows[f"a flipped bit at {at}"] = (lambda at=at: rewritten(self.object, flip(at)), 8, False)
        rows["a flipped bit, and a new time"] = (lambda: rewritten(self.object, flip(520), False), 8, True)
        rows["longer"] = (lambda: rewritten(self.object, lambda data: data + b"\0" * 512), 8, True)
        rows["gone"] = (lambda: os.unlink(self.object), 4, True)
        rows["swapped"] = (lambda: (os.unlink(self.object), shutil.copy(self.other, self.object)), 8, True)
        rows["swapped, of the same time"] = (lambda: (os.unlink(self.object), shutil.copy(self.other, self.object), os.utime(
            self.object, ns=(os.stat(self.kept).st_mtime_ns,) * 2)), 8, False)
        rows["a folder"] = (lambda: (os.unlink(self.object), os.mkdir(self.object)), 10, True)
        rows["a pipe"] = (lambda: (os.unlink(self.object), os.mkfifo(self.object)), 10, True)
        rows["a link to nothing"] = (lambda: (os.unlink(self.object), os.symlink("none", self.object)), None, True)
        return rows

    def sandboxes(self):
        folder = self.place.program_state("sandboxes")
        return [name for name in os.listdir(folder) if not name.startswith(".")] if os.path.exists(folder) else []

    def undo(self):
        if os.path.isdir(self.object) and not os.path.islink(self.object):
            os.rmdir(self.object)
        elif os.path.lexists(self.object):
            os.unlink(self.object)
        shutil.copy2(self.kept, self.object)

    def state_of_store(self):
        found = {}
        for name in sorted(os.listdir(self.store)):
            path = os.path.join(self.store, name)
            info = os.lstat(path)
            data = None
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    data = file.read()
            found[name] = (info.st_mode, info.st_size, data)
        return found

    def test_reading_commands(self):
        for name, (damage, code, _) in self.damages().items():
            with self.subTest(name):
                self.undo()
                damage()
                store = self.state_of_store()
                for argv in (["snapshot", "cat", "latest", "f"], ["snapshot", "export", "latest", "-"],
                             ["snapshot", "export", "latest", "out.tar"], ["snapshot", "find", "latest", "*"],
                             ["restore", "latest", "--to", self.place.path("to")],
                             ["snapshot", "check", "latest", "--read-data"]):
                    checks = argv[1] == "check"
                    done = self.place.run(*argv, timeout=20)
                    self.assertIn(done.code, (8,) if checks and code in (4, 8) else (code,) if code else (4, 8, 10), done)
                    self.assertIn(self.head, done.errors, done)
                    self.assertRegex(done.errors, r"(?m)^hint: \S", done)
                    if not checks:
                        self.assertEqual(done.out, b"", done)
                self.assertEqual(sorted(os.listdir(self.place.cwd)), ["kept"])
                self.assertEqual(self.state_of_store(), store)
        self.undo()
        self.unchanged("damaged objects")
        self.restores()

    def test_a_start_never_takes_it_nor_goes_cold(self):
        harness.need_sandbox(self.place)
        for name, (damage, code, seen) in self.damages().items():
            if not harness.full() and "cut" in name and not name.endswith((" 0", "1536")):
                continue
            with self.subTest(name):
                self.undo()
                damage()
                store = self.state_of_store()
                done = self.place.run("start", "-o", "json", timeout=20)
                self.assertIn(done.code, (code,) if code else (4, 8, 10), done)
                self.assertEqual(self.place.run("run", "--", "cat", "f", timeout=20).code, 125)
                if seen:
                    explained = self.place.ok("explain", "-o", "json").json()
                    self.assertEqual(explained["outcome"], "refused", explained)
                self.assertEqual(self.sandboxes(), [])
                self.assertEqual(self.state_of_store(), store)
                self.undo()
                self.unchanged(name, traces=False)
        self.assertEqual(self.place.ok("run", "--", "cat", "f").text, CONTENT)

    def test_going_on_over_the_loss_is_asked_for(self):
        harness.need_sandbox(self.place)
        for name in ("gone", "cut to 0", "a flipped bit at 520", "swapped, of the same time"):
            with self.subTest(name):
                self.damages()[name][0]()
                done = self.place.ok("start", "--allow-loss", "-o", "json").json()
                self.assertEqual((done["branch"], done["lost_snapshot"]), ("D", self.head))
                self.assertEqual(self.place.run("exec", "--", "test", "-e", "f").code, 1)
                self.place.ok("rm", "--purge", "--yes")
                self.undo()
                self.place.ok("snapshot", "import", self.object)
                os.unlink(self.object)
                self.before = self.slot_now()
                self.head = self.before[0]["snapshot"]["id"]
                self.object = os.path.join(self.store, self.head + ".tar")

    def test_a_save_finds_the_damage_and_heals_it(self):
        harness.need_sandbox(self.place)
        self.place.ok("start")
        for name in ("gone", "cut to 1536", "cut to 0", "a flipped bit at 520", "swapped", "swapped, of the same time"):
            for command in (["snapshot"], ["rm"]) if "bit" in name or "same time" in name else (
                    ["snapshot"], ["run", "--", "true"], ["stop"], ["rm"]):
                with self.subTest(name, command=command):
                    self.place.ok("start")
                    self.damages()[name][0]()
                    self.place.ok(*command)
                    after = self.slot_now()[0]["snapshot"]
                    self.assertNotEqual(after["id"], self.head)
                    self.place.ok("snapshot", "check", "latest", "--read-data")
                    self.assertEqual(self.place.ok("snapshot", "cat", "latest", "f").text, CONTENT)
                    self.head = after["id"]
                    self.object = os.path.join(self.store, self.head + ".tar")
                    os.unlink(self.kept)
                    shutil.copy2(self.object, self.kept)
        self.place.ok("run", "--", "true")
        self.assertEqual(self.slot_now()[0]["snapshot"]["id"], self.head, "an unchanged workspace makes nothing new")


class TwoPartTest(BadInputTest):
    snapshot_format = "tar"
    with_sandbox = True

    def test_the_second_object_counts_as_much(self):
        self.place.ok("run", "--release", "destroy", "--", "sh", "-c", "echo home > ~/h")
        head = self.slot_now()[0]["snapshot"]["id"]
        path = os.path.join(self.place.program_state("snapshots"), head + ".roots.tar")
        kept = self.place.path("kept")
        shutil.copy2(path, kept)
        for name, damage, code in (("gone", lambda: os.unlink(path), 4), ("cut", lambda: os.truncate(path, 512), 8),
                                   ("altered", lambda: rewritten(path, flip(520)), 8)):
            with self.subTest(name):
                damage()
                done = self.place.run("start")
                check = self.place.run("snapshot", "check", "latest", "--read-data")
                if os.path.exists(path):
                    os.unlink(path)
                shutil.copy2(kept, path)
                self.assertEqual((done.code, check.code), (code, 8), done)
                self.assertEqual([n for n in os.listdir(self.place.program_state("sandboxes")) if n != ".lock"], [])
        self.assertEqual(self.place.ok("run", "--", "sh", "-c", "cat f ~/h").text, CONTENT + "home\n")


class DamagedSandboxTest(BadInputTest):
    with_sandbox = True

    def setUp(self):
        super().setUp()
        [sandbox] = [n for n in os.listdir(self.place.program_state("sandboxes")) if n.startswith("sb-")]
        self.folder = self.place.program_state("sandboxes", sandbox)
        self.place.ok("exec", "--", "sh", "-c", "echo unsaved > g")

    def damaged(self, name, rows):
        path = os.path.join(self.folder, name)
        with open(path, "rb") as file:
            good = file.read()
        for data in [good[:len(good) // 2], b"", b"{}", b"[]", b"\xff", *rows(good)]:
            with self.subTest(name, data=data[:20]):
                with open(path, "wb") as file:
                    file.write(data)
                yield
        with open(path, "wb") as file:
            file.write(good)

    def test_what_a_sandbox_is(self):
        for _ in self.damaged("meta.json", lambda good: [good.replace(b'"ready"', b'"redy"'), good.replace(b"true", b"1")]):
            self.refused(["start"], 9, twice=False)
            for argv in (["stop"], ["rm"], ["snapshot"], ["exec", "--", "true"]):
                self.refused(argv, 8, "meta.json", hint="restores the last snapshot", twice=False)
        self.assertEqual(self.place.ok("run", "--", "cat", "f", "g").text, CONTENT + "unsaved\n")

    def test_who_runs_it(self):
        """Unknown, so it is ended, and a new one goes on round the same tree."""
        for _ in self.damaged("run.json", lambda good: [good.replace(b'"cgroups"', b'"cgrops"'), b'{"pid":1,"start_time":1}']):
            self.assertEqual(self.place.ok("start", "-o", "json").json()["branch"], "A")
            self.assertEqual(self.place.ok("exec", "--", "cat", "f", "g").text, CONTENT + "unsaved\n")


class SqliteObjectTest(BadInputTest):
    snapshot_format = "tar"

    def test_damaged_parts(self):
        file = self.place.path("objects.db")
        at = ("--set", "snapshots.store=sqlite:" + file)
        with open(self.place.path("big"), "wb") as out:
            out.write(os.urandom(3 << 20))
        self.place.call(["tar", "-cf", "big.tar", "big"])
        self.place.ok("snapshot", "import", "big.tar", "session/big", *at)
        head = self.place.ok("show", "session/big", "-o", "json", *at).json()["snapshot"]["id"]
        damages = {"a part gone": "DELETE FROM ascope_blob_parts WHERE part=1",
                   "a part cut": "UPDATE ascope_blob_parts SET bytes=substr(bytes,1,1000) WHERE part=1",
                   "a part emptied": "UPDATE ascope_blob_parts SET bytes=x'' WHERE part=2",
                   "a part altered": "UPDATE ascope_blob_parts SET bytes=zeroblob(length(bytes)) WHERE part=1",
                   "parts swapped": "UPDATE ascope_blob_parts SET part=CASE part WHEN 0 THEN -1 WHEN 1 THEN 0 ELSE part END",
                   "no parts": "DELETE FROM ascope_blob_parts", "another size": "UPDATE ascope_blobs SET size=size-512",
                   "gone": "DELETE FROM ascope_blobs"}
        with open(file, "rb") as source:
            good = source.read()
        for name, text in damages.items():
            with self.subTest(name):
                database = sqlite3.connect(file)
                database.execute(text)
                database.commit()
                database.close()
                code = 4 if name == "gone" else 8
                for argv in (["snapshot", "cat", "session/big@latest", "big"], ["snapshot", "export", "session/big@latest", "-"],
                             ["restore", "session/big@latest", "--to", self.place.path("to")]):
                    done = self.place.run(*argv, *at)
                    self.assertEqual((done.code, done.out), (code, b""), done)
                    self.assertIn(head, done.errors)
                self.assertFalse(os.path.exists(self.place.path("to")))
                for suffix in ("", "-wal", "-shm"):
                    if os.path.exists(file + suffix):
                        os.unlink(file + suffix)
                with open(file, "wb") as out:
                    out.write(good)
        self.place.ok("snapshot", "check", "session/big@latest", "--read-data", *at)
        for name, data in (("cut", good[:5000]), ("garbage", b"no database" * 1000), ("a byte of its header", b"X" + good[1:]),
                           ("its first page", b"\0" * 4096 + good[4096:])):
            with self.subTest(name):
                with open(file, "wb") as out:
                    out.write(data)
                done = self.place.run("snapshot", "cat", "session/big@latest", "big", *at)
                self.assertIn(done.code, (8, 10), done)
                self.assertIn("objects.db", done.errors)
                self.assertEqual(done.out, b"")
                with open(file, "rb") as source:
                    self.assertEqual(source.read(), data)
        self.unchanged("objects of another store")


if __name__ == "__main__":
    unittest.main()
