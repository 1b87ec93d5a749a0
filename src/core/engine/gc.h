// SPDX-License-Identifier: Apache-2.0
// Collecting what nobody needs: snapshots by the keep policy, objects of saves that died, dead sandboxes of
// ours, stale leases. Nothing else in the program collects anything.
#pragma once

#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "core/engine/services.h"
#include "core/receipt.h"
#include "core/record.h"

namespace ascope {

enum class GcAction { kept, removed, skipped };
std::string_view to_string(GcAction action);

struct GcItem {
  GcAction action = GcAction::kept;
  std::string kind;  // "snapshot", "object", "sandbox", "lease", "slot", "pack"
  std::string name;
  std::string slot;    // written form, "" where none
  std::string reason;  // why it is kept, removed or skipped
  std::uint64_t size_bytes = 0;
};

struct GcOptions {
  bool dry_run = false;
  std::chrono::seconds grace = std::chrono::hours(24);  // packs younger than this stay (chunks/collect.h)
  double waste = 0.30;  // packs of which more than this part is not needed are repacked (chunks/repack.h)
  std::optional<SlotKey> only;  // one slot, else all of the profile's state store
};

// One slot after the other, each under its lease without waiting; a busy one is skipped and named. The first
// failure of a store ends it; what was removed until then is in `items`.
Result<void> collect_garbage(EngineServices& services, const OpContext& ctx, const GcOptions& options,
                             std::vector<GcItem>& items);

// Which items of a history the policy keeps, with a reason for each that stays; the others have an empty
// reason. Pure. Head, tagged items, the undo target and stranded work are always kept. `now`: RFC 3339.
std::vector<std::string> keep_reasons(const Aux& aux, const std::string& head, const KeepPolicy& policy,
                                      std::chrono::system_clock::time_point now);

// What the histories of the other slots of this state store name: a fork names objects that a save of another
// slot made. Read it after the commit that took a thing out of a history, and then remove the thing: a fork
// looks again after it has committed (restore.cc).
struct OtherNames {
  bool is_complete = true;  // false: one could not be read, and may name anything
  std::set<std::string> objects, snapshots;
  [[nodiscard]] bool names(const std::string& object) const {
    return !is_complete || objects.contains(object);
  }
};
Result<OtherNames> names_of_other_slots(EngineServices& services, const OpContext& ctx, const SlotKey& slot);

}  // namespace ascope
