# SPDX-License-Identifier: Apache-2.0
"""cp by the built program: files, folders, links and tars in both directions, and what is refused."""
import io
import os
import stat
import tarfile
import unittest

import harness


class CpTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)
        self.place.ok("start")

    def inside(self, script, code=0):
        done = self.place.run("exec", "--", "sh", "-c", script)
        self.assertEqual(done.code, code, done)
        return done.text

    def read(self, name):
        with open(self.place.path(name), "rb") as file:
            return file.read()

    def test_a_file_each_way(self):
        data = bytes(range(256)) * 5000
        self.place.write("in.bin", data, 0o755)
        self.place.ok("cp", "./in.bin", ":.")
        self.assertEqual(self.inside("stat -c '%a %s %U' in.bin"), f"755 {len(data)} agent\n")
        done = self.place.ok("cp", ":in.bin", "./out.bin", "-o", "json").json()
        self.assertEqual((done["files"], done["bytes"]), (1, len(data)))
        self.assertEqual(self.read("out.bin"), data)
        self.assertTrue(os.stat(self.place.path("out.bin")).st_mode & stat.S_IXUSR)

    def test_names_and_folders(self):
        self.place.write("data/a/deep", "1")
        self.place.write("data/b", "2")
        os.symlink("a/deep", self.place.path("data/link"))
        os.symlink("/etc/passwd", self.place.path("data/abs"))
        self.place.ok("cp", "./data", ":copy")
        self.assertEqual(self.inside("cat copy/a/deep copy/b; readlink copy/link copy/abs"), "12a/deep\n/etc/passwd\n")
        self.place.ok("cp", "./data", ":copy")
        self.assertEqual(self.inside("cat copy/data/b"), "2")
        self.place.ok("cp", "./data/b", "./data/a/deep", ":/workspace/new/")
        self.assertEqual(self.inside("cat new/b new/deep"), "21")
        self.place.ok("cp", ":copy/a", ":/workspace/copy/link", ".")
        self.assertEqual(self.read("a/deep"), b"1")
        self.assertEqual(os.readlink(self.place.path("link")), "a/deep")
        self.inside("printf over > copy/a/deep")
        self.place.ok("cp", ":copy/a", ".")
        self.assertEqual(self.read("a/deep"), b"over")

    def test_a_written_slot(self):
        slot = self.place.ok("show", "-o", "json").json()["slot"]
        self.place.write("f", "1")
        self.place.ok("cp", "./f", slot + ":g")
        self.place.ok("cp", slot + ":g", "./h")
        self.assertEqual(self.read("h"), b"1")
        self.assertEqual(self.place.run("cp", "./f", "user/nobody/here:g").code, 4)

    def test_tar_each_way(self):
        self.inside("mkdir -p src/sub; echo 1 > src/sub/f; ln -s sub/f src/l; echo 2 > top")
        out = self.place.ok("cp", ":src", ":top", "-").out
        with tarfile.open(fileobj=io.BytesIO(out)) as tar:
            names = {name.removeprefix("./").rstrip("/") for name in tar.getnames()}
        self.assertLessEqual({"src/sub/f", "src/l", "top"}, names)
        self.place.ok("cp", "-", ":into", stdin=out)
        self.assertEqual(self.inside("cat into/src/sub/f into/top; readlink into/src/l"), "1\n2\nsub/f\n")
        evil = io.BytesIO()
        with tarfile.open(fileobj=evil, mode="w") as tar:
            info = tarfile.TarInfo("../../escape")
            info.size = 1
            tar.addfile(info, io.BytesIO(b"x"))
        self.assertEqual(self.place.run("cp", "-", ":into", stdin=evil.getvalue()).code, 8)
        self.assertEqual(self.place.run("cp", "-", ":into", stdin=out[:1000]).code, 8)

    def test_nothing_is_replaced_by_another_type(self):
        self.place.write("thing/inner", "host")
        self.inside("echo file > thing")
        done = self.place.run("cp", ":thing", ".", "-o", "json")
        self.assertEqual((done.code, done.error()["kind"]), (6, "conflict"), done)
        self.assertEqual(self.read("thing/inner"), b"host")
        done = self.place.run("cp", "./thing", ":.")
        self.assertEqual(done.code, 6, done)
        self.assertEqual(self.inside("cat thing"), "file\n")

    def test_links_inside_do_not_lead_the_copy_out_of_the_host_folder(self):
        self.inside("mkdir box; echo 1 > box/f")
        outside = os.path.join(self.place.home, "outside")
        os.mkdir(outside)
        os.symlink(outside, self.place.path("box"))
        done = self.place.run("cp", ":box", ".")
        self.assertEqual(done.code, 6, done)
        self.assertEqual(os.listdir(outside), [])

    def test_setuid_and_fifo(self):
        self.inside("mkdir odd; echo 1 > odd/s; chmod 4755 odd/s; mkfifo odd/p; echo 2 > odd/f", code=0)
        done = self.place.run("cp", ":odd", ".")
        self.assertIn(done.code, (0, 3), done)
        self.assertEqual(self.read("odd/f"), b"2\n")
        self.assertFalse(os.stat(self.place.path("odd/s")).st_mode & stat.S_ISUID)

    def test_stopped_and_gone(self):
        self.inside("echo 1 > f")
        self.place.ok("stop")
        self.place.ok("cp", ":f", "./f")
        self.assertEqual(self.read("f"), b"1\n")
        self.assertEqual(self.place.run("cp", "./f", ":g").code, 4)
        self.place.ok("rm")
        self.assertEqual(self.place.run("cp", ":f", "./g").code, 4)

    def test_what_was_copied_in_is_saved(self):
        self.place.ok("snapshot")
        self.place.write("f", "copied")
        self.place.ok("cp", "./f", ":f")
        self.place.ok("rm")
        self.place.ok("start")
        self.assertEqual(self.inside("cat f"), "copied")

    def test_usage(self):
        self.place.write("f", "1")
        for args in (["./f"], ["f", ":g"], [":a", ":b"], ["./f", "./g"], ["./f", ":"], ["-", "./f"],
                     ["./f", ":a", ":b"], ["-", "./f", ":x"]):
            with self.subTest(args=args):
                self.assertEqual(self.place.run("cp", *args).code, 2)
        self.assertEqual(self.place.run("cp", ":missing", ".").code, 4)
        self.assertEqual(self.place.run("cp", "./missing", ":x").code, 15)
        self.assertEqual(self.place.run("cp", ":/", ".").code, 2)
        self.inside("echo 1 > a; echo 2 > b")
        self.assertEqual(self.place.run("cp", ":a", ":b", "./single").code, 2)


if __name__ == "__main__":
    unittest.main(verbosity=2)
