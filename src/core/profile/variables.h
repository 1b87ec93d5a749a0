// SPDX-License-Identifier: Apache-2.0
// References to environment variables, ${NAME}, in values of a profile; "$${" stands for a written "${".
#pragma once

#include <string>
#include <string_view>

#include "core/base/error.h"

namespace ascope {

// True if `text` holds at least one reference.
bool has_variables(std::string_view text);
// `config` if a "${" does not begin a reference such as ${NAME}.
Result<void> check_variables(std::string_view text);
// The text with each reference replaced by ********, for showing.
std::string mask_variables(std::string_view text);

}  // namespace ascope
