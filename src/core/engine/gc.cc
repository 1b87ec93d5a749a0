// SPDX-License-Identifier: Apache-2.0
#include "core/engine/gc.h"

#include <algorithm>
#include <set>

#include <fmt/format.h>

#include "core/engine/finish.h"
#include "core/engine/gc_store.h"
#include "core/engine/import.h"
#include "core/engine/migrate.h"
#include "core/engine/save.h"
#include "core/repository/chunks/manifest_list.h"

namespace ascope {

namespace {

// One pass over one slot.
class SlotCollector {
 public:
  SlotCollector(EngineServices& services, const OpContext& ctx, SlotKey slot, bool dry_run,
                std::vector<GcItem>& items)
      : services_(services), ctx_(ctx), slot_(std::move(slot)), dry_run_(dry_run), items_(items) {}

  Result<void> run() {
    SessionOptions options;
    options.lease = !dry_run_;
    options.local = dry_run_ ? LockMode::shared : LockMode::commit;
    options.wait = Millis(0);
    auto session = SlotSession::open(services_, ctx_, slot_, options, receipt_);
    if (!session) {
      if (session.error().kind == ErrorKind::busy) {
        add(GcAction::skipped, "slot", slot_.written(), "busy: " + session.error().message);
        return ok();
      }
      return std::move(session).error();
    }
    session_ = std::move(*session);
    const RecordClass kind = session_->record().kind;
    if (kind == RecordClass::corrupt || kind == RecordClass::newer || kind == RecordClass::foreign) {
      add(GcAction::skipped, "slot", slot_.written(),
          fmt::format("its record is {}: {}", to_string(kind), session_->record().problem));
      return ok();
    }
    if (session_->aux_lost()) {
      add(GcAction::skipped, "slot", slot_.written(), "its history is lost; nothing of it is judged");
      return ok();
    }
    ASCOPE_TRY(collect_sandboxes());
    ASCOPE_TRY(collect_snapshots());
    ASCOPE_TRY(collect_orphans());
    return session_->close(ctx_);
  }

 private:
  void add(GcAction action, std::string kind, std::string name, std::string reason,
           std::uint64_t size_bytes = 0) {
    items_.push_back(
        {action, std::move(kind), std::move(name), slot_.written(), std::move(reason), size_bytes});
  }

  Result<void> claim() {
    if (claimed_ || dry_run_) {
      return ok();
    }
    claimed_ = true;
    return session_->claim(ctx_, receipt_);
  }

  Result<void> commit_history() {
    const SlotRecord& record = session_->record();
    SlotSession::Change change;
    change.document = record.document_text;
    change.deleted = record.kind == RecordClass::tombstone;
    change.head = record.meta ? record.meta->head : std::nullopt;
    change.live = record.meta ? record.meta->live : std::nullopt;
    return session_->commit(ctx_, change, receipt_);
  }

  Result<void> collect_sandboxes() {
    ASCOPE_TRY_ASSIGN(Backend * backend, services_.backend());
    ASCOPE_TRY_ASSIGN(const auto resources, backend->list(ctx_, &slot_));
    const auto& meta = session_->record().meta;
    const RecordClass kind = session_->record().kind;
    const std::string named = meta && meta->live && meta->live->sandbox ? *meta->live->sandbox : "";
    for (const auto& info : resources) {
      if (info.id == named && kind == RecordClass::ours) {
        add(GcAction::kept, "sandbox", info.id, "the slot's record names it");
      } else if (!info.owned) {
        add(GcAction::kept, "sandbox", info.id, "external: never destroyed from here");
      } else if (const std::string place = moved_to(session_->view().aux);
                 kind == RecordClass::tombstone && !place.empty()) {
        add(GcAction::kept, "sandbox", info.id, fmt::format("the slot was moved to {}", place));
      } else if (kind == RecordClass::absent && info.ready) {
        add(GcAction::kept, "sandbox", info.id, "the slot has no record: 'ascope-sandbox adopt' decides");
      } else {
        ASCOPE_TRY(remove_sandbox(*backend, info, kind));
      }
    }
    return ok();
  }

  Result<void> remove_sandbox(Backend& backend, const ResourceInfo& info, RecordClass kind) {
    const bool may_hold_work = info.ready && kind == RecordClass::ours;
    const std::string reason =
        !info.ready     ? "its start was never finished"
        : may_hold_work ? "the slot went on without it; its work is saved as a stranded snapshot first"
                        : "the slot was removed";
    if (dry_run_) {
      add(GcAction::removed, "sandbox", info.id, reason);
      return ok();
    }
    ASCOPE_TRY(claim());
    ASCOPE_TRY_ASSIGN(auto sandbox, backend.attach(ctx_, info.id));
    if (may_hold_work) {
      if (!services_.has_snapshots()) {
        add(GcAction::kept, "sandbox", info.id,
            "it may hold work and there is no snapshot store to save it in");
        return ok();
      }
      ASCOPE_TRY(strand(*sandbox, info));
    }
    ASCOPE_TRY(sandbox->destroy(ctx_, std::max(session_->fence(), info.fence_seen)));
    add(GcAction::removed, "sandbox", info.id, reason);
    return ok();
  }

  Result<void> strand(Sandbox& sandbox, const ResourceInfo& info) {
    ASCOPE_TRY_ASSIGN(const TreeProbe probe, sandbox.files().probe(ctx_, services_.profile().workspace_root));
    if (!probe.exists || probe.marked) {
      return ok();
    }
    const auto& meta = session_->record().meta;
    const HistoryItem* parent =
        meta && meta->head ? find_item(session_->aux(), meta->head->snapshot) : nullptr;
    ASCOPE_TRY_ASSIGN(SavedTree saved, save_tree(services_, ctx_, *session_, sandbox, info, parent,
                                                 "stranded", ParentCheck::read, receipt_));
    if (!saved.changed) {
      return ok();
    }
    session_->aux().history.push_back(std::move(saved.item));
    return commit_history();
  }

  Result<void> collect_snapshots() {
    if (!services_.has_snapshots()) {
      return ok();
    }
    const auto& meta = session_->record().meta;
    const std::string head = meta && meta->head ? meta->head->snapshot : "";
    const auto reasons = keep_reasons(session_->aux(), head, services_.profile().keep, ctx_.clock->wall());
    std::vector<HistoryItem> doomed;
    std::vector<HistoryItem> kept;
    const auto history = session_->aux().history;
    for (std::size_t i = 0; i < history.size(); ++i) {
      const HistoryItem& item = history[i];
      // Of format chunks a snapshot's own is its manifest; what it shared is counted with the packs.
      const std::uint64_t size = item.size_bytes + item.roots_size_bytes;
      if (reasons[i].empty()) {
        doomed.push_back(item);
        add(GcAction::removed, "snapshot", item.snapshot, "no rule of snapshots.keep holds it", size);
      } else {
        kept.push_back(item);
        add(GcAction::kept, "snapshot", item.snapshot, reasons[i], size);
      }
    }
    if (doomed.empty() || dry_run_) {
      return ok();
    }
    // The record first: what has left the history never comes back, so the objects can go at any later time.
    ASCOPE_TRY(claim());
    session_->aux().history = std::move(kept);
    ASCOPE_TRY(commit_history());
    ASCOPE_TRY(services_.step("gc-before-remove"));
    return remove_objects(services_, ctx_, slot_, doomed);
  }

  // Manifests of saves that nobody committed, here or on another host: those with a lower fence than ours can
  // no longer be (protocols 3.6).
  Result<void> collect_orphans() {
    if (!services_.has_snapshots()) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(SnapshotRepository * repository, services_.repository());
    ASCOPE_TRY_ASSIGN(const std::optional<chunks::Access> access, find_access(ctx_, repository->chunks()));
    if (!access) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const SnapshotOrigin origin, snapshot_origin(services_, ctx_, *session_));
    const std::string folder = chunks::manifest_folder(*access->key, origin.realm, origin.slot);
    const auto orphans = [&]() -> Result<std::vector<chunks::StoredManifest>> {
      ASCOPE_TRY_ASSIGN(auto all, chunks::list_manifests(ctx_, *access->store, folder));
      std::erase_if(all, [&](const chunks::StoredManifest& one) {
        return is_named(one.info.key) || (!dry_run_ && one.name.fence >= session_->fence());
      });
      if (!all.empty()) {
        // What has left this slot's history may live on in that of a fork.
        ASCOPE_TRY_ASSIGN(const OtherNames others, names_of_other_slots(services_, ctx_, slot_));
        std::erase_if(all, [&](const chunks::StoredManifest& one) { return others.names(one.info.key); });
      }
      return all;
    };
    ASCOPE_TRY_ASSIGN(std::vector<chunks::StoredManifest> doomed, orphans());
    if (!doomed.empty() && !dry_run_) {
      ASCOPE_TRY(claim());
      ASCOPE_TRY_ASSIGN(doomed, orphans());
      ASCOPE_TRY(commit_history());
    }
    for (const auto& one : doomed) {
      add(GcAction::removed, "object", one.info.key, "its save was never committed", one.info.size_bytes);
      if (!dry_run_) {
        ASCOPE_TRY(access->store->remove(ctx_, one.info.key));
      }
    }
    return ok();
  }

  [[nodiscard]] bool is_named(const std::string& object) const {
    const auto& meta = session_->record().meta;
    const auto& history = session_->aux().history;
    return (meta && meta->head && meta->head->object == object) ||
           std::any_of(history.begin(), history.end(),
                       [&](const HistoryItem& item) { return item.object == object; });
  }

  EngineServices& services_;
  const OpContext& ctx_;
  SlotKey slot_;
  bool dry_run_;
  std::vector<GcItem>& items_;
  Receipt receipt_;
  std::unique_ptr<SlotSession> session_;
  bool claimed_ = false;
};

Result<void> collect_leases(EngineServices& services, const OpContext& ctx, const GcOptions& options,
                            std::vector<GcItem>& items) {
  if (!services.has_leases()) {
    return ok();
  }
  ASCOPE_TRY_ASSIGN(LeaseStore * leases, services.leases());
  ASCOPE_TRY_ASSIGN(const auto all, leases->list(ctx));
  for (const auto& info : all) {
    const SlotKey slot = SlotKey::from_store_name(info.name);
    if (options.only && !(*options.only == slot)) {
      continue;
    }
    if (!info.proven_dead || info.token.empty()) {
      continue;
    }
    if (!options.dry_run) {
      ASCOPE_TRY(leases->break_lease(ctx, info.name, info.token));
    }
    items.push_back({GcAction::removed, "lease", info.token.substr(0, 8), slot.written(),
                     fmt::format("its holder, pid {}, is dead", info.holder.pid), 0});
  }
  return ok();
}

// Slots to look at: those with a record, and those that only a labelled sandbox knows.
Result<std::vector<SlotKey>> slots_to_collect(EngineServices& services, const OpContext& ctx,
                                              const GcOptions& options) {
  if (options.only) {
    return std::vector<SlotKey>{*options.only};
  }
  ASCOPE_TRY_ASSIGN(StateStore * state, services.state());
  ASCOPE_TRY_ASSIGN(const auto names, state->slots(ctx));
  std::set<std::string> all(names.begin(), names.end());
  ASCOPE_TRY_ASSIGN(Backend * backend, services.backend());
  ASCOPE_TRY_ASSIGN(const auto resources, backend->list(ctx, nullptr));
  for (const auto& info : resources) {
    all.insert(info.slot);
  }
  std::vector<SlotKey> out;
  out.reserve(all.size());
  for (const auto& name : all) {
    out.push_back(SlotKey::from_store_name(name));
  }
  return out;
}

}  // namespace

std::string_view to_string(GcAction action) {
  switch (action) {
    case GcAction::kept:
      return "kept";
    case GcAction::removed:
      return "removed";
    case GcAction::skipped:
      return "skipped";
  }
  return "kept";
}

Result<OtherNames> names_of_other_slots(EngineServices& services, const OpContext& ctx, const SlotKey& slot) {
  ASCOPE_TRY_ASSIGN(StateStore * state, services.state());
  ASCOPE_TRY_ASSIGN(const auto names, state->slots(ctx));
  OtherNames out;
  for (const auto& name : names) {
    const SlotKey other = SlotKey::from_store_name(name);
    if (other == slot) {
      continue;
    }
    ASCOPE_TRY_ASSIGN(const SlotView view, read_slot(services, ctx, other));
    if (view.aux_lost || !require_readable(other, view.record)) {
      out.is_complete = false;
    }
    if (view.record.meta && view.record.meta->head) {
      out.objects.insert(view.record.meta->head->object);
      out.snapshots.insert(view.record.meta->head->snapshot);
    }
    for (const HistoryItem& item : view.aux.history) {
      out.objects.insert(item.object);
      out.snapshots.insert(item.snapshot);
    }
  }
  return out;
}

Result<void> collect_garbage(EngineServices& services, const OpContext& ctx, const GcOptions& options,
                             std::vector<GcItem>& items) {
  ASCOPE_TRY(collect_leases(services, ctx, options, items));
  ASCOPE_TRY_ASSIGN(const auto slots, slots_to_collect(services, ctx, options));
  for (const auto& slot : slots) {
    ASCOPE_TRY(ctx.check("collecting garbage"));
    ASCOPE_TRY(SlotCollector(services, ctx, slot, options.dry_run, items).run());
  }
  ASCOPE_TRY(collect_pending(services, ctx, options, items));
  ASCOPE_TRY(collect_packs(services, ctx, options, items));
  return collect_scans(services, ctx, options);
}

}  // namespace ascope
