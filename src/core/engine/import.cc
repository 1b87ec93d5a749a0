// SPDX-License-Identifier: Apache-2.0
#include "core/engine/import.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/base/random.h"
#include "core/engine/gc.h"
#include "core/engine/save.h"

namespace ascope {

namespace {

Result<void> check_live(const SlotRecord& record, const SlotKey& slot) {
  const auto& live = record.meta ? record.meta->live : std::nullopt;
  if (live && !live->clean) {
    return make_error(
        ErrorKind::refused,
        fmt::format("the sandbox of {} holds unsaved work since {}", slot.written(), live->since),
        fmt::format("save it first: ascope-sandbox snapshot {}", slot.written()));
  }
  return ok();
}

HistoryItem* find_in(Aux& aux, const std::string& snapshot) {
  const auto found = std::find_if(aux.history.begin(), aux.history.end(),
                                  [&](const HistoryItem& item) { return item.snapshot == snapshot; });
  return found == aux.history.end() ? nullptr : &*found;
}

bool has_tag(const HistoryItem& item, const std::string& name) {
  return std::find(item.tags.begin(), item.tags.end(), name) != item.tags.end();
}

// `conflict` if a snapshot other than `snapshot` has the tag.
Result<void> check_tag_free(const Aux& aux, const std::string& snapshot, const std::string& name) {
  for (const HistoryItem& item : aux.history) {
    if (item.snapshot != snapshot && has_tag(item, name)) {
      return make_error(
          ErrorKind::conflict, fmt::format("tag '{}' stands for snapshot '{}'", name, item.snapshot),
          fmt::format("delete it first: ascope-sandbox snapshot tag {} {} --delete", item.snapshot, name));
    }
  }
  return ok();
}

Result<void> save_and_commit(EngineServices& services, const OpContext& ctx, SlotSession& session,
                             TreeSource& tree, const ImportOptions& options, Receipt& receipt) {
  const std::optional<HeadRef> head = session.record().meta ? session.record().meta->head : std::nullopt;
  if (!options.tag.empty()) {
    ASCOPE_TRY(check_tag_free(session.aux(), "", options.tag));
  }
  ASCOPE_TRY_ASSIGN(Repository * repository, services.repository());
  SaveRequest request;
  request.id = random_uuid();
  request.workspace = &tree;
  ASCOPE_TRY_ASSIGN(request.origin, snapshot_origin(services, ctx, session));
  PhaseTimer timer(receipt, "snapshot", *ctx.clock);
  ASCOPE_TRY(session.note_pending(request.id, request.origin.realm));
  ASCOPE_TRY(services.step("before-objects"));
  ASCOPE_TRY_ASSIGN(SaveOutcome saved, repository->save(ctx, request));
  timer.done();
  ASCOPE_TRY_ASSIGN(const HostFacts host, services.host());
  HistoryItem& item = saved.item;
  item.time = format_time(ctx.clock->wall());
  item.kind = "import";
  item.parent = head ? head->snapshot : "";
  item.rev = session.record().meta ? session.record().meta->rev + 1 : 1;
  item.fence = session.fence();
  item.host = host.name;
  ASCOPE_TRY(services.step("after-objects"));
  session.aux().history.insert(session.aux().history.begin(), item);
  if (!options.tag.empty()) {
    session.aux().history[0].tags.push_back(options.tag);
  }
  SlotSession::Change change;
  ASCOPE_TRY_ASSIGN(change.document,
                    slot_document(services, session.record(), nullptr, item.snapshot, true, ""));
  change.head = head_ref(services, item);
  // If this fails the record may name the object all the same: gc removes it if not.
  ASCOPE_TRY(session.commit(ctx, change, receipt));
  receipt.parent = item.parent;
  receipt.snapshot = item.snapshot;
  receipt.changed = true;
  return ok();
}

}  // namespace

Result<void> import_snapshot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                             TreeSource& tree, const ImportOptions& options, Receipt& receipt) {
  if (!options.tag.empty()) {
    ASCOPE_TRY(check_tag(options.tag));
  }
  SessionOptions session_options;
  session_options.wait = options.lock.wait;
  session_options.lease_token = options.lock.lease_token;
  ASCOPE_TRY_ASSIGN(const std::unique_ptr<SlotSession> session,
                    SlotSession::open(services, ctx, slot, session_options, receipt));
  ASCOPE_TRY(check_live(session->record(), slot));
  ASCOPE_TRY(session->claim(ctx, receipt));
  ASCOPE_TRY(check_live(session->record(), slot));
  ASCOPE_TRY(save_and_commit(services, ctx, *session, tree, options, receipt));
  return session->close(ctx);
}

Result<void> check_tag(const std::string& name) {
  constexpr std::string_view kSafe = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-";
  constexpr std::size_t kMaxBytes = 64;
  constexpr std::size_t kUuidBytes = 36;
  const bool is_id =
      name.size() == kUuidBytes && name.find_first_not_of("0123456789abcdef-") == std::string::npos;
  if (name.empty() || name.size() > kMaxBytes || name[0] == '-' || name[0] == '.' || name == "live" ||
      name.starts_with("latest") || is_id || name.find_first_not_of(kSafe) != std::string::npos) {
    return make_error(ErrorKind::usage, fmt::format("'{}' cannot be a tag", name),
                      "use letters, digits, '.', '_' and '-', at most 64; not 'live', 'latest…' or an id");
  }
  return ok();
}

Result<void> set_tag(Aux& aux, const std::string& snapshot, const std::string& name) {
  ASCOPE_TRY(check_tag_free(aux, snapshot, name));
  HistoryItem* item = find_in(aux, snapshot);
  if (item == nullptr) {
    return make_error(ErrorKind::not_found,
                      fmt::format("snapshot '{}' is no longer in the history", snapshot));
  }
  if (!has_tag(*item, name)) {
    item->tags.push_back(name);
  }
  return ok();
}

Result<void> remove_tag(Aux& aux, const std::string& snapshot, const std::string& name) {
  HistoryItem* item = find_in(aux, snapshot);
  if (item == nullptr || !has_tag(*item, name)) {
    return make_error(ErrorKind::not_found, fmt::format("snapshot '{}' has no tag '{}'", snapshot, name));
  }
  std::erase(item->tags, name);
  return ok();
}

Result<std::vector<HistoryItem>> take_from_history(SlotSession& session,
                                                   const std::vector<std::string>& snapshots) {
  const auto& meta = session.record().meta;
  const std::string head = meta && meta->head ? meta->head->snapshot : "";
  Aux& aux = session.aux();
  std::vector<HistoryItem> gone;
  for (const std::string& snapshot : snapshots) {
    if (snapshot == head) {
      return make_error(ErrorKind::refused,
                        fmt::format("snapshot '{}' has become the head meanwhile", snapshot));
    }
    const HistoryItem* item = find_in(aux, snapshot);
    if (item != nullptr) {
      gone.push_back(*item);
    }
    std::erase_if(aux.history, [&](const HistoryItem& one) { return one.snapshot == snapshot; });
    if (aux.undo == snapshot) {
      aux.undo.clear();
    }
  }
  return gone;
}

Result<void> remove_objects(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                            const std::vector<HistoryItem>& items) {
  ASCOPE_TRY_ASSIGN(Repository * repository, services.repository());
  ASCOPE_TRY_ASSIGN(const OtherNames others, names_of_other_slots(services, ctx, slot));
  for (const HistoryItem& item : items) {
    if (!others.names(item.object)) {
      ASCOPE_TRY(repository->remove(ctx, item));
    }
  }
  return ok();
}

}  // namespace ascope
