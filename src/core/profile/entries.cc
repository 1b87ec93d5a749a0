// SPDX-License-Identifier: Apache-2.0
// Declared workspace entries (reference 3.9, in snake_case), skills, and the Git URLs in both.
#include <algorithm>
#include <array>
#include <vector>

#include <fmt/format.h>

#include "core/profile/store_text.h"
#include "core/profile/value.h"

namespace ascope {
namespace {

struct EntryType {
  std::string_view name;
  std::array<std::string_view, 5> keys;  // all it may have; the rest empty
  std::string_view required;
};

constexpr std::array kTypes = {
    EntryType{"file", {"type", "content", "encoding", "mode", "ephemeral"}, ""},
    EntryType{"dir", {"type", "children", "mode", "ephemeral"}, ""},
    EntryType{"local_file", {"type", "source_path", "mode", "ephemeral"}, "source_path"},
    EntryType{"local_dir", {"type", "source_path", "ephemeral"}, "source_path"},
    EntryType{"git_repo", {"type", "url", "ref", "ephemeral"}, "url"},
    EntryType{"bind_mount", {"type", "host_path", "read_only", "ephemeral"}, "host_path"},
};

const YamlNode* member(const YamlNode& map, std::string_view name) {
  for (const auto& [key, value] : map.members) {
    if (key->text == name) {
      return value;
    }
  }
  return nullptr;
}

Result<std::string> read_mode(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(std::string text, read_text(name, node, source));
  const bool digits = std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '7'; });
  if (!digits || text.size() < 3 || text.size() > 4 || (text.size() == 4 && text.front() != '0')) {
    return source.error(node, fmt::format("'{}' is '{}' where a file mode is needed", name, text),
                        "write three octal digits, such as 644 or 0755");
  }
  return text;
}

// The text of a `file` in the bytes of its encoding; a letter that it lacks is an error.
Result<std::string> encode(const std::string& utf8, std::string_view encoding, const YamlNode& node,
                           const ProfileSource& source) {
  if (encoding == "UTF-8") {
    return utf8;
  }
  const unsigned limit = encoding == "US-ASCII" ? 0x7f : 0xff;
  std::string out;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    auto point = static_cast<unsigned>(static_cast<unsigned char>(utf8[i]));
    if (point >= 0x80) {  // the text is valid UTF-8: only U+0080…U+00FF begin with 0xc2 or 0xc3
      const bool latin = point == 0xc2 || point == 0xc3;
      const unsigned next = i + 1 < utf8.size() ? static_cast<unsigned char>(utf8[i + 1]) : 0U;
      point = latin ? (point & 0x03U) << 6U | (next & 0x3fU) : limit + 1;
      ++i;
    }
    if (point > limit) {
      return source.error(node, fmt::format("the content has letters that {} lacks", encoding));
    }
    out += static_cast<char>(point);
  }
  return out;
}

Result<void> read_file_content(std::string_view name, const YamlNode& node, const ProfileSource& source,
                               Json& entry) {
  std::string encoding = "UTF-8";
  if (const YamlNode* const value = member(node, "encoding"); value != nullptr) {
    ASCOPE_TRY_ASSIGN(
        encoding, read_choice(fmt::format("{}.encoding", name), "UTF-8|ISO-8859-1|US-ASCII", *value, source));
  }
  std::string content;
  if (const YamlNode* const value = member(node, "content"); value != nullptr) {
    if (value->kind != YamlNode::Kind::scalar) {
      return source.error(*value,
                          fmt::format("'{}.content' is {} where a text is needed", name, describe(*value)));
    }
    ASCOPE_TRY(encode(value->text, encoding, *value, source));
    content = value->text;
  }
  entry["content"] = content;
  entry["encoding"] = encoding;
  return ok();
}

Result<Json> read_children(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  if (node.kind != YamlNode::Kind::map) {
    return source.error(node, fmt::format("'{}.children' is {} where a map is needed", name, describe(node)));
  }
  Json children = Json::object();
  for (const auto& [key, value] : node.members) {
    ASCOPE_TRY_ASSIGN(Json child, read_entry(key->text, *key, *value, source, true));
    children[key->text] = std::move(child);
  }
  return children;
}

Result<void> read_entry_key(std::string_view name, std::string_view key, const YamlNode& value,
                            const ProfileSource& source, Json& entry) {
  const std::string full = fmt::format("{}.{}", name, key);
  if (key == "ephemeral" || key == "read_only") {
    ASCOPE_TRY_ASSIGN(const bool flag, read_boolean(full, value, source));
    entry[std::string(key)] = flag;
  } else if (key == "source_path" || key == "host_path") {
    ASCOPE_TRY_ASSIGN(const std::string text, read_text(full, value, source));
    ASCOPE_TRY_ASSIGN(entry[std::string(key)], resolve_host_path(text, full, value, source));
  } else if (key == "url") {
    ASCOPE_TRY_ASSIGN(entry["url"], read_git_url(full, value, source));
  } else if (key == "ref") {
    ASCOPE_TRY_ASSIGN(entry["ref"], read_git_ref(full, value, source));
  } else if (key == "mode") {
    ASCOPE_TRY_ASSIGN(entry["mode"], read_mode(full, value, source));
  } else if (key == "children") {
    ASCOPE_TRY_ASSIGN(entry["children"], read_children(name, value, source));
  }
  return ok();
}

Result<const EntryType*> read_type(std::string_view name, const YamlNode& node, const ProfileSource& source,
                                   bool nested) {
  if (node.kind != YamlNode::Kind::map) {
    return source.error(node,
                        fmt::format("'{}' is {} where a map with a 'type' is needed", name, describe(node)));
  }
  const YamlNode* const type = member(node, "type");
  if (type == nullptr) {
    return source.error(node, fmt::format("'{}' has no 'type'", name),
                        "types are: file, dir, local_file, local_dir, git_repo, bind_mount");
  }
  ASCOPE_TRY_ASSIGN(const std::string word,
                    read_choice(fmt::format("{}.type", name),
                                "file|dir|local_file|local_dir|git_repo|bind_mount", *type, source));
  if (nested && word == "bind_mount") {
    return source.error(*type, fmt::format("'{}' is a bind_mount inside a dir", name),
                        "a bind_mount stands at the top of workspace.entries, as 'DIR/NAME'");
  }
  return std::find_if(kTypes.begin(), kTypes.end(),
                      [&](const EntryType& known) { return known.name == word; });
}

}  // namespace

std::string relative_path_problem(std::string_view path) {
  if (path.empty()) {
    return "is empty";
  }
  if (path.front() == '/') {
    return "is absolute";
  }
  if (path.find('\0') != std::string_view::npos || path.size() > 4095) {
    return "is no file name";
  }
  while (!path.empty()) {
    const std::size_t end = std::min(path.find('/'), path.size());
    const std::string_view part = path.substr(0, end);
    if (part.empty() || part == ".") {
      return "has an empty part";
    }
    if (part == "..") {
      return "has a '..' in it";
    }
    if (part.size() > 255) {
      return "has a part of more than 255 bytes";
    }
    if (end + 1 == path.size()) {
      return "ends with '/'";
    }
    path.remove_prefix(std::min(end + 1, path.size()));
  }
  return {};
}

Result<Json> read_entry(std::string_view path, const YamlNode& path_node, const YamlNode& node,
                        const ProfileSource& source, bool nested) {
  std::string problem = relative_path_problem(path);
  if (problem.empty() && (path.starts_with(".ascope-") || path.find("/.ascope-") != std::string_view::npos)) {
    problem = "is a name that ascope-sandbox keeps for itself";
  }
  if (!problem.empty()) {
    return source.error(path_node, fmt::format("the entry's path '{}' {}", path, problem),
                        "write a path below the workspace root, such as src/main.c");
  }
  ASCOPE_TRY_ASSIGN(const EntryType* const type, read_type(path, node, source, nested));
  Json entry = Json::object();
  entry["type"] = std::string(type->name);
  std::vector<std::string_view> known;
  std::copy_if(type->keys.begin(), type->keys.end(), std::back_inserter(known),
               [](std::string_view key) { return !key.empty(); });
  for (const auto& [key, value] : node.members) {
    if (std::find(known.begin(), known.end(), key->text) == known.end()) {
      return source.unknown_word(*key, fmt::format("key '{}' of a {} entry", key->text, type->name),
                                 key->text, known);
    }
    ASCOPE_TRY(read_entry_key(path, key->text, *value, source, entry));
  }
  if (!type->required.empty() && !entry.contains(type->required)) {
    return source.error(node, fmt::format("'{}' is a {} without '{}'", path, type->name, type->required));
  }
  if (type->name == "file") {
    ASCOPE_TRY(read_file_content(path, node, source, entry));
  }
  if (type->name == "git_repo" && !entry.contains("ref")) {
    entry["ref"] = "HEAD";
  }
  return entry;
}

Result<std::string> read_git_ref(std::string_view name, const YamlNode& node, const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(std::string text, read_text(name, node, source));
  const bool control = std::any_of(text.begin(), text.end(),
                                   [](char c) { return static_cast<unsigned char>(c) <= ' ' || c == 0x7f; });
  if (text.empty() || text.front() == '-' || control || text.find_first_of(":~^?*[\\") != std::string::npos) {
    return source.error(node, fmt::format("'{}' is '{}', which is no branch, tag or commit", name, text));
  }
  return text;
}

Result<std::string> read_git_url(std::string_view key, const YamlNode& node, const ProfileSource& source) {
  ASCOPE_TRY_ASSIGN(const std::string text, read_text(key, node, source));
  if (const std::string problem = literal_secret(text); !problem.empty()) {
    return source.error(node, fmt::format("the URL of '{}' {}", key, problem),
                        "leave it out; Git asks its credential helper");
  }
  constexpr std::string_view kFile = "file://";
  if (text.starts_with('/') || text.starts_with("./") || text.starts_with("../") || text.starts_with("~/") ||
      text.starts_with(kFile)) {
    const bool url = text.starts_with(kFile);
    ASCOPE_TRY_ASSIGN(const std::string path,
                      resolve_host_path(url ? text.substr(kFile.size()) : text, key, node, source));
    return url ? "file://" + path : path;
  }
  constexpr std::array<std::string_view, 4> kSchemes = {"https://", "http://", "ssh://", "git://"};
  const bool scheme = std::any_of(kSchemes.begin(), kSchemes.end(),
                                  [&](std::string_view known) { return text.starts_with(known); });
  const std::size_t colon = text.find(':');
  // HOST:PATH or USER@HOST:PATH, as ssh has it; "ext::program" and its like run programs.
  const bool ssh = colon != std::string::npos && colon > 0 && colon + 1 < text.size() &&
                   text[colon + 1] != ':' && text.substr(colon, 3) != "://" &&
                   text.substr(0, colon).find('/') == std::string::npos;
  if (text.starts_with('-') || (!scheme && !ssh)) {
    return source.error(node, fmt::format("'{}' is '{}', which is no Git URL", key, text),
                        "write https://…, ssh://…, git@HOST:PATH, or a folder as ./DIR or /DIR");
  }
  source.needs_trust(node, key, "names an endpoint");
  return text;
}

Result<Json> read_skills(const ProfileKey& key, const YamlNode& node, const ProfileSource& source) {
  constexpr std::array<std::string_view, 5> kKeys = {"git", "dir", "ref", "path", "name"};
  if (node.kind != YamlNode::Kind::list) {
    return source.error(node, fmt::format("'{}' is {} where a list is needed", key.name, describe(node)),
                        "write a list such as [{git: https://…}]");
  }
  Json list = Json::array();
  for (const YamlNode* const item : node.items) {
    if (item->kind != YamlNode::Kind::map) {
      return source.error(*item,
                          fmt::format("'{}' holds {} where a map is needed", key.name, describe(*item)),
                          "write {git: URL} or {dir: FOLDER}");
    }
    Json skill = Json::object();
    for (const auto& [name, value] : item->members) {
      if (std::find(kKeys.begin(), kKeys.end(), name->text) == kKeys.end()) {
        return source.unknown_word(*name, fmt::format("key '{}' in '{}'", name->text, key.name), name->text,
                                   kKeys);
      }
      const std::string full = fmt::format("{}.{}", key.name, name->text);
      if (name->text == "git") {
        ASCOPE_TRY_ASSIGN(skill["git"], read_git_url(full, *value, source));
        continue;
      }
      if (name->text == "ref") {
        ASCOPE_TRY_ASSIGN(skill["ref"], read_git_ref(full, *value, source));
        continue;
      }
      ASCOPE_TRY_ASSIGN(std::string text, read_text(full, *value, source));
      if (name->text == "dir") {
        ASCOPE_TRY_ASSIGN(text, resolve_host_path(text, full, *value, source));
      } else if (const std::string problem = relative_path_problem(text); !problem.empty()) {
        return source.error(*value, fmt::format("'{}' {}", full, problem));
      }
      skill[name->text] = text;
    }
    if (skill.contains("git") == skill.contains("dir")) {
      return source.error(*item, fmt::format("an item of '{}' needs one of 'git' and 'dir'", key.name));
    }
    if (skill.contains("dir") && skill.contains("ref")) {
      return source.error(*item, "'ref' goes with 'git', not with 'dir'");
    }
    list.push_back(std::move(skill));
  }
  return list;
}

}  // namespace ascope
