# SPDX-License-Identifier: Apache-2.0
"""The program dies by kill -9 while it holds a sandbox frozen for a snapshot: what runs inside goes on, and the slot
is as if the snapshot had never begun."""
import os
import secrets
import signal
import sys
import time
import unittest

import harness

SLOT = "session/frozen"
ROUNDS = 40 if harness.full() else 3
# Counts for ever; a second process stops itself and must stay so.
WORK = """
mark=$1
(setsid sh -c 'kill -STOP $$; echo woken > woken' "$mark-stopped" >/dev/null 2>&1 &)
(setsid sh -c 'n=0; while :; do n=$((n + 1)); echo $n > count; sleep 0.01; done' "$mark-counter" >/dev/null 2>&1 &)
mkdir -p many && cd many && for n in $(seq 1 1500); do echo $n > file$n; done
"""


class Frozen:
    ordinary = False

    def setUp(self):
        harness.need_root(self.ordinary)
        super().setUp()
        harness.need_sandbox(self.place)
        self.mark = "mark" + secrets.token_hex(4)
        self.place.ok("run", SLOT, "--", "sh", "-c", "echo 1 > kept")
        self.place.ok("exec", SLOT, "--", "sh", "-c", WORK, "sh", self.mark)
        harness.wait_for(lambda: self.state("stopped") == "T", what="the process that stops itself")
        self.assertGoesOn()

    def state(self, which):
        """The state letter, as /proc has it, of the process inside of that name; None if it is not there."""
        for name in os.listdir("/proc"):
            try:
                with open(f"/proc/{name}/cmdline", "rb") as file:
                    if not file.read().endswith(f"\0{self.mark}-{which}\0".encode()):
                        continue
                with open(f"/proc/{name}/stat", encoding="utf-8", errors="replace") as file:
                    return file.read().rsplit(")", 1)[1].split()[0]
            except OSError:
                continue
        return None

    def count(self):
        text = self.place.ok("exec", SLOT, "--", "cat", "count").text.strip()
        return int(text) if text else self.count()

    def assertGoesOn(self):
        harness.wait_for(lambda: self.state("counter") not in ("T", "t"), what="the thaw")
        self.assertIsNotNone(self.state("counter"), "what ran inside is gone")
        before = self.count()
        harness.wait_for(lambda: self.count() > before, what="the counter's next step")
        self.assertEqual(self.state("stopped"), "T", "a process that had stopped itself was let go")

    def assertConsistent(self, revision=None):
        shown = self.place.ok("show", SLOT, "-o", "json").json()
        self.assertTrue(shown["snapshot"]["in_store"], shown)
        self.assertEqual(shown["sandbox"]["phase"], "running")
        self.assertFalse(shown["live"]["clean"])
        self.place.ok("snapshot", "check", "--read-data", SLOT + "@latest")
        return shown

    def kill_frozen(self, child):
        """Kills the program as soon as what runs inside stands still; False if it was too quick."""
        frozen = False
        while child.poll() is None:
            if self.state("counter") == "T":
                child.kill()
                frozen = True
                break
        child.communicate(timeout=60)
        return frozen

    def test_at_the_step_itself(self):
        for command in ("snapshot", "stop", "rm"):
            with self.subTest(command=command):
                before = self.assertConsistent()
                done = self.place.run(command, SLOT, env={"ASCOPE_TEST_FAULT": "kill:before-objects"})
                self.assertEqual(done.code, -signal.SIGKILL, done)
                self.assertGoesOn()
                self.assertEqual(self.assertConsistent()["snapshot"]["id"], before["snapshot"]["id"])
        # The next one saves, and nothing of the killed ones is in the way.
        self.place.ok("snapshot", SLOT)
        self.place.ok("gc", SLOT, "--yes")
        self.assertGoesOn()
        self.place.ok("rm", SLOT)
        done = self.place.ok("run", SLOT, "--", "sh", "-c", "cat kept; ls many | wc -l; test ! -e woken")
        self.assertEqual(done.text.split(), ["1", "1500"])

    def test_at_any_moment(self):
        hits = 0
        for attempt in range(ROUNDS * 4):
            self.place.ok("exec", SLOT, "--", "sh", "-c", f"echo {attempt} > kept")
            hits += self.kill_frozen(self.place.popen("snapshot", SLOT))
            self.assertGoesOn()
            self.assertConsistent()
            if hits == ROUNDS:
                break
        self.assertGreater(hits, 0, "the freeze was never seen")
        self.place.ok("rm", SLOT)
        self.assertEqual(self.place.ok("run", SLOT, "--", "cat", "kept").text, f"{attempt}\n")

    def test_a_command_that_came_meanwhile_runs_once(self):
        for _ in range(ROUNDS):
            child = self.place.popen("snapshot", SLOT)
            while child.poll() is None and self.state("counter") != "T":
                pass
            child.send_signal(signal.SIGSTOP)  # it keeps the sandbox frozen
            if self.state("counter") != "T":
                child.send_signal(signal.SIGCONT)
                child.communicate(timeout=60)
                continue
            waiting = self.place.popen("exec", SLOT, "--", "sh", "-c", "echo once >> log; echo done")
            time.sleep(0.2)
            self.assertIsNone(waiting.poll(), "a command ran in a frozen sandbox")
            child.kill()
            child.communicate(timeout=60)
            out, err = waiting.communicate(timeout=60)
            self.assertEqual((waiting.returncode, out), (0, b"done\n"), err)
            self.assertEqual(self.place.ok("exec", SLOT, "--", "cat", "log").text, "once\n")
            break
        else:
            self.fail("the freeze was never seen")
        self.assertGoesOn()

    def test_an_interrupt_thaws_too(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            child = self.place.popen("snapshot", SLOT)
            while child.poll() is None:
                if self.state("counter") == "T":
                    child.send_signal(number)
                    break
            child.communicate(timeout=60)
            self.assertIn(child.returncode, (0, 128 + number))
            self.assertGoesOn()
            self.assertConsistent()

    @unittest.skipUnless(harness.full(), "the big sizes: it takes the longest freeze, a minute")
    def test_a_stopped_program_does_not_stop_the_sandbox_for_ever(self):
        # It stops between the freeze and the first byte that it saves.
        child = self.place.popen("snapshot", SLOT, env={"ASCOPE_TEST_FAULT": "stop:before-objects"})
        harness.wait_for(lambda: self.state("counter") == "T", what="the freeze")
        harness.wait_for(lambda: self.state("counter") != "T", timeout=90, what="the end of the longest freeze")
        self.assertGoesOn()
        child.send_signal(signal.SIGCONT)
        _, err = child.communicate(timeout=60)
        self.assertEqual(child.returncode, 0, err)
        self.assertIn(b"went on before all was saved", err)
        self.assertGoesOn()
        self.assertConsistent()


class RootFrozenTest(Frozen, harness.CliTest):
    pass


class OrdinaryFrozenTest(Frozen, harness.CliTest):
    ordinary = True


if __name__ == "__main__":
    sys.exit(unittest.main())
