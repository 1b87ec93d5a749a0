# SPDX-License-Identifier: Apache-2.0
"""What README.md shows is what the program does: its console blocks are run, from the top, in one empty place.

Ids, times and sizes of the machine may differ; a line "…" stands for the rest of an output. ASCOPE_TEST_ACCEPT=1 writes
the outputs anew: read the diff before committing it.
"""
import os
import re
import unittest

import harness
import run_golden

README = os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "README.md")
# README says so before the blocks for which it holds.
EXPORTS = re.compile(r"`export ((?:\w+=\w+ ?)+)`")
REST = "…"


def parts(text):
    """README as pieces: ("text", line) or ("command", command, [output lines])."""
    inside, out = False, []
    for line in text.splitlines():
        if line.startswith("```"):
            inside = line == "```console"
            out.append(["text", line])
        elif inside and line.startswith("$ "):
            out.append(["command", line[2:], []])
        elif inside:
            out[-1][2].append(line)
        else:
            out.append(["text", line])
    return out


def plain(lines, place):
    text = run_golden.normalise("\n".join(lines).encode(), place)
    text = re.sub(r"\b\w{3} \w{3} +\d+ \d\d:\d\d:\d\d UTC \d{4}", "<date>", text)
    text = re.sub(r"\b\d+(?:\.\d+)? (?:B|KiB|MiB)(?!\w)", "<size>", text)
    text = re.sub(r"(?m)^(host: +)\S+$", r"\1<host>", text)
    text = re.sub(r"\bsb-[0-9a-f]{16}\b", "sb-<id>", text)
    lines = [re.sub(r" {2,}", "  ", line).rstrip() for line in text.splitlines()]
    return [re.sub(r"<size>  \d+\b", "<size>  <files>", line) for line in lines]  # what a machine's /etc has


class ReadmeTest(harness.CliTest):
    def test_every_command_gives_what_is_shown(self):
        harness.need_sandbox(self.place)
        with open(README, encoding="utf-8") as file:
            pieces = parts(file.read())
        tools = self.place.path("bin")
        os.makedirs(tools)
        os.makedirs(self.place.path("build"))
        for name in ("bin", "build"):
            os.symlink(self.place.program(), self.place.path(name, "ascope-sandbox"))
        env = {"PATH": tools + ":" + self.place.env()["PATH"]}
        accept, commands, wrong = os.environ.get("ASCOPE_TEST_ACCEPT") == "1", 0, []
        for piece in pieces:
            if piece[0] == "text":
                for pair in EXPORTS.findall(piece[1]):
                    env.update(word.split("=") for word in pair.split())
                continue
            commands += 1
            done = self.place.call(["sh", "-c", piece[1] + " 2>&1"], env=env)
            found, shown = done.text.splitlines(), piece[2]
            if shown and shown[-1] == REST:
                found = found[:len(shown) - 1] + [REST]
            if accept:
                piece[2] = found
            elif plain(found, self.place) != plain(shown, self.place):
                wrong.append(f"$ {piece[1]}\nshown: {shown}\nfound: {found}")
        self.assertGreater(commands, 15)
        if accept:
            with open(README, "w", encoding="utf-8") as file:
                for piece in pieces:
                    file.write(piece[1] + "\n" if piece[0] == "text" else "\n".join(["$ " + piece[1], *piece[2]]) + "\n")
        self.assertFalse(wrong, "\n\n".join(wrong))


if __name__ == "__main__":
    unittest.main()
