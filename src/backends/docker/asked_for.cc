// SPDX-License-Identifier: Apache-2.0
#include "backends/docker/asked_for.h"

#include <algorithm>

#include <fmt/format.h>

#include "backends/docker/engine.h"
#include "core/repository/chunks/path_order.h"

namespace ascope::docker {

namespace {

bool is_below(std::string_view path, std::string_view folder) {
  return folder.empty() || path == folder ||
         (path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/');
}

// The entry at or above `path` that is in the list, if any.
bool has_above(const std::vector<std::string>& list, std::string_view path) {
  while (true) {
    if (std::binary_search(list.begin(), list.end(), path)) {
      return true;
    }
    if (path.empty()) {
      return false;
    }
    const auto slash = path.rfind('/');
    path = path.substr(0, slash == std::string_view::npos ? 0 : slash);
  }
}

}  // namespace

AskedFor::AskedFor(std::vector<std::string> roots, std::vector<std::string> skip)
    : roots_(std::move(roots)), skip_(std::move(skip)) {
  std::sort(roots_.begin(), roots_.end());
  std::sort(skip_.begin(), skip_.end());
}

bool AskedFor::leads_to_root(std::string_view path) const {
  // Roots below a folder lie together, but for names that sort between "a" and "a/".
  for (auto at = std::lower_bound(roots_.begin(), roots_.end(), path);
       at != roots_.end() && at->starts_with(path); ++at) {
    if (is_below(*at, path)) {
      return true;
    }
  }
  return false;
}

Result<void> AskedFor::check(const TreeEntry& entry) {
  const auto wrong = [&](std::string_view what) {
    return make_error(
        ErrorKind::corrupt, fmt::format("the sandbox sent '{}', which {}", shown_text(entry.path), what),
        "its guest is not to be trusted any more: 'ascope-sandbox rm --allow-loss', then start again");
  };
  if (any_ && !chunks::path_before(last_, entry.path)) {
    return wrong("is out of order");
  }
  any_ = true;
  last_ = entry.path;
  const bool asked = roots_.empty() || has_above(roots_, entry.path) ||
                     (entry.type == EntryType::directory && leads_to_root(entry.path));
  if (!asked || has_above(skip_, entry.path)) {
    return wrong("was not asked for");
  }
  return ok();
}

}  // namespace ascope::docker
