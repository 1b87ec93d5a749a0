# SPDX-License-Identifier: Apache-2.0
"""What snapshots leave out: workspace.exclude, the workspace's own .ascopeignore, and credentials."""
import unittest

import harness


class ExcludeTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)

    def sh(self, script):
        return self.place.ok("exec", "--", "sh", "-c", script)

    def saved(self, *options):
        return self.place.ok(*options, "snapshot", "-o", "json").json()

    def names(self, snapshot="latest"):
        return self.place.ok("snapshot", "find", snapshot, "*", "-o", "name").text.split()

    def test_the_ignore_file_of_the_workspace(self):
        self.place.ok("start")
        self.sh("mkdir -p build src; echo 1 > build/out; echo 1 > src/a.o; echo 1 > src/a.c; echo 1 > top.log;"
                "printf '# comment\\n\\n*.o\\n/build/ \\r\\n/top.log' > .ascopeignore")
        self.saved()
        names = self.names()
        self.assertIn("src/a.c", names)
        self.assertIn(".ascopeignore", names)
        for name in ("build", "build/out", "src/a.o", "top.log"):
            self.assertNotIn(name, names)

    def test_a_restore_leaves_alone_what_no_snapshot_has(self):
        self.place.ok("start")
        self.sh("mkdir build; echo 1 > build/out; echo 1 > keep.o; echo one > work; echo '*.o\nbuild' > .ascopeignore")
        first = self.saved()["snapshot"]
        self.sh("echo two > work; echo new > new; echo 2 > build/out")
        self.saved()
        self.place.ok("restore", first, "--yes")
        self.place.ok("start")
        self.assertEqual(self.sh("cat work build/out keep.o; ls").text,
                         "one\n2\n1\nbuild\nkeep.o\nwork\n")

    def test_an_ignore_file_that_is_no_file_of_patterns(self):
        self.place.ok("start")
        self.sh("echo x > kept; ln -s /etc/passwd .ascopeignore")
        self.saved()
        self.assertIn("kept", self.names())
        self.sh("rm .ascopeignore; head -c 70000 /dev/zero | tr '\\0' 'a' > .ascopeignore")
        done = self.place.run("snapshot")
        self.assertEqual(done.code, 2, done)
        self.assertIn(".ascopeignore", done.errors)

    def test_credentials_are_named_and_never_shown(self):
        token = "ghp_" + "A1" * 18
        self.place.ok("start")
        self.place.ok("exec", "-i", "--", "sh", "-c", "cat > config", stdin=f"token={token}\n".encode())
        self.sh("echo A=1 > .env; echo fine > work")
        receipt = self.saved()
        said = str(receipt["notes"])
        self.assertIn(".env", said)
        self.assertIn("config", said)
        self.assertNotIn(token, said)
        self.assertIn("config", self.names())

        refused = self.place.run("--set", "snapshots.credentials=refuse", "exec", "--", "true")
        self.assertEqual(refused.code, 0, refused)
        self.sh("echo more >> work")
        refused = self.place.run("--set", "snapshots.credentials=refuse", "snapshot")
        self.assertEqual(refused.code, 7, refused)
        self.assertIn("'config'", refused.errors)
        self.assertNotIn(token, refused.errors)

        self.saved("--set", "snapshots.credentials=exclude")
        names = self.names()
        self.assertIn("work", names)
        self.assertNotIn("config", names)
        self.assertNotIn(".env", names)


if __name__ == "__main__":
    unittest.main()
