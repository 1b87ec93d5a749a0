# SPDX-License-Identifier: Apache-2.0
"""A container that two slots use, one whose state was lost, and containers that are not ours though they say so."""
import json
import os
import shutil
import time
import unittest

import dockerd
import harness

SLOT = dockerd.DockerTest.slot


def tearDownModule():
    dockerd.close_engine()


class ExternalTest(dockerd.DockerTest):
    def setUp(self):
        super().setUp()
        self.box = self.receipt("run", SLOT, "--", "sh", "-c", "echo its > f")["sandbox"]

    def running(self):
        return self.engine.inspect(self.box)["State"]["Running"]

    def test_it_is_used_as_it_is_and_never_ended(self):
        self.ok("create", "session/guest", "--external", self.box)
        done = self.receipt("start", "session/guest")
        self.assertEqual((done["branch"], done["sandbox"], done["priority"]), ("external", self.box, 1))
        self.assertEqual(self.ok("exec", "session/guest", "--", "cat", "f").text, "its\n")
        self.assertFalse(json.loads(self.ok("state", "export", "session/guest").text)["containerOwned"])
        for mode in ("keep", "stop", "destroy"):
            done = self.receipt("run", "session/guest", "--release", mode, "--", "sh", "-c", f"echo {mode} > {mode}")
            self.assertEqual(done["branch"], "external", mode)
            self.assertTrue(done["changed"], mode)  # its files are saved for the slot all the same
            self.assertTrue(self.running(), mode)
        for command in (["stop", "session/guest"], ["rm", "session/guest"], ["gc", "--yes"],
                        ["rm", "session/guest", "--purge", "--yes"], ["gc", "--yes"]):
            self.ok(*command)
            self.assertTrue(self.running(), command)
        self.assertEqual(self.sh("cat f keep stop destroy"), "its\nkeep\nstop\ndestroy\n")
        done = self.receipt("start", SLOT)
        self.assertEqual((done["branch"], done["sandbox"]), ("A", self.box))

    def test_by_the_engines_own_id(self):
        number = self.engine.inspect(self.box)["Id"]
        done = self.receipt("run", "session/guest", "--external", number, "--", "cat", "f")
        self.assertEqual((done["branch"], done["sandbox"]), ("external", self.box))
        self.assertEqual(self.folders(), [self.box])

    def test_two_that_share_one_take_turns(self):
        for name in ("one", "two"):
            self.ok("create", f"session/{name}", "--external", self.box)
        child = self.place.popen("run", "session/one", "--", "sh", "-c",
                                 "touch begun; while ! [ -e go ]; do sleep 0.1; done", env=self.environment)
        harness.wait_for(lambda: "begun" in self.sh("ls"), what="the first command")
        busy = self.do("run", "session/two", "--wait", "0", "-o", "json", "--", "true")
        self.assertEqual((busy.code, busy.error()["kind"]), (125, "busy"), str(busy))
        self.assertIn(self.box, busy.errors)
        busy = self.do("snapshot", "session/two", "--wait", "0", "-o", "json")
        self.assertEqual((busy.code, busy.error()["kind"]), (5, "busy"), str(busy))
        second = self.place.popen("run", "session/two", "--", "sh", "-c", "cat go", env=self.environment)
        time.sleep(0.3)
        self.assertIsNone(second.poll())
        self.ok("exec", "session/two", "--", "sh", "-c", "echo went > go.new; mv go.new go")  # exec takes no lease
        self.assertEqual(second.communicate(timeout=120)[0], b"went\n")
        self.assertEqual(child.communicate(timeout=120) and child.returncode, 0)
        self.assertEqual(self.ok("lock", "ls").text.count(self.box), 0)

    def test_a_killed_sharer_keeps_nobody_out(self):
        for name in ("one", "two"):
            self.ok("create", f"session/{name}", "--external", self.box)
        child = self.place.popen("run", "session/one", "--", "sh", "-c", "touch begun; sleep 4321",
                                 env=self.environment)
        harness.wait_for(lambda: "begun" in self.sh("ls"), what="the first command")
        child.kill()
        child.communicate(timeout=60)
        self.assertEqual(self.ok("run", "session/two", "--", "cat", "f").text, "its\n")

    def test_one_that_is_gone_or_stopped_is_said(self):
        self.ok("create", "session/guest", "--external", self.box)
        self.ok("stop", SLOT)
        done = self.do("start", "session/guest", "-o", "json")
        self.assertEqual((done.code, done.error()["kind"]), (4, "not_found"), str(done))
        self.assertFalse(self.running())
        self.ok("rm", SLOT)
        done = self.do("start", "session/guest", "-o", "json")
        self.assertEqual((done.code, done.error()["kind"]), (4, "not_found"), str(done))
        self.assertEqual(self.mine(), [])


class AdoptTest(dockerd.DockerTest):
    def lose_state(self):
        """All that the state folder has but the sandboxes' own folders."""
        folder = self.place.program_state()
        for name in os.listdir(folder):
            path = os.path.join(folder, name)
            if name.startswith("state"):
                if os.path.isdir(path):
                    shutil.rmtree(path)
                else:
                    os.unlink(path)

    def test_a_container_whose_state_was_lost(self):
        box = self.receipt("run", SLOT, "--", "sh", "-c", "echo kept > f")["sandbox"]
        self.sh("echo unsaved > g")
        self.lose_state()
        rows = self.ok("gc", "--yes", "-o", "json")
        self.assertIn("adopt", rows.text)
        self.assertTrue(self.engine.inspect(box)["State"]["Running"])
        done = self.receipt("adopt", SLOT)
        self.assertEqual(done["sandbox"], box)
        done = self.receipt("start", SLOT)
        self.assertEqual((done["branch"], done["sandbox"]), ("A", box))
        self.assertEqual(self.sh("cat f g"), "kept\nunsaved\n")

    def test_also_its_folder(self):
        box = self.receipt("run", SLOT, "--release", "stop", "--", "sh", "-c", "echo kept > f")["sandbox"]
        self.lose_state()
        shutil.rmtree(self.place.program_state("docker", box))
        self.assertEqual(self.receipt("adopt", SLOT)["sandbox"], box)
        done = self.receipt("start", SLOT)
        self.assertEqual(self.sh("cat f"), "kept\n", str(done))
        self.ok("rm", SLOT, "--purge", "--yes")
        self.assertEqual((self.mine(), self.folders()), ([], []))


class ForeignTest(dockerd.DockerTest):
    def make(self, name, labels=None, image="bb:1", **more):
        status, body = self.engine.call("POST", f"/containers/create?name={name}", {
            "Image": image, "Cmd": ["sh", "-c", "while :; do sleep 3600; done"], "Labels": labels or {}, **more})
        self.assertEqual(status, 201, body)
        number = json.loads(body)["Id"]
        self.addCleanup(self.engine.call, "DELETE", f"/containers/{number}?force=1")
        self.assertEqual(self.engine.call("POST", f"/containers/{number}/start")[0], 204)
        return number

    def alive(self, name):
        self.assertTrue(self.engine.inspect(name)["State"]["Running"], name)

    def test_an_image_that_gives_its_containers_our_labels(self):
        box = self.receipt("start", SLOT)["sandbox"]
        real = self.engine.inspect(box)["Config"]["Labels"]
        for name, sandbox in (("thief", "sb-0123456789abcdef"), ("twin", box), ("path", "../../x")):
            labels = {**real, "ascope.sandbox": sandbox}
            self.engine.import_image(name, dockerd.busybox_root(), "ENV PATH=/bin",
                                     *(f"LABEL {key}={value}" for key, value in labels.items()))
            number = self.make(name, image=f"{name}:1")
            given = self.engine.inspect(number)["Config"]["Labels"]
            self.assertEqual((given["ascope.owner"], given["ascope.sandbox"]), (real["ascope.owner"], sandbox))
            done = self.do("start", "session/ext", "--external", name, "-o", "json")
            self.assertEqual((done.code, done.error()["kind"]), (13, "unsupported"), str(done))
            done = self.do("start", "session/ext", "--external", number, "-o", "json")
            self.assertEqual((done.code, done.error()["kind"]), (13, "unsupported"), str(done))
        self.ok("gc", "--yes")
        self.assertEqual(self.receipt("start", SLOT)["sandbox"], box)
        self.assertEqual(self.folders(), [box])
        self.ok("rm", SLOT, "--purge", "--yes")
        self.ok("gc", "--yes")
        for name in ("thief", "twin", "path"):
            self.alive(name)

    def test_containers_that_agentscope_made(self):
        name = "agentscope-sandbox-0b1f6c1e-7f2e-4a86-9a55-3a5f0c6d2b11"
        number = self.make(name)
        state = {"type": "docker", "sessionId": name[19:], "snapshot": {"type": "noop", "id": "noop"},
                 "workspaceProjectionHash": None, "workspaceRootReady": True, "containerId": number,
                 "containerName": name, "image": "bb:1", "workspaceRoot": "/workspace", "containerOwned": True,
                 "memorySizeBytes": None, "cpuCount": None, "exposedPorts": [], "network": None,
                 "additionalRunArgs": []}
        self.place.write("state.json", json.dumps(state))
        done = self.do("start", SLOT, "--from-state", "state.json", "-o", "json")
        self.assertEqual((done.code, done.error()["kind"]), (9, "backend_unavailable"), str(done))
        self.assertIn(name, done.errors)
        self.ok("gc", "--yes")
        self.alive(name)
        self.assertEqual(self.engine.call("DELETE", f"/containers/{number}?force=1")[0], 204)
        done = self.receipt("start", SLOT, "--from-state", "state.json")
        self.assertEqual((done["branch"], done["sandbox"]), ("D", self.folders()[0]))


if __name__ == "__main__":
    unittest.main()
