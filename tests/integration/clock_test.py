# SPDX-License-Identifier: Apache-2.0
"""Clocks that jump: leases are neither lost nor stolen, fences rise, and a history keeps its order.

A library loaded before the others shifts the clocks of the program. The shifts, in seconds, stand in a file that is
read at each call, so that they change while a program runs."""
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import unittest

import harness

HOUR, YEARS = 3600, 10 * 365 * 86400
SLOT = "session/clock"
SHIM = r"""
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static long shift(clockid_t id) {
  const char *path = getenv("SHIFT_FILE");
  char text[64] = {0};
  int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
  if (fd < 0) return 0;
  ssize_t count = read(fd, text, sizeof text - 1);
  close(fd);
  if (count <= 0) return 0;
  char *rest;
  long wall = strtol(text, &rest, 10), boot = strtol(rest, &rest, 10);
  return id == CLOCK_REALTIME || id == CLOCK_REALTIME_COARSE ? wall : id == CLOCK_BOOTTIME ? boot : 0;
}
int clock_gettime(clockid_t id, struct timespec *out) {
  int result = (int)syscall(SYS_clock_gettime, id, out);
  if (result == 0) out->tv_sec += shift(id);
  return result;
}
int gettimeofday(struct timeval *out, void *zone) {
  struct timespec now;
  (void)zone;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
"""


class ClockTest(harness.CliTest):
    shim = None

    @classmethod
    def setUpClass(cls):
        if harness.sanitized():
            raise unittest.SkipTest("sanitizers: their runtime must be the first library, so no other can be")
        compiler = next((name for name in ("cc", "gcc", "clang") if shutil.which(name)), None)
        harness.need("cc", compiler is not None, "no C compiler, so no library that shifts the clocks")
        folder = tempfile.mkdtemp(prefix="ascclock", dir="/tmp")
        cls.addClassCleanup(shutil.rmtree, folder)
        source = os.path.join(folder, "shift.c")
        with open(source, "w", encoding="ascii") as file:
            file.write(SHIM)
        cls.shim = os.path.join(folder, "shift.so")
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", cls.shim, source], check=True)

    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)
        self.files = {}

    def shifted(self, wall=0, boot=0, name="shift"):
        """The environment of a program with these shifts; set() changes them while it runs."""
        self.set(wall, boot, name)
        return {"LD_PRELOAD": self.shim, "SHIFT_FILE": self.place.path(name)}

    def set(self, wall=0, boot=0, name="shift"):
        path = self.place.path(name)
        with open(path + ".new", "w", encoding="ascii") as file:
            file.write(f"{wall} {boot}")
        os.rename(path + ".new", path)

    def holder(self, env, *options, script="echo held; cat > /dev/null"):
        child = self.place.popen("lock", "run", *options, SLOT, "--", "sh", "-c", script, env=env,
                                 stdin=subprocess.PIPE)
        self.assertEqual(child.stdout.readline(), b"held\n")
        return child

    def test_the_shim_shifts(self):
        for wall in (0, YEARS, -YEARS):
            receipt = self.place.ok("start", SLOT, "-o", "json", env=self.shifted(wall)).json()
            expected = time.gmtime(time.time() + wall).tm_year
            self.assertLessEqual(abs(int(receipt["time"][:4]) - expected), 1)

    def test_a_wrong_wall_clock_neither_steals_nor_loses_a_lease(self):
        for shift in (HOUR, -HOUR, YEARS, -YEARS):
            with self.subTest(shift=shift):
                right, wrong = self.shifted(0, name="right"), self.shifted(shift, name="wrong")
                for holds, comes in ((right, wrong), (wrong, right)):
                    holder = self.holder(holds, "--set", "lock.ttl=1500ms")
                    done = self.place.run("lock", "acquire", SLOT, "--wait", "0", env=comes)
                    self.assertEqual(done.code, 5, done)
                    holder.stdin.close()
                    self.assertEqual(holder.wait(30), 0, holder.stderr.read())

    def test_a_jump_of_the_wall_clock_while_it_is_held(self):
        env = self.shifted(0)
        holder = self.holder(env, "--set", "lock.ttl=1500ms")
        for shift in (YEARS, -YEARS):
            self.set(shift)
            time.sleep(1)  # at least one renewal falls into it
            self.assertEqual(self.place.run("lock", "acquire", SLOT, "--wait", "0").code, 5)
        holder.stdin.close()
        self.assertEqual(holder.wait(30), 0, holder.stderr.read())

    def test_a_lease_of_a_wrong_clock_ends_in_time(self):
        for shift in (YEARS, -YEARS):
            token = self.place.ok("lock", "acquire", SLOT, "--ttl", "1s", env=self.shifted(shift)).text.strip()
            self.assertEqual(self.place.run("lock", "acquire", SLOT, "--wait", "0").code, 5)
            self.place.ok("lock", "acquire", SLOT, "--ttl", "1s", "--wait", "20s")
            self.assertEqual(self.place.run("lock", "release", SLOT, "--lease", token).code, 6)
            self.place.ok("lock", "wait", SLOT, "--wait", "20s")

    def test_fences_rise_whatever_the_clock_says(self):
        fences = []
        for number, shift in enumerate((0, YEARS, -YEARS, HOUR, -HOUR, 0)):
            receipt = self.place.ok("run", SLOT, "-o", "json", "--", "sh", "-c", f"echo {number} >> log",
                                    env=self.shifted(shift)).json()["receipt"]
            fences.append(int(receipt["fence"]))
        self.assertEqual(fences, sorted(set(fences)))
        self.assertEqual(self.place.ok("run", SLOT, "--", "cat", "log").text.split(), list("012345"))

    def test_the_history_keeps_the_order_in_which_things_were_done(self):
        shifts = (0, YEARS, -YEARS, -HOUR, HOUR, 0)
        made = []
        for number, shift in enumerate(shifts):
            done = self.place.ok("run", SLOT, "-o", "json", "--", "sh", "-c", f"echo {number} > f", env=self.shifted(shift))
            made.append(done.json()["receipt"]["snapshot"])
        newest_first = list(reversed(made))
        listed = self.place.ok("snapshot", "ls", SLOT, "-o", "json").json()["snapshots"]
        self.assertEqual([item["snapshot"] for item in listed], newest_first)
        receipts = self.place.ok("history", SLOT, "-o", "json").json()["receipts"]
        self.assertEqual([item["snapshot"] for item in receipts], newest_first)
        for back in range(len(made)):
            done = self.place.ok("snapshot", "cat", f"{SLOT}@latest~{back}", "f")
            self.assertEqual(done.text, f"{len(made) - 1 - back}\n")
        why = self.place.ok("why", SLOT, "-o", "json").json()
        self.assertEqual(why["snapshot"], made[-1])
        # What is kept as the last ones are the last ones, not those with the latest time.
        self.place.ok("gc", SLOT, "--yes", "--set", "snapshots.keep={last: 3}")
        listed = self.place.ok("snapshot", "ls", SLOT, "-o", "json").json()["snapshots"]
        self.assertEqual([item["snapshot"] for item in listed], newest_first[:3])
        self.place.ok("restore", f"{SLOT}@latest~1", "--yes", env=self.shifted(-YEARS))
        self.assertEqual(self.place.ok("run", SLOT, "--", "cat", "f", env=self.shifted(YEARS)).text, "4\n")
        self.place.ok("undo", SLOT, "--yes")
        self.assertEqual(self.place.ok("run", SLOT, "--", "cat", "f").text, "5\n")

    def test_a_machine_that_slept_lost_nothing(self):
        """All clocks but the one of time awake go on while a machine sleeps; nobody else wanted the slot."""
        env = self.shifted(0, 0)
        child = self.place.popen("run", SLOT, "--set", "lock.ttl=2s", "--", "sh", "-c", "echo before; sleep 2; echo x > f",
                                 env=env)
        self.assertEqual(child.stdout.readline(), b"before\n")
        self.set(8 * HOUR, 8 * HOUR)
        out, err = child.communicate(timeout=60)
        self.assertEqual((child.returncode, out), (0, b""), err)
        self.assertEqual(self.place.ok("run", SLOT, "--", "cat", "f", env=env).text, "x\n")

    def test_after_a_sleep_there_is_one_holder_at_most(self):
        """Another one waited when the machine slept for longer than the lease lasts: the lease is free, the first
        holder is told, and both never go on at once."""
        env = self.shifted(0, 0)
        log = self.place.path("log")
        first = self.holder(env, "--set", "lock.ttl=2s", script=f"echo held; while sleep 0.05; do echo 1 >> {log}; done")
        second = self.place.popen("lock", "run", "--set", "lock.ttl=2s", SLOT, "--", "sh", "-c",
                                  f"for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30; "
                                  f"do echo 2 >> {log}; sleep 0.05; done; echo end >> {log}", env=env)
        self.assertIn(b"Waiting for", second.stderr.readline())
        self.set(HOUR, HOUR)
        self.assertEqual(second.wait(60), 0, second.stderr.read())
        self.assertEqual(first.wait(60), 125)
        self.assertIn(b"lease lost", first.stderr.read())

    def test_a_short_sleep_is_nothing(self):
        env = self.shifted(0, 0)
        holder = self.holder(env, "--set", "lock.ttl=20s")
        self.set(12, 12)
        self.assertEqual(self.place.run("lock", "acquire", SLOT, "--wait", "0", env=env).code, 5)
        holder.stdin.close()
        self.assertEqual(holder.wait(30), 0, holder.stderr.read())

    def test_receipts_tell_no_negative_times(self):
        env = self.shifted(0, 0)
        child = self.place.popen("run", SLOT, "-o", "json", "-i", "--", "sh", "-c", "read x; echo y > f", env=env,
                                 stdin=subprocess.PIPE)
        harness.wait_for(lambda: self.place.run("show", SLOT, "-o", "json").code == 0, what="the slot")
        self.set(-YEARS)
        out, err = child.communicate(b"go\n", timeout=60)
        self.assertEqual(child.returncode, 0, err)
        receipt = json.loads(out)["receipt"]
        self.assertTrue(all(phase["ms"] >= 0 for phase in receipt["phases"]), receipt)
        self.assertGreaterEqual(receipt["lock_wait_ms"], 0)


if __name__ == "__main__":
    sys.exit(unittest.main())
