// SPDX-License-Identifier: Apache-2.0
// Brings the processes of a sandbox up round its tree, and finds out whether they are.
#pragma once

#include "backends/local/folder.h"
#include "backends/local/guest_link.h"

namespace ascope::bwrap {

using local::connect_guest;
using local::end_unrecorded;
using local::Folder;
using local::kill_process;
using local::Meta;
using local::wait_for_end;

// Starts it and leaves it running, its run.json written. Returns a connection to the guest: while one is open
// the sandbox does not end by its idle timeout. REQUIRES: the folder's lock is held and nothing runs. On
// failure nothing of it is left running.
Result<UniqueFd> start_processes(const OpContext& ctx, const Folder& folder, const Meta& meta,
                                 const SandboxSettings& settings, std::uint64_t fence);

// Gives the guest its settings anew.
Result<void> send_config(const OpContext& ctx, const Folder& folder, const Meta& meta,
                         const SandboxSettings& settings, std::uint64_t fence);

// Why bwrap cannot run here, with the mend; nullopt if user namespaces are not the reason.
std::optional<Error> user_namespace_problem();

}  // namespace ascope::bwrap
