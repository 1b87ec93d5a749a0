// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "cli/exec_io.h"
#include "cli/exit_code.h"
#include "cli/receipt_text.h"
#include "cli/start_args.h"

namespace ascope {

namespace {

constexpr OptionSpec kReleaseOption{"release", '\0', OptionKind::value, "keep|stop|destroy",
                                    "what happens to the sandbox after saving (default: the profile's)"};
constexpr OptionSpec kTagOption{"tag", '\0', OptionKind::value, "TAG",
                                "name for the snapshot that the call leaves"};
constexpr std::array kOptions{kInteractiveOption,  kTtyOption,       kEnvOption,     kEnvFileOption,
                              kCwdOption,          kAsOption,        kTimeoutOption, kTimeoutKillOption,
                              kMaxOutputOption,    kExpectOption,    kNoColdOption,  kAllowLossOption,
                              kExternalOption,     kFromStateOption, kReleaseOption, kTagOption,
                              kAllowHostRootOption};
constexpr std::array kPositionals{kSlotPositional};

Result<int> run(App& app, const Args& args) {
  ASCOPE_TRY_ASSIGN(const SlotKey slot, app.slot(args));
  RunOptions options;
  ASCOPE_TRY_ASSIGN(options.start, start_options(app, args));
  ASCOPE_TRY_ASSIGN(options.request, exec_request(app, args));
  options.release = args.value("release").value_or("");
  options.tag = args.value("tag").value_or("");
  ASCOPE_TRY_ASSIGN(const auto io, ExecIo::make(app, args, options.request));
  options.send_signal = [&io](int number) { io->signals().send(number); };
  options.on_exec = [&io](bool running) { io->set_running(running); };
  ASCOPE_TRY_ASSIGN(Receipt receipt, app.begin("run", slot));
  ASCOPE_TRY_ASSIGN(EngineServices * services, app.services());
  auto outcome = run_in_slot(*services, app.ctx(), slot, options, io->streams(), receipt);
  io->set_running(false);
  receipt.exit_code = outcome ? outcome->exit_code() : kExitOurFailure;
  auto failure = outcome ? unfinished(slot, *outcome) : std::optional<Error>(outcome.error());
  app.record(slot, receipt, failure ? &*failure : nullptr);
  for (const auto& warning : receipt.warnings) {
    app.out().warn(warning);
  }
  if (app.out().verbose) {
    app.out().status(receipt_line(receipt));
  }
  return outcome ? io->answer(app, *outcome, receipt, failure) : Result<int>(std::move(*failure));
}

}  // namespace

extern const Command kRunCommand;
const Command kRunCommand{"run",
                          "Core",
                          "run a command in the slot's sandbox: start, exec, save, release",
                          "Takes the slot's lease, starts its sandbox by the cheapest branch, projects, runs "
                          "ARGV, saves the workspace, commits "
                          "the state and releases. The exit code is the command's own.\n\nThe workspace is "
                          "saved whatever the command's code "
                          "is, also after a timeout or a signal, which the command gets first. A save that "
                          "fails is 125 and keeps the sandbox.",
                          kOptions,
                          kPositionals,
                          true,
                          "ascope-sandbox run -- sh -c 'date > f; cat f'",
                          "124 125 126 127 128+n",
                          run};

}  // namespace ascope
