// SPDX-License-Identifier: Apache-2.0
// The start of a slot under a session that is already held: shared by `start` and `run`.
#pragma once

#include <memory>

#include "core/engine/engine.h"
#include "core/engine/gather.h"
#include "core/engine/session.h"
#include "core/projection/projection.h"
#include "core/projection/skills.h"

namespace ascope {

struct StartedSlot {
  std::unique_ptr<Sandbox> sandbox;  // running
  ResourceInfo info;
  bool external = false;
};

// Gathers, decides, acts and commits (protocols 6). `will_exec`: a command follows at once, so the live mark
// is set dirty in the same write. A refusal is an Error `refused` or the kind of the rule; nothing was
// changed then but the claim. On a failure in acting: a sandbox made here is destroyed, the record stays as
// claimed.
Result<StartedSlot> start_under_session(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                                        SlotSession& session, const StartOptions& options, bool will_exec,
                                        Receipt& receipt);

// Restores `item` into `sandbox` (stopped): every root, exactly. `partial` marks stand until clear_marks().
Result<void> restore_tree(EngineServices& services, const OpContext& ctx, Sandbox& sandbox,
                          const HistoryItem& item, bool fresh, std::uint64_t fence, Receipt& receipt);
Result<void> clear_marks(EngineServices& services, const OpContext& ctx, Sandbox& sandbox);

// Stages skills and projects the profile's source into the running sandbox; updates aux.projection and
// `receipt`. Returns AgentScope's projection hash ("" if there is nothing to project).
Result<std::string> project_into(EngineServices& services, const OpContext& ctx, Sandbox& sandbox, Aux& aux,
                                 Receipt& receipt);

// `slot` in its written form: each slot has a stat cache of its own.
ProjectionRequest projection_request(EngineServices& services, const StagedSkills& skills,
                                     const std::string& slot);

}  // namespace ascope
