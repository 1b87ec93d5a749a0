# SPDX-License-Identifier: Apache-2.0
"""Processes inside against the guest that serves them: signals, bombs, commands that will not end, and a host that
slept through its lease."""
import json
import os
import secrets
import signal
import sys
import time
import unittest

import harness

SLOT = "session/processes"
# A few seconds on a busy machine; the goal on a quiet one is 2.
STOP_LIMIT = 8.0
TREE = """
mark=$1
loop() { exec sh -c 'trap "" TERM HUP INT; while :; do sleep 0.1; done' "$mark-$1"; }
(setsid sh -c 'trap "" TERM HUP INT; while :; do sleep 0.1; done' "$mark-setsid" &)
( (loop double &) & )
nohup sh -c 'trap "" TERM HUP; while :; do sleep 0.1; done' "$mark-nohup" >/dev/null 2>&1 &
setsid nohup sh -c '(setsid sh -c "trap \\"\\" TERM; while :; do sleep 0.1; done" '"$mark"'-deep &) ; exit' >/dev/null 2>&1 &
(loop plain) &
sh -c 'trap "" TERM; kill -STOP $$; sleep 100' "$mark-stopped" &
echo started
loop main
"""

BOMB = """
import os, signal, time
for number in (1, 2, 15): signal.signal(number, signal.SIG_IGN)
print('ready', flush=True)
while True:
    try: os.fork()
    except OSError: time.sleep(0.02)
"""


class Processes:
    ordinary = False
    settings = ("--set", "idle_timeout=0s")

    def setUp(self):
        harness.need_root(self.ordinary)
        super().setUp()
        harness.need_sandbox(self.place)
        self.mark = "mark" + secrets.token_hex(4)

    def run_in(self, *args, **options):
        return self.place.run(*args[:1], *self.settings, *args[1:], **options)

    def host_processes(self, word):
        """Ids on the host of the processes whose command line has `word` as it stands, the CLI's own left out."""
        found = set()
        for name in os.listdir("/proc"):
            if name.isdigit():
                try:
                    with open(f"/proc/{name}/cmdline", "rb") as file:
                        line = file.read()
                except OSError:
                    continue
                if word.encode() in line and b"ascope-sandbox" not in line:
                    found.add(int(name))
        return found

    def stop_in_time(self, *more):
        begin = time.monotonic()
        done = self.run_in("stop", SLOT, *more)
        took = time.monotonic() - begin
        self.assertEqual(done.code, 0, done)
        self.assertLess(took, STOP_LIMIT)

    # ---- signals

    def test_the_first_process_minds_no_signal(self):
        self.check(self.run_in("start", SLOT))
        pid = self.place.ok("show", SLOT, "-o", "json").json()["sandbox"]["details"]["pid"]
        script = "for n in $(seq 1 64); do kill -$n 1 2>/dev/null; done; kill -KILL 1; kill -STOP 1; true"
        for user in ((), ("--as", "root")) if not self.place.ordinary else ((), ):
            self.check(self.run_in("exec", *user, SLOT, "--", "sh", "-c", script))
            self.check(self.run_in("exec", SLOT, "--timeout", "20s", "--", "true"))
        self.assertEqual(self.place.ok("show", SLOT, "-o", "json").json()["sandbox"]["details"]["pid"], pid)

    def test_a_command_that_turns_on_its_guest_is_ended_all_the_same(self):
        # Code of the same user (root's, or an ordinary user's one user) can signal the guest's process of its own
        # command. It gains nothing: the caller hears of it, its time limit holds, and the sandbox goes on.
        user = () if self.place.ordinary else ("--as", "root")
        self.check(self.run_in("start", SLOT))
        for name, limit in (("KILL", "60s"), ("STOP", "100ms")):
            with self.subTest(signal=name):
                begin = time.monotonic()
                done = self.run_in("exec", *user, "--timeout", limit, SLOT, "--", "sh", "-c",
                                   f"kill -{name} $PPID; while :; do sleep 0.1; done", self.mark + name)
                self.assertLess(time.monotonic() - begin, 25)
                self.assertEqual(done.code, 125 if name == "KILL" else 124, done)
                if name == "KILL":
                    self.assertIn("error: ", done.errors)
                else:
                    self.assertEqual(self.host_processes(self.mark + name), set())
                self.check(self.run_in("exec", SLOT, "--", "true"))
        self.stop_in_time()
        self.assertEqual(self.host_processes(self.mark), set())

    def test_the_end_of_the_sandbox_is_said(self):
        self.check(self.run_in("start", SLOT))
        pid = int(self.place.ok("show", SLOT, "-o", "json").json()["sandbox"]["details"]["pid"])
        child = self.place.popen("exec", SLOT, "--", "sh", "-c", "echo ready; exec sleep 1000")
        self.assertEqual(child.stdout.readline(), b"ready\n")
        os.kill(pid, signal.SIGKILL)
        out, err = child.communicate(timeout=60)
        self.assertEqual((child.returncode, out), (125, b""), err)
        self.assertIn(b"ascope-sandbox: error: ", err)
        self.assertEqual(self.run_in("exec", SLOT, "--", "true").code, 125)
        done = self.check(self.run_in("start", SLOT, "-o", "json"))
        self.assertEqual(done.json()["branch"], "A")

    # ---- time limits

    def test_a_timeout_leaves_no_descendant(self):
        self.check(self.run_in("start", SLOT))
        command = "exec" if self.place.ordinary else "run"
        child = self.place.popen(command, *self.settings, "--timeout", "2s", SLOT, "--", "sh", "-c", TREE, "sh", self.mark)
        self.assertEqual(child.stdout.readline(), b"started\n")
        # All of them are there, the stopped one too.
        harness.wait_for(lambda: len(self.host_processes(self.mark)) >= 7, what="the tree of processes")
        child.communicate(timeout=60)
        self.assertEqual(child.returncode, 124)
        self.assertEqual(self.host_processes(self.mark), set())
        self.check(self.run_in("exec", SLOT, "--", "true"))

    def test_a_timeout_that_ends_the_sandboxs_processes(self):
        self.check(self.run_in("start", SLOT))
        self.check(self.run_in("exec", SLOT, "--", "sh", "-c", f"setsid sleep 1000 & exec sh -c 'exit 0' {self.mark}"))
        done = self.run_in("exec", "--timeout", "500ms", "--timeout-kill", "sandbox", SLOT, "--", "sleep", "1000")
        self.assertEqual(done.code, 124, done)
        listed = self.check(self.run_in("exec", SLOT, "--", "sh", "-c", "cat /proc/[0-9]*/comm"))
        self.assertNotIn("sleep", listed.text)

    # ---- bombs

    def test_a_fork_bomb_keeps_nobody_from_stopping_it(self):
        self.settings = (*self.settings, "--set", "backend.pids=80")
        self.check(self.run_in("start", SLOT))
        self.check(self.run_in("exec", SLOT, "--", "sh", "-c", '"$@" >/dev/null 2>&1 &', "sh", "/usr/bin/python3", "-c",
                               BOMB, self.mark))
        harness.wait_for(lambda: len(self.host_processes(self.mark)) > 60, what="the bomb")
        codes = set()
        deadline = time.monotonic() + 20
        # A group counts the guest's processes too; without one the limit is that of the command's own user.
        by_group = any("ascope-" in line for line in self.groups())
        while (125 not in codes if by_group else 0 not in codes) and time.monotonic() < deadline:
            done = self.run_in("exec", "--timeout", "2s", SLOT, "--", "true")
            codes.add(done.code)
            self.assertIn(done.code, (0, 124, 125), done)
            if done.code == 125:
                self.assertIn("no process left", done.errors)
        self.assertIn(125 if by_group else 0, codes, "the limit was never felt")
        self.assertLessEqual(len(self.host_processes(self.mark)), 80)
        looked = self.check(self.run_in("show", SLOT, "-o", "json"))
        self.assertEqual(looked.json()["sandbox"]["phase"], "running")
        self.stop_in_time()
        self.assertEqual(self.host_processes(self.mark), set())
        self.check(self.run_in("run", SLOT, "--", "true"))

    def test_a_memory_bomb_ends_itself_alone(self):
        self.settings = (*self.settings, "--set", "backend.memory=128MiB")
        started = self.check(self.run_in("start", SLOT, "-o", "json")).json()
        self.check(self.run_in("exec", SLOT, "--", "sh", "-c", "echo kept > f"))
        done = self.run_in("exec", "--timeout", "60s", SLOT, "--", "/usr/bin/python3", "-c",
                           "x = [bytearray(8 << 20) for _ in range(100)]\nprint('had it all')")
        self.assertNotEqual(done.code, 0, done)
        self.assertNotIn("had it all", done.text)
        group = self.memory_group()
        if group is None:
            self.assertTrue(any(item.startswith("memory:") for item in started["not_enforced"]), started)
        else:
            # Many processes together: what no limit of one process holds.
            self.run_in("exec", "--timeout", "60s", SLOT, "--", "/usr/bin/python3", "-c",
                        "import os, time\nfor _ in range(12):\n  read, write = os.pipe()\n"
                        "  if os.fork() == 0:\n    x = bytearray(32 << 20)\n    os.write(write, b'x')\n    time.sleep(100)\n"
                        "  os.close(write)\n  os.read(read, 1)\n")
            with open(group, encoding="ascii") as file:
                self.assertLessEqual(int(file.read()), 128 << 20)
            self.assertEqual(started["not_enforced"], [])
        self.stop_in_time()
        done = self.check(self.run_in("run", SLOT, "--", "cat", "f"))
        self.assertEqual(done.text, "kept\n")

    def groups(self):
        """The control groups of the sandbox's first process."""
        pid = self.place.ok("show", SLOT, "-o", "json").json()["sandbox"]["details"]["pid"]
        with open(f"/proc/{pid}/cgroup", encoding="ascii") as file:
            return file.read().splitlines()

    def memory_group(self):
        """The file that tells the use of the sandbox's group; None where no group holds it."""
        name = "ascope-" + self.place.ok("show", SLOT, "-o", "json").json()["sandbox"]["id"]
        for line in self.groups():
            number, controllers, path = line.split(":", 2)
            if not path.endswith(name):
                continue
            if number == "0" and os.path.exists(f"/sys/fs/cgroup{path}/memory.max"):
                return f"/sys/fs/cgroup{path}/memory.current"
            if controllers == "memory":
                return f"/sys/fs/cgroup/memory/{name}/memory.usage_in_bytes"
        return None

    def test_what_fills_tmp_is_bounded(self):
        # Else a command could take the machine's memory through it.
        self.settings = (*self.settings, "--set", "backend.memory=64MiB")
        self.check(self.run_in("start", SLOT))
        done = self.run_in("exec", "--timeout", "60s", SLOT, "--", "sh", "-c",
                           "dd if=/dev/zero of=/tmp/x bs=1M count=200 2>/dev/null; stat -c %s /tmp/x")
        if done.code == 0:
            self.assertLessEqual(int(done.text), 64 << 20)
        self.stop_in_time()


class RootProcessesTest(Processes, harness.CliTest):
    def test_limits_are_held_by_a_group(self):
        harness.need("cgroup", os.access("/sys/fs/cgroup/memory", os.W_OK) or os.access(
            "/sys/fs/cgroup/cgroup.controllers", os.R_OK), "no cgroup of memory may be made here")
        done = self.place.ok("start", SLOT, "--set", "backend.memory=64MiB", "--set", "backend.pids=50", "--set",
                             "backend.cpus=1", "-o", "json").json()
        harness.need("cgroup", done["not_enforced"] == [], f"this machine's groups hold only in part: "
                     f"{done['not_enforced']}")
        self.assertIsNotNone(self.memory_group())


class OrdinaryProcessesTest(Processes, harness.CliTest):
    ordinary = True

    def test_a_killed_caller_leaves_no_command(self):
        self.check(self.run_in("start", SLOT))
        child = self.place.popen("exec", SLOT, "--", "sh", "-c", TREE, "sh", self.mark)
        self.assertEqual(child.stdout.readline(), b"started\n")
        child.kill()
        harness.wait_for(lambda: not self.host_processes(self.mark), what="the end of all that the command started")

    def test_what_is_not_held_is_said(self):
        done = self.place.ok("start", SLOT, "--set", "backend.memory=64MiB", "--set", "backend.pids=50", "--set",
                             "backend.cpus=1", "-o", "json").json()
        if self.memory_group() is None:
            self.assertEqual([item.split(":")[0] for item in done["not_enforced"]], ["memory", "pids", "cpus"])
        self.assertEqual(done["ids"], "single")


class StaleHostTest(harness.CliTest):
    """Two hosts (here: two state folders on shared stores); one of them sleeps through its lease."""

    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)
        shared = "sqlite:" + self.place.path("shared.db")
        self.settings = ("--set", "state=" + shared, "--set", "lock.store=" + shared, "--set",
                         "snapshots.store=local:" + self.place.path("snapshots"), "--set", "lock.ttl=1500ms")
        self.second = {"XDG_STATE_HOME": os.path.join(self.place.root, "second")}

    def test_it_writes_nothing_and_ends_nothing(self):
        self.place.ok("run", SLOT, *self.settings, "--", "sh", "-c", "echo first > f")
        status = self.place.path("status")
        sleeper = self.place.popen("run", SLOT, *self.settings, "--release", "destroy", "--status-file", status, "--",
                                   "sh", "-c", "echo stale > f; echo ready; read x < /workspace/fifo || sleep 3")
        self.assertEqual(sleeper.stdout.readline(), b"ready\n")
        sleeper.send_signal(signal.SIGSTOP)
        # The other host takes over once the lease ran out, gives the sleeper's work up by name, and goes on.
        done = self.place.run("run", SLOT, *self.settings, "--allow-loss", "--", "sh", "-c", "cat f; echo second > f",
                              env=self.second)
        self.assertEqual((done.code, done.text), (0, "first\n"), done)
        before = self.place.ok("show", SLOT, *self.settings, "-o", "json", env=self.second).json()
        sleeper.send_signal(signal.SIGCONT)
        _, err = sleeper.communicate(timeout=60)
        self.assertEqual(sleeper.returncode, 125, err)
        with open(status, encoding="utf-8") as file:
            receipt = json.load(file)
        self.assertEqual((receipt["error"]["kind"], receipt["exit_code"]), ("conflict", 6))
        after = self.place.ok("show", SLOT, *self.settings, "-o", "json", env=self.second).json()
        for key in ("revision", "fence", "document", "snapshot", "live"):
            self.assertEqual(after[key], before[key], key)
        done = self.place.ok("run", SLOT, *self.settings, "--", "cat", "f", env=self.second)
        self.assertEqual(done.text, "second\n")
        # Its work is kept in its own sandbox, and saved beside the history when this host comes back.
        self.place.ok("rm", SLOT, *self.settings, env=self.second)
        done = self.place.ok("start", SLOT, *self.settings, "-o", "json").json()
        self.assertIsNotNone(done["stranded"], done)
        self.assertEqual(self.place.ok("exec", SLOT, *self.settings, "--", "cat", "f").text, "second\n")
        saved = self.place.ok("snapshot", "cat", f"{SLOT}@{done['stranded']}", *self.settings, "f")
        self.assertEqual(saved.text, "stale\n")


if __name__ == "__main__":
    sys.exit(unittest.main())
