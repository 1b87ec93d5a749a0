// SPDX-License-Identifier: Apache-2.0
// What the processes of a sandbox may write to without the file's times telling.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <sys/types.h>

#include "core/base/error.h"

namespace ascope::local {

// Adds the inodes of all shared mappings, writable now or not, that a /proc/PID/maps lists.
void add_mapped_files(std::string_view maps, std::set<std::uint64_t>& inodes);

// Of every process below `guest` (as this host numbers it), itself not; nullopt: cannot be told, for a
// process does not let us look or they come and go too fast.
Result<std::optional<std::set<std::uint64_t>>> mapped_files_below(pid_t guest);
// The same of every other process in the guest's process namespace too: a container engine's exec is no child
// of it.
Result<std::optional<std::set<std::uint64_t>>> mapped_files_beside(pid_t guest);

}  // namespace ascope::local
