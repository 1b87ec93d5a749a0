// SPDX-License-Identifier: Apache-2.0
#include "core/engine/adopt.h"

#include <array>

#include "cli/receipt_text.h"
#include "cli/start_args.h"

namespace ascope {

namespace {

constexpr std::array kOptions{
    OptionSpec{"snapshot", '\0', OptionKind::value, "ID",
               "object in the snapshot store that becomes the head"},
    OptionSpec{"no-snapshot", '\0', OptionKind::flag, {}, "take the sandbox alone; no head"}, kDryRunOption};
constexpr std::array kPositionals{kSlotPositional};

Result<int> run(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  AdoptOptions options;
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  options.snapshot = args.value("snapshot").value_or("");
  options.no_snapshot = args.flag("no-snapshot");
  options.dry_run = args.flag("dry-run");
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("adopt", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  const auto result = adopt_slot(*services, app.ctx(), slot, options, receipt);
  return app.finish(slot, receipt, result, receipt_line(receipt));
}

}  // namespace

extern const Command kAdoptCommand;
const Command kAdoptCommand{
    "adopt",
    "Setup",
    "rebuild a slot's lost or damaged state from what is left",
    "Writes a record for a slot whose record is gone or damaged: the head from the slot's own history or a "
    "named object of "
    "the snapshot store, the sandbox from the label it carries. Work in that sandbox counts as unsaved.",
    kOptions,
    kPositionals,
    false,
    "ascope-sandbox adopt user/assistant/alice",
    "4 5 6 8 9 10 11 14 15",
    run};

}  // namespace ascope
