#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Golden tests: run_golden.py FOLDER [NAME…]

Each folder FOLDER/NAME holds `cmd`, a script for sh in which `ascope-sandbox` is the built program, and what it
must leave: `out`, `err`, `code`. Ids, times, durations, sizes of the machine and paths are written as <words>
before comparing. ASCOPE_TEST_ACCEPT=1 writes the files anew: read the diff before committing it.
"""
import difflib
import os
import re
import socket
import sys

sys.dont_write_bytecode = True
sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import harness  # noqa: E402

SUBSTITUTIONS = [
    (r"\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b", "<uuid>"),
    (r"\b\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z", "<time>"),
    (r"\b[0-9a-f]{64}\b", "<sha256>"),
    (r"\b(?:[0-9a-f]{8}|(?=[0-9a-f]*[a-f])(?=[0-9a-f]*[0-9])[0-9a-f]{9,40})\b", "<id>"),
    (r"\b1[0-9]{15}\b", "<fence>"),
    (r'("[a-z_]*_ms": ?)\d+', r"\1<ms>"),
    (r"\b\d+(?:\.\d+)? ?ms\b", "<ms> ms"),
    (r'("pid": ?)\d+', r"\1<pid>"),
    (r"\bpid \d+\b", "pid <pid>"),
]


def normalise(data, place):
    text = data.decode("utf-8", "backslashreplace")
    text = text.replace(place.root, "<place>")
    text = re.sub(r"\b" + re.escape(socket.gethostname()) + r"\b", "<host>", text)
    for pattern, word in SUBSTITUTIONS:
        text = re.sub(pattern, word, text)
    return text


def run(folder):
    with harness.Place() as place, open(os.path.join(folder, "cmd"), "rb") as file:
        tools = os.path.join(place.root, "bin")
        os.mkdir(tools)
        os.symlink(place.program(), os.path.join(tools, "ascope-sandbox"))
        script = file.read()
        if b"# needs a sandbox" in script:
            harness.need_sandbox(place)
        env = {"PATH": tools + ":" + place.env()["PATH"]}
        done = place.call(["sh", "-eu", "-c", script], env=env)
        return {"out": normalise(done.out, place), "err": normalise(done.err, place), "code": f"{done.code}\n"}


def read(path):
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except FileNotFoundError:
        return ""


def compare(folder, found):
    """The differences as text."""
    text = ""
    for part, content in found.items():
        want = read(os.path.join(folder, part))
        if want != content:
            text += "".join(line if line.endswith("\n") else line + "\n" for line in difflib.unified_diff(
                want.splitlines(True), content.splitlines(True), part + " (wanted)", part + " (found)"))
    return text


def main(top, names):
    accept = os.environ.get("ASCOPE_TEST_ACCEPT") == "1"
    passed = failed = skipped = 0
    for name in names or sorted(os.listdir(top)):
        folder = os.path.join(top, name)
        if not os.path.isfile(os.path.join(folder, "cmd")):
            continue
        try:
            found = run(folder)
        except harness.unittest.SkipTest as reason:
            print(f"skipped: {name}: {reason}")
            skipped += 1
            continue
        if accept:
            for part, content in found.items():
                with open(os.path.join(folder, part), "w", encoding="utf-8") as file:
                    file.write(content)
        difference = compare(folder, found)
        if difference:
            print(f"---- {name}\n{difference}")
            failed += 1
        else:
            passed += 1
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed or passed + skipped == 0 else 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2:]))
