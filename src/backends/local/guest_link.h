// SPDX-License-Identifier: Apache-2.0
// The guest of a sandbox on this machine: reaching it by the socket in the sandbox's folder, and ending it.
#pragma once

#include <string>
#include <vector>

#include "backends/local/folder.h"

namespace ascope::local {

constexpr const char* kSocket = "s";  // in the sandbox's folder

// A socket bound in the folder that does not listen: the guest will, and so be the peer that we see.
Result<UniqueFd> bind_socket(const Folder& folder);

// A connection to the guest that run.json names, checked by pid and start time. `not_found` if it does not
// run.
Result<UniqueFd> connect_guest(const Folder& folder);

// Ends a guest that listens although no run.json names it: its starter died before it was done.
Result<void> end_unrecorded(const OpContext& ctx, const Folder& folder);

// Kills the process (pid, start time) and waits for its end; nothing to do if it is gone.
Result<void> kill_process(const OpContext& ctx, pid_t pid, std::uint64_t start_time);
// Waits until it has ended by itself; false if `limit` passed first.
Result<bool> wait_for_end(const OpContext& ctx, pid_t pid, std::uint64_t start_time, Millis limit);
// Waits up to `limit` for the end of whatever process has this pid.
void await_end(pid_t pid, Millis limit);

// Asks the guest to end itself and all others, and waits for it; false if it did not and must be killed.
// `conflict` and `cancelled` are errors, silence is not.
Result<bool> ask_to_end(const OpContext& ctx, int connection, std::uint64_t fence, const Run& run);
// The commands that run now, as the guest names them.
Result<std::vector<std::string>> running_jobs(const OpContext& ctx, int connection);
// `conflict` if the sandbox has seen a higher fence.
Result<void> check_fence(const Meta& meta, std::uint64_t fence);

}  // namespace ascope::local
