// SPDX-License-Identifier: Apache-2.0
// A damaged snapshot is saved anew without what is lost. Nothing is removed: the caller commits a record that
// names the new snapshots in place of the old ones, then, when all snapshots of the slot have been seen,
// removes the old manifests (one may have another's name), and gc takes the packs that nobody needs any more.
// So what can be read of a damaged pack is never lost by a repair.
#pragma once

#include <string>
#include <vector>

#include "core/repository/chunks/chunk_repository.h"
#include "core/repository/chunks/collect.h"
#include "core/repository/chunks/salvage.h"

namespace ascope::chunks {

struct RepairOptions {
  std::string id;         // of the new snapshot: a fresh UUID
  SnapshotOrigin origin;  // of the new snapshot; realm and slot of the old one
  bool read_data = true;  // else content is believed where indexes have it
  bool dry_run = false;   // nothing is written; `item` stays empty
};

struct LostContent {
  SnapshotPart part = SnapshotPart::workspace;
  LostEntry entry;
};

struct RepairOutcome {
  std::vector<SnapshotProblem> problems;  // empty: the snapshot is whole, and nothing was done
  // Not in the new snapshot. None with problems: all could be read, and was stored again.
  std::vector<LostContent> lost;
  bool is_all_lost = false;         // nothing of it can be read
  std::optional<HistoryItem> item;  // the new snapshot, whose notes name what is lost
};

// `item` is in a history of this realm, whose slot's lease the caller holds. Repeated after a failure, it
// goes on with what was stored. Memory: as a save, and the names of what is lost.
Result<RepairOutcome> repair_snapshot(const OpContext& ctx, ChunkRepository& repository,
                                      const HistoryItem& item, const RepairOptions& options);

// Small objects that nobody can read: condemned lists, which keep every save from going on, pins, which keep
// gc from it, and hints. Lists and pins go when they are older than `grace`, after which whoever put them is
// taken for dead.
Result<std::vector<CollectedObject>> repair_markers(const OpContext& ctx, const Access& access,
                                                    const CollectOptions& options);

}  // namespace ascope::chunks
