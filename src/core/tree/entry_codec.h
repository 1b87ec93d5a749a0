// SPDX-License-Identifier: Apache-2.0
// TreeEntry as bytes: the payload of a stream's 'E' frame (stream.h), and of the applier's plan on disk.
#pragma once

#include <string>

#include "core/base/bytes.h"
#include "core/tree/tree.h"

namespace ascope {

inline constexpr std::size_t kMaxEntryBytes = 1U << 20U;

// Appends the entry without its extents.
void encode_entry(const TreeEntry& entry, std::string& out);
// Strict: every byte is used, every number in its range, the path checked (the root allowed). `corrupt`.
Result<void> decode_entry(ByteView bytes, TreeEntry& entry);

void put_number(std::string& out, std::uint64_t value, unsigned bytes);
// REQUIRES: `bytes` holds as many.
std::uint64_t get_number(ByteView data, unsigned bytes);

}  // namespace ascope
