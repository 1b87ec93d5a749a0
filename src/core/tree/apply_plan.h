// SPDX-License-Identifier: Apache-2.0
// What an apply has yet to do, as records in a file without a name on the file system of the tree: a million
// entries do not fit in memory.
#pragma once

#include <cstdint>
#include <string>

#include "core/base/fd.h"
#include "core/tree/tree.h"

namespace ascope {

enum class PlanAction : std::uint8_t {
  folder,    // make it if missing; its metadata comes last
  rename,    // the staged thing `number` goes to the path
  link,      // hard link
  metadata,  // of what is in place
};

struct PlanRecord {
  PlanAction action = PlanAction::folder;
  std::uint64_t number = 0;
  TreeEntry entry;
};

class ApplyPlan {
 public:
  // `file` is open for reading and writing, and empty.
  explicit ApplyPlan(UniqueFd file) : file_(std::move(file)) {}
  // Returns the record's place.
  Result<std::uint64_t> add(PlanAction action, std::uint64_t number, const TreeEntry& entry);
  // Ends the writing.
  Result<void> flush();
  // Reads the record at `place` and moves `place` behind it; false at the end.
  Result<bool> read(std::uint64_t& place, PlanRecord& record);

 private:
  Result<bool> fetch(std::uint64_t place, std::size_t count, ByteView& out);

  UniqueFd file_;
  std::string pending_;
  std::uint64_t size_ = 0;  // with what is pending
  std::string window_;
  std::uint64_t window_at_ = 0;
};

}  // namespace ascope
