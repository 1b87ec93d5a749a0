// SPDX-License-Identifier: Apache-2.0
// Brings the processes of a sandbox up round its tree, and finds out whether they are.
#pragma once

#include "backends/bubblewrap/folder.h"

namespace ascope::bwrap {

// Starts it and leaves it running, its run.json written. Returns a connection to the guest: while one is open
// the sandbox does not end by its idle timeout. REQUIRES: the folder's lock is held and nothing runs. On
// failure nothing of it is left running.
Result<UniqueFd> start_processes(const OpContext& ctx, const Folder& folder, const Meta& meta,
                                 const SandboxSettings& settings, std::uint64_t fence);

// A connection to the guest that run.json names, checked by pid and start time. `not_found` if it does not
// run.
Result<UniqueFd> connect_guest(const Folder& folder);

// Ends a guest that listens although no run.json names it: its starter died before it was done.
Result<void> end_unrecorded(const OpContext& ctx, const Folder& folder);

// Kills the process (pid, start time) and waits for its end; nothing to do if it is gone.
Result<void> kill_process(const OpContext& ctx, pid_t pid, std::uint64_t start_time);
// Waits until it has ended by itself; false if `limit` passed first.
Result<bool> wait_for_end(const OpContext& ctx, pid_t pid, std::uint64_t start_time, Millis limit);

// Gives the guest its settings anew.
Result<void> send_config(const OpContext& ctx, const Folder& folder, const Meta& meta,
                         const SandboxSettings& settings, std::uint64_t fence);

// Why bwrap cannot run here, with the mend; nullopt if user namespaces are not the reason.
std::optional<Error> user_namespace_problem();

}  // namespace ascope::bwrap
