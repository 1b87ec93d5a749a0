// SPDX-License-Identifier: Apache-2.0
// One container as the engine of this program sees it.
#pragma once

#include <memory>

#include "backends/docker/site.h"

namespace ascope::docker {

// A running guest, brought up for work on files alone where none runs.
class GuestSource {
 public:
  virtual ~GuestSource() = default;
  virtual Result<UniqueFd> guest(const OpContext& ctx) = 0;
};

std::unique_ptr<Sandbox> make_sandbox(std::shared_ptr<Site> site, Folder folder, Meta meta,
                                      UniqueFd presence = {});
std::unique_ptr<Toolbox> make_toolbox(Site& site, const Folder& folder, const Meta& meta,
                                      GuestSource& guests);

// What info() says; also of a list. `found`: what the engine says, asked by describe() itself where it is not
// given and no guest answers.
Result<ResourceInfo> describe(const OpContext& ctx, Site& site, const Folder& folder, const Meta& meta,
                              UniqueFd* presence);

}  // namespace ascope::docker
