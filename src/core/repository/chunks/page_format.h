// SPDX-License-Identifier: Apache-2.0
// What the writer and the reader of pages share (page.h).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace ascope::chunks {

inline constexpr std::string_view kPageMagic = "ASPG";
inline constexpr std::uint8_t kPageVersion = 1;
inline constexpr std::uint8_t kRunsKind = 8;
inline constexpr std::uint8_t kChunksKind = 9;

// Limits of an entry.
inline constexpr std::uint64_t kMaxFileSize = INT64_MAX;
inline constexpr std::size_t kMaxText = 64U << 10U;  // a path, a target, the value of an attribute
inline constexpr std::size_t kMaxXattrs = 4096;
inline constexpr std::size_t kMaxXattrName = 255;
inline constexpr std::uint32_t kModeBits = 07777;

}  // namespace ascope::chunks
