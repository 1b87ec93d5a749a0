# SPDX-License-Identifier: Apache-2.0
"""Every command with an unknown option, a surplus argument, a missing one; every option without a value, with an empty
one and with a wrong one: exit code 2 (125 before a command of the user's), an error that names the place, and nothing
done. The commands and options are those that --help names."""
import os
import re
import sys
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402
from bad_input import BadInputTest, RUNS_A_COMMAND  # noqa: E402

OPTION = re.compile(r"^  (?:-(\w), |    )--([a-z-]+)(?: (\S+))?")
# Arguments that would be good, so that what is wrong in a row is the one thing.
GOOD = {"SNAPSHOT": "latest", "SNAPSHOT2": "latest", "FILE": "no-such-file", "DIR": "./no-such-folder", "PATH": "f",
        "GLOB": "*", "NAME": "v1", "SOURCE": ":f", "TARGET": "./out", "SLOT": "session/default", "N": "5",
        "bash|zsh|fish": "bash"}
BAD_DURATIONS = ["5", "-1s", "1y", "1e3s", "1.5s", "99999999999h", "4000000000d", " 1s", "1s ", "s", "1sm", "\u0661s"]
BAD_SIZES = ["-1", "1.5MiB", "10X", "0x10", " 5", "99999999999999999999", "20000000TiB", "KiB", "1 KiB"]
BAD_COUNTS = ["-1", "1KiB", "1.5", "x", "0x10", " 5", "99999999999999999999", "+3"]


class Declared:
    """One command as its help declares it."""

    def __init__(self, place, name):
        self.name, text = name, place.ok(*name.split(), "--help").text
        usage = text.split("\n\n", 1)[0].split("ascope-sandbox " + name, 1)[1]
        self.takes_argv = "ARGV" in usage
        words = usage.replace("[options]", "").replace("-- ARGV…", "").split()
        self.required = [word.rstrip("…") for word in words if not word.startswith("[")]
        self.optional = [word.strip("[]…") for word in words if word.startswith("[")]
        self.open_ended = "…" in " ".join(words)
        self.options = options_in(text.partition("\nOptions:\n")[2].partition("\n\n")[0])

    def argv(self, *options, arguments=None, separator=True):
        """A good call but for what is given."""
        arguments = [GOOD[name] for name in self.required] if arguments is None else arguments
        return [*self.name.split(), *arguments, *options] + (["--", "true"] if self.takes_argv and separator else [])


def options_in(text):
    """{name: value name or None}"""
    return {match[2]: match[3] for match in map(OPTION.match, text.splitlines()) if match}


class CommandLineTest(BadInputTest):
    def setUp(self):
        super().setUp()
        text = self.place.ok("--help").text
        names = re.findall(r"^  ([a-z]+(?: [a-z]+)?)(?: {2,}|$)", text.partition("\nOptions of every")[0], re.M)
        self.commands = [Declared(self.place, name) for name in names]
        self.globals = options_in(text.partition("\nOptions of every command:\n")[2])
        self.assertGreater(len(self.commands), 45)
        self.assertGreater(len(self.globals), 15)

    def each(self, rows):
        """Runs (command, argv, says…) rows; the slot is looked at after each command's."""
        count = 0
        for command, argv, *says in rows:
            with self.subTest(argv=argv):
                self.refused(argv, 2, *says)
                count += 1
        self.unchanged("a refused command line")
        self.restores()
        return count

    def valued(self):
        """(command, option, its value's name) of every option that takes one; the global ones at one command."""
        for command in self.commands:
            for option, value in command.options.items():
                if value is not None:
                    yield command, option, value
        explain = next(command for command in self.commands if command.name == "explain")
        run = next(command for command in self.commands if command.name == "run")
        for option, value in self.globals.items():
            if value is not None and option != "output":  # -o is what the other half of each row sets
                yield explain, option, value
                yield run, option, value

    def test_the_walk_sees_every_kind(self):
        self.assertEqual({c.name for c in self.commands if c.takes_argv}, set(RUNS_A_COMMAND))
        self.assertLessEqual({"DURATION", "SIZE", "N", "FILE"}, {value for _, _, value in self.valued()})
        unknown = {name for command in self.commands for name in command.required + command.optional} - set(GOOD)
        self.assertEqual(unknown, set(), "give GOOD a value for these")

    def test_unknown_options(self):
        self.each((c, c.argv("--no-such-option"), "no-such-option") for c in self.commands)
        self.refused(["--no-such-option"], 2, "no-such-option")
        for command in self.commands:
            for option in command.options:
                if len(option) > 4:
                    wrong = "--" + option[:2] + option[3:] + "x"
                    with self.subTest(command=command.name, wrong=wrong):
                        self.refused(command.argv(wrong), 2, wrong, hint="--", twice=False)

    def test_surplus_arguments(self):
        rows = []
        for command in self.commands:
            if not command.open_ended:
                arguments = [GOOD[name] for name in command.required + command.optional] + ["surplus"]
                rows.append((command, command.argv(arguments=arguments), "surplus"))
            if not command.takes_argv:
                rows.append((command, command.argv("--", "true"), "--"))
        self.each(rows)

    def test_missing_arguments(self):
        rows = []
        for command in self.commands:
            for count in range(len(command.required)):
                arguments = [GOOD[name] for name in command.required[:count]]
                rows.append((command, command.argv(arguments=arguments), command.required[count]))
            if command.takes_argv:
                rows.append((command, command.argv(separator=False), "'--'"))
        self.assertGreater(self.each(rows), 15)

    def test_options_without_a_value(self):
        self.each((c, c.argv("--" + option), "--" + option) for c, option, _ in self.valued())

    def test_options_with_an_empty_value(self):
        self.each((c, c.argv(*form), "--" + option) for c, option, _ in self.valued()
                  for form in ([f"--{option}="], ["--" + option, ""]))

    def test_values_that_are_no_choice(self):
        self.each((c, c.argv(f"--{option}", "bogus"), "--" + option, "bogus")
                  for c, option, value in self.valued() if "|" in value)
        self.refused(["ls", "-o", "yaml"], 2, "--output", "yaml", twice=False)

    def test_durations_sizes_and_counts(self):
        kinds = {"DURATION": BAD_DURATIONS, "SIZE": BAD_SIZES, "N": BAD_COUNTS}
        self.each((c, c.argv(f"--{option}={bad}"), "--" + option, bad.strip())
                  for c, option, value in self.valued() for bad in kinds.get(value, []))

    def test_flags_take_no_value(self):
        rows = []
        for command in self.commands:
            for option, value in {**command.options, **(self.globals if command.name == "ls" else {})}.items():
                if value is None and option not in ("help", "version"):
                    rows.append((command, command.argv(f"--{option}=maybe"), "--" + option))
                    rows.append((command, command.argv(f"--{option}=false"), "--" + option))
        self.each(rows)

    def test_what_no_command_is(self):
        for argv in ([], ["--quiet"], ["no-such"], [""], ["snapshot", "no-such", "x"], ["lock"], ["state", "--help-me"],
                     ["-Z"], ["\xff\x01"], ["RUN"]):
            with self.subTest(argv=argv):
                self.refused(argv, 2)
        self.unchanged("no command")

    def test_a_word_of_the_users_is_no_command(self):
        """Words such as `run` or `json` decide nothing but where they stand as the command or the format."""
        for argv, code in ((["show", "session/run", "run"], 2), (["show", "--agent", "run", "--bogus"], 2),
                           (["snapshot", "cat", "exec"], 2), (["cp", "run"], 2)):
            with self.subTest(argv=argv):
                self.assertEqual(self.place.run(*argv).code, code)
        done = self.place.run("show", "--bogus", "--agent", "-ojson")
        self.assertEqual(done.code, 2, done)

    def test_the_status_file_has_the_code_that_125_hides(self):
        for name, argv in (("usage", ["exec", "--bogus", "--", "true"]), ("no command", ["run"]),
                           ("value", ["run", "--timeout", "5", "--", "true"]),
                           ("profile", ["run", "--set", "releas=keep", "--", "true"])):
            for form in (["--status-file", "status"], ["--status-file=status"]):
                with self.subTest(name, form=form):
                    done = self.place.run(*form, *argv)
                    self.assertEqual(done.code, 125, done)
                    with open(self.place.path("status"), "rb") as file:
                        error = harness.json.loads(file.read())["error"]
                    self.assertEqual(error["exit_code"], 2, done)
                    os.unlink(self.place.path("status"))


if __name__ == "__main__":
    unittest.main()
