// SPDX-License-Identifier: Apache-2.0
// The walker's order of paths: part by part as raw bytes, a folder before what it holds. Which is the order
// of the paths' bytes if '/' were smaller than any other.
#pragma once

#include <algorithm>
#include <compare>
#include <string_view>

namespace ascope::chunks {

inline std::strong_ordering order_of_paths(std::string_view a, std::string_view b) {
  const auto [at, other] = std::mismatch(
      a.begin(), a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size())), b.begin());
  if (at == a.begin() + static_cast<std::ptrdiff_t>(std::min(a.size(), b.size()))) {
    return a.size() <=> b.size();
  }
  const auto rank = [](char c) { return c == '/' ? 0 : 1 + static_cast<int>(static_cast<unsigned char>(c)); };
  return rank(*at) <=> rank(*other);
}

inline bool path_before(std::string_view a, std::string_view b) {
  return order_of_paths(a, b) < 0;
}

}  // namespace ascope::chunks
