# SPDX-License-Identifier: Apache-2.0
"""A container engine of a test's own: dockerd in a folder, a network namespace and a mount namespace of its own, which
no other engine notices, with images made of what this machine has. It is ended by its process id."""
import contextlib
import http.client
import io
import json
import os
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
import time

import harness

BUSYBOX = "/bin/busybox"
PASSWD = ("root:x:0:0:root:/root:/bin/sh\nagent:x:1000:1000::/home/agent:/bin/sh\n"
          "nobody:x:65534:65534::/:/bin/sh\n")
GROUP = "root:x:0:\nagent:x:1000:\nstaff:x:50:agent\n"


def need_docker():
    """Skips the running test where no engine can be started; a failure where ASCOPE_REQUIRE names docker."""
    harness.need("docker", os.geteuid() == 0, "only root can start an engine")
    for name in ("dockerd", "containerd", "runc", "unshare", "ip"):
        harness.need("docker", shutil.which(name) is not None, f"{name} is not installed")
    static = os.path.exists(BUSYBOX) and b"dynamically" not in subprocess.run(
        ["ldd", BUSYBOX], capture_output=True, check=False).stderr + b""
    harness.need("docker", static, "busybox-static is not installed")


class _Connection(http.client.HTTPConnection):
    def __init__(self, path):
        super().__init__("engine", timeout=120)
        self._path = path

    def connect(self):
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def _add(tar, name, data=b"", mode=0o755, kind=tarfile.REGTYPE, link="", uid=0):
    info = tarfile.TarInfo(name)
    info.mode, info.type, info.linkname, info.size, info.uid, info.gid = mode, kind, link, len(data), uid, uid
    tar.addfile(info, io.BytesIO(data) if data else None)


def busybox_root():
    """The tar of a small system: busybox with its links, users, homes."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        for name in ("bin", "etc", "root", "home", "var", "usr", "dev", "proc", "sys"):
            _add(tar, name, kind=tarfile.DIRTYPE)
        _add(tar, "tmp", mode=0o1777, kind=tarfile.DIRTYPE)
        _add(tar, "home/agent", kind=tarfile.DIRTYPE, uid=1000)
        with open(BUSYBOX, "rb") as file:
            _add(tar, "bin/busybox", file.read())
        applets = subprocess.run([BUSYBOX, "--list"], capture_output=True, check=True).stdout.decode().split()
        for applet in applets:
            if applet != "busybox":
                _add(tar, f"bin/{applet}", kind=tarfile.SYMTYPE, link="busybox")
        _add(tar, "etc/passwd", PASSWD.encode(), 0o644)
        _add(tar, "etc/group", GROUP.encode(), 0o644)
    return out.getvalue()


def empty_root():
    """The tar of an image that holds nothing."""
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode="w") as tar:
        _add(tar, "nothing", kind=tarfile.DIRTYPE)
    return out.getvalue()


class Engine:
    image = "bb:1"

    def __init__(self):
        self.root = tempfile.mkdtemp(prefix="ascd", dir="/tmp")
        os.chmod(self.root, 0o711)
        self.socket = os.path.join(self.root, "s")
        self.host = f"unix://{self.socket}"
        self.process = None
        with open(self._path("daemon.json"), "w", encoding="ascii") as file:
            file.write("{}")
        self.start()

    def _path(self, name):
        return os.path.join(self.root, name)

    def start(self):
        arguments = ["--config-file", self._path("daemon.json"), "--data-root", self._path("data"), "--exec-root",
                     self._path("x"), "-H", self.host, "-p", self._path("pid"), "--bridge=none", "--iptables=false",
                     "--ip6tables=false", "--log-level=warn"]
        # Without a fork anywhere: the process that we start is the engine.
        command = ["unshare", "--net", "--mount", "--propagation", "private", "--", "sh", "-c",
                   'ip link set lo up; exec dockerd "$@"', "sh"] + arguments
        with open(self._path("log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True)
        harness.wait_for(self._answers, 60, f"the engine's answer ({self._path('log')})")

    def _answers(self):
        if self.process.poll() is not None:
            with open(self._path("log"), encoding="utf-8", errors="replace") as file:
                raise AssertionError("the engine ended at once: " + file.read()[-2000:])
        try:
            return self.call("GET", "/_ping")[0] == 200
        except OSError:
            return False

    def stop(self, number=signal.SIGTERM):
        if number != signal.SIGKILL:
            self.process.send_signal(number)
            self.process.wait(60)
            return
        with open(self._path("x/containerd/containerd.pid"), encoding="ascii") as file:
            child = int(file.read())
        self.process.send_signal(number)
        self.process.wait(60)
        # What it started may stay behind, and its note of itself does.
        with contextlib.suppress(ProcessLookupError):
            os.kill(child, signal.SIGKILL)
        harness.wait_for(lambda: not os.path.exists(f"/proc/{child}"), what="containerd's end")
        os.unlink(self._path("pid"))

    def close(self):
        if self.process.poll() is not None:
            self.start()  # what it held must not outlive it
        for box in self.containers():
            self.call("DELETE", f"/containers/{box['Id']}?force=1&v=1")
        self.stop()
        shutil.rmtree(self.root, ignore_errors=True)

    def call(self, method, target, body=None, kind="application/json"):
        connection = _Connection(self.socket)
        try:
            data = json.dumps(body).encode() if body is not None and not isinstance(body, bytes) else body
            connection.request(method, target, body=data, headers={"Content-Type": kind} if data else {})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()

    def json(self, target):
        status, body = self.call("GET", target)
        if status != 200:
            raise AssertionError(f"{target}: {status} {body!r}")
        return json.loads(body)

    def import_image(self, name, tar, *changes):
        query = "".join("&changes=" + change.replace(" ", "+") for change in changes)
        status, body = self.call("POST", f"/images/create?fromSrc=-&repo={name}&tag=1{query}", tar,
                                 "application/x-tar")
        if status != 200 or b"errorDetail" in body:
            raise AssertionError(f"importing {name}: {status} {body!r}")

    def containers(self):
        return self.json("/containers/json?all=1")

    def inspect(self, name):
        return self.json(f"/containers/{name}/json")


class Podman(Engine):
    """Podman's service, which speaks the same API."""
    image = "docker.io/library/bb:latest"

    def start(self):
        settings = self._path("containers.conf")
        with open(settings, "w", encoding="ascii") as file:
            # Defaults of its own are above what a machine may allow.
            file.write('[containers]\ndefault_ulimits = ["nofile=20000:20000", "nproc=4096:4096"]\n'
                       '[engine]\nexit_command_delay = 2\n')
        command = ["unshare", "--mount", "--propagation", "private", "--", "podman", "--root", self._path("root"),
                   "--runroot", self._path("run"), "--tmpdir", self._path("tmp"), "--storage-driver", "overlay",
                   "--cgroup-manager", "cgroupfs", "--events-backend", "file", "--runtime", "runc", "system",
                   "service", "--time=0", self.host]
        with open(self._path("log"), "ab") as log:
            self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                                            start_new_session=True, env={**os.environ, "CONTAINERS_CONF": settings})
        harness.wait_for(self._answers, 60, f"Podman's answer ({self._path('log')})")


_engine = None


def images(one):
    one.import_image("bb", busybox_root(), "ENV PATH=/bin", "ENV FROM_IMAGE=yes")
    one.import_image("user", busybox_root(), "ENV PATH=/bin", "USER agent:staff")
    one.import_image("scratch", empty_root())
    return one


def engine():
    """The engine of this test program, started when it is first asked for."""
    global _engine  # pylint: disable=global-statement
    if _engine is None:
        _engine = images(Engine())
    return _engine


def close_engine():
    global _engine  # pylint: disable=global-statement
    if _engine is not None:
        one, _engine = _engine, None
        one.close()


class DockerTest(harness.CliTest):
    """A test with a place of its own whose sandboxes are containers of this test program's engine."""
    image = "bb:1"
    profile = ""

    def setUp(self):
        need_docker()
        super().setUp()
        self.engine = engine()
        self.addCleanup(self.remove_containers)
        self.use()

    def use(self, image=None, **backend):
        """Writes the user's own profile."""
        folder = os.path.join(self.place.config, "ascope-sandbox")
        os.makedirs(folder, exist_ok=True)
        keys = {"type": "docker", "image": image or self.image, **backend}
        text = {"version": 1, "backend": keys}
        text.update(json.loads(self.profile) if self.profile else {})
        with open(os.path.join(folder, "profile.yaml"), "w", encoding="utf-8") as file:
            json.dump(text, file)  # JSON is YAML

    def remove_containers(self):
        for box in self.mine():
            self.engine.call("DELETE", f"/containers/{box['Id']}?force=1&v=1")

    def mine(self):
        """Containers that mount something of this test's place."""
        return [box for box in self.engine.containers()
                if any(mount.get("Source", "").startswith(self.place.root) for mount in box.get("Mounts", []))]

    def folders(self):
        folder = self.place.program_state("docker")
        return [name for name in os.listdir(folder) if name.startswith("sb-")] if os.path.isdir(folder) else []

    @property
    def environment(self):
        return {"DOCKER_HOST": self.engine.host}

    def do(self, *args, **options):
        extra = {**self.environment, **options.pop("env", {})}
        return self.place.run(*args, env=extra, **options)

    def ok(self, *args, **options):
        done = self.do(*args, **options)
        self.assertEqual(done.code, 0, str(done))
        return done

    def receipt(self, *args, **options):
        file = self.place.path("receipt")
        self.ok(args[0], "--status-file", file, *args[1:], **options)
        with open(file, encoding="utf-8") as receipt:
            return json.load(receipt)

    def sh(self, script, *flags, **options):
        return self.ok("exec", self.slot, *flags, "--", "sh", "-c", script, **options).text

    slot = "session/box"


def wait_gone(pid, seconds=10):
    deadline = time.monotonic() + seconds
    while os.path.exists(f"/proc/{pid}") and time.monotonic() < deadline:
        time.sleep(0.01)
    return not os.path.exists(f"/proc/{pid}")
