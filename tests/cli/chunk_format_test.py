# SPDX-License-Identifier: Apache-2.0
"""A second reader of format chunks, written from ascope-snapshot(5) alone: what the manual says must be enough."""
import base64
import hashlib
import json
import os
import random
import stat
import struct
import subprocess
import unittest

import harness

BENCH = os.environ.get("ASCOPE_CHUNKS_BENCH", "")


def unzstd(data):
    return subprocess.run(["zstd", "-q", "-d", "-c"], input=data, capture_output=True, check=True).stdout


class Fields:
    def __init__(self, data):
        self.data, self.at = data, 0

    def bytes(self, count):
        out = self.data[self.at:self.at + count]
        assert len(out) == count, "cut"
        self.at += count
        return out

    def fixed(self, count):
        return int.from_bytes(self.bytes(count), "little")

    def varint(self):
        value = shift = 0
        while True:
            byte = self.fixed(1)
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def text(self):
        return self.bytes(self.varint())

    def left(self):
        return len(self.data) - self.at


def unseal(data, magic):
    assert hashlib.sha256(data[:-32]).digest() == data[-32:], "sum"
    assert data[:8] == magic + b"\x01\x00\x00\x00", data[:8]
    raw = unzstd(data[44:-32])
    assert len(raw) == struct.unpack("<I", data[8:12])[0]
    return raw


def as_bytes(value):
    return base64.b64decode(value["base64"]) if isinstance(value, dict) else value.encode()


class Store:
    def __init__(self, folder):
        self.folder = folder
        self.frames = {}

    def read(self, name):
        with open(os.path.join(self.folder, name), "rb") as file:
            return file.read()

    def check_pack(self, pack):
        """Checks a pack's frames against its index; the number of chunks."""
        data = self.read(f"packs/{pack[:2]}/{pack}")
        assert data[:8] == b"ASPK\x01\x00\x00\x00"
        offset, size, chunks = struct.unpack("<III", data[-48:-36])
        index = data[offset:offset + size]
        assert hashlib.sha256(index).digest() == data[-36:-4] and data[-4:] == b"ASPX"
        assert offset + size + 48 == len(data)
        fields, at, count = Fields(index), 40, 0
        while fields.left():
            start, stored, raw, codec, parts = (fields.fixed(n) for n in (4, 4, 4, 1, 4))
            assert start == at
            content = self.frame(pack, start, stored, raw, codec)
            inside = 0
            for _ in range(parts):
                chunk, length = fields.bytes(32), fields.fixed(4)
                assert hashlib.sha256(content[inside:inside + length]).digest() == chunk
                inside += length
                count += 1
            assert inside == raw
            at += stored
        assert at == offset and count == chunks
        return count

    def frame(self, pack, offset, stored, raw, codec):
        key = (pack, offset)
        if key not in self.frames:
            data = self.read(f"packs/{pack[:2]}/{pack}")[offset:offset + stored]
            self.frames[key] = unzstd(data) if codec == 1 else data
            assert len(self.frames[key]) == raw
        return self.frames[key]

    def entries(self, root, part):
        """The entries of a part, in the order of its pages."""
        packs = [pack["name"] for pack in root["packs"]]
        out = []
        for first, pack, offset, stored, raw, codec, at, length, chunk in root[part]:
            page = self.frame(packs[pack], offset, stored, raw, codec)[at:at + length]
            assert hashlib.sha256(page).hexdigest() == chunk
            self.read_page(Fields(page), set(packs), as_bytes(first), out)
        return out

    def read_page(self, fields, packs, first, out):
        assert fields.bytes(5) == b"ASPG\x01"
        own = [fields.bytes(16).hex() for _ in range(fields.varint())]
        assert set(own) <= packs
        frames = [(own[fields.varint()], fields.varint(), fields.varint(), fields.varint(), fields.fixed(1))
                  for _ in range(fields.varint())]
        path, begun = b"", False
        while fields.left():
            kind = fields.fixed(1)
            if kind < 8:
                path = path[:fields.varint()] + fields.text()
                out.append(read_entry(fields, kind, path))
            elif kind == 8:
                end = 0
                for _ in range(fields.varint()):
                    begin = end + fields.varint()
                    end = begin + fields.varint()
                    out[-1]["runs"].append((begin, end))
            else:
                assert kind == 9
                for _ in range(fields.varint()):
                    frame = self.frame(*frames[fields.varint()])
                    begin = fields.varint()
                    data = frame[begin:begin + fields.varint()]
                    assert hashlib.sha256(data).digest() == fields.bytes(32)
                    out[-1]["data"] += data
                    out[-1]["chunks"] -= 1
            assert begun or first == out[-1]["path"]
            begun = True


def read_entry(fields, kind, path):
    entry = {"path": path, "kind": kind, "mode": fields.varint(), "uid": fields.varint(), "gid": fields.varint(),
             "mtime": struct.unpack("<q", fields.bytes(8))[0]}
    entry["attributes"] = {}
    for _ in range(fields.varint()):
        name = fields.text()
        entry["attributes"][name] = fields.text()
    if kind == 0:
        entry["size"] = fields.varint()
        entry["sparse"] = fields.varint() > 0
        entry["chunks"] = fields.varint()
        entry["runs"], entry["data"] = [], b""
    elif kind in (2, 3):
        entry["target"] = fields.text()
    elif kind in (6, 7):
        entry["device"] = fields.varint()
    return entry


def content_of(entry):
    assert entry["chunks"] == 0
    if not entry["sparse"]:
        return entry["data"]
    out, at = bytearray(entry["size"]), 0
    for begin, end in entry["runs"]:
        out[begin:end] = entry["data"][at:at + end - begin]
        at += end - begin
    return bytes(out)


def fill(tree):
    """Makes a tree; the content of its regular files by path."""
    source = random.Random(3)
    os.makedirs(os.path.join(tree, "folder", "deep"))
    os.mkdir(os.path.join(tree, "many"))
    files = {b"empty": b"", b"folder/deep/text": b"some text " * 3000, b"folder.txt": b"sorts behind folder/",
             b"large": source.randbytes(1_500_000), b"again": b"some text " * 3000,
             b"\xff not utf-8": b"bytes", b"new\nline": b"x"}
    for number in range(1200):
        files[b"many/%05d" % number] = source.randbytes(source.randint(1, 300))
    for path, data in files.items():
        with open(os.path.join(os.fsencode(tree), path), "wb") as file:
            file.write(data)
    with open(os.path.join(tree, "sparse"), "wb") as file:
        file.truncate(1 << 22)
        file.seek(1 << 20)
        file.write(b"data between holes")
    with open(os.path.join(tree, "sparse"), "rb") as file:
        files[b"sparse"] = file.read()
    os.symlink("large", os.path.join(tree, "symlink"))
    os.link(os.path.join(tree, "large"), os.path.join(tree, "largf"))
    os.mkfifo(os.path.join(tree, "fifo"))
    os.chmod(os.path.join(tree, "empty"), 0o4751)
    os.utime(os.path.join(tree, "empty"), ns=(1, -1_234_567_891))
    return files


class ChunkFormat(unittest.TestCase):
    def test_manual_is_enough(self):
        harness.need_program("zstd")
        with harness.Place() as place:
            tree, store = place.path("tree"), place.path("store")
            files = fill(tree)
            for changed in (1, 0):
                done = subprocess.run([BENCH, "save", tree, store], capture_output=True, check=True)
                self.assertEqual(json.loads(done.stdout)["changed"], changed)
            reader = Store(store)
            repo = reader.read("repo")
            self.assertEqual(repo[:8], b"ASRP\x01\x00\x00\x00")
            self.assertEqual(hashlib.sha256(repo[:-32]).digest(), repo[-32:])
            self.assertEqual(len(json.loads(repo[8:-32])["id"]), 32)
            slot = hashlib.sha256(b"slot\0global").hexdigest()[:32]
            names = os.listdir(os.path.join(store, "snapshots", "bench", slot))
            self.assertEqual(len(names), 1)
            root = json.loads(unseal(reader.read(f"snapshots/bench/{slot}/{names[0]}"), b"ASMF"))
            self.assertEqual(names[0], f"{root['rev']:016x}-{int(root['fence']):016x}-{root['id']}")
            self.assertIsNone(root["roots"])
            self.check_tree(reader.entries(root, "workspace"), files, tree)
            for pack in root["packs"]:
                size = os.path.getsize(os.path.join(store, "packs", pack["name"][:2], pack["name"]))
                self.assertEqual(pack["size"], size)
                self.assertGreater(reader.check_pack(pack["name"]), 1200)
                self.assertLessEqual(pack["used"], size)
            hints = Fields(unseal(reader.read("index/" + os.listdir(os.path.join(store, "index"))[0]), b"ASIX"))
            self.assertEqual(hints.bytes(16).hex(), root["packs"][0]["name"])

    def check_tree(self, entries, files, tree):
        paths = [entry["path"] for entry in entries]
        self.assertEqual(paths, sorted(paths, key=lambda path: path.replace(b"/", b"\0")))
        found = {entry["path"]: entry for entry in entries}
        self.assertEqual(len(found), len(entries))
        for path, data in files.items():
            self.assertEqual(content_of(found[path]), data, path)
        self.assertTrue(found[b"sparse"]["sparse"])
        self.assertEqual(found[b"symlink"]["target"], b"large")
        self.assertEqual((found[b"largf"]["kind"], found[b"largf"]["target"]), (3, b"large"))
        self.assertEqual(found[b"fifo"]["kind"], 4)
        self.assertEqual((found[b"empty"]["mode"], found[b"empty"]["mtime"]), (0o4751, -1_234_567_891))
        for path, entry in found.items():
            info = os.lstat(os.path.join(os.fsencode(tree), path))
            if entry["kind"] in (0, 1):
                self.assertEqual(entry["mode"], stat.S_IMODE(info.st_mode))
                self.assertEqual(entry["mtime"], info.st_mtime_ns)
        self.assertEqual(len(found), len(files) + 7)  # the root, three folders, a link of each kind, a fifo
