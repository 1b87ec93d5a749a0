// SPDX-License-Identifier: Apache-2.0
// create, snapshot (saving), stop, rm: the steps of a call by hand.
#include <array>

#include <fmt/format.h>

#include "cli/receipt_text.h"
#include "cli/start_args.h"

namespace ascope {

namespace {

constexpr std::array kPositionals{kSlotPositional};

std::string saved_text(const Receipt& receipt) {
  if (receipt.snapshot.empty()) {
    return receipt.why.empty() ? "Nothing to save.\n" : receipt_line(receipt);
  }
  return receipt.changed ? fmt::format("Saved snapshot {}\n", receipt.snapshot)
                         : fmt::format("Unchanged since snapshot {}\n", receipt.snapshot);
}

// What would be done, for --dry-run: the slot as it stands now, read only.
Result<int> dry_run(App& app, const SlotKey& slot, std::string_view command) {
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin(command, slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  ASCOPE_TRY(preview_command(*services, app.ctx(), slot, command, receipt));
  app.out().result(receipt_json(receipt), receipt_line(receipt));
  return 0;
}

// ---- create ----

constexpr OptionSpec kIfMissing{
    "if-missing", '\0', OptionKind::flag, {}, "leave an existing slot as it is (0)"};
constexpr std::array kCreateOptions{kIfMissing, kExternalOption, kFromStateOption, kDryRunOption};

Result<int> create(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  if (args.flag("dry-run")) {
    return dry_run(app, slot, "create");
  }
  CreateOptions options;
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  options.if_missing = args.flag("if-missing");
  options.external = args.value("external").value_or("");
  ASCOPE_TRY_ASSIGN(options.from_state, from_state_text(app, args));
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("create", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  const auto result = create_slot(*services, app.ctx(), slot, options, receipt);
  return app.finish(slot, receipt, result,
                    receipt.changed ? fmt::format("Created {}\n", slot.written())
                                    : fmt::format("{} exists already.\n", slot.written()));
}

// ---- snapshot ----

constexpr std::array kSnapshotOptions{
    OptionSpec{"tag", '\0', OptionKind::value, "TAG", "name for the snapshot"}, kDryRunOption};

Result<int> snapshot(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  if (args.flag("dry-run")) {
    return dry_run(app, slot, "snapshot");
  }
  SnapshotOptions options;
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  options.tag = args.value("tag").value_or("");
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("snapshot", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  const auto result = snapshot_slot(*services, app.ctx(), slot, options, receipt);
  auto code = app.finish(slot, receipt, result, saved_text(receipt));
  if (code && app.out().format == OutputFormat::name) {
    app.out().write(receipt.snapshot + "\n");
  }
  return code;
}

// ---- stop ----

constexpr std::array kStopOptions{kDryRunOption};

Result<int> stop(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  if (args.flag("dry-run")) {
    return dry_run(app, slot, "stop");
  }
  ASCOPE_TRY_ASSIGN(const LockOptions lock, app.lock_options(args));
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("stop", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  const auto result = stop_slot(*services, app.ctx(), slot, lock, receipt);
  return app.finish(slot, receipt, result, saved_text(receipt) + "Stopped; its disk stays.\n");
}

// ---- rm ----

constexpr std::array kRmOptions{
    OptionSpec{"purge", '\0', OptionKind::flag, {}, "remove the state and every snapshot of the slot too"},
    kAllowLossOption, kDryRunOption};

Result<int> rm(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  RemoveOptions options;
  options.purge = args.flag("purge");
  options.allow_loss = args.flag("allow-loss");
  if (args.flag("dry-run")) {
    return dry_run(app, slot, options.purge ? "purge" : "rm");
  }
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  if (options.purge) {
    ASCOPE_TRY_ASSIGN(const bool sure, app.out().confirm(fmt::format(
                                           "Remove {} with its state and every snapshot?", slot.written())));
    if (!sure) {
      return make_error(ErrorKind::refused, "nothing was removed");
    }
  }
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("rm", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  const auto result = remove_slot(*services, app.ctx(), slot, options, receipt);
  return app.finish(slot, receipt, result,
                    options.purge ? fmt::format("Removed {} with its state and snapshots.\n", slot.written())
                                  : saved_text(receipt) + "Removed the sandbox; state and snapshots stay.\n");
}

}  // namespace

extern const Command kCreateCommand;
const Command kCreateCommand{"create",
                             "Core",
                             "make the slot's state without starting",
                             "Makes the slot. With --external or --from-state the slot is bound to them from "
                             "now on. A slot that exists is 6.",
                             kCreateOptions,
                             kPositionals,
                             false,
                             "ascope-sandbox create user/assistant/alice --if-missing",
                             "4 5 6 8 9 10 11 13 14 15",
                             create};

extern const Command kSnapshotCommand;
const Command kSnapshotCommand{
    "snapshot",
    "Core",
    "save the slot's workspace now",
    "Saves the workspace and what else the profile persists as a new snapshot and makes it the slot's head. "
    "What runs inside "
    "is frozen meanwhile. An unchanged workspace makes no new snapshot: the same id, changed: false.",
    kSnapshotOptions,
    kPositionals,
    false,
    "ascope-sandbox snapshot --tag before-upgrade",
    "4 5 6 8 9 10 11 12 13 14 15",
    snapshot};

extern const Command kStopCommand;
const Command kStopCommand{"stop",
                           "Core",
                           "save, then stop the sandbox; its disk stays",
                           "Saves the workspace, then ends every process of the sandbox. The next start is "
                           "branch A. A slot without a sandbox is 0.",
                           kStopOptions,
                           kPositionals,
                           false,
                           "ascope-sandbox stop",
                           "4 5 6 8 9 10 11 12 14 15",
                           stop};

extern const Command kRmCommand;
const Command kRmCommand{"rm",
                         "Core",
                         "save, then destroy the sandbox; state and snapshots stay",
                         "Saves the workspace, commits, and only then destroys the sandbox. The next start "
                         "is branch C. With --purge nothing is "
                         "saved, and the state and the snapshots of the slot go too.",
                         kRmOptions,
                         kPositionals,
                         false,
                         "ascope-sandbox rm\nascope-sandbox rm --purge --yes user/assistant/alice",
                         "4 5 6 7 8 9 10 11 12 14 15",
                         rm,
                         true};

}  // namespace ascope
