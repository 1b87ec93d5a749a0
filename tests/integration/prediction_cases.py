# SPDX-License-Identifier: Apache-2.0
"""The states that a slot can be in on one machine, and what a start must make of each. `t` is the test that brings the
slot there (prediction_test.py): its place, its store, its helpers."""
import base64
import contextlib
import os
import sqlite3
import tarfile

import harness

SLOT, OTHER = "session/plan", "session/other"
KINDS = {"busy": 5, "conflict": 6, "refused": 7, "corrupt": 8, "backend_unavailable": 9, "store_unavailable": 10,
         "unsupported": 13, "not_found": 4}
DOCKER = {"containerId": "4f9c0d1e2b3a", "containerName": "agentscope-sandbox", "image": "ubuntu:24.04",
          "workspaceRoot": "/workspace", "containerOwned": True, "memorySizeBytes": None, "cpuCount": None,
          "exposedPorts": [], "network": None, "additionalRunArgs": []}


class Sqlite:
    """The record of the slot, as it lies in the store."""

    def __init__(self, place):
        self.settings, self.file = (), place.program_state("state.db")

    def _do(self, statement, *values):
        if not os.path.exists(self.file):
            raise FileNotFoundError(self.file)
        with contextlib.closing(sqlite3.connect(self.file)) as db, db:
            return db.execute(statement, values).fetchall()

    def read(self):
        return self._do("SELECT state_data FROM agentscope_sessions WHERE state_key='_sandbox_state' AND "
                        "session_id='__anon__:sandbox/" + SLOT + "'")[0][0]

    def write(self, text):
        self._do("UPDATE agentscope_sessions SET state_data=? WHERE state_key='_sandbox_state' AND session_id='__anon__:sandbox/"
                 + SLOT + "'", text)

    def remove(self, history_too):
        self._do("DELETE FROM agentscope_sessions WHERE session_id='__anon__:sandbox/" + SLOT + "'" +
                 ("" if history_too else " AND state_key='_sandbox_state'"))

    def unreadable(self):
        return harness.mode_of(self.file, 0)


class JsonFolder:
    def __init__(self, place):
        self.base = place.path("states", "__anon__")
        self.settings = ("--set", "state=json:" + place.path("states"))

    def _folder(self):
        return os.path.join(self.base, base64.urlsafe_b64encode(("sandbox/" + SLOT).encode()).decode().rstrip("="))

    def _file(self):
        return os.path.join(self._folder(), "_sandbox_state.json")

    def read(self):
        with open(self._file(), encoding="utf-8") as file:
            return file.read()

    def write(self, text):
        with open(self._file(), "w", encoding="utf-8") as file:
            file.write(text)

    def remove(self, history_too):
        for name in os.listdir(self._folder()):
            if name == "_sandbox_state.json" or (history_too and name.startswith("_ascope.") and name.endswith(".json")):
                os.unlink(os.path.join(self._folder(), name))

    def unreadable(self):
        return harness.mode_of(self._file(), 0)


class Case:
    """One state of the slot and what a start must make of it."""

    def __init__(self, rule, outcome, prepare, *, args=(), expect=None, main=False, slow=False):
        self.rule, self.outcome, self.prepare = rule, outcome, prepare
        self.args, self.expect, self.main, self.slow = args, expect or {}, main, slow


CASES = {}


def case(rule, outcome, name=None, **more):
    """Registers a way into a state: `outcome` is the branch, or the kind of the refusal."""

    def register(prepare):
        CASES[name or prepare.__name__] = Case(rule, outcome, prepare, **more)
        return prepare

    return register


# ---- states. `t` is the test: its place, its store, its helpers.

@case("N6", "D", main=True)
def nothing_at_all(t):
    pass


@case("N6", "D", name="no_record_and_its_loss_allowed", args=("--allow-loss",))
@case("N3", "refused", main=True)
def no_record_but_a_running_sandbox(t):
    t.warm()
    t.store.remove(history_too=True)


@case("N3", "refused")
def no_record_but_a_stopped_sandbox(t):
    t.warm()
    t.ok("stop", SLOT)
    t.store.remove(history_too=True)


@case("N1", "store_unavailable", main=True)
def no_record_and_no_answer_from_the_snapshot_store(t):
    t.snapshots_are_a_file()


@case("N2", "refused", main=True)
def no_record_but_a_history(t):
    t.saved()
    t.ok("rm", SLOT)
    t.store.remove(history_too=False)


@case("N4", "backend_unavailable", main=True)
def no_record_and_no_answer_from_the_provider(t):
    t.ok("start", OTHER)
    t.enter(harness.mode_of(t.place.program_state("sandboxes"), 0))


@case("N7", "D", main=True)
def removed_on_request(t):
    t.saved()
    t.ok("rm", "--purge", "--yes", SLOT)


@case("N7", "backend_unavailable")
def removed_and_no_answer_from_the_provider(t):
    removed_on_request(t)
    t.enter(harness.mode_of(t.place.program_state("sandboxes"), 0))


@case("S1", "store_unavailable", main=True)
def a_record_that_cannot_be_read(t):
    t.saved()
    t.enter(t.store.unreadable())


@case("S2", "unsupported", main=True)
def a_record_of_a_newer_version(t):
    t.saved()
    t.change(lambda record: record["ascope"].update(v=2))


@case("S3", "corrupt", main=True)
def a_damaged_record(t):
    t.saved()
    t.store.write(t.store.read()[:-40])


@case("H1", "refused", main=True)
@case("C1", "C", name="unsaved_work_elsewhere_given_up", args=("--allow-loss",), expect={"lost_since": True})
def unsaved_work_on_another_host(t):
    t.saved()
    t.ok("rm", SLOT)
    t.live({"backend": "bubblewrap", "bound": "0" * 32, "clean": False})


@case("C1", "C")
def saved_work_on_another_host(t):
    t.saved()
    t.ok("rm", SLOT)
    t.live({"backend": "bubblewrap", "bound": "0" * 32, "clean": True})


@case("O1", "refused", main=True)
@case("C1", "C", name="another_backends_unsaved_work_given_up", args=("--allow-loss",), expect={"lost_since": True})
def unsaved_work_of_another_backend(t):
    t.saved()
    t.ok("rm", SLOT)
    t.document(t.docker)
    t.live({"backend": "docker", "bound": None, "clean": False})


@case("C1", "C")
def saved_work_of_another_backend(t, *settings):
    t.saved(*settings)
    t.ok("rm", SLOT, *settings)
    t.document(t.docker)


@case("C1", "C", expect={"foreign_writer": True})
def another_backends_snapshot_was_overwritten_by_a_java_agent(t):
    saved_work_of_another_backend(t, "--set", "snapshots.format=tar")
    path = t.head_file()
    t.place.write("new/f", "newer\n")
    os.unlink(path)
    with tarfile.open(path, "w", format=tarfile.GNU_FORMAT) as tar:
        tar.add(t.place.path("new", "f"), "f")
    t.own(path)


@case("X1", "backend_unavailable", main=True)
def the_provider_does_not_answer(t):
    t.saved()
    t.enter(harness.mode_of(t.place.program_state("sandboxes"), 0))


@case("X1", "backend_unavailable", slow=True)
def the_guest_does_not_answer(t):
    t.saved()
    t.stop_guest()


@case("A1", "A", main=True)
def warm(t):
    t.saved()
    t.work()


@case("A1", "A", expect={"replaced_settings": True}, args=("--set", "backend.pids=500"))
def warm_with_other_settings(t):
    warm(t)


@case("A1", "B", expect={"stranded": True})
def warm_but_not_the_records_tree(t):
    t.saved()
    t.work()
    t.live({"tree": "sb-0000000000000000"})


@case("A1", "A")
def warm_not_the_records_tree_and_never_saved(t):
    t.warm()
    t.live({"tree": "sb-0000000000000000"})


@case("A1", "store_unavailable")
@case("A1", "store_unavailable", name="stale_without_a_store_and_loss_allowed", args=("--allow-loss",))
def stale_and_no_store_to_save_it_in(t):
    warm_but_not_the_records_tree(t)
    t.snapshots_are_a_file()


@case("A1", "B", expect={"stranded": True})
def another_programs_record(t):
    t.saved()
    t.work()
    t.change(lambda record: record.pop("ascope"))


@case("A1", "B")
def warm_with_a_restore_half_done(t):
    t.saved()
    with open(os.path.join(t.sandbox_folder(), "mark"), "w", encoding="ascii") as file:
        file.write("some snapshot")


@case("A1", "A")
def warm_with_a_forged_mark_of_a_restore(t):
    t.saved()
    t.ok("exec", SLOT, "--", "touch", "mark", ".ascope-restore")


@case("A1", "B", expect={"lost_since": True})
def warm_but_its_workspace_lost(t):
    t.saved()
    t.ok("exec", SLOT, "--cwd", "/", "--", "rm", "-rf", "/workspace")


@case("A1", "D", expect={"lost_since": True})
def warm_its_workspace_lost_and_never_saved(t):
    t.warm()
    t.ok("exec", SLOT, "--cwd", "/", "--", "rm", "-rf", "/workspace")


@case("A1", "not_found")
@case("A1", "D", name="warm_lost_and_missing_given_up", args=("--allow-loss",),
      expect={"lost_snapshot": True, "lost_since": True})
def warm_lost_and_its_snapshot_missing(t):
    warm_but_its_workspace_lost(t)
    os.unlink(t.head_file())


@case("A2", "A", main=True)
def stopped(t):
    t.saved()
    t.ok("stop", SLOT)


@case("A2", "A")
def stopped_by_its_idle_timeout_with_unsaved_work(t):
    t.saved()
    t.work()
    t.end_guest()


@case("A2", "B", expect={"stranded": True})
def stopped_and_not_the_records_tree(t):
    stopped_by_its_idle_timeout_with_unsaved_work(t)
    t.live({"tree": "sb-0000000000000000"})


@case("A2", "B")
def a_restore_that_was_killed(t):
    t.saved()
    t.place.ok("run", SLOT, *t.store.settings, "--", "sh", "-c", "echo 2 > f")
    done = t.place.run("restore", SLOT + "@latest~1", *t.store.settings, env={"ASCOPE_TEST_FAULT": "kill:after-mark"})
    t.assertEqual(done.code, -9, done)


@case("A2", "B")
def stopped_and_its_workspace_lost(t):
    stopped(t)
    os.rename(t.tree("workspace"), t.tree("elsewhere"))


@case("A2", "backend_unavailable")
def stopped_and_its_tree_cannot_be_looked_at(t):
    stopped(t)
    t.enter(harness.mode_of(t.tree(), 0))


@case("A2", "corrupt")
@case("A2", "D", name="stopped_lost_and_damaged_given_up", args=("--allow-loss",), expect={"lost_snapshot": True})
def stopped_lost_and_its_snapshot_damaged(t):
    stopped_and_its_workspace_lost(t)
    os.truncate(t.head_file(), 100)


@case("C1", "C", main=True)
def its_sandbox_removed(t):
    t.saved()
    t.ok("rm", SLOT)


@case("C1", "C", expect={"lost_since": True})
def its_sandbox_gone_with_unsaved_work(t):
    warm(t)
    t.lose_sandbox()


@case("C1", "D", expect={"lost_since": True})
def its_sandbox_gone_and_never_saved(t):
    t.warm()
    t.lose_sandbox()


@case("C1", "C")
def its_sandbox_is_another_slots(t):
    t.ok("start", OTHER)
    other = t.ok("show", OTHER, "-o", "json").json()["sandbox"]["id"]
    t.saved()
    t.ok("rm", SLOT)
    t.live({"backend": "bubblewrap", "bound": t.host(), "sandbox": other, "tree": other, "clean": True})


@case("C1", "not_found")
@case("C1", "D", name="missing_given_up", args=("--allow-loss",), expect={"lost_snapshot": True})
def its_snapshot_missing(t):
    its_sandbox_removed(t)
    os.unlink(t.head_file())


@case("C1", "corrupt")
def its_snapshot_damaged(t):
    its_sandbox_removed(t)
    os.truncate(t.head_file(), 100)


@case("C1", "store_unavailable")
@case("C1", "D", name="store_down_given_up", args=("--allow-loss",), expect={"lost_snapshot": True})
def its_snapshot_store_down(t):
    its_sandbox_removed(t)
    t.snapshots_are_a_file()
