# SPDX-License-Identifier: Apache-2.0
"""man/, completions/ and schema/ are what the declarations give, and what their readers take."""
import os
import re
import subprocess
import unittest

import harness

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BY_HAND = {"ascope-docker.5", "ascope-snapshot.5"}


def contents(folder):
    found = {}
    for name in os.listdir(folder):
        if name != "meson.build":
            with open(os.path.join(folder, name), encoding="utf-8") as file:
                found[name] = file.read()
    return found


class Generated(harness.CliTest):
    def check_current(self, what):
        folder = self.place.path(what)
        os.mkdir(folder)
        self.place.ok("__dump", what, folder)
        new, old = contents(folder), contents(os.path.join(SOURCE, what))
        for name in BY_HAND:
            old.pop(name, None)
        hint = f"run: build/ascope-sandbox __dump {what} {what}"
        self.assertEqual(sorted(new), sorted(old), hint)
        for name, content in new.items():
            self.assertEqual(old[name], content, f"{what}/{name}: {hint}")

    def test_manual_is_current(self):
        self.check_current("man")

    def test_completions_are_current(self):
        self.check_current("completions")

    def test_schema_is_current(self):
        self.check_current("schema")

    def test_unknown_kind_is_refused(self):
        self.check(self.place.run("__dump", "nonesuch", self.place.cwd), 2)


class Manual(harness.CliTest):
    def test_lint(self):
        harness.need_program("mandoc")
        folder = os.path.join(SOURCE, "man")
        pages = [os.path.join(folder, name) for name in sorted(contents(folder))]
        done = subprocess.run(["mandoc", "-T", "lint"] + pages, capture_output=True, check=False)
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, b""))

    def test_every_command_has_a_page(self):
        pages = contents(os.path.join(SOURCE, "man"))
        commands = re.findall(r"^  ([a-z]+(?: [a-z]+)?) {2,}", self.place.ok("--help").text, re.M)
        self.assertGreater(len(commands), 10)
        for command in commands:
            self.assertIn("ascope-sandbox-" + command.replace(" ", "-") + ".1", pages)

    def test_no_reference_leads_nowhere(self):
        pages = contents(os.path.join(SOURCE, "man"))
        for name, text in pages.items():
            for target, section in re.findall(r"^\.BR (ascope\S+) \((\d)\)", text, re.M):
                self.assertIn(target.replace("\\-", "-") + "." + section, pages, name)


class Completion(harness.CliTest):
    """The scripts, in their shells, beside a program whose names are known."""

    ROWS = [
        # (words typed, the last being completed; an offer that must be there; one that must not)
        (["sta"], "start", "stop"),
        (["snapshot", "l"], "ls", "start"),
        (["show", ""], "user/a/b", "abc123"),
        (["snapshot", "show", ""], "abc123", "start"),
        (["--scope", ""], "session", "start"),
        (["--agent", "start", "sto"], "stop", "start"),
        (["run", "--rele"], "--release", "--expect"),
        (["run", "--release", ""], "destroy", "--expect"),
    ]

    def setUp(self):
        super().setUp()
        self.bin = self.place.path("bin")
        os.mkdir(self.bin)
        stub = self.place.write("bin/ascope-sandbox", "#!/bin/sh\ncase $1 in\n  ls) printf 'user/a/b\\nglobal\\n' ;;\n"
                                "  snapshot) printf 'abc123\\n' ;;\nesac\n", 0o755)
        self.assertTrue(os.access(stub, os.X_OK))
        self.env = {"PATH": self.bin + ":" + self.place.env()["PATH"]}

    def script(self, shell):
        return self.place.ok("completion", shell).text

    def test_installed_scripts_are_those_of_the_command(self):
        for shell, name in (("bash", "ascope-sandbox.bash"), ("zsh", "_ascope-sandbox"), ("fish", "ascope-sandbox.fish")):
            self.assertEqual(self.script(shell), contents(os.path.join(SOURCE, "completions"))[name])

    def test_bash(self):
        harness.need_program("bash")
        path = self.place.write("complete.sh", self.script("bash") +
                                "COMP_WORDS=(ascope-sandbox \"$@\"); COMP_CWORD=$#; _ascope_sandbox\n"
                                "printf '%s\\n' \"${COMPREPLY[@]}\"\n")
        for words, wanted, unwanted in self.ROWS:
            with self.subTest(words=words):
                done = self.place.call(["bash", path] + words, env=self.env)
                offers = done.text.split()
                self.assertIn(wanted, offers, done)
                self.assertNotIn(unwanted, offers, done)

    def test_bash_leaves_the_users_command_alone(self):
        harness.need_program("bash")
        path = self.place.write("complete.sh", self.script("bash") +
                                "COMP_WORDS=(ascope-sandbox run -- --rele); COMP_CWORD=3; _ascope_sandbox\n"
                                "printf '%s\\n' \"${COMPREPLY[@]}\"\n")
        self.assertEqual(self.place.call(["bash", path], env=self.env).text.split(), [])

    def test_fish(self):
        harness.need_program("fish")
        path = self.place.write("complete.fish", self.script("fish") + "complete -C \"$argv[1]\"\n")
        for words, wanted, unwanted in self.ROWS:
            with self.subTest(words=words):
                done = self.place.call(["fish", path, "ascope-sandbox " + " ".join(words)], env=self.env)
                offers = [line.split("\t")[0] for line in done.text.splitlines()]
                self.assertIn(wanted, offers, done)
                self.assertNotIn(unwanted, offers, done)

    def test_zsh_reads_its_script(self):
        harness.need_program("zsh")
        path = self.place.write("_ascope-sandbox", self.script("zsh"))
        self.check(self.place.call(["zsh", "-n", path]))


if __name__ == "__main__":
    unittest.main()
