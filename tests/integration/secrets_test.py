# SPDX-License-Identifier: Apache-2.0
"""A secret that a profile takes from the environment, or a command from a file: it is in the command's environment
inside, and nowhere else: no output, log, receipt, state, snapshot, file or command line has it."""
import base64
import contextlib
import json
import os
import secrets
import subprocess
import sys
import unittest
import urllib.parse

import harness

SLOT = "session/secret"
PROFILE = """version: 1
workspace:
  environment:
    API_TOKEN: ${TEST_TOKEN}
    HEADER: "Bearer ${TEST_TOKEN}"
    PLAIN: visible
  entries:
    note.txt: {type: file, content: "no secret\\n"}
"""


class SecretsTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)
        # Each way in has a secret of its own; the marks are such that escaping and encoding would show.
        self.profile, self.file, self.passed, self.option, self.password = (
            f"{name}-{secrets.token_hex(8)}/+%&=?@:{name}" for name in ("prof", "file", "pass", "opt", "pw"))
        self.all = (self.profile, self.file, self.passed, self.option, self.password)
        self.env = {"TEST_TOKEN": self.profile, "TEST_PASSED": self.passed, "TEST_OPTION": self.option,
                    "TEST_PASSWORD": self.password}
        self.env_file = os.path.join(self.place.home, "env")
        with open(self.env_file, "w", encoding="ascii") as out:
            out.write(f"# for the test\nFROM_FILE={self.file}\n")
        self.place.write("ascope.yaml", PROFILE)
        self.place.ok("profile", "trust", env=self.env)
        self.given = ("--env-file", self.env_file, "-e", "TEST_PASSED")
        self.outputs = []

    def call(self, *args, env=None, codes=(0,), **options):
        done = self.place.run(*args, env={**self.env, **(env or {})}, **options)
        if codes is not None:
            self.assertIn(done.code, codes, done)
        self.outputs.append((" ".join(args), done.out + done.err))
        return done

    # ---- looking for them

    def forms(self, secret):
        raw = secret.encode()
        yield raw
        yield urllib.parse.quote(secret, safe="").encode()
        yield json.dumps(secret)[1:-1].encode()
        yield raw.hex().encode()
        for lead in range(3):  # Base64 of it behind any number of other bytes
            text = base64.b64encode(b"x" * lead + raw)
            yield text[4:-4]
        yield raw[:20]  # the random part is enough to know it by

    def find(self, data):
        return [secret for secret in self.all if any(form in data for form in self.forms(secret))]

    def assertClean(self, name, data):
        self.assertEqual(self.find(data), [], f"{name} has a secret: {data[:3000]!r}")

    def assertNowhere(self):
        for name, data in self.outputs:
            self.assertClean(name, data)
        for top, _, files in os.walk(self.place.root):
            for name in files:
                path = os.path.join(top, name)
                if path == self.env_file:
                    continue
                self.assertClean("the name", os.fsencode(path))
                with contextlib.suppress(FileNotFoundError):
                    if os.path.isfile(path) and not os.path.islink(path):
                        with open(path, "rb") as file:
                            self.assertClean(path, file.read())

    def assertProcessesClean(self):
        seen = 0
        for pid in self.place.processes():
            for name in ("cmdline", "environ", "comm"):
                try:
                    with open(f"/proc/{pid}/{name}", "rb") as file:
                        data = file.read()
                except OSError:
                    continue
                ours = b"/run/ascope/guest" in self.cmdline(pid) or b"bwrap" in self.cmdline(pid)
                if name != "environ" or ours:
                    self.assertClean(f"/proc/{pid}/{name}", data)
                    seen += ours
        return seen

    @staticmethod
    def cmdline(pid):
        try:
            with open(f"/proc/{pid}/cmdline", "rb") as file:
                return file.read()
        except OSError:
            return b""

    # ---- the tests

    def test_the_command_has_them(self):
        script = 'printf "%s|" "$API_TOKEN" "$HEADER" "$FROM_FILE" "$TEST_PASSED" "$PLAIN"'
        for command in ("run", "exec"):
            done = self.place.ok(command, *self.given, SLOT, "--", "sh", "-c", script, env=self.env)
            self.assertEqual(done.text, f"{self.profile}|Bearer {self.profile}|{self.file}|{self.passed}|visible|")

    def test_a_changed_one_is_the_next_commands(self):
        self.place.ok("start", SLOT, env=self.env)
        for value in ("first", "second"):
            for command in ("exec", "run"):
                done = self.place.ok(command, SLOT, "--", "sh", "-c", 'echo "$API_TOKEN"', env={**self.env, "TEST_TOKEN": value})
                self.assertEqual(done.text, value + "\n")
        done = self.place.ok("exec", "-e", "API_TOKEN=own", SLOT, "--", "sh", "-c", 'echo "$API_TOKEN"', env=self.env)
        self.assertEqual(done.text, "own\n")

    def test_no_command_tells_them(self):
        for form in (("-v", "-v"), ("-o", "json"), ("-v", "-v", "-o", "jsonl", "--log-format", "json", "--progress", "json")):
            self.everything(*form)
            self.assertNowhere()
        for word in (b"Branch A", b'"schema"', b'"error"'):
            self.assertTrue(any(word in data for _, data in self.outputs), f"no output with {word} was looked at")

    def everything(self, *form):
        work = ("sh", "-c", 'test -n "$API_TOKEN" && test -n "$FROM_FILE" && echo x >> f')
        status = ("--status-file", self.place.path("status"))
        two = "session/two"
        export = self.place.path("out.tar")
        self.call("explain", SLOT, *form)
        self.call("create", SLOT, *form, "--if-missing")
        self.call("start", SLOT, *form, *status)
        self.call("exec", SLOT, *form, *status, *self.given, "--", *work)
        self.call("run", SLOT, *form, *status, *self.given, "--tag", "t", "--", *work)
        self.call("run", SLOT, *form, *status, *self.given, "--timeout", "100ms", "--", "sleep", "30", codes=(124,))
        self.call("snapshot", SLOT, *form)
        self.call("snapshot", "ls", SLOT, *form)
        for look in (["show"], ["stats"], ["check"]):
            self.call("snapshot", *look, SLOT + "@latest" if look != ["stats"] else SLOT, *form)
        self.call("snapshot", "find", SLOT + "@latest", "*", *form)
        self.call("snapshot", "cat", SLOT + "@latest", "f", *form)
        self.call("snapshot", "diff", SLOT + "@latest", *form, codes=(0, 1))
        self.call("snapshot", "export", SLOT + "@latest", export, "--force", *form)
        self.call("snapshot", "import", export, two, *form, codes=None)
        self.call("cp", SLOT + ":f", "./copied", *form)
        self.call("project", "status", SLOT, *form, codes=(13,))
        for look in ("show", "history", "why"):
            self.call(look, SLOT, *form)
        self.call("ls", *form)
        self.call("state", "export", SLOT, *form)
        self.call("state", "export", "--raw", SLOT, *form)
        self.call("lock", "ls", *form)
        self.call("lock", "run", SLOT, *form, "--", "true")
        self.call("restore", SLOT + "@latest", "--yes", *form)
        self.call("undo", SLOT, "--yes", *form, codes=(0, 4))
        self.call("start", SLOT, *form, "--set", "backend.network=host")  # another setting: the sandbox is made anew
        self.call("stop", SLOT, *form)
        self.call("rm", SLOT, *form)
        self.call("run", SLOT, *form, *self.given, "--", *work)
        self.call("gc", "--yes", *form, "--set", "snapshots.keep={last: 1}")
        self.call("adopt", SLOT, *form, codes=(6,))
        self.call("doctor", *form, codes=(0, 1))
        for look in (["show"], ["show", "--origin"], ["validate"]):
            self.call("profile", *look, *form)
        # Failures of each kind.
        self.call("run", SLOT, *form, *status, *self.given, "--", "no-such-program", codes=(127,))
        self.call("run", SLOT, *form, *status, *self.given, "--as", "nobody-here", "--", "true", codes=(125,))
        self.call("run", SLOT, *form, *status, *self.given, "--", *work, codes=(125,), env={"ASCOPE_TEST_FAULT": "fail:before-objects"})
        self.call("start", SLOT, *form, "--expect", "D", codes=(7,))
        self.call("rm", "--purge", "--yes", SLOT, *form)
        self.call("rm", "--purge", "--yes", two, *form, codes=None)

    def test_a_bad_environment_file_is_not_quoted(self):
        secret = self.file.replace("=", "_")
        self.place.write("bad", f"GOOD=1\n{secret}\n")
        self.all = (secret, )
        for form in ("text", "json"):
            done = self.call("run", SLOT, "-o", form, "--env-file", "bad", "--", "true", codes=(125,))
            self.assertIn("bad:2", done.errors)
        os.unlink(self.place.path("bad"))
        self.assertNowhere()

    def test_passwords_and_options_of_providers(self):
        profiles = {"redis": "state: \"redis://agent:${TEST_PASSWORD}@127.0.0.1:1/0?prefix=p\"\nlock: {store: none}\n",
                    "all": "distributed: \"redis://:${TEST_PASSWORD}@127.0.0.1:1/0\"\n",
                    "snapshots": "snapshots: {store: \"s3://bucket/p?endpoint=http://127.0.0.1:1&secret_key=${TEST_PASSWORD}\"}\n",
                    "options": "backend: {options: {token: \"${TEST_OPTION}\", mode: fast}}\n"}
        for name, text in profiles.items():
            path = self.place.write(name + ".yaml", "version: 1\n" + text)
            with self.subTest(name):
                for form in (("-o", "text"), ("-o", "json"), ("-v", "-v")):
                    for command in (["profile", "validate", path], ["--profile", path, "profile", "show"],
                                    ["--profile", path, "profile", "show", "--origin"], ["--profile", path, "start", SLOT],
                                    ["--profile", path, "explain", SLOT], ["--profile", path, "doctor"],
                                    ["--profile", path, "ls"], ["--profile", path, "gc", "--yes"],
                                    ["--profile", path, "run", SLOT, "--", "true"]):
                        at = command.index("--") if "--" in command else len(command)
                        done = self.call(*command[:at], *form, *command[at:], codes=None)
                        self.assertNotEqual(done.code, 70, done)
                self.assertNowhere()
        shown = self.call("--profile", self.place.path("options.yaml"), "profile", "show", codes=None).text
        self.assertNotIn(self.option, shown)

    def test_a_password_that_is_written_out_is_refused_and_not_repeated(self):
        for url in ("redis://:{}@h", "redis://user:{}@h:6379/0", "mysql://u:{}@h/db", "redis//:{}@h", "redi://u:{}@h",
                    "postgresql://u:{}@h/db?x", "redis://h?password={}"):
            password = "hunter" + secrets.token_hex(8)
            self.all = (password,)
            with self.subTest(url):
                path = self.place.write("literal.yaml", "version: 1\nstate: \"" + url.format(password) + "\"\n")
                for form in ("text", "json"):
                    for source in (("--profile", path), ("--set", "state=" + url.format(password))):
                        for command in (["profile", "validate"], ["profile", "show"], ["ls"], ["doctor"]):
                            done = self.call(*source, *command, "-o", form, codes=None)
                            self.assertIn(done.code, (1, 2, 13) if command == ["doctor"] else (2, ), done)
                    self.call("ls", "-o", form, env={"ASCOPE_STATE": url.format(password)}, codes=(2,))
                os.unlink(path)
                # The command line that gave it is the caller's own; our words about it are not.
                for name, data in self.outputs:
                    self.assertClean(name.replace(password, "…"), data)
                self.outputs.clear()

    def test_command_lines_and_environments_of_our_processes(self):
        child = self.place.popen("run", "-i", *self.given, SLOT, "--", "sh", "-c", "echo ready; read x",
                                 env=self.env, stdin=subprocess.PIPE)
        self.assertEqual(child.stdout.readline(), b"ready\n")
        held = self.place.ok("lock", "ls", "-o", "json", env=self.env).json()
        self.assertEqual(len(held["leases"]), 1)
        self.assertClean("lock ls", json.dumps(held).encode())
        self.assertGreater(self.assertProcessesClean(), 1)
        child.communicate(b"go\n", timeout=60)
        self.assertNowhere()

    def test_a_value_on_our_own_command_line_is_not_kept(self):
        """It was in /proc for as long as the command ran; that is no reason to keep it in a database."""
        values = ("-e", "A=" + self.passed, "--env=B=" + self.file, "-eC=" + self.profile)
        self.place.ok("run", *values, SLOT, "--", "sh", "-c", 'test -n "$A" && test -n "$B" && test -n "$C"', env=self.env)
        held = self.place.popen("run", *values, SLOT, "--", "sh", "-c", "echo ready; exec sleep 30", env=self.env)
        self.assertEqual(held.stdout.readline(), b"ready\n")
        shown = self.place.ok("lock", "ls", "-o", "json", env=self.env)
        self.assertIn("A=********", shown.text)
        self.assertClean("lock ls", shown.out)
        held.kill()
        held.communicate(timeout=60)
        self.assertNowhere()


if __name__ == "__main__":
    sys.exit(unittest.main())
