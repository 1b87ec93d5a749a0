// SPDX-License-Identifier: Apache-2.0
#include "core/profile/value.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdlib>
#include <vector>

#include <fmt/format.h>

#include "core/base/units.h"
#include "core/profile/store_text.h"
#include "core/profile/variables.h"

namespace ascope {
namespace {

std::vector<std::string_view> split_choices(std::string_view choices) {
  std::vector<std::string_view> words;
  while (!choices.empty()) {
    const std::size_t end = std::min(choices.find('|'), choices.size());
    words.push_back(choices.substr(0, end));
    choices.remove_prefix(std::min(end + 1, choices.size()));
  }
  return words;
}

bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// The scalar's text, whatever it holds.
Result<std::string> read_scalar(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  if (node.kind == YamlNode::Kind::null) {
    return source.error(node, fmt::format("'{}' has no value", name),
                        "write \"\" for an empty text; quote a text such as \"null\" or \"~\"");
  }
  if (node.kind != YamlNode::Kind::scalar) {
    return source.error(node, fmt::format("'{}' is {} where a text is needed", name, describe(node)));
  }
  if (node.text.find('\0') != std::string::npos) {
    return source.error(node, fmt::format("'{}' holds a NUL byte", name));
  }
  return node.text;
}

Result<std::uint64_t> read_number(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(const std::string text, read_scalar(name, node, source));
  std::uint64_t number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  const bool whole = is_digits(text) && text.front() != '0' && ec == std::errc{} && number <= INT64_MAX;
  if (!node.plain || !whole || end != text.data() + text.size()) {
    return source.error(node, fmt::format("'{}' is '{}' where a whole number is needed", name, text),
                        "write digits alone, from 1 up, without quotes");
  }
  return number;
}

Result<double> read_decimal(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(const std::string text, read_scalar(name, node, source));
  const std::size_t dot = text.find('.');
  const bool form =
      is_digits(text.substr(0, dot)) && (dot == std::string::npos || is_digits(text.substr(dot + 1)));
  double number = 0;
  const auto [end, ec] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (!node.plain || !form || ec != std::errc{} || end != text.data() + text.size() || number <= 0) {
    return source.error(node, fmt::format("'{}' is '{}' where a number is needed", name, text),
                        "write a number above 0 such as 2 or 1.5, without quotes");
  }
  return number;
}

// A text that `parse` (of a duration or a size) accepts, kept as written.
template <typename Parse>
Result<std::string> read_unit(std::string_view name, const YamlNode& node, const ProfileSource& source,
                              Parse parse) {
  ASCOPE_TRY_ASSIGN(std::string text, read_scalar(name, node, source));
  if (auto parsed = parse(text); !parsed) {
    return source.placed(node, std::move(parsed).error().within(fmt::format("'{}'", name)));
  }
  return text;
}

Result<std::string> read_duration(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  return read_unit(name, node, source, [](std::string_view text) { return parse_duration(text); });
}

Result<std::string> read_size(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(std::string text, read_unit(name, node, source, [](std::string_view written) {
                      return parse_size(written);
                    }));
  if (parse_size(text).value() == 0) {
    return source.error(node, fmt::format("'{}' is 0", name), "leave it out where there is no limit");
  }
  return text;
}

// A text whose ${VAR} are left in place: in a walked-up file one needs trust.
Result<std::string> read_expanding(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(std::string text, read_scalar(name, node, source));
  if (auto valid = check_variables(text); !valid) {
    return source.placed(node, std::move(valid).error());
  }
  if (has_variables(text)) {
    source.needs_trust(node, name, "takes a value from the environment");
  }
  if (const std::string problem = literal_secret(text); !problem.empty()) {
    return source.error(node, fmt::format("the URL of '{}' {}", name, problem),
                        "write ${NAME} in its place and set that variable");
  }
  return text;
}

Result<Json> read_list(const ProfileKey& key, const YamlNode& node, const ProfileSource& source) {
  if (!key.choices.empty() && node.kind == YamlNode::Kind::scalar) {
    ASCOPE_TRY_ASSIGN(const std::string word, read_choice(key.name, key.choices, node, source));
    return Json(word);
  }
  if (node.kind != YamlNode::Kind::list) {
    return source.error(node, fmt::format("'{}' is {} where a list is needed", key.name, describe(node)),
                        "write a list such as [\"a\", \"b\"]");
  }
  Json list = Json::array();
  for (const YamlNode* const item : node.items) {
    ASCOPE_TRY_ASSIGN(const std::string text, read_text(key.name, *item, source));
    if (text.empty()) {
      return source.error(*item, fmt::format("'{}' holds an empty text", key.name));
    }
    list.push_back(text);
  }
  return list;
}

Result<Json> read_keep_rule(std::string_view name, const YamlNode& name_node, const YamlNode& node,
                            const ProfileSource& source) {
  constexpr std::array<std::string_view, 6> kRules = {"last",   "hourly",  "daily",
                                                      "weekly", "monthly", "within"};
  if (std::find(kRules.begin(), kRules.end(), name) == kRules.end()) {
    return source.unknown_word(name_node, fmt::format("key '{}' in 'snapshots.keep'", name), name, kRules);
  }
  const std::string full = fmt::format("snapshots.keep.{}", name);
  if (name == "within") {
    ASCOPE_TRY_ASSIGN(const std::string text, read_duration(full, node, source));
    return Json(text);
  }
  ASCOPE_TRY_ASSIGN(const std::uint64_t number, read_number(full, node, source));
  return Json(number);
}

// An option of the provider: text as written, or a list of texts as its JSON.
Result<Json> read_option(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  const std::string full = fmt::format("backend.options.{}", name);
  source.needs_trust(node, full, "is an option of the backend's own");
  if (node.kind == YamlNode::Kind::list) {
    Json list = Json::array();
    for (const YamlNode* const item : node.items) {
      ASCOPE_TRY_ASSIGN(const std::string text, read_text(full, *item, source));
      list.push_back(text);
    }
    return Json(dump_json(list));
  }
  ASCOPE_TRY_ASSIGN(const std::string text, read_expanding(full, node, source));
  std::string plain;
  for (const char c : name) {
    if (c != '_' && c != '-') {
      plain += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
    }
  }
  constexpr std::array<std::string_view, 5> kSecretWords = {"password", "secret", "token", "apikey",
                                                            "credential"};
  const bool secret = std::any_of(kSecretWords.begin(), kSecretWords.end(), [&](std::string_view word) {
    return plain.find(word) != std::string::npos && !plain.ends_with("file") && !plain.ends_with("name");
  });
  if (secret && !text.empty() && !has_variables(text)) {
    return source.error(node, fmt::format("'{}' is a secret written out", full),
                        "write ${NAME} in its place and set that variable");
  }
  return Json(text);
}

Result<Json> read_environment(std::string_view name, const YamlNode& name_node, const YamlNode& node,
                              const ProfileSource& source) {
  if (name.empty() || name.find('=') != std::string_view::npos || name.find('\0') != std::string_view::npos) {
    return source.error(name_node, fmt::format("'{}' is no name of an environment variable", name));
  }
  ASCOPE_TRY_ASSIGN(const std::string text,
                    read_expanding(fmt::format("workspace.environment.{}", name), node, source));
  return Json(text);
}

Result<Json> read_path_or_store(const ProfileKey& key, const YamlNode& node, const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(const std::string raw, read_scalar(key.name, node, source));
  if (raw.empty() || (!key.choices.empty() && raw == key.choices)) {
    return Json(raw);
  }
  const bool url = key.name == "workspace.projection.source" &&
                   (is_store_url(raw) || raw.find("://") != std::string::npos);
  if (url) {
    ASCOPE_TRY_ASSIGN(const std::string text, resolve_store_url(raw, key.name, node, source));
    return Json(text);
  }
  ASCOPE_TRY_ASSIGN(const std::string text, read_text(key.name, node, source));
  ASCOPE_TRY_ASSIGN(const std::string path, resolve_host_path(text, key.name, node, source));
  return Json(path);
}

}  // namespace

bool is_map_key(const ProfileKey& key) {
  return key.type == KeyType::text_map || key.type == KeyType::entries || key.type == KeyType::keep;
}

bool expands_variables(const ProfileKey& key) {
  return key.type == KeyType::url || key.name == "workspace.environment" || key.name == "backend.options" ||
         key.name == "workspace.projection.source";
}

Result<std::string> read_text(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(std::string text, read_scalar(name, node, source));
  if (source.is_file && text.find("${") != std::string::npos) {
    return source.error(node, fmt::format("'{}' holds ${{…}}, which nothing replaces there", name),
                        "variables are replaced in stores' URLs, workspace.environment and backend.options");
  }
  return text;
}

Result<bool> read_boolean(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(const std::string text, read_scalar(name, node, source));
  if (!node.plain || (text != "true" && text != "false")) {
    return source.error(node, fmt::format("'{}' is '{}' where true or false is needed", name, text),
                        "write true or false, without quotes");
  }
  return text == "true";
}

Result<std::string> read_choice(std::string_view name, std::string_view choices, const YamlNode& node,
                                const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(std::string text, read_scalar(name, node, source));
  const auto words = split_choices(choices);
  if (std::find(words.begin(), words.end(), text) == words.end()) {
    return source.unknown_word(node, fmt::format("value '{}' for '{}'", text, name), text, words);
  }
  return text;
}

Result<Json> read_value(const ProfileKey& key, const YamlNode& node, const ProfileSource& source) {
  switch (key.type) {
    case KeyType::boolean: {
      ASCOPE_TRY_ASSIGN(const bool value, read_boolean(key.name, node, source));
      return Json(value);
    }
    case KeyType::number: {
      ASCOPE_TRY_ASSIGN(const std::uint64_t value, read_number(key.name, node, source));
      return Json(value);
    }
    case KeyType::decimal: {
      ASCOPE_TRY_ASSIGN(const double value, read_decimal(key.name, node, source));
      return Json(value);
    }
    case KeyType::text_list:
      return read_list(key, node, source);
    case KeyType::skills:
      return read_skills(key, node, source);
    case KeyType::host_path:
      return read_path_or_store(key, node, source);
    default:
      break;
  }
  const auto read = [&]() -> Result<std::string> {
    switch (key.type) {
      case KeyType::duration:
        return read_duration(key.name, node, source);
      case KeyType::size:
        return read_size(key.name, node, source);
      case KeyType::choice:
        return read_choice(key.name, key.choices, node, source);
      case KeyType::url: {
        ASCOPE_TRY_ASSIGN(const std::string text, read_expanding(key.name, node, source));
        return resolve_store_url(text, key.name, node, source);
      }
      default:
        return read_text(key.name, node, source);
    }
  };
  ASCOPE_TRY_ASSIGN(const std::string text, read());
  return Json(text);
}

Result<Json> read_member(const ProfileKey& key, std::string_view name, const YamlNode& name_node,
                         const YamlNode& node, const ProfileSource& source) {
  switch (key.type) {
    case KeyType::keep:
      return read_keep_rule(name, name_node, node, source);
    case KeyType::entries:
      return read_entry(name, name_node, node, source, false);
    default:
      break;
  }
  if (key.name == "workspace.environment") {
    return read_environment(name, name_node, node, source);
  }
  if (name.empty()) {
    return source.error(name_node, fmt::format("an empty name in '{}'", key.name));
  }
  if (key.name == "backend.options") {
    return read_option(name, node, source);
  }
  ASCOPE_TRY_ASSIGN(const std::string text, read_text(fmt::format("{}.{}", key.name, name), node, source));
  return Json(text);
}

}  // namespace ascope
