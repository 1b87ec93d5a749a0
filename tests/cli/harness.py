# SPDX-License-Identifier: Apache-2.0
"""Runs the built program in a place of its own: HOME, XDG folders and working directory in one temporary folder
that goes with everything that was started in it.

    class StartTest(harness.CliTest):
        def test_first_start_is_cold(self):
            done = self.place.run("start", "-o", "json")
            self.assertEqual(done.code, 0, done)

ASCOPE_PROGRAM names the program. As root, `Place(ordinary=True)` runs it as an ordinary user.
"""
import contextlib
import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import tempfile
import time
import unittest

ORDINARY_ID = 61234  # no account has it: no groups, no subordinate ids, nothing readable by chance
DEFAULT_TIMEOUT = 120  # seconds; slow machines and sanitizers included
_copies = {}
# As from a terminal, even under nohup: a shell cannot trap what it was started to ignore.
signal.signal(signal.SIGHUP, signal.SIG_DFL)


def program():
    path = os.environ.get("ASCOPE_PROGRAM")
    if not path:
        raise RuntimeError("ASCOPE_PROGRAM does not name the program; run through `meson test`")
    return os.path.abspath(path)


def required(service):
    """Whether ASCOPE_REQUIRE names `service`, so that its absence is a failure."""
    return service in os.environ.get("ASCOPE_REQUIRE", "").split(",")


def need(service, available, reason):
    """Skips the running test unless `available`; fails it where ASCOPE_REQUIRE names `service`."""
    if available:
        return
    if required(service):
        raise AssertionError(f"{service} is required here, but {reason}")
    raise unittest.SkipTest(f"{service}: {reason}")


def need_program(name):
    need(name, shutil.which(name) is not None, f"{name} is not installed")


def need_sandbox(place):
    """bwrap is there and may make the namespaces that a sandbox needs."""
    need("bubblewrap", shutil.which("bwrap") is not None, "bwrap is not installed")
    probe = subprocess.run(place.argv(["bwrap", "--unshare-all", "--ro-bind", "/", "/", "true"]),
                           capture_output=True, check=False)
    need("userns", probe.returncode == 0, "no user namespace: " + probe.stderr.decode(errors="replace").strip())


def full():
    """The big sizes were asked for (scripts/test --full)."""
    return os.environ.get("ASCOPE_TEST_FULL") == "1"


def sanitized():
    return bool(os.environ.get("ASCOPE_TEST_SANITIZED"))


class Done:
    """What a run left: code, out and err as bytes. A signal n is code -n."""

    def __init__(self, argv, code, out, err):
        self.argv, self.code, self.out, self.err = argv, code, out, err

    @property
    def text(self):
        return self.out.decode(errors="replace")

    @property
    def errors(self):
        return self.err.decode(errors="replace")

    def json(self):
        return json.loads(self.out)

    def error(self):
        """The `error` object that -o json leaves on stderr."""
        return json.loads(self.err.strip().splitlines()[-1])["error"]

    def __str__(self):
        return "{}\ncode {}\nstdout: {!r}\nstderr: {}".format(" ".join(map(str, self.argv)), self.code,
                                                              self.out[-4000:], self.errors[-4000:])

    __repr__ = __str__


class Place:
    def __init__(self, ordinary=False):
        self.ordinary = ordinary and os.geteuid() == 0
        # Short, for a socket's path may be 107 bytes long.
        self.root = tempfile.mkdtemp(prefix="asc", dir="/tmp")
        self.home, self.cwd, self.state, self.config, self.cache, self.runtime = (
            os.path.join(self.root, name) for name in ("home", "cwd", "state", "config", "cache", "run"))
        os.chmod(self.root, 0o755)
        for folder in (self.home, self.cwd, self.state, self.config, self.cache, self.runtime):
            os.mkdir(folder, 0o700)
            if self.ordinary:
                os.chown(folder, ORDINARY_ID, ORDINARY_ID)
        self._children = []

    # ---- running

    def env(self, extra=None):
        env = {"HOME": self.home, "XDG_STATE_HOME": self.state, "XDG_CONFIG_HOME": self.config,
               "XDG_CACHE_HOME": self.cache, "XDG_RUNTIME_DIR": self.runtime, "LC_ALL": "C", "TZ": "UTC",
               "PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
        for name, value in os.environ.items():
            if name.endswith("SAN_OPTIONS") or name == "LLVM_PROFILE_FILE":
                env[name] = value
        for name, value in (extra or {}).items():
            if value is None:
                env.pop(name, None)
            else:
                env[name] = value
        return env

    def argv(self, argv):
        """`argv` as the user of this place runs it."""
        if not self.ordinary:
            return list(argv)
        return ["setpriv", f"--reuid={ORDINARY_ID}", f"--regid={ORDINARY_ID}", "--clear-groups", "--inh-caps=-all",
                "--bounding-set=-all", "--no-new-privs", "--"] + list(argv)

    def program(self):
        """The program, copied where an ordinary user may not reach the build folder."""
        path = program()
        if not self.ordinary:
            return path
        if path not in _copies:
            reach = subprocess.run(self.argv(["test", "-x", path]), check=False).returncode == 0
            if reach:
                _copies[path] = path
            else:
                folder = tempfile.mkdtemp(prefix="ascbin", dir="/tmp")
                os.chmod(folder, 0o755)
                _copies[path] = shutil.copy2(path, folder)
        return _copies[path]

    def run(self, *args, stdin=b"", env=None, cwd=None, timeout=DEFAULT_TIMEOUT):
        """The program with `args`. `stdin` is bytes, or an open file."""
        return self.call([self.program(), *args], stdin=stdin, env=env, cwd=cwd, timeout=timeout)

    def ok(self, *args, **options):
        """As run(), but anything other than code 0 fails the test."""
        done = self.run(*args, **options)
        if done.code != 0:
            raise AssertionError(str(done))
        return done

    def call(self, argv, stdin=b"", env=None, cwd=None, timeout=DEFAULT_TIMEOUT):
        given = {"input": stdin} if isinstance(stdin, bytes) else {"stdin": stdin}
        done = subprocess.run(self.argv(argv), env=self.env(env), cwd=cwd or self.cwd, timeout=timeout,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, check=False, **given)
        return Done(argv, done.returncode, done.stdout, done.stderr)

    def popen(self, *args, stdin=subprocess.DEVNULL, env=None, cwd=None, **options):
        """The program left running; it is ended with the place."""
        options.setdefault("stdout", subprocess.PIPE)
        options.setdefault("stderr", subprocess.PIPE)
        child = subprocess.Popen(self.argv([self.program(), *args]), stdin=stdin, env=self.env(env),
                                 cwd=cwd or self.cwd, **options)
        self._children.append(child)
        return child

    # ---- files

    def write(self, name, content, mode=0o644):
        """A file below the working directory, owned by this place's user."""
        path = os.path.join(self.cwd, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(content.encode() if isinstance(content, str) else content)
        os.chmod(path, mode)
        if self.ordinary:
            folder = os.path.dirname(path)
            while len(folder) >= len(self.cwd):
                os.chown(folder, ORDINARY_ID, ORDINARY_ID)
                folder = os.path.dirname(folder)
            os.chown(path, ORDINARY_ID, ORDINARY_ID)
        return path

    def path(self, *parts):
        return os.path.join(self.cwd, *parts)

    def program_state(self, *parts):
        return os.path.join(self.state, "ascope-sandbox", *parts)

    # ---- ending

    def processes(self):
        """Ids of processes that belong to this place, with all that descend from them."""
        parents, mine = {}, set()
        needle = self.root.encode()
        here = _mount_namespace("self")
        for name in os.listdir("/proc"):
            if not name.isdigit() or int(name) == os.getpid():
                continue
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parents[int(name)] = int(file.read().rpartition(b")")[2].split()[1])
                inside = _mount_namespace(name) != here and self._is_mounted_in(name)
                if inside or needle in _proc_file(name, "cmdline"):
                    mine.add(int(name))
            except OSError:
                continue
        grown = True
        while grown:
            more = {pid for pid, parent in parents.items() if parent in mine and pid not in mine}
            mine |= more
            grown = bool(more)
        return mine

    def _is_mounted_in(self, pid):
        """A folder of this place is what the process sees somewhere. That something is mounted at the place means
        nothing: each sandbox made meanwhile, of another place too, has a copy of such a mount."""
        name = os.path.basename(self.root).encode()
        return any(name in line.split()[3].split(b"/") for line in _proc_file(pid, "mountinfo").splitlines())

    def close(self):
        for child in self._children:
            if child.poll() is None:
                child.kill()
            for stream in (child.stdout, child.stderr, child.stdin):
                if stream:
                    stream.close()
            child.wait()
        deadline = time.monotonic() + 10
        while time.monotonic() < deadline:
            left = self.processes()
            if not left:
                break
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except OSError:
                    pass
            time.sleep(0.01)
        shutil.rmtree(self.root, onerror=_make_removable)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _mount_namespace(pid):
    try:
        return os.readlink(f"/proc/{pid}/ns/mnt")
    except OSError:
        return None  # a guest's, which nobody may look into


def _proc_file(pid, name):
    try:
        with open(f"/proc/{pid}/{name}", "rb") as file:
            return file.read()
    except OSError:
        return b""  # gone, or another user's


def _make_removable(function, path, _):
    folder = os.path.dirname(path)
    try:
        os.chmod(folder, stat.S_IRWXU)
        if not os.path.islink(path):
            os.chmod(path, stat.S_IRWXU)
        function(path)
    except OSError:
        pass  # a left-over in /tmp is no failure of what was tested


@contextlib.contextmanager
def mode_of(path, mode):
    """`path` has this mode for a while."""
    before = os.stat(path).st_mode & 0o7777
    os.chmod(path, mode)
    try:
        yield
    finally:
        os.chmod(path, before)


def need_root(ordinary):
    """Skips a test of root's sandboxes where the tests run as an ordinary user."""
    if not ordinary and os.geteuid() != 0:
        raise unittest.SkipTest("root: the test does not run as root")


class CliTest(unittest.TestCase):
    """A test with a place of its own. `ordinary = True`: the program runs as an ordinary user. `snapshot_format`: that
    of the user's own profile."""

    ordinary = False
    snapshot_format = None
    maxDiff = None

    def setUp(self):
        self.place = Place(ordinary=self.ordinary)
        self.addCleanup(self.place.close)
        if self.snapshot_format:
            folder = os.path.join(self.place.config, "ascope-sandbox")
            os.mkdir(folder)
            os.chmod(folder, 0o755)
            os.chmod(self.place.config, 0o755)
            with open(os.path.join(folder, "profile.yaml"), "w", encoding="ascii") as file:
                file.write(f"version: 1\nsnapshots: {{format: {self.snapshot_format}}}\n")

    def check(self, done, code=0):
        self.assertEqual(done.code, code, str(done))
        return done


def _machine_id():
    """Of this machine; "" where it has none, as in a bare root folder."""
    try:
        with open("/etc/machine-id", encoding="ascii") as file:
            text = file.read().strip()
    except FileNotFoundError:
        return ""
    return text if len(text) == 32 else ""


def host_id(place):
    """What the program calls this machine in a place where it has run."""
    if _machine_id():
        return _machine_id()
    with open(place.program_state("host-id"), encoding="ascii") as file:
        return file.read().strip()


def make_same_host(place, other):
    """Two places are on one machine even where it has no id of its own. The program has run in the first."""
    if not _machine_id():
        os.makedirs(other.program_state(), exist_ok=True)
        shutil.copy(place.program_state("host-id"), other.program_state("host-id"))


def wait_for(condition, timeout=30.0, what="the condition"):
    """Polls until `condition()` is true and gives its value."""
    deadline = time.monotonic() + timeout
    while True:
        value = condition()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"{what} did not come true in {timeout} s")
        time.sleep(0.005)


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def remove_copies():
    for original, copy in _copies.items():
        if original != copy:
            shutil.rmtree(os.path.dirname(copy), ignore_errors=True)
    _copies.clear()
