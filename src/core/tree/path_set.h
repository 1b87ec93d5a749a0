// SPDX-License-Identifier: Apache-2.0
// Which paths an apply has seen, in 16 bytes each: keyed 128-bit hashes, since paths come from hostile
// archives by the million. The key is random, so that nobody can aim at a collision.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "core/tree/tree.h"

namespace ascope {

class PathSet {
 public:
  PathSet();
  // The mark of `path`, a number below 15 of the caller.
  [[nodiscard]] std::optional<std::uint8_t> find(std::string_view path) const;
  // Adds `path` or changes its mark.
  void set(std::string_view path, std::uint8_t mark);

 private:
  struct Slot {
    std::uint64_t high = 0;
    std::uint64_t low = 0;  // its last 4 bits are mark + 1; 0 = free
  };
  [[nodiscard]] Slot hash(std::string_view path) const;
  [[nodiscard]] std::size_t place(const Slot& wanted) const;
  void grow();

  std::uint64_t key_[2];
  std::size_t count_ = 0;
  std::vector<Slot> slots_;
};

}  // namespace ascope
