// SPDX-License-Identifier: Apache-2.0
#include "core/engine/state_ops.h"

#include <fmt/format.h>

#include "core/engine/gather.h"
#include "core/engine/session.h"

namespace ascope {

namespace {

Result<std::unique_ptr<SlotSession>> open_session(EngineServices& services, const OpContext& ctx,
                                                  const SlotKey& slot, const LockOptions& lock, bool dry_run,
                                                  Receipt& receipt) {
  SessionOptions options;
  options.local = dry_run ? LockMode::shared : LockMode::exclusive;
  options.lease = !dry_run;
  options.wait = lock.wait;
  options.lease_token = lock.lease_token;
  return SlotSession::open(services, ctx, slot, options, receipt);
}

bool has_state(RecordClass kind) {
  return kind != RecordClass::absent && kind != RecordClass::tombstone;
}

Result<void> check_unsaved(const SlotKey& slot, const SlotRecord& record, bool allow_loss) {
  const auto& live = record.meta ? record.meta->live : std::nullopt;
  if (!live || live->clean || allow_loss) {
    return ok();
  }
  return make_error(
      ErrorKind::refused,
      fmt::format("a sandbox of {} may hold unsaved work since {}", slot.written(), live->since),
      fmt::format("'ascope-sandbox stop {}' saves it, --allow-loss gives it up", slot.written()));
}

Error newer_error(const SlotKey& slot) {
  return make_error(ErrorKind::unsupported,
                    fmt::format("the state of {} was written by a newer version", slot.written()),
                    "use that version of ascope-sandbox");
}

}  // namespace

Result<void> check_state_text(std::string_view text) {
  auto json = parse_document(text);
  if (json && json->is_object() && json->contains("json")) {
    auto inner = get_string(*json, "json");
    json = inner ? parse_document(*inner) : Result<Json>(std::move(inner).error());
  }
  auto checked = json ? check_document(*json) : Result<void>(std::move(json).error());
  if (!checked) {
    Error error = std::move(checked).error();
    error.kind = ErrorKind::config;
    return std::move(error).with_hint("'ascope-sandbox state export SLOT' prints a document as it has to be");
  }
  return ok();
}

Result<void> import_state(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                          const ImportOptions& options, Receipt& receipt) {
  // Before any lock is taken: what the user gave is a document that every reader takes.
  ASCOPE_TRY(check_state_text(options.text));
  ASCOPE_TRY_ASSIGN(auto session, open_session(services, ctx, slot, options.lock, options.dry_run, receipt));
  const SlotRecord& present = session->record();
  if (present.kind == RecordClass::newer) {
    return newer_error(slot);
  }
  if (has_state(present.kind) && !options.replace) {
    return make_error(ErrorKind::conflict, fmt::format("slot {} has a state already", slot.written()),
                      "--replace puts this one in its place");
  }
  ASCOPE_TRY(check_unsaved(slot, present, options.allow_loss));
  ASCOPE_TRY_ASSIGN(SlotView view, view_from_state(services, ctx, session->view(), options.text));
  const std::string document = view.record.document_text;
  SlotSession::Change change;
  change.document = document;
  change.head = view.record.meta->head;
  change.live = view.record.meta->live;
  receipt.snapshot = change.head ? change.head->snapshot : "";
  receipt.sandbox = change.live ? change.live->sandbox.value_or("") : "";
  receipt.changed = true;
  if (options.dry_run) {
    receipt.predicted = true;
    return session->close(ctx);
  }
  session->use_view(std::move(view));
  ASCOPE_TRY(session->claim(ctx, receipt));
  ASCOPE_TRY(session->commit(ctx, change, receipt));
  return session->close(ctx);
}

Result<void> forget_state(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                          const ForgetOptions& options, Receipt& receipt) {
  ASCOPE_TRY_ASSIGN(auto session, open_session(services, ctx, slot, options.lock, options.dry_run, receipt));
  const RecordClass kind = session->record().kind;
  if (!has_state(kind)) {
    return make_error(ErrorKind::not_found, fmt::format("{} has no state", slot.written()),
                      "'ascope-sandbox ls' lists the slots there are");
  }
  if (kind == RecordClass::newer) {
    return newer_error(slot);
  }
  ASCOPE_TRY(check_unsaved(slot, session->record(), options.allow_loss));
  receipt.changed = true;
  if (options.dry_run) {
    receipt.predicted = true;
    return session->close(ctx);
  }
  if (kind == RecordClass::corrupt) {
    // What cannot be read counts as removed already; the bytes that stand there stay the compare token.
    SlotView view = session->view();
    view.record.kind = RecordClass::tombstone;
    view.record.document_text.clear();
    session->use_view(std::move(view));
  }
  ASCOPE_TRY(session->claim(ctx, receipt));
  SlotSession::Change change;
  change.deleted = true;
  ASCOPE_TRY(session->commit(ctx, change, receipt));
  return session->close(ctx);
}

}  // namespace ascope
