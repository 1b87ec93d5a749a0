// SPDX-License-Identifier: Apache-2.0
#include "core/tree/folder_cache.h"

#include <algorithm>
#include <fcntl.h>

#include "core/tree/beneath.h"

namespace ascope {

int FolderCache::step(std::string_view path, std::size_t bytes) {
  constexpr std::size_t kMostHeld = 64;
  const std::size_t known = held_.empty() ? 0 : held_.back().path_bytes;
  const int from = held_.empty() ? root_ : held_.back().fd.get();
  const std::size_t begin = known == 0 ? 0 : known + 1;
  Opened opened = open_beneath(from, path.substr(begin, bytes - begin), O_PATH | O_DIRECTORY);
  if (opened.error != 0) {
    return -opened.error;
  }
  path_ = path.substr(0, bytes);
  held_.push_back({bytes, std::move(opened.fd)});
  if (held_.size() > kMostHeld) {
    held_.erase(held_.begin());
  }
  return 0;
}

int FolderCache::folder(std::string_view path) {
  while (!held_.empty() && !is_within(path, std::string_view(path_).substr(0, held_.back().path_bytes))) {
    held_.pop_back();
  }
  const std::size_t known = held_.empty() ? 0 : held_.back().path_bytes;
  if (path.size() != known) {
    // Far down, the last levels are opened one by one, so that the way back up does not begin at the root
    // each time.
    constexpr std::ptrdiff_t kStepped = 32;
    std::size_t bytes = path.size();
    if (std::count(path.begin() + static_cast<std::ptrdiff_t>(known), path.end(), '/') > kStepped) {
      for (std::ptrdiff_t i = 0; i < kStepped; ++i) {
        bytes = path.rfind('/', bytes - 1);
      }
    }
    for (int outcome = 0;; bytes = std::min(path.find('/', bytes + 1), path.size())) {
      outcome = step(path, bytes);
      if (outcome != 0) {
        return outcome;
      }
      if (bytes == path.size()) {
        break;
      }
    }
  }
  return held_.empty() ? root_ : held_.back().fd.get();
}

void FolderCache::clear() {
  held_.clear();
}

std::string_view parent_path(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? std::string_view() : path.substr(0, slash);
}

std::string last_part(std::string_view path) {
  const std::size_t slash = path.rfind('/');
  return std::string(slash == std::string_view::npos ? path : path.substr(slash + 1));
}

bool is_within(std::string_view path, std::string_view folder) {
  return folder.empty() ||
         (path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/'));
}

}  // namespace ascope
