// SPDX-License-Identifier: Apache-2.0
// Moving a slot between stores and snapshot formats.
#pragma once

#include "core/engine/engine.h"

namespace ascope {

struct MigrateOptions {
  LockOptions lock;
  bool copy = false;        // the slot stays where it was, too
  bool allow_loss = false;  // though work is lost that a vanished sandbox took with it
  bool dry_run = false;
};

// Moves `slot` from the stores of `from` to those of `to`, whose snapshot format its whole history gets: ids
// change, tags, times, kinds and parents stay. A sandbox that another state store or backend would no longer
// know is saved and destroyed first; any other stays as it is. Everything is in place before the record of
// `to` names it, and only then goes what `from` has; killed at any moment, the same call again goes on.
//
// `conflict` if another slot of that name is in the target; `not_found`; `unsupported` for a record that is
// not ours, and for a target without snapshot store; `usage` for a copy within one state store; `corrupt` for
// a snapshot that is damaged. On failure the slot is as it was; what was copied is for gc.
Result<void> migrate_slot(EngineServices& from, EngineServices& to, const OpContext& ctx, const SlotKey& slot,
                          const MigrateOptions& options, Receipt& receipt);

// The state store that a slot was moved to, as shown; "" if it was not. Stands in the aux of its tombstone.
std::string moved_to(const Aux& aux);
// For the slot that begins anew in its place.
void forget_move(Aux& aux);

}  // namespace ascope
