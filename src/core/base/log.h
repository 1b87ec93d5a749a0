// SPDX-License-Identifier: Apache-2.0
// Log lines for people who debug, on stderr, off by default: -v, or ASCOPE_LOG=bubblewrap=debug,store=info.
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "core/base/error.h"

namespace ascope {

enum class LogLevel { off, warn, info, debug };

// Sets what is shown: "debug", or "category=level,…". `usage` for an unknown level. Called once, by `cli`.
Result<void> configure_log(std::string_view spec, bool as_json);
bool log_enabled(std::string_view category, LogLevel level);
void log_line(std::string_view category, LogLevel level, std::string_view text);

// Formats only when the line is shown. Never pass a Secret's revealed value.
template <typename... Args>
void log(std::string_view category, LogLevel level, fmt::format_string<Args...> format, Args&&... args) {
  if (log_enabled(category, level)) {
    log_line(category, level, fmt::format(format, std::forward<Args>(args)...));
  }
}

}  // namespace ascope
