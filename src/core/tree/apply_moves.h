// SPDX-License-Identifier: Apache-2.0
// What an overlay takes away and moves aside before it lays anything over: ApplyOptions::remove and rename.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "core/tree/admission.h"
#include "core/tree/applier.h"
#include "core/tree/folder_cache.h"

namespace ascope {

// Runs a call in a folder (0, or -1 with errno), again after opening the folder up where only its mode kept
// us out.
using Attempt = std::function<Result<void>(const std::string& folder, std::string_view what,
                                           const std::function<int()>& call)>;

// Carries out `remove`, then `rename`. Counts in `report`; in a dry run lists the removals alone. Both are
// done before the source is read: where that fails later they stay done, and a repeat passes them over.
Result<void> apply_moves(const ApplyOptions& options, const Admission& admission, FolderCache& folders,
                         const Attempt& attempt, ApplyReport& report);

}  // namespace ascope
