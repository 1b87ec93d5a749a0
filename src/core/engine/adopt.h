// SPDX-License-Identifier: Apache-2.0
// Rebuilding a slot's record from what is left: its history, a saved object, a labelled sandbox.
#pragma once

#include <string>

#include "core/engine/engine.h"

namespace ascope {

struct AdoptOptions {
  LockOptions lock;
  // Id of an object in the store to become head; "" = the newest of the slot's own history.
  std::string snapshot;
  bool no_snapshot = false;
  bool dry_run = false;
};

// Writes a record for a slot that has none, or a damaged one: head from the history or the named object, the
// live mark from the newest labelled sandbox of this machine (its work counts as unsaved). `conflict` if a
// good record is there; `not_found` if nothing is left to adopt.
Result<void> adopt_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                        const AdoptOptions& options, Receipt& receipt);

}  // namespace ascope
