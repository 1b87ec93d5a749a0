# SPDX-License-Identifier: Apache-2.0
"""A workspace of everything odd goes through a snapshot of either format, the loss of its sandbox, and comes back
equal: content, types, modes, owners, times to the nanosecond, links, holes, extended attributes. What cannot come
back is named."""
import hashlib
import os
import stat
import sys
import unittest

import harness

SLOT = "session/odd"

# Run by python3 inside, so that what is made is what an agent could make. `argv`: bytes of the sparse file.
MAKE = r"""
import os, socket, sys
os.umask(0)
def file(name, content=b"", mode=0o644):
    with open(name, "wb") as out: out.write(content)
    os.chmod(name, mode)
for name in (b"plain", b"new\nline", b"tab\t", b"\xff\xfe not utf-8", b"-rf", b" lead", b"trail ", b"quote'\"`$(x)", b"*?[a]",
             b"\xc3\xa9", b"e\xcc\x81", b"a" * 255, b"CON", b"...", b".hidden"):
    file(name, name)
os.mkdir("empty"); os.mkdir("closed", 0o700); file("closed/in", b"x"); os.chmod("closed", 0o500)
os.makedirs("a/b/c"); os.makedirs("z")
file("a/b/c/first", b"linked" * 1000); os.link("a/b/c/first", "z/second"); os.link("a/b/c/first", "third")
for mode in (0o000, 0o111, 0o222, 0o444, 0o600, 0o755, 0o777, 0o1644):
    file("mode%04o" % mode, b"m", mode)
os.symlink("nowhere", "dangling"); os.symlink("loop2", "loop1"); os.symlink("loop1", "loop2"); os.symlink(".", "self")
os.symlink(b"\xff\n", "odd-target"); os.symlink("/etc/passwd", "absolute"); os.symlink("x" * 4000, "long-target")
os.mkfifo("fifo", 0o640)
with open("sparse", "wb") as out:
    out.truncate(int(sys.argv[1])); out.seek(1 << 20); out.write(b"island"); out.seek(int(sys.argv[1]) - 5); out.write(b"shore")
with open("hole-only", "wb") as out: out.truncate(1 << 22)
with open("zeros", "wb") as out: out.write(b"\0" * 300000)
deep = os.open(".", os.O_RDONLY)
for level in range(18):
    os.mkdir("d" * 200, 0o755, dir_fd=deep)
    below = os.open("d" * 200, os.O_RDONLY, dir_fd=deep); os.close(deep); deep = below
os.close(os.open("bottom", os.O_CREAT | os.O_WRONLY, 0o600, dir_fd=deep))
try: os.setxattr("plain", "user.note", b"\0\xffvalue"); os.setxattr("a", "user.folder", b"")
except OSError: pass
socket.socket(socket.AF_UNIX).bind("socket")
file("old", b"old"); file("future", b"f"); file("fine", b"n")
os.utime("old", ns=(0, -1234567890123456789)); os.utime("future", ns=(0, 4102444800123456789)); os.utime("fine", ns=(1, 1))
os.utime("empty", ns=(7, 1000000007)); os.utime("dangling", ns=(9, 999999999), follow_symlinks=False)
"""


def look(top):
    """All that a tree is, by the path relative to `top` (a folder of the host), with links' inodes as groups."""
    found, groups = {}, {}
    top = os.fsencode(top)

    def visit(folder, relative):
        for name in sorted(map(os.fsencode, os.listdir(folder))):
            below = (relative + b"/" if relative else b"") + name
            info = os.lstat(name, dir_fd=folder)
            one = {"mode": oct(info.st_mode), "owner": (info.st_uid, info.st_gid), "mtime": info.st_mtime_ns}
            if not stat.S_ISDIR(info.st_mode):
                one["links"] = info.st_nlink
                if info.st_nlink > 1:
                    one["group"] = groups.setdefault(info.st_ino, below)
            if stat.S_ISLNK(info.st_mode):
                one["target"] = os.readlink(name, dir_fd=folder)
            elif stat.S_ISREG(info.st_mode):
                fd = os.open(name, os.O_RDONLY, dir_fd=folder)
                one.update(content(fd, info.st_size))
                one["xattrs"] = {key: os.getxattr(fd, key) for key in os.listxattr(fd)}
                os.close(fd)
            found[below] = one
            if stat.S_ISDIR(info.st_mode):
                inside = os.open(name, os.O_RDONLY | os.O_NOFOLLOW, dir_fd=folder)
                visit(inside, below)
                os.close(inside)

    root = os.open(top, os.O_RDONLY)
    visit(root, b"")
    os.close(root)
    return found


def content(fd, size):
    """Size, digest of the data and of where it lies; holes are not read."""
    digest, at, runs = hashlib.sha256(), 0, 0
    while at < size:
        try:
            at = os.lseek(fd, at, os.SEEK_DATA)
        except OSError:
            break
        end = os.lseek(fd, at, os.SEEK_HOLE)
        runs += 1
        while at < end:
            data = os.pread(fd, min(1 << 20, end - at), at)
            if data.strip(b"\0"):
                digest.update(at.to_bytes(8, "big") + data)
            at += len(data)
    return {"size": size, "data": digest.hexdigest(), "blocks": os.fstat(fd).st_blocks * 512 > size // 2}


class OddTree:
    FORMAT = "chunks"
    ordinary = False

    def setUp(self):
        harness.need_root(self.ordinary)
        super().setUp()
        harness.need_sandbox(self.place)

    def program(self, *args):
        at = args.index("--") if "--" in args else len(args)
        return self.place.ok(*args[:at], "--set", f"snapshots.format={self.FORMAT}", *args[at:], timeout=1800)

    def tree(self):
        [name] = [name for name in os.listdir(self.place.program_state("sandboxes")) if name.startswith("sb-")]
        return look(self.place.program_state("sandboxes", name, "root", "workspace"))

    def test_all_of_it(self):
        size = 10 << 30 if harness.full() else 1 << 30
        self.program("run", SLOT, "--", "python3", "-c", MAKE, str(size))
        before = self.tree()
        self.assertGreater(len(before), 60)
        noted = self.program("snapshot", "show", SLOT + "@latest", "-o", "json").json()["notes"]
        self.assertEqual([(note["path"], note["what"]) for note in noted], [("socket", "socket skipped")])
        del before[b"socket"]
        self.program("rm", SLOT)
        self.assertEqual(self.program("start", SLOT, "-o", "json").json()["branch"], "C")
        self.compare(before, self.tree())
        again = self.program("snapshot", SLOT, "-o", "json").json()
        self.assertFalse(again["changed"], again)
        target = self.place.path("out")
        self.program("restore", SLOT + "@latest", "--to", target)
        unpacked = look(target) if os.geteuid() == 0 else {}
        for path, one in unpacked.items():  # --to leaves the owner to who calls
            self.assertEqual({key: one[key] for key in one if key not in ("owner", "mode")},
                             {key: before[path][key] for key in one if key not in ("owner", "mode")}, path)

    def compare(self, before, after):
        self.assertEqual(sorted(before), sorted(after))
        own = {one["owner"] for one in before.values()}
        moved = {one["owner"] for one in after.values()}
        self.assertEqual((len(own), len(moved)), (1, 1))  # each sandbox of root has a range of ids of its own
        for path, one in before.items():
            one, other = dict(one), dict(after[path])
            del one["owner"], other["owner"]
            self.assertEqual(one, other, path)


class ChunksAsRootTest(OddTree, harness.CliTest):
    pass


class ChunksAsUserTest(OddTree, harness.CliTest):
    ordinary = True


class TarAsRootTest(OddTree, harness.CliTest):
    FORMAT = "tar"


class TarAsUserTest(OddTree, harness.CliTest):
    FORMAT, ordinary = "tar", True


if __name__ == "__main__":
    sys.exit(unittest.main())
