// SPDX-License-Identifier: Apache-2.0
// The user of a sandbox, whose the files are that come without an owner known inside.
#pragma once

#include <cstdint>

namespace ascope {

inline constexpr std::uint32_t kAgentId = 1000;  // uid and gid of `agent` inside

}  // namespace ascope
