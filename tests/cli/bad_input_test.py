# SPDX-License-Identifier: Apache-2.0
"""Bad profiles, settings, ids and names of snapshots: each is an error that names the place and the mend, with its
exit code, and the slot stays as it was. What is only odd, such as an id of any bytes, works."""
import os
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from bad_input import BadInputTest, seed_tar  # noqa: E402

BOMB = "a: &a [x,x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{b}: &{b} [{','.join('*' + a for _ in range(10))}]\n" for a, b in zip("abcdefghij", "bcdefghijk"))
# name: (text, exit code, what the error says)
PROFILES = {
    "unknown key": ("backend:\n  netwrok: none\n", 2, "bad.yaml:2:3: unknown key 'netwrok'", "did you mean 'network'?"),
    "unknown key at the top": ("agnet: a\n", 2, "bad.yaml:1:1:", "did you mean 'agent'?"),
    "duplicate key": ("agent: a\nuser: b\nagent: c\n", 2, "bad.yaml:3:1: key 'agent' stands twice", ""),
    "duplicate key within": ("lock: {ttl: 5s, wait: 1s, ttl: 6s}\n", 2, "bad.yaml:1:27:", ""),
    "list for a text": ("agent: [a]\n", 2, "bad.yaml:1:8: 'agent' is a list", ""),
    "text for a map": ("workspace: /work\n", 2, "bad.yaml:1:12:", ""),
    "map for a list": ("workspace: {exclude: {a: b}}\n", 2, "bad.yaml:1:22:", "write a list"),
    "yes": ("backend: {read_only_root: yes}\n", 2, "'yes' where true or false is needed", "write true or false"),
    "no": ("workspace: {projection: {source: ./w}, entries: {d: {type: bind_mount, host_path: /x, read_only: no}}}\n",
           2, "'no' where true or false is needed", "write true or false"),
    "on in quotes": ("backend: {read_only_root: 'on'}\n", 2, "bad.yaml:1:27:", "without quotes"),
    "a tab": ("backend:\n\ttype: bubblewrap\n", 2, "bad.yaml:", ""),
    "an alias of nothing": ("agent: *a\n", 2, "bad.yaml:1:", ""),
    "an alias of itself": ("a: &a [*a]\n", 2, "bad.yaml:1:", ""),
    "a bomb": (BOMB, 2, "bad.yaml:", "more than 50000 values"),
    "merge key": ("backend: {<<: {type: bubblewrap}}\n", 2, "bad.yaml:1:11: unknown key '<<'", ""),
    "deep": ("agent: " + "[" * 20000 + "]" * 20000 + "\n", 2, "bad.yaml:1:", ""),
    "huge": ("# " + "x" * (1 << 20) + "\n", 2, "bad.yaml:", "1048576"),
    "not UTF-8": (b"agent: a\nuser: \xff\xfe\n", 2, "bad.yaml:2:1: this line is not UTF-8", ""),
    "UTF-16": ("agent: a\n".encode("utf-16"), 2, "bad.yaml:1:", ""),
    "binary": (bytes(range(256)), 2, "bad.yaml:1:", ""),
    "a NUL": (b"agent: a\0b\n", 2, "bad.yaml:1:9: a control byte (0x00)", ""),
    "version 2": ("version: 2\n", 2, "bad.yaml:1:10: profile version 2", "this program reads version 1"),
    "version 0": ("version: 0\n", 2, "bad.yaml:1:10:", ""),
    "version in words": ("version: one\n", 2, "bad.yaml:1:10:", ""),
    "a list": ("- agent: a\n", 2, "bad.yaml:1:1: the profile is a list", ""),
    "a text": ("agent\n", 2, "bad.yaml:1:1:", ""),
    "two documents": ("agent: a\n---\nagent: b\n", 2, "bad.yaml:2:1:", ""),
    "cut": ("backend: {type: bubblewrap, \n", 2, "bad.yaml:2:1:", ""),
    "no value": ("agent:\n", 2, "bad.yaml:1:1: 'agent' has no value", ""),
    "empty agent": ("agent: ''\n", 2, "bad.yaml:1:8: 'agent' is empty", ""),
    "duration without a unit": ("idle_timeout: 15\n", 2, "bad.yaml:1:15: 'idle_timeout'", "such as 500ms"),
    "ttl out of range": ("lock: {ttl: 1ms}\n", 2, "bad.yaml:1:13: 'lock.ttl' is 1ms", ""),
    "wait of centuries": ("lock: {wait: 99999999h}\n", 2, "bad.yaml:1:14: 'lock.wait'", "such as 500ms"),
    "size without a unit": ("backend: {memory: 512}\n", 2, "bad.yaml:1:19:", "such as 64KiB"),
    "size beyond numbers": ("backend: {memory: 99999999999TiB}\n", 2, "bad.yaml:1:19:", "such as 64KiB"),
    "pids in octal": ("backend: {pids: 010}\n", 2, "bad.yaml:1:17:", ""),
    "no backend": ("backend: {type: bubblewarp}\n", 2, "bad.yaml:1:17:", "did you mean 'bubblewrap'?"),
    "no store": ("state: 'sqlight:'\n", 2, "bad.yaml:1:8:", ""),
    "state in a store without state": ("state: 'local:/x'\n", 2, "bad.yaml:1:8:", ""),
    "root of all": ("workspace: {root: /}\n", 2, "bad.yaml:1:19:", ""),
    "variable not set": ("workspace: {environment: {A: '${NO_SUCH_VARIABLE}'}}\n", 2, "bad.yaml:1:30:",
                         "NO_SUCH_VARIABLE"),
    "a secret": ("snapshots: {store: 's3://user:secret@bucket'}\n", 2, "bad.yaml:1:20:", ""),
    "an unknown option of a store": ("state: 'sqlite:?jurnal=wal'\n", 2, "jurnal", ""),
}
# A setting, what the error says.
SETTINGS = [
    ("releas=keep", "--set releas", "did you mean 'release'?"),
    ("release=stopp", "--set release", "did you mean 'stop'?"),
    ("release", "'release' is not KEY=VALUE", ""),
    ("=keep", "'=keep' is not KEY=VALUE", ""),
    ("lock.ttl=1", "--set lock.ttl", "such as 500ms"),
    ("lock.ttl=[1s", "--set lock.ttl", ""),
    ("backend=bubblewrap", "--set backend", ""),
    ("backend.memory=12", "--set backend.memory", "such as 64KiB"),
    ("workspace.exclude=*.o", "--set workspace.exclude", ""),
    ("workspace.root=work", "--set workspace.root", ""),
    ("version=2", "--set version", ""),
    ("agent.name=x", "--set agent.name", ""),
    ("backend.read_only_root=yes", "--set backend.read_only_root", "true or false"),
]
ENVIRONMENT = [("ASCOPE_SCOPE", "everybody"), ("ASCOPE_LOCK_TTL", "1"), ("ASCOPE_RELEASE", "stopp"),
               ("ASCOPE_BACKEND_TYPE", "bubblewarp"), ("ASCOPE_LOG", "no=such=level")]
# Bytes that are good ids, whatever they look like.
ODD_IDS = [b"..", b".", b"/", b"a/b", b"../../etc/passwd", b"%2F", b"%", b" ", b"a b", b"-x", b"~", b"@", b"a@latest",
           b":", b"'; DROP TABLE x; --", b"\xc3\xa4\xe2\x82\xac", b"\xff\xfe", b"\x01\x1b[31m\x7f", b"a\nb", b"x" * 1024,
           b"/" * 1024, b"\xff" * 1024, b"CON", b"*", b"\xef\xbb\xbf", b"a\\b", b"$HOME", b"NUL", b"\xe2\x80\xae"]
BAD_SLOTS = ["", "user", "user/a", "user/a/b/c", "nobody/x", "session", "session/", "session//", "/", "global/x", "agent/",
             "session/%", "session/%G1", "session/%2", "user//b", "user/a/", "SESSION/x", " session/x", "session/%00",
             "session/" + "x" * 5000]


class ProfileTest(BadInputTest):
    def test_bad_profiles(self):
        for name, (text, code, says, hint) in PROFILES.items():
            with self.subTest(name):
                self.place.write("bad.yaml", text)
                self.refused(["run", "--profile", "bad.yaml", "--", "true"], code, says, hint="", twice=False)
                done = self.refused(["explain", "--profile", "bad.yaml"], code, says, hint="")
                self.assertIn(hint, done.errors)
                self.assertNotIn("secret", done.errors)
                self.unchanged(name)
        self.restores()

    def test_a_profile_that_is_found_is_as_strict(self):
        for name in ("duplicate key", "yes", "not UTF-8", "version 2", "cut"):
            with self.subTest(name):
                text, code, says, _ = PROFILES[name]
                self.place.write("ascope.yaml", text)
                self.refused(["explain"], code, says.replace("bad.yaml", "ascope.yaml"), hint="")
                os.unlink(self.place.path("ascope.yaml"))
        self.unchanged("found profiles")

    def test_profiles_that_are_no_files(self):
        os.mkdir(self.place.path("folder"))
        os.symlink("loop", self.place.path("loop"))
        for name, code in (("missing.yaml", 2), ("folder", 2), ("loop", 15), ("a\nb", 2), ("x" * 300, 15)):
            with self.subTest(name):
                self.refused(["explain", "--profile", name], code, name[:8].partition("\n")[0])
        self.unchanged("no files")

    def test_an_empty_profile_is_the_built_in_one(self):
        for text in ("", "\n", "# nothing\n", "---\n", "{}\n", "version: 1\n", "null\n"):
            with self.subTest(text):
                self.place.write("empty.yaml", text)
                self.place.ok("explain", "--profile", "empty.yaml")

    def test_settings(self):
        for setting, says, hint in SETTINGS:
            with self.subTest(setting):
                done = self.refused(["explain", "--set", os.fsencode(setting)], 2, says, hint="", twice=False)
                self.assertIn(hint, done.errors)
                self.refused(["run", "--set", os.fsencode(setting), "--", "true"], 2, hint="")
        self.unchanged("settings")

    def test_environment(self):
        for name, value in ENVIRONMENT:
            with self.subTest(name):
                self.refused(["explain"], 2, name, hint="", env={name: value})
                self.refused(["run", "--", "true"], 2, hint="", env={name: value})
        self.unchanged("environment")
        self.restores()

    def test_environment_files(self):
        rows = {"no equals sign": "A=1\nB\n", "no name": "=x\n", "a NUL": "A=\0\n", "a name with a NUL": "A\0B=1\n"}
        for name, text in rows.items():
            with self.subTest(name):
                self.place.write("vars", text)
                self.refused(["run", "--env-file", "vars", "--", "true"], 2, "vars:")
        self.refused(["run", "--env-file", "missing", "--", "true"], 4, "missing")
        self.refused(["run", "-e", "NO_SUCH_VARIABLE", "--", "true"], 2, "NO_SUCH_VARIABLE")
        self.refused(["run", "-e", "=x", "--", "true"], 2, "-e")
        self.unchanged("environment files")


class IdTest(BadInputTest):
    def test_odd_ids_are_ids(self):
        stores = ["sqlite:" + self.place.path("ids.db"), "json:" + self.place.path("ids")]
        for store in stores:
            at = ("--set", "state=" + store, "--set", "lock.store=none")
            for number, odd in enumerate(ODD_IDS):
                with self.subTest(store=store[:4], id=odd):
                    self.place.ok("create", "--user", odd, *at)
                    shown = self.place.ok("show", "--user", odd, "-o", "json", *at).json()
                    again = self.place.ok("show", shown["slot"], "-o", "json", *at).json()
                    self.assertEqual(again["document"], shown["document"])
                    self.check(self.place.run("create", "--user", odd, *at), 6)
                    listed = self.place.ok("ls", "-o", "name", "-0", *at).out.split(b"\0")[:-1]
                    self.assertEqual(len(listed), number + 1)
                    self.assertIn(shown["slot"].encode(), listed)
                    text = self.place.ok("ls", *at).text
                    self.assertEqual(text.count("\n"), number + 2)
                    self.assertNotIn("\x1b", text)
        self.assertEqual({name for name in os.listdir(self.place.cwd) if not name.startswith("ids")}, set())
        self.unchanged("ids")

    def test_bad_ids(self):
        for option in ("agent", "user", "session"):
            with self.subTest(option):
                self.refused(["explain", f"--{option}", "x" * 5000], 2, option, "5000", hint="")
                self.refused(["explain", f"--{option}", ""], 2, f"--{option}")
        self.refused(["explain", "--scope", "user", "--user", "a", "session/x"], 2, "given twice", hint="one of the two")
        self.unchanged("ids")

    def test_bad_slots(self):
        for slot in BAD_SLOTS:
            for argv in (["show", slot], ["run", slot, "--", "true"], ["lock", "acquire", slot]):
                with self.subTest(argv=argv):
                    self.refused(argv, 2, hint="" if len(slot) > 4000 else None, twice=argv[0] == "show")
        self.refused(["show", b"nobody/\x1b[31m\xff"], 2, "nobody/\\x1b[31m\\xff", twice=False)
        self.unchanged("slots")
        self.restores()


class SnapshotNameTest(BadInputTest):
    def test_names_that_name_nothing(self):
        rows = [("latest~", 2), ("latest~x", 2), ("latest~-1", 2), ("latest-1", 4), ("latest~1.0", 2),
                ("latest~99999999999", 2), ("latest~1", 4), ("latest~999", 4), ("", 2), ("nope", 4), ("ffffffff", 4),
                ("x" * 5000, 4), ("..", 4), ("../../f", 4), ("-", 4), ("a/b", 4), ("LATEST", 4), ("\x01\x1b[0m", 4),
                (b"\xff", 4), ("session/none@latest", 4), ("nobody@latest", 2), ("@latest", 2), ("@", 2),
                ("session/default@", 2), ("session/default@nope", 4)]
        for name, code in rows:
            for command in (["snapshot", "show"], ["restore"], ["snapshot", "rm", "--yes"]):
                with self.subTest(name=name, command=command):
                    self.refused([*command, name], code,
                                 hint="" if command[-1] == "--yes" else None, twice=command[-1] == "show")
        for command in (["snapshot", "cat", "nope", "f"], ["snapshot", "find", "nope", "*"], ["snapshot", "diff", "nope"],
                        ["snapshot", "export", "nope", "x.tar"], ["snapshot", "tag", "nope", "v1"],
                        ["snapshot", "check", "nope"], ["restore", "nope", "--to", self.place.path("to")],
                        ["restore", "nope", "--into", "session/fork"], ["restore", "latest~3", "f"]):
            with self.subTest(command):
                self.refused(command, 4, "nope" if "nope" in command else "latest~3")
        self.unchanged("names", traces=False)
        self.assertEqual(os.listdir(self.place.cwd), [])
        self.assertEqual(self.place.run("show", "session/fork").code, 4)
        self.restores()

    def test_a_prefix_of_two(self):
        store = self.place.program_state("snapshots")
        for number in (1, 2):
            with open(os.path.join(store, f"abcd{number}.tar"), "wb") as file:
                file.write(seed_tar())
            self.place.ok("adopt", f"session/s{number}", "--snapshot", f"abcd{number}")
            self.place.ok("restore", f"session/s{number}@abcd{number}", "--into", "session/both")
        for name in ("abcd", "session/both@abcd"):
            self.refused(["--session", "both", "--scope", "session", "snapshot", "show", name]
                         if "@" not in name else ["snapshot", "show", name], 2, "'abcd' begins 2 snapshots", hint="abcd")
        self.place.ok("snapshot", "show", "session/both@abcd1")
        self.place.ok("snapshot", "rm", "session/both@abcd1", "--yes")
        self.place.ok("snapshot", "show", "session/both@abcd")


if __name__ == "__main__":
    unittest.main()
