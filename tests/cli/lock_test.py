# SPDX-License-Identifier: Apache-2.0
"""Leases by hand: lock run, acquire, release, ls, wait, break."""
import json
import os
import signal
import stat
import sys
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402

SLOT = "session/s1"
SHORT = ("--set", "lock.ttl=1500ms")


def gone(pid):
    """True once no process (but a zombie) has that id."""
    try:
        with open(f"/proc/{pid}/stat", encoding="utf-8", errors="replace") as file:
            return file.read().rsplit(")", 1)[1].split()[0] in "ZX"
    except FileNotFoundError:
        return True


class LockTest(harness.CliTest):
    def acquire(self, *args, slot=SLOT):
        return self.place.ok("lock", "acquire", slot, *args).text.strip()

    def rows(self):
        return self.place.ok("lock", "ls", "-o", "json").json()["leases"]

    def error(self, done, kind, code):
        self.assertEqual(done.code, code, done)
        error = json.loads(done.err.strip().splitlines()[-1])["error"]
        self.assertEqual(error["kind"], kind, done)
        return error

    def held_by(self, script, *options):
        """`lock run -- sh -c script`, once the script has said its first word."""
        child = self.place.popen("lock", "run", *options, SLOT, "--", "sh", "-c", script)
        self.first = child.stdout.readline().decode().strip()
        return child


class AcquireTest(LockTest):
    def test_acquire_prints_the_token_alone_and_release_needs_none(self):
        done = self.place.ok("lock", "acquire", SLOT)
        self.assertRegex(done.text, r"\A[0-9a-f]{32}\n\Z")
        folder = self.place.program_state("leases")
        for name in os.listdir(folder):
            self.assertEqual(stat.S_IMODE(os.stat(os.path.join(folder, name)).st_mode), 0o600)
        [row] = self.rows()
        self.assertEqual((row["slot"], row["standing"], row["holder"]["pid"]), (SLOT, "held", 0))
        self.assertNotIn(done.text.strip(), json.dumps(self.rows()))
        self.place.ok("lock", "release", SLOT)
        self.assertEqual(self.rows(), [])
        self.assertEqual(os.listdir(folder), [])
        self.assertEqual(self.place.run("lock", "release", SLOT).code, 2)

    def test_json_names_the_deadline(self):
        out = self.place.ok("lock", "acquire", SLOT, "--ttl", "10m", "-o", "json").json()
        self.assertEqual((out["schema"], out["slot"], out["ttl_ms"]), ("ascope.lease/1", SLOT, 600000))
        self.assertRegex(out["deadline"], r"^\d{4}-\d\d-\d\dT[\d:.]+Z$")
        self.assertGreater(int(out["fence"]), 1_600_000_000_000_000)

    def test_a_held_slot_is_5_and_names_the_holder(self):
        self.acquire()
        error = self.error(self.place.run("lock", "acquire", SLOT, "--wait", "0", "-o", "json"), "busy", 5)
        self.assertIn("lock acquire", error["message"])
        start = time.monotonic()
        self.error(self.place.run("lock", "wait", SLOT, "--wait", "300ms", "-o", "json"), "busy", 5)
        self.assertGreaterEqual(time.monotonic() - start, 0.3)
        # Another slot is free.
        self.acquire("--wait", "0", slot="session/s2")

    def test_it_runs_out(self):
        token = self.acquire("--ttl", "1s")
        self.place.ok("lock", "acquire", SLOT, "--wait", "10s")
        self.error(self.place.run("lock", "release", SLOT, "--lease", token, "-o", "json"), "conflict", 6)
        self.assertEqual(len(self.rows()), 1)
        self.error(self.place.run("lock", "wait", SLOT, "--lease", token, "-o", "json"), "conflict", 6)

    def test_a_token_of_another_slot_is_6(self):
        token = self.acquire(slot="session/s2")
        self.acquire()
        error = self.error(self.place.run("lock", "release", SLOT, "--lease", token, "-o", "json"), "conflict", 6)
        self.assertIn("session/s2", error["hint"])
        self.error(self.place.run("lock", "wait", SLOT, "-o", "json", env={"ASCOPE_LEASE": token}), "conflict", 6)
        self.assertEqual(len(self.rows()), 2)
        self.place.ok("lock", "release", "session/s2", env={"ASCOPE_LEASE": token})

    def test_fences_rise(self):
        fences = []
        for _ in range(3):
            fences.append(int(self.place.ok("lock", "acquire", SLOT, "-o", "json").json()["fence"]))
            self.place.ok("lock", "release", SLOT)
        self.assertEqual(fences, sorted(set(fences)))

    def test_bad_durations_and_a_profile_without_leases(self):
        self.assertEqual(self.place.run("lock", "acquire", SLOT, "--ttl", "10").code, 2)
        self.assertEqual(self.place.run("lock", "acquire", SLOT, "--ttl", "5ms").code, 2)
        self.error(self.place.run("lock", "ls", "--set", "lock.store=none", "-o", "json"), "unsupported", 13)


class WaitTest(LockTest):
    def test_a_waiter_wakes_when_the_lease_is_released(self):
        self.acquire()
        waiter = self.place.popen("lock", "wait", SLOT)
        self.assertIn(b"Waiting for session/s1", waiter.stderr.readline())
        self.place.ok("lock", "release", SLOT)
        start = time.monotonic()
        self.assertEqual(waiter.wait(20), 0)
        self.assertLess(time.monotonic() - start, 2)
        self.assertEqual(self.rows(), [])

    def test_an_interrupt_ends_the_wait_at_once(self):
        self.acquire()
        for number in (signal.SIGINT, signal.SIGTERM):
            waiter = self.place.popen("lock", "acquire", SLOT)
            waiter.stderr.readline()
            start = time.monotonic()
            waiter.send_signal(number)
            self.assertEqual(waiter.wait(20), 128 + number)
            self.assertLess(time.monotonic() - start, 1)

    def test_order_of_arrival(self):
        self.acquire()
        log = self.place.path("order")
        waiters = []
        for i in range(6):
            waiter = self.place.popen("lock", "run", SLOT, "--", "sh", "-c", f"echo {i} >> {log}")
            waiter.stderr.readline()  # "Waiting for": it has its place in the queue
            waiters.append(waiter)
        self.place.ok("lock", "release", SLOT)
        for waiter in waiters:
            self.assertEqual(waiter.wait(30), 0)
        with open(log, encoding="ascii") as file:
            self.assertEqual(file.read().split(), list("012345"))


class BreakTest(LockTest):
    def test_it_asks_and_takes_yes(self):
        token = self.acquire()
        done = self.place.run("lock", "break", SLOT)
        self.assertEqual(done.code, 2, done)
        self.assertIn("--yes", done.errors)
        self.place.ok("lock", "break", SLOT, "--dry-run")
        self.assertEqual(len(self.rows()), 1)
        out = self.place.ok("lock", "break", SLOT, "--yes", "-o", "json").json()
        self.assertTrue(out["broken"])
        self.assertEqual(self.rows(), [])
        self.error(self.place.run("lock", "release", SLOT, "--lease", token, "-o", "json"), "conflict", 6)
        self.assertFalse(self.place.ok("lock", "break", SLOT, "-o", "json").json()["broken"])

    def test_a_dead_holder_needs_no_yes(self):
        holder = self.held_by("echo $$; exec sleep 100")
        pid = int(self.first)
        self.assertEqual(self.place.run("lock", "break", SLOT).code, 2)
        holder.kill()
        holder.wait(20)
        harness.wait_for(lambda: gone(pid), what="the end of the program with its lease")
        self.assertEqual(self.rows()[0]["standing"], "dead")
        self.place.ok("lock", "break", SLOT)
        self.assertEqual(self.rows(), [])

    def test_a_killed_holder_is_taken_over_at_once(self):
        holder = self.held_by("echo held; exec sleep 100")
        holder.kill()
        holder.wait(20)
        self.place.ok("lock", "acquire", SLOT, "--wait", "2s")


class RunTest(LockTest):
    def test_exit_codes(self):
        self.place.write("plain", "no program\n", 0o644)
        for argv, code in ((["true"], 0), (["sh", "-c", "exit 7"], 7), (["sh", "-c", "kill -9 $$"], 137),
                           (["sh", "-c", "exit 125"], 125), (["no-such-program-anywhere"], 127),
                           ([self.place.path("plain")], 126)):
            with self.subTest(argv=argv):
                done = self.place.run("lock", "run", SLOT, "--", *argv)
                self.assertEqual(done.code, code, done)
                self.assertEqual(self.rows(), [])
        self.assertEqual(self.place.run("lock", "run", SLOT).code, 125)
        self.assertEqual(self.place.run("lock", "run", SLOT, "--").code, 125)
        self.acquire()
        done = self.place.run("lock", "run", SLOT, "--wait", "0", "-o", "json", "--", "true")
        self.assertEqual(done.code, 125, done)
        self.assertEqual((done.error()["kind"], done.error()["exit_code"]), ("busy", 5))

    def test_streams_and_arguments_are_the_programs_own(self):
        done = self.place.ok("lock", "run", SLOT, "--", "sh", "-c", 'cat; printf "%s|" "$@"; echo e >&2', "sh",
                             "a b", "", "--yes", "-o", "$x", stdin=b"in\0\xff\n")
        self.assertEqual((done.out, done.err), (b"in\0\xff\na b||--yes|-o|$x|", b"e\n"))

    def test_nested_commands_join_the_lease(self):
        program = self.place.program()
        inner = f"'{program}' lock run {SLOT} -- sh -c 'echo inner $ASCOPE_LEASE'"
        script = (f"set -e; echo outer $ASCOPE_LEASE; {inner}; '{program}' lock wait {SLOT} --wait 0 >&2; "
                  f"'{program}' lock ls -o name")
        done = self.place.ok("lock", "run", SLOT, "--", "sh", "-c", script)
        outer, nested, listed = done.text.splitlines()
        self.assertRegex(outer, r"^outer [0-9a-f]{32}$")
        self.assertEqual(nested.split()[1], outer.split()[1])
        self.assertEqual(listed, SLOT)
        self.assertEqual(self.rows(), [])
        done = self.place.run("lock", "run", SLOT, "--", program, "lock", "run", "session/s2", "-o", "json", "--",
                              "true")
        self.assertEqual((done.code, done.error()["exit_code"]), (125, 6), done)

    def test_it_renews(self):
        holder = self.held_by("echo held; sleep 4; echo end", *SHORT)
        self.assertEqual(self.place.run("lock", "acquire", SLOT, "--wait", "3s").code, 5)
        self.assertEqual(holder.wait(20), 0)
        self.assertEqual(holder.stdout.read(), b"end\n")

    def test_a_lost_lease_ends_the_program_and_all_it_started(self):
        script = ("trap '' TERM; setsid sh -c 'trap \"\" TERM; while :; do sleep 1; done' & echo $!; "
                  "while :; do sleep 1; done")
        holder = self.held_by(script, *SHORT, "-o", "json")
        stray = int(self.first)
        self.place.ok("lock", "break", SLOT, "--yes")
        token = self.acquire("--wait", "1s")
        self.assertEqual(holder.wait(20), 125)
        error = json.loads(holder.stderr.read().strip().splitlines()[-1])["error"]
        self.assertEqual((error["kind"], error["exit_code"]), ("conflict", 6))
        harness.wait_for(lambda: gone(stray), what="the end of all that the program started")
        # What the loser did at its end did not touch the new holder's lease.
        self.place.ok("lock", "release", SLOT, "--lease", token)

    def test_a_stopped_holder_finds_its_lease_lost(self):
        holder = self.held_by("echo held; exec sleep 100", *SHORT, "-o", "json")
        holder.send_signal(signal.SIGSTOP)
        token = self.acquire("--wait", "10s")
        holder.send_signal(signal.SIGCONT)
        self.assertEqual(holder.wait(20), 125)
        self.place.ok("lock", "release", SLOT, "--lease", token)

    def test_max_hold_ends_the_program_as_a_timeout(self):
        start = time.monotonic()
        done = self.place.run("lock", "run", "--set", "lock.max_hold=1s", SLOT, "--", "sleep", "60")
        self.assertEqual(done.code, 124, done)
        self.assertLess(time.monotonic() - start, 10)
        self.assertIn("max_hold", done.errors)
        self.assertEqual(self.rows(), [])

    def test_signals_reach_the_program_and_the_second_kills(self):
        for name in ("INT", "TERM", "HUP", "QUIT"):
            number = getattr(signal, "SIG" + name)
            holder = self.held_by(f"trap 'echo {name}; exit 9' {name}; echo held; while :; do sleep 0.05; done")
            holder.send_signal(number)
            self.assertEqual(holder.wait(20), 9)
            self.assertEqual(holder.stdout.read().decode().strip(), name)
        holder = self.held_by("echo held; exec sleep 100")
        holder.send_signal(signal.SIGTERM)
        self.assertEqual(holder.wait(20), 143)
        holder = self.held_by("trap 'echo once' TERM; echo held; while :; do sleep 0.05; done")
        holder.send_signal(signal.SIGTERM)
        self.assertEqual(holder.stdout.readline(), b"once\n")
        holder.send_signal(signal.SIGTERM)
        self.assertEqual(holder.wait(20), 137)
        self.assertEqual(self.rows(), [])

    def test_many_take_turns(self):
        counter = self.place.write("counter", "0")
        script = f"n=$(cat {counter}); sleep 0.01; echo $((n + 1)) > {counter}"
        children = [self.place.popen("lock", "run", SLOT, "--", "sh", "-c", script) for _ in range(12)]
        for child in children:
            self.assertEqual(child.wait(60), 0)
        with open(counter, encoding="ascii") as file:
            self.assertEqual(file.read().strip(), "12")


class LifecycleTest(LockTest):
    """The lease that a user holds, and the commands that change a slot."""

    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)

    def test_commands_below_lock_run_work_under_its_lease(self):
        program = self.place.program()
        script = (f"'{program}' start {SLOT} --wait 0 && '{program}' exec {SLOT} -- sh -c 'echo hi > f' && "
                  f"'{program}' snapshot {SLOT} --wait 0 >&2 && '{program}' run {SLOT} --wait 0 -- cat f")
        done = self.place.ok("lock", "run", SLOT, "--", "sh", "-c", script)
        self.assertTrue(done.text.endswith("hi\n"), done)
        self.assertEqual(self.rows(), [])

    def test_a_slot_held_by_hand_is_changed_with_its_token_only(self):
        token = self.acquire()
        error = self.error(self.place.run("start", SLOT, "--wait", "0", "-o", "json"), "busy", 5)
        self.assertIn("lock acquire", error["message"])
        self.place.ok("start", SLOT, "--lease", token)
        # exec takes no lease.
        self.place.ok("exec", SLOT, "--", "true")
        self.assertEqual(self.place.run("stop", SLOT, "--wait", "0").code, 5)
        self.place.ok("stop", SLOT, env={"ASCOPE_LEASE": token})
        [row] = self.rows()
        self.assertEqual(row["standing"], "held")
        self.error(self.place.run("start", "session/s2", "--lease", token, "-o", "json"), "conflict", 6)
        self.place.ok("lock", "release", SLOT)
        self.place.ok("start", SLOT, "--wait", "0")
        self.error(self.place.run("stop", SLOT, "--lease", token, "-o", "json"), "conflict", 6)


if __name__ == "__main__":
    unittest.main()
