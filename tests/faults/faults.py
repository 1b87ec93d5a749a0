# SPDX-License-Identifier: Apache-2.0
"""What the tests of faults share: a place with a sandbox in it."""
import os

import harness


class SandboxTest(harness.CliTest):
    """A test that needs a sandbox. `self.place` is empty at first."""

    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)

    def sh(self, script, *args, code=0, **options):
        """`script` in the running sandbox; its stdout."""
        done = self.place.run("exec", *args, "--", "sh", "-c", script, **options)
        self.assertEqual(done.code, code, done)
        return done.text

    def do(self, script, *args, code=0):
        """`script` as a whole call: start, run, save."""
        done = self.place.run("run", *args, "--", "sh", "-c", script)
        self.assertEqual(done.code, code, done)
        return done.text

    def start(self, *args):
        return self.place.ok("start", "-o", "json", *args).json()

    def snapshots(self, *args):
        done = self.place.run("snapshot", "ls", "-o", "json", *args)
        return done.json()["snapshots"] if done.code == 0 else []

    def sandboxes(self):
        folder = self.place.program_state("sandboxes")
        return [n for n in os.listdir(folder) if n.startswith("sb-")] if os.path.exists(folder) else []

    def tree(self):
        """The host's folder that is "/" in the one sandbox."""
        [name] = self.sandboxes()
        return self.place.program_state("sandboxes", name, "root")

    def refused(self, done, code, *says):
        self.assertEqual(done.code, code, done)
        for text in says:
            self.assertIn(text, done.errors, done)
        return done


class OrdinaryTest(SandboxTest):
    ordinary = True
