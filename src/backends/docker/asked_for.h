// SPDX-License-Identifier: Apache-2.0
// Whether the entries that come out of a sandbox are those that were asked for: a copy to the host, say, must
// not find others among them.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/tree/tree.h"

namespace ascope::docker {

class AskedFor {
 public:
  // Relative paths; no roots: all but what is skipped.
  AskedFor(std::vector<std::string> roots, std::vector<std::string> skip);
  // `corrupt` for an entry that is neither at or below a root nor a folder that leads to one, that is
  // skipped, or that does not come after the one before, in path order.
  Result<void> check(const TreeEntry& entry);

 private:
  [[nodiscard]] bool leads_to_root(std::string_view path) const;

  std::vector<std::string> roots_, skip_;  // in order of bytes
  std::string last_;
  bool any_ = false;
};

}  // namespace ascope::docker
