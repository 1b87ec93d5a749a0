// SPDX-License-Identifier: Apache-2.0
#include "core/engine/gc_store.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/base/file.h"
#include "core/engine/finish.h"
#include "core/engine/save.h"
#include "core/engine/scan_memory.h"
#include "core/repository/chunks/collect.h"
#include "core/repository/chunks/repack.h"

namespace ascope {

Result<void> collect_pending(EngineServices& services, const OpContext& ctx, const GcOptions& options,
                             std::vector<GcItem>& items) {
  ASCOPE_TRY_ASSIGN(const bool any, path_exists(pending_folder(services)));
  if (!any || !services.has_snapshots()) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(const auto names, list_dir(pending_folder(services)));
  ASCOPE_TRY_ASSIGN(const std::string realm, store_realm(services, ctx));
  for (const auto& id : names) {
    if (id.starts_with(".")) {
      continue;
    }
    ASCOPE_TRY_ASSIGN(const PendingSave save, read_pending_save(services, id));
    ASCOPE_TRY_ASSIGN(const SlotKey slot, SlotKey::parse(save.slot));
    // What another state store may name is for its own gc.
    if ((!save.realm.empty() && save.realm != realm) || (options.only && !(*options.only == slot))) {
      continue;
    }
    Receipt receipt;
    SessionOptions session_options;
    session_options.wait = Millis(0);
    session_options.lease = !options.dry_run;
    session_options.local = options.dry_run ? LockMode::shared : LockMode::commit;
    auto session = SlotSession::open(services, ctx, slot, session_options, receipt);
    if (!session) {
      if (session.error().kind == ErrorKind::busy) {
        items.push_back(
            {GcAction::skipped, "object", id, slot.written(), "busy: " + session.error().message, 0});
        continue;
      }
      return std::move(session).error();
    }
    if (const SlotRecord& record = (*session)->record(); !require_readable(slot, record)) {
      items.push_back({GcAction::skipped, "object", id, slot.written(),
                       fmt::format("the slot's record is {}: {}", to_string(record.kind), record.problem),
                       0});
      continue;
    }
    if ((*session)->aux_lost() || find_item((*session)->aux(), id) != nullptr) {
      if (!options.dry_run && !(*session)->aux_lost()) {
        ASCOPE_TRY(forget_pending_save(services, id));
      }
      continue;
    }
    // It may have been: killed just before it was forgotten, and gone from the slot's history since.
    ASCOPE_TRY_ASSIGN(const OtherNames others, names_of_other_slots(services, ctx, slot));
    if (!others.is_complete || others.snapshots.contains(id)) {
      items.push_back({GcAction::kept, "object", id, slot.written(),
                       others.is_complete ? "another slot names it" : "another slot cannot be read", 0});
      continue;
    }
    items.push_back({GcAction::removed, "object", id, slot.written(), "its save was never committed", 0});
    if (!options.dry_run) {
      ASCOPE_TRY_ASSIGN(Repository * repository, services.repository());
      ASCOPE_TRY_ASSIGN(const SnapshotOrigin origin, snapshot_origin(services, ctx, **session));
      ASCOPE_TRY(repository->remove_uncommitted(ctx, origin, id));
      ASCOPE_TRY(forget_pending_save(services, id));
    }
  }
  return ok();
}

Result<void> collect_packs(EngineServices& services, const OpContext& ctx, const GcOptions& options,
                           std::vector<GcItem>& items) {
  if (!services.has_snapshots()) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(SnapshotRepository * repository, services.repository());
  ASCOPE_TRY_ASSIGN(const std::optional<chunks::Access> access, find_access(ctx, repository->chunks()));
  if (!access) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(chunks::CollectOutcome outcome,
                    chunks::collect(ctx, *access, {options.grace, options.dry_run}));
  for (chunks::CollectedObject& one : outcome.objects) {
    const bool is_pack = one.object.starts_with("packs/");
    items.push_back({one.removed ? GcAction::removed : GcAction::kept, is_pack ? "pack" : "object",
                     std::move(one.object), "", std::move(one.reason), one.size_bytes});
  }
  chunks::RepackOptions repack;
  repack.waste = options.waste;
  repack.also = std::move(outcome.to_repack);
  repack.dry_run = options.dry_run;
  Result<chunks::RepackOutcome> repacked = chunks::repack(ctx, *access, repack);
  if (!repacked && repacked.error().kind == ErrorKind::io) {
    // What was collected is; where there is no room to copy, the rest is for a later gc.
    items.push_back({GcAction::skipped, "pack", "", "", "not repacked: " + repacked.error().message, 0});
    return ok();
  }
  if (!repacked) {
    return std::move(repacked).error();
  }
  for (const chunks::RepackedPack& one : repacked->packs) {
    items.push_back(
        {one.repacked ? GcAction::removed : GcAction::kept, "pack", chunks::pack_key(one.pack), "",
         one.reason,
         one.repacked ? one.size_bytes - std::min(one.size_bytes, one.needed_bytes) : one.size_bytes});
  }
  return ok();
}

Result<void> collect_scans(EngineServices& services, const OpContext& ctx, const GcOptions& options) {
  if (options.only || options.dry_run) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(Backend * backend, services.backend());
  ASCOPE_TRY_ASSIGN(const auto resources, backend->list(ctx, nullptr));
  std::set<std::string> trees;
  for (const auto& info : resources) {
    trees.insert(info.tree);
  }
  return remove_scans(services, [&](const std::string& tree) { return trees.contains(tree); });
}

}  // namespace ascope
