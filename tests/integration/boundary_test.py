# SPDX-License-Identifier: Apache-2.0
"""The execution boundary: what code inside tries, and what other users of the host try, against the built program.
As root (with the sandbox's user and with its root) and as an ordinary user. Bombs, timeouts and signals are in
boundary_process_test.py."""
import ctypes
import json
import os
import pty
import secrets
import select
import shutil
import socket
import stat
import subprocess
import sys
import tempfile
import threading
import unittest

import harness

HERE = os.path.dirname(os.path.abspath(__file__))
NOBODY = 65534
SLOT = "session/boundary"
LIBC = ctypes.CDLL(None, use_errno=True)
with open(os.path.join(HERE, "boundary_probes.py"), encoding="utf-8") as probes:
    PROBE = ("/usr/bin/python3", "-c", probes.read())


def as_nobody(*argv):
    return subprocess.run(argv, user=NOBODY, group=NOBODY, extra_groups=[], cwd="/", capture_output=True, check=False,
                          text=True)


class Boundary:
    """The rows, for both kinds of users; one sandbox for all."""

    ordinary = False
    users = ((), )

    @classmethod
    def setUpClass(cls):
        harness.need_root(cls.ordinary)
        cls.place = harness.Place(ordinary=cls.ordinary)
        cls.addClassCleanup(cls.place.close)
        harness.need_sandbox(cls.place)
        harness.need("python3", os.access("/usr/bin/python3", os.X_OK), "/usr/bin/python3 is not there to try it with")
        cls.token = "canary" + secrets.token_hex(6)
        cls.place.write("ascope.yaml", "version: 1\nidle_timeout: 0s\n")
        cls.profile = ("--profile", cls.place.path("ascope.yaml"))
        cls.place.ok("start", SLOT, env={"ASCOPE_CANARY": cls.token})

    def probe(self, name, argument=None, user=(), **options):
        done = self.place.run("exec", *user, SLOT, "--", *PROBE, name, json.dumps(argument), **options)
        self.assertEqual((done.code, done.err), (0, b""), done.errors)
        return done.json()

    def nothing(self, name, argument=None, **options):
        for user in self.users:
            with self.subTest(user=user):
                self.assertEqual(self.probe(name, argument, user, **options), [])

    def sandbox(self):
        return self.place.ok("show", SLOT, "-o", "json").json()["sandbox"]

    def host_folder(self, parent):
        """A folder of the test's own below a folder of the host; None where this user may not make one."""
        try:
            folder = tempfile.mkdtemp(prefix=self.token, dir=parent)
        except OSError:
            return None
        self.addCleanup(shutil.rmtree, folder)
        os.chmod(folder, 0o755)
        return folder

    # ---- the kernel and the host's files

    def test_nothing_of_the_kernel_can_be_set(self):
        with open("/proc/sys/kernel/core_pattern", "rb") as file:
            before = file.read()
        self.nothing("kernel_files")
        self.nothing("kernel_secrets")
        with open("/proc/sys/kernel/core_pattern", "rb") as file:
            self.assertEqual(file.read(), before)

    def test_files_of_the_host_are_not_there(self):
        paths = [self.place.root, self.place.home, self.place.cwd, self.place.state, "/work", "/boot", "/media"]
        for parent in ("/", "/root", "/home", "/var", "/var/tmp", "/var/lib", "/srv", "/mnt", "/opt", "/run", "/tmp",
                       "/etc", "/dev/shm"):
            folder = self.host_folder(parent)
            if folder:
                paths += [folder, folder + "/file"]
                with open(folder + "/file", "w", encoding="ascii") as file:
                    file.write(self.token)
        self.assertGreater(len(paths), 8)
        self.nothing("host_files", {"paths": paths, "token": self.token})
        self.nothing("mounts")

    def test_a_link_leads_to_no_file_of_the_host(self):
        secret = self.place.write("secret", self.token)
        self.place.write("source/AGENTS.md", "rules\n")
        slot, folder = "session/links", self.host_folder("/tmp")
        os.chmod(folder, 0o777)
        projected = ("--set", "workspace.projection.source=" + self.place.path("source"))
        self.place.ok("start", slot)
        self.place.ok("exec", slot, "--", "sh", "-c", f"ln -s {secret} out; ln -s {folder} dir; ln -s {folder}/AGENTS.md "
                      f"AGENTS.md; ln -s /proc/1/root/{folder} magic; echo mine > g")
        self.assertNotEqual(self.place.run("cp", slot + ":out", "copied").code, 70)
        if os.path.lexists(self.place.path("copied")):
            self.assertTrue(os.path.islink(self.place.path("copied")))
        for target in (":dir/new", ":magic/new"):
            self.place.run("cp", "source/AGENTS.md", slot + target)
        self.place.run("project", "apply", slot, *projected)
        self.place.ok("stop", slot)
        for target in (":dir/new", ":magic/new"):
            self.place.run("cp", "source/AGENTS.md", slot + target)
        self.place.ok("run", slot, *projected, "--", "true")
        self.place.ok("rm", slot)
        self.place.ok("run", slot, *projected, "--", "grep", "-q", "mine", "g")
        self.assertEqual(os.listdir(folder), [])
        rows = self.place.ok("snapshot", "ls", slot, "-o", "json").json()["snapshots"]
        self.assertTrue(rows)
        for row in rows:
            archive = self.place.ok("snapshot", "export", f"{slot}@{row['snapshot']}", "-").out
            self.assertNotIn(self.token.encode() + b"\0", archive, "the secret is in a snapshot")

    # ---- sockets, memory, calls

    def test_sockets_of_the_host_are_out_of_reach(self):
        paths, listeners = [], []

        def listen(family, kind, address):
            sock = socket.socket(family, kind)
            self.addCleanup(sock.close)
            sock.bind(address)
            if family == socket.AF_UNIX and not address.startswith("\0"):
                self.addCleanup(os.unlink, address)
                os.chmod(address, 0o777)
            if kind == socket.SOCK_STREAM:
                sock.listen()
            listeners.append(sock)
            return sock

        for parent in ("/run", "/tmp", "/var/run", "/var/tmp", "/dev/shm", self.place.runtime):
            for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
                path = os.path.join(parent, f"{self.token}-{len(paths)}")
                try:
                    listen(socket.AF_UNIX, kind, path)
                except PermissionError:
                    continue
                paths.append(path)
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            name = f"\0{self.token}-{kind}"
            listen(socket.AF_UNIX, kind, name)
            paths.append(name.replace("\0", "@"))
        self.assertGreater(len(paths), 4)
        port = listen(socket.AF_INET, socket.SOCK_STREAM, ("0.0.0.0", 0)).getsockname()[1]
        with socket.create_connection(("127.0.0.1", port), 5):
            pass  # it does listen
        listeners[-1].accept()[0].close()
        hosts = subprocess.run(["hostname", "-I"], capture_output=True, check=False, text=True).stdout.split()
        memory = LIBC.shmget(int.from_bytes(os.urandom(3), "big") + 1, 4096, 0o1666)
        key = memory  # found again below by its key
        if memory >= 0:
            self.addCleanup(LIBC.shmctl, memory, 0, None)
        self.nothing("sockets", {"paths": paths, "ports": [port], "hosts": [h for h in hosts if ":" not in h],
                                 "token": self.token, "shm": key, "pid": os.getpid()})
        self.nothing("raw_sockets")
        ready, _, _ = select.select(listeners, [], [], 0)
        self.assertEqual(ready, [], "something from inside arrived")

    def test_dangerous_calls_are_refused(self):
        self.nothing("calls")
        self.nothing("status")

    def test_the_guests_own_processes_are_closed(self):
        other = self.place.popen("exec", "-i", "-e", "ASCOPE_CANARY=" + self.token, SLOT, "--", "cat",
                                 stdin=subprocess.PIPE)
        other.stdin.write(b"x")
        other.stdin.flush()
        self.assertEqual(other.stdout.read(1), b"x")
        self.nothing("guests")
        other.stdin.close()
        self.assertEqual(other.wait(30), 0)

    # ---- the caller's environment, descriptors, terminal

    def test_the_callers_environment_stays_outside(self):
        script = ("import os\nfor top in os.listdir('/proc'):\n  try: print(open('/proc/'+top+'/environ').read())\n"
                  "  except OSError: pass\nprint(sorted(os.environ))")
        for user in self.users:
            with self.subTest(user=user):
                done = self.place.ok("exec", *user, SLOT, "--", "/usr/bin/python3", "-c", script,
                                     env={"ASCOPE_CANARY": self.token, "LD_LIBRARY_PATH": "/nowhere"})
                self.assertNotIn(self.token, done.text)
                names = set(json.loads(done.text.strip().splitlines()[-1].replace("'", '"')))
                self.assertLessEqual(names, {"HOME", "LOGNAME", "PATH", "USER", "PWD", "LC_CTYPE"})

    def test_home_and_workspace_are_the_users_own(self):
        script = ('set -e; echo "$HOME $USER $PWD $(id -u)"; cd; echo x > f; cat f; rm f; cd /workspace; echo x > f; '
                  'rm f; echo x > /tmp/f; rm /tmp/f; test "$(stat -c %u "$HOME")" = "$(id -u)"')
        done = self.place.ok("exec", SLOT, "--", "sh", "-c", script)
        self.assertEqual(done.text, "/home/agent agent /workspace 1000\nx\n")
        if len(self.users) > 1:
            done = self.place.ok("exec", "--as", "root", SLOT, "--", "sh", "-c", script)
            self.assertEqual(done.text, "/root root /workspace 0\nx\n")

    def test_descriptors_of_the_caller_do_not_come_in(self):
        self.place.write("fd", self.token)
        with open(self.place.path("fd"), "rb") as file, socket.socket() as sock:
            high = os.dup2(file.fileno(), 251)
            self.addCleanup(os.close, high)
            for number in (file.fileno(), high, sock.fileno()):
                os.set_inheritable(number, True)
            keep = (file.fileno(), high, sock.fileno())
            for slot, started in (("session/fd", False), ("session/fd", True)):
                argv = [self.place.program(), "run", slot, "--", *PROBE, "descriptors", "null"]
                with open(self.place.path("out"), "wb+") as out, open(self.place.path("fd"), "rb") as stdin:
                    done = subprocess.run(self.place.argv(argv), env=self.place.env(), cwd=self.place.cwd, stdin=stdin,
                                          stdout=out, stderr=subprocess.PIPE, pass_fds=keep, check=False)
                    self.assertEqual(done.returncode, 0, done.stderr)
                    out.seek(0)
                    self.assertEqual(json.load(out), [], f"started before: {started}")
        self.place.ok("rm", "session/fd")

    def on_terminal(self, *args, until=None, send=b""):
        """The program on a terminal of its own; what arrived there, and the exit code."""
        argv = self.place.argv([self.place.program(), *args])
        pid, master = pty.fork()
        if pid == 0:
            try:
                os.chdir(self.place.cwd)
                os.execvpe(argv[0], argv, self.place.env({"TERM": "dumb"}))
            finally:
                os._exit(99)
        got = b""
        if send:
            os.write(master, send)
        while until is None or until not in got:
            ready, _, _ = select.select([master], [], [], 60)
            self.assertTrue(ready, f"nothing more on the terminal after {got!r}")
            try:
                part = os.read(master, 65536)
            except OSError:  # the last one has closed it
                break
            if not part:
                break
            got += part
        os.close(master)
        return got, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])

    def test_the_callers_terminal_is_out_of_reach(self):
        slot = "session/tty"
        noise = ("for f in /dev/console /dev/tty /dev/tty1 /dev/pts/0 /dev/pts/1 /proc/1/fd/0 /proc/1/fd/1 /proc/1/fd/2; "
                 "do (echo noise > $f) 2>/dev/null; done; ")
        started, code = self.on_terminal("start", slot)
        self.assertEqual(code, 0, started)
        self.assertIn(b"Branch D", started)
        got, code = self.on_terminal("run", slot, "--", "sh", "-c", noise + "echo said")
        self.assertEqual((got.strip(), code), (b"said", 0))
        for stdin in ((), ("-i",)):
            got, code = self.on_terminal("exec", *stdin, slot, "--", *PROBE, "descriptors",
                                         "null")
            self.assertEqual((json.loads(got), code), ([], 0), stdin)
        # With -t there is a terminal, and it is the sandbox's own.
        got, code = self.on_terminal("exec", "-t", slot, "--", "sh", "-c", "tty; ls /dev/pts; test -t 0 && test -t 1")
        self.assertEqual(code, 0, got)
        self.assertEqual(got.split(), [b"/dev/pts/0", b"0", b"ptmx"])
        inject = ("import fcntl\nfor f in (0, 1, 2):\n  for c in b'touch x\\n':\n    try: fcntl.ioctl(f, 0x5412, bytes([c]))"
                  "\n    except OSError as e: assert e.errno == 1\n    else: print('typed')\nprint('done')")
        got, code = self.on_terminal("exec", "-t", "-i", slot, "--", "/usr/bin/python3", "-c", inject)
        self.assertEqual((got.split(), code), ([b"done"], 0))
        self.place.ok("rm", slot)

    # ---- what is left for the host

    def test_what_is_left_helps_nobody(self):
        slot = "session/left"
        self.place.ok("start", slot)
        as_root = ("--as", "root") if len(self.users) > 1 else ()
        script = ("cp /bin/sh sh; chmod 4755 sh; chmod u+s sh; cp /bin/sh gid; chmod 2755 gid; mknod null c 1 3; "
                  "mknod disk b 254 0; mkfifo fifo; ln /etc/services hard; ln /usr/bin/env env; mkdir -m 2777 folder; "
                  "setcap cap_sys_admin+ep sh; setfattr -n trusted.x -v y sh; true")
        for user in {(), as_root}:
            folder = "root" if user else "agent"
            self.place.ok("exec", "--cwd", "/var/tmp", *user, slot, "--", "sh", "-c",
                          f"mkdir -p {folder} && cd {folder} && {{ {script}; }} 2>/dev/null")
        details = self.place.ok("show", slot, "-o", "json").json()["sandbox"]["details"]
        mine = os.stat(self.place.home).st_uid
        seen = 0
        for top, folders, files in os.walk(os.path.join(details["root"], "var/tmp")):
            for name in folders + files:
                path = os.path.join(top, name)
                info = os.lstat(path)
                seen += 1
                self.assertFalse(stat.S_ISBLK(info.st_mode) or stat.S_ISCHR(info.st_mode), path)
                self.assertEqual(info.st_nlink, 1 if not stat.S_ISDIR(info.st_mode) else info.st_nlink, path)
                if as_root:
                    low, high = (int(number) for number in details["id_range"].split("-"))
                    self.assertGreaterEqual(low, 65536)
                    for owner in (info.st_uid, info.st_gid):
                        self.assertTrue(low <= owner <= high, f"{path} belongs to {owner}")
                else:
                    self.assertEqual(info.st_uid, mine, path)
                    self.assertEqual(info.st_mode & 0o6000, 0, path)
        self.assertGreaterEqual(seen, 4)
        if os.geteuid() == 0:
            for name in ("agent/sh", "root/sh"):
                path = os.path.join(details["root"], "var/tmp", name)
                done = as_nobody("/bin/sh", "-c", f"exec {path} -p -c 'id -u'")
                self.assertNotEqual(done.returncode, 0, f"nobody could use {path}: {done.stdout}")
        self.place.ok("rm", slot)

    def test_another_user_of_the_host_gets_nowhere(self):
        if os.geteuid() != 0:
            self.skipTest("root: only root can become another user")
        sandbox = self.sandbox()
        folder = os.path.dirname(sandbox["details"]["root"])
        script = ("import os, socket, sys\nbad = []\nfolder = sys.argv[1]\n"
                  "for path in (folder, folder + '/root', folder + '/root/workspace', folder + '/meta.json'):\n"
                  "  try: os.stat(path); bad.append(path)\n  except OSError: pass\n"
                  "for path in (folder + '/s', f'/proc/{sys.argv[2]}/root/tmp/x', f'/proc/{sys.argv[2]}/cwd'):\n"
                  "  try: socket.socket(socket.AF_UNIX).connect(path); bad.append(path)\n  except OSError: pass\n"
                  "  try: open(path); bad.append('open ' + path)\n  except OSError: pass\n"
                  "for name in ('environ', 'mem', 'maps'):\n"
                  "  try: open(f'/proc/{sys.argv[2]}/{name}', 'rb').read(1); bad.append(name)\n  except OSError: pass\n"
                  "try: os.kill(int(sys.argv[2]), 9); bad.append('kill')\nexcept OSError: pass\nprint(bad)")
        done = as_nobody("/usr/bin/python3", "-c", script, folder, sandbox["details"]["pid"])
        self.assertEqual((done.returncode, done.stdout, done.stderr), (0, "[]\n", ""))
        for top in (self.place.program_state(), self.place.program_state("sandboxes"),
                    self.place.program_state("snapshots"), folder):
            if os.path.exists(top):
                self.assertEqual(stat.S_IMODE(os.stat(top).st_mode) & 0o066, 0, top)

    # ---- what a state document says

    def test_a_state_document_is_not_obeyed(self):
        document = self.place.ok("state", "export", SLOT).text
        said = json.loads(document)
        said.update({"rootfs": "/", "network": "host", "workspaceRoot": "/etc", "sandboxId": None})
        said["manifest"] = {"root": "/etc", "environment": {"LD_PRELOAD": "/x", "ASCOPE_CANARY": self.token}, "entries": {
            "data": {"type": "bind_mount", "hostPath": self.place.root, "readOnly": False}}}
        said["snapshot"] = {"type": "local", "basePath": "/etc", "id": "passwd"}
        path = self.place.write("said.json", json.dumps(said))
        done = self.place.run("run", "session/said", "--from-state", path, "--", "sh", "-c",
                              "pwd; env; ls -A /workspace; grep -c : /proc/net/dev; cat /proc/self/mountinfo")
        if done.code == 0:
            self.assertTrue(done.text.startswith("/workspace\n"), done)
            self.assertIn("\n1\n", done.text)
            for word in (self.token, "LD_PRELOAD", self.place.root + " ", "/workspace/data"):
                self.assertNotIn(word, done.text)
        else:
            self.assertIn(done.code, (125,), done)  # refused as a whole is right too
            self.assertIn("hint: ", done.errors)


class RootBoundaryTest(Boundary, unittest.TestCase):
    users = ((), ("--as", "root"))


class OrdinaryBoundaryTest(Boundary, unittest.TestCase):
    ordinary = True


if __name__ == "__main__":
    sys.exit(unittest.main())
