// SPDX-License-Identifier: Apache-2.0
// All that is wrong with a profile at once, for `profile validate`.
#pragma once

#include <span>
#include <vector>

#include "core/profile/profile.h"

namespace ascope {

struct ProfileCheck {
  Profile profile;              // whole only if there are no problems
  std::vector<Error> problems;  // in order of the layers; load_profile() fails with the first
};
ProfileCheck check_profile(const ProfileInputs& inputs, std::span<const BackendKind* const> backend_kinds);

}  // namespace ascope
