# SPDX-License-Identifier: Apache-2.0
"""snapshot ls, show, cat, find, diff, check, stats, export, import, tag, rm."""
import gzip
import io
import json
import os
import sys
import tarfile
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402

SLOT = "session/s1"


def tar_bytes(members, **options):
    """A tar of (name, content) pairs; a content that is a TarInfo stands for itself."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w", format=options.get("format", tarfile.PAX_FORMAT)) as archive:
        for name, content in members:
            info = content if isinstance(content, tarfile.TarInfo) else tarfile.TarInfo(name)
            if isinstance(content, bytes):
                info.size = len(content)
            archive.addfile(info, io.BytesIO(content) if isinstance(content, bytes) else None)
    return out.getvalue()


def link(name, target, kind):
    info = tarfile.TarInfo(name)
    info.type = kind
    info.linkname = target
    return name, info


class SnapshotTest(harness.CliTest):
    snapshot_format = "tar"

    def object_of(self, snapshot):
        """Where its tar, or its manifest, lies."""
        [name] = [row["object"] for row in self.rows("--all") if row["snapshot"] == snapshot]
        return self.place.program_state("snapshots", name)

    def damage(self, snapshot):
        """One byte is another; size and times stay."""
        path = self.object_of(snapshot)
        info = os.stat(path)
        with open(path, "r+b") as file:
            file.seek(info.st_size // 2)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))
        os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))

    def rows(self, *args):
        return self.place.ok("snapshot", "ls", SLOT, *args, "-o", "json").json()["snapshots"]

    def import_tar(self, data, *args, slot=SLOT):
        return self.place.run("snapshot", "import", "-", slot, *args, stdin=data)

    def saved(self, *contents):
        """Imports one archive a content, oldest first; gives their ids."""
        ids = []
        for content in contents:
            self.check(self.import_tar(tar_bytes([("a.txt", content), ("dir/b.py", b"same")])))
            ids.append(self.rows()[0]["snapshot"])
        return ids

    def refused(self, done, kind, code):
        self.check(done, code)
        error = json.loads(done.err.strip().splitlines()[-1])["error"]
        self.assertEqual((error["kind"], error["exit_code"]), (kind, code), done)
        return error


class ImportTest(SnapshotTest):
    def test_import_makes_a_head_that_can_be_read_in_every_way(self):
        first, second = self.saved(b"one", b"two")
        rows = self.rows()
        self.assertEqual([(row["snapshot"], row["kind"], row["head"], row["parent"]) for row in rows],
                         [(second, "import", True, first), (first, "import", False, None)])
        self.assertEqual(self.place.ok("snapshot", "cat", f"{SLOT}@latest", "a.txt").out, b"two")
        self.assertEqual(self.place.ok("snapshot", "cat", f"{SLOT}@latest~1", "./a.txt").out, b"one")
        self.assertEqual(self.place.ok("snapshot", "cat", f"{SLOT}@{first[:8]}", "/workspace/a.txt").out, b"one")
        self.assertEqual(self.place.ok("snapshot", "find", f"{SLOT}@latest", "*.py", "-o", "name").out, b"dir/b.py\n")
        self.check(self.place.run("snapshot", "find", f"{SLOT}@latest", "*.c"), 1)
        shown = self.place.ok("snapshot", "show", f"{SLOT}@latest", "-o", "json").json()
        self.assertEqual((shown["health"], shown["files"], shown["content_bytes"]), ("usable", 2, 7))
        stats = self.place.ok("snapshot", "stats", SLOT, "-o", "json").json()
        self.assertEqual((stats["snapshots"], stats["content_bytes"]), (2, 14))

    def test_compressed_archives_and_hard_links(self):
        plain = tar_bytes([("f", b"x" * 1000), link("h", "f", tarfile.LNKTYPE)])
        self.check(self.import_tar(gzip.compress(plain), "--tag", "packed"))
        self.assertEqual(self.place.ok("snapshot", "cat", f"{SLOT}@packed", "h").out, b"x" * 1000)

    def test_owners(self):
        """Of another's archive all belongs to the sandbox's user; one of our own comes back as it was."""
        self.check(self.import_tar(tar_bytes([("a", b"x")])))
        foreign = self.place.ok("snapshot", "export", f"{SLOT}@latest", "-").out
        self.assertEqual(self.owners(foreign), {"a": (1000, 1000)})
        info = tarfile.TarInfo("b")
        info.uid, info.gid = 0, 4242
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode="w", format=tarfile.PAX_FORMAT, pax_headers={"comment": "ascope-sandbox"}) as archive:
            archive.addfile(info)
        self.check(self.import_tar(out.getvalue()))
        for name in ("own.tar", "own.tar.gz", "own.tar.zst"):
            with self.subTest(name):
                own = self.place.path(name)
                self.place.ok("snapshot", "export", f"{SLOT}@latest", own)
                self.place.ok("snapshot", "import", own, "session/copy")
                plain = self.place.ok("snapshot", "export", f"{SLOT}@latest", "-").out
                self.assertEqual(self.owners(plain), {"b": (0, 4242)})
                self.assertEqual(self.place.ok("snapshot", "export", "session/copy@latest", "-").out, plain)

    @staticmethod
    def owners(data):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return {os.path.basename(member.name): (member.uid, member.gid) for member in archive if member.name != "."}

    def test_hostile_archives_are_refused_before_anything(self):
        good = tar_bytes([("a", b"x" * 2000)])
        device = tarfile.TarInfo("dev")
        device.type, device.devmajor, device.devminor = tarfile.BLKTYPE, 8, 0
        rows = {
            "absolute": tar_bytes([("/etc/passwd", b"x")]),
            "up": tar_bytes([("../x", b"x")]),
            "through a link": tar_bytes([link("l", "/tmp", tarfile.SYMTYPE), ("l/x", b"x")]),
            "hard link outside": tar_bytes([link("h", "../../etc/passwd", tarfile.LNKTYPE)]),
            "twice": tar_bytes([("a", b"1"), ("a", b"2")]),
            "cut": good[:1024],
            "no end": good[:3072 - 512],
            "gzip cut": gzip.compress(good)[:-6],
            "not a tar": b"hello, this is no archive at all" * 40,
            "empty": b"",
        }
        for name, data in rows.items():
            with self.subTest(name):
                self.refused(self.import_tar(data, "-o", "json"), "corrupt", 8)
        self.check(self.place.run("snapshot", "ls", SLOT), 4)
        self.assertFalse(os.path.exists(self.place.program_state("snapshots")))
        # A device is no attack on an archive that nobody unpacks here; a start leaves it out and says so.
        self.check(self.import_tar(tar_bytes([("dev", device), ("a", b"x")]), "--dry-run"))

    def test_missing_file(self):
        self.check(self.place.run("snapshot", "import", "none.tar", SLOT), 4)

    def test_a_tag_that_cannot_be_one_or_is_taken(self):
        data = tar_bytes([("a", b"x")])
        for tag in ("latest", "latest~1", "live", "a b", "-x", "", "x" * 65):
            with self.subTest(tag):
                self.check(self.import_tar(data, f"--tag={tag}"), 2)
        self.check(self.import_tar(data, "--tag", "v1"))
        self.check(self.import_tar(data, "--tag", "v1"), 6)
        self.assertEqual(len(self.rows()), 1)


class ReadTest(SnapshotTest):
    def test_diff(self):
        first, second = self.saved(b"one", b"two")
        done = self.place.run("snapshot", "diff", f"{SLOT}@{first}", second)
        self.check(done, 1)
        self.assertEqual(done.out, b"M a.txt\n")
        self.check(self.place.run("snapshot", "diff", f"{SLOT}@{first}", first, "-o", "json"))
        self.check(self.place.run("snapshot", "diff", f"{SLOT}@{first}", "live"), 4)  # no sandbox

    def test_cat_of_what_is_no_file(self):
        self.check(self.import_tar(tar_bytes([("d/f", b"x"), link("l", "d/f", tarfile.SYMTYPE)])))
        for path, code in (("none", 4), ("l", 2), ("../x", 2), ("d/f/x", 4)):
            with self.subTest(path):
                done = self.check(self.place.run("snapshot", "cat", f"{SLOT}@latest", path), code)
                self.assertEqual(done.out, b"")

    def test_unknown_slot_and_snapshot(self):
        self.check(self.place.run("snapshot", "ls", "session/none"), 4)
        self.saved(b"one")
        for name in ("nope", "latest~1", "ffffffff"):
            with self.subTest(name):
                self.check(self.place.run("snapshot", "show", f"{SLOT}@{name}"), 4)

    def test_names_are_bytes(self):
        name = b"bad\xff\nname"
        data = tar_bytes([(os.fsdecode(name), b"x")], format=tarfile.GNU_FORMAT)
        self.check(self.import_tar(data))
        done = self.place.ok("snapshot", "find", f"{SLOT}@latest", "bad*", "-o", "name", "-0")
        self.assertEqual(done.out, name + b"\0")
        row = self.place.ok("snapshot", "find", f"{SLOT}@latest", "bad*", "-o", "json").json()["entries"][0]
        self.assertEqual(row["path"], {"base64": "YmFk/wpuYW1l"})
        text = self.place.ok("snapshot", "find", f"{SLOT}@latest", "bad*").out
        self.assertEqual(text.count(b"\n"), 1)
        self.assertEqual(self.place.ok("snapshot", "cat", f"{SLOT}@latest", os.fsdecode(name)).out, b"x")

    def test_a_big_file(self):
        self.saved(b"y" * 3_000_000)
        self.assertEqual(self.place.ok("snapshot", "cat", f"{SLOT}@latest", "a.txt").out, b"y" * 3_000_000)


class ExportTest(SnapshotTest):
    def members(self, data):
        with tarfile.open(fileobj=io.BytesIO(data)) as archive:
            return {member.name: archive.extractfile(member).read() for member in archive if member.isfile()}

    def test_formats(self):
        self.saved(b"one")
        want = {"./a.txt": b"one", "./dir/b.py": b"same"}
        self.assertEqual(self.members(self.place.ok("snapshot", "export", f"{SLOT}@latest", "-").out), want)
        self.place.ok("snapshot", "export", f"{SLOT}@latest", "w.tar")
        self.place.ok("snapshot", "export", f"{SLOT}@latest", "w.tgz")
        self.place.ok("snapshot", "export", f"{SLOT}@latest", "w", "--format", "tar.zst")
        for name in ("w.tar", "w.tgz"):
            with open(self.place.path(name), "rb") as file:
                self.assertEqual(self.members(file.read()), want, name)
        with open(self.place.path("w"), "rb") as file:
            self.assertEqual(file.read(4), b"\x28\xb5\x2f\xfd")
        self.check(self.place.run("snapshot", "import", "w", "session/s2"))
        self.assertEqual(self.place.ok("snapshot", "cat", "session/s2@latest", "a.txt").out, b"one")
        self.check(self.place.run("snapshot", "export", f"{SLOT}@latest", "w.zip"), 2)

    def test_an_existing_file_is_not_replaced(self):
        self.saved(b"one")
        self.place.write("w.tar", "mine")
        self.check(self.place.run("snapshot", "export", f"{SLOT}@latest", "w.tar"), 6)
        with open(self.place.path("w.tar"), encoding="utf-8") as file:
            self.assertEqual(file.read(), "mine")
        self.place.ok("snapshot", "export", f"{SLOT}@latest", "w.tar", "--force")
        self.assertEqual(sorted(os.listdir(self.place.cwd)), ["w.tar"])

    def test_a_damaged_snapshot_leaves_no_file(self):
        [snapshot] = self.saved(b"one")
        self.damage(snapshot)
        self.check(self.place.run("snapshot", "export", f"{SLOT}@latest", "w.tar"), 8)
        self.assertEqual(os.listdir(self.place.cwd), [])


class CheckTest(SnapshotTest):
    def test_bad_ones_are_named(self):
        first, second, third = self.saved(b"one", b"two", b"three")
        self.place.ok("--session", "s1", "--scope", "session", "snapshot", "check", "--read-data")
        self.place.ok("snapshot", "check", f"{SLOT}@latest")
        self.place.ok("snapshot", "check", "--all", "--read-data")
        self.damage(first)
        os.unlink(self.object_of(second))
        done = self.place.run("snapshot", "check", "--all", "--read-data", "-o", "json")
        error = self.refused(done, "corrupt", 8)
        self.assertIn(first, error["message"])
        self.assertIn(second, error["message"])
        self.assertNotIn(third, error["message"])
        health = {row["snapshot"]: row["health"] for row in done.json()["snapshots"]}
        self.assertEqual(health, {first: "corrupt", second: "missing", third: "usable"})
        self.place.ok("snapshot", "check", f"{SLOT}@{third}", "--read-data")

    def test_uncommitted_objects_are_listed_with_all(self):
        [snapshot] = self.saved(b"one")
        with open(self.place.program_state("snapshots", "stray.tar"), "wb") as file:
            file.write(b"x")
        self.assertEqual([row["snapshot"] for row in self.rows()], [snapshot])
        rows = self.rows("--all")
        self.assertEqual([(row["snapshot"], row["committed"]) for row in rows], [(snapshot, True), ("stray", False)])


class TagTest(SnapshotTest):
    def test_tags(self):
        first, second = self.saved(b"one", b"two")
        self.place.ok("snapshot", "tag", f"{SLOT}@{first}", "v1")
        self.place.ok("snapshot", "tag", f"{SLOT}@v1", "v1")  # a repeat is harmless
        self.assertEqual(self.rows()[1]["tags"], ["v1"])
        self.assertEqual(self.place.ok("snapshot", "cat", f"{SLOT}@v1", "a.txt").out, b"one")
        self.refused(self.place.run("snapshot", "tag", f"{SLOT}@{second}", "v1", "-o", "json"), "conflict", 6)
        self.check(self.place.run("snapshot", "tag", f"{SLOT}@{second}", "v1", "--delete"), 4)
        self.place.ok("snapshot", "tag", f"{SLOT}@{first}", "v1", "--delete")
        self.check(self.place.run("snapshot", "show", f"{SLOT}@v1"), 4)


class RmTest(SnapshotTest):
    def test_rm(self):
        first, second, third = self.saved(b"one", b"two", b"three")
        self.check(self.place.run("snapshot", "rm", f"{SLOT}@{first}"), 2)  # nobody can be asked
        self.refused(self.place.run("snapshot", "rm", f"{SLOT}@{third}", "--yes", "-o", "json"), "refused", 7)
        self.place.ok("snapshot", "rm", f"{SLOT}@{first}", "--dry-run")
        self.assertEqual(len(self.rows()), 3)
        self.place.ok("snapshot", "rm", f"{SLOT}@{first}", f"{SLOT}@{second}", "--yes")
        self.assertEqual([row["snapshot"] for row in self.rows()], [third])
        self.assertEqual([row["snapshot"] for row in self.rows("--all")], [third])
        self.check(self.place.run("snapshot", "rm", f"{SLOT}@{first}", "--yes"), 4)

    def test_what_a_fork_names_stays(self):
        first, _ = self.saved(b"one", b"two")
        path = self.object_of(first)
        self.place.ok("restore", f"{SLOT}@{first}", "--into", "session/fork")
        self.place.ok("snapshot", "rm", f"{SLOT}@{first}", "--yes")
        self.assertTrue(os.path.exists(path))
        self.assertEqual(self.place.ok("snapshot", "cat", "session/fork@latest", "a.txt").out, b"one")


class LiveTest(SnapshotTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)

    def test_import_is_what_the_next_start_restores_and_live_is_compared_with_it(self):
        self.saved(b"one")
        done = self.place.run("run", SLOT, "--", "sh", "-c", "cat a.txt; printf new > n; ln -s a.txt l")
        self.check(done)
        self.assertEqual(done.out, b"one")
        self.check(self.place.run("snapshot", "diff", f"{SLOT}@latest", "live"))
        self.place.ok("exec", SLOT, "--", "sh", "-c", "printf more >> n; rm l")
        done = self.place.run("snapshot", "diff", f"{SLOT}@latest")
        self.check(done, 1)
        self.assertEqual(done.out, b"D l\nM n\n")
        self.assertEqual(self.place.ok("snapshot", "cat", f"{SLOT}@live", "n").out, b"newmore")
        self.assertEqual(self.place.ok("snapshot", "find", f"{SLOT}@live", "n", "-o", "name").out, b"n\n")
        # Unsaved work is never run over.
        data = tar_bytes([("a.txt", b"imported")])
        self.refused(self.import_tar(data, "-o", "json"), "refused", 7)
        self.place.ok("snapshot", SLOT)
        self.check(self.import_tar(data))
        done = self.place.run("run", SLOT, "--", "sh", "-c", "cat a.txt; ls")
        self.check(done)
        self.assertEqual(done.out, b"importeda.txt\n")


class RestoredTest(harness.CliTest):
    def test_what_was_restored_is_no_change(self):
        harness.need_sandbox(self.place)
        self.place.ok("start")
        self.place.ok("exec", "--", "sh", "-c", "mkdir -p a/b && echo good > f && echo x > a/b/c && echo y > ~/kept")
        first = self.place.ok("snapshot", "-o", "json").json()["snapshot"]
        self.place.ok("exec", "--", "sh", "-c", "echo bad > f")
        self.place.ok("restore", first, "--yes")
        again = self.place.ok("snapshot", "-o", "json").json()
        self.assertFalse(again["changed"])
        self.assertEqual(again["snapshot"], first)
        self.place.ok("rm")
        self.place.ok("start", "--expect", "C")
        anew = self.place.ok("snapshot", "-o", "json").json()
        self.assertFalse(anew["changed"])
        self.assertEqual(anew["snapshot"], first)


def in_chunks(tests):
    """The same tests over format chunks."""
    return {name + "InChunks": type(name + "InChunks", (test,), {"snapshot_format": "chunks"}) for name, test in tests.items()
            if isinstance(test, type) and issubclass(test, SnapshotTest) and test is not SnapshotTest}


globals().update(in_chunks(dict(globals())))

if __name__ == "__main__":
    unittest.main()
