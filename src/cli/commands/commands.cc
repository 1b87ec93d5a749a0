// SPDX-License-Identifier: Apache-2.0
// Every command, one line each, in the order of the manual. To add one: write src/cli/commands/NAME.cc with
// its constant (external linkage), declare it here and put it into the list; help, man page, completions and
// their tests follow.
#include <array>

#include "cli/command.h"

namespace ascope {

extern const Command kRunCommand;
extern const Command kCreateCommand;
extern const Command kStartCommand;
extern const Command kExecCommand;
extern const Command kSnapshotCommand;
extern const Command kSnapshotLsCommand;
extern const Command kSnapshotShowCommand;
extern const Command kSnapshotCatCommand;
extern const Command kSnapshotFindCommand;
extern const Command kSnapshotDiffCommand;
extern const Command kSnapshotCheckCommand;
extern const Command kSnapshotExportCommand;
extern const Command kSnapshotImportCommand;
extern const Command kSnapshotTagCommand;
extern const Command kSnapshotRmCommand;
extern const Command kSnapshotStatsCommand;
extern const Command kSnapshotRepairCommand;
extern const Command kRestoreCommand;
extern const Command kUndoCommand;
extern const Command kStopCommand;
extern const Command kRmCommand;
extern const Command kCpCommand;
extern const Command kProjectPlanCommand;
extern const Command kProjectApplyCommand;
extern const Command kProjectStatusCommand;
extern const Command kProjectPushCommand;
extern const Command kLsCommand;
extern const Command kShowCommand;
extern const Command kHistoryCommand;
extern const Command kWhyCommand;
extern const Command kExplainCommand;
extern const Command kLockRunCommand;
extern const Command kLockAcquireCommand;
extern const Command kLockReleaseCommand;
extern const Command kLockLsCommand;
extern const Command kLockWaitCommand;
extern const Command kLockBreakCommand;
extern const Command kGcCommand;
extern const Command kAdoptCommand;
extern const Command kMigrateCommand;
extern const Command kStateExportCommand;
extern const Command kStateImportCommand;
extern const Command kStateRmCommand;
extern const Command kDoctorCommand;
extern const Command kProfileInitCommand;
extern const Command kProfileValidateCommand;
extern const Command kProfileShowCommand;
extern const Command kProfileTrustCommand;
extern const Command kCompletionCommand;
extern const Command kDumpCommand;

std::span<const Command* const> commands() {
  // clang-format off
  static const std::array kCommands{
      &kRunCommand,
      &kCreateCommand,
      &kStartCommand,
      &kExecCommand,
      &kSnapshotCommand,
      &kSnapshotLsCommand,
      &kSnapshotShowCommand,
      &kSnapshotCatCommand,
      &kSnapshotFindCommand,
      &kSnapshotDiffCommand,
      &kSnapshotCheckCommand,
      &kSnapshotExportCommand,
      &kSnapshotImportCommand,
      &kSnapshotTagCommand,
      &kSnapshotRmCommand,
      &kSnapshotStatsCommand,
      &kSnapshotRepairCommand,
      &kRestoreCommand,
      &kUndoCommand,
      &kStopCommand,
      &kRmCommand,
      &kCpCommand,
      &kProjectPlanCommand,
      &kProjectApplyCommand,
      &kProjectStatusCommand,
      &kProjectPushCommand,
      &kLsCommand,
      &kShowCommand,
      &kHistoryCommand,
      &kWhyCommand,
      &kExplainCommand,
      &kLockRunCommand,
      &kLockAcquireCommand,
      &kLockReleaseCommand,
      &kLockLsCommand,
      &kLockWaitCommand,
      &kLockBreakCommand,
      &kGcCommand,
      &kAdoptCommand,
      &kMigrateCommand,
      &kStateExportCommand,
      &kStateImportCommand,
      &kStateRmCommand,
      &kDoctorCommand,
      &kProfileInitCommand,
      &kProfileValidateCommand,
      &kProfileShowCommand,
      &kProfileTrustCommand,
      &kCompletionCommand,
      &kDumpCommand,
  };
  // clang-format on
  return kCommands;
}

std::span<const OptionSpec> global_options() {
  static constexpr std::array kOptions{
      OptionSpec{"agent", '\0', OptionKind::value, "ID", "agent id of the slot (ASCOPE_AGENT)"},
      OptionSpec{"user", '\0', OptionKind::value, "ID", "user id of the slot (ASCOPE_USER)"},
      OptionSpec{"session", '\0', OptionKind::value, "ID", "session id of the slot (ASCOPE_SESSION)"},
      OptionSpec{"scope", '\0', OptionKind::value, "user|session|agent|global",
                 "who shares the sandbox (ASCOPE_SCOPE)"},
      OptionSpec{"profile", '\0', OptionKind::value, "FILE",
                 "profile to use instead of the nearest ascope.yaml"},
      OptionSpec{"set", '\0', OptionKind::repeated, "KEY=VALUE", "set any profile key for this call"},
      OptionSpec{"output", 'o', OptionKind::value, "text|json|jsonl|name", "format of the result on stdout"},
      OptionSpec{"null", '0', OptionKind::flag, {}, "end names with NUL (with -o name)"},
      OptionSpec{"quiet", 'q', OptionKind::flag, {}, "say nothing on stderr but warnings and errors"},
      OptionSpec{"verbose", 'v', OptionKind::flag, {}, "say what is done on stderr; twice: debug log"},
      OptionSpec{"color", '\0', OptionKind::value, "auto|always|never",
                 "colour on stderr (NO_COLOR is honoured)"},
      OptionSpec{"progress", '\0', OptionKind::value, "auto|json|none", "progress on stderr"},
      OptionSpec{"no-input", '\0', OptionKind::flag, {}, "never ask; what would ask fails"},
      OptionSpec{"yes", 'y', OptionKind::flag, {}, "answer yes to what would be asked"},
      OptionSpec{"wait", '\0', OptionKind::value, "DURATION",
                 "how long to wait for the slot (0: not at all)"},
      OptionSpec{"lease", '\0', OptionKind::value, "TOKEN", "work under this lease (ASCOPE_LEASE)"},
      OptionSpec{"status-file", '\0', OptionKind::value, "FILE",
                 "write the receipt, or the error, to FILE as JSON"},
      OptionSpec{"log-format", '\0', OptionKind::value, "text|json", "format of log lines"},
      OptionSpec{"help", 'h', OptionKind::flag, {}, "show help"},
      OptionSpec{"version", '\0', OptionKind::flag, {}, "show the version"},
  };
  return kOptions;
}

}  // namespace ascope
