// SPDX-License-Identifier: Apache-2.0
// Where a chunk lies: the words that every part of the chunk store speaks in.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <string_view>

#include "core/base/bytes.h"

namespace ascope::chunks {

inline constexpr std::uint32_t kMaxRawBytes = 8U << 20U;  // of a frame, and so of a chunk
inline constexpr std::size_t kIdBytes = 32;
inline constexpr std::size_t kNameBytes = 16;

// A fixed number of bytes that are spread evenly: digests and random names.
template <std::size_t kSize, typename Tag>
struct Token {
  std::array<char, kSize> bytes{};
  auto operator<=>(const Token& other) const {
    return view() <=> other.view();  // as unsigned bytes
  }
  bool operator==(const Token& other) const { return bytes == other.bytes; }
  [[nodiscard]] ByteView view() const { return {bytes.data(), kSize}; }
  // REQUIRES: as many bytes.
  static Token of(ByteView from) {
    Token out;
    from.copy(out.bytes.data(), kSize);
    return out;
  }
  struct Hash {
    std::size_t operator()(const Token& token) const {
      std::size_t value = 0;
      std::memcpy(&value, token.bytes.data(), sizeof value);
      return value;
    }
  };
};

struct ChunkTag {};
struct PackTag {};
using ChunkId = Token<kIdBytes, ChunkTag>;    // SHA-256 of the content, or its HMAC under the store's key
using PackName = Token<kNameBytes, PackTag>;  // random, never used again

enum class Codec : std::uint8_t { raw = 0, zstd = 1 };

// A run of bytes in a pack that is compressed as one.
struct FrameRef {
  std::uint32_t offset = 0;  // in the pack
  std::uint32_t stored = 0;  // bytes there
  std::uint32_t raw = 0;     // bytes when unpacked
  Codec codec = Codec::raw;
  bool operator==(const FrameRef&) const = default;
};

// What somebody says of a frame may be acted upon: it is of bounded size, stored and unpacked, and no smaller
// form was passed over (16 bytes are the tag of an encrypted one).
inline bool is_sane(const FrameRef& frame) {
  return frame.raw > 0 && frame.raw <= kMaxRawBytes && frame.stored > 0 && frame.stored <= frame.raw + 16;
}

// A chunk's place: bytes [at, at + raw) of the unpacked frame. `pack` counts in a table of the context.
struct ChunkRef {
  ChunkId id;
  std::uint32_t pack = 0;
  FrameRef frame;
  std::uint32_t at = 0;
  std::uint32_t raw = 0;
  bool operator==(const ChunkRef&) const = default;
};

// The chunk's part of its frame's stored bytes, rounded down.
inline std::uint64_t stored_share(const ChunkRef& ref) {
  return std::uint64_t{ref.frame.stored} * ref.raw / ref.frame.raw;
}

// "packs/ab/abcd…": the object of a pack.
std::string pack_key(const PackName& name);
// A fresh name.
PackName random_pack_name();
Result<PackName> pack_name_from_hex(std::string_view hex);

}  // namespace ascope::chunks
