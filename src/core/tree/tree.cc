// SPDX-License-Identifier: Apache-2.0
#include "core/tree/tree.h"

#include <algorithm>

namespace ascope {

namespace {

constexpr std::size_t kMaxPathBytes = 64U << 10U;
constexpr std::size_t kMaxPartBytes = 255;

Error bad_path(std::string_view path, std::string_view why) {
  constexpr std::size_t kShown = 200;
  std::string shown(path.substr(0, kShown));
  if (path.size() > kShown) {
    shown += "…";
  }
  return make_error(ErrorKind::corrupt, "path '" + shown + "' " + std::string(why));
}

}  // namespace

Result<void> check_tree_path(std::string_view path, bool root_ok) {
  if (path.empty()) {
    return root_ok ? ok() : Result<void>(make_error(ErrorKind::corrupt, "an entry has an empty path"));
  }
  if (path.size() > kMaxPathBytes) {
    return bad_path(path, "is longer than 64 KiB");
  }
  if (path.find('\0') != std::string_view::npos) {
    return bad_path(path.substr(0, path.find('\0')), "holds a NUL byte");
  }
  if (path.front() == '/') {
    return bad_path(path, "is absolute");
  }
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    if (part.empty() || part == "." || part == "..") {
      return bad_path(path, part == ".." ? "leaves its folder with '..'" : "has an empty or '.' part");
    }
    if (part.size() > kMaxPartBytes) {
      return bad_path(path, "has a part longer than 255 bytes");
    }
    begin = end + 1;
  }
  return ok();
}

}  // namespace ascope
