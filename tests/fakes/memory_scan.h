// SPDX-License-Identifier: Apache-2.0
// A tree in memory as a scan, which a save can ask again.
#pragma once

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/repository/repository.h"
#include "fakes/memory_tree.h"

namespace ascope::test {

class MemoryScan final : public TreeScan {
 public:
  explicit MemoryScan(std::vector<MemoryEntry> entries) : entries_(entries), source_(std::move(entries)) {}
  Result<bool> next(TreeEntry& entry, bool& unchanged) override {
    unchanged = false;
    return source_.next(entry);
  }
  Result<std::unique_ptr<TreeSource>> read(const std::vector<std::string>& paths) override {
    std::vector<MemoryEntry> wanted;
    for (const MemoryEntry& one : entries_) {
      if (std::find(paths.begin(), paths.end(), one.entry.path) != paths.end()) {
        wanted.push_back(one);
      }
    }
    return std::unique_ptr<TreeSource>(std::make_unique<MemoryTree>(std::move(wanted)));
  }

 private:
  std::vector<MemoryEntry> entries_;
  MemoryTree source_;
};

inline std::vector<MemoryEntry> tree_with(const std::vector<std::pair<std::string, std::string>>& files) {
  MemoryTree tree;
  tree.folder("");
  for (const auto& [path, content] : files) {
    tree.file(path, content);
  }
  return std::move(tree.entries);
}

// The request saves `entries` by scans.
inline void scan_instead(SaveRequest& request, const std::vector<MemoryEntry>& entries) {
  request.workspace = nullptr;
  request.scan = [entries](SnapshotPart part) {
    return Result<std::unique_ptr<TreeScan>>(
        part == SnapshotPart::workspace ? std::make_unique<MemoryScan>(entries) : nullptr);
  };
}

}  // namespace ascope::test
