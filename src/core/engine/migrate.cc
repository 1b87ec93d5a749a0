// SPDX-License-Identifier: Apache-2.0
#include "core/engine/migrate.h"

#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "core/base/hash.h"
#include "core/base/random.h"
#include "core/engine/import.h"
#include "core/engine/save.h"

namespace ascope {

namespace {

constexpr const char* kMovedFrom = "moved_from";  // in the target's aux: which state it was made of
constexpr const char* kMovedTo = "moved_to";      // in the aux of the tombstone that is left

// The realm of a state store that may never have been written to; "" then.
Result<std::string> known_realm(EngineServices& services, const OpContext& ctx) {
  ASCOPE_TRY_ASSIGN(StateStore * state, services.state());
  ASCOPE_TRY_ASSIGN(const auto found, state->read(ctx, kRealmSlot, kRealmSlot));
  if (!found) {
    return std::string();
  }
  return store_realm(services, ctx);
}

class Migration {
 public:
  Migration(EngineServices& from, EngineServices& to, const OpContext& ctx, const SlotKey& slot,
            const MigrateOptions& options, Receipt& receipt)
      : from_(from), to_(to), ctx_(ctx), slot_(slot), options_(options), receipt_(receipt) {}

  Result<void> run() {
    ASCOPE_TRY(compare_places());
    ASCOPE_TRY(settle_sandbox());
    SessionOptions session_options;
    session_options.local = options_.dry_run ? LockMode::shared : LockMode::commit;
    session_options.lease = !options_.dry_run;
    session_options.wait = options_.lock.wait;
    session_options.lease_token = options_.lock.lease_token;
    ASCOPE_TRY_ASSIGN(session_, SlotSession::open(from_, ctx_, slot_, session_options, receipt_));
    ASCOPE_TRY(check_source());
    receipt_.parent = head_id();
    receipt_.snapshot = receipt_.parent;
    if (same_state_ && std::none_of(history().begin(), history().end(),
                                    [&](const HistoryItem& item) { return moves(item); })) {
      receipt_.why = "it is there already, in this format";
      return session_->close(ctx_);
    }
    ASCOPE_TRY(look_at_target());
    if (options_.dry_run) {
      return predict();
    }
    ASCOPE_TRY(session_->claim(ctx_, receipt_));
    // Between the first look and the claim a sandbox may have come up.
    ASCOPE_TRY(check_source());
    ASCOPE_TRY(same_state_ ? move_snapshots() : move_state());
    return session_->close(ctx_);
  }

 private:
  [[nodiscard]] const std::vector<HistoryItem>& history() const { return session_->view().aux.history; }
  [[nodiscard]] std::string head_id() const {
    const auto& meta = session_->record().meta;
    return meta && meta->head ? meta->head->snapshot : "";
  }
  // A snapshot's manifest names the state store that it is of, so another one needs another.
  [[nodiscard]] bool moves(const HistoryItem& item) const {
    return !same_state_ || !same_blobs_ || item.format != to_.profile().snapshot_format;
  }

  Result<void> compare_places() {
    ASCOPE_TRY_ASSIGN(const std::string source, known_realm(from_, ctx_));
    ASCOPE_TRY_ASSIGN(const std::string target, known_realm(to_, ctx_));
    source_realm_ = source;
    same_state_ = !source.empty() && source == target;
    same_blobs_ = from_.profile().snapshot_store == to_.profile().snapshot_store;
    if (same_state_ && options_.copy) {
      return make_error(ErrorKind::usage, "a copy needs another state store to be in",
                        "name one with --to-set state=URL, or make a fork: ascope-sandbox restore --into");
    }
    return ok();
  }

  // Whether the sandbox is the slot's still when it has moved, with whatever is unsaved in it.
  [[nodiscard]] bool keeps_sandbox(const LiveMark& live) const {
    return same_state_ && live.backend == to_.backend_kind().name;
  }

  // Saves what only the sandbox holds, and destroys it, where the slot will not know it any more.
  Result<void> settle_sandbox() {
    ASCOPE_TRY_ASSIGN(const SlotView view, read_slot(from_, ctx_, slot_));
    const auto& live = view.record.meta ? view.record.meta->live : std::nullopt;
    if (view.record.kind != RecordClass::ours || !live || keeps_sandbox(*live) || options_.dry_run) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const HostFacts host, from_.host());
    if (live->bound && *live->bound != host.id) {
      return ok();  // check_source() judges it
    }
    Receipt saved;
    RemoveOptions remove;
    remove.lock = options_.lock;
    remove.allow_loss = options_.allow_loss;
    ASCOPE_TRY(remove_slot(from_, ctx_, slot_, remove, saved));
    receipt_.sandbox = saved.sandbox;
    std::move(saved.warnings.begin(), saved.warnings.end(), std::back_inserter(receipt_.warnings));
    return ok();
  }

  Result<void> check_source() {
    const SlotRecord& record = session_->record();
    ASCOPE_TRY(require_readable(slot_, record));
    if (record.kind == RecordClass::absent || record.kind == RecordClass::tombstone) {
      const std::string place = moved_to(session_->view().aux);
      return make_error(ErrorKind::not_found, fmt::format("there is no slot {}", slot_.written()),
                        place.empty() ? "'ascope-sandbox ls' lists the slots there are"
                                      : fmt::format("it was moved to {}", place));
    }
    if (record.kind != RecordClass::ours) {
      return make_error(
          ErrorKind::unsupported,
          fmt::format("the state of {} was written by another program: {}", slot_.written(), record.problem),
          "start and snapshot it here first: the state is ours then");
    }
    if (session_->aux_lost()) {
      return make_error(ErrorKind::corrupt, fmt::format("the history of {} is lost", slot_.written()),
                        fmt::format("'ascope-sandbox adopt {}' rebuilds what it can", slot_.written()));
    }
    const auto& live = record.meta->live;
    if (!live || keeps_sandbox(*live) || options_.dry_run) {
      return ok();
    }
    if (!live->clean && !options_.allow_loss) {
      return make_error(
          ErrorKind::refused,
          fmt::format("a sandbox of {}{} may hold unsaved work since {}", slot_.written(),
                      live->bound ? " on host " + *live->bound : "", live->since),
          fmt::format("'ascope-sandbox rm {}' there saves it, --allow-loss gives it up", slot_.written()));
    }
    if (!live->clean) {
      receipt_.lost_since = live->since;
    }
    return ok();
  }

  Result<void> look_at_target() {
    if (!history().empty() && !to_.has_snapshots()) {
      return make_error(ErrorKind::unsupported, "the target has no snapshot store (snapshots.store: none)",
                        "name one: --to-set snapshots.store=URL");
    }
    if (same_state_) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(target_, read_slot(to_, ctx_, slot_));
    ASCOPE_TRY(require_readable(slot_, target_.record));
    if (target_.record.kind == RecordClass::absent || target_.record.kind == RecordClass::tombstone) {
      return ok();
    }
    const Json& extra = target_.aux.extra;
    is_there_ = extra.is_object() && extra.contains(kMovedFrom) && extra[kMovedFrom] == source_mark();
    if (!is_there_) {
      return make_error(ErrorKind::conflict,
                        fmt::format("{} has a slot {} already", to_.profile().state_store, slot_.written()),
                        "nothing was overwritten; remove one of the two");
    }
    return ok();
  }

  // What tells a call that comes again that its work was done: the state that it was made of.
  [[nodiscard]] Json source_mark() const {
    std::string all;
    for (const HistoryItem& item : history()) {
      all += item.snapshot + "\n";
    }
    return Json{{"realm", source_realm_}, {"head", head_id()}, {"history", sha256_hex(all)}};
  }

  Result<void> predict() {
    receipt_.predicted = true;
    const auto count = std::count_if(history().begin(), history().end(),
                                     [&](const HistoryItem& item) { return moves(item); });
    receipt_.why = fmt::format("{} snapshots would be written to {}, format {}", count,
                               to_.profile().snapshot_store, to_.profile().snapshot_format);
    if (!same_state_) {
      receipt_.why += fmt::format(", and the state to {}", to_.profile().state_store);
    }
    const auto& live = session_->record().meta->live;
    if (live && !keeps_sandbox(*live)) {
      receipt_.sandbox = live->sandbox.value_or("");
      receipt_.why += "; its sandbox would be saved and destroyed first";
    }
    return session_->close(ctx_);
  }

  // ---- snapshots

  // The history as the target has it, `ids` from old to new. Oldest first, so that the next shares with it.
  Result<std::vector<HistoryItem>> copy_history() {
    PhaseTimer timer(receipt_, "snapshots", *ctx_.clock);
    std::vector<HistoryItem> copied;
    std::uint64_t stored = 0;
    std::size_t number = 0;
    for (auto item = history().rbegin(); item != history().rend(); ++item) {
      from_.status(fmt::format("Moving snapshot {} ({} of {})", item->snapshot, ++number, history().size()));
      ASCOPE_TRY(ctx_.check("moving snapshots"));
      HistoryItem copy = *item;
      if (moves(*item)) {
        ASCOPE_TRY_ASSIGN(copy, copy_snapshot(*item));
        stored += copy.added_bytes;
      }
      ids_[item->snapshot] = copy.snapshot;
      const auto parent = ids_.find(item->parent);
      copy.parent = parent == ids_.end() ? "" : parent->second;
      copied.insert(copied.begin(), std::move(copy));
    }
    receipt_.saved = Json{{"stored_bytes", stored}};
    return copied;
  }

  Result<HistoryItem> copy_snapshot(const HistoryItem& item) {
    ASCOPE_TRY_ASSIGN(Repository * source, from_.repository());
    ASCOPE_TRY_ASSIGN(Repository * target, to_.repository());
    ASCOPE_TRY_ASSIGN(const auto workspace, source->open(ctx_, item, SnapshotPart::workspace));
    std::unique_ptr<TreeSource> roots;
    if (!item.roots_object.empty()) {
      ASCOPE_TRY_ASSIGN(roots, source->open(ctx_, item, SnapshotPart::roots));
    }
    SaveRequest request;
    request.id = random_uuid();
    request.workspace = workspace.get();
    request.roots = roots.get();
    ASCOPE_TRY_ASSIGN(request.origin, target_origin(item));
    for (const Json& note : item.notes) {
      ASCOPE_TRY_ASSIGN(TreeNote parsed, note_of_json(note));
      request.notes.push_back(std::move(parsed));
    }
    ASCOPE_TRY(note_pending_save(to_, request.id, {slot_.written(), request.origin.realm}));
    pending_.push_back(request.id);
    ASCOPE_TRY(from_.step("before-objects"));
    ASCOPE_TRY_ASSIGN(SaveOutcome saved, target->save(ctx_, request));
    ASCOPE_TRY(from_.step("after-objects"));
    HistoryItem copy = std::move(saved.item);
    copy.time = item.time;
    copy.kind = item.kind;
    copy.rev = item.rev;
    copy.fence = item.fence;
    copy.host = item.host;
    copy.tree = item.tree;
    copy.tags = item.tags;
    copy.notes = item.notes;
    copy.added_bytes = saved.stored_bytes;
    return copy;
  }

  Result<SnapshotOrigin> target_origin(const HistoryItem& item) {
    ASCOPE_TRY_ASSIGN(SnapshotOrigin origin, snapshot_origin(from_, ctx_, *session_));
    ASCOPE_TRY_ASSIGN(origin.realm, store_realm(to_, ctx_));
    origin.time = item.time;
    origin.host = item.host;
    return origin;
  }

  Result<void> forget_pending() {
    for (const std::string& id : std::exchange(pending_, {})) {
      ASCOPE_TRY(forget_pending_save(to_, id));
    }
    return ok();
  }

  // Their objects in the source; a fork that names one keeps it.
  Result<void> remove_old(const std::vector<HistoryItem>& items) {
    if (items.empty()) {
      return ok();
    }
    PhaseTimer timer(receipt_, "remove", *ctx_.clock);
    return remove_objects(from_, ctx_, slot_, items);
  }

  // ---- the record

  [[nodiscard]] std::string new_id(const std::string& snapshot) const {
    const auto found = ids_.find(snapshot);
    return found == ids_.end() ? "" : found->second;
  }

  // The document for the head's new id. Of another backend's kind it is made anew, else all but the snapshot
  // stays.
  Result<std::string> document(const std::string& head) {
    const SlotRecord& record = session_->record();
    const auto type = get_string(record.document, "type");
    if (!type || *type != to_.backend_kind().name) {
      return slot_document(to_, record, nullptr, head, true, "");
    }
    Json changed = record.document;
    ASCOPE_TRY_ASSIGN(changed["snapshot"], snapshot_document(to_, head));
    ASCOPE_TRY(check_document(changed));
    return dump_json(changed);
  }

  std::optional<HeadRef> new_head(const std::vector<HistoryItem>& history) const {
    const std::string id = new_id(head_id());
    const auto found = std::find_if(history.begin(), history.end(),
                                    [&](const HistoryItem& item) { return item.snapshot == id; });
    return found == history.end() ? std::nullopt : std::optional<HeadRef>(head_ref(to_, *found));
  }

  // Within one state store: the same record, other objects.
  Result<void> move_snapshots() {
    const std::vector<HistoryItem> before = history();
    ASCOPE_TRY_ASSIGN(std::vector<HistoryItem> copied, copy_history());
    SlotSession::Change change;
    change.head = new_head(copied);
    change.live = session_->record().meta->live;
    if (change.live && !keeps_sandbox(*change.live)) {
      change.live.reset();
    }
    ASCOPE_TRY_ASSIGN(change.document, document(change.head ? change.head->snapshot : ""));
    session_->aux().undo = new_id(session_->aux().undo);
    session_->aux().history = std::move(copied);
    ASCOPE_TRY(session_->commit(ctx_, change, receipt_));
    ASCOPE_TRY(forget_pending());
    note_done(change.head);
    std::vector<HistoryItem> gone;
    std::copy_if(before.begin(), before.end(), std::back_inserter(gone),
                 [&](const HistoryItem& item) { return moves(item); });
    return remove_old(gone);
  }

  // To another state store: there first, then the tombstone here.
  Result<void> move_state() {
    const std::vector<HistoryItem> before = history();
    if (!is_there_) {
      ASCOPE_TRY(copy_receipts());
      ASCOPE_TRY(write_target());
    } else {
      note_done(target_.record.meta->head);
    }
    ASCOPE_TRY(from_.step("after-target"));
    if (options_.copy) {
      return ok();
    }
    session_->aux() = Aux{};
    session_->aux().extra[kMovedTo] =
        Json{{"state", to_.profile().state_store}, {"time", format_time(ctx_.clock->wall())}};
    SlotSession::Change change;
    change.deleted = true;
    ASCOPE_TRY(session_->commit(ctx_, change, receipt_));
    return remove_old(before);
  }

  Result<void> write_target() {
    Aux aux = session_->view().aux;
    const Json mark = source_mark();
    ASCOPE_TRY_ASSIGN(aux.history, copy_history());
    aux.undo = new_id(aux.undo);
    aux.slot = slot_.written();
    aux.extra[kMovedFrom] = mark;
    SlotMeta meta;
    ASCOPE_TRY_ASSIGN(meta.realm, store_realm(to_, ctx_));
    const auto& there = target_.record.meta;
    meta.rev = std::max(session_->record().meta->rev, there ? there->rev : 0) + 1;
    // The lease store of the target is lifted above it when the slot is next taken there.
    meta.fence = std::max(session_->fence(), there ? there->fence + 1 : 0);
    meta.head = new_head(aux.history);
    ASCOPE_TRY_ASSIGN(const std::string text, document(meta.head ? meta.head->snapshot : ""));
    ASCOPE_TRY_ASSIGN(StateStore * state, to_.state());
    const std::string name = slot_.store_name();
    const std::string aux_bytes = dump_aux(aux);
    meta.aux = AuxRef{fmt::format("{}{}-{}", kAuxPrefix, meta.rev, random_hex(8)), sha256_hex(aux_bytes)};
    ASCOPE_TRY_ASSIGN(const bool stored, state->swap(ctx_, name, meta.aux->key, std::nullopt, aux_bytes));
    if (!stored) {
      return make_error(ErrorKind::conflict, fmt::format("value '{}' exists already", meta.aux->key),
                        "run the command again");
    }
    ASCOPE_TRY(session_->check());
    ASCOPE_TRY(from_.step("before-target"));
    const std::string bytes = build_record(text, false, meta);
    const std::optional<std::string> expected = target_.record.kind == RecordClass::absent
                                                    ? std::nullopt
                                                    : std::optional<std::string>(target_.record.bytes);
    ASCOPE_TRY(put_record(*state, name, expected, bytes));
    ASCOPE_TRY(forget_pending());
    note_done(meta.head);
    return ok();
  }

  Result<void> put_record(StateStore& state, const std::string& name,
                          const std::optional<std::string>& expected, const std::string& bytes) {
    auto swapped = state.swap(ctx_, name, kRecordKey, expected, bytes);
    if (swapped && *swapped) {
      return ok();
    }
    // Refused, or the outcome is unknown: what stands there decides.
    ASCOPE_TRY_ASSIGN(const auto present, state.read(ctx_, name, kRecordKey));
    if (present == bytes) {
      return ok();
    }
    if (!swapped) {
      return std::move(swapped).error();
    }
    return make_error(ErrorKind::conflict,
                      fmt::format("{} got a slot {} meanwhile", to_.profile().state_store, slot_.written()),
                      "nothing was overwritten; remove one of the two");
  }

  // The slot's receipts go along, once.
  Result<void> copy_receipts() {
    ASCOPE_TRY_ASSIGN(ReceiptStore * source, from_.receipts());
    ASCOPE_TRY_ASSIGN(ReceiptStore * target, to_.receipts());
    const std::string name = slot_.store_name();
    ASCOPE_TRY_ASSIGN(const auto there, target->newest(ctx_, name, 1));
    if (!there.empty()) {
      return ok();
    }
    ASCOPE_TRY_ASSIGN(const auto all, source->newest(ctx_, name, kReceiptsKept));
    for (auto receipt = all.rbegin(); receipt != all.rend(); ++receipt) {
      ASCOPE_TRY(target->append(ctx_, name, *receipt));
    }
    return ok();
  }

  void note_done(const std::optional<HeadRef>& head) {
    receipt_.snapshot = head ? head->snapshot : "";
    receipt_.changed = true;
    receipt_.why = fmt::format("{} {} snapshots, format {}, in {}", options_.copy ? "copied" : "moved",
                               history().size(), to_.profile().snapshot_format, to_.profile().snapshot_store);
    if (!same_state_) {
      receipt_.why += fmt::format("; state in {}", to_.profile().state_store);
    }
  }

  EngineServices& from_;
  EngineServices& to_;
  const OpContext& ctx_;
  const SlotKey& slot_;
  const MigrateOptions& options_;
  Receipt& receipt_;
  std::string source_realm_;
  bool same_state_ = false, same_blobs_ = false;
  bool is_there_ = false;  // a call before this one got as far as the target's record
  SlotView target_;
  std::unique_ptr<SlotSession> session_;
  std::map<std::string, std::string> ids_;  // old snapshot id to new
  std::vector<std::string> pending_;
};

}  // namespace

Result<void> migrate_slot(EngineServices& from, EngineServices& to, const OpContext& ctx, const SlotKey& slot,
                          const MigrateOptions& options, Receipt& receipt) {
  return Migration(from, to, ctx, slot, options, receipt).run();
}

std::string moved_to(const Aux& aux) {
  if (!aux.extra.is_object() || !aux.extra.contains(kMovedTo)) {
    return "";
  }
  const auto state = get_string(aux.extra[kMovedTo], "state");
  return state ? *state : "another state store";
}

void forget_move(Aux& aux) {
  aux.extra.erase(kMovedTo);
}

}  // namespace ascope
