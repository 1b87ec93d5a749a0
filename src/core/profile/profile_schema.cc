// SPDX-License-Identifier: Apache-2.0
#include "core/profile/profile_schema.h"

#include <algorithm>
#include <array>

namespace ascope {
namespace {

using enum KeyType;
constexpr KeyPolicy kAnyone = KeyPolicy::anyone;
constexpr KeyPolicy kUserOnly = KeyPolicy::user_only;

// One row a key: name, type, default, help, who may set it, choices. A default is written as in YAML; an
// empty one means that nothing is set.
constexpr std::array kKeys = {
    ProfileKey{"version", number, "1", "version of the profile format; this program reads 1"},
    ProfileKey{"agent", text, "default", "agent id; part of the slot"},
    ProfileKey{"user", text, "", "user id; without one, scope user falls back to session"},
    ProfileKey{"session", text, "", "session id; without one, the agent's name stands in for it"},
    ProfileKey{"scope", choice, "user", "who shares a sandbox", kAnyone, "user|session|agent|global"},

    ProfileKey{"backend.type", text, "bubblewrap",
               "where sandboxes run; another type drops the block of lower files"},
    ProfileKey{"backend.image", text, "", "image that a sandbox starts from"},
    ProfileKey{"backend.template", text, "", "template of the provider that a sandbox starts from"},
    ProfileKey{"backend.warm_pool", text, "", "pool of ready sandboxes to take one from"},
    ProfileKey{"backend.rootfs", host_path, "host",
               "root folder: 'host' for the host's programs read-only, or a folder", kUserOnly, "host"},
    ProfileKey{"backend.network", text, "none", "network: none, host, or what the backend offers by name"},
    ProfileKey{"backend.memory", size, "", "most memory, such as 512MiB"},
    ProfileKey{"backend.cpus", decimal, "", "most processors, such as 1.5"},
    ProfileKey{"backend.pids", number, "", "most processes"},
    ProfileKey{"backend.user", text, "", "Unix user of commands inside"},
    ProfileKey{"backend.ports", text_list, "", "ports to publish, such as 8080:80"},
    ProfileKey{"backend.labels", text_map, "", "labels of the provider's resource"},
    ProfileKey{"backend.read_only_root", boolean, "false",
               "keep everything but the workspace and HOME read-only"},
    ProfileKey{"backend.options", text_map, "", "options of the provider's own; secrets as ${VAR}",
               kUserOnly},

    ProfileKey{"persistence", choice, "snapshot",
               "how work lasts: snapshots, a durable volume, or the platform's own", kAnyone,
               "snapshot|volume|native"},

    ProfileKey{"workspace.root", text, "", "folder of the workspace inside; the default is the backend's"},
    ProfileKey{"workspace.persist", text_list, "",
               "what a snapshot holds: 'all', or a list of folders inside", kAnyone, "all"},
    ProfileKey{"workspace.exclude", text_list, "",
               "glob patterns that snapshots leave out, as a .ascopeignore in the workspace does"},
    ProfileKey{"workspace.entries", KeyType::entries, "",
               "files, folders, repositories and mounts of a new workspace", kUserOnly},
    ProfileKey{"workspace.environment", text_map, "",
               "environment variables of every command; secrets as ${VAR}"},
    ProfileKey{"workspace.projection.enabled", boolean, "true",
               "copy host files into the workspace at each start"},
    ProfileKey{"workspace.projection.source", host_path, "", "host folder to project from, or a store's URL",
               kUserOnly},
    ProfileKey{"workspace.projection.include", text_list, "[AGENTS.md, skills, subagents, knowledge]",
               "files and folders of the source to project"},
    ProfileKey{"workspace.projection.on_conflict", choice, "host",
               "whose change wins where both changed a file; the agent's copy is kept beside", kAnyone,
               "host|agent"},
    ProfileKey{"workspace.skills", KeyType::skills, "",
               "repositories and folders of skills to stage before the projection", kUserOnly},

    ProfileKey{"distributed", url, "", "one store for state, snapshots, leases and projection", kUserOnly},
    ProfileKey{"snapshots.store", url, "local:", "where snapshots lie; 'none' saves nothing", kUserOnly},
    ProfileKey{
        "snapshots.format", choice, "chunks",
        "how snapshots are written: chunks share what is equal; tar is one object each, as AgentScope's",
        kAnyone, "chunks|tar"},
    ProfileKey{"snapshots.key", text, "",
               "key that encrypts snapshots of format chunks: file:PATH, env:NAME or command:PROGRAM ARGS",
               kUserOnly},
    ProfileKey{"snapshots.keep", KeyType::keep, "", "what gc keeps; without it every snapshot stays"},
    ProfileKey{"snapshots.freeze", choice, "auto", "hold the processes inside while a snapshot is read",
               kAnyone, "auto|never"},
    ProfileKey{"snapshots.dedup", choice, "store",
               "share equal data within the whole store, or within the slot", kAnyone, "store|slot"},
    ProfileKey{"snapshots.credentials", choice, "warn",
               "what to do about files that look like private keys, tokens or .env", kAnyone,
               "ignore|warn|exclude|refuse"},
    ProfileKey{"state", url, "sqlite:", "where slots' states lie", kUserOnly},
    ProfileKey{"lock.store", url, "sqlite:", "where leases lie; 'none' is no mutual exclusion", kUserOnly},
    ProfileKey{"lock.ttl", duration, "60s", "how long a crashed holder blocks a slot"},
    ProfileKey{"lock.wait", duration, "60s", "how long a command waits for a lease"},
    ProfileKey{"lock.retry", duration, "500ms", "how often to ask where a store cannot wake waiters"},
    ProfileKey{"lock.max_hold", duration, "", "longest hold; the command is then ended as by its timeout"},
    ProfileKey{"lock.agentscope", boolean, "",
               "take AgentScope's own lock too, on stores that Java agents use"},
    ProfileKey{"release", choice, "keep", "what ends a run after saving: nothing, a stop, or removal",
               kAnyone, "keep|stop|destroy"},
    ProfileKey{"idle_timeout", duration, "15m", "stop a sandbox after so long without a command; 0 is never"},
};

}  // namespace

std::span<const ProfileKey> profile_keys() {
  return kKeys;
}

const ProfileKey* find_profile_key(std::string_view name) {
  const auto* const found =
      std::find_if(kKeys.begin(), kKeys.end(), [&](const ProfileKey& key) { return key.name == name; });
  return found == kKeys.end() ? nullptr : found;
}

bool is_profile_group(std::string_view prefix) {
  return std::any_of(kKeys.begin(), kKeys.end(), [&](const ProfileKey& key) {
    return key.name.size() > prefix.size() && key.name.starts_with(prefix) && key.name[prefix.size()] == '.';
  });
}

std::vector<std::string_view> profile_group_words(std::string_view prefix) {
  std::vector<std::string_view> words;
  for (const ProfileKey& key : kKeys) {
    std::string_view rest = key.name;
    if (!prefix.empty()) {
      if (!rest.starts_with(prefix) || rest.size() <= prefix.size() || rest[prefix.size()] != '.') {
        continue;
      }
      rest.remove_prefix(prefix.size() + 1);
    }
    const std::string_view word = rest.substr(0, rest.find('.'));
    if (std::find(words.begin(), words.end(), word) == words.end()) {
      words.push_back(word);
    }
  }
  return words;
}

std::string environment_name(std::string_view key) {
  std::string name = "ASCOPE_";
  for (const char c : key) {
    if (c == '.') {
      name += '_';
    } else {
      name += c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    }
  }
  return name;
}

}  // namespace ascope
