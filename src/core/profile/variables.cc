// SPDX-License-Identifier: Apache-2.0
#include "core/profile/variables.h"

#include <algorithm>
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

std::string percent_encode(std::string_view value) {
  std::string out;
  for (const char c : value) {
    const auto byte = static_cast<unsigned char>(c);
    const bool plain = byte < 0x80 && (std::isalnum(byte) != 0 ||
                                       std::string_view("-._~").find(c) != std::string_view::npos);
    out += plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned>(byte));
  }
  return out;
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

Result<std::string> expand_store_url(std::string_view url,
                                     const std::map<std::string, std::string>& environment) {
  const std::size_t query = std::min(url.find('?'), url.size());
  const std::size_t slashes = url.find("://");
  std::size_t password = query;  // where a password begins and ends
  std::size_t at = query;
  if (slashes < query) {
    const std::size_t end = std::min(url.find_first_of("/?#", slashes + 3), url.size());
    const std::size_t sign = url.substr(0, end).rfind('@');
    const std::size_t colon = url.find(':', slashes + 3);
    if (sign != std::string_view::npos && colon < sign) {
      password = colon + 1;
      at = sign;
    }
  }
  std::map<std::string, std::string> encoded;
  for (const auto& [name, value] : environment) {
    encoded.emplace(name, percent_encode(value));
  }
  ASCOPE_TRY_ASSIGN(std::string out, expand_variables(url.substr(0, password), environment));
  ASCOPE_TRY_ASSIGN(const std::string secret, expand_variables(url.substr(password, at - password), encoded));
  ASCOPE_TRY_ASSIGN(const std::string place, expand_variables(url.substr(at, query - at), environment));
  ASCOPE_TRY_ASSIGN(const std::string options, expand_variables(url.substr(query), encoded));
  return out + secret + place + options;
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
