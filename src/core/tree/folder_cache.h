// SPDX-License-Identifier: Apache-2.0
// Descriptors of the folders along one path, so that entries in path order cost one look-up each.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/base/fd.h"

namespace ascope {

class FolderCache {
 public:
  explicit FolderCache(int root) : root_(root) {}

  // An O_PATH descriptor of the folder `path` ("" = the root), owned here and valid until the next call; or
  // -errno (ELOOP: a part of it is a link).
  int folder(std::string_view path);
  void clear();
  [[nodiscard]] int root() const { return root_; }

 private:
  // Opens the folder of `path` that begins with `bytes` bytes of it, below the last one held. 0 or -errno.
  int step(std::string_view path, std::size_t bytes);

  struct Held {
    std::size_t path_bytes;
    UniqueFd fd;
  };
  int root_;
  std::string path_;
  std::vector<Held> held_;
};

// The folder of a path, "" at the top; and the last part.
std::string_view parent_path(std::string_view path);
std::string last_part(std::string_view path);
// True if `path` is `folder` or lies below it.
bool is_within(std::string_view path, std::string_view folder);

}  // namespace ascope
