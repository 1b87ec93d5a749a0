# SPDX-License-Identifier: Apache-2.0
"""Sandboxes in containers of a real engine: the four branches, commands, files, limits, crashes, and what is left."""
import http.server
import io
import json
import os
import signal
import socket
import ssl
import subprocess
import tarfile
import threading
import time
import unittest

import dockerd
import harness

SLOT = dockerd.DockerTest.slot


def tearDownModule():
    dockerd.close_engine()


class BranchTest(dockerd.DockerTest):
    def test_the_four_branches(self):
        self.assertEqual(self.receipt("start", SLOT)["branch"], "D")
        self.sh("mkdir -p a/b; echo one > a/b/f; ln -s f a/b/l; ln a/b/f a/h; printf '\\377' > odd")
        again = self.receipt("start", SLOT)
        self.assertEqual((again["branch"], again["sandbox"]), ("A", self.folders()[0]))
        self.assertTrue(self.receipt("snapshot", SLOT)["changed"])
        self.ok("stop", SLOT)
        self.assertFalse(self.engine.inspect(again["sandbox"])["State"]["Running"])
        self.assertEqual(self.receipt("start", SLOT)["branch"], "A")
        self.sh("cd /; rm -rf /workspace")
        lost = self.receipt("start", SLOT)
        self.assertEqual(lost["branch"], "B")
        look = "cat a/b/f; readlink a/b/l; stat -c %h a/h; od -An -tx1 odd"
        want = ["one", "f", "2", "ff"]
        self.assertEqual(self.sh(look).split(), want)
        self.ok("rm", SLOT)
        self.assertEqual((self.mine(), self.folders()), ([], []))
        new = self.receipt("start", SLOT)
        self.assertEqual(new["branch"], "C")
        self.assertNotEqual(new["sandbox"], again["sandbox"])
        self.assertEqual(self.sh(look).split(), want)

    def test_a_container_that_was_removed_by_hand(self):
        box = self.receipt("run", SLOT, "--", "sh", "-c", "echo kept > f")["sandbox"]
        self.engine.call("DELETE", f"/containers/{box}?force=1")
        done = self.receipt("start", SLOT)
        self.assertEqual(done["branch"], "C")
        self.assertEqual(self.sh("cat f"), "kept\n")
        self.assertEqual(self.folders(), [done["sandbox"]])

    def test_one_that_was_started_and_stopped_by_hand(self):
        box = self.receipt("run", SLOT, "--", "sh", "-c", "echo kept > f")["sandbox"]
        begin = time.monotonic()
        self.assertEqual(self.engine.call("POST", f"/containers/{box}/stop")[0], 204)
        self.assertLess(time.monotonic() - begin, 4, "the container did not end at SIGTERM")
        status, body = self.engine.call("POST", f"/containers/{box}/start")
        self.assertNotEqual(status, 204, "it started without a guest that anybody can reach")
        self.assertIn(b"/b", body)
        done = self.receipt("start", SLOT)
        self.assertEqual((done["branch"], done["sandbox"]), ("A", box))
        self.assertEqual(self.sh("cat f"), "kept\n")

    def test_an_engine_that_was_restarted_and_killed(self):
        self.engine = dockerd.images(dockerd.Engine())
        self.addCleanup(setattr, self, "engine", dockerd.engine())
        self.addCleanup(self.engine.close)
        box = self.receipt("run", SLOT, "--", "sh", "-c", "echo kept > f")["sandbox"]
        for number in (signal.SIGTERM, signal.SIGKILL):
            pid = self.engine.inspect(box)["State"]["Pid"]
            self.engine.stop(number)
            down = self.do("start", SLOT, "-o", "json")
            # After SIGKILL the guest is there still, but whether others are cannot be asked.
            self.assertEqual(down.error()["kind"], "backend_unavailable", str(down))
            self.assertIn(self.engine.host, down.errors)
            if number == signal.SIGKILL and os.path.exists(f"/proc/{pid}"):
                os.kill(pid, signal.SIGKILL)
            self.engine.start()
            done = self.receipt("start", SLOT)
            self.assertEqual((done["branch"], done["sandbox"]), ("A", box))
            self.assertEqual(self.sh("cat f"), "kept\n")

    def test_the_same_engine_by_another_name(self):
        self.ok("run", SLOT, "--release", "stop", "--", "sh", "-c", "echo kept > f")
        other = self.place.path("link.sock")
        os.symlink(self.engine.socket, other)
        self.assertEqual(self.receipt("start", SLOT, env={"DOCKER_HOST": f"unix://{other}"})["branch"], "A")
        self.ok("stop", SLOT)
        wrong = self.place.path("other.sock")
        proxy = socket.socket(socket.AF_UNIX)
        self.addCleanup(proxy.close)
        proxy.bind(wrong)
        proxy.listen(1)
        done = self.do("start", SLOT, "-o", "json", env={"DOCKER_HOST": f"unix://{wrong}"},
                       timeout=120)
        self.assertEqual(done.error()["kind"], "backend_unavailable", str(done))
        self.assertEqual(self.receipt("start", SLOT)["branch"], "A")
        self.assertEqual(self.sh("cat f"), "kept\n")

    def test_release_modes(self):
        box = self.receipt("run", SLOT, "--", "true")["sandbox"]
        self.assertTrue(self.engine.inspect(box)["State"]["Running"])
        self.ok("run", SLOT, "--release", "stop", "--", "sh", "-c", "echo 1 > f")
        self.assertFalse(self.engine.inspect(box)["State"]["Running"])
        self.ok("run", SLOT, "--release", "destroy", "--", "sh", "-c", "echo 2 >> f")
        self.assertEqual((self.mine(), self.folders()), ([], []))
        self.assertEqual(self.ok("run", SLOT, "--", "cat", "f").text, "1\n2\n")
        self.ok("rm", SLOT, "--purge", "--yes")
        self.assertEqual((self.mine(), self.folders()), ([], []))

    def test_other_settings_make_a_new_container_with_the_files(self):
        old = self.receipt("run", SLOT, "--", "sh", "-c", "echo kept > f")["sandbox"]
        self.sh("echo unsaved > g")
        self.use(memory="64MiB")
        done = self.receipt("start", SLOT)
        self.assertEqual(done["branch"], "A")
        self.assertNotEqual(done["sandbox"], old)
        self.assertEqual(self.sh("cat f g"), "kept\nunsaved\n")
        self.assertEqual([box["Names"] for box in self.mine()], [["/" + done["sandbox"]]])
        self.assertEqual(self.engine.inspect(done["sandbox"])["HostConfig"]["Memory"], 64 << 20)

    def test_other_settings_and_no_store_lose_nothing(self):
        type(self).profile = json.dumps({"snapshots": {"store": "none"}})
        self.addCleanup(setattr, type(self), "profile", "")
        self.use()
        old = self.receipt("run", SLOT, "--", "sh", "-c", "echo kept > f")["sandbox"]
        self.use(pids=100)
        done = self.do("start", SLOT, "-o", "json")
        self.assertEqual(done.error()["kind"], "refused", str(done))
        self.use()
        self.assertEqual(self.receipt("start", SLOT)["sandbox"], old)
        self.assertEqual(self.sh("cat f"), "kept\n")

    def test_restore_and_undo(self):
        self.ok("run", SLOT, "--", "sh", "-c", "echo 1 > f; echo x > gone")
        first = self.receipt("snapshot", SLOT)["snapshot"]
        self.sh("echo 2 > f; rm gone; (setsid sleep 1000 >/dev/null 2>&1 &)")
        self.ok("snapshot", SLOT)
        self.ok("restore", f"{SLOT}@{first}", "--yes")
        self.assertEqual(self.sh("cat f gone; pidof sleep || echo none").split(), ["1", "x", "none"])
        self.ok("undo", SLOT, "--yes")
        self.assertEqual(self.sh("cat f; ls"), "2\nf\n")


class ExecTest(dockerd.DockerTest):
    def setUp(self):
        super().setUp()
        self.ok("start", SLOT)

    def test_bytes_and_codes(self):
        data = os.urandom(3 << 20)
        self.assertEqual(self.ok("exec", "-i", SLOT, "--", "cat", stdin=data).out, data)
        done = self.do("exec", SLOT, "--", "sh", "-c", "echo out; echo err >&2; exit 7")
        self.assertEqual((done.code, done.out, done.err), (7, b"out\n", b"err\n"))
        self.assertEqual(self.do("exec", SLOT, "--", "sh", "-c", "kill -9 $$").code, 137)
        self.assertEqual(self.do("exec", SLOT, "--", "no-such-program").code, 127)
        self.sh("echo x > text")
        self.assertEqual(self.do("exec", SLOT, "--", "./text").code, 126)
        self.assertEqual(self.sh("sleep 1000 & echo begun"), "begun\n")

    def test_a_timeout_leaves_nothing_running(self):
        done = self.do("exec", SLOT, "--timeout", "300ms", "--", "sh", "-c",
                       "trap '' TERM; (setsid sleep 4321 &); sleep 4321")
        self.assertEqual(done.code, 124, str(done))
        self.assertEqual(self.sh("pidof sleep || echo none"), "none\n")

    def test_environment_users_and_folders(self):
        text = self.sh("echo $FROM_IMAGE $HOME $USER $PWD; id -u; id -g")
        self.assertEqual(text, "yes /root root /workspace\n0\n0\n")
        as_agent = self.ok("exec", SLOT, "--as", "agent", "--", "sh", "-c", "id -u; id -G; echo $HOME").text
        self.assertEqual(as_agent, "1000\n1000 50\n/home/agent\n")
        pair = self.ok("exec", SLOT, "--as", "77:88", "--", "sh", "-c", "id -u; id -g").text
        self.assertEqual(pair, "77\n88\n")
        self.assertEqual(self.do("exec", SLOT, "--as", "nobody-here", "--", "true").code, 125)

    def test_what_runs_inside_has_no_way_out(self):
        text = self.sh("for t in 'touch x' 'mkdir x' 'ln -s / x' 'mknod x p'; do (cd /run/ascope/b && $t) 2>&1; done; "
                       "echo x > /run/ascope/guest; ls -A /run/ascope/b | wc -l; "
                       "grep -E 'NoNewPrivs|CapBnd' /proc/self/status; cat /proc/net/dev | grep -c :; "
                       "grep -c ascope /proc/net/unix; true")
        self.assertEqual(text.count("No such file or directory"), 4, text)
        self.assertRegex(text, r"(?s)0\nNoNewPrivs:\t1|CapBnd:\t00000000000000fb")
        self.assertTrue(text.endswith("\n1\n0\n"), text)
        for attempt in ("kill -9 1; kill -TERM 1; kill -STOP 1; kill -INT 1", "cat /proc/1/environ", "ls -l /proc/1/fd",
                        "cat /proc/1/mem", "mount -t tmpfs x /tmp", "mknod /tmp/d b 254 0", "chroot /proc/1/root true"):
            self.do("exec", SLOT, "--", "sh", "-c", attempt)
            self.assertEqual(self.sh("echo alive"), "alive\n", attempt)
        for refused in ("cat /proc/1/environ", "mount -t tmpfs x /tmp", "mknod /tmp/d b 254 0"):
            self.assertNotEqual(self.do("exec", SLOT, "--", "sh", "-c", refused).code, 0, refused)

    def test_an_idle_one_stops_fast_and_ends_by_itself(self):
        box = self.folders()[0]
        self.ok("snapshot", SLOT)
        begin = time.monotonic()
        self.ok("stop", SLOT)
        self.assertLess(time.monotonic() - begin, 5)  # a loaded machine; PID 1 that ignores TERM takes ten
        type(self).profile = json.dumps({"idle_timeout": "200ms"})
        self.addCleanup(setattr, type(self), "profile", "")
        self.use()
        self.ok("start", SLOT)
        harness.wait_for(lambda: not self.engine.inspect(box)["State"]["Running"], what="the idle end")
        self.assertEqual(self.do("exec", SLOT, "--", "true").code, 125)
        self.assertEqual(self.ok("run", SLOT, "--", "echo", "back").text, "back\n")


class ImageTest(dockerd.DockerTest):
    def test_an_image_that_holds_nothing(self):
        self.use("scratch:1")
        self.assertEqual(self.receipt("start", SLOT)["branch"], "D")
        self.place.write("given/f", "data")
        with open(dockerd.BUSYBOX, "rb") as file:
            self.place.write("given/busybox", file.read(), 0o755)
        self.ok("cp", "./given", f"{SLOT}:/workspace/given")
        self.assertEqual(self.ok("exec", SLOT, "--", "/workspace/given/busybox", "cat", "given/f").text, "data")
        self.assertEqual(self.do("exec", SLOT, "--", "sh").code, 127)
        self.ok("rm", SLOT)
        self.assertEqual(self.receipt("start", SLOT)["branch"], "C")
        self.ok("cp", f"{SLOT}:/workspace/given/f", "./back")
        with open(self.place.path("back"), encoding="ascii") as file:
            self.assertEqual(file.read(), "data")

    def test_the_users_of_images_and_profiles(self):
        self.use("user:1")
        self.ok("start", SLOT)
        self.assertEqual(self.sh("id -u; id -g; echo $HOME; touch f && stat -c %u f . ; grep CapEff /proc/self/status"),
                         "1000\n50\n/home/agent\n1000\n1000\nCapEff:\t0000000000000000\n")
        self.place.write("in", "x")
        self.ok("cp", "./in", f"{SLOT}:/workspace/in")
        self.assertEqual(self.sh("stat -c %u in"), "1000\n")
        self.ok("exec", SLOT, "--as", "root", "--", "sh", "-c", "echo r > rooted; chmod 600 rooted")
        self.ok("rm", SLOT)
        self.assertEqual(self.receipt("start", SLOT)["branch"], "C")
        self.assertEqual(self.sh("stat -c %u.%a f rooted"), "1000.644\n0.600\n")
        self.ok("rm", SLOT, "--purge", "--yes")
        self.use("bb:1", user="missing")
        done = self.do("start", SLOT, "-o", "json")
        self.assertEqual((done.code, done.error()["kind"]), (2, "config"), str(done))
        self.assertIn("'missing'", done.errors)
        self.assertEqual((self.mine(), self.folders()), ([], []))

    def test_an_image_that_is_not_there(self):
        for image, options in (("absent:1", {"options": {"pull": "never"}}), ("127.0.0.1:1/absent:1", {})):
            self.use(image, **options)
            done = self.do("start", SLOT, "-o", "json", timeout=120)
            self.assertNotEqual(done.code, 0)
            self.assertIn(image, done.errors)
            self.assertIn(self.engine.host, done.errors)
            self.assertEqual((self.mine(), self.folders()), ([], []))

    def test_settings_reach_the_engine(self):
        os.mkdir(self.place.path("shared"))
        type(self).profile = json.dumps({"workspace": {"entries": {
            "data": {"type": "bind_mount", "host_path": self.place.path("shared"), "read_only": True}}}})
        self.addCleanup(setattr, type(self), "profile", "")
        self.use(memory="96MiB", cpus=0.5, pids=77, labels={"team": "x"}, read_only_root=True,
                 options={"extra_hosts": "db:10.0.0.1", "ulimits": "nofile=1000:2000", "cap_drop": "ALL",
                          "host_config": '{"OomScoreAdj": 100}', "tmpfs": "/scratch:size=1m"})
        box = self.receipt("start", SLOT)["sandbox"]
        facts = self.engine.inspect(box)
        host = facts["HostConfig"]
        self.assertEqual((host["Memory"], host["MemorySwap"], host["NanoCpus"], host["PidsLimit"]),
                         (96 << 20, 96 << 20, 500000000, 77))
        self.assertEqual((host["NetworkMode"], host["ReadonlyRootfs"], host["CapDrop"]), ("none", True, ["ALL"]))
        self.assertEqual((host["ExtraHosts"], host["OomScoreAdj"]), (["db:10.0.0.1"], 100))
        self.assertIn("no-new-privileges", host["SecurityOpt"])
        labels = facts["Config"]["Labels"]
        self.assertEqual((labels["team"], labels["ascope.slot"], labels["ascope.sandbox"]), ("x", SLOT, box))
        text = self.sh("touch /x 2>&1; touch f ~/g /tmp/h /scratch/i && echo fine; touch data/j 2>&1; "
                       "ulimit -n; grep CapEff /proc/self/status")
        self.assertEqual(text.count("Read-only file system"), 2, text)
        self.assertIn("fine\n", text)
        self.assertTrue(text.endswith("1000\nCapEff:\t0000000000000000\n"), text)
        self.ok("rm", SLOT)
        self.assertEqual(self.engine.json("/volumes")["Volumes"] or [], [])
        self.assertEqual(self.receipt("start", SLOT)["branch"], "C")
        self.assertIn("f\n", self.sh("ls"))

    def test_what_no_container_can_have_is_said(self):
        for backend, code in (({"rootfs": "/"}, 13), ({"options": {"colour": "red"}}, 13), ({"ports": ["80"]}, 2),
                              ({"ports": ["x"], "network": "bridge"}, 2), ({"labels": {"ascope.slot": "x"}}, 2),
                              ({"options": {"host_config": '{"Mounts": []}'}}, 13),
                              ({"options": {"additionalRunArgs": '["-v", "/:/host"]'}}, 13),
                              ({"options": {"no_new_privileges": "false"}}, 13)):
            self.use(**backend)
            done = self.do("start", SLOT, "-o", "json")
            self.assertEqual(done.code, code, f"{backend}: {done}")
            self.assertEqual((self.mine(), self.folders()), ([], []))

    def test_agentscopes_names(self):
        self.use(options={"memorySizeBytes": "67108864", "cpuCount": "1", "network": "",
                          "additionalRunArgs": '["--cap-drop=ALL", "--pids-limit", "55", " ", "--user=agent"]'})
        box = self.receipt("start", SLOT)["sandbox"]
        host = self.engine.inspect(box)["HostConfig"]
        self.assertEqual((host["Memory"], host["NanoCpus"], host["PidsLimit"], host["NetworkMode"]),
                         (64 << 20, 1000000000, 55, "none"))
        self.assertEqual(self.sh("id -u"), "1000\n")
        state = json.loads(self.ok("state", "show", SLOT).text) if self.do("state", "show", SLOT).code == 0 else None
        if state:
            self.assertEqual(state.get("type"), "docker")


class FilesTest(dockerd.DockerTest):
    snapshot_format = None

    def test_snapshots_in_both_formats(self):
        for form in ("chunks", "tar"):
            type(self).profile = json.dumps({"snapshots": {"format": form}})
            self.addCleanup(setattr, type(self), "profile", "")
            self.use()
            slot = f"session/{form}"
            self.ok("run", slot, "--", "sh", "-c",
                    "mkdir d; head -c 300000 /dev/urandom > d/r; chmod 4755 d/r; mkfifo p; echo x > 'a b'; "
                    "truncate -s 5M holes; md5sum d/r > sum; touch -d @1000000000 'a b'")
            self.assertFalse(self.receipt("snapshot", slot)["changed"])
            self.ok("rm", slot)
            self.assertEqual(self.receipt("start", slot)["branch"], "C")
            text = self.ok("exec", slot, "--", "sh", "-c",
                           "md5sum -c sum; stat -c %a d/r; stat -c %Y 'a b'; stat -c %s.%b holes; test -p p && echo p")
            self.assertEqual(text.text.split("\n")[:-1], ["d/r: OK", "4755", "1000000000", "5242880.0", "p"])
            self.ok("rm", slot, "--purge", "--yes")

    def test_an_unchanged_snapshot_reads_nothing(self):
        self.ok("run", SLOT, "--", "sh", "-c", "for i in $(seq 50); do head -c 10000 /dev/urandom > f$i; done")
        time.sleep(0.1)  # over the grain of the clock, in which a file counts as just changed
        self.ok("snapshot", SLOT)
        again = self.receipt("snapshot", SLOT)
        self.assertFalse(again["changed"])
        self.assertEqual(again["saved"]["read_bytes"], 0)
        self.sh("echo more >> f7")
        third = self.receipt("snapshot", SLOT)
        self.assertTrue(third["changed"])
        self.assertLess(third["saved"]["read_bytes"], 20000)

    def test_a_stopped_one_is_read_and_stays_stopped(self):
        box = self.receipt("run", SLOT, "--release", "stop", "--", "sh", "-c", "echo x > f")["sandbox"]
        self.ok("cp", f"{SLOT}:/workspace/f", "./out")
        self.assertFalse(self.engine.inspect(box)["State"]["Running"])
        self.assertFalse(self.receipt("snapshot", SLOT)["changed"])
        self.assertFalse(self.engine.inspect(box)["State"]["Running"])
        self.ok("rm", SLOT)

    def test_tar_through_cp(self):
        self.ok("start", SLOT)
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w") as tar:
            dockerd._add(tar, "t", kind=tarfile.DIRTYPE)  # pylint: disable=protected-access
            dockerd._add(tar, "t/f", b"body")  # pylint: disable=protected-access
        self.ok("cp", "-", f"{SLOT}:/workspace", stdin=packed.getvalue())
        out = self.ok("cp", f"{SLOT}:/workspace/t", "-").out
        with tarfile.open(fileobj=io.BytesIO(out)) as tar:
            self.assertEqual(tar.getnames(), ["./t", "./t/f"])
            self.assertEqual(tar.extractfile("./t/f").read(), b"body")

    def test_what_runs_is_held_while_it_is_saved(self):
        self.ok("start", SLOT)
        self.sh("(setsid sh -c 'n=0; while :; do n=$((n+1)); echo $n > a; echo $n > b; done' >/dev/null 2>&1 &)")
        harness.wait_for(lambda: self.sh("cat b 2>/dev/null || true"), what="the writer")
        for _ in range(3):
            done = self.receipt("snapshot", SLOT)
            self.assertFalse([note for note in done["notes"] if "changed while" in note.get("what", "")])
            self.assertFalse([text for text in done["warnings"] if "moments" in text])
            self.assertGreater(done["frozen_ms"] if "frozen_ms" in done else 1, 0)


class CrashTest(dockerd.DockerTest):
    def test_a_start_that_was_killed_leaves_nothing_that_gc_does_not_find(self):
        for step in ("before-create", "after-create", "before-entries", "before-start-commit", "after-ready"):
            slot = f"session/{step}"
            died = self.do("start", slot, env={"ASCOPE_TEST_FAULT": f"kill:{step}"})
            self.assertEqual(died.code, -signal.SIGKILL, str(died))
            if step != "after-ready":
                self.ok("gc", "--yes")
                self.assertEqual((self.mine(), self.folders()), ([], []), step)
            self.assertIn(self.receipt("start", slot)["branch"], "AD")
            self.ok("rm", slot, "--purge", "--yes")
            self.assertEqual((self.mine(), self.folders()), ([], []), step)

    def test_a_start_that_failed_leaves_nothing(self):
        for step in ("after-create", "before-entries", "before-start-commit"):
            self.assertNotEqual(self.do("start", SLOT, env={"ASCOPE_TEST_FAULT": f"fail:{step}"}).code, 0)
            self.assertEqual((self.mine(), self.folders()), ([], []), step)

    def test_a_restore_that_was_killed_is_finished(self):
        self.ok("run", SLOT, "--", "sh", "-c", "for i in $(seq 20); do echo $i > f$i; done")
        first = self.receipt("snapshot", SLOT)["snapshot"]
        self.sh("rm f*; echo new > g")
        self.ok("snapshot", SLOT)
        for step in ("before-mark", "after-mark", "after-restore", "before-restore-commit"):
            died = self.do("restore", f"{SLOT}@{first}", "--yes", env={"ASCOPE_TEST_FAULT": f"kill:{step}"})
            self.assertEqual(died.code, -signal.SIGKILL, f"{step}: {died}")
            done = self.receipt("start", SLOT)
            self.assertIn(done["branch"], "AB", step)
            self.assertEqual(self.sh("ls"), "g\n", step)

    def test_other_settings_and_a_kill(self):
        self.ok("run", SLOT, "--", "sh", "-c", "echo kept > f")
        for pids, step in ((101, "before-move"), (102, "after-create"), (103, "before-start-commit")):
            self.sh(f"echo {pids} > g")
            self.use(pids=pids)
            died = self.do("start", SLOT, env={"ASCOPE_TEST_FAULT": f"kill:{step}"})
            self.assertEqual(died.code, -signal.SIGKILL, f"{step}: {died}")
            self.ok("start", SLOT)
            self.assertEqual(self.sh("cat f g"), f"kept\n{pids}\n", step)
            self.ok("gc", "--yes")
            self.assertEqual(len(self.mine()), 1, step)

    def test_a_killed_command_of_ours_ends_what_it_ran(self):
        self.ok("start", SLOT)
        child = self.place.popen("exec", SLOT, "--", "sleep", "4321", env=self.environment)
        harness.wait_for(lambda: self.sh("pidof sleep || true"), what="the command")
        child.kill()
        harness.wait_for(lambda: not self.sh("pidof sleep || true").strip(), what="its end")

    def test_containers_of_others_are_left_alone(self):
        status, body = self.engine.call("POST", "/containers/create?name=other", {
            "Image": "bb:1", "Cmd": ["sleep", "1000"], "Labels": {"ascope.owner": "somebody", "ascope.slot": SLOT}})
        self.assertEqual(status, 201, body)
        self.addCleanup(self.engine.call, "DELETE", "/containers/other?force=1")
        self.ok("gc", "--yes")
        self.ok("start", SLOT)
        self.ok("rm", SLOT, "--purge", "--yes")
        self.assertEqual(self.engine.inspect("other")["Name"], "/other")
        done = self.do("create", "session/ext", "--external", "other", "-o", "json")
        self.assertEqual((done.code, done.error()["kind"]), (13, "unsupported"), str(done))

    def test_a_folder_that_was_lost_is_made_again(self):
        box = self.receipt("run", SLOT, "--", "sh", "-c", "echo kept > f")["sandbox"]
        self.sh("echo unsaved > g")
        folder = self.place.program_state("docker", box)
        for name in os.listdir(folder):
            os.unlink(os.path.join(folder, name))
        os.rmdir(folder)
        done = self.receipt("start", SLOT)
        self.assertEqual(self.sh("cat f g"), "kept\nunsaved\n", str(done))


class PodmanTest(dockerd.DockerTest):
    def setUp(self):
        super().setUp()
        harness.need_program("podman")
        self.engine = dockerd.Podman()
        self.addCleanup(setattr, self, "engine", dockerd.engine())
        self.addCleanup(self.engine.close)
        self.engine.import_image("bb", dockerd.busybox_root(), "ENV PATH=/bin", "ENV FROM_IMAGE=yes")
        self.use(self.engine.image)

    def test_the_four_branches(self):
        BranchTest.test_the_four_branches(self)
        self.use(self.engine.image, memory="64MiB", pids=60)
        done = self.receipt("start", SLOT)
        self.assertEqual(done["branch"], "A")
        self.assertEqual(self.engine.inspect(done["sandbox"])["HostConfig"]["Memory"], 64 << 20)
        self.assertEqual(self.sh("cat a/b/f; echo $FROM_IMAGE; touch /run/ascope/b/x 2>&1 | wc -l"), "one\nyes\n1\n")
        self.ok("rm", SLOT, "--purge", "--yes")
        self.assertEqual((self.engine.containers(), self.folders()), ([], []))


class WholeTest(dockerd.DockerTest):
    def test_doctor(self):
        done = self.ok("doctor", timeout=300)
        self.assertNotIn("failed", done.text)
        self.assertNotIn("skipped", done.text)
        self.assertEqual((self.mine(), self.folders()), ([], []))

    def test_doctor_of_images(self):
        def verdicts(image, code):
            done = self.do("doctor", "--image", image, "-o", "json", timeout=300)
            self.assertEqual(done.code, code, str(done))
            self.assertEqual((self.mine(), self.folders()), ([], []))
            return {row["name"]: row for row in done.json()["checks"]}
        rows = verdicts("bb:1", 1)
        self.assertEqual([name for name, row in rows.items() if row["verdict"] != "ok"],
                         ["grep", "python3"])  # busybox has no --include
        self.assertIn("editing files", rows["python3"]["hint"])
        rows = verdicts("scratch:1", 1)
        self.assertEqual((rows["sandbox"]["verdict"], rows["sh"]["verdict"], rows["tar"]["verdict"]),
                         ("ok", "failed", "skipped"))
        rows = verdicts("127.0.0.1:1/absent:1", 1)
        self.assertEqual(list(rows), ["sandbox"])
        self.assertIn("127.0.0.1:1/absent:1", rows["sandbox"]["error"])

    def test_an_engine_that_is_not_there(self):
        for host in ("unix:///nowhere/docker.sock", "tcp://127.0.0.1:1", "ssh://somewhere", "what"):
            done = self.place.run("start", SLOT, "-o", "json", env={"DOCKER_HOST": host})
            self.assertNotEqual(done.code, 0)
            self.assertTrue(done.error()["hint"], str(done))
            told = self.place.run("doctor", env={"DOCKER_HOST": host})
            self.assertEqual(told.code, 1, str(told))
            self.assertIn(host, told.text)

    def test_an_engine_by_tls(self):
        harness.need_program("openssl")
        certificates = self.place.path("certs")
        os.mkdir(certificates)
        subprocess.run(["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
                        "/CN=127.0.0.1", "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", "key.pem", "-out",
                        "cert.pem"], cwd=certificates, check=True, capture_output=True)
        with open(os.path.join(certificates, "cert.pem"), "rb") as source, \
                open(os.path.join(certificates, "ca.pem"), "wb") as copy:
            copy.write(source.read())
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(os.path.join(certificates, "cert.pem"), os.path.join(certificates, "key.pem"))
        context.load_verify_locations(os.path.join(certificates, "cert.pem"))
        context.verify_mode = ssl.CERT_REQUIRED

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self):  # pylint: disable=invalid-name
                self.send_response(200)
                self.send_header("Api-Version", "1.41")
                self.send_header("Content-Length", "2")
                self.end_headers()
                self.wfile.write(b"OK")

            def log_message(self, *_):  # pylint: disable=arguments-differ
                pass

        class Server(http.server.ThreadingHTTPServer):
            def handle_error(self, *_):  # pylint: disable=arguments-differ
                pass

        with Server(("127.0.0.1", 0), Handler) as server:
            server.socket = context.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(server.shutdown)
            host = {"DOCKER_HOST": f"tcp://127.0.0.1:{server.server_port}", "DOCKER_TLS_VERIFY": "1"}
            good = self.place.run("doctor", env={**host, "DOCKER_CERT_PATH": certificates})
            self.assertIn("is reached over the network", good.text)
            plain = self.place.run("doctor", env={"DOCKER_HOST": host["DOCKER_HOST"]})
            self.assertNotIn("over the network", plain.text)
            os.unlink(os.path.join(certificates, "ca.pem"))
            strange = self.place.run("doctor", env={**host, "DOCKER_CERT_PATH": certificates})
            self.assertRegex(strange.text, "(?i)certificate")
            self.assertNotIn("over the network", strange.text)

    def test_many_at_once(self):
        children = [self.place.popen("run", f"session/m{n}", "--", "sh", "-c", f"echo {n} > f; cat f",
                                     env=self.environment) for n in range(8)]
        for number, child in enumerate(children):
            out, err = child.communicate(timeout=300)
            self.assertEqual((child.returncode, out), (0, f"{number}\n".encode()), err)
        self.assertEqual(len(self.mine()), 8)

    def test_a_persist_list_leaves_the_image_alone(self):
        type(self).profile = json.dumps({"workspace": {"persist": ["/workspace", "/root", "/srv/data"]}})
        self.addCleanup(setattr, type(self), "profile", "")
        self.use()
        self.ok("run", SLOT, "--as", "root", "--", "sh", "-c",
                "echo w > f; mkdir -p /srv/data /opt/x; echo r > /root/r; echo d > /srv/data/d; echo o > /opt/x/o")
        self.ok("snapshot", SLOT, "--tag", "one")
        self.sh("rm f; echo later > /root/r; touch /root/new /srv/data/new", "--as", "root")
        # Into the container that is there: what is not on the list stays, the image's files and others.
        self.ok("restore", SLOT + "@one")
        self.assertEqual(self.sh("cat f /root/r /srv/data/d /opt/x/o; ls /root /srv/data; test -x /bin/sh; "
                                 "test -e /etc/passwd", "--as", "root"), "w\nr\nd\no\n/root:\nr\n\n/srv/data:\nd\n")
        # And into a new one.
        self.ok("rm", SLOT)
        self.assertEqual(self.receipt("start", SLOT)["branch"], "C")
        self.assertEqual(self.sh("cat f /root/r /srv/data/d; ls -d /opt/x 2>&1 | grep -c 'No such'", "--as", "root"),
                         "w\nr\nd\n1\n")

    def test_persist_all_brings_the_system_back(self):
        type(self).profile = json.dumps({"workspace": {"persist": "all"}})
        self.addCleanup(setattr, type(self), "profile", "")
        self.use()
        self.ok("run", SLOT, "--", "sh", "-c", "echo w > f; mkdir -p /opt/x; echo sys > /opt/x/y; rm /bin/vi; "
                                               "echo h > ~/.rc; chown agent /opt/x/y")
        self.ok("rm", SLOT)
        self.assertEqual(self.receipt("start", SLOT)["branch"], "C")
        self.assertEqual(self.sh("cat f /opt/x/y ~/.rc; stat -c %U /opt/x/y; ls /bin/vi 2>&1 | wc -l; "
                                 "cat /etc/hostname | wc -l; ls -A /run/ascope"),
                         "w\nsys\nh\nagent\n1\n1\nb\nguest\n")
        self.assertEqual(self.do("exec", SLOT, "--", "test", "-e", "/bin/vi").code, 1)


if __name__ == "__main__":
    unittest.main()
