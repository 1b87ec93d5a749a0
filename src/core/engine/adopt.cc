// SPDX-License-Identifier: Apache-2.0
#include "core/engine/adopt.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/engine/gather.h"
#include "core/engine/save.h"
#include "core/engine/session.h"
#include "core/object_key.h"
#include "core/repository/tar.h"

namespace ascope {

namespace {

// The newest ready sandbox of ours that carries the slot's label.
Result<std::optional<ResourceInfo>> labelled_sandbox(EngineServices& services, const OpContext& ctx,
                                                     const SlotKey& slot) {
  ASCOPE_TRY_ASSIGN(Backend * backend, services.backend());
  ASCOPE_TRY_ASSIGN(const auto resources, backend->list(ctx, &slot));
  std::optional<ResourceInfo> newest;
  for (const auto& info : resources) {
    if (info.ready && info.owned && (!newest || newest->created < info.created)) {
      newest = info;
    }
  }
  return newest;
}

Result<std::optional<HistoryItem>> choose_head(EngineServices& services, const OpContext& ctx, const Aux& aux,
                                               const AdoptOptions& options) {
  if (options.no_snapshot || !services.has_snapshots()) {
    return std::optional<HistoryItem>{};
  }
  if (!options.snapshot.empty()) {
    if (const HistoryItem* known = find_item(aux, options.snapshot)) {
      return std::optional<HistoryItem>(*known);
    }
    if (!is_object_key(options.snapshot + std::string(kTarObject))) {
      return make_error(ErrorKind::usage,
                        fmt::format("'{}' cannot be the id of a snapshot", options.snapshot),
                        "'ascope-sandbox snapshot ls --all' lists what the store holds");
    }
    ASCOPE_TRY_ASSIGN(Repository * repository, services.repository());
    ASCOPE_TRY_ASSIGN(HistoryItem item, repository->find(ctx, options.snapshot));
    item.kind = "adopted";
    item.time = item.time.empty() ? format_time(ctx.clock->wall()) : item.time;
    return std::optional<HistoryItem>(std::move(item));
  }
  ASCOPE_TRY_ASSIGN(Repository * repository, services.repository());
  for (const auto& item : aux.history) {
    if (item.kind == "stranded") {
      continue;
    }
    ASCOPE_TRY_ASSIGN(const SnapshotHealth health, repository->check(ctx, item, false));
    if (health == SnapshotHealth::usable) {
      return std::optional<HistoryItem>(item);
    }
  }
  return std::optional<HistoryItem>{};
}

// A damaged record is replaced as if it were an empty one of ours; the compare token is what stands there.
void accept_damaged(SlotSession& session) {
  if (session.record().kind == RecordClass::corrupt) {
    SlotView view = session.view();
    view.record.kind = RecordClass::ours;
    view.record.document = Json(nullptr);
    view.record.document_text.clear();
    view.record.meta = view.record.meta.value_or(SlotMeta{});
    session.use_view(std::move(view));
  }
}

}  // namespace

Result<void> adopt_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                        const AdoptOptions& options, Receipt& receipt) {
  SessionOptions session_options;
  session_options.local = options.dry_run ? LockMode::shared : LockMode::exclusive;
  session_options.lease = !options.dry_run;
  session_options.wait = options.lock.wait;
  session_options.lease_token = options.lock.lease_token;
  ASCOPE_TRY_ASSIGN(auto session, SlotSession::open(services, ctx, slot, session_options, receipt));
  const RecordClass kind = session->record().kind;
  if (kind == RecordClass::ours || kind == RecordClass::newer || kind == RecordClass::foreign) {
    return make_error(ErrorKind::conflict,
                      fmt::format("{} has a record that is {}", slot.written(), to_string(kind)),
                      fmt::format("'ascope-sandbox start {}' goes on from it", slot.written()));
  }
  ASCOPE_TRY_ASSIGN(const auto head, choose_head(services, ctx, session->aux(), options));
  ASCOPE_TRY_ASSIGN(const auto sandbox, labelled_sandbox(services, ctx, slot));
  if (!head && !sandbox) {
    return make_error(ErrorKind::not_found, fmt::format("nothing is left of {} to adopt", slot.written()),
                      "name an object with --snapshot ID, or start the slot anew");
  }
  receipt.snapshot = head ? head->snapshot : "";
  receipt.sandbox = sandbox ? sandbox->id : "";
  receipt.tree = sandbox ? sandbox->tree : "";
  receipt.why = fmt::format(
      "head is {}, {}", head ? head->snapshot : "none",
      sandbox ? fmt::format("sandbox '{}' may hold unsaved work", sandbox->id) : "there is no sandbox here");
  if (options.dry_run) {
    receipt.predicted = true;
    return session->close(ctx);
  }
  accept_damaged(*session);
  ASCOPE_TRY(session->claim(ctx, receipt));
  if (head && find_item(session->aux(), head->snapshot) == nullptr) {
    session->aux().history.insert(session->aux().history.begin(), *head);
  }
  SlotSession::Change change;
  ASCOPE_TRY_ASSIGN(change.document, slot_document(services, session->record(), sandbox ? &*sandbox : nullptr,
                                                   receipt.snapshot, true, ""));
  if (head) {
    change.head = head_ref(services, *head);
  }
  if (sandbox) {
    ASCOPE_TRY_ASSIGN(change.live, live_mark(services, ctx, *sandbox, false));
  }
  ASCOPE_TRY(session->commit(ctx, change, receipt));
  receipt.changed = true;
  return session->close(ctx);
}

}  // namespace ascope
