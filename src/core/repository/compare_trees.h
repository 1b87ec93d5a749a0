// SPDX-License-Identifier: Apache-2.0
// How two trees differ, entry by entry.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "core/base/op_context.h"
#include "core/tree/tree.h"

namespace ascope {

// "A path" only in `after`, "D path" only in `before`, "T" another type, "M" another content, link target or
// device, "P" only mode, owner, attributes or (not of folders) time. Sorted by path; holes equal zeros; root
// "" left out. Memory: some 200 bytes an entry of `before`.
using TreeChange = std::pair<char, std::string>;
Result<std::vector<TreeChange>> compare_trees(const OpContext& ctx, TreeSource& before, TreeSource& after);

}  // namespace ascope
