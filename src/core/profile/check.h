// SPDX-License-Identifier: Apache-2.0
// All that is wrong with a profile at once, for `profile validate`.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/profile/profile.h"

namespace ascope {

struct ProfileCheck {
  Profile profile;              // whole only if there are no problems
  std::vector<Error> problems;  // in order of the layers; load_profile() fails with the first
};
ProfileCheck check_profile(const ProfileInputs& inputs, std::span<const BackendKind* const> backend_kinds);

// The nearest ascope.yaml in `cwd` or above it; nullopt if there is none.
Result<std::optional<std::string>> find_project_profile(const std::string& cwd);

}  // namespace ascope
