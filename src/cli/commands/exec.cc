// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "cli/exec_io.h"
#include "cli/exit_code.h"
#include "cli/start_args.h"

namespace ascope {

namespace {

constexpr OptionSpec kLockOption{
    "lock", '\0', OptionKind::flag, {}, "wait for the slot's turn instead of going in beside others"};
constexpr std::array kOptions{kInteractiveOption, kTtyOption, kEnvOption,     kEnvFileOption,
                              kCwdOption,         kAsOption,  kTimeoutOption, kTimeoutKillOption,
                              kMaxOutputOption,   kLockOption};
constexpr std::array kPositionals{kSlotPositional};

Result<int> run(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  ExecOptions options;
  ASCOPE_TRY_ASSIGN(options.lock, app.lock_options(args));
  options.locked = args.flag("lock");
  ASCOPE_TRY_ASSIGN(options.request, exec_request(app, args));
  ASCOPE_TRY_ASSIGN(const auto io, ExecIo::make(app, args, options.request));
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("exec", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  OpContext ctx = app.ctx();
  io->set_running(true);
  auto outcome = exec_in_slot(*services, ctx, slot, options, io->streams(), receipt);
  io->set_running(false);
  receipt.exit_code = outcome ? outcome->exit_code() : kExitOurFailure;
  auto failure = outcome ? unfinished(slot, *outcome) : std::optional<Error>(outcome.error());
  // An exec changes no state of the slot: its record goes to --status-file alone, not to the slot's list.
  app.write_status(receipt, failure ? &*failure : nullptr);
  return outcome ? io->answer(app, *outcome, receipt, failure) : Result<int>(std::move(*failure));
}

}  // namespace

extern const Command kExecCommand;
const Command kExecCommand{
    "exec",
    "Core",
    "run a command in the slot's running sandbox",
    "Runs ARGV, passed as a vector byte for byte, in a sandbox that runs already. stdout and stderr are the "
    "command's own; "
    "stdin is /dev/null without -i. Takes no lease: it goes in beside a running 'run'.",
    kOptions,
    kPositionals,
    true,
    "ascope-sandbox exec -- ls -l\necho data | ascope-sandbox exec -i user/default/alice -- sort",
    "124 125 126 127 128+n",
    run};

}  // namespace ascope
