# SPDX-License-Identifier: Apache-2.0
"""Faults of section A: lifecycle, the four branches, scopes, gc of sandboxes."""
import os
import shutil
import signal
import subprocess
import sys
import time
import unittest

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:0] = [HERE, os.path.join(os.path.dirname(HERE), "cli")]
import harness  # noqa: E402
from faults import SandboxTest  # noqa: E402


def shared(root):
    """Options that put state, leases and snapshots where two machines could see them."""
    return ("--set", f"state=sqlite:{root}/state.db", "--set", f"lock.store=sqlite:{root}/state.db", "--set",
            f"snapshots.store=local:{root}/snapshots")


class KeyTest(SandboxTest):
    def test_same_scope_same_key(self):
        """Snapshot written under one id, looked up under a new one"""
        common = self.place.path("common")
        os.mkdir(common)
        at = shared(common)
        self.do("echo one > f", *at, "--user", "u", "--release", "destroy")
        objects = sorted(os.listdir(common + "/snapshots"))
        other = harness.Place()
        self.addCleanup(other.close)
        for turn in range(2):
            # A process with no local state of its own finds the snapshot by the scope alone, and makes no second one.
            done = other.ok("run", *at, "--user", "u", "--release", "destroy", "--", "cat", "f")
            self.assertEqual(done.out, b"one\n")
            self.assertEqual(sorted(os.listdir(common + "/snapshots")), objects, turn)
            shutil.rmtree(other.program_state())
        self.assertEqual(other.run("run", *at, "--user", "v", "--", "cat", "f").code, 1)

    def test_every_path_that_saves_uses_the_chosen_store(self):
        """One code path ignores the configured snapshot store"""
        chosen = self.place.path("chosen")
        self.place.write("ascope.yaml", f"snapshots: {{store: 'local:{self.place.path('from-file')}'}}\n")
        self.place.ok("profile", "trust")
        option = ("--set", "snapshots.store=local:" + chosen)
        counts = []

        def count():
            counts.append(sum(len(files) for folder, _, files in os.walk(chosen) if "/snapshots/" in folder))
        self.do("echo 1 > f", *option)
        count()
        for command in (["snapshot"], ["stop"], ["rm"], ["restore", "latest~1"]):
            self.place.ok("start", *option)
            self.sh(f"echo {command[0]} > f", *option)
            self.place.ok(*command, *option)
            count()
        self.assertEqual(counts, [1, 2, 3, 4, 5])
        self.assertFalse(os.path.exists(self.place.path("from-file")))
        self.assertFalse(os.path.exists(self.place.program_state("snapshots")))
        done = self.place.run("run", "--set", "snapshots.store=none", "--release", "destroy", "--", "true")
        self.assertEqual(done.code, 125, "a store that is off saves nowhere else instead")
        self.assertFalse(os.path.exists(self.place.path("from-file")))

    def test_present_configuration_decides(self):
        """Changed configuration ignored on resume"""
        self.place.write("src/a/one", "1\n")
        self.place.write("src/b/two", "2\n")

        def profile(include, variable, entry):
            self.place.write("ascope.yaml", "workspace:\n"
                             f"  projection: {{source: ./src, include: [{include}]}}\n"
                             f"  environment: {{COLOUR: {variable}}}\n"
                             f"  entries: {{note: {{type: file, content: {entry}}}}}\n")
        profile("a", "red", "first")
        self.assertEqual(self.do("ls; echo $COLOUR; cat note"), "a\nnote\nred\nfirst")
        profile("a, b", "green", "second")
        self.place.ok("start")
        self.assertEqual(self.sh("cat b/two; echo $COLOUR; cat note"), "2\ngreen\nsecond", "a warm sandbox")
        self.place.ok("rm")
        profile("b", "blue", "third")
        self.assertEqual(self.start()["branch"], "C")
        self.assertEqual(self.sh("ls; echo $COLOUR; cat note"), "b\nnote\nblue\nthird")
        replaced = self.start("--set", "backend.pids=64")
        self.assertTrue(any("pids" in text for text in replaced["replaced_settings"]), replaced)
        self.assertEqual(self.sh("cat b/two"), "2\n")

    def test_what_the_host_removed_stays_removed(self):
        """Files removed on the host stay in the sandbox"""
        self.place.write("ascope.yaml", "workspace: {projection: {source: ./src, include: [d]}}\n")
        for name in ("gone", "edited", "stays"):
            self.place.write("src/d/" + name, name + "\n")
        self.do("echo mine > d/edited; echo own > d/own")
        os.unlink(self.place.path("src/d/gone"))
        os.unlink(self.place.path("src/d/edited"))
        done = self.place.ok("start", "-o", "json").json()
        self.assertIn("d/edited", str(done["projection"]), "what the agent worked on is kept and named")
        self.assertEqual(self.sh("ls d; cat d/edited"), "edited\nown\nstays\nmine\n")
        self.place.ok("rm")
        self.assertEqual(self.start()["branch"], "C")
        self.assertEqual(self.sh("ls d"), "edited\nown\nstays\n", "a snapshot brings it back")


class ParallelTest(SandboxTest):
    def test_each_session_reads_back_its_own(self):
        """Parallel sessions end up in each other's sandbox"""
        count = 12 if harness.full() else 5
        script = "echo $0 >> marker; sleep 0.1; cat marker"
        for turn in (1, 2):
            children = {n: self.place.popen("run", f"session/s{n}", "--", "sh", "-c", script, str(n)) for n in range(count)}
            for number, child in children.items():
                out, err = child.communicate(timeout=60)
                self.assertEqual((child.returncode, out.decode()), (0, f"{number}\n" * turn), err)
        self.assertEqual(len(self.sandboxes()), count)

    def test_overlapping_calls_lose_nothing(self):
        """Same-scope calls race, last writer wins"""
        self.do("true")
        script = "v=$(cat f 2>/dev/null); sleep 0.1; printf '%s' \"$v$0\" > f"
        children = [self.place.popen("run", "--", "sh", "-c", script, c) for c in "abcd"]
        for child in children:
            self.assertEqual(child.wait(60), 0)
        self.assertEqual("".join(sorted(self.sh("cat f"))), "abcd")
        holder = self.place.popen("run", "--", "sh", "-c", "echo held; sleep 30")
        holder.stdout.readline()
        loser = self.place.run("run", "--wait", "0", "-o", "json", "--", "sh", "-c", "echo lost > f")
        self.assertEqual((loser.code, loser.error()["exit_code"], loser.error()["kind"]), (125, 5, "busy"), loser)
        holder.send_signal(signal.SIGTERM)
        self.assertEqual(holder.wait(30), 143)

    def test_one_sandbox_a_scope(self):
        """Two callers create two sandboxes, or adopt the same spare one"""
        for _ in range(2):
            children = [self.place.popen("start") for _ in range(6)]
            self.assertEqual([child.wait(60) for child in children], [0] * 6)
            self.assertEqual(len(self.sandboxes()), 1)
            self.place.ok("rm")
        children = [self.place.popen("create", "session/new") for _ in range(6)]
        self.assertEqual(sorted(child.wait(60) for child in children), [0] + [6] * 5)


class RootTest(SandboxTest):
    def test_a_workspace_root_that_is_missing(self):
        """Workspace root does not exist yet"""
        self.place.write("src/d/f", "projected\n")
        at = ("--set", "workspace.root=/srv/deep/er/work", "--set", "workspace.projection.source=" + self.place.path("src"),
              "--set", "workspace.projection.include=[d]")
        self.assertEqual(self.do("pwd; cat d/f; echo saved > g", *at), "/srv/deep/er/work\nprojected\n")
        shutil.rmtree(self.tree() + "/srv/deep")
        good = self.snapshots(*at)
        self.refused(self.place.run("snapshot", *at), 4, "/srv/deep/er/work", "start")
        self.refused(self.place.run("rm", *at), 4, "/srv/deep/er/work")
        self.assertEqual(self.snapshots(*at), good, "an empty archive went over the good one")
        self.assertEqual(len(self.sandboxes()), 1)
        self.assertEqual(self.start(*at)["branch"], "B")
        self.assertEqual(self.sh("cat g d/f", *at), "saved\nprojected\n")
        self.place.ok("rm", *at)
        self.assertEqual(self.start(*at)["branch"], "C")
        self.assertEqual(self.sh("cat g d/f", *at), "saved\nprojected\n")


class StopTest(SandboxTest):
    def test_stop_is_quick(self):
        """Stop always waits the full grace period"""
        self.place.ok("start")
        begin = time.monotonic()
        self.place.ok("stop")
        self.assertLess(time.monotonic() - begin, 5)
        self.place.ok("start")
        self.sh("trap '' TERM; (setsid sh -c 'trap \"\" TERM HUP; while :; do sleep 1; done' &) ; true")
        begin = time.monotonic()
        self.place.ok("rm")
        self.assertLess(time.monotonic() - begin, 10)
        self.assertEqual(self.sandboxes(), [])

    def test_every_cycle_is_kept(self):
        """Second and later save/restore cycles lose changes"""
        self.do("true")
        kept = []
        for cycle in range(6):
            self.place.ok("start")
            self.assertEqual(self.sh("ls | sort").split(), sorted(kept), cycle)
            self.sh(f"echo {cycle} > f{cycle}" + (f"; rm f{cycle - 2}" if cycle >= 2 else ""))
            kept = [f"f{n}" for n in (cycle - 1, cycle) if n >= 0]
            if cycle % 3 == 0:
                self.place.ok("snapshot")
                shutil.rmtree(self.tree() + "/workspace")
                self.assertEqual(self.start()["branch"], "B")
            elif cycle % 3 == 1:
                self.place.ok("rm")
                self.assertEqual(self.start()["branch"], "C")
            else:
                self.place.ok("stop")
                self.assertEqual(self.start()["branch"], "A")
        self.assertEqual(self.sh("cat f4 f5"), "4\n5\n")

    def test_a_sandbox_that_does_not_answer(self):
        """Sandbox stuck in a transition cannot be removed; "busy" answers not retried"""
        self.do("echo saved > f")
        pid = int(self.place.ok("show", "-o", "json").json()["sandbox"]["details"]["pid"])
        os.kill(pid, signal.SIGSTOP)
        self.addCleanup(self.end, pid)
        asked = {"exec": (["exec", "--", "true"], 125), "start": (["start"], 9), "show": (["show"], 0),
                 "explain": (["explain", "-o", "json"], 0)}
        if not harness.full():
            del asked["show"], asked["explain"]
        begin = time.monotonic()
        children = {name: (self.place.popen(*argv), code) for name, (argv, code) in asked.items()}
        for name, (child, code) in children.items():
            _, err = child.communicate(timeout=110)
            self.assertEqual(child.returncode, code, (name, err))
            self.assertTrue(name != "exec" or b"rm --allow-loss" in err, (name, err))
        self.assertLess(time.monotonic() - begin, 100)
        # Its end can be forced, and nothing saved is gone.
        self.place.ok("rm", "--allow-loss", timeout=110)
        self.assertEqual(self.sandboxes(), [])
        self.assertEqual(self.do("cat f"), "saved\n")

    @staticmethod
    def end(pid):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass


class OwnershipTest(SandboxTest):
    def test_gc_touches_its_own_alone(self):
        """gc removes somebody else's container; name already taken"""
        common = self.place.path("common")
        os.mkdir(common)
        other = harness.Place()
        self.addCleanup(other.close)
        mine = ("--set", "snapshots.store=local:" + common)
        self.do("echo mine > f", *mine)
        other.ok("run", *mine, "--", "sh", "-c", "echo theirs > f")
        sandboxes = self.place.program_state("sandboxes")
        strangers = {"sb-0123456789abcdeg": "a name that is nearly ours", "notes": "a stranger's", "sb-": "x"}
        for name, text in strangers.items():
            os.mkdir(os.path.join(sandboxes, name))
            with open(os.path.join(sandboxes, name, "file"), "w", encoding="ascii") as file:
                file.write(text)
        with open(common + "/stranger.tar", "wb") as file:
            file.write(b"of another program")
        def objects():
            return sorted(os.path.join(folder, name) for folder, _, files in os.walk(common) for name in files)

        before = objects()
        for place in (self.place, other):
            place.ok("gc", "--yes", "--grace", "0s", "--set", "snapshots.keep={last: 1}", *mine)
            self.assertEqual(objects(), before)
        self.place.ok("rm", "--purge", "--yes", *mine)
        self.place.ok("gc", "--yes", *mine)
        self.assertEqual(other.ok("run", *mine, "--", "cat", "f").out, b"theirs\n")
        for name, text in strangers.items():
            with open(os.path.join(sandboxes, name, "file"), encoding="ascii") as file:
                self.assertEqual(file.read(), text)
        self.assertIn("stranger.tar", os.listdir(common))

    def test_a_purge_leaves_what_a_fork_needs(self):
        """gc removes somebody else's container; name already taken"""
        self.do("echo shared > f", "session/a", "--release", "destroy")
        self.place.ok("restore", "session/a@latest", "--into", "session/b")
        self.place.ok("rm", "--purge", "--yes", "session/a")
        self.assertEqual(self.do("cat f", "session/b"), "shared\n")

    def test_a_foreign_folder_is_not_adopted(self):
        """gc removes somebody else's container; name already taken"""
        self.do("echo one > f", "--release", "destroy")
        self.place.write("target/mine", "x")
        self.refused(self.place.run("restore", "latest", "--to", self.place.path("target")), 6, "target", "empty")
        self.assertEqual(os.listdir(self.place.path("target")), ["mine"])
        self.refused(self.place.run("start", "--external", "sb-0123456789abcdef"), 4, "sb-0123456789abcdef")

    def test_archives_are_streamed(self):
        """Snapshot needs a second full copy; temp names collide"""
        harness.need("root", os.geteuid() == 0, "only root can mount a small disk")
        disk, store = self.place.path("disk"), self.place.path("store")
        os.mkdir(disk)
        os.mkdir(store)
        program = self.place.program()
        # The sandbox's own disk is two thirds full: a copy on it would not fit.
        script = (f"set -e; mount -t tmpfs -o size=24m,mode=0700 none '{disk}'; export XDG_STATE_HOME='{disk}'\n"
                  f"a() {{ '{program}' \"$@\" -q --set snapshots.store=local:'{store}' --set lock.store=none; }}\n"
                  f"a start > /dev/null; '{program}' exec -q -- sh -c 'head -c 16000000 /dev/urandom > big; sha256sum < big'\n"
                  f"a snapshot > /dev/null; a stop > /dev/null; df --output=used '{disk}' | tail -1; "
                  f"find '{store}' -path '*/snapshots/*' -type f | wc -l\n"
                  f"a snapshot cat latest big | sha256sum\n")
        done = subprocess.run(["unshare", "-m", "sh", "-c", script], env=self.place.env(), capture_output=True, check=False,
                              timeout=100, text=True)
        self.assertEqual(done.returncode, 0, done)
        before, used, objects, after = done.stdout.split("\n")[:4]
        self.assertEqual(before, after, done)
        self.assertLess(int(used), 18000, done)
        self.assertEqual(objects.strip(), "1")

    def test_parallel_saves_do_not_meet(self):
        """Snapshot needs a second full copy; temp names collide"""
        common = self.place.path("common")
        os.mkdir(common)
        at = ("--set", "snapshots.store=local:" + common)
        children = {n: self.place.popen("run", f"session/s{n}", *at, "--", "sh", "-c", "head -c 3000000 /dev/urandom > f; "
                                        "sha256sum < f") for n in range(4)}
        sums = {n: child.communicate(timeout=60)[0] for n, child in children.items()}
        for number, text in sums.items():
            data = self.place.ok("snapshot", "cat", f"session/s{number}@latest", "f", *at).out
            self.assertEqual(self.place.call(["sha256sum"], stdin=data).out, text)
        names = [os.path.join(folder, name) for folder, _, files in os.walk(common) for name in files]
        self.assertEqual(len([name for name in names if "/snapshots/" in name]), 4)
        self.assertEqual([name for name in names if ".tmp" in name], [])
        self.assertEqual(os.listdir(self.place.program_state("pending")), [])


if __name__ == "__main__":
    unittest.main()
