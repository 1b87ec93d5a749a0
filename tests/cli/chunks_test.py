# SPDX-License-Identifier: Apache-2.0
"""Snapshots of format chunks through the program: what is read, what is written, keys, forks, damage, kills."""
import hashlib
import os
import random
import signal
import struct
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402

SLOT = "session/s1"

# Writes through a shared mapping: each line on stdin changes the first byte. The second change comes to a page that
# is dirty already, so the file's times do not tell.
MAPPER = """import mmap, sys
with open("mapped", "w+b") as file:
    file.write(b"0" * 8192); file.flush()
    pages = mmap.mmap(file.fileno(), 8192)
for line in sys.stdin:
    pages[0:1] = line[0:1].encode()
    print("done", flush=True)
"""


class ChunksTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)

    def sh(self, script):
        return self.place.ok("exec", SLOT, "--", "sh", "-c", script)

    def snapshot(self, *args):
        return self.place.ok("snapshot", SLOT, *args, "-o", "json").json()

    def objects(self, kind=""):
        found = set()
        top = self.place.program_state("snapshots")
        for folder, _, files in os.walk(top):
            found.update(os.path.relpath(os.path.join(folder, name), top) for name in files)
        return {name for name in found if name.startswith(kind)}

    def stored(self):
        return sum(os.path.getsize(self.place.program_state("snapshots", name)) for name in self.objects())

    def settle(self):
        """Until the clock has left the grain of file times, so that files count as not just touched."""
        self.sh("sleep 0.3")


class CostTest(ChunksTest):
    def test_a_save_reads_and_writes_what_changed(self):
        self.place.ok("run", SLOT, "--", "sh", "-c",
                      "mkdir d; for i in $(seq 50); do head -c 20000 /dev/urandom > d/$i; done; "
                      "head -c 4000000 /dev/urandom > big")
        self.settle()
        first = self.snapshot()
        self.assertFalse(first["changed"])
        before = self.objects()
        again = self.snapshot()
        self.assertEqual((again["changed"], again["saved"]), (False, {"read_bytes": 0, "stored_bytes": 0}))
        self.assertEqual(self.objects(), before)

        self.sh("echo changed > d/7")
        changed = self.snapshot()
        self.assertTrue(changed["changed"])
        self.assertEqual(changed["saved"]["read_bytes"], 8)
        self.assertLess(changed["saved"]["stored_bytes"], 20000)

        self.settle()
        self.sh("printf X | dd of=big bs=1 seek=2000000 conv=notrunc 2>/dev/null")
        one_byte = self.snapshot()["saved"]
        self.assertIn(one_byte["read_bytes"], (4000000, 4000008))  # d/7, if that save came right after it
        self.assertLess(one_byte["stored_bytes"], 1200000)

    def test_under_another_rule_on_credentials_all_files_are_looked_at(self):
        rule = ["--set", "snapshots.credentials=ignore"]
        self.place.ok("run", SLOT, *rule, "--", "sh", "-c", "echo TOKEN=x > .env; echo 1 > f")
        self.settle()
        self.place.ok("snapshot", SLOT, *rule)
        self.sh("echo 2 > f")
        self.assertIn(".env", {note["path"] for note in self.snapshot()["notes"]})

    def test_what_is_to_be_noted_of_a_file_is_noted_by_each_save(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "echo TOKEN=x > .env; for i in 1 2 3; do echo $i > f$i; done")
        if os.geteuid() == 0:
            [tree] = [folder for folder, _, files in os.walk(self.place.program_state("sandboxes")) if "f1" in files]
            # An access control list of version 2: user::rw- user:1:r-- group::r-- mask::r-- other::---
            entries = [(1, 6, -1), (2, 4, 1), (4, 4, -1), (16, 4, -1), (32, 0, -1)]
            os.setxattr(os.path.join(tree, "f1"), "system.posix_acl_access", struct.pack("<I", 2) + b"".join(
                struct.pack("<HHi", *entry) for entry in entries))
        self.settle()
        wanted = {".env"} | ({"f1"} if os.geteuid() == 0 else set())
        for number in range(3):
            self.sh(f"echo changed {number} > f3")
            self.settle()
            saved = self.snapshot()
            self.assertTrue(saved["changed"])
            self.assertEqual({note["path"] for note in saved["notes"]}, wanted, f"save {number}")
        self.assertEqual(self.snapshot()["saved"]["stored_bytes"], 0)
        self.place.ok("restore", SLOT + "@latest~1", "--yes")
        self.sh("echo once more > f3")
        self.assertIn(".env", {note["path"] for note in self.snapshot()["notes"]})

    def test_after_a_restore_nothing_is_read(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "head -c 3000000 /dev/urandom > big; echo x > small")
        self.settle()
        self.sh("echo y > small")
        self.snapshot()
        self.place.ok("restore", SLOT + "@latest~1", "--yes")
        self.assertEqual(self.sh("cat small").text, "x\n")
        saved = self.snapshot()
        self.assertFalse(saved["changed"])
        self.assertLess(saved["saved"]["read_bytes"], 10)
        self.place.ok("rm", SLOT)
        self.place.ok("start", SLOT)
        self.assertFalse(self.snapshot()["changed"])

    def test_other_slots_share_what_is_equal(self):
        content = random.Random(3).randbytes(3000000)
        self.place.write("seed", content)
        for slot in ("session/one", "session/two"):
            self.place.ok("start", slot)
            self.place.ok("cp", self.place.path("seed"), slot + ":/workspace/seed")
            self.place.ok("snapshot", slot)
        self.assertLess(self.stored(), 3300000)
        self.place.ok("rm", "session/one", "--purge", "--yes")
        self.place.ok("rm", "session/two")
        self.place.ok("start", "session/two", "--expect", "C")
        self.assertEqual(self.place.ok("exec", "session/two", "--", "cat", "seed").out, content)

    def test_what_a_process_has_mapped_is_read_each_time(self):
        self.place.ok("start", SLOT)
        child = self.place.popen("exec", "-i", SLOT, "--", "python3", "-c", MAPPER, stdin=-1)

        def change(letter):
            child.stdin.write(letter.encode() + b"\n")
            child.stdin.flush()
            self.assertEqual(child.stdout.readline(), b"done\n")

        change("a")
        self.settle()
        self.assertTrue(self.snapshot()["changed"])
        change("b")
        self.assertTrue(self.snapshot()["changed"], "a change through a mapping was not seen")
        self.assertEqual(self.place.ok("snapshot", "cat", SLOT + "@latest", "mapped").out[:1], b"b")
        change("c")
        child.stdin.close()
        self.assertEqual(child.wait(60), 0)
        self.assertTrue(self.snapshot()["changed"], "a change before the mapping's end was not seen")
        self.assertEqual(self.place.ok("snapshot", "cat", SLOT + "@latest", "mapped").out[:1], b"c")

    def test_without_its_cache_folder_it_only_reads_more(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "head -c 100000 /dev/urandom > f")
        self.settle()
        self.snapshot()
        for folder, _, files in os.walk(os.path.join(self.place.cache, "ascope-sandbox")):
            for name in files:
                with open(os.path.join(folder, name), "r+b") as file:
                    file.write(b"\xff" * 64)
        saved = self.snapshot()
        self.assertFalse(saved["changed"])
        self.assertEqual(saved["saved"]["read_bytes"] >= 100000, True)


class FormatTest(ChunksTest):
    def test_a_history_of_both_formats(self):
        self.place.ok("run", SLOT, "--set", "snapshots.format=tar", "--", "sh", "-c", "echo one > f")
        self.place.ok("run", SLOT, "--", "sh", "-c", "echo two > f")
        self.place.ok("run", SLOT, "--set", "snapshots.format=tar", "--", "sh", "-c", "echo three > f")
        rows = self.place.ok("snapshot", "ls", SLOT, "-o", "json").json()["snapshots"]
        self.assertEqual([row["format"] for row in rows], ["tar", "chunks", "tar"])
        for number, text in (("~2", "one"), ("~1", "two"), ("", "three")):
            self.assertEqual(self.place.ok("snapshot", "cat", f"{SLOT}@latest{number}", "f").text, text + "\n")
        self.place.ok("restore", f"{SLOT}@{rows[1]['snapshot']}", "--yes")
        self.assertEqual(self.sh("cat f").text, "two\n")
        self.place.ok("restore", f"{SLOT}@{rows[2]['snapshot']}", "--yes")
        self.assertEqual(self.sh("cat f").text, "one\n")
        self.place.ok("snapshot", "check", "--all", "--read-data")

    def test_single_paths_come_back(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "mkdir -p a/b c; echo 1 > a/b/f; echo 2 > a/g; echo 3 > c/h")
        self.sh("echo x > a/b/f; rm a/g; echo x > c/h")
        self.place.ok("restore", SLOT + "@latest", "a/b", "a/g", "--yes")
        self.assertEqual(self.sh("cat a/b/f a/g c/h").text, "1\n2\nx\n")
        done = self.place.run("restore", SLOT + "@latest", "no/such", "--yes", "-o", "json")
        self.assertEqual((done.code, done.error()["kind"]), (4, "not_found"), done)

    def test_what_lies_outside_of_the_workspace(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "echo mine > ~/note; echo w > w")
        self.place.ok("rm", SLOT)
        self.place.ok("start", SLOT, "--expect", "C")
        self.assertEqual(self.sh("cat ~/note w").text, "mine\nw\n")


class KeyTest(ChunksTest):
    KEY = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff"

    def keyed(self, *args, key=KEY):
        return self.place.run("--set", "snapshots.key=env:STORE_KEY", *args, env={"STORE_KEY": key})

    def test_a_store_tells_nothing_without_its_key(self):
        self.check(self.keyed("run", SLOT, "--", "sh", "-c", "echo tell-tale-content > tell-tale-name"))
        top = self.place.program_state("snapshots")
        for name in self.objects():
            with open(os.path.join(top, name), "rb") as file:
                data = file.read()
            self.assertFalse(b"tell-tale" in data or b"tell-tale" in name.encode() or b"session/s1" in data, name)
        self.check(self.keyed("rm", SLOT))
        for done in (self.keyed("start", SLOT, "-o", "json", key="ff" * 32),
                     self.place.run("start", SLOT, "-o", "json"),
                     self.keyed("snapshot", "cat", SLOT + "@latest", "tell-tale-name", "-o", "json", key="11" * 32)):
            self.assertEqual((done.code, done.error()["kind"]), (11, "denied"), done)
            self.assertIn("key", done.error()["message"])
        self.check(self.keyed("start", SLOT, "--expect", "C"))
        self.assertEqual(self.keyed("exec", SLOT, "--", "cat", "tell-tale-name").text, "tell-tale-content\n")
        self.check(self.keyed("snapshot", "check", "--all", "--read-data"))

    def test_a_key_that_is_none_is_refused_and_not_repeated(self):
        done = self.keyed("run", SLOT, "--", "true", key="no-key-at-all")
        self.check(done, 125)
        self.assertNotIn("no-key-at-all", done.errors)
        done = self.place.run("--set", "snapshots.key=" + self.KEY, "ls")
        self.check(done, 2)
        self.assertNotIn(self.KEY, done.errors)
        self.check(self.place.run("--set", "snapshots.key=env:X", "--set", "snapshots.format=tar", "ls"), 2)


class DamageTest(ChunksTest):
    def test_a_lost_or_damaged_pack_is_named_and_nothing_wrong_is_given(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "head -c 200000 /dev/urandom > f; sha256sum f > sum")
        digest = self.sh("cat sum").text.split()[0]
        self.place.ok("rm", SLOT)
        [pack] = self.objects("packs/")
        path = self.place.program_state("snapshots", pack)
        with open(path, "rb") as file:
            whole = file.read()
        middle = bytearray(whole)
        middle[len(whole) // 3] ^= 1
        for what, data in (("flipped", bytes(middle)), ("cut", whole[:-7]), ("empty", b""), ("gone", None)):
            with self.subTest(what):
                os.unlink(path)
                if data is not None:
                    with open(path, "wb") as file:
                        file.write(data)
                done = self.place.run("snapshot", "check", "--all", "--read-data", "-o", "json")
                self.check(done, 8)
                self.assertIn(pack, done.error()["message"])
                done = self.place.run("snapshot", "cat", SLOT + "@latest", "f")
                if what == "cut":  # only the index at its end: what the manifest names is there and right
                    self.assertEqual((done.code, hashlib.sha256(done.out).hexdigest()), (0, digest))
                else:
                    self.assertIn(done.code, (4, 8), done)
                    self.assertIn(pack, done.errors)
                done = self.place.run("start", SLOT, "-o", "json")
                self.assertIn(done.code, (4, 8), done)
                with open(path, "wb") as file:
                    file.write(whole)
                self.place.ok("start", SLOT)
                self.sh("sha256sum -c sum")
                self.place.ok("rm", SLOT)


class HealTest(ChunksTest):
    def test_the_last_copy_is_not_given_up_for_a_snapshot_that_is_damaged(self):
        for what in ("flipped", "gone"):
            with self.subTest(what):
                slot = "session/" + what
                self.place.ok("run", slot, "--", "sh", "-c", "head -c 300000 /dev/urandom > f; sha256sum f > sum")
                before = self.objects("packs/")
                [pack] = before - getattr(self, "seen", set())
                path = self.place.program_state("snapshots", pack)
                with open(path, "rb") as file:
                    data = bytearray(file.read())
                os.unlink(path)
                if what == "flipped":
                    data[len(data) // 3] ^= 1
                    with open(path, "wb") as file:
                        file.write(data)
                self.check(self.place.run("snapshot", "check", "--read-data", slot + "@latest"), 8)
                receipt = self.place.ok("rm", slot, "-o", "json").json()
                self.assertTrue(any(pack in note["what"] for note in receipt["notes"]), receipt["notes"])
                self.place.ok("snapshot", "check", "--read-data", slot + "@latest")
                self.place.ok("start", slot, "--expect", "C")
                self.place.ok("exec", slot, "--", "sha256sum", "-c", "sum")
                self.seen = self.objects("packs/")


class RepairTest(ChunksTest):
    def test_a_store_that_lost_what_it_hangs_on_is_mended(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "echo kept > f")
        self.place.ok("snapshot", SLOT)
        self.place.ok("rm", SLOT)
        whole = self.place.program_state("snapshots", "repo")
        for name, harm in (("repo", "removed"), ("repo", "cut"), ("repo.copy", "removed"), ("repo.copy", "cut")):
            with self.subTest(object=name, harm=harm):
                with open(whole, "rb") as file:
                    before = file.read()
                path = self.place.program_state("snapshots", name)
                os.remove(path)
                if harm == "cut":
                    with open(path, "wb") as file:
                        file.write(before[:20])
                found = self.place.run("snapshot", "check", SLOT + "@latest")
                self.check(found, 8)
                self.assertIn(name, found.errors)
                self.assertIn("snapshot repair", found.errors)
                if name == "repo":
                    started = self.place.run("start", SLOT)
                    self.check(started, 8)
                    self.assertIn("snapshot repair", started.errors)
                dry = self.place.ok("snapshot", "repair", SLOT, "--dry-run", "-o", "json").json()
                self.assertEqual([one["object"] for one in dry["store"]], [name])
                self.check(self.place.run("snapshot", "check", SLOT + "@latest"), 8)
                self.assertEqual(self.place.ok("snapshot", "repair", SLOT, "--yes").text, f"{name}  put back\n")
                self.place.ok("snapshot", "check", SLOT + "@latest", "--read-data")
                with open(path, "rb") as file:
                    self.assertEqual(file.read(), before)
        self.place.ok("start", SLOT, "--expect", "C")
        self.assertEqual(self.place.ok("exec", SLOT, "--", "cat", "f").text, "kept\n")

    def test_what_is_lost_is_named_and_the_rest_comes_back(self):
        self.place.ok("run", SLOT, "--tag", "one", "--", "sh", "-c", "mkdir d; for n in 1 2 3; do head -c 400000 "
                      "/dev/urandom > d/$n; done; sha256sum d/* > sums")
        first = self.objects("packs/")
        self.place.ok("run", SLOT, "--", "sh", "-c", "head -c 400000 /dev/urandom > later; sha256sum later > sum")
        [second] = self.objects("packs/") - first
        self.assertEqual(self.place.ok("snapshot", "repair", SLOT, "--yes").text, "Nothing is damaged.\n")
        self.place.ok("rm", SLOT)
        path = self.place.program_state("snapshots", second)
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 3)
            file.write(b"\xa5" * 64)
        dry = self.place.run("snapshot", "repair", SLOT, "--dry-run", "-o", "json")
        self.check(dry, 3)
        before = self.objects()
        self.check(self.place.run("snapshot", "repair", SLOT), 2)  # nobody can be asked
        self.assertEqual(self.objects(), before)
        done = self.place.run("snapshot", "repair", SLOT, "--yes", "-o", "json")
        self.check(done, 3)
        [row] = done.json()["snapshots"]
        self.assertTrue(row["repaired_as"] and not row["all_lost"], row)
        self.assertIn(second, [problem["object"] for problem in row["problems"]])
        self.assertIn("later", str(row["lost"]))
        self.place.ok("snapshot", "check", "--all", "--read-data")
        self.assertEqual(self.place.ok("start", SLOT, "--expect", "C", "-o", "json").json()["restored"], row["repaired_as"])
        self.sh("sha256sum -c sums; test ! -e later")
        rows = self.place.ok("snapshot", "ls", SLOT, "-o", "json").json()["snapshots"]
        self.assertEqual([one["tags"] for one in rows], [[], ["one"]])
        self.assertTrue(rows[0]["notes"])

    def test_a_part_of_the_packs_is_read(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "head -c 300000 /dev/urandom > f")
        self.place.ok("snapshot", "check", SLOT + "@latest", "--read-data-subset", "5%")
        [pack] = self.objects("packs/")
        path = self.place.program_state("snapshots", pack)
        with open(path, "r+b") as file:
            file.seek(100000)
            file.write(b"\xa5" * 64)
        self.place.ok("snapshot", "check", SLOT + "@latest")
        done = self.place.run("snapshot", "check", SLOT + "@latest", "--read-data-subset", "100%", "-o", "json")
        self.check(done, 8)
        self.assertIn(pack, done.error()["message"])
        for bad in ("0%", "5", "101%", "x%", "-1%"):
            self.check(self.place.run("snapshot", "check", SLOT + "@latest", "--read-data-subset=" + bad), 2)

    def test_stats(self):
        for slot in (SLOT, "session/s2"):
            self.place.ok("run", slot, "--", "sh", "-c", "yes same | head -c 500000 > f; head -c 100000 /dev/urandom > g")
        one = self.place.ok("snapshot", "stats", SLOT, "-o", "json").json()["chunks"]
        every = self.place.ok("snapshot", "stats", "--all", "-o", "json").json()
        self.assertEqual([row["slot"] for row in sorted(every["slots"], key=lambda row: row["slot"])], [SLOT, "session/s2"])
        self.assertGreaterEqual(one["logical_bytes"], 600000)
        self.assertEqual(every["content"]["logical_bytes"], sum(row["logical_bytes"] for row in every["slots"]))
        self.assertLess(every["content"]["unique_bytes"], sum(row["unique_bytes"] for row in every["slots"]))
        self.assertLessEqual(every["content"]["stored_bytes"], every["pack_bytes"])


class KilledTest(ChunksTest):
    def test_what_a_killed_save_left_is_used_or_removed(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "echo one > f")
        self.sh("head -c 500000 /dev/urandom > g")
        done = self.place.run("snapshot", SLOT, env={"ASCOPE_TEST_FAULT": "kill:after-objects"})
        self.assertEqual(done.code, -signal.SIGKILL)
        self.assertEqual(len(self.objects("snapshots/")), 2)
        packs = self.objects("packs/")
        self.place.ok("snapshot", SLOT)
        self.assertLess(len(self.objects("packs/") - packs), 2)
        self.place.ok("gc", "--yes")
        self.assertEqual(len(self.objects("snapshots/")), 2)
        self.place.ok("snapshot", "check", "--all", "--read-data")
        self.place.ok("rm", SLOT)
        self.place.ok("start", SLOT)
        self.assertEqual(len(self.sh("cat g").out), 500000)


if __name__ == "__main__":
    sys.exit(unittest.main())
