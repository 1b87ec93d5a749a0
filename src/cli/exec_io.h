// SPDX-License-Identifier: Apache-2.0
// What exec and run share: their options, the terminal, streams and the answer.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <termios.h>

#include "cli/app.h"
#include "cli/signals.h"

namespace ascope {

// Options that exec and run both take; each declares them with these constants.
inline constexpr OptionSpec kInteractiveOption{
    "interactive", 'i', OptionKind::flag, {}, "pass our stdin to the command"};
inline constexpr OptionSpec kTtyOption{
    "tty", 't', OptionKind::flag, {}, "give the command a terminal of its own"};
inline constexpr OptionSpec kEnvOption{"env", 'e', OptionKind::repeated, "NAME[=VALUE]",
                                       "set a variable; NAME alone takes our value (can be repeated)"};
inline constexpr OptionSpec kEnvFileOption{"env-file", '\0', OptionKind::repeated, "FILE",
                                           "set variables from NAME=VALUE lines (can be repeated)"};
inline constexpr OptionSpec kCwdOption{"cwd", 'w', OptionKind::value, "PATH",
                                       "working directory inside (default: the workspace)"};
inline constexpr OptionSpec kAsOption{"as", '\0', OptionKind::value, "USER", "Unix user inside the sandbox"};
inline constexpr OptionSpec kTimeoutOption{"timeout", '\0', OptionKind::value, "DURATION",
                                           "end the command and all it started after this time (124)"};
inline constexpr OptionSpec kTimeoutKillOption{"timeout-kill", '\0', OptionKind::value, "job|sandbox",
                                               "what a timeout ends: the command's own processes, or all"};
inline constexpr OptionSpec kMaxOutputOption{"max-output", '\0', OptionKind::value, "SIZE",
                                             "with -o json: keep this much of each stream (default 1MiB)"};

// The request that the arguments ask for. `usage` for bad values, `not_found` for an env file that is not
// there.
Result<ExecRequest> exec_request(App& app, const Args& args);

// The command's process in the guest went away under it: a failure of ours (125), though the call came to its
// end.
std::optional<Error> unfinished(const SlotKey& slot, const ExecOutcome& outcome);

// Terminal, sinks and signals for one command; restores the terminal when it dies.
class ExecIo {
 public:
  static Result<std::unique_ptr<ExecIo>> make(App& app, const Args& args, ExecRequest& request);
  ~ExecIo();
  ExecIo(const ExecIo&) = delete;
  ExecIo& operator=(const ExecIo&) = delete;

  [[nodiscard]] const ExecStreams& streams() const { return streams_; }
  [[nodiscard]] SignalForwarder& signals() { return *signals_; }
  // Raw mode on while the command runs.
  void set_running(bool running);
  // With -o json prints the one object; else nothing. Returns `failure` if there is one, else the command's
  // exit code.
  Result<int> answer(App& app, const ExecOutcome& outcome, const Receipt& receipt,
                     std::optional<Error> failure);

 private:
  class Capture;
  ExecIo() = default;
  ExecStreams streams_;
  std::optional<SignalForwarder> signals_;
  std::unique_ptr<ByteSink> out_, err_;
  Capture* captured_out_ = nullptr;
  Capture* captured_err_ = nullptr;
  std::string program_;  // what is run, for people
  std::optional<termios> saved_terminal_;
  bool raw_ = false;
};

}  // namespace ascope
