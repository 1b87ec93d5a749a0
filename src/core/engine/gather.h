// SPDX-License-Identifier: Apache-2.0
// What a start finds: the facts that plan_start decides on, with the objects behind them. Looking only;
// nothing is changed.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/engine/engine.h"
#include "core/engine/session.h"
#include "core/plan.h"

namespace ascope {

struct Gathered {
  int priority = 4;  // acquire: 1 external sandbox, 2 external state, 3 saved state, 4 nothing
  StartFacts facts;
  StartDecision decision;
  std::optional<HistoryItem> head;        // the snapshot that the record names
  std::optional<Error> snapshot_problem;  // why it cannot be used, where that is known
  std::optional<Error> sandbox_problem;   // why the provider could not be asked
  std::unique_ptr<Sandbox> sandbox;       // running or stopped; nullptr if none
  std::optional<ResourceInfo> info;       // of that sandbox
  std::vector<ResourceInfo> leftovers;    // of starts that were never finished: destroyed by the next start
  std::vector<std::string> replaced_settings;  // "network: none → host": the sandbox was made with others
  std::string lost_since;  // RFC 3339: when the live mark was set, if work after it may be lost
};

// `view` is the slot's record (for priority 2: the one made from the given state). Fills evidence, priority,
// branch, rule, why and rejected of `receipt`. Failures of a provider or store become facts, not errors; an
// Error is ours.
Result<Gathered> gather_start(EngineServices& services, const OpContext& ctx, const SlotKey& slot,
                              const SlotView& view, const StartOptions& options, Receipt& receipt);

// The item of the history that the record's head names; for a foreign record, one made from its document.
Result<std::optional<HistoryItem>> head_item(EngineServices& services, const OpContext& ctx,
                                             const SlotView& view);

// Priority 1: the external sandbox of this call or the one the slot is bound to. "" = none.
std::string external_id(const SlotView& view, const StartOptions& options);

// A view made from the text of `--from-state`: a document or a whole record. `config` if it is not one.
Result<SlotView> view_from_state(EngineServices& services, const OpContext& ctx, const SlotView& present,
                                 std::string_view text);

}  // namespace ascope
