// SPDX-License-Identifier: Apache-2.0
// The engine's services as the command line opens them: from URLs to objects, on first use.
#pragma once

#include <memory>
#include <string>

#include "cli/output.h"
#include "core/engine/services.h"

namespace ascope {

struct Places {
  std::string state_dir;
  std::string cache_dir;
  std::string runtime_dir;
};

// `profile`, `kind` and `out` outlive the result. `progress`: auto | json | none.
std::unique_ptr<EngineServices> make_services(const Profile& profile, const BackendKind& kind, Places places,
                                              Output& out, const OpContext& ctx, const std::string& progress);

}  // namespace ascope
