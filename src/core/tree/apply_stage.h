// SPDX-License-Identifier: Apache-2.0
// The first half of an apply over a tree that holds something: compares each entry with what is in place,
// stages what differs, and writes the plan. Changes nothing outside of the stage.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "core/tree/admission.h"
#include "core/tree/applier.h"
#include "core/tree/apply_plan.h"
#include "core/tree/folder_cache.h"
#include "core/tree/nodes.h"

namespace ascope {

// What both halves share.
struct ApplyState {
  int root = -1;
  const ApplyOptions& options;
  Admission admission;
  ApplyReport report;
  MetadataFailures failures;
  UniqueFd stage;             // the stage folder; closed in a dry run
  ApplyPlan* plan = nullptr;  // null in a dry run

  ApplyState(int root_fd, const ApplyOptions& given) : root(root_fd), options(given), admission(given) {}
  void change(char what, const std::string& path);
  // After each piece of metadata: turns failures of attributes into notes.
  void note_failures(const std::string& path);
};

class Stager {
 public:
  explicit Stager(ApplyState& state) : state_(state), folders_(state.root) {}
  // Takes an admitted entry (and its data from `source`).
  Result<void> take(TreeEntry& entry, TreeSource& source);

 private:
  struct Found {
    bool exists = false;
    struct stat info{};
    int parent = -1;  // of folders_
    std::string name;
  };
  Result<Found> look(const std::string& path);
  Result<void> take_folder(const TreeEntry& entry, const Found& found);
  Result<void> take_file(const TreeEntry& entry, const Found& found, TreeSource& source);
  Result<void> take_link(const TreeEntry& entry, const Found& found);
  Result<void> take_special(const TreeEntry& entry, const Found& found);
  // Reads the entry's data; true if it equals that of `existing` (-1: nothing to compare), else it is staged
  // as `number`.
  Result<bool> compare_or_stage(const TreeEntry& entry, int existing, TreeSource& source,
                                std::uint64_t number);
  Result<void> keep(const TreeEntry& entry, const Found& found, const XattrList& xattrs);
  Result<void> replace(const TreeEntry& entry, const Found& found, PlanAction action, std::uint64_t number);
  // True if `info` is the content of another path already (a hard link that the source does not have).
  [[nodiscard]] bool is_claimed(const struct stat& info) const;

  ApplyState& state_;
  FolderCache folders_;
  std::uint64_t next_number_ = 1;
  std::set<std::pair<std::uint64_t, std::uint64_t>> claimed_;  // (device, inode) of kept files with links
};

// The name of a staged thing.
std::string stage_file(std::uint64_t number);

}  // namespace ascope
