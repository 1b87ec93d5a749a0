// SPDX-License-Identifier: Apache-2.0
// What the fuzz targets share. A target is one file fuzz_NAME.cc, its name in meson.build and a seed in
// seeds.cc.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <string_view>

#include "core/tree/tree.h"

namespace ascope::fuzz {

inline std::string_view view(const std::uint8_t* data, std::size_t size) {
  return {reinterpret_cast<const char*>(data), size};
}

// What must hold for any input.
inline void expect(bool holds) {
  if (!holds) {
    std::abort();
  }
}

// Reads a tree to its end, its first error, or some thousand blocks (a little input may unpack to a lot):
// paths are checked and data lies within its file, whatever the input says.
inline void read_tree(TreeSource& tree) {
  constexpr std::size_t kMostBlocks = 4096;
  TreeEntry entry;
  std::size_t blocks = 0;
  while (blocks < kMostBlocks) {
    const Result<bool> more = tree.next(entry);
    if (!more || !*more) {
      return;
    }
    expect(check_tree_path(entry.path, true).has_value());
    std::uint64_t end = 0;
    while (entry.type == EntryType::file && blocks++ < kMostBlocks) {
      const Result<std::optional<DataBlock>> block = tree.read();
      if (!block) {
        return;
      }
      if (!*block) {
        break;
      }
      expect((*block)->offset >= end);
      end = (*block)->offset + (*block)->bytes.size();
      expect(end <= entry.size_bytes);
    }
  }
}

}  // namespace ascope::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);
