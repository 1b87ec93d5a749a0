// SPDX-License-Identifier: Apache-2.0
// One value of the profile, checked against its key's type. The answer is JSON in one normal form: numbers
// as numbers, durations and sizes as written, host paths absolute, ${VAR} still in place.
#pragma once

#include <string>
#include <string_view>

#include "core/base/json.h"
#include "core/profile/profile_schema.h"
#include "core/profile/source.h"

namespace ascope {

// True if the key holds a map whose members are laid over one another one by one.
bool is_map_key(const ProfileKey& key);
// True if ${VAR} in the key's value stands for a variable.
bool expands_variables(const ProfileKey& key);

// A whole value; for a map key use read_member.
Result<Json> read_value(const ProfileKey& key, const YamlNode& node, const ProfileSource& source);
// Member `name` of a map key: an environment variable, a label, an option, an entry, a rule of keep.
Result<Json> read_member(const ProfileKey& key, std::string_view name, const YamlNode& name_node,
                         const YamlNode& node, const ProfileSource& source);

// Text without a NUL byte; `${` in it is an error, for nothing would replace it.
Result<std::string> read_text(std::string_view name, const YamlNode& node, const ProfileSource& source);
Result<bool> read_boolean(std::string_view name, const YamlNode& node, const ProfileSource& source);
Result<std::string> read_choice(std::string_view name, std::string_view choices, const YamlNode& node,
                                const ProfileSource& source);
// A Git URL that Git may be given: no option, no transport that runs a program, no password. Local ones
// become absolute.
Result<std::string> read_git_url(std::string_view key, const YamlNode& node, const ProfileSource& source);
// A relative path without empty, "." and ".." parts; the clause that says what is wrong, or "".
std::string relative_path_problem(std::string_view path);
// A Git revision that cannot be taken for an option.
Result<std::string> read_git_ref(std::string_view name, const YamlNode& node, const ProfileSource& source);

// entries.cc
Result<Json> read_entry(std::string_view path, const YamlNode& path_node, const YamlNode& node,
                        const ProfileSource& source, bool nested);
// skills in entries.cc's manner: a list of {git|dir, ref, path, name}
Result<Json> read_skills(const ProfileKey& key, const YamlNode& node, const ProfileSource& source);

}  // namespace ascope
