// SPDX-License-Identifier: Apache-2.0
#include "core/profile/store_text.h"

#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "core/profile/variables.h"

namespace ascope {
namespace {

// How the prefix of a bundle becomes that of its parts.
enum class Bundle { no, prefix_key, path, as_is };
enum class Names { nothing, host_path, command, endpoint };

struct Scheme {
  std::string_view name;
  bool shared;
  bool state, snapshots, leases, projection;
  Bundle bundle;
  Names names;
};

// product 4, "Stores are URLs".
constexpr std::array kSchemes = {
    Scheme{"none", false, false, true, true, false, Bundle::no, Names::nothing},
    Scheme{"local", false, false, true, false, false, Bundle::no, Names::host_path},
    Scheme{"json", false, true, false, false, false, Bundle::no, Names::host_path},
    Scheme{"sqlite", false, true, true, true, false, Bundle::no, Names::host_path},
    Scheme{"redis", true, true, true, true, true, Bundle::prefix_key, Names::endpoint},
    Scheme{"rediss", true, true, true, true, true, Bundle::prefix_key, Names::endpoint},
    Scheme{"redis+unix", true, true, true, true, true, Bundle::prefix_key, Names::endpoint},
    Scheme{"redis+sentinel", true, true, true, true, true, Bundle::prefix_key, Names::endpoint},
    Scheme{"mysql", true, true, true, true, true, Bundle::as_is, Names::endpoint},
    Scheme{"postgresql", true, true, true, true, true, Bundle::as_is, Names::endpoint},
    Scheme{"s3", true, true, true, true, true, Bundle::path, Names::endpoint},
    Scheme{"command", true, true, true, true, true, Bundle::no, Names::command},
};

constexpr std::array<std::string_view, 10> kSecretNames = {
    "password",   "passwd", "pass",          "pw",           "secret",
    "secret_key", "token",  "session_token", "access_token", "secret_access_key"};

const Scheme* find_scheme(std::string_view text) {
  const std::string_view name = text.substr(0, text.find(':'));
  const auto* const found = std::find_if(kSchemes.begin(), kSchemes.end(),
                                         [&](const Scheme& scheme) { return scheme.name == name; });
  if (found == kSchemes.end() || (name != "none" && name.size() == text.size()) ||
      (name == "none" && text != "none")) {
    return nullptr;
  }
  return found;
}

std::string_view part_word(StorePart part) {
  switch (part) {
    case StorePart::state:
      return "session";
    case StorePart::snapshots:
      return "snapshot";
    case StorePart::leases:
      return "guard";
    case StorePart::projection:
      return "store";
  }
  return "";
}

// Where the query begins; the text's size if there is none.
std::size_t query_start(std::string_view text) {
  return std::min(text.find('?'), text.size());
}

std::string percent_encode_path(std::string_view path) {
  std::string out;
  for (const char c : path) {
    if (c == '%' || c == '&' || c == '#' || c == '?' || c == '+' || c == ' ') {
      out += fmt::format("%{:02X}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    } else {
      out += c;
    }
  }
  return out;
}

// The query with a relative password_file made absolute.
Result<std::string> resolve_query(std::string_view query, std::string_view key, const YamlNode& node,
                                  const ProfileSource& source) {
  constexpr std::string_view kFile = "password_file=";
  std::string out;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    out += out.empty() ? "?" : "&";
    if (!item.starts_with(kFile)) {
      out += item;
      continue;
    }
    const std::string_view path = item.substr(kFile.size());
    source.needs_trust(node, key, "names a file with a secret");
    const bool as_is = path.starts_with('/') || path.starts_with("%2F") || has_variables(path);
    out += kFile;
    if (as_is) {
      out += path;
    } else {
      ASCOPE_TRY_ASSIGN(const std::string absolute, resolve_host_path(path, key, node, source));
      out += percent_encode_path(absolute);
    }
  }
  return out;
}

// The part before the query, with a host path or a program's path made absolute.
Result<std::string> resolve_place(const Scheme& scheme, std::string_view text, std::string_view key,
                                  const YamlNode& node, const ProfileSource& source) {
  const std::string_view path = text.substr(std::min(scheme.name.size() + 1, text.size()));
  if (scheme.names == Names::endpoint) {
    source.needs_trust(node, key, "names an endpoint");
    return std::string(text);
  }
  if (scheme.names == Names::command) {
    source.needs_trust(node, key, "names a command");
    if (path.empty()) {
      return source.error(node, fmt::format("'{}' names no program", key), "write command:PROGRAM");
    }
    if (path.find('/') == std::string_view::npos) {
      return std::string(text);
    }
  }
  if (path.empty() || path.starts_with("${")) {
    return std::string(text);
  }
  ASCOPE_TRY_ASSIGN(const std::string absolute, resolve_host_path(path, key, node, source));
  if (absolute.find('?') != std::string::npos) {
    return source.error(node,
                        fmt::format("'{}' names '{}'; a store's path cannot hold a '?'", key, absolute));
  }
  return fmt::format("{}:{}", scheme.name, absolute);
}

}  // namespace

bool is_store_url(std::string_view text) {
  return find_scheme(text) != nullptr;
}

bool is_shared_store(std::string_view url) {
  const Scheme* const scheme = find_scheme(url);
  return scheme != nullptr && scheme->shared;
}

bool store_can_keep(std::string_view url, StorePart part) {
  const Scheme* const scheme = find_scheme(url);
  if (scheme == nullptr) {
    return false;
  }
  switch (part) {
    case StorePart::state:
      return scheme->state;
    case StorePart::snapshots:
      return scheme->snapshots;
    case StorePart::leases:
      return scheme->leases;
    case StorePart::projection:
      return scheme->projection;
  }
  return false;
}

bool can_be_distributed(std::string_view url) {
  const Scheme* const scheme = find_scheme(url);
  return scheme != nullptr && scheme->bundle != Bundle::no;
}

// Names and defaults as AgentScope's bundles have them (reference 4.9).
std::string distributed_part(std::string_view url, StorePart part) {
  const Scheme* const scheme = find_scheme(url);
  if (scheme == nullptr || scheme->bundle == Bundle::no || scheme->bundle == Bundle::as_is) {
    return std::string(url);
  }
  const std::size_t start = query_start(url);
  std::string place(url.substr(0, start));
  std::string query(url.substr(start));
  if (scheme->bundle == Bundle::path) {
    const std::size_t slash = place.find('/', std::string_view("s3://").size());
    const std::string prefix =
        slash == std::string::npos || slash + 1 == place.size() ? "" : place.substr(slash + 1);
    place.resize(std::min(slash, place.size()));
    const std::string_view folder = part == StorePart::state ? "state" : part_word(part);
    const std::string base = prefix.empty() ? "agentscope/" : prefix + (prefix.ends_with('/') ? "" : "/");
    return fmt::format("{}/{}{}/{}", place, base, folder, query);
  }
  constexpr std::string_view kPrefix = "prefix=";
  std::size_t at = query.find("?prefix=");
  at = at == std::string::npos ? query.find("&prefix=") : at;
  if (at == std::string::npos) {
    query += fmt::format("{}{}agentscope:{}:", query.empty() ? "?" : "&", kPrefix, part_word(part));
  } else {
    const std::size_t end = std::min(query.find('&', at + 1), query.size());
    query.insert(end, fmt::format("{}:", part_word(part)));
  }
  return place + query;
}

std::string literal_secret(std::string_view text) {
  const std::size_t colon = text.find("://");
  if (colon != std::string_view::npos) {
    std::string_view authority = text.substr(colon + 3);
    authority = authority.substr(0, authority.find_first_of("/?#"));
    const std::size_t at = authority.rfind('@');
    if (at != std::string_view::npos) {
      const std::string_view user = authority.substr(0, at);
      const std::size_t separator = user.find(':');
      const std::string_view password =
          separator == std::string_view::npos ? std::string_view() : user.substr(separator + 1);
      if (!password.empty() && !has_variables(password)) {
        return "has a password written out";
      }
    }
  }
  std::string_view query = text.substr(query_start(text));
  while (!query.empty()) {
    query.remove_prefix(1);
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view item = query.substr(0, end);
    query.remove_prefix(end);
    const std::size_t equals = std::min(item.find('='), item.size());
    const std::string_view name = item.substr(0, equals);
    const bool secret = std::find(kSecretNames.begin(), kSecretNames.end(), name) != kSecretNames.end();
    if (secret && equals + 1 < item.size() && !has_variables(item.substr(equals + 1))) {
      return fmt::format("has a '{}' written out", name);
    }
  }
  return {};
}

Result<std::string> resolve_store_url(std::string_view text, std::string_view key, const YamlNode& node,
                                      const ProfileSource& source) {
  const Scheme* const scheme = find_scheme(text);
  if (scheme == nullptr) {
    std::vector<std::string_view> names;
    names.reserve(std::size(kSchemes));
    for (const Scheme& known : kSchemes) {
      names.push_back(known.name);
    }
    const std::string_view word = text.substr(0, text.find(':'));
    if (std::find(names.begin(), names.end(), word) != names.end()) {
      return source.error(node, fmt::format("'{}' is not a store's URL", mask_variables(text)),
                          word == "none" ? "write none" : fmt::format("write {}:…", word));
    }
    return source.unknown_word(node, fmt::format("store '{}' for '{}'", word, key), word, names);
  }
  if (auto valid = check_variables(text); !valid) {
    return source.placed(node, std::move(valid).error());
  }
  if (const std::string problem = literal_secret(text); !problem.empty()) {
    return source.error(node, fmt::format("the URL of '{}' {}", key, problem),
                        "write ${NAME} in its place and set that variable, or give a password_file");
  }
  const std::size_t start = query_start(text);
  ASCOPE_TRY_ASSIGN(std::string place, resolve_place(*scheme, text.substr(0, start), key, node, source));
  ASCOPE_TRY_ASSIGN(const std::string query,
                    resolve_query(text.substr(std::min(start + 1, text.size())), key, node, source));
  return place + query;
}

}  // namespace ascope
