# SPDX-License-Identifier: Apache-2.0
"""Commands that are killed at each of their requests to the engine: no container is left that `gc` does not find."""
import contextlib
import os
import re
import signal
import socket
import struct
import threading
import unittest

import dockerd
import harness

SLOT = dockerd.DockerTest.slot
CHANGING = re.compile(rb"(POST|DELETE) (\S+)")
ANY = re.compile(rb"(GET|HEAD|POST|DELETE) (\S+)")


def tearDownModule():
    dockerd.close_engine()


class Proxy:
    """Stands before an engine's socket. Armed, it kills the program that sends its Nth request (of those `counted`):
    `before` the engine gets it, `after` the engine has done it and before the program hears so, or at once, with the
    request held until `let_go()` (`late`)."""

    def __init__(self, path, behind):
        self.behind, self.counted = behind, CHANGING
        self.lock = threading.Lock()
        self.gate = threading.Event()
        self.answered = threading.Event()
        self.seen, self.at, self.when, self.killed, self.muted = 0, None, None, None, None
        self.listener = socket.socket(socket.AF_UNIX)
        self.listener.bind(path)
        self.listener.listen(64)
        self.threads = []
        self.accepter = threading.Thread(target=self._accept)
        self.accepter.start()

    def arm(self, at, when):
        self.gate.clear()
        self.answered.clear()
        with self.lock:
            self.seen, self.at, self.when, self.killed, self.muted = 0, at, when, None, None

    def disarm(self):
        with self.lock:
            self.at = None

    def let_go(self):
        """Lets the request that is held through, and waits until the engine has answered it."""
        self.gate.set()
        for thread in self.threads:
            thread.join(60)

    def close(self):
        self.gate.set()
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        self.accepter.join()
        for thread in self.threads:
            thread.join(60)

    def _accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            self.threads = [thread for thread in self.threads if thread.is_alive()]
            thread = threading.Thread(target=self._serve, args=(client,))
            self.threads.append(thread)
            thread.start()

    def _verdict(self, data):
        match = self.counted.match(data)
        if match is None:
            return None
        with self.lock:
            self.seen += 1
            if self.seen != self.at:
                return None
            self.killed = match.group(0).decode()
            return self.when

    def _serve(self, client):
        pid = struct.unpack("3i", client.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
        engine = socket.socket(socket.AF_UNIX)
        with contextlib.suppress(OSError), client, engine:
            engine.connect(self.behind)
            back = threading.Thread(target=self._back, args=(engine, client))
            back.start()
            try:
                while True:
                    data = client.recv(1 << 20)
                    if not data:
                        break
                    when = self._verdict(data)
                    if when is None:
                        engine.sendall(data)
                        continue
                    with self.lock:
                        self.muted = client  # what the engine answers goes to nobody
                    if when == "after":
                        engine.sendall(data)
                        self.answered.wait(60)
                    os.kill(pid, signal.SIGKILL)
                    if when == "late":
                        self.gate.wait(60)
                        engine.sendall(data)
                        self.answered.wait(60)
                    break
            finally:
                with contextlib.suppress(OSError):
                    engine.shutdown(socket.SHUT_RDWR)
                back.join()

    def _back(self, engine, client):
        while True:
            try:
                data = engine.recv(1 << 20)
            except OSError:
                return
            if not data:
                return
            with self.lock:
                muted = self.muted is client
            if muted:
                self.answered.set()
                return
            try:
                client.sendall(data)
            except OSError:
                return


class KillTest(dockerd.DockerTest):
    def setUp(self):
        super().setUp()
        self.proxy = Proxy(self.place.path("proxy.sock"), self.engine.socket)
        self.addCleanup(self.proxy.close)

    @property
    def environment(self):
        return {"DOCKER_HOST": f"unix://{self.place.path('proxy.sock')}"}

    def all_of(self, prepare, command, whens=("before", "after")):
        """Kills `command` at each of its requests in turn, and looks at what is left."""
        for when in whens:
            at = 1
            while True:
                prepare()
                self.proxy.arm(at, when)
                done = self.do(*command)
                self.proxy.disarm()
                if self.proxy.killed is None:
                    self.assertEqual(done.code, 0, str(done))
                    self.assertGreater(at, 1, f"{command} asked the engine for nothing")
                    break
                what = f"{command[0]} killed {when} {self.proxy.killed}"
                self.assertEqual(done.code, -signal.SIGKILL, f"{what}: {done}")
                self.look(what)
                at += 1
            self.empty(f"{command[0]}, whole")

    def look(self, what):
        self.ok("gc", "--yes")
        self.proxy.let_go()  # what was under way is done only now
        self.ok("gc", "--yes")
        containers = self.engine.containers()
        self.assertLessEqual(len(containers), 1, what)
        self.assertEqual(sorted("/" + name for name in self.folders()),
                         sorted(name for box in containers for name in box["Names"]), what)
        self.work(what)
        self.empty(what)

    def work(self, what):
        """The slot goes on."""
        done = self.receipt("start", SLOT)
        self.assertEqual(len(self.mine()), 1, what)
        self.sh(f"echo {done['branch']} > /workspace/seen")

    def empty(self, what):
        done = self.do("rm", SLOT, "--purge", "--yes")
        self.assertIn(done.code, (0, 4), str(done))  # 4: it is purged already
        self.assertEqual((self.engine.containers(), self.folders()), ([], []), what)

    def test_start(self):
        self.all_of(lambda: None, ["start", SLOT], ("before", "after", "late"))

    def keeping(self, *more):
        self.ok("run", SLOT, *more, "--", "sh", "-c", "echo kept > f")

    def test_start_of_a_stopped_one(self):
        self.all_of(lambda: self.keeping("--release", "stop"), ["start", SLOT])

    def test_stop(self):
        self.proxy.counted = ANY  # its guest is asked to end, and the engine only whether it has
        self.all_of(self.keeping, ["stop", SLOT])

    def test_rm(self):
        self.all_of(self.keeping, ["rm", SLOT], ("before", "after", "late"))

    def test_rm_of_everything(self):
        self.all_of(self.keeping, ["rm", SLOT, "--purge", "--yes"])

    def test_a_start_from_the_snapshot(self):
        def prepare():
            self.keeping()
            self.ok("rm", SLOT)
        self.all_of(prepare, ["start", SLOT])


if __name__ == "__main__":
    unittest.main()
