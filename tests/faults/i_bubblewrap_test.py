# SPDX-License-Identifier: Apache-2.0
"""Faults of section I: the terminal's signals, and the caller's terminal."""
import fcntl
import os
import pty
import select
import signal
import struct
import sys
import termios
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "cli")]
import harness  # noqa: E402
from faults import SandboxTest  # noqa: E402

INJECT = ("import fcntl,sys,termios\nfor fd in (0,1,2):\n for c in b'echo injected\\n':\n"
          "  try: fcntl.ioctl(fd,termios.TIOCSTI,bytes([c]))\n  except OSError as e: pass\n")
TTY_PATHS = "for f in /dev/tty /dev/console /proc/self/fd/0; do (printf 'echo injected\\n' > $f) 2>/dev/null; done; true"


class Terminal:
    """The program on a pseudo-terminal of its own, as from a shell."""

    def __init__(self, place, *args):
        self.main, self.side = pty.openpty()
        fcntl.ioctl(self.side, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.child = place.popen(*args, stdin=self.side, stdout=self.side, stderr=self.side, start_new_session=True,
                                 preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0))
        self.seen = b""

    def pushed(self):
        """What waits on the terminal for its next reader, such as the caller's shell."""
        settings = termios.tcgetattr(self.side)
        settings[3] &= ~(termios.ICANON | termios.ECHO)
        termios.tcsetattr(self.side, termios.TCSANOW, settings)
        count = struct.unpack("i", fcntl.ioctl(self.side, termios.FIONREAD, b"\0" * 4))[0]
        return os.read(self.side, count) if count else b""

    def read_until(self, text, timeout=30):
        deadline = time.monotonic() + timeout
        while text not in self.seen:
            if time.monotonic() > deadline:
                raise AssertionError(f"{text!r} did not come: {self.seen!r}")
            if select.select([self.main], [], [], 0.1)[0]:
                try:
                    self.seen += os.read(self.main, 4096)
                except OSError:
                    break
        return self.seen

    def type(self, data):
        os.write(self.main, data)

    def end(self, timeout=30):
        deadline = time.monotonic() + timeout
        while self.child.poll() is None and time.monotonic() < deadline:
            if select.select([self.main], [], [], 0.05)[0]:
                try:
                    self.seen += os.read(self.main, 4096)
                except OSError:
                    time.sleep(0.01)
        return self.child.wait(5)

    def close(self):
        os.close(self.main)
        os.close(self.side)


class TerminalTest(SandboxTest):
    def terminal(self, *args):
        terminal = Terminal(self.place, *args)
        self.addCleanup(terminal.close)
        return terminal


class InterruptTest(TerminalTest):
    def test_the_inner_command_gets_it_first(self):
        """Ctrl-C ends the sandbox tool but not the command, or the other way round"""
        self.place.ok("start")
        script = "trap 'echo cleaned up; exit 9' INT; echo ready; while :; do sleep 0.05; done"
        for args in (["exec"], ["run"], ["exec", "-i", "-t"]):
            with self.subTest(args):
                terminal = self.terminal(*args, "--", "sh", "-c", script)
                terminal.read_until(b"ready")
                terminal.type(b"\x03")
                self.assertEqual(terminal.end(), 9, terminal.seen)
                self.assertIn(b"cleaned up", terminal.seen)
        # A command that does not listen: the second one ends it, and it is not left behind.
        for args in (["exec"], ["run"]):
            with self.subTest(args, deaf=True):
                terminal = self.terminal(*args, "--", "sh", "-c",
                                         "trap 'echo heard' INT; echo ready; while :; do sleep 0.05; done")
                terminal.read_until(b"ready")
                terminal.type(b"\x03")
                terminal.read_until(b"heard")
                terminal.type(b"\x03")
                self.assertIn(terminal.end(), (130, 137, -signal.SIGINT), terminal.seen)
                harness.wait_for(lambda: self.sh("cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\\0' ' ' | grep -c 'hear[d]'; true")
                                 == "0\n", what="the end of the command")
        self.assertEqual(self.sh("echo usable"), "usable\n")

    def test_a_signal_to_the_group(self):
        """Ctrl-C ends the sandbox tool but not the command, or the other way round"""
        for number in (signal.SIGINT, signal.SIGTERM):
            child = self.place.popen("run", "--", "sh", "-c", "trap 'echo got; echo work > f; exit 7' INT TERM; echo ready; "
                                     "while :; do sleep 0.05; done", start_new_session=True)
            child.stdout.readline()
            os.killpg(child.pid, number)
            self.assertEqual((child.communicate(timeout=30)[0], child.returncode), (b"got\n", 7))
            self.assertEqual(self.place.ok("snapshot", "cat", "latest", "f").out, b"work\n", "what it did is saved")


class InjectionTest(TerminalTest):
    def test_no_key_strokes_for_the_caller(self):
        """Command pushes key strokes into the caller's terminal"""
        self.place.ok("start")
        python = self.sh("command -v python3 || true").strip()
        for args in (["exec"], ["exec", "-t"], ["exec", "-i"], ["exec", "-i", "-t"], ["run"]):
            with self.subTest(args):
                inner = ["sh", "-c", TTY_PATHS + (f"; {python} -c \"$0\" 2>/dev/null" if python else "") + "; echo finished",
                         INJECT]
                terminal = self.terminal(*args, "--", *inner)
                terminal.read_until(b"finished")
                self.assertEqual(terminal.end(), 0, terminal.seen)
                self.assertEqual(terminal.pushed(), b"")
                if "-t" not in args:  # with -t the terminal inside is the command's own, and what it shows is shown
                    self.assertNotIn(b"injected", terminal.seen)

    def test_the_test_sees_key_strokes(self):
        """Command pushes key strokes into the caller's terminal"""
        main, side = pty.openpty()
        self.addCleanup(os.close, main)
        self.addCleanup(os.close, side)
        os.write(main, b"typed\n")
        terminal = Terminal.__new__(Terminal)
        terminal.main, terminal.side = main, side
        harness.wait_for(lambda: select.select([side], [], [], 0.1)[0], what="the line")
        self.assertEqual(terminal.pushed(), b"typed\n")


if __name__ == "__main__":
    unittest.main()
