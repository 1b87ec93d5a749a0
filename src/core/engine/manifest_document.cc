// SPDX-License-Identifier: Apache-2.0
// AgentScope's "manifest" (WorkspaceSpec) of a profile, for the state document (reference 3.9).
#include <algorithm>

#include "core/base/bytes.h"
#include "core/engine/entries.h"
#include "core/projection/skills.h"

namespace ascope {

namespace {

constexpr std::string_view kProjectionEntry = "__workspace_projection__";

// Bytes that are not UTF-8 as ISO-8859-1, which has a character for each byte.
std::string latin1_text(std::string_view bytes) {
  std::string text;
  for (const char c : bytes) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x80) {
      text.push_back(c);
    } else {
      text.push_back(static_cast<char>(0xC0U | (byte >> 6U)));
      text.push_back(static_cast<char>(0x80U | (byte & 0x3FU)));
    }
  }
  return text;
}

Json entry_json(const WorkspaceEntry& entry) {
  switch (entry.kind) {
    case EntryKind::file: {
      const bool utf8 = is_utf8(entry.content);
      return {{"type", "file"},
              {"ephemeral", entry.ephemeral},
              {"content", utf8 ? entry.content : latin1_text(entry.content)},
              {"encoding", utf8 ? "UTF-8" : "ISO-8859-1"}};
    }
    case EntryKind::dir:
      return {{"type", "dir"}, {"ephemeral", entry.ephemeral}, {"children", Json::object()}};
    case EntryKind::local_file:
      return {{"type", "local_file"}, {"ephemeral", entry.ephemeral}, {"sourcePath", entry.source}};
    case EntryKind::local_dir:
      return {{"type", "local_dir"}, {"ephemeral", entry.ephemeral}, {"sourcePath", entry.source}};
    case EntryKind::git_repo:
      return {{"type", "git_repo"},
              {"ephemeral", entry.ephemeral},
              {"url", git_url_without_credentials(entry.url)},
              {"ref", entry.ref.empty() ? "HEAD" : entry.ref}};
    case EntryKind::bind_mount:
      return {{"type", "bind_mount"},
              {"ephemeral", entry.ephemeral},
              {"hostPath", entry.source},
              {"readOnly", entry.read_only}};
  }
  return nullptr;
}

// Puts an entry where its path says: into the children of the dir entries above it, as far as there are any.
void insert_entry(Json& entries, const std::string& path, Json entry) {
  Json* place = &entries;
  std::string_view rest = path;
  for (auto slash = rest.find('/'); slash != std::string_view::npos;) {
    const std::string head(rest.substr(0, slash));
    if (place->contains(head) && (*place)[head].contains("children")) {
      place = &(*place)[head]["children"];
      rest.remove_prefix(slash + 1);
      slash = rest.find('/');
    } else {
      slash = rest.find('/', slash + 1);
    }
  }
  (*place)[std::string(rest)] = std::move(entry);
}

}  // namespace

Json manifest_document(const Profile& profile) {
  Json entries = Json::object();
  for (const auto& entry : profile.entries) {
    insert_entry(entries, entry.path, entry_json(entry));
  }
  if (profile.projection_enabled && !profile.projection_source.empty()) {
    Json roots = Json::array();
    for (const auto& root : profile.projection_include) {
      roots.push_back(root);
    }
    entries[std::string(kProjectionEntry)] = Json{{"type", "workspace_projection"},
                                                  {"ephemeral", false},
                                                  {"sourceRoot", profile.projection_source},
                                                  {"includeRoots", std::move(roots)}};
  }
  Json environment = Json::object();
  for (const auto& [name, value] : profile.environment) {
    const auto& secret = profile.secret_environment;
    if (std::find(secret.begin(), secret.end(), name) == secret.end()) {
      environment[name] = value;
    }
  }
  return Json{{"root", profile.workspace_root},
              {"entries", std::move(entries)},
              {"environment", std::move(environment)}};
}

}  // namespace ascope
