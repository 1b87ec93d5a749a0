// SPDX-License-Identifier: Apache-2.0
#include "core/repository/chunks/chunker.h"

#include <algorithm>
#include <bit>

#include "core/base/hash.h"
#include "core/repository/chunks/fields.h"

namespace ascope::chunks {

namespace {

constexpr unsigned kNormalisation = 2;

constexpr std::uint64_t upper_bits(unsigned count) {
  return ~std::uint64_t{0} << (64U - count);
}

// Rolls over `data`; returns the number of bytes up to and with the first at which the masked hash is zero, 0
// if there is none.
std::size_t roll(const GearTable& gear, ByteView data, std::uint64_t mask, std::uint64_t& hash) {
  std::uint64_t h = hash;
  const auto* bytes = reinterpret_cast<const unsigned char*>(data.data());
  for (std::size_t i = 0; i < data.size(); ++i) {
    h = (h << 1U) + gear[bytes[i]];
    if ((h & mask) == 0) {
      return i + 1;
    }
  }
  hash = h;
  return 0;
}

}  // namespace

bool are_sane(const ChunkSizes& sizes) {
  return sizes.min >= 1U << 10U && sizes.min < sizes.avg && sizes.avg < sizes.max && sizes.max <= 1U << 20U &&
         std::has_single_bit(sizes.avg);
}

GearTable make_gear(ByteView seed) {
  GearTable gear{};
  for (std::size_t i = 0; i < gear.size(); i += 4) {
    std::string number;
    put_fixed(number, i / 4, 4);
    const std::string digest = sha256(std::string(seed) + number);
    FieldReader fields(digest);
    for (std::size_t k = 0; k < 4; ++k) {
      gear.at(i + k) = fields.fixed(8);
    }
  }
  return gear;
}

Chunker::Chunker(const GearTable& gear, const ChunkSizes& sizes) : gear_(gear), sizes_(sizes) {
  const auto bits = static_cast<unsigned>(std::countr_zero(sizes.avg));
  hard_mask_ = upper_bits(bits + kNormalisation);
  easy_mask_ = upper_bits(bits - kNormalisation);
}

Chunker::Step Chunker::feed(ByteView data) {
  Step step;
  const auto take_to = [&](std::size_t end) {
    return data.substr(step.taken, std::min(data.size() - step.taken, end - at_));
  };
  if (at_ < sizes_.min) {
    const std::size_t skipped = take_to(sizes_.min).size();
    step.taken += skipped;
    at_ += skipped;
  }
  while (step.taken < data.size() && !step.cut) {
    const bool early = at_ < sizes_.avg;
    const ByteView part = take_to(early ? sizes_.avg : sizes_.max);
    const std::size_t found = roll(gear_, part, early ? hard_mask_ : easy_mask_, hash_);
    const std::size_t count = found == 0 ? part.size() : found;
    step.taken += count;
    at_ += count;
    step.cut = found != 0 || at_ == sizes_.max;
  }
  if (step.cut) {
    reset();
  }
  return step;
}

}  // namespace ascope::chunks
