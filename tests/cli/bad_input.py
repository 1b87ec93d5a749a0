# SPDX-License-Identifier: Apache-2.0
"""What the tests of bad input share: a slot with one snapshot that no row may change, and the form of an error."""
import json
import os

import harness

KINDS = {2: ("usage", "config"), 3: ("partial",), 4: ("not_found",), 5: ("busy",), 6: ("conflict",), 7: ("refused",),
         8: ("corrupt",), 9: ("backend_unavailable",), 10: ("store_unavailable",), 11: ("denied",),
         12: ("incomplete",), 13: ("unsupported",), 14: ("timeout",), 15: ("io",)}
RUNS_A_COMMAND = ("exec", "run", "lock run")
CONTENT = "saved work\n"
# What a command that failed under the lease may change of a slot: who tried, and when.
TRACES = ("revision", "fence", "last_receipt")


def runs_a_command(argv):
    words = [word for word in argv if not word.startswith("-")]
    return words[:1] in (["exec"], ["run"]) or words[:2] == ["lock", "run"]


class BadInputTest(harness.CliTest):
    """Each test has a slot whose head holds one file. Without a sandbox unless `with_sandbox`."""

    with_sandbox = False
    slot = "session/default"

    def setUp(self):
        super().setUp()
        if self.with_sandbox:
            harness.need_sandbox(self.place)
            self.place.ok("run", "-q", "--", "sh", "-c", f"printf '{CONTENT}' > f")
        else:
            archive = self.place.write("seed.tar", seed_tar())
            self.place.ok("snapshot", "import", archive, self.slot)
            os.unlink(archive)
        self.before = self.slot_now()

    def slot_now(self, traces=True):
        shown = self.place.ok("show", "-q", self.slot, "-o", "json").json()
        if not traces:
            for key in TRACES:
                shown.pop(key)
        return shown, self.place.ok("snapshot", "ls", self.slot, "-o", "json").json()

    def unchanged(self, what, traces=True):
        """The slot is as it was made; `traces`: not even a receipt was left."""
        before = self.before
        if not traces:
            before = ({key: value for key, value in before[0].items() if key not in TRACES}, before[1])
        self.assertEqual(self.slot_now(traces), before, what)

    def restores(self, what="at the end"):
        """The head comes back whole."""
        folder = self.place.path("restored")
        self.place.ok("restore", self.slot + "@latest", "--to", folder)
        self.assertEqual(os.listdir(folder), ["f"], what)
        with open(os.path.join(folder, "f"), encoding="ascii") as file:
            self.assertEqual(file.read(), CONTENT, what)
        os.unlink(os.path.join(folder, "f"))
        os.rmdir(folder)

    def refused(self, argv, code, *says, hint=None, stdin=b"", env=None, twice=True):
        """`argv` fails with `code`: nothing on stdout, an error that names `says` and a hint; the same as JSON.
        `hint`: a part of it, or "" where the message needs none. `twice`: run it again for its JSON."""
        argv = [str(word) if not isinstance(word, bytes) else word for word in argv]
        exit_code = 125 if runs_a_command([os.fsdecode(word) for word in argv]) else code
        done = self.place.run(*argv, stdin=stdin, env=env)
        self.assertEqual((done.code, done.out), (exit_code, b""), done)
        self.assertIn("ascope-sandbox: error: ", done.errors, done)
        for text in says:
            self.assertIn(text, done.errors, done)
        if hint != "":
            self.assertRegex(done.errors, r"(?m)^hint: \S", done)
            self.assertIn(hint or "", done.errors.partition("\nhint: ")[2], done)
        if not twice:
            return done
        done = self.place.run("-o", "json", *argv, stdin=stdin, env=env)
        self.assertEqual((done.code, done.out), (exit_code, b""), done)
        error = done.error()
        self.assertEqual(sorted(error), ["exit_code", "hint", "kind", "message"], done)
        self.assertEqual(error["exit_code"], code, done)
        self.assertIn(error["kind"], KINDS[code], done)
        self.assertTrue(error["message"], done)
        return done


def seed_tar():
    import io
    import tarfile
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as archive:
        info = tarfile.TarInfo("f")
        info.size = len(CONTENT)
        archive.addfile(info, io.BytesIO(CONTENT.encode()))
    return out.getvalue()


def compact(value):
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)
