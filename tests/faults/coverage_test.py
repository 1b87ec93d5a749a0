# SPDX-License-Identifier: Apache-2.0
"""Every fault that tools of this kind are known for has a test of its kind here, or a reason why it cannot be had."""
import ast
import os
import re
import unittest

TESTS = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
A, B, C, D, E, H, I = (f"faults/{name}_test.py::" for name in (
    "a_lifecycle", "b_exec", "c_archive", "d_changes", "e_locks", "h_command_line", "i_bubblewrap"))

# Title: tests of its kind. FILE::CASE.NAME of a Python test, FILE::NAME of a doctest case.
COVERED = {
    # A
    "Snapshot written under one id, looked up under a new one": [A + "KeyTest.test_same_scope_same_key"],
    "One code path ignores the configured snapshot store": [
        A + "KeyTest.test_every_path_that_saves_uses_the_chosen_store",
        "unit/profile/stores_test.cc::an explicit part wins over distributed, which wins over the built-in one"],
    "Changed configuration ignored on resume": [A + "KeyTest.test_present_configuration_decides"],
    "Files removed on the host stay in the sandbox": [
        A + "KeyTest.test_what_the_host_removed_stays_removed", "cli/project_test.py::ProjectTest.test_the_agents_work_is_kept",
        "unit/projection_test.cc::three-way: every case"],
    "Parallel sessions end up in each other's sandbox": [A + "ParallelTest.test_each_session_reads_back_its_own"],
    "Same-scope calls race, last writer wins": [
        A + "ParallelTest.test_overlapping_calls_lose_nothing",
        "contract/state_store_test.cc::state store: of racing increments none is lost"],
    "Workspace root does not exist yet": [A + "RootTest.test_a_workspace_root_that_is_missing"],
    "Stop always waits the full grace period": [A + "StopTest.test_stop_is_quick"],
    "Second and later save/restore cycles lose changes": [A + "StopTest.test_every_cycle_is_kept"],
    "Sandbox stuck in a transition cannot be removed; \"busy\" answers not retried": [
        A + "StopTest.test_a_sandbox_that_does_not_answer",
        "unit/plan/plan_test.cc::what could not be asked is never taken as gone"],
    "Two callers create two sandboxes, or adopt the same spare one": [
        A + "ParallelTest.test_one_sandbox_a_scope",
        "unit/bubblewrap/lifecycle_test.cc::two starts at once make one sandbox; a killed guest is started anew"],
    "gc removes somebody else's container; name already taken": [
        A + "OwnershipTest.test_gc_touches_its_own_alone", A + "OwnershipTest.test_a_purge_leaves_what_a_fork_needs",
        A + "OwnershipTest.test_a_foreign_folder_is_not_adopted"],
    "Snapshot needs a second full copy; temp names collide": [
        A + "OwnershipTest.test_archives_are_streamed", A + "OwnershipTest.test_parallel_saves_do_not_meet"],
    # B
    "Death by signal, \"not found\" and \"cannot execute\" reported as 0, -1 or 255": [B + "ExitTest.test_codes"],
    "Exit code asked for too early": [B + "ExitTest.test_the_code_is_the_final_one"],
    "Long silent command never finishes because the idle connection was dropped": [B + "ExitTest.test_silence_is_no_end"],
    "A background child that keeps the output open blocks exec": [B + "ExitTest.test_the_background_does_not_hold_it"],
    "Ctrl-C or a killed client leaves the process running in the sandbox": [B + "ExitTest.test_a_client_that_ends"],
    "Standard input bytes dropped on the way in": [B + "StreamTest.test_stdin_arrives_whole"],
    "Characters split over two chunks are damaged": [B + "StreamTest.test_bytes_are_not_decoded_in_pieces"],
    "Quoting damages arguments": [B + "StreamTest.test_arguments_arrive_as_they_are"],
    "Upload reported as done but file absent, or with a wrong mode": [
        B + "StreamTest.test_files_arrive_whole_with_their_modes"],
    # C
    "Links followed, rewritten or rejected while copying": [
        C + "LinkTest.test_links_come_back_as_links", C + "LinkTest.test_a_projection_leaves_what_is_outside",
        "unit/projection_test.cc::links: those that stay inside are copied as content, all others refused and named"],
    "Restore into a tree that already has links": [
        C + "LinkTest.test_restore_over_links",
        "unit/tree_apply_test.cc::apply: exact takes away, replaces types and links, and never writes through a link"],
    "Read-only folders and files block restore": [
        C + "MetadataTest.test_read_only_things", C + "OrdinaryMetadataTest.test_read_only_things"],
    "Holes fill the disk, or the end of a sparse file is cut": [
        C + "MetadataTest.test_holes", "unit/tree_walk_test.cc::walk: holes, also of many exbibytes"],
    "Names in odd encodings, with newlines, or starting with a dash": [C + "MetadataTest.test_names"],
    "File changes while it is being read": [
        C + "ChangingTest.test_files_that_change",
        "unit/tree_walk_test.cc::walk: a file that changes while it is read keeps its announced size and is named"],
    "Names that are special to image layers are taken as commands": [C + "MetadataTest.test_special_names"],
    "Wrong owner after copy, or restore stops because owner cannot be set": [
        C + "MetadataTest.test_owners", C + "OrdinaryMetadataTest.test_owners"],
    "Submodules and worktrees: `.git` is a file or points outside": [
        C + "LinkTest.test_a_git_file_that_points_outside",
        "unit/projection_test.cc::a .git file that names a folder outside brings a note"],
    # D
    "Change missed: same size and same or coarse time": [
        D + "ChangeTest.test_a_change_of_the_same_size_and_time",
        D + "ChangeTest.test_a_projected_change_of_the_same_size_and_time",
        "unit/projection_test.cc::a file of the same size and time, touched just now, is read again"],
    "Chunk content does not match its name; format option hides chunks": [
        D + "ObjectTest.test_a_name_in_the_store_is_no_proof", D + "ObjectTest.test_formats_stay_readable",
        "cli/bad_store_test.py::DamagedObjectTest.test_a_save_finds_the_damage_and_heals_it",
        "contract/blob_store_test.cc::blob store: kill -9 while writing leaves nothing under the key, and the next write works"],
    "One bad chunk stops everything, or success is reported in spite of errors": [
        D + "ObjectTest.test_damage_is_neither_hidden_nor_everything", D + "ObjectTest.test_several_targets",
        D + "UnreadableTest.test_what_cannot_be_read_is_named", "cli/bad_store_test.py::DamagedObjectTest.test_reading_commands"],
    "Restore leaves extra files, or deletes neighbours": [
        D + "ScopeTest.test_exact_inside_nothing_outside", D + "ScopeTest.test_a_foreign_target"],
    # E
    "Release removes somebody else's lock": [
        "cli/lock_test.py::AcquireTest.test_it_runs_out", "cli/lock_test.py::AcquireTest.test_a_token_of_another_slot_is_6",
        "contract/lease_contract_test.cc::sqlite keeps the lease contract"],
    "Holder goes on after the lease is lost": [
        E + "LostLeaseTest.test_a_call_that_slept_through_its_lease", E + "LostLeaseTest.test_a_save_that_slept_at_any_step",
        "cli/lock_test.py::RunTest.test_a_stopped_holder_finds_its_lease_lost"],
    "Process number taken as proof of life": [
        "contract/lease_contract_test.cc::a sqlite lease is taken over at once only from a holder that is proven dead",
        "contract/lease_contract_test.cc::a sqlite lease of another machine is judged by its deadline alone",
        "contract/lease_contract_test.cc::a sqlite lease of this machine's last boot is over",
        "unit/holder_test.cc::only what is sure counts as proof of death"],
    # F, as far as SQLite goes
    "Value larger than the server accepts": [
        "contract/blob_store_test.cc::blob store: what was put comes back, whole and in parts",
        "contract/blob_store_test.cc::blob store: a broken stream leaves nothing under the key"],
    # H
    "Duplicate keys and implicit types in YAML": [
        H + "SettingsTest.test_texts_stay_texts", H + "SettingsTest.test_what_is_refused",
        "cli/bad_input_test.py::ProfileTest.test_bad_profiles",
        "unit/profile/documents_test.cc::bad documents are refused with place and mend"],
    "Arguments after `--`, and values that begin with a dash": [
        H + "InnerCommandTest.test_nothing_after_the_separator_is_ours", H + "InnerCommandTest.test_values_that_begin_with_a_dash"],
    # I
    "Ctrl-C ends the sandbox tool but not the command, or the other way round": [
        I + "InterruptTest.test_the_inner_command_gets_it_first", I + "InterruptTest.test_a_signal_to_the_group"],
    "Command pushes key strokes into the caller's terminal": [
        I + "InjectionTest.test_no_key_strokes_for_the_caller", I + "InjectionTest.test_the_test_sees_key_strokes",
        "unit/bubblewrap/security_test.cc::dangerous system calls are refused"],
    # J: no program speaks on our stdio yet, but JSON on stdout is read by programs all the same
    "Log lines on standard output break the protocol": [H + "InnerCommandTest.test_logs_never_reach_stdout"],
}
# Title: why there is nothing here that could have it.
NOT_HERE = {
    "Hard-wired API version refused by a new or old daemon": "no backend talks to a daemon",
    "Late reply read by the next command": "no store keeps a connection to a server",
    "Signature or key encoding wrong for special characters": "no store speaks S3",
    "Redirects and \"100-continue\"": "no store speaks HTTP",
    "Request time too skewed": "no store signs requests",
    "Server does not end when the client goes away": "nothing serves on stdio",
}


def python_tests(path):
    with open(path, encoding="utf-8") as file:
        tree = ast.parse(file.read())
    found = {}
    for case in tree.body:
        if isinstance(case, ast.ClassDef):
            for item in case.body:
                if isinstance(item, ast.FunctionDef):
                    found[f"{case.name}.{item.name}"] = ast.get_docstring(item) or ""
    return found


def doctest_cases(path):
    with open(path, encoding="utf-8") as file:
        text = file.read()
    return {"".join(re.findall(r'"((?:[^"\\]|\\.)*)"', match)): "" for match in
            re.findall(r'TEST_CASE\(((?:\s*"(?:[^"\\]|\\.)*")+)\s*\)', text)}


class CoverageTest(unittest.TestCase):
    def test_named_tests_exist_and_run(self):
        with open(os.path.join(TESTS, "meson.build"), encoding="utf-8") as file:
            registered = file.read()
        for title, tests in COVERED.items():
            for test in tests:
                with self.subTest(title, test=test):
                    path, _, name = test.partition("::")
                    whole = os.path.join(TESTS, path)
                    found = python_tests(whole) if path.endswith(".py") else doctest_cases(whole)
                    self.assertIn(name, found)
                    self.assertIn(f"'{path}'", registered, "it is not run")
                    if path.startswith("faults/"):
                        self.assertEqual(found[name].split("\n")[0], title, "its docstring names another fault")

    def test_every_test_here_is_in_the_table(self):
        named = {test for tests in COVERED.values() for test in tests}
        for file in sorted(os.listdir(os.path.join(TESTS, "faults"))):
            if file.endswith("_test.py") and file != os.path.basename(__file__):
                for name in python_tests(os.path.join(TESTS, "faults", file)):
                    if ".test_" in name:
                        self.assertIn(f"faults/{file}::{name}", named)

    def test_each_fault_is_in_one_table(self):
        self.assertEqual(set(COVERED) & set(NOT_HERE), set())
        self.assertEqual(len(COVERED) + len(NOT_HERE), 50)
        self.assertTrue(all(NOT_HERE.values()))


if __name__ == "__main__":
    unittest.main()
