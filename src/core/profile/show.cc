// SPDX-License-Identifier: Apache-2.0
#include "core/profile/show.h"

#include <array>

#include <fmt/format.h>

#include "core/profile/profile_schema.h"
#include "core/profile/value.h"

namespace ascope {
namespace {

// Words and digits that another reader of YAML may take for something else than text.
bool is_ambiguous(std::string_view text) {
  constexpr std::array<std::string_view, 9> kWords = {"true", "false", "null", "yes", "no",
                                                      "on",   "off",   "y",    "n"};
  std::string lower;
  for (const char c : text) {
    lower += c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  }
  for (const std::string_view word : kWords) {
    if (lower == word) {
      return true;
    }
  }
  return text.find_first_not_of("0123456789+-._eExXabcdefABCDEFo") == std::string_view::npos &&
         text.find_first_of("0123456789") != std::string_view::npos;
}

bool is_plain(std::string_view text) {
  constexpr std::string_view kFirst = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./";
  return !text.empty() && kFirst.find(text.front()) != std::string_view::npos &&
         text.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./@+-") ==
             std::string_view::npos &&
         text != "..." && !is_ambiguous(text);
}

// A JSON string is a YAML one too, but for DEL and what YAML does not count as printable.
std::string quoted(const std::string& text) {
  std::string out = dump_json(Json(text));
  for (std::size_t at = out.find('\x7f'); at != std::string::npos; at = out.find('\x7f', at)) {
    out.replace(at, 1, "\\u007f");
  }
  return out;
}

class Writer {
 public:
  explicit Writer(bool with_origin) : with_origin_(with_origin) {}

  // Lines for the groups above `key` that are not open yet, then the value's.
  void add(std::string_view key, std::string_view member, const Json& value, const Origin& origin) {
    std::size_t depth = 0;
    std::size_t start = 0;
    std::string name(key);
    while (true) {
      const std::size_t dot = key.find('.', start);
      if (dot == std::string_view::npos) {
        break;
      }
      open(key.substr(0, dot), key.substr(start, dot - start), depth++);
      start = dot + 1;
    }
    name = key.substr(start);
    if (!member.empty()) {
      open(key, name, depth++);
      name = yaml_value(Json(std::string(member)));
    }
    open_.resize(depth);
    std::string line = fmt::format("{}{}: {}", std::string(depth * 2, ' '), name, yaml_value(value));
    if (with_origin_) {
      constexpr std::size_t kColumn = 44;
      line += fmt::format("{}# {}", std::string(line.size() + 2 < kColumn ? kColumn - line.size() : 2, ' '),
                          comment(origin.where));
    }
    text_ += line + "\n";
  }

  std::string take() { return std::move(text_); }

 private:
  void open(std::string_view group, std::string_view word, std::size_t depth) {
    if (depth < open_.size() && open_[depth] == group) {
      return;
    }
    open_.resize(depth);
    open_.emplace_back(group);
    text_ += fmt::format("{}{}:\n", std::string(depth * 2, ' '), word);
  }

  // A comment ends with its line, whatever a file is called.
  static std::string comment(const std::string& text) {
    return text.find_first_of("\n\r") == std::string::npos ? text : dump_json(bytes_json(text));
  }

  bool with_origin_;
  std::vector<std::string> open_;
  std::string text_;
};

}  // namespace

std::string_view to_string(OriginKind kind) {
  switch (kind) {
    case OriginKind::builtin:
      return "builtin";
    case OriginKind::user_file:
      return "user_file";
    case OriginKind::project_file:
      return "project_file";
    case OriginKind::named_file:
      return "named_file";
    case OriginKind::environment:
      return "environment";
    case OriginKind::flag:
      return "flag";
  }
  return "builtin";
}

std::string yaml_value(const Json& value) {
  if (value.is_string()) {
    const auto text = value.get<std::string>();
    return is_plain(text) ? text : quoted(text);
  }
  std::string out;
  if (value.is_array()) {
    for (const Json& item : value) {
      out += (out.empty() ? "" : ", ") + yaml_value(item);
    }
    return "[" + out + "]";
  }
  if (value.is_object()) {
    for (const auto& [name, item] : value.items()) {
      out += (out.empty() ? "" : ", ") + yaml_value(Json(name)) + ": " + yaml_value(item);
    }
    return "{" + out + "}";
  }
  return dump_json(value);
}

std::string profile_yaml(const Profile& profile, bool with_origin) {
  Writer writer(with_origin);
  for (const ProfileKey& key : profile_keys()) {
    const std::string name(key.name);
    if (!is_map_key(key)) {
      if (const auto found = profile.values.find(name); found != profile.values.end()) {
        writer.add(name, "", found->second.first, found->second.second);
      }
      continue;
    }
    const std::string prefix = name + ".";
    for (auto at = profile.values.lower_bound(prefix);
         at != profile.values.end() && at->first.starts_with(prefix); ++at) {
      writer.add(name, at->first.substr(prefix.size()), at->second.first, at->second.second);
    }
  }
  return writer.take();
}

}  // namespace ascope
