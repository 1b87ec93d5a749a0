// SPDX-License-Identifier: Apache-2.0
// Exit codes (product 3). A test walks this table.
#pragma once

#include <span>
#include <string_view>

#include "core/base/error.h"

namespace ascope {

inline constexpr int kExitDone = 0;
inline constexpr int kExitDiffers = 1;
inline constexpr int kExitOurFailure = 125;  // exec, run, lock run: any failure of ours

int exit_code(const Error& error);

struct ExitCodeText {
  std::string_view code;
  std::string_view meaning;
};
std::span<const ExitCodeText> exit_code_texts();

}  // namespace ascope
