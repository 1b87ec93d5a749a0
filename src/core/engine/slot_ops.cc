// SPDX-License-Identifier: Apache-2.0
// create, snapshot, stop, rm.
#include <fmt/format.h>

#include "core/engine/finish.h"
#include "core/engine/gather.h"
#include "core/engine/import.h"
#include "core/engine/save.h"

namespace ascope {

namespace {

SessionOptions session_options(const LockOptions& lock, LockMode mode) {
  SessionOptions options;
  options.local = mode;
  options.wait = lock.wait;
  options.lease_token = lock.lease_token;
  return options;
}

Error no_slot(const SlotKey& slot) {
  return make_error(ErrorKind::not_found, fmt::format("there is no slot {}", slot.written()),
                    "'ascope-sandbox ls' lists the slots there are");
}

Result<void> require_slot(const SlotKey& slot, const SlotView& view) {
  if (view.record.kind == RecordClass::absent || view.record.kind == RecordClass::tombstone) {
    return no_slot(slot);
  }
  return ok();
}

// The slot's sandbox, or nullopt if it has none (any more). A provider that cannot be asked is an error.
Result<std::optional<AttachedSlot>> attach_if_there(EngineServices& services, const OpContext& ctx,
                                                    const SlotKey& slot, const SlotView& view) {
  auto attached = attach_slot(services, ctx, slot, view);
  if (attached) {
    return std::optional<AttachedSlot>(std::move(*attached));
  }
  if (attached.error().kind == ErrorKind::not_found) {
    return std::optional<AttachedSlot>{};
  }
  return std::move(attached).error();
}

Error work_elsewhere(const SlotKey& slot, const LiveMark& live) {
  return make_error(ErrorKind::refused,
                    fmt::format("host {} may hold unsaved work of {} since {}", live.bound.value_or("?"),
                                slot.written(), live.since),
                    "stop it there, or give that work up with --allow-loss");
}

bool live_elsewhere(const SlotView& view, const HostFacts& host) {
  const auto& live = view.record.meta ? view.record.meta->live : std::nullopt;
  return live && !live->clean && live->bound && *live->bound != host.id;
}

}  // namespace

Result<void> preview_command(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                             std::string_view command, Receipt& receipt) {
  receipt.predicted = true;
  ASCOPE_TRY_ASSIGN(const SlotView view, read_slot(services, ctx, slot));
  if (command == "create") {
    const bool exists = view.record.kind != RecordClass::absent && view.record.kind != RecordClass::tombstone;
    receipt.why = exists ? "the slot exists already" : "the slot would be made";
    return ok();
  }
  ASCOPE_TRY(require_slot(slot, view));
  ASCOPE_TRY_ASSIGN(const auto attached, attach_if_there(services, ctx, slot, view));
  if (attached) {
    receipt.sandbox = attached->info.id;
    receipt.tree = attached->info.tree;
  }
  const std::string where = attached ? fmt::format("sandbox '{}'", attached->info.id) : "";
  if (command == "purge") {
    receipt.why = fmt::format("{}the state and {} snapshots would be removed, and nothing saved",
                              attached ? where + ", " : "", view.aux.history.size());
    return ok();
  }
  if (!attached) {
    if (command == "snapshot") {
      return attach_slot(services, ctx, slot, view).error();
    }
    receipt.why = "it has no sandbox here: nothing would be done";
    return ok();
  }
  receipt.why = command == "snapshot" ? fmt::format("the workspace in {} would be saved", where)
                : command == "stop"   ? fmt::format("the workspace would be saved, then {} stopped", where)
                                      : fmt::format("the workspace would be saved, then {} destroyed", where);
  return ok();
}

Result<void> create_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                         const CreateOptions& options, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(
      auto session,
      SlotSession::open(services, ctx, slot, session_options(options.lock, LockMode::commit), receipt));
  const RecordClass kind = session->record().kind;
  if (kind != RecordClass::absent && kind != RecordClass::tombstone) {
    if (options.if_missing) {
      return session->close(ctx);
    }
    return make_error(ErrorKind::conflict, fmt::format("slot {} exists already", slot.written()),
                      "'create --if-missing' leaves it as it is");
  }
  if (!options.from_state.empty()) {
    ASCOPE_TRY_ASSIGN(SlotView view, view_from_state(services, ctx, session->view(), options.from_state));
    session->use_view(std::move(view));
  }
  ASCOPE_TRY(session->claim(ctx, receipt));
  SlotSession::Change change;
  std::string snapshot;
  if (session->record().meta && session->record().kind == RecordClass::ours) {
    change.head = session->record().meta->head;
    change.live = session->record().meta->live;
    snapshot = change.head ? change.head->snapshot : "";
  }
  if (!options.external.empty()) {
    ASCOPE_TRY_ASSIGN(Backend * backend, services.backend());
    ASCOPE_TRY_ASSIGN(auto sandbox, backend->attach(ctx, options.external));
    ASCOPE_TRY_ASSIGN(const ResourceInfo info, sandbox->info(ctx));
    session->aux().extra["external"] = info.id;
    receipt.sandbox = info.id;
    ASCOPE_TRY_ASSIGN(change.document,
                      slot_document(services, session->record(), &info, snapshot, false, ""));
  } else {
    ASCOPE_TRY_ASSIGN(change.document,
                      slot_document(services, session->record(), nullptr, snapshot, true, ""));
  }
  ASCOPE_TRY(session->commit(ctx, change, receipt));
  receipt.changed = true;
  receipt.snapshot = snapshot;
  return session->close(ctx);
}

Result<void> snapshot_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                           const SnapshotOptions& options, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(
      auto session,
      SlotSession::open(services, ctx, slot, session_options(options.lock, LockMode::commit), receipt));
  ASCOPE_TRY(require_slot(slot, session->view()));
  if (!options.tag.empty()) {
    ASCOPE_TRY(check_tag(options.tag));
  }
  if (!services.has_snapshots()) {
    return make_error(ErrorKind::unsupported, "the profile has no snapshot store (snapshots.store: none)",
                      "set snapshots.store, for example to 'local:'");
  }
  ASCOPE_TRY_ASSIGN(AttachedSlot attached, attach_slot(services, ctx, slot, session->view()));
  receipt.sandbox = attached.info.id;
  receipt.tree = attached.info.tree;
  if (attached.external) {
    ASCOPE_TRY(session->share_sandbox(ctx, attached.info.id, receipt));
  }
  ASCOPE_TRY(session->claim(ctx, receipt));
  FinishOptions finish;
  finish.kind = "snapshot";
  finish.tag = options.tag;
  ASCOPE_TRY(finish_call(services, ctx, *session, attached, finish, receipt));
  return session->close(ctx);
}

Result<void> stop_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                       const LockOptions& lock, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(auto session, SlotSession::open(services, ctx, slot,
                                                    session_options(lock, LockMode::exclusive), receipt));
  ASCOPE_TRY(require_slot(slot, session->view()));
  ASCOPE_TRY_ASSIGN(auto attached, attach_if_there(services, ctx, slot, session->view()));
  if (!attached) {
    receipt.why = "it has no sandbox here";
    return session->close(ctx);
  }
  receipt.sandbox = attached->info.id;
  receipt.tree = attached->info.tree;
  ASCOPE_TRY(session->claim(ctx, receipt));
  FinishOptions finish;
  finish.kind = "stop";
  finish.release = "stop";
  ASCOPE_TRY(finish_call(services, ctx, *session, *attached, finish, receipt));
  return session->close(ctx);
}

namespace {

// For a sandbox that does not answer any more: gives up the work in it, commits that, then ends it by force.
Result<void> give_up_sandbox(EngineServices& services, const OpContext& ctx, SlotSession& session,
                             Receipt& receipt) {
  const SlotMeta& meta = *session.record().meta;
  const LiveMark live = *meta.live;
  SlotSession::Change change;
  change.head = meta.head;
  ASCOPE_TRY_ASSIGN(change.document, slot_document(services, session.record(), nullptr,
                                                   meta.head ? meta.head->snapshot : "", true, ""));
  receipt.sandbox = live.sandbox.value_or("");
  receipt.snapshot = meta.head ? meta.head->snapshot : "";
  receipt.lost_since = live.clean ? "" : live.since;
  receipt.why = "the sandbox did not answer; it was ended without saving";
  ASCOPE_TRY(session.commit(ctx, change, receipt));
  receipt.changed = true;
  ASCOPE_TRY_ASSIGN(Backend * backend, services.backend());
  auto ended = [&]() -> Result<void> {
    ASCOPE_TRY_ASSIGN(const auto sandbox, backend->attach(ctx, live.sandbox.value_or("")));
    return sandbox->destroy(ctx, session.fence());
  }();
  if (!ended) {
    receipt.warnings.push_back("the sandbox could not be destroyed ('ascope-sandbox gc' will): " +
                               ended.error().message);
  }
  return ok();
}

}  // namespace

Result<void> remove_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                         const RemoveOptions& options, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(
      auto session,
      SlotSession::open(services, ctx, slot, session_options(options.lock, LockMode::exclusive), receipt));
  ASCOPE_TRY(require_slot(slot, session->view()));
  ASCOPE_TRY_ASSIGN(const HostFacts host, services.host());
  if (live_elsewhere(session->view(), host) && !options.allow_loss) {
    return work_elsewhere(slot, *session->record().meta->live);
  }
  auto found = attach_if_there(services, ctx, slot, session->view());
  const auto& meta = session->record().meta;
  const bool forced = !found && found.error().kind == ErrorKind::backend_unavailable && options.allow_loss &&
                      meta && meta->live && external_id(session->view(), StartOptions{}).empty();
  if (!found && !forced) {
    return std::move(found).error();
  }
  ASCOPE_TRY(session->claim(ctx, receipt));
  std::optional<AttachedSlot> attached;
  if (forced) {
    ASCOPE_TRY(give_up_sandbox(services, ctx, *session, receipt));
  } else {
    attached = std::move(*found);
  }
  if (forced && !options.purge) {
    return session->close(ctx);
  }
  if (!options.purge) {
    if (!attached) {
      receipt.why = "it has no sandbox here";
      return session->close(ctx);
    }
    receipt.sandbox = attached->info.id;
    receipt.tree = attached->info.tree;
    FinishOptions finish;
    finish.kind = "stop";
    finish.release = "destroy";
    finish.allow_loss = options.allow_loss;
    ASCOPE_TRY(finish_call(services, ctx, *session, *attached, finish, receipt));
    return session->close(ctx);
  }
  // purge: pointer first, then what it pointed to; a kill in between leaves only garbage that gc finds.
  const Aux aux = session->aux();
  session->aux() = Aux{};
  SlotSession::Change change;
  change.deleted = true;
  ASCOPE_TRY(session->commit(ctx, change, receipt));
  receipt.changed = true;
  if (attached && !attached->external) {
    receipt.sandbox = attached->info.id;
    ASCOPE_TRY(attached->sandbox->destroy(ctx, session->fence()));
  }
  if (services.has_snapshots()) {
    ASCOPE_TRY(remove_objects(services, ctx, slot, aux.history));
  }
  return session->close(ctx);
}

}  // namespace ascope
