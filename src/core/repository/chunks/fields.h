// SPDX-License-Identifier: Apache-2.0
// Numbers and strings in the objects of the chunk store: little endian, and variable-length ("varint": seven
// bits a byte, lowest first, the high bit says that more follow; at most ten bytes, never with a useless zero
// byte at the end).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/bytes.h"

namespace ascope::chunks {

inline void put_fixed(std::string& out, std::uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i) {
    out.push_back(static_cast<char>((value >> (8 * i)) & 255U));
  }
}

inline void put_varint(std::string& out, std::uint64_t value) {
  while (value >= 128) {
    out.push_back(static_cast<char>((value & 127U) | 128U));
    value >>= 7U;
  }
  out.push_back(static_cast<char>(value));
}

inline void put_text(std::string& out, std::string_view value) {
  put_varint(out, value.size());
  out += value;
}

// Reads from the front of hostile bytes. After something that does not fit, everything is empty and good() is
// false.
class FieldReader {
 public:
  explicit FieldReader(ByteView bytes) : rest_(bytes) {}

  std::uint64_t fixed(unsigned bytes) {
    const ByteView taken = bytes_of(bytes);
    std::uint64_t value = 0;
    for (std::size_t i = 0; i < taken.size(); ++i) {
      value |= static_cast<std::uint64_t>(static_cast<unsigned char>(taken[i])) << (8 * i);
    }
    return value;
  }
  std::uint32_t u32() { return static_cast<std::uint32_t>(fixed(4)); }
  std::uint8_t u8() { return static_cast<std::uint8_t>(fixed(1)); }

  // More than `limit` does not fit.
  std::uint64_t varint(std::uint64_t limit = UINT64_MAX) {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 70 && !rest_.empty(); shift += 7) {
      const auto byte = static_cast<unsigned char>(rest_.front());
      const auto bits = static_cast<std::uint64_t>(byte & 127U);
      rest_.remove_prefix(1);
      if (shift == 63 && bits > 1) {
        break;
      }
      value |= bits << shift;
      if ((byte & 128U) == 0) {
        if (value > limit || (byte == 0 && shift != 0)) {
          break;
        }
        return value;
      }
    }
    fail();
    return 0;
  }
  std::uint32_t varint32(std::uint32_t limit = UINT32_MAX) {
    return static_cast<std::uint32_t>(varint(limit));
  }

  ByteView bytes_of(std::size_t count) {
    if (count > rest_.size()) {
      fail();
      return {};
    }
    const ByteView taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  ByteView text(std::size_t limit) { return bytes_of(static_cast<std::size_t>(varint(limit))); }

  void fail() {
    good_ = false;
    rest_ = {};
  }
  [[nodiscard]] bool good() const { return good_; }
  [[nodiscard]] bool at_end() const { return rest_.empty(); }
  [[nodiscard]] std::size_t left() const { return rest_.size(); }

 private:
  ByteView rest_;
  bool good_ = true;
};

}  // namespace ascope::chunks
