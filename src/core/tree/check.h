// SPDX-License-Identifier: Apache-2.0
// Is a source fit to be applied? Finds out without writing anything.
#pragma once

#include <cstdint>

#include "core/base/op_context.h"
#include "core/tree/tree.h"

namespace ascope {

struct TreeTotals {
  std::uint64_t entries = 0;
  std::uint64_t files = 0;  // entries that are no folders
  std::uint64_t content_bytes = 0;
};

// Reads `source` to its end, content too, by the rules that apply_tree keeps: what passes here is not refused
// there.
Result<TreeTotals> check_tree(const OpContext& ctx, TreeSource& source);

}  // namespace ascope
