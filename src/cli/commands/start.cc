// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "cli/receipt_text.h"
#include "cli/start_args.h"

namespace ascope {

namespace {

constexpr std::array kStartOptions{kExpectOption,    kNoColdOption,        kAllowLossOption, kExternalOption,
                                   kFromStateOption, kAllowHostRootOption, kDryRunOption};
constexpr std::array kExplainOptions{kExpectOption, kNoColdOption, kAllowLossOption, kExternalOption,
                                     kFromStateOption};
constexpr std::array kPositionals{kSlotPositional};

Result<int> explain(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const StartOptions options, start_options(app, args));
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("start", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY(explain_start(*services, app.ctx(), slot, options, receipt));
  app.out().result(receipt_json(receipt), receipt_text(receipt));
  return 0;
}

Result<int> start(App& app, const Args& args) {
  if (args.flag("dry-run")) {
    return explain(app, args);
  }
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ASCOPE_TRY_ASSIGN(const StartOptions options, start_options(app, args));
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("start", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  const auto result = start_slot(*services, app.ctx(), slot, options, receipt);
  return app.finish(slot, receipt, result, receipt_line(receipt));
}

}  // namespace

extern const Command kStartCommand;
const Command kStartCommand{
    "start",
    "Core",
    "bring the slot's sandbox up by the cheapest branch",
    "Acquires the slot (external sandbox, given state, saved state, or nothing), chooses one of the branches "
    "A (warm), B "
    "(directory lost), C (sandbox lost), D (cold) and runs it, writes the declared entries and projects. "
    "Prints the branch "
    "and why. A slot that had a snapshot never goes cold without --allow-loss.",
    kStartOptions,
    kPositionals,
    false,
    "ascope-sandbox start\nascope-sandbox start user/assistant/alice --expect A,B -o json",
    "4 5 6 7 8 9 10 11 12 13 14 15",
    start};

extern const Command kExplainCommand;
const Command kExplainCommand{"explain",
                              "Looking",
                              "predict what start would do, with evidence",
                              "Gathers the same facts as start and makes the same decision, without side "
                              "effects: priority, branch, each fact with its "
                              "evidence, each rejected branch with the condition that failed. Exit code 0 "
                              "also for a predicted refusal; 'outcome' says "
                              "so.",
                              kExplainOptions,
                              kPositionals,
                              false,
                              "ascope-sandbox explain -o json",
                              "8 9 10 11 13 14 15",
                              explain};

}  // namespace ascope
