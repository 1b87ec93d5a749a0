# SPDX-License-Identifier: Apache-2.0
"""Many commands at once: on one slot they take turns in order of arrival, on many slots they do not meet, and none is
lost or done twice."""
import collections
import json
import os
import pty
import random
import select
import signal
import sys
import time
import unittest

import harness

SLOT = "session/one"
COUNT = 50 if harness.full() else 12
IDLE_RACES = 10_000 if harness.full() else 60


class Parallel(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)

    def all_done(self, children, timeout=400):
        """Each child's output, as objects; all must have ended well."""
        done = []
        deadline = time.monotonic() + timeout
        for child in children:
            out, err = child.communicate(timeout=max(1, deadline - time.monotonic()))
            self.assertEqual(child.returncode, 0, err.decode(errors="replace"))
            done.append(out)
        return done

    def log(self, slot=SLOT):
        return self.place.ok("run", slot, "--", "cat", "log").text.split()


class OneSlotTest(Parallel):
    def waiters(self):
        """How many processes the kernel has waiting for a lock of the slot's queue on this host."""
        [name] = os.listdir(self.place.program_state("locks"))
        inode = os.stat(self.place.program_state("locks", name)).st_ino
        with open("/proc/locks", encoding="ascii") as file:
            return sum(" -> " in line and f":{inode} " in line for line in file)

    def test_they_run_in_order_of_arrival(self):
        self.place.ok("run", SLOT, "--", "true")
        token = self.place.ok("lock", "acquire", SLOT, "--ttl", "10m").text.strip()
        children = []
        for number in range(COUNT):
            children.append(self.place.popen("run", SLOT, "--wait", "5m", "-o", "json", "--", "sh", "-c",
                                             f"echo {number} >> log"))
            if number == 0:  # it has the lock of this host and waits for the lease
                self.assertIn(b"Waiting for", children[0].stderr.readline())
            else:
                harness.wait_for(lambda n=number: self.waiters() == n, what=f"command {number} in the queue")
        self.place.ok("lock", "release", SLOT, "--lease", token)
        receipts = [json.loads(out)["receipt"] for out in self.all_done(children)]
        self.assertEqual(self.log(), [str(number) for number in range(COUNT)])
        fences = [int(receipt["fence"]) for receipt in receipts]
        self.assertEqual(fences, sorted(set(fences)))
        # Each began from what the one before had left.
        for before, after in zip(receipts, receipts[1:]):
            self.assertEqual((after["parent"], after["branch"]), (before["snapshot"], "A"))
        history = self.place.ok("history", SLOT, "-n", "200", "-o", "json").json()["receipts"]
        self.assertEqual([item["id"] for item in reversed(history)][1:COUNT + 1], [item["id"] for item in receipts])

    def test_all_at_once_from_nothing(self):
        children = [self.place.popen("run", SLOT, "--wait", "5m", "--", "sh", "-c", f"echo {number} >> log")
                    for number in range(COUNT)]
        self.all_done(children)
        self.assertEqual(sorted(self.log(), key=int), [str(number) for number in range(COUNT)])
        self.assertEqual(len(self.place.ok("snapshot", "ls", SLOT, "-o", "json").json()["snapshots"]), COUNT)

    def test_commands_of_all_kinds_side_by_side(self):
        self.place.ok("run", SLOT, "--", "sh", "-c", "echo start >> log")
        children = []
        for number in range(COUNT):
            for command in (["exec", SLOT, "--", "sh", "-c", f"echo exec{number} >> log"],
                            ["run", SLOT, "--wait", "5m", "--", "sh", "-c", f"echo run{number} >> log"],
                            ["snapshot", SLOT, "--wait", "5m"], ["show", SLOT], ["explain", SLOT]):
                children.append(self.place.popen(*command))
        self.all_done(children)
        expected = ["start"] + [f"{kind}{number}" for kind in ("exec", "run") for number in range(COUNT)]
        self.assertEqual(sorted(self.log()), sorted(expected))
        self.place.ok("snapshot", "check", f"{SLOT}@latest", "--read-data")

    def test_some_are_killed(self):
        chance = random.Random(7)
        children = [self.place.popen("run", SLOT, "--wait", "5m", "--", "sh", "-c", f"echo {number} >> log")
                    for number in range(COUNT)]
        killed = set()
        for number in chance.sample(range(COUNT), COUNT // 3):
            time.sleep(chance.random() / 10)
            if children[number].poll() is None:
                children[number].kill()
                killed.add(number)
        for number, child in enumerate(children):
            _, err = child.communicate(timeout=400)
            if number not in killed:
                self.assertEqual(child.returncode, 0, err)
        counts = collections.Counter(int(word) for word in self.log())
        self.assertEqual([number for number, count in counts.items() if count > 1], [], "done twice")
        self.assertEqual([number for number in range(COUNT) if number not in killed and not counts[number]], [], "lost")
        self.place.ok("gc", "--yes")
        self.place.ok("snapshot", "check", f"{SLOT}@latest", "--read-data")


class ManySlotsTest(Parallel):
    def slots(self):
        return [f"session/s{number}" for number in range(COUNT)]

    def test_they_do_not_meet(self):
        for round_number in range(2):
            self.all_done([self.place.popen("run", slot, "--wait", "5m", "--", "sh", "-c", f"echo {slot} >> log")
                           for slot in self.slots()])
        for slot in self.slots():
            self.assertEqual(self.place.ok("exec", slot, "--", "cat", "log").text.split(), [slot] * 2)
        shown = [self.place.ok("show", slot, "-o", "json").json()["sandbox"] for slot in self.slots()]
        self.assertEqual(len({sandbox["id"] for sandbox in shown}), COUNT)
        if os.geteuid() == 0:
            self.assertEqual(len({sandbox["details"]["id_range"] for sandbox in shown}), COUNT, "ids are shared")
        self.assertEqual(len(self.place.ok("ls", "-o", "json").json()["slots"]), COUNT)

    def test_made_saved_and_removed_beside_one_another(self):
        for number, slot in enumerate(self.slots()):
            if number % 2:
                self.place.ok("run", slot, "--", "sh", "-c", "echo x > f")
        children = []
        for number, slot in enumerate(self.slots()):
            if number % 2:
                children.append(self.place.popen("rm", "--purge", "--yes", slot, "--wait", "5m"))
            else:
                children.append(self.place.popen("run", slot, "--release", "destroy", "--wait", "5m", "--", "sh", "-c",
                                                 "echo y > f"))
            children.append(self.place.popen("ls"))
            children.append(self.place.popen("explain", slot))
        looking = [self.place.popen("gc", "--dry-run") for _ in range(3)]
        self.all_done(children)
        for child in looking:
            child.communicate(timeout=400)
            self.assertIn(child.returncode, (0, 3))  # 3: a busy slot is named
        collected = self.place.run("gc", "--yes")
        self.assertIn(collected.code, (0, 3), collected)
        for number, slot in enumerate(self.slots()):
            if number % 2 == 0:
                self.assertEqual(self.place.ok("run", slot, "--", "cat", "f").text, "y\n")

    def test_gc_beside_saves(self):
        for slot in self.slots()[:6]:
            self.place.ok("run", slot, "--", "sh", "-c", "echo 0 > f")
        collectors, children = [], []
        for number in range(1, 4):
            for slot in self.slots()[:6]:
                children.append(self.place.popen("run", slot, "--wait", "5m", "--", "sh", "-c", f"echo {number} > f"))
            collectors.append(self.place.popen("gc", "--yes", "--set", "snapshots.keep={last: 2}"))
        self.all_done(children)
        for collector in collectors:
            collector.communicate(timeout=400)
            self.assertIn(collector.returncode, (0, 3))  # 3: a busy slot was skipped and named
        self.place.ok("snapshot", "check", "--all", "--read-data")
        for slot in self.slots()[:6]:
            self.assertIn(self.place.ok("run", slot, "--", "cat", "f").text, ("1\n", "2\n", "3\n"))


class TerminalTest(Parallel):
    class Terminal:
        """The program on a terminal of its own."""

        def __init__(self, place, *args):
            argv = place.argv([place.program(), *args])
            self.pid, self.master = pty.fork()
            if self.pid == 0:
                try:
                    os.chdir(place.cwd)
                    os.execvpe(argv[0], argv, place.env({"TERM": "dumb"}))
                finally:
                    os._exit(99)
            self.got = b""

        def type(self, data):
            os.write(self.master, data)

        def read_until(self, word, timeout=60):
            deadline = time.monotonic() + timeout
            while word not in self.got:
                ready, _, _ = select.select([self.master], [], [], max(0, deadline - time.monotonic()))
                if not ready:
                    raise AssertionError(f"{word!r} did not come: {self.got!r}")
                try:
                    part = os.read(self.master, 4096)
                except OSError:
                    part = b""
                if not part:
                    raise AssertionError(f"{word!r} did not come before the end: {self.got!r}")
                self.got += part

        def end(self):
            try:
                while True:
                    part = os.read(self.master, 4096)
                    if not part:
                        break
                    self.got += part
            except OSError:
                pass
            os.close(self.master)
            return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])

    def test_two_terminals_on_one_slot(self):
        self.place.ok("start", SLOT)
        shell = ("exec", "-i", "-t", SLOT, "--", "sh", "-c", "echo up; while read line; do echo \"<$line>\"; done; echo over")
        first, second = self.Terminal(self.place, *shell), self.Terminal(self.place, *shell)
        for terminal in (first, second):
            terminal.read_until(b"up")
        for number in range(20):
            first.type(b"one%d\n" % number)
            second.type(b"two%d\n" % number)
        first.read_until(b"<one19>")
        second.read_until(b"<two19>")
        self.assertNotIn(b"two", first.got)
        self.assertNotIn(b"one", second.got)
        first.type(b"\x03")  # ends the first alone
        self.assertEqual(first.end(), 130)
        second.type(b"still\n")
        second.read_until(b"<still>")
        second.type(b"\x04")
        self.assertEqual(second.end(), 0)
        self.assertIn(b"over", second.got)

    def test_two_terminals_that_run_take_turns(self):
        script = "echo up$0; read line; echo \"$line\" >> log"
        first = self.Terminal(self.place, "run", "-i", "-t", SLOT, "--", "sh", "-c", script, "1")
        first.read_until(b"up1")
        second = self.Terminal(self.place, "run", "-i", "-t", SLOT, "--wait", "5m", "--", "sh", "-c", script, "2")
        first.type(b"first\n")
        self.assertEqual(first.end(), 0)
        second.read_until(b"up2")
        second.type(b"second\n")
        self.assertEqual(second.end(), 0)
        self.assertEqual(self.log(), ["first", "second"])


class IdleTest(Parallel):
    """The sandbox ends by itself at about the moment the next command comes."""

    SPREAD = 0.08

    def setUp(self):
        super().setUp()
        # The time counts from the command's end, and after that this machine still needs some to save and record.
        ended = float(self.place.ok("run", SLOT, "--", "date", "+%s.%N").text)
        self.at_once = self.SPREAD / 2 + max(time.time() - ended, 0)
        self.place.ok("stop", SLOT)
        self.idle = ("--set", f"idle_timeout={int(self.at_once * 1000)}ms")

    def test_no_command_is_lost_or_done_twice(self):
        chance = random.Random(11)
        expected, missed = [], 0
        self.place.ok("run", SLOT, *self.idle, "--", "sh", "-c", ": > log")
        for number in range(IDLE_RACES):
            time.sleep(chance.random() * self.SPREAD)
            command = "run" if number % 3 == 0 else "exec"
            done = self.place.run(command, SLOT, *self.idle, "--", "sh", "-c", f"echo {number} >> log; echo {number}")
            if done.code == 0:
                self.assertEqual(done.text, f"{number}\n", done)
                expected.append(str(number))
                continue
            # exec does not bring a stopped sandbox up, and says so; then nothing has run.
            self.assertEqual((command, done.code, done.out), ("exec", 125, b""), done)
            self.assertIn("start", done.errors)
            missed += 1
            self.place.ok("start", SLOT, *self.idle)
        self.assertEqual(self.place.ok("run", SLOT, *self.idle, "--", "cat", "log").text.split(), expected)
        self.assertGreater(missed, 0, "the sandbox never ended by itself")
        self.assertGreater(len(expected), IDLE_RACES // 10, "the sandbox always ended before the next command")

    def test_many_at_once_against_the_end(self):
        for number in range(IDLE_RACES // 20):
            self.place.ok("start", SLOT, *self.idle)
            time.sleep(self.SPREAD / 2 * (0.5 + number % 5 / 5))
            children = [self.place.popen("run", SLOT, *self.idle, "--wait", "5m", "--", "sh", "-c",
                                         f"echo {number}-{each} >> log") for each in range(4)]
            self.all_done(children)
        rounds = IDLE_RACES // 20
        self.assertEqual(sorted(self.log()), sorted(f"{n}-{each}" for n in range(rounds) for each in range(4)))

    def test_a_command_that_runs_keeps_it_up(self):
        done = self.place.ok("run", SLOT, *self.idle, "--", "sh", "-c", "sleep 0.5; echo done")
        self.assertEqual(done.text, "done\n")
        self.place.ok("start", SLOT, *self.idle)
        child = self.place.popen("exec", SLOT, *self.idle, "--", "sh", "-c", "echo up; sleep 0.5; echo done")
        out, err = child.communicate(timeout=60)
        if child.returncode != 125:  # it may have ended before the command came
            self.assertEqual((child.returncode, out), (0, b"up\ndone\n"), err)


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.exit(unittest.main())
