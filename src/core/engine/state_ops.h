// SPDX-License-Identifier: Apache-2.0
// The saved state document itself: put into a slot, or given up.
#pragma once

#include <string>

#include "core/engine/engine.h"

namespace ascope {

// `config` if the text is neither a document that AgentScope's readers would take, nor a record around one.
Result<void> check_state_text(std::string_view text);

struct ImportOptions {
  LockOptions lock;
  std::string text;         // a document, or a whole record as `state export --raw` prints it
  bool replace = false;     // over a state that is there
  bool allow_loss = false;  // over a live mark that may stand for unsaved work
  bool dry_run = false;
};
// `config` if the text is no document that AgentScope's readers would take; `conflict` if the slot has a
// state already (unless replace).
Result<void> import_state(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                          const ImportOptions& options, Receipt& receipt);

struct ForgetOptions {
  LockOptions lock;
  bool allow_loss = false;
  bool dry_run = false;
};
// Writes a tombstone in the place of the state, damaged or not; snapshots and sandbox stay. `not_found` if
// there is none, `refused` while a sandbox may hold unsaved work (unless allow_loss).
Result<void> forget_state(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                          const ForgetOptions& options, Receipt& receipt);

}  // namespace ascope
