// SPDX-License-Identifier: Apache-2.0
// restore and undo: a snapshot back into a slot, in place under a mark, after a safety snapshot (protocols
// 5).
#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "core/engine/entries.h"
#include "core/engine/finish.h"
#include "core/engine/gather.h"
#include "core/engine/save.h"
#include "core/engine/start.h"

namespace ascope {

namespace {

class Restorer {
 public:
  Restorer(EngineServices& services, const OpContext& ctx, const SlotKey& slot, SlotSession& session,
           const SlotKey& source, const RestoreOptions& options, HistoryItem item, Receipt& receipt)
      : services_(services),
        ctx_(ctx),
        slot_(slot),
        session_(session),
        source_(source),
        options_(options),
        item_(std::move(item)),
        receipt_(receipt) {}

  Result<void> run() {
    ASCOPE_TRY(check_object(false));
    ASCOPE_TRY(find_sandbox());
    receipt_.restored = item_.snapshot;
    if (options_.dry_run) {
      return preview();
    }
    if (attached_ && attached_->info.phase == SandboxPhase::running) {
      ASCOPE_TRY(check_object(true));  // nothing that runs is ended for a snapshot that cannot be put back
    }
    ASCOPE_TRY(session_.claim(ctx_, receipt_));
    if (!attached_) {
      return move_pointer();
    }
    if (note_item()) {
      // A fork. Before anything is touched its history holds the snapshot.
      const SlotSession::Change change = unchanged();
      ASCOPE_TRY(session_.commit(ctx_, change, receipt_));
      ASCOPE_TRY(hold_fork(change, session_.aux().undo));
    }
    ASCOPE_TRY(save_safety());
    ASCOPE_TRY(put_back());
    return finish();
  }

 private:
  Result<void> check_object(bool read_data) {
    ASCOPE_TRY_ASSIGN(Repository * repository, services_.repository());
    ASCOPE_TRY_ASSIGN(const SnapshotHealth health, repository->check(ctx_, item_, read_data));
    switch (health) {
      case SnapshotHealth::usable:
        return ok();
      case SnapshotHealth::missing:
        return make_error(
            ErrorKind::not_found,
            fmt::format("snapshot '{}' is missing in {}", item_.snapshot, services_.profile().snapshot_store),
            "'ascope-sandbox snapshot check' tells what is left");
      case SnapshotHealth::corrupt:
      case SnapshotHealth::overwritten:
        break;
    }
    return make_error(ErrorKind::corrupt,
                      fmt::format("the object of snapshot '{}' is not what was saved", item_.snapshot),
                      "'ascope-sandbox snapshot check' tells what is left");
  }

  Result<void> find_sandbox() {
    const SlotView& view = session_.view();
    if (view.record.kind == RecordClass::absent || view.record.kind == RecordClass::tombstone) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const HostFacts host, services_.host());
    const auto& live = view.record.meta ? view.record.meta->live : std::nullopt;
    if (live && live->bound && *live->bound != host.id && !live->clean && !options_.allow_loss) {
      return make_error(ErrorKind::refused,
                        fmt::format("host {} may hold unsaved work since {}", *live->bound, live->since),
                        "stop or snapshot it there, or give that work up with --allow-loss");
    }
    auto attached = attach_slot(services_, ctx_, slot_, view);
    if (!attached) {
      return attached.error().kind == ErrorKind::not_found ? ok() : Result<void>(std::move(attached).error());
    }
    if (attached->external) {
      return make_error(ErrorKind::unsupported,
                        "the slot is bound to an external sandbox; it is never restored from here",
                        "'restore --to DIR' unpacks the snapshot, 'restore --into SLOT' makes a fork of it");
    }
    if (!attached->info.jobs.empty() && !options_.kill && !options_.dry_run) {
      return make_error(ErrorKind::busy,
                        fmt::format("{} is running in the sandbox", attached->info.jobs.front()),
                        "wait for it, or end it with --kill");
    }
    receipt_.sandbox = attached->info.id;
    receipt_.tree = attached->info.tree;
    attached_.emplace(std::move(*attached));
    return ok();
  }

  // Compares the snapshot with what is in the sandbox now; changes nothing.
  Result<void> preview() {
    receipt_.predicted = true;
    if (!attached_) {
      receipt_.why = "the slot has no sandbox here: its head moves, and the next start restores it";
      return ok();
    }
    ASCOPE_TRY_ASSIGN(Repository * repository, services_.repository());
    ASCOPE_TRY_ASSIGN(auto source, repository->open(ctx_, item_, SnapshotPart::workspace));
    ASCOPE_TRY_ASSIGN(ApplyOptions apply, workspace_options());
    apply.dry_run = true;
    ASCOPE_TRY_ASSIGN(ApplyReport report, attached_->sandbox->files().apply(
                                              ctx_, services_.profile().workspace_root, *source, apply));
    if (options_.changes != nullptr) {
      *options_.changes = std::move(report.changes);
    }
    return ok();
  }

  [[nodiscard]] Result<ApplyOptions> workspace_options() const {
    ApplyOptions apply;
    ASCOPE_TRY_ASSIGN(apply.spare, excluded_patterns(ctx_, attached_->sandbox->files(), services_.profile()));
    apply.mode = ApplyMode::exact;
    apply.set_owner = true;
    apply.allow_setid = true;
    apply.only = options_.paths;
    apply.skip_paths = excluded_entry_paths(services_.profile());
    return apply;
  }

  // The record as it is.
  [[nodiscard]] SlotSession::Change unchanged() const {
    const SlotRecord& record = session_.record();
    const bool is_there = record.kind != RecordClass::absent && record.kind != RecordClass::tombstone;
    return {record.document_text, !is_there, record.meta ? record.meta->head : std::nullopt,
            record.meta ? record.meta->live : std::nullopt};
  }

  // Called when a commit has put another slot's snapshot into this history. Who removes one first takes it
  // out of the source's history, then looks who else names it: so if it is there still, nobody removes it any
  // more. If not, `before` is committed again, without it, and with the undo of then.
  Result<void> hold_fork(const SlotSession::Change& before, std::string undo_before) {
    ASCOPE_TRY(services_.step("fork-published"));
    ASCOPE_TRY_ASSIGN(const SlotView other, read_slot(services_, ctx_, source_));
    if (find_item(other.aux, item_.snapshot) != nullptr) {
      return ok();
    }
    Aux& aux = session_.aux();
    std::erase_if(aux.history, [&](const HistoryItem& one) { return one.snapshot == item_.snapshot; });
    aux.undo = std::move(undo_before);
    ASCOPE_TRY(session_.commit(ctx_, before, receipt_));
    return make_error(
        ErrorKind::not_found,
        fmt::format("snapshot '{}' of {} was removed meanwhile", item_.snapshot, source_.written()),
        fmt::format("'ascope-sandbox snapshot ls {}' lists those that are left", source_.written()));
  }

  // No sandbox here: the state's snapshot moves, and the next start is C.
  Result<void> move_pointer() {
    if (!options_.paths.empty()) {
      return make_error(ErrorKind::not_found,
                        fmt::format("{} has no sandbox to restore single paths into", slot_.written()),
                        fmt::format("start it first: ascope-sandbox start {}", slot_.written()));
    }
    const SlotSession::Change before = unchanged();
    std::string undo_before = std::exchange(session_.aux().undo, before.head ? before.head->snapshot : "");
    const bool is_new = note_item();
    SlotSession::Change change;
    ASCOPE_TRY_ASSIGN(change.document,
                      slot_document(services_, session_.record(), nullptr, item_.snapshot, true, ""));
    change.head = head_ref(services_, item_);
    ASCOPE_TRY(session_.commit(ctx_, change, receipt_));
    if (is_new) {
      ASCOPE_TRY(hold_fork(before, std::move(undo_before)));
    }
    receipt_.snapshot = item_.snapshot;
    receipt_.changed = true;
    receipt_.why = "the slot has no sandbox here: the next start restores the snapshot";
    return ok();
  }

  // The snapshot of another slot (a fork) becomes an item of this one's history; both name the same objects.
  // false: it was one already.
  bool note_item() {
    if (find_item(session_.aux(), item_.snapshot) != nullptr) {
      return false;
    }
    item_.kind = "restore";
    item_.tags.clear();
    session_.aux().history.insert(session_.aux().history.begin(), item_);
    return true;
  }

  Result<void> save_safety() {
    const auto& meta = session_.record().meta;
    const std::string head = meta && meta->head ? meta->head->snapshot : "";
    receipt_.parent = head;
    // Ending what runs first makes the safety snapshot whole and the restore final.
    ASCOPE_TRY(attached_->sandbox->quiesce(ctx_, session_.fence()));
    ASCOPE_TRY_ASSIGN(const TreeProbe probe,
                      attached_->sandbox->files().probe(ctx_, services_.profile().workspace_root));
    if (probe.marked && !options_.paths.empty()) {
      // Single paths over a tree of which nobody knows what it is would make a blend of it for good.
      return make_error(ErrorKind::incomplete, "a restore was not finished in this workspace",
                        fmt::format("'ascope-sandbox start {}' finishes it", slot_.written()));
    }
    if (!probe.exists || probe.marked) {
      session_.aux().undo = head;
      return ok();  // nothing whole is there; head has it
    }
    const HistoryItem* parent = head.empty() ? nullptr : find_item(session_.aux(), head);
    ASCOPE_TRY_ASSIGN(SavedTree saved,
                      save_tree(services_, ctx_, session_, *attached_->sandbox, attached_->info, parent,
                                "safety", ParentCheck::look, receipt_));
    session_.aux().undo = saved.item.snapshot;
    if (saved.changed) {
      receipt_.safety = saved.item.snapshot;
      session_.aux().history.insert(session_.aux().history.begin(), saved.item);
      // Committed before the tree is touched, and as head: a start after a crash goes on from the tree as it
      // was.
      SlotSession::Change change{session_.record().document_text, false, head_ref(services_, saved.item),
                                 session_.record().meta->live};
      ASCOPE_TRY(session_.commit(ctx_, change, receipt_));
    }
    return services_.step("after-safety");
  }

  Result<void> put_back() {
    if (options_.paths.empty()) {
      return restore_tree(services_, ctx_, *attached_->sandbox, item_, false, session_.fence(), receipt_);
    }
    PhaseTimer timer(receipt_, "restore", *ctx_.clock);
    ASCOPE_TRY_ASSIGN(Repository * repository, services_.repository());
    ASCOPE_TRY_ASSIGN(auto source,
                      repository->open_paths(ctx_, item_, SnapshotPart::workspace, options_.paths));
    ASCOPE_TRY_ASSIGN(ApplyOptions apply, workspace_options());
    apply.before_change = [&] {
      return attached_->sandbox->files().set_mark(ctx_, services_.profile().workspace_root,
                                                  dump_json(Json{{"target", item_.snapshot}}));
    };
    ASCOPE_TRY_ASSIGN(
        const ApplyReport report,
        attached_->sandbox->files().apply(ctx_, services_.profile().workspace_root, *source, apply));
    receipt_.notes.insert(receipt_.notes.end(), report.notes.begin(), report.notes.end());
    if (report.written + report.metadata + report.unchanged + report.removed == 0) {
      return make_error(ErrorKind::not_found,
                        fmt::format("snapshot '{}' has none of the named paths", item_.snapshot),
                        fmt::format("'ascope-sandbox snapshot find {} NAME' looks for one", item_.snapshot));
    }
    return ok();
  }

  Result<void> finish() {
    const bool whole = options_.paths.empty();
    const auto& meta = session_.record().meta;
    const std::string head = whole ? item_.snapshot : meta && meta->head ? meta->head->snapshot : "";
    SlotSession::Change change;
    ASCOPE_TRY_ASSIGN(change.document,
                      slot_document(services_, session_.record(), &attached_->info, head, true, ""));
    change.head = whole ? std::optional<HeadRef>(head_ref(services_, item_)) : meta->head;
    ASCOPE_TRY_ASSIGN(change.live, live_mark(services_, ctx_, attached_->info, whole));
    ASCOPE_TRY(services_.step("before-restore-commit"));
    ASCOPE_TRY(session_.commit(ctx_, change, receipt_));
    ASCOPE_TRY(clear_marks(services_, ctx_, *attached_->sandbox));
    receipt_.snapshot = head;
    receipt_.changed = true;
    if (attached_->info.phase != SandboxPhase::running) {
      return ok();  // it was stopped and stays so
    }
    PhaseTimer timer(receipt_, "sandbox", *ctx_.clock);
    ASCOPE_TRY(attached_->sandbox->start(ctx_, services_.profile().settings, session_.fence()));
    // The projection runs against what is really there now.
    ASCOPE_TRY(project_into(services_, ctx_, *attached_->sandbox, session_.aux(), receipt_).has_value()
                   ? ok()
                   : Result<void>(make_error(ErrorKind::incomplete,
                                             "the snapshot is back, but the projection failed",
                                             "'ascope-sandbox project apply' tries it again")));
    SlotSession::Change again{session_.record().document_text, false, session_.record().meta->head,
                              session_.record().meta->live};
    return session_.commit(ctx_, again, receipt_);
  }

  EngineServices& services_;
  const OpContext& ctx_;
  const SlotKey& slot_;
  SlotSession& session_;
  const SlotKey& source_;  // in whose history the item was; another slot's for a fork
  const RestoreOptions& options_;
  HistoryItem item_;
  Receipt& receipt_;
  std::optional<AttachedSlot> attached_;
};

Result<std::unique_ptr<SlotSession>> open_session(EngineServices& services, const OpContext& ctx,
                                                  const SlotKey& slot, const RestoreOptions& options,
                                                  Receipt& receipt) {
  SessionOptions session;
  session.local = options.dry_run ? LockMode::shared : LockMode::exclusive;
  session.lease = !options.dry_run;
  session.wait = options.lock.wait;
  session.lease_token = options.lock.lease_token;
  return SlotSession::open(services, ctx, slot, session, receipt);
}

}  // namespace

Result<void> restore_slot(EngineServices& services, const OpContext& ctx, const SlotKey& source,
                          const SlotKey& target, const RestoreOptions& options, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(auto session, open_session(services, ctx, target, options, receipt));
  HistoryItem item;
  ASCOPE_TRY(require_readable(target, session->record()));
  if (source == target) {
    const auto& meta = session->record().meta;
    ASCOPE_TRY_ASSIGN(item,
                      find_snapshot(session->aux(), meta ? meta->head : std::nullopt, options.snapshot));
  } else {
    ASCOPE_TRY_ASSIGN(const SlotView other, read_slot(services, ctx, source));
    ASCOPE_TRY(require_readable(source, other.record));
    const auto& meta = other.record.meta;
    ASCOPE_TRY_ASSIGN(item, find_snapshot(other.aux, meta ? meta->head : std::nullopt, options.snapshot));
  }
  ASCOPE_TRY(Restorer(services, ctx, target, *session, source, options, std::move(item), receipt).run());
  return session->close(ctx);
}

Result<void> undo_restore(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                          const RestoreOptions& options, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(auto session, open_session(services, ctx, slot, options, receipt));
  ASCOPE_TRY(require_readable(slot, session->record()));
  const std::string back = session->aux().undo;
  if (back.empty()) {
    return make_error(ErrorKind::not_found, fmt::format("{} has no restore to take back", slot.written()),
                      "'ascope-sandbox snapshot ls' lists what can be restored");
  }
  ASCOPE_TRY_ASSIGN(HistoryItem item, find_snapshot(session->aux(), std::nullopt, back));
  ASCOPE_TRY(Restorer(services, ctx, slot, *session, slot, options, std::move(item), receipt).run());
  return session->close(ctx);
}

}  // namespace ascope
