# SPDX-License-Identifier: Apache-2.0
"""snapshot, restore and gc beside each other on one store, each killed at any moment: the store checks clean
afterwards, and the last committed snapshot of each slot comes back whole."""
import os
import random
import signal
import sys
import threading
import time
import unittest

import harness

KILLS = 200 if harness.full() else 12
SLOTS = ("session/one", "session/two")

# Changes some of the files, and the list of what they are.
CHANGE = """
mkdir -p d; for n in $(seq 5); do head -c $((RANDOM_SIZE * n)) /dev/urandom > d/$n.$NUMBER; done
ls d | head -n -20 | while read old; do rm "d/$old"; done
sha256sum d/* > sums
"""
PROVE = "sha256sum -c --quiet sums && ls d | wc -l"


class KillTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)
        self.chance = random.Random(17)
        self.stop = threading.Event()
        self.failures = []
        self.kills = dict.fromkeys(("snapshot", "restore", "gc"), 0)

    def change(self, slot, number):
        self.place.ok("run", slot, "--wait", "5m", "-e", f"NUMBER={number}", "-e", "RANDOM_SIZE=9000", "--", "sh", "-c",
                      CHANGE, timeout=600)

    def killed(self, kind, *args):
        """Runs a command and kills it at a random moment; one that was faster counts as killed at its end."""
        child = self.place.popen(*args)
        time.sleep(self.chance.random() * 0.25)
        child.kill()
        out, err = child.communicate()
        if child.returncode == -signal.SIGKILL:
            self.kills[kind] += 1
        elif child.returncode not in (0, 3, 4, 5):  # busy slots are skipped or waited for; a safety snapshot may be gone
            self.failures.append(f"{args}: code {child.returncode}: {err.decode(errors='replace')}{out!r}")

    def loop(self, kind, step):
        try:
            while not self.stop.is_set():
                step()
        except Exception as error:  # seen by the test's own thread
            self.failures.append(f"{kind}: {error}")

    def test_the_last_committed_comes_back(self):
        for slot in SLOTS:
            self.change(slot, "begin")
        numbers = {slot: 0 for slot in SLOTS}

        def work(slot):
            numbers[slot] += 1
            self.place.run("start", slot, "--wait", "5m", timeout=600)
            self.place.run("exec", slot, "-e", f"NUMBER={numbers[slot]}", "-e", "RANDOM_SIZE=9000", "--", "sh", "-c",
                           CHANGE, timeout=600)
            self.killed("snapshot", "snapshot", slot, "--wait", "1m")
            if numbers[slot] % 3 == 0:
                self.killed("restore", "restore", slot + "@latest", "--yes", "--kill", "--wait", "1m")

        threads = [threading.Thread(target=self.loop, args=(slot, lambda slot=slot: work(slot))) for slot in SLOTS]
        threads.append(threading.Thread(target=self.loop, args=("gc", lambda: self.killed(
            "gc", "gc", "--yes", "--grace", "0s", "--set", "snapshots.keep={last: 3}"))))
        for thread in threads:
            thread.start()
        deadline = time.monotonic() + (3600 if harness.full() else 240)
        while sum(self.kills.values()) < KILLS and time.monotonic() < deadline and not self.failures:
            time.sleep(0.05)
        self.stop.set()
        for thread in threads:
            thread.join()
        self.assertEqual(self.failures, [])
        self.assertGreaterEqual(sum(self.kills.values()), KILLS, self.kills)
        print("killed:", self.kills, file=sys.stderr)
        self.prove()

    def prove(self):
        self.place.ok("snapshot", "check", "--all", "--read-data", timeout=600)
        for slot in SLOTS:
            self.place.ok("start", slot)
            self.place.ok("run", slot, "--", "true")
            heads = [row["snapshot"] for row in
                     self.place.ok("snapshot", "ls", slot, "-o", "json").json()["snapshots"] if row["head"]]
            self.place.ok("rm", slot)
            started = self.place.ok("start", slot, "--expect", "C", "-o", "json").json()
            self.assertEqual([started["restored"]], heads)
            self.place.ok("exec", slot, "--", "sh", "-c", PROVE)
        self.place.ok("gc", "--yes", "--grace", "0s")
        self.place.ok("snapshot", "check", "--all", "--read-data", timeout=600)
        left = [name for _, _, files in os.walk(self.place.program_state("snapshots", "condemned")) for name in files]
        self.assertEqual(left, [])


if __name__ == "__main__":
    sys.exit(unittest.main())
