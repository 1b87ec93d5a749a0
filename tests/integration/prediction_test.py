# SPDX-License-Identifier: Apache-2.0
"""`explain` and `start` on every state that a slot can be in here: the same rule, branch, evidence and outcome; and
`--expect` and `--no-cold` refuse before anything is done.

Each case brings a slot into a state. A rule of src/core/plan.cc that is neither a case's nor in UNREACHABLE fails the
test."""
import contextlib
import hashlib
import json
import os
import re
import shutil
import signal
import sys
import unittest

import harness
from prediction_cases import CASES, DOCKER, KINDS, SLOT, JsonFolder, Sqlite

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

UNREACHABLE = {
    "L1": "explain takes no lease, which may be free again by the time of the start; start's 5 is in test_leases",
    "L2": "the lease would have to be lost between its grant and the look at the slot, some milliseconds",
    "L3": "explain takes no lease and does not ask for one; start's 10 is in test_leases",
    "N5": "a bubblewrap tree lies in its sandbox's folder: with the tree there is always a sandbox, which is N3",
}
# What of a receipt is a prediction.
PREDICTED = ("rule", "branch", "why", "priority", "evidence", "rejected", "parent", "lost_since", "replaced_settings")


class PredictionTest(harness.CliTest):
    ordinary = True

    def setUp(self):
        super().setUp()
        if os.geteuid() == 0 and not self.place.ordinary:
            self.skipTest("an ordinary user: modes of files do not bind root")
        harness.need_sandbox(self.place)

    # ---- helpers of the states

    def begin(self, store):
        self.place = harness.Place(ordinary=True)
        self.faults = contextlib.ExitStack()
        self.store = store(self.place)

    def end(self):
        self.faults.close()
        self.place.close()

    def enter(self, fault):
        self.faults.enter_context(fault)

    def run_in(self, *args, **options):
        at = args.index("--") if "--" in args else len(args)
        return self.place.run(*args[:at], *self.store.settings, *args[at:], **options)

    def ok(self, *args, **options):
        return self.check(self.run_in(*args, **options))

    def warm(self):
        self.ok("start", SLOT)
        self.work()

    def saved(self, *settings):
        self.ok("run", SLOT, *settings, "--", "sh", "-c", "echo 1 > f")

    def work(self):
        self.ok("exec", SLOT, "--", "sh", "-c", "echo unsaved > g")

    def own(self, path):
        if self.place.ordinary:
            os.chown(path, harness.ORDINARY_ID, harness.ORDINARY_ID)

    def host(self):
        return harness.host_id(self.place)

    def docker(self, document):
        kept = {key: document[key] for key in ("sessionId", "snapshot", "workspaceProjectionHash", "workspaceRootReady")}
        manifest = document["manifest"]
        document.clear()
        document.update({"type": "docker", **kept, **DOCKER, "manifest": manifest})

    def change(self, edit):
        record = json.loads(self.store.read())
        edit(record)
        self.store.write(json.dumps(record, separators=(",", ":")))

    def document(self, edit):
        def change(record):
            document = json.loads(record["json"])
            edit(document)
            record["json"] = json.dumps(document, separators=(",", ":"))
            record["ascope"]["doc"] = hashlib.sha256(record["json"].encode()).hexdigest()
        self.change(change)

    def live(self, values):
        usual = {"backend": "bubblewrap", "bound": None, "tree": "sb-1111111111111111", "sandbox": "sb-1111111111111111",
                 "since": "2026-01-02T03:04:05.678Z", "clean": False}
        self.change(lambda record: record["ascope"].update(live={**usual, **(record["ascope"]["live"] or {}), **values}))

    def head_file(self):
        return self.place.program_state("snapshots", json.loads(self.store.read())["ascope"]["head"]["object"])

    def sandbox_folder(self):
        [name] = [name for name in os.listdir(self.place.program_state("sandboxes")) if name.startswith("sb-")]
        return self.place.program_state("sandboxes", name)

    def tree(self, *parts):
        return os.path.join(self.sandbox_folder(), "root", *parts)

    def guest(self):
        with open(os.path.join(self.sandbox_folder(), "run.json"), encoding="ascii") as file:
            return json.load(file)["pid"]

    def end_guest(self):
        pid = self.guest()
        os.kill(pid, signal.SIGKILL)
        harness.wait_for(lambda: not os.path.exists(f"/proc/{pid}"), what="the end of the sandbox")

    def stop_guest(self):
        os.kill(self.guest(), signal.SIGSTOP)

    def lose_sandbox(self):
        self.end_guest()
        shutil.rmtree(self.sandbox_folder())

    def snapshots_are_a_file(self):
        path = self.place.program_state("snapshots")
        os.makedirs(os.path.dirname(path), mode=0o700, exist_ok=True)
        self.own(os.path.dirname(path))
        if os.path.isdir(path):
            os.rename(path, path + ".away")
        with open(path, "w", encoding="ascii"):
            pass

    # ---- the comparison

    def picture(self):
        """What `explain` and a refusal must leave alone."""
        seen = {}
        for top, folders, files in os.walk(self.place.program_state()):
            for name in files:
                path = os.path.join(top, name)
                # Locks, receipts and counters are no part of a slot; a lease is taken and given back.
                if "/sandboxes/" in path or "/snapshots" in path or "/pending/" in path:
                    info = os.lstat(path)
                    seen[path] = (info.st_size, info.st_mtime_ns, info.st_ino)
        with contextlib.suppress(Exception):
            seen["record"] = self.store.read()
        return seen

    def compare(self, row, deep):
        self.begin(self.kind)
        try:
            row.prepare(self)
            before = self.picture()
            told = self.ok("explain", SLOT, *row.args, "-o", "json").json()
            self.assertEqual(self.picture(), before, "explain has changed something")
            refused = row.outcome in KINDS
            self.assertEqual((told["rule"], told["branch"]), (row.rule, None if refused else row.outcome), told)
            self.assertEqual(told["error"]["kind"] if refused else told["error"], row.outcome if refused else None)
            if deep and not refused:
                self.refusals(row, before)
            status = self.place.path("status")
            done = self.run_in("start", SLOT, *row.args, "--status-file", status)
            self.assertEqual(done.code, KINDS[row.outcome] if refused else 0, done)
            if not os.path.exists(status):
                self.fail(f"no receipt: {done}")
            with open(status, encoding="utf-8") as file:
                deed = json.load(file)
            self.agree(row, told, deed)
            if refused:
                self.assertEqual(self.picture(), before, "a refused start has changed something")
            else:
                self.ok("exec", SLOT, *[a for a in row.args if a != "--allow-loss"], "--", "true")
        finally:
            self.end()

    def agree(self, row, told, deed):
        if row.outcome in KINDS:
            self.assertEqual(deed["error"]["kind"], row.outcome, deed)
            if not deed["rule"]:
                return  # the lease or the record was out of reach before there were facts
        for key in PREDICTED:
            self.assertEqual(deed[key], told[key], key)
        self.assertEqual(deed["restored"] is not None, row.outcome in ("B", "C"), deed)
        for key in ("stranded", "lost_since", "lost_snapshot", "foreign_writer", "replaced_settings"):
            self.assertEqual(bool(deed[key]), row.expect.get(key, False), f"{key}: {deed}")
        if deed["restored"]:
            self.assertEqual(deed["restored"], deed["snapshot"])

    def refusals(self, row, before):
        """--expect of all other branches, and --no-cold of a cold one: 7, foretold, and nothing is done."""
        others = ",".join(letter for letter in "ABCD" if letter != row.outcome)
        for options in [("--expect", others)] + ([("--no-cold",)] if row.outcome == "D" else []):
            told = self.ok("explain", SLOT, *row.args, *options, "-o", "json").json()
            self.assertEqual((told["outcome"], told["error"]["kind"]), ("refused", "refused"), told)
            for command in (["start", SLOT], ["run", SLOT]):
                tail = ["--", "true"] if command[0] == "run" else []
                done = self.run_in(*command, *row.args, *options, *tail)
                self.assertEqual(done.code, 7 if command[0] == "start" else 125, done)
                self.assertEqual(self.picture(), before, f"{command} {options} has done something")
        told = self.ok("explain", SLOT, *row.args, "--expect", row.outcome, "-o", "json").json()
        self.assertEqual(told["outcome"], "done", told)

    def test_states_in_sqlite(self):
        self.kind = Sqlite
        for name, row in CASES.items():
            if harness.full() or not row.slow:
                with self.subTest(name):
                    self.compare(row, deep=True)

    def test_states_in_a_json_folder(self):
        self.kind = JsonFolder
        for name, row in CASES.items():
            if row.main or harness.full():
                with self.subTest(name):
                    self.compare(row, deep=harness.full())

    def test_leases(self):
        self.begin(Sqlite)
        self.addCleanup(self.end)
        self.saved()
        self.ok("lock", "acquire", SLOT)
        self.assertEqual(self.ok("explain", SLOT, "-o", "json").json()["rule"], "A1")
        self.assertEqual(self.run_in("start", SLOT, "--wait", "0").code, 5)
        self.ok("lock", "release", SLOT)
        self.place.write("leases.db", "no database " * 1000)
        for store, code in (("leases.db", 8), ("leases", 10)):
            os.makedirs(self.place.path("leases"), exist_ok=True)
            done = self.run_in("start", SLOT, "--set", "lock.store=sqlite:" + self.place.path(store))
            self.assertEqual(done.code, code, done)

    def test_every_rule_is_a_case_or_has_a_reason(self):
        with open(os.path.join(SOURCE, "src", "core", "plan.cc"), encoding="utf-8") as file:
            table = file.read().split("kRules{{", 1)[1].split("}};", 1)[0]
        rules = re.findall(r'\{"([A-Z]+[0-9]+)",', table)
        self.assertGreater(len(rules), 15)
        self.assertEqual(len(rules), len(set(rules)))
        tried = {row.rule for row in CASES.values()}
        self.assertEqual(set(rules) - tried - set(UNREACHABLE), set(), "rules without a case")
        self.assertEqual((tried | set(UNREACHABLE)) - set(rules), set(), "cases of rules that are no more")
        self.assertEqual(tried & set(UNREACHABLE), set(), "reachable after all")


if __name__ == "__main__":
    sys.exit(unittest.main())
