// SPDX-License-Identifier: Apache-2.0
// Cuts content where the content says so: FastCDC (Xia et al., USENIX ATC 2016 and TPDS 2020) with normalised
// chunking, so that an insertion moves the cut points next to it only.
//
// From a chunk's byte `min` on, h = (h << 1) + gear[byte], beginning with 0. The chunk ends behind the first
// byte at which the upper log2(avg) + 2 bits of h are zero, from byte `avg` on the upper log2(avg) - 2 bits,
// at `max` in any case, and at the end of the file. Where two programs cut differently nothing breaks; they
// only share less.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

#include "core/base/bytes.h"

namespace ascope::chunks {

struct ChunkSizes {
  std::uint32_t min = 16U << 10U;
  std::uint32_t avg = 64U << 10U;  // a power of two
  std::uint32_t max = 512U << 10U;
  bool operator==(const ChunkSizes&) const = default;
};
inline constexpr ChunkSizes kDefaultSizes;

// 1 KiB ≤ min < avg < max ≤ 1 MiB and avg a power of two: what we are ready to use of a store's own sizes.
bool are_sane(const ChunkSizes& sizes);

// 256 numbers: the i-th four are the 32 bytes of SHA-256(seed ‖ u32 i), little endian. A secret seed hides
// which known files a store holds, which cut points would tell.
using GearTable = std::array<std::uint64_t, 256>;
GearTable make_gear(ByteView seed);
// The seed of stores without encryption.
inline constexpr ByteView kOpenGearSeed = "ascope-sandbox gear 1";

class Chunker {
 public:
  explicit Chunker(const GearTable& gear, const ChunkSizes& sizes = kDefaultSizes);

  struct Step {
    std::size_t taken = 0;  // bytes of `data` that belong to the present chunk
    bool cut = false;       // it ends with them
  };
  // REQUIRES: `data` is what follows the bytes taken so far.
  Step feed(ByteView data);
  // The next byte begins a file.
  void reset() {
    at_ = 0;
    hash_ = 0;
  }

 private:
  GearTable gear_;
  ChunkSizes sizes_;
  std::uint64_t hard_mask_;
  std::uint64_t easy_mask_;
  std::size_t at_ = 0;  // bytes of the present chunk so far
  std::uint64_t hash_ = 0;
};

}  // namespace ascope::chunks
