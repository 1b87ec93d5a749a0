// SPDX-License-Identifier: Apache-2.0
// Changes of a slot's history from outside a sandbox: import, tags, removal.
#pragma once

#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/session.h"

namespace ascope {

struct ImportOptions {
  LockOptions lock;
  std::string tag;
};

// Saves `tree` (entries of a workspace root) and makes it the slot's head, in a new slot too; the next start
// restores it. `refused` while the record's live mark says that a sandbox holds unsaved work. On failure
// nothing of it is left.
Result<void> import_snapshot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                             TreeSource& tree, const ImportOptions& options, Receipt& receipt);

// `usage` unless `name` can be a tag: letters, digits, '.', '_', '-', not "live" or "latest…", not an id.
Result<void> check_tag(const std::string& name);
// `conflict` if another snapshot of the history has the tag; harmless if this one has it.
Result<void> set_tag(Aux& aux, const std::string& snapshot, const std::string& name);
// `not_found` if that snapshot does not have it.
Result<void> remove_tag(Aux& aux, const std::string& snapshot, const std::string& name);

// Takes snapshots out of the history of a claimed session; `refused` for its head. To be committed by the
// caller.
Result<std::vector<HistoryItem>> take_from_history(SlotSession& session,
                                                   const std::vector<std::string>& snapshots);
// Removes the objects of items that `slot` had, where no other slot (a fork) names them. A repeat is
// harmless.
Result<void> remove_objects(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                            const std::vector<HistoryItem>& items);

}  // namespace ascope
