// SPDX-License-Identifier: Apache-2.0
// The table of profile keys: the one place from which loading, ASCOPE_* names, `profile show`, the manual
// page and the JSON Schema follow.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/json.h"

namespace ascope {

enum class KeyType {
  text,
  boolean,
  number,   // whole, from 1
  decimal,  // above 0
  duration,
  size,
  url,        // of a store
  host_path,  // of a folder; relative ones are taken from the file that names them
  choice,
  text_list,
  text_map,
  entries,
  skills,
  keep
};

// Who may set a key. user_only: names a host path, a command, an endpoint or a secret, so a file found by
// walking up from the working directory may not set it until the user trusts that file.
enum class KeyPolicy { anyone, user_only };

struct ProfileKey {
  std::string_view name;  // "backend.network"
  KeyType type = KeyType::text;
  std::string_view default_text;
  std::string_view help;  // one line
  KeyPolicy policy = KeyPolicy::anyone;
  std::string_view choices;  // "keep|stop|destroy"; of another type: words that may stand for a value
};

std::span<const ProfileKey> profile_keys();
const ProfileKey* find_profile_key(std::string_view name);
// True if `prefix` is a group of keys ("backend", "workspace.projection").
bool is_profile_group(std::string_view prefix);
// The words that may stand below a group ("" = the top): "type", "image", … in table order.
std::vector<std::string_view> profile_group_words(std::string_view prefix);
// "ASCOPE_BACKEND_NETWORK" for "backend.network".
std::string environment_name(std::string_view key);
// JSON Schema (2020-12) of the profile, for schema/ascope-profile.schema.json.
Json profile_json_schema();

}  // namespace ascope
