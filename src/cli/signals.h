// SPDX-License-Identifier: Apache-2.0
// Who a signal is for: ours (the operation ends at its next check), or the command's that we run.
#pragma once

#include "core/backend.h"
#include "core/base/error.h"
#include "core/base/fd.h"

namespace ascope {

// INT, TERM and HUP set core's interrupt flag; a second one ends us at once. SIGPIPE is ignored. Called once,
// by main.
void install_signal_handlers();

// While it lives and is active, INT, TERM, HUP, QUIT, USR1, USR2 and WINCH go to a command as ExecEvents on
// read_fd(); a second INT ends us at once. One at a time.
class SignalForwarder {
 public:
  static Result<SignalForwarder> make();
  SignalForwarder(SignalForwarder&&) noexcept = default;
  SignalForwarder& operator=(SignalForwarder&&) noexcept = default;
  ~SignalForwarder();

  [[nodiscard]] int read_fd() const { return pipe_.read_end.get(); }
  void set_active(bool active);
  // From any thread.
  void send(int signal_number);

 private:
  explicit SignalForwarder(Pipe pipe) : pipe_(std::move(pipe)) {}
  Pipe pipe_;
};

}  // namespace ascope
