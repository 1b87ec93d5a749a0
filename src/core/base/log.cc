// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <map>
#include <unistd.h>

#include "core/base/fd.h"
#include "core/base/json.h"
#include "core/base/units.h"

namespace ascope {

namespace {

struct LogSettings {
  LogLevel fallback = LogLevel::off;
  std::map<std::string, LogLevel, std::less<>> categories;
  bool as_json = false;
};

LogSettings& settings() {
  static LogSettings instance;
  return instance;
}

Result<LogLevel> parse_level(std::string_view text) {
  if (text == "off") {
    return LogLevel::off;
  }
  if (text == "warn") {
    return LogLevel::warn;
  }
  if (text == "info") {
    return LogLevel::info;
  }
  if (text == "debug") {
    return LogLevel::debug;
  }
  return make_error(ErrorKind::usage, fmt::format("'{}' is not a log level", text),
                    "use off, warn, info or debug, alone or as CATEGORY=LEVEL,…");
}

std::string_view level_name(LogLevel level) {
  switch (level) {
    case LogLevel::off:
      return "off";
    case LogLevel::warn:
      return "warn";
    case LogLevel::info:
      return "info";
    case LogLevel::debug:
      return "debug";
  }
  return "off";
}

}  // namespace

Result<void> configure_log(std::string_view spec, bool as_json) {
  settings().as_json = as_json;
  while (!spec.empty()) {
    const auto comma = std::min(spec.find(','), spec.size());
    const std::string_view item = spec.substr(0, comma);
    spec.remove_prefix(std::min(comma + 1, spec.size()));
    const auto equals = item.find('=');
    if (equals == std::string_view::npos) {
      ASCOPE_TRY_ASSIGN(settings().fallback, parse_level(item));
    } else {
      ASCOPE_TRY_ASSIGN(settings().categories[std::string(item.substr(0, equals))],
                        parse_level(item.substr(equals + 1)));
    }
  }
  return ok();
}

bool log_enabled(std::string_view category, LogLevel level) {
  const auto& current = settings();
  const auto it = current.categories.find(category);
  return level != LogLevel::off && level <= (it == current.categories.end() ? current.fallback : it->second);
}

void log_line(std::string_view category, LogLevel level, std::string_view text) {
  std::string line;
  if (settings().as_json) {
    line = dump_json(Json{{"time", format_time(std::chrono::system_clock::now())},
                          {"level", level_name(level)},
                          {"category", category},
                          {"message", bytes_json(text)}});
  } else {
    line = fmt::format("ascope-sandbox: {}: {}: {}", level_name(level), category, text);
  }
  line += '\n';
  // A log line that cannot be written has nowhere to be reported.
  static_cast<void>(write_all(STDERR_FILENO, line).has_value());
}

}  // namespace ascope
