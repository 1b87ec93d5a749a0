// SPDX-License-Identifier: Apache-2.0
// `project` by hand: the projection of a start, against the sandbox as it is.
#pragma once

#include "core/engine/engine.h"
#include "core/projection/projection.h"

namespace ascope {

// What a projection would do now; changes nothing but our caches. Works on a running sandbox and on a stopped
// one whose disk can be read. `not_found` without a sandbox, `unsupported` if the profile has nothing to
// project.
Result<ProjectionPlan> plan_slot_projection(EngineServices& services, const OpContext& ctx,
                                            const SlotKey& slot, Receipt& receipt);
// Does it under the slot's lease and commits the new manifest. `not_found` unless the sandbox runs.
Result<ProjectionPlan> apply_slot_projection(EngineServices& services, const OpContext& ctx,
                                             const SlotKey& slot, const LockOptions& lock, Receipt& receipt);

}  // namespace ascope
