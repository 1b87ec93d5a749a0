// SPDX-License-Identifier: Apache-2.0
// snapshot repair: of a slot's history, what can be read is kept, and what is lost is said.
#pragma once

#include <optional>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/services.h"
#include "core/receipt.h"
#include "core/repository/chunks/repair.h"

namespace ascope {

struct RepairedSnapshot {
  HistoryItem before;
  std::vector<SnapshotProblem> problems;  // never empty
  // In its place in the history; nullopt: nothing of it can be read, or it is a tar, which is all or nothing,
  // and it was taken out. In a dry run always.
  std::optional<HistoryItem> after;
  std::vector<chunks::LostContent> lost;
  bool is_all_lost = false;
};

struct RepairSlotOptions {
  bool dry_run = false;
  bool read_data = true;  // else content is believed where indexes have it
  LockOptions lock;
};

struct SlotRepair {
  std::vector<SnapshotProblem> store;  // of what the whole store hangs on; put back, in a dry run to be
  std::vector<RepairedSnapshot> snapshots;
};

// Mends what the store hangs on, then reads every snapshot of the slot; those that are damaged give way to
// new ones without what is lost, under new ids, with kind, time and tags of the old. If nothing is left of
// the head, the newest snapshot that is whole becomes head. Objects that nobody needs any more stay until the
// record is committed, then go. `repaired` is filled in as far as it came; in a dry run that is not further
// than a store that is to be mended first.
Result<void> repair_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                         const RepairSlotOptions& options, SlotRepair& repaired, Receipt& receipt);

}  // namespace ascope
