# SPDX-License-Identifier: Apache-2.0
"""What code inside tries. Runs in the sandbox as `python3 -c THIS NAME ARGUMENT`: calls the probe of that name with
the argument (JSON) and prints, as JSON, the list of what it could do and must not."""
import ctypes
import errno
import fcntl
import itertools
import json
import os
import pty
import socket
import stat
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
PTRACE_ATTACH, PTRACE_SEIZE = 16, 0x4206
NEWUSER = 0x10000000


def attempt(bad, name, action):
    """`action` must fail with OSError; what it gives otherwise is told."""
    try:
        got = action()
    except OSError:
        return
    bad.append(f"{name}: {got!r}" if got not in (None, 0) else name)


def system_call(number, *arguments):
    """The errno of a system call, 0 if it succeeded."""
    ctypes.set_errno(0)
    result = LIBC.syscall(ctypes.c_long(number), *[ctypes.c_long(a) for a in arguments])
    return ctypes.get_errno() if result == -1 else 0


def write(path, text):
    descriptor = os.open(path, os.O_WRONLY)
    try:
        return os.write(descriptor, text.encode())
    finally:
        os.close(descriptor)


def kernel_files(_):
    """Every file of /proc and /sys that its mode lets its owner write, but for our own processes' own."""
    bad, tried = [], 0
    for top, folders, files in itertools.chain(os.walk("/proc"), os.walk("/sys")):
        if top == "/proc":
            folders[:] = [name for name in folders if not name.isdigit() and name not in ("self", "thread-self")]
        for name in files:
            path = os.path.join(top, name)
            try:
                if os.path.islink(path) or not os.lstat(path).st_mode & 0o222:
                    continue
                # What is masked is the null device.
                if stat.S_ISCHR(os.lstat(path).st_mode) and os.lstat(path).st_rdev == os.makedev(1, 3):
                    continue
            except OSError:
                continue
            tried += 1
            attempt(bad, path, lambda p=path: os.close(os.open(p, os.O_WRONLY | os.O_NONBLOCK)))
    if tried < 50:
        bad.append(f"only {tried} files were tried: the walk is broken")
    for path, text in (("/proc/sys/kernel/core_pattern", "|/x"), ("/proc/sys/vm/drop_caches", "3"),
                       ("/proc/sysrq-trigger", "h"), ("/proc/self/oom_score_adj", "-1000")):
        attempt(bad, "write " + path, lambda p=path, t=text: write(p, t))
    return bad


def kernel_secrets(_):
    """Files of /proc that tell about the host's memory, keys, timers and log."""
    bad = []
    for name in ("kcore", "keys", "key-users", "timer_list", "sched_debug", "kmsg", "vmallocinfo", "slabinfo"):
        try:
            with open("/proc/" + name, "rb") as file:
                if file.read(64):
                    bad.append(name)
        except OSError:
            pass
    return bad


def host_files(arguments):
    """Paths that are the host's alone, and names that must be nowhere."""
    bad = []
    for path in arguments["paths"]:
        attempt(bad, path, lambda p=path: os.stat(p) and "is there")
    for folder in ("/root", "/home/agent", "/srv", "/mnt", "/var/lib", "/var/log", "/var/cache", "/sys", "/opt"):
        try:
            names = os.listdir(folder)
        except PermissionError:
            continue  # /root is the sandbox's root's
        if names:
            bad.append(f"{folder} holds {names}")
    for top, folders, files in os.walk("/"):
        if top == "/":
            folders[:] = [name for name in folders if name not in ("usr", "proc")]
        for name in folders + files:
            if arguments["token"] in name:
                bad.append(os.path.join(top, name))
            try:
                if stat.S_ISSOCK(os.lstat(os.path.join(top, name)).st_mode):
                    bad.append("socket " + os.path.join(top, name))
            except OSError:
                pass
    if sorted(os.listdir("/run")) != ["ascope"] or os.listdir("/run/ascope") != ["guest"]:
        bad.append("/run")
    bad += [word for word in ("/etc/shadow", "/etc/gshadow", "/etc/sudoers", "/etc/machine-id", "/etc/ssh")
            if os.path.lexists(word)]
    return bad


def mounts(_):
    """Only the sandbox's own tree may be written, and no mount is outside the few that it is made of."""
    known = ("/", "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/tmp", "/run", "/run/ascope/guest")
    bad = []
    with open("/proc/self/mountinfo", encoding="ascii") as file:
        for line in file:
            place, options = line.split()[4:6]
            own = place in ("/", "/tmp", "/run") or place == "/proc" or place.startswith("/dev")
            if place not in known and not place.startswith(("/etc/", "/proc", "/dev")):
                bad.append(place)
            if not own and "ro" not in options.split(","):
                bad.append(place + " can be written")
            if "nosuid" not in options.split(","):
                bad.append(place + " keeps setuid")
    for path in ("/usr/x", "/bin/x", "/etc/ssl/certs/x", "/lib/x"):
        attempt(bad, path, lambda p=path: open(p, "w", encoding="ascii").close())
    return bad


def sockets(arguments):
    """Sockets of the host: by path, by abstract name, by address; shared memory; processes."""
    bad = []

    def reach(family, kind, address):
        with socket.socket(family, kind) as sock:
            sock.settimeout(2)
            sock.connect(address)
            sock.send(b"x")
            return address

    for path in arguments["paths"]:
        for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM):
            attempt(bad, f"unix {path!r}", lambda p=path, k=kind: reach(socket.AF_UNIX, k, p.replace("@", "\0", 1)))
    for port in arguments["ports"]:
        for host in ("127.0.0.1", *arguments["hosts"]):
            attempt(bad, f"tcp {host}", lambda h=host, p=port: reach(socket.AF_INET, socket.SOCK_STREAM, (h, p)))
    with open("/proc/net/dev", encoding="ascii") as file:
        devices = [line.split(":")[0].strip() for line in file if ":" in line]
    if devices != ["lo"]:
        bad.append(f"network devices {devices}")
    with open("/proc/net/unix", encoding="ascii") as file:
        bad += ["seen: " + line.split()[-1] for line in file if arguments["token"] in line]
    if LIBC.shmget(arguments["shm"], 0, 0) != -1:
        bad.append("the host's shared memory")
    attempt(bad, "a process of the host", lambda: os.kill(arguments["pid"], 0) or "found")
    return bad


def raw_sockets(_):
    bad = []
    for name, family, kind in (("raw", socket.AF_INET, socket.SOCK_RAW), ("packet", socket.AF_PACKET, socket.SOCK_RAW),
                               ("vsock", 40, socket.SOCK_STREAM), ("vsock datagrams", 40, socket.SOCK_DGRAM)):
        attempt(bad, name, lambda f=family, k=kind: socket.socket(f, k).close())
    return bad


def calls(_):
    """System calls that reach the host's kernel past the namespaces."""
    rows = [("keyctl", 250, 0, 0, 0), ("add_key", 248, 0, 0, 0), ("request_key", 249, 0, 0, 0, 0),
            ("io_uring_setup", 425, 1, 0), ("io_uring_enter", 426, 0, 0, 0, 0, 0), ("io_uring_register", 427, 0, 0, 0, 0),
            ("bpf", 321, 0, 0, 0), ("perf_event_open", 298, 0, 0, 0, 0, 0), ("userfaultfd", 323, 0),
            ("mount", 165, 0, 0, 0, 0, 0), ("umount2", 166, 0, 0), ("pivot_root", 155, 0, 0), ("chroot", 161, 0),
            ("fsopen", 430, 0, 0), ("open_tree", 428, 0, 0, 0), ("move_mount", 429, 0, 0, 0, 0, 0),
            ("unshare NEWUSER", 272, NEWUSER), ("unshare NEWNS", 272, 0x20000),
            ("clone NEWUSER", 56, NEWUSER | 17, 0, 0, 0, 0), ("clone3", 435, 0, 0), ("setns", 308, 0, 0),
            ("personality", 135, 0x40000), ("kexec_load", 246, 0, 0, 0, 0), ("open_by_handle_at", 304, 0, 0, 0),
            ("init_module", 175, 0, 0, 0), ("reboot", 169, 0, 0, 0, 0), ("swapon", 167, 0, 0), ("syslog", 103, 3, 0, 0),
            ("settimeofday", 164, 0, 0), ("sethostname", 170, 0, 0), ("x32 getpid", 0x40000000 | 39)]
    refused = (errno.EPERM, errno.ENOSYS, errno.EACCES)
    bad = []
    for name, *arguments in rows:
        if os.uname().machine != "x86_64":
            break  # the numbers are this machine's; the rows below are not
        error = system_call(*arguments)
        if error not in refused and not (name == "settimeofday" and error == 0):  # two null pointers change nothing
            bad.append(f"{name}: errno {error}")
    attempt(bad, "clock_settime", lambda: __import__("time").clock_settime(0, 1e9))
    master, slave = pty.openpty()
    for where in (master, slave, 0, 1, 2):
        for name, number in (("TIOCSTI", 0x5412), ("TIOCLINUX", 0x541C)):
            for high in (0, 1 << 32):  # the kernel looks at 32 bits alone
                if LIBC.ioctl(where, ctypes.c_ulong(number | high), b"x") == 0 or ctypes.get_errno() != errno.EPERM:
                    bad.append(f"{name} on {where}: errno {ctypes.get_errno()}")
    return bad


def status(_):
    """No new privileges, a filter, no core dumps, no capability that is not one of the few."""
    bad = []
    with open("/proc/self/status", encoding="ascii") as file:
        values = dict(line.split(":", 1) for line in file)
    for key, wanted in (("NoNewPrivs", "1"), ("Seccomp", "2")):
        if values[key].strip() != wanted:
            bad.append(f"{key} {values[key].strip()}")
    few = sum(1 << number for number in (0, 1, 3, 4, 5, 6, 7))  # chown, dac_override, fowner, fsetid, kill, setgid, setuid
    for key in ("CapEff", "CapPrm", "CapInh", "CapAmb"):
        if int(values[key], 16) & ~few:
            bad.append(f"{key} {values[key].strip()}")
    if os.getuid() != 0 and int(values["CapEff"], 16) != 0:
        bad.append("CapEff of an ordinary user " + values["CapEff"].strip())
    import resource
    if resource.getrlimit(resource.RLIMIT_CORE)[1] > 1:
        bad.append("core dumps")
    return bad


def is_guest(pid):
    try:
        with open(f"/proc/{pid}/cmdline", "rb") as file:
            return file.read().startswith(b"/run/ascope/guest")
    except OSError:
        return False


def guests(_):
    """PID 1 and the guest's process of each command: unreadable, untraceable."""
    bad, found = [], []
    for name in os.listdir("/proc"):
        if not name.isdigit() or not is_guest(int(name)):
            continue
        found.append(int(name))
        for part in ("mem", "environ", "maps", "auxv", "syscall", "stack", "pagemap", "clear_refs", "io"):
            attempt(bad, f"{name}/{part}", lambda p=part, n=name: open(f"/proc/{n}/{p}", "rb").read(1) and "read")
        # The sandbox's root may open the others, to its own harm alone: it ends its own sandbox when it wants to.
        for part in ("mem", "oom_score_adj", "comm", "clear_refs") if os.getuid() != 0 else ("mem",):
            attempt(bad, f"{name}/{part} for writing", lambda p=part, n=name: os.close(
                os.open(f"/proc/{n}/{p}", os.O_WRONLY)))
        for part in ["root", "cwd", "exe"] + [f"fd/{number}" for number in range(12)]:
            attempt(bad, f"{name}/{part}", lambda p=part, n=name: os.readlink(f"/proc/{n}/{p}"))
        attempt(bad, f"{name}/root/", lambda n=name: os.listdir(f"/proc/{n}/root/"))
        for request in (PTRACE_ATTACH, PTRACE_SEIZE):
            if LIBC.ptrace(request, int(name), 0, 0) == 0:
                bad.append(f"ptrace {request} of {name}")
        remote = ctypes.create_string_buffer(16)
        vector = (ctypes.c_void_p * 2)(ctypes.addressof(remote), 16)
        if LIBC.process_vm_readv(int(name), vector, 1, vector, 1, 0) > 0:
            bad.append(f"process_vm_readv of {name}")
        try:
            pidfd = os.pidfd_open(int(name))
            for number in range(8):
                if system_call(438, pidfd, number, 0) == 0:  # pidfd_getfd
                    bad.append(f"pidfd_getfd {number} of {name}")
        except OSError:
            pass
    if 1 not in found or len(found) < 2:
        bad.append(f"only {found} were found: the walk is broken")
    return bad


def descriptors(_):
    """0, 1 and 2, and that none is the caller's terminal or file."""
    bad = []
    for name in sorted(os.listdir("/proc/self/fd"), key=int):
        try:
            target = os.readlink(f"/proc/self/fd/{name}")
        except FileNotFoundError:
            continue  # the listing's own
        if int(name) > 2:
            bad.append(f"{name} -> {target}")
        elif not (target.startswith("pipe:") or (name == "0" and target == "/dev/null")):
            bad.append(f"{name} -> {target}")
    attempt(bad, "/dev/tty", lambda: os.close(os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY)))
    if os.path.exists("/dev/console") and not stat.S_ISREG(os.stat("/dev/console").st_mode):
        bad.append("/dev/console")  # a plain file of that name is the sandbox's own
    if os.listdir("/dev/pts") != ["ptmx"]:
        bad.append(f"/dev/pts {os.listdir('/dev/pts')}")
    for number in (0, 1, 2):
        if os.isatty(number):
            bad.append(f"{number} is a terminal")
        attempt(bad, f"TIOCSCTTY {number}", lambda n=number: fcntl.ioctl(n, 0x540E, 0))
    return bad


if __name__ == "__main__":
    print(json.dumps(globals()[sys.argv[1]](json.loads(sys.argv[2]))))
