// SPDX-License-Identifier: Apache-2.0
// What is known of one sandbox's files on this machine, in its cache folder under the tree's id: which of
// them are as a snapshot has them, and need not be read to be saved.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "core/engine/services.h"
#include "core/repository/scan_cache.h"

namespace ascope {

class ScanMemory {
 public:
  // `tree`: its id, "": nothing is known and nothing is kept. `snapshot`: what the tree was when it was last
  // looked at; "": not known.
  ScanMemory(EngineServices& services, const std::string& tree, std::string snapshot);

  // Begins anew; the last one begun counts. All that follows is in the order of a walk, workspace first.
  void begin();
  // Files, by their inodes, that may change from now on without a sign; nullopt: any may, and nothing is
  // kept. After begin(), for a mapping that is made later leaves its sign.
  void distrust(std::optional<std::set<std::uint64_t>> mapped);
  [[nodiscard]] bool knows_any() const { return known_->is_usable(); }
  // As ScanCache::same.
  [[nodiscard]] bool same(SnapshotPart part, const TreeEntry& entry) { return known_->same(part, entry); }
  // The walk has come to this. `read`: nothing is to be noted of it; else that is not known before settle().
  // Memory: what waits for it.
  void record(SnapshotPart part, const TreeEntry& entry, bool read);
  // What was recorded before `path`, nullopt: all, has been read, and `notes` are those made since the last
  // call. What was noted must be noted again by the next save, which therefore reads it again.
  void settle(const std::vector<TreeNote>& notes, const std::optional<std::string>& path);
  // The tree is what `snapshot` holds. A cache that cannot be written costs time only and is said in the log.
  void keep(const std::string& snapshot);

 private:
  // What a cache holds for. Under another rule on credentials other files are noted.
  [[nodiscard]] std::string label(const std::string& snapshot) const;

  std::string folder_;
  std::string path_;  // "": nothing is kept
  std::string rule_;
  std::string snapshot_;
  std::unique_ptr<ScanCache> known_;
  std::unique_ptr<ScanRecorder> recorder_;
  std::set<std::uint64_t> mapped_;
  std::deque<std::pair<SnapshotPart, TreeEntry>> unread_;
};

// Removes what is known, finished or not, of all trees but those that `keep` holds on to.
Result<void> remove_scans(EngineServices& services, const std::function<bool(const std::string& tree)>& keep);

}  // namespace ascope
