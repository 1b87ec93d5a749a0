// SPDX-License-Identifier: Apache-2.0
#include "core/base/units.h"

#include <array>
#include <charconv>
#include <ctime>
#include <limits>

#include <fmt/format.h>

namespace ascope {

namespace {

struct DurationUnit {
  std::string_view name;
  std::int64_t millis;
};
constexpr std::array<DurationUnit, 5> kDurationUnits{
    {{"d", 86'400'000}, {"h", 3'600'000}, {"m", 60'000}, {"s", 1000}, {"ms", 1}}};

struct SizeUnit {
  std::string_view name;
  std::uint64_t bytes;
};
constexpr std::array<SizeUnit, 10> kSizeUnits{{{"B", 1},
                                               {"KiB", 1ULL << 10U},
                                               {"MiB", 1ULL << 20U},
                                               {"GiB", 1ULL << 30U},
                                               {"TiB", 1ULL << 40U},
                                               {"KB", 1000},
                                               {"kB", 1000},
                                               {"MB", 1000'000},
                                               {"GB", 1000'000'000},
                                               {"TB", 1000'000'000'000}}};

Error duration_error(std::string_view text) {
  return make_error(ErrorKind::usage, fmt::format("'{}' is not a duration", text),
                    "write a number with a unit, such as 500ms, 60s, 15m, 12h or 7d");
}

}  // namespace

Result<Millis> parse_duration(std::string_view text) {
  if (text == "0") {
    return Millis(0);
  }
  if (text.empty()) {
    return duration_error(text);
  }
  std::int64_t total = 0;
  std::string_view rest = text;
  while (!rest.empty()) {
    std::uint32_t number = 0;
    const auto [end, ec] = std::from_chars(rest.data(), rest.data() + rest.size(), number);
    if (ec != std::errc{}) {
      return duration_error(text);
    }
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    const auto unit_length = std::min(rest.find_first_of("0123456789"), rest.size());
    const std::string_view name = rest.substr(0, unit_length);
    rest.remove_prefix(unit_length);
    std::int64_t factor = 0;
    for (const auto& unit : kDurationUnits) {
      if (unit.name == name) {
        factor = unit.millis;
      }
    }
    constexpr std::int64_t kMax = 100LL * 366 * 86'400'000;  // a century: more is a slip
    if (factor == 0 || number > kMax / factor || total > kMax - static_cast<std::int64_t>(number) * factor) {
      return duration_error(text);
    }
    total += static_cast<std::int64_t>(number) * factor;
  }
  return Millis(total);
}

std::string format_duration(Millis value) {
  std::int64_t rest = value.count();
  if (rest <= 0) {
    return "0s";
  }
  std::string out;
  for (const auto& unit : kDurationUnits) {
    if (rest >= unit.millis) {
      out += fmt::format("{}{}", rest / unit.millis, unit.name);
      rest %= unit.millis;
    }
  }
  return out;
}

Result<std::uint64_t> parse_size(std::string_view text, bool bare_ok) {
  std::uint64_t number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  const std::string_view name = text.substr(static_cast<std::size_t>(end - text.data()));
  if (ec == std::errc{}) {
    if (name.empty() && bare_ok) {
      return number;
    }
    for (const auto& unit : kSizeUnits) {
      if (unit.name == name && number <= std::numeric_limits<std::uint64_t>::max() / unit.bytes) {
        return number * unit.bytes;
      }
    }
  }
  return make_error(ErrorKind::usage, fmt::format("'{}' is not a size", text),
                    "write a number with a unit, such as 64KiB, 512MiB or 2GiB");
}

Result<std::uint64_t> parse_count(std::string_view text) {
  std::uint64_t number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (ec != std::errc{} || end != text.data() + text.size()) {
    return make_error(ErrorKind::usage, fmt::format("'{}' is not a whole number", text),
                      "write digits alone, such as 20");
  }
  return number;
}

std::string format_size(std::uint64_t bytes) {
  constexpr std::array<std::string_view, 5> kNames{"B", "KiB", "MiB", "GiB", "TiB"};
  auto value = static_cast<double>(bytes);
  std::size_t step = 0;
  while (value >= 1024 && step + 1 < kNames.size()) {
    value /= 1024;
    ++step;
  }
  return step == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", value, kNames[step]);
}

std::string format_time(std::chrono::system_clock::time_point time) {
  const auto millis = std::chrono::floor<Millis>(time.time_since_epoch());
  const auto seconds = std::chrono::floor<std::chrono::seconds>(millis);
  const std::time_t clock = seconds.count();
  std::tm parts{};
  ::gmtime_r(&clock, &parts);
  return fmt::format("{:04}-{:02}-{:02}T{:02}:{:02}:{:02}.{:03}Z", parts.tm_year + 1900, parts.tm_mon + 1,
                     parts.tm_mday, parts.tm_hour, parts.tm_min, parts.tm_sec, (millis - seconds).count());
}

Result<std::chrono::system_clock::time_point> parse_time(std::string_view text) {
  const std::string copy(text);
  std::tm parts{};
  const char* rest = ::strptime(copy.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  std::int64_t millis = 0;
  if (rest != nullptr && *rest == '.') {
    ++rest;
    std::int64_t scale = 100;
    while (*rest >= '0' && *rest <= '9') {
      millis += (*rest - '0') * scale;
      scale /= 10;
      ++rest;
    }
  }
  if (rest == nullptr || std::string_view(rest) != "Z") {
    return make_error(ErrorKind::corrupt,
                      fmt::format("'{}' is not a time such as 2026-01-02T03:04:05Z", text));
  }
  return std::chrono::system_clock::time_point(std::chrono::seconds(::timegm(&parts)) + Millis(millis));
}

std::string format_age(Millis age) {
  const std::int64_t seconds = std::max<std::int64_t>(0, age.count() / 1000);
  const auto say = [](std::int64_t count, std::string_view unit) {
    return fmt::format("{} {}{} ago", count, unit, count == 1 ? "" : "s");
  };
  if (seconds < 60) {
    return say(seconds, "second");
  }
  if (seconds < 3600) {
    return say(seconds / 60, "minute");
  }
  if (seconds < 86'400) {
    return say(seconds / 3600, "hour");
  }
  return say(seconds / 86'400, "day");
}

Result<double> parse_percent(std::string_view text) {
  double value = 0;
  const std::string_view number = text.substr(0, text.empty() ? 0 : text.size() - 1);
  const auto read =
      std::from_chars(number.data(), number.data() + number.size(), value, std::chars_format::fixed);
  const bool whole =
      read.ec == std::errc() && read.ptr == number.data() + number.size() && text.ends_with('%');
  if (!whole || !(value > 0) || value > 100) {
    return make_error(ErrorKind::usage, "'" + std::string(text) + "' is no percentage",
                      "write more than 0% and at most 100%, such as 5%");
  }
  return value;
}

}  // namespace ascope
