// SPDX-License-Identifier: Apache-2.0
#include "core/profile/variables.h"

#include <cctype>
#include <functional>

#include <fmt/format.h>

#include "core/profile/profile.h"

namespace ascope {
namespace {

bool is_name(std::string_view name) {
  if (name.empty() || std::isdigit(static_cast<unsigned char>(name.front())) != 0) {
    return false;
  }
  for (const char c : name) {
    if (c != '_' &&
        (std::isalnum(static_cast<unsigned char>(c)) == 0 || static_cast<unsigned char>(c) > 0x7f)) {
      return false;
    }
  }
  return true;
}

// Copies `text`, with what `replace` gives in place of each reference.
Result<std::string> substitute(std::string_view text,
                               const std::function<Result<std::string>(std::string_view)>& replace) {
  std::string out;
  std::size_t at = 0;
  while (true) {
    const std::size_t found = text.find("${", at);
    if (found == std::string_view::npos) {
      out += text.substr(at);
      return out;
    }
    if (found > at && text[found - 1] == '$') {
      out += text.substr(at, found - 1 - at);
      out += "${";
      at = found + 2;
      continue;
    }
    out += text.substr(at, found - at);
    const std::size_t end = text.find('}', found);
    const std::string_view name =
        end == std::string_view::npos ? std::string_view() : text.substr(found + 2, end - found - 2);
    if (!is_name(name)) {
      return make_error(ErrorKind::config, "'${' does not begin the name of a variable such as ${NAME}",
                        "write $${ for the characters ${ themselves");
    }
    ASCOPE_TRY_ASSIGN(const std::string value, replace(name));
    out += value;
    at = end + 1;
  }
}

}  // namespace

Result<std::string> expand_variables(std::string_view text,
                                     const std::map<std::string, std::string>& environment) {
  return substitute(text, [&](std::string_view name) -> Result<std::string> {
    const auto found = environment.find(std::string(name));
    if (found == environment.end()) {
      return make_error(ErrorKind::config, fmt::format("environment variable '{}' is not set", name),
                        fmt::format("set it: export {}=…", name));
    }
    return found->second;
  });
}

bool has_variables(std::string_view text) {
  bool found = false;
  const auto walked = substitute(text, [&](std::string_view) -> Result<std::string> {
    found = true;
    return std::string();
  });
  return found || !walked;
}

Result<void> check_variables(std::string_view text) {
  ASCOPE_TRY(substitute(text, [](std::string_view) -> Result<std::string> { return std::string(); }));
  return ok();
}

std::string mask_variables(std::string_view text) {
  auto masked =
      substitute(text, [](std::string_view) -> Result<std::string> { return std::string("********"); });
  return masked ? std::move(masked).value() : "********";
}

}  // namespace ascope
