// SPDX-License-Identifier: Apache-2.0
// Disk space that a folder keeps back, for the small writes of what looks or frees space: on a full disk `gc`
// and `rm` must note what they do before they may do it.
#pragma once

#include <cstdint>
#include <string>

namespace ascope {

// For a command that only looks or goes in: an index of SQLite's log and a page or two of it.
inline constexpr std::uint64_t kRoomToLook = 128U << 10U;
// For one that frees space: some dozens of changes. All that is kept back.
inline constexpr std::uint64_t kRoomToFree = 2U << 20U;

// Makes the file "<folder>/reserve", or fills it up, if the disk has plenty of room. A failure is logged
// alone: the reserve is a comfort.
void keep_reserve(const std::string& folder);
// Gives up that many bytes of it if the disk has less room than that left.
void use_reserve(const std::string& folder, std::uint64_t bytes);

}  // namespace ascope
