// SPDX-License-Identifier: Apache-2.0
// A tiny whole round on the profile: create, write, snapshot, restore, lock; each step says how to mend what
// fails.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/engine/services.h"

namespace ascope {

struct DoctorCheck {
  std::string name;              // "state store", "leases", "snapshot store", "sandbox", "write and run", …
  std::string detail;            // what was seen
  std::optional<Error> problem;  // nullopt: healthy
  bool skipped = false;          // something before it failed, or the profile has no such part
  Millis duration{0};
};

// Runs every check; a failed one skips those that need it. Works on a slot of its own with a random name and
// removes all it made. Never fails itself.
std::vector<DoctorCheck> run_doctor(EngineServices& services, const OpContext& ctx);

// What AgentScope's tools need of `image`, tried in a sandbox of it that is removed then. Never fails itself.
std::vector<DoctorCheck> check_image(EngineServices& services, const OpContext& ctx,
                                     const std::string& image);

}  // namespace ascope
