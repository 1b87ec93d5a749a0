// SPDX-License-Identifier: Apache-2.0
// One bubblewrap sandbox as the engine sees it.
#pragma once

#include <memory>
#include <string>

#include "backends/local/folder.h"

namespace ascope::bwrap {

using local::Folder;
using local::Meta;

// What all sandboxes of one backend share.
struct Site {
  std::string state_dir;
  std::string host;  // host_id()
};

// `presence`: a connection to its guest, where it runs; while one is open it does not end by its idle
// timeout.
std::unique_ptr<Sandbox> make_sandbox(const Site& site, Folder folder, Meta meta, UniqueFd presence = {});
std::unique_ptr<Toolbox> make_toolbox(const Folder& folder, const Meta& meta);
// What info() says. Shared with list(). `presence` gets the connection to a running guest.
Result<ResourceInfo> describe(const OpContext& ctx, const Site& site, const Folder& folder, const Meta& meta,
                              UniqueFd* presence = nullptr);
// `unsupported` if these settings ask for what bubblewrap cannot do.
Result<void> check_settings(const SandboxSettings& settings);
// `backend_unavailable` if it lives on another machine (a state folder that machines share).
Result<void> check_host(const Site& site, const Meta& meta);

}  // namespace ascope::bwrap
