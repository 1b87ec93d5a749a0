# SPDX-License-Identifier: Apache-2.0
"""The snapshot rows of bench/run: tar, restic and borg over the same tree, in the same run.

What each peer runs is printed below the table. restic encrypts and cannot be told not to; borg runs without
encryption and with our level of compression. Each has its own cache and a repository on the same file system.
"""
import os
import random
import shutil
import statistics
import subprocess

MIB = 1 << 20
WORDS = [bytes(random.Random(5).choices(b"abcdefghijklmnopqrstuvwxyz", k=2 + n % 8)) for n in range(4000)]


def text_and_noise(source, number, size):
    """Every other file text, every other noise."""
    if number % 2:
        return source.randbytes(size)
    return b" ".join(source.choices(WORDS, k=max(1, size // 6)))[:size]


def make_tree(folder, mib, files):
    source = random.Random(7)
    each = max(1, mib * MIB // files)
    for number in range(files):
        below = os.path.join(folder, f"d{number // 100:04}")
        os.makedirs(below, exist_ok=True)
        with open(os.path.join(below, f"f{number:06}"), "wb") as file:
            file.write(text_and_noise(source, number, each))


def size_of(path):
    if os.path.isfile(path):
        return os.path.getsize(path)
    return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, names in os.walk(path) for name in names)


class Peer:
    """One of the other tools with a repository of its own. `save`, `restore` and `list` are commands."""

    def __init__(self, name, env, init, save, restore, listing):
        self.name, self.env, self.init, self.save, self.restore, self.listing = name, env, init, save, restore, listing


def read_all(top):
    for folder, _, names in os.walk(top):
        for name in names:
            path = os.path.join(folder, name)
            if os.path.isfile(path) and not os.path.islink(path):
                with open(path, "rb") as file:
                    while file.read(1 << 20):
                        pass


class SnapshotRows:
    """Mixed into Bench."""

    def peers(self):
        """Those that are installed; the others are named."""
        tree = self.workspace()
        out = []
        for name in ("restic", "borg"):
            if shutil.which(name) is None:
                self.notes.append(f"{name} is not installed: its rows are left out")
                continue
            repository = self.place.path(name)
            env = dict(self.env, RESTIC_REPOSITORY=repository, RESTIC_PASSWORD="x", BORG_REPO=repository,
                       BORG_BASE_DIR=self.place.path("borg-base"), BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK="yes",
                       BORG_RELOCATED_REPO_ACCESS_IS_OK="yes")
            if name == "restic":
                out.append(Peer(name, env, ["restic", "-q", "init"], ["restic", "-q", "backup", tree],
                                lambda to: ["restic", "-q", "restore", "latest", "--target", to],
                                ["restic", "-q", "ls", "latest"]))
            else:
                out.append(Peer(name, env, ["borg", "init", "-e", "none"],
                                ["sh", "-c", f"cd '{tree}' && borg create --compression zstd,1 ::$(date +%s%N) ."],
                                lambda to: ["sh", "-c", f"cd '{to}' && borg extract ::$(borg list --last 1 --short)"],
                                ["sh", "-c", "borg list ::$(borg list --last 1 --short)"]))
        return out

    def by_turns(self, name, ours, peers, rounds, change=None, before=None):
        """Ours and every peer after each change, in turn. `peers`: (name, goal, command, environment)."""
        times = {None: []}
        for number in range(rounds + 1):
            if change:
                change(number)
            for side, command, env in [(None, ours, self.env)] + [(p[0], p[2], p[3]) for p in peers]:
                if before:
                    before(side, number)
                given = command(number) if callable(command) else command
                # Nobody pays for what another left to be written, or threw out of the cache (borg does).
                os.sync()
                read_all(self.workspace())
                took = self.timed(given, env)
                if number > 0:  # the first warms the caches of all
                    times.setdefault(side, []).append(took)
        for peer, goal, command, _ in peers:
            self.row(name, peer, goal, statistics.median(times[None]), statistics.median(times[peer]))
            shown = command(1) if callable(command) else command
            self.commands.setdefault(peer, " ".join(shown))

    def snapshots(self):
        """Times and sizes of the whole tree, of 1 % of it, of nothing; back whole and in part."""
        options, rounds = self.options, max(2, self.options.rounds // 8)
        tree = self.place.path("tree")
        if options.tree:
            shutil.copytree(options.tree, tree, symlinks=True)
        else:
            make_tree(tree, options.size, options.files)
        self.place.ok("start")
        self.place.ok("cp", tree, ":tree", timeout=3600)
        shutil.rmtree(tree)
        workspace, peers = self.workspace(), self.peers()
        files = [os.path.join(folder, name) for folder, _, names in os.walk(workspace) for name in names]
        files = [path for path in files if os.path.isfile(path) and not os.path.islink(path)]
        what = f"{size_of(workspace) // MIB} MiB in {len(files)} files"
        archive = self.place.path("peer.tar.zst")
        tar = ["sh", "-c", f"tar -C '{workspace}' -cf - . | zstd -q -1 -T1 -f -o {archive} && sync {archive}"]

        def empty(side, _):
            """A full save finds a store and caches that are new."""
            if side is None:
                for path in (self.place.program_state("snapshots"), os.path.join(self.place.cache, "ascope-sandbox")):
                    shutil.rmtree(path, ignore_errors=True)
            for peer in peers:
                if side == peer.name:
                    shutil.rmtree(self.place.path(peer.name), ignore_errors=True)
                    shutil.rmtree(self.place.path("borg-base"), ignore_errors=True)
                    subprocess.run(peer.init, env=peer.env, check=True, capture_output=True)

        self.by_turns(f"full snapshot, {what}", self.us("snapshot"),
                      [("tar | zstd -1, synced", 1.2, tar, self.env)] +
                      [(peer.name, 0.5, peer.save, peer.env) for peer in peers], rounds, before=empty)
        stored = size_of(self.place.program_state("snapshots")) / MIB
        self.row("size of it", "tar | zstd -1, synced", 1.05, stored, size_of(archive) / MIB, "MiB")
        for peer in peers:
            self.row("size of it", peer.name, 1.05, stored, size_of(self.place.path(peer.name)) / MIB, "MiB")

        source = random.Random(11)

        def change_one_percent(number):
            for path in source.sample(files, max(1, len(files) // 100)):
                size = os.path.getsize(path)
                with open(path, "r+b") as file:
                    file.write(text_and_noise(source, number, size))

        self.by_turns("snapshot after 1 % changed", self.us("snapshot"),
                      [(peer.name, 0.2, peer.save, peer.env) for peer in peers], rounds, change=change_one_percent)
        self.by_turns("unchanged snapshot", self.us("snapshot"),
                      [("find -printf over the same tree", 2.0, ["find", workspace, "-printf", "%s %T@ %C@ %i\\n"],
                        self.env)] + [(peer.name, 0.5, peer.save, peer.env) for peer in peers], rounds)
        self.by_turns("list of all files", self.us("snapshot", "find", "latest", "*"),
                      [(peer.name, 1.0, peer.listing, peer.env) for peer in peers], rounds)
        self.restores(what, tar, archive, peers, rounds, change_one_percent)

    def restores(self, what, tar, archive, peers, rounds, change):
        self.timed(tar, self.env)
        target = self.place.path("back")

        def fresh(side, _):
            shutil.rmtree(target, ignore_errors=True)
            if side is not None:
                os.mkdir(target)

        self.by_turns(f"restore into a folder, {what}", self.us("restore", "latest", "--to", target),
                      [("tar -x of the tar.zst", 1.2, ["tar", "--zstd", "-xf", archive, "-C", target], self.env)] +
                      [(peer.name, 1.0, peer.restore(target), peer.env) for peer in peers], rounds, before=fresh)
        for peer in peers:
            fresh("peer", 0)
            self.timed(peer.restore(target), peer.env)
            break
        # Two states, one per cent apart; ours goes from one to the other in the sandbox, with its safety snapshot.
        change(0)
        self.place.ok("snapshot")
        ids = [row["snapshot"] for row in self.place.ok("snapshot", "ls", "-o", "json").json()["snapshots"][:2]]
        self.by_turns("restore of a 1 % difference", lambda number: self.us("restore", ids[(number + 1) % 2], "--yes"),
                      [(f"{peer.name}, over what is there", 0.5, peer.restore(target), peer.env) for peer in peers[:1]],
                      rounds)
        shutil.rmtree(target, ignore_errors=True)

    def big_file(self):
        """One byte of a large file."""
        self.place.ok("start")
        size = self.options.big * MIB
        self.place.ok("exec", "--", "sh", "-c", f"head -c {size} /dev/urandom > big", timeout=3600)
        path, peers = os.path.join(self.workspace(), "big"), self.peers()
        for peer in peers:
            subprocess.run(peer.init, env=peer.env, check=True, capture_output=True)

        def poke(number):
            with open(path, "r+b") as file:
                file.seek((number * 37 + 11) * size // 1000 % size)
                file.write(bytes([number % 256]))

        self.by_turns(f"one byte changed in a file of {self.options.big} MiB", self.us("snapshot"),
                      [(peer.name, 0.5, peer.save, peer.env) for peer in peers], 3, change=poke)
