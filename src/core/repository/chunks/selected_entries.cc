// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/selected_entries.h"

#include <algorithm>

#include "core/repository/chunks/path_order.h"
#include "core/tree/folder_cache.h"

namespace ascope::chunks {

SelectedEntries::SelectedEntries(ChunkReader& chunks, const Manifest& manifest,
                                 const std::vector<PageRef>& pages, const std::vector<std::string>& paths)
    : manifest_(manifest), entries_(chunks, manifest, pages), all_(paths.empty()) {
  for (const std::string& path : paths) {
    targets_.push_back({path, true});
    for (std::size_t slash = path.rfind('/'); !path.empty(); slash = path.rfind('/', slash - 1)) {
      targets_.push_back({slash == std::string::npos ? std::string() : path.substr(0, slash), false});
      if (slash == std::string::npos) {
        break;
      }
    }
  }
  std::sort(targets_.begin(), targets_.end(), [](const Target& a, const Target& b) {
    const auto order = order_of_paths(a.path, b.path);
    return order != 0 ? order < 0 : a.below > b.below;
  });
  // What lies within another that is asked for comes with it.
  std::vector<Target> kept;
  std::string top;
  bool has_top = false;
  for (Target& one : targets_) {
    const bool same = !kept.empty() && kept.back().path == one.path;
    if (same || (has_top && !one.below && is_within(one.path, top))) {
      continue;
    }
    if (one.below && !(has_top && is_within(one.path, top))) {
      top = one.path;
      has_top = true;
    }
    kept.push_back(std::move(one));
  }
  targets_ = std::move(kept);
}

Result<bool> SelectedEntries::next(const OpContext& ctx, TreeEntry& entry) {
  if (all_) {
    return entries_.next(ctx, entry);
  }
  while (true) {
    if (!has_ahead_ && !ended_) {
      ASCOPE_TRY_ASSIGN(has_ahead_, entries_.next(ctx, ahead_));
      ended_ = !has_ahead_;
    }
    // Targets that lie behind us are done with.
    while (at_ < targets_.size()) {
      const Target& target = targets_[at_];
      const bool open = has_ahead_ && (!path_before(target.path, ahead_.path) ||
                                       (target.below && is_within(ahead_.path, target.path)));
      if (open) {
        break;
      }
      if (target.below && !target.found) {
        return make_error(ErrorKind::not_found,
                          "snapshot '" + manifest_.root.id + "' has no '" + target.path + "'");
      }
      ++at_;
    }
    if (at_ == targets_.size()) {
      return false;
    }
    if (path_before(ahead_.path, targets_[at_].path)) {
      entries_.seek(targets_[at_].path);
      has_ahead_ = false;
      continue;
    }
    // Nested targets are found on the way.
    for (std::size_t i = at_; i < targets_.size() && !path_before(ahead_.path, targets_[i].path); ++i) {
      targets_[i].found = targets_[i].found || targets_[i].path == ahead_.path;
    }
    entry = std::move(ahead_);
    has_ahead_ = false;
    return true;
  }
}

}  // namespace ascope::chunks
