// SPDX-License-Identifier: Apache-2.0
// The end of a call: save, commit, and only then stop or destroy.
#pragma once

#include <memory>
#include <string>

#include "core/engine/services.h"
#include "core/engine/session.h"
#include "core/receipt.h"

namespace ascope {

struct AttachedSlot {
  std::unique_ptr<Sandbox> sandbox;
  ResourceInfo info;
  bool external = false;
};

// The sandbox that a slot's record names (or is bound to), in whatever phase. `not_found` with the hint to
// start it.
Result<AttachedSlot> attach_slot(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                                 const SlotView& view);

// Marks that the tree, clean until now, is about to be changed. One swap that demands the fence it read: a
// later holder makes it fail (`conflict`), and then the change is too late (protocols 1.2). `view` is of an
// own sandbox.
Result<void> mark_dirty(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                        const SlotView& view);

struct FinishOptions {
  std::string_view kind;  // of the history item: "run", "snapshot", "stop"
  std::string tag;
  std::string release = "keep";  // keep | stop | destroy
  bool allow_loss = false;       // destroy although nothing can be saved
};

// Under a claimed session. Saves the tree of `attached`, commits, then releases.
// Fills snapshot, parent, changed of `receipt`. On failure nothing is stopped or destroyed. `refused` for a
// destroy of unsaved work without allow_loss where the profile has no snapshot store.
Result<void> finish_call(EngineServices& services, const OpContext& ctx, SlotSession& session,
                         AttachedSlot& attached, const FinishOptions& options, Receipt& receipt);

}  // namespace ascope
