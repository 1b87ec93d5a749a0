// SPDX-License-Identifier: Apache-2.0
// Who tries what inside, and what stops it (each row of the threat table that concerns bubblewrap).
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "core/base/file.h"
#include "unit/bubblewrap/fixture.h"

using namespace ascope;
using namespace ascope::test;

namespace {

std::string python(Sandbox& sandbox, const std::string& script, const std::string& user = {}) {
  ExecRequest request;
  request.argv = {"python3", "-c", script};
  request.user = user;
  const Ran ran = SandboxFixture::run(sandbox, request);
  return ran.out + ran.err;
}

std::vector<std::string> users() {
  return ::geteuid() == 0 ? std::vector<std::string>{"", "root"} : std::vector<std::string>{""};
}

}  // namespace

TEST_CASE("the host cannot be seen") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  CHECK(SandboxFixture::sh(sandbox, "ls -A /root /srv /mnt /var/lib 2>/dev/null | grep -v :")
            .out.find_first_not_of('\n') == std::string::npos);
  CHECK(SandboxFixture::sh(sandbox, "ls /etc/shadow /etc/sudoers /etc/machine-id /run/*.sock").outcome.code !=
        0);
  CHECK(SandboxFixture::sh(sandbox, "ls /proc | grep -c '^[0-9]'; ls -A /run").out.find("ascope") !=
        std::string::npos);
  CHECK(SandboxFixture::sh(sandbox, "touch /usr/x /etc/ssl/certs/x /bin/x").outcome.code != 0);
  CHECK(SandboxFixture::sh(sandbox, "cat /proc/net/dev | grep -c :").out == "1\n");
  // No socket of ours has a name inside.
  CHECK(SandboxFixture::sh(sandbox, "find / -xdev -type s 2>/dev/null; cat /proc/net/unix | grep -c '/s$'")
            .out == "0\n");
}

TEST_CASE("descriptors inside are 0, 1 and 2, and none leads to the host") {
  if (!have_bwrap()) {
    return;
  }
  const UniqueFd leak(::open("/etc/passwd", O_RDONLY));  // without close-on-exec
  const UniqueFd high(::fcntl(leak.get(), F_DUPFD, 251));
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  const std::string list = python(sandbox,
                                  "import os\nfor f in sorted(os.listdir('/proc/self/fd')):\n"
                                  "  try: print(f, os.readlink('/proc/self/fd/'+f).split(':')[0])\n"
                                  "  except OSError: pass\n");
  CHECK(list == "0 /dev/null\n1 pipe\n2 pipe\n");
  CHECK(SandboxFixture::sh(sandbox, "ls /dev/console").outcome.code != 0);
}

TEST_CASE("the first process cannot be read, traced, stopped or killed") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  for (const std::string& user : users()) {
    CAPTURE(user);
    const std::string tried =
        python(sandbox,
               "import os, ctypes, signal\n"
               "bad = []\n"
               // The numbers of its descriptors are no secret to the sandbox's root, what
               // they lead to is.
               "names = ['mem', 'environ', 'maps', 'root', 'fd/3', 'fd/5', 'cwd', 'exe']\n"
               "if os.getuid() != 0: names.append('fd')\n"
               "for name in names:\n"
               "  path = '/proc/1/' + name\n"
               "  try:\n"
               "    if name in ('root', 'cwd', 'exe') or name[:3] == 'fd/': os.readlink(path)\n"
               "    elif name == 'fd': os.listdir(path)\n"
               "    else: open(path, 'rb').read(1)\n"
               "    bad.append(name)\n"
               "  except OSError: pass\n"
               "c = ctypes.CDLL(None, use_errno=True)\n"
               "if c.ptrace(16, 1, 0, 0) == 0: bad.append('ptrace')\n"
               "for s in (signal.SIGKILL, signal.SIGSTOP, signal.SIGTERM):\n"
               "  try: os.kill(1, s)\n"
               "  except OSError: pass\n"
               "print('bad', bad)\n",
               user);
    CHECK(tried == "bad []\n");
    CHECK(SandboxFixture::sh(sandbox, "echo alive").out == "alive\n");
  }
}

TEST_CASE("dangerous system calls are refused") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  for (const std::string& user : users()) {
    CAPTURE(user);
    const std::string tried = python(sandbox,
                                     "import ctypes, os, socket\n"
                                     "c = ctypes.CDLL(None, use_errno=True)\n"
                                     "def call(*a):\n"
                                     "  ctypes.set_errno(0)\n"
                                     "  r = c.syscall(*[ctypes.c_long(x) for x in a])\n"
                                     "  return ctypes.get_errno() if r == -1 else 0\n"
                                     "bad = []\n"
                                     "try: socket.socket(40, socket.SOCK_STREAM); bad.append('vsock')\n"
                                     "except OSError as e:\n"
                                     "  if e.errno != 1: bad.append('vsock %d' % e.errno)\n"
                                     "rows = [('keyctl', 250, 0, 0, 0), ('add_key', 248, 0, 0, 0), "
                                     "('io_uring_setup', 425, 1, 0), ('bpf', 321, 0, 0, 0),\n"
                                     "  ('perf', 298, 0, 0, 0, 0, 0), ('userfaultfd', 323, 0), ('mount', "
                                     "165, 0, 0, 0, 0, 0), ('unshare', 272, 0x10000000),\n"
                                     "  ('clone', 56, 0x10000000 | 17, 0, 0, 0, 0), ('clone3', 435, 0, 0), "
                                     "('setns', 308, 0, 0), ('personality', 135, 0x40000),\n"
                                     "  ('fsopen', 430, 0, 0), ('kexec', 246, 0, 0, 0, 0), ('handle', 304, "
                                     "0, 0, 0), ('x32 getpid', 0x40000000 | 39)]\n"
                                     "for name, *args in rows:\n"
                                     "  e = call(*args)\n"
                                     "  if e not in (1, 38): bad.append('%s %d' % (name, e))\n"
                                     "if call(135, 0xffffffff) != 0: bad.append('personality query')\n"
                                     "import fcntl, pty\n"
                                     "m, s = pty.openpty()\n"
                                     "for req in (0x5412, 0x541c, 0x541200000000 << 0 | 0x5412):\n"
                                     "  if c.ioctl(s, ctypes.c_ulong(req | (1 << 32)), b'x') == 0 or "
                                     "ctypes.get_errno() != 1: bad.append('ioctl %x' % req)\n"
                                     "print('bad', bad)\n",
                                     user);
    CHECK(tried == "bad []\n");
  }
  CHECK(SandboxFixture::sh(sandbox, "unshare -U true").outcome.code != 0);
}

TEST_CASE("nothing of the kernel can be set") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  for (const std::string& user : users()) {
    CAPTURE(user);
    // Every file of /proc that its mode calls root's to write, opened for writing; processes are their own.
    const std::string tried =
        python(sandbox,
               "import os, stat\n"
               "bad = []\n"
               "for top, dirs, files in os.walk('/proc'):\n"
               "  if top == '/proc': dirs[:] = [d for d in dirs if not d.isdigit() and d not in ('self', "
               "'thread-self')]\n"
               "  for f in files:\n"
               "    p = os.path.join(top, f)\n"
               "    try:\n"
               "      if os.path.islink(p) or not os.lstat(p).st_mode & 0o200: continue\n"
               "      os.close(os.open(p, os.O_WRONLY | os.O_NONBLOCK)); bad.append(p)\n"
               "    except OSError: pass\n"
               "print('bad', bad)\n",
               user);
    CHECK(tried == "bad []\n");
    ExecRequest request;
    request.user = user;
    request.argv = {"sh", "-c",
                    "echo x > /proc/sys/kernel/core_pattern || echo 3 > /proc/sys/vm/drop_caches || "
                    "echo h > /proc/sysrq-trigger || mount -o remount,rw /usr || mknod /tmp/d b 254 0"};
    CHECK(SandboxFixture::run(sandbox, request).outcome.code != 0);
    request.argv = {"cat", "/proc/self/status"};
    CHECK(SandboxFixture::run(sandbox, request).out.find("NoNewPrivs:\t1") != std::string::npos);
    request.argv = {"sh", "-c", "ulimit -c"};
    CHECK(SandboxFixture::run(sandbox, request).out == "0\n");  // 1 byte, in blocks
  }
}

TEST_CASE("a setuid file is not the host root's and helps nobody") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  Sandbox& sandbox = fixture.create();
  const auto info = sandbox.info(OpContext{}).value();
  ExecRequest request;
  request.user = ::geteuid() == 0 ? "root" : "";
  request.argv = {"sh", "-c", "cp /bin/sh /var/tmp/sh && chmod 4755 /var/tmp/sh"};
  const Ran ran = SandboxFixture::run(sandbox, request);
  struct stat file{};
  REQUIRE(::stat((info.details.at("root") + "/var/tmp/sh").c_str(), &file) == 0);
  if (::geteuid() == 0) {
    CHECK(ran.outcome.code == 0);
    CHECK(file.st_uid >= 65536);  // of the sandbox's own range
  } else {
    CHECK(ran.outcome.code != 0);
    CHECK((file.st_mode & 06000) == 0);
    CHECK(python(
              sandbox,
              "import os\nfor f in (lambda: os.open('/tmp/a', os.O_CREAT, 0o4755), lambda: "
              "os.mkdir('/tmp/b', 0o2755),\n"
              "  lambda: os.mknod('/tmp/c', 0o4755)):\n  try: f(); print('bad')\n  except OSError: pass\n") ==
          "");
  }
  // Other users of the host do not get to it.
  struct stat state{};
  REQUIRE(::stat((fixture.state_dir() + "/sandboxes").c_str(), &state) == 0);
  CHECK((state.st_mode & 077) == 0);
}

TEST_CASE("folders of the host are mounted as the profile says, without setuid") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  const std::string shared = fixture.state_dir() + "/shared";
  REQUIRE(make_dirs(shared, 0777).has_value());
  ::chmod(shared.c_str(), 0777);
  REQUIRE(write_file_atomic(shared + "/f", "from host\n", 0644).has_value());
  SandboxSettings settings;
  settings.mounts = {{shared, "/workspace/data", false}, {shared, "/ro", true}};
  Sandbox& sandbox = fixture.create(settings);
  CHECK(SandboxFixture::sh(sandbox, "cat data/f").out == "from host\n");
  CHECK(SandboxFixture::sh(sandbox, "echo hi > data/g && ! echo no > /ro/x").outcome.code == 0);
  CHECK(SandboxFixture::sh(sandbox, "cp /bin/true data/s && chmod 4755 data/s").outcome.code != 0);
  CHECK(SandboxFixture::sh(sandbox, "ln f data/h; ln data/f /workspace/l").outcome.code != 0);
}

TEST_CASE("links left for the next start lead nowhere") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  const std::string outside = fixture.state_dir() + "/outside";
  const std::string shared = fixture.state_dir() + "/shared";
  REQUIRE(make_dirs(outside, 0777).has_value());
  REQUIRE(make_dirs(shared, 0777).has_value());
  Sandbox& sandbox = fixture.create();
  CHECK(SandboxFixture::sh(sandbox, "ln -s /oldroot" + outside + " /workspace/data").outcome.code == 0);
  CHECK_OK(sandbox.stop(OpContext{}, 1));
  SandboxSettings settings;
  settings.mounts = {{shared, "/workspace/data/new", true}};
  CHECK_OK(sandbox.start(OpContext{}, settings, 1));
  CHECK(list_dir(outside).value().empty());
  CHECK(
      SandboxFixture::sh(sandbox, "test -d /workspace/data/new && ! test -L /workspace/data").outcome.code ==
      0);
}

TEST_CASE("bombs do not keep the sandbox from being stopped") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  SandboxSettings settings;
  settings.pids = 60;
  Sandbox& sandbox = fixture.create(settings);
  CHECK(SandboxFixture::sh(sandbox, "sh -c 'b() { b | b & }; b' >/dev/null 2>&1 &").outcome.code == 0);
  for (int i = 0; i < 5; ++i) {
    ExecRequest request;
    request.argv = {"true"};
    static_cast<void>(sandbox.exec(OpContext{}, request, {}));  // may find no process left
  }
  const auto begin = std::chrono::steady_clock::now();
  CHECK_OK(sandbox.stop(OpContext{}, 1));
  CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(4));
}

TEST_CASE("a memory limit holds or is named, and its group goes with the sandbox") {
  if (!have_bwrap()) {
    return;
  }
  SandboxFixture fixture;
  SandboxSettings settings;
  settings.memory_bytes = 96ULL << 20U;
  settings.cpus = 1.5;
  Sandbox& sandbox = fixture.create(settings);
  const auto info = sandbox.info(OpContext{}).value();
  CHECK(python(sandbox, "x = bytearray(400 << 20)\nprint('had it')\n").find("had it") == std::string::npos);
  // Version 2 ends the whole sandbox (memory.oom.group), version 1 and the limit of a process the command
  // alone.
  if (::access("/sys/fs/cgroup/cgroup.controllers", F_OK) != 0) {
    CHECK(SandboxFixture::sh(sandbox, "echo alive").out == "alive\n");
  }
  const bool group = ::access(("/sys/fs/cgroup/memory/ascope-" + info.id).c_str(), F_OK) == 0;
  if (::access("/sys/fs/cgroup/memory", F_OK) == 0) {
    CHECK(group != (info.details.count("not_enforced") == 1));
  }
  CHECK_OK(sandbox.stop(OpContext{}, 1));
  CHECK(::access(("/sys/fs/cgroup/memory/ascope-" + info.id).c_str(), F_OK) != 0);
}
