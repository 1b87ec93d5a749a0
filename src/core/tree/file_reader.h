// SPDX-License-Identifier: Apache-2.0
// The content of one regular file that may change under us, block by block, without its holes.
#pragma once

#include <memory>
#include <optional>
#include <sys/stat.h>

#include "core/base/fd.h"
#include "core/tree/tree.h"

namespace ascope {

// Finds where data lies in the file open as `fd`, of the size that `entry` says; sets entry.sparse and
// entry.extents. `io` for more extents than kMaxExtents.
Result<void> find_extents(int fd, TreeEntry& entry);

class FileReader {
 public:
  // Opens the regular file behind the O_PATH descriptor `fd`; `info` is its fstat. Fills the sparse map of
  // `entry`.
  Result<void> open(int fd, const struct stat& info, TreeEntry& entry);
  Result<std::optional<DataBlock>> read();
  // Of the present file, -1 if none is open.
  [[nodiscard]] int descriptor() const { return fd_.get(); }
  // Ends the present file; true if it changed since open().
  bool close();

 private:
  UniqueFd fd_;
  struct stat before_{};
  std::vector<Extent> extents_;
  std::size_t extent_ = 0;
  std::uint64_t offset_ = 0;
  bool short_ = false;
  std::unique_ptr<char[]> buffer_;
};

}  // namespace ascope
