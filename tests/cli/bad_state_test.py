# SPDX-License-Identifier: Apache-2.0
"""State documents that are given, and records, histories and receipts that lie in a store: cut, altered, foreign, of a
newer version. What cannot be read is named with its code and never written over; what is left of it still restores."""
import json
import os
import sqlite3
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from bad_input import BadInputTest, CONTENT, compact  # noqa: E402

DOCUMENT = {"type": "bubblewrap", "sessionId": "0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11",
            "snapshot": {"type": "noop", "id": "noop"}, "workspaceProjectionHash": None, "workspaceRootReady": True,
            "sandboxId": "sb-1", "workspaceRoot": "/workspace", "sandboxOwned": True, "rootfs": "host",
            "network": "none", "manifest": {"root": "/workspace", "entries": {
                "a": {"type": "file", "content": "x"}, "d": {"type": "dir", "children": {}}}, "environment": {"A": "1"}}}
OTHER = "user/assistant/other"


def edited(document, path, value):
    out = json.loads(json.dumps(document))
    place = out
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    return compact(out)


def paths_in(value, path=()):
    yield path
    if isinstance(value, dict):
        for key, member in value.items():
            yield from paths_in(member, path + (key,))


def bad_documents():
    """name: text. None of them is a state document."""
    good = compact(DOCUMENT)
    step = 1 if harness.full() else 23
    rows = {f"cut at {length}": good[:length] for length in range(0, len(good), step)}
    for path in paths_in(DOCUMENT):
        name = ".".join(path)
        if path and path[-1] not in ("a", "d", "A"):
            rows[f"a number for {name}"] = edited(DOCUMENT, path, 7)
            rows[f"a list of lists for {name}"] = edited(DOCUMENT, path, [[]])
        if path in ((), ("manifest",), ("manifest", "entries", "a")):
            rows[f"unknown key in '{name}'"] = edited(DOCUMENT, path + ("extra",), "x")
            rows[f"twice the same key in '{name}'"] = good.replace('"type":', '"type":"x","type":', 1) if not path else (
                good.replace('"root":', '"root":"/x","root":', 1))
    rows.update({
        "no type": compact({k: v for k, v in DOCUMENT.items() if k != "type"}),
        "unknown type": edited(DOCUMENT, ("type",), "firecracker"), "a list": "[]", "a text": '"x"', "null": "null",
        "garbage behind": good + "x", "two documents": good + good, "not UTF-8": good.replace("host", "\udcff"),
        "UTF-16": good.encode("utf-16"), "a NUL": good.replace("host", "ho\0st"), "NaN": good.replace("null", "NaN", 1),
        "number out of range": good.replace("null", "1e999", 1), "deep": "[" * 100_000, "deep and closed": '{"a":' * 5000
        + "1" + "}" * 5000, "huge": '{"type":"' + "x" * (5 << 20) + '"}', "a record with no document": '{"json":1}',
        "a record with a broken one": '{"json":"{\\"type\\":"}', "a record with an empty one": '{"json":"{}"}',
        "a tombstone": '{"json":"","deleted":true}', "a record in a record": compact({"json": compact({"json": good})}),
        "local snapshot outside": edited(DOCUMENT, ("snapshot",), {"type": "local", "basePath": "/x", "id": "../../x"}),
    })
    return rows


class GivenDocumentTest(BadInputTest):
    def test_given_documents(self):
        for number, (name, text) in enumerate(bad_documents().items()):
            data = text if isinstance(text, bytes) else text.encode(errors="surrogateescape")
            self.place.write("doc.json", data)
            with self.subTest(name):
                self.refused(["state", "import", "doc.json", OTHER], 2, "doc.json", twice=number % 8 == 0)
                self.refused(["create", OTHER, "--from-state", "doc.json"], 2, "--from-state doc.json", twice=False)
                if number % 4 == 0:
                    self.refused(["explain", OTHER, "--from-state", "-"], 2, "--from-state -", stdin=data)
                    self.refused(["run", OTHER, "--from-state", "doc.json", "--", "true"], 2, "--from-state doc.json")
        self.assertEqual(self.place.run("show", OTHER).code, 4)
        self.unchanged("documents")
        self.restores()

    def test_files(self):
        os.mkdir(self.place.path("folder"))
        for name, code in (("missing.json", 4), ("folder", 15)):
            self.refused(["state", "import", name, OTHER], code, name)
            self.refused(["start", OTHER, "--from-state", name], code, name)

    def test_the_type_that_old_versions_wrote_twice(self):
        text = compact(DOCUMENT).replace('"id":"noop"', '"id":"noop","type":"noop"')
        self.check(self.place.run("state", "import", "-", OTHER, stdin=text.encode()))
        self.assertEqual(json.loads(self.place.ok("state", "export", OTHER).out), DOCUMENT)

    def test_ids_in_a_document_lead_nowhere(self):
        """A document may name any sandbox and snapshot; what it names is looked for, never obeyed as a path."""
        outside = os.path.join(self.place.root, "outside")
        os.mkdir(outside)
        for odd in ("../../../outside", "/etc", "", ".", "..", "a/b", "x" * 5000, "\x01", "sb-1;id", "\u20ac"):
            with self.subTest(odd):
                self.place.write("doc.json", edited(DOCUMENT, ("sandboxId",), odd))
                self.check(self.place.run("state", "import", "doc.json", OTHER, "--replace", "--allow-loss"))
                shown = self.place.ok("show", OTHER, "-o", "json").json()
                self.assertEqual(shown["sandbox"], None)
                done = self.place.run("explain", OTHER, "-o", "json")
                self.assertIn(done.code, (0, 4), done)
                done = self.place.run("snapshot", OTHER, "-o", "json")
                self.assertEqual(done.code, 4, done)
                self.check(self.place.run("rm", OTHER))
        for odd in ("../../../outside/x", "/etc/passwd", "..", "a b", "\x01", "x" * 400):
            with self.subTest(snapshot=odd):
                self.place.write("doc.json", edited(DOCUMENT, ("snapshot",), {"type": "remote", "id": odd}))
                self.refused(["state", "import", "doc.json", OTHER, "--replace", "--allow-loss"], 8, hint="")
                self.refused(["explain", OTHER, "--from-state", "doc.json"], 8, hint="")
        self.assertEqual(os.listdir(outside), [])
        self.unchanged("ids")


class RecordTest(BadInputTest):
    """What lies in the state store in the place of the record, in a SQLite file and in a JSON folder."""

    def setUp(self):
        super().setUp()
        self.folder = self.place.path("states")
        self.at = {"sqlite": (), "json": ("--set", "state=json:" + self.folder)}
        raw = self.place.ok("state", "export", "--raw", self.slot).out
        self.place.ok("snapshot", "import", "-", self.slot, *self.at["json"], stdin=self.place.ok(
            "snapshot", "export", self.slot + "@latest", "-").out)
        self.good = {"sqlite": raw, "json": self.place.ok("state", "export", "--raw", self.slot, *self.at["json"]).out}

    def sql(self, text, *values):
        database = sqlite3.connect(self.place.program_state("state.db"))
        try:
            rows = database.execute(text, values).fetchall()
            database.commit()
        finally:
            database.close()
        return rows

    def json_file(self, name="_sandbox_state.json"):
        found = [os.path.join(folder, name) for folder, _, names in os.walk(self.folder) if name in names
                 and "realm" not in folder]
        self.assertEqual(len(found), 1, found)
        return found[0]

    def put(self, kind, data):
        if kind == "sqlite":
            self.sql("UPDATE agentscope_sessions SET state_data=? WHERE state_key='_sandbox_state' AND session_id LIKE ?",
                     data.decode(errors="surrogateescape") if b"\xff" not in data else data, "%default%")
        else:
            with open(self.json_file(), "wb") as file:
                file.write(data)

    def raw(self, kind):
        return self.place.ok("state", "export", "--raw", self.slot, *self.at[kind]).out

    def bad_records(self, good):
        """name: (bytes, code of what needs the record)"""
        outer = json.loads(good)
        step = 1 if harness.full() else 97
        rows = {f"cut at {length}": (good[:length], 8) for length in range(1, len(good), step)}

        def with_ours(**members):
            return compact({**outer, "ascope": {**outer["ascope"], **members}}).encode()
        head = outer["ascope"]["head"]
        for name, value in (("rev", -1), ("rev", "1"), ("rev", 1e300), ("fence", 7), ("fence", "x"), ("fence", "1" * 40),
                            ("writer", "x"), ("writer", None), ("doc", "0" * 63), ("head", []), ("head", {}),
                            ("live", 1), ("live", {}), ("aux", "x"), ("aux", {"key": 1}), ("realm", 1), ("v", 0), ("v", "1"),
                            ("head", {**head, "object": "../../../etc/passwd"}), ("head", {**head, "size": -1}),
                            ("head", {**head, "format": "zip"}), ("head", {**head, "snapshot": ""})):
            rows[f"{name} is {str(value)[:50]}"] = (with_ours(**{name: value}), 8)
        rows.update({
            "newer": (with_ours(v=2), 13), "much newer": (with_ours(v=1 << 60), 13), "empty": (b"", 8), "null": (b"null", 8),
            "a list": (b"[]", 8), "no document": (compact({"deleted": False}).encode(), 8), "a number": (
                compact({**outer, "json": 1}).encode(), 8), "deleted in words": (
                compact({**outer, "deleted": "no"}).encode(), 8), "unknown type": (compact({"json": json.dumps(
                    {**json.loads(outer["json"]), "type": "firecracker"}), "deleted": False}).encode(), 8), "deep": (
                b"[" * 100_000, 8), "key twice": (good.replace(b'{"json"', b'{"deleted":false,"json"', 1), 8), "binary": (
                b"\0\1\2\xff", 8)})
        return rows

    def test_damaged_records_are_named_and_never_written(self):
        for kind, at in self.at.items():
            for number, (name, (data, code)) in enumerate(self.bad_records(self.good[kind]).items()):
                with self.subTest(kind=kind, name=name):
                    self.put(kind, data)
                    commands = [["start"], ["run", "--", "true"], ["snapshot", "ls"], ["snapshot", "import", "-"], ["rm"],
                                ["restore", "latest"], ["state", "export"], ["stop"], ["snapshot"], ["undo"],
                                ["snapshot", "cat", "latest", "f"], ["create"], ["snapshot", "tag", "latest", "v"]]
                    for command in commands[:4] if number % 9 and not harness.full() else commands:
                        words = command[:1] + list(at) + command[1:] if command[0] == "run" else command + list(at)
                        found = 6 if command == ["create"] else code
                        archive = b"\0" * 1024 if "import" in command else b""
                        self.refused(words, found, self.slot, stdin=archive, hint="", twice=False)
                    listed = self.place.ok("ls", "-o", "json", *at).json()["slots"]
                    self.assertEqual([row["state"] for row in listed if row["slot"] == self.slot],
                                     ["newer" if code == 13 else "corrupt"])
                    shown = self.place.ok("show", self.slot, "-o", "json", *at).json()
                    self.assertTrue(shown["problem"])
                    explained = self.place.ok("explain", self.slot, "-o", "json", *at).json()
                    self.assertEqual(explained["outcome"], "refused")
                    self.assertEqual(self.raw(kind), data)
                    self.put(kind, self.good[kind])
                    self.assertEqual(self.raw(kind), self.good[kind])
        self.unchanged("records", traces=False)
        self.restores()

    def test_a_damaged_record_is_rebuilt_from_what_is_left(self):
        for kind, at in self.at.items():
            for data in (b"", self.good[kind][:200], b"[]"):
                with self.subTest(kind=kind, data=data[:9]):
                    self.put(kind, data)
                    self.check(self.place.run("adopt", self.slot, *at))
                    self.assertEqual(self.place.ok("snapshot", "cat", self.slot + "@latest", "f", *at).text, CONTENT)
                    self.put(kind, data)
                    self.check(self.place.run("state", "rm", self.slot, "--yes", *at))
                    self.check(self.place.run("adopt", self.slot, *at))
                    self.assertEqual(self.place.ok("snapshot", "cat", self.slot + "@latest", "f", *at).text, CONTENT)

    def test_a_damaged_history_leaves_the_head(self):
        name = json.loads(self.good["sqlite"])["ascope"]["aux"]["key"]
        [[good]] = self.sql("SELECT state_data FROM agentscope_sessions WHERE state_key=?", name)
        for what, data in (("cut", good[:-5]), ("emptied", ""), ("altered", good.replace('"v":1', '"v":9')), ("gone", None),
                           ("another slot's", good.replace("default", "defaulu"))):
            with self.subTest(what):
                if data is None:
                    self.sql("DELETE FROM agentscope_sessions WHERE state_key=?", name)
                else:
                    self.sql("UPDATE agentscope_sessions SET state_data=? WHERE state_key=?", data, name)
                shown = self.place.ok("show", self.slot, "-o", "json").json()
                self.assertTrue(shown["history_lost"])
                self.assertTrue(shown["snapshot"]["in_store"])
                self.assertIn("history", self.place.ok("snapshot", "ls", self.slot).errors)
                self.assertEqual(self.place.ok("explain", self.slot, "-o", "json").json()["branch"], "C")
                self.restores(what)

    def test_damaged_receipts_hide_nothing_else(self):
        for kind, at in self.at.items():
            for number in range(3):
                self.place.ok("snapshot", "tag", self.slot + "@latest", f"v{number}", *at)
            whole = self.place.ok("history", self.slot, "-o", "json", *at).json()["receipts"]
            for what in ("{", "", "[]", "5", '{"schema":"ascope.receipt/9"}', '{"schema":1}', "\x01", "{" * 5000):
                with self.subTest(kind=kind, what=what[:20]):
                    if kind == "sqlite":
                        self.sql("UPDATE ascope_receipts SET receipt=? WHERE id=(SELECT max(id) FROM ascope_receipts)", what)
                    else:
                        path = self.json_file("_ascope_receipts.jsonl")
                        with open(path, "rb") as file:
                            lines = file.read().splitlines()
                        with open(path, "wb") as file:
                            file.write(b"\n".join(lines[:-1] + [what.encode()]) + b"\n")
                    # A line of a JSON folder that is no JSON is one that a killed writer left: no receipt at all.
                    half_written = kind == "json" and what not in ("[]", "5") and not what.startswith('{"')
                    shown = self.place.ok("show", self.slot, "-o", "json", *at).json()
                    self.assertEqual(shown["last_receipt"], whole[1] if half_written else None)
                    done = self.place.run("history", self.slot, "-o", "json", *at)
                    self.assertEqual((done.code, done.json()["receipts"]), (0 if half_written else 8, whole[1:]), done)
                    self.assertEqual(self.place.run("why", self.slot, *at).code, 4 if half_written else 8)
                    if not half_written:
                        self.assertEqual(done.error()["kind"], "corrupt")
                        self.assertIn(f"1 receipt of {self.slot} is damaged", done.error()["message"])
            self.restores()
            self.place.ok("snapshot", "tag", self.slot + "@latest", "again", *at)
            self.assertEqual(self.place.ok("show", self.slot, "-o", "json", *at).json()["last_receipt"]["command"],
                             "snapshot tag")


if __name__ == "__main__":
    unittest.main()
