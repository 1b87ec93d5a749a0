# SPDX-License-Identifier: Apache-2.0
"""Archives that are cut, altered, hostile or none: code 8 by `snapshot import`, `cp` and `adopt` before anything is
written, and neither the slot nor the store is other than before."""
import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tarfile
import time
import unittest
import zlib

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from bad_input import BadInputTest  # noqa: E402

END = b"\0" * 1024


def header(name, size=0, kind=b"0", link="", mode=b"0000644", **raw):
    """A ustar header; `raw` puts bytes into a field: size_raw, mtime_raw, magic_raw."""
    info = tarfile.TarInfo("x")
    block = bytearray(info.tobuf(tarfile.USTAR_FORMAT))
    name = name if isinstance(name, bytes) else name.encode()
    block[0:100] = name[:100].ljust(100, b"\0")
    block[100:108] = mode + b"\0"
    block[124:136] = raw.get("size_raw", b"%011o\0" % size)
    block[136:148] = raw.get("mtime_raw", b"%011o\0" % 0)
    block[156:157] = kind
    block[157:257] = link.encode().ljust(100, b"\0")
    block[257:265] = raw.get("magic_raw", b"ustar\x0000")
    block[148:156] = b" " * 8
    block[148:156] = b"%06o\0 " % sum(block)
    return bytes(block)


def padded(data):
    return data + b"\0" * (-len(data) % 512)


def entry(name, data=b"x", **more):
    return header(name, len(data), **more) + padded(data)


def pax(records, then=b""):
    data = records if isinstance(records, bytes) else b"".join(pax_record(*record) for record in records)
    return entry("PaxHeaders/x", data, kind=b"x") + (then or entry("x"))


def pax_record(key, value):
    text = b" %s=%s\n" % (key.encode(), value if isinstance(value, bytes) else value.encode())
    length = len(text) + 1
    while len(b"%d" % length) + len(text) != length:
        length += 1
    return b"%d" % length + text


GOOD = entry("d", b"", kind=b"5", mode=b"0000755") + entry("d/f", b"hello") + entry("l", b"", kind=b"2", link="d/f") + END


def hostile():
    """name: archive"""
    base256 = b"\x80" + b"\0" * 3
    return {
        "absolute": entry("/etc/passwd") + END,
        "absolute by pax": pax([("path", "/etc/passwd")]) + END,
        "up": entry("../x") + END,
        "up within": entry("d/../../x") + END,
        "up as a folder": entry("..", b"", kind=b"5") + END,
        "up by pax": pax([("path", "a/../../x")]) + END,
        "empty name": entry("") + END,
        "NUL by pax": pax([("path", b"a\0b")]) + END,
        "long component": pax([("path", "x" * 300)]) + END,
        "through a link": entry("l", b"", kind=b"2", link="/tmp") + entry("l/x") + END,
        "through a link that stays": entry("d", b"", kind=b"5") + entry("l", b"", kind=b"2", link="d") + entry("l/x") + END,
        "below a file": entry("a") + entry("a/b") + END,
        "hard link outside": entry("h", b"", kind=b"1", link="../../etc/passwd") + END,
        "hard link to a root path": entry("h", b"", kind=b"1", link="/etc/passwd") + END,
        "hard link to nothing": entry("h", b"", kind=b"1", link="none") + END,
        "hard link to itself": entry("h", b"", kind=b"1", link="h") + END,
        "hard link to what comes later": entry("h", b"", kind=b"1", link="z") + entry("z") + END,
        "hard link to a folder": entry("d", b"", kind=b"5") + entry("h", b"", kind=b"1", link="d") + END,
        "hard link by pax outside": pax([("linkpath", "../x")], entry("h", b"", kind=b"1", link="a")) + END,
        "twice": entry("a") + entry("a", b"y") + END,
        "twice, spelt otherwise": entry("a") + entry("./a", b"y") + END,
        "twice, a folder and a file": entry("a", b"", kind=b"5") + entry("a") + END,
        "link without a target": entry("l", b"", kind=b"2") + END,
        "size of 8 GiB, no data": header("a", size_raw=b"77777777777\0") + END,
        "size of 2^62, no data": header("a", size_raw=base256 + (1 << 62).to_bytes(8, "big")) + END,
        "size below zero": header("a", size_raw=b"\xff" * 12) + END,
        "size that is no number": header("a", size_raw=b"12z45678901\0") + END,
        "size with a sign": header("a", size_raw=b"-0000000001\0") + END,
        "size by pax, no data": pax([("size", "9999999999999")]) + END,
        "size by pax beyond numbers": pax([("size", "99999999999999999999999")]) + END,
        "size by pax below zero": pax([("size", "-1")]) + END,
        "pax of 1 GiB": header("PaxHeaders/x", 1 << 30, kind=b"x") + END,
        "pax with a wrong length": pax(b"99 path=a\n") + END,
        "pax without an end": pax(b"10 path=abc") + END,
        "pax with an endless length": pax(b"9" * 40 + b" path=a\n") + END,
        "pax without an equals sign": pax(b"8 path\n\n") + END,
        "pax at the end": entry("PaxHeaders/x", pax_record("path", "a"), kind=b"x") + END,
        "long name of 1 GiB": header("././@LongLink", 1 << 30, kind=b"L") + END,
        "sparse map outside the file": pax([("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"),
                                            ("GNU.sparse.name", "a"), ("GNU.sparse.realsize", "10")],
                                           entry("GNUSparseFile.0/a", padded(b"1\n99999999\n512\n") + b"y" * 512)) + END,
        "sparse map that turns back": pax([("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"),
                                           ("GNU.sparse.name", "a"), ("GNU.sparse.realsize", "9000")],
                                          entry("GNUSparseFile.0/a",
                                                padded(b"2\n4096\n512\n0\n512\n") + b"y" * 1024)) + END,
        "sparse map of 2^40 parts": pax([("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"),
                                         ("GNU.sparse.name", "a"), ("GNU.sparse.realsize", "9000")],
                                        entry("GNUSparseFile.0/a", padded(b"1099511627776\n0\n1\n"))) + END,
        "sparse name outside": pax([("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.name", "../a"),
                                    ("GNU.sparse.realsize", "5")],
                                   entry("GNUSparseFile.0/a", padded(b"1\n0\n5\n") + b"hello")) + END,
        "wrong checksum": GOOD[:148] + b"0000000\0" + GOOD[156:],
        "no end": GOOD[:-1024],
        "garbage behind the end": GOOD + b"\xa5" * 5000,
        "garbage for the second header": GOOD[:512] + b"\xa5" * 512 + GOOD[1024:],
    }


def no_archives():
    return {"empty": b"", "text": b"hello, this is no archive at all\n" * 100, "one block": b"\0" * 512,
            "random": bytes(i * 2654435761 >> 13 & 255 for i in range(4096)), "an ELF": b"\x7fELF" + b"\1" * 4000,
            "bzip2": bz2.compress(GOOD), "xz": lzma.compress(GOOD), "zip": b"PK\x03\x04" + b"\0" * 2000,
            "gzip of text": gzip.compress(b"hello" * 1000), "gzip of nothing": gzip.compress(b""),
            "gzip in gzip": gzip.compress(gzip.compress(GOOD)), "gzip with more behind": gzip.compress(GOOD) + b"x" * 9,
            "gzip magic alone": b"\x1f\x8b",
            "zstd magic alone": b"\x28\xb5\x2f\xfd", "JSON": b'{"a": 1}' * 200}


def checksum(data, block):
    """As the header at `block` says it; None if that is no number."""
    try:
        return tarfile.nti(bytes(data[block + 148:block + 156]))
    except tarfile.HeaderError:
        return None


def unpacked(data):
    """None: it is no whole gzip stream."""
    try:
        return gzip.decompress(data)
    except (OSError, EOFError, zlib.error):
        return None


class ArchiveTest(BadInputTest):
    snapshot_format = "tar"  # one object each, so that nothing half-made hides

    def setUp(self):
        super().setUp()
        self.store = self.place.program_state("snapshots")
        self.objects = self.stored()

    def stored(self):
        found = {}
        for name in os.listdir(self.store):
            with open(os.path.join(self.store, name), "rb") as file:
                found[name] = file.read()
        return found

    def damaged(self, name, data, twice=False):
        with self.subTest(name):
            begin = time.monotonic()
            self.refused(["snapshot", "import", "-", self.slot], 8, hint="", stdin=data, twice=twice)
            self.assertLess(time.monotonic() - begin, 10)

    def nothing_done(self):
        self.assertEqual(self.stored(), self.objects)
        self.unchanged("a refused archive", traces=False)
        self.assertEqual(os.listdir(self.place.program_state("pending")), [])
        self.restores()

    def test_cut_at_each_block(self):
        step = 64 if harness.full() else 512
        for length in range(0, len(GOOD) - 512, step):
            self.damaged(f"cut at {length}", GOOD[:length])
        packed = gzip.compress(GOOD, mtime=0)
        for length in range(0, len(packed), 1 if harness.full() else 17):
            self.damaged(f"gzip cut at {length}", packed[:length])
        self.damaged("gzip without its last byte", packed[:-1])
        self.nothing_done()

    def test_cut_zstd(self):
        harness.need_program("zstd")
        packed = subprocess.run(["zstd", "-q", "-c", "--check"], input=GOOD, capture_output=True, check=True).stdout
        for length in range(0, len(packed), 1 if harness.full() else 17):
            self.damaged(f"zstd cut at {length}", packed[:length])
        flipped = bytearray(packed)
        flipped[-1] ^= 1
        self.damaged("zstd with a wrong checksum", bytes(flipped))
        self.nothing_done()

    def test_flipped_bits(self):
        """A header says so itself; of what stands between, only what was packed can know."""
        for at in range(0, 512, 1 if harness.full() else 13):
            for block in (0, 512):
                flipped = bytearray(GOOD)
                flipped[block + at] ^= 1 << at % 8
                if checksum(flipped, block) == checksum(GOOD, block) and 148 <= at < 156:
                    continue  # a blank for a zero in front, say
                self.damaged(f"bit of byte {block + at}", bytes(flipped))
        packed = gzip.compress(GOOD, mtime=0)
        for at in range(10, len(packed), 1 if harness.full() else 11):
            flipped = bytearray(packed)
            flipped[at] ^= 1 << at % 8
            if unpacked(bytes(flipped)) == GOOD:
                continue  # another way to write the same
            self.damaged(f"bit of packed byte {at}", bytes(flipped))
        self.nothing_done()

    def test_hostile(self):
        for name, data in hostile().items():
            self.damaged(name, data, twice=True)
        self.nothing_done()

    def test_no_archive(self):
        for name, data in no_archives().items():
            self.damaged(name, data, twice=True)
        self.nothing_done()

    def test_files_that_cannot_be_read(self):
        os.mkdir(self.place.path("folder"))
        os.symlink("loop", self.place.path("loop"))
        for name, code in (("missing.tar", 4), ("folder", 2), ("loop", 15), ("missing/x.tar", 4)):
            with self.subTest(name):
                self.refused(["snapshot", "import", name, self.slot], code, name)
        self.nothing_done()

    def test_what_is_odd_but_harmless(self):
        """Taken, and what cannot be kept is said: nothing unpacks it on this host."""
        sparse = pax([("GNU.sparse.major", "1"), ("GNU.sparse.minor", "0"), ("GNU.sparse.name", "hole"),
                      ("GNU.sparse.realsize", str(1 << 62))], entry("GNUSparseFile.0/hole", padded(b"1\n0\n1\n") + b"y"))
        rows = {"device": entry("dev", b"", kind=b"4") + entry("a") + END, "absolute link": entry(
            "l", b"", kind=b"2", link="/etc/passwd") + END, "hole of 4 EiB": sparse + END, "unknown pax keys": pax(
                [("SCHILY.nonsense", "1"), ("comment", "x" * 5000)]) + END, "padding": GOOD + b"\0" * 100_000, "old magic": entry("a", magic_raw=b"\0" * 8) + END}
        for name, data in rows.items():
            with self.subTest(name):
                begin = time.monotonic()
                self.check(self.place.run("snapshot", "import", "-", self.slot, "--dry-run", stdin=data))
                self.assertLess(time.monotonic() - begin, 10)
        self.nothing_done()

    def test_adopted_objects(self):
        """What lies in the store under a name is looked into before a record names it."""
        for name, data in {**hostile(), **no_archives()}.items():
            with self.subTest(name):
                path = os.path.join(self.store, "bad.tar")
                with open(path, "wb") as file:
                    file.write(data)
                self.refused(["adopt", "session/other", "--snapshot", "bad"], 8, "bad.tar", hint="", twice=False)
                os.unlink(path)
        for name, code in (("../../etc/passwd", 2), ("", 2), ("none", 4), ("a/b", 4), ("x" * 300, 2), ("\x01", 2),
                           (b"\xff", 2), (".", 2), ("..", 2), ("/etc/passwd", 2)):
            with self.subTest(name):
                self.refused(["adopt", "session/other", "--snapshot", name], code)
        self.assertEqual(self.place.run("show", "session/other").code, 4)
        self.nothing_done()


class CopiedArchiveTest(BadInputTest):
    with_sandbox = True

    def listing(self):
        return self.place.ok("exec", "--", "sh", "-c", "find /workspace /home /tmp /var -xdev | sort; cat f").text

    def test_cp_refuses_them_before_anything_is_there(self):
        before = self.listing()
        rows = {**hostile(), **no_archives(), "cut": GOOD[:1536]}
        rows["packed and cut"] = gzip.compress(rows["cut"])
        for name, data in rows.items():
            with self.subTest(name):
                self.refused(["cp", "-", ":into/deep"], 8, hint="", stdin=data, twice=False)
        self.assertEqual(self.listing(), before)


if __name__ == "__main__":
    unittest.main()
