# SPDX-License-Identifier: Apache-2.0
"""Faults of section C: links, names, metadata, special files."""
import base64
import os
import subprocess
import sys
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "cli")]
import harness  # noqa: E402
from faults import OrdinaryTest, SandboxTest  # noqa: E402

LINKS = {"dangling": "no/such/thing", "absolute": "/etc/passwd", "up": "../../../etc", "loop": "loop", "inside": "d/f",
         "folder": "d", "root": "/", "odd": "a b\n\u00e9", "long": "x" * 1000, "dots": "./d/../d/./f"}
SHOW = "for l in *; do if [ -L \"$l\" ]; then printf '%s=' \"$l\"; readlink -n \"$l\" | od -v -An -tx1 | tr -d ' \\n'; echo; fi; done"


class LinkTest(SandboxTest):
    def test_links_come_back_as_links(self):
        """Links followed, rewritten or rejected while copying"""
        names = sorted(LINKS)
        wanted = "".join(f"{n}={LINKS[n].encode().hex()}\n" for n in names)
        self.place.ok("run", "--", "sh", "-c", "mkdir d; echo f > d/f; for p; do ln -s \"${p#*=}\" \"${p%%=*}\"; done", "sh",
                      *(f"{n}={LINKS[n]}" for n in names))
        self.assertEqual(self.sh(SHOW), wanted)
        self.place.ok("rm")
        self.assertEqual(self.start()["branch"], "C")
        self.assertEqual(self.sh(SHOW), wanted)
        self.place.ok("cp", ":.", "./out")
        for name in names:
            self.assertEqual(os.readlink(self.place.path("out", name)), LINKS[name])
        self.place.ok("cp", "./out", ":again")
        self.assertEqual(self.sh(SHOW, "--cwd", "/workspace/again"), wanted)
        self.place.ok("restore", "latest", "--to", self.place.path("to"))
        for name in names:
            self.assertEqual(os.readlink(self.place.path("to", name)), LINKS[name])

    def test_a_projection_leaves_what_is_outside(self):
        """Links followed, rewritten or rejected while copying"""
        secret = os.path.join(self.place.home, "secret")
        with open(secret, "w", encoding="ascii") as file:
            file.write("host secret")
        self.place.write("src/d/in", "inside\n")
        for name, target in (("out", secret), ("up", "../../../home/secret"), ("way", self.place.home), ("good", "in")):
            os.symlink(target, self.place.path("src/d", name))
        self.place.write("ascope.yaml", "workspace: {projection: {source: ./src, include: [d]}}\n")
        started = self.start()
        self.assertEqual({row["path"] for row in started["projection"]["refused"]}, {"d/out", "d/up", "d/way"})
        self.assertEqual(self.sh("ls d; cat d/good"), "good\nin\ninside\n")

    def test_restore_over_links(self):
        """Restore into a tree that already has links"""
        self.do("mkdir d; echo good > d/f; echo g > g; ln -s g l; mkdir e; echo e > e/x", "--tag", "first")
        for _ in range(2):
            # What a restore must replace, each by a link that leads elsewhere; and a link by a folder.
            self.sh("mkdir -p ~/kept; echo precious > ~/kept/f; echo precious > ~/kept/x; rm -rf d e g l; ln -s ~/kept d; "
                    "ln -s ~/kept/x g; mkdir -p l/sub; echo y > l/sub/y; ln -s /workspace e")
            self.place.ok("restore", "first")
            self.assertEqual(self.sh("cat d/f g e/x; readlink l; test -L d || test -L g || test -L e || echo none"),
                             "good\ng\ne\ng\nnone\n")
            self.place.ok("restore", "first")
            self.assertEqual(self.sh("cat d/f g e/x; readlink l"), "good\ng\ne\ng\n", "the same again")
        # HOME belongs to what is saved, so it was put back too; a folder that is not was never written to.
        outside = os.path.join(self.place.home, "outside")
        os.mkdir(outside)
        at = ("--set", f"workspace.entries={{m: {{type: bind_mount, host_path: '{outside}'}}}}")
        self.place.ok("start", *at)
        self.sh("rm -rf d; ln -s m d", *at)
        self.place.ok("restore", "first", *at)
        self.assertEqual(self.sh("cat d/f", *at), "good\n")
        self.assertEqual(os.listdir(outside), [])

    def test_a_git_file_that_points_outside(self):
        """Submodules and worktrees: `.git` is a file or points outside"""
        harness.need_program("git")
        main, env = self.place.path("main"), {**self.place.env(), "GIT_CONFIG_GLOBAL": "/dev/null"}
        name = ["-c", "user.name=t", "-c", "user.email=t@example.com"]

        def git(*args, at=main):
            subprocess.run(["git", "-C", at, *args], check=True, env=env, capture_output=True)
        self.place.write("sub/file", "of the submodule\n")
        git("init", "-q", at=self.place.path("sub"))
        git("add", "-A", at=self.place.path("sub"))
        git(*name, "commit", "-q", "-m", "c", at=self.place.path("sub"))
        self.place.write("main/file", "of main\n")
        git("init", "-q")
        git("-c", "protocol.file.allow=always", "submodule", "add", "-q", self.place.path("sub"), "module")
        git("add", "-A")
        git(*name, "commit", "-q", "-m", "c")
        git("worktree", "add", "-q", self.place.path("linked"))
        for source, note in (("main", False), ("linked", True)):
            with self.subTest(source):
                at = ("--set", "workspace.projection.source=" + self.place.path(source), "--set",
                      "workspace.projection.include=[.]")
                done = self.place.ok("start", f"session/{source}", "-o", "json", *at)
                text = self.sh("cat file; cat module/file 2>/dev/null; test -e .git && echo git", f"session/{source}", *at)
                self.assertIn("of main\n", text)
                self.assertEqual("outside" in str(done.json()["projection"]) + str(done.json()["notes"]), note, done)
        if self.sh("command -v git || true", "session/main"):
            self.assertEqual(self.sh("git -c safe.directory='*' -C module rev-parse --is-inside-work-tree", "session/main"),
                             "true\n", "a plain submodule works inside")


class MetadataTest(SandboxTest):
    SCRIPT = ("mkdir -p ro/deep; echo x > ro/deep/f; echo y > ro/g; chmod 444 ro/g ro/deep/f; chmod 555 ro/deep ro; "
              "mkdir none; echo z > none/f; chmod 000 none/f; chmod 311 none")
    LOOK = "stat -c '%n %a' ro ro/deep ro/deep/f ro/g none none/f; cat ro/deep/f ro/g"
    WANTED = "ro 555\nro/deep 555\nro/deep/f 444\nro/g 444\nnone 311\nnone/f 0\nx\ny\n"

    def test_read_only_things(self):
        """Read-only folders and files block restore"""
        self.do(self.SCRIPT)
        self.assertEqual(self.sh(self.LOOK), self.WANTED)
        for branch in ("C", "C"):
            self.place.ok("rm")
            self.assertEqual(self.start()["branch"], branch)
            self.assertEqual(self.sh(self.LOOK), self.WANTED)
        self.sh("chmod -R u+w ro; echo changed > ro/g; rm ro/deep/f; chmod 555 ro")
        self.place.ok("restore", "latest")
        self.assertEqual(self.sh(self.LOOK), self.WANTED)
        self.place.ok("restore", "latest", "--to", self.place.path("to"))
        self.place.ok("rm", "--purge", "--yes")
        self.assertEqual(self.sandboxes(), [])
        self.place.ok("gc", "--yes", "--grace", "0s")
        left = [name for _, _, files in os.walk(self.place.program_state("snapshots")) for name in files]
        self.assertEqual(sorted(left), ["repo", "repo.copy"])

    def test_holes(self):
        """Holes fill the disk, or the end of a sparse file is cut"""
        size = (10 << 30) if harness.full() else (1 << 30)
        self.do(f"truncate -s {size} hole; printf begin > tail; truncate -s {size} tail; "
                f"truncate -s {size - 3} head; printf end >> head; printf a > mid; "
                f"dd if=/dev/zero of=mid bs=1 count=1 seek={size // 2} status=none; printf b >> mid; truncate -s 5000 small")
        look = ("stat -c '%n %s' hole tail head mid small; head -c 5 tail; tail -c 3 head; tail -c 1 mid; "
                "test $(du -k . | cut -f1 | tail -1) -lt 2000 && echo little")
        wanted = f"hole {size}\ntail {size}\nhead {size}\nmid {size // 2 + 2}\nsmall 5000\nbeginendblittle\n"
        self.assertEqual(self.sh(look), wanted)
        head = self.place.ok("snapshot", "show", "latest", "-o", "json").json()
        self.assertLess(head["size_bytes"], 1 << 20)
        for branch in ("C", "B"):
            if branch == "C":
                self.place.ok("rm")
            else:
                subprocess.run(["rm", "-rf", self.tree() + "/workspace"], check=True)
            self.assertEqual(self.start()["branch"], branch)
            self.assertEqual(self.sh(look), wanted)
        self.place.ok("cp", ":tail", "./tail")
        info = os.stat(self.place.path("tail"))
        self.assertEqual(info.st_size, size)
        self.assertLess(info.st_blocks, 4000)

    def test_names(self):
        """Names in odd encodings, with newlines, or starting with a dash"""
        names = [b"\xff\xfe", "\u00e9\u20ac\U0001f600".encode(), b"a\nb", b"-n", b"--help", b" ", b"a b", b"\x1b[31m", b"*", b"'",
                 b'"', b"\\", b"$x", b"x" * 255, b"\xc3", b"a\tb", b"#", b"~", b"%41", b"=", b"\x7f", b"CON", b"..x", b".h"]
        script = 'for n; do printf "%s" "$n" > "./$n" || exit 1; done'
        self.place.ok("run", "--release", "destroy", "--", "sh", "-c", script, "sh", *names)
        self.place.ok("start")
        for name in names:
            with self.subTest(name):
                self.assertEqual(self.place.ok("exec", "--", "cat", b"./" + name).out, name)
                self.assertEqual(self.place.ok("snapshot", "cat", "latest", b"./" + name).out, name)
        found = self.place.ok("snapshot", "find", "latest", "/*", "-o", "name", "-0").out
        inside = [name for name in found.split(b"\0")[:-1] if not name.startswith(b"/")]
        self.assertEqual(sorted(inside), sorted(names))
        rows = self.place.ok("snapshot", "find", "latest", "/*", "-o", "json").json()["entries"]
        got = [base64.b64decode(r["path"]["base64"]) if isinstance(r["path"], dict) else r["path"].encode() for r in rows]
        self.assertEqual(sorted(name for name in got if not name.startswith(b"/")), sorted(names))
        text = self.place.ok("snapshot", "find", "latest", "/*").out
        self.assertEqual(text.count(b"\n"), len(got))
        self.assertFalse(set(text) & (set(range(32)) - {10} | {127}), "control bytes for a terminal")
        self.place.ok("cp", ":.", "./out")
        self.assertEqual(sorted(os.listdir(os.fsencode(self.place.path("out")))), sorted(names))

    def test_special_names(self):
        """Names that are special to image layers are taken as commands"""
        names = [".wh.f", ".wh..wh..opq", ".wh.", "pax_global_header", "PaxHeaders", "@LongLink", "GNUSparseFile.0",
                 ".ascope-restore", ".ascope-tree", "mark", "._f", "LOST.DIR", ".git", "dev", "proc"]
        self.do("echo keep > f; mkdir d; echo keep > d/f; for n in " + " ".join(names) + "; do mkdir -p sub; echo $n > $n; "
                "echo $n > sub/$n; done")
        self.do("echo work > w", "--release", "destroy")
        self.assertEqual(self.start()["branch"], "C")
        for name in names:
            self.assertEqual(self.sh(f"cat {name} sub/{name}"), f"{name}\n{name}\n")
        self.assertEqual(self.sh("cat f d/f w"), "keep\nkeep\nwork\n")
        self.place.ok("restore", "latest~1")
        self.assertEqual(self.sh("ls -A | wc -l"), f"{len(names) + 3}\n")
        # The one name that stays ours is said, not lost in silence.
        self.sh("mkdir .ascope-stage; echo x > .ascope-stage/x")
        self.place.ok("rm")
        self.assertIn(".ascope-stage", str(self.start()["notes"]))

    def test_owners(self):
        """Wrong owner after copy, or restore stops because owner cannot be set"""
        self.place.write("src/d/f", "x")
        self.place.write("ascope.yaml", "workspace: {projection: {source: ./src, include: [d]}}\n")
        self.do("echo y > g", "--release", "destroy")
        self.place.ok("start")
        self.place.ok("cp", "./src/d/f", ":copied")
        self.assertEqual(self.sh("stat -c '%U:%G' d d/f g copied; echo more >> d/f; echo more >> g; echo more >> copied"),
                         "agent:agent\n" * 4)
        done = self.place.ok("restore", "latest", "--to", self.place.path("to"))
        self.assertLessEqual(len(done.err.splitlines()), 3, done)
        # Root packed it elsewhere: what is root's there is the agent's to work on here.
        archive = self.place.path("x.tar")
        self.place.call(["tar", "--owner=0", "--group=0", "--mode=go=", "-cf", archive, "-C", self.place.path("src"), "."])
        self.place.ok("rm")
        self.place.ok("snapshot", "import", archive)
        self.start()
        self.assertEqual(self.sh("stat -c %U:%G . d d/f; echo more >> d/f; echo new > d/new; cat d/f"),
                         "agent:agent\n" * 3 + "xmore\n")


class OrdinaryMetadataTest(OrdinaryTest):
    def test_read_only_things(self):
        """Read-only folders and files block restore"""
        MetadataTest.test_read_only_things(self)

    SCRIPT = MetadataTest.SCRIPT.replace("chmod 000 none/f; chmod 311 none", "chmod 400 none/f; chmod 700 none")
    LOOK, WANTED = MetadataTest.LOOK, MetadataTest.WANTED.replace("none 311\nnone/f 0", "none 700\nnone/f 400")

    def test_owners(self):
        """Wrong owner after copy, or restore stops because owner cannot be set"""
        archive = self.place.path("x.tar")
        self.place.write("many/keep", "x")
        for number in range(30):
            self.place.write(f"many/f{number}", "x")
        self.place.call(["tar", "--owner=0", "--group=12345", "-cf", archive, "-C", self.place.path("many"), "."])
        self.place.ok("snapshot", "import", archive)
        done = self.place.ok("run", "--", "sh", "-c", "ls | wc -l; stat -c %U f1; echo more >> f1")
        self.assertEqual(done.text, "31\nagent\n")
        self.assertLessEqual(len([line for line in done.errors.splitlines() if "owner" in line]), 1, done)


class ChangingTest(SandboxTest):
    WRITERS = ("(while :; do echo line >> log; done) & (while :; do head -c 200000 /dev/zero > swing; : > swing; done) & "
               "(while :; do echo x > t$RANDOM 2>/dev/null; rm -f t*; done) & (while :; do printf '%s' $(date +%N) > a; cp a b; "
               "done) & echo up; wait")

    def test_files_that_change(self):
        """File changes while it is being read"""
        self.place.ok("start")
        for freeze in ("auto", "never"):
            with self.subTest(freeze):
                at = ("--set", "snapshots.freeze=" + freeze)
                child = self.place.popen("exec", "--", "bash", "-c", self.WRITERS)
                child.stdout.readline()
                for _ in range(10 if harness.full() else 3):
                    done = self.place.run("snapshot", *at, "-o", "json")
                    self.assertIn(done.code, (0,) if freeze == "auto" else (0, 3), done)
                    self.place.ok("snapshot", "check", "latest", "--read-data")
                    self.assertEqual([n for n in done.json()["notes"] if "chang" in n["what"]] if freeze == "auto" else [], [])
                child.terminate()
                child.wait(30)
                self.place.ok("restore", "latest", "--to", self.place.path("to" + freeze))
                with open(self.place.path("to" + freeze, "log"), encoding="ascii") as file:
                    self.assertEqual(set(file.read().split("\n")), {"line", ""})
        self.place.ok("rm")
        self.assertEqual(self.start()["branch"], "C")


if __name__ == "__main__":
    unittest.main()
