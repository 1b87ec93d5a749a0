# SPDX-License-Identifier: Apache-2.0
"""state export, import and rm: the saved document of a slot, as it is and as it may not be."""
import json
import os
import sqlite3
import sys
import unittest

import harness

SLOT = "user/assistant/alice"
DOCUMENT = {"type": "bubblewrap", "sessionId": "0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11",
            "snapshot": {"type": "noop", "id": "noop"}, "workspaceProjectionHash": None, "workspaceRootReady": True,
            "workspaceRoot": "/workspace", "sandboxOwned": True, "rootfs": "host", "network": "none",
            "manifest": {"root": "/workspace", "entries": {}, "environment": {}}}
JAVA_SEGMENT = "c2FuZGJveC91c2VyL2Fzc2lzdGFudC9hbGljZQ"


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


class StateTest(harness.CliTest):
    def state(self, *args, **more):
        return self.place.run("state", *args, **more)

    def file(self, name, text):
        path = os.path.join(self.place.cwd, name)
        with open(path, "w", encoding="utf-8") as out:
            out.write(text)
        return path

    def imported(self, document=None, *args):
        done = self.state("import", self.file("doc.json", compact(document or DOCUMENT)), SLOT, *args)
        self.assertEqual(done.code, 0, done)
        return done

    def raw_record(self, text):
        """Puts `text` where the slot's record lies."""
        db = sqlite3.connect(os.path.join(self.place.state, "ascope-sandbox", "state.db"))
        db.execute("UPDATE agentscope_sessions SET state_data=? WHERE state_key='_sandbox_state'", (text,))
        db.commit()
        db.close()

    def test_round_trip_keeps_every_byte(self):
        self.imported()
        done = self.state("export", SLOT)
        self.assertEqual((done.code, done.out.decode(), done.err), (0, compact(DOCUMENT) + "\n", b""), done)
        second = self.state("import", "-", "user/assistant/bob", stdin=done.out)
        self.assertEqual(second.code, 0, second)
        self.assertEqual(self.state("export", "user/assistant/bob").out, done.out)

    def test_raw_is_the_record_and_can_be_imported(self):
        self.imported()
        raw = self.state("export", "--raw", SLOT)
        self.assertEqual(raw.code, 0, raw)
        record = json.loads(raw.out)
        self.assertEqual(record["json"], compact(DOCUMENT))
        self.assertEqual(record["deleted"], False)
        self.assertEqual(record["ascope"]["v"], 1)
        self.assertFalse(raw.out.endswith(b"\n"))
        again = self.state("import", "-", "session/s", stdin=raw.out)
        self.assertEqual(again.code, 0, again)
        self.assertEqual(json.loads(self.state("export", "session/s").out), DOCUMENT)

    def test_json_output(self):
        self.imported()
        found = self.state("export", "-o", "json", SLOT).json()
        self.assertEqual(found["schema"], "ascope.state/1")
        self.assertEqual((found["slot"], found["class"], found["document"], found["record"]),
                         (SLOT, "ours", DOCUMENT, None))
        receipt = self.state("rm", "--yes", "-o", "json", SLOT).json()
        self.assertEqual((receipt["schema"], receipt["command"], receipt["changed"]),
                         ("ascope.receipt/1", "state rm", True))

    def test_nothing_is_nothing(self):
        for args in (("export", SLOT), ("export", "--raw", SLOT), ("rm", "--yes", SLOT)):
            done = self.state(*args)
            self.assertEqual((done.code, done.out), (4, b""), done)

    def test_import_never_overwrites_unasked(self):
        self.imported()
        other = dict(DOCUMENT, network="host")
        path = self.file("other.json", compact(other))
        done = self.state("import", path, SLOT)
        self.assertEqual(done.code, 6, done)
        self.assertIn("--replace", done.errors)
        self.assertEqual(json.loads(self.state("export", SLOT).out), DOCUMENT)
        dry = self.state("import", path, SLOT, "--replace", "--dry-run")
        self.assertEqual(dry.code, 0, dry)
        self.assertEqual(json.loads(self.state("export", SLOT).out), DOCUMENT)
        self.imported(other, "--replace")
        self.assertEqual(json.loads(self.state("export", SLOT).out), other)

    def test_import_is_strict(self):
        for name, text, says in (
                ("unknown key", compact(dict(DOCUMENT, extra=1)), "extra"),
                ("wrong type", compact(dict(DOCUMENT, sandboxOwned="yes")), "sandboxOwned"),
                ("unknown backend", compact(dict(DOCUMENT, type="firecracker")), "firecracker"),
                ("no JSON", "{", "JSON"), ("empty", "", "JSON"), ("a list", "[]", "object")):
            with self.subTest(name):
                done = self.state("import", self.file("bad.json", text), SLOT)
                self.assertEqual(done.code, 2, done)
                self.assertIn(says, done.errors)
                self.assertIn("bad.json", done.errors)
                self.assertNotIn("--from-state", done.errors)
        self.assertEqual(self.state("export", SLOT).code, 4)
        self.assertEqual(self.state("import", "/no/such/file", SLOT).code, 4)

    def test_rm_leaves_a_tombstone_and_asks(self):
        self.imported()
        done = self.state("rm", SLOT)
        self.assertEqual(done.code, 2, done)
        self.assertIn("--yes", done.errors)
        self.assertEqual(self.state("rm", "--dry-run", SLOT).code, 0)
        self.assertEqual(self.state("export", SLOT).code, 0)
        self.assertEqual(self.state("rm", "--yes", SLOT).code, 0)
        self.assertEqual(self.state("export", SLOT).code, 4)
        record = json.loads(self.state("export", "--raw", SLOT).out)
        self.assertEqual((record["json"], record["deleted"]), ("", True))
        self.assertEqual(self.state("rm", "--yes", SLOT).code, 4)
        self.imported()
        self.assertEqual(self.state("export", SLOT).code, 0)

    def test_a_damaged_record_is_shown_and_given_up_only_when_asked(self):
        self.imported()
        self.raw_record('{"json":"{\\"type\\":')
        done = self.state("export", SLOT)
        self.assertEqual((done.code, done.out), (8, b""), done)
        self.assertIn("--raw", done.errors)
        self.assertEqual(self.state("export", "--raw", SLOT).out, b'{"json":"{\\"type\\":')
        self.assertEqual(self.state("import", self.file("doc.json", compact(DOCUMENT)), SLOT).code, 6)
        self.assertEqual(self.state("rm", "--yes", SLOT).code, 0)
        self.assertEqual(json.loads(self.state("export", "--raw", SLOT).out)["deleted"], True)

    def test_a_newer_record_is_never_written(self):
        self.imported()
        newer = json.loads(self.state("export", "--raw", SLOT).out)
        newer["ascope"]["v"] = 2
        self.raw_record(compact(newer))
        for args in (("export", SLOT), ("rm", "--yes", SLOT),
                     ("import", self.file("doc.json", compact(DOCUMENT)), SLOT, "--replace")):
            done = self.state(*args)
            self.assertEqual(done.code, 13, done)
        self.assertEqual(json.loads(self.state("export", "--raw", SLOT).out), newer)

    def test_what_a_java_agent_saved(self):
        folder = os.path.join(self.place.cwd, "states", "__anon__", JAVA_SEGMENT)
        os.makedirs(folder)
        java = "{\n  \"json\" : " + json.dumps(compact(DOCUMENT)) + ",\n  \"deleted\" : false\n}"
        path = os.path.join(folder, "_sandbox_state.json")
        with open(path, "w", encoding="utf-8") as out:
            out.write(java)
        at = ("--set", "state=json:" + os.path.join(self.place.cwd, "states"))
        done = self.state("export", SLOT, *at)
        self.assertEqual((done.code, done.out.decode()), (0, compact(DOCUMENT) + "\n"), done)
        self.assertEqual(self.state("export", SLOT, "-o", "json", *at).json()["class"], "foreign")
        with open(path, encoding="utf-8") as file:
            self.assertEqual(file.read(), java)
        self.assertEqual(self.state("rm", "--yes", SLOT, *at).code, 0)
        with open(path, encoding="utf-8") as file:
            text = file.read()
        self.assertTrue(text.startswith('{\n  "json" : "",\n  "deleted" : true,\n'), text)

    def test_a_store_that_cannot_be_read_is_no_empty_one(self):
        path = os.path.join(self.place.state, "ascope-sandbox", "state.db")
        os.makedirs(os.path.dirname(path), mode=0o700)
        with open(path, "w", encoding="utf-8") as out:
            out.write("no database" * 1000)
        done = self.state("export", SLOT)
        self.assertEqual(done.code, 8, done)
        self.assertIn("state.db", done.errors)


if __name__ == "__main__":
    sys.exit(unittest.main())
