# SPDX-License-Identifier: Apache-2.0
"""Faults of section H: types of settings, and what belongs to the inner command."""
import json
import os
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "cli")]
import harness  # noqa: E402
from faults import SandboxTest  # noqa: E402

WORDS = ["no", "on", "y", "off", "010", "0x1F", "1e3", "1_000", "2026-01-02", "12:30:45", "~x", "=", ".inf",
         "0o17", "1.0", "+1", "<<", "NaN"]


class SettingsTest(harness.CliTest):
    def test_texts_stay_texts(self):
        """Duplicate keys and implicit types in YAML"""
        lines = "".join(f"    V{n}: {word}\n" for n, word in enumerate(WORDS))
        self.place.write("p.yaml", f"agent: no\nuser: 010\nworkspace:\n  environment:\n{lines}")
        values = {row["key"]: row["value"] for row in
                  self.place.ok("profile", "show", "--profile", "p.yaml", "-o", "json").json()["values"]}
        self.assertEqual((values["agent"], values["user"]), ("no", "010"))
        got = values.get("workspace.environment") or {k.split(".")[-1]: v for k, v in values.items() if ".environment." in k}
        for number, word in enumerate(WORDS):
            self.assertEqual(got[f"V{number}"], word.strip())

    def test_what_is_refused(self):
        """Duplicate keys and implicit types in YAML"""
        for text, place in (("agent: a\nagent: b\n", ":2:1:"), ("lock: {ttl: 5s, ttl: 5s}\n", ":1:17:"),
                            ("backend: {read_only_root: no}\n", ":1:27:"), ("backend: {pids: 010}\n", ":1:17:"),
                            ("backend: {pids: '10'}\n", ":1:17:"), ("agnet: a\n", ":1:1:"), ("lock: {ttl: 5}\n", ":1:13:")):
            with self.subTest(text):
                self.place.write("p.yaml", text)
                done = self.place.run("explain", "--profile", "p.yaml")
                self.assertEqual(done.code, 2, done)
                self.assertIn("p.yaml" + place, done.errors)


class InnerCommandTest(SandboxTest):
    INNER = ["--", "-h", "--help", "--version", "-o", "json", "-5", "--", "-x=1", "--yes", "-v", "--set", "a=b", "-", "--user"]

    def test_nothing_after_the_separator_is_ours(self):
        """Arguments after `--`, and values that begin with a dash"""
        script = 'for a in "$@"; do printf "%s\\0" "$a"; done'
        wanted = b"".join(word.encode() + b"\0" for word in self.INNER)
        for command in (["run"], ["exec"], ["lock", "run"], ["exec", "-q", "session/default"]):
            with self.subTest(command):
                done = self.place.ok(*command, "--", "sh", "-c", script, "sh", *self.INNER)
                self.assertEqual(done.out, wanted)
        self.assertEqual(self.place.ok("exec", "--", "printf", "%s", "--").out, b"--")
        self.assertEqual(self.place.run("exec", "--", "--help").code, 127)
        self.assertEqual(self.place.run("exec", "--", "--", "true").code, 127)

    def test_values_that_begin_with_a_dash(self):
        """Arguments after `--`, and values that begin with a dash"""
        for form in (["--user=-5"], ["--user", "-5"], ["--user=--help"], ["--user=--"]):
            with self.subTest(form):
                done = self.place.run("show", *form, "-o", "json")
                self.assertEqual(done.code, 4, done)
                self.assertIn("user/default/" + form[-1].removeprefix("--user="), done.error()["message"])
        self.place.ok("start")
        self.assertEqual(self.place.ok("exec", "-e", "N=-5", "--", "sh", "-c", "echo $N").text, "-5\n")

    def test_logs_never_reach_stdout(self):
        """Log lines on standard output break the protocol"""
        for argv in (["start"], ["show"], ["explain"], ["snapshot"], ["ls"], ["history"], ["exec", "--", "true"], ["doctor"]):
            with self.subTest(argv):
                head, rest = argv[:1], argv[1:]
                done = self.place.run(*head, "-vv", "-o", "json", *rest, env={"ASCOPE_LOG": "debug"})
                self.assertTrue(json.loads(done.out)["schema"].startswith("ascope."), done)


if __name__ == "__main__":
    unittest.main()
