// SPDX-License-Identifier: Apache-2.0
// The effective profile as YAML that can be loaded again (but for what ******** covers).
#pragma once

#include <string>
#include <string_view>

#include "core/profile/profile.h"

namespace ascope {

// One value in YAML's flow style, quoted where it must be.
std::string yaml_value(const Json& value);
// Every value that is set or has a default, in the order of the key table; with a comment that says where
// each came from.
std::string profile_yaml(const Profile& profile, bool with_origin);
// "builtin", "user_file", … as it stands in JSON.
std::string_view to_string(OriginKind kind);

}  // namespace ascope
