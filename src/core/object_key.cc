// SPDX-License-Identifier: Apache-2.0
#include "core/object_key.h"

#include <algorithm>

namespace ascope {

bool is_object_key(std::string_view key) {
  constexpr std::size_t kMaxBytes = 512;
  constexpr std::size_t kMaxPartBytes = 255;  // of a file name on ext4
  constexpr std::string_view kSafe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-/";
  if (key.size() > kMaxBytes || key.find_first_not_of(kSafe) != std::string_view::npos) {
    return false;
  }
  for (std::size_t begin = 0; begin <= key.size();) {
    const std::size_t end = std::min(key.find('/', begin), key.size());
    // A part of '.' at its front: "..", and the temporary names of stores.
    if (end == begin || end - begin > kMaxPartBytes || key[begin] == '.') {
      return false;
    }
    begin = end + 1;
  }
  return true;
}

}  // namespace ascope
