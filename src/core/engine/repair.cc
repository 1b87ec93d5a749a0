// SPDX-License-Identifier: Apache-2.0
#include "core/engine/repair.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/random.h"
#include "core/engine/import.h"
#include "core/engine/save.h"

namespace ascope {

namespace {

class HistoryRepair {
 public:
  HistoryRepair(EngineServices& services, const OpContext& ctx, const SlotKey& slot, SlotSession& session,
                const RepairSlotOptions& options, std::vector<RepairedSnapshot>& repaired, Receipt& receipt)
      : services_(services),
        ctx_(ctx),
        slot_(slot),
        session_(session),
        options_(options),
        repaired_(repaired),
        receipt_(receipt) {}

  Result<void> run() {
    ASCOPE_TRY_ASSIGN(repository_, services_.repository());
    ASCOPE_TRY_ASSIGN(origin_, snapshot_origin(services_, ctx_, session_));
    for (const HistoryItem& item : session_.aux().history) {
      ASCOPE_TRY(ctx_.check("repairing snapshots"));
      services_.status(fmt::format("Reading snapshot {}", item.snapshot));
      ASCOPE_TRY(item.format == "chunks" ? repair_chunks(item) : look_at_tar(item));
    }
    if (repaired_.empty() || options_.dry_run) {
      return ok();
    }
    std::vector<HistoryItem> gone;
    gone.reserve(repaired_.size());
    for (const RepairedSnapshot& one : repaired_) {
      gone.push_back(one.before);
    }
    ASCOPE_TRY(commit());
    ASCOPE_TRY(services_.step("after-repair-commit"));
    return remove_objects(services_, ctx_, slot_, gone);
  }

 private:
  Result<void> repair_chunks(const HistoryItem& item) {
    chunks::RepairOptions repair;
    repair.id = random_uuid();
    repair.origin = origin_;
    repair.read_data = options_.read_data;
    repair.dry_run = options_.dry_run;
    // If we die before the commit, the new manifest is an orphan of this slot, which gc finds by its name.
    ASCOPE_TRY_ASSIGN(chunks::RepairOutcome outcome,
                      chunks::repair_snapshot(ctx_, repository_->chunks(), item, repair));
    if (outcome.problems.empty()) {
      return ok();
    }
    RepairedSnapshot out;
    out.before = item;
    out.problems = std::move(outcome.problems);
    out.lost = std::move(outcome.lost);
    out.is_all_lost = outcome.is_all_lost;
    if (outcome.item) {
      out.after = std::move(*outcome.item);
      out.after->kind = item.kind;
      out.after->time = item.time;
      out.after->tags = item.tags;
      out.after->tree = "";
    }
    repaired_.push_back(std::move(out));
    return ok();
  }

  Result<void> look_at_tar(const HistoryItem& item) {
    ASCOPE_TRY_ASSIGN(std::vector<SnapshotProblem> problems,
                      repository_->problems(ctx_, item, options_.read_data));
    if (!problems.empty()) {
      repaired_.push_back({item, std::move(problems), std::nullopt, {}, true});
    }
    return ok();
  }

  // nullptr: it is whole.
  [[nodiscard]] const RepairedSnapshot* find_repaired(const std::string& snapshot) const {
    const auto found = std::find_if(repaired_.begin(), repaired_.end(), [&](const RepairedSnapshot& one) {
      return one.before.snapshot == snapshot;
    });
    return found == repaired_.end() ? nullptr : &*found;
  }
  // The id that stands in place of one; "" if nothing does.
  [[nodiscard]] std::string heir(const std::string& snapshot) const {
    const RepairedSnapshot* found = find_repaired(snapshot);
    return found == nullptr ? snapshot : found->after ? found->after->snapshot : "";
  }

  Result<void> commit() {
    Aux& aux = session_.aux();
    std::vector<HistoryItem> history;
    for (HistoryItem& item : aux.history) {
      const RepairedSnapshot* found = find_repaired(item.snapshot);
      if (found == nullptr) {
        history.push_back(std::move(item));
      } else if (found->after) {
        history.push_back(*found->after);
      }
    }
    for (HistoryItem& item : history) {
      item.parent = heir(item.parent);
    }
    aux.history = std::move(history);
    aux.undo = heir(aux.undo);
    const SlotRecord& record = session_.record();
    SlotSession::Change change;
    change.live = record.meta->live;
    change.head = record.meta->head;
    change.document = record.document_text;
    receipt_.parent = change.head ? change.head->snapshot : "";
    if (change.head && heir(change.head->snapshot) != change.head->snapshot) {
      ASCOPE_TRY(move_head(record, heir(change.head->snapshot), change));
    }
    ASCOPE_TRY(session_.commit(ctx_, change, receipt_));
    receipt_.snapshot = change.head ? change.head->snapshot : "";
    receipt_.changed = receipt_.snapshot != receipt_.parent;
    return ok();
  }

  Result<void> move_head(const SlotRecord& record, std::string snapshot, SlotSession::Change& change) {
    const Aux& aux = session_.aux();
    if (snapshot.empty()) {
      receipt_.lost_snapshot = change.head->snapshot;
      const auto newest = std::find_if(aux.history.begin(), aux.history.end(),
                                       [](const HistoryItem& item) { return item.kind != "stranded"; });
      snapshot = newest == aux.history.end() ? "" : newest->snapshot;
    }
    const HistoryItem* item = find_item(aux, snapshot);
    change.head = item == nullptr ? std::nullopt : std::optional<HeadRef>(head_ref(services_, *item));
    Json document = record.document;
    if (item == nullptr) {
      document["snapshot"] = Json{{"type", "noop"}, {"id", "noop"}};
    } else {
      document["snapshot"]["id"] = snapshot;
    }
    ASCOPE_TRY(check_document(document));
    change.document = dump_json(document);
    return ok();
  }

  EngineServices& services_;
  const OpContext& ctx_;
  const SlotKey& slot_;
  SlotSession& session_;
  const RepairSlotOptions& options_;
  std::vector<RepairedSnapshot>& repaired_;
  Receipt& receipt_;
  SnapshotRepository* repository_ = nullptr;
  SnapshotOrigin origin_;
};

// What all of the store hangs on, and what a gc or a reader left that nobody can read.
Result<void> repair_store(EngineServices& services, const OpContext& ctx, SlotRepair& repaired,
                          bool dry_run) {
  ASCOPE_TRY_ASSIGN(SnapshotRepository * repository, services.repository());
  ChunkRepository& chunks = repository->chunks();
  if (dry_run) {
    ASCOPE_TRY_ASSIGN(repaired.store, chunks.repo_problems(ctx));
    return ok();
  }
  ASCOPE_TRY_ASSIGN(repaired.store, chunks.mend_repo(ctx));
  ASCOPE_TRY_ASSIGN(const std::optional<chunks::Access> access, find_access(ctx, repository->chunks()));
  if (access) {
    ASCOPE_TRY(chunks::repair_markers(ctx, *access, {}));
  }
  return ok();
}

}  // namespace

Result<void> repair_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                         const RepairSlotOptions& options, SlotRepair& repaired, Receipt& receipt) {
  ASCOPE_TRY(repair_store(services, ctx, repaired, options.dry_run));
  if (options.dry_run && !repaired.store.empty()) {
    return ok();
  }
  SessionOptions session_options;
  session_options.local = options.dry_run ? LockMode::shared : LockMode::commit;
  session_options.lease = !options.dry_run;
  session_options.wait = options.lock.wait;
  session_options.lease_token = options.lock.lease_token;
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<SlotSession> session,
                    SlotSession::open(services, ctx, slot, session_options, receipt));
  if (session->record().kind != RecordClass::ours) {
    return make_error(
        ErrorKind::unsupported,
        fmt::format("the state of {} is not ours to write: {}", slot.written(), session->record().problem),
        fmt::format("'ascope-sandbox show {}' tells whose it is", slot.written()));
  }
  if (!options.dry_run) {
    ASCOPE_TRY(session->claim(ctx, receipt));
  }
  ASCOPE_TRY(HistoryRepair(services, ctx, slot, *session, options, repaired.snapshots, receipt).run());
  return session->close(ctx);
}

}  // namespace ascope
