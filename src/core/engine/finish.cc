// SPDX-License-Identifier: Apache-2.0
#include "core/engine/finish.h"

#include <algorithm>

#include <fmt/format.h>

#include "core/engine/save.h"

namespace ascope {

namespace {

// Gives the tag to the item with this id, and takes it from every other.
void set_tag(Aux& aux, const std::string& snapshot, const std::string& tag) {
  for (auto& item : aux.history) {
    std::erase(item.tags, tag);
    if (item.snapshot == snapshot) {
      item.tags.push_back(tag);
    }
  }
}

// Saves the tree; puts a new item into the history if it differs from head. A clean mark is not believed:
// what was left running in the background may have written since. Empty id: there is no head and no store.
Result<std::string> save_if_needed(EngineServices& services, const OpContext& ctx, SlotSession& session,
                                   AttachedSlot& attached, const FinishOptions& options, Receipt& receipt) {
  const auto& meta = session.record().meta;
  const std::string head = meta && meta->head ? meta->head->snapshot : "";
  receipt.parent = head;
  if (!services.has_snapshots()) {
    return head;
  }
  const HistoryItem* parent = head.empty() ? nullptr : find_item(session.aux(), head);
  // A tar has been read to compare it, so reading the other one too costs little; of chunks the point of an
  // unchanged save is to read nothing.
  const bool by_hand = options.kind == "snapshot" && services.profile().snapshot_format == "tar";
  const bool last_copy = options.release == "destroy";
  const ParentCheck check = last_copy || by_hand ? ParentCheck::read : ParentCheck::look;
  ASCOPE_TRY_ASSIGN(SavedTree saved, save_tree(services, ctx, session, *attached.sandbox, attached.info,
                                               parent, options.kind, check, receipt));
  receipt.changed = saved.changed;
  const std::string id = saved.item.snapshot;
  if (saved.changed) {
    auto& history = session.aux().history;
    history.insert(history.begin(), std::move(saved.item));
  }
  return id;
}

}  // namespace

Result<void> finish_call(EngineServices& services, const OpContext& ctx, SlotSession& session,
                         AttachedSlot& attached, const FinishOptions& options, Receipt& receipt) {
  const auto& live = session.record().meta ? session.record().meta->live : std::nullopt;
  const bool clean = live && live->clean && !attached.external;
  const bool destroys = options.release == "destroy" && !attached.external;
  if (destroys && !services.has_snapshots() && !clean && !options.allow_loss) {
    return make_error(ErrorKind::refused,
                      "the sandbox holds work and the profile has no snapshot store to save it in",
                      "set snapshots.store, or give the work up with --allow-loss");
  }
  ASCOPE_TRY_ASSIGN(const std::string head,
                    save_if_needed(services, ctx, session, attached, options, receipt));
  receipt.snapshot = head;
  if (!options.tag.empty() && !head.empty()) {
    set_tag(session.aux(), head, options.tag);
  }
  SlotSession::Change change;
  std::string hash;
  if (session.record().document.is_object()) {
    if (auto kept = get_optional_string(session.record().document, "workspaceProjectionHash");
        kept && *kept) {
      hash = **kept;
    }
  }
  ASCOPE_TRY_ASSIGN(change.document,
                    slot_document(services, session.record(), destroys ? nullptr : &attached.info, head,
                                  !attached.external, hash));
  if (const HistoryItem* item = find_item(session.aux(), head)) {
    change.head = head_ref(services, *item);
  } else if (session.record().meta) {
    change.head = session.record().meta->head;
  }
  if (!destroys && !attached.external) {
    ASCOPE_TRY_ASSIGN(change.live,
                      live_mark(services, ctx, attached.info, services.has_snapshots() || clean));
    if (!change.live->clean && live) {
      change.live->since = live->since;
    }
  }
  ASCOPE_TRY(session.commit(ctx, change, receipt));
  if (attached.external || options.release == "keep") {
    return ok();
  }
  PhaseTimer timer(receipt, options.release, *ctx.clock);
  ASCOPE_TRY(services.step("before-release"));
  auto released = destroys ? attached.sandbox->destroy(ctx, session.fence())
                           : attached.sandbox->stop(ctx, session.fence());
  if (!released) {
    // Everything is saved and committed; what is left over is found by its label.
    receipt.warnings.push_back(fmt::format("the sandbox could not be {} ('ascope-sandbox gc' will): {}",
                                           destroys ? "destroyed" : "stopped", released.error().message));
  }
  return services.step("after-release");
}

}  // namespace ascope
