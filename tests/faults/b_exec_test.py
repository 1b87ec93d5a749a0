# SPDX-License-Identifier: Apache-2.0
"""Faults of section B: exit codes, streams, timeouts, files on their way in."""
import base64
import os
import signal
import stat
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "cli")]
import harness  # noqa: E402
from faults import SandboxTest  # noqa: E402

NASTY = ["", " ", "a b", "'", '"', "$HOME", "`id`", "$(id)", "a\nb", "\\", "\\n", "*", "~", "!", "#x", "-n", "--", "--yes",
         "a;b|c&d>e", "\t", "\u00e9\u20ac", b"\xff\xfe", "%s", "{a,b}", "\x01", "=", "x=y", "-", "&&", "\r"]


class ExitTest(SandboxTest):
    def test_codes(self):
        """Death by signal, "not found" and "cannot execute" reported as 0, -1 or 255"""
        self.do("printf x > plain; printf '#!/no/such/interpreter\\n' > script; chmod +x script; mkdir d")
        rows = [(["sh", "-c", f"exit {n}"], n) for n in (0, 1, 2, 77, 124, 125, 126, 127, 128, 200, 255)]
        rows += [(["sh", "-c", f"kill -{n} $$"], 128 + n) for n in (1, 2, 6, 9, 15)]
        rows += [(["no-such-program"], 127), (["/no/such/program"], 127), (["./plain"], 126), (["./d"], 126), (["/"], 126),
                 (["./script"], 127), (["plain"], 127), ([""], 127)]
        for argv, code in rows:
            for command in ("exec", "run") if code > 125 or code == 0 else ("exec",):
                with self.subTest(command=command, argv=argv):
                    done = self.place.run(command, "--", *argv)
                    self.assertEqual((done.code, done.out), (code, b""), done)
                    self.assertEqual(code in (126, 127) and argv[0] != "sh", b"ascope-sandbox: " in done.err, done)
        done = self.place.run("exec", "-o", "json", "--", "sh", "-c", "kill -9 $$").json()
        self.assertEqual((done["exit_code"], done["receipt"]["exec"]["signal"]), (137, 9))

    def test_the_code_is_the_final_one(self):
        """Exit code asked for too early"""
        self.place.ok("start")
        for number in range(40 if harness.full() else 12):
            with self.subTest(number=number):
                # The streams end long before the process does, or just before it, or after megabytes.
                script = ("exec >&- 2>&-; sleep 0.05; exit 41", "echo x; exit 42", "head -c 2000000 /dev/zero; exit 43",
                          "exec >&-; kill -9 $$")[number % 4]
                done = self.place.run("exec", "--", "sh", "-c", script)
                self.assertEqual((done.code, len(done.out)), [(41, 0), (42, 2), (43, 2000000), (137, 0)][number % 4])

    def test_silence_is_no_end(self):
        """Long silent command never finishes because the idle connection was dropped"""
        self.place.ok("start", "--set", "idle_timeout=1s")
        # The sandbox is idle by its own measure only when no command of ours runs.
        done = self.place.run("exec", "--", "sh", "-c", "sleep 3; echo late; exit 5")
        self.assertEqual((done.code, done.out), (5, b"late\n"), done)
        child = self.place.popen("exec", "-o", "json", "--", "sh", "-c", "sleep 60")
        harness.wait_for(lambda: self.place.ok("show", "-o", "json").json()["sandbox"]["jobs"], what="the job")
        pid = int(self.place.ok("show", "-o", "json").json()["sandbox"]["details"]["pid"])
        os.kill(pid, signal.SIGKILL)
        _, err = child.communicate(timeout=30)
        self.assertEqual(child.returncode, 125)
        self.assertIn(b"the sandbox ended", err)

    def test_the_background_does_not_hold_it(self):
        """A background child that keeps the output open blocks exec"""
        self.place.ok("start")
        for number, script in enumerate(("sleep 77 & echo started", "(sleep 77; echo never) & echo started",
                                         "setsid sh -c 'sleep 77' & echo started", "echo started; exec sh -c 'sleep 77 & :'")):
            with self.subTest(script):
                begin = time.monotonic()
                done = self.place.run("exec", "--", "sh", "-c", script)
                self.assertEqual((done.code, done.out), (0, b"started\n"), done)
                self.assertLess(time.monotonic() - begin, 20)
                # Its fate is documented: it lives on.
                count = self.sh("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -o 'sleep [7]7' | wc -l")
                self.assertGreaterEqual(int(count), number + 1)
        begin = time.monotonic()
        self.assertEqual(self.do("sleep 77 & echo started"), "started\n")
        self.assertLess(time.monotonic() - begin, 20)

    def test_a_client_that_ends(self):
        """Ctrl-C or a killed client leaves the process running in the sandbox"""
        self.place.ok("start")

        def alive():
            return self.sh("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'sleep [5]5'", code=None) != "0\n"
        # `exec`: a shell that gets SIGINT just while it starts a program runs that to its end.
        for number, code in ((signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129), (signal.SIGKILL, -9)):
            with self.subTest(number=number):
                child = self.place.popen("exec", "--", "sh", "-c", "echo up; exec sleep 55")
                child.stdout.readline()
                child.send_signal(number)
                self.assertEqual(child.wait(30), code)
                harness.wait_for(lambda: not alive(), what="the end of the command")
        child = self.place.popen("exec", "--", "sh", "-c", "trap 'echo cleaned; exit 9' INT; echo up; sleep 55 & wait")
        child.stdout.readline()
        child.send_signal(signal.SIGINT)
        self.assertEqual((child.communicate(timeout=30)[0], child.returncode), (b"cleaned\n", 9))
        self.assertEqual(self.sh("echo usable"), "usable\n")

    def sh(self, script, *args, code=0, **options):
        done = self.place.run("exec", *args, "--", "sh", "-c", script, **options)
        if code is not None:
            self.assertEqual(done.code, code, done)
        return done.text


class StreamTest(SandboxTest):
    def setUp(self):
        super().setUp()
        self.place.ok("start")

    def test_stdin_arrives_whole(self):
        """Standard input bytes dropped on the way in"""
        for size in (0, 1, 4096, 65537, 3_000_000):
            with self.subTest(size=size):
                data = (bytes(range(256)) * (size // 256 + 1))[:size]
                done = self.place.ok("exec", "-i", "--", "sh", "-c", "cat; echo end", stdin=data)
                self.assertEqual(done.out, data + b"end\n")
        done = self.place.run("exec", "-i", "--", "head", "-c", "3", stdin=b"x" * 5_000_000)
        self.assertEqual((done.code, done.out), (0, b"xxx"), "a reader that stops early")
        done = self.place.ok("exec", "-i", "--", "sh", "-c", "sleep 0.3; cat", stdin=b"late reader")
        self.assertEqual(done.out, b"late reader")
        self.assertEqual(self.place.ok("exec", "--", "cat", stdin=b"not asked for").out, b"")
        child = self.place.popen("exec", "-i", "--", "sh", "-c", "read a; echo got $a; read b; echo got $b",
                                 stdin=subprocess.PIPE)
        for word in (b"one", b"two"):
            child.stdin.write(word + b"\n")
            child.stdin.flush()
            self.assertEqual(child.stdout.readline(), b"got " + word + b"\n", "half of a conversation")
        self.assertEqual(child.wait(20), 0)

    def test_bytes_are_not_decoded_in_pieces(self):
        """Characters split over two chunks are damaged"""
        script = "printf '\\303'; sleep 0.2; printf '\\251\\342'; sleep 0.2; printf '\\202\\254'"
        self.assertEqual(self.place.ok("exec", "--", "sh", "-c", script).out, "\u00e9\u20ac".encode())
        done = self.place.ok("exec", "-o", "json", "--", "sh", "-c", script).json()
        self.assertEqual((done["stdout"], done["stderr"]), ("\u00e9\u20ac", ""))
        done = self.place.ok("exec", "-o", "json", "--", "sh", "-c", "printf '\\377\\000a'; printf '\\303' >&2").json()
        self.assertEqual((base64.b64decode(done["stdout"]["base64"]), done["stderr"]), (b"\xff\0a", {"base64": "ww=="}))
        done = self.place.ok("exec", "-o", "json", "--max-output", "3", "--", "sh", "-c", "printf 'ab\\303\\251'").json()
        self.assertTrue(done["stdout_truncated"])
        self.assertEqual(base64.b64decode(done["stdout"]["base64"]), b"ab\xc3", "cut within a character")

    def test_arguments_arrive_as_they_are(self):
        """Quoting damages arguments"""
        script = 'for a in "$@"; do printf "%s\\0" "$a"; done'
        wanted = b"".join((a if isinstance(a, bytes) else a.encode()) + b"\0" for a in NASTY)
        for command in ("exec", "run"):
            done = self.place.ok(command, "--", "sh", "-c", script, "sh", *NASTY)
            self.assertEqual(done.out, wanted)
        variable = "a b'\"$x\n\\"
        done = self.place.ok("exec", "-e", "V=" + variable, "-e", "W", "--", "sh", "-c", 'printf "%s|%s" "$V" "$W"',
                             env={"W": "  from here "})
        self.assertEqual(done.text, variable + "|  from here ")
        self.sh("mkdir 'a b' && echo in > 'a b/f'")
        self.assertEqual(self.sh("cat f", "--cwd", "a b"), "in\n")

    def test_files_arrive_whole_with_their_modes(self):
        """Upload reported as done but file absent, or with a wrong mode"""
        modes = (0o644, 0o600, 0o755, 0o400, 0o666, 0o640)
        for mode in modes:
            self.place.write(f"src/m{mode:o}", f"{mode:o}", mode)
        self.place.write("src/empty", "")
        big = os.urandom(9_000_001)
        self.place.write("src/big", big)
        self.place.ok("cp", "./src", ":in")
        for mode in modes:
            self.assertEqual(self.sh(f"stat -c %a in/m{mode:o}; cat in/m{mode:o}"), f"{mode:o}\n{mode:o}")
        self.assertEqual(self.place.ok("exec", "--", "cat", "in/big").out, big)
        self.assertEqual(self.sh("stat -c %s in/empty"), "0\n")
        self.place.ok("cp", ":in", "./back")
        for mode in modes:
            self.assertEqual(stat.S_IMODE(os.stat(self.place.path(f"back/m{mode:o}")).st_mode), mode)
        at = ("--set", "workspace.projection.source=" + self.place.path("src"), "--set", "workspace.projection.include=[.]")
        self.place.ok("project", "apply", *at)
        # A projection keeps what git keeps of a mode: whether the owner may execute.
        self.assertEqual(self.sh("stat -c %a m600 m755; cmp big in/big && echo same"), "644\n755\nsame\n")
        # What cannot be written is an error, never "done".
        self.sh("mkdir full; chmod 555 full")
        done = self.place.run("cp", "./src/big", ":/proc/version")
        self.assertNotEqual(done.code, 0, done)


if __name__ == "__main__":
    unittest.main()
