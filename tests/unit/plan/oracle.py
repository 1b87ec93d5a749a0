#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""The start table as a second, independent program: every combination of facts and its decision.

`oracle.py header` prints a C++ header that plan_test.cc compares plan_start with, row by row.
`oracle.py rows` prints one line a combination: facts, rule, branch or "refuse", action or exit code, note.
Both walk the facts in the order of FACTS, the last one turning fastest.
"""
import itertools
import sys

FACTS = (
    ("lease", ("held", "busy", "lost", "store_down")),
    ("state", ("absent", "tombstone", "ours", "foreign", "other_backend", "corrupt", "newer", "unreadable")),
    ("live", ("no", "here", "elsewhere")),
    ("sandbox", ("none", "alive", "stopped", "gone", "not_ours", "moving", "unknown")),
    ("work", ("none", "current", "stale_clean", "stale_dirty", "lost", "partial", "unmarked", "unknown")),
    ("snapshot", ("never", "usable", "missing", "corrupt", "store_down", "foreign_newer")),
    ("allow", ("no", "loss")),
)
UP = ("alive", "stopped")
LOSS_CODES = {"missing": 4, "corrupt": 8, "store_down": 10}


def refuse(code, note):
    return "refuse", str(code), note


def by_lease_and_record(lease, state):
    """L and S: nothing is done without the lease and a record that was read."""
    gates = {("lease", "busy"): ("L1", 5, "busy"),
             ("lease", "lost"): ("L2", 6, "lost"),
             ("lease", "store_down"): ("L3", 10, "lease store"),
             ("state", "unreadable"): ("S1", 10, "state store"),
             ("state", "newer"): ("S2", 13, "newer"),
             ("state", "corrupt"): ("S3", 8, "state export --raw; adopt")}
    hit = gates.get(("lease", lease)) or gates.get(("state", state))
    return hit and (hit[0], refuse(hit[1], hit[2]))


def without_record(sandbox, work, snapshot, allow):
    """N1 to N6: a cold start needs proof, or --allow-loss; a provider that is not heard is never proof."""
    if allow == "no":
        if snapshot == "store_down":
            return "N1", refuse(10, "cannot tell never from lost")
        if snapshot != "never":
            return "N2", refuse(7, "adopt")
        if sandbox in UP + ("moving",):
            return "N3", refuse(7, "adopt")
    if sandbox == "unknown":
        return "N4", refuse(9, "provider")
    if allow == "no" and work not in ("none", "lost", "unknown"):
        return "N5", refuse(7, "adopt")
    return "N6", ("D", "new sandbox", "")


def put_back(branch, live, sandbox, work, snapshot, allow):
    """The head restored by `branch`, or what takes its place."""
    if snapshot in ("usable", "foreign_newer"):
        died = live != "no" and sandbox != "alive" and work in ("none", "lost")
        return branch, "restore", "lost_since" if died else ""
    if snapshot == "never":
        return "D", "no snapshot ever", "" if live == "no" else "lost_since"
    if allow == "no":
        return refuse(LOSS_CODES[snapshot], snapshot)
    return "D", "--allow-loss: " + snapshot, "lost"


def strand(branch, live, sandbox, work, snapshot, allow):
    """The tree holds what no commit has: it is saved beside the history, then the head comes back."""
    if snapshot == "store_down":
        return refuse(10, "cannot save stranded work" if allow == "no" else "store down")
    if snapshot == "never":
        return "A", "mark and keep: there is no head to go back to", ""
    then = put_back(branch, live, sandbox, work, snapshot, allow)
    return then if then[0] == "refuse" else (then[0], "stranded snapshot, then " + then[1], then[2])


def by_tree(branch, state, live, sandbox, work, snapshot, allow):
    up = branch == "B"
    rest = (branch, live, sandbox, work, snapshot, allow)
    if work == "unknown":
        return refuse(9, "probe failed is not lost")
    if work == "current" and snapshot != "foreign_newer":
        return "A", "alive" if up else "new sandbox round the tree", ""
    if work == "unmarked" and state == "foreign" and up:
        return "A", "foreign sandbox, marked now", ""
    if work in ("current", "stale_dirty", "unmarked"):
        return strand(*rest)
    return put_back(*rest)


def decide(lease, state, live, sandbox, work, snapshot, allow):
    """(rule, (branch or "refuse", action or exit code, note))"""
    gate = by_lease_and_record(lease, state)
    if gate:
        return gate
    if state == "absent":
        return without_record(sandbox, work, snapshot, allow)
    if state == "tombstone":
        if sandbox == "unknown":
            return "N7", refuse(9, "provider")
        return "N7", ("D", "new sandbox", "left-over destroyed by gc")
    if allow == "no" and live == "elsewhere":
        return "H1", refuse(7, "stop/snapshot there, or --allow-loss")
    if state == "other_backend":
        if allow == "no" and live == "here":
            return "O1", refuse(7, "snapshot with the old profile first")
        return "C1", by_tree("C", state, live, sandbox, work, snapshot, allow)
    if sandbox in ("moving", "unknown"):
        return "X1", refuse(9, "never taken as gone")
    rule = {"alive": "A1", "stopped": "A2"}.get(sandbox, "C1")
    return rule, by_tree("C" if rule == "C1" else "B", state, live, sandbox, work, snapshot, allow)


def rows():
    for facts in itertools.product(*(values for _, values in FACTS)):
        yield facts, decide(*facts)


def print_header():
    outcomes, codes = {}, []
    for _, (rule, outcome) in rows():
        codes.append(outcomes.setdefault((rule,) + outcome, len(outcomes)))
    print("// Written by oracle.py.\n#pragma once\n")
    print("struct OracleOutcome {\n  const char* rule;\n  const char* branch;\n  const char* action;\n"
          "  const char* note;\n};")
    print("inline constexpr OracleOutcome kOracleOutcomes[] = {")
    for outcome in outcomes:
        print("    {" + ", ".join('"%s"' % text for text in outcome) + "},")
    print("};\n// The outcome of each combination.")
    print("inline constexpr unsigned char kOracleRows[] = {")
    for start in range(0, len(codes), 32):
        print("    " + ",".join(map(str, codes[start:start + 32])) + ",")
    print("};")


if __name__ == "__main__":
    if sys.argv[1:] == ["header"]:
        print_header()
    elif sys.argv[1:] == ["rows"]:
        for facts_, (rule_, outcome_) in rows():
            print("\t".join(facts_ + (rule_,) + outcome_))
    else:
        sys.exit("usage: oracle.py header|rows")
