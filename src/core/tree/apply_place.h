// SPDX-License-Identifier: Apache-2.0
// The second half of an apply: puts things where they belong below the root. What its owner is kept from by
// modes alone is opened up for the time being.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/tree/apply_stage.h"

namespace ascope {

// Modes of folders while an apply works.
inline constexpr mode_t kNewFolder = 0700;       // until its metadata is set, last of all
inline constexpr mode_t kImplicitFolder = 0755;  // of a folder that no entry names

class Placer {
 public:
  explicit Placer(ApplyState& state) : state_(state), folders_(state.root), targets_(state.root) {}

  // Makes the folder if it is missing; anything else in its place goes.
  Result<void> make_folder(const std::string& path);
  // An O_PATH descriptor of the folder that `path` lies in, valid until the next call.
  Result<int> folder_for(const std::string& path);
  // Renames a staged thing to `path`, over what is there.
  Result<void> put_in_place(const std::string& stage_name, const std::string& path);
  Result<void> link_in_place(const PlanRecord& record);
  // Metadata of what is in place.
  Result<void> set_in_place(const TreeEntry& entry);
  // The folder whose record is at `place` of the plan gets its metadata at the end.
  void finish_later(std::uint64_t place) { folder_places_.push_back(place); }
  // Metadata of all those folders, deepest first; what was opened up gets its mode back.
  Result<void> finish_folders(ApplyPlan& plan);
  // Gives what was opened up its mode back, before anything else was changed.
  void give_up();
  // Runs `call` (0, or -1 with errno) for the folder `path`, once more after opening it up.
  Result<void> attempt(const std::string& path, std::string_view what, const std::function<int()>& call);
  FolderCache& folders() { return folders_; }

 private:
  // Gives the owner all rights on the folders down to `path`, where only modes kept us out.
  Result<void> lift(const std::string& path);

  ApplyState& state_;
  FolderCache folders_;
  FolderCache targets_;
  std::vector<std::uint64_t> folder_places_;
  std::vector<std::pair<std::string, mode_t>> lifted_;
};

}  // namespace ascope
