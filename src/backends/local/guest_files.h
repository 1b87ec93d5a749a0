// SPDX-License-Identifier: Apache-2.0
// File work that the guest does inside a running sandbox.
#pragma once

#include <memory>
#include <string>

#include "backends/local/folder.h"

namespace ascope::local {

// Lays `source` below `root` (absolute). Closes the connection.
Result<ApplyReport> unpack_inside(const OpContext& ctx, UniqueFd connection, const std::string& root,
                                  TreeSource& source, const ApplyOptions& options, bool as_root);
// As Toolbox::freeze.
Result<std::unique_ptr<Toolbox::Freeze>> freeze_inside(const OpContext& ctx, const Folder& folder);

}  // namespace ascope::local
