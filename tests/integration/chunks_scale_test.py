# SPDX-License-Identifier: Apache-2.0
"""Many slots of one store that each hold the same large environment: together they take little more than one, and gc
of them all stays small and quick. Sizes are parameters: scripts/test --full takes a thousand slots of 300 MB."""
import os
import random
import subprocess
import sys
import time
import unittest

import harness

SLOTS, MIB = (1000, 300) if harness.full() else (6, 12)
FILE_BYTES = 40_000


def peak_mib(child):
    """The high-water mark of a process until it ends."""
    peak = 0
    while child.poll() is None:
        try:
            with open(f"/proc/{child.pid}/status", encoding="ascii", errors="replace") as file:
                peak = max([peak] + [int(line.split()[1]) // 1024 for line in file if line.startswith("VmHWM")])
        except OSError:
            pass
        time.sleep(0.002)
    return peak


class ScaleTest(harness.CliTest):
    def setUp(self):
        super().setUp()
        harness.need_sandbox(self.place)

    def environment(self):
        """Half text, half noise, in folders of a hundred."""
        source, top = random.Random(5), self.place.path("environment")
        words = [bytes(source.choices(b"abcdefghijklmnopqrstuvwxyz", k=3 + n % 7)) for n in range(3000)]
        for number in range(MIB * (1 << 20) // FILE_BYTES):
            folder = os.path.join(top, f"d{number // 100}")
            os.makedirs(folder, exist_ok=True)
            data = source.randbytes(FILE_BYTES) if number % 2 else b" ".join(source.choices(words, k=FILE_BYTES // 7))
            with open(os.path.join(folder, f"f{number}"), "wb") as file:
                file.write(data[:FILE_BYTES])
        return top

    def stored(self):
        top = self.place.program_state("snapshots")
        return sum(os.path.getsize(os.path.join(folder, name)) for folder, _, files in os.walk(top) for name in files)

    def test_slots_share_what_is_equal(self):
        top = self.environment()
        one, begin = 0, time.monotonic()
        for number in range(SLOTS):
            slot = f"session/s{number}"
            self.place.ok("start", slot)
            self.place.ok("cp", top, slot + ":environment", timeout=600)
            self.place.ok("exec", slot, "--", "sh", "-c", f"echo mine {number} > own")
            self.place.ok("rm", slot, timeout=600)  # saves first; none is kept
            one = one or self.stored()
        every = self.stored()
        # Each has a manifest, its own file, and what of the tree's list is not the same.
        self.assertLess(every, one * 1.1 + SLOTS * 40_000, (one, every))
        lasted = time.monotonic() - begin
        begin = time.monotonic()
        child = self.place.popen("gc", "--yes", "--grace", "0s", stdout=subprocess.DEVNULL)
        peak = peak_mib(child)
        self.assertEqual(child.returncode, 0, child.stderr.read())
        took = time.monotonic() - begin
        print(f"{SLOTS} slots of {MIB} MiB: {every / one:.3f} of one, {every / SLOTS / 1e6:.2f} MB each, made in "
              f"{lasted:.0f} s; gc of them {took:.1f} s, {peak} MiB", file=sys.stderr)
        self.assertLess(peak, 96)
        last = f"session/s{SLOTS - 1}"
        self.place.ok("start", last, "--expect", "C", timeout=600)
        self.assertEqual(self.place.ok("exec", last, "--", "cat", "own").text, f"mine {SLOTS - 1}\n")
        self.assertEqual(self.place.ok("exec", last, "--", "sh", "-c", "find environment -type f | wc -l").text.strip(),
                         str(MIB * (1 << 20) // FILE_BYTES))


if __name__ == "__main__":
    sys.exit(unittest.main())
