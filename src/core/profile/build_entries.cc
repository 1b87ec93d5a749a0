// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include <fmt/format.h>

#include "core/profile/build.h"

namespace ascope {
namespace {

EntryKind kind_of(std::string_view type) {
  if (type == "dir") {
    return EntryKind::dir;
  }
  if (type == "local_file") {
    return EntryKind::local_file;
  }
  if (type == "local_dir") {
    return EntryKind::local_dir;
  }
  if (type == "git_repo") {
    return EntryKind::git_repo;
  }
  return type == "bind_mount" ? EntryKind::bind_mount : EntryKind::file;
}

// The content's letters in the bytes of its encoding; that they fit was checked when it was read.
std::string content_bytes(const std::string& utf8, std::string_view encoding) {
  if (encoding != "ISO-8859-1") {
    return utf8;
  }
  std::string out;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto byte = static_cast<unsigned char>(utf8[i]);
    if (byte < 0x80 || i + 1 == utf8.size()) {
      out += utf8[i];
    } else {
      out += static_cast<char>((byte & 0x03U) << 6U | (static_cast<unsigned char>(utf8[++i]) & 0x3fU));
    }
  }
  return out;
}

struct Placed {
  WorkspaceEntry entry;
  const LayerValue* value;
};

// An entry and, if it is a dir, what is below it. A child of an ephemeral dir is ephemeral too.
void flatten(const std::string& path, const Json& json, bool ephemeral, const LayerValue& value,
             std::vector<Placed>& out) {
  const auto part = [&](const char* name) { return json.value(name, std::string()); };
  WorkspaceEntry entry;
  entry.path = path;
  entry.kind = kind_of(part("type"));
  entry.ephemeral = ephemeral || json.value("ephemeral", false);
  entry.content = content_bytes(part("content"), part("encoding"));
  entry.source = entry.kind == EntryKind::bind_mount ? part("host_path") : part("source_path");
  entry.url = part("url");
  entry.ref = part("ref");
  entry.read_only = json.value("read_only", false);
  if (json.contains("mode")) {
    entry.mode = static_cast<std::uint32_t>(std::stoul(part("mode"), nullptr, 8));
  }
  const bool below = entry.ephemeral;
  out.push_back(Placed{std::move(entry), &value});
  if (json.contains("children")) {
    for (const auto& [name, child] : json.at("children").items()) {
      flatten(fmt::format("{}/{}", path, name), child, below, value, out);
    }
  }
}

bool is_below(std::string_view path, std::string_view folder) {
  return path.size() > folder.size() && path.starts_with(folder) && path[folder.size()] == '/';
}

// Why `lower`, at or below `upper`, cannot stand together with it; "" if it can.
std::string conflict(const WorkspaceEntry& upper, const WorkspaceEntry& lower) {
  if (upper.path == lower.path) {
    return "declared twice";
  }
  if (upper.kind == EntryKind::bind_mount) {
    return fmt::format("below the bind_mount '{}', whose files are the host's", upper.path);
  }
  if (lower.kind == EntryKind::bind_mount && upper.kind != EntryKind::dir) {
    return fmt::format("a bind_mount below '{}'", upper.path);
  }
  if (upper.kind == EntryKind::file || upper.kind == EntryKind::local_file) {
    return fmt::format("below '{}', which is a file", upper.path);
  }
  return {};
}

}  // namespace

void build_entries(const Layer& layer, Profile& profile, Problems& problems) {
  std::vector<Placed> placed;
  for (const auto& [path, value] : layer.members("workspace.entries")) {
    flatten(path, value->value, false, *value, placed);
  }
  // Parents come before what is below them, so that what a local_dir brings is never over a later entry.
  std::sort(placed.begin(), placed.end(),
            [](const Placed& a, const Placed& b) { return a.entry.path < b.entry.path; });
  for (std::size_t i = 0; i < placed.size(); ++i) {
    const WorkspaceEntry& entry = placed[i].entry;
    for (std::size_t j = 0; j < i; ++j) {
      const WorkspaceEntry& upper = placed[j].entry;
      if (upper.path != entry.path && !is_below(entry.path, upper.path)) {
        continue;
      }
      if (const std::string why = conflict(upper, entry); !why.empty()) {
        problems.push_back(layer_error(*placed[i].value, ErrorKind::config,
                                       fmt::format("the entry '{}' is {}", entry.path, why)));
      }
    }
    if (entry.kind == EntryKind::bind_mount) {
      profile.settings.mounts.push_back(
          MountSpec{entry.source, fmt::format("{}/{}", profile.workspace_root, entry.path), entry.read_only});
    }
    profile.entries.push_back(entry);
  }
}

}  // namespace ascope
