// SPDX-License-Identifier: Apache-2.0
// Durations, sizes and times as users write and read them.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include "core/base/error.h"

namespace ascope {

using Millis = std::chrono::milliseconds;

// "500ms", "60s", "15m", "12h", "7d", also "1h30m". A number without a unit is an error (but "0" is zero).
// `usage`.
Result<Millis> parse_duration(std::string_view text);
// "5%" or "0.5%": more than 0, at most 100. Errors are `usage`.
Result<double> parse_percent(std::string_view text);
// The shortest exact form: "1h30m", "500ms", "0s".
std::string format_duration(Millis value);
// "512", "64KiB", "20MiB", "2GiB", "1TiB", and KB/MB/GB/TB as powers of 1000; a bare number is bytes only if
// `bare_ok`.
Result<std::uint64_t> parse_size(std::string_view text, bool bare_ok = false);
// "0", "20": decimal digits alone. `usage`.
Result<std::uint64_t> parse_count(std::string_view text);
// For people: "0 B", "512 B", "1.5 MiB".
std::string format_size(std::uint64_t bytes);
// RFC 3339 in UTC with milliseconds: "2026-01-02T03:04:05.678Z".
std::string format_time(std::chrono::system_clock::time_point time);
Result<std::chrono::system_clock::time_point> parse_time(std::string_view text);
// How long ago, for people: "3 seconds ago", "2 days ago".
std::string format_age(Millis age);

}  // namespace ascope
